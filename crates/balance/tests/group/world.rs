//! Lists of upstreams, and a group with its clock and its random numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_balance::{
    Choice, Group, GroupSettings, Hints, NoChoice, UpstreamOutcome, UpstreamSettings, UpstreamState, UpstreamStatus,
};
use breme_base::{Instant, Random};

pub(crate) const ANSWERED: UpstreamOutcome =
    UpstreamOutcome::Responded { status: 200, latency: Duration::from_millis(1) };

/// An upstream `a`, `b`, … at its own port.
pub(crate) fn upstream(name: &str, weight: u32) -> UpstreamSettings {
    let port = 8000 + u16::from(name.as_bytes()[0]);
    UpstreamSettings {
        name: name.to_owned(),
        tls: false,
        addresses: vec![([127, 0, 0, 1], port).into()],
        weight,
        route: None,
    }
}

/// Upstreams with the names `a`, `b`, … and these weights.
pub(crate) fn upstreams(weights: &[u32]) -> Vec<UpstreamSettings> {
    ('a'..).zip(weights).map(|(name, &weight)| upstream(&name.to_string(), weight)).collect()
}

pub(crate) struct World {
    pub(crate) group: Group,
    pub(crate) now: Instant,
    pub(crate) random: Random,
}

impl World {
    pub(crate) fn new(settings: GroupSettings, weights: &[u32]) -> Self {
        let group = Group::new(settings, upstreams(weights)).unwrap();
        Self { group, now: Instant::ZERO + Duration::from_secs(1), random: Random::new(7) }
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(crate) fn choose(&mut self, hints: &Hints<'_>) -> Result<Choice, NoChoice> {
        self.group.choose(self.now, hints, &mut self.random)
    }

    /// The name of the upstream chosen for a request without hints, which stays outstanding.
    pub(crate) fn chosen(&mut self) -> String {
        self.choose(&Hints::default()).unwrap().name.to_string()
    }

    pub(crate) fn finish(&self, choice: &Choice, outcome: UpstreamOutcome) {
        self.group.finished(self.now, choice.upstream, outcome);
    }

    /// A whole request.
    pub(crate) fn request(&mut self, hints: &Hints<'_>, outcome: impl Fn(&Choice) -> UpstreamOutcome) -> Choice {
        let choice = self.choose(hints).unwrap();
        self.finish(&choice, outcome(&choice));
        choice
    }

    /// How many of `count` consecutive requests each upstream got.
    pub(crate) fn shares(&mut self, count: usize) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for _ in 0..count {
            let choice = self.request(&Hints::default(), |_| ANSWERED);
            *shares.entry(choice.name.to_string()).or_default() += 1;
        }
        shares
    }

    /// Sends failing requests until one that fails with `outcome` at `name` has ejected it.
    pub(crate) fn fail_at(&mut self, name: &str, outcome: UpstreamOutcome) {
        for _ in 0..1_000 {
            let is_out = self.status(name) != UpstreamStatus::Up;
            if is_out {
                return;
            }
            self.request(&Hints::default(), |choice| if *choice.name == *name { outcome } else { ANSWERED });
        }
        panic!("{name} is still pending");
    }

    pub(crate) fn state(&self, name: &str) -> UpstreamState {
        self.group.states(self.now).into_iter().find(|state| *state.name == *name).unwrap()
    }

    pub(crate) fn status(&self, name: &str) -> UpstreamStatus {
        self.state(name).status
    }

    /// The changes as text.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.group.take_changes().iter().map(ToString::to_string).collect()
    }
}

/// `a 5, b 1`: shares as text, for comparisons.
pub(crate) fn formatted(shares: &BTreeMap<String, usize>) -> String {
    shares.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
