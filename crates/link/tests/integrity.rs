//! On any network, a path changes no byte, violates no rule of the node contract and leaks no connection.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use breme_base::Random;
use breme_link::{Bandwidth, Link, LinkNode, Settings};
use breme_sim::{Host, Network, Simulation, seeds};
use breme_testkit::{Client, ContractChecker, Echo, Script, Surroundings, TestContent};

const CONNECTIONS: u64 = 8;

/// An echo server behind a path with random properties; clients with scripts.
fn run(seed: u64, network: Network, scripts: Vec<Script>) -> (Client, ContractChecker<LinkNode>, Link) {
    let lent_bytes_max = network.lent_bytes_max;
    let mut simulation = Simulation::new(seed, network);
    let server = simulation.serve("server", 1, |_| ContractChecker::new(Echo::new(), lent_bytes_max));
    let mut random = Random::stream(seed, 99);
    let mut settings = Settings::to(vec![simulation.address(server)]);
    settings.delay = Duration::from_micros(random.below(50_000));
    settings.jitter = Duration::from_micros(random.below(50_000)).min(settings.delay);
    for bandwidth in &mut settings.bandwidths {
        let bits_per_second = random.between(100_000, 100_000_000);
        *bandwidth = random.chance(0.7).then_some(Bandwidth { bits_per_second });
    }
    settings.loss = if random.chance(0.5) { 0.01 } else { 0.0 };
    settings.seed = seed;
    let link = Link::new(settings).unwrap();
    let relay: Host<ContractChecker<LinkNode>> =
        simulation.serve("link", 1, |_| ContractChecker::new(link.node(), lent_bytes_max));
    let surroundings = Surroundings {
        server: simulation.address(relay).into(),
        nobody: Simulation::nobody(),
        stop_server: Arc::new(|| ()),
    };
    let mut scripts = Some(scripts);
    let client = simulation
        .client("client", 1, |_| Client::new(&surroundings, Duration::from_secs(3_600), scripts.take().unwrap()));
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    let relay = simulation.take(relay).remove(0);
    assert_eq!(relay.final_violations(), [""; 0]);
    assert_eq!(simulation.take(server)[0].final_violations(), [""; 0]);
    (simulation.take(client).remove(0), relay, link)
}

fn echoes(seed: u64) -> Vec<Script> {
    let mut random = Random::stream(seed, 98);
    let script = |index| {
        let content = TestContent::pattern(seed ^ index, random.below(200_000));
        Script::new().connect().send("hello").expect("hello").echo(&content).part()
    };
    (0..CONNECTIONS).map(script).collect()
}

#[test]
fn every_byte_passes_in_order() {
    seeds(60, |seed| {
        let (client, _, link) = run(seed, Network::rough(), echoes(seed));
        assert_eq!(client.failures(), [""; 0]);
        let counts = link.counts();
        assert_eq!(counts.connections, CONNECTIONS);
        assert_eq!(counts.directions[0].bytes, counts.directions[1].bytes);
        assert_eq!(counts.directions.map(|direction| direction.held_bytes), [0, 0]);
    });
}

#[test]
fn broken_connections_are_forgotten() {
    seeds(150, |seed| {
        let (_, relay, link) = run(seed, Network::nasty(), echoes(seed));
        let record = relay.record();
        assert_eq!(record.closed.len(), record.accepted_count + record.connected_count);
        assert_eq!(link.counts().directions.map(|direction| direction.held_bytes), [0, 0]);
    });
}
