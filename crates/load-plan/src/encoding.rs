//! How the value of a variable is encoded: as is, as part of a URL, or as the inside of a JSON string.

use std::io::Write;

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As is.
    Plain,
    /// Percent-encoded, for a path, a query or a form.
    Url,
    /// As the inside of a JSON string.
    Json,
}

/// An encoding that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name:?} is not an encoding; write {{{variable}}}, {{{variable}:url}} or {{{variable}:json}}")]
pub struct UnknownEncoding {
    pub variable: String,
    pub name: String,
}

impl Encoding {
    pub(crate) fn parse(variable: &str, name: &str) -> Result<Self, UnknownEncoding> {
        match name {
            "" => Ok(Self::Plain),
            "url" => Ok(Self::Url),
            "json" => Ok(Self::Json),
            other => Err(UnknownEncoding { variable: variable.to_owned(), name: other.to_owned() }),
        }
    }

    /// The longest encoding of a byte: `%20`, `\u0001`.
    pub(crate) const fn bytes_per_byte_max(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::Url => 3,
            Self::Json => 6,
        }
    }

    pub(crate) fn push(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Plain => out.extend_from_slice(value),
            Self::Url => push_encoded(value, is_unreserved, out),
            Self::Json => push_json(value, out),
        }
    }
}

/// Splits `token:url` into the name and the encoding.
pub(crate) fn split_encoding(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, ""))
}

/// RFC 3986, 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Percent-encodes all bytes except those for which `is_literal` is true.
fn push_encoded(value: &[u8], is_literal: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    for &byte in value {
        if is_literal(byte) {
            out.push(byte);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Percent-encodes bytes that are invalid in a request target; existing encodings are kept.
pub(crate) fn push_target(value: &[u8], out: &mut Vec<u8>) {
    push_encoded(value, |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte), out);
}

/// RFC 8259, 7.
fn push_json(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(byte),
        }
    }
}
