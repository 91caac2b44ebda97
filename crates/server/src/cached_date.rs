//! The wall clock, read at most a hundred times per second, and the value of Date, formatted once per second.

use breme_base::{Instant, UnixMillis, UnixSeconds, WallClock};
use breme_http::http_date;

/// Interval at which the wall clock is read, and so the maximum error of Date.
const READ_INTERVAL_NS: u64 = 10_000_000;

/// The current time, and its second as an HTTP date (RFC 9110, 5.6.7).
#[derive(Debug)]
pub struct CachedDate {
    clock: WallClock,
    read_at: Option<Instant>,
    reading: UnixMillis,
    second: UnixSeconds,
    text: [u8; 29],
}

impl CachedDate {
    pub fn new(clock: WallClock) -> Self {
        Self { clock, read_at: None, reading: UnixMillis(0), second: UnixSeconds(0), text: http_date(0) }
    }

    /// Reads the wall clock again if the last reading is too old.
    #[inline]
    pub fn at(&mut self, now: Instant) -> &Self {
        if self.read_at.is_none_or(|read_at| now.nanos_since(read_at) >= READ_INTERVAL_NS) {
            self.read(now);
        }
        self
    }

    /// The second of the last reading.
    pub const fn second(&self) -> UnixSeconds {
        self.second
    }

    /// The value of Date at the last reading.
    pub const fn text(&self) -> &[u8; 29] {
        &self.text
    }

    /// The wall-clock time at `now`: the last reading, and what the monotonic clock has measured since.
    pub fn millis(&mut self, now: Instant) -> UnixMillis {
        let since_ns = self.at(now).read_at.map_or(0, |read_at| now.nanos_since(read_at));
        UnixMillis(self.reading.0 + since_ns / 1_000_000)
    }

    #[cold]
    fn read(&mut self, now: Instant) {
        self.read_at = Some(now);
        self.reading = self.clock.millis_at(now);
        let second = self.reading.second();
        if second != self.second {
            self.second = second;
            self.text = http_date(second.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_follows_the_clock() {
        let mut date = CachedDate::new(WallClock::starting_at(UnixSeconds(784_111_776)));
        assert_eq!(date.at(Instant::from_nanos(999_999_999)).text(), b"Sun, 06 Nov 1994 08:49:36 GMT");
        assert_eq!(date.at(Instant::from_nanos(1_009_999_999)).text(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.at(Instant::from_nanos(1_010_000_000)).second(), UnixSeconds(784_111_777));
    }

    #[test]
    fn milliseconds_advance_between_readings() {
        let mut date = CachedDate::new(WallClock::starting_at(UnixSeconds(7)));
        let millis = [0, 999_999, 1_000_000, 9_999_999, 10_000_000, 995_500_000, 1_004_400_000]
            .map(|nanos| date.millis(Instant::from_nanos(nanos)).0);
        assert_eq!(millis, [7_000, 7_000, 7_001, 7_009, 7_010, 7_995, 8_003]);
    }
}
