//! The load generator against the origin server in virtual time: both real nodes, a network made from a seed.
//!
//! Each seed draws a workload, the server's limits, the shards and the network's behaviour. The test is a balance, not
//! a figure: every request is accounted for, no response of the server is lost, no content is changed.

#![allow(clippy::unwrap_used, reason = "a fault of the world ends the test")]

mod scenario;
mod world;

use std::time::Duration;

use breme_base::Instant;
use breme_load::ErrorKind;
use breme_load_plan::Settings;
use breme_sim::{Network, seeds};
use scenario::Scenario;
use world::{Ending, play};

/// Seeds of a network without losses and with arbitrary segment boundaries.
const ROUGH_SEEDS: u64 = 1_500;
/// Seeds in which every byte arrives by itself.
const BYTEWISE_SEEDS: u64 = 400;
/// Seeds with refused, reset and silent connections.
const NASTY_SEEDS: u64 = 1_500;
/// Seeds in which the server is stopped under load.
const STOPPING_SEEDS: u64 = 800;
/// Seeds in which other clients wait for connections.
const PRESSURE_SEEDS: u64 = 80;

#[test]
fn where_nothing_is_lost_every_request_is_answered_as_it_should_be() {
    seeds(ROUGH_SEEDS, |seed| {
        let scenario = Scenario::draw(seed, 30_000);
        require_all_answered(&scenario, &play(seed, &Network::rough(), &scenario));
    });
}

#[test]
fn every_byte_may_arrive_by_itself() {
    seeds(BYTEWISE_SEEDS, |seed| {
        let scenario = Scenario::draw(seed, 600);
        require_all_answered(&scenario, &play(seed, &Network::bytewise(), &scenario));
    });
}

fn require_all_answered(scenario: &Scenario, ending: &Ending) {
    let requests = scenario.load.requests.unwrap();
    assert_eq!(ending.failed, [], "of {scenario:?}");
    assert_eq!((ending.issued, ending.answered, ending.unfinished), (requests, requests, 0), "of {scenario:?}");
    assert_eq!(ending.answered_by_server, requests, "of {scenario:?}");
}

#[test]
fn whatever_the_network_does_every_request_is_accounted_for() {
    let mut hurt = 0;
    seeds(NASTY_SEEDS, |seed| {
        let scenario = Scenario::draw(seed, 30_000).for_at_most(Duration::from_secs(2));
        let ending = play(seed, &Network::nasty(), &scenario);
        require_balance(&scenario, &ending);
        // The client's losses were caused by faults. A request on a silent connection affects those after it.
        let depth = scenario.load.pipeline_depth as u64;
        let lost: u64 = ending.failed.iter().map(|(_, count)| count).sum();
        let faults = ending.summary.failed_connect_count + ending.summary.reset_count + ending.summary.silenced_count;
        assert!(lost <= faults * depth, "{lost} lost by {faults} faults: {:?} of {scenario:?}", ending.failed);
        hurt += u64::from(lost > 0);
    });
    if std::env::var_os(breme_sim::ONE_SEED).is_none() {
        assert!(hurt > 0, "no fault was felt");
    }
}

#[test]
fn a_server_that_stops_answers_what_it_accepted() {
    seeds(STOPPING_SEEDS, |seed| {
        let scenario = Scenario::draw(seed, 10_000).for_at_most(Duration::from_millis(300)).stopped_within(seed);
        let ending = play(seed, &Network::rough(), &scenario);
        require_balance(&scenario, &ending);
        assert_eq!(ending.answered_by_server, ending.answered, "an answer was given and did not arrive: {scenario:?}");
        for (kind, count) in &ending.failed {
            let is_due_to_the_end = matches!(kind, ErrorKind::Refused | ErrorKind::ClosedEarly);
            assert!(is_due_to_the_end, "{count} × {kind:?} of {scenario:?}");
        }
    });
}

#[test]
fn a_server_under_pressure_answers_what_it_accepted() {
    let mut evicted = 0;
    seeds(PRESSURE_SEEDS, |seed| {
        let scenario = Scenario::draw(seed, 10_000).for_at_most(Duration::from_secs(4)).under_pressure(seed);
        let ending = play(seed, &Network::rough(), &scenario);
        require_balance(&scenario, &ending);
        assert_eq!(ending.answered_by_server, ending.answered, "an answer was given and did not arrive: {scenario:?}");
        // A request in transit when its connection was closed has no response, and is reported as such.
        for (kind, count) in &ending.failed {
            assert_eq!(*kind, ErrorKind::ClosedEarly, "{count} × of {scenario:?}");
        }
        let lost: u64 = ending.failed.iter().map(|(_, count)| count).sum();
        let depth = scenario.load.pipeline_depth as u64;
        assert!(lost <= ending.evicted * depth, "{lost} lost, {} had to go: {scenario:?}", ending.evicted);
        evicted += ending.evicted;
    });
    if std::env::var_os(breme_sim::ONE_SEED).is_none() {
        assert!(evicted > 0, "nobody had to go");
    }
}

fn require_balance(scenario: &Scenario, ending: &Ending) {
    let failed: u64 = ending.failed.iter().map(|(_, count)| count).sum();
    assert_eq!(ending.issued, ending.answered + failed + ending.unfinished, "{:?} of {scenario:?}", ending.failed);
    assert!(ending.answered_by_server >= ending.answered, "answers out of nowhere, of {scenario:?}");
    let wrong = ending.wrong_answers;
    assert_eq!(wrong, 0, "wrong status or content, of {scenario:?}");
}

#[test]
fn the_same_seed_plays_alike() {
    seeds(40, |seed| {
        let mut scenario = Scenario::draw(seed, 10_000).for_at_most(Duration::from_secs(1));
        scenario.file_is_open = false; // the entity tag of a real file tells when it was written
        let [first, second] = [0, 1].map(|_| play(seed, &Network::nasty(), &scenario));
        assert_eq!((first.digest, first.failed), (second.digest, second.failed));
    });
}

/// The loss of a response must be detected: otherwise the tests above mean nothing.
#[test]
fn a_wrong_expectation_is_found() {
    let scenario = Scenario::draw(3, 1_000);
    let mut load = Settings { requests: Some(7), ..scenario.load.clone() };
    load.expectations.content_bytes = Some(123_456_789);
    let ending = play(3, &Network::calm(), &Scenario { load, ..scenario });
    assert_eq!((ending.answered, ending.wrong_answers), (7, 7));
    assert!(ending.summary.ended_at > Instant::ZERO);
}
