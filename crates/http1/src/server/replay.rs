//! Exchanges replayed without parsing.
//!
//! Equal bytes have equal meaning unless something earlier on the connection changes it. A caller that cached a request
//! head and its response may replay them. This file defines when that is valid, and advances the connection as if it
//! had parsed the request and written the response.

use super::connection::{RequestProperties, RequestState, ResponseState, ServerConnection};
use breme_http::Limits;

impl ServerConnection {
    /// Whether the meaning of the next request follows from its bytes alone: none of it was received, the previous
    /// exchange is complete, and neither that one nor the limit of requests makes the next one the last of the
    /// connection.
    #[inline]
    #[must_use]
    pub fn can_replay(&self, limits: &Limits) -> bool {
        self.request_state == RequestState::Head
            && self.response_state == ResponseState::Nothing
            && self.scan.is_fresh()
            && self.empty_lines == 0
            && !self.close
            && self.request_count.saturating_add(1) < limits.requests_max
    }

    /// Records an exchange that was not parsed here. Its request is at the start of the input, byte for byte equal to
    /// one parsed with the same limits on a connection that [could replay](Self::can_replay) it before and after, and
    /// it is [replayable](breme_http::RequestHead::is_replayable). Its response equals the earlier one except for the
    /// date. Requires [`can_replay`](Self::can_replay).
    #[inline]
    pub fn replay_exchange(&mut self) {
        debug_assert!(
            self.request_state == RequestState::Head && self.response_state == ResponseState::Nothing && !self.close
        );
        self.request_count += 1;
    }
}

/// Request and response separately, for a response that is not available when the request arrives.
impl ServerConnection {
    /// Records a request that was not parsed here, as [`replay_exchange`](Self::replay_exchange); its response follows.
    /// Not for HEAD or CONNECT.
    #[inline]
    pub fn replay_request(&mut self) {
        debug_assert!(
            self.request_state == RequestState::Head && self.response_state == ResponseState::Nothing && !self.close
        );
        self.request_count += 1;
        self.content_bytes = 0;
        self.request = RequestProperties::default();
        self.response_state = ResponseState::Due;
        self.request_state = RequestState::Complete;
    }

    /// Whether the bytes of the response follow from its status, fields and content alone: the request is complete, its
    /// method and version do not affect the response, and the connection is persistent.
    #[inline]
    #[must_use]
    pub fn can_replay_response(&self) -> bool {
        let RequestProperties { is_head, is_connect, is_http10, .. } = self.request;
        self.response_state == ResponseState::Due
            && self.request_state == RequestState::Complete
            && !(self.close || self.http10_only || is_head || is_connect || is_http10)
    }

    /// Records a complete response that was not written here. Its bytes were written for another request on a
    /// connection that [could replay](Self::can_replay_response) them. Requires
    /// [`can_replay_response`](Self::can_replay_response).
    #[inline]
    pub fn replay_response(&mut self) {
        debug_assert!(self.can_replay_response());
        self.complete_response();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_http::{Framing, Refusal};

    use crate::{FieldStorage, Progress};

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    /// Reads one request and responds. Returns whether it is replayable.
    fn serve(server: &mut ServerConnection, input: &[u8], limits: &Limits) -> Result<bool, Refusal> {
        let mut storage = FieldStorage::new();
        let progress = server.receive(input, false, limits, &mut storage)?;
        let Progress::Head { head, taken } = progress else { panic!("{progress:?}") };
        assert_eq!(taken, input.len());
        let mut out = Vec::new();
        let content = server.respond(200, Framing::Length(5), DATE, &mut out).end();
        if content == crate::ResponseBody::Expected {
            server.content_sent();
        }
        Ok(head.is_replayable())
    }

    #[test]
    fn replayed_exchange_leaves_the_same_state() {
        let limits = Limits { requests_max: 5, ..Limits::default() };
        for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"] {
            let (mut reading, mut repeating) = (ServerConnection::new(), ServerConnection::new());
            for server in [&mut reading, &mut repeating] {
                assert!(server.can_replay(&limits));
                assert_eq!(serve(server, request.as_bytes(), &limits), Ok(true));
            }
            for count in 2..5 {
                assert!(repeating.can_replay(&limits), "request {count}");
                repeating.replay_exchange();
                serve(&mut reading, request.as_bytes(), &limits).unwrap();
                assert_eq!(format!("{repeating:?}"), format!("{reading:?}"));
            }
            assert!(!repeating.can_replay(&limits), "the last one says that it is the last");
        }
    }

    #[test]
    fn replayed_request_and_response_leave_the_same_state() {
        let limits = Limits::default();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let (mut reading, mut repeating) = (ServerConnection::new(), ServerConnection::new());
        for _ in 0..2 {
            let mut storage = FieldStorage::new();
            assert!(matches!(reading.receive(request, false, &limits, &mut storage), Ok(Progress::Head { .. })));
            assert!(repeating.can_replay(&limits));
            repeating.replay_request();
            assert_eq!(format!("{repeating:?}"), format!("{reading:?}"));
            assert!(reading.can_replay_response() && repeating.can_replay_response());
            let _ = reading.relay(200, Framing::Length(1), &mut Vec::new()).end();
            reading.content_sent();
            repeating.replay_response();
            assert_eq!(format!("{repeating:?}"), format!("{reading:?}"));
        }
    }

    #[test]
    fn special_requests_disable_response_replay() {
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
            assert!(!server.can_replay_response(), "{request}");
        }
    }

    #[test]
    fn earlier_input_disables_replay() {
        let limits = Limits::default();
        let begun = |input: &[u8]| {
            let mut server = ServerConnection::new();
            let _ = server.receive(input, false, &limits, &mut FieldStorage::new());
            server.can_replay(&limits)
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
        closing.close_after_response();
        assert!(!closing.can_replay(&limits));
    }

    #[test]
    fn only_http11_requests_without_content_are_replayable() {
        for (request, expected) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            ("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", false),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ] {
            let limits = Limits::default();
            let found = serve(&mut ServerConnection::new(), request.as_bytes(), &limits);
            assert_eq!(found, Ok(expected), "{request}");
        }
    }
}
