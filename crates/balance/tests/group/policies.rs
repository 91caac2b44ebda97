//! Exact shares of the policies.

use std::collections::{BTreeMap, BTreeSet};

use breme_balance::{GroupSettings, Hints, NoChoice, Policy, UPSTREAMS_MAX, UpstreamSettings};
use breme_base::Random;

use crate::world::{ANSWERED, World, formatted, upstreams};

fn world(policy: Policy, weights: &[u32]) -> World {
    World::new(GroupSettings { policy, ..GroupSettings::default() }, weights)
}

#[test]
fn round_robin_is_exact_in_every_window() {
    let mut world = world(Policy::RoundRobin, &[5, 1, 1]);
    for _ in 0..3 {
        world.chosen();
        assert_eq!(formatted(&world.shares(7)), "a 5, b 1, c 1");
    }
    assert_eq!(formatted(&world.shares(7_000)), "a 5000, b 1000, c 1000");
}

#[test]
fn round_robin_uses_remaining_upstreams() {
    let mut world = world(Policy::RoundRobin, &[2, 2, 1]);
    world.group.drain(world.now, "a");
    assert_eq!(formatted(&world.shares(300)), "b 200, c 100");
    world.group.undrain(world.now, "a");
    assert_eq!(formatted(&world.shares(500)), "a 200, b 200, c 100");
}

#[test]
fn round_robin_skips_tried_and_full_upstreams() {
    let mut world = World::new(GroupSettings { outstanding_max: 2, ..GroupSettings::default() }, &[1, 100, 1]);
    let first = world.choose(&Hints::default()).unwrap();
    let second = world.choose(&Hints { tried: &[first.upstream], ..Hints::default() }).unwrap();
    let third = world.choose(&Hints { tried: &[first.upstream, second.upstream], ..Hints::default() }).unwrap();
    let mut names = [first.name.to_string(), second.name.to_string(), third.name.to_string()];
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    let tried = [first.upstream, second.upstream, third.upstream];
    assert_eq!(world.choose(&Hints { tried: &tried, ..Hints::default() }).unwrap_err(), NoChoice::AllTried);
    (0..3).for_each(|_| drop(world.chosen()));
    assert_eq!(world.choose(&Hints::default()).unwrap_err(), NoChoice::AllFull);
    world.finish(&second, ANSWERED);
    assert_eq!(world.chosen(), &*second.name);
}

#[test]
fn policies_respect_outstanding_limit() {
    for policy in [Policy::RoundRobin, Policy::LeastOutstanding, Policy::TwoChoices, Policy::ConsistentHash] {
        let settings = GroupSettings { policy, outstanding_max: 3, ..GroupSettings::default() };
        let mut world = World::new(settings, &[1, 7, 2, 1]);
        (0..12).for_each(|key| drop(world.choose(&Hints { key_hash: key, ..Hints::default() }).unwrap()));
        assert!(world.group.states(world.now).iter().all(|state| state.outstanding == 3), "{policy:?}");
        assert_eq!(world.choose(&Hints::default()).unwrap_err(), NoChoice::AllFull, "{policy:?}");
    }
}

#[test]
fn least_outstanding_fills_by_weight() {
    let mut world = world(Policy::LeastOutstanding, &[1, 2, 3]);
    for round in 1..=10 {
        (0..6).for_each(|_| drop(world.chosen()));
        let outstanding: Vec<u32> = world.group.states(world.now).iter().map(|state| state.outstanding).collect();
        assert_eq!(outstanding, [round, 2 * round, 3 * round]);
    }
}

#[test]
fn idle_least_outstanding_follows_weights() {
    let mut world = world(Policy::LeastOutstanding, &[1, 2, 3]);
    let shares = world.shares(60_000);
    for (name, expected) in [("a", 10_000), ("b", 20_000), ("c", 30_000)] {
        assert!(shares[name].abs_diff(expected) < 500, "{shares:?}");
    }
}

#[test]
fn least_outstanding_prefers_finished_upstream() {
    let mut world = world(Policy::LeastOutstanding, &[1, 1, 1]);
    let choices: Vec<_> = (0..30).map(|_| world.choose(&Hints::default()).unwrap()).collect();
    let finished = choices.iter().filter(|choice| &*choice.name == "b").take(4);
    finished.for_each(|choice| world.finish(choice, ANSWERED));
    assert_eq!((0..4).map(|_| world.chosen()).collect::<String>(), "bbbb");
}

#[test]
fn two_choices_keep_outstanding_requests_even() {
    let mut world = world(Policy::TwoChoices, &[1; 10]);
    world.shares(200);
    (0..1_000).for_each(|_| drop(world.chosen()));
    let outstanding: Vec<u32> = world.group.states(world.now).iter().map(|state| state.outstanding).collect();
    assert!(outstanding.iter().all(|count| (97..=103).contains(count)), "{outstanding:?}");
}

#[test]
fn two_choices_respect_weights() {
    let mut world = world(Policy::TwoChoices, &[1, 3]);
    world.shares(50);
    (0..4_000).for_each(|_| drop(world.chosen()));
    assert_eq!((world.state("a").outstanding, world.state("b").outstanding), (1_000, 3_000));
}

/// The upstream of each key while all are idle.
fn places(world: &mut World, keys: u64) -> Vec<String> {
    let mut keys_drawn = Random::new(99);
    let mut index = |_| {
        let hints = Hints { key_hash: keys_drawn.next_u64(), ..Hints::default() };
        world.request(&hints, |_| ANSWERED).name.to_string()
    };
    (0..keys).map(&mut index).collect()
}

