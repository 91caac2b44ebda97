//! From an answer to bytes: its head, its framing, what it means for the connection.

use super::connection::{Answering, Exchange, Receiving, ServerConnection};
use crate::refusal::Refusal;
use crate::relay::{FieldName, FieldWriter, push_chunk};
use crate::status::{push_decimal, push_framing, push_status_line};
use crate::{Field, FieldBlock, Fields, Framing, InvalidField, Version};

/// Room that is made at once for a response's head.
const RESPONSE_HEAD_BYTES: usize = 256;

/// Whether the content of the response that was begun may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Send it: exactly the length that was announced, or by [`ServerConnection::chunk`].
    Expected,
    /// Send nothing: the request was HEAD, or the status has no content, or the length is 0. The response is complete.
    Omitted,
}

impl ServerConnection {
    /// Writes `100 Continue`, if the client waits for it and none of the content has come.
    pub fn send_continue(&mut self, out: &mut Vec<u8>) {
        if self.exchange.continue_due && self.answering == Answering::Due {
            self.exchange.continue_due = false;
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    /// Begins the response: status line and the fields of framing and connection. `framing` is `Length`, `Chunked`
    /// (becomes close-delimited for an HTTP/1.0 client) or `None` (no content: no length for 204, 304 and HEAD, else a
    /// length of 0). `date` is the Date field's value, as [`http_date`](crate::http_date) writes it.
    ///
    /// Only for a request that was received and not yet answered, with a final status (200 to 999).
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

    /// As [`respond`](Self::respond), for a response that somebody else has made: without a date of its own.
    pub fn relay<'o>(&mut self, status: u16, framing: Framing, out: &'o mut Vec<u8>) -> ResponseWriter<'_, 'o> {
        debug_assert_eq!(self.answering, Answering::Due, "respond: no request waits for an answer");
        debug_assert!((200..1000).contains(&status), "respond: {status} is not a final status");
        let (announced, answering) = self.shape(status, framing);
        self.answering = answering;
        self.decide_close();
        out.reserve(RESPONSE_HEAD_BYTES);
        push_status_line(out, status, self.http10_only);
        push_framing(out, announced);
        self.push_connection(out);
        ResponseWriter { connection: self, fields: FieldWriter::resume(out) }
    }

    /// Begins an interim response (1xx other than 101). None if the client would not understand it, or the final
    /// response was begun.
    pub fn interim<'o>(&mut self, status: u16, out: &'o mut Vec<u8>) -> Option<FieldWriter<'o>> {
        debug_assert!((100..200).contains(&status) && status != 101, "interim: {status} is not an interim status");
        if self.exchange.is_http10 || self.answering != Answering::Due {
            return None;
        }
        self.exchange.continue_due &= status != 100;
        push_status_line(out, status, false);
        Some(FieldWriter::resume(out))
    }

    /// Begins the response with which this connection ceases to be one of HTTP: 101 to a request that [asked for
    /// it](crate::RequestHead::asks_upgrade), or 2xx to CONNECT. What comes behind the request and what is sent behind
    /// this head are the caller's.
    pub fn begin_tunnel<'o>(&mut self, status: u16, out: &'o mut Vec<u8>) -> FieldWriter<'o> {
        debug_assert_eq!(self.answering, Answering::Due, "begin_tunnel: no request waits for an answer");
        push_status_line(out, status, false);
        if status == 101 {
            out.extend_from_slice(b"Connection: upgrade\r\n");
        }
        self.close = true;
        self.complete_answer();
        FieldWriter::resume(out)
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

    /// A client that waits for 100 may or may not send its content after another answer (RFC 9110, 10.1.1), and much
    /// unwanted content costs more than a new connection.
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
            Answering::Chunked => push_chunk(out, bytes),
            Answering::UntilClose => out.extend_from_slice(bytes),
            other => debug_assert!(false, "chunk: the response is {other:?}"),
        }
    }

    /// Passes on a trailer of a chunked response behind its last [chunk](Self::chunk). Behind content that ends with
    /// the connection there is no place for one.
    pub fn relay_trailer(&mut self, trailer: Field<'_>, out: &mut Vec<u8>) {
        match self.answering {
            Answering::Chunked => self.exchange.last_chunk.relay(trailer, out),
            Answering::UntilClose => {}
            other => debug_assert!(false, "relay_trailer: the response is {other:?}"),
        }
    }

    /// Ends a chunked (or close-delimited) response: it is complete.
    pub fn end_chunks(&mut self, out: &mut Vec<u8>) {
        match self.answering {
            Answering::Chunked => self.exchange.last_chunk.end(out),
            Answering::UntilClose => {}
            other => return debug_assert!(false, "end_chunks: the response is {other:?}"),
        }
        self.complete_answer();
    }

    pub(super) fn complete_answer(&mut self) {
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
        let text = [refusal.reason.message(), "\n"].concat();
        self.refuse_with(refusal, "text/plain; charset=utf-8", text.as_bytes(), date, out);
    }

    /// The same with another body, of this media type.
    pub fn refuse_with(
        &mut self,
        refusal: Refusal,
        media_type: &str,
        content: &[u8],
        date: &[u8; 29],
        out: &mut Vec<u8>,
    ) {
        let answerable = matches!(self.answering, Answering::Nothing | Answering::Due)
            && !matches!(self.receiving, Receiving::Draining | Receiving::Over);
        self.receiving = Receiving::Over;
        self.answering = Answering::Nothing;
        self.close = true;
        if !answerable {
            return;
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
        if !self.exchange.is_head {
            out.extend_from_slice(content);
        }
    }

    /// From now on answers say `Connection: close` (the server is stopping). A response whose head was begun before
    /// ends the connection too, although it could not say so any more.
    pub fn close_after_this(&mut self) {
        self.close = true;
        if self.receiving == Receiving::Draining {
            self.receiving = Receiving::Over;
        }
    }
}

