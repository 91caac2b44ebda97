//! The time spent by a run, and whether its budget has room for more.
//!
//! Each record contains the time of its trial, so that a resumed run knows what was spent before. Killed trials and the
//! time between sessions are not included.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use breme_experiment::record::{Purpose, TrialRecord};

#[derive(Debug)]
pub(super) struct TimeBudget {
    budget: Option<Duration>,
    /// By trials in the journal.
    spent: Duration,
    /// When the previous trial ended.
    last: Instant,
    longest_trial: Duration,
    of_block: BTreeMap<u32, Duration>,
}

impl TimeBudget {
    pub(super) fn new(budget: Option<Duration>) -> Self {
        Self {
            budget,
            spent: Duration::ZERO,
            last: Instant::now(),
            longest_trial: Duration::ZERO,
            of_block: BTreeMap::new(),
        }
    }

    /// The time since the previous trial ended, attributed to the trial that ends now.
    pub(super) fn since_last(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.last, now))
    }

    /// Takes a trial of the journal into account.
    pub(super) fn take(&mut self, record: &TrialRecord) {
        let spent = Duration::try_from_secs_f64(record.spent_s).unwrap_or_default();
        self.spent = self.spent.saturating_add(spent);
        if record.purpose == Purpose::Block {
            self.longest_trial = self.longest_trial.max(spent);
            let of_block = self.of_block.entry(record.block).or_default();
            *of_block = of_block.saturating_add(spent);
        }
    }

    /// Whether this fraction of a block can be run, if it takes as long as the longest block so far.
    pub(super) fn is_enough_for_block(&self, share: f64) -> bool {
        let longest = self.of_block.values().copied().max().unwrap_or_default();
        self.is_enough_for(longest.mul_f64(share))
    }

    pub(super) fn is_enough_for_trial(&self) -> bool {
        self.is_enough_for(self.longest_trial)
    }

    pub(super) fn is_over(&self) -> bool {
        self.budget.is_some_and(|budget| self.spent >= budget)
    }

    fn is_enough_for(&self, length: Duration) -> bool {
        self.budget.is_none_or(|budget| self.spent.saturating_add(length) <= budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(budget_s: Option<u64>, trials: &[(u32, f64)]) -> TimeBudget {
        let mut time = TimeBudget::new(budget_s.map(Duration::from_secs));
        let record = |&(block, spent_s): &(u32, f64)| TrialRecord { block, spent_s, ..TrialRecord::default() };
        trials.iter().map(record).for_each(|record| time.take(&record));
        time
    }

    #[test]
    fn time_spent_before_counts() {
        // Blocks of 20 s; the budget has room for three.
        let blocks = |count: u32| (0..2 * count).map(|trial| (1 + trial / 2, 10.0)).collect::<Vec<_>>();
        assert!(time(Some(65), &[]).is_enough_for_block(1.0), "nobody knows yet how long one takes");
        assert!(time(Some(65), &blocks(2)).is_enough_for_block(1.0));
        assert!(!time(Some(65), &blocks(3)).is_enough_for_block(1.0));
        assert!(!time(Some(65), &blocks(3)).is_enough_for_trial());
        assert!(time(Some(65), &blocks(3)).is_enough_for_block(0.25), "the rest of one that was begun");
        assert!(!time(Some(65), &blocks(3)).is_over() && time(Some(60), &blocks(3)).is_over());
        assert!(time(None, &blocks(100)).is_enough_for_block(1.0));
    }

    #[test]
    fn nonsense_in_a_journal_is_no_time() {
        assert!(time(Some(1), &[(1, f64::NAN), (1, -5.0), (1, 1e300)]).is_enough_for_trial());
    }
}
