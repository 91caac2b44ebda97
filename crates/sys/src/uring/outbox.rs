//! Bytes of the sends in one submission, kept until it has returned: copied, or shared by reference.

use std::io;

use bytes::Bytes;

use super::completion::{Key, Unsent};

/// Bytes copied per submission.
const BYTES_MAX: usize = 256 * 1024;
/// Sends per submission.
const SENDS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Outbox {
    memory: Box<[u8]>,
    used: usize,
    sends: Vec<PendingSend>,
}

#[derive(Debug)]
struct PendingSend {
    key: Key,
    bytes: SendBytes,
}

#[derive(Debug)]
enum SendBytes {
    /// In the outbox's memory.
    Copied { start: usize, length: usize },
    /// Immutable, with a reference held here.
    Shared(Bytes),
}

/// Bytes that neither move nor change until [`Outbox::clear`].
pub(super) struct PlacedSend {
    pub(super) slot: u32,
    pub(super) address: *const u8,
    pub(super) length: u32,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { memory: vec![0; BYTES_MAX].into_boxed_slice(), used: 0, sends: Vec::with_capacity(SENDS_MAX) }
    }

    /// Copies `pieces`, concatenated. None: the outbox is full.
    pub(super) fn copy(&mut self, key: Key, pieces: &[&[u8]]) -> Option<PlacedSend> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if self.sends.len() >= SENDS_MAX {
            return None;
        }
        let start = self.used;
        let copy = self.memory.get_mut(start..start + length)?;
        let mut position = 0;
        for piece in pieces {
            copy[position..position + piece.len()].copy_from_slice(piece);
            position += piece.len();
        }
        let address = copy.as_ptr();
        self.used = start + length;
        Some(self.add(key, SendBytes::Copied { start, length }, address, length))
    }

    /// Keeps a reference to `segment`. None: the outbox is full.
    pub(super) fn hold(&mut self, key: Key, segment: &Bytes) -> Option<PlacedSend> {
        if self.sends.len() >= SENDS_MAX {
            return None;
        }
        Some(self.add(key, SendBytes::Shared(segment.clone()), segment.as_ptr(), segment.len()))
    }

    fn add(&mut self, key: Key, bytes: SendBytes, address: *const u8, length: usize) -> PlacedSend {
        let slot = self.sends.len() as u32;
        self.sends.push(PendingSend { key, bytes });
        PlacedSend { slot, address, length: length as u32 }
    }

    pub(super) fn count(&self) -> usize {
        self.sends.len()
    }

    /// What send `slot` did not send, given its result.
    pub(super) fn unsent(&self, slot: u32, result: i32) -> Option<Unsent> {
        let PendingSend { key, ref bytes } = *self.sends.get(slot as usize)?;
        let error = (result < 0 && result != -libc::EAGAIN).then(|| io::Error::from_raw_os_error(-result));
        let sent = usize::try_from(result).unwrap_or(0);
        let rest = match bytes {
            SendBytes::Copied { start, length } => {
                Bytes::copy_from_slice(&self.memory[start + sent.min(*length)..start + length])
            }
            SendBytes::Shared(segment) => segment.slice(sent.min(segment.len())..),
        };
        (!rest.is_empty() || error.is_some()).then_some(Unsent { key, rest, error })
    }

    /// Call it after the submission has returned and its failures were read.
    pub(super) fn clear(&mut self) {
        self.sends.clear();
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_segment_is_referenced_until_clear() {
        let mut outbox = Outbox::new();
        let segment = Bytes::from(vec![7; 3 * BYTES_MAX]);
        for index in 0..SENDS_MAX as u64 {
            let placed = outbox.hold(Key::new(index), &segment).unwrap();
            assert_eq!((placed.address, placed.length as usize), (segment.as_ptr(), segment.len()));
        }
        assert!(outbox.hold(Key::new(0), &segment).is_none() && outbox.copy(Key::new(0), &[]).is_none());
        let rest = outbox.unsent(5, 100).unwrap().rest;
        assert_eq!((rest.as_ptr(), rest.len()), (segment[100..].as_ptr(), segment.len() - 100));
        assert!(outbox.unsent(5, segment.len() as i32).is_none());
        assert!(!segment.is_unique());
        outbox.clear();
        drop(rest);
        assert!(segment.is_unique());
    }

    #[test]
    fn short_send_reports_rest() {
        let mut outbox = Outbox::new();
        let first = outbox.copy(Key::new(7), &[b"fi", b"", b"rst"]).unwrap();
        let second = outbox.copy(Key::new(8), &[b"second"]).unwrap();
        let short = outbox.unsent(first.slot, 2).unwrap();
        assert_eq!((short.key, &short.rest[..], short.error.is_some()), (Key::new(7), b"rst".as_slice(), false));
        let full = outbox.unsent(second.slot, -libc::EAGAIN).unwrap();
        assert_eq!((full.key, &full.rest[..], full.error.is_some()), (Key::new(8), b"second".as_slice(), false));
        let broken = outbox.unsent(second.slot, -libc::EPIPE).unwrap();
        assert_eq!(broken.error.unwrap().kind(), io::ErrorKind::BrokenPipe);
        assert!(outbox.unsent(first.slot, 5).is_none() && outbox.unsent(9, 0).is_none());
        assert!(outbox.copy(Key::new(9), &[&[0; BYTES_MAX]]).is_none());
        outbox.clear();
        assert!(outbox.copy(Key::new(9), &[&[0; BYTES_MAX]]).is_some());
    }
}
