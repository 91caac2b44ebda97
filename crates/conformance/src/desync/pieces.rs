//! What the cases have in common: the hidden request, odd bytes, and the allowed interpretations.

/// The target of the hidden request, which no server may receive.
pub const HIDDEN_TARGET: &str = "/bytes/9?hidden";

/// Bytes for one connection that may be interpreted in two ways.
#[derive(Clone, Debug)]
pub struct Attack {
    pub name: String,
    pub send: Vec<u8>,
    /// The only allowed interpretation.
    pub reading: Reading,
}

/// Allowed interpretations of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Invalid: one error response, the end of the connection, and no complete request is forwarded.
    Refused,
    /// As this many requests for `/bytes/3`; the connection persists.
    Requests(usize),
}

/// Bytes that some parser skips, trims, or treats as the end of a line: all control bytes, space, and some that are
/// white space in larger character sets.
pub(super) fn odd_bytes() -> impl Iterator<Item = u8> {
    (0..=0x20).chain([0x7f, 0x80, 0x85, 0xa0, 0xad, 0xff])
}

/// Optional white space (RFC 9110, section 5.6.3), which is not part of a value.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) fn hidden() -> String {
    format!("GET {HIDDEN_TARGET} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// The hidden request as a chunk, followed by the end of chunked content.
pub(super) fn hidden_in_chunks() -> String {
    format!("{:x}\r\n{}\r\n0\r\n\r\n", hidden().len(), hidden())
}

/// A POST with these field lines (without the last line's end), and the bytes after its head.
pub(super) fn post(fields: impl AsRef<[u8]>, behind: impl AsRef<[u8]>) -> Vec<u8> {
    [b"POST /bytes/3 HTTP/1.1\r\nHost: a\r\n", fields.as_ref(), b"\r\n\r\n", behind.as_ref()].concat()
}

pub(super) fn refused(name: impl Into<String>, send: Vec<u8>) -> Attack {
    Attack { name: name.into(), send, reading: Reading::Refused }
}

pub(super) fn one_request(name: impl Into<String>, send: Vec<u8>) -> Attack {
    Attack { name: name.into(), send, reading: Reading::Requests(1) }
}

/// Formats a byte or a line for a report.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
