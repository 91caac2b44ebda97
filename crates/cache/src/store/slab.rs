//! Slab of a shard's responses, and the queues linked through it.
//!
//! Entries are allocated in chunks, so that growth moves nothing and its cost is known in advance. Removal from the
//! middle of a queue leaves no tombstone.

use std::sync::Arc;

use super::stored_response::StoredResponse;

/// Entries per allocation.
const CHUNK: usize = 64;
/// Null index.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct SlabEntry {
    pub(super) stored: Option<Arc<StoredResponse>>,
    pub(super) key_hash: u64,
    previous: u32,
    /// In its queue or in the free list.
    next: u32,
    /// The next older variant of the same key.
    pub(super) next_variant: u32,
    pub(super) is_main: bool,
}

#[derive(Debug)]
pub(super) struct Slab {
    chunks: Vec<Box<[SlabEntry]>>,
    free: u32,
    pub(super) len: usize,
}

impl Slab {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE, len: 0 }
    }

    pub(super) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    pub(super) const fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// What [`grow`](Self::grow) adds, in entries and bytes.
    pub(super) fn growth(&self) -> (usize, usize) {
        let list = if self.chunks.len() == self.chunks.capacity() {
            self.chunks.capacity().max(4) * 2 * size_of::<Box<[SlabEntry]>>()
        } else {
            0
        };
        (CHUNK, CHUNK * size_of::<SlabEntry>() + list)
    }

    pub(super) fn bytes(&self) -> usize {
        self.capacity() * size_of::<SlabEntry>() + self.chunks.capacity() * size_of::<Box<[SlabEntry]>>()
    }

    pub(super) fn grow(&mut self) {
        if self.chunks.len() == self.chunks.capacity() {
            let capacity = self.chunks.capacity().max(4) * 2;
            self.chunks.reserve_exact(capacity - self.chunks.len());
        }
        let first = self.capacity() as u32;
        let empty = |index: usize| {
            let next = if index + 1 == CHUNK { self.free } else { first + index as u32 + 1 };
            SlabEntry { stored: None, key_hash: 0, previous: NONE, next, next_variant: NONE, is_main: false }
        };
        let chunk = (0..CHUNK).map(empty).collect();
        self.chunks.push(chunk);
        self.free = first;
    }

    /// The slab must not be [full](Self::is_full).
    pub(super) fn insert(&mut self, key_hash: u64, stored: Arc<StoredResponse>) -> u32 {
        let index = self.free;
        let entry = self.at_mut(index);
        entry.stored = Some(stored);
        entry.key_hash = key_hash;
        entry.next_variant = NONE;
        let next_free = entry.next;
        self.free = next_free;
        self.len += 1;
        index
    }

    /// The entry must be in no queue.
    pub(super) fn remove(&mut self, index: u32) -> Option<Arc<StoredResponse>> {
        let free = self.free;
        let entry = self.at_mut(index);
        entry.next = free;
        let stored = entry.stored.take();
        self.free = index;
        self.len -= 1;
        stored
    }

    pub(super) fn at(&self, index: u32) -> &SlabEntry {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    pub(super) fn at_mut(&mut self, index: u32) -> &mut SlabEntry {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<StoredResponse>)> {
        let slab = self.chunks.iter().flat_map(|chunk| chunk.iter()).enumerate();
        slab.filter_map(|(index, entry)| entry.stored.as_ref().map(|stored| (index as u32, stored)))
    }

    fn cost(&self, index: u32) -> u64 {
        self.at(index).stored.as_ref().map_or(0, |stored| stored.cost_bytes())
    }
}

#[derive(Debug)]
pub(super) struct FifoQueue {
    head: u32,
    tail: u32,
    pub(super) bytes: u64,
    pub(super) len: usize,
}

impl FifoQueue {
    pub(super) const fn new() -> Self {
        Self { head: NONE, tail: NONE, bytes: 0, len: 0 }
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn push(&mut self, slab: &mut Slab, index: u32) {
        let tail = std::mem::replace(&mut self.tail, index);
        let entry = slab.at_mut(index);
        (entry.previous, entry.next) = (tail, NONE);
        if tail == NONE {
            self.head = index;
        } else {
            slab.at_mut(tail).next = index;
        }
        self.bytes += slab.cost(index);
        self.len += 1;
    }

    pub(super) fn unlink(&mut self, slab: &mut Slab, index: u32) {
        let (previous, next) = (slab.at(index).previous, slab.at(index).next);
        match previous {
            NONE => self.head = next,
            previous => slab.at_mut(previous).next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => slab.at_mut(next).previous = previous,
        }
        self.bytes -= slab.cost(index);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slab_entry_size() {
        assert_eq!(size_of::<SlabEntry>(), 32);
    }
}
