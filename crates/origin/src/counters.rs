//! What a site counts, each shard at a [place](ShardPlaces) of its own.

use std::sync::Arc;

use breme_base::{Count, ShardPlaces, SharedCounts};
use breme_http1::{RefusalReason, Version};

/// The classes of statuses that a server answers with, 2xx to 5xx.
const CLASS_COUNT: usize = 4;
/// Versions that are told apart. A request that was refused for its first line has none.
const VERSIONS: [Option<Version>; 3] = [Some(Version::Http11), Some(Version::Http10), None];

/// Where the answer to a look-up came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// It was known.
    Kept,
    /// It was read.
    Root,
}

/// What one shard counts. Places are far enough from each other: processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ShardCounts {
    answers: [[Count; VERSIONS.len()]; CLASS_COUNT],
    /// Requests of which a part had come when the answer to the one before was complete.
    pub(crate) pipelined: Count,
    /// Requests that were answered as the same ones before.
    pub(crate) repeated: Count,
    /// Idle connections that were closed early, since others waited for their places.
    pub(crate) evicted: Count,
    /// Names that were asked for and known.
    pub(crate) file_hits: Count,
    /// Names for which the file system was read.
    pub(crate) file_misses: Count,
}

impl ShardCounts {
    /// An answer that was handed over completely; before its last byte leaves, so that a client that has it will find
    /// it counted.
    pub(crate) fn count_answer(&self, status: u16, version: Option<Version>) {
        let class = usize::from(status / 100).saturating_sub(2).min(CLASS_COUNT - 1);
        let version = match version {
            Some(Version::Http11) => 0,
            Some(Version::Http10) => 1,
            None => 2,
        };
        self.answers[class][version].add();
    }

    /// A name was asked for.
    pub(crate) fn count_lookup(&self, source: Source) {
        match source {
            Source::Kept => self.file_hits.add(),
            Source::Root => self.file_misses.add(),
        }
    }

    fn answered(&self) -> u64 {
        self.answers.iter().flatten().map(Count::load).sum()
    }
}

/// The places of all shards, and what happens too seldom to need one.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    shards: ShardPlaces<ShardCounts>,
    refusals: SharedCounts<{ RefusalReason::ALL.len() }>,
}

/// Answers of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerCount {
    /// The first digit of their status, 2 to 5.
    pub status_class: u8,
    /// The version of their requests; none if a request was refused before that was known.
    pub version: Option<Version>,
    /// How many were handed over completely.
    pub count: u64,
}

impl Counters {
    /// A place for one shard more, to be written by nobody else.
    pub(crate) fn add_shard(&self) -> Arc<ShardCounts> {
        self.shards.add_shard()
    }

    pub(crate) fn count_refusal(&self, reason: RefusalReason) {
        self.refusals.add(reason as usize);
    }

    /// The answers of all shards.
    pub(crate) fn answered(&self) -> u64 {
        self.shards.sum(ShardCounts::answered)
    }

    /// The same by class and version.
    pub(crate) fn answers(&self) -> Vec<AnswerCount> {
        let kinds = (0..CLASS_COUNT).flat_map(|class| (0..VERSIONS.len()).map(move |version| (class, version)));
        let count = |(class, version): (usize, usize)| AnswerCount {
            status_class: class as u8 + 2,
            version: VERSIONS[version],
            count: self.sum(|shard| &shard.answers[class][version]),
        };
        kinds.map(count).collect()
    }

    /// Every reason with its count.
    pub(crate) fn refusals(&self) -> Vec<(RefusalReason, u64)> {
        let count = |&reason: &RefusalReason| (reason, self.refusals.load(reason as usize));
        RefusalReason::ALL.iter().map(count).collect()
    }

    /// One of the other counts, of all shards.
    pub(crate) fn sum(&self, of: impl Fn(&ShardCounts) -> &Count) -> u64 {
        self.shards.sum(|shard| of(shard).load())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_is_in_the_sums() {
        let counters = Counters::default();
        let kinds = [(200, VERSIONS[0]), (304, VERSIONS[1]), (404, VERSIONS[0]), (599, VERSIONS[2])];
        for (times, (status, version)) in (1..).zip(kinds) {
            let shard = counters.add_shard();
            (0..times).for_each(|_| shard.count_answer(status, version));
            shard.pipelined.add();
        }
        assert_eq!(counters.answered(), 10);
        assert_eq!(counters.sum(|shard| &shard.pipelined), 4);
        let seen: Vec<_> = counters.answers().into_iter().filter(|kind| kind.count > 0).collect();
        let expected = (1..).zip([(2, VERSIONS[0]), (3, VERSIONS[1]), (4, VERSIONS[0]), (5, VERSIONS[2])]);
        let expected: Vec<_> =
            expected.map(|(count, (status_class, version))| AnswerCount { status_class, version, count }).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn every_reason_has_a_place_of_its_own() {
        let counters = Counters::default();
        for (times, &reason) in (1..).zip(RefusalReason::ALL) {
            (0..times).for_each(|_| counters.count_refusal(reason));
        }
        for (times, (reason, count)) in (1..).zip(counters.refusals()) {
            assert_eq!(count, times, "{reason:?}");
        }
    }
}
