//! One process, read through descriptors that stay open: less than half the cost of opening its files each time, and
//! never another process that reused its PID.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};

use super::kernel_file::{KernelFile, number_behind};
use crate::process_table::Stat;

/// The most threads whose context switches are counted.
const THREADS_MAX: usize = 512;
/// The most descriptors searched for a listening socket. Servers open it early.
const DESCRIPTORS_LOOKED_AT_MAX: usize = 256;
/// The counts of context switches are at the end of a long text, before one or two lines that some CPUs add.
const TAIL_BYTES: usize = 300;
/// Number of first samples in each of which the process is checked for listening sockets; later checks are ever rarer.
const LOOKS_DENSE: u32 = 5;

#[derive(Debug)]
pub(super) struct Process {
    stat: KernelFile,
    /// Its pages. The counts in `stat` may be up to 64 pages per CPU too low (Linux 6.2 and later).
    memory: Option<KernelFile>,
    /// The folder of its descriptors; none without permission.
    descriptors: Option<KernelFile>,
    descriptors_limit: u64,
    threads: BTreeMap<u32, Thread>,
    /// Of threads that have exited.
    ended: Switches,
    looks: u32,
    pub(super) is_listening: bool,
    pub(super) seen: Seen,
}

/// The last sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) stat: Stat,
    pub(super) switches: Switches,
    pub(super) descriptors: u64,
    pub(super) descriptors_limit: u64,
}

/// Context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Switches {
    pub(super) voluntary: u64,
    pub(super) forced: u64,
}

impl Switches {
    pub(super) fn add(&mut self, other: Self) {
        self.voluntary += other.voluntary;
        self.forced += other.forced;
    }
}

#[derive(Debug)]
struct Thread {
    status: KernelFile,
    seen: Switches,
}

impl Process {
    /// None if it has exited.
    pub(super) fn open(pid: u32) -> Option<Self> {
        let limits = fs::read(format!("/proc/{pid}/limits")).unwrap_or_default();
        Some(Self {
            stat: KernelFile::open(format!("/proc/{pid}/stat")).ok()?,
            memory: KernelFile::open(format!("/proc/{pid}/statm")).ok(),
            descriptors: KernelFile::open(format!("/proc/{pid}/fd")).ok(),
            descriptors_limit: number_behind(&limits, b"Max open files").unwrap_or(u64::MAX),
            threads: BTreeMap::new(),
            ended: Switches::default(),
            looks: 0,
            is_listening: false,
            seen: Seen::default(),
        })
    }

    /// Samples it; false if it has exited.
    pub(super) fn sample(&mut self, pid: u32, buffer: &mut Vec<u8>) -> bool {
        let Some(mut stat) = self.stat.read(buffer).ok().and_then(Stat::parse).filter(|stat| !stat.is_zombie()) else {
            return false;
        };
        let memory = self.memory.as_ref().and_then(|memory| resident_pages(memory.read(buffer).ok()?));
        stat.resident_pages = memory.unwrap_or(stat.resident_pages);
        let threads = stat.threads;
        self.sample_threads(pid, threads, buffer);
        let mut switches = self.ended;
        self.threads.values().for_each(|thread| switches.add(thread.seen));
        let descriptors = self.count_descriptors(pid);
        self.seen = Seen { stat, switches, descriptors, descriptors_limit: self.descriptors_limit };
        true
    }

    /// The kernel counts context switches by thread, and drops the counts when the thread exits.
    fn sample_threads(&mut self, pid: u32, count: u64, buffer: &mut Vec<u8>) {
        if count != 1 || self.threads.len() != 1 {
            self.list_threads(pid);
        }
        let mut gone = Vec::new();
        for (&id, thread) in &mut self.threads {
            match thread.status.read(buffer) {
                Ok(status) => thread.seen = Switches::parse(status),
                Err(_) => gone.push(id),
            }
        }
        for id in gone {
            self.threads.remove(&id).iter().for_each(|thread| self.ended.add(thread.seen));
        }
    }

    fn list_threads(&mut self, pid: u32) {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for id in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(THREADS_MAX) {
            if self.threads.len() < THREADS_MAX && !self.threads.contains_key(&id) {
                let status = KernelFile::open(format!("/proc/{pid}/task/{id}/status"));
                self.threads.extend(status.map(|status| (id, Thread { status, seen: Switches::default() })));
            }
        }
    }

