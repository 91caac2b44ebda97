//! The readings of a trial, and of any part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use breme_experiment::record::{MachineUse, SubjectRecord};

use super::counters::SubjectCounters;
use super::machine::MachineSample;
use super::members::Use;
use super::memory_leak::growth_per_s;
use super::scraper::{Scrape, ScrapeError};
use super::track::{Sample, Track, interpolate};

/// The counters of a subject, or why there are none.
pub(super) type Counted = Result<Scrape, Arc<ScrapeError>>;

/// All samples of a trial.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    pub(super) watched: BTreeMap<String, WatchedReadings>,
    pub(super) machine: Track<MachineSample>,
    /// CPU time of processes unrelated to the laboratory, at the start and at the end.
    pub(super) others_ns: (u64, u64),
    pub(super) faults: Vec<String>,
    /// Subjects whose counters could not be read at the start or at the end, and why.
    pub(super) uncounted: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct WatchedReadings {
    pub(super) is_generator: bool,
    pub(super) track: Track<Use>,
    pub(super) counters: SubjectCounters,
    pub(super) restarts_before: u64,
}

/// The use within a part of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// By subject.
    pub subjects: BTreeMap<String, SubjectRecord>,
    /// By generator.
    pub generators: BTreeMap<String, SubjectRecord>,
    /// By all processes.
    pub machine: MachineUse,
}

impl Sample for Use {
    fn at_ns(&self) -> u64 {
        self.at_ns
    }

    fn between(earlier: &Self, later: &Self, share: f64) -> Self {
        interpolate(*earlier, *later, share, |sample| {
            let Self { at_ns, cpu_user_ns, cpu_system_ns, switches_voluntary, switches_forced, .. } = sample;
            [at_ns, cpu_user_ns, cpu_system_ns, switches_voluntary, switches_forced]
        })
    }
}

impl Sample for MachineSample {
    fn at_ns(&self) -> u64 {
        self.at_ns
    }

    fn between(earlier: &Self, later: &Self, share: f64) -> Self {
        interpolate(*earlier, *later, share, |sample| {
            let Self { at_ns, user_ns, system_ns, interrupts_ns, idle_ns, steal_ns, own_ns, .. } = sample;
            [at_ns, user_ns, system_ns, interrupts_ns, idle_ns, steal_ns, own_ns]
        })
    }
}

impl Readings {
    /// Takes counters at the start or at the end.
    pub(super) fn take_counted(&mut self, counted: impl IntoIterator<Item = (String, Counted)>) {
        for (name, counted) in counted {
            match (counted, self.watched.get_mut(&name)) {
                (Ok(scrape), Some(watched)) => watched.counters.push(&scrape),
                (Ok(_), None) => {}
                (Err(error), _) => drop(self.uncounted.insert(name, error.to_string())),
            }
        }
    }

    /// Without a start or an end value, growth is unknown: such counters are replaced by the reason.
    pub(super) fn leave_out_uncounted(&mut self) {
        for (name, why) in std::mem::take(&mut self.uncounted) {
            if let Some(watched) = self.watched.get_mut(&name) {
                watched.counters = SubjectCounters::default();
            }
            self.faults.push(format!("the counters of {name} could not be read: {why}"));
        }
    }

    /// The first and the last sample, on the monotonic clock.
    #[must_use]
    pub fn span_ns(&self) -> (u64, u64) {
        let first = self.machine.samples().next().map_or(0, Sample::at_ns);
        (first, self.machine.samples().next_back().map_or(first, Sample::at_ns))
    }

    /// What could not be read.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// The use from one instant to another (monotonic clock). Counts between two samples are interpolated linearly; at
    /// the start and the end of the trial there are samples.
    #[must_use]
    pub fn window(&self, from_ns: u64, to_ns: u64) -> Window {
        let of = |is_generator| {
            let wanted = self.watched.iter().filter(move |(_, readings)| readings.is_generator == is_generator);
            wanted.map(|(name, readings)| (name.clone(), readings.within(from_ns, to_ns))).collect()
        };
        Window { subjects: of(false), generators: of(true), machine: self.machine_within(from_ns, to_ns) }
    }

    fn machine_within(&self, from_ns: u64, to_ns: u64) -> MachineUse {
        let (Some(from), Some(to)) = (self.machine.at(from_ns), self.machine.at(to_ns)) else {
            return MachineUse::default();
        };
        let grown = |field: fn(&MachineSample) -> u64| field(&to).saturating_sub(field(&from)) as f64;
        let total = grown(MachineSample::total_ns).max(1.0);
        let samples = || [&from, &to].into_iter().chain(self.machine.within(from_ns, to_ns));
        MachineUse {
            cpu_share: grown(MachineSample::used_ns) / total,
            steal_share: grown(|sample| sample.steal_ns) / total,
            foreign_share: self.foreign_share(&from, &to, total),
            memory_available_min_bytes: samples().map(|sample| sample.available_bytes).min().unwrap_or(0),
            tcp_sockets_max: samples().map(|sample| sample.tcp_sockets).max().unwrap_or(0),
            tcp_time_wait_max: samples().map(|sample| sample.tcp_time_wait).max().unwrap_or(0),
        }
    }

