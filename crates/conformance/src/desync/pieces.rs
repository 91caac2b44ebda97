//! What the cases are made of.

/// What the hidden request asks for. A server that is asked for it has been deceived.
pub const HIDDEN_TARGET: &str = "/bytes/9?hidden";

/// Bytes for one connection that somebody might read in two ways.
#[derive(Clone, Debug)]
pub struct Attack {
    /// A name for reports.
    pub name: String,
    /// What the client sends.
    pub send: Vec<u8>,
    /// The one way in which it may be read.
    pub reading: Reading,
}

/// How an attack may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Not at all: one answer that refuses it, the end of the connection, and no whole request goes on.
    Refused,
    /// As so many requests for `/bytes/3`; the connection lives on.
    Requests(usize),
}

/// Bytes that one reader or another skips, trims, or takes for the end of a line: all control bytes, space, and some
/// that are blanks in wider sets.
pub(super) fn odd_bytes() -> impl Iterator<Item = u8> {
    (0..=0x20).chain([0x7f, 0x80, 0x85, 0xa0, 0xad, 0xff])
}

/// Optional white space (RFC 9110, 5.6.3), which belongs to no value.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The request that is hidden.
pub(super) fn hidden() -> String {
    format!("GET {HIDDEN_TARGET} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// The same as a chunk and the end of chunked content.
pub(super) fn hidden_in_chunks() -> String {
    format!("{:x}\r\n{}\r\n0\r\n\r\n", hidden().len(), hidden())
}

/// A POST with these field lines (without the last line's end), and what stands behind its head.
pub(super) fn post(fields: impl AsRef<[u8]>, behind: impl AsRef<[u8]>) -> Vec<u8> {
    [b"POST /bytes/3 HTTP/1.1\r\nHost: a\r\n", fields.as_ref(), b"\r\n\r\n", behind.as_ref()].concat()
}

pub(super) fn refused(name: impl Into<String>, send: Vec<u8>) -> Attack {
    Attack { name: name.into(), send, reading: Reading::Refused }
}

pub(super) fn one_request(name: impl Into<String>, send: Vec<u8>) -> Attack {
    Attack { name: name.into(), send, reading: Reading::Requests(1) }
}

/// How a byte or a line is called in a report.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
