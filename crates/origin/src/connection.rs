//! The state of a connection between events, and its timeouts.
//!
//! ```text
//!             ┌──────────────────────── response complete ─────────────────────────┐
//!             ▼                                                                    │
//!    ──► Idle ──► Head ──► (Content) ──► response ──► (Delay) ──► (Pattern) ───────┤
//!                                           └──► Drained, if content is left ──────┘
//! ```

use breme_base::Instant;
use breme_http::{FieldBlock, Limits, Version};
use breme_http1::ServerConnection;
use breme_node::{ConnectionId, Pressure};
use breme_server::ContentProgress;
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
    pub(crate) progress: ContentProgress,
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
        Self { content_plan, progress: ContentProgress::new(now) }
    }

    /// When the content is too slow, if nothing more arrives.
    pub(crate) fn deadline(&self, pressure: &Pressure, limits: &Limits) -> Instant {
        let ContentProgress { began, last, bytes } = self.progress;
        self.progress.deadline(limits).min(pressure.transfer_deadline(began, bytes, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_stays_small() {
        assert!(size_of::<Connection>() <= 160, "{}", size_of::<Connection>());
    }
}
