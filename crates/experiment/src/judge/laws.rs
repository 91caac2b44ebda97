//! Operational laws: what must hold whatever the system is.
//!
//! In a closed loop every user is either waiting for an answer or thinking: `N = X·(R + Z)` (Little; the interactive response-time law).
//! Nothing is assumed about distributions. Where it finds too few users, they were neither waiting nor thinking but with the generator, whose own
//! time is in no response time (it begins when an answer is in its socket): it was the limit, or had no processor. Where it finds too many, or the
//! generator was idle, something was measured wrongly: times that leave something out (coordinated omission), answers that were not counted.
//!
//! It is not asked where the record lacks a part of a user's time: the making of connections, if each request has its own, and the think times of
//! a scenario's steps.
//!
//! How well it must hold follows from what the window cuts: each user has one request under way at either end, so of `n` answers up to `N` are half
//! outside; the mean of `n` think times (exponential at the most) scatters by `1 ÷ √n` of itself; and between an answer and the next
//! request lies the generator's own time, some µs, for which a share of [`OWN_SHARE`] is left.

use breme_stats::queueing::interactive_users;

use crate::judgement::LawCheck;
use crate::record::{Purpose, TrialRecord, WorkloadRecord};

/// What may always be missing, as a share of the users.
pub const OWN_SHARE: f64 = 0.03;
/// Fewer answers than these for each user say nothing about the law.
const ANSWERS_PER_USER_MIN: f64 = 3.0;
/// The most checks that are kept; those that disagree come first.
pub const CHECKS_MAX: usize = 2_000;

/// The law on every closed workload of every trial that counts.
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
    // Pipelining makes several users of one connection.
    let users = workload.connections as f64 * workload.pipeline.max(1) as f64;
    let answers = workload.response.count as f64;
    let lacks_times = workload.is_connecting_each || workload.sessions.is_some();
    if lacks_times
        || workload.offered_rate.is_some()
        || users <= 0.0
        || workload.window_s <= 0.0
        || answers < users * ANSWERS_PER_USER_MIN
    {
        return None;
    }
    let response_s = workload.response.mean_ns / 1e9;
    let users_by_law = interactive_users(answers / workload.window_s, response_s, workload.think_mean_s);
    if !users_by_law.is_finite() {
        return None;
    }
    let tolerance = tolerance(users, answers, response_s, workload.think_mean_s);
    let agrees = (users_by_law / users - 1.0).abs() <= tolerance;
    Some(LawCheck { trial, workload: name.to_owned(), users, users_by_law, agrees })
}

/// How far from 1 the share of the users may be that the law finds.
fn tolerance(users: f64, answers: f64, response_s: f64, think_s: f64) -> f64 {
    let cut = users / answers;
    let thinking = if think_s > 0.0 { think_s / (response_s + think_s) } else { 0.0 };
    // Three times the scatter.
    OWN_SHARE + cut + 3.0 * thinking / answers.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Distribution, Sessions};

    fn workload(connections: u64, answers: u64, mean_ns: f64) -> WorkloadRecord {
        WorkloadRecord {
            connections,
            window_s: 10.0,
            response: Distribution { count: answers, mean_ns, ..Distribution::default() },
            ..WorkloadRecord::default()
        }
    }

    #[test]
    fn users_are_found_again() {
        // 50 users, 10 ms each: 5,000 answers a second.
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

    #[test]
    fn where_it_says_nothing_it_is_not_asked() {
        assert_eq!(law_of(1, "x", &workload(50, 100, 10e6)), None, "too few answers");
        let open = WorkloadRecord { offered_rate: Some(5_000.0), ..workload(50, 50_000, 10e6) };
        assert_eq!(law_of(1, "x", &open), None, "an open loop has no users");
        assert_eq!(law_of(1, "x", &workload(0, 0, 0.0)), None);
        let connecting = WorkloadRecord { is_connecting_each: true, ..workload(50, 50_000, 8e6) };
        assert_eq!(law_of(1, "x", &connecting), None, "users wait for connections too");
        let scenario = WorkloadRecord { sessions: Some(Sessions::default()), ..workload(50, 50_000, 8e6) };
        assert_eq!(law_of(1, "x", &scenario), None, "users think between the steps");
    }
}
