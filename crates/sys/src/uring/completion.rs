//! Completions, and the keys that identify them.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;

use super::buffers::ReceiveBuffer;

/// The caller's identifier of an operation's object; returned with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// Bits of a key; the others hold the operation.
    pub const BITS: u32 = 60;

    /// Truncates to [`Key::BITS`].
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value & ((1 << Self::BITS) - 1))
    }

    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// An operation in flight until it completes or is [cancelled](super::Ring::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingOperation {
    Accept,
    Receive,
    ReceiveWithTimestamps,
    Connect,
    Watch(PollEvent),
}

/// Events of [`Ring::watch`](super::Ring::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollEvent {
    /// Multishot.
    Readable,
    /// Single shot.
    ReadableOnce,
    /// Single shot.
    Writable,
    /// Error, or both sides closed. Single shot.
    Broken,
}

/// A completion. `has_more`: the operation is still in flight.
#[derive(Debug)]
pub enum Completion {
    Accepted {
        /// The listener's.
        key: Key,
        /// A non-blocking socket.
        outcome: io::Result<OwnedFd>,
        has_more: bool,
    },
    Received {
        /// The connection's.
        key: Key,
        /// None: the peer closed its side.
        outcome: io::Result<Option<ReceiveBuffer>>,
        has_more: bool,
    },
    Connected {
        /// The connection's.
        key: Key,
        outcome: io::Result<()>,
    },
    Polled {
        /// The descriptor's.
        key: Key,
        event: PollEvent,
        /// As in poll(2).
        outcome: io::Result<u32>,
        has_more: bool,
    },
}

/// A send that was not completed.
#[derive(Debug)]
pub struct Unsent {
    /// The connection's.
    pub key: Key,
    /// The unsent bytes.
    pub rest: Bytes,
    /// None: the socket buffer is full.
    pub error: Option<io::Error>,
}

/// Operation and key, encoded in the user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Its completion is ignored.
    Ignored,
    /// A send, by its index in the submission.
    Send(u32),
    Of(RingOperation, Key),
}

const OPERATIONS: [RingOperation; 8] = [
    RingOperation::Accept,
    RingOperation::Receive,
    RingOperation::Connect,
    RingOperation::Watch(PollEvent::Readable),
    RingOperation::Watch(PollEvent::Writable),
    RingOperation::Watch(PollEvent::Broken),
    RingOperation::ReceiveWithTimestamps,
    RingOperation::Watch(PollEvent::ReadableOnce),
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
                    RingOperation::Accept => 0,
                    RingOperation::Receive => 1,
                    RingOperation::Connect => 2,
                    RingOperation::Watch(PollEvent::Readable) => 3,
                    RingOperation::Watch(PollEvent::Writable) => 4,
                    RingOperation::Watch(PollEvent::Broken) => 5,
                    RingOperation::ReceiveWithTimestamps => 6,
                    RingOperation::Watch(PollEvent::ReadableOnce) => 7,
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
    fn tag_round_trips() {
        let keys = [0, 1, (1 << Key::BITS) - 1].map(Key::new);
        let operations = OPERATIONS.iter().flat_map(|&operation| keys.map(|key| Tag::Of(operation, key)));
        for tag in operations.chain([Tag::Ignored, Tag::Send(0), Tag::Send(u32::MAX)]) {
            assert_eq!(Tag::from_bits(tag.to_bits()), tag);
        }
        assert_eq!(Tag::from_bits(u64::MAX), Tag::Ignored);
    }
}
