//! Counters written by many threads and read rarely: exact, without shared cache lines, and without locked instructions
//! for frequent events.
//!
//! Each shard has its own counters, which only its thread writes; a reader adds them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A counter with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    #[inline]
    pub fn add(&self) {
        self.add_many(1);
    }

    #[inline]
    pub fn add_many(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    #[inline]
    pub fn remove(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    #[inline]
    #[must_use]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of all shards. They should be aligned to 128 bytes (`repr(align(128))`), since processors fetch cache
/// lines in pairs.
#[derive(Debug)]
pub struct PerShard<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for PerShard<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerShard<T> {
    pub fn sum(&self, of: impl Fn(&T) -> u64) -> u64 {
        self.0.lock().iter().map(|place| of(place)).sum()
    }
}

impl<T: Default> PerShard<T> {
    /// Adds the counters of a shard, their only writer.
    pub fn add_shard(&self) -> Arc<T> {
        let place = Arc::new(T::default());
        self.0.lock().push(place.clone());
        place
    }
}

/// Counters of rare events, written by all threads.
#[derive(Debug)]
pub struct SharedCounts<const KINDS: usize>([AtomicU64; KINDS]);

impl<const KINDS: usize> Default for SharedCounts<KINDS> {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; KINDS])
    }
}

impl<const KINDS: usize> SharedCounts<KINDS> {
    pub fn add(&self, kind: usize) {
        self.0[kind].fetch_add(1, Ordering::Relaxed);
    }

    #[must_use]
    pub fn load(&self, kind: usize) -> u64 {
        self.0[kind].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_all_shards() {
        let places = PerShard::<Count>::default();
        assert_eq!(places.sum(Count::load), 0);
        let shards = [(); 3].map(|()| places.add_shard());
        for (many, shard) in (1..).zip(&shards) {
            shard.add_many(10 * many);
        }
        shards[0].add();
        shards[2].remove();
        assert_eq!(places.sum(Count::load), 60);
        assert_eq!(shards.map(|shard| shard.load()), [11, 20, 29]);
    }

    #[test]
    fn counts_kinds_separately() {
        let counts = SharedCounts::<3>::default();
        [0, 2, 2].into_iter().for_each(|kind| counts.add(kind));
        assert_eq!([0, 1, 2].map(|kind| counts.load(kind)), [1, 0, 2]);
    }
}
