//! Trials that are repeated at the end of their block.
//!
//! An INVALID trial says nothing about its subject and leaves a gap in its block; a few gaps can leave a run undecided.
//! So it is repeated. The choice depends on **how** a trial went, never on what it measured, or the experimenter would
//! select among results:
//!
//! | a trial | repeated |
//! |---|---|
//! | INVALID, because the generator was late, the limit, or out of ports | yes: it says nothing about the subject |
//! | INVALID, and some workload got no response at all | no: the subject is missing |
//! | not steady | no: it counts |
//! | failed: a subject died, hung, or could not be started | no |
//!
//! A generator that is always the limit must not make a run endless: each trial is repeated at most [`Plan::repeats`]
//! times, and a combination with [`IN_VAIN_MAX`] INVALID repeats in a row is not repeated again until one of its trials
//! counts. A block ends when the next begins: none of its trials are repeated then.

use std::collections::BTreeMap;

use crate::record::{Purpose, TrialEnd, TrialRecord};
use crate::trial::TrialKey;

#[cfg(doc)]
use super::model::Plan;

/// Default of [`Plan::repeats`].
pub(super) const REPEATS_DEFAULT: u64 = 2;
/// Limit of [`Plan::repeats`].
pub(super) const REPEATS_MAX: u64 = 20;
/// After this many INVALID repeats in a row, a combination is no longer repeated.
const IN_VAIN_MAX: u32 = 3;

/// The trials of a run so far, as far as needed to choose repeats. Its size is that of one block.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    block: u32,
    /// The latest attempt at each trial of the block.
    of_block: BTreeMap<TrialKey, Attempt>,
    /// By combination: INVALID repeats since the last of its trials that counted.
    in_vain: BTreeMap<u32, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// Number of the trial in the run.
    number: u32,
    /// 0 for the first attempt.
    repeat: u32,
    is_void: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    pub key: TrialKey,
    /// Number of the repeat, from 1.
    pub repeat: u32,
}

impl Attempts {
    /// Takes a trial into account. Trials must be passed in execution order.
    pub fn take(&mut self, record: &TrialRecord) {
        if record.purpose != Purpose::Block || record.block < self.block {
            return;
        }
        if record.block > self.block {
            self.block = record.block;
            self.of_block.clear();
        }
        let in_vain = self.in_vain.entry(record.combination).or_default();
        if record.counts() {
            *in_vain = 0;
        } else if record.repeat > 0 {
            *in_vain += 1;
        }
        let attempt = Attempt { number: record.number, repeat: record.repeat, is_void: is_void(record) };
        self.of_block.insert(record.key(), attempt);
    }

    /// The next trial of this block to be repeated, at most `repeats_max` times: the one with the fewest repeats; of
    /// these, the one that ran first.
    #[must_use]
    pub fn next_repeat(&self, block: u32, repeats_max: u32) -> Option<Repeat> {
        if block != self.block {
            return None;
        }
        let is_hopeless =
            |key: &TrialKey| self.in_vain.get(&key.combination).is_some_and(|&count| count >= IN_VAIN_MAX);
        let void = self
            .of_block
            .iter()
            .filter(|(key, attempt)| attempt.is_void && attempt.repeat < repeats_max && !is_hopeless(key));
        let (key, attempt) = void.min_by_key(|(_, attempt)| (attempt.repeat, attempt.number))?;
        Some(Repeat { key: key.clone(), repeat: attempt.repeat + 1 })
    }
}

