//! Samples of the instruments during the trials, reduced to the space that a page has.
//!
//! A long run has millions of samples. They are aggregated into a few bins per trial as they arrive, so the memory of a
//! report depends on the number of trials, not on their length. Samples between trials are dropped.

mod csv;

use std::collections::{BTreeMap, BTreeSet};

use breme_experiment::record::TrialRecord;

/// Limit of the bins of a trial.
pub(crate) const BINS_PER_TRIAL_MAX: usize = 60;
/// Limit of the bins of all trials together, for each instrument of each source.
const BINS_MAX: usize = 40_000;
/// Limit of the sources (processes, and the machine); further ones are counted and dropped.
pub(crate) const SOURCES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstrumentRow<'a> {
    pub trial: u32,
    /// When, on the machine's monotonic clock.
    pub at_ns: u64,
    /// The source: a process of a subject or of the laboratory, or `machine`.
    pub of: &'a str,
    pub instrument: Instrument,
    /// In the instrument's unit.
    pub value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instrument {
    /// CPUs used.
    Cpu,
    /// Resident memory of a process, used memory of a machine; bytes.
    Memory,
    Threads,
    /// Open descriptors.
    Descriptors,
    /// Open descriptors as a share of the limit.
    DescriptorShare,
    /// Context switches per second.
    Switches,
    /// TCP sockets.
    Sockets,
}

impl Instrument {
    pub const ALL: [Self; 7] = [
        Self::Cpu,
        Self::Memory,
        Self::Threads,
        Self::Descriptors,
        Self::DescriptorShare,
        Self::Switches,
        Self::Sockets,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "processors used",
            Self::Memory => "memory",
            Self::Threads => "threads",
            Self::Descriptors => "open descriptors",
            Self::DescriptorShare => "open descriptors, share of the limit",
            Self::Switches => "context switches",
            Self::Sockets => "TCP sockets",
        }
    }

    /// The symbol of a [`breme_expression::Unit`].
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Memory => "B",
            Self::Switches => "/s",
            Self::DescriptorShare => "share",
            Self::Cpu | Self::Threads | Self::Descriptors | Self::Sockets => "",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Instruments {
    /// By trial.
    windows: BTreeMap<u32, TrialWindow>,
    /// Index of each source.
    sources: BTreeMap<String, u16>,
    sources_left_out: BTreeSet<String>,
    bins: BTreeMap<(u32, u16, Instrument), Vec<Bin>>,
    bins_per_trial: usize,
}

#[derive(Clone, Copy, Debug)]
struct TrialWindow {
    start_ns: u64,
    length_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    sum: f64,
    count: u32,
}

/// An instrument of a source during a trial.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InstrumentLine<'a> {
    pub of: &'a str,
    pub instrument: Instrument,
    /// The middle of each bin with samples, in seconds of the load, and their mean.
    pub points: Vec<(f64, f64)>,
}

impl Instruments {
    /// Starts without samples, for these trials.
    #[must_use]
    pub fn new(trials: &[TrialRecord]) -> Self {
        let window = |trial: &TrialRecord| {
            let length_ns = (trial.length_s.clamp(0.0, 1e9) * 1e9) as u64;
            (trial.number, TrialWindow { start_ns: trial.started_monotonic_ns, length_ns })
        };
        let windows: BTreeMap<u32, TrialWindow> = trials.iter().map(window).collect();
        let bins_per_trial = (BINS_MAX / windows.len().max(1)).clamp(4, BINS_PER_TRIAL_MAX);
        Self { windows, bins_per_trial, ..Self::default() }
    }

    /// Adds a sample; one that is not a number or lies in no trial is ignored.
    ///
    /// The instant alone does not identify the trial: a run may continue after a reboot, which restarts the clock. Nor
    /// does the number: an interrupted trial has left samples under the number of the trial that replaced it.
    pub fn add(&mut self, row: &InstrumentRow<'_>) {
        let Some(&window) = self.windows.get(&row.trial) else { return };
        let offset_ns = row.at_ns.checked_sub(window.start_ns).filter(|offset_ns| *offset_ns <= window.length_ns);
        let Some(offset_ns) = offset_ns.filter(|_| row.value.is_finite()) else { return };
        let Some(source) = self.source(row.of) else { return };
        let count = self.bins_per_trial;
        let index = (u128::from(offset_ns) * count as u128 / u128::from(window.length_ns.max(1))) as usize;
        let bins = self.bins.entry((row.trial, source, row.instrument)).or_insert_with(|| vec![Bin::default(); count]);
        let bin = &mut bins[index.min(count - 1)];
        bin.sum += row.value;
        bin.count += 1;
    }

    fn source(&mut self, of: &str) -> Option<u16> {
        if let Some(&source) = self.sources.get(of) {
            return Some(source);
        }
        if self.sources.len() >= SOURCES_MAX {
            if self.sources_left_out.len() < SOURCES_MAX {
                self.sources_left_out.insert(of.to_owned());
            }
            return None;
        }
        let source = self.sources.len() as u16;
        self.sources.insert(of.to_owned(), source);
        Some(source)
    }

