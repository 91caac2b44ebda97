//! The cases of all drivers: once on a calm network, and with many seeds on rough ones.

use breme_sim::{AmountRange, Network, seeds};
use breme_testkit::suite;

use crate::world::SimulatedWorld;

mod calm {
    use super::*;

    breme_testkit::suite_tests!(SimulatedWorld::new(0, Network::calm(), 1 << 20));
}

fn play_all(seed: u64, network: &Network, bulk_bytes: u64) {
    for case in suite::all() {
        case.run(&SimulatedWorld::new(seed, network.clone(), bulk_bytes));
    }
}

#[test]
fn rough() {
    seeds(50, |seed| play_all(seed, &Network::rough(), 160 << 10));
}

#[test]
fn bytewise() {
    // Small windows keep bulk data small: each byte is an event.
    let window_bytes = AmountRange::between(512, 4 << 10);
    let network = Network { window_bytes, long_queue_bytes: AmountRange::between(1, 2 << 10), ..Network::bytewise() };
    seeds(15, |seed| play_all(seed, &network, 10 << 10));
}

#[test]
fn narrow() {
    // Every node reaches such a small limit.
    let network = Network { lent_bytes_max: 100, ..Network::rough() };
    seeds(20, |seed| play_all(seed, &network, 130 << 10));
}
