//! How long a run will take, as far as that can be known before it.

use std::time::Duration;

use super::{Plan, SearchLength};
use crate::trial::{Restart, TrialKey, TrialSpec};

/// Starting and stopping a subject.
const SUBJECT_TIME: Duration = Duration::from_secs(1);
/// Starting and ending the generators, and writing down what they saw.
const TRIAL_TIME: Duration = Duration::from_millis(500);

impl Plan {
    /// The time of the whole run, if no trial has to be run again. A workload that ends by a number of requests is taken to need the design's duration, since its rate is
    /// not known; a trial that was measured already tells better.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        let keys = self.trials();
        let mut sum = self.time_of_a_blocks_trials(&keys);
        if let Some(trial) = keys.first().and_then(|key| self.trial(key)) {
            let of_block = trial.subjects.iter().filter(|subject| subject.restart == Restart::Block).count();
            sum += SUBJECT_TIME * u32::try_from(of_block).unwrap_or(u32::MAX);
        }
        sum.saturating_mul(self.blocks).saturating_add(self.search_estimate())
    }

    /// What comes to that at most: every trial is run again as often as it may be.
    #[must_use]
    pub fn estimate_of_repeats(&self) -> Duration {
        let of_block = self.time_of_a_blocks_trials(&self.trials());
        of_block.saturating_mul(self.blocks).saturating_mul(self.repeats)
    }

    fn time_of_a_blocks_trials(&self, keys: &[TrialKey]) -> Duration {
        let trials = keys.iter().take_while(|key| key.block == 1).filter_map(|key| self.trial(key));
        trials.map(|trial| time_of(&trial)).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Each halving takes about two short trials, and both ends a long one.
    fn search_estimate(&self) -> Duration {
        let Some(search) = &self.search else { return Duration::ZERO };
        let width = (search.range.to - search.range.from).abs();
        let finest =
            (search.range.to.abs() * search.precision).max(if search.range.is_whole { 1.0 } else { f64::MIN_POSITIVE });
        let halvings = (width / finest).max(2.0).log2().ceil().min(60.0) as u32;
        let time =
            |length| self.search_trial(0, search.range.from, length, 1).map_or(search.long, |trial| time_of(&trial));
        let short = time(SearchLength::Short).saturating_mul(2 * halvings);
        let one = short.saturating_add(time(SearchLength::Long).saturating_mul(2));
        one.saturating_mul(u32::try_from(search.others.len()).unwrap_or(u32::MAX))
    }
}

fn time_of(trial: &TrialSpec) -> Duration {
    let running = trial.workloads.iter().filter(|workload| workload.connections > 0 && !workload.is_background);
    let longest =
        running.map(|workload| workload.start_after.saturating_add(workload.duration.unwrap_or(trial.duration))).max();
    let restarts = trial.subjects.iter().filter(|subject| subject.restart == Restart::Trial).count();
    let restarts = SUBJECT_TIME * u32::try_from(restarts).unwrap_or(u32::MAX);
    longest.unwrap_or(trial.duration).saturating_add(trial.pause + TRIAL_TIME + restarts)
}
