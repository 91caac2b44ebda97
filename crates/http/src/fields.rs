//! Field sections: borrowed ones that were received, and prepared blocks that are sent often.

use crate::syntax::{is_blank, is_token, is_value, members};

/// A field line: a name as received, and a value without surrounding white space. It is the tokeniser's type, so that
/// HTTP/1 fills it without a copy.
pub use httparse::Header as Field;

/// A received field section.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a, 'f> {
    headers: &'f [Field<'a>],
    names: NameSet,
}

/// A Bloom filter of names, so that most lookups of absent fields cost a few instructions.
#[derive(Clone, Copy, Debug, Default)]
struct NameSet(u64);

impl NameSet {
    #[inline]
    fn add(&mut self, name: &str) {
        self.0 |= Self::bit(name);
    }

    /// If false, no field has this name, in any case.
    #[inline]
    const fn may_contain(self, name: &str) -> bool {
        self.0 & Self::bit(name) != 0
    }

    /// Length and first letter distinguish most names.
    #[inline]
    const fn bit(name: &str) -> u64 {
        const CASE: u8 = 0x20;
        let first = if name.is_empty() { 0 } else { name.as_bytes()[0] | CASE };
        1 << ((name.len() as u64 * 11 + first as u64) % u64::BITS as u64)
    }
}

impl<'a, 'f> Fields<'a, 'f> {
    #[must_use]
    pub fn new(headers: &'f [Field<'a>]) -> Self {
        let mut names = NameSet::default();
        headers.iter().for_each(|header| names.add(header.name));
        Self { headers, names }
    }

    /// The field lines of this name, in any case.
    #[inline]
    fn named<'n>(self, name: &'n str) -> impl Iterator<Item = &'f Field<'a>> + use<'a, 'f, 'n> {
        let headers = if self.names.may_contain(name) { self.headers } else { &[] };
        headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name))
    }

    pub fn iter(self) -> impl Iterator<Item = Field<'a>> + 'f {
        self.headers.iter().copied()
    }

    #[must_use]
    pub fn len(self) -> usize {
        self.headers.len()
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.headers.is_empty()
    }

    #[must_use]
    #[inline]
    pub fn first(self, name: &str) -> Option<&'a [u8]> {
        self.named(name).next().map(|header| header.value)
    }

    #[inline]
    pub fn all<'n>(self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'f, 'n> {
        self.named(name).map(|header| header.value)
    }

    /// The members of all field lines of this name as comma-separated lists (RFC 9110, 5.6.1), without empty ones.
    /// Commas in quoted strings do not separate.
    pub fn list<'n>(self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'f, 'n> {
        self.all(name).flat_map(members)
    }
}

/// The members of one comma-separated list (RFC 9110, 5.6.1), trimmed, without empty ones. Commas in quoted strings do
/// not separate.
pub fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    members(value)
}

/// A name or value that would end its field line or the section (RFC 9110, 5.5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} cannot be sent: a name must be a token, a value must not contain CR, LF, NUL or other control bytes, or white space at its ends"
)]
pub struct InvalidField {
    pub name: String,
}

impl InvalidField {
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }
}

/// Writes a field line as in HTTP/1. All fields that were not received pass here or [`is_sendable`], so that a name or
/// value that would end its line cannot be written (RFC 9110, 5.5).
///
/// # Errors
/// As [`FieldBlock::push`]; nothing is written then.
pub fn push_field_line(out: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), InvalidField> {
    if !is_token(name.as_bytes()) || !is_sendable(value) {
        return Err(InvalidField::new(name));
    }
    push_checked_line(out, name, value);
    Ok(())
}

/// Writes a field line whose name and value the caller has validated.
pub fn push_checked_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whether a recipient would read this value unchanged.
#[must_use]
pub fn is_sendable(value: &[u8]) -> bool {
    let at_an_end = |byte: Option<&u8>| byte.is_some_and(|&byte| is_blank(byte));
    is_value(value) && !at_an_end(value.first()) && !at_an_end(value.last())
}

/// Validated field lines in the form of HTTP/1, built once and sent often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldBlock {
    bytes: Vec<u8>,
}

impl FieldBlock {
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// An empty block with capacity for lines of this many bytes, including line ends.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// Adds a field line.
    ///
    /// # Errors
    /// If the name is not a token, or the value contains CR, LF, NUL or another control byte (HTAB is allowed), or
    /// begins or ends with white space.
    pub fn push(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidField> {
        push_field_line(&mut self.bytes, name, value)
    }

    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it contains a line of this name, in any case.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.names().any(|known| known.eq_ignore_ascii_case(name.as_bytes()))
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        // A value contains no line feed, so each one ends a line.
        let lines = self.bytes.split_inclusive(|&byte| byte == b'\n');
        lines.map(|line| line.split(|&byte| byte == b':').next().unwrap_or_default())
    }

    /// The lines, each ending with CRLF.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_join_all_lines_of_a_field() {
        let header = |name, value| Field { name, value };
        let headers = [
            header("Accept", b"a, b" as &[u8]),
            header("Other", b"x"),
            header("ACCEPT", b"\"c,d\"\t, ,"),
            header("accept", b"e"),
        ];
        let fields = Fields::new(&headers);
        let found: Vec<&[u8]> = fields.list("accept").collect();
        assert_eq!(found, [b"a" as &[u8], b"b", b"\"c,d\"", b"e"]);
        assert_eq!(fields.list("none").count(), 0);
        assert_eq!(fields.first("aCCEPT"), Some(b"a, b" as &[u8]));
        assert_eq!((fields.len(), fields.is_empty()), (4, false));
    }

    #[test]
    fn finds_names_in_any_case() {
        let names = ["Host", "User-Agent", "Accept", "Accept-Language", "Cookie", "X-Forwarded-For", "X", "~"];
        let headers = names.map(|name| Field { name, value: name.as_bytes() });
        let fields = Fields::new(&headers);
        for name in names {
            for wanted in [name.to_owned(), name.to_ascii_lowercase(), name.to_ascii_uppercase()] {
                assert_eq!(fields.first(&wanted), Some(name.as_bytes()), "{wanted}");
            }
        }
        for absent in ["", "Hos", "Hosts", "Tsoh", "Range", "If-Match", "Via", "Cookie2"] {
            assert_eq!(fields.first(absent), None, "{absent}");
        }
    }

    #[test]
    fn field_block_rejects_line_breaks() {
        let mut block = FieldBlock::new();
        block.push("X-One", b"1").unwrap();
        block.push("Empty", b"").unwrap();
        block.push("Wide", "a\tb é:".as_bytes()).unwrap();
        let before = block.clone();
        assert_eq!(block.as_bytes(), "X-One: 1\r\nEmpty: \r\nWide: a\tb é:\r\n".as_bytes());
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("a\r\nb", "x"),
            ("é", "x"),
            ("a", "x\r\ny"),
            ("a", "x\ny"),
            ("a", "x\ry"),
            ("a", "\0"),
            ("a", "\x7f"),
            ("a", " x"),
            ("a", "x\t"),
        ] {
            assert_eq!(block.push(name, value.as_bytes()), Err(InvalidField { name: name.to_owned() }));
            assert_eq!(block, before);
        }
        assert!(block.contains("empty") && block.contains("x-one") && !block.contains("x"));
    }
}
