//! Numbers that many threads count and few ask for: exactly, without the threads meeting on one cache line, and without
//! a locked instruction for what happens often.
//!
//! Each shard has a place of its own, into which only its thread writes. Who wants to know adds the places up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number into which one thread writes, and which all may read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    #[inline]
    pub fn add(&self) {
        self.add_many(1);
    }

    /// So many more.
    #[inline]
    pub fn add_many(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// One less.
    #[inline]
    pub fn remove(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// How many there are so far.
    #[inline]
    #[must_use]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The places of all shards. They should be far enough from each other (`repr(align(128))`): processors fetch cache
/// lines in pairs.
#[derive(Debug)]
pub struct ShardPlaces<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for ShardPlaces<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ShardPlaces<T> {
    /// What one thing comes to in all shards together.
    pub fn sum(&self, of: impl Fn(&T) -> u64) -> u64 {
        self.places().iter().map(|place| of(place)).sum()
    }

    fn places(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> ShardPlaces<T> {
    /// A place for one shard more, to be written by nobody else.
    pub fn add_shard(&self) -> Arc<T> {
        let place = Arc::new(T::default());
        self.places().push(place.clone());
        place
    }
}

/// Numbers of what happens too seldom to need places: all threads write into them.
#[derive(Debug)]
pub struct SharedCounts<const KINDS: usize>([AtomicU64; KINDS]);

impl<const KINDS: usize> Default for SharedCounts<KINDS> {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; KINDS])
    }
}

impl<const KINDS: usize> SharedCounts<KINDS> {
    /// One more of a kind; kinds are numbered from 0.
    pub fn add(&self, kind: usize) {
        self.0[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// How many of a kind there are so far.
    #[must_use]
    pub fn load(&self, kind: usize) -> u64 {
        self.0[kind].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_is_in_the_sum() {
        let places = ShardPlaces::<Count>::default();
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
    fn kinds_are_counted_apart() {
        let counts = SharedCounts::<3>::default();
        [0, 2, 2].into_iter().for_each(|kind| counts.add(kind));
        assert_eq!([0, 1, 2].map(|kind| counts.load(kind)), [1, 0, 2]);
    }
}
