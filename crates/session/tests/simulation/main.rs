//! The protocol under a thousand kinds of faults: nodes are killed, frozen and cut off; the engine is slow,
//! unreachable, and weak wherever it promises nothing. `history::check` checks what clients see.
//!
//! A failing seed is printed; `BREME_SIM_SEED=N` runs it alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod agenda;
mod clients;
mod engine;
mod faults;
mod host;
mod scenario;
mod world;

use std::time::Duration;

use breme_base::Instant;
use breme_session::Register;
use breme_session::history::{Action, Operation, OperationOutcome, Report, check};
use breme_sim::seeds;
use faults::Fault;
use scenario::{Bug, Scenario};
use world::{Event, Totals, World};

/// Seeds for the correct protocol.
const SEEDS: u64 = 2_000;
/// Number of seeds for each special kind of scenario.
const SPECIAL_SEEDS: u64 = 200;
/// Number of seeds within which a bug must be found.
const BUG_SEEDS: u64 = 2_000;
/// After this time without new faults, every session must be readable at every node.
const RECOVERY: Duration = Duration::from_secs(14);

struct Ending {
    report: Report,
    totals: Totals,
    /// Sessions that could not be read at a node at the end.
    unavailable: Vec<String>,
    /// Requests that machines have not ended.
    left_over: usize,
    damaged: Vec<Register>,
    history: Vec<Operation>,
}

fn play(seed: u64, scenario: Scenario) -> Ending {
    play_to_the_end(World::new(seed, scenario))
}

fn play_to_the_end(mut world: World) -> Ending {
    world.play_until(world.clients.end);
    world.heal();
    // Planned faults may still begin; after that there are none.
    world.play_until(world.clients.end + Duration::from_secs(8));
    world.heal();
    world.play_until(world.agenda.now + RECOVERY);
    let mut unavailable = Vec::new();
    for (session, id) in world.clients.living() {
        for node in 0..world.hosts.len() {
            let outcome = world.read_to_the_end(node, session, id);
            if matches!(outcome, OperationOutcome::Failed | OperationOutcome::Unknown) {
                unavailable.push(format!("session {session} at node {node}: {outcome:?}"));
            }
        }
    }
    world.play_until(world.agenda.now + RECOVERY);
    let machines = world.hosts.iter().filter_map(|host| host.machine.as_ref().map(|machine| (host, machine)));
    let left_over = machines.map(|(host, machine)| machine.gauges(host.moment(world.agenda.now)).requests).sum();
    Ending {
        report: check(&world.history),
        totals: world.statistics(),
        unavailable,
        left_over,
        damaged: world.damaged,
        history: world.history,
    }
}

impl Ending {
    fn require_correct(&self, scenario: &Scenario) {
        assert!(self.report.problems.is_empty(), "{}\n{scenario:#?}", self.report);
        assert!(self.unavailable.is_empty(), "{:?}\n{scenario:#?}", self.unavailable);
        assert_eq!((self.left_over, &self.damaged[..]), (0, &[][..]), "{scenario:#?}");
    }
}

#[test]
fn whatever_happens_nothing_acknowledged_is_lost_and_nothing_old_is_shown() {
    let mut totals = Totals::default();
    let mut operations = Report::default();
    seeds(SEEDS, |seed| {
        let scenario = Scenario::draw(seed);
        let ending = play(seed, scenario.clone());
        ending.require_correct(&scenario);
        totals.add_all(&ending.totals);
        operations.done += ending.report.done;
        operations.failed += ending.report.failed;
        operations.unknown += ending.report.unknown;
        operations.absent += ending.report.absent;
    });
    println!("{operations}\n{totals:?}");
    if std::env::var_os(breme_sim::ONE_SEED).is_none() {
        assert!(operations.done > 3 * (operations.failed + operations.unknown), "too little was done: {operations}");
        let Totals { fenced, given, claimed, looked_up, conflicts, leased, forwarded, lost } = totals;
        let felt = [fenced, given, claimed, looked_up, conflicts, leased, forwarded, lost];
        assert!(felt.iter().all(|&count| count > 100), "something hardly happened: {totals:?}");
    }
}

#[test]
fn ten_clients_of_one_session_see_one_order() {
    seeds(SPECIAL_SEEDS, |seed| {
        let scenario = Scenario { clients: 10, sharers: 10, ..Scenario::draw(seed) };
        play(seed, scenario.clone()).require_correct(&scenario);
    });
}

/// Without the engine nothing is stored; when it is back, all is as before.
#[test]
fn an_engine_that_is_away_for_twenty_seconds_takes_nothing_with_it() {
    const GOES: Duration = Duration::from_secs(5);
    const RETURNS: Duration = Duration::from_secs(25);
    let mut stored = 0;
    seeds(SPECIAL_SEEDS, |seed| {
        let duration = Duration::from_secs(35);
        let scenario = Scenario { duration, faults: 0, late: 0.0, ..Scenario::draw(seed) };
        let mut world = World::new(seed, scenario.clone());
        for (at, is_away) in [(GOES, true), (RETURNS, false)] {
            world.agenda.after(at, Event::Fault(Fault::EngineAway(is_away)));
        }
        let ending = play_to_the_end(world);
        ending.require_correct(&scenario);
        // What was sent before may be on its way.
        let (gone, back) = (Instant::ZERO + GOES + Duration::from_millis(100), Instant::ZERO + RETURNS);
        let is_stored = |operation: &&Operation| {
            matches!((operation.action, &operation.outcome), (Action::Append(_), OperationOutcome::Done(_)))
        };
        for append in ending.history.iter().filter(is_stored) {
            assert!(append.invoked < gone || append.returned > back, "stored without an engine: {append:?}");
            stored += u64::from(append.invoked > back);
        }
    });
    if std::env::var_os(breme_sim::ONE_SEED).is_none() {
        assert!(stored > SPECIAL_SEEDS, "{stored} appends after the engine's return");
    }
}

/// Runs seeds until the checker finds the bug.
fn find(bug: Bug) {
    let first = (0..BUG_SEEDS).find_map(|seed| {
        let ending = play(seed, Scenario::draw(seed).with(bug));
        (!ending.report.problems.is_empty()).then_some((seed, ending.report))
    });
    let (seed, report) = first.unwrap_or_else(|| panic!("{bug:?} was not found in {BUG_SEEDS} seeds"));
    println!("{bug:?}: seed {seed}: {report}");
}

macro_rules! bugs_are_found {
    ($($name:ident: $bug:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            find(Bug::$bug);
        })*
    };
}

bugs_are_found! {
    a_dropped_expected_sequence_is_found: DropsExpected,
    a_response_before_its_commit_is_found: RespondsBeforeCommit,
    a_lease_checked_too_early_is_found: ChecksLeaseFirst,
    a_claim_without_waiting_is_found: ClaimsWithoutWaiting,
    a_creation_over_a_tombstone_is_found: CreatesOverTombstones,
    trust_in_reads_is_found: TrustsReads,
    a_forgotten_operation_is_found: ForgetsOperations,
    memory_sold_as_quorum_is_found: SellsMemory,
    a_commit_before_its_sync_is_found: CommitsBeforeSync,
}
