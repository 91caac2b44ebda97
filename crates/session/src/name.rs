//! Names of nodes, and their lives.

use std::fmt;

/// Bounded because it is part of cookies.
pub const NAME_MAX: usize = 32;

/// The name of a node: unique in its cluster and stable across restarts. It is the route part of cookies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    bytes: [u8; NAME_MAX],
    length: u8,
}

impl NodeName {
    /// A name of 1 to [`NAME_MAX`] ASCII letters, digits, `-` and `_`.
    ///
    /// # Errors
    ///
    /// If it is anything else.
    pub fn new(name: &str) -> Result<Self, NameError> {
        Self::from_bytes(name.as_bytes()).ok_or_else(|| NameError(name.chars().take(2 * NAME_MAX).collect()))
    }

    pub(crate) fn from_bytes(name: &[u8]) -> Option<Self> {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || name.len() > NAME_MAX || !name.iter().all(is_allowed) {
            return None;
        }
        let mut bytes = [0; NAME_MAX];
        bytes[..name.len()].copy_from_slice(name);
        Some(Self { bytes, length: name.len() as u8 })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be the name of a node: use 1 to {max} ASCII letters, digits, `-` and `_`", max = NAME_MAX)]
pub struct NameError(String);

/// One life of a node: it takes a new incarnation when it starts and when it has lost its lease.
///
/// `number` grows by one each time, in the node's register, so that a later life is recognised even from a stale copy.
/// `nonce` is drawn when the process starts and distinguishes two processes of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    /// Number of the life, from 1.
    pub number: u64,
    pub nonce: u64,
}

/// The owner of a session: a node in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub node: NodeName,
    pub incarnation: Incarnation,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        assert_eq!(NodeName::new("node-1").unwrap().to_string(), "node-1");
        assert!(NodeName::new(&"n".repeat(32)).is_ok());
        for wrong in ["", "a.b", "ä", "a b", &"n".repeat(33)] {
            assert!(NodeName::new(wrong).is_err(), "{wrong}");
        }
    }
}
