//! The counts of one shard. Nothing is dropped: every request that was begun has a response, failed by some kind, or is
//! unfinished.

use std::time::Duration;

use breme_base::{Instant, nanos};
use breme_load_plan::Scenarios;
use breme_load_result::PairsSummary;
use breme_node::Handshake;
use breme_stats::Histogram;

use crate::availability::Availability;
use crate::cache_use::CacheUse;
use crate::dispersion::Sends;
use crate::error_kind::ErrorKind;
use crate::merge::{Merge, tallies};
use crate::occupancy::Occupancy;
use crate::pairs::{Findings, Pairs};
use crate::versions::Judgement;

tallies! {
    /// What a shard counts.
    struct Tally {
        /// Requests that were begun: sent, or failed because no connection could be opened for them.
        issued: u64,
        /// Requests handed to the driver, each once.
        sent: u64,
        /// Complete responses, whatever their status.
        answered: u64,
        /// Complete responses after the run's window, during the final wait.
        answered_late: u64,
        /// Requests in flight at the end of the final wait.
        unfinished: u64,
        /// Requests sent again, because the server announced the end of the connection before responding to them.
        resent: u64,
        /// Redirects that were followed, and those that were not.
        redirected: u64,
        unfollowed: u64,
        errors: [u64; ErrorKind::ALL.len()],
        /// Responses by status, 0 to 999.
        statuses: Statuses,
        bytes_received: u64,
        bytes_sent: u64,
        content_bytes: u64,
        connections_opened: u64,
        /// Connections opened in place of one that had ended.
        reconnects: u64,
        /// Connections with bytes that belong to no request.
        unexpected: u64,
        /// Of an open loop: arrivals that found no connection free when they were due.
        waited: u64,
        /// Of an open loop: arrivals that became due, whatever became of them.
        arrived: u64,
        /// Requests that were not late.
        punctual: u64,
        /// Of the others.
        lateness: Histogram,
        /// Requests that were later than [`LATENESS_P99_MAX`](crate::LATENESS_P99_MAX).
        late: u64,
        handshake_times: Histogram,
        /// Connections whose TLS session was resumed.
        resumed: u64,
        /// Of a closed loop: the users' time by activity, and how evenly their requests were sent.
        occupancy: Occupancy,
        sends: Sends,
        availability: Availability,
        /// Responses to GET by their Cache-Status.
        caches: CacheTally,
        /// Of a run that writes versions.
        versions: VersionTally,
        /// Of a run that checks the pairs of sessions.
        pairs: PairTally,
        /// Of scenarios: each step by its name.
        steps: Vec<StepTally>,
        /// Of scenarios: sessions.
        sessions: Vec<SessionTally>,
    }

    struct CacheTally {
        hits: u64,
        misses: u64,
        unsaid: u64,
    }

    /// Versions of pages, written and read.
    struct VersionTally {
        acknowledged: u64,
        /// Responses whose version could be judged, including stale ones.
        judged: u64,
        /// Responses without a version, of pages that had an acknowledged one.
        unversioned: u64,
        /// Ages of the stale ones.
        ages: Histogram,
    }

    struct StepTally {
        sent: u64,
        answered: u64,
        errors: [u64; ErrorKind::ALL.len()],
        service: Histogram,
        response: Histogram,
    }

    struct SessionTally {
        begun: u64,
        /// All steps were performed, and every response was as expected.
        completed: u64,
        /// A response was not as expected, or the session could not continue.
        failed: u64,
        /// From the instant at which the first request was due to the last response, of sessions with all steps.
        times: Histogram,
    }
}

/// Counts by status, 0 to 999.
#[derive(Clone, Debug)]
pub(crate) struct Statuses(pub Box<[u64; 1000]>);

impl Default for Statuses {
    fn default() -> Self {
        Self(Box::new([0; 1000]))
    }
}

impl Merge for Statuses {
    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
}

/// Pairs of sessions, and the responses that showed them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PairTally(pub PairsSummary);

impl Merge for PairTally {
    fn merge(&mut self, Self(other): &Self) {
        let sum = &mut self.0;
        sum.responses += other.responses;
        sum.inconsistent += other.inconsistent;
        sum.stale += other.stale;
        sum.lost += other.lost;
        sum.foreign += other.foreign;
        sum.shared_ids += other.shared_ids;
        sum.unknown += other.unknown;
        sum.status_500 += other.status_500;
        sum.status_503 += other.status_503;
    }
}

impl CacheTally {
    pub(crate) fn add(&mut self, cache_use: CacheUse) {
        *match cache_use {
            CacheUse::Hit => &mut self.hits,
            CacheUse::Miss => &mut self.misses,
            CacheUse::Unsaid => &mut self.unsaid,
        } += 1;
    }
}

impl PairTally {
    /// Counts a response to a request of a session with these pairs. Returns whether it is correct.
    pub(crate) fn add_response(&mut self, pairs: &mut Pairs, status: u16) -> bool {
        self.0.status_500 += u64::from(status == 500);
        self.0.status_503 += u64::from(status == 503);
        if !(200..300).contains(&status) {
            pairs.end_unacknowledged();
            return true;
        }
        let findings = pairs.end_acknowledged();
        self.0.responses += 1;
        self.add(findings);
        findings.is_right()
    }

