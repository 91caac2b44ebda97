//! The Date field, written once for each second and not for each answer.

use breme_base::{Instant, UnixSeconds, WallClock};
use breme_http1::http_date;

/// How long the calendar is not asked again: how late the Date field may be at most.
const ASKED_EVERY_NS: u64 = 10_000_000;

/// The current second, as a number and as HTTP writes it.
#[derive(Debug)]
pub(crate) struct DateLine {
    clock: WallClock,
    asked: Option<Instant>,
    second: UnixSeconds,
    text: [u8; 29],
}

impl DateLine {
    pub(crate) fn new(clock: WallClock) -> Self {
        Self { clock, asked: None, second: UnixSeconds(0), text: http_date(0) }
    }

    pub(crate) fn second(&mut self, now: Instant) -> UnixSeconds {
        self.advance(now);
        self.second
    }

    pub(crate) fn text(&mut self, now: Instant) -> &[u8; 29] {
        self.advance(now);
        &self.text
    }

    fn advance(&mut self, now: Instant) {
        if self.asked.is_some_and(|asked| now.nanos_since(asked) < ASKED_EVERY_NS) {
            return;
        }
        self.asked = Some(now);
        let second = self.clock.at(now);
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
    fn the_date_follows_the_clock() {
        let mut date = DateLine::new(WallClock::starting_at(UnixSeconds(784_111_776)));
        assert_eq!(date.text(Instant::from_nanos(999_999_999)), b"Sun, 06 Nov 1994 08:49:36 GMT");
        assert_eq!(date.text(Instant::from_nanos(1_009_999_999)), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.second(Instant::from_nanos(1_010_000_000)), UnixSeconds(784_111_777));
    }
}
