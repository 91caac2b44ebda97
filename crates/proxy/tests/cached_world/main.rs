//! A caching proxy between clients of all kinds and an origin whose pages change. On any network, no client gets a
//! wrong page, another client's page, or an older page than its origin, a change through the proxy or a purge allows.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod origin;
mod pages;
mod visitor;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breme_balance::{Group, GroupSettings, UpstreamSettings};
use breme_base::{Random, UnixSeconds, WallClock};
use breme_cache::Cache;
use breme_node::Endpoint;
use breme_proxy::{HostRule, Mode, Parts, Proxy, Settings};
use breme_sim::{Network, Simulation, seeds};
use origin::Origin;
use pages::{PAGES, Truth};
use visitor::Visitor;

/// Sun, 06 Nov 1994 08:49:37 GMT.
const THEN: u64 = 784_111_777;
const VISITORS: usize = 8;
const REQUESTS: u64 = 40;
const PAGES_REQUESTED: usize = 5;
const SHARDS: usize = 3;

/// The result of a simulation.
struct Outcome {
    answered: u64,
    hits: u64,
    failed: u64,
}

fn play(seed: u64, network: Network, breaks: f64, may_fail: bool) -> Outcome {
    let mut random = Random::stream(seed, 1);
    let truth = Arc::new(Mutex::new(Truth::new()));
    let mut simulation = Simulation::new(seed, network);
    let has_ranges = random.chance(0.5);
    let origin = simulation.serve("origin", 1, |_| Origin {
        truth: truth.clone(),
        random: Random::stream(seed, 2),
        breaks,
        has_ranges,
        lines: HashMap::new(),
    });
    // Only a few pages, so that each is requested often.
    let pages: Vec<_> = (0..PAGES_REQUESTED).map(|_| random.below(PAGES.len() as u64) as usize).collect();
    let cache = Cache::new(breme_cache::CacheSettings {
        stale_on_failure: Duration::ZERO,
        ..breme_cache::CacheSettings::new(if random.chance(0.3) { 100_000 } else { 4 << 20 })
    });
    let cache = cache.unwrap();
    let addresses = vec![simulation.address(origin)];
    let list = vec![UpstreamSettings { name: "origin:80".into(), tls: false, addresses, weight: 1, route: None }];
    let group = Group::new(GroupSettings { ejection: None, ..GroupSettings::default() }, list).unwrap();
    let settings = Settings {
        purge_from: vec!["0.0.0.0/0".into(), "::/0".into()],
        ..Settings::new(Mode::Reverse { host: HostRule::Keep })
    };
    let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(THEN)));
    let parts = Parts { group: Some(Arc::new(group)), cache: Some(cache.clone()), ..parts };
    let proxy = Proxy::new(parts).unwrap();
    let node = proxy.clone();
    let server = simulation.serve("proxy", SHARDS, |shard| node.node(shard));
    let address: Endpoint = simulation.address(server).into();
    let visitors = simulation.client("visitor", VISITORS, |shard| {
        let number = shard.id.0 as u64;
        let name = format!("v{number}");
        let random = Random::stream(seed, 10 + number);
        let visitor = Visitor::new(address, name, truth.clone(), cache.clone(), random);
        Visitor { pages: pages.clone(), left: REQUESTS, may_fail, ..visitor }
    });
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    let visitors = simulation.take(visitors);
    let faults: Vec<_> = visitors.iter().flat_map(|visitor| visitor.faults.clone()).collect();
    assert!(faults.is_empty(), "seed {seed}:\n{}", faults.join("\n"));
    let counts = proxy.counts();
    assert_eq!((counts.exchanges_open, counts.pool_idle, counts.pool_busy), (0, 0, 0), "seed {seed}: {counts:?}");
    let kept = cache.statistics();
    assert!(kept.fills == 0 && kept.bytes <= kept.bytes_max, "seed {seed}: {kept:?}");
    let sum = |count: fn(&Visitor) -> u64| visitors.iter().map(count).sum();
    Outcome { answered: sum(|one| one.answered), hits: sum(|one| one.hits), failed: sum(|one| one.failed) }
}

#[test]
fn responses_are_correct_without_losses() {
    let mut all = (0, 0);
    seeds(20, |seed| {
        let network = if seed % 2 == 0 { Network::calm() } else { Network::rough() };
        let Outcome { answered, hits, failed } = play(seed, network, 0.0, false);
        // Some clients leave before a response is complete.
        let requests = VISITORS as u64 * REQUESTS;
        assert!(answered + failed == requests && failed < requests / 10, "seed {seed}: {answered}, {failed}");
        all = (all.0 + requests, all.1 + hits);
    });
    assert!(all.1 > all.0 / 10, "{} hits of {} say too little", all.1, all.0);
}

#[test]
fn no_wrong_responses_under_losses() {
    let mut all = (0, 0);
    seeds(12, |seed| {
        let answered = play(seed, Network::nasty(), 0.2, true).answered;
        all = (all.0 + VISITORS as u64 * REQUESTS, all.1 + answered);
    });
    assert!(all.1 > all.0 / 4, "{} answers to {} questions say too little", all.1, all.0);
}
