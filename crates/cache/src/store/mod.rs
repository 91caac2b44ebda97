//! The bounded store: shards by key hash, with one memory budget.
//!
//! A lookup takes one hash and one read lock. Insertions [reserve](Store::reserve) their bytes first; eviction rotates
//! through the shards, so that a large response does not empty a small shard.

mod budget;
mod ghost;
mod shard;
mod slab;
mod stored_response;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use budget::{Budget, Charge};
pub(crate) use shard::Shard;
pub(crate) use stored_response::{ReuseTerms, StoredLayout, StoredResponse};

use crate::groups::{GroupId, Groups};
use crate::key::{Key, KeyHash, KeyHasher};
use crate::settings::CacheSettings;

/// More shards than cores, to limit contention.
const SHARDS_MAX: usize = 64;
/// Least memory per shard.
const SHARD_BYTES_MIN: u64 = 1 << 20;

/// `F`: the fills of a shard's keys, under the same lock.
#[derive(Debug)]
pub(crate) struct Store<F> {
    shards: Box<[RwLock<Shard<F>>]>,
    pub(crate) budget: Arc<Budget>,
    hasher: KeyHasher,
    pub(crate) groups: Groups,
    /// The shard to evict from next.
    hand: AtomicUsize,
    variants_max: AtomicUsize,
    pub(crate) counters: StoreCounters,
}

#[derive(Debug, Default)]
pub(crate) struct StoreCounters {
    pub(crate) inserted: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) removed: AtomicU64,
    /// Pass markers in the store; they are in none of the other counts.
    pub(crate) pass_markers: AtomicU64,
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

fn count_responses(stored: &[Arc<StoredResponse>]) -> usize {
    stored.iter().filter(|stored| !stored.is_pass()).count()
}

impl<F: Default> Store<F> {
    pub(crate) fn new(settings: &CacheSettings) -> Self {
        let CacheSettings { memory_bytes, variants_max, seed, .. } = *settings;
        let shards = (memory_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX as u64);
        let shards: Box<[_]> = (0..shards).map(|_| Shard::new()).collect();
        let tables_bytes = shards.iter().map(Shard::structure_bytes).sum();
        Self {
            shards: shards.into_iter().map(RwLock::new).collect(),
            budget: Budget::new(memory_bytes, tables_bytes),
            hasher: KeyHasher::new(seed),
            groups: Groups::new(seed, &settings.key_fields),
            hand: AtomicUsize::new(0),
            variants_max: AtomicUsize::new(variants_max),
            counters: StoreCounters::default(),
        }
    }

