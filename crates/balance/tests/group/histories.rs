//! Random histories of all events of a group, checked against its invariants.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_balance::{
    Affinity, AffinityKey, Check, CheckOutcome, Choice, EjectionSettings, GroupSettings, HealthSettings, Hints,
    NoChoice, Policy, UpstreamId, UpstreamOutcome, UpstreamSettings, UpstreamState, UpstreamStatus,
};
use proptest::prelude::*;

use crate::world::{ANSWERED, World, upstream};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Choose { key: u64, cookie: usize, tried: usize },
    Finish { which: usize, how: u8 },
    Wait { millis: u64 },
    Drain(usize),
    Undrain(usize),
    Replace { members: u8, weight: u32 },
    Move { which: usize, is_known: bool },
    BeginChecks,
    EndCheck { which: usize, is_good: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<u64>(), 0..12_usize, 0..4_usize).prop_map(|(key, cookie, tried)| Step::Choose { key, cookie, tried }),
        8 => (any::<usize>(), 0..6_u8).prop_map(|(which, how)| Step::Finish { which, how }),
        2 => (0..20_000_u64).prop_map(|millis| Step::Wait { millis }),
        1 => (0..6_usize).prop_map(Step::Drain),
        2 => (0..6_usize).prop_map(Step::Undrain),
        1 => (1..64_u8, 1..5_u32).prop_map(|(members, weight)| Step::Replace { members, weight }),
        1 => (0..6_usize, prop::bool::weighted(0.8)).prop_map(|(which, is_known)| Step::Move { which, is_known }),
        2 => Just(Step::BeginChecks),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, is_good)| Step::EndCheck { which, is_good }),
    ]
}

fn settings() -> impl Strategy<Value = GroupSettings> {
    let policy = prop::sample::select(vec![
        Policy::RoundRobin,
        Policy::LeastOutstanding,
        Policy::TwoChoices,
        Policy::ConsistentHash,
    ]);
    let key = AffinityKey::new("sixteen byte key").unwrap();
    let affinity = prop::sample::select(vec![
        None,
        Some(Affinity::Insert { cookie: "route".to_owned(), key, max_age: None }),
        Some(Affinity::Follow { cookie: "session".to_owned(), separator: '.' }),
    ]);
    (policy, affinity, 0..6_u32, 1..4_u32, 1..100_u32, 0..3_u64).prop_map(
        |(policy, affinity, max, in_row, percent, slow)| GroupSettings {
            policy,
            affinity,
            health: Some(HealthSettings { rise: 1, fall: 2, ..HealthSettings::default() }),
            ejection: Some(EjectionSettings {
                failures_in_row: in_row,
                failure_percent: 50,
                window_requests_min: 3,
                ejected_percent_max: percent,
                ..EjectionSettings::default()
            }),
            slow_start: Duration::from_secs(slow * 5),
            outstanding_max: max,
            ..GroupSettings::default()
        },
    )
}

struct History {
    world: World,
    settings: GroupSettings,
    outstanding: Vec<Choice>,
    checks: Vec<Check>,
    cookies: Vec<String>,
}

impl History {
    fn new(settings: GroupSettings) -> Self {
        let world = World::new(settings.clone(), &[1, 2, 3]);
        let cookies = NAMES.iter().map(|name| format!("session=x.{name}")).collect();
        Self { world, settings, outstanding: Vec::new(), checks: Vec::new(), cookies }
    }

    fn take(&mut self, step: Step) {
        let now = self.world.now;
        let group = &self.world.group;
        match step {
            Step::Choose { key, cookie, tried } => self.choose(key, cookie, tried),
            Step::Finish { which, how } => self.finish(which, how),
            Step::Wait { millis } => self.world.wait(Duration::from_millis(millis)),
            Step::Drain(which) => drop(group.drain(now, NAMES[which])),
            Step::Undrain(which) => drop(group.undrain(now, NAMES[which])),
            Step::Replace { members, weight } => {
                let is_member = |index: &usize| members >> index & 1 == 1;
                let list: Vec<UpstreamSettings> = (0..NAMES.len())
                    .filter(is_member)
                    .map(|index| upstream(NAMES[index], weight + index as u32))
                    .collect();
                group.replace(now, list).unwrap();
            }
            Step::Move { which, is_known } => {
                let addresses = upstream(NAMES[which], 1).addresses;
                group.move_to(now, NAMES[which], if is_known { &addresses } else { &[] });
            }
            Step::BeginChecks => self.checks.extend(group.checks_due(now)),
            Step::EndCheck { which, is_good } => {
                if !self.checks.is_empty() {
                    let check = self.checks.swap_remove(which % self.checks.len());
                    let status = if is_good { 200 } else { 503 };
                    group.check_done(now, check.id, CheckOutcome::Responded { status });
                }
            }
        }
    }

