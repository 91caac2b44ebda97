//! The client's side of a connection.

use crate::content::{ContentDecoder, ContentStep};
use crate::head::{HeadScan, Section, field_count_max, lines_are_strict, split_fields, within};
use crate::meaning;
use crate::refusal::RefusalReason;
use crate::request_line::LineVersion;
use crate::status_line::StatusLine;
use crate::{Field, FieldStorage, Fields, Limits, Method, ResponseHead};

/// Reads the responses of one connection, in the order of the requests that were sent on it.
///
/// ```text
///   sent ─► (Interim)* ─► Head ─► (Content)* ─► End ─► the next response
/// ```
///
/// Of [`Limits`] those of heads, fields and chunk lines apply; how much content a response has is the caller's to
/// judge.
#[derive(Debug, Default)]
pub struct ClientConnection {
    // Small: a generator holds thousands. A test holds it to 64 bytes.
    content: ContentDecoder,
    scan: HeadScan,
    outstanding: Outstanding,
    receiving: Receiving,
    /// Interim responses before the final one that is due.
    interim_count: u8,
    /// The connection can carry further requests after the response under way.
    keep_alive: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receiving {
    #[default]
    Head,
    Content,
    Over,
}

/// The requests that wait for their responses. Only HEAD and CONNECT change how a response is framed, so one bit each
/// tells HEAD from the others.
#[derive(Debug, Default)]
struct Outstanding {
    count: u32,
    /// Bit `i % 64` of word `i / 64`: the request that is answered after `i` others is HEAD.
    heads: [u64; 2],
    /// The last one is CONNECT.
    connect_is_last: bool,
    /// The last one asks for another protocol.
    upgrade_is_last: bool,
}

/// What `receive` found at the start of the input.
#[derive(Debug)]
pub enum ClientProgress<'a, 'f> {
    /// Not enough bytes for the next step.
    NeedMore {
        /// Bytes used.
        taken: usize,
    },
    /// An interim response (1xx other than 101).
    Interim {
        /// 100 to 199.
        status: u16,
        /// The field section.
        fields: Fields<'a, 'f>,
        /// Bytes used.
        taken: usize,
    },
    /// A final response's head. `Content` may and `End` will follow, always.
    Head {
        /// The head.
        head: ResponseHead<'a, 'f>,
        /// Bytes used.
        taken: usize,
    },
    /// 101, which was [asked for](ClientConnection::sent_with_upgrade): what comes behind its head speaks another
    /// protocol, and this connection is over.
    Switched {
        /// The field section.
        fields: Fields<'a, 'f>,
        /// Bytes used.
        taken: usize,
    },
    /// A part of the content, without its framing.
    Content {
        /// The part, never empty.
        bytes: &'a [u8],
        /// Bytes used.
        taken: usize,
    },
    /// A field behind chunked content (RFC 9110, 6.5). It is not one of the head's, and must not become one.
    Trailer {
        /// The field.
        field: Field<'a>,
        /// Bytes used.
        taken: usize,
    },
    /// The response is complete.
    End {
        /// Bytes used.
        taken: usize,
        /// Whether the connection can carry further requests.
        keep_alive: bool,
    },
    /// The server ended the connection while no response was due, or the last response was the connection's last.
    Over,
}

/// A response that cannot be read; close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientError {
    /// The server ended the connection before the response was complete.
    ClosedEarly,
    /// Bytes came although no request was outstanding, or a 101 that nobody asked for.
    Unexpected,
    /// The head is not HTTP/1.x.
    BadHead,
    /// The framing is wrong or ambiguous.
    BadFraming,
    /// A limit was passed.
    TooLarge,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::ClosedEarly => "the server closed the connection before the response was complete",
            Self::Unexpected => "the server sent a response without a request",
            Self::BadHead => "the head of the response is not HTTP/1.0 or HTTP/1.1",
            Self::BadFraming => "the length of the response is malformed or ambiguous",
            Self::TooLarge => "the head, a chunk line or the trailers of the response are larger than the limit",
        })
    }
}

impl std::error::Error for ClientError {}

impl From<RefusalReason> for ClientError {
    /// The grammar is shared with the server's side; here only the kind of fault matters.
    fn from(reason: RefusalReason) -> Self {
        match reason {
            RefusalReason::TooManyFields
            | RefusalReason::HeadTooLarge
            | RefusalReason::ChunkLineTooLong
            | RefusalReason::TrailerTooLarge => Self::TooLarge,
            RefusalReason::Truncated => Self::ClosedEarly,
            _ => Self::BadHead,
        }
    }
}

/// A fault in the content's framing or in the fields that announce it.
fn bad_framing(reason: RefusalReason) -> ClientError {
    match ClientError::from(reason) {
        ClientError::TooLarge => ClientError::TooLarge,
        _ => ClientError::BadFraming,
    }
}

impl Outstanding {
    /// HEAD can be told from other methods at this many places.
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
    /// A HEAD request can be sent only while fewer requests than this are outstanding; others always.
    pub const HEAD_OUTSTANDING_MAX: usize = Outstanding::PLACES as usize;
    /// More interim responses before one final response are [`ClientError::TooLarge`].
    pub const INTERIM_COUNT_MAX: u8 = 32;

    /// A connection on which nothing has happened yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a request with this method can be sent now: not behind CONNECT, not when the connection is over, and
    /// HEAD only up to [`ClientConnection::HEAD_OUTSTANDING_MAX`].
    #[must_use]
    pub fn can_send(&self, method: Method<'_>) -> bool {
        self.receiving != Receiving::Over && self.outstanding.can_push(method)
    }

