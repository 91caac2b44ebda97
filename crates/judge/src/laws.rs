//! Operational laws, which hold for any system.
//!
//! In a closed loop every user is either waiting for a response, or thinking, or has a response that waits to be read:
//! `N = X·(R + Z + H)` (Little; the interactive response-time law). `R` begins when the user wants the request and
//! includes connecting. The last part, `H`, is the generator's own: a response time ends when the response is in the
//! socket, and the next one begins when the generator has read it. Nothing is assumed about distributions. So if the
//! law does not hold, a measurement is wrong: times that omit something (coordinated omission), responses counted twice
//! or not at all, users that did not run.
//!
//! A large `H` is reported ([`HELD_SHARE_MAX`]): users queue at the bottleneck, and if most of them wait for the
//! generator, the rate is its own. Response times are not affected.
//!
//! The law is not checked if the record lacks part of a user's time: pauses after lost connections; the think times of
//! a scenario's steps; users who think with several requests in flight, which wait for each other; and changing loads.
//!
//! The tolerance follows from the edges of the window: at either end each user has one request in flight, part of which
//! lies outside, at most the longest; and the mean of `n` think times (at most exponential) scatters by `1 ÷ √n` of
//! itself. [`OWN_SHARE`] covers rounding. Measured with the three drivers of the generator at full speed (1 to 1,000
//! connections, up to 128 deep): the law finds 99.5 to 100.3 % of the users with `H`, and 20 to 74 % without.

use breme_experiment::record::{Purpose, TrialRecord, WorkloadRecord};
use breme_stats::queueing_network::interactive_users;

use crate::judgement::LawCheck;

/// The part always tolerated, as a share of the users: histograms round up, and windows begin at the intervals of the
/// time series.
pub const OWN_SHARE: f64 = 0.02;
/// If more of the users without think time wait for the generator, it is the bottleneck.
pub const HELD_SHARE_MAX: f64 = 0.5;
/// Limit of the share of requests lost with their connection: no recorded time contains the wait for another one.
const LOST_SHARE_MAX: f64 = 0.001;
/// Errors of requests that got a response nevertheless.
const ANSWERED_KINDS: [&str; 3] = ["status", "assertion", "capture"];
/// With fewer responses per user, the edges of the window dominate.
const ANSWERS_PER_USER_MIN: f64 = 3.0;
/// Limit of the checks kept; those that disagree come first.
pub const CHECKS_MAX: usize = 2_000;

/// Checks the law on every closed workload of every trial that counts.
pub(crate) fn check(records: &[TrialRecord]) -> Vec<LawCheck> {
    let mut checks: Vec<LawCheck> = records
        .iter()
        .filter(|record| record.counts() && record.purpose == Purpose::Block)
        .flat_map(|record| record.workloads.iter().filter_map(|(name, workload)| law_of(record.number, name, workload)))
        .collect();
    checks.sort_by_key(|check| (check.agrees, check.trial));
    checks.truncate(CHECKS_MAX);
    checks
}

fn law_of(trial: u32, name: &str, workload: &WorkloadRecord) -> Option<LawCheck> {
    // With pipelining one connection counts as several users.
    let users = workload.connections as f64 * workload.pipeline.max(1) as f64;
    let answers = workload.response.count as f64;
    if lacks_times(workload) || users <= 0.0 || workload.window_s <= 0.0 || answers < users * ANSWERS_PER_USER_MIN {
        return None;
    }
    let (response_s, held_s) = (workload.response.mean_ns / 1e9, workload.held_mean_s?);
    let users_by_law = interactive_users(answers / workload.window_s, response_s, workload.think_mean_s + held_s);
    if !users_by_law.is_finite() {
        return None;
    }
    let agrees = (users_by_law / users - 1.0).abs() <= tolerance(workload, answers);
    let held_share = if held_s > 0.0 { held_s / (response_s + held_s) } else { 0.0 };
    Some(LawCheck { trial, workload: name.to_owned(), users, users_by_law, held_share, agrees })
}

/// Whether users spent time that the record does not contain.
fn lacks_times(workload: &WorkloadRecord) -> bool {
    let lost = workload.errors.iter().filter(|(kind, _)| !ANSWERED_KINDS.contains(&kind.as_str()));
    let lost: u64 = lost.map(|(_, count)| count).sum();
    workload.is_changing
        || workload.sessions.is_some()
        || workload.offered_rate.is_some()
        || (workload.think_mean_s > 0.0 && workload.pipeline > 1)
        || lost as f64 > workload.answered as f64 * LOST_SHARE_MAX
}