fn hashing(weights: &[u32]) -> World {
    world(Policy::ConsistentHash, weights)
}

#[test]
fn keys_are_stable_for_a_seed() {
    let before = places(&mut hashing(&[1, 1, 1]), 1_000);
    assert_eq!(before, places(&mut hashing(&[1, 1, 1]), 1_000));
    let settings = GroupSettings { policy: Policy::ConsistentHash, seed: 1, ..GroupSettings::default() };
    assert_ne!(before, places(&mut World::new(settings, &[1, 1, 1]), 1_000));
    let mut reversed = hashing(&[1, 1, 1]);
    let list: Vec<UpstreamSettings> = upstreams(&[1, 1, 1]).into_iter().rev().collect();
    reversed.group.replace(reversed.now, list).unwrap();
    assert_eq!(before, places(&mut reversed, 1_000), "the order of the list does not matter");
}

#[test]
fn keys_follow_weights() {
    for (weights, keys) in [(&[1, 1, 1, 1][..], 40_000), (&[1, 2, 5], 80_000), (&[256, 1], 25_700)] {
        let mut shares = BTreeMap::new();
        for index in places(&mut hashing(weights), keys) {
            *shares.entry(index).or_insert(0.0) += 1.0;
        }
        let sum: u32 = weights.iter().sum();
        for (&weight, &share) in weights.iter().zip(shares.values()) {
            let expected: f64 = keys as f64 * f64::from(weight) / f64::from(sum);
            // Four standard deviations of a binomial share.
            assert!((share - expected).abs() < 4.0 * expected.sqrt(), "{weights:?}: {shares:?}");
        }
    }
}

#[test]
fn removal_moves_only_own_keys() {
    const KEYS: u64 = 20_000;
    let mut world = hashing(&[1, 2, 3, 1, 1]);
    let before = places(&mut world, KEYS);
    world.group.drain(world.now, "c");
    let without = places(&mut world, KEYS);
    let mut inherited = BTreeMap::new();
    for (before, without) in before.iter().zip(&without) {
        if before == "c" {
            *inherited.entry(without.clone()).or_insert(0) += 1;
        } else {
            assert_eq!(before, without, "a key moved that had no need to");
        }
    }
    // The part of c, 3/8 of all, goes to the others in proportion to their weights, of 5.
    for (name, weight) in [("a", 1.0), ("b", 2.0), ("d", 1.0), ("e", 1.0)] {
        let expected = KEYS as f64 * 3.0 / 8.0 * weight / 5.0;
        assert!((f64::from(inherited[name]) - expected).abs() < 4.0 * expected.sqrt(), "{inherited:?}");
    }
    world.group.undrain(world.now, "c");
    assert_eq!(places(&mut world, KEYS), before);
}

#[test]
fn addition_moves_keys_only_to_it() {
    let mut world = hashing(&[1, 1, 1]);
    let before = places(&mut world, 20_000);
    world.group.replace(world.now, upstreams(&[1, 1, 1, 2])).unwrap();
    let after = places(&mut world, 20_000);
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
    let moved: Vec<&String> = moved.map(|(_, after)| after).collect();
    assert!(moved.iter().all(|after| *after == "d"));
    assert!(moved.len().abs_diff(8_000) < 300, "{}", moved.len());
}

#[test]
fn larger_weight_only_attracts_keys() {
    let mut world = hashing(&[2, 2, 3]);
    let before = places(&mut world, 10_000);
    world.group.replace(world.now, upstreams(&[2, 4, 3])).unwrap();
    let after = places(&mut world, 10_000);
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || after == "b"));
}

#[test]
fn hot_key_respects_bounded_load() {
    for (percent, weights) in [(125, &[1_u32, 1, 1, 1][..]), (110, &[1, 2, 3]), (200, &[5, 1, 1, 1, 1, 1, 1])] {
        let settings = GroupSettings {
            policy: Policy::ConsistentHash,
            hash_load_percent_max: percent,
            ..GroupSettings::default()
        };
        let mut world = World::new(settings, weights);
        let sum = u64::from(weights.iter().sum::<u32>());
        for total in 1..=500_u64 {
            let hints = Hints { key_hash: 42, ..Hints::default() };
            let chosen = world.choose(&hints).unwrap().name;
            let state = world.state(&chosen);
            let bound = (u64::from(percent) * total * u64::from(state.weight)).div_ceil(100 * sum);
            assert!(u64::from(state.outstanding) <= bound, "{chosen} has {} of {total}", state.outstanding);
        }
    }
}

#[test]
fn unbounded_key_always_hits_its_upstream() {
    let settings =
        GroupSettings { policy: Policy::ConsistentHash, hash_load_percent_max: 0, ..GroupSettings::default() };
    let mut world = World::new(settings, &[1, 1, 1]);
    let first = world.chosen();
    assert!((0..100).all(|_| world.chosen() == first));
}

#[test]
fn largest_group_works() {
    for policy in [Policy::RoundRobin, Policy::LeastOutstanding, Policy::TwoChoices, Policy::ConsistentHash] {
        let list: Vec<UpstreamSettings> = (0..UPSTREAMS_MAX)
            .map(|index| UpstreamSettings {
                name: format!("u{index}"),
                weight: 1 + index as u32 % 256,
                ..upstreams(&[1])[0].clone()
            })
            .collect();
        let mut world = World::new(GroupSettings { policy, ..GroupSettings::default() }, &[1]);
        world.group.replace(world.now, list).unwrap();
        let names: BTreeSet<String> = places(&mut world, 500).into_iter().collect();
        assert!(names.len() > 200, "{policy:?}");
    }
}
