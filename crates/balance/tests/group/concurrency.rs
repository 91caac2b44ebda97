//! Shards that choose while the list changes: nothing is lost or counted twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use breme_balance::{EjectionSettings, Group, GroupSettings, HealthSettings, Hints, Policy, UpstreamOutcome};
use breme_base::{Instant, Random};

use crate::world::{ANSWERED, upstreams};

const SHARDS: u64 = 4;
const REQUESTS: u64 = 5_000;

fn shard(group: &Group, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut outstanding = Vec::new();
    let mut chosen = 0;
    for step in 0..REQUESTS {
        let now = Instant::from_nanos(step * 1_000_000);
        let hints = Hints { key_hash: random.next_u64(), ..Hints::default() };
        if let Ok(choice) = group.choose(now, &hints, &mut random) {
            outstanding.push(choice.upstream);
            chosen += 1;
        }
        if random.chance(0.5) && !outstanding.is_empty() {
            let index = random.below(outstanding.len() as u64) as usize;
            let outcome = if random.chance(0.2) { UpstreamOutcome::ConnectionLost } else { ANSWERED };
            group.finished(now, outstanding.swap_remove(index), outcome);
        }
    }
    let end = Instant::from_nanos(REQUESTS * 1_000_000);
    for upstream in outstanding {
        group.finished(end, upstream, ANSWERED);
    }
    chosen
}

fn run(policy: Policy, change: impl Fn(&Group, Instant, &mut Random) + Sync) -> (Group, u64) {
    let settings = GroupSettings {
        policy,
        health: Some(HealthSettings::default()),
        ejection: Some(EjectionSettings { failures_in_row: 3, ..EjectionSettings::default() }),
        outstanding_max: 2_000,
        slow_start: std::time::Duration::from_secs(1),
        ..GroupSettings::default()
    };
    let group = Group::new(settings, upstreams(&[1, 2, 3, 4, 5])).unwrap();
    let is_over = AtomicBool::new(false);
    let chosen = thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(99);
            let mut step = 0;
            while !is_over.load(Ordering::Relaxed) {
                step += 1;
                change(&group, Instant::from_nanos(step * 1_000_000), &mut random);
            }
        });
        let group = &group;
        let shards: Vec<_> = (0..SHARDS).map(|seed| scope.spawn(move || shard(group, seed))).collect();
        let chosen = shards.into_iter().map(|shard| shard.join().unwrap()).sum();
        is_over.store(true, Ordering::Relaxed);
        chosen
    });
    (group, chosen)
}

#[test]
fn outstanding_counts_balance() {
    for policy in [Policy::RoundRobin, Policy::LeastOutstanding, Policy::TwoChoices, Policy::ConsistentHash] {
        let (group, chosen) = run(policy, |group, now, random| {
            let name = ["a", "b", "c"][random.below(3) as usize];
            if random.chance(0.5) {
                group.drain(now, name)
            } else {
                group.undrain(now, name)
            };
        });
        let states = group.states(Instant::FAR);
        assert!(states.iter().all(|state| state.outstanding == 0), "{policy:?}: {states:?}");
        let ended: u64 = states.iter().map(|state| state.totals.responded + state.totals.connection_lost).sum();
        assert_eq!(ended, chosen, "{policy:?}");
    }
}

#[test]
fn lists_change_under_load() {
    let (group, _) = run(Policy::LeastOutstanding, |group, now, random| {
        let mut list = upstreams(&[1, 1, 1, 1, 1, 1]);
        list.retain(|_| random.chance(0.6));
        if !list.is_empty() {
            group.replace(now, list).unwrap();
        }
    });
    group.replace(Instant::FAR, upstreams(&[1])).unwrap();
    let states = group.states(Instant::FAR);
    assert_eq!(states.len(), 1, "all that were removed are gone: {states:?}");
    assert_eq!(states[0].outstanding, 0);
}
