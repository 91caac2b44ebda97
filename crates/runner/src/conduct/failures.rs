//! Combinations that fail block after block: the run ends, since each further trial of them would take its full
//! time-out and show nothing new.
//!
//! One failure is data: a server that dies under load is a finding. The same combination failing in two consecutive
//! blocks, or no success at the start of the run, is a mistake in the experiment or a broken installation. The run
//! stays resumable: failures of earlier sessions do not count, so a repaired combination is tried again.

use std::collections::BTreeMap;

use breme_experiment::record::{Purpose, TrialEnd, TrialRecord};

/// Consecutive blocks in which a combination may fail before the run ends.
const BLOCKS_MAX: u32 = 2;
/// Trials that may fail at the start of a session before the run ends, if none was completed.
const FIRST_TRIALS_MAX: u32 = 2;

/// The failures of this session.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// By combination: the last block in which it failed, and the number of consecutive blocks.
    of_combination: BTreeMap<u32, (u32, u32)>,
    has_completed: bool,
    failed_count: u32,
}

impl Failures {
    /// Records a trial of this session. Returns whether the run should end.
    pub(super) fn take(&mut self, record: &TrialRecord) -> bool {
        if record.purpose != Purpose::Block {
            return false; // to a search, a subject that dies is an answer
        }
        if record.end == TrialEnd::Complete {
            self.has_completed = true;
            self.of_combination.remove(&record.combination);
            return false;
        }
        self.failed_count += 1;
        let (block, running) = self.of_combination.entry(record.combination).or_default();
        if *block != record.block {
            (*block, *running) = (record.block, *running + 1);
        }
        *running >= BLOCKS_MAX || !self.has_completed && self.failed_count >= FIRST_TRIALS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_experiment::record::TrialFailure;

    fn trial(block: u32, combination: u32, fails: bool) -> TrialRecord {
        let end = if fails { TrialFailure::new("site", "it died", "").into() } else { TrialEnd::Complete };
        TrialRecord { block, combination, end, ..TrialRecord::default() }
    }

    /// After how many trials the run ends.
    fn check(trials: &[(u32, u32, bool)], ends_after: Option<usize>) {
        let mut failures = Failures::default();
        let end =
            trials.iter().position(|&(block, combination, fails)| failures.take(&trial(block, combination, fails)));
        assert_eq!(end.map(|index| index + 1), ends_after, "{trials:?}");
    }

    #[test]
    fn a_combination_that_fails_in_two_blocks_running_ends_the_run() {
        check(&[(1, 0, false), (1, 1, true), (2, 0, false), (2, 1, true), (3, 0, false)], Some(4));
        // The second trial of an A/A pair is of the same block.
        check(&[(1, 0, false), (1, 1, true), (1, 1, true), (2, 1, false)], None);
        check(&[(1, 0, false), (1, 1, true), (2, 1, false), (3, 1, true), (4, 1, false)], None);
    }

    #[test]
    fn nothing_that_works_ends_the_run_at_once() {
        check(&[(1, 0, true), (1, 1, true), (1, 2, true)], Some(2));
        check(&[(1, 0, true), (1, 1, false), (1, 2, true)], None);
    }

    #[test]
    fn a_search_is_not_ended() {
        let mut failures = Failures::default();
        let of_search = |block| TrialRecord { purpose: Purpose::Search, ..trial(block, 0, true) };
        assert!((1..9).all(|block| !failures.take(&of_search(block))));
    }
}
