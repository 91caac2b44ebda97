//! The ghost queue: fingerprints of responses that were recently evicted or not admitted.
//!
//! A table of small buckets in place of a queue and a set: each slot holds a fingerprint and the insertion number, and
//! expires after as many insertions as the table has slots. Eight bytes per slot, allocated at the first insertion.

/// Slots per bucket.
const BUCKET: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct GhostSlot {
    fingerprint: u32,
    /// 0: empty.
    inserted: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Ghost {
    /// Empty until the first insertion.
    slots: Vec<GhostSlot>,
    /// Size of the table, allocated or not.
    capacity: usize,
    insertions: u32,
}

impl Ghost {
    pub(crate) const fn bytes_for(capacity: usize) -> usize {
        if capacity == 0 { 0 } else { rounded(capacity) * size_of::<GhostSlot>() }
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Rehashes into a larger table.
    pub(crate) fn grow(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        self.capacity = rounded(capacity);
        if self.slots.is_empty() {
            return;
        }
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![GhostSlot::default(); self.capacity];
        for slot in old.into_iter().filter(|slot| slot.inserted != 0) {
            *self.slot(slot.fingerprint) = slot;
        }
    }

    pub(crate) fn insert(&mut self, hash: u64) {
        if self.capacity == 0 {
            return;
        }
        if self.slots.is_empty() {
            self.slots = vec![GhostSlot::default(); self.capacity];
        }
        // After the number wraps, the oldest entries look new once, which is harmless.
        self.insertions = self.insertions.wrapping_add(1).max(1);
        let slot = GhostSlot { fingerprint: fingerprint(hash), inserted: self.insertions };
        *self.slot(slot.fingerprint) = slot;
    }

    /// Removes the entry; true if it was among the last `depth` insertions.
    pub(crate) fn take(&mut self, hash: u64, depth: usize) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let fingerprint = fingerprint(hash);
        let insertions = self.insertions;
        let bucket = self.bucket(fingerprint);
        let found = bucket.iter_mut().find(|slot| slot.inserted != 0 && slot.fingerprint == fingerprint);
        let Some(slot) = found else { return false };
        let is_recent = insertions.wrapping_sub(slot.inserted) as usize <= depth;
        *slot = GhostSlot::default();
        is_recent
    }

    /// The matching, an empty, or the oldest slot of the bucket.
    fn slot(&mut self, fingerprint: u32) -> &mut GhostSlot {
        let insertions = self.insertions;
        let bucket = self.bucket(fingerprint);
        let age = |slot: &GhostSlot| if slot.inserted == 0 { u32::MAX } else { insertions.wrapping_sub(slot.inserted) };
        let own = bucket.iter().position(|slot| slot.inserted != 0 && slot.fingerprint == fingerprint);
        let oldest = || (0..BUCKET).max_by_key(|&index| age(&bucket[index])).unwrap_or_default();
        let index = own.unwrap_or_else(oldest);
        &mut bucket[index]
    }

    fn bucket(&mut self, fingerprint: u32) -> &mut [GhostSlot] {
        let buckets = self.slots.len() / BUCKET;
        let start = fingerprint as usize % buckets * BUCKET;
        &mut self.slots[start..start + BUCKET]
    }
}

const fn rounded(capacity: usize) -> usize {
    let power = capacity.next_power_of_two();
    if power < BUCKET { BUCKET } else { power }
}

/// Not the bits that select the shard.
const fn fingerprint(hash: u64) -> u32 {
    (hash >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_base::Random;

    #[test]
    fn remembers_evicted_entry_once() {
        let mut ghost = Ghost::default();
        assert!(!ghost.take(1 << 16, 9), "without room nothing is remembered");
        ghost.grow(1024);
        let mut random = Random::new(1);
        let hashes: Vec<u64> = (0..512).map(|_| random.next_u64()).collect();
        for &hash in &hashes {
            ghost.insert(hash);
        }
        let candidate = hashes.iter().filter(|&&hash| ghost.take(hash, 512)).count();
        assert!(candidate > 490, "{candidate}: only full buckets lose some");
        assert!(!hashes.iter().any(|&hash| ghost.take(hash, 512)), "each is known once");
    }

    #[test]
    fn forgets_old_evictions() {
        let mut ghost = Ghost::default();
        ghost.grow(4096);
        let mut random = Random::new(2);
        let old = random.next_u64();
        ghost.insert(old);
        (0..100).for_each(|_| ghost.insert(random.next_u64()));
        ghost.grow(8192);
        assert!(!ghost.take(old, 99));
        ghost.insert(old);
        assert!(ghost.take(old, 99));
    }

    #[test]
    fn predicts_table_size() {
        for capacity in [1, 3, 4, 5, 1000, 1024] {
            let mut ghost = Ghost::default();
            ghost.grow(capacity);
            assert_eq!((ghost.slots.capacity(), ghost.capacity()), (0, rounded(capacity)), "nothing went yet");
            ghost.insert(1 << 16);
            assert_eq!(ghost.slots.capacity() * size_of::<GhostSlot>(), Ghost::bytes_for(capacity));
        }
    }
}