/// Whether a trial says nothing about its subject, so that it may be repeated.
fn is_void(record: &TrialRecord) -> bool {
    record.end == TrialEnd::Complete
        && !record.invalid_reasons.is_empty()
        && record.workloads.values().all(|workload| workload.answered > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::TrialFailure;
    use crate::record::{Steady, SteadyState, WorkloadRecord};

    fn good(number: u32, block: u32, combination: u32, repeat: u32) -> TrialRecord {
        let user = WorkloadRecord { answered: 100, ..WorkloadRecord::default() };
        let workloads = BTreeMap::from([("user".to_owned(), user)]);
        TrialRecord { number, block, combination, repeat, workloads, ..TrialRecord::default() }
    }

    fn invalid(number: u32, block: u32, combination: u32, repeat: u32) -> TrialRecord {
        TrialRecord { invalid_reasons: vec!["late".to_owned()], ..good(number, block, combination, repeat) }
    }

    fn attempts(records: &[TrialRecord]) -> Attempts {
        let mut attempts = Attempts::default();
        records.iter().for_each(|record| attempts.take(record));
        attempts
    }

    /// Combination and number of the repeat.
    fn next(records: &[TrialRecord], block: u32, repeats_max: u32) -> Option<(u32, u32)> {
        attempts(records).next_repeat(block, repeats_max).map(|next| (next.key.combination, next.repeat))
    }

    #[test]
    fn invalid_trials_are_repeated_in_turn_and_not_for_ever() {
        let mut records = vec![good(1, 1, 0, 0), invalid(2, 1, 2, 0), invalid(3, 1, 1, 0)];
        assert_eq!(next(&records, 1, 0), None, "nobody wants it");
        assert_eq!(next(&records, 1, 2), Some((2, 1)), "the one that was run first");
        records.push(invalid(4, 1, 2, 1));
        assert_eq!(next(&records, 1, 2), Some((1, 1)), "the others first");
        records.push(good(5, 1, 1, 1));
        assert_eq!(next(&records, 1, 2), Some((2, 2)));
        assert_eq!(next(&records, 1, 1), None);
        records.push(invalid(6, 1, 2, 2));
        assert_eq!(next(&records, 1, 2), None);
    }

    #[test]
    fn a_block_that_is_over_stays_as_it_is() {
        let records = [invalid(1, 1, 0, 0), good(2, 2, 0, 0)];
        assert_eq!((next(&records, 1, 2), next(&records, 2, 2), next(&records, 3, 2)), (None, None, None));
    }

    #[test]
    fn a_combination_that_is_always_invalid_is_given_up_until_it_counts_once() {
        let mut records = Vec::new();
        let mut repeats = 0;
        for block in 1..=10 {
            records.push(invalid(records.len() as u32, block, 0, 0));
            records.push(good(records.len() as u32, block, 1, 0));
            while let Some((0, repeat)) = next(&records, block, 2) {
                records.push(invalid(records.len() as u32, block, 0, repeat));
                repeats += 1;
            }
        }
        assert_eq!(repeats, IN_VAIN_MAX);
        records.push(good(98, 11, 0, 0));
        records.push(invalid(99, 12, 0, 0));
        assert_eq!(next(&records, 12, 2), Some((0, 1)));
    }

    #[test]
    fn both_trials_of_the_pair_are_repeated_for_themselves() {
        let second = TrialRecord { replicate: 1, ..invalid(2, 1, 0, 0) };
        let next = attempts(&[good(1, 1, 0, 0), second]).next_repeat(1, 2).unwrap();
        assert_eq!((next.key.replicate, next.repeat), (1, 1));
    }

    #[test]
    fn only_what_says_nothing_of_the_subject_is_repeated() {
        let with = |change: fn(&mut WorkloadRecord), mut record: TrialRecord| {
            record.workloads.values_mut().for_each(change);
            record
        };
        let fail = |user: &mut WorkloadRecord| user.errors = BTreeMap::from([("reset".to_owned(), 1)]);
        let lose = |user: &mut WorkloadRecord| user.answered = 0;
        let change =
            |user: &mut WorkloadRecord| user.steady = Steady { state: SteadyState::NeverSteady, ..Steady::default() };
        let void = invalid(1, 1, 0, 0);
        let end = TrialFailure::new("site", "exited", "").into();
        let failed = TrialRecord { end, ..void.clone() };
        let searched = TrialRecord { purpose: Purpose::Search, ..void.clone() };
        let is_repeated = |record: &TrialRecord| next(std::slice::from_ref(record), 1, 2).is_some();
        assert!([&void, &with(fail, void.clone()), &with(change, void.clone())].into_iter().all(is_repeated));
        let unsteady = with(change, good(1, 1, 0, 0));
        assert!(unsteady.is_unsteady() && unsteady.counts());
        let unanswered = with(lose, void);
        assert!(![&unsteady, &unanswered, &failed, &searched].into_iter().any(is_repeated));
    }
}
