//! Writes responses: head, framing, persistence.

use breme_http::media_type::TEXT;
use breme_http::{Field, FieldBlock, Fields, Framing, InvalidField, Refusal, Version, push_decimal};

use super::connection::{RequestProperties, RequestState, ResponseState, ServerConnection};
use crate::relay::{FieldName, FieldWriter, push_chunk};
use crate::status::{push_framing, push_status_line};

/// Bytes reserved for a response head.
const RESPONSE_HEAD_BYTES: usize = 256;

/// Whether a body follows the response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// Send exactly the announced length, or use [`ServerConnection::chunk`].
    Expected,
    /// Send nothing: the request was HEAD, the status has no content, or the length is 0. The response is complete.
    Omitted,
}

impl ServerConnection {
    /// Writes `100 Continue`, if the client waits for it and no content has arrived.
    pub fn send_continue(&mut self, out: &mut Vec<u8>) {
        if self.request.continue_due && self.response_state == ResponseState::Due {
            self.request.continue_due = false;
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    /// Begins the response: status line, framing and Connection. `framing` is `Length`, `Chunked` (close-delimited for
    /// an HTTP/1.0 client) or `None` (no content: no length for 204, 304 and HEAD, else a length of 0). `date` is the
    /// value of Date, as [`http_date`](breme_http::http_date) formats it.
    ///
    /// Requires a request without a response, and a final status (200 to 999).
    pub fn respond<'o>(
        &mut self,
        status: u16,
        framing: Framing,
        date: &[u8; 29],
        out: &'o mut Vec<u8>,
    ) -> ResponseWriter<'_, 'o> {
        let mut writer = self.relay(status, framing, out);
        writer.date(date);
        writer
    }

    /// As [`respond`](Self::respond) for a forwarded response: adds no Date.
    pub fn relay<'o>(&mut self, status: u16, framing: Framing, out: &'o mut Vec<u8>) -> ResponseWriter<'_, 'o> {
        debug_assert_eq!(self.response_state, ResponseState::Due, "respond: no request waits for a response");
        debug_assert!((200..1000).contains(&status), "respond: {status} is not a final status");
        let (announced, response_state) = self.shape(status, framing);
        self.response_state = response_state;
        self.decide_close();
        out.reserve(RESPONSE_HEAD_BYTES);
        push_status_line(out, status, self.http10_only);
        push_framing(out, announced);
        self.push_connection(out);
        ResponseWriter { connection: self, fields: FieldWriter::resume(out) }
    }

