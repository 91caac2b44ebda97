//! Counters of a watch for `/metrics`.

use std::fmt;
use std::sync::Arc;

use breme_admin::{Families, Label};
use breme_watch::record::{Probe, TargetState};
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

/// Counters of a target since the start of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct TargetStatus {
    pub name: String,
    pub up: u64,
    pub down: u64,
    pub unknown: u64,
    pub good: u64,
    pub requests: u64,
    pub is_down: bool,
    pub burn_rate: Option<f64>,
    pub last: Probe,
    /// Of the last interval.
    pub quantiles_ns: [u64; 3],
    pub mean_ns: f64,
}

/// Counters of all targets. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Status(Arc<Mutex<Vec<TargetStatus>>>);

impl Status {
    pub(super) fn new(names: impl Iterator<Item = String>) -> Self {
        let targets = names.map(|name| TargetStatus { name, ..TargetStatus::default() }).collect();
        Self(Arc::new(Mutex::new(targets)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<TargetStatus>> {
        self.0.lock()
    }
}

impl TargetStatus {
    pub(super) fn take(&mut self, probe: &Probe) {
        match probe.counts.state() {
            TargetState::Up => self.up += 1,
            TargetState::Down => self.down += 1,
            TargetState::Unknown => self.unknown += 1,
        }
        self.good += probe.counts.good();
        self.requests += probe.counts.requests;
        let mut times = breme_stats::Histogram::new();
        let sum = probe.times.merge_into(&mut times);
        let quantiles = times.quantiles(&[0.5, 0.95, 0.99]);
        self.quantiles_ns = [quantiles[0], quantiles[1], quantiles[2]];
        self.mean_ns = if times.is_empty() { 0.0 } else { sum as f64 / times.count() as f64 };
        self.last = probe.clone();
    }
}

/// Reads the state.
#[derive(Debug)]
pub(super) struct WatchMetrics(pub(super) Status);

impl Collector for WatchMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let targets = self.0.lock().clone();
        let label = |target: &TargetStatus| -> [Label; 1] { [("target", target.name.clone())] };
        let is_up = |target: &TargetStatus| u64::from(target.last.counts.state() == TargetState::Up);
        let each = |value: fn(&TargetStatus) -> u64| targets.iter().map(move |one| (label(one), value(one)));
        families.gauges(
            "watch_up",
            "Whether the last interval was up.",
            targets.iter().map(|one| (label(one), is_up(one))),
        )?;
        let states = targets.iter().flat_map(|one| {
            let of = |state: &str, count| ([("target", one.name.clone()), ("state", state.to_owned())], count);
            [of("up", one.up), of("down", one.down), of("unknown", one.unknown)]
        });
        families.counters("watch_intervals", "Intervals, by state.", states)?;
        families.counters("watch_requests", "Requests sent.", each(|one| one.requests))?;
        families.counters(
            "watch_requests_good",
            "Requests with an expected response in time.",
            each(|one| one.good),
        )?;
        let times = targets.iter().flat_map(|one| {
            let quantiles = ["0.5", "0.95", "0.99"].into_iter().zip(one.quantiles_ns);
            quantiles.map(|(quantile, nanos)| {
                ([("target", one.name.clone()), ("quantile", quantile.to_owned())], nanos as f64 / 1e9)
            })
        });
        let help = "Quantiles of the response time in the last interval.";
        families.numbers_of(&Unit::Seconds, "watch_response_time", help, times)?;
        let burning = targets.iter().filter_map(|one| Some((label(one), one.burn_rate?)));
        let ratio = Unit::Other(String::from("ratio"));
        families.numbers_of(&ratio, "watch_burn_rate", "Burn rate of the error budget over an hour.", burning)?;
        let used = || targets.iter().filter_map(|one| Some((one, one.last.usage?)));
        let help = "Resident memory of the target's processes.";
        let memory = used().map(|(one, usage)| (label(one), usage.memory_bytes));
        families.gauges_of(&Unit::Bytes, "watch_target_memory", help, memory)?;
        let threads = used().map(|(one, usage)| (label(one), usage.threads));
        families.gauges("watch_target_threads", "Threads of the target's processes.", threads)?;
        let descriptors = used().map(|(one, usage)| (label(one), usage.descriptors));
        families.gauges("watch_target_fds", "Open descriptors of the target's processes.", descriptors)?;
        let help = "Largest share of a process's limit of descriptors.";
        let shares = used().map(|(one, usage)| (label(one), usage.descriptors_share));
        families.numbers_of(&ratio, "watch_target_fds_used", help, shares)?;
        let cpu = used().filter(|(_, usage)| usage.over_ns > 0);
        let cpu = cpu.map(|(one, usage)| (label(one), usage.cpu_ns as f64 / usage.over_ns as f64));
        families.numbers_of(&ratio, "watch_target_cpu", "Processors used by the target's processes.", cpu)
    }
}
