//! Free ports. Another process could take a port before the subject does; so ports are chosen below the ephemeral
//! range, where the kernel assigns none, and no port is used twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use parking_lot::Mutex;
use thiserror::Error;

/// Every port is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no free port was found on 127.0.0.1")]
pub struct NoPort;

/// By name.
pub type Ports = BTreeMap<String, u16>;

const PORT_MIN: u16 = 10_000;
/// Start of the ephemeral range, if the kernel does not report it.
const OUTGOING_MIN: u16 = 32_768;

/// A free port for each name.
///
/// # Errors
/// If there is none.
pub fn pick(names: &[String]) -> Result<Ports, NoPort> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock();
    let mut ports = Ports::new();
    for name in names {
        let port = pick_one(&given).ok_or(NoPort)?;
        given.insert(port);
        ports.insert(name.clone(), port);
    }
    Ok(ports)
}

fn pick_one(given: &BTreeSet<u16>) -> Option<u16> {
    let below = first_outgoing().max(PORT_MIN + 1);
    let count = below - PORT_MIN;
    // Laboratories that run at the same time begin at different ports, far from each other even if their process ids
    // are neighbours: multiplicative hashing with 2^32 divided by the golden ratio.
    let hash = std::process::id().wrapping_mul(2_654_435_769);
    let begin = (u64::from(hash) * u64::from(count) >> 32) as u16;
    let candidates = (0..count).map(|step| PORT_MIN + (begin + step) % count);
    let mut free = candidates.filter(|port| !given.contains(port) && is_free(*port));
    free.next().or_else(given_by_kernel)
}

/// Binds as a server would: connections in TIME_WAIT are no obstacle (std sets SO_REUSEADDR).
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

fn given_by_kernel() -> Option<u16> {
    Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?.local_addr().ok()?.port())
}

fn first_outgoing() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_ascii_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(OUTGOING_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_never_given_twice() {
        let names: Vec<String> = ["port", "admin"].iter().map(|&name| name.to_owned()).collect();
        let (first, second) = (pick(&names).unwrap(), pick(&names).unwrap());
        let all: BTreeSet<u16> = first.values().chain(second.values()).copied().collect();
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|&port| is_free(port)));
    }

    #[test]
    fn a_taken_port_is_not_free() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(taken.local_addr().unwrap().port()));
    }
}
