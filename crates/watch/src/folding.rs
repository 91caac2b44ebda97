//! Intervals into minutes, minutes into hours, as they come.
//!
//! A fold ends when the wall clock shows another minute (hour), in whichever direction; so a clock that is set makes
//! one more fold, and no interval belongs to two.

use std::collections::BTreeMap;

use breme_stats::Histogram;

use crate::record::{
    CAUSE_BYTES_MAX, ClockStep, Fold, FoldedTarget, GAPS_PER_FOLD_MAX, Gap, Interval, OUTAGES_PER_FOLD_MAX, OpenOutage,
    Outage, Probe, State, Times, Usage,
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// Folds that are complete.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    pub minute: Option<Fold>,
    pub hour: Option<Fold>,
}

/// The minute and the hour that are not complete, and the outages that last.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    minute: Option<Building>,
    hour: Option<Building>,
    open: BTreeMap<u32, OpenOutage>,
}

/// A fold to which is added.
#[derive(Debug)]
struct Building {
    fold: Fold,
    /// In the order of the fold's targets.
    histograms: Vec<Histogram>,
    sums: Vec<u64>,
}

impl Folding {
    /// Continues after what the journal has folded: `hour` is its last hour.
    pub(crate) fn after_hour(&mut self, hour: &Fold) {
        self.continue_from(hour);
    }

    /// Takes a minute that the journal has, and that no hour of it has; an hour that is complete by that.
    pub(crate) fn take_minute(&mut self, minute: &Fold) -> Option<Fold> {
        self.continue_from(minute);
        self.add_to_hour(minute)
    }

    fn continue_from(&mut self, fold: &Fold) {
        let open = fold.targets.iter().filter_map(|target| Some((target.target, target.open.clone()?)));
        self.open = open.collect();
    }

    /// Takes an interval.
    pub(crate) fn take(&mut self, interval: &Interval) -> Completed {
        let mut completed = Completed::default();
        if let Some(minute) = self.minute.take_if(|minute| !minute.has_same(interval.wall_ms, MINUTE_MS)) {
            let minute = minute.finish(&self.open);
            completed.hour = self.add_to_hour(&minute);
            completed.minute = Some(minute);
        }
        let minute = self.minute.get_or_insert_with(|| Building::new(interval.number, interval.wall_ms));
        minute.add(interval, &mut self.open);
        completed
    }

    fn add_to_hour(&mut self, minute: &Fold) -> Option<Fold> {
        // An outage that lasts is part of the state at the end of the hour's last minute.
        let completed = self.hour.take_if(|hour| !hour.has_same(minute.wall_ms, HOUR_MS)).map(Building::into_fold);
        self.hour.get_or_insert_with(|| Building::new(minute.first, minute.wall_ms)).add_fold(minute);
        completed
    }

    /// What is not complete, as if it were: the minute, and the hour without that minute.
    pub(crate) fn unfinished(self) -> (Option<Fold>, Option<Fold>) {
        let Self { minute, hour, open } = self;
        (minute.map(|minute| minute.finish(&open)), hour.map(Building::into_fold))
    }
}

impl Building {
    fn new(first: u64, wall_ms: i64) -> Self {
        Self { fold: Fold { first, wall_ms, ..Fold::default() }, histograms: Vec::new(), sums: Vec::new() }
    }

    fn has_same(&self, wall_ms: i64, unit_ms: i64) -> bool {
        self.fold.wall_ms.div_euclid(unit_ms) == wall_ms.div_euclid(unit_ms)
    }

    fn place(&mut self, target: u32) -> usize {
        let known = self.fold.targets.iter().position(|one| one.target == target);
        known.unwrap_or_else(|| {
            self.fold.targets.push(FoldedTarget { target, ..FoldedTarget::default() });
            self.histograms.push(Histogram::new());
            self.sums.push(0);
            self.fold.targets.len() - 1
        })
    }

    fn add(&mut self, interval: &Interval, open: &mut BTreeMap<u32, OpenOutage>) {
        let fold = &mut self.fold;
        (fold.last, fold.length_ms) = (interval.number, interval.wall_ms - fold.wall_ms);
        (fold.last_boot_ms, fold.boot) = (interval.boot_ms, interval.boot);
        if interval.gap_ms > 0 && fold.gaps.len() < GAPS_PER_FOLD_MAX {
            fold.gaps.push(Gap { until_ms: interval.wall_ms, length_ms: interval.gap_ms });
        }
        if interval.clock_step_ms != 0 && fold.clock_steps.len() < GAPS_PER_FOLD_MAX {
            fold.clock_steps.push(ClockStep { at_ms: interval.wall_ms, step_ms: interval.clock_step_ms });
        }
        if interval.gap_ms > 0 {
            let closed: Vec<(u32, Outage)> =
                std::mem::take(open).into_iter().map(|(target, open)| (target, open.cut())).collect();
            closed.into_iter().for_each(|(target, outage)| self.push_outage(target, outage));
        }
        for probe in &interval.probes {
            self.add_probe(probe, interval, open);
        }
    }

