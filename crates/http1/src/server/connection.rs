//! The state of a server connection.

use std::sync::Arc;

use breme_http::ResponseFields;

use crate::content::ContentDecoder;
use crate::head::HeadScan;
use crate::last_chunk::LastChunk;

/// Reads requests and writes responses of one connection, one exchange after another.
///
/// ```text
///   receive ─► Head ─► (Content)* ─► End ─► respond … ─► receive the next
/// ```
///
/// Responses keep the order of the requests: the next head is not parsed before this response is complete (`receive`
/// returns [`Progress::Blocked`](super::Progress::Blocked) and consumes nothing). A response may begin before the
/// request's content has arrived. Content is reported until the response is complete; the rest is drained, or the
/// connection is closed.
#[derive(Debug, Default)]
pub struct ServerConnection {
    // Small, since there is one per idle connection. A test limits it to 72 bytes.
    pub(super) content: ContentDecoder,
    /// Bytes of this request's content; while draining, bytes drained.
    pub(super) content_bytes: u64,
    pub(super) request_count: u64,
    pub(super) scan: HeadScan,
    pub(super) request_state: RequestState,
    pub(super) response_state: ResponseState,
    pub(super) request: RequestProperties,
    pub(super) empty_lines: u8,
    /// Close the connection after this response.
    pub(super) close: bool,
    /// From the limits, for `respond`.
    pub(super) http10_only: bool,
    /// Written in every final response.
    pub(super) response_fields: Option<Arc<ResponseFields>>,
}

/// Progress of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestState {
    #[default]
    Head,
    Content,
    /// The request is complete, its response is not.
    Complete,
    /// The response is complete, the request is not.
    Draining,
    /// A refusal may still be sent.
    Refused,
    Over,
}

/// Progress of the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ResponseState {
    /// No request waits for a response.
    #[default]
    Nothing,
    /// A request waits; the response has not begun.
    Due,
    /// The head has begun; no content follows.
    Omitted,
    Length,
    Chunked,
    UntilClose,
}

/// Properties of the request that its response depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestProperties {
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    /// Chunked coding cannot be sent, and persistence must be announced.
    pub(super) is_http10: bool,
    /// The client waits for 100 (Continue), none was sent, and no content has arrived.
    pub(super) continue_due: bool,
    /// Too much content is outstanding to drain it.
    pub(super) rest_is_long: bool,
    /// The end of a chunked response.
    pub(super) last_chunk: LastChunk,
}

impl ServerConnection {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A connection whose final responses all have these fields, in place of those of the same name that are added to
    /// a [`ResponseWriter`](super::ResponseWriter).
    #[must_use]
    pub fn with_response_fields(response_fields: Option<Arc<ResponseFields>>) -> Self {
        Self { response_fields, ..Self::default() }
    }
}

/// State that a role reads to set its deadlines.
impl ServerConnection {
    /// No exchange is in progress: no byte of a head was received and every response is complete.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.response_state == ResponseState::Nothing
            && self.scan.is_fresh()
            && matches!(self.request_state, RequestState::Head | RequestState::Over)
    }

    /// A head was received in part.
    #[must_use]
    pub fn in_head(&self) -> bool {
        self.request_state == RequestState::Head && !self.scan.is_fresh()
    }

    /// Content is outstanding, wanted or to be drained.
    #[must_use]
    pub fn awaiting_content(&self) -> bool {
        matches!(self.request_state, RequestState::Content | RequestState::Draining)
    }

    /// A request was received and its response is not complete.
    #[must_use]
    pub fn has_response_due(&self) -> bool {
        self.response_state != ResponseState::Nothing
    }

    /// Whether the client can detect that the current response is truncated if the connection closes now (RFC 9112, 8):
    /// it has a length or is chunked. A close-delimited response can only be aborted with a reset.
    #[must_use]
    pub fn is_response_end_detectable(&self) -> bool {
        matches!(self.response_state, ResponseState::Length | ResponseState::Chunked)
    }

    /// The connection closes when the current response is complete (at once if there is none).
    #[must_use]
    pub fn will_close(&self) -> bool {
        self.close || self.request_state == RequestState::Over
    }

    /// Requests accepted on this connection.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.request_count
    }
}
