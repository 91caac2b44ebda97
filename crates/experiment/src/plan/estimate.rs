//! Estimates the duration of a run. If a load ends by a number of requests, its duration depends on the response rate;
//! that number is reported separately instead of guessing a rate.

use std::collections::BTreeSet;
use std::time::Duration;

use super::model::{Plan, SearchLength};
use crate::trial::{Restart, TrialSpec, WorkloadSpec};

/// Time to start and stop a subject.
const SUBJECT_TIME: Duration = Duration::from_secs(1);
/// Time to start and end the generators and to store their results.
const TRIAL_TIME: Duration = Duration::from_millis(500);

/// Estimated duration of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Time of loads that end by duration or follow a schedule, think times, pauses, starts and stops. The run is not
    /// much shorter.
    pub known: Duration,
    /// Requests that must be answered (in a scenario: sessions to complete) in addition, summed over the trials.
    pub requests: u64,
}

impl Estimate {
    /// The total at this rate of responses.
    #[must_use]
    pub fn at_rate(self, answered_per_second: u32) -> Duration {
        self.known.saturating_add(self.time_of_requests(answered_per_second))
    }

    /// The part of the requests.
    #[must_use]
    pub fn time_of_requests(self, answered_per_second: u32) -> Duration {
        Duration::from_millis(self.requests.saturating_mul(1_000) / u64::from(answered_per_second.max(1)))
    }

    fn and(self, other: Self) -> Self {
        Self { known: self.known.saturating_add(other.known), requests: self.requests.saturating_add(other.requests) }
    }

    fn times(self, count: u32) -> Self {
        Self { known: self.known.saturating_mul(count), requests: self.requests.saturating_mul(u64::from(count)) }
    }
}

impl Plan {
    /// Time of the whole run with all its blocks, without repeated trials.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.estimate_of(self.blocks.to_run())
    }

    /// The same for this number of blocks.
    #[must_use]
    pub fn estimate_of(&self, blocks: u32) -> Estimate {
        let mut of_block = self.time_of_a_blocks_trials();
        of_block.known = of_block.known.saturating_add(SUBJECT_TIME * self.starts_of_a_block());
        of_block.times(blocks).and(self.search_estimate())
    }

    /// The maximum in addition: every trial is repeated as often as allowed.
    #[must_use]
    pub fn estimate_of_repeats(&self) -> Estimate {
        self.time_of_a_blocks_trials().times(self.blocks.to_run()).times(self.repeats)
    }

    /// Number of subjects that some trial of a block needs and that are started once for the whole block.
    fn starts_of_a_block(&self) -> u32 {
        let started =
            self.first_block().flat_map(|trial| trial.subjects).filter(|subject| subject.restart == Restart::Block);
        let names: BTreeSet<String> = started.map(|subject| subject.name).collect();
        u32::try_from(names.len()).unwrap_or(u32::MAX)
    }

    fn time_of_a_blocks_trials(&self) -> Estimate {
        self.first_block().map(|trial| time_of(&trial)).fold(Estimate::default(), Estimate::and)
    }

    /// Each bisection takes about two short trials, and each end a long one.
    fn search_estimate(&self) -> Estimate {
        let Some(search) = &self.search else { return Estimate::default() };
        let width = (search.range.to - search.range.from).abs();
        let finest =
            (search.range.to.abs() * search.precision).max(if search.range.is_whole { 1.0 } else { f64::MIN_POSITIVE });
        let halvings = (width / finest).max(2.0).log2().ceil().min(60.0) as u32;
        let unknown = Estimate { known: search.long, requests: 0 };
        let time = |length| self.search_trial(0, search.range.from, length, 1).map_or(unknown, |trial| time_of(&trial));
        let one = time(SearchLength::Short).times(2 * halvings).and(time(SearchLength::Long).times(2));
        one.times(u32::try_from(search.others.len()).unwrap_or(u32::MAX))
    }
}

/// Its loads run concurrently; the longest ends it.
fn time_of(trial: &TrialSpec) -> Estimate {
    let is_waited_for = |load: &&WorkloadSpec| load.connections > 0 && !load.is_background;
    let times = trial.workloads.iter().filter(is_waited_for).map(|load| time_of_load(load, trial));
    let longest = times.reduce(|one, other| Estimate { known: one.known.max(other.known), ..one.and(other) });
    let restarts = trial.subjects.iter().filter(|subject| subject.restart == Restart::Trial).count();
    let restarts = SUBJECT_TIME * u32::try_from(restarts).unwrap_or(u32::MAX);
    let around = Estimate { known: trial.pause + TRIAL_TIME + restarts, requests: 0 };
    longest.unwrap_or(Estimate { known: trial.duration, requests: 0 }).and(around)
}

/// Measured from the start of its trial.
fn time_of_load(load: &WorkloadSpec, trial: &TrialSpec) -> Estimate {
    let (known, requests) = match (load.requests, load.spread) {
        (Some(_), Some(spread)) => (spread, 0),
        (Some(requests), None) => (thinking(load, requests), requests),
        (None, _) => (load.duration.unwrap_or(trial.duration) + trial.warm_up.given(), 0),
    };
    let own = Estimate { known: load.start_after.saturating_add(known), requests };
    let before = load.after.as_ref().and_then(|name| trial.workloads.iter().find(|other| other.name == *name));
    before.map_or(own, |before| time_of_load(before, trial).and(own))
}

/// Users share the requests and think concurrently.
fn thinking(load: &WorkloadSpec, requests: u64) -> Duration {
    let of_a_user = requests / load.connections.max(1);
    load.think_mean.saturating_mul(u32::try_from(of_a_user).unwrap_or(u32::MAX))
}
