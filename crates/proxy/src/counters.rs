//! What the proxy counts, each shard at a [place](ShardPlaces) of its own.

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Count, ShardPlaces, SharedCounts, nanos};
use breme_cache::{CacheStatus, Forwarded};
use breme_http1::{Method, RefusalReason};

/// Upper bounds of the buckets of times, in seconds; after the last one is everything longer.
pub const TIME_BOUNDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The same in nanoseconds, to be compared with.
const BOUNDS_NS: [u64; TIME_BOUNDS.len()] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// The lowest status; responses of 1xx are those that switched protocols.
const STATUS_MIN: u16 = 100;
/// Statuses that are counted, 100 to 599; others count as the nearest of them.
const STATUS_COUNT: usize = 500;

/// The methods that are counted one by one; the last is for all others.
const METHODS: [&str; 10] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "other"];

/// What the shards of a proxy have counted so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProxyCounts {
    /// Answers that were handed over completely, by status: those that occurred, the lowest first.
    pub answers: Vec<StatusCount>,
    /// Requests whose heads were valid, by method: every one that RFC 9110 and RFC 5789 define, and `other`.
    pub requests_received: Vec<(&'static str, u64)>,
    /// Requests that were refused for what they are, by reason; every reason is there.
    pub refusals: Vec<(RefusalReason, u64)>,
    /// Exchanges that are under way, tunnels too.
    pub exchanges_open: u64,
    /// Exchanges whose client went away before the end.
    pub clients_gone: u64,
    /// Answers that broke off after they had begun.
    pub answers_cut: u64,
    /// Connections to upstreams that were opened.
    pub connects: u64,
    /// … and that could not be.
    pub connects_failed: u64,
    /// Requests that went out on a connection that had carried others.
    pub reuses: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// … and that went to another upstream, since one could not be reached.
    pub second_choices: u64,
    /// Requests that were neither, since too many were already.
    pub retries_denied: u64,
    /// Requests that were passed on as the same ones before, without being read and written anew.
    pub requests_repeated: u64,
    /// Answers that were.
    pub answers_repeated: u64,
    /// Clients whose connections were closed early, since others waited.
    pub evicted: u64,
    /// Connections to upstreams that wait for a request.
    pub pool_idle: u64,
    /// Connections to upstreams that have one.
    pub pool_busy: u64,
    /// Answers of 502 that the proxy gave itself.
    pub bad_gateway: u64,
    /// … of 503.
    pub unavailable: u64,
    /// … of 504.
    pub gateway_timeouts: u64,
    /// Tunnels that were opened, by CONNECT or Upgrade.
    pub tunnels: u64,
    /// … and that are open.
    pub tunnels_open: u64,
    /// Targets that the rules of a forward proxy refused.
    pub targets_refused: u64,
    /// Requests that were answered with 429, since their client had sent too many.
    pub requests_limited: u64,
    /// Connections that were closed at once, since their client had too many.
    pub connections_limited: u64,
    /// Answers that were stored and fresh.
    pub cache_hits: u64,
    /// … of these, answers to requests that came before byte for byte, and were not read anew.
    pub cache_repeated: u64,
    /// Answers that were stored and stale: while a refresh was under way, or because upstream failed.
    pub cache_stale: u64,
    /// Stored answers that upstream said are still right.
    pub cache_revalidated: u64,
    /// Answers that another request's fetching served.
    pub cache_collapsed: u64,
    /// Requests for which upstream was asked.
    pub cache_misses: u64,
    /// … that the cache had nothing to do with.
    pub cache_bypassed: u64,
    /// Bytes of content that came out of the store.
    pub cache_bytes: u64,
    /// Requests that had to wait because every upstream was full.
    pub requests_queued: u64,
    /// … and that wait now.
    pub queue_length: u64,
    /// Bytes of content that went to upstreams, and of tunnels.
    pub bytes_upstream: u64,
    /// Bytes of content that went to clients, and of tunnels.
    pub bytes_downstream: u64,
    /// Times from a request sent to an upstream to the head of its answer.
    pub upstream_times: Histogram,
    /// Times from the head of a client's request to the end of its response, by outcome; every outcome is there.
    pub request_times: Vec<(RequestOutcome, Histogram)>,
}

