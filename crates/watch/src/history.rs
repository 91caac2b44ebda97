//! History: a journal read into series of bounded length, even while it is being written.

use std::collections::BTreeMap;

use breme_stats::Histogram;
use serde::{Deserialize, Serialize};

use crate::certificate::{CertificateExpiry, latest_expiry};
use crate::interval_lengths::IntervalLengths;
use crate::journal::{JournalError, Resolution, Storage, read_segment, segments};
use crate::record::{
    ClockStep, Counts, Gap, IntervalRecord, OngoingOutage, Outage, Probe, Rollup, TargetRollup, TargetState, Usage,
};
use crate::rollup::RollupBuilder;

/// Most minutes per target: a week.
pub const MINUTES_MAX: usize = 7 * 24 * 60;
/// Most intervals per target: an hour of seconds.
pub const RECENT_MAX: usize = 3_600;
/// Most hours per target: five years.
pub const HOURS_MAX: usize = 5 * 366 * 24;
/// Most outages per target, gaps and clock steps; the latest are kept.
pub const OUTAGES_MAX: usize = 10_000;

/// Content of `watch.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredInfo {
    #[serde(flatten)]
    pub journal: JournalInfo,
    /// None if an older breme wrote it.
    pub intervals: Option<IntervalLengths>,
}

/// Description of a journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalInfo {
    /// Version of this layout.
    pub version: u32,
    /// Milliseconds between the starts of two intervals, the latest.
    pub interval_ms: u64,
    /// Name of the time zone; empty: that of the system.
    pub time_zone: String,
    /// Objective: share of up intervals and of good requests.
    pub availability: f64,
    /// Objective: longest response time of a good request, milliseconds.
    pub within_ms: u64,
    /// A certificate expires soon if less is left, seconds; 0: never.
    #[serde(default)]
    pub certificate_within_s: u64,
    /// The targets; probes refer to them by index. Removed targets stay.
    pub targets: Vec<TargetInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInfo {
    pub name: String,
    pub url: String,
    /// Requests under way at the same time.
    pub concurrency: u64,
    /// The watch file no longer has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
}

/// An interval, a minute or an hour of a target.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Start, Unix time in milliseconds.
    pub wall_ms: i64,
    pub up: u64,
    pub down: u64,
    /// Total length of the measurements, nanoseconds.
    pub elapsed_ns: u64,
    pub counts: Counts,
    /// Mean response time, nanoseconds; 0 without responses.
    pub mean_ns: f64,
    /// Median response time, nanoseconds.
    pub p50_ns: u64,
    /// 95th percentile of the response time, nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile of the response time, nanoseconds.
    pub p99_ns: u64,
    pub usage: Option<Usage>,
    /// Expiry of the certificate, Unix seconds.
    pub certificate_expires_at: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct TargetHistory {
    /// Complete hours, and an incomplete one.
    pub hours: Vec<Point>,
    /// The latest minutes.
    pub minutes: Vec<Point>,
    /// The latest intervals.
    pub recent: Vec<Point>,
    pub outages: Vec<Outage>,
    /// Outages beyond the limits of the lists.
    pub outages_more: u64,
    /// The outage that has not ended.
    pub ongoing: Option<OngoingOutage>,
    pub times: Histogram,
    /// Sum of all response times, nanoseconds.
    pub times_sum_ns: u64,
    pub counts: Counts,
    pub up: u64,
    pub down: u64,
    /// Intervals without a request.
    pub unknown: u64,
    /// The latest expiry of the certificate, Unix seconds.
    pub certificate_expires_at: Option<u64>,
}

/// Calls `see` for every interval of the journal after the one with the number `after`, in order.
///
/// # Errors
/// When a file cannot be read.
pub fn for_each_interval(
    storage: &impl Storage,
    after: u64,
    mut see: impl FnMut(&IntervalRecord),
) -> Result<(), JournalError> {
    for first in raw_segments(storage, after)? {
        let (intervals, _) = read_segment::<IntervalRecord>(storage, Resolution::Raw, first)?;
        intervals.iter().filter(|interval| interval.number > after).for_each(&mut see);
    }
    Ok(())
}

/// Segments with the intervals after the one with the number `after`.
fn raw_segments(storage: &impl Storage, after: u64) -> Result<Vec<u64>, JournalError> {
    let mut firsts = segments(storage, Resolution::Raw)?;
    let needed = firsts.partition_point(|&first| first <= after).saturating_sub(1);
    Ok(firsts.split_off(needed))
}

