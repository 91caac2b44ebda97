//! How fast a request's content must arrive.

use std::time::Duration;

use breme_base::Instant;
use breme_http::{Limits, RefusalReason};

/// How much of a request's content has arrived, and when.
#[derive(Clone, Copy, Debug)]
pub struct ContentProgress {
    /// Its start, without the time for which reading was paused.
    pub began: Instant,
    /// When the last byte arrived.
    pub last: Instant,
    pub bytes: u64,
}

impl ContentProgress {
    pub const fn new(now: Instant) -> Self {
        Self { began: now, last: now, bytes: 0 }
    }

    /// Counts bytes that arrived at `now`.
    pub fn add(&mut self, now: Instant, bytes: usize) {
        self.last = now;
        self.bytes += bytes as u64;
    }

    /// When the content is too slow if nothing more arrives: after [`Limits::body_timeout`] without a byte, or below
    /// [`Limits::receive_rate_min`] over the whole.
    pub fn deadline(&self, limits: &Limits) -> Instant {
        let silence = self.last + limits.body_timeout;
        if limits.receive_rate_min == 0 {
            return silence;
        }
        let nanos = u128::from(self.bytes) * 1_000_000_000 / u128::from(limits.receive_rate_min);
        let paid_for = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        silence.min(self.began + paid_for.max(limits.body_timeout))
    }

    /// The refusal when the deadline has passed.
    pub fn late_reason(&self, now: Instant, limits: &Limits) -> RefusalReason {
        if now >= self.last + limits.body_timeout {
            RefusalReason::ContentTimeout
        } else {
            RefusalReason::ReceiveTooSlow
        }
    }

    /// Excludes the time since the last byte, in which the server did not read.
    pub fn exclude_pause(&mut self, now: Instant) {
        self.began = self.began + now.since(self.last);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn content_has_timeout_and_minimum_rate() {
        let limits = Limits { body_timeout: Duration::from_secs(20), receive_rate_min: 250, ..Limits::default() };
        let mut content = ContentProgress::new(at(0));
        assert_eq!(content.deadline(&limits), at(20));
        content.add(at(19), 19);
        assert_eq!(content.deadline(&limits), at(20));
        assert_eq!(content.late_reason(at(20), &limits), RefusalReason::ReceiveTooSlow);
        content.bytes = 250 * 30;
        assert_eq!(content.deadline(&limits), at(30));
        content.bytes = 250 * 300;
        assert_eq!(content.deadline(&limits), at(39));
        assert_eq!(content.late_reason(at(39), &limits), RefusalReason::ContentTimeout);
        content.exclude_pause(at(119));
        assert_eq!((content.began, content.deadline(&limits)), (at(100), at(139)));
    }

    #[test]
    fn any_rate_leaves_the_timeout() {
        let limits = Limits { body_timeout: Duration::from_secs(20), receive_rate_min: 0, ..Limits::default() };
        let content = ContentProgress { began: at(0), last: at(1_000), bytes: 1 };
        assert_eq!(content.deadline(&limits), at(1_020));
    }
}
