//! Counters of a watch for `/metrics`.

use std::fmt;
use std::sync::Arc;

use breme_admin::{Families, Label};
use breme_watch::certificate::latest_expiry;
use breme_watch::record::{Probe, TargetState};
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

/// Counters of a target since the start of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetStatus {
    pub name: String,
    pub up: u64,
    pub down: u64,
    pub unknown: u64,
    pub good: u64,
    pub requests: u64,
    pub burn_rate: Option<f64>,
    pub last: Probe,
    /// Of the last interval, if it had a response.
    pub quantiles_ns: Option<[u64; 3]>,
    /// The latest one, Unix seconds.
    pub certificate_expires_at: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WatchStatus {
    pub targets: Vec<TargetStatus>,
    /// All intervals.
    pub intervals: u64,
    /// Those that the journal could not store.
    pub lost: u64,
}

/// Counters of all targets. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status(Arc<Mutex<WatchStatus>>);

impl Status {
    pub(crate) fn lock(&self) -> MutexGuard<'_, WatchStatus> {
        self.0.lock()
    }

    /// Those of other targets are dropped.
    pub(crate) fn set_targets<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut status = self.lock();
        let mut known = std::mem::take(&mut status.targets);
        let of = |name: &str| known.iter_mut().find(|known| known.name == name).map(std::mem::take);
        status.targets = names
            .scan(of, |of, name| {
                Some(of(name).unwrap_or_else(|| TargetStatus { name: name.to_owned(), ..TargetStatus::default() }))
            })
            .collect();
    }
}

impl TargetStatus {
    pub(crate) fn take(&mut self, probe: &Probe) {
        match probe.counts.state() {
            TargetState::Up => self.up += 1,
            TargetState::Down => self.down += 1,
            TargetState::Unknown => self.unknown += 1,
        }
        self.good += probe.counts.good();
        self.requests += probe.counts.requests;
        let mut times = breme_stats::Histogram::new();
        probe.times.merge_into(&mut times);
        let quantiles = times.quantiles(&[0.5, 0.95, 0.99]);
        self.quantiles_ns = (!times.is_empty()).then(|| [quantiles[0], quantiles[1], quantiles[2]]);
        self.last = probe.clone();
        let is_up = self.is_up() == Some(true);
        self.certificate_expires_at = latest_expiry(self.certificate_expires_at, probe.certificate_expires_at, is_up);
    }

    /// Whether the last interval was up; none if that is unknown.
    fn is_up(&self) -> Option<bool> {
        let state = self.last.counts.state();
        (state != TargetState::Unknown).then_some(state == TargetState::Up)
    }
}

/// Reads the state.
#[derive(Debug)]
pub(crate) struct WatchMetrics(pub(super) Status);

impl Collector for WatchMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let WatchStatus { targets, lost, .. } = self.0.lock().clone();
        let label = |target: &TargetStatus| -> [Label; 1] { [("target", target.name.clone())] };
        let each = |value: fn(&TargetStatus) -> u64| targets.iter().map(move |one| (label(one), value(one)));
        let up = targets.iter().filter_map(|one| Some((label(one), u64::from(one.is_up()?))));
        families.gauges("watch_up", "Whether the last interval was up; none if it is unknown.", up)?;
        families.counter("watch_intervals_lost", "Intervals that the journal could not store.", lost)?;
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
            let quantiles =
                one.quantiles_ns.into_iter().flat_map(|nanos| ["0.5", "0.95", "0.99"].into_iter().zip(nanos));
            quantiles.map(|(quantile, nanos)| {
                ([("target", one.name.clone()), ("quantile", quantile.to_owned())], nanos as f64 / 1e9)
            })
        });
        let help = "Quantiles of the response time in the last interval, if it had a response.";
        families.numbers_of(&Unit::Seconds, "watch_response_time", help, times)?;
        let burning = targets.iter().filter_map(|one| Some((label(one), one.burn_rate?)));
        let ratio = Unit::Other(String::from("ratio"));
        families.numbers_of(&ratio, "watch_burn_rate", "Burn rate of the error budget over an hour.", burning)?;
        let expiring = targets.iter().filter_map(|one| Some((label(one), one.certificate_expires_at?)));
        let help = "Unix time at which the target's certificate expires, as of the latest TLS handshake.";
        families.gauges_of(&Unit::Seconds, "watch_certificate_expiry_timestamp", help, expiring)?;
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

#[cfg(test)]
mod tests {
    use breme_admin::exposition_of;
    use breme_watch::record::{Counts, ResponseTimes};

    use super::*;

    fn samples(status: &Status) -> String {
        let text = exposition_of(WatchMetrics(status.clone())).unwrap();
        let is_sample = |line: &&str| {
            ["watch_up{", "watch_response", "watch_certificate"].iter().any(|name| line.starts_with(name))
        };
        text.lines().filter(is_sample).map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn nothing_is_claimed_of_what_is_unknown() {
        let status = Status::default();
        status.set_targets(["a"].into_iter());
        assert_eq!(samples(&status), "", "before the first interval");
        let counts = |ok| Counts { requests: 1, ok, transport: 1 - ok, ..Counts::default() };
        let take = |probe: &Probe| status.lock().targets[0].take(probe);
        take(&Probe { counts: counts(1), times: ResponseTimes::One(5_000_000), ..Probe::default() });
        assert!(samples(&status).contains("watch_up{target=\"a\"} 1\n"));
        assert!(samples(&status).contains("quantile=\"0.99\"} 0.005"), "{}", samples(&status));
        take(&Probe { counts: counts(0), ..Probe::default() });
        assert_eq!(samples(&status), "watch_up{target=\"a\"} 0\n", "no response time without a response");
        take(&Probe::default());
        assert_eq!(samples(&status), "");
    }

    #[test]
    fn the_expiry_of_a_certificate_outlives_an_outage() {
        let status = Status::default();
        status.set_targets(["a"].into_iter());
        let take = |ok, certificate_expires_at| {
            let counts = Counts { requests: 1, ok, transport: 1 - ok, ..Counts::default() };
            status.lock().targets[0].take(&Probe { counts, certificate_expires_at, ..Probe::default() });
            samples(&status).contains("watch_certificate_expiry_timestamp_seconds{target=\"a\"} 1800000000\n")
        };
        assert!(take(1, Some(1_800_000_000)) && take(0, None), "{}", samples(&status));
        assert!(!take(1, None), "the target no longer uses TLS: {}", samples(&status));
    }

    #[test]
    fn counters_of_known_targets_stay() {
        let status = Status::default();
        status.set_targets(["a", "b"].into_iter());
        status.lock().targets[1].up = 7;
        status.set_targets(["c", "b"].into_iter());
        let counters: Vec<_> = status.lock().targets.iter().map(|one| (one.name.clone(), one.up)).collect();
        assert_eq!(counters, [("c".to_owned(), 0), ("b".to_owned(), 7)]);
    }
}