#[derive(Clone, Debug, Default)]
pub struct History {
    /// By index of the target.
    pub targets: BTreeMap<u32, TargetHistory>,
    /// Unmeasured times.
    pub gaps: Vec<Gap>,
    /// Number of unmeasured times beyond the limits of the lists.
    pub gaps_more: u64,
    /// Their total length, milliseconds.
    pub gaps_more_ms: u64,
    pub clock_steps: Vec<ClockStep>,
    /// Start of the first interval, Unix time in milliseconds; 0 without any.
    pub from_ms: i64,
    /// Start of the last interval, Unix time in milliseconds.
    pub to_ms: i64,
    /// Number of the last interval.
    pub last: u64,
    /// Damaged places of the journal.
    pub damaged: u64,
}

impl History {
    pub fn read(storage: &impl Storage) -> Result<Self, JournalError> {
        let mut history = Self::default();
        let mut rollups = RollupBuilder::default();
        let mut after = 0;
        for first in segments(storage, Resolution::Hour)? {
            let (hours, damaged) = read_segment::<Rollup>(storage, Resolution::Hour, first)?;
            history.damaged += damaged;
            for hour in &hours {
                if hour.first > after {
                    history.add(hour);
                    rollups.resume_after(hour);
                    after = hour.last;
                }
            }
        }
        for first in segments(storage, Resolution::Minute)? {
            let (minutes, damaged) = read_segment::<Rollup>(storage, Resolution::Minute, first)?;
            history.damaged += damaged;
            for minute in minutes {
                history.add_minute(&minute);
                if minute.first > after {
                    after = minute.last;
                    if let Some(hour) = rollups.add_minute_rollup(&minute) {
                        history.add(&hour);
                    }
                }
            }
        }
        // Older intervals are read as rollups.
        for first in raw_segments(storage, after.saturating_sub(RECENT_MAX as u64))? {
            let (intervals, damaged) = read_segment::<IntervalRecord>(storage, Resolution::Raw, first)?;
            history.damaged += damaged;
            for interval in intervals {
                history.add_recent(&interval);
                if interval.number > after {
                    after = interval.number;
                    let completed = rollups.add_interval(&interval);
                    completed.minute.iter().for_each(|minute| history.add_minute(minute));
                    completed.hour.iter().for_each(|hour| history.add(hour));
                }
            }
        }
        history.add_incomplete(rollups);
        history.bound();
        Ok(history)
    }

    /// Number of unmeasured times.
    #[must_use]
    pub fn gap_count(&self) -> u64 {
        self.gaps.len() as u64 + self.gaps_more
    }

    /// Total length of the unmeasured times, milliseconds.
    #[must_use]
    pub fn unmeasured_ms(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.length_ms).sum::<u64>() + self.gaps_more_ms
    }

    /// A target's certificate at the last interval; none of a target without TLS, or no longer watched.
    #[must_use]
    pub fn certificate(
        &self,
        info: &JournalInfo,
        of: &TargetInfo,
        target: &TargetHistory,
    ) -> Option<CertificateExpiry> {
        let expires_at = target.certificate_expires_at.filter(|_| !of.is_removed)?;
        Some(CertificateExpiry::new(expires_at, self.to_ms, info.certificate_within_s))
    }

    fn add_incomplete(&mut self, rollups: RollupBuilder) {
        let (minute, hours) = rollups.into_incomplete();
        minute.iter().for_each(|minute| self.add_minute(minute));
        hours.iter().for_each(|hour| self.add(hour));
    }

    fn add(&mut self, rollup: &Rollup) {
        if self.last == 0 {
            self.from_ms = rollup.wall_ms;
        }
        self.last = self.last.max(rollup.last);
        self.to_ms = rollup.last_wall_ms();
        self.gaps.extend(&rollup.gaps);
        self.gaps_more += rollup.gaps_more;
        self.gaps_more_ms += rollup.gaps_more_ms;
        self.clock_steps.extend(&rollup.clock_steps);
        for target in self.targets.values_mut() {
            target.ongoing = None;
        }
        for of_target in &rollup.targets {
            let target = self.targets.entry(of_target.target).or_default();
            let mut times = Histogram::new();
            let sum_ns = of_target.times.merge_into(&mut times);
            target.hours.push(Point::from_rollup(rollup.wall_ms, of_target, &times, sum_ns));
            target.times.merge(&times);
            target.times_sum_ns += sum_ns;
            target.counts.add(&of_target.counts);
            target.up += of_target.up;
            target.down += of_target.down;
            target.unknown += of_target.unknown;
            target.outages.extend(of_target.outages.iter().cloned());
            target.outages_more += of_target.outages_more;
            target.ongoing.clone_from(&of_target.ongoing);
            target.certificate_expires_at =
                latest_expiry(target.certificate_expires_at, of_target.certificate_expires_at, of_target.up > 0);
        }
    }

    fn add_minute(&mut self, minute: &Rollup) {
        for of_target in &minute.targets {
            let mut times = Histogram::new();
            let sum_ns = of_target.times.merge_into(&mut times);
            let minutes = &mut self.targets.entry(of_target.target).or_default().minutes;
            minutes.push(Point::from_rollup(minute.wall_ms, of_target, &times, sum_ns));
            trim(minutes, MINUTES_MAX);
        }
    }

    fn add_recent(&mut self, interval: &IntervalRecord) {
        for probe in &interval.probes {
            let recent = &mut self.targets.entry(probe.target).or_default().recent;
            recent.push(Point::from_probe(interval.wall_ms, probe));
            trim(recent, RECENT_MAX);
        }
    }

    fn bound(&mut self) {
        let dropped = &self.gaps[..self.gaps.len().saturating_sub(OUTAGES_MAX)];
        self.gaps_more += dropped.len() as u64;
        self.gaps_more_ms += dropped.iter().map(|gap| gap.length_ms).sum::<u64>();
        keep_last(&mut self.gaps, OUTAGES_MAX);
        keep_last(&mut self.clock_steps, OUTAGES_MAX);
        for target in self.targets.values_mut() {
            keep_last(&mut target.hours, HOURS_MAX);
            keep_last(&mut target.minutes, MINUTES_MAX);
            keep_last(&mut target.recent, RECENT_MAX);
            target.outages_more += target.outages.len().saturating_sub(OUTAGES_MAX) as u64;
            keep_last(&mut target.outages, OUTAGES_MAX);
        }
    }
}