impl ProxyCounts {
    /// Answers whose status has this first digit.
    #[must_use]
    pub fn answers_of_class(&self, class: u16) -> u64 {
        self.answers.iter().filter(|answers| answers.status / 100 == class).map(|answers| answers.count).sum()
    }

    /// Requests of clients that ended so, by their request times.
    #[must_use]
    pub fn requests(&self, outcome: RequestOutcome) -> u64 {
        let histograms = self.request_times.iter().filter(|(of, _)| *of == outcome);
        histograms.flat_map(|(_, times)| &times.buckets).map(|bucket| bucket.count).sum()
    }
}

/// Answers of one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusCount {
    /// 100 to 599.
    pub status: u16,
    /// How many.
    pub count: u64,
}

/// How a request of a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The cache responded without waiting for an upstream.
    Hit,
    /// The cache needed an upstream: for a new response, to revalidate a stored one, or through another request.
    Miss,
    /// An upstream responded, and the cache had no part in it.
    Relayed,
    /// The proxy responded with an error of its own, or the response broke off.
    Error,
}

impl RequestOutcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Relayed, Self::Error];

    /// The value of its label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Relayed => "relayed",
            Self::Error => "error",
        }
    }

    /// That of a request for which the cache did this.
    pub(crate) fn of_report(report: &CacheStatus) -> Self {
        match report.forwarded {
            _ if report.collapsed => Self::Miss,
            None => Self::Hit,
            Some(Forwarded::Bypass | Forwarded::Method) => Self::Relayed,
            Some(_) => Self::Miss,
        }
    }
}

/// Times, sorted into buckets by [`TIME_BOUNDS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Not cumulative; the last one has no bound.
    pub buckets: Vec<Bucket>,
    /// The sum of the times, in seconds.
    pub seconds: f64,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Its upper bound in seconds; infinite for the last one.
    pub bound: f64,
    /// How many fell into it and into none before it.
    pub count: u64,
}

/// Times of one shard. To count one takes as many steps as there are buckets at most.
#[derive(Debug, Default)]
struct Times {
    buckets: [Count; TIME_BOUNDS.len() + 1],
    nanos: Count,
}

impl Times {
    fn add(&self, time: Duration) {
        let nanos = nanos(time);
        let bucket = BOUNDS_NS.iter().position(|&bound| nanos <= bound).unwrap_or(BOUNDS_NS.len());
        self.buckets[bucket].add();
        self.nanos.add_many(nanos);
    }
}

/// Answers by status.
#[derive(Debug)]
struct Statuses([Count; STATUS_COUNT]);

impl Default for Statuses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

/// What one shard counts. Places are far enough from each other: processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ShardCounts {
    answers: Statuses,
    requests_received: [Count; METHODS.len()],
    upstream_times: Times,
    request_times: [Times; RequestOutcome::ALL.len()],
    pub(crate) exchanges_open: Count,
    pub(crate) clients_gone: Count,
    pub(crate) answers_cut: Count,
    pub(crate) connects: Count,
    pub(crate) connects_failed: Count,
    pub(crate) reuses: Count,
    pub(crate) retries: Count,
    pub(crate) second_choices: Count,
    pub(crate) requests_repeated: Count,
    pub(crate) answers_repeated: Count,
    pub(crate) evicted: Count,
    pub(crate) pool_idle: Count,
    pub(crate) upstreams_open: Count,
    pub(crate) bad_gateway: Count,
    pub(crate) unavailable: Count,
    pub(crate) gateway_timeouts: Count,
    pub(crate) tunnels: Count,
    pub(crate) tunnels_open: Count,
    pub(crate) targets_refused: Count,
    cache_hits: Count,
    cache_repeated: Count,
    cache_stale: Count,
    cache_revalidated: Count,
    cache_collapsed: Count,
    cache_misses: Count,
    cache_bypassed: Count,
    pub(crate) cache_bytes: Count,
    pub(crate) bytes_upstream: Count,
    pub(crate) bytes_downstream: Count,
}

impl ShardCounts {
    /// An answer that was handed over completely.
    pub(crate) fn count_answer(&self, status: u16) {
        let index = usize::from(status.saturating_sub(STATUS_MIN)).min(STATUS_COUNT - 1);
        self.answers.0[index].add();
    }

    /// A request with this method has a valid head.
    pub(crate) fn count_request(&self, method: Method<'_>) {
        self.requests_received[method_index(method)].add();
    }

