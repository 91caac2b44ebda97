//! Free ports. Another process could take a port before the subject does; so ports are chosen below the ephemeral
//! range, where the kernel assigns none, and a port is given again only after many others.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

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
/// A port is not given again before this many others: until its subject binds it, it looks free.
const REUSED_AFTER: usize = 1_000;
/// Attempts to get a port from the kernel that was not given recently.
const KERNEL_ATTEMPTS_MAX: usize = 100;

/// A free port for each name.
///
/// # Errors
/// If there is none.
pub fn pick(names: &[String]) -> Result<Ports, NoPort> {
    static GIVEN: Mutex<Given> = Mutex::new(Given::new());
    let mut given = GIVEN.lock();
    let range = PORT_MIN..first_outgoing().max(PORT_MIN);
    let mut ports = Ports::new();
    for name in names {
        ports.insert(name.clone(), given.pick(&range).ok_or(NoPort)?);
    }
    Ok(ports)
}

/// The ports that were given.
struct Given {
    /// Where the search in the range goes on.
    next: Option<u16>,
    /// The last ones, at most [`REUSED_AFTER`].
    recent: VecDeque<u16>,
}

impl Given {
    const fn new() -> Self {
        Self { next: None, recent: VecDeque::new() }
    }

    /// The next free port of the range, in turn. If there is none, one from the kernel.
    fn pick(&mut self, range: &Range<u16>) -> Option<u16> {
        let begin = self.next.unwrap_or_else(|| first_of(range)).clamp(range.start, range.end);
        let mut candidates = (begin..range.end).chain(range.start..begin);
        let port = candidates.find(|port| self.may_give(*port) && is_free(*port));
        let port = port.inspect(|port| self.next = Some(port + 1)).or_else(|| self.draw())?;
        if self.recent.len() == REUSED_AFTER {
            self.recent.pop_front();
        }
        self.recent.push_back(port);
        Some(port)
    }

    /// A port from the kernel.
    fn draw(&self) -> Option<u16> {
        (0..KERNEL_ATTEMPTS_MAX).filter_map(|_| given_by_kernel()).find(|port| self.may_give(*port))
    }

    fn may_give(&self, port: u16) -> bool {
        !self.recent.contains(&port)
    }
}

/// Laboratories that run at the same time begin at different ports, far from each other even if their process ids are
/// neighbours: multiplicative hashing with 2^32 divided by the golden ratio.
fn first_of(range: &Range<u16>) -> u16 {
    let hash = std::process::id().wrapping_mul(2_654_435_769);
    range.start + ((u64::from(hash) * u64::from(range.end - range.start)) >> 32) as u16
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_are_free_and_differ() {
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

    #[test]
    fn a_port_is_given_again_only_after_many_others() {
        let mut given = Given::new();
        let port = given.pick(&(PORT_MIN..OUTGOING_MIN)).unwrap();
        let only = port..port + 1;
        assert_ne!(given.pick(&only), Some(port));
        for _ in 0..REUSED_AFTER {
            given.pick(&(PORT_MIN..PORT_MIN)).unwrap();
        }
        assert_eq!(given.pick(&only), Some(port));
    }

    #[test]
    fn without_a_range_the_ports_of_the_kernel_differ() {
        let mut given = Given::new();
        let ports: BTreeSet<u16> = (0..200).map(|_| given.pick(&(PORT_MIN..PORT_MIN)).unwrap()).collect();
        assert_eq!(ports.len(), 200);
    }
}
