//! Counters of the proxy, [separate](PerShard) for each shard.

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Count, PerShard, SharedCounts, TimeCounts, TimeHistogram, counters};
use breme_cache::{CacheStatus, Forwarded};
use breme_http::{Method, RefusalReason};

/// The lowest status; 1xx are switched protocols.
const STATUS_MIN: u16 = 100;
/// Statuses counted, 100 to 599; others count as the nearest.
const STATUS_COUNT: usize = 500;

/// Methods counted separately; the last entry is all others.
const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "other"];

counters! {
    /// The counters of one shard, on cache lines of their own: processors fetch them in pairs.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub(crate) struct ShardCounts {
        responses: Statuses,
        requests_received: [Count; METHODS.len()],
        upstream_times: TimeCounts,
        request_times: [TimeCounts; RequestOutcome::ALL.len()],
    }

    /// The counters of all shards.
    #[derive(Clone, Debug, Default)]
    #[non_exhaustive]
    pub struct ProxyCounts {
        /// Complete responses by status, ascending; only statuses that occurred.
        pub responses: Vec<StatusCount>,
        /// Valid requests by method: all methods of RFC 9110 and RFC 5789, and `other`.
        pub requests_received: Vec<(&'static str, u64)>,
        /// Rejected requests by reason; all reasons.
        pub refusals: Vec<(RefusalReason, u64)>,
        /// From a request sent upstream to its response head.
        pub upstream_times: TimeHistogram,
        /// From a client's request head to the end of its response, by outcome; all outcomes.
        pub request_times: Vec<(RequestOutcome, TimeHistogram)>,
    }

    per_shard {
        Gauge "requests_in_flight" "Requests in progress, including tunnels." { exchanges_open }
        Counter "requests_replayed"
            "Requests handled by replay: byte-identical to an earlier one, and so not parsed again." { requests_replayed }
        Counter "responses_replayed" "Relayed responses whose head was byte-identical to an earlier one."
            { responses_replayed }
        Counter "responses_aborted" by "reason" "Incomplete responses, by reason."
            { clients_gone = "client-gone", clients_failed = "client-failed", upstreams_failed = "upstream-failed" }
        Counter "clients_evicted" "Client connections closed early because others waited for a connection slot."
            { evicted }
        Counter "targets_refused" "Targets refused by the rules of a forward proxy." { targets_refused }
        Counter "tunnels" "Tunnels opened by CONNECT or Upgrade." { tunnels }
        Gauge "tunnels_open" "Open tunnels." { tunnels_open }
        Counter "upstream_connects" "Connections opened to upstreams." { connects }
        Counter "upstream_reuses" "Requests sent on a reused connection." { reuses }
        Counter "upstream_retries" "Requests sent again to the same upstream." { retries }
        Counter "upstream_failovers"
            "Requests sent to another upstream because the first could not be reached or failed its health checks."
            { second_choices }
        Counter "upstream_errors" by "kind"
            "Failed connections to upstreams, and error responses made by the proxy, by status." {
            connects_failed = "connect",
            bad_gateway = "502",
            unavailable = "503",
            gateway_timeouts = "504",
        }
        Gauge "upstream_connections" by "state" "Open connections to upstreams, by state."
            { pool_idle = "idle", pool_busy = "busy" }
        ByteCounter "upstream_sent" "Body bytes sent to upstreams, including tunnels." { bytes_upstream }
        ByteCounter "downstream_sent" "Body bytes sent to clients, including tunnels." { bytes_downstream }
        // Without a cache, rows whose names begin with `cache_` are not exposed (`proxy-command/src/metrics.rs`).
        Counter "cache_requests" by "result" "Requests by cache result." {
            cache_hits = "hit",
            cache_stale = "stale",
            cache_revalidated = "revalidated",
            cache_collapsed = "collapsed",
            cache_misses = "miss",
            cache_bypassed = "bypass",
        }
        ByteCounter "cache_sent" "Body bytes served from the cache." { cache_bytes }
    }

    elsewhere {
        Counter "clients_limited" by "kind" "Requests and connections over a client's limits."
            { requests_limited = "requests", connections_limited = "connections" }
        Counter "requests_queued" "Requests queued because every upstream was full." { requests_queued }
        Gauge "queue_length" "Requests in the queue for an upstream." { queue_length }
        Counter "upstream_retries_denied"
            "Requests that failed without a retry because the retry budget was spent (--retry-budget)."
            { retries_denied }
    }
}