    /// Two measurements that can both be too small: the times of other processes during the whole trial (not all are
    /// visible from within a container), and the machine's time in programs that was not ours (a kernel may count work
    /// for our packets as the machine's interrupts, and also as our time). The larger one counts.
    fn foreign_share(&self, from: &MachineSample, to: &MachineSample, total: f64) -> f64 {
        let programs = |sample: &MachineSample| sample.user_ns + sample.system_ns;
        let ours: u64 = self.watched.values().map(|readings| readings.cpu_within(from.at_ns, to.at_ns)).sum();
        let ours = ours + to.own_ns.saturating_sub(from.own_ns);
        let rest = (programs(to).saturating_sub(programs(from))).saturating_sub(ours) as f64 / total;
        let (begin, end) = self.span_ns();
        let whole = |at_ns| self.machine.at(at_ns).map_or(0, |sample| sample.total_ns());
        let whole = whole(end).saturating_sub(whole(begin)).max(1) as f64;
        let others = self.others_ns.1.saturating_sub(self.others_ns.0) as f64 / whole;
        rest.max(others).min(1.0)
    }
}

impl WatchedReadings {
    fn cpu_within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let cpu = |at_ns| self.track.at(at_ns).map_or(0, |used| used.cpu_user_ns + used.cpu_system_ns);
        cpu(to_ns).saturating_sub(cpu(from_ns))
    }

    fn within(&self, from_ns: u64, to_ns: u64) -> SubjectRecord {
        let counters = self.counters.within(from_ns, to_ns);
        let (Some(from), Some(to)) = (self.track.at(from_ns), self.track.at(to_ns)) else {
            // It runs elsewhere.
            return SubjectRecord { counters, ..SubjectRecord::default() };
        };
        let grown = |field: fn(&Use) -> u64| field(&to).saturating_sub(field(&from));
        let samples = || [&from, &to].into_iter().chain(self.track.within(from_ns, to_ns));
        let most = |field: fn(&Use) -> u64| samples().map(field).max().unwrap_or(0);
        let count = samples().count().max(1) as f64;
        SubjectRecord {
            cpu_user_ns: grown(|used| used.cpu_user_ns),
            cpu_system_ns: grown(|used| used.cpu_system_ns),
            span_s: to_ns.saturating_sub(from_ns) as f64 / 1e9,
            memory_mean_bytes: (samples().map(|used| used.resident_bytes as f64).sum::<f64>() / count) as u64,
            memory_max_bytes: most(|used| used.resident_bytes),
            memory_begin_bytes: from.resident_bytes,
            memory_growth_per_s: self.memory_growth(from_ns, to_ns),
            threads_max: most(|used| used.threads),
            descriptors_max: most(|used| used.descriptors),
            descriptors_share_max: samples().map(|used| used.descriptors_share).fold(0.0, f64::max),
            switches_voluntary: grown(|used| used.switches_voluntary),
            switches_forced: grown(|used| used.switches_forced),
            restarts: self.restarts_within(to_ns),
            uptime_s: to.uptime_s,
            counters,
        }
    }

    fn memory_growth(&self, from_ns: u64, to_ns: u64) -> f64 {
        let samples = self.track.within(from_ns, to_ns).map(|used| (used.at_ns, used.resident_bytes));
        growth_per_s(&samples.collect::<Vec<_>>())
    }

    /// Since the trial's start: a restart during the warm-up matters as much.
    fn restarts_within(&self, to_ns: u64) -> u64 {
        self.track.at(to_ns).map_or(0, |used| used.restarts.saturating_sub(self.restarts_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(at_ns: u64, cpu_user_ns: u64, resident_bytes: u64) -> Use {
        Use { at_ns, cpu_user_ns, resident_bytes, ..Use::default() }
    }

    fn readings() -> Readings {
        let mut readings = Readings::default();
        let mut subject = WatchedReadings::default();
        subject.track.push(used(0, 100, 10));
        subject.track.push(used(1_000, 500, 30));
        subject.track.push(used(2_000, 700, 20));
        readings.watched.insert("edge".into(), subject);
        for (at_ns, user_ns) in [(0, 1_000), (2_000, 2_800)] {
            readings.machine.push(MachineSample {
                at_ns,
                user_ns,
                idle_ns: 4_000 - user_ns + at_ns,
                ..MachineSample::default()
            });
        }
        readings
    }

    #[test]
    fn a_part_of_a_trial_has_its_part_of_the_counts() {
        let readings = readings();
        let whole = readings.window(0, 2_000).subjects["edge"].clone();
        assert_eq!((whole.cpu_user_ns, whole.memory_begin_bytes, whole.memory_max_bytes), (600, 10, 30));
        let part = readings.window(500, 1_500).subjects["edge"].clone();
        assert_eq!(part.cpu_user_ns, 300);
        assert_eq!([whole.span_s, part.span_s], [2e-6, 1e-6]);
        assert_eq!(readings.span_ns(), (0, 2_000));
    }

    #[test]
    fn cpu_time_of_others_is_foreign() {
        let mut readings = readings();
        let share = |readings: &Readings| readings.window(0, 2_000).machine.foreign_share;
        let machine = readings.window(0, 2_000).machine;
        assert_eq!(machine.cpu_share, 0.9);
        assert_eq!(share(&readings), (1_800.0 - 600.0) / 2_000.0);
        readings.others_ns = (5, 1_505);
        assert_eq!(share(&readings), 0.75);
    }

    #[test]
    fn nothing_sampled_is_nothing_used() {
        assert_eq!(Readings::default().window(0, 1), Window::default());
    }
}
