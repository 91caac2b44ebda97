//! Rollups: intervals into minutes, minutes into hours, incrementally.
//!
//! A rollup ends when the wall clock is in another minute (hour), later or earlier. So a clock step splits a rollup,
//! and no interval belongs to two.

use std::collections::BTreeMap;

use breme_stats::Histogram;

use crate::certificate::latest_expiry;
use crate::record::{
    CAUSE_BYTES_MAX, ClockStep, GAPS_PER_ROLLUP_MAX, Gap, IntervalRecord, OUTAGES_PER_ROLLUP_MAX, OngoingOutage,
    Outage, Probe, ResponseTimes, Rollup, TargetRollup, TargetState, Usage,
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// Rollups that an interval has completed.
#[derive(Debug, Default)]
pub(crate) struct CompletedRollups {
    pub minute: Option<Rollup>,
    pub hour: Option<Rollup>,
}

/// The incomplete minute and hour, and the ongoing outages.
#[derive(Debug, Default)]
pub(crate) struct RollupBuilder {
    minute: Option<OpenRollup>,
    hour: Option<OpenRollup>,
    ongoing: BTreeMap<u32, OngoingOutage>,
}

/// An incomplete rollup.
#[derive(Debug)]
struct OpenRollup {
    rollup: Rollup,
    /// In the order of `rollup.targets`.
    histograms: Vec<Histogram>,
    sums: Vec<u64>,
}

impl RollupBuilder {
    /// Resumes after `hour`, the last one of the journal.
    pub(crate) fn resume_after(&mut self, hour: &Rollup) {
        self.restore_outages(hour);
    }

    /// Adds a minute of the journal that is in none of its hours; returns the hour that it completes.
    pub(crate) fn add_minute_rollup(&mut self, minute: &Rollup) -> Option<Rollup> {
        self.restore_outages(minute);
        self.add_to_hour(minute)
    }

    fn restore_outages(&mut self, rollup: &Rollup) {
        let ongoing = rollup.targets.iter().filter_map(|target| Some((target.target, target.ongoing.clone()?)));
        self.ongoing = ongoing.collect();
    }

    /// Adds an interval; returns the rollups that it completes.
    pub(crate) fn add_interval(&mut self, interval: &IntervalRecord) -> CompletedRollups {
        let mut completed = CompletedRollups::default();
        if let Some(minute) = self.minute.take_if(|minute| !minute.has_same(interval.wall_ms, MINUTE_MS)) {
            let minute = minute.finish(&self.ongoing);
            completed.hour = self.add_to_hour(&minute);
            completed.minute = Some(minute);
        }
        let minute = self.minute.get_or_insert_with(|| OpenRollup::new(interval.number, interval.wall_ms));
        minute.add(interval, &mut self.ongoing);
        completed
    }

    fn add_to_hour(&mut self, minute: &Rollup) -> Option<Rollup> {
        let completed = self.hour.take_if(|hour| !hour.has_same(minute.wall_ms, HOUR_MS)).map(OpenRollup::into_rollup);
        self.hour.get_or_insert_with(|| OpenRollup::new(minute.first, minute.wall_ms)).add_rollup(minute);
        completed
    }

    /// The incomplete minute, and the hours with it: one that it completes, and the incomplete one.
    pub(crate) fn into_incomplete(mut self) -> (Option<Rollup>, Vec<Rollup>) {
        let minute = self.minute.take().map(|minute| minute.finish(&self.ongoing));
        let mut hours: Vec<Rollup> = minute.iter().filter_map(|minute| self.add_to_hour(minute)).collect();
        hours.extend(self.hour.take().map(OpenRollup::into_rollup));
        (minute, hours)
    }
}

impl OpenRollup {
    fn new(first: u64, wall_ms: i64) -> Self {
        Self { rollup: Rollup { first, wall_ms, ..Rollup::default() }, histograms: Vec::new(), sums: Vec::new() }
    }

    fn has_same(&self, wall_ms: i64, unit_ms: i64) -> bool {
        self.rollup.wall_ms.div_euclid(unit_ms) == wall_ms.div_euclid(unit_ms)
    }

    fn index_of(&mut self, target: u32) -> usize {
        let index = self.rollup.targets.iter().position(|one| one.target == target);
        index.unwrap_or_else(|| {
            self.rollup.targets.push(TargetRollup { target, ..TargetRollup::default() });
            self.histograms.push(Histogram::new());
            self.sums.push(0);
            self.rollup.targets.len() - 1
        })
    }

    fn add(&mut self, interval: &IntervalRecord, ongoing: &mut BTreeMap<u32, OngoingOutage>) {
        let rollup = &mut self.rollup;
        (rollup.last, rollup.length_ms) = (interval.number, interval.wall_ms - rollup.wall_ms);
        (rollup.last_boot_ms, rollup.boot) = (interval.boot_ms, interval.boot);
        if interval.gap_ms > 0 {
            rollup.push_gap(Gap { until_ms: interval.wall_ms, length_ms: interval.gap_ms });
        }
        if interval.clock_step_ms != 0 && rollup.clock_steps.len() < GAPS_PER_ROLLUP_MAX {
            rollup.clock_steps.push(ClockStep { at_ms: interval.wall_ms, step_ms: interval.clock_step_ms });
        }
        // The end of an outage is not seen in a gap, nor if the target is no longer watched.
        let is_lost = |target: u32| interval.gap_ms > 0 || !interval.probes.iter().any(|probe| probe.target == target);
        let lost: Vec<u32> = ongoing.keys().copied().filter(|&target| is_lost(target)).collect();
        for target in lost {
            ongoing.remove(&target).into_iter().for_each(|outage| self.push_outage(target, outage.end_unseen()));
        }
        for probe in &interval.probes {
            self.add_probe(probe, interval, ongoing);
        }
    }

    fn add_probe(&mut self, probe: &Probe, interval: &IntervalRecord, ongoing: &mut BTreeMap<u32, OngoingOutage>) {
        let index = self.index_of(probe.target);
        let state = probe.counts.state();
        let target = &mut self.rollup.targets[index];
        match state {
            TargetState::Up => target.up += 1,
            TargetState::Down => target.down += 1,
            TargetState::Unknown => target.unknown += 1,
        }
        target.elapsed_ns += probe.elapsed_ns;
        target.counts.add(&probe.counts);
        if let Some(usage) = &probe.usage {
            add_usage(target, usage, 1);
        }
        let is_up = state == TargetState::Up;
        target.certificate_expires_at =
            latest_expiry(target.certificate_expires_at, probe.certificate_expires_at, is_up);
        self.sums[index] += probe.times.merge_into(&mut self.histograms[index]);
        if let Some(outage) = update_outage(ongoing, probe, state, interval) {
            self.push_outage(probe.target, outage);
        }
    }

    fn push_outage(&mut self, target: u32, outage: Outage) {
        let index = self.index_of(target);
        let target = &mut self.rollup.targets[index];
        if target.outages.len() < OUTAGES_PER_ROLLUP_MAX {
            target.outages.push(outage);
        } else {
            target.outages_more += 1;
        }
    }

    fn add_rollup(&mut self, other: &Rollup) {
        let rollup = &mut self.rollup;
        (rollup.last, rollup.length_ms) = (other.last, other.last_wall_ms() - rollup.wall_ms);
        (rollup.last_boot_ms, rollup.boot) = (other.last_boot_ms, other.boot);
        other.gaps.iter().for_each(|gap| rollup.push_gap(*gap));
        rollup.gaps_more += other.gaps_more;
        rollup.gaps_more_ms += other.gaps_more_ms;
        let free = GAPS_PER_ROLLUP_MAX.saturating_sub(rollup.clock_steps.len());
        rollup.clock_steps.extend(other.clock_steps.iter().take(free));
        rollup.targets.iter_mut().for_each(|target| target.ongoing = None);
        for from in &other.targets {
            let index = self.index_of(from.target);
            self.sums[index] += from.times.merge_into(&mut self.histograms[index]);
            let target = &mut self.rollup.targets[index];
            target.up += from.up;
            target.down += from.down;
            target.unknown += from.unknown;
            target.elapsed_ns += from.elapsed_ns;
            target.counts.add(&from.counts);
            if let Some(usage) = &from.usage {
                add_usage(target, usage, from.usages);
            }
            let free = OUTAGES_PER_ROLLUP_MAX.saturating_sub(target.outages.len());
            target.outages.extend(from.outages.iter().take(free).cloned());
            target.outages_more += from.outages_more + from.outages.len().saturating_sub(free) as u64;
            target.ongoing.clone_from(&from.ongoing);
            target.certificate_expires_at =
                latest_expiry(target.certificate_expires_at, from.certificate_expires_at, from.up > 0);
        }
    }

    fn finish(mut self, ongoing: &BTreeMap<u32, OngoingOutage>) -> Rollup {
        for (target, outage) in ongoing {
            let index = self.index_of(*target);
            self.rollup.targets[index].ongoing = Some(outage.clone());
        }
        self.into_rollup()
    }

    fn into_rollup(mut self) -> Rollup {
        for ((target, histogram), sum) in self.rollup.targets.iter_mut().zip(&self.histograms).zip(self.sums) {
            target.times = match ResponseTimes::from_histogram(histogram) {
                ResponseTimes::Many(text, _) => ResponseTimes::Many(text, sum),
                times => times,
            };
        }
        self.rollup
    }
}

impl Rollup {
    fn push_gap(&mut self, gap: Gap) {
        if self.gaps.len() < GAPS_PER_ROLLUP_MAX {
            self.gaps.push(gap);
        } else {
            self.gaps_more += 1;
            self.gaps_more_ms += gap.length_ms;
        }
    }
}

/// Means are weighted by the number of intervals.
fn add_usage(target: &mut TargetRollup, usage: &Usage, intervals: u64) {
    let sum = target.usage.unwrap_or_default();
    let (before, more) = (target.usages, intervals.max(1));
    let mean = |a: f64, b: f64| (a * before as f64 + b * more as f64) / (before + more) as f64;
    let rounded = |a: u64, b: u64| mean(a as f64, b as f64).round() as u64;
    target.usage = Some(Usage {
        cpu_ns: sum.cpu_ns + usage.cpu_ns,
        over_ns: sum.over_ns + usage.over_ns,
        memory_bytes: rounded(sum.memory_bytes, usage.memory_bytes),
        threads: rounded(sum.threads, usage.threads),
        descriptors: rounded(sum.descriptors, usage.descriptors),
        // Rounded to keep records short.
        descriptors_share: (mean(sum.descriptors_share, usage.descriptors_share) * 1e6).round() / 1e6,
    });
    target.usages = before + more;
}

/// Begins, extends or ends the target's outage; returns the outage that the interval ends. An unknown interval has no
/// effect.
fn update_outage(
    ongoing: &mut BTreeMap<u32, OngoingOutage>,
    probe: &Probe,
    state: TargetState,
    interval: &IntervalRecord,
) -> Option<Outage> {
    match state {
        TargetState::Unknown => None,
        TargetState::Up => {
            let outage = ongoing.remove(&probe.target)?;
            let length_ms = interval.boot_ms.saturating_sub(outage.from_boot_ms);
            Some(Outage {
                from_ms: outage.from_ms,
                length_ms,
                intervals: outage.intervals,
                cause: outage.cause,
                has_end: true,
            })
        }
        TargetState::Down => {
            let first = || OngoingOutage {
                from_ms: interval.wall_ms,
                from_boot_ms: interval.boot_ms,
                last_boot_ms: interval.boot_ms,
                intervals: 0,
                cause: cause(probe),
            };
            let outage = ongoing.entry(probe.target).or_insert_with(first);
            outage.last_boot_ms = interval.boot_ms;
            outage.intervals += 1;
            None
        }
    }
}

fn cause(probe: &Probe) -> String {
    let mut cause = probe.cause.clone().unwrap_or_else(|| String::from("late"));
    while cause.len() > CAUSE_BYTES_MAX {
        cause.pop();
    }
    cause
}

impl OngoingOutage {
    /// Ends it at its latest interval, because what followed was not measured.
    #[must_use]
    pub fn end_unseen(self) -> Outage {
        Outage {
            from_ms: self.from_ms,
            length_ms: self.last_boot_ms.saturating_sub(self.from_boot_ms),
            intervals: self.intervals,
            cause: self.cause,
            has_end: false,
        }
    }
}
