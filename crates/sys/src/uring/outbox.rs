//! The bytes of the sends of one submission, until it has returned.

use std::io;

use super::completion::{Key, Unsent};

/// Bytes of all sends of one submission.
const BYTES_MAX: usize = 256 * 1024;
/// Sends of one submission.
const SENDS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Outbox {
    memory: Box<[u8]>,
    used: usize,
    sends: Vec<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    key: Key,
    start: usize,
    length: usize,
}

/// A copy of the bytes that stays where it is until [`Outbox::clear`].
pub(super) struct Placed {
    pub(super) place: u32,
    pub(super) address: *const u8,
    pub(super) length: u32,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { memory: vec![0; BYTES_MAX].into_boxed_slice(), used: 0, sends: Vec::with_capacity(SENDS_MAX) }
    }

    /// None: it is full.
    pub(super) fn place(&mut self, key: Key, pieces: &[&[u8]]) -> Option<Placed> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if self.sends.len() >= SENDS_MAX {
            return None;
        }
        let start = self.used;
        let copy = self.memory.get_mut(start..start + length)?;
        let mut place = 0;
        for piece in pieces {
            copy[place..place + piece.len()].copy_from_slice(piece);
            place += piece.len();
        }
        let placed = Placed { place: self.sends.len() as u32, address: copy.as_ptr(), length: length as u32 };
        self.sends.push(Waiting { key, start, length });
        self.used = start + length;
        Some(placed)
    }

    pub(super) fn count(&self) -> usize {
        self.sends.len()
    }

    /// What did not leave of the send at `place`, by its completion's result.
    pub(super) fn unsent(&self, place: u32, result: i32) -> Option<Unsent> {
        let Waiting { key, start, length } = *self.sends.get(place as usize)?;
        let sent = usize::try_from(result).unwrap_or(0).min(length);
        let error = (result < 0 && result != -libc::EAGAIN).then(|| io::Error::from_raw_os_error(-result));
        let rest = self.memory[start + sent..start + length].to_vec();
        (!rest.is_empty() || error.is_some()).then_some(Unsent { key, rest, error })
    }

    /// The submission has returned, and its failures have been read.
    pub(super) fn clear(&mut self) {
        self.sends.clear();
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_short_send_is_told_and_a_full_outbox_refuses() {
        let mut outbox = Outbox::new();
        let first = outbox.place(Key::new(7), &[b"fi", b"", b"rst"]).unwrap();
        let second = outbox.place(Key::new(8), &[b"second"]).unwrap();
        let short = outbox.unsent(first.place, 2).unwrap();
        assert_eq!((short.key, short.rest.as_slice(), short.error.is_some()), (Key::new(7), b"rst".as_slice(), false));
        let full = outbox.unsent(second.place, -libc::EAGAIN).unwrap();
        assert_eq!((full.key, full.rest.as_slice(), full.error.is_some()), (Key::new(8), b"second".as_slice(), false));
        let broken = outbox.unsent(second.place, -libc::EPIPE).unwrap();
        assert_eq!(broken.error.unwrap().kind(), io::ErrorKind::BrokenPipe);
        assert!(outbox.unsent(first.place, 5).is_none() && outbox.unsent(9, 0).is_none());
        assert!(outbox.place(Key::new(9), &[&[0; BYTES_MAX]]).is_none());
        outbox.clear();
        assert!(outbox.place(Key::new(9), &[&[0; BYTES_MAX]]).is_some());
    }
}
