//! A shard of the store: a table from keys to responses, the eviction queues, and the fills of its keys.
//!
//! S3-FIFO (Yang et al., SOSP 2023): new responses enter the small queue, a tenth of the bytes. At its end, used
//! responses move to the main queue; others are evicted and leave a fingerprint. Responses that return while remembered
//! enter the main queue directly. At the end of the main queue, used responses are reinserted with one use less. A hit
//! only changes a two-bit counter.

use std::sync::Arc;

use hashbrown::HashTable;

use super::ghost::Ghost;
use super::slab::{FifoQueue, NONE, Slab};
use super::stored_response::StoredResponse;
use crate::key::KeyHash;

/// The small queue gets one byte in this many.
const SMALL_SHARE: u64 = 10;
/// Uses in the small queue that promote a response. (The paper has two. With Zipf-distributed requests and memory for
/// half the objects, two have the hit rate of LRU, one is half a percent better.)
const USES_TO_STAY: u8 = 1;
const TABLE_MIN: usize = 16;
/// A shard without responses must remember what it refuses.
const GHOST_MIN: usize = 64;
/// How many refusals an empty shard remembers; one with responses remembers as many fewer. A full cache of so few
/// responses has room for few, and those in demand rarely share a shard with more than this many others.
const DEPTH_EMPTY: usize = 4;

#[derive(Debug)]
pub(crate) struct Shard<F> {
    slab: Slab,
    /// The newest response of each key; older variants are linked to it.
    table: HashTable<u32>,
    small: FifoQueue,
    main: FifoQueue,
    ghost: Ghost,
    pub(crate) fills: F,
}

impl<F: Default> Shard<F> {
    pub(super) fn new() -> Self {
        let mut ghost = Ghost::default();
        ghost.grow(GHOST_MIN);
        Self {
            slab: Slab::new(),
            table: HashTable::new(),
            small: FifoQueue::new(),
            main: FifoQueue::new(),
            ghost,
            fills: F::default(),
        }
    }

