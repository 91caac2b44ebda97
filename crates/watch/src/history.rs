//! A journal, read into series of bounded length; also while it is written.

use std::collections::BTreeMap;

use breme_stats::Histogram;
use serde::{Deserialize, Serialize};

use crate::folding::Folding;
use crate::journal::{JournalError, Level, Storage, read_segment, segments};
use crate::record::{ClockStep, Counts, Fold, FoldedTarget, Gap, Interval, OpenOutage, Outage, Probe, State, Usage};

/// Most minutes of a target that are kept: a week.
pub const MINUTES_MAX: usize = 7 * 24 * 60;
/// Most intervals of a target that are kept: an hour of seconds.
pub const RECENT_MAX: usize = 3_600;
/// Most hours of a target that are kept: five years.
pub const HOURS_MAX: usize = 5 * 366 * 24;
/// Most outages of a target, gaps and clock steps that are kept; the latest.
pub const OUTAGES_MAX: usize = 10_000;

/// What a journal says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Version of this layout.
    pub version: u32,
    /// Milliseconds between the starts of two intervals.
    pub interval_ms: u64,
    /// Name of the time zone; empty: that of the system.
    pub time_zone: String,
    /// Expected share of up intervals.
    pub availability: f64,
    /// Longest response time of a good response, milliseconds.
    pub within_ms: u64,
    /// The targets, by their number; one that is no longer in the watch file stays.
    pub targets: Vec<AboutTarget>,
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutTarget {
    /// Name.
    pub name: String,
    /// URL.
    pub url: String,
    /// Requests under way at the same time.
    pub concurrency: u64,
}

/// An interval, a minute or an hour of a target.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Start, Unix time in milliseconds.
    pub wall_ms: i64,
    /// Intervals that were up.
    pub up: u64,
    /// Intervals that were down.
    pub down: u64,
    /// Sum of the lengths of the measurements, nanoseconds.
    pub elapsed_ns: u64,
    /// Requests by outcome.
    pub counts: Counts,
    /// Mean response time, nanoseconds; 0 without responses.
    pub mean_ns: f64,
    /// Median response time, nanoseconds.
    pub p50_ns: u64,
    /// 95th percentile of the response time, nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile of the response time, nanoseconds.
    pub p99_ns: u64,
    /// Resources.
    pub usage: Option<Usage>,
}

/// A target's history.
#[derive(Clone, Debug, Default)]
pub struct TargetHistory {
    /// Complete hours, and the part of one.
    pub hours: Vec<Point>,
    /// The latest minutes.
    pub minutes: Vec<Point>,
    /// The latest intervals.
    pub recent: Vec<Point>,
    /// Outages that are over.
    pub outages: Vec<Outage>,
    /// Outages that are not in the list.
    pub outages_more: u64,
    /// The outage that lasts.
    pub open: Option<OpenOutage>,
    /// All response times.
    pub times: Histogram,
    /// Sum of all response times, nanoseconds.
    pub times_sum_ns: u64,
    /// All requests.
    pub counts: Counts,
    /// Intervals that were up.
    pub up: u64,
    /// Intervals that were down.
    pub down: u64,
    /// Intervals of which neither is known.
    pub unknown: u64,
}

/// Shows every interval that is kept, in their order.
///
/// # Errors
/// When a file cannot be read.
pub fn visit(storage: &impl Storage, mut see: impl FnMut(&Interval)) -> Result<(), JournalError> {
    for first in segments(storage, Level::Raw)? {
        read_segment::<Interval>(storage, Level::Raw, first)?.0.iter().for_each(&mut see);
    }
    Ok(())
}

/// A journal.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By the number of the target.
    pub targets: BTreeMap<u32, TargetHistory>,
    /// Times in which nothing was measured.
    pub gaps: Vec<Gap>,
    /// Settings of the wall clock.
    pub clock_steps: Vec<ClockStep>,
    /// Start of the first interval, Unix time in milliseconds; 0 without any.
    pub from_ms: i64,
    /// Start of the last one.
    pub to_ms: i64,
    /// Number of the last interval.
    pub last: u64,
    /// Damaged places of the journal.
    pub damaged: u64,
}