    /// Applies new limits, and evicts down to them.
    pub(crate) fn bound(&self, settings: &CacheSettings) {
        self.variants_max.store(settings.variants_max, Ordering::Relaxed);
        self.budget.set_max(settings.memory_bytes);
        while self.budget.used() > self.budget.max() && self.evict() {}
    }

    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }

    fn shard(&self, hash: KeyHash) -> &RwLock<Shard<F>> {
        &self.shards[(hash.shard >> 32) as usize % self.shards.len()]
    }

    pub(crate) fn read(&self, hash: KeyHash) -> RwLockReadGuard<'_, Shard<F>> {
        self.shard(hash).read()
    }

    pub(crate) fn write(&self, hash: KeyHash) -> RwLockWriteGuard<'_, Shard<F>> {
        self.shard(hash).write()
    }

    /// Read locks on all shards, one after another.
    pub(crate) fn each(&self) -> impl Iterator<Item = RwLockReadGuard<'_, Shard<F>>> {
        self.shards.iter().map(RwLock::read)
    }

    /// Number of stored responses.
    pub(crate) fn len(&self) -> usize {
        let entries: usize = self.each().map(|shard| shard.len()).sum();
        entries.saturating_sub(self.counters.pass_markers.load(Ordering::Relaxed) as usize)
    }

    /// Charges the budget, evicting other responses if needed. The caller must hold no shard lock.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Charge> {
        loop {
            if let Some(charge) = self.budget.try_charge(bytes) {
                return Some(charge);
            }
            if bytes > self.budget.max() || !self.evict() {
                return None;
            }
        }
    }

    /// Whether an insertion of this size would evict.
    pub(crate) fn is_full(&self, bytes: u64) -> bool {
        self.budget.used() + bytes > self.budget.max()
    }

    fn evict(&self) -> bool {
        (0..self.shards.len()).any(|_| {
            let turn = self.hand.fetch_add(1, Ordering::Relaxed);
            let mut shard = self.shards[turn % self.shards.len()].write();
            let Some(removed) = shard.evict() else { return false };
            let removed = [removed];
            self.release(&removed);
            add(&self.counters.evicted, count_responses(&removed));
            true
        })
    }

    /// Releases the memory of removed responses. Their shard is still locked, so they cannot be inserted again
    /// meanwhile.
    fn release(&self, removed: &[Arc<StoredResponse>]) {
        let markers = removed.len() - count_responses(removed);
        self.counters.pass_markers.fetch_sub(markers as u64, Ordering::Relaxed);
        for stored in removed {
            let mut bytes = stored.cost_bytes();
            if stored.has_groups() {
                bytes += self.groups.forget(&self.groups_of(stored), self.hash(stored.key()).table);
            }
            self.budget.release(bytes);
        }
    }

    /// Inserts a response with its charge, if `may_stay` holds under the lock and none of its groups was purged after
    /// the first `purges` purges.
    pub(crate) fn insert(
        &self,
        hash: KeyHash,
        stored: Arc<StoredResponse>,
        mut charge: Charge,
        purges: u64,
        mut may_stay: impl FnMut(&mut Shard<F>) -> bool,
    ) -> bool {
        let groups = self.groups_of(&stored);
        let cost = stored.cost_bytes() + Groups::cost_bytes(groups.len());
        let lacking = cost.saturating_sub(charge.bytes());
        match self.reserve(lacking) {
            Some(more) => charge.join(more),
            None => return false,
        }
        let mut growth: Option<Charge> = None;
        loop {
            let mut shard = self.write(hash);
            let (needed, reserved) = (shard.growth_bytes(), growth.as_ref().map_or(0, Charge::bytes));
            if needed > reserved {
                drop(shard);
                match self.reserve(needed - reserved) {
                    Some(more) => growth = Some(merged(growth, more)),
                    None => return false,
                }
                continue;
            }
            if !may_stay(&mut shard) || !self.groups.admit(&groups, hash.table, purges) {
                return false;
            }
            self.grow(&mut shard, growth.take());
            let counters = &self.counters;
            add(if stored.is_pass() { &counters.pass_markers } else { &counters.inserted }, 1);
            self.release(&shard.insert(hash, stored, self.variants_max.load(Ordering::Relaxed)));
            charge.split(cost).into_bytes();
            return true;
        }
    }

    /// Grows the shard's tables and releases what was reserved beyond that.
    fn grow(&self, shard: &mut Shard<F>, reserved: Option<Charge>) {
        let before = shard.structure_bytes();
        shard.grow();
        let after = shard.structure_bytes();
        if let Some(mut reserved) = reserved {
            reserved.split(after.saturating_sub(before)).into_bytes();
        }
        if before > after {
            self.budget.release(before - after);
        }
    }

    /// Removes matching responses of a key, and returns their number. The caller holds the lock.
    pub(crate) fn remove_from(
        &self,
        shard: &mut Shard<F>,
        key_hash: u64,
        key: &[u8],
        is_match: impl Fn(&StoredResponse) -> bool,
    ) -> usize {
        let removed = shard.remove_key(key_hash, key, is_match);
        self.release(&removed);
        let count = count_responses(&removed);
        add(&self.counters.removed, count);
        count
    }

    /// Removes matching responses from all shards; `at_shard` runs on each first, under its lock.
    pub(crate) fn remove_everywhere(
        &self,
        is_match: impl Fn(&StoredResponse) -> bool,
        mut at_shard: impl FnMut(&mut Shard<F>),
    ) -> usize {
        let mut count = 0;
        for lock in &self.shards {
            let mut shard = lock.write();
            at_shard(&mut shard);
            let removed = shard.remove_if(&is_match);
            self.release(&removed);
            count += count_responses(&removed);
        }
        add(&self.counters.removed, count);
        count
    }

    /// Runs on each shard under its write lock.
    pub(crate) fn at_each_shard(&self, mut act: impl FnMut(&mut Shard<F>)) {
        self.shards.iter().for_each(|lock| act(&mut lock.write()));
    }

    /// The responses with these key hashes, in any shard.
    pub(crate) fn with_hashes(&self, key_hashes: &[u64]) -> Vec<Arc<StoredResponse>> {
        let of_shard = |shard: RwLockReadGuard<'_, Shard<F>>| {
            key_hashes.iter().flat_map(|&key_hash| shard.with_hash(key_hash)).collect::<Vec<_>>()
        };
        self.each().flat_map(of_shard).collect()
    }

    pub(crate) fn groups_of(&self, stored: &StoredResponse) -> Vec<GroupId> {
        if stored.has_groups() { self.groups.ids(stored.key(), stored.block()) } else { Vec::new() }
    }

    pub(crate) fn hash_of(&self, key: &Key) -> KeyHash {
        self.hash(key.as_slice())
    }
}

fn merged(first: Option<Charge>, mut second: Charge) -> Charge {
    if let Some(first) = first {
        second.join(first);
    }
    second
}
