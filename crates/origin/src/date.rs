//! The Date header, formatted once per second.

use breme_base::{Instant, UnixSeconds, WallClock};
use breme_http::http_date;

/// Reading interval of the wall clock: the greatest error of Date.
const READ_EVERY_NS: u64 = 10_000_000;

/// The current second, as a number and formatted.
#[derive(Debug)]
pub(crate) struct DateLine {
    clock: WallClock,
    read_at: Instant,
    second: UnixSeconds,
    text: [u8; 29],
}

impl DateLine {
    pub(crate) fn new(clock: WallClock) -> Self {
        let second = clock.at(Instant::ZERO);
        Self { clock, read_at: Instant::ZERO, second, text: http_date(second.0) }
    }

    /// To be called on each event.
    pub(crate) fn advance(&mut self, now: Instant) {
        if now.nanos_since(self.read_at) >= READ_EVERY_NS {
            self.read_at = now;
            let second = self.clock.at(now);
            if second != self.second {
                self.second = second;
                self.text = http_date(second.0);
            }
        }
    }

    pub(crate) const fn second(&self) -> UnixSeconds {
        self.second
    }

    pub(crate) const fn text(&self) -> &[u8; 29] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_follows_the_clock() {
        let mut date = DateLine::new(WallClock::starting_at(UnixSeconds(784_111_776)));
        date.advance(Instant::from_nanos(999_999_999));
        assert_eq!(date.text(), b"Sun, 06 Nov 1994 08:49:36 GMT");
        date.advance(Instant::from_nanos(1_009_999_999));
        assert_eq!(date.text(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.second(), UnixSeconds(784_111_777));
    }
}