/// Only at twice the length, so that the cost per point is constant.
fn trim(points: &mut Vec<Point>, length_max: usize) {
    if points.len() >= 2 * length_max {
        keep_last(points, length_max);
    }
}

fn keep_last<T>(list: &mut Vec<T>, length_max: usize) {
    list.drain(..list.len().saturating_sub(length_max));
}

impl Point {
    fn from_rollup(wall_ms: i64, rollup: &TargetRollup, times: &Histogram, sum_ns: u64) -> Self {
        let quantiles = times.quantiles(&[0.5, 0.95, 0.99]);
        Self {
            wall_ms,
            up: rollup.up,
            down: rollup.down,
            elapsed_ns: rollup.elapsed_ns,
            counts: rollup.counts,
            mean_ns: if times.is_empty() { 0.0 } else { sum_ns as f64 / times.count() as f64 },
            p50_ns: quantiles[0],
            p95_ns: quantiles[1],
            p99_ns: quantiles[2],
            usage: rollup.usage,
            certificate_expires_at: rollup.certificate_expires_at,
        }
    }

    /// A single interval as a point.
    #[must_use]
    pub fn from_probe(wall_ms: i64, probe: &Probe) -> Self {
        let mut times = Histogram::new();
        let sum_ns = match probe.times {
            // A histogram for one value would cost a hundred times as much.
            crate::record::ResponseTimes::One(nanos) => nanos,
            ref times_kept => times_kept.merge_into(&mut times),
        };
        let state = probe.counts.state();
        let rollup = TargetRollup {
            up: u64::from(state == TargetState::Up),
            down: u64::from(state == TargetState::Down),
            elapsed_ns: probe.elapsed_ns,
            counts: probe.counts,
            usage: probe.usage,
            certificate_expires_at: probe.certificate_expires_at,
            ..TargetRollup::default()
        };
        let mut point = Self::from_rollup(wall_ms, &rollup, &times, sum_ns);
        if let crate::record::ResponseTimes::One(nanos) = probe.times {
            (point.mean_ns, point.p50_ns, point.p95_ns, point.p99_ns) = (nanos as f64, nanos, nanos, nanos);
        }
        point
    }

    /// Processors used; none without resources.
    #[must_use]
    pub fn cpu_share(&self) -> Option<f64> {
        self.usage.filter(|usage| usage.over_ns > 0).map(|usage| usage.cpu_ns as f64 / usage.over_ns as f64)
    }

    /// Expected responses per second of the measurement.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.counts.ok as f64 / (self.elapsed_ns as f64 / 1e9) }
    }
}

impl TargetHistory {
    /// Up intervals as a share of up and down ones; none without either.
    #[must_use]
    pub fn uptime(&self) -> Option<f64> {
        let known = self.up + self.down;
        (known > 0).then(|| self.up as f64 / known as f64)
    }

    /// Mean response time, nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.times.is_empty() { 0.0 } else { self.times_sum_ns as f64 / self.times.count() as f64 }
    }
}
