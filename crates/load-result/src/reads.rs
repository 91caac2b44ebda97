//! Results of reads: cache hits, and stale pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::times::TimeSummary;

/// Responses to GET by cache result, from their Cache-Status (RFC 9211).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSummary {
    /// Number of responses served by a cache.
    pub hits: u64,
    /// Number of responses that no cache on their path served.
    pub misses: u64,
    /// Number of responses without a valid Cache-Status.
    pub unsaid: u64,
    /// hits ÷ (hits + misses); null if both are 0.
    pub hit_ratio: Option<f64>,
    /// Requests that reached the origin, by its own count (`--origin-counter`).
    pub origin_requests: Option<u64>,
    /// By the origin's count: responses that did not need it / responses to GET.
    pub origin_hit_ratio: Option<f64>,
}

/// Versions of pages that the run wrote (`{page_version}`) and read again with GET.
///
/// A response is stale if it shows a version that was replaced before the request was sent: another write of the page
/// began after the acknowledgement of that version, and was itself acknowledged before. Writes that overlap, and those
/// whose outcome is unknown, replace nothing for certain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StaleSummary {
    /// Number of stale responses.
    pub count: u64,
    /// Number of responses with a version that could be checked, including the stale ones.
    pub judged: u64,
    /// Number of responses with status 200 and no version of this run, after a version had been acknowledged.
    pub unversioned: u64,
    /// Number of acknowledged writes: those with a status from 200 to 399.
    pub writes: u64,
    /// Number of writes not tracked, because there were too many pages or versions.
    pub not_followed: u64,
    /// Age of stale responses: time from the first acknowledgement of a newer version to the sending of the request.
    pub age: TimeSummary,
    /// Histogram of these ages: HdrHistogram in the compressed V2 encoding, base64.
    pub age_histogram: String,
    /// Pages with the most stale responses.
    pub pages: Vec<StalePageSummary>,
}

/// Pairs that sessions stored, and the responses that showed them (`check = { pairs = true }`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairsSummary {
    /// Number of responses that were compared: those of status 2xx.
    pub responses: u64,
    /// Number of responses that lacked a pair which was acknowledged before.
    pub inconsistent: u64,
    /// Number of inconsistent responses that lacked a pair which a later response of the session showed again, or that
    /// were the last of their session and the first to lack it.
    pub stale: u64,
    /// Number of acknowledged pairs that the last two responses of their session lacked, or more.
    pub lost: u64,
    /// Number of lines that were no pair of the session, or were there twice.
    pub foreign: u64,
    /// Number of responses that set a session id which another session had.
    pub shared_ids: u64,
    /// Number of pairs whose request got no response: they may have been stored or not.
    pub unknown: u64,
    /// Number of responses of status 500.
    pub status_500: u64,
    /// Number of responses of status 503.
    pub status_503: u64,
}

/// A page with stale responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StalePageSummary {
    /// Request target.
    pub path: String,
    /// Number of stale responses.
    pub count: u64,
    /// Maximum age of a stale response, in nanoseconds.
    pub age_max_ns: u64,
}

impl CacheSummary {
    /// Sets how many requests reached the origin, out of those with `responses`.
    pub(crate) fn count_origin(&mut self, requests: u64, responses: u64) {
        let reads = self.hits + self.misses + self.unsaid;
        self.origin_requests = Some(requests);
        // Other methods reach the origin, so only reads can be missing there.
        let ratio = || (responses.saturating_sub(requests) as f64 / reads as f64).min(1.0);
        self.origin_hit_ratio = (reads > 0).then(ratio);
    }
}
