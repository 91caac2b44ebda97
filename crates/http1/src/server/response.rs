//! Writes responses: head, framing, persistence.

use std::ops::{Deref, DerefMut};

use breme_http::media_type::TEXT;
use breme_http::{Field, Framing, Refusal};

use super::connection::{RequestProperties, RequestState, ResponseState, ServerConnection};
use crate::relay::{FieldName, FieldWriter, push_chunk};
use crate::status::{push_framing, push_status_line};

/// Bytes reserved for a response head.
const RESPONSE_HEAD_BYTES: usize = 256;
const CONTENT_TYPE: FieldName = FieldName::new("Content-Type");

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
        ResponseWriter::of_final(self, out)
    }

    /// Begins an interim response (1xx other than 101). None for an HTTP/1.0 client, or if the final response has
    /// begun.
    pub fn interim<'o>(&mut self, status: u16, out: &'o mut Vec<u8>) -> Option<ResponseWriter<'_, 'o>> {
        debug_assert!((100..200).contains(&status) && status != 101, "interim: {status} is not an interim status");
        if self.request.is_http10 || self.response_state != ResponseState::Due {
            return None;
        }
        self.request.continue_due &= status != 100;
        push_status_line(out, status, false);
        Some(ResponseWriter::new(self, out))
    }

    /// Begins the response that turns this connection into a tunnel: 101 to a request that [requested an
    /// upgrade](breme_http::RequestHead::requests_upgrade), or 2xx to CONNECT. Bytes after the request and after this
    /// head belong to the caller.
    pub fn begin_tunnel<'o>(&mut self, status: u16, out: &'o mut Vec<u8>) -> ResponseWriter<'_, 'o> {
        debug_assert_eq!(self.response_state, ResponseState::Due, "begin_tunnel: no request waits for a response");
        push_status_line(out, status, false);
        if status == 101 {
            out.extend_from_slice(b"Connection: upgrade\r\n");
        }
        self.close = true;
        self.response_state = ResponseState::Omitted;
        ResponseWriter::new(self, out)
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
        let mut writer = self.begin_refusal(refusal.status, text.len() as u64, out)?;
        writer.date(date);
        // It is a constant, and valid.
        let _ = writer.field_with(CONTENT_TYPE, |out| out.extend_from_slice(TEXT.as_bytes()));
        if writer.end() == ResponseBody::Omitted {
            return Some(0);
        }
        out.extend_from_slice(text.as_bytes());
        self.content_sent();
        Some(text.len() as u64)
    }

    /// As [`refuse`](Self::refuse), with further fields and another content, of this length. The connection reads no
    /// more requests, even if the result is None.
    pub fn begin_refusal<'o>(
        &mut self,
        status: u16,
        length: u64,
        out: &'o mut Vec<u8>,
    ) -> Option<ResponseWriter<'_, 'o>> {
        let can_respond = matches!(self.response_state, ResponseState::Nothing | ResponseState::Due)
            && !matches!(self.request_state, RequestState::Draining | RequestState::Over);
        self.request_state = RequestState::Over;
        self.response_state = if can_respond { ResponseState::Due } else { ResponseState::Nothing };
        self.close = true;
        can_respond.then(|| self.relay(status, Framing::Length(length), out))
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

/// Adds header fields to a response; see [`FieldWriter`].
#[derive(Debug)]
#[must_use = "the head ends with `end`"]
pub struct ResponseWriter<'c, 'o> {
    connection: &'c mut ServerConnection,
    fields: FieldWriter<'o>,
    /// Where the fields begin that those of the operator replace.
    replaced_from: Option<usize>,
}

impl<'o> Deref for ResponseWriter<'_, 'o> {
    type Target = FieldWriter<'o>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl DerefMut for ResponseWriter<'_, '_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.fields
    }
}

impl<'c, 'o> ResponseWriter<'c, 'o> {
    fn new(connection: &'c mut ServerConnection, out: &'o mut Vec<u8>) -> Self {
        Self { connection, fields: FieldWriter::resume(out), replaced_from: None }
    }

    /// Writes the fields of the operator first.
    fn of_final(connection: &'c mut ServerConnection, out: &'o mut Vec<u8>) -> Self {
        let replaced_from = connection.response_fields.as_ref().map(|set| {
            out.extend_from_slice(set.lines().as_bytes());
            out.len()
        });
        Self { connection, fields: FieldWriter::resume(out), replaced_from }
    }

    /// Ends the head. After an interim response, the final one is still due.
    #[must_use]
    pub fn end(mut self) -> ResponseBody {
        if let (Some(start), Some(set)) = (self.replaced_from, &self.connection.response_fields) {
            self.fields.remove_replaced(set, start);
        }
        self.fields.end();
        if self.connection.response_state == ResponseState::Omitted {
            self.connection.complete_response();
            return ResponseBody::Omitted;
        }
        ResponseBody::Expected
    }
}
