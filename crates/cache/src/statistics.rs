//! Statistics of the cache, and its most requested responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::{Instant, Metric, metrics};

use crate::cache::Cache;
use crate::store::StoredResponse;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Stored responses.
    pub objects: u64,
    /// Used memory.
    pub bytes: u64,
    pub bytes_max: u64,
    /// Since the start, like `evicted` and `purged`.
    pub inserted: u64,
    pub evicted: u64,
    /// Purged or invalidated responses.
    pub purged: u64,
    /// Responses being fetched.
    pub fills: u64,
}

impl Statistics {
    /// The metrics of these statistics.
    pub const METRICS: &[Metric<Self>] = metrics! {
        Gauge "cache_objects" "Stored responses." => |cache: &Self| cache.objects;
        ByteGauge "cache_used" "Memory used by the cache." => |cache: &Self| cache.bytes;
        ByteGauge "cache_size" "Memory limit of the cache." => |cache: &Self| cache.bytes_max;
        Counter "cache_inserted" "Responses stored." => |cache: &Self| cache.inserted;
        Counter "cache_evicted" "Responses evicted to free memory." => |cache: &Self| cache.evicted;
        Counter "cache_purged" "Responses purged or invalidated." => |cache: &Self| cache.purged;
        Gauge "cache_fills" "Responses being fetched into the cache." => |cache: &Self| cache.fills;
    };
}

/// A frequently used response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotObject {
    pub url: String,
    pub hits: u32,
    pub status: u16,
    pub bytes: u64,
    pub age_s: u64,
    /// Remaining freshness; negative if stale.
    pub ttl_s: i64,
}

impl Cache {
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

    /// The responses with the most hits.
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
