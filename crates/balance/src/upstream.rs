//! The state of an upstream that changes with each request: atomics on a separate cache line.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use breme_base::Instant;

use crate::StatusSet;
use crate::latency::LatencyEstimate;

/// The latency of a failed request is at least this: an upstream that fails fast must not look like the fastest.
const FAILURE_LATENCY: Duration = Duration::from_secs(1);

/// The id of an upstream: a small dense index for tables, and a generation that distinguishes it from earlier upstreams
/// with this index. Constant while the upstream stays in the list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl UpstreamId {
    /// Its index in a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl fmt::Debug for UpstreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "upstream {}.{}", self.index, self.generation)
    }
}

/// The outcome of a request at its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamOutcome {
    /// At least the head of a response arrived.
    Responded {
        status: u16,
        /// From sending the request to the response head.
        latency: Duration,
    },
    ConnectFailed {
        address: SocketAddr,
    },
    /// The connection was closed, or the response was invalid.
    ConnectionLost,
    TimedOut,
    /// The client left, or the request was never sent: says nothing about the upstream.
    Abandoned,
}

/// Outcomes of an upstream's requests since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTotals {
    /// Responses of any status.
    pub responded: u64,
    /// Responses with a status that counts as a failure.
    pub failure_statuses: u64,
    pub connect_failed: u64,
    /// Incomplete or invalid responses.
    pub connection_lost: u64,
    pub timed_out: u64,
    pub abandoned: u64,
}

impl UpstreamTotals {
    /// Requests with an outcome that says something about the upstream.
    pub(crate) fn conclusive(&self) -> u64 {
        self.responded + self.failed() - self.failure_statuses
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failure_statuses + self.connect_failed + self.connection_lost + self.timed_out
    }
}

/// Written by all shards.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) id: UpstreamId,
    pub(crate) name: Arc<str>,
    pub(crate) tls: bool,
    /// Its key in consistent hashing.
    pub(crate) key: u64,
    outstanding: AtomicU32,
    failures_in_row: AtomicU32,
    /// The number of failed addresses.
    address: AtomicU32,
    pub(crate) latency: LatencyEstimate,
    responded: AtomicU64,
    failure_statuses: AtomicU64,
    connect_failed: AtomicU64,
    connection_lost: AtomicU64,
    timed_out: AtomicU64,
    abandoned: AtomicU64,
}

impl Upstream {
    pub(crate) fn new(id: UpstreamId, name: &str, tls: bool, key: u64) -> Self {
        Self {
            id,
            name: Arc::from(name),
            tls,
            key,
            outstanding: AtomicU32::new(0),
            failures_in_row: AtomicU32::new(0),
            address: AtomicU32::new(0),
            latency: LatencyEstimate::default(),
            responded: AtomicU64::new(0),
            failure_statuses: AtomicU64::new(0),
            connect_failed: AtomicU64::new(0),
            connection_lost: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
        }
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding.load(Relaxed)
    }

    pub(crate) fn failures_in_row(&self) -> u32 {
        self.failures_in_row.load(Relaxed)
    }