    /// The same of a head that came before, byte for byte.
    pub(crate) fn count_repeated_request(&self, head: &[u8]) {
        let token = head.split(|&byte| byte == b' ').next().and_then(Method::from_token);
        self.count_request(token.unwrap_or(Method::Other("")));
    }

    /// An answer of the proxy's own in place of the upstream's.
    pub(crate) fn count_failure(&self, status: u16) {
        match status {
            502 => self.bad_gateway.add(),
            503 => self.unavailable.add(),
            504 => self.gateway_timeouts.add(),
            _ => {}
        }
    }

    /// What the cache did with a request, and how much of its content came out of the store.
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

    /// A stored answer that was given again without asking the cache, in the same event.
    pub(crate) fn count_repeated(&self, content_bytes: u64) {
        self.request_times[RequestOutcome::Hit as usize].buckets[0].add();
        self.cache_hits.add();
        self.cache_repeated.add();
        self.cache_bytes.add_many(content_bytes);
        self.bytes_downstream.add_many(content_bytes);
    }

    pub(crate) fn count_upstream_time(&self, time: Duration) {
        self.upstream_times.add(time);
    }

    /// A client's request is over; so long after its head.
    pub(crate) fn count_request_time(&self, outcome: RequestOutcome, time: Duration) {
        self.request_times[outcome as usize].add(time);
    }
}

/// The places of all shards, and what happens too seldom to need one.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    shards: ShardPlaces<ShardCounts>,
    refusals: SharedCounts<{ RefusalReason::ALL.len() }>,
}

impl Counters {
    /// A place for one shard more, to be written by nobody else.
    pub(crate) fn add_shard(&self) -> Arc<ShardCounts> {
        self.shards.add_shard()
    }

    pub(crate) fn count_refusal(&self, reason: RefusalReason) {
        self.refusals.add(reason as usize);
    }

    pub(crate) fn counts(&self) -> ProxyCounts {
        let idle = self.sum(|shard| &shard.pool_idle);
        let times = |outcome: RequestOutcome| self.histogram(|shard| &shard.request_times[outcome as usize]);
        ProxyCounts {
            answers: self.answers(),
            requests_received: self.requests_received(),
            refusals: self.refusals(),
            exchanges_open: self.sum(|shard| &shard.exchanges_open),
            clients_gone: self.sum(|shard| &shard.clients_gone),
            answers_cut: self.sum(|shard| &shard.answers_cut),
            connects: self.sum(|shard| &shard.connects),
            connects_failed: self.sum(|shard| &shard.connects_failed),
            reuses: self.sum(|shard| &shard.reuses),
            retries: self.sum(|shard| &shard.retries),
            second_choices: self.sum(|shard| &shard.second_choices),
            requests_repeated: self.sum(|shard| &shard.requests_repeated),
            answers_repeated: self.sum(|shard| &shard.answers_repeated),
            evicted: self.sum(|shard| &shard.evicted),
            pool_idle: idle,
            pool_busy: self.sum(|shard| &shard.upstreams_open).saturating_sub(idle),
            bad_gateway: self.sum(|shard| &shard.bad_gateway),
            unavailable: self.sum(|shard| &shard.unavailable),
            gateway_timeouts: self.sum(|shard| &shard.gateway_timeouts),
            tunnels: self.sum(|shard| &shard.tunnels),
            tunnels_open: self.sum(|shard| &shard.tunnels_open),
            targets_refused: self.sum(|shard| &shard.targets_refused),
            // These are known elsewhere.
            retries_denied: 0,
            requests_limited: 0,
            connections_limited: 0,
            cache_hits: self.sum(|shard| &shard.cache_hits),
            cache_repeated: self.sum(|shard| &shard.cache_repeated),
            cache_stale: self.sum(|shard| &shard.cache_stale),
            cache_revalidated: self.sum(|shard| &shard.cache_revalidated),
            cache_collapsed: self.sum(|shard| &shard.cache_collapsed),
            cache_misses: self.sum(|shard| &shard.cache_misses),
            cache_bypassed: self.sum(|shard| &shard.cache_bypassed),
            cache_bytes: self.sum(|shard| &shard.cache_bytes),
            requests_queued: 0,
            queue_length: 0,
            bytes_upstream: self.sum(|shard| &shard.bytes_upstream),
            bytes_downstream: self.sum(|shard| &shard.bytes_downstream),
            upstream_times: self.histogram(|shard| &shard.upstream_times),
            request_times: RequestOutcome::ALL.map(|outcome| (outcome, times(outcome))).into(),
        }
    }

