//! The server's side of a connection.

use crate::content::{ContentDecoder, ContentStep};
use crate::fields::push_field_line;
use crate::head::{HeadScan, Section, field_count_max, lines_are_strict, split_fields, within};
use crate::meaning::{self, RequestMeaning};
use crate::refusal::{Refusal, RefusalReason};
use crate::request_line::{LineVersion, RequestLine};
use crate::status::{push_decimal, push_framing, push_hexadecimal, push_status_line};
use crate::{FieldBlock, FieldStorage, Fields, Framing, InvalidField, Limits, Method, RequestHead, Version};

/// Empty lines that are skipped before a request line (RFC 9112, 2.2: at least one).
const EMPTY_LINES_MAX: u8 = 1;
/// Room that is made at once for a response's head.
const RESPONSE_HEAD_BYTES: usize = 256;

/// Reads requests and writes responses of one connection, one exchange after another.
///
/// ```text
///   receive ─► Head ─► (Content)* ─► End ─► respond … ─► receive the next
/// ```
///
/// Answers leave in the order of the requests because the next head is not read before the answer
/// to this one is complete (`receive` says [`Progress::Blocked`] and takes nothing). An answer may begin before the request's
/// content has come. Content goes on to be reported until the answer is complete; what is left of it then is read into nothing,
/// or the connection is closed.
#[derive(Debug, Default)]
pub struct ServerConnection {
    // Small: it exists once for each idle connection. A test holds it to 64 bytes.
    content: ContentDecoder,
    /// Bytes of this request's content; while draining, bytes that were drained.
    content_bytes: u64,
    request_count: u64,
    scan: HeadScan,
    receiving: Receiving,
    answering: Answering,
    exchange: Exchange,
    empty_lines: u8,
    /// The connection ends after this answer.
    close: bool,
    /// As the limits say; kept for `respond`.
    http10_only: bool,
}

/// Where in a request the connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receiving {
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
enum Answering {
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
struct Exchange {
    is_head: bool,
    is_connect: bool,
    /// Chunked coding cannot be sent, and staying must be said.
    is_http10: bool,
    /// The client waits for 100 (Continue), which was not sent, and no content has come.
    continue_due: bool,
    /// So much of the content is still to come that it will not be drained.
    rest_is_long: bool,
}

/// What `receive` found at the start of the input.
#[derive(Debug)]
pub enum Progress<'a, 'f> {
    /// Not enough bytes for the next step; these bytes (framing, drained content) are used.
    NeedMore {
        /// Bytes used.
        taken: usize,
    },
    /// A request's head.
    Head {
        /// The head. If it [has content](RequestHead::has_content), `Content` and `End` follow; else the request is complete.
        head: RequestHead<'a, 'f>,
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
    /// The content is complete; trailers, if any, were checked and dropped.
    End {
        /// Bytes used.
        taken: usize,
    },
    /// The answer to the request before is not complete; nothing is used.
    Blocked,
    /// The connection is over: the peer ended between two requests, or the last answer said `close`. Close it gracefully.
    Over,
}

/// Whether the content of the response that was begun may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Send it: exactly the length that was announced, or by [`ServerConnection::chunk`].
    Expected,
    /// Send nothing: the request was HEAD, or the status has no content, or the length is 0. The response is complete.
    Omitted,
}

/// What became of content that nobody wanted.
enum Drained {
    /// It is complete; this many bytes of the input were its last.
    Complete { taken: usize },
    /// More of it is to come; all of the input was used but perhaps a part of a trailer line.
    Pending { taken: usize },
    /// Too much, or not in order.
    GivenUp,
}

/// Receiving.
impl ServerConnection {
    /// A connection on which nothing has happened yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next step of the requests in `input`. Call again with the rest until `NeedMore`, `Blocked` or `Over`.
    ///
    /// `input` begins with the first byte that was not taken. `ended` says that nothing will come after it.
    ///
    /// # Errors
    /// What the RFC says must be refused.
    pub fn receive<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, Refusal> {
        self.http10_only = limits.http10_only;
        let received = match self.receiving {
            Receiving::Head => self.receive_head(input, 0, ended, limits, storage),
            Receiving::Content => self.receive_content(input, ended, limits),
            Receiving::Complete => Ok(Progress::Blocked),
            Receiving::Draining => self.receive_drained(input, ended, limits, storage),
            Receiving::Refused | Receiving::Over => Ok(Progress::Over),
        };
        received.map_err(|reason| {
            self.receiving = Receiving::Refused;
            self.close = true;
            Refusal::new(reason)
        })
    }