    /// Counts the end of a session with these pairs.
    pub(crate) fn add_end(&mut self, pairs: &mut Pairs) {
        self.add(pairs.end_session());
    }

    fn add(&mut self, findings: Findings) {
        let sum = &mut self.0;
        sum.inconsistent += u64::from(findings.is_inconsistent);
        sum.stale += findings.stale;
        sum.lost += findings.lost;
        sum.foreign += findings.foreign;
        sum.shared_ids += findings.shared;
    }
}

impl VersionTally {
    pub(crate) fn add(&mut self, judgement: Judgement) {
        match judgement {
            Judgement::Current => self.judged += 1,
            Judgement::Stale(age) => {
                self.judged += 1;
                self.ages.record(nanos(age));
            }
            Judgement::Unversioned => self.unversioned += 1,
            Judgement::Unknown => {}
        }
    }
}

impl Tally {
    /// Counts an opened connection.
    pub(crate) fn note_opened(&mut self, handshake: Option<Handshake>) {
        if let Some(handshake) = handshake {
            self.handshake_times.record(nanos(handshake.duration));
            self.resumed += u64::from(handshake.is_resumed);
        }
    }

    /// With room for the steps and sessions of scenarios.
    pub(crate) fn for_scenarios(scenarios: Option<&Scenarios>) -> Self {
        let (steps, sessions) =
            scenarios.map_or((0, 0), |scenarios| (scenarios.step_names().len(), scenarios.scenarios().len()));
        Self {
            steps: vec![StepTally::default(); steps],
            sessions: vec![SessionTally::default(); sessions],
            ..Self::default()
        }
    }

    pub(crate) fn count(&mut self, kind: ErrorKind, count: u64) {
        self.errors[kind as usize] += count;
    }

    pub(crate) const fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.errors[kind as usize]
    }

    /// Requests that were begun and have no response.
    pub(crate) fn failed(&self) -> u64 {
        let is_failed = |kind: &ErrorKind| !kind.is_answered() && !kind.is_unbegun();
        ErrorKind::ALL.into_iter().filter(is_failed).map(|kind| self.errors_of(kind)).sum()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors.iter().sum()
    }
}

/// The working time of a shard, and its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub started: Instant,
    pub ended: Instant,
    /// CPU time of the shard's thread, if available.
    pub cpu: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::availability::LatestOutcomes;
    use crate::occupancy::Activity;

    #[test]
    fn each_kind_has_its_own_counter_and_name() {
        let mut tally = Tally::default();
        ErrorKind::ALL.into_iter().for_each(|kind| tally.count(kind, 1));
        assert!(tally.errors.iter().all(|&count| count == 1));
        assert_eq!((tally.errors(), tally.failed()), (26, 21));
        assert_eq!(BTreeSet::from(ErrorKind::ALL.map(ErrorKind::name)).len(), 26);
    }

    /// A tally whose counters are different multiples of `factor`, and whose histograms have `factor` samples each.
    fn filled(factor: u64) -> Tally {
        let mut number = 0;
        let mut next = || {
            number += 1;
            number * factor
        };
        let times = |nanos| {
            let mut histogram = Histogram::new();
            (0..factor).for_each(|_| histogram.record(nanos));
            histogram
        };
        let mut occupancy = Occupancy::default();
        for activity in [Activity::Server, Activity::Connecting, Activity::Generator, Activity::Thinking] {
            occupancy.add(activity, Instant::ZERO, Instant::from_nanos(next()));
        }
        let mut availability = Availability::default();
        availability.note_failure(Instant::from_nanos(next()), &LatestOutcomes::default());
        // Every field is named, so that a new one is not forgotten here.
        Tally {
            issued: next(),
            sent: next(),
            answered: next(),
            answered_late: next(),
            unfinished: next(),
            resent: next(),
            redirected: next(),
            unfollowed: next(),
            errors: std::array::from_fn(|_| next()),
            statuses: Statuses(Box::new(std::array::from_fn(|_| next()))),
            bytes_received: next(),
            bytes_sent: next(),
            content_bytes: next(),
            connections_opened: next(),
            reconnects: next(),
            unexpected: next(),
            waited: next(),
            arrived: next(),
            punctual: next(),
            lateness: times(1),
            late: next(),
            handshake_times: times(2),
            resumed: next(),
            occupancy,
            sends: Sends::default(), // not merged
            availability,
            caches: CacheTally { hits: next(), misses: next(), unsaid: next() },
            versions: VersionTally { acknowledged: next(), judged: next(), unversioned: next(), ages: times(3) },
            pairs: PairTally(PairsSummary {
                responses: next(),
                inconsistent: next(),
                stale: next(),
                lost: next(),
                foreign: next(),
                shared_ids: next(),
                unknown: next(),
                status_500: next(),
                status_503: next(),
            }),
            steps: vec![StepTally {
                sent: next(),
                answered: next(),
                errors: std::array::from_fn(|_| next()),
                service: times(4),
                response: times(5),
            }],
            sessions: vec![SessionTally { begun: next(), completed: next(), failed: next(), times: times(6) }],
        }
    }

    #[test]
    fn merging_adds_everything() {
        let (mut sum, other) = (filled(1), filled(2));
        // Of the availability the later failure counts.
        let expected = Tally { availability: other.availability, ..filled(3) };
        sum.merge(&other);
        assert_eq!(format!("{sum:?}"), format!("{expected:?}"));
    }
}
