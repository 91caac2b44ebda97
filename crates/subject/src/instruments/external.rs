//! Processes of a server that breme did not start: by process ID, listening port, or systemd unit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

use super::members::{as_ns, own_time};
use super::process::Process;
use crate::discovery::{listening, sockets_of};
use crate::process_table::{descendants_of, everyone};

/// Most processes of one server.
const PROCESSES_MAX: usize = 1_000;
/// Where systemd keeps the control groups of its units.
const UNIT_FOLDERS: [&str; 3] =
    ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice", "/sys/fs/cgroup/unified/system.slice"];

/// How to find the processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalLocator {
    /// This process and its descendants.
    Pid(u32),
    /// The processes that listen on this TCP port, and their descendants.
    Port(u16),
    /// The processes of this systemd unit.
    Unit(String),
}

/// CPU time since the previous sample, and resources held now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExternalUsage {
    /// CPU time since the previous sample, nanoseconds.
    pub cpu_ns: u64,
    /// Time since the previous sample, nanoseconds; 0 in the first.
    pub over_ns: u64,
    /// Resident memory, bytes.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Largest share of a process's limit of descriptors.
    pub descriptors_share: f64,
}

/// The processes. They are looked up again after a restart of the server.
#[derive(Debug)]
pub struct ExternalProcesses {
    place: ExternalLocator,
    roots: BTreeSet<u32>,
    processes: BTreeMap<u32, (Process, u64)>,
    sampled: Option<Instant>,
    buffer: Vec<u8>,
}

impl ExternalProcesses {
    /// The server need not run yet.
    #[must_use]
    pub const fn new(place: ExternalLocator) -> Self {
        Self { place, roots: BTreeSet::new(), processes: BTreeMap::new(), sampled: None, buffer: Vec::new() }
    }

    /// Samples all processes; none if there is none.
    pub fn sample(&mut self) -> Option<ExternalUsage> {
        let pids = self.pids();
        self.processes.retain(|pid, _| pids.contains(pid));
        for &pid in &pids {
            if !self.processes.contains_key(&pid) {
                self.processes.extend(Process::open(pid).map(|process| (pid, (process, 0))));
            }
        }
        let buffer = &mut self.buffer;
        self.processes.retain(|&pid, (process, _)| process.sample(pid, buffer));
        let before = self.sampled.replace(Instant::now());
        let page = rustix::param::page_size() as u64;
        let mut used = ExternalUsage::default();
        for (&pid, (process, known_ns)) in &mut self.processes {
            let (user, system) = own_time(pid, &process.seen.stat);
            let cpu_ns = as_ns(user) + as_ns(system);
            used.cpu_ns += cpu_ns.saturating_sub(std::mem::replace(known_ns, cpu_ns));
            used.memory_bytes += process.seen.stat.resident_pages * page;
            used.threads += process.seen.stat.threads;
            used.descriptors += process.seen.descriptors;
            let share = process.seen.descriptors as f64 / process.seen.descriptors_limit.max(1) as f64;
            used.descriptors_share = used.descriptors_share.max(share);
        }
        match before {
            Some(before) => used.over_ns = as_ns(before.elapsed()),
            // CPU time before the first sample does not count.
            None => used.cpu_ns = 0,
        }
        (!self.processes.is_empty()).then_some(used)
    }

    fn pids(&mut self) -> BTreeSet<u32> {
        if let ExternalLocator::Unit(unit) = &self.place {
            return unit_pids(unit);
        }
        let table = everyone();
        let is_alive = |pid: &u32| table.iter().any(|stat| stat.pid == *pid && !stat.is_zombie());
        self.roots.retain(is_alive);
        match &self.place {
            ExternalLocator::Pid(pid) => self.roots = BTreeSet::from([*pid]).into_iter().filter(is_alive).collect(),
            ExternalLocator::Port(port) if self.roots.is_empty() => {
                self.roots = listening_on(*port, table.iter().map(|stat| stat.pid));
            }
            _ => {}
        }
        let mut pids = self.roots.clone();
        for &root in &self.roots {
            pids.extend(descendants_of(root, &table).iter().filter(|stat| !stat.is_zombie()).map(|stat| stat.pid));
        }
        pids.into_iter().take(PROCESSES_MAX).collect()
    }
}

fn listening_on(port: u16, pids: impl Iterator<Item = u32>) -> BTreeSet<u32> {
    let on_port = listening().filter(|entry| entry.local_address.port() == port);
    let sockets: BTreeSet<u64> = on_port.map(|entry| entry.inode).collect();
    if sockets.is_empty() {
        return BTreeSet::new();
    }
    pids.filter(|&pid| sockets_of(pid).iter().any(|socket| sockets.contains(socket))).collect()
}

fn unit_pids(unit: &str) -> BTreeSet<u32> {
    // Only names within the folder.
    if unit.contains('/') || unit.starts_with('.') {
        return BTreeSet::new();
    }
    let texts =
        UNIT_FOLDERS.iter().filter_map(|folder| fs::read_to_string(format!("{folder}/{unit}/cgroup.procs")).ok());
    let pids = texts.flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<u32>>());
    pids.take(PROCESSES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_this_process_by_id_and_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for place in [ExternalLocator::Pid(std::process::id()), ExternalLocator::Port(port)] {
            let mut external = ExternalProcesses::new(place);
            let first = external.sample().unwrap();
            assert_eq!((first.cpu_ns, first.over_ns), (0, 0));
            assert!(first.memory_bytes > 1 << 20 && first.threads >= 1 && first.descriptors > 3);
            assert!(first.descriptors_share > 0.0 && first.descriptors_share < 1.0);
            let spun = (0..3_000_000_u64).fold(1_u64, |a, b| std::hint::black_box(a.wrapping_mul(b | 1)));
            std::hint::black_box(spun);
            let second = external.sample().unwrap();
            assert!(second.cpu_ns > 0 && second.over_ns > 0, "{second:?}");
        }
        assert_eq!(ExternalProcesses::new(ExternalLocator::Pid(1 << 23)).sample(), None);
        assert_eq!(ExternalProcesses::new(ExternalLocator::Unit("../x".into())).sample(), None);
    }
}
