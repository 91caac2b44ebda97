//! The client side of a connection.

use breme_http::{Field, Fields, Limits, Method, RefusalReason, ResponseHead};

use crate::content::{ContentDecoder, ContentStep};
use crate::head::{FieldStorage, HeadScan, Section, field_count_max, lines_are_strict, split_fields, within};
use crate::request_line::LineVersion;
use crate::semantics;
use crate::status_line::StatusLine;

/// Reads the responses of one connection, in the order of the requests sent on it.
///
/// ```text
///   sent ─► (Interim)* ─► Head ─► (Content)* ─► End ─► the next response
/// ```
///
/// Applies the [`Limits`] of heads, fields and chunk lines; the caller limits the content.
#[derive(Debug, Default)]
pub struct ClientConnection {
    // Small, since a generator holds thousands. A test limits it to 64 bytes.
    content: ContentDecoder,
    scan: HeadScan,
    outstanding: OutstandingRequests,
    state: ResponseState,
    /// Interim responses received before the current final one.
    interim_count: u8,
    /// The connection stays open after the current response.
    keep_alive: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ResponseState {
    #[default]
    Head,
    Content,
    Over,
}

/// The requests without responses. Only HEAD and CONNECT affect the framing of a response, so one bit per request marks
/// HEAD.
#[derive(Debug, Default)]
struct OutstandingRequests {
    count: u32,
    /// Bit `i % 64` of word `i / 64`: the request whose response comes after `i` others is HEAD.
    heads: [u64; 2],
    /// The last one is CONNECT.
    connect_is_last: bool,
    /// The last one requests an upgrade.
    upgrade_is_last: bool,
}

/// The next item of the input.
#[derive(Debug)]
pub enum ClientProgress<'a, 'f> {
    /// The next item is incomplete.
    NeedMore {
        /// Bytes consumed.
        taken: usize,
    },
    /// An interim response (1xx other than 101).
    Interim {
        /// 100 to 199.
        status: u16,
        fields: Fields<'a, 'f>,
        taken: usize,
    },
    /// The head of a final response. `Content` may follow, `End` always does.
    Head { head: ResponseHead<'a, 'f>, taken: usize },
    /// 101 to [`sent_with_upgrade`](ClientConnection::sent_with_upgrade): another protocol follows the head, and HTTP
    /// is over on this connection.
    Switched { fields: Fields<'a, 'f>, taken: usize },
    /// A part of the content, without its framing.
    Content {
        /// Never empty.
        bytes: &'a [u8],
        taken: usize,
    },
    /// A field after chunked content (RFC 9110, 6.5). It must not be merged into the head.
    Trailer { field: Field<'a>, taken: usize },
    /// The response is complete.
    End {
        taken: usize,
        /// The connection is persistent.
        keep_alive: bool,
    },
    /// The server closed the connection between responses, or the last response had `Connection: close`.
    Over,
}

/// An invalid response; close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    #[error("the server closed the connection before the response was complete")]
    ClosedEarly,
    /// Bytes without an outstanding request, or a 101 without a requested upgrade.
    #[error("the server sent a response without a request")]
    Unexpected,
    #[error("the head of the response is {}", head_problem(*.0))]
    BadHead(RefusalReason),
    #[error("the length of the response is malformed or ambiguous")]
    BadFraming,
    #[error("{0}")]
    TooLarge(ResponseLimit),
}

/// A limit that a response exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseLimit {
    #[error("the head of the response is larger than {0} bytes")]
    HeadBytes(usize),
    #[error("the response has more than {0} headers or trailers")]
    FieldCount(usize),
    #[error("a chunk line of the response is longer than {0} bytes")]
    ChunkLineBytes(usize),
    #[error("the trailers of the response are larger than {0} bytes")]
    TrailerBytes(usize),
    #[error("there are more than {0} interim responses")]
    InterimCount(u8),
}

impl ClientError {
    /// An error in a head. The grammar is shared with the server side.
    fn in_head(reason: RefusalReason, limits: &Limits) -> Self {
        match ResponseLimit::exceeded(reason, limits) {
            Some(limit) => Self::TooLarge(limit),
            None if reason == RefusalReason::Truncated => Self::ClosedEarly,
            None => Self::BadHead(reason),
        }
    }
}

impl ResponseLimit {
    fn exceeded(reason: RefusalReason, limits: &Limits) -> Option<Self> {
        match reason {
            RefusalReason::TooManyFields => Some(Self::FieldCount(field_count_max(limits))),
            RefusalReason::HeadTooLarge => Some(Self::HeadBytes(limits.head_bytes_max)),
            RefusalReason::ChunkLineTooLong => Some(Self::ChunkLineBytes(limits.chunk_line_bytes_max)),
            RefusalReason::TrailerTooLarge => Some(Self::TrailerBytes(limits.head_bytes_max)),
            _ => None,
        }
    }
}