impl History {
    /// Reads all of it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(storage: &impl Storage) -> Result<Self, JournalError> {
        let mut history = Self::default();
        let mut folding = Folding::default();
        let mut after = 0;
        for first in segments(storage, Level::Hour)? {
            let (hours, damaged) = read_segment::<Fold>(storage, Level::Hour, first)?;
            history.damaged += damaged;
            for hour in &hours {
                if hour.first > after {
                    history.add(hour, true);
                    folding.after_hour(hour);
                    after = hour.last;
                }
            }
        }
        for first in segments(storage, Level::Minute)? {
            let (minutes, damaged) = read_segment::<Fold>(storage, Level::Minute, first)?;
            history.damaged += damaged;
            for minute in minutes {
                history.add_minute(&minute);
                if minute.first > after {
                    after = minute.last;
                    // Made from raw intervals, it is in no hour yet.
                    if let Some(hour) = folding.take_minute(&minute) {
                        history.add(&hour, true);
                    }
                }
            }
        }
        let firsts = segments(storage, Level::Raw)?;
        // Older intervals are in folds, and are not shown.
        let oldest = after.saturating_sub(RECENT_MAX as u64);
        let needed = firsts.partition_point(|&first| first <= oldest).saturating_sub(1);
        for &first in &firsts[needed..] {
            let (intervals, damaged) = read_segment::<Interval>(storage, Level::Raw, first)?;
            history.damaged += damaged;
            for interval in intervals {
                history.add_recent(&interval);
                if interval.number > after {
                    after = interval.number;
                    let completed = folding.take(&interval);
                    completed.minute.iter().for_each(|minute| history.add_minute(minute));
                    completed.hour.iter().for_each(|hour| history.add(hour, true));
                }
            }
        }
        history.add_unfinished(folding);
        history.bound();
        Ok(history)
    }

    /// The minute and the hour that are not complete.
    fn add_unfinished(&mut self, folding: Folding) {
        let (minute, hour) = folding.unfinished();
        if let Some(hour) = &hour {
            self.add(hour, true);
        }
        if let Some(minute) = &minute {
            self.add_minute(minute);
            let joins =
                hour.is_some_and(|hour| hour.wall_ms.div_euclid(3_600_000) == minute.wall_ms.div_euclid(3_600_000));
            // A few seconds of a new hour are no point of their own to judge by, but they count.
            self.add(minute, !joins);
        }
    }

    fn add(&mut self, fold: &Fold, is_point: bool) {
        if self.last == 0 {
            self.from_ms = fold.wall_ms;
        }
        self.last = self.last.max(fold.last);
        self.to_ms = fold.last_wall_ms();
        self.gaps.extend(&fold.gaps);
        self.clock_steps.extend(&fold.clock_steps);
        for target in self.targets.values_mut() {
            target.open = None;
        }
        for folded in &fold.targets {
            let target = self.targets.entry(folded.target).or_default();
            let mut times = Histogram::new();
            let sum_ns = folded.times.merge_into(&mut times);
            if is_point {
                target.hours.push(Point::of(fold.wall_ms, folded, &times, sum_ns));
            }
            target.times.merge(&times);
            target.times_sum_ns += sum_ns;
            target.counts.add(&folded.counts);
            target.up += folded.up;
            target.down += folded.down;
            target.unknown += folded.unknown;
            target.outages.extend(folded.outages.iter().cloned());
            target.outages_more += folded.outages_more;
            target.open.clone_from(&folded.open);
        }
    }

    fn add_minute(&mut self, minute: &Fold) {
        for folded in &minute.targets {
            let mut times = Histogram::new();
            let sum_ns = folded.times.merge_into(&mut times);
            let minutes = &mut self.targets.entry(folded.target).or_default().minutes;
            minutes.push(Point::of(minute.wall_ms, folded, &times, sum_ns));
            forget_oldest(minutes, MINUTES_MAX);
        }
    }

    fn add_recent(&mut self, interval: &Interval) {
        for probe in &interval.probes {
            let recent = &mut self.targets.entry(probe.target).or_default().recent;
            recent.push(Point::of_probe(interval.wall_ms, probe));
            forget_oldest(recent, RECENT_MAX);
        }
    }

    fn bound(&mut self) {
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

/// At twice the length, so that forgetting costs little.
fn forget_oldest(points: &mut Vec<Point>, length_max: usize) {
    if points.len() >= 2 * length_max {
        keep_last(points, length_max);
    }
}

fn keep_last<T>(list: &mut Vec<T>, length_max: usize) {
    list.drain(..list.len().saturating_sub(length_max));
}

impl Point {
    fn of(wall_ms: i64, folded: &FoldedTarget, times: &Histogram, sum_ns: u64) -> Self {
        let quantiles = times.quantiles(&[0.5, 0.95, 0.99]);
        Self {
            wall_ms,
            up: folded.up,
            down: folded.down,
            elapsed_ns: folded.elapsed_ns,
            counts: folded.counts,
            mean_ns: if times.is_empty() { 0.0 } else { sum_ns as f64 / times.count() as f64 },
            p50_ns: quantiles[0],
            p95_ns: quantiles[1],
            p99_ns: quantiles[2],
            usage: folded.usage,
        }
    }

    /// Of a single interval.
    #[must_use]
    pub fn of_probe(wall_ms: i64, probe: &Probe) -> Self {
        let mut times = Histogram::new();
        let sum_ns = match probe.times {
            // A histogram for one value would cost a hundred times the rest.
            crate::record::Times::One(nanos) => nanos,
            ref times_kept => times_kept.merge_into(&mut times),
        };
        let state = probe.counts.state();
        let folded = FoldedTarget {
            up: u64::from(state == State::Up),
            down: u64::from(state == State::Down),
            elapsed_ns: probe.elapsed_ns,
            counts: probe.counts,
            usage: probe.usage,
            ..FoldedTarget::default()
        };
        let mut point = Self::of(wall_ms, &folded, &times, sum_ns);
        if let crate::record::Times::One(nanos) = probe.times {
            (point.mean_ns, point.p50_ns, point.p95_ns, point.p99_ns) = (nanos as f64, nanos, nanos, nanos);
        }
        point
    }

    /// Share of a processor used; none without resources.
    #[must_use]
    pub fn cpu_share(&self) -> Option<f64> {
        self.usage.filter(|usage| usage.over_ns > 0).map(|usage| usage.cpu_ns as f64 / usage.over_ns as f64)
    }

    /// Requests per second of the measurement.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.counts.ok as f64 / (self.elapsed_ns as f64 / 1e9) }
    }
}

impl TargetHistory {
    /// Share of the known intervals that were up; none if none is known.
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
