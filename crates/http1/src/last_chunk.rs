//! The end of forwarded chunked content.

use breme_http::fields::push_checked_line;
use breme_http::trailers::is_relayed;
use breme_http::{Field, Fields};

/// The end of forwarded chunked content: last chunk, trailers, empty line (RFC 9112, 7.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastChunk {
    /// The last chunk is written; trailers may follow.
    is_begun: bool,
    /// Trailers are not forwarded.
    is_bare: bool,
}

impl LastChunk {
    const SIZE: &[u8] = b"0\r\n";

    /// For a message with these fields; trailers are forwarded if they [may be](Fields::keep_trailers).
    #[must_use]
    pub fn from_fields(fields: Fields<'_, '_>) -> Self {
        Self { is_begun: false, is_bare: !fields.keep_trailers() }
    }

    /// Forwards a received trailer, if its name permits.
    pub fn relay(&mut self, trailer: Field<'_>, out: &mut Vec<u8>) {
        if self.is_bare || !is_relayed(trailer.name) {
            return;
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            out.extend_from_slice(Self::SIZE);
        }
        push_checked_line(out, trailer.name, trailer.value);
    }

    /// Writes the last chunk, unless a trailer was forwarded after it, and the empty line.
    pub fn end(self, out: &mut Vec<u8>) {
        if !self.is_begun {
            out.extend_from_slice(Self::SIZE);
        }
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(trailers: &[(&str, &str)]) -> String {
        let (mut last, mut out) = (LastChunk::default(), Vec::new());
        for &(name, value) in trailers {
            last.relay(Field { name, value: value.as_bytes() }, &mut out);
        }
        last.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_trailers_after_last_chunk() {
        assert_eq!(relayed(&[]), "0\r\n\r\n");
        assert_eq!(relayed(&[("X-A", "b"), ("grpc-status", "")]), "0\r\nX-A: b\r\ngrpc-status: \r\n\r\n");
        assert_eq!(relayed(&[("Content-Digest", "sha-256=:x:")]), "0\r\nContent-Digest: sha-256=:x:\r\n\r\n");
    }

    #[test]
    fn drops_header_only_fields_from_trailers() {
        for name in ["Content-Length", "TRANSFER-ENCODING", "X_Real_IP", "Via", "Set-Cookie", "X!A"] {
            assert_eq!(relayed(&[("X-A", "b"), (name, "c")]), "0\r\nX-A: b\r\n\r\n", "{name}");
            assert_eq!(relayed(&[(name, "c")]), "0\r\n\r\n", "{name}");
        }
    }
}
