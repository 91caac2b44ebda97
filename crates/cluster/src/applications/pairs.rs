//! The content of a session: pairs, in the form in which they are displayed.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem;

/// Pairs in the order in which their names were first stored, each as a line `K=V`. Adding a pair copies the lines.
#[derive(Debug)]
pub(super) struct Pairs(Bytes);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairError {
    Name,
    Value,
}

impl fmt::Display for PairError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Name => "a name must not contain = or a line break",
            Self::Value => "a value has no line breaks",
        })
    }
}

impl Pairs {
    pub(super) const fn new(lines: Bytes) -> Self {
        Self(lines)
    }

    pub(super) const fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (start, end) = self.find(name)?;
        std::str::from_utf8(&self.0[start..end]).ok()
    }

    /// A copy with another pair. An existing name keeps its position and gets the new value.
    pub(super) fn with(&self, name: &str, value: &str) -> Result<Self, PairError> {
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if name.as_bytes().iter().any(|byte| *byte == b'=' || is_break(byte)) {
            return Err(PairError::Name);
        }
        if value.as_bytes().iter().any(is_break) {
            return Err(PairError::Value);
        }
        let mut lines = BytesMut::with_capacity(self.0.len() + name.len() + value.len() + 2);
        if let Some((start, end)) = self.find(name) {
            lines.put_slice(&self.0[..start]);
            lines.put_slice(value.as_bytes());
            lines.put_slice(&self.0[end..]);
        } else {
            lines.put_slice(&self.0);
            lines.put_slice(name.as_bytes());
            lines.put_u8(b'=');
            lines.put_slice(value.as_bytes());
            lines.put_u8(b'\n');
        }
        Ok(Self(lines.freeze()))
    }

    /// The range of the value of a name.
    fn find(&self, name: &str) -> Option<(usize, usize)> {
        let line = format!("\n{name}=");
        let start = if self.0.starts_with(&line.as_bytes()[1..]) {
            line.len() - 1
        } else {
            memmem::find(&self.0, line.as_bytes())? + line.len()
        };
        let length = memchr::memchr(b'\n', &self.0[start..])?;
        Some((start, start + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(given: &[(&str, &str)]) -> Pairs {
        let start = Pairs::new(Bytes::new());
        given.iter().fold(start, |pairs, (name, value)| pairs.with(name, value).unwrap())
    }

    #[test]
    fn pairs_keep_the_order_of_their_names() {
        let pairs = pairs(&[("b", "1"), ("a", "x=y"), ("ab", ""), ("", "empty"), ("b", "22"), ("a", "z")]);
        assert_eq!(pairs.bytes(), "b=22\na=z\nab=\n=empty\n");
        assert_eq!(pairs.get("b"), Some("22"));
        assert_eq!(pairs.get("ab"), Some(""));
        assert_eq!(pairs.get(""), Some("empty"));
        assert_eq!([pairs.get("z"), pairs.get("2")], [None, None], "a value is no name");
    }

    #[test]
    fn a_pair_is_one_line() {
        let empty = pairs(&[]);
        for (name, value, expected) in [
            ("a=b", "c", PairError::Name),
            ("a\nb", "c", PairError::Name),
            ("a", "b\nc=d", PairError::Value),
            ("a", "b\r", PairError::Value),
        ] {
            assert_eq!(empty.with(name, value).unwrap_err(), expected, "{name:?} {value:?}");
        }
    }
}
