//! Fields that the operator of a server sets in every response.

use crate::fields::{FieldBlock, InvalidField};
use crate::hop_by_hop::is_hop_by_hop;
use crate::syntax::trim;

/// Fields that describe one response, so that the same value in all of them would be wrong.
const PER_RESPONSE: [&str; 6] = ["Age", "Content-Encoding", "Content-Range", "Date", "Set-Cookie", "Vary"];

/// Fields of every final response, in place of those of the same name that it has otherwise.
#[derive(Debug, Default)]
pub struct ResponseFields {
    lines: FieldBlock,
    /// Of the lines, and of fields that are only removed.
    names: Vec<String>,
}

/// Why a field cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseFieldError {
    #[error("{0:?} is not NAME: VALUE")]
    NoColon(String),
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    /// It frames the message, or depends on the response.
    #[error("{0} is written for each response and cannot be set")]
    PerResponse(String),
}

impl ResponseFields {
    /// From lines `NAME: VALUE`; `NAME:` without a value removes the field. A name may occur more than once.
    ///
    /// # Errors
    /// If a line has no colon or cannot be sent, or the field depends on each response.
    pub fn parse<'t>(lines: impl IntoIterator<Item = &'t str>) -> Result<Self, ResponseFieldError> {
        let mut fields = Self::default();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| ResponseFieldError::NoColon(line.to_owned()))?;
            let (name, value) = (name.trim(), trim(value.as_bytes()));
            if is_hop_by_hop(name) || PER_RESPONSE.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(ResponseFieldError::PerResponse(name.to_owned()));
            }
            if value.is_empty() {
                FieldBlock::new().push(name, value)?; // only to check the name
            } else {
                fields.lines.push(name, value)?;
            }
            fields.names.push(name.to_owned());
        }
        Ok(fields)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The lines to write.
    #[must_use]
    pub fn lines(&self) -> &FieldBlock {
        &self.lines
    }

    /// Removes the lines that these fields replace from `head`, where they begin at `start`. Each ends with CRLF.
    pub fn remove_replaced(&self, head: &mut Vec<u8>, start: usize) {
        // Most responses have none of them, and need no copy.
        if lines(head.get(start..).unwrap_or_default()).any(|line| self.replaces(line)) {
            let rest = head.split_off(start);
            lines(&rest).filter(|line| !self.replaces(line)).for_each(|line| head.extend_from_slice(line));
        }
    }

    fn replaces(&self, line: &[u8]) -> bool {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        self.names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_fields() {
        let fields = ResponseFields::parse(["X-One: a b ", "Server:", "link: </x>", "Link:</y>", "Empty:  "]).unwrap();
        assert_eq!(fields.lines().as_bytes(), b"X-One: a b\r\nlink: </x>\r\nLink: </y>\r\n");
        let mut head =
            b"SERVER/1\r\nserver: x\r\nServer-Timing: y\r\nLINK: z\r\nX-Two: server:\r\nEMPTY: \r\n".to_vec();
        fields.remove_replaced(&mut head, 10);
        assert_eq!(head, b"SERVER/1\r\nServer-Timing: y\r\nX-Two: server:\r\n");
        assert!(ResponseFields::parse([]).unwrap().is_empty());
    }

    #[test]
    fn refuses_what_would_break_a_response() {
        let error = |line| ResponseFields::parse([line]).unwrap_err().to_string();
        assert_eq!(error("X-One"), "\"X-One\" is not NAME: VALUE");
        for line in
            ["content-length: 1", "Transfer-Encoding: chunked", "Connection:", "Date: x", "Vary:", "set-cookie: a"]
        {
            assert!(error(line).contains("cannot be set"), "{line}");
        }
        for line in ["X One: 1", ": 1", "X: a\r\nY: b", "X: a\nb", "Ünïcode: 1", "X:\0"] {
            assert!(error(line).contains("cannot be sent"), "{line}");
        }
    }
}