    fn forget(&mut self, of: &str) {
        if let Some(&source) = self.sources.get(of) {
            self.bins.retain(|(_, known, _), _| *known != source);
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Whether there were more sources than the limit.
    pub(crate) fn is_truncated(&self) -> bool {
        !self.sources_left_out.is_empty()
    }

    /// Whether there is a sample of this trial.
    pub(crate) fn saw(&self, trial: u32) -> bool {
        self.trial_bins(trial).next().is_some()
    }

    fn trial_bins(&self, trial: u32) -> impl Iterator<Item = (&(u32, u16, Instrument), &Vec<Bin>)> {
        self.bins.range((trial, 0, Instrument::ALL[0])..=(trial, u16::MAX, Instrument::ALL[6]))
    }

    pub(crate) fn line_count(&self) -> usize {
        self.bins.len()
    }

    pub(crate) fn point_count(&self) -> usize {
        self.bins.values().map(|bins| bins.iter().filter(|bin| bin.count > 0).count()).sum()
    }

    /// The lines of a trial; `pooled` neighbouring bins are merged into one point.
    pub(crate) fn lines(&self, trial: u32, pooled: usize) -> Vec<InstrumentLine<'_>> {
        let Some(window) = self.windows.get(&trial) else { return Vec::new() };
        let names: BTreeMap<u16, &str> = self.sources.iter().map(|(name, &source)| (source, name.as_str())).collect();
        let bin_s = window.length_ns as f64 / 1e9 / self.bins_per_trial as f64;
        let line = |(&(_, source, instrument), bins): (&(u32, u16, Instrument), &Vec<Bin>)| InstrumentLine {
            of: names.get(&source).copied().unwrap_or_default(),
            instrument,
            points: points(bins, bin_s, pooled.max(1)),
        };
        self.trial_bins(trial).map(line).collect()
    }
}

fn points(bins: &[Bin], bin_s: f64, pooled: usize) -> Vec<(f64, f64)> {
    let pool = |(index, chunk): (usize, &[Bin])| {
        let count: u32 = chunk.iter().map(|bin| bin.count).sum();
        let sum: f64 = chunk.iter().map(|bin| bin.sum).sum();
        let middle_s = (index * pooled) as f64 * bin_s + chunk.len() as f64 * bin_s / 2.0;
        (count > 0).then(|| (middle_s, sum / f64::from(count)))
    };
    bins.chunks(pooled).enumerate().filter_map(pool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(number: u32, start_s: u64, length_s: f64) -> TrialRecord {
        TrialRecord { number, started_monotonic_ns: start_s * 1_000_000_000, length_s, ..TrialRecord::default() }
    }

    fn sample(trial: u32, at_s: f64, of: &str, value: f64) -> InstrumentRow<'_> {
        InstrumentRow { trial, at_ns: (at_s * 1e9) as u64, of, instrument: Instrument::Cpu, value }
    }

    #[test]
    fn samples_go_to_the_trial_in_which_they_were_taken() {
        let mut instruments = Instruments::new(&[trial(2, 100, 60.0), trial(1, 10, 60.0)]);
        for (trial, at_s, value) in
            [(1, 9.0, 7.0), (1, 10.5, 1.0), (1, 69.5, 3.0), (0, 80.0, 7.0), (2, 100.2, 5.0), (2, 100.4, 6.0)]
        {
            instruments.add(&sample(trial, at_s, "site", value));
        }
        instruments.add(&sample(1, 11.0, "site", f64::NAN));
        instruments.add(&sample(2, 40.0, "site", 7.0)); // of the second trial before it was interrupted
        assert_eq!(instruments.point_count(), 3);
        let first = instruments.lines(1, 1);
        assert_eq!(
            first,
            [InstrumentLine { of: "site", instrument: Instrument::Cpu, points: vec![(0.5, 1.0), (59.5, 3.0)] }]
        );
        assert_eq!(instruments.lines(2, 60)[0].points, [(30.0, 5.5)]);
        assert!(instruments.lines(3, 1).is_empty());
    }

    #[test]
    fn trials_of_two_boots_are_distinguished() {
        let mut instruments = Instruments::new(&[trial(1, 5_000, 60.0), trial(2, 5_010, 60.0)]);
        instruments.add(&sample(1, 5_020.0, "site", 1.0));
        instruments.add(&sample(2, 5_020.0, "site", 2.0));
        let values = [1, 2].map(|trial| instruments.lines(trial, 60)[0].points[0].1);
        assert_eq!(values, [1.0, 2.0]);
    }

    #[test]
    fn the_room_depends_on_the_trials_and_not_on_their_length() {
        let mut instruments = Instruments::new(&[trial(1, 0, 1e6)]);
        (0..100_000).for_each(|second| instruments.add(&sample(1, f64::from(second) * 10.0, "site", 1.0)));
        assert_eq!(instruments.point_count(), BINS_PER_TRIAL_MAX);
        (0..200).for_each(|process| instruments.add(&sample(1, 5.0, &format!("process {process}"), 1.0)));
        assert_eq!(instruments.sources.len(), SOURCES_MAX);
        assert!(instruments.is_truncated());
    }
}