    /// Begins an interim response (1xx other than 101). None for an HTTP/1.0 client, or if the final response has
    /// begun.
    pub fn interim<'o>(&mut self, status: u16, out: &'o mut Vec<u8>) -> Option<FieldWriter<'o>> {
        debug_assert!((100..200).contains(&status) && status != 101, "interim: {status} is not an interim status");
        if self.request.is_http10 || self.response_state != ResponseState::Due {
            return None;
        }
        self.request.continue_due &= status != 100;
        push_status_line(out, status, false);
        Some(FieldWriter::resume(out))
    }

    /// Begins the response that turns this connection into a tunnel: 101 to a request that [requested an
    /// upgrade](breme_http::RequestHead::requests_upgrade), or 2xx to CONNECT. Bytes after the request and after this
    /// head belong to the caller.
    pub fn begin_tunnel<'o>(&mut self, status: u16, out: &'o mut Vec<u8>) -> FieldWriter<'o> {
        debug_assert_eq!(self.response_state, ResponseState::Due, "begin_tunnel: no request waits for a response");
        push_status_line(out, status, false);
        if status == 101 {
            out.extend_from_slice(b"Connection: upgrade\r\n");
        }
        self.close = true;
        self.complete_response();
        FieldWriter::resume(out)
    }

    /// The framing to announce and the framing to send (RFC 9110, 6.4.1 and 8.6; RFC 9112, 6.1 and 6.3).
    fn shape(&mut self, status: u16, framing: Framing) -> (Framing, ResponseState) {
        let RequestProperties { is_head, is_connect, is_http10, .. } = self.request;
        let tunnel = is_connect && (200..300).contains(&status);
        if status < 200 || status == 204 || tunnel {
            self.close |= tunnel || status < 200;
            return (Framing::None, ResponseState::Omitted);
        }
        if status == 205 {
            return (Framing::Length(0), ResponseState::Omitted);
        }
        let omitted = is_head || status == 304;
        match framing {
            Framing::Length(length) if omitted || length == 0 => (Framing::Length(length), ResponseState::Omitted),
            Framing::Length(length) => (Framing::Length(length), ResponseState::Length),
            Framing::None if omitted => (Framing::None, ResponseState::Omitted),
            Framing::None => (Framing::Length(0), ResponseState::Omitted),
            Framing::Chunked if is_head && !is_http10 => (Framing::Chunked, ResponseState::Omitted),
            Framing::Chunked | Framing::UntilClose if omitted => (Framing::None, ResponseState::Omitted),
            Framing::Chunked if !is_http10 => (Framing::Chunked, ResponseState::Chunked),
            Framing::Chunked | Framing::UntilClose => {
                self.close = true;
                (Framing::None, ResponseState::UntilClose)
            }
        }
    }

    /// A client that waits for 100 may or may not send its content after another response (RFC 9110, 10.1.1), and
    /// draining much content costs more than a new connection.
    fn decide_close(&mut self) {
        let RequestProperties { continue_due, rest_is_long, .. } = self.request;
        self.close |= self.request_state == RequestState::Content && (continue_due || rest_is_long);
    }

    fn push_connection(&self, out: &mut Vec<u8>) {
        if self.close {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if self.request.is_http10 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
    }

    /// All announced content was sent: completes the response.
    pub fn content_sent(&mut self) {
        debug_assert_eq!(self.response_state, ResponseState::Length, "content_sent: no content of known length is due");
        if self.response_state == ResponseState::Length {
            self.complete_response();
        }
    }

    /// Writes a part of a chunked or close-delimited response.
    pub fn chunk(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.response_state {
            _ if bytes.is_empty() => {} // an empty chunk would be the last
            ResponseState::Chunked => push_chunk(out, bytes),
            ResponseState::UntilClose => out.extend_from_slice(bytes),
            other => debug_assert!(false, "chunk: the response is {other:?}"),
        }
    }

    /// Forwards a trailer of a chunked response after its last [chunk](Self::chunk). A close-delimited response has no
    /// trailers.
    pub fn relay_trailer(&mut self, trailer: Field<'_>, out: &mut Vec<u8>) {
        match self.response_state {
            ResponseState::Chunked => self.request.last_chunk.relay(trailer, out),
            ResponseState::UntilClose => {}
            other => debug_assert!(false, "relay_trailer: the response is {other:?}"),
        }
    }

    /// Completes a chunked or close-delimited response.
    pub fn end_chunks(&mut self, out: &mut Vec<u8>) {
        match self.response_state {
            ResponseState::Chunked => self.request.last_chunk.end(out),
            ResponseState::UntilClose => {}
            other => return debug_assert!(false, "end_chunks: the response is {other:?}"),
        }
        self.complete_response();
    }

    pub(super) fn complete_response(&mut self) {
        self.response_state = ResponseState::Nothing;
        self.request = RequestProperties::default();
        self.content_bytes = 0;
        self.request_state = match self.request_state {
            _ if self.close => RequestState::Over,
            RequestState::Content => RequestState::Draining,
            RequestState::Complete => RequestState::Head,
            refused => refused,
        };
    }

    /// Writes a complete error response with `Connection: close`, or nothing if a response has begun. Also for requests
    /// that time out (408). Returns the length of its content; None: nothing was written.
    pub fn refuse(&mut self, refusal: Refusal, date: &[u8; 29], out: &mut Vec<u8>) -> Option<u64> {
        let text = [refusal.reason.message(), "\n"].concat();
        self.refuse_with(refusal, TEXT, text.as_bytes(), date, out)
    }

    /// As [`refuse`](Self::refuse), with another body of this media type.
    pub fn refuse_with(
        &mut self,
        refusal: Refusal,
        media_type: &str,
        content: &[u8],
        date: &[u8; 29],
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let can_respond = matches!(self.response_state, ResponseState::Nothing | ResponseState::Due)
            && !matches!(self.request_state, RequestState::Draining | RequestState::Over);
        self.request_state = RequestState::Over;
        self.response_state = ResponseState::Nothing;
        self.close = true;
        if !can_respond {
            return None;
        }
        out.reserve(RESPONSE_HEAD_BYTES + content.len());
        push_status_line(out, refusal.status, self.http10_only);
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(media_type.as_bytes());
        out.extend_from_slice(b"\r\nContent-Length: ");
        push_decimal(out, content.len() as u64);
        out.extend_from_slice(b"\r\nConnection: close\r\nDate: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n\r\n");
        let sent: &[u8] = if self.request.is_head { b"" } else { content };
        out.extend_from_slice(sent);
        Some(sent.len() as u64)
    }

    /// Announces `Connection: close` in the responses from now on: the server is stopping, or needs the connection for
    /// another client. A response whose head was already written also closes the connection.
    pub fn close_after_response(&mut self) {
        self.close = true;
        if self.request_state == RequestState::Draining {
            self.request_state = RequestState::Over;
        }
    }
}

