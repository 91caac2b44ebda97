//! Gaps: times without a successful response, for all users or for one.
//!
//! | gap | from | until |
//! |---|---|---|
//! | of the service | a successful response to any user | the next one to any user |
//! | of a user | the instant at which the user wants a request | the first successful response from then on |
//!
//! So a user's gaps do not include think times, but failed attempts and the pauses between them. A user without a
//! response at the end of the run has a gap until then.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breme_base::{Instant, nanos};

use crate::merge::Merge;

/// Interval at which a shard reports its successful responses to the others; a gap of the service may be measured too
/// long by this much.
pub const REPORT_EVERY: Duration = Duration::from_micros(100);

/// A time without a successful response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    pub since: Instant,
    pub length_ns: u64,
}

impl Gap {
    fn take(&mut self, since: Instant, until: Instant) {
        self.keep_longer(Self { since, length_ns: until.nanos_since(since) });
    }

    fn keep_longer(&mut self, other: Self) {
        if other.length_ns > self.length_ns {
            *self = other;
        }
    }
}

/// The latest successful response and the latest failure of all shards; 0: none.
#[derive(Debug, Default)]
pub(crate) struct LatestOutcomes {
    success: AtomicU64,
    failure: AtomicU64,
}

impl LatestOutcomes {
    fn success(&self) -> Instant {
        Instant::from_nanos(self.success.load(Ordering::Relaxed))
    }

    /// Returns the latest success before this one, which may be later than it.
    fn report_success(&self, done: Instant) -> Instant {
        Instant::from_nanos(self.success.fetch_max(done.as_nanos(), Ordering::Relaxed))
    }

    #[inline]
    fn failure(&self) -> Instant {
        Instant::from_nanos(self.failure.load(Ordering::Relaxed))
    }

    fn report_failure(&self, at: Instant) {
        self.failure.fetch_max(at.as_nanos(), Ordering::Relaxed);
    }
}

/// The gaps seen by one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Availability {
    /// Gaps count from this instant on.
    from: Instant,
    reported: Instant,
    pub gap: Gap,
    pub user_gap: Gap,
    /// The latest request that failed or had a wrong response.
    pub last_failure: Option<Instant>,
    /// The first successful response after the last failure of any shard.
    pub recovered: Option<Instant>,
    /// The failure before `recovered`.
    recovered_from: Instant,
}

impl Default for Availability {
    fn default() -> Self {
        Self {
            from: Instant::FAR,
            reported: Instant::ZERO,
            gap: Gap::default(),
            user_gap: Gap::default(),
            last_failure: None,
            recovered: None,
            recovered_from: Instant::ZERO,
        }
    }
}

impl Merge for Availability {
    fn merge(&mut self, other: &Self) {
        self.gap.keep_longer(other.gap);
        self.user_gap.keep_longer(other.user_gap);
        self.from = self.from.min(other.from);
        self.last_failure = self.last_failure.max(other.last_failure);
        match other.recovered_from.cmp(&self.recovered_from) {
            Less => {}
            Equal => self.recovered = self.recovered.min(other.recovered),
            Greater => (self.recovered_from, self.recovered) = (other.recovered_from, other.recovered),
        }
    }
}

impl Availability {
    pub(crate) fn begin(&mut self, from: Instant) {
        self.from = from;
    }

    /// Records a successful response to a user who has wanted one since `wanted`.
    #[inline]
    pub(crate) fn note_success(&mut self, wanted: Instant, done: Instant, latest: &LatestOutcomes) {
        self.note_wait(wanted, done);
        if done.nanos_since(self.reported) >= nanos(REPORT_EVERY) {
            self.report(done, latest);
        }
        let failure = latest.failure();
        if failure > self.recovered_from && failure <= done {
            (self.recovered_from, self.recovered) = (failure, Some(done));
        }
    }

    fn report(&mut self, done: Instant, latest: &LatestOutcomes) {
        self.reported = done;
        let before = latest.report_success(done).max(self.from);
        self.gap.take(before, done);
    }

    pub(crate) fn note_failure(&mut self, at: Instant, latest: &LatestOutcomes) {
        self.last_failure = self.last_failure.max(Some(at));
        latest.report_failure(at);
    }

    /// Records that a user has waited for one.
    #[inline]
    pub(crate) fn note_wait(&mut self, wanted: Instant, until: Instant) {
        self.user_gap.take(wanted.max(self.from), until);
    }

    /// The run has ended: the time since the latest successful response is a gap too, and a recovery from an earlier
    /// failure is none.
    pub(crate) fn close(&mut self, until: Instant, latest: &LatestOutcomes) {
        self.gap.take(latest.success().max(self.from), until);
        self.recovered = self.recovered.filter(|_| self.last_failure == Some(self.recovered_from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn gap(gap: Gap) -> (u64, u64) {
        (gap.since.as_nanos() / 1_000_000, gap.length_ns / 1_000_000)
    }

    fn begun(from: u64) -> Availability {
        let mut availability = Availability::default();
        availability.begin(at(from));
        availability
    }

    #[test]
    fn the_service_has_a_gap_where_no_shard_has_a_success() {
        let latest = LatestOutcomes::default();
        let [mut one, mut two] = [begun(0), begun(0)];
        for (is_one, done) in [(true, 10), (false, 20), (true, 60), (false, 200), (true, 210)] {
            let shard = if is_one { &mut one } else { &mut two };
            shard.note_success(at(done), at(done), &latest);
        }
        one.merge(&two);
        assert_eq!(gap(one.gap), (60, 140));
        one.close(at(1_000), &latest);
        assert_eq!(gap(one.gap), (210, 790));
    }

    #[test]
    fn time_before_the_window_does_not_count() {
        let latest = LatestOutcomes::default();
        let mut shard = begun(500);
        shard.note_success(at(0), at(400), &latest);
        assert_eq!((shard.gap, shard.user_gap), (Gap::default(), Gap::default()));
        shard.note_success(at(400), at(530), &latest);
        assert_eq!((gap(shard.gap), gap(shard.user_gap)), ((500, 30), (500, 30)));
        shard.note_success(at(600), at(570), &latest);
        assert_eq!((gap(shard.gap), gap(shard.user_gap)), ((530, 40), (500, 30)));
    }

    #[test]
    fn a_shard_that_has_not_begun_has_no_gap() {
        let mut shard = Availability::default();
        shard.merge(&Availability::default());
        shard.close(at(5), &LatestOutcomes::default());
        assert_eq!((shard.gap, shard.user_gap), (Gap::default(), Gap::default()));
    }

    #[test]
    fn recovery_is_the_first_success_of_any_shard_after_the_last_failure_of_any() {
        let latest = LatestOutcomes::default();
        let [mut one, mut two] = [begun(0), begun(0)];
        one.note_failure(at(100), &latest);
        one.note_success(at(100), at(150), &latest);
        two.note_success(at(100), at(190), &latest);
        one.note_failure(at(200), &latest);
        // It had come before the failure.
        two.note_success(at(190), at(195), &latest);
        two.note_success(at(195), at(230), &latest);
        two.note_success(at(230), at(240), &latest);
        one.note_success(at(200), at(260), &latest);
        for (mut sum, other) in [(one, two), (two, one)] {
            sum.merge(&other);
            sum.close(at(300), &latest);
            assert_eq!((sum.last_failure, sum.recovered), (Some(at(200)), Some(at(230))));
        }
        two.note_failure(at(290), &latest);
        two.merge(&one);
        two.close(at(300), &latest);
        assert_eq!((two.last_failure, two.recovered), (Some(at(290)), None));
    }
}
