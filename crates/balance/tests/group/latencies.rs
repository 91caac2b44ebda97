//! A small simulation of servers with queues: how each policy handles a slow one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use breme_balance::{Choice, GroupSettings, Hints, Policy, UpstreamOutcome};
use breme_base::{Instant, Random};

use crate::world::World;

const SERVERS: usize = 4;
/// Requests that a server processes concurrently.
const WORKERS: usize = 2;

struct Server {
    mean: Duration,
    busy: usize,
    queue: VecDeque<(Choice, Instant)>,
}

#[derive(Clone, Copy)]
struct Case {
    policy: Policy,
    /// Mean service times.
    means_ms: [u64; SERVERS],
    /// Mean time between arrivals.
    gap: Duration,
}

/// Exponentially distributed.
fn exponential(mean: Duration, random: &mut Random) -> Duration {
    mean.mul_f64(-(1.0 - random.unit()).ln())
}

/// Response times in milliseconds, sorted.
fn simulate(case: Case) -> Vec<f64> {
    const REQUESTS: usize = 20_000;
    let mut world = World::new(GroupSettings { policy: case.policy, ..GroupSettings::default() }, &[1; SERVERS]);
    let mut random = Random::new(11);
    let mut servers: Vec<Server> = case
        .means_ms
        .iter()
        .map(|&mean| Server { mean: Duration::from_millis(mean), busy: 0, queue: VecDeque::new() })
        .collect();
    let mut ends: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    let mut running: Vec<Option<(usize, Choice, Instant)>> = Vec::new();
    let mut times = Vec::new();
    let mut arrival = world.now;
    let mut arrived = 0;
    while times.len() < REQUESTS {
        let next_end = ends.peek().map_or(Instant::FAR, |Reverse((at, _))| *at);
        let started;
        if arrived < REQUESTS && arrival <= next_end {
            world.now = arrival;
            let choice = world.choose(&Hints::default()).unwrap();
            let server = choice.upstream.index();
            servers[server].queue.push_back((choice, arrival));
            arrival = arrival + exponential(case.gap, &mut random);
            arrived += 1;
            started = server;
        } else {
            let Reverse((at, index)) = ends.pop().unwrap();
            world.now = at;
            let (server, choice, since) = running[index].take().unwrap();
            let latency = at - since;
            world.finish(&choice, UpstreamOutcome::Responded { status: 200, latency });
            times.push(latency.as_secs_f64() * 1e3);
            servers[server].busy -= 1;
            started = server;
        }
        let server = &mut servers[started];
        while server.busy < WORKERS {
            let Some((choice, since)) = server.queue.pop_front() else { break };
            server.busy += 1;
            ends.push(Reverse((world.now + exponential(server.mean, &mut random), running.len())));
            running.push(Some((started, choice, since)));
        }
    }
    times.sort_by(f64::total_cmp);
    times
}

fn p99(times: &[f64]) -> f64 {
    times[times.len() * 99 / 100]
}

/// One of four takes five times as long; together they could serve 1.6 requests per millisecond and get 0.9.
fn one_slow(policy: Policy) -> Vec<f64> {
    simulate(Case { policy, means_ms: [4, 4, 4, 20], gap: Duration::from_micros(1_100) })
}

#[test]
fn two_choices_beat_round_robin_with_a_slow_upstream() {
    let (robin, choices) = (one_slow(Policy::RoundRobin), one_slow(Policy::TwoChoices));
    let means = [&robin, &choices].map(|times| times.iter().sum::<f64>() / times.len() as f64);
    assert!(p99(&choices) * 5.0 < p99(&robin), "p99: {} ms and {} ms", p99(&choices), p99(&robin));
    assert!(means[1] * 5.0 < means[0], "means: {means:?}");
}

#[test]
fn two_choices_match_least_outstanding_with_a_slow_upstream() {
    let (least, choices) = (one_slow(Policy::LeastOutstanding), one_slow(Policy::TwoChoices));
    assert!(p99(&choices) < p99(&least) * 1.1, "p99: {} ms and {} ms", p99(&choices), p99(&least));
}

#[test]
fn two_choices_match_round_robin_with_equal_upstreams() {
    let equal = |policy| simulate(Case { policy, means_ms: [4; SERVERS], gap: Duration::from_micros(700) });
    let (robin, choices) = (equal(Policy::RoundRobin), equal(Policy::TwoChoices));
    assert!(p99(&choices) < p99(&robin) * 1.1, "p99: {} ms and {} ms", p99(&choices), p99(&robin));
}

#[test]
fn retries_slow_upstream() {
    let mut world = World::new(GroupSettings { policy: Policy::TwoChoices, ..GroupSettings::default() }, &[1, 1]);
    let slow_until = world.now + Duration::from_secs(10);
    let count_of_a = |world: &mut World, span: Duration| {
        let (end, mut count) = (world.now + span, 0);
        while world.now < end {
            world.wait(Duration::from_millis(10));
            let is_slow = world.now < slow_until;
            let choice = world.request(&Hints::default(), |choice| {
                let millis = if is_slow && &*choice.name == "a" { 5_000 } else { 1 };
                UpstreamOutcome::Responded { status: 200, latency: Duration::from_millis(millis) }
            });
            count += usize::from(&*choice.name == "a");
        }
        count
    };
    assert!(count_of_a(&mut world, Duration::from_secs(10)) < 20);
    count_of_a(&mut world, Duration::from_secs(120));
    let well_again = count_of_a(&mut world, Duration::from_secs(60));
    assert!(well_again > 1_000, "{well_again} of 6000");
}
