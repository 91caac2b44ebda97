//! Properties that the system reports.

use std::fs;
use std::time::Duration;

use breme_subject::{GroupError, Hierarchy, machine};

/// Properties of the machine; none where the system does not report them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) processors: usize,
    /// As in the kernel's format: `2-3`.
    pub(super) isolated: String,
    /// CPU use as a share of all CPUs.
    pub(super) background: Option<f64>,
    /// Steal time as a share of all CPUs.
    pub(super) steal: Option<f64>,
    pub(super) virtualization: Option<String>,
    pub(super) governor: Option<String>,
    pub(super) has_turbo: Option<bool>,
    pub(super) has_smt: Option<bool>,
    pub(super) clock_source: Option<String>,
    /// The hard limit, to which every server of breme raises its own.
    pub(super) descriptors: u64,
    pub(super) processes: Option<u64>,
    pub(super) ports: Option<(u64, u64)>,
    pub(super) accept_queue: Option<u64>,
    pub(super) tracked_connections_max: Option<u64>,
    pub(super) uring: Result<(), String>,
    pub(super) control_groups: Result<(), String>,
    pub(super) memory_available: Option<u64>,
    pub(super) swap_used: Option<u64>,
}

impl Facts {
    /// Reads them; observes CPU use for `observed`.
    pub(super) fn gather(observed: Duration) -> Self {
        let before = processor_times();
        std::thread::sleep(observed);
        let (background, steal) = shares(&before, &processor_times());
        let machine = machine();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes = |name: &str| {
            let line = memory.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        let processes = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
        Self {
            processors: machine.processors,
            isolated: line("/sys/devices/system/cpu/isolated").unwrap_or_default(),
            background,
            steal,
            virtualization: machine.virtualization,
            governor: machine.governor,
            has_turbo: turbo(),
            has_smt: number("/sys/devices/system/cpu/smt/active").map(|active| active == 1),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            descriptors: breme_sys::descriptor_limit().hard,
            processes: Some(processes.unwrap_or(u64::MAX)),
            ports: line("/proc/sys/net/ipv4/ip_local_port_range").as_deref().and_then(range),
            accept_queue: number("/proc/sys/net/core/somaxconn"),
            tracked_connections_max: number("/proc/sys/net/netfilter/nf_conntrack_max"),
            uring: breme_driver::probe_uring().map_err(|lack| lack.to_string()),
            control_groups: Hierarchy::find().check_limits().map_err(|error| match error {
                // Its advice is for an experiment with this limit.
                GroupError::NoController { what, reason } => format!("{what} cannot be limited here: {reason}"),
                other => other.to_string(),
            }),
            memory_available: kilobytes("MemAvailable:").map(|kilobytes| kilobytes * 1_024),
            swap_used: kilobytes("SwapTotal:").zip(kilobytes("SwapFree:")).map(|(all, free)| (all - free) * 1_024),
        }
    }
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    line(path)?.parse().ok()
}

/// Intel's driver has a switch that turns it off; the others have one that turns it on.
fn turbo() -> Option<bool> {
    let off = number("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == 0);
    off.or_else(|| number("/sys/devices/system/cpu/cpufreq/boost").map(|on| on == 1))
}

fn range(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The columns of `cpu` in /proc/stat (proc_stat(5)), in ticks; guest time is included in user and nice.
fn processor_times() -> Vec<u64> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let words = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    words.map_while(|word| word.parse().ok()).take(8).collect()
}

/// Used and stolen time between two readings, as shares of all time; none if no time was read.
fn shares(before: &[u64], after: &[u64]) -> (Option<f64>, Option<f64>) {
    let passed: Vec<u64> = after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).collect();
    let all: u64 = passed.iter().sum();
    let share = |ticks: u64| (all > 0).then(|| ticks as f64 / all as f64);
    let stolen = passed.get(7).copied();
    let used = [0, 1, 2, 5, 6].iter().filter_map(|&column| passed.get(column)).sum();
    (share(used), stolen.and_then(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_time() {
        // user nice system idle iowait irq softirq steal
        let (used, stolen) = shares(&[0; 8], &[10, 0, 5, 70, 5, 0, 0, 10]);
        assert_eq!((used, stolen), (Some(0.15), Some(0.10)));
        assert_eq!(shares(&[], &[]), (None, None), "without /proc");
        assert_eq!(shares(&[1; 8], &[1; 8]), (None, None), "of a kernel that does not count");
    }

    #[test]
    fn this_machine_can_be_read() {
        let facts = Facts::gather(Duration::from_millis(20));
        assert!(facts.processors > 0 && facts.descriptors > 0 && facts.memory_available.is_some(), "{facts:?}");
        assert_eq!(range("32768\t60999"), Some((32_768, 60_999)));
    }
}