    /// Says that a request with this method was sent (the framing of its answer depends on it).
    ///
    /// If it [could not](ClientConnection::can_send) be, the connection is over: its answers could not be told apart.
    pub fn sent(&mut self, method: Method<'_>) {
        let possible = self.outstanding.can_push(method);
        debug_assert!(possible, "sent: {method} cannot be sent now");
        if possible {
            self.outstanding.push(method);
        } else {
            self.receiving = Receiving::Over;
        }
    }

    /// As [`sent`](Self::sent), for a request that asks for another protocol (RFC 9110, 7.8). Nothing can be sent
    /// behind it before it is answered.
    pub fn sent_with_upgrade(&mut self, method: Method<'_>) {
        self.sent(method);
        self.outstanding.upgrade_is_last = true;
    }

    /// How many responses are due.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.count as usize
    }

    /// The next step of the responses in `input`. Call again with the rest until `NeedMore` or `Over`.
    ///
    /// `input` begins with the first byte that was not taken. `ended` says that nothing will come after it.
    ///
    /// # Errors
    /// If the response cannot be read.
    pub fn receive<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<ClientProgress<'a, 'f>, ClientError> {
        let received = match self.receiving {
            Receiving::Head if self.outstanding.count == 0 => self.receive_nothing(input, ended),
            Receiving::Head => self.receive_head(input, ended, limits, storage),
            Receiving::Content => self.receive_content(input, ended, limits),
            Receiving::Over => Ok(ClientProgress::Over),
        };
        if received.is_err() {
            self.receiving = Receiving::Over;
        }
        received
    }

    /// No response is due.
    fn receive_nothing<'a, 'f>(&mut self, input: &[u8], ended: bool) -> Result<ClientProgress<'a, 'f>, ClientError> {
        match (input.is_empty(), ended) {
            (false, _) => Err(ClientError::Unexpected),
            (true, false) => Ok(ClientProgress::NeedMore { taken: 0 }),
            (true, true) => {
                self.receiving = Receiving::Over;
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
        let Some((line, (headers, taken))) = self.read_section(input, limits, storage)? else {
            return match ended {
                true => Err(self.scan.why_cut_off::<StatusLine>(input, limits).into()),
                false => Ok(ClientProgress::NeedMore { taken: 0 }),
            };
        };
        self.scan = HeadScan::default();
        match line.status {
            101 if self.outstanding.next_is_upgrade() => {
                self.outstanding.pop();
                self.receiving = Receiving::Over;
                Ok(ClientProgress::Switched { fields: Fields::new(headers), taken })
            }
            // Nothing was asked to be upgraded.
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
            return Err(ClientError::TooLarge);
        }
        self.interim_count += 1;
        Ok(ClientProgress::Interim { status, fields, taken })
    }

    /// The status line and the fields; none while the head is not complete.
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
            // As for requests: the careful way decides every doubt.
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
        let (framing, keep_alive) = meaning::response(version, has_no_content, headers).map_err(bad_framing)?;
        self.keep_alive = keep_alive && !tunnel;
        self.interim_count = 0;
        self.receiving = Receiving::Content;
        self.content = ContentDecoder::new(framing);
        Ok(ResponseHead { status, version, fields: Fields::new(headers), framing, keep_alive: self.keep_alive })
    }

    fn receive_content<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
    ) -> Result<ClientProgress<'a, 'f>, ClientError> {
        match self.content.decode(input, u64::MAX, limits).map_err(bad_framing)? {
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

    /// The response that was due is complete.
    pub(crate) fn pass_response(&mut self, keep_alive: bool) {
        self.keep_alive = keep_alive;
        self.interim_count = 0;
        self.outstanding.pop();
        self.receiving = if keep_alive { Receiving::Head } else { Receiving::Over };
    }

    /// A response is due, nothing of it was read, and its request does not change its framing.
    pub(crate) fn expects_plain_response(&self) -> bool {
        self.receiving == Receiving::Head && self.outstanding.count > 0 && self.scan.is_fresh() && self.asked_plainly()
    }

    /// The request of the response that is due is neither HEAD nor CONNECT.
    pub(crate) fn asked_plainly(&self) -> bool {
        !self.outstanding.next_is_head() && !self.outstanding.next_is_connect()
    }
}

/// The fields of a head that came in one piece, if it is complete and every line ends with CRLF.
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

    fn asked() -> ClientConnection {
        let mut client = ClientConnection::new();
        client.sent_with_upgrade(Method::Get);
        client
    }

    #[test]
    fn a_switch_that_was_asked_for_ends_http() {
        let (mut client, limits) = (asked(), Limits::default());
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
    fn a_server_may_decline_to_switch() {
        let (mut client, limits) = (asked(), Limits::default());
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
        let mut storage = FieldStorage::new();
        let progress = client.receive(answer, false, &limits, &mut storage);
        assert!(matches!(progress, Ok(ClientProgress::Head { .. })), "{progress:?}");
        let progress = client.receive(b"", false, &limits, &mut storage);
        assert!(matches!(progress, Ok(ClientProgress::End { keep_alive: true, .. })), "{progress:?}");
        client.sent(Method::Get);
        let progress = client.receive(SWITCH, false, &limits, &mut storage);
        assert!(matches!(progress, Err(ClientError::Unexpected)), "{progress:?}");
    }
}