/// Adds header fields to a response.
#[derive(Debug)]
#[must_use = "the head ends with `end`"]
pub struct ResponseWriter<'c, 'o> {
    connection: &'c mut ServerConnection,
    fields: FieldWriter<'o>,
}

impl ResponseWriter<'_, '_> {
    /// Adds a field line, except `Content-Length` and `Transfer-Encoding`.
    ///
    /// # Errors
    /// As [`FieldBlock::push`]; nothing is written then.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidField> {
        self.fields.field(name, value)
    }

    /// Adds a field line whose value `write` appends; see [`FieldWriter::field_with`].
    ///
    /// # Errors
    /// The value is invalid; nothing is written then.
    #[inline]
    pub fn field_with(&mut self, name: FieldName, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), InvalidField> {
        self.fields.field_with(name, write)
    }

    /// Adds a field line with a decimal number.
    pub fn number(&mut self, name: FieldName, value: u64) {
        self.fields.number(name, value);
    }

    /// Adds serialised lines; see [`FieldWriter::lines`].
    ///
    /// # Errors
    /// They are not field lines, or frame the message; nothing is written then.
    pub fn lines(&mut self, lines: &[u8]) -> Result<(), InvalidField> {
        self.fields.lines(lines)
    }

    /// Adds a prepared block of lines.
    pub fn block(&mut self, block: &FieldBlock) {
        self.fields.block(block);
    }

    /// Forwards the fields of another response; see [`FieldWriter::relay`].
    pub fn relay(&mut self, fields: Fields<'_, '_>, keeps: impl Fn(&str) -> bool) {
        self.fields.relay(fields, keeps);
    }

    /// Forwards the announcement of trailers; see [`FieldWriter::announce_trailers`].
    pub fn announce_trailers(&mut self, fields: Fields<'_, '_>) {
        self.fields.announce_trailers(fields);
    }

    /// Adds an entry to Via; see [`FieldWriter::via`].
    pub fn via(&mut self, version: Version, name: &str) {
        self.fields.via(version, name);
    }

    /// Adds Date, whose value [`http_date`](breme_http::http_date) formats.
    pub fn date(&mut self, date: &[u8; 29]) {
        self.fields.date(date);
    }

    /// Ends the head.
    #[must_use]
    pub fn end(self) -> ResponseBody {
        self.fields.end();
        if self.connection.response_state == ResponseState::Omitted {
            self.connection.complete_response();
            return ResponseBody::Omitted;
        }
        ResponseBody::Expected
    }
}
