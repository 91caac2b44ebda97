//! What the kernel has not taken yet of one connection. It exists only while it is not empty.

use std::collections::VecDeque;
use std::io::IoSlice;

use breme_node::FileRange;
use bytes::{Buf, Bytes};

use crate::engine::Reading;
use crate::socket::{Moved, SendFailure};
use crate::transport::{SEGMENTS_PER_SEND, Transport};

/// Bytes of a file that one call asks for: enough to make the call cheap, few enough to leave the others their turn.
const FILE_BYTES_PER_SEND: u64 = 512 * 1024;

#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    segments: VecDeque<Segment>,
    bytes: u64,
    /// How fast the peer reads, while others wait.
    pub(crate) reading: Option<Reading>,
}

#[derive(Debug)]
enum Segment {
    Memory(Bytes),
    File(FileRange),
}

impl SendQueue {
    /// What waits, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn push(&mut self, segment: Bytes) {
        if !segment.is_empty() {
            self.bytes += segment.len() as u64;
            self.segments.push_back(Segment::Memory(segment));
        }
    }

    pub(crate) fn push_file(&mut self, range: FileRange) {
        self.bytes += range.length;
        self.segments.push_back(Segment::File(range));
    }

    /// Hands the first of it to the kernel, in one call.
    pub(crate) fn send_some(&mut self, transport: &mut Transport) -> Result<Moved, SendFailure> {
        let moved = match self.segments.front() {
            None => return Ok(Moved { bytes: 0, is_full: false }),
            Some(Segment::Memory(_)) => self.send_memory(transport)?,
            Some(Segment::File(range)) => {
                let length = range.length.min(FILE_BYTES_PER_SEND) as usize;
                transport.send_file(&range.file, range.offset, length)?
            }
        };
        self.remove(moved.bytes);
        Ok(moved)
    }

    fn send_memory(&self, transport: &mut Transport) -> Result<Moved, SendFailure> {
        let mut slices = [IoSlice::new(&[]); SEGMENTS_PER_SEND];
        let mut count = 0;
        for segment in self.segments.iter().take(SEGMENTS_PER_SEND) {
            let Segment::Memory(bytes) = segment else { break };
            slices[count] = IoSlice::new(bytes);
            count += 1;
        }
        transport.send_segments(&slices[..count], count < self.segments.len())
    }

    fn remove(&mut self, count: usize) {
        self.bytes -= count as u64;
        let mut left = count;
        while left > 0 {
            let Some(first) = self.segments.front_mut() else { return };
            let removed = first.remove(left);
            left -= removed;
            if first.is_empty() {
                self.segments.pop_front();
            }
        }
    }
}

impl Segment {
    /// Takes up to `count` bytes away from the front and tells how many.
    fn remove(&mut self, count: usize) -> usize {
        match self {
            Self::Memory(bytes) => {
                let removed = count.min(bytes.len());
                bytes.advance(removed);
                removed
            }
            Self::File(range) => {
                let removed = (count as u64).min(range.length);
                range.offset += removed;
                range.length -= removed;
                removed as usize
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Memory(bytes) => bytes.is_empty(),
            Self::File(range) => range.length == 0,
        }
    }
}