    fn add_probe(&mut self, probe: &Probe, interval: &Interval, open: &mut BTreeMap<u32, OpenOutage>) {
        let place = self.place(probe.target);
        let state = probe.counts.state();
        let target = &mut self.fold.targets[place];
        match state {
            State::Up => target.up += 1,
            State::Down => target.down += 1,
            State::Unknown => target.unknown += 1,
        }
        target.elapsed_ns += probe.elapsed_ns;
        target.counts.add(&probe.counts);
        if let Some(usage) = &probe.usage {
            add_usage(target, usage, 1);
        }
        self.sums[place] += probe.times.merge_into(&mut self.histograms[place]);
        if let Some(outage) = follow(open, probe, state, interval) {
            self.push_outage(probe.target, outage);
        }
    }

    fn push_outage(&mut self, target: u32, outage: Outage) {
        let place = self.place(target);
        let target = &mut self.fold.targets[place];
        if target.outages.len() < OUTAGES_PER_FOLD_MAX {
            target.outages.push(outage);
        } else {
            target.outages_more += 1;
        }
    }

    fn add_fold(&mut self, other: &Fold) {
        let fold = &mut self.fold;
        (fold.last, fold.length_ms) = (other.last, other.last_wall_ms() - fold.wall_ms);
        (fold.last_boot_ms, fold.boot) = (other.last_boot_ms, other.boot);
        let room = |known: usize| GAPS_PER_FOLD_MAX.saturating_sub(known);
        fold.gaps.extend(other.gaps.iter().take(room(fold.gaps.len())));
        fold.clock_steps.extend(other.clock_steps.iter().take(room(fold.clock_steps.len())));
        fold.targets.iter_mut().for_each(|target| target.open = None);
        for from in &other.targets {
            let place = self.place(from.target);
            self.sums[place] += from.times.merge_into(&mut self.histograms[place]);
            let target = &mut self.fold.targets[place];
            target.up += from.up;
            target.down += from.down;
            target.unknown += from.unknown;
            target.elapsed_ns += from.elapsed_ns;
            target.counts.add(&from.counts);
            if let Some(usage) = &from.usage {
                add_usage(target, usage, from.usages);
            }
            let room = OUTAGES_PER_FOLD_MAX.saturating_sub(target.outages.len());
            target.outages.extend(from.outages.iter().take(room).cloned());
            target.outages_more += from.outages_more + from.outages.len().saturating_sub(room) as u64;
            target.open.clone_from(&from.open);
        }
    }

    fn finish(mut self, open: &BTreeMap<u32, OpenOutage>) -> Fold {
        for (target, open) in open {
            let place = self.place(*target);
            self.fold.targets[place].open = Some(open.clone());
        }
        self.into_fold()
    }

    fn into_fold(mut self) -> Fold {
        for ((target, histogram), sum) in self.fold.targets.iter_mut().zip(&self.histograms).zip(self.sums) {
            target.times = match Times::of(histogram) {
                Times::Many(text, _) => Times::Many(text, sum),
                times => times,
            };
        }
        self.fold
    }
}

/// Weighted by the number of intervals.
fn add_usage(target: &mut FoldedTarget, usage: &Usage, intervals: u64) {
    let known = target.usage.unwrap_or_default();
    let (before, more) = (target.usages, intervals.max(1));
    let mean = |a: f64, b: f64| (a * before as f64 + b * more as f64) / (before + more) as f64;
    let rounded = |a: u64, b: u64| mean(a as f64, b as f64).round() as u64;
    target.usage = Some(Usage {
        cpu_ns: known.cpu_ns + usage.cpu_ns,
        over_ns: known.over_ns + usage.over_ns,
        memory_bytes: rounded(known.memory_bytes, usage.memory_bytes),
        threads: rounded(known.threads, usage.threads),
        descriptors: rounded(known.descriptors, usage.descriptors),
        // Six digits are enough, and shorter.
        descriptors_share: (mean(known.descriptors_share, usage.descriptors_share) * 1e6).round() / 1e6,
    });
    target.usages = before + more;
}

/// Follows a target from interval to interval; an outage that is over. An interval of which nothing is known neither
/// ends an outage nor begins one.
fn follow(open: &mut BTreeMap<u32, OpenOutage>, probe: &Probe, state: State, interval: &Interval) -> Option<Outage> {
    match state {
        State::Unknown => None,
        State::Up => {
            let open = open.remove(&probe.target)?;
            let length_ms = interval.boot_ms.saturating_sub(open.from_boot_ms);
            Some(Outage {
                from_ms: open.from_ms,
                length_ms,
                intervals: open.intervals,
                cause: open.cause,
                has_end: true,
            })
        }
        State::Down => {
            let begun = || OpenOutage {
                from_ms: interval.wall_ms,
                from_boot_ms: interval.boot_ms,
                last_boot_ms: interval.boot_ms,
                intervals: 0,
                cause: cause(probe),
            };
            let open = open.entry(probe.target).or_insert_with(begun);
            open.last_boot_ms = interval.boot_ms;
            open.intervals += 1;
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

impl OpenOutage {
    /// Nothing is known from its latest interval on.
    #[must_use]
    pub fn cut(self) -> Outage {
        Outage {
            from_ms: self.from_ms,
            length_ms: self.last_boot_ms.saturating_sub(self.from_boot_ms),
            intervals: self.intervals,
            cause: self.cause,
            has_end: false,
        }
    }
}
