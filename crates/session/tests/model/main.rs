//! Every interleaving of a small cluster: the real machine under a model checker.
//!
//! Two nodes and one session, which one node owns when the exploration begins. Every message may be delivered at any
//! time and in any order, so a node may be paused at any point; a read of the engine may return an old value, a
//! response may be lost, a node may crash, and leases run out. The watch loses everything: it reports nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod cluster;

use breme_session::Rules;
use cluster::{Budget, Cluster, READ_A, READ_B, Step, WRITE_A, WRITE_B};
use stateright::{Checker, HasDiscoveries, Model};

/// Explores all states; returns their number and the violated properties.
fn explore(cluster: Cluster) -> (usize, Vec<(&'static str, Vec<Step>)>) {
    let checker = cluster.checker().threads(2).spawn_bfs().join();
    let found = checker.discoveries().into_iter().filter(|(name, _)| !name.starts_with("some "));
    let found = found.map(|(name, path)| (name, path.into_actions())).collect();
    assert!(checker.discovery("some session changes its owner").is_some(), "the model shows nothing");
    (checker.unique_state_count(), found)
}

fn require_safe(name: &str, sent_questions: &'static [usize], budget: Budget) {
    let (states, found) = explore(Cluster::new(budget, sent_questions, Rules::default()));
    println!("{name}: {states} states");
    assert!(found.is_empty(), "{name}: {found:#?}");
    assert!(states > 500, "{name}: only {states} states");
}

/// Both nodes write, and one reads.
const WRITES_AND_READ: &[usize] = &[WRITE_A, WRITE_B, READ_A];
/// The second node writes, the first reads.
const WRITE_AND_READ: &[usize] = &[WRITE_B, READ_A];
/// The first node writes, the second reads.
const WRITE_AND_READ_ELSEWHERE: &[usize] = &[WRITE_A, READ_B];
/// The second node reads, which takes the session over.
const READ_ELSEWHERE: &[usize] = &[READ_B];
/// Both nodes write.
const WRITES: &[usize] = &[WRITE_A, WRITE_B];

#[test]
fn a_paused_owner_does_no_harm() {
    require_safe("pause", WRITE_AND_READ, Budget { leases: 1, forwards: true, ..Budget::default() });
}

/// Both nodes write while a lease expires: 1.5 million states.
#[test]
#[ignore = "takes a minute"]
fn a_paused_owner_that_writes_does_no_harm() {
    require_safe("long pause", WRITES_AND_READ, Budget { leases: 1, forwards: true, ..Budget::default() });
}

#[test]
fn a_new_owner_that_is_paused_does_no_harm() {
    require_safe("pause of the other", READ_ELSEWHERE, Budget { leases: 1, ..Budget::default() });
}

#[test]
fn a_crashed_owner_loses_nothing() {
    require_safe("crash", WRITES, Budget { leases: 1, crashes: 1, lost: 1, ..Budget::default() });
}

#[test]
fn lost_responses_are_resolved() {
    require_safe("lost", WRITES_AND_READ, Budget { lost: 1, ..Budget::default() });
}

#[test]
fn stale_reads_do_no_harm() {
    require_safe("stale", WRITES_AND_READ, Budget { stale: 1, ..Budget::default() });
}

fn require_found(rules: Rules, sent_questions: &'static [usize], budget: Budget) {
    let checker =
        Cluster::new(budget, sent_questions, rules).checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let states = checker.unique_state_count();
    let is_found = checker.discoveries().keys().any(|name| !name.starts_with("some"));
    assert!(is_found, "the model does not notice that {rules:?} break it ({states} states)");
    println!("{rules:?}: {states} states");
}

#[test]
fn a_response_before_its_commit_is_noticed() {
    let rules = Rules { responds_after_commit: false, ..Rules::default() };
    require_found(rules, WRITE_AND_READ_ELSEWHERE, Budget { leases: 1, crashes: 1, ..Budget::default() });
}

#[test]
fn a_lease_checked_too_early_is_noticed() {
    let rules = Rules { checks_lease_after_snapshot: false, ..Rules::default() };
    require_found(rules, WRITE_AND_READ, Budget { leases: 1, ..Budget::default() });
}

#[test]
fn a_claim_without_waiting_is_noticed() {
    let rules = Rules { waits_for_lease: false, ..Rules::default() };
    require_found(rules, WRITE_AND_READ, Budget { forwards: true, unreachable: true, ..Budget::default() });
}

#[test]
fn a_forgotten_operation_is_noticed() {
    let rules = Rules { resolves_operations: false, ..Rules::default() };
    require_found(rules, WRITES, Budget { lost: 1, ..Budget::default() });
}
