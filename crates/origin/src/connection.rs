//! What the origin keeps for each connection.

use std::time::Duration;

use breme_base::Instant;
use breme_http::{FieldBlock, Limits, Version};
use breme_server::{ContentProgress, ServerShard};

use crate::held_content::HeldContent;
use crate::response::Response;

pub(crate) type Connection = breme_server::Connection<ClientState>;

#[derive(Debug)]
pub(crate) struct ClientState {
    /// The connection uses TLS.
    pub(crate) is_secured: bool,
    /// Of the current or last request; None before the first head.
    pub(crate) version: Option<Version>,
    /// A part of the next request had arrived when the previous response was complete.
    pub(crate) has_pipelined: bool,
    pub(crate) stage: RequestStage,
}

/// The stage of a request whose response is not complete when a call returns.
///
/// ```text
///   head ──► (Content) ──► (Delay) ──► (Pattern) ──► None
/// ```
#[derive(Debug)]
pub(crate) enum RequestStage {
    /// No request is in progress.
    None,
    /// The rest of the request's content is to arrive.
    Content(Box<RequestContent>),
    /// This response waits for its time.
    Delay(Box<Response>),
    /// The rest of the response waits until the send queue is empty.
    Pattern { sent: u64, length: u64 },
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

/// A response with the content of its request.
#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) lines: FieldBlock,
    /// As announced; None for chunked coding.
    pub(crate) length: Option<u64>,
    /// Received before the response began.
    pub(crate) held: HeldContent,
    pub(crate) has_begun: bool,
}

impl ClientState {
    pub(crate) fn new(is_secured: bool) -> Self {
        Self { is_secured, version: None, has_pipelined: false, stage: RequestStage::None }
    }

    /// Whether further requests must wait for the response in progress.
    pub(crate) const fn is_blocked(&self) -> bool {
        matches!(self.stage, RequestStage::Delay(_) | RequestStage::Pattern { .. })
    }
}

impl RequestContent {
    pub(crate) fn new(content_plan: ContentPlan, now: Instant) -> Self {
        Self { content_plan, progress: ContentProgress::new(now) }
    }
}

/// Sets the deadline of content that is arriving.
pub(crate) fn wait_for_content(server: &mut ServerShard, connection: &Connection, limits: &Limits) {
    if let RequestStage::Content(content) = &connection.state.stage {
        let ContentProgress { began, last, bytes } = content.progress;
        let under_pressure = server.pressure.transfer_deadline(began, bytes, last);
        server.set_client_deadline(connection, content.progress.deadline(limits).min(under_pressure));
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
