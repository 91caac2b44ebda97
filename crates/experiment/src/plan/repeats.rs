//! Trials that are run again, at the end of their block.
//!
//! A trial that was INVALID or never came to rest leaves a hole in its block, and a few holes make a run undecided that
//! had the time to decide. So it is tried again. What is repeated follows from **how** a trial went and never from what
//! it measured, or the experimenter would be choosing among results:
//!
//! | a trial | is run again |
//! |---|---|
//! | INVALID, since the generator was late, the limit, or out of ports | yes: it says nothing of the subject |
//! | INVALID, and some workload had no answer at all | no: so a subject looks that is not there |
//! | never steady, and no request failed | yes: a neighbour, most likely |
//! | never steady, and requests failed or the subject was started anew | no: that was the subject |
//! | failed: a subject died, hung, or could not be started | no |
//!
//! A subject that never comes to rest must not make a run endless: each trial is repeated [`Plan::repeats`] times at
//! most, and a combination of which [`IN_VAIN_MAX`] repeats in a row were in vain is repeated no more until one of its
//! trials counts. A block is over when the next has begun: nothing of it is repeated then.

use std::collections::BTreeMap;

use crate::record::{Purpose, TrialEnd, TrialRecord};
use crate::trial::TrialKey;

#[cfg(doc)]
use super::checked::Plan;

/// How often a trial is run again that says nothing, unless the experiment says otherwise.
pub const REPEATS_DEFAULT: u64 = 2;
/// The most repeats of a trial that an experiment may ask for.
pub const REPEATS_MAX: u64 = 20;
/// After so many repeats in a row that did not count either, a combination is no longer repeated.
pub const IN_VAIN_MAX: u32 = 3;

/// What has become of the trials of a run so far, as far as it decides what is repeated. Its size is that of one block.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    /// The newest block.
    block: u32,
    /// The latest attempt at each of its trials.
    of_block: BTreeMap<TrialKey, Attempt>,
    /// By combination: repeats without use since the last of its trials that counted.
    in_vain: BTreeMap<u32, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// The trial's number in the run.
    number: u32,
    /// 0: the first time.
    repeat: u32,
    is_void: bool,
}

/// A trial that is to be run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Which.
    pub key: TrialKey,
    /// For the how manieth time; 1 is the first repeat.
    pub repeat: u32,
}

impl Attempts {
    /// Takes notice of a trial. They come in the order in which they were run.
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