/// Adds fields to a response that was begun.
#[derive(Debug)]
#[must_use = "the head ends with `end`"]
pub struct ResponseWriter<'c, 'o> {
    connection: &'c mut ServerConnection,
    fields: FieldWriter<'o>,
}

impl ResponseWriter<'_, '_> {
    /// Adds a field line. `Content-Length` and `Transfer-Encoding` are not for the caller to set.
    ///
    /// # Errors
    /// As [`FieldBlock::push`]; nothing is written then.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidField> {
        self.fields.field(name, value)
    }

    /// Adds a field line whose value `write` appends; see [`FieldWriter::field_with`].
    ///
    /// # Errors
    /// As that one.
    #[inline]
    pub fn field_with(&mut self, name: FieldName, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), InvalidField> {
        self.fields.field_with(name, write)
    }

    /// Adds a field line whose value is a number.
    pub fn number(&mut self, name: FieldName, value: u64) {
        self.fields.number(name, value);
    }

    /// Adds lines that were written elsewhere; see [`FieldWriter::lines`].
    ///
    /// # Errors
    /// As that one.
    pub fn lines(&mut self, lines: &[u8]) -> Result<(), InvalidField> {
        self.fields.lines(lines)
    }

    /// Adds lines that were built before.
    pub fn block(&mut self, block: &FieldBlock) {
        self.fields.block(block);
    }

    /// Passes on the fields of another response; see [`FieldWriter::relay`].
    pub fn relay(&mut self, fields: Fields<'_, '_>, keeps: impl Fn(&str) -> bool) {
        self.fields.relay(fields, keeps);
    }

    /// Passes on what trailers are announced; see [`FieldWriter::announce_trailers`].
    pub fn announce_trailers(&mut self, fields: Fields<'_, '_>) {
        self.fields.announce_trailers(fields);
    }

    /// Adds a member to Via; see [`FieldWriter::via`].
    pub fn via(&mut self, version: Version, name: &str) {
        self.fields.via(version, name);
    }

    /// Adds the date.
    pub fn date(&mut self, date: &[u8; 29]) {
        self.fields.date(date);
    }

    /// Ends the head.
    #[must_use]
    pub fn end(self) -> Content {
        self.fields.end();
        if self.connection.answering == Answering::Omitted {
            self.connection.complete_answer();
            return Content::Omitted;
        }
        Content::Expected
    }
}
