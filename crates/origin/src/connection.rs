//! The state of a connection between events, and its timeouts.
//!
//! ```text
//!             ┌──────────────────────── response complete ─────────────────────────┐
//!             ▼                                                                    │
//!    ──► Idle ──► Head ──► (Content) ──► response ──► (Delay) ──► (Pattern) ───────┤
//!                                           └──► Drained, if content is left ──────┘
//! ```

use breme_base::Instant;
use breme_http::{FieldBlock, Limits, RefusalReason, Version};
use breme_http1::ServerConnection;
use breme_node::{ConnectionId, Pressure};
use std::time::Duration;

use crate::response::Response;

/// Small, since a server holds ten thousand idle ones.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) accepted: Instant,
    pub(crate) http: ServerConnection,
    pub(crate) state: ConnectionState,
    /// Encrypted.
    pub(crate) is_secured: bool,
    pub(crate) is_open: bool,
    /// The driver's send queue is long: the client reads slowly.
    pub(crate) queue_is_long: bool,
    /// Of the current or last request; None before the first head.
    pub(crate) version: Option<Version>,
    /// A part of the next request had arrived when the previous response was complete.
    pub(crate) has_pipelined: bool,
    /// Some received bytes were not consumed.
    pub(crate) has_pending: bool,
    /// The peer has closed its side.
    pub(crate) ended: bool,
    /// It was evicted under pressure, and counted.
    pub(crate) is_evicted: bool,
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) enum ConnectionState {
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of content that is being drained.
    Drained,
    /// The rest of content.
    Content(Box<RequestContent>),
    /// Waits for the time of this response.
    Delay(Box<Response>),
    /// Waits for space in the send queue.
    Pattern {
        sent: u64,
        length: u64,
    },
}

/// A request whose content is arriving.
#[derive(Debug)]
pub(crate) struct RequestContent {
    pub(crate) content_plan: ContentPlan,
    /// Its start, without the time for which reading was paused.
    pub(crate) began: Instant,
    /// When the last byte arrived.
    pub(crate) last: Instant,
    pub(crate) bytes: u64,
}

/// What to do with the content.
#[derive(Debug)]
pub(crate) enum ContentPlan {
    /// Discard it, then send this response after a delay.
    Hold(Response, Duration),
    Echo(Echo),
}

#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) lines: FieldBlock,
    /// As announced; None for chunked coding.
    pub(crate) length: Option<u64>,
    /// Received before the response began.
    pub(crate) held: Vec<u8>,
    pub(crate) has_begun: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, accepted: Instant, is_secured: bool) -> Self {
        Self {
            id,
            accepted,
            http: ServerConnection::new(),
            state: ConnectionState::Idle,
            is_secured,
            is_open: true,
            queue_is_long: false,
            version: None,
            has_pipelined: false,
            has_pending: false,
            ended: false,
            is_evicted: false,
        }
    }

    /// Whether further requests must wait for the response in progress.
    pub(crate) const fn is_blocked(&self) -> bool {
        matches!(self.state, ConnectionState::Delay(_) | ConnectionState::Pattern { .. })
    }
}

impl RequestContent {
    pub(crate) fn new(content_plan: ContentPlan, now: Instant) -> Self {
        Self { content_plan, began: now, last: now, bytes: 0 }
    }

    /// As [`deadline`](Self::deadline), also under connection pressure.
    pub(crate) fn deadline_under_pressure(&self, pressure: &Pressure, limits: &Limits) -> Instant {
        self.deadline(limits).min(pressure.transfer_deadline(self.began, self.bytes, self.last))
    }

    /// When the content is too slow, if nothing more arrives.
    fn deadline(&self, limits: &Limits) -> Instant {
        let silence = self.last + limits.body_timeout;
        if limits.receive_rate_min == 0 {
            return silence;
        }
        let nanos = u128::from(self.bytes) * 1_000_000_000 / u128::from(limits.receive_rate_min);
        let paid_for = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        silence.min(self.began + paid_for.max(limits.body_timeout))
    }

    /// The refusal when the deadline has passed.
    pub(crate) fn late_reason(&self, now: Instant, limits: &Limits) -> RefusalReason {
        if now >= self.last + limits.body_timeout {
            RefusalReason::ContentTimeout
        } else {
            RefusalReason::ReceiveTooSlow
        }
    }

    /// Excludes the time since the last byte: the server's own queue was long.
    pub(crate) fn exclude_pause(&mut self, now: Instant) {
        let paused = now.since(self.last);
        self.began = self.began + paused;
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_stays_small() {
        assert!(size_of::<Connection>() <= 160, "{}", size_of::<Connection>());
    }

    #[test]
    fn content_has_timeout_and_minimum_rate() {
        let limits = Limits { body_timeout: Duration::from_secs(20), receive_rate_min: 250, ..Limits::default() };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut content = RequestContent::new(ContentPlan::Hold(Response::error(404), Duration::ZERO), at(0));
        assert_eq!(content.deadline(&limits), at(20));
        content.last = at(19);
        content.bytes = 19;
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
}
