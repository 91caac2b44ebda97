//! One upstream as all shards see it: what changes with each request, in atomics on cache lines of its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use breme_base::Instant;

use crate::StatusSet;
use crate::latency::LatencyEstimate;

/// A request that failed counts as having taken at least this long: who refuses fast must not look like the fastest.
const FAILURE_LATENCY: Duration = Duration::from_secs(1);

/// An upstream of a group: a small dense index, for tables, and a generation, so that an index that is used again is
/// not taken for the upstream that had it before. It stays the same while the upstream stays in the list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl UpstreamId {
    /// Its place in a table.
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

/// How a request ended at its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer, whole or at least its head.
    Answered {
        /// Its status.
        status: u16,
        /// From sending the request to the answer's head.
        latency: Duration,
    },
    /// There was no connection to be had.
    ConnectFailed {
        /// Where.
        address: SocketAddr,
    },
    /// The connection ended or made no sense before the answer was complete.
    ConnectionLost,
    /// The answer did not come in time.
    TimedOut,
    /// The client went away, or the request never went to the upstream; that says nothing of it.
    Abandoned,
}

/// How the requests of an upstream ended, since it came into the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTotals {
    /// With an answer, whatever its status.
    pub answered: u64,
    /// … of these, with a status that counts as a failure.
    pub failure_statuses: u64,
    /// Without a connection.
    pub connect_failed: u64,
    /// By an end before the answer's.
    pub broke_off: u64,
    /// By a time-out.
    pub timed_out: u64,
    /// By the client.
    pub abandoned: u64,
}

impl UpstreamTotals {
    /// Requests that say something of the upstream.
    pub(crate) fn judged(&self) -> u64 {
        self.answered + self.failed() - self.failure_statuses
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failure_statuses + self.connect_failed + self.broke_off + self.timed_out
    }
}

/// What all shards write to.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) id: UpstreamId,
    pub(crate) name: Arc<str>,
    pub(crate) tls: bool,
    /// Its place in consistent hashing.
    pub(crate) key: u64,
    outstanding: AtomicU32,
    failures_in_row: AtomicU32,
    /// Counts on with each address that failed.
    address: AtomicU32,
    pub(crate) latency: LatencyEstimate,
    answered: AtomicU64,
    failure_statuses: AtomicU64,
    connect_failed: AtomicU64,
    broke_off: AtomicU64,
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
            answered: AtomicU64::new(0),
            failure_statuses: AtomicU64::new(0),
            connect_failed: AtomicU64::new(0),
            broke_off: AtomicU64::new(0),
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

    /// Counts a request as outstanding, unless there are `max` already (0: any number).
    pub(crate) fn claim(&self, max: u32) -> bool {
        if max == 0 {
            self.outstanding.fetch_add(1, Relaxed);
            return true;
        }
        self.outstanding.fetch_update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1)).is_ok()
    }

    /// A request is not outstanding any more. One that is told of twice does not make the count wrap.
    pub(crate) fn release(&self) {
        let released = self.outstanding.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
        debug_assert!(released.is_ok(), "{}: more requests finished than were chosen", self.name);
    }

    /// Counts how a request ended. Whether that was a failure.
    pub(crate) fn count(&self, now: Instant, outcome: Outcome, failure_statuses: Option<&StatusSet>) -> bool {
        let counter = match outcome {
            Outcome::Answered { status, latency } => return self.count_answer(now, status, latency, failure_statuses),
            Outcome::Abandoned => {
                self.abandoned.fetch_add(1, Relaxed);
                return false;
            }
            Outcome::ConnectFailed { .. } => &self.connect_failed,
            Outcome::ConnectionLost => &self.broke_off,
            Outcome::TimedOut => &self.timed_out,
        };
        counter.fetch_add(1, Relaxed);
        self.latency.observe_failure(now, FAILURE_LATENCY);
        self.failures_in_row.fetch_add(1, Relaxed);
        true
    }

    fn count_answer(&self, now: Instant, status: u16, latency: Duration, failures: Option<&StatusSet>) -> bool {
        self.answered.fetch_add(1, Relaxed);
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
        // Reading is cheaper than writing, and nearly always it is 0.
        if self.failures_in_row.load(Relaxed) != 0 {
            self.failures_in_row.store(0, Relaxed);
        }
        false
    }

    /// Begins anew, after it was out: what it did before says nothing of it now.
    pub(crate) fn forgive(&self) {
        self.failures_in_row.store(0, Relaxed);
        self.latency.forget();
    }

    /// Which of its addresses is to be asked.
    pub(crate) fn address(&self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        match addresses {
            [] => None,
            [only] => Some(*only),
            several => Some(several[self.address.load(Relaxed) as usize % several.len()]),
        }
    }

    /// An address did not answer: the next one's turn, if that is still the one that is asked.
    pub(crate) fn leave_address(&self, addresses: &[SocketAddr], failed: SocketAddr) {
        let count = self.address.load(Relaxed);
        if !addresses.is_empty() && addresses[count as usize % addresses.len()] == failed {
            let _ = self.address.compare_exchange(count, count.wrapping_add(1), Relaxed, Relaxed);
        }
    }

    pub(crate) fn totals(&self) -> UpstreamTotals {
        UpstreamTotals {
            answered: self.answered.load(Relaxed),
            failure_statuses: self.failure_statuses.load(Relaxed),
            connect_failed: self.connect_failed.load(Relaxed),
            broke_off: self.broke_off.load(Relaxed),
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
    fn claims_stop_at_the_bound() {
        let upstream = upstream();
        assert_eq!([upstream.claim(2), upstream.claim(2), upstream.claim(2)], [true, true, false]);
        assert_eq!(upstream.outstanding(), 2);
        upstream.release();
        assert!(upstream.claim(2));
        assert!(upstream.claim(0), "0 is no bound");
    }

    #[test]
    fn failures_count_in_a_row_until_an_answer() {
        let (upstream, failures) = (upstream(), StatusSet::from_range(502..=504));
        let latency = Duration::from_millis(1);
        let count = |outcome| upstream.count(Instant::ZERO, outcome, Some(&failures));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        assert!(
            count(Outcome::ConnectFailed { address }) && count(Outcome::ConnectionLost) && count(Outcome::TimedOut)
        );
        assert!(!count(Outcome::Abandoned));
        assert!(count(Outcome::Answered { status: 503, latency }));
        assert_eq!(upstream.failures_in_row(), 4);
        assert!(!count(Outcome::Answered { status: 500, latency }), "an application's error is an answer");
        assert_eq!(upstream.failures_in_row(), 0);
        let totals = upstream.totals();
        assert_eq!((totals.judged(), totals.failed(), totals.answered, totals.abandoned), (5, 4, 2, 1));
        assert!(upstream.latency.duration(Instant::ZERO).unwrap() >= Duration::from_millis(999), "nothing looks fast");
    }

    #[test]
    fn addresses_are_left_once_for_all_that_failed_together() {
        let upstream = upstream();
        let addresses: Vec<SocketAddr> = (1..=3).map(|last| SocketAddr::from(([127, 0, 0, last], 80))).collect();
        assert_eq!(upstream.address(&[]), None);
        for _ in 0..5 {
            upstream.leave_address(&addresses, addresses[0]);
        }
        assert_eq!(upstream.address(&addresses), Some(addresses[1]));
        upstream.leave_address(&addresses, addresses[1]);
        upstream.leave_address(&addresses, addresses[2]);
        assert_eq!(upstream.address(&addresses), Some(addresses[0]));
        upstream.leave_address(&[], addresses[0]);
    }
}
