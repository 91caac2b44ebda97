//! What the cache holds and has done, for those who look at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::Instant;

use crate::cache::Cache;
use crate::store::StoredResponse;

/// What the cache holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Stored responses.
    pub objects: u64,
    /// All memory in use.
    pub bytes: u64,
    /// All memory that may be used.
    pub bytes_max: u64,
    /// Responses stored so far.
    pub inserted: u64,
    /// Responses that went because others needed their memory.
    pub evicted: u64,
    /// Responses that were purged or made invalid.
    pub purged: u64,
    /// Answers that are being fetched.
    pub fills: u64,
}

/// A stored response that is asked for often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotObject {
    /// What it is the answer to.
    pub url: String,
    /// How often it answered.
    pub hits: u32,
    /// Its status.
    pub status: u16,
    /// The memory that it takes.
    pub bytes: u64,
    /// Its age.
    pub age_s: u64,
    /// For how long it is still fresh; negative: since when it is stale.
    pub ttl_s: i64,
}

impl Cache {
    /// What the cache holds and has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.store.counters;
        let fills = self.store.each().map(|shard| shard.fills.values().map(Vec::len).sum::<usize>()).sum::<usize>();
        Statistics {
            objects: self.store.len() as u64,
            bytes: self.store.budget.used(),
            bytes_max: self.store.budget.max(),
            inserted: count(&counters.inserted),
            evicted: count(&counters.evicted),
            purged: count(&counters.removed),
            fills: fills as u64,
        }
    }

    /// The stored responses that have answered most often.
    #[must_use]
    pub fn hottest(&self, count: usize, now: Instant) -> Vec<HotObject> {
        let mut hot: Vec<(u32, Arc<StoredResponse>)> = Vec::new();
        for shard in self.store.each() {
            hot.extend(
                shard.iter().filter(|stored| !stored.is_pass()).map(|stored| (stored.hits(), Arc::clone(stored))),
            );
            hot.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits));
            hot.truncate(count);
        }
        hot.into_iter().map(|(hits, stored)| HotObject::new(&stored, hits, now)).collect()
    }
}

impl HotObject {
    fn new(stored: &StoredResponse, hits: u32, now: Instant) -> Self {
        Self {
            url: String::from_utf8_lossy(stored.key()).into_owned(),
            hits,
            status: stored.status(),
            bytes: stored.cost_bytes(),
            age_s: stored.age_s(now),
            ttl_s: stored.ttl_s(now),
        }
    }
}
