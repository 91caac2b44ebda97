//! Counters of a site, in a separate [place](PerShard) for each shard.

use std::sync::Arc;

use breme_base::{Count, Metric, PerShard, SharedCounts, counters, metrics};
use breme_http::{RefusalReason, Version};

use crate::visitors::VisitorTotals;

/// The classes of response statuses, 2xx to 5xx.
const CLASS_COUNT: usize = 4;
/// Versions counted separately. A request with an invalid first line has none.
const VERSIONS: [Option<Version>; 3] = [Some(Version::Http11), Some(Version::Http10), None];

/// The source of a file cache lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The cache.
    Cache,
    /// The file system.
    Root,
}

counters! {
    /// The counters of one shard, on cache lines of their own: processors fetch them in pairs.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub(crate) struct ShardCounts {
        responses: [[Count; VERSIONS.len()]; CLASS_COUNT],
        pub(crate) file_hits: Count,
        pub(crate) file_misses: Count,
    }

    /// The counters of a site.
    #[derive(Clone, Debug, Default)]
    #[non_exhaustive]
    pub struct SiteCounts {
        /// Complete responses by class and version; all combinations.
        pub responses: Vec<ResponseCount>,
        /// Rejected requests by reason; all reasons.
        pub refusals: Vec<(RefusalReason, u64)>,
        /// Of a site with files.
        pub files: Option<FileCounts>,
        /// Of a site that counts its visitors.
        pub visitors: Option<VisitorTotals>,
    }

    per_shard {
        Counter "requests_pipelined" "Pipelined requests: begun before the previous response was complete."
            { pipelined }
        Counter "requests_replayed"
            "Requests handled by replay: byte-identical to an earlier one, and so not parsed again." { repeated }
        Counter "clients_evicted" "Client connections closed early because others waited for a connection slot."
            { evicted }
    }
    elsewhere {}
}

impl ShardCounts {
    /// Counts a complete response before its last byte leaves, so that a client that has it finds it counted.
    pub(crate) fn count_response(&self, status: u16, version: Option<Version>) {
        let class = usize::from(status / 100).saturating_sub(2).min(CLASS_COUNT - 1);
        let version = match version {
            Some(Version::Http11) => 0,
            Some(Version::Http10) => 1,
            None => 2,
        };
        self.responses[class][version].add();
    }

    pub(crate) fn count_lookup(&self, source: Source) {
        match source {
            Source::Cache => self.file_hits.add(),
            Source::Root => self.file_misses.add(),
        }
    }

    fn responses_total(&self) -> u64 {
        self.responses.iter().flatten().map(Count::load).sum()
    }
}

/// The counters of all shards, and rare events that need none of their own.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    shards: PerShard<ShardCounts>,
    refusals: SharedCounts<{ RefusalReason::ALL.len() }>,
}

/// Responses of one class and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseCount {
    /// The first digit of their status, 2 to 5.
    pub status_class: u8,
    /// None: the request was rejected before the version was parsed.
    pub version: Option<Version>,
    /// Complete responses.
    pub count: u64,
}

/// Counters of the file cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCounts {
    /// Cache hits, including revalidated ones.
    pub hits: u64,
    /// Cache misses.
    pub misses: u64,
    /// Its current contents.
    pub kept: CachedFiles,
}

/// The contents of the file cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedFiles {
    /// Cached names, including those without a file.
    pub names: usize,
    /// Bytes in memory, including overhead.
    pub bytes: usize,
    /// Open files.
    pub open_files: usize,
}

impl FileCounts {
    /// The metrics of these counters.
    pub const METRICS: &[Metric<Self>] = metrics! {
        Counter "file_cache_hits" "File lookups answered from the cache." => |files: &Self| files.hits;
        Counter "file_cache_misses" "File lookups that read the file system." => |files: &Self| files.misses;
        Gauge "file_cache_names" "Cached file names." => |files: &Self| files.kept.names as u64;
        Gauge "file_cache_open_files" "Cached open files." => |files: &Self| files.kept.open_files as u64;
        ByteGauge "file_cache" "File contents cached in memory." => |files: &Self| files.kept.bytes as u64;
    };
}

impl Counters {
    /// Adds the counters of a shard, their only writer.
    pub(crate) fn add_shard(&self) -> Arc<ShardCounts> {
        self.shards.add_shard()
    }

    pub(crate) fn count_refusal(&self, reason: RefusalReason) {
        self.refusals.add(reason as usize);
    }

    /// Responses of all shards.
    pub(crate) fn responses_total(&self) -> u64 {
        self.shards.sum(ShardCounts::responses_total)
    }

    /// What the shards count, without the file cache.
    pub(crate) fn counts(&self) -> SiteCounts {
        SiteCounts { responses: self.responses(), refusals: self.refusals(), ..SiteCounts::sum(&self.shards) }
    }

    /// Hits and misses of the file cache.
    pub(crate) fn file_counts(&self, kept: CachedFiles) -> FileCounts {
        FileCounts { hits: self.sum(|shard| &shard.file_hits), misses: self.sum(|shard| &shard.file_misses), kept }
    }

    /// Responses by class and version.
    fn responses(&self) -> Vec<ResponseCount> {
        let kinds = (0..CLASS_COUNT).flat_map(|class| (0..VERSIONS.len()).map(move |version| (class, version)));
        let count = |(class, version): (usize, usize)| ResponseCount {
            status_class: class as u8 + 2,
            version: VERSIONS[version],
            count: self.sum(|shard| &shard.responses[class][version]),
        };
        kinds.map(count).collect()
    }

    /// All reasons with their counts.
    fn refusals(&self) -> Vec<(RefusalReason, u64)> {
        let count = |&reason: &RefusalReason| (reason, self.refusals.load(reason as usize));
        RefusalReason::ALL.iter().map(count).collect()
    }

    fn sum(&self, of: impl Fn(&ShardCounts) -> &Count) -> u64 {
        self.shards.sum(|shard| of(shard).load())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_all_shards() {
        let counters = Counters::default();
        let kinds = [(200, VERSIONS[0]), (304, VERSIONS[1]), (404, VERSIONS[0]), (599, VERSIONS[2])];
        for (times, (status, version)) in (1..).zip(kinds) {
            let shard = counters.add_shard();
            (0..times).for_each(|_| shard.count_response(status, version));
            shard.pipelined.add();
        }
        assert_eq!(counters.responses_total(), 10);
        assert_eq!(counters.sum(|shard| &shard.pipelined), 4);
        let seen: Vec<_> = counters.responses().into_iter().filter(|kind| kind.count > 0).collect();
        let expected = (1..).zip([(2, VERSIONS[0]), (3, VERSIONS[1]), (4, VERSIONS[0]), (5, VERSIONS[2])]);
        let expected: Vec<_> =
            expected.map(|(count, (status_class, version))| ResponseCount { status_class, version, count }).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn counts_each_refusal_reason() {
        let counters = Counters::default();
        for (times, &reason) in (1..).zip(RefusalReason::ALL) {
            (0..times).for_each(|_| counters.count_refusal(reason));
        }
        for (times, (reason, count)) in (1..).zip(counters.refusals()) {
            assert_eq!(count, times, "{reason:?}");
        }
    }
}
