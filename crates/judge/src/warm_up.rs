//! Decides which warm-ups detected in single trials are real.
//!
//! In one trial a warm-up looks like a disturbance at the beginning. Over the trials of a combination the two differ: a
//! warm-up is a property of the subject and occurs in most of them, a neighbour's disturbance in few (Welch's
//! procedure, which searches the average of the replications, has the same basis). If each trial decided for itself,
//! disturbances at the beginning would be discarded and those at the end would count, and the most disturbed trials
//! would look better than they were.
//!
//! Trials with a newly started subject and trials with one that already ran are counted separately.
//!
//! P. D. Welch: *The statistical analysis of simulation results*, in S. Lavenberg (ed.): *Computer Performance Modeling
//! Handbook*, Academic Press 1983, 268–328.

use std::borrow::Cow;
use std::collections::BTreeMap;

use breme_experiment::record::{Distribution, Purpose, Steady, SteadyState, TrialRecord, WarmUpRecord, WorkloadRecord};
use breme_expression::Unit;
use breme_stats::Histogram;

use crate::words::amount;

use crate::levels::Levels;

/// Prepares the records for the judgement: a warm-up remains discarded if at least half of the trials of its kind have
/// one; else it counts.
#[must_use]
pub fn agree_on_warm_ups(records: &[TrialRecord]) -> Cow<'_, [TrialRecord]> {
    let kinds = Kinds::from_records(records);
    let lone: Vec<(usize, &str)> = kinds.lone_warm_ups().collect();
    if lone.is_empty() {
        return Cow::Borrowed(records);
    }
    let mut agreed = records.to_vec();
    for (index, name) in lone {
        if let Some(workload) = agreed[index].workloads.get_mut(name) {
            add_warm_up(workload);
        }
    }
    Cow::Owned(agreed)
}

/// What comparable trials have in common: levels, workload, and whether a subject was started for them.
type Kind<'a> = (&'a Levels, &'a str, bool);

/// By kind: the indices of the trials, and whether a warm-up was detected in them.
struct Kinds<'a>(BTreeMap<Kind<'a>, Vec<(usize, bool)>>);

impl<'a> Kinds<'a> {
    fn from_records(records: &'a [TrialRecord]) -> Self {
        let mut kinds: BTreeMap<Kind<'_>, Vec<(usize, bool)>> = BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            if record.purpose != Purpose::Block || !record.counts() {
                continue;
            }
            let is_fresh = index.checked_sub(1).is_none_or(|before| is_started_since(record, &records[before]));
            for (name, workload) in &record.workloads {
                let of_kind = kinds.entry((&record.levels, name, is_fresh)).or_default();
                of_kind.push((index, workload.warm_up.is_some()));
            }
        }
        Self(kinds)
    }

    /// Trial and workload of the warm-ups that most others of the kind do not have.
    fn lone_warm_ups(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.0.iter().flat_map(|((_, name, _), trials)| {
            let found = trials.iter().filter(|(_, has_one)| *has_one).count();
            let are_lone = found * 2 < trials.len();
            trials.iter().filter(move |(_, has_one)| *has_one && are_lone).map(|(index, _)| (*index, *name))
        })
    }
}

/// Whether a subject of this trial was started after the load of the one before had begun.
fn is_started_since(record: &TrialRecord, before: &TrialRecord) -> bool {
    let end_s = record.started_monotonic_ns as f64 / 1e9 + record.length_s;
    record.subjects.values().any(|subject| end_s - subject.uptime_s > before.started_monotonic_ns as f64 / 1e9)
}

/// Adds the warm-up of a workload to its measurements.
fn add_warm_up(workload: &mut WorkloadRecord) {
    let Some(warm_up) = workload.warm_up.take() else { return };
    let Some((response, service)) = whole_times(workload, &warm_up) else {
        workload.warm_up = Some(warm_up);
        return;
    };
    // Missing in journals of earlier versions.
    if let Some(connect) = merged(&workload.connect, &warm_up.connect) {
        workload.connect = connect;
    }
    let length_s = workload.window_s + warm_up.length_s;
    let counted = workload.achieved_rate * workload.window_s;
    let answered = counted + warm_up.answered as f64;
    let held_s = workload.held_mean_s.map(|mean_s| mean_s * counted + warm_up.held_mean_s * warm_up.answered as f64);
    workload.achieved_rate = answered / length_s;
    workload.window_bytes = workload.window_bytes.map(|bytes| bytes + warm_up.received_bytes);
    workload.window_errors = workload.window_errors.map(|errors| errors + warm_up.errors);
    workload.held_mean_s = held_s.map(|held_s| held_s / answered.max(1.0));
    workload.held_max_s = workload.held_max_s.max(warm_up.held_max_s);
    (workload.window_s, workload.response, workload.service) = (length_s, response, service);
    let Steady { state, from_s, remark, end_change } = std::mem::take(&mut workload.steady);
    let at_first = || {
        format!(
            "the first {} differed from the rest, as in few other trials of this combination, so this is not a warm-up",
            amount(from_s, Unit::Seconds)
        )
    };
    let remark = if state == SteadyState::NeverSteady { remark } else { Some(at_first()) };
    workload.steady = Steady { state: SteadyState::NeverSteady, from_s: 0.0, remark, end_change };
}

