//! Results of reads: cache hits, and stale pages.

use breme_base::nanos;
use breme_load_result::{CacheSummary, PairsSummary, StalePageSummary, StaleSummary, TimeSummary};

use crate::run::Run;
use crate::tally::Tally;

/// None if nothing was counted.
pub(super) fn cache(run: &Run, tally: &Tally) -> Option<CacheSummary> {
    let caches = &tally.caches;
    let said = caches.hits + caches.misses;
    run.plan().counts_caches().then(|| CacheSummary {
        hits: caches.hits,
        misses: caches.misses,
        unsaid: caches.unsaid,
        hit_ratio: (said > 0).then(|| caches.hits as f64 / said as f64),
        origin_requests: None,
        origin_hit_ratio: None,
    })
}

/// None without pairs.
pub(super) fn pairs(run: &Run, tally: &Tally) -> Option<PairsSummary> {
    run.session_ids().map(|_| tally.pairs.0)
}

/// None without versions.
pub(super) fn stale(run: &Run, tally: &Tally) -> Option<StaleSummary> {
    let (worst, not_followed) = run.versions()?.worst();
    let pages = worst.into_iter().map(|page| StalePageSummary {
        path: page.target,
        count: page.stale,
        age_max_ns: nanos(page.age_max),
    });
    let versions = &tally.versions;
    Some(StaleSummary {
        count: versions.ages.count(),
        judged: versions.judged,
        unversioned: versions.unversioned,
        writes: versions.acknowledged,
        not_followed,
        age: TimeSummary::from_histogram(&versions.ages),
        age_histogram: versions.ages.encode(),
        pages: pages.collect(),
    })
}
