//! All processes of a subject or a generator together: the current members, and the use of all, including exited ones.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::kernel_file::KernelFile;
use super::process::{Process, Seen, Switches, listening_sockets};
use crate::control_group;
use crate::keeping::SupervisedProcess;
use crate::process_table::{Stat, descendants_of};

/// The most processes watched per subject.
const PROCESSES_MAX: usize = 1_000;

/// How to find the processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    /// The control group of version 2, if there is one.
    group: Option<PathBuf>,
    /// The keeper: all processes are its descendants.
    keeper: u32,
}

impl Root {
    pub(super) fn from_process(kept: &SupervisedProcess) -> Self {
        let group = kept.control_groups().iter().find(|group| group.join("cgroup.kill").exists());
        Self { group: group.cloned(), keeper: kept.keeper_pid() }
    }
}

/// Amounts used from the start until an instant, and amounts held at that instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Use {
    pub(super) at_ns: u64,
    pub(super) cpu_user_ns: u64,
    pub(super) cpu_system_ns: u64,
    pub(super) switches_voluntary: u64,
    pub(super) switches_forced: u64,
    pub(super) restarts: u64,
    pub(super) resident_bytes: u64,
    pub(super) threads: u64,
    pub(super) descriptors: u64,
    pub(super) descriptors_share: f64,
    /// Uptime of the process that has listened longest.
    pub(super) uptime_s: f64,
}

/// Data shared by one round of samples.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) at_ns: u64,
    /// At a trial's start and end, also processes that are otherwise sampled rarely.
    pub(super) is_thorough: bool,
    /// All processes of the machine, if a root without a control group needs them.
    pub(super) table: Vec<Stat>,
    /// Listening sockets, read on first use.
    listening: OnceCell<BTreeSet<String>>,
}

impl Round {
    pub(super) fn new(at_ns: u64, is_thorough: bool, table: Vec<Stat>) -> Self {
        Self { at_ns, is_thorough, table, listening: OnceCell::new() }
    }
}

/// The watched processes of a root.
#[derive(Debug)]
pub(super) struct Members {
    root: Root,
    list: Option<KernelFile>,
    group_cpu: Option<KernelFile>,
    processes: BTreeMap<u32, Process>,
    /// Of processes that have exited.
    ended: Switches,
    /// Listening processes that have exited and were not replaced yet.
    vacant: u64,
    used: Use,
}

impl Members {
    pub(super) fn new(root: Root) -> Self {
        let open = |name: &str| root.group.as_ref().and_then(|group| KernelFile::open(group.join(name)).ok());
        Self {
            list: open("cgroup.procs"),
            group_cpu: open("cpu.stat"),
            root,
            processes: BTreeMap::new(),
            ended: Switches::default(),
            vacant: 0,
            used: Use::default(),
        }
    }

    /// Whether it needs the table of all processes to find its own.
    pub(super) fn needs_table(&self) -> bool {
        self.list.is_none()
    }

    /// Samples all of them.
    pub(super) fn sample(&mut self, round: &Round, buffer: &mut Vec<u8>) -> Use {
        let pids = self.list(&round.table, buffer);
        self.meet(&pids);
        let gone: Vec<u32> = self
            .processes
            .iter_mut()
            .filter_map(|(&pid, process)| (!pids.contains(&pid) || !process.sample(pid, buffer)).then_some(pid))
            .collect();
        gone.iter().for_each(|pid| self.lose(*pid));
        self.look_for_listeners(round);
        self.add_up(round.at_ns, &round.table, buffer)
    }

    /// The use as of the last sample.
    pub(super) fn used(&self) -> Use {
        self.used
    }

    /// Each with its last sample.
    pub(super) fn seen(&self) -> impl Iterator<Item = (u32, &Seen)> {
        self.processes.iter().map(|(&pid, process)| (pid, &process.seen))
    }