    /// The bytes of `input` before `skipped` are used already.
    fn receive_head<'a, 'f>(
        &mut self,
        input: &'a [u8],
        skipped: usize,
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        let start = skipped + self.skip_empty_lines(&input[skipped..])?;
        let rest = &input[start..];
        match self.read_request(rest, limits, storage) {
            Ok(Some((head, head_len))) => Ok(Progress::Head { head, taken: start + head_len }),
            Ok(None) if !ended => Ok(Progress::NeedMore { taken: start }),
            Ok(None) if rest.is_empty() => {
                self.receiving = Receiving::Over;
                Ok(Progress::Over)
            }
            Ok(None) => {
                let reason = self.scan.why_cut_off::<RequestLine<'_>>(rest, limits);
                Err(self.refused_head(rest, reason))
            }
            Err(reason) => Err(self.refused_head(rest, reason)),
        }
    }

    /// Also a refusal has no content when it answers HEAD.
    #[cold]
    fn refused_head(&mut self, head: &[u8], reason: RefusalReason) -> RefusalReason {
        self.exchange.is_head = head.starts_with(b"HEAD ");
        reason
    }

    fn read_request<'a, 'f>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Option<(RequestHead<'a, 'f>, usize)>, RefusalReason> {
        let Some((line, (headers, head_len))) = self.read_section(input, limits, storage)? else { return Ok(None) };
        self.begin_request(&line, headers, limits).map(|head| Some((head, head_len)))
    }

    fn skip_empty_lines(&mut self, input: &[u8]) -> Result<usize, RefusalReason> {
        let mut skipped = 0;
        while self.scan.is_fresh() {
            match &input[skipped..] {
                [b'\r', b'\n', ..] if self.empty_lines < EMPTY_LINES_MAX => {
                    self.empty_lines += 1;
                    skipped += 2;
                }
                [b'\r', b'\n', ..] => return Err(RefusalReason::EmptyLines),
                [b'\r', _, ..] => return Err(RefusalReason::BareCarriageReturn),
                _ => break,
            }
        }
        Ok(skipped)
    }

    /// The request line and the fields; none while the head is not complete.
    fn read_section<'a, 'f>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Option<(RequestLine<'a>, Section<'a, 'f>)>, RefusalReason> {
        if matches!(input, [] | [b'\r']) && self.scan.is_fresh() {
            return Ok(None); // nothing, or half an empty line
        }
        if self.scan.is_fresh() {
            let line = RequestLine::parse(within(input, limits), limits)?;
            if let Some(line) = line
                && line.version != LineVersion::Later
            {
                // Most heads come in one piece and are in order. Else the careful way says what is wrong.
                return match tokenise(input, limits, storage) {
                    Some(section) => Ok(Some((line, section))),
                    None => match self.scan.scan::<RequestLine<'_>>(input, limits)? {
                        None => Ok(None),
                        Some(_) => Err(RefusalReason::Malformed),
                    },
                };
            }
        }
        let Some(head_len) = self.scan.scan::<RequestLine<'_>>(input, limits)? else { return Ok(None) };
        let head = &input[..head_len];
        let line = RequestLine::parse(head, limits)?.ok_or(RefusalReason::Malformed)?;
        Ok(Some((line, split_fields(head, line.len, storage)?)))
    }