    /// Counts a request as outstanding, unless there are `max` (0: unlimited).
    pub(crate) fn claim(&self, max: u32) -> bool {
        if max == 0 {
            self.outstanding.fetch_add(1, Relaxed);
            return true;
        }
        self.outstanding.fetch_update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1)).is_ok()
    }

    /// Ends an outstanding request. A duplicate report does not wrap the count.
    pub(crate) fn release(&self) {
        let released = self.outstanding.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
        debug_assert!(released.is_ok(), "{}: more requests finished than were chosen", self.name);
    }

    /// Counts an outcome. Returns whether it was a failure.
    pub(crate) fn count(&self, now: Instant, outcome: UpstreamOutcome, failure_statuses: Option<&StatusSet>) -> bool {
        let counter = match outcome {
            UpstreamOutcome::Responded { status, latency } => {
                return self.count_answer(now, status, latency, failure_statuses);
            }
            UpstreamOutcome::Abandoned => {
                self.abandoned.fetch_add(1, Relaxed);
                return false;
            }
            UpstreamOutcome::ConnectFailed { .. } => &self.connect_failed,
            UpstreamOutcome::ConnectionLost => &self.connection_lost,
            UpstreamOutcome::TimedOut => &self.timed_out,
        };
        counter.fetch_add(1, Relaxed);
        self.latency.observe_failure(now, FAILURE_LATENCY);
        self.failures_in_row.fetch_add(1, Relaxed);
        true
    }

    fn count_answer(&self, now: Instant, status: u16, latency: Duration, failures: Option<&StatusSet>) -> bool {
        self.responded.fetch_add(1, Relaxed);
        if failures.is_some_and(|failures| failures.contains(status)) {
            self.failure_statuses.fetch_add(1, Relaxed);
            self.latency.observe_failure(now, latency.max(FAILURE_LATENCY));
            self.failures_in_row.fetch_add(1, Relaxed);
            return true;
        }
        if status >= 500 {
            self.latency.observe_failure(now, latency);
        } else {
            self.latency.observe(now, latency);
        }
        // A load is cheaper than a store, and it is nearly always 0.
        if self.failures_in_row.load(Relaxed) != 0 {
            self.failures_in_row.store(0, Relaxed);
        }
        false
    }

    /// Resets failures and latency after it was out.
    pub(crate) fn reset(&self) {
        self.failures_in_row.store(0, Relaxed);
        self.latency.forget();
    }

    pub(crate) fn address(&self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        match addresses {
            [] => None,
            [only] => Some(*only),
            several => Some(several[self.address.load(Relaxed) as usize % several.len()]),
        }
    }

    /// Advances to the next address, if this is still the current one.
    pub(crate) fn next_address(&self, addresses: &[SocketAddr], failed: SocketAddr) {
        let count = self.address.load(Relaxed);
        if !addresses.is_empty() && addresses[count as usize % addresses.len()] == failed {
            let _ = self.address.compare_exchange(count, count.wrapping_add(1), Relaxed, Relaxed);
        }
    }

    /// Rotates a new list so that the address in use stays in use, if it is listed.
    pub(crate) fn keep_address(&self, in_use: SocketAddr, addresses: &mut [SocketAddr]) {
        if let Some(place) = addresses.iter().position(|address| *address == in_use) {
            addresses.rotate_left(place);
            addresses.rotate_right(self.address.load(Relaxed) as usize % addresses.len());
        }
    }

    pub(crate) fn totals(&self) -> UpstreamTotals {
        UpstreamTotals {
            responded: self.responded.load(Relaxed),
            failure_statuses: self.failure_statuses.load(Relaxed),
            connect_failed: self.connect_failed.load(Relaxed),
            connection_lost: self.connection_lost.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            abandoned: self.abandoned.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream() -> Upstream {
        Upstream::new(UpstreamId { index: 0, generation: 0 }, "a:1", false, 0)
    }

    #[test]
    fn claims_stop_at_the_limit() {
        let upstream = upstream();
        assert_eq!([upstream.claim(2), upstream.claim(2), upstream.claim(2)], [true, true, false]);
        assert_eq!(upstream.outstanding(), 2);
        upstream.release();
        assert!(upstream.claim(2));
        assert!(upstream.claim(0), "0 is no bound");
    }

    #[test]
    fn response_resets_consecutive_failures() {
        let (upstream, failures) = (upstream(), StatusSet::from_range(502..=504));
        let latency = Duration::from_millis(1);
        let count = |outcome| upstream.count(Instant::ZERO, outcome, Some(&failures));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        assert!(
            count(UpstreamOutcome::ConnectFailed { address })
                && count(UpstreamOutcome::ConnectionLost)
                && count(UpstreamOutcome::TimedOut)
        );
        assert!(!count(UpstreamOutcome::Abandoned));
        assert!(count(UpstreamOutcome::Responded { status: 503, latency }));
        assert_eq!(upstream.failures_in_row(), 4);
        assert!(!count(UpstreamOutcome::Responded { status: 500, latency }), "an application's error is an answer");
        assert_eq!(upstream.failures_in_row(), 0);
        let totals = upstream.totals();
        assert_eq!((totals.conclusive(), totals.failed(), totals.responded, totals.abandoned), (5, 4, 2, 1));
        assert!(upstream.latency.duration(Instant::ZERO).unwrap() >= Duration::from_millis(999), "nothing looks fast");
    }

    #[test]
    fn simultaneous_failures_advance_address_once() {
        let upstream = upstream();
        let addresses: Vec<SocketAddr> = (1..=3).map(|last| SocketAddr::from(([127, 0, 0, last], 80))).collect();
        assert_eq!(upstream.address(&[]), None);
        for _ in 0..5 {
            upstream.next_address(&addresses, addresses[0]);
        }
        assert_eq!(upstream.address(&addresses), Some(addresses[1]));
        upstream.next_address(&addresses, addresses[1]);
        upstream.next_address(&addresses, addresses[2]);
        assert_eq!(upstream.address(&addresses), Some(addresses[0]));
        upstream.next_address(&[], addresses[0]);
    }
}
