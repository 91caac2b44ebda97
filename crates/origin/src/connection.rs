//! One connection's state between two events, and how long each state may last.
//!
//! ```text
//!            ┌───────────────────────────── answered ─────────────────────────────┐
//!            ▼                                                                    │
//!   ──► Idle ──► Head ──► (Content) ──► answer ──► (Delay) ──► (Pattern) ─────────┤
//!                                          └──► Drained, if content is left ──────┘
//! ```

use breme_base::Instant;
use breme_http1::{FieldBlock, Limits, RefusalReason, ServerConnection, Version};
use breme_node::{ConnectionId, Pressure};
use std::time::Duration;

use crate::answer::Answer;

/// Small: a server holds ten thousand that do nothing.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) accepted: Instant,
    pub(crate) http: ServerConnection,
    pub(crate) waiting: Waiting,
    /// Nobody can read it on the way.
    pub(crate) is_secured: bool,
    /// Between accepted and closed.
    pub(crate) is_open: bool,
    /// The driver's queue is long: the peer does not read as fast as we write.
    pub(crate) queue_is_long: bool,
    /// Of the request that came last, or comes; none until its head has come.
    pub(crate) version: Option<Version>,
    /// A part of the next request had come when the answer before it was complete.
    pub(crate) is_next_here: bool,
    /// There are bytes that were lent but not taken.
    pub(crate) has_pending: bool,
    /// The peer has ended its sending.
    pub(crate) ended: bool,
    /// It was told to close since others wait, and counted.
    pub(crate) is_evicted: bool,
}

/// What the connection waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a content that nobody wants any more.
    Drained,
    /// The rest of a content.
    Content(Box<ContentExchange>),
    /// The time to give this answer.
    Delay(Box<Answer>),
    /// Room for the rest of a pattern.
    Pattern { sent: u64, length: u64 },
}

/// A request whose content is on its way.
#[derive(Debug)]
pub(crate) struct ContentExchange {
    pub(crate) plan: Plan,
    /// When the content began, later by the time for which we did not read.
    pub(crate) began: Instant,
    /// When the last of it came.
    pub(crate) last: Instant,
    pub(crate) bytes: u64,
}

/// What to do with the content.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Nothing; then give this answer, after a while.
    Hold(Answer, Duration),
    /// Send it back.
    Echo(Echo),
}

#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) lines: FieldBlock,
    /// As announced; none if it comes chunked.
    pub(crate) length: Option<u64>,
    /// What has come while the answer was not begun.
    pub(crate) held: Vec<u8>,
    pub(crate) has_begun: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, accepted: Instant, is_secured: bool) -> Self {
        Self {
            id,
            accepted,
            http: ServerConnection::new(),
            waiting: Waiting::Idle,
            is_secured,
            is_open: true,
            queue_is_long: false,
            version: None,
            is_next_here: false,
            has_pending: false,
            ended: false,
            is_evicted: false,
        }
    }

    /// An answer is on its way: requests behind it must wait.
    pub(crate) const fn is_blocked(&self) -> bool {
        matches!(self.waiting, Waiting::Delay(_) | Waiting::Pattern { .. })
    }
}

impl ContentExchange {
    pub(crate) fn new(plan: Plan, now: Instant) -> Self {
        Self { plan, began: now, last: now, bytes: 0 }
    }

    /// The same as [`deadline`](Self::deadline), also where others wait for the client's place.
    pub(crate) fn deadline_in(&self, pressure: &Pressure, limits: &Limits) -> Instant {
        self.deadline(limits).min(pressure.transfer_deadline(self.began, self.bytes, self.last))
    }

    /// When the content will have come too slowly, if nothing more comes.
    fn deadline(&self, limits: &Limits) -> Instant {
        let silence = self.last + limits.body_timeout;
        if limits.receive_rate_min == 0 {
            return silence;
        }
        let nanos = u128::from(self.bytes) * 1_000_000_000 / u128::from(limits.receive_rate_min);
        let paid_for = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        silence.min(self.began + paid_for.max(limits.body_timeout))
    }

    /// What to tell the client when the deadline has passed.
    pub(crate) fn lateness(&self, now: Instant, limits: &Limits) -> RefusalReason {
        if now >= self.last + limits.body_timeout {
            RefusalReason::ContentTimeout
        } else {
            RefusalReason::ReceiveTooSlow
        }
    }

    /// The time since `paused` does not count: it was our queue that was long.
    pub(crate) fn forgive(&mut self, now: Instant) {
        let paused = now.since(self.last);
        self.began = self.began + paused;
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection>() <= 160, "{}", size_of::<Connection>());
    }

    #[test]
    fn content_must_come_and_come_fast_enough() {
        let limits = Limits { body_timeout: Duration::from_secs(20), receive_rate_min: 250, ..Limits::default() };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut content = ContentExchange::new(Plan::Hold(Answer::error(404), Duration::ZERO), at(0));
        assert_eq!(content.deadline(&limits), at(20));
        content.last = at(19);
        content.bytes = 19;
        assert_eq!(content.deadline(&limits), at(20));
        assert_eq!(content.lateness(at(20), &limits), RefusalReason::ReceiveTooSlow);
        content.bytes = 250 * 30;
        assert_eq!(content.deadline(&limits), at(30));
        content.bytes = 250 * 300;
        assert_eq!(content.deadline(&limits), at(39));
        assert_eq!(content.lateness(at(39), &limits), RefusalReason::ContentTimeout);
        content.forgive(at(119));
        assert_eq!((content.began, content.deadline(&limits)), (at(100), at(139)));
    }
}