const STATUS_LINE_FORM: &str =
    "the status line must be a version, one space, a code from 100 to 999 and a reason without control bytes";

/// What is wrong with a head. The messages about single lines apply to both sides.
fn head_problem(reason: RefusalReason) -> String {
    match reason {
        RefusalReason::BadVersion | RefusalReason::UnsupportedVersion => "not HTTP/1.0 or HTTP/1.1".to_owned(),
        RefusalReason::BadRequestLine => format!("malformed: {STATUS_LINE_FORM}"),
        _ => match reason.message().trim_end_matches('.').strip_prefix("A ") {
            Some(of_line) => format!("malformed: a {of_line}"),
            None => "malformed".to_owned(),
        },
    }
}

impl OutstandingRequests {
    /// Requests of which any can be marked as HEAD.
    const PLACES: u32 = u64::BITS * 2;

    fn can_push(&self, method: Method<'_>) -> bool {
        !self.connect_is_last
            && !self.upgrade_is_last
            && self.count < u32::MAX
            && (method != Method::Head || self.count < Self::PLACES)
    }

    fn push(&mut self, method: Method<'_>) {
        if method == Method::Head {
            self.heads[(self.count / u64::BITS) as usize] |= 1 << (self.count % u64::BITS);
        }
        self.connect_is_last = method == Method::Connect;
        self.upgrade_is_last = false;
        self.count += 1;
    }

    fn pop(&mut self) {
        self.count -= 1;
        self.connect_is_last &= self.count > 0;
        self.upgrade_is_last &= self.count > 0;
        self.heads[0] = self.heads[0] >> 1 | self.heads[1] << (u64::BITS - 1);
        self.heads[1] >>= 1;
    }

    fn next_is_head(&self) -> bool {
        self.heads[0] & 1 == 1
    }

    fn next_is_connect(&self) -> bool {
        self.connect_is_last && self.count == 1
    }

    fn next_is_upgrade(&self) -> bool {
        self.upgrade_is_last && self.count == 1
    }
}

impl ClientConnection {
    /// HEAD can be sent only while fewer requests than this are outstanding.
    pub const HEAD_OUTSTANDING_MAX: usize = OutstandingRequests::PLACES as usize;
    /// More interim responses before one final response are [`ClientError::TooLarge`].
    pub const INTERIM_COUNT_MAX: u8 = 32;

    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a request with this method can be sent now: not after CONNECT or the end of the connection, and HEAD
    /// only up to [`ClientConnection::HEAD_OUTSTANDING_MAX`].
    #[must_use]
    pub fn can_send(&self, method: Method<'_>) -> bool {
        self.state != ResponseState::Over && self.outstanding.can_push(method)
    }

    /// Records that a request with this method was sent, since the framing of its response depends on it.
    ///
    /// If it [could not](ClientConnection::can_send) be sent, the connection is over, since responses could no longer
    /// be assigned to requests.
    pub fn sent(&mut self, method: Method<'_>) {
        let possible = self.outstanding.can_push(method);
        debug_assert!(possible, "sent: {method} cannot be sent now");
        if possible {
            self.outstanding.push(method);
        } else {
            self.state = ResponseState::Over;
        }
    }

    /// As [`sent`](Self::sent), for a request with Upgrade (RFC 9110, 7.8). Nothing can be sent after it before its
    /// response.
    pub fn sent_with_upgrade(&mut self, method: Method<'_>) {
        self.sent(method);
        self.outstanding.upgrade_is_last = true;
    }

