//! What the protocol requires of an engine: registers, each with a value and the sequence number of its last change.
//!
//! | verb | message | what the engine promises |
//! |---|---|---|
//! | read | [`EngineRequest::Read`] | a value that the register had; perhaps not the newest |
//! | compare and set | [`EngineRequest::CompareAndSet`] | takes effect only if the register's sequence is `expected`; `Committed` after that is durable; all changes of a register have one order, and each has a greater sequence than the one before |
//! | watch | `Input::Watched` | nothing: changes may arrive late, several times, or not at all |
//! | time to live | [`EngineRequest::CompareAndSet::time_to_live`] | the value expires after that time at the earliest, better not much later; the register is then absent |
//!
//! An absent register has the sequence 0, so `expected` 0 means "must be absent". A compare-and-set that got no
//! response may take effect later, but not later than `Settings::tombstone`. One in the log of NATS may take effect
//! later still, if a majority of the servers is frozen, but it does so before any later change of the register.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::id::SessionKey;
use crate::name::NodeName;

/// Numbers the changes of a register; 0 if it is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    pub const ABSENT: Self = Self(0);
}

/// A register of the engine. Its text form is its name there: `s.` and 32 hexadecimal digits, or `n.` and a node's
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Register {
    Session(SessionKey),
    Node(NodeName),
}

impl fmt::Display for Register {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(key) => write!(formatter, "s.{key}"),
            Self::Node(name) => write!(formatter, "n.{name}"),
        }
    }
}

impl Register {
    /// Parses the text form.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name.split_at_checked(2)? {
            ("s.", digits) => SessionKey::from_digits(digits).map(Self::Session),
            ("n.", name) => NodeName::from_bytes(name.as_bytes()).map(Self::Node),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EngineRequest {
    /// Returns the value of a register; an older one is allowed.
    Read {
        /// The register to be read.
        register: Register,
    },
    /// Replaces the value of a register, unless it has changed since `expected`.
    CompareAndSet {
        register: Register,
        /// Sequence of the value to be replaced.
        expected: Sequence,
        value: Bytes,
        /// The value is not needed after this time.
        time_to_live: Option<Duration>,
    },
}

impl EngineRequest {
    #[must_use]
    pub const fn register(&self) -> Register {
        match self {
            Self::Read { register } | Self::CompareAndSet { register, .. } => *register,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EngineResponse {
    /// To a read: the value and its sequence, or that the register is absent.
    Found(Option<(Sequence, Bytes)>),
    /// The compare-and-set took effect, and this is its sequence.
    Committed(Sequence),
    /// The compare-and-set did not take effect: the register's sequence was another.
    Conflict,
    /// The request did not and will not take effect (no connection, no leader, a limit is reached).
    Refused,
    /// Unknown whether it took effect, or will (no response in time, connection lost).
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_again_by_their_names() {
        let key = SessionKey::from_digits("00112233445566778899aabbccddeeff").unwrap();
        for register in [Register::Session(key), Register::Node(NodeName::new("b").unwrap())] {
            assert_eq!(Register::from_name(&register.to_string()), Some(register));
        }
        for wrong in ["", "s", "s.", "s.00", "n.", "x.a", "s.00112233445566778899AABBCCDDEEFF", "ä"] {
            assert_eq!(Register::from_name(wrong), None, "{wrong}");
        }
    }
}
