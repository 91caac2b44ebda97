//! Every conformance case, on every driver, however its bytes are cut.

use std::net::SocketAddr;

use breme_conformance::{Delivery, all};

use crate::harness::{DRIVERS, Site};

/// Bytewise delivery is for cases of a usual size; the ones of 100,000 bytes test limits, not cuts.
const BYTEWISE_BYTES_MAX: usize = 8_000;

fn run_all(server: SocketAddr, delivery: Delivery) {
    let failures: Vec<String> = all()
        .iter()
        .filter(|case| delivery != Delivery::Bytewise || case.send.len() <= BYTEWISE_BYTES_MAX)
        .filter_map(|case| case.run(server, delivery).err())
        .map(|failure| failure.to_string())
        .collect();
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn whole() {
    for driver in DRIVERS.iter().copied() {
        run_all(Site::lab(driver).address, Delivery::Whole);
    }
}

#[test]
fn cut_in_two() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab(driver);
        for percent in [20, 50, 80, 97] {
            run_all(site.address, Delivery::CutAt(percent));
        }
    }
}

#[test]
fn byte_by_byte() {
    for driver in DRIVERS.iter().copied() {
        run_all(Site::lab(driver).address, Delivery::Bytewise);
    }
}