    fn list(&self, table: &[Stat], buffer: &mut Vec<u8>) -> BTreeSet<u32> {
        let Some(list) = &self.list else {
            let all = descendants_of(self.root.keeper, table);
            return all.iter().filter(|stat| !stat.is_zombie()).map(|stat| stat.pid).take(PROCESSES_MAX).collect();
        };
        let text = list.read(buffer).unwrap_or_default();
        let lines = text.split(|&byte| byte == b'\n');
        lines.filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok()).take(PROCESSES_MAX).collect()
    }

    /// Starts to watch new processes.
    fn meet(&mut self, pids: &BTreeSet<u32>) {
        for &pid in pids {
            if !self.processes.contains_key(&pid) {
                self.processes.extend(Process::open(pid).map(|process| (pid, process)));
            }
        }
    }

    fn lose(&mut self, pid: u32) {
        let Some(process) = self.processes.remove(&pid) else { return };
        self.ended.add(process.seen.switches);
        self.vacant += u64::from(process.is_listening);
    }

    /// A new listener in place of one that exited is a restart.
    fn look_for_listeners(&mut self, round: &Round) {
        for (&pid, process) in &mut self.processes {
            let is_time = process.is_to_be_looked_at();
            if !is_time && (process.is_listening || !round.is_thorough) {
                continue;
            }
            process.look_for_listener(pid, round.listening.get_or_init(listening_sockets));
            if process.is_listening && self.vacant > 0 {
                self.vacant -= 1;
                self.used.restarts += 1;
            }
        }
    }

    fn add_up(&mut self, at_ns: u64, table: &[Stat], buffer: &mut Vec<u8>) -> Use {
        let (user, system) = self.cpu(table, buffer);
        let page = rustix::param::page_size() as u64;
        let mut switches = self.ended;
        let mut next = Use { at_ns, restarts: self.used.restarts, ..Use::default() };
        for (_, seen) in self.seen() {
            switches.add(seen.switches);
            next.resident_bytes += seen.stat.resident_pages * page;
            next.threads += seen.stat.threads;
            next.descriptors += seen.descriptors;
            let share = seen.descriptors as f64 / seen.descriptors_limit.max(1) as f64;
            next.descriptors_share = next.descriptors_share.max(share);
        }
        next.uptime_s = self.uptime().as_secs_f64();
        // A process that exits between two samples takes part of a clock tick with it; the sum must not decrease
        // because of it.
        next.cpu_user_ns = as_ns(user).max(self.used.cpu_user_ns);
        next.cpu_system_ns = as_ns(system).max(self.used.cpu_system_ns);
        next.switches_voluntary = switches.voluntary.max(self.used.switches_voluntary);
        next.switches_forced = switches.forced.max(self.used.switches_forced);
        self.used = next;
        next
    }

    /// User and system. A control group counts exactly, including exited processes. Without one it is the time of the
    /// living plus what they and the keeper have for exited children: an orphan becomes the keeper's child, so none is
    /// missed.
    fn cpu(&self, table: &[Stat], buffer: &mut Vec<u8>) -> (Duration, Duration) {
        let by_group = self
            .group_cpu
            .as_ref()
            .and_then(|file| control_group::parse_usage(std::str::from_utf8(file.read(buffer).ok()?).ok()?));
        if let Some(usage) = by_group {
            return usage;
        }
        let (mut user, mut system) = (Duration::ZERO, Duration::ZERO);
        for (pid, seen) in self.seen() {
            let stat = &seen.stat;
            let own = own_time(pid, stat);
            user += own.0 + duration_from_ticks(stat.ended_user_ticks);
            system += own.1 + duration_from_ticks(stat.ended_system_ticks);
        }
        if let Some(keeper) = table.iter().find(|stat| stat.pid == self.root.keeper) {
            user += duration_from_ticks(keeper.ended_user_ticks);
            system += duration_from_ticks(keeper.ended_system_ticks);
        }
        (user, system)
    }

    fn uptime(&self) -> Duration {
        let started = |is_wanted: fn(&Process) -> bool| {
            let wanted = self.processes.values().filter(|process| is_wanted(process));
            wanted.map(|process| process.seen.stat.start_ticks).min()
        };
        let start = started(|process| process.is_listening).or_else(|| started(|_| true));
        start.map_or(Duration::ZERO, |ticks| since_boot().saturating_sub(duration_from_ticks(ticks)))
    }
}

/// A process's clock has nanoseconds, but does not separate user from system; `/proc` does, in ticks.
pub(super) fn own_time(pid: u32, stat: &Stat) -> (Duration, Duration) {
    let (user, system) = (duration_from_ticks(stat.user_ticks), duration_from_ticks(stat.system_ticks));
    let total = breme_sys::cpu_time_of_other(pid).unwrap_or(user + system);
    let ticks = stat.user_ticks + stat.system_ticks;
    let user = if ticks == 0 { user } else { total.mul_f64(stat.user_ticks as f64 / ticks as f64) };
    (user.min(total), total.saturating_sub(user))
}

pub(super) fn duration_from_ticks(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
}

pub(super) fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Start times of processes count from boot, including suspend.
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