    fn begin_request<'a, 'f>(
        &mut self,
        line: &RequestLine<'a>,
        headers: &'f [httparse::Header<'a>],
        limits: &Limits,
    ) -> Result<RequestHead<'a, 'f>, RefusalReason> {
        let (target, version) = (line.target()?, line.version.spoken());
        let meaning = meaning::request(line.method, target, version, headers, limits)?;
        let RequestMeaning { authority, framing, keep_alive, expects_continue } = meaning;
        let head = RequestHead {
            method: line.method,
            target,
            version,
            authority,
            fields: Fields { headers },
            framing,
            expects_continue,
        };
        self.request_count = self.request_count.saturating_add(1);
        // Behind CONNECT a client may send what is meant for the tunnel, without waiting whether there is one.
        let is_connect = head.method == Method::Connect;
        self.close |= !keep_alive || is_connect || self.request_count >= limits.requests_max;
        self.exchange = Exchange {
            is_head: head.method == Method::Head,
            is_connect,
            is_http10: version == Version::Http10 || limits.http10_only,
            continue_due: expects_continue,
            rest_is_long: false,
        };
        self.scan = HeadScan::default();
        self.empty_lines = 0;
        self.content_bytes = 0;
        self.answering = Answering::Due;
        self.receiving = if head.has_content() { Receiving::Content } else { Receiving::Complete };
        if head.has_content() {
            self.content = ContentDecoder::new(framing);
            self.note_rest(limits);
        }
        Ok(head)
    }

    fn note_rest(&mut self, limits: &Limits) {
        self.exchange.rest_is_long = self.content.known_rest().is_some_and(|rest| rest > limits.drain_bytes_max);
    }

    fn receive_content<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        let bytes_max = limits.content_bytes_max.saturating_sub(self.content_bytes);
        let step = self.content.decode(input, bytes_max, limits)?;
        // A client that sends does not wait.
        self.exchange.continue_due &= input.is_empty();
        self.note_rest(limits);
        Ok(match step {
            ContentStep::Content { bytes, taken } => {
                self.content_bytes += bytes.len() as u64;
                Progress::Content { bytes, taken }
            }
            ContentStep::End { taken } => {
                self.receiving = Receiving::Complete;
                Progress::End { taken }
            }
            ContentStep::NeedMore { .. } if ended => return Err(RefusalReason::Truncated),
            ContentStep::NeedMore { taken } => Progress::NeedMore { taken },
        })
    }

    /// Reads into nothing what is left of a request whose answer is complete, and goes on to the next.
    fn receive_drained<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        match self.drain(input, limits) {
            Drained::Complete { taken } => {
                self.receiving = Receiving::Head;
                self.receive_head(input, taken, ended, limits, storage)
            }
            Drained::Pending { taken } if !ended => Ok(Progress::NeedMore { taken }),
            // The client has its answer: nobody is left to be told what is wrong.
            Drained::Pending { .. } | Drained::GivenUp => {
                self.receiving = Receiving::Over;
                self.close = true;
                Ok(Progress::Over)
            }
        }
    }

    fn drain(&mut self, input: &[u8], limits: &Limits) -> Drained {
        let mut start = 0;
        if self.content.known_rest().is_some_and(|rest| rest > limits.drain_bytes_max) {
            return Drained::GivenUp;
        }
        loop {
            let (taken, content_pending) = match self.content.decode(&input[start..], u64::MAX, limits) {
                Ok(ContentStep::Content { taken, .. }) => (taken, true),
                Ok(ContentStep::NeedMore { taken }) => (taken, false),
                Ok(ContentStep::End { taken }) => return Drained::Complete { taken: start + taken },
                Err(_) => return Drained::GivenUp,
            };
            start += taken;
            self.content_bytes += taken as u64;
            if self.content_bytes > limits.drain_bytes_max {
                return Drained::GivenUp;
            }
            if !content_pending {
                return Drained::Pending { taken: start };
            }
        }
    }
}