    /// All variants of a key, newest first.
    pub(crate) fn variants<'s>(
        &'s self,
        key_hash: u64,
        key: &[u8],
    ) -> impl Iterator<Item = &'s Arc<StoredResponse>> + use<'s, F> {
        let mut next = self.first(key_hash, key);
        std::iter::from_fn(move || {
            let entry = self.slab.at(next?);
            next = (entry.next_variant != NONE).then_some(entry.next_variant);
            entry.stored.as_ref()
        })
    }

    fn first(&self, key_hash: u64, key: &[u8]) -> Option<u32> {
        self.table.find(key_hash, |&index| self.has_key(index, key_hash, key)).copied()
    }

    fn has_key(&self, index: u32, key_hash: u64, key: &[u8]) -> bool {
        let entry = self.slab.at(index);
        entry.key_hash == key_hash && entry.stored.as_ref().is_some_and(|stored| stored.key() == key)
    }

    fn chain(&self, first: Option<u32>) -> Vec<u32> {
        let next = |index: &u32| Some(self.slab.at(*index).next_variant).filter(|&next| next != NONE);
        std::iter::successors(first, next).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<StoredResponse>> {
        self.slab.iter().map(|(_, stored)| stored)
    }

    pub(crate) const fn len(&self) -> usize {
        self.slab.len
    }

    /// Bytes of the tables, which do not shrink.
    pub(super) fn structure_bytes(&self) -> u64 {
        (self.slab.bytes() + self.table.allocation_size() + Ghost::bytes_for(self.ghost.capacity())) as u64
    }

    /// Bytes to reserve for the tables before one insertion. While a table grows, the old one exists too.
    pub(super) fn growth_bytes(&self) -> u64 {
        let mut bytes = 0;
        if self.slab.is_full() {
            let (key_hashes, node_bytes) = self.slab.growth();
            let capacity = self.slab.capacity() + key_hashes;
            bytes += node_bytes;
            if capacity > self.ghost.capacity() {
                bytes += Ghost::bytes_for(capacity);
            }
        }
        if self.is_table_full() {
            bytes += table_bytes((self.table.num_buckets() * 2).max(TABLE_MIN));
        }
        bytes as u64
    }

    fn is_table_full(&self) -> bool {
        self.table.len() == self.table.capacity()
    }

    pub(super) fn grow(&mut self) {
        if self.slab.is_full() {
            self.slab.grow();
            self.ghost.grow(self.slab.capacity());
        }
        if self.is_table_full() {
            let slab = &self.slab;
            self.table.reserve(1, |&index| slab.at(index).key_hash);
        }
    }

    /// Inserts a response, replacing the same variant. The caller has [reserved](Self::growth_bytes) and grown the
    /// tables. Returns the replaced variant and those beyond `variants_max`.
    pub(super) fn insert(
        &mut self,
        hash: KeyHash,
        stored: Arc<StoredResponse>,
        variants_max: usize,
    ) -> Vec<Arc<StoredResponse>> {
        let mut removed = Vec::new();
        let mut is_main = false;
        let chain = self.chain(self.first(hash.table, stored.key()));
        let is_same =
            |&&index: &&u32| self.slab.at(index).stored.as_ref().is_some_and(|old| old.variant() == stored.variant());
        let replaced = chain.iter().find(is_same).copied();
        if let Some(old) = replaced {
            is_main = self.slab.at(old).is_main;
            removed.extend(self.remove(old).inspect(|old| stored.inherit(old)));
        } else {
            is_main |= self.ghost.take(hash.table, self.depth());
            let too_many = chain.len().saturating_sub(variants_max.max(1) - 1);
            let oldest: Vec<u32> = chain.iter().rev().take(too_many).copied().collect();
            removed.extend(oldest.into_iter().filter_map(|index| self.remove(index)));
        }
        self.bump_version(hash.table, stored.key());
        self.link(hash.table, stored, is_main);
        removed
    }

    /// Makes validity checks of the key's other variants fail.
    fn bump_version(&self, key_hash: u64, key: &[u8]) {
        self.variants(key_hash, key).for_each(|other| other.bump_version());
    }

    fn link(&mut self, key_hash: u64, stored: Arc<StoredResponse>, is_main: bool) {
        let first = self.first(key_hash, stored.key());
        let index = self.slab.insert(key_hash, stored);
        self.slab.at_mut(index).is_main = is_main;
        match first {
            Some(first) => {
                self.slab.at_mut(index).next_variant = first;
                if let Some(slot) = self.table.find_mut(key_hash, |&candidate| candidate == first) {
                    *slot = index;
                }
            }
            None => {
                let slab = &self.slab;
                self.table.insert_unique(key_hash, index, |&index| slab.at(index).key_hash);
            }
        }
        let queue = if is_main { &mut self.main } else { &mut self.small };
        queue.push(&mut self.slab, index);
    }

    /// Removes a response from queue, chain and table.
    fn remove(&mut self, index: u32) -> Option<Arc<StoredResponse>> {
        let queue = if self.slab.at(index).is_main { &mut self.main } else { &mut self.small };
        queue.unlink(&mut self.slab, index);
        self.unchain(index);
        let stored = self.slab.remove(index)?;
        stored.mark_removed();
        Some(stored)
    }

    fn unchain(&mut self, index: u32) {
        let key_hash = self.slab.at(index).key_hash;
        let next = self.slab.at(index).next_variant;
        if let Ok(entry) = self.table.find_entry(key_hash, |&candidate| candidate == index) {
            if next == NONE {
                entry.remove();
            } else {
                *entry.into_mut() = next;
            }
            return;
        }
        let Some(stored) = self.slab.at(index).stored.clone() else { return };
        let chain = self.chain(self.first(key_hash, stored.key()));
        if let Some(before) = chain.iter().position(|&candidate| candidate == index).and_then(|at| at.checked_sub(1)) {
            self.slab.at_mut(chain[before]).next_variant = next;
        }
    }

    /// Removes the least valuable response.
    pub(super) fn evict(&mut self) -> Option<Arc<StoredResponse>> {
        loop {
            let is_small_due = self.small.bytes * SMALL_SHARE >= self.small.bytes + self.main.bytes;
            let (index, is_small) = match (self.small.first(), self.main.first()) {
                (Some(index), main) if is_small_due || main.is_none() => (index, true),
                (_, Some(index)) => (index, false),
                _ => return None,
            };
            let uses = self.slab.at(index).stored.as_ref().map_or(0, |stored| stored.uses());
            if is_small && uses >= USES_TO_STAY {
                self.small.unlink(&mut self.slab, index);
                self.keep(index, 0);
            } else if !is_small && uses > 0 {
                self.main.unlink(&mut self.slab, index);
                self.keep(index, uses - 1);
            } else {
                if is_small {
                    self.ghost.insert(self.slab.at(index).key_hash);
                }
                return self.remove(index);
            }
        }
    }

    fn keep(&mut self, index: u32, uses: u8) {
        let entry = self.slab.at_mut(index);
        entry.is_main = true;
        if let Some(stored) = &entry.stored {
            stored.set_uses(uses);
        }
        self.main.push(&mut self.slab, index);
    }

    pub(super) fn remove_if(&mut self, is_match: impl Fn(&StoredResponse) -> bool) -> Vec<Arc<StoredResponse>> {
        let meant: Vec<u32> = self.slab.iter().filter(|(_, stored)| is_match(stored)).map(|(index, _)| index).collect();
        meant.into_iter().filter_map(|index| self.remove(index)).collect()
    }

    pub(super) fn remove_key(
        &mut self,
        key_hash: u64,
        key: &[u8],
        is_match: impl Fn(&StoredResponse) -> bool,
    ) -> Vec<Arc<StoredResponse>> {
        let mut chain = self.chain(self.first(key_hash, key));
        chain.retain(|&index| self.slab.at(index).stored.as_ref().is_some_and(|stored| is_match(stored)));
        chain.into_iter().filter_map(|index| self.remove(index)).collect()
    }

    pub(super) fn with_hash(&self, key_hash: u64) -> Vec<Arc<StoredResponse>> {
        let firsts: Vec<u32> =
            self.table.iter_hash(key_hash).copied().filter(|&index| self.slab.at(index).key_hash == key_hash).collect();
        let chains = firsts.into_iter().flat_map(|first| self.chain(Some(first)));
        chains.filter_map(|index| self.slab.at(index).stored.clone()).collect()
    }

    /// Whether the response was evicted or refused recently; if not, it counts as refused now.
    ///
    /// It must return within as many evictions as responses of its size fit in the queue: one that displaces ten others
    /// is worth its memory if it is requested ten times as often. (For Zipf-distributed requests of 2 kB to 2 MB this
    /// has higher hit rates, both of responses and of bytes, than the same number for all sizes.) A shard with few
    /// responses does not show how many fit.
    pub(crate) fn is_returning(&mut self, key_hash: u64, bytes: u64) -> bool {
        let fitting = self.main.bytes.max(self.small.bytes) / bytes.max(1);
        let depth = self.depth().min(usize::try_from(fitting).unwrap_or(usize::MAX));
        let depth = depth.max(DEPTH_EMPTY.saturating_sub(self.len()));
        let is_returning = self.ghost.take(key_hash, depth);
        self.ghost.insert(key_hash);
        is_returning
    }

    /// How many evictions and refusals are remembered.
    fn depth(&self) -> usize {
        self.main.len.max(self.small.len)
    }
}

