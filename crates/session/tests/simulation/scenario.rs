//! Parameters drawn from a seed: the cluster, the clients, the faults.

use std::time::Duration;

use breme_base::Random;
use breme_session::{Durability, PerThousand, Reads, Route, Rules, Settings};

/// A bug injected to see whether the checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The engine ignores the expected sequence.
    DropsExpected,
    /// Responses are sent with the commit, not after it.
    RespondsBeforeCommit,
    /// The lease is checked when the request arrives, before its turn.
    ChecksLeaseFirst,
    /// A session of an unreachable node is claimed at once.
    ClaimsWithoutWaiting,
    /// Creation succeeds over a tombstone.
    CreatesOverTombstones,
    /// Reads are trusted.
    TrustsReads,
    /// A commit without a response is treated as failed.
    ForgetsOperations,
    /// `memory` is presented as `quorum`.
    SellsMemory,
    /// The engine reports a commit before it has written it.
    CommitsBeforeSync,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub nodes: usize,
    pub clients: usize,
    /// How many clients share a session.
    pub sharers: usize,
    /// When clients and faults stop.
    pub duration: Duration,
    pub faults: u64,
    /// Fractions of the engine's messages that are delayed, lost, or answered with old values.
    pub late: f64,
    pub lost: f64,
    pub stale: f64,
    /// Probability that a client returns to its last node.
    pub sticky: f64,
    /// Probability that a request runs long.
    pub slow: f64,
    /// Whether the only faults are long freezes of busy nodes.
    pub is_frosty: bool,
    /// Probability that it gives up early.
    pub impatient: f64,
    /// Probability that it logs out or in.
    pub restless: f64,
    pub settings: Settings,
    pub rules: Rules,
    pub bug: Option<Bug>,
}

impl Scenario {
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, 1);
        let one_of = |random: &mut Random, choices: &[f64]| choices[random.below(choices.len() as u64) as usize];
        let route = match random.below(3) {
            0 => Route::Pull,
            1 => Route::Forward { pull_after: None },
            _ => Route::Forward { pull_after: Some(random.between(0, 4) as u32) },
        };
        let mut settings = Settings {
            reads: if random.chance(0.25) { Reads::Confirmed } else { Reads::Leased },
            durability: Durability::Quorum,
            route,
            release_delay: Duration::from_millis(if random.chance(0.2) { random.between(1, 300) } else { 0 }),
            clock_drift: PerThousand(10),
            wait_max: Duration::from_secs(5),
            sessions_max: if random.chance(0.3) { 3 } else { 1_000 },
            session_requests_max: if random.chance(0.2) { 2 } else { 100 },
            hops_max: random.between(1, 3) as u8,
            // Calendars are wrong by hours, and a session's age is counted by them.
            absolute: Duration::from_secs(100 * 3_600),
            ..Settings::new(String::new())
        };
        if settings.sessions_max == 3 {
            // Less than long ones contain.
            settings.memory_max = 1_000;
        }
        Self {
            nodes: random.between(1, 4) as usize,
            clients: random.between(1, 8) as usize,
            sharers: random.between(1, 4) as usize,
            duration: Duration::from_secs(random.between(5, 15)),
            faults: random.between(0, 6),
            late: one_of(&mut random, &[0.0, 0.01, 0.1]),
            lost: one_of(&mut random, &[0.0, 0.01, 0.1]),
            stale: one_of(&mut random, &[0.0, 0.1, 0.5]),
            sticky: one_of(&mut random, &[0.0, 0.7, 0.95]),
            slow: one_of(&mut random, &[0.01, 0.1, 0.5]),
            is_frosty: random.chance(0.2),
            impatient: one_of(&mut random, &[0.0, 0.1, 0.6]),
            restless: one_of(&mut random, &[0.0, 0.1]),
            settings,
            rules: Rules::default(),
            bug: None,
        }
    }

    pub fn with(mut self, bug: Bug) -> Self {
        let rules = &mut self.rules;
        match bug {
            Bug::RespondsBeforeCommit => rules.responds_after_commit = false,
            Bug::ChecksLeaseFirst => rules.checks_lease_after_snapshot = false,
            Bug::ClaimsWithoutWaiting => rules.waits_for_lease = false,
            Bug::TrustsReads => rules.serves_after_commit = false,
            Bug::ForgetsOperations => rules.resolves_operations = false,
            Bug::SellsMemory => self.settings.durability = Durability::Memory,
            Bug::DropsExpected | Bug::CreatesOverTombstones | Bug::CommitsBeforeSync => {}
        }
        Self { bug: Some(bug), ..self }
    }
}