    fn choose(&mut self, key: u64, cookie: usize, tried: usize) {
        let states = self.world.group.states(self.world.now);
        let cookie = self.cookies.get(cookie).cloned().unwrap_or_default();
        let tried: Vec<UpstreamId> = states.iter().take(tried).map(|state| state.id).collect();
        let hints = Hints { key_hash: key, cookies: &[cookie.as_bytes()], tried: &tried, ..Hints::default() };
        match self.world.choose(&hints) {
            Ok(choice) => {
                self.judge_choice(&states, &choice, &tried, !cookie.is_empty());
                if let Some(field) = &choice.set_affinity {
                    self.cookies.push(field.split(';').next().unwrap().to_owned());
                }
                self.outstanding.push(choice);
            }
            Err(reason) => self.judge_refusal(&states, reason, &tried),
        }
    }

    fn finish(&mut self, which: usize, how: u8) {
        if self.outstanding.is_empty() {
            return;
        }
        let choice = self.outstanding.swap_remove(which % self.outstanding.len());
        let outcome = match how {
            0 => UpstreamOutcome::ConnectFailed { address: choice.address },
            1 => UpstreamOutcome::ConnectionLost,
            2 => UpstreamOutcome::TimedOut,
            3 => UpstreamOutcome::Responded { status: 503, latency: Duration::from_millis(2) },
            4 => UpstreamOutcome::Abandoned,
            _ => ANSWERED,
        };
        self.world.finish(&choice, outcome);
    }

    fn is_healthy(&self, state: &UpstreamState) -> bool {
        match state.status {
            UpstreamStatus::Up => true,
            UpstreamStatus::Ejected { until } => until <= self.world.now,
            _ => false,
        }
    }

    fn is_full(&self, state: &UpstreamState) -> bool {
        self.settings.outstanding_max > 0 && state.outstanding >= self.settings.outstanding_max
    }

    /// The upstreams that any client may be sent to: healthy ones that are not drained; else, unless all are drained,
    /// healthy drained ones; else all with an address that are not drained.
    fn admitting<'s>(&self, states: &'s [UpstreamState]) -> Vec<&'s UpstreamState> {
        let listed = || states.iter().filter(|state| state.status != UpstreamStatus::Leaving);
        let (drained, undrained): (Vec<_>, Vec<_>) = listed().partition(|state| state.is_draining);
        let healthy = |of: &[&'s UpstreamState]| of.iter().copied().filter(|state| self.is_healthy(state)).collect();
        let preferred: Vec<&UpstreamState> = healthy(&undrained);
        if !preferred.is_empty() || undrained.is_empty() {
            return preferred;
        }
        let substitutes: Vec<&UpstreamState> = healthy(&drained);
        if !substitutes.is_empty() {
            return substitutes;
        }
        undrained.into_iter().filter(|state| state.status != UpstreamStatus::Unresolved).collect()
    }

    fn judge_choice(&self, states: &[UpstreamState], choice: &Choice, tried: &[UpstreamId], has_cookie: bool) {
        let state = states.iter().find(|state| state.id == choice.upstream).expect("one of the list");
        assert!(!tried.contains(&choice.upstream), "tried before");
        assert!(!self.is_full(state), "full");
        let admits = self.admitting(states).iter().any(|state| state.id == choice.upstream);
        let keeps_session = has_cookie && state.is_draining && self.is_healthy(state);
        assert!(admits || keeps_session, "chosen although others are well: {state:?} of {states:?}");
    }

    fn judge_refusal(&self, states: &[UpstreamState], reason: NoChoice, tried: &[UpstreamId]) {
        let admitting = self.admitting(states);
        let was_tried = admitting.iter().any(|state| tried.contains(&state.id));
        let open = admitting.iter().any(|state| !self.is_full(state) && !tried.contains(&state.id));
        assert!(!open, "refused although somebody is open: {states:?}");
        let expected = match (admitting.is_empty(), was_tried) {
            (true, _) => NoChoice::NoneAdmitting,
            (false, true) => NoChoice::AllTried,
            (false, false) => NoChoice::AllFull,
        };
        assert_eq!(reason, expected);
    }

    /// Invariants checked after every step.
    fn check_limits(&self) {
        let states = self.world.group.states(self.world.now);
        let mut expected: BTreeMap<UpstreamId, u32> = BTreeMap::new();
        for choice in &self.outstanding {
            *expected.entry(choice.upstream).or_default() += 1;
        }
        for state in &states {
            assert_eq!(state.outstanding, expected.remove(&state.id).unwrap_or(0), "{state:?}");
        }
        assert!(expected.is_empty(), "requests of upstreams that nobody knows: {expected:?}");
        let listed = states.iter().filter(|state| state.status != UpstreamStatus::Leaving).count();
        // An upstream that is both down and ejected is reported as down, so this is a lower bound.
        let ejected = states.iter().filter(|state| matches!(state.status, UpstreamStatus::Ejected { .. })).count();
        let percent = self.settings.ejection.as_ref().unwrap().ejected_percent_max as usize;
        let bound = if listed < 2 { 0 } else { (listed * percent / 100).max(1) };
        assert!(ejected <= bound, "{ejected} of {listed} are ejected");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_on_random_histories(settings in settings(), steps in prop::collection::vec(step(), 1..120)) {
        let mut history = History::new(settings);
        for step in steps {
            history.take(step);
            history.check_limits();
        }
        // Finally all requests end, and none is outstanding.
        while !history.outstanding.is_empty() {
            history.finish(0, 5);
        }
        history.check_limits();
    }
}