/// Response and service times of the warm-up and the rest together; none if a histogram cannot be decoded.
fn whole_times(workload: &WorkloadRecord, warm_up: &WarmUpRecord) -> Option<(Distribution, Distribution)> {
    Some((merged(&workload.response, &warm_up.response)?, merged(&workload.service, &warm_up.service)?))
}

fn merged(one: &Distribution, other: &Distribution) -> Option<Distribution> {
    let mut times = Histogram::decode(&one.histogram).ok()?;
    times.merge(&Histogram::decode(&other.histogram).ok()?);
    Some(Distribution::from_histogram(&times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_experiment::record::SubjectRecord;

    fn times(millis: u64, count: u64) -> Distribution {
        let mut histogram = Histogram::new();
        (0..count).for_each(|_| histogram.record(millis * 1_000_000));
        Distribution::from_histogram(&histogram)
    }

    /// Lasts one second; if it has a warm-up, requests in its first tenth take five times as long.
    fn trial(number: u32, has_warm_up: bool, uptime_s: f64) -> TrialRecord {
        let warm_up = WarmUpRecord {
            length_s: 0.1,
            answered: 2,
            errors: 1,
            received_bytes: 200,
            held_mean_s: 3e-3,
            held_max_s: 4e-3,
            response: times(50, 2),
            service: times(50, 2),
            connect: times(1, 2),
        };
        let rate = 100.0;
        let window_s = if has_warm_up { 0.9 } else { 1.0 };
        let answered = (rate * window_s) as u64;
        let steady = Steady {
            state: if has_warm_up { SteadyState::AfterWarmUp } else { SteadyState::Flat },
            from_s: 1.0 - window_s,
            ..Steady::default()
        };
        let user = WorkloadRecord {
            steady,
            window_s,
            window_bytes: Some(100 * answered),
            window_errors: Some(3),
            achieved_rate: rate,
            held_mean_s: Some(1e-3),
            response: times(10, answered),
            service: times(10, answered),
            connect: times(1, 3),
            warm_up: has_warm_up.then(|| Box::new(warm_up)),
            ..WorkloadRecord::default()
        };
        TrialRecord {
            number,
            length_s: 1.0,
            started_monotonic_ns: u64::from(number) * 2_000_000_000,
            workloads: BTreeMap::from([("user".to_owned(), user)]),
            subjects: BTreeMap::from([("site".to_owned(), SubjectRecord { uptime_s, ..SubjectRecord::default() })]),
            ..TrialRecord::default()
        }
    }

    fn cut(records: &[TrialRecord]) -> Vec<bool> {
        agree_on_warm_ups(records).iter().map(|record| record.workloads["user"].warm_up.is_some()).collect()
    }

    #[test]
    fn a_start_that_most_trials_have_is_a_warm_up_and_one_of_few_is_not() {
        let most: Vec<TrialRecord> = (1..=6).map(|number| trial(number, number % 3 > 0, 100.0)).collect();
        assert!(matches!(agree_on_warm_ups(&most), Cow::Borrowed(_)));
        let few: Vec<TrialRecord> = (1..=6).map(|number| trial(number, number == 4, 100.0)).collect();
        assert_eq!(cut(&few), [false; 6]);
    }

    #[test]
    fn the_whole_trial_counts_then() {
        let few: Vec<TrialRecord> = (1..=6).map(|number| trial(number, number == 4, 100.0)).collect();
        let agreed = agree_on_warm_ups(&few);
        let user = &agreed[3].workloads["user"];
        assert!((user.window_s - 1.0).abs() < 1e-9 && (user.achieved_rate - 92.0).abs() < 1e-9);
        assert_eq!((user.window_bytes, user.window_errors), (Some(9_200), Some(4)));
        assert_eq!((user.response.count, user.service.count, user.connect.count), (92, 92, 5));
        assert!((user.response.mean_ns / 1e6 - (90.0 * 10.0 + 2.0 * 50.0) / 92.0).abs() < 0.02);
        assert!((user.held_mean_s.unwrap() - 96e-3 / 92.0).abs() < 1e-9 && user.held_max_s == 4e-3);
        assert_eq!((user.steady.state, user.steady.from_s), (SteadyState::NeverSteady, 0.0));
        assert_eq!(
            user.steady.remark.as_deref(),
            Some(
                "the first 100 ms differed from the rest, as in few other trials of this combination, so this is not a warm-up"
            )
        );
        assert_eq!(agreed[2], few[2], "the others are as they were");
    }

    #[test]
    fn the_first_trials_of_a_subject_are_counted_apart() {
        // The subject is started for the first of three trials each time, and warms up in it.
        let records: Vec<TrialRecord> = (1..=9)
            .map(|number| {
                let is_first = number % 3 == 1;
                trial(number, is_first, if is_first { 1.2 } else { 3.2 + 2.0 * f64::from(number % 3) })
            })
            .collect();
        assert!(matches!(agree_on_warm_ups(&records), Cow::Borrowed(_)));
    }

    #[test]
    fn an_unreadable_histogram_stays_as_it_is() {
        let mut records: Vec<TrialRecord> = (1..=6).map(|number| trial(number, number == 4, 100.0)).collect();
        records[3].workloads.get_mut("user").unwrap().response.histogram.clear();
        assert_eq!(agree_on_warm_ups(&records).as_ref(), records.as_slice());
    }
}