/// Bytes of a table: an index and a control byte per bucket, and the trailing group.
const fn table_bytes(buckets: usize) -> usize {
    const GROUP_BYTES: usize = 16;
    buckets * (size_of::<u32>() + 1) + 2 * GROUP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicts_table_growth() {
        let mut shard = Shard::<()>::new();
        for index in 0..10_000_u32 {
            let (before, growth) = (shard.structure_bytes(), shard.growth_bytes());
            shard.grow();
            assert!(
                shard.structure_bytes() <= before + growth,
                "{index}: {} > {before} + {growth}",
                shard.structure_bytes()
            );
            let stored = crate::test_support::object(&format!("http://a/{index}"), 100);
            shard.insert(KeyHash { table: u64::from(index).wrapping_mul(0x9E37_79B9_7F4A_7C15), shard: 0 }, stored, 8);
            let after = shard.structure_bytes();
            assert!(after <= before + growth, "{index}: insertion exceeded the prediction");
        }
        assert_eq!(shard.len(), 10_000);
    }

    #[test]
    fn empty_shard_remembers_refusals() {
        let mut shard = Shard::<()>::new();
        let hashes: Vec<u64> = (1..9_u64).map(|number| number << 16).collect();
        for (count, expected) in [(2, true), (4, true), (8, false)] {
            let hashes = &hashes[..count];
            assert!(hashes.iter().all(|&hash| !shard.is_returning(hash, 1_000_000)), "{count}");
            assert!(hashes.iter().all(|&hash| shard.is_returning(hash, 1_000_000) == expected), "{count}");
            shard = Shard::new();
        }
    }
}
