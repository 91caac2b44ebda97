//! Where a connection stands, and what a role may ask of that.

use crate::content::ContentDecoder;
use crate::head::HeadScan;
use crate::trailers::LastChunk;

/// Reads requests and writes responses of one connection, one exchange after another.
///
/// ```text
///   receive ─► Head ─► (Content)* ─► End ─► respond … ─► receive the next
/// ```
///
/// Answers leave in the order of the requests because the next head is not read before the answer to this one is
/// complete (`receive` says [`Progress::Blocked`](super::Progress::Blocked) and takes nothing). An answer may begin
/// before the request's content has come. Content goes on to be reported until the answer is complete; what is left of
/// it then is read into nothing, or the connection is closed.
#[derive(Debug, Default)]
pub struct ServerConnection {
    // Small: it exists once for each idle connection. A test holds it to 64 bytes.
    pub(super) content: ContentDecoder,
    /// Bytes of this request's content; while draining, bytes that were drained.
    pub(super) content_bytes: u64,
    pub(super) request_count: u64,
    pub(super) scan: HeadScan,
    pub(super) receiving: Receiving,
    pub(super) answering: Answering,
    pub(super) exchange: Exchange,
    pub(super) empty_lines: u8,
    /// The connection ends after this answer.
    pub(super) close: bool,
    /// As the limits say; kept for `respond`.
    pub(super) http10_only: bool,
}

/// Where in a request the connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Receiving {
    #[default]
    Head,
    Content,
    /// The request is complete, its answer is not.
    Complete,
    /// The answer is complete, the request is not.
    Draining,
    /// A refusal may still be answered.
    Refused,
    Over,
}

/// Where in a response the connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Answering {
    /// No request waits for an answer.
    #[default]
    Nothing,
    /// A request waits, no answer was begun.
    Due,
    /// Begun: the rest of its head, and no content.
    Omitted,
    Length,
    Chunked,
    UntilClose,
}

/// What the answer must know about its request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchange {
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    /// Chunked coding cannot be sent, and staying must be said.
    pub(super) is_http10: bool,
    /// The client waits for 100 (Continue), which was not sent, and no content has come.
    pub(super) continue_due: bool,
    /// So much of the content is still to come that it will not be drained.
    pub(super) rest_is_long: bool,
    /// The end of the answer, if that is chunked.
    pub(super) last_chunk: LastChunk,
}

impl ServerConnection {
    /// A connection on which nothing has happened yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What a role asks when it sets its deadlines.
impl ServerConnection {
    /// No request is under way: nothing of a head was seen and every answer is complete.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.answering == Answering::Nothing
            && self.scan.is_fresh()
            && matches!(self.receiving, Receiving::Head | Receiving::Over)
    }

    /// A part of a head was seen, and not its end.
    #[must_use]
    pub fn in_head(&self) -> bool {
        self.receiving == Receiving::Head && !self.scan.is_fresh()
    }

    /// Content is still to come, be it wanted or drained.
    #[must_use]
    pub fn awaiting_content(&self) -> bool {
        matches!(self.receiving, Receiving::Content | Receiving::Draining)
    }

    /// A request's head was received and its answer is not complete.
    #[must_use]
    pub fn has_answer_due(&self) -> bool {
        self.answering != Answering::Nothing
    }

    /// Whether the client sees that the answer under way is cut short if the connection ends now (RFC 9112, 8): its
    /// length or its last chunk is missing. Of an answer that lasts until the connection ends, only a reset can tell.
    #[must_use]
    pub fn answer_tells_its_end(&self) -> bool {
        matches!(self.answering, Answering::Length | Answering::Chunked)
    }

    /// The connection ends when the answer that is due is complete (at once, if none is).
    #[must_use]
    pub fn will_close(&self) -> bool {
        self.close || self.receiving == Receiving::Over
    }

    /// Content of this request that came so far, without its framing; after the answer, what was drained.
    #[must_use]
    pub fn content_received(&self) -> u64 {
        self.content_bytes
    }

    /// Requests whose heads were accepted on this connection.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.request_count
    }
}