/// Tolerated distance from 1 of the share of users accounted for.
fn tolerance(workload: &WorkloadRecord, answers: f64) -> f64 {
    let WorkloadRecord { response, think_mean_s, window_s, .. } = workload;
    let longest_s = response.max_ns as f64 / 1e9 + workload.held_max_s;
    let thinking = if *think_mean_s > 0.0 { think_mean_s / (response.mean_ns / 1e9 + think_mean_s) } else { 0.0 };
    // Three standard deviations.
    OWN_SHARE + longest_s / window_s + 3.0 * thinking / answers.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use breme_experiment::record::{Distribution, Sessions};

    fn workload(connections: u64, answers: u64, mean_ns: f64) -> WorkloadRecord {
        WorkloadRecord {
            connections,
            window_s: 10.0,
            answered: answers,
            held_mean_s: Some(0.0),
            response: Distribution { count: answers, mean_ns, max_ns: 2 * mean_ns as u64, ..Distribution::default() },
            ..WorkloadRecord::default()
        }
    }

    #[test]
    fn users_are_found_again() {
        // 50 users, 10 ms each: 5,000 responses per second.
        let check = law_of(1, "crowd", &workload(50, 50_000, 10e6)).unwrap();
        assert!((check.users_by_law - 50.0).abs() < 1e-9 && check.agrees);
        let thinking = WorkloadRecord { think_mean_s: 0.09, ..workload(50, 5_000, 10e6) };
        assert!((law_of(1, "crowd", &thinking).unwrap().users_by_law - 50.0).abs() < 1e-9);
        let pipelined = WorkloadRecord { pipeline: 4, ..workload(50, 50_000, 40e6) };
        assert!(law_of(1, "crowd", &pipelined).unwrap().agrees);
    }

    #[test]
    fn times_that_leave_something_out_are_found() {
        let check = law_of(1, "crowd", &workload(50, 50_000, 8e6)).unwrap();
        assert!(!check.agrees, "{check:?}");
    }

    /// A busy generator: 2 of 10 ms are its own.
    #[test]
    fn users_whose_answer_waits_for_the_generator_are_found_too() {
        let held = WorkloadRecord { held_mean_s: Some(0.002), ..workload(50, 50_000, 8e6) };
        let check = law_of(1, "crowd", &held).unwrap();
        assert!(check.agrees && (check.held_share - 0.2).abs() < 1e-9, "{check:?}");
        // A generator without a CPU for the last second of ten.
        let frozen = WorkloadRecord { held_mean_s: Some(0.003), held_max_s: 1.0, ..workload(50, 50_000, 8e6) };
        assert!(law_of(1, "crowd", &frozen).unwrap().agrees, "what began before the end is counted to its own end");
        let twice = WorkloadRecord { answered: 60_000, window_s: 8.0, ..held };
        assert!(!law_of(1, "crowd", &twice).unwrap().agrees, "too many users are as wrong as too few");
    }

    #[test]
    fn the_law_is_not_checked_where_it_does_not_apply() {
        assert_eq!(law_of(1, "x", &workload(50, 100, 10e6)), None, "too few answers");
        let open = WorkloadRecord { offered_rate: Some(5_000.0), ..workload(50, 50_000, 10e6) };
        assert_eq!(law_of(1, "x", &open), None, "an open loop has no users");
        assert_eq!(law_of(1, "x", &workload(0, 0, 0.0)), None);
        let unknown = WorkloadRecord { held_mean_s: None, ..workload(50, 50_000, 8e6) };
        assert_eq!(law_of(1, "x", &unknown), None, "a journal of before");
        let waiting = WorkloadRecord { think_mean_s: 0.01, pipeline: 4, ..workload(50, 50_000, 8e6) };
        assert_eq!(law_of(1, "x", &waiting), None, "requests that are done wait for the others before the user thinks");
        let ramp = WorkloadRecord { is_changing: true, ..workload(50, 50_000, 8e6) };
        assert_eq!(law_of(1, "x", &ramp), None, "not all users were there");
        let errors = |kind: &str| [(kind.to_owned(), 100)].into();
        let lossy = WorkloadRecord { errors: errors("reset"), ..workload(50, 50_000, 8e6) };
        assert_eq!(law_of(1, "x", &lossy), None, "users wait for another connection");
        let wrong = WorkloadRecord { errors: errors("status"), ..workload(50, 50_000, 8e6) };
        assert!(law_of(1, "x", &wrong).is_some(), "what is answered wrongly is answered");
        let scenario = WorkloadRecord { sessions: Some(Sessions::default()), ..workload(50, 50_000, 8e6) };
        assert_eq!(law_of(1, "x", &scenario), None, "users think between the steps");
    }
}