/// The fields of a head that came in one piece, if it is complete and every line ends with CRLF.
fn tokenise<'a, 'f>(input: &'a [u8], limits: &Limits, storage: &'f mut FieldStorage<'a>) -> Option<Section<'a, 'f>> {
    let mut request = httparse::Request::new(&mut []);
    let headers = &mut storage.headers[..field_count_max(limits)];
    let Ok(httparse::Status::Complete(len)) = request.parse_with_uninit_headers(within(input, limits), headers) else {
        return None;
    };
    let headers = request.headers;
    lines_are_strict(&input[..len], headers).then_some((headers, len))
}

/// Answering.
impl ServerConnection {
    /// Writes `100 Continue`, if the client waits for it and none of the content has come.
    pub fn send_continue(&mut self, out: &mut Vec<u8>) {
        if self.exchange.continue_due && self.answering == Answering::Due {
            self.exchange.continue_due = false;
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    /// Begins the response: status line and the fields of framing and connection. `framing` is `Length`, `Chunked` (becomes
    /// close-delimited for an HTTP/1.0 client) or `None` (no content: no length for 204, 304 and HEAD, else a length of 0).
    /// `date` is the Date field's value as [`httpdate`-formatted bytes](https://www.rfc-editor.org/rfc/rfc9110#section-6.6.1).
    ///
    /// Only for a request that was received and not yet answered, with a final status (200 to 999).
    pub fn respond<'o>(
        &mut self,
        status: u16,
        framing: Framing,
        date: &[u8; 29],
        out: &'o mut Vec<u8>,
    ) -> ResponseWriter<'_, 'o> {
        debug_assert_eq!(self.answering, Answering::Due, "respond: no request waits for an answer");
        debug_assert!((200..1000).contains(&status), "respond: {status} is not a final status");
        let (announced, answering) = self.shape(status, framing);
        self.answering = answering;
        self.decide_close();
        out.reserve(RESPONSE_HEAD_BYTES);
        push_status_line(out, status, self.http10_only);
        push_framing(out, announced);
        self.push_connection(out);
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
        ResponseWriter { connection: self, out }
    }

    /// What is announced and what is sent (RFC 9110, 6.4.1 and 8.6; RFC 9112, 6.1 and 6.3).
    fn shape(&mut self, status: u16, framing: Framing) -> (Framing, Answering) {
        let Exchange { is_head, is_connect, is_http10, .. } = self.exchange;
        let tunnel = is_connect && (200..300).contains(&status);
        if status < 200 || status == 204 || tunnel {
            self.close |= tunnel || status < 200;
            return (Framing::None, Answering::Omitted);
        }
        if status == 205 {
            return (Framing::Length(0), Answering::Omitted);
        }
        let omitted = is_head || status == 304;
        match framing {
            Framing::Length(length) if omitted || length == 0 => (Framing::Length(length), Answering::Omitted),
            Framing::Length(length) => (Framing::Length(length), Answering::Length),
            Framing::None if omitted => (Framing::None, Answering::Omitted),
            Framing::None => (Framing::Length(0), Answering::Omitted),
            Framing::Chunked if is_head && !is_http10 => (Framing::Chunked, Answering::Omitted),
            Framing::Chunked | Framing::UntilClose if omitted => (Framing::None, Answering::Omitted),
            Framing::Chunked if !is_http10 => (Framing::Chunked, Answering::Chunked),
            Framing::Chunked | Framing::UntilClose => {
                self.close = true;
                (Framing::None, Answering::UntilClose)
            }
        }
    }

    /// A client that waits for 100 may or may not send its content after another answer (RFC 9110, 10.1.1), and much unwanted
    /// content costs more than a new connection.
    fn decide_close(&mut self) {
        let Exchange { continue_due, rest_is_long, .. } = self.exchange;
        self.close |= self.receiving == Receiving::Content && (continue_due || rest_is_long);
    }

    fn push_connection(&self, out: &mut Vec<u8>) {
        if self.close {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if self.exchange.is_http10 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
    }

    /// Says that all of the announced content has been handed over: the response is complete.
    pub fn content_sent(&mut self) {
        debug_assert_eq!(self.answering, Answering::Length, "content_sent: no content of known length is due");
        if self.answering == Answering::Length {
            self.complete_answer();
        }
    }

    /// Writes a part of a chunked (or close-delimited) response.
    pub fn chunk(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.answering {
            _ if bytes.is_empty() => {} // an empty chunk would be the last
            Answering::Chunked => {
                push_hexadecimal(out, bytes.len() as u64);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Answering::UntilClose => out.extend_from_slice(bytes),
            other => debug_assert!(false, "chunk: the response is {other:?}"),
        }
    }

    /// Ends a chunked (or close-delimited) response: it is complete.
    pub fn end_chunks(&mut self, out: &mut Vec<u8>) {
        match self.answering {
            Answering::Chunked => out.extend_from_slice(b"0\r\n\r\n"),
            Answering::UntilClose => {}
            other => return debug_assert!(false, "end_chunks: the response is {other:?}"),
        }
        self.complete_answer();
    }

    fn complete_answer(&mut self) {
        self.answering = Answering::Nothing;
        self.exchange = Exchange::default();
        self.content_bytes = 0;
        self.receiving = match self.receiving {
            _ if self.close => Receiving::Over,
            Receiving::Content => Receiving::Draining,
            Receiving::Complete => Receiving::Head,
            refused => refused,
        };
    }

    /// Writes the whole answer to a refused request, with `Connection: close`. Nothing if a response was begun already.
    ///
    /// Also for requests that the role gives up (408); the connection is over then.
    pub fn refuse(&mut self, refusal: Refusal, date: &[u8; 29], out: &mut Vec<u8>) {
        let answerable = matches!(self.answering, Answering::Nothing | Answering::Due)
            && !matches!(self.receiving, Receiving::Draining | Receiving::Over);
        self.receiving = Receiving::Over;
        self.answering = Answering::Nothing;
        self.close = true;
        if !answerable {
            return;
        }
        let text = refusal.reason.message();
        out.reserve(RESPONSE_HEAD_BYTES + text.len());
        push_status_line(out, refusal.status, self.http10_only);
        out.extend_from_slice(b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: ");
        push_decimal(out, text.len() as u64 + 1);
        out.extend_from_slice(b"\r\nConnection: close\r\nDate: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n\r\n");
        if !self.exchange.is_head {
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
    }

    /// From now on answers say `Connection: close` (the server is stopping). A response whose head was begun before ends
    /// the connection too, although it could not say so any more.
    pub fn close_after_this(&mut self) {
        self.close = true;
        if self.receiving == Receiving::Draining {
            self.receiving = Receiving::Over;
        }
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

/// Adds fields to a response that was begun.
#[derive(Debug)]
#[must_use = "the head ends with `end`"]
pub struct ResponseWriter<'c, 'o> {
    connection: &'c mut ServerConnection,
    out: &'o mut Vec<u8>,
}

impl ResponseWriter<'_, '_> {
    /// Adds a field line. `Content-Length` and `Transfer-Encoding` are not for the caller to set.
    ///
    /// # Errors
    /// As [`FieldBlock::push`]; nothing is written then.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidField> {
        let frames = name.eq_ignore_ascii_case("Content-Length") || name.eq_ignore_ascii_case("Transfer-Encoding");
        if frames { Err(InvalidField::new(name)) } else { push_field_line(self.out, name, value) }
    }

    /// Adds lines that were built before.
    pub fn block(&mut self, block: &FieldBlock) {
        self.out.extend_from_slice(&block.bytes);
    }

    /// Ends the head.
    #[must_use]
    pub fn end(self) -> Content {
        self.out.extend_from_slice(b"\r\n");
        if self.connection.answering == Answering::Omitted {
            self.connection.complete_answer();
            return Content::Omitted;
        }
        Content::Expected
    }
}
