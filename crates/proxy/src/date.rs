//! The wall clock, read at most a hundred times per second, and the Date header, formatted once per second.

use breme_base::{Instant, UnixMillis, UnixSeconds, WallClock};
use breme_http::http_date;

/// Reading interval of the wall clock: the greatest error of Date.
const READ_EVERY_NS: u64 = 10_000_000;

/// The current time, and its second as HTTP formats it.
#[derive(Debug)]
pub(crate) struct DateLine {
    clock: WallClock,
    read_at: Option<Instant>,
    /// The last reading.
    said: UnixMillis,
    second: UnixSeconds,
    text: [u8; 29],
}

impl DateLine {
    pub(crate) fn new(clock: WallClock) -> Self {
        Self { clock, read_at: None, said: UnixMillis(0), second: UnixSeconds(0), text: http_date(0) }
    }

    pub(crate) fn second(&mut self, now: Instant) -> UnixSeconds {
        self.advance(now);
        self.second
    }

    /// Between readings, the monotonic clock advances the last one.
    pub(crate) fn millis(&mut self, now: Instant) -> UnixMillis {
        self.advance(now);
        let since_ns = self.read_at.map_or(0, |read_at| now.nanos_since(read_at));
        UnixMillis(self.said.0 + since_ns / 1_000_000)
    }

    pub(crate) fn text(&mut self, now: Instant) -> &[u8; 29] {
        self.advance(now);
        &self.text
    }

    fn advance(&mut self, now: Instant) {
        if self.read_at.is_some_and(|read_at| now.nanos_since(read_at) < READ_EVERY_NS) {
            return;
        }
        self.read_at = Some(now);
        self.said = self.clock.millis_at(now);
        let second = self.said.second();
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
        let mut date = DateLine::new(WallClock::starting_at(UnixSeconds(784_111_776)));
        assert_eq!(date.text(Instant::from_nanos(999_999_999)), b"Sun, 06 Nov 1994 08:49:36 GMT");
        assert_eq!(date.text(Instant::from_nanos(1_009_999_999)), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.second(Instant::from_nanos(1_010_000_000)), UnixSeconds(784_111_777));
    }

    #[test]
    fn milliseconds_advance_between_readings() {
        let mut date = DateLine::new(WallClock::starting_at(UnixSeconds(7)));
        let millis = [0, 999_999, 1_000_000, 9_999_999, 10_000_000, 995_500_000, 1_004_400_000]
            .map(|nanos| date.millis(Instant::from_nanos(nanos)).0);
        assert_eq!(millis, [7_000, 7_000, 7_001, 7_009, 7_010, 7_995, 8_003]);
    }
}
