//! Responses whose head came before, byte for byte.
//!
//! A server says the same head again and again: between two ticks of its Date field nothing in it changes. The same
//! bytes have the same meaning, so a client that receives millions of them need not read them anew: it compares, and
//! takes the whole response in one step. What is not familiar, or not there to its last byte, goes the usual way, which
//! also decides every doubt.

use crate::client::ClientConnection;
use crate::{Framing, ResponseHead, Version};

/// The last head of a response with a known length, for all connections to one server.
#[derive(Debug, Default)]
pub struct FamiliarHead {
    /// Up to and with the empty line; none yet: empty.
    bytes: Vec<u8>,
    status: u16,
    content_bytes: usize,
    keep_alive: bool,
}

/// A response of which every byte is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeResponse<'a> {
    /// 200 to 999.
    pub status: u16,
    /// All of it.
    pub content: &'a [u8],
    /// Bytes used.
    pub taken: usize,
    /// Whether the connection can carry further requests.
    pub keep_alive: bool,
}

impl FamiliarHead {
    /// A longer head does not become familiar.
    pub const BYTES_MAX: usize = 1024;

    /// No head yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The response at the start of `input`, if its head is this one and its content is complete.
    fn whole<'a>(&self, input: &'a [u8]) -> Option<WholeResponse<'a>> {
        let is_known = !self.bytes.is_empty() && input.starts_with(&self.bytes);
        let taken = self.bytes.len().saturating_add(self.content_bytes);
        let content = is_known.then(|| input.get(self.bytes.len()..taken))??;
        Some(WholeResponse { status: self.status, content, taken, keep_alive: self.keep_alive })
    }

    /// Forgets it.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Whether there is one, so that what was learnt with it is of use.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn learn(&mut self, bytes: &[u8], status: u16, content_bytes: usize, keep_alive: bool) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        (self.status, self.content_bytes, self.keep_alive) = (status, content_bytes, keep_alive);
    }
}

impl ClientConnection {
    /// The whole response at the start of `input`, if its head is familiar: the head, its content and its end in one
    /// step. None: nothing has happened, call [`receive`](Self::receive).
    ///
    /// `familiar` must come from connections to the same server that were read with the same limits.
    #[inline]
    pub fn receive_whole<'a>(&mut self, input: &'a [u8], familiar: &FamiliarHead) -> Option<WholeResponse<'a>> {
        if !self.expects_plain_response() {
            return None;
        }
        let whole = familiar.whole(input)?;
        self.pass_response(whole.keep_alive);
        Some(whole)
    }

    /// Makes the head that [`receive`](Self::receive) has just found familiar, if that can be of use. `bytes` are those
    /// that it took.
    pub fn remember(&self, bytes: &[u8], head: &ResponseHead<'_, '_>, familiar: &mut FamiliarHead) {
        let content_bytes = match head.framing {
            Framing::None => Some(0),
            Framing::Length(length) => usize::try_from(length).ok(),
            Framing::Chunked | Framing::UntilClose => None,
        };
        if let Some(content_bytes) = content_bytes
            && bytes.len() <= FamiliarHead::BYTES_MAX
            && head.version == Version::Http11
            && self.asked_plainly()
        {
            familiar.learn(bytes, head.status, content_bytes, head.keep_alive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientProgress, FieldStorage, Limits, Method};

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello";

    /// Reads one response the usual way.
    fn read(client: &mut ClientConnection, input: &[u8], familiar: &mut FamiliarHead) -> Vec<u8> {
        let (mut rest, mut content) = (input, Vec::new());
        loop {
            let mut storage = FieldStorage::new();
            match client.receive(rest, false, &Limits::default(), &mut storage).unwrap() {
                ClientProgress::Head { head, taken } => {
                    client.remember(&rest[..taken], &head, familiar);
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

    fn acquainted() -> (ClientConnection, FamiliarHead) {
        let (mut client, mut familiar) = (ClientConnection::new(), FamiliarHead::new());
        client.sent(Method::Get);
        assert_eq!(client.receive_whole(RESPONSE, &familiar), None, "a stranger");
        assert_eq!(read(&mut client, RESPONSE, &mut familiar), b"hello");
        (client, familiar)
    }

    #[test]
    fn the_same_bytes_are_taken_in_one_step() {
        let (mut client, familiar) = acquainted();
        client.sent(Method::Get);
        client.sent(Method::Post);
        let two = [RESPONSE, RESPONSE].concat();
        let expected = WholeResponse { status: 200, content: b"hello", taken: RESPONSE.len(), keep_alive: true };
        assert_eq!(client.receive_whole(&two, &familiar), Some(expected));
        assert_eq!(client.outstanding(), 1);
        assert_eq!(client.receive_whole(&two[RESPONSE.len()..], &familiar), Some(expected));
        assert_eq!(client.outstanding(), 0);
        assert_eq!(client.receive_whole(RESPONSE, &familiar), None, "nothing is due");
    }

    #[test]
    fn what_is_not_whole_or_not_the_same_goes_the_usual_way() {
        let (mut client, mut familiar) = acquainted();
        client.sent(Method::Get);
        for length in 0..RESPONSE.len() {
            assert_eq!(client.receive_whole(&RESPONSE[..length], &familiar), None, "{length} bytes");
        }
        for place in 0..RESPONSE.len() - 5 {
            let mut other = RESPONSE.to_vec();
            other[place] ^= 1;
            assert_eq!(client.receive_whole(&other, &familiar), None, "byte {place}");
        }
        // Begun the usual way, it is ended the usual way.
        let mut storage = FieldStorage::new();
        let begun = client.receive(&RESPONSE[..20], false, &Limits::default(), &mut storage);
        assert!(matches!(begun, Ok(ClientProgress::NeedMore { .. })));
        assert_eq!(client.receive_whole(RESPONSE, &familiar), None);
        assert_eq!(read(&mut client, RESPONSE, &mut familiar), b"hello");
    }

    #[test]
    fn an_answer_to_head_is_another_thing() {
        let (mut client, mut familiar) = acquainted();
        let head = &RESPONSE[..RESPONSE.len() - 5];
        client.sent(Method::Head);
        assert_eq!(client.receive_whole(RESPONSE, &familiar), None);
        assert_eq!(read(&mut client, head, &mut FamiliarHead::new()), b"");
        // Nor does it teach anything.
        client.sent(Method::Head);
        let before = familiar.bytes.clone();
        familiar.bytes.clear();
        assert_eq!(read(&mut client, head, &mut familiar), b"");
        assert!(familiar.bytes.is_empty() && !before.is_empty());
    }

    #[test]
    fn the_last_response_of_a_connection_is_the_last() {
        let closing = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        let (mut client, mut familiar) = (ClientConnection::new(), FamiliarHead::new());
        client.sent(Method::Get);
        read(&mut client, closing, &mut familiar);
        let mut client = ClientConnection::new();
        client.sent(Method::Get);
        let whole = client.receive_whole(closing, &familiar).unwrap();
        assert_eq!((whole.status, whole.keep_alive, client.can_send(Method::Get)), (204, false, false));
    }

    #[test]
    fn what_has_no_length_or_is_long_does_not_become_familiar() {
        let long =
            format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(FamiliarHead::BYTES_MAX));
        for response in ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &long] {
            let (mut client, mut familiar) = (ClientConnection::new(), FamiliarHead::new());
            client.sent(Method::Get);
            read(&mut client, response.as_bytes(), &mut familiar);
            assert!(familiar.bytes.is_empty(), "{response}");
        }
    }
}
