//! Exchanges that are the same as one before, byte for byte.
//!
//! The same bytes have the same meaning wherever nothing that came before them on the connection changes it. Who has
//! kept the head of a request that was judged here, and its answer, may then give that answer again without reading the
//! head anew. This file says when that holds, and takes the connection past such an exchange as if it had read and
//! answered it.

use super::connection::{Answering, Exchange, Receiving, ServerConnection};
use crate::{Framing, Limits, RequestHead, Version};

impl ServerConnection {
    /// Whether what the next request means follows from its bytes alone: nothing of it was seen, the exchange before is
    /// complete, and neither that one nor the number of requests makes the next one the connection's last.
    #[inline]
    #[must_use]
    pub fn may_repeat(&self, limits: &Limits) -> bool {
        self.receiving == Receiving::Head
            && self.answering == Answering::Nothing
            && self.scan.is_fresh()
            && self.empty_lines == 0
            && !self.close
            && self.request_count.saturating_add(1) < limits.requests_max
    }

    /// Notes an exchange that was not read and answered here: its request stands byte for byte in the input, was
    /// received before on a connection that [might repeat](Self::may_repeat) it, with the same limits, was
    /// [repeatable](RequestHead::is_repeatable), and left that connection able to repeat it again; its answer is what
    /// was answered then, but for the date. Only while this connection may repeat.
    #[inline]
    pub fn repeat_exchange(&mut self) {
        debug_assert!(self.receiving == Receiving::Head && self.answering == Answering::Nothing && !self.close);
        self.request_count += 1;
    }
}

/// The two halves of an exchange, for those whose answer is not at hand when the request comes.
impl ServerConnection {
    /// Notes a request that was not read here; as [`repeat_exchange`](Self::repeat_exchange), but its answer is to
    /// follow. Not for HEAD, nor for CONNECT.
    #[inline]
    pub fn repeat_request(&mut self) {
        debug_assert!(self.receiving == Receiving::Head && self.answering == Answering::Nothing && !self.close);
        self.request_count += 1;
        self.content_bytes = 0;
        self.exchange = Exchange::default();
        self.answering = Answering::Due;
        self.receiving = Receiving::Complete;
    }

    /// Whether the bytes of an answer follow from its status, fields and content alone: the request is complete, its
    /// method and version do not change how it is answered, and the connection stays.
    #[inline]
    #[must_use]
    pub fn may_repeat_answer(&self) -> bool {
        let Exchange { is_head, is_connect, is_http10, .. } = self.exchange;
        self.answering == Answering::Due
            && self.receiving == Receiving::Complete
            && !(self.close || self.http10_only || is_head || is_connect || is_http10)
    }

    /// Notes an answer that was not written here, to its last byte: its bytes are those that were written to another
    /// request on a connection that [might repeat](Self::may_repeat_answer) them. Only while this connection may repeat
    /// them.
    #[inline]
    pub fn repeat_answer(&mut self) {
        debug_assert!(self.may_repeat_answer());
        self.complete_answer();
    }
}

impl RequestHead<'_, '_> {
    /// Whether the request is complete with its head, and in the version that all clients speak: only such ones are
    /// worth remembering.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.version == Version::Http11 && self.framing == Framing::None && !self.expects_continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldStorage, Progress, Refusal};

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    /// Reads one request and answers it. Tells whether it was repeatable.
    fn exchange(server: &mut ServerConnection, input: &[u8], limits: &Limits) -> Result<bool, Refusal> {
        let mut storage = FieldStorage::new();
        let progress = server.receive(input, false, limits, &mut storage)?;
        let Progress::Head { head, taken } = progress else { panic!("{progress:?}") };
        assert_eq!(taken, input.len());
        let mut out = Vec::new();
        let content = server.respond(200, Framing::Length(5), DATE, &mut out).end();
        if content == crate::Content::Expected {
            server.content_sent();
        }
        Ok(head.is_repeatable())
    }

    #[test]
    fn a_repeated_exchange_leaves_what_a_read_one_leaves() {
        let limits = Limits { requests_max: 5, ..Limits::default() };
        for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"] {
            let (mut reading, mut repeating) = (ServerConnection::new(), ServerConnection::new());
            for server in [&mut reading, &mut repeating] {
                assert!(server.may_repeat(&limits));
                assert_eq!(exchange(server, request.as_bytes(), &limits), Ok(true));
            }
            for count in 2..5 {
                assert!(repeating.may_repeat(&limits), "request {count}");
                repeating.repeat_exchange();
                exchange(&mut reading, request.as_bytes(), &limits).unwrap();
                assert_eq!(format!("{repeating:?}"), format!("{reading:?}"));
            }
            assert!(!repeating.may_repeat(&limits), "the last one says that it is the last");
        }
    }

    #[test]
    fn repeated_halves_leave_what_a_read_exchange_leaves() {
        let limits = Limits::default();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let (mut reading, mut repeating) = (ServerConnection::new(), ServerConnection::new());
        for _ in 0..2 {
            let mut storage = FieldStorage::new();
            assert!(matches!(reading.receive(request, false, &limits, &mut storage), Ok(Progress::Head { .. })));
            assert!(repeating.may_repeat(&limits));
            repeating.repeat_request();
            assert_eq!(format!("{repeating:?}"), format!("{reading:?}"));
            assert!(reading.may_repeat_answer() && repeating.may_repeat_answer());
            let _ = reading.relay(200, Framing::Length(1), &mut Vec::new()).end();
            reading.content_sent();
            repeating.repeat_answer();
            assert_eq!(format!("{repeating:?}"), format!("{reading:?}"));
        }
    }

    #[test]
    fn what_changes_an_answer_forbids_to_repeat_it() {
        for request in [
            "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        ] {
            let (mut server, mut storage) = (ServerConnection::new(), FieldStorage::new());
            let progress = server.receive(request.as_bytes(), false, &Limits::default(), &mut storage);
            assert!(matches!(progress, Ok(Progress::Head { .. })), "{request}");
            assert!(!server.may_repeat_answer(), "{request}");
        }
    }

    #[test]
    fn what_came_before_may_forbid_it() {
        let limits = Limits::default();
        let begun = |input: &[u8]| {
            let mut server = ServerConnection::new();
            let _ = server.receive(input, false, &limits, &mut FieldStorage::new());
            server.may_repeat(&limits)
        };
        assert!(begun(b""));
        for input in [
            &b"G"[..],
            b"\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        ] {
            assert!(!begun(input), "{}", input.escape_ascii());
        }
        let mut closing = ServerConnection::new();
        closing.close_after_this();
        assert!(!closing.may_repeat(&limits));
    }

    #[test]
    fn what_has_content_or_is_old_is_not_repeatable() {
        for (request, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            ("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ] {
            let limits = Limits::default();
            let found = exchange(&mut ServerConnection::new(), request.as_bytes(), &limits);
            assert_eq!(found, Ok(expected), "{request}");
        }
    }
}