    /// The number of outstanding responses.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.count as usize
    }

    /// Returns the next item of `input`. Call again with the rest until `NeedMore` or `Over`.
    ///
    /// `input` begins with the first byte not yet consumed. `ended`: nothing will follow it.
    ///
    /// # Errors
    /// An invalid response.
    pub fn receive<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<ClientProgress<'a, 'f>, ClientError> {
        let received = match self.state {
            ResponseState::Head if self.outstanding.count == 0 => self.receive_nothing(input, ended),
            ResponseState::Head => self.receive_head(input, ended, limits, storage),
            ResponseState::Content => self.receive_content(input, ended, limits),
            ResponseState::Over => Ok(ClientProgress::Over),
        };
        if received.is_err() {
            self.state = ResponseState::Over;
        }
        received
    }

    /// While no response is outstanding, only the end of the connection may come.
    fn receive_nothing<'a, 'f>(&mut self, input: &[u8], ended: bool) -> Result<ClientProgress<'a, 'f>, ClientError> {
        match (input.is_empty(), ended) {
            (false, _) => Err(ClientError::Unexpected),
            (true, false) => Ok(ClientProgress::NeedMore { taken: 0 }),
            (true, true) => {
                self.state = ResponseState::Over;
                Ok(ClientProgress::Over)
            }
        }
    }

    fn receive_head<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<ClientProgress<'a, 'f>, ClientError> {
        let in_head = |reason| ClientError::in_head(reason, limits);
        let Some((line, (headers, taken))) = self.read_section(input, limits, storage).map_err(in_head)? else {
            return match ended {
                true => Err(in_head(self.scan.why_cut_off::<StatusLine>(input, limits))),
                false => Ok(ClientProgress::NeedMore { taken: 0 }),
            };
        };
        self.scan = HeadScan::default();
        match line.status {
            101 if self.outstanding.next_is_upgrade() => {
                self.outstanding.pop();
                self.state = ResponseState::Over;
                Ok(ClientProgress::Switched { fields: Fields::new(headers), taken })
            }
            // No upgrade was requested.
            101 => Err(ClientError::Unexpected),
            100..200 => self.pass_interim(line.status, Fields::new(headers), taken),
            _ => self.begin_response(&line, headers).map(|head| ClientProgress::Head { head, taken }),
        }
    }

    fn pass_interim<'a, 'f>(
        &mut self,
        status: u16,
        fields: Fields<'a, 'f>,
        taken: usize,
    ) -> Result<ClientProgress<'a, 'f>, ClientError> {
        if self.interim_count == Self::INTERIM_COUNT_MAX {
            return Err(ClientError::TooLarge(ResponseLimit::InterimCount(Self::INTERIM_COUNT_MAX)));
        }
        self.interim_count += 1;
        Ok(ClientProgress::Interim { status, fields, taken })
    }

    /// The status line and the fields; None while the head is incomplete.
    fn read_section<'a, 'f>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Option<(StatusLine, Section<'a, 'f>)>, RefusalReason> {
        if self.scan.is_fresh()
            && let Some(line) = StatusLine::parse(within(input, limits))?
            && line.version != LineVersion::Later
        {
            // As for requests, the strict parser decides.
            return match tokenise(input, limits, storage) {
                Some(section) => Ok(Some((line, section))),
                None => match self.scan.scan::<StatusLine>(input, limits)? {
                    None => Ok(None),
                    Some(_) => Err(RefusalReason::Malformed),
                },
            };
        }
        let Some(head_len) = self.scan.scan::<StatusLine>(input, limits)? else { return Ok(None) };
        let head = &input[..head_len];
        let line = StatusLine::parse(head)?.ok_or(RefusalReason::Malformed)?;
        Ok(Some((line, split_fields(head, line.len, storage)?)))
    }

    fn begin_response<'a, 'f>(
        &mut self,
        line: &StatusLine,
        headers: &'f [httparse::Header<'a>],
    ) -> Result<ResponseHead<'a, 'f>, ClientError> {
        let (status, version) = (line.status, line.version.spoken());
        let tunnel = self.outstanding.next_is_connect() && (200..300).contains(&status);
        // RFC 9112, 6.3, rules 1 and 2.
        let has_no_content = self.outstanding.next_is_head() || tunnel || status == 204 || status == 304;
        let (framing, keep_alive) =
            semantics::response(version, has_no_content, headers).map_err(|_| ClientError::BadFraming)?;
        self.keep_alive = keep_alive && !tunnel;
        self.interim_count = 0;
        self.state = ResponseState::Content;
        self.content = ContentDecoder::new(framing);
        Ok(ResponseHead { status, version, fields: Fields::new(headers), framing, keep_alive: self.keep_alive })
    }

    fn receive_content<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
    ) -> Result<ClientProgress<'a, 'f>, ClientError> {
        let bad_content = |reason| match ResponseLimit::exceeded(reason, limits) {
            Some(limit) => ClientError::TooLarge(limit),
            None => ClientError::BadFraming,
        };
        match self.content.decode(input, u64::MAX, limits).map_err(bad_content)? {
            ContentStep::Content { bytes, taken } => Ok(ClientProgress::Content { bytes, taken }),
            ContentStep::Trailer { field, taken } => Ok(ClientProgress::Trailer { field, taken }),
            ContentStep::End { taken } => Ok(self.end_response(taken)),
            ContentStep::NeedMore { taken } if !ended => Ok(ClientProgress::NeedMore { taken }),
            ContentStep::NeedMore { taken } if self.content.ends_with_connection() => Ok(self.end_response(taken)),
            ContentStep::NeedMore { .. } => Err(ClientError::ClosedEarly),
        }
    }

    fn end_response<'a, 'f>(&mut self, taken: usize) -> ClientProgress<'a, 'f> {
        self.pass_response(self.keep_alive);
        ClientProgress::End { taken, keep_alive: self.keep_alive }
    }

    /// The current response is complete.
    pub(crate) fn pass_response(&mut self, keep_alive: bool) {
        self.keep_alive = keep_alive;
        self.interim_count = 0;
        self.outstanding.pop();
        self.state = if keep_alive { ResponseState::Head } else { ResponseState::Over };
    }

    /// A response is outstanding, none of it was received, and its request does not affect its framing.
    pub(crate) fn expects_plain_response(&self) -> bool {
        self.state == ResponseState::Head
            && self.outstanding.count > 0
            && self.scan.is_fresh()
            && self.request_is_plain()
    }

    /// The current request is neither HEAD nor CONNECT.
    pub(crate) fn request_is_plain(&self) -> bool {
        !self.outstanding.next_is_head() && !self.outstanding.next_is_connect()
    }
}