impl ProxyCounts {
    /// Responses whose status has this first digit.
    #[must_use]
    pub fn responses_of_class(&self, class: u16) -> u64 {
        self.responses.iter().filter(|of_status| of_status.status / 100 == class).map(|of_status| of_status.count).sum()
    }

    /// Client requests with this outcome.
    #[must_use]
    pub fn requests(&self, outcome: RequestOutcome) -> u64 {
        self.request_times.iter().filter(|(of, _)| *of == outcome).map(|(_, times)| times.count()).sum()
    }
}

/// Responses of one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusCount {
    /// 100 to 599.
    pub status: u16,
    pub count: u64,
}

/// The outcome of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The cache responded without an upstream.
    Hit,
    /// The cache needed an upstream: for a new response, to revalidate one, or through another request.
    Miss,
    /// An upstream responded without the cache.
    Relayed,
    /// The proxy responded with an error, or the response was aborted.
    Error,
}

impl RequestOutcome {
    /// All outcomes, in order.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Relayed, Self::Error];

    /// The value of the metric label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Relayed => "relayed",
            Self::Error => "error",
        }
    }

    pub(crate) fn from_cache_status(report: &CacheStatus) -> Self {
        match report.forwarded {
            _ if report.collapsed => Self::Miss,
            None => Self::Hit,
            Some(Forwarded::Bypass | Forwarded::Method) => Self::Relayed,
            Some(_) => Self::Miss,
        }
    }
}

/// Responses by status.
#[derive(Debug)]
struct Statuses([Count; STATUS_COUNT]);

impl Default for Statuses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

impl ShardCounts {
    /// A response was sent completely.
    pub(crate) fn count_response(&self, status: u16) {
        let index = usize::from(status.saturating_sub(STATUS_MIN)).min(STATUS_COUNT - 1);
        self.responses.0[index].add();
    }

    /// A request has a valid head.
    pub(crate) fn count_request(&self, method: Method<'_>) {
        self.requests_received[method_index(method)].add();
    }

    /// A replayed request with this head.
    pub(crate) fn count_replayed_request(&self, head: &[u8]) {
        let token = head.split(|&byte| byte == b' ').next().and_then(Method::from_token);
        self.count_request(token.unwrap_or(Method::Other("")));
    }

    /// The proxy sent an error response of its own.
    pub(crate) fn count_failure(&self, status: u16) {
        match status {
            502 => self.bad_gateway.add(),
            503 => self.unavailable.add(),
            504 => self.gateway_timeouts.add(),
            _ => {}
        }
    }

    /// Counts a decision of the cache, and body bytes from the store.
    pub(crate) fn count_cached(&self, report: &CacheStatus, stored_bytes: u64) {
        let is_stale = report.ttl_s.is_some_and(|ttl| ttl < 0);
        let counter = match report.forwarded {
            _ if report.collapsed => &self.cache_collapsed,
            None | Some(_) if is_stale => &self.cache_stale,
            None => &self.cache_hits,
            Some(Forwarded::Bypass | Forwarded::Method) => &self.cache_bypassed,
            Some(_) if report.forwarded_status == Some(304) => &self.cache_revalidated,
            Some(_) => &self.cache_misses,
        };
        counter.add();
        self.cache_bytes.add_many(stored_bytes);
    }

    /// A stored response was replayed.
    pub(crate) fn count_replayed(&self, content_bytes: u64) {
        self.request_times[RequestOutcome::Hit as usize].record(Duration::ZERO);
        self.requests_replayed.add();
        self.cache_hits.add();
        self.cache_bytes.add_many(content_bytes);
        self.bytes_downstream.add_many(content_bytes);
    }

    pub(crate) fn count_upstream_time(&self, time: Duration) {
        self.upstream_times.record(time);
    }

    /// A client's request has ended, this long after its head.
    pub(crate) fn count_request_time(&self, outcome: RequestOutcome, time: Duration) {
        self.request_times[outcome as usize].record(time);
    }
}

/// The counters of all shards, and rare events that need none of their own.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    shards: PerShard<ShardCounts>,
    refusals: SharedCounts<{ RefusalReason::ALL.len() }>,
}

impl Counters {
    /// Adds the counters of a shard, their only writer.
    pub(crate) fn add_shard(&self) -> Arc<ShardCounts> {
        self.shards.add_shard()
    }

