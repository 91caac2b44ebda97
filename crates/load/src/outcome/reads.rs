//! What reads showed: hits of caches, and pages that were out of date.

use breme_base::nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::times::TimeSummary;
use crate::run::Run;
use crate::tally::Tally;

/// Responses to GET, by what their Cache-Status (RFC 9211) says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CacheSummary {
    /// Given by a cache without asking further.
    pub hits: u64,
    /// Not given by any cache on their way.
    pub misses: u64,
    /// Without a Cache-Status that can be read.
    pub unsaid: u64,
    /// hits / (hits + misses); none if there are neither.
    pub hit_ratio: Option<f64>,
}

/// Versions of pages that the run wrote (`{page_version}`) and read again with GET.
///
/// A response is stale if it shows a version that was replaced before the request was sent: another write of the page
/// began after the acknowledgement of that version, and was itself acknowledged before. Writes that overlap, and those
/// whose outcome is unknown, replace nothing for certain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StaleSummary {
    /// Responses that showed a replaced version.
    pub count: u64,
    /// Responses whose version could be judged, the stale ones too.
    pub judged: u64,
    /// Responses with status 200 that showed no version of this run, though one had been acknowledged.
    pub unversioned: u64,
    /// Writes that were acknowledged: answered with a status from 200 to 399.
    pub writes: u64,
    /// Writes that were not followed, since there were too many pages or versions.
    pub not_followed: u64,
    /// From the first acknowledgement that replaced the version to the sending of the request, of stale responses.
    pub age: TimeSummary,
    /// The distribution of these ages: an `HdrHistogram` in the compressed V2 encoding, base64.
    pub age_histogram: String,
    /// The pages with the most stale responses.
    pub pages: Vec<StalePageSummary>,
}

/// A page with stale responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StalePageSummary {
    /// The request target.
    pub path: String,
    /// Stale responses.
    pub count: u64,
    /// The greatest age.
    pub age_max_ns: u64,
}

impl CacheSummary {
    /// None where nothing was counted.
    pub(super) fn of(run: &Run, tally: &Tally) -> Option<Self> {
        let caches = tally.caches;
        let said = caches.hits + caches.misses;
        run.plan().counts_caches().then(|| Self {
            hits: caches.hits,
            misses: caches.misses,
            unsaid: caches.unsaid,
            hit_ratio: (said > 0).then(|| caches.hits as f64 / said as f64),
        })
    }
}

impl StaleSummary {
    /// None for a run that writes no versions.
    pub(super) fn of(run: &Run, tally: &Tally) -> Option<Self> {
        let (worst, not_followed) = run.versions()?.worst();
        let pages = worst.into_iter().map(|page| StalePageSummary {
            path: page.target,
            count: page.stale,
            age_max_ns: nanos(page.age_max),
        });
        let versions = &tally.versions;
        Some(Self {
            count: versions.ages.count(),
            judged: versions.judged,
            unversioned: versions.unversioned,
            writes: versions.acknowledged,
            not_followed,
            age: TimeSummary::of(&versions.ages),
            age_histogram: versions.ages.encode(),
            pages: pages.collect(),
        })
    }
}