    fn answers(&self) -> Vec<StatusCount> {
        let count = |(index, status)| StatusCount { status, count: self.sum(|shard| &shard.answers.0[index]) };
        (STATUS_MIN..).take(STATUS_COUNT).enumerate().map(count).filter(|answers| answers.count > 0).collect()
    }

    fn requests_received(&self) -> Vec<(&'static str, u64)> {
        let count = |(index, method)| (method, self.sum(|shard| &shard.requests_received[index]));
        METHODS.into_iter().enumerate().map(count).collect()
    }

    fn histogram(&self, of: impl Fn(&ShardCounts) -> &Times) -> Histogram {
        let bounds = TIME_BOUNDS.iter().copied().chain([f64::INFINITY]);
        let count = |(index, bound)| Bucket { bound, count: self.sum(|shard| &of(shard).buckets[index]) };
        let seconds = self.sum(|shard| &of(shard).nanos) as f64 / 1e9;
        Histogram { buckets: bounds.enumerate().map(count).collect(), seconds }
    }

    /// Requests that have gone out to upstreams, or could not since no connection was to be had: each once, however
    /// often it was tried.
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

/// Its place in [`METHODS`].
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
    fn each_method_is_counted_under_its_name() {
        for method in METHODS.into_iter().chain(["PURGE", "get"]) {
            let counters = Counters::default();
            let counts = counters.add_shard();
            counts.count_request(Method::from_token(method.as_bytes()).unwrap());
            counts.count_repeated_request(format!("{method} / HTTP/1.1\r\n").as_bytes());
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
    fn every_shard_is_in_the_sums() {
        let counters = Counters::default();
        for (shard, status) in [101, 200, 304, 404, 599].into_iter().enumerate() {
            let counts = counters.add_shard();
            (0..=shard).for_each(|_| counts.count_answer(status));
            counts.upstreams_open.add_many(3);
            counts.pool_idle.add();
        }
        let counts = counters.counts();
        let statuses: Vec<_> = counts.answers.iter().map(|kind| (kind.status, kind.count)).collect();
        assert_eq!(statuses, [(101, 1), (200, 2), (304, 3), (404, 4), (599, 5)]);
        assert_eq!((counts.pool_idle, counts.pool_busy), (5, 10));
    }

    #[test]
    fn a_request_counts_once_however_often_it_is_tried() {
        let counters = Counters::default();
        let counts = [counters.add_shard(), counters.add_shard()];
        // One went out on a connection that had ended, and then on a new one; one could be sent to the second upstream
        // only; one to none.
        [&counts[0].reuses, &counts[0].retries, &counts[1].connects].into_iter().for_each(Count::add);
        [&counts[0].connects_failed, &counts[0].second_choices, &counts[0].connects].into_iter().for_each(Count::add);
        counts[1].connects_failed.add();
        assert_eq!(counters.requests_upstream(), 3);
    }

    #[test]
    fn times_fall_into_the_bucket_of_their_bound() {
        let counters = Counters::default();
        let counts = counters.add_shard();
        for nanos in [0, 100_000, 100_001, 500_000, 500_001, 10_000_000_000, 10_000_000_001] {
            counts.count_upstream_time(Duration::from_nanos(nanos));
        }
        let Histogram { buckets, seconds } = counters.counts().upstream_times;
        let filled: Vec<_> = buckets.iter().filter(|bucket| bucket.count > 0).copied().collect();
        let expected = [(0.0001, 2), (0.00025, 1), (0.0005, 1), (0.001, 1), (10.0, 1), (f64::INFINITY, 1)]
            .map(|(bound, count)| Bucket { bound, count });
        assert_eq!(filled, expected);
        assert!((seconds - 20.001_200_003).abs() < 1e-6, "{seconds}");
    }

    #[test]
    fn the_bounds_are_the_same_in_both_units() {
        for (seconds, nanos) in TIME_BOUNDS.into_iter().zip(BOUNDS_NS) {
            assert_eq!((seconds * 1e9).round() as u64, nanos);
        }
    }
}
