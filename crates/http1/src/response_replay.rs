//! A cache of the last response head.
//!
//! A server repeats a head unchanged until its Date field changes. A client compares the received bytes with the last
//! head and, if they are equal and the whole body is there, consumes the response in one step. Everything else, and
//! every error, is left to the parser.

use breme_http::{Framing, ResponseHead, Version};

use crate::client::ClientConnection;

/// The last response head with a known length, for all connections to one server.
#[derive(Debug, Default)]
pub struct ReplayHead {
    /// Including the empty line. Empty if no head is recorded.
    bytes: Vec<u8>,
    status: u16,
    content_bytes: usize,
    keep_alive: bool,
}

/// A response received completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeResponse<'a> {
    pub status: u16,
    pub content: &'a [u8],
    /// Bytes consumed.
    pub taken: usize,
    /// Whether the connection is persistent.
    pub keep_alive: bool,
}

impl ReplayHead {
    /// Longer heads are not recorded. In bytes.
    pub const BYTES_MAX: usize = 1024;

    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The response at the start of `input`, if it has this head and its body is complete.
    fn whole<'a>(&self, input: &'a [u8]) -> Option<WholeResponse<'a>> {
        let is_set = !self.bytes.is_empty() && input.starts_with(&self.bytes);
        let taken = self.bytes.len().saturating_add(self.content_bytes);
        let content = is_set.then(|| input.get(self.bytes.len()..taken))??;
        Some(WholeResponse { status: self.status, content, taken, keep_alive: self.keep_alive })
    }

    /// Forgets the recorded head.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    fn set(&mut self, bytes: &[u8], status: u16, content_bytes: usize, keep_alive: bool) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        (self.status, self.content_bytes, self.keep_alive) = (status, content_bytes, keep_alive);
    }
}

impl ClientConnection {
    /// Consumes the whole response at the start of `input`, if it has the recorded head. On None nothing was consumed:
    /// call [`receive`](Self::receive).
    ///
    /// `replay` must come from connections to the same server that were parsed with the same limits.
    #[inline]
    pub fn receive_whole<'a>(&mut self, input: &'a [u8], replay: &ReplayHead) -> Option<WholeResponse<'a>> {
        if !self.expects_plain_response() {
            return None;
        }
        let whole = replay.whole(input)?;
        self.pass_response(whole.keep_alive);
        Some(whole)
    }

    /// Records the head that [`receive`](Self::receive) has just returned, if it can be replayed. `bytes` are its
    /// bytes.
    pub fn record_head(&self, bytes: &[u8], head: &ResponseHead<'_, '_>, replay: &mut ReplayHead) {
        let content_bytes = match head.framing {
            Framing::None => Some(0),
            Framing::Length(length) => usize::try_from(length).ok(),
            Framing::Chunked | Framing::UntilClose => None,
        };
        if let Some(content_bytes) = content_bytes
            && bytes.len() <= ReplayHead::BYTES_MAX
            && head.version == Version::Http11
            && self.request_is_plain()
        {
            replay.set(bytes, head.status, content_bytes, head.keep_alive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_http::{Limits, Method};

    use crate::{ClientProgress, FieldStorage};

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello";

    /// Parses one response.
    fn read(client: &mut ClientConnection, input: &[u8], replay: &mut ReplayHead) -> Vec<u8> {
        let (mut rest, mut content) = (input, Vec::new());
        loop {
            let mut storage = FieldStorage::new();
            match client.receive(rest, false, &Limits::default(), &mut storage).unwrap() {
                ClientProgress::Head { head, taken } => {
                    client.record_head(&rest[..taken], &head, replay);
                    rest = &rest[taken..];
                }
                ClientProgress::Content { bytes, taken } => {
                    content.extend_from_slice(bytes);
                    rest = &rest[taken..];
                }
                ClientProgress::End { .. } => return content,
                other => panic!("{other:?}"),
            }
        }
    }

    fn with_replay() -> (ClientConnection, ReplayHead) {
        let (mut client, mut replay) = (ClientConnection::new(), ReplayHead::new());
        client.sent(Method::Get);
        assert_eq!(client.receive_whole(RESPONSE, &replay), None, "a stranger");
        assert_eq!(read(&mut client, RESPONSE, &mut replay), b"hello");
        (client, replay)
    }

    #[test]
    fn replays_identical_responses() {
        let (mut client, replay) = with_replay();
        client.sent(Method::Get);
        client.sent(Method::Post);
        let two = [RESPONSE, RESPONSE].concat();
        let expected = WholeResponse { status: 200, content: b"hello", taken: RESPONSE.len(), keep_alive: true };
        assert_eq!(client.receive_whole(&two, &replay), Some(expected));
        assert_eq!(client.outstanding(), 1);
        assert_eq!(client.receive_whole(&two[RESPONSE.len()..], &replay), Some(expected));
        assert_eq!(client.outstanding(), 0);
        assert_eq!(client.receive_whole(RESPONSE, &replay), None, "nothing is due");
    }

    #[test]
    fn parses_partial_and_different_responses() {
        let (mut client, mut replay) = with_replay();
        client.sent(Method::Get);
        for length in 0..RESPONSE.len() {
            assert_eq!(client.receive_whole(&RESPONSE[..length], &replay), None, "{length} bytes");
        }
        for place in 0..RESPONSE.len() - 5 {
            let mut other = RESPONSE.to_vec();
            other[place] ^= 1;
            assert_eq!(client.receive_whole(&other, &replay), None, "byte {place}");
        }
        // A response begun by the parser is finished by the parser.
        let mut storage = FieldStorage::new();
        let begun = client.receive(&RESPONSE[..20], false, &Limits::default(), &mut storage);
        assert!(matches!(begun, Ok(ClientProgress::NeedMore { .. })));
        assert_eq!(client.receive_whole(RESPONSE, &replay), None);
        assert_eq!(read(&mut client, RESPONSE, &mut replay), b"hello");
    }

    #[test]
    fn head_responses_are_not_replayed() {
        let (mut client, mut replay) = with_replay();
        let head = &RESPONSE[..RESPONSE.len() - 5];
        client.sent(Method::Head);
        assert_eq!(client.receive_whole(RESPONSE, &replay), None);
        assert_eq!(read(&mut client, head, &mut ReplayHead::new()), b"");
        // It is not recorded either.
        client.sent(Method::Head);
        let before = replay.bytes.clone();
        replay.bytes.clear();
        assert_eq!(read(&mut client, head, &mut replay), b"");
        assert!(replay.bytes.is_empty() && !before.is_empty());
    }

    #[test]
    fn replayed_last_response_closes_the_connection() {
        let closing = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        let (mut client, mut replay) = (ClientConnection::new(), ReplayHead::new());
        client.sent(Method::Get);
        read(&mut client, closing, &mut replay);
        let mut client = ClientConnection::new();
        client.sent(Method::Get);
        let whole = client.receive_whole(closing, &replay).unwrap();
        assert_eq!((whole.status, whole.keep_alive, client.can_send(Method::Get)), (204, false, false));
    }

    #[test]
    fn chunked_and_long_heads_are_not_recorded() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(ReplayHead::BYTES_MAX));
        for response in ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &long] {
            let (mut client, mut replay) = (ClientConnection::new(), ReplayHead::new());
            client.sent(Method::Get);
            read(&mut client, response.as_bytes(), &mut replay);
            assert!(replay.bytes.is_empty(), "{response}");
        }
    }
}
