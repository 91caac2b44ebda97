//! How many requests were answered, exactly, without the shards meeting on one cache line.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number for each shard, far enough from each other (two cache lines: processors fetch them in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// Answers that were handed over completely, of all shards.
#[derive(Debug)]
pub struct Counters {
    shards: Vec<Padded>,
}

impl Counters {
    /// All zero.
    #[must_use]
    pub fn new(shard_count: usize) -> Self {
        Self { shards: (0..shard_count.max(1)).map(|_| Padded(AtomicU64::new(0))).collect() }
    }

    /// One answer more. A shard counts before the last byte of the answer leaves, so a client that has it will find it counted.
    pub(crate) fn count(&self, shard: usize) {
        // Only this shard writes here; `fetch_add` all the same, so that a wrong shard number cannot lose a count.
        self.shards[shard % self.shards.len()].0.fetch_add(1, Ordering::Relaxed);
    }

    /// The sum over the shards.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_is_in_the_sum() {
        let counters = Counters::new(3);
        for (shard, times) in [(0, 5), (1, 7), (2, 11), (3, 1)] {
            (0..times).for_each(|_| counters.count(shard));
        }
        assert_eq!(counters.answered(), 24);
    }
}