    /// The next trial of this block to be run again, if no trial may be repeated more often than `repeats_max`: the one
    /// that was least often repeated; of these, the one that was run first.
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

/// Whether a trial says nothing of its subject, so that it may be run again.
fn is_void(record: &TrialRecord) -> bool {
    if record.counts() || record.end != TrialEnd::Complete {
        return false;
    }
    let workloads = || record.workloads.values();
    if !record.invalid_reasons.is_empty() {
        return workloads().all(|workload| workload.answered > 0);
    }
    let is_flawless = workloads().all(|workload| workload.errors.values().sum::<u64>() == 0);
    is_flawless && record.subjects.values().all(|subject| subject.restarts == 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::{Steady, SteadyState, SubjectRecord, WorkloadRecord};

    fn trial(number: u32, block: u32, combination: u32, repeat: u32, state: SteadyState) -> TrialRecord {
        let steady = Steady { state, ..Steady::default() };
        let user = WorkloadRecord { answered: 100, steady, ..WorkloadRecord::default() };
        TrialRecord {
            number,
            block,
            combination,
            repeat,
            workloads: BTreeMap::from([("user".to_owned(), user)]),
            ..TrialRecord::default()
        }
    }

    fn good(number: u32, block: u32, combination: u32, repeat: u32) -> TrialRecord {
        trial(number, block, combination, repeat, SteadyState::Flat)
    }

    fn restless(number: u32, block: u32, combination: u32, repeat: u32) -> TrialRecord {
        trial(number, block, combination, repeat, SteadyState::NeverSteady)
    }

    fn attempts(records: &[TrialRecord]) -> Attempts {
        let mut attempts = Attempts::default();
        records.iter().for_each(|record| attempts.take(record));
        attempts
    }

    /// Combination and repeat.
    fn next(records: &[TrialRecord], block: u32, repeats_max: u32) -> Option<(u32, u32)> {
        attempts(records).next_repeat(block, repeats_max).map(|next| (next.key.combination, next.repeat))
    }

    #[test]
    fn what_says_nothing_is_tried_again_in_turn_and_not_for_ever() {
        let mut records = vec![good(1, 1, 0, 0), restless(2, 1, 2, 0), restless(3, 1, 1, 0)];
        assert_eq!(next(&records, 1, 0), None, "nobody wants it");
        assert_eq!(next(&records, 1, 2), Some((2, 1)), "the one that was run first");
        records.push(restless(4, 1, 2, 1));
        assert_eq!(next(&records, 1, 2), Some((1, 1)), "the others first");
        records.push(good(5, 1, 1, 1));
        assert_eq!(next(&records, 1, 2), Some((2, 2)));
        assert_eq!(next(&records, 1, 1), None);
        records.push(restless(6, 1, 2, 2));
        assert_eq!(next(&records, 1, 2), None);
    }

    #[test]
    fn a_block_that_is_over_stays_as_it_is() {
        let records = [restless(1, 1, 0, 0), good(2, 2, 0, 0)];
        assert_eq!((next(&records, 1, 2), next(&records, 2, 2), next(&records, 3, 2)), (None, None, None));
    }

    #[test]
    fn a_combination_that_never_comes_to_rest_is_given_up_until_it_does_once() {
        let mut records = Vec::new();
        let mut repeats = 0;
        for block in 1..=10 {
            records.push(restless(records.len() as u32, block, 0, 0));
            records.push(good(records.len() as u32, block, 1, 0));
            while let Some((0, repeat)) = next(&records, block, 2) {
                records.push(restless(records.len() as u32, block, 0, repeat));
                repeats += 1;
            }
        }
        assert_eq!(repeats, IN_VAIN_MAX);
        records.push(good(98, 11, 0, 0));
        records.push(restless(99, 12, 0, 0));
        assert_eq!(next(&records, 12, 2), Some((0, 1)));
    }

    #[test]
    fn both_trials_of_the_pair_are_repeated_for_themselves() {
        let second = TrialRecord { replicate: 1, ..restless(2, 1, 0, 0) };
        let next = attempts(&[good(1, 1, 0, 0), second]).next_repeat(1, 2).unwrap();
        assert_eq!((next.key.replicate, next.repeat), (1, 1));
    }

    #[test]
    fn what_the_subject_did_is_never_chosen_away() {
        let user = |record: &TrialRecord| record.workloads["user"].clone();
        let with = |record: TrialRecord, workload: WorkloadRecord| TrialRecord {
            workloads: BTreeMap::from([("user".to_owned(), workload)]),
            ..record
        };
        let unsteady = restless(1, 1, 0, 0);
        let errors = BTreeMap::from([("reset".to_owned(), 1)]);
        let failing = with(unsteady.clone(), WorkloadRecord { errors: errors.clone(), ..user(&unsteady) });
        let restarted = TrialRecord {
            subjects: BTreeMap::from([("site".to_owned(), SubjectRecord { restarts: 1, ..SubjectRecord::default() })]),
            ..unsteady.clone()
        };
        let failed = TrialEnd::Failed { who: "site".into(), what: "exited".into(), printed: String::new() };
        let failed = TrialRecord { end: failed, ..unsteady.clone() };
        let invalid = TrialRecord { invalid_reasons: vec!["late".into()], ..good(1, 1, 0, 0) };
        let unanswered = with(invalid.clone(), WorkloadRecord::default());
        let late_and_failing = with(invalid.clone(), WorkloadRecord { errors, ..user(&invalid) });
        let searched = TrialRecord { purpose: Purpose::Search, ..invalid.clone() };
        let is_repeated = |record: &TrialRecord| next(std::slice::from_ref(record), 1, 2).is_some();
        assert!([&unsteady, &invalid, &late_and_failing].into_iter().all(is_repeated));
        assert!(![&failing, &restarted, &failed, &unanswered, &searched].into_iter().any(is_repeated));
    }
}