    /// Since Linux 6.2 the size of the folder is the number of its entries.
    fn count_descriptors(&self, pid: u32) -> u64 {
        let Some(folder) = &self.descriptors else { return 0 };
        match folder.file().metadata().map(|metadata| std::os::unix::fs::MetadataExt::size(&metadata)) {
            Ok(count) if count > 0 => count,
            _ => fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64),
        }
    }

    /// Whether a check for listening sockets is due.
    pub(super) fn is_to_be_looked_at(&mut self) -> bool {
        self.looks = self.looks.saturating_add(1);
        // Not in the first sample: most new processes exit before the second.
        !self.is_listening && self.looks > 1 && (self.looks <= LOOKS_DENSE || self.looks.is_power_of_two())
    }

    /// Checks whether it has one of these sockets.
    pub(super) fn look_for_listener(&mut self, pid: u32, listening: &BTreeSet<String>) {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = entries.take(DESCRIPTORS_LOOKED_AT_MAX).filter_map(|entry| fs::read_link(entry.path()).ok());
        self.is_listening = links.any(|link| link.to_str().is_some_and(|link| listening.contains(link)));
    }
}

/// The second number of `/proc/PID/statm` (proc_pid_statm(5)).
fn resident_pages(statm: &[u8]) -> Option<u64> {
    std::str::from_utf8(statm).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl Switches {
    fn parse(status: &[u8]) -> Self {
        // They are at the end of a long text.
        let tail = &status[status.len().saturating_sub(TAIL_BYTES)..];
        Self {
            voluntary: number_behind(tail, b"voluntary_ctxt_switches:").unwrap_or(0),
            forced: number_behind(tail, b"nonvoluntary_ctxt_switches:").unwrap_or(0),
        }
    }
}

/// The listening sockets of our network namespace, named as their links: `socket:[123]`. This is the most expensive
/// read of all: the kernel walks through its table of connections, even if it is empty, which takes milliseconds.
pub(super) fn listening_sockets() -> BTreeSet<String> {
    let files = ["tcp", "tcp6"].map(|name| fs::File::open(format!("/proc/self/net/{name}")));
    files.into_iter().flatten().flat_map(|file| listening_in(BufReader::new(file))).collect()
}

/// The kernel lists listening sockets before all connections, of which there may be many.
fn listening_in(table: impl BufRead) -> Vec<String> {
    const LISTEN: &str = "0A";
    let lines = table.lines().map_while(Result::ok).skip(1);
    let fields = lines.map(|line| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let listening = fields.take_while(|fields| fields.get(3).is_some_and(|state| state == LISTEN));
    listening.filter_map(|fields| Some(format!("socket:[{}]", fields.get(9)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_watched() {
        let pid = std::process::id();
        let mut process = Process::open(pid).unwrap();
        let mut buffer = Vec::new();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let spin =
            std::thread::spawn(|| (0..50).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(10))));
        assert!(process.sample(pid, &mut buffer));
        spin.join().unwrap();
        let before = process.seen.switches;
        assert!(process.sample(pid, &mut buffer));
        let seen = &process.seen;
        assert!(seen.switches.voluntary >= before.voluntary && seen.switches.voluntary > 0, "nothing is lost");
        assert!(seen.descriptors > 3 && seen.descriptors < seen.descriptors_limit);
        assert!(seen.stat.resident_pages > 0 && seen.stat.threads >= 1);
        assert!(!process.is_to_be_looked_at() && process.is_to_be_looked_at());
        process.look_for_listener(pid, &listening_sockets());
        assert!(process.is_listening);
        drop(listener);
        assert!(Process::open(1 << 23).is_none());
    }

    #[test]
    fn only_sockets_before_the_connections_listen() {
        let table = "  sl  local_address\n\
            0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 4711 1\n\
            1: 0100007F:1F90 0100007F:8888 01 0:0 0:0 0 0 0 4712 1\n\
            2: 0100007F:1F91 00000000:0000 0A 0:0 0:0 0 0 0 4713 1\n";
        assert_eq!(listening_in(table.as_bytes()), ["socket:[4711]"]);
        assert!(listening_in(&b""[..]).is_empty());
    }

    #[test]
    fn resident_memory_is_the_second_number() {
        assert_eq!(resident_pages(b"2000 321 100 50 0 400 0\n"), Some(321));
        assert_eq!(resident_pages(b""), None);
    }

    #[test]
    fn switches_are_read_from_the_end() {
        let status = b"Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(Switches::parse(status), Switches { voluntary: 150, forced: 545 });
    }
}