/// The fields of a head that is complete in `input`, if every line ends with CRLF.
fn tokenise<'a, 'f>(input: &'a [u8], limits: &Limits, storage: &'f mut FieldStorage<'a>) -> Option<Section<'a, 'f>> {
    let mut response = httparse::Response::new(&mut []);
    let headers = &mut storage.headers[..field_count_max(limits)];
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        within(input, limits),
        headers,
    );
    let Ok(httparse::Status::Complete(len)) = parsed else { return None };
    let headers = response.headers;
    lines_are_strict(&input[..len], headers).then_some((headers, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nraw";

    fn upgrade_requested() -> ClientConnection {
        let mut client = ClientConnection::new();
        client.sent_with_upgrade(Method::Get);
        client
    }

    #[test]
    fn requested_upgrade_ends_http() {
        let (mut client, limits) = (upgrade_requested(), Limits::default());
        assert!(!client.can_send(Method::Get), "what is sent behind it may be read by another protocol");
        let mut storage = FieldStorage::new();
        let Ok(ClientProgress::Switched { fields, taken }) = client.receive(SWITCH, false, &limits, &mut storage)
        else {
            panic!("it was asked for")
        };
        assert_eq!(fields.first("upgrade"), Some(&b"x"[..]));
        assert_eq!(&SWITCH[taken..], b"raw");
        assert!(!client.can_send(Method::Get));
    }

    #[test]
    fn bad_heads_are_described() {
        let error = |reason| ClientError::BadHead(reason).to_string();
        for (reason, problem) in [
            (RefusalReason::UnsupportedVersion, "not HTTP/1.0 or HTTP/1.1"),
            (RefusalReason::BadVersion, "not HTTP/1.0 or HTTP/1.1"),
            (RefusalReason::MissingColon, "malformed: a header line has no colon"),
            (RefusalReason::BareLineFeed, "malformed: a line ends with LF instead of CRLF"),
            (RefusalReason::Malformed, "malformed"),
        ] {
            assert_eq!(error(reason), format!("the head of the response is {problem}"));
        }
        let error = error(RefusalReason::BadRequestLine);
        assert!(error.starts_with("the head of the response is malformed: the status line must be"), "{error}");
    }

    #[test]
    fn server_may_decline_upgrade() {
        let (mut client, limits) = (upgrade_requested(), Limits::default());
        let response = b"HTTP/1.1 204 No Content\r\n\r\n";
        let mut storage = FieldStorage::new();
        let progress = client.receive(response, false, &limits, &mut storage);
        assert!(matches!(progress, Ok(ClientProgress::Head { .. })), "{progress:?}");
        let progress = client.receive(b"", false, &limits, &mut storage);
        assert!(matches!(progress, Ok(ClientProgress::End { keep_alive: true, .. })), "{progress:?}");
        client.sent(Method::Get);
        let progress = client.receive(SWITCH, false, &limits, &mut storage);
        assert!(matches!(progress, Err(ClientError::Unexpected)), "{progress:?}");
    }

    #[test]
    fn earlier_response_does_not_switch() {
        let (mut client, limits) = (ClientConnection::new(), Limits::default());
        client.sent(Method::Get);
        client.sent_with_upgrade(Method::Get);
        let mut storage = FieldStorage::new();
        let progress = client.receive(SWITCH, false, &limits, &mut storage);
        assert!(matches!(progress, Err(ClientError::Unexpected)), "{progress:?}");
    }
}