    pub(crate) fn count_refusal(&self, reason: RefusalReason) {
        self.refusals.add(reason as usize);
    }

    pub(crate) fn counts(&self) -> ProxyCounts {
        let times = |outcome: RequestOutcome| self.shards.sum_times(|shard| &shard.request_times[outcome as usize]);
        ProxyCounts {
            responses: self.responses(),
            requests_received: self.requests_received(),
            refusals: self.refusals(),
            upstream_times: self.shards.sum_times(|shard| &shard.upstream_times),
            request_times: RequestOutcome::ALL.map(|outcome| (outcome, times(outcome))).into(),
            ..ProxyCounts::sum(&self.shards)
        }
    }

    fn responses(&self) -> Vec<StatusCount> {
        let count = |(index, status)| StatusCount { status, count: self.sum(|shard| &shard.responses.0[index]) };
        (STATUS_MIN..).take(STATUS_COUNT).enumerate().map(count).filter(|of_status| of_status.count > 0).collect()
    }

    fn requests_received(&self) -> Vec<(&'static str, u64)> {
        let count = |(index, method)| (method, self.sum(|shard| &shard.requests_received[index]));
        METHODS.into_iter().enumerate().map(count).collect()
    }

    /// Requests sent upstream, or that could not be for lack of a connection; each counts once, whatever its retries.
    pub(crate) fn requests_upstream(&self) -> u64 {
        let again = self.sum(|shard| &shard.retries) + self.sum(|shard| &shard.second_choices);
        let connects = self.sum(|shard| &shard.connects) + self.sum(|shard| &shard.connects_failed);
        (connects + self.sum(|shard| &shard.reuses)).saturating_sub(again)
    }

    fn refusals(&self) -> Vec<(RefusalReason, u64)> {
        let count = |&reason: &RefusalReason| (reason, self.refusals.load(reason as usize));
        RefusalReason::ALL.iter().map(count).collect()
    }

    fn sum(&self, of: impl Fn(&ShardCounts) -> &Count) -> u64 {
        self.shards.sum(|shard| of(shard).load())
    }
}

/// Its index in [`METHODS`].
fn method_index(method: Method<'_>) -> usize {
    match method {
        Method::Get => 0,
        Method::Head => 1,
        Method::Post => 2,
        Method::Put => 3,
        Method::Delete => 4,
        Method::Connect => 5,
        Method::Options => 6,
        Method::Trace => 7,
        Method::Patch => 8,
        Method::Other(_) => METHODS.len() - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_methods_by_name() {
        for method in METHODS.into_iter().chain(["PURGE", "get"]) {
            let counters = Counters::default();
            let counts = counters.add_shard();
            counts.count_request(Method::from_token(method.as_bytes()).unwrap());
            counts.count_replayed_request(format!("{method} / HTTP/1.1\r\n").as_bytes());
            let name = if METHODS.contains(&method) { method } else { "other" };
            let counted = counters.counts().requests_received;
            assert_eq!(counted.len(), METHODS.len());
            assert!(
                counted.iter().all(|&(of, count)| count == if of == name { 2 } else { 0 }),
                "{method}: {counted:?}"
            );
        }
    }

    #[test]
    fn sums_all_shards() {
        let counters = Counters::default();
        for (shard, status) in [101, 200, 304, 404, 599].into_iter().enumerate() {
            let counts = counters.add_shard();
            (0..=shard).for_each(|_| counts.count_response(status));
            counts.pool_busy.add_many(2);
            counts.pool_idle.add();
        }
        let counts = counters.counts();
        let statuses: Vec<_> = counts.responses.iter().map(|kind| (kind.status, kind.count)).collect();
        assert_eq!(statuses, [(101, 1), (200, 2), (304, 3), (404, 4), (599, 5)]);
        assert_eq!((counts.pool_idle, counts.pool_busy), (5, 10));
    }

    #[test]
    fn retried_request_counts_once() {
        let counters = Counters::default();
        let counts = [counters.add_shard(), counters.add_shard()];
        // One was retried on a new connection after a reused one was closed; one was sent only to the second upstream;
        // one to none.
        [&counts[0].reuses, &counts[0].retries, &counts[1].connects].into_iter().for_each(Count::add);
        [&counts[0].connects_failed, &counts[0].second_choices, &counts[0].connects].into_iter().for_each(Count::add);
        counts[1].connects_failed.add();
        assert_eq!(counters.requests_upstream(), 3);
    }
}
