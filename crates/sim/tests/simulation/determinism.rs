//! The same seed produces the same run, to the last byte; another seed a different one.

use std::collections::BTreeSet;
use std::time::Duration;

use breme_sim::{Network, Simulation, Summary};
use breme_testkit::{Client, ConsumePolicy, Echo, ResumePolicy, Script, Surroundings, TestContent};

fn play(seed: u64, content_seed: u64) -> (String, u64, Summary) {
    let mut simulation = Simulation::new(seed, Network::nasty());
    let server = simulation.serve("server", 2, |_| Echo::slow(ConsumePolicy::AtMost(500), ResumePolicy::AtOnce));
    let surroundings = Surroundings {
        server: simulation.address(server).into(),
        nobody: Simulation::nobody(),
        stop_server: std::sync::Arc::new(|| {}),
    };
    simulation.client("client", 3, |_| {
        let content = TestContent::pattern(content_seed, 5_000);
        let scripts = (0..3).map(|_| Script::new().connect().echo(&content).part());
        Client::new(&surroundings, Duration::from_secs(60), scripts.collect())
    });
    let summary = simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    (simulation.trace().to_string(), simulation.trace().digest(), summary)
}

#[test]
fn same_seed_same_trace() {
    for seed in 0..50 {
        assert_eq!(play(seed, 1), play(seed, 1), "seed {seed}");
    }
}

#[test]
fn other_seed_other_trace() {
    let digests: BTreeSet<u64> = (0..50).map(|seed| play(seed, 1).1).collect();
    assert_eq!(digests.len(), 50);
}

#[test]
fn digest_includes_bytes() {
    let (one, other) = (play(7, 1), play(7, 2));
    assert_ne!(one.1, other.1);
}
