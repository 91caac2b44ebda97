//! The unsent bytes of a connection. Exists only while not empty.

use std::collections::VecDeque;
use std::io::IoSlice;

use breme_node::FileRange;
use bytes::{Buf, Bytes};

use crate::read_rate::ReadRate;
use crate::socket::{SendFailure, SendResult};
use crate::transport::{SEGMENTS_PER_SEND, Transport};

/// Bytes of a file per call of sendfile(2): enough to be cheap, and few enough that other connections are served.
const FILE_BYTES_PER_SEND: u64 = 512 * 1024;

#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    segments: VecDeque<Segment>,
    bytes: u64,
    /// Set under pressure.
    pub(crate) read_rate: Option<ReadRate>,
}

#[derive(Debug)]
enum Segment {
    Memory(Bytes),
    File(FileRange),
}

impl SendQueue {
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

    /// Sends the front of the queue with one call.
    pub(crate) fn send_some(&mut self, transport: &mut Transport) -> Result<SendResult, SendFailure> {
        let moved = match self.segments.front() {
            None => return Ok(SendResult { bytes: 0, is_full: false }),
            Some(Segment::Memory(_)) => self.send_memory(transport)?,
            Some(Segment::File(range)) => {
                let length = range.length.min(FILE_BYTES_PER_SEND) as usize;
                transport.send_file(&range.file, range.offset, length)?
            }
        };
        self.remove(moved.bytes);
        Ok(moved)
    }

    fn send_memory(&self, transport: &mut Transport) -> Result<SendResult, SendFailure> {
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
    /// Removes up to `count` bytes from the front, and returns how many.
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
