//! What comes back from a ring, and the names by which it is known again.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;

use super::Lease;

/// The caller's name for whatever a wish is about; it comes back with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// Bits that a key may have; the others tell the operation.
    pub const BITS: u32 = 60;

    /// A key; bits above [`Key::BITS`] are cut off.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value & ((1 << Self::BITS) - 1))
    }

    /// The number that it was made of.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// An operation that stays in flight until something happens or it is [cancelled](super::Ring::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`Ring::accept`](super::Ring::accept).
    Accept,
    /// [`Ring::receive`](super::Ring::receive).
    Receive,
    /// [`Ring::receive_with_stamps`](super::Ring::receive_with_stamps).
    ReceiveWithStamps,
    /// [`Ring::connect`](super::Ring::connect).
    Connect,
    /// [`Ring::watch`](super::Ring::watch).
    Watch(Watched),
}

/// What is waited for at a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// There is something to read, again and again.
    Readable,
    /// It takes bytes; told once.
    Writable,
    /// It is broken, or both sides have ended; told once.
    Broken,
}

/// Something happened. `goes_on`: the operation is still in flight, and there may be more of its completions.
#[derive(Debug)]
pub enum Completion {
    /// A connection was accepted, or accepting failed.
    Accepted {
        /// The listener's.
        key: Key,
        /// The connection, which does not wait.
        outcome: io::Result<OwnedFd>,
        /// See [`Completion`].
        goes_on: bool,
    },
    /// Bytes came; or their end, which is an empty lease or none; or receiving failed.
    Received {
        /// The connection's.
        key: Key,
        /// The bytes. None: the peer has ended its sending.
        outcome: io::Result<Option<Lease>>,
        /// See [`Completion`].
        goes_on: bool,
    },
    /// A connection was opened, or not.
    Connected {
        /// The connection's.
        key: Key,
        /// What became of it.
        outcome: io::Result<()>,
    },
    /// What was waited for is there, or waiting failed.
    Seen {
        /// The descriptor's.
        key: Key,
        /// Which wish it answers.
        watched: Watched,
        /// The events, as poll(2) names them.
        outcome: io::Result<u32>,
        /// See [`Completion`].
        goes_on: bool,
    },
}

/// A send that did not leave as a whole.
#[derive(Debug)]
pub struct Unsent {
    /// The connection's.
    pub key: Key,
    /// What has not left.
    pub rest: Bytes,
    /// None: the kernel takes no more for now.
    pub error: Option<io::Error>,
}

/// The operation and the key in the one number that the kernel carries for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Nobody waits for it.
    Ignored,
    /// A send, by its place in the submission.
    Send(u32),
    Of(Operation, Key),
}

const OPERATIONS: [Operation; 7] = [
    Operation::Accept,
    Operation::Receive,
    Operation::Connect,
    Operation::Watch(Watched::Readable),
    Operation::Watch(Watched::Writable),
    Operation::Watch(Watched::Broken),
    Operation::ReceiveWithStamps,
];
const SEND: u64 = 1;
const FIRST_OPERATION: u64 = 2;

impl Tag {
    pub(super) fn to_bits(self) -> u64 {
        match self {
            Self::Ignored => 0,
            Self::Send(place) => SEND << Key::BITS | u64::from(place),
            Self::Of(operation, key) => {
                let code = match operation {
                    Operation::Accept => 0,
                    Operation::Receive => 1,
                    Operation::Connect => 2,
                    Operation::Watch(Watched::Readable) => 3,
                    Operation::Watch(Watched::Writable) => 4,
                    Operation::Watch(Watched::Broken) => 5,
                    Operation::ReceiveWithStamps => 6,
                };
                (FIRST_OPERATION + code) << Key::BITS | key.0
            }
        }
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        match bits >> Key::BITS {
            SEND => Self::Send(bits as u32),
            code => match code.checked_sub(FIRST_OPERATION).and_then(|place| OPERATIONS.get(place as usize)) {
                Some(&operation) => Self::Of(operation, Key::new(bits)),
                None => Self::Ignored,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        let keys = [0, 1, (1 << Key::BITS) - 1].map(Key::new);
        let operations = OPERATIONS.iter().flat_map(|&operation| keys.map(|key| Tag::Of(operation, key)));
        for tag in operations.chain([Tag::Ignored, Tag::Send(0), Tag::Send(u32::MAX)]) {
            assert_eq!(Tag::from_bits(tag.to_bits()), tag);
        }
        assert_eq!(Tag::from_bits(u64::MAX), Tag::Ignored);
    }
}
