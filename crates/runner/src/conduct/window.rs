//! The warm-up of a trial, the part that counts, and the measurements of each.
//!
//! The generator writes a histogram per short interval. Its log is read twice, one interval at a time, so that a trial
//! of a week needs no more memory than one of a second: first to find the end of the warm-up, then to merge the
//! histograms before and after it.

use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_experiment::record::{Steady, SteadyState};
use breme_experiment::trial::WarmUp;
use breme_load_result::Row;
use breme_stats::Histogram;
use breme_stats::log::{Interval, ReadError, Reader};
use breme_stats::steady_state::{SeriesChange, Steadiness, SteadyPart, find_steady};
use thiserror::Error;

/// Buckets of the series in which the steady part is searched. More would only be slower: the search uses means of
/// them.
const BUCKETS_MAX: usize = 250;
/// Responses per bucket from which its mean is meaningful.
const BUCKET_ANSWERS_MIN: u64 = 10;

const RESPONSE: &str = "response";
const SERVICE: &str = "service";
const CONNECT: &str = "connect";

/// A log that cannot be read.
#[derive(Debug, Error)]
pub(super) enum LogError {
    #[error("{path}: {source}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: ReadError },
}

/// The measurements of a trial.
#[derive(Debug)]
pub(super) struct TrialMeasurements {
    pub(super) steady: Steady,
    pub(super) counted: PartMeasurements,
    /// The part before it, if its end was found in the series.
    pub(super) warm_up: Option<PartMeasurements>,
}

/// The measurements of a part of a trial.
#[derive(Debug)]
pub(super) struct PartMeasurements {
    pub(super) length_s: f64,
    pub(super) answered: u64,
    pub(super) errors: u64,
    pub(super) received_bytes: u64,
    /// Mean time for which a response waited for the generator.
    pub(super) held_mean_ns: f64,
    /// The maximum of that time.
    pub(super) held_max_ns: u64,
    pub(super) response: Histogram,
    pub(super) service: Histogram,
    pub(super) connect: Histogram,
}

/// Facts about a trial that are known before its log is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    /// The generator's rows: starts of intervals, and responses in each.
    pub(super) rows: &'a [Row],
    /// The end of the part that counts: the duration, or the last response.
    pub(super) end_s: f64,
    pub(super) warm_up: WarmUp,
    /// The load changes on purpose (stages, a ramp), so it has no steady state.
    pub(super) is_changing: bool,
    /// Faults are injected: the changes they cause do not invalidate the measurement.
    pub(super) has_faults: bool,
    /// The rate follows a schedule, so it does not describe the subject.
    pub(super) is_open: bool,
}

pub(super) fn read(log: &Path, trial: Trial<'_>) -> Result<TrialMeasurements, LogError> {
    let mut series = Vec::new();
    each_interval(log, &[RESPONSE], |interval| series.push(Bucket::from_interval(&interval)))?;
    series.retain(|bucket| bucket.start_s < trial.end_s);
    let mut steady = steady_part(&series, trial);
    steady.from_s = beginning_of_row(trial.rows, steady.from_s);
    let [mut before, mut after] =
        [0.0..steady.from_s, steady.from_s..trial.end_s].map(|part| PartMeasurements::from_rows(trial.rows, part));
    each_interval(log, &[RESPONSE, SERVICE, CONNECT], |interval| {
        let part = if interval.start.as_secs_f64() < steady.from_s - EPSILON_S { &mut before } else { &mut after };
        let times = match interval.tag.as_deref() {
            Some(RESPONSE) => &mut part.response,
            Some(CONNECT) => &mut part.connect,
            _ => &mut part.service,
        };
        times.merge(&interval.histogram);
    })?;
    let is_found = steady.from_s > 0.0 && trial.warm_up == WarmUp::Found;
    Ok(TrialMeasurements { steady, counted: after, warm_up: is_found.then_some(before) })
}

impl PartMeasurements {
    /// The rows that begin in this part, without any times yet.
    fn from_rows(rows: &[Row], part: Range<f64>) -> Self {
        let is_in = |row: &&Row| part.contains(&(row.start_s + EPSILON_S));
        let rows = || rows.iter().filter(is_in);
        let sum = |of: fn(&Row) -> u64| rows().map(of).sum::<u64>();
        let answered = sum(|row| row.answered);
        let held_ns: f64 = rows().map(|row| row.held_mean_ns * row.answered as f64).sum();
        Self {
            length_s: (part.end - part.start).max(0.0),
            answered,
            errors: sum(|row| row.errors),
            received_bytes: sum(|row| row.received_bytes),
            held_mean_ns: held_ns / answered.max(1) as f64,
            held_max_ns: rows().map(|row| row.held_max_ns).max().unwrap_or(0),
            response: Histogram::new(),
            service: Histogram::new(),
            connect: Histogram::new(),
        }
    }
}

/// The log is in milliseconds, the rows are finer.
const EPSILON_S: f64 = 0.000_6;

fn each_interval(log: &Path, tags: &'static [&'static str], mut handle: impl FnMut(Interval)) -> Result<(), LogError> {
    let path = || log.to_owned();
    let file = File::open(log).map_err(|source| LogError::Open { path: path(), source })?;
    for interval in Reader::new(BufReader::new(file)).only(tags) {
        handle(interval.map_err(|source| LogError::Read { path: path(), source })?);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    start_s: f64,
    length_s: f64,
    count: u64,
    sum_ns: f64,
}

impl Bucket {
    fn from_interval(interval: &Interval) -> Self {
        let count = interval.histogram.count();
        Self {
            start_s: interval.start.as_secs_f64(),
            length_s: interval.length.as_secs_f64(),
            count,
            sum_ns: interval.histogram.mean() * count as f64,
        }
    }

    fn with(self, next: &Self) -> Self {
        Self {
            length_s: self.length_s + next.length_s,
            count: self.count + next.count,
            sum_ns: self.sum_ns + next.sum_ns,
            ..self
        }
    }
}

fn steady_part(series: &[Bucket], trial: Trial<'_>) -> Steady {
    if trial.is_changing {
        return Steady {
            state: SteadyState::NotChecked,
            remark: Some("the load changes by design".to_owned()),
            ..Steady::default()
        };
    }
    match trial.warm_up {
        WarmUp::Fixed(length) if trial.has_faults => Steady {
            state: SteadyState::NotChecked,
            from_s: length.as_secs_f64().min(trial.end_s),
            ..Steady::default()
        },
        WarmUp::None => Steady { state: SteadyState::NotChecked, ..Steady::default() },
        WarmUp::Found => found(series, trial.is_open),
        WarmUp::Fixed(length) => fixed(series, trial, length),
    }
}

/// A configured warm-up is cut off, and the rest is checked.
fn fixed(series: &[Bucket], trial: Trial<'_>, length: Duration) -> Steady {
    let from_s = length.as_secs_f64();
    if from_s >= trial.end_s {
        let remark =
            format!("the warm-up of {from_s} s is as long as the trial ({:.3} s); all of it counts", trial.end_s);
        return Steady { state: SteadyState::TooShort, remark: Some(remark), ..Steady::default() };
    }
    let rest: Vec<Bucket> = series.iter().filter(|bucket| bucket.start_s >= from_s).copied().collect();
    let found = found(&rest, trial.is_open);
    match found.state {
        SteadyState::Flat => Steady { state: SteadyState::AfterWarmUp, from_s, ..found },
        SteadyState::AfterWarmUp => {
            let remark = "it was still warming up at the end of the configured warm-up".to_owned();
            Steady { remark: Some(remark), from_s, ..found }
        }
        _ => Steady { from_s, ..found },
    }
}

/// Finds where the warm-up of both the rate and the times ends, and whether they are steady from there on.
fn found(series: &[Bucket], is_open: bool) -> Steady {
    let buckets = bucketed(series);
    let times: Vec<f64> = buckets.iter().map(|bucket| bucket.sum_ns / bucket.count.max(1) as f64).collect();
    let rates: Vec<f64> = buckets.iter().map(|bucket| bucket.count as f64 / bucket.length_s).collect();
    let of_times = find_steady(&times);
    let mut parts = vec![("the response time", of_times)];
    if !is_open {
        parts.push(("the rate", find_steady(&rates)));
    }
    let is = |steadiness| parts.iter().find(|(_, part)| part.steadiness == steadiness);
    let from = parts.iter().map(|(_, part)| part.from).max().unwrap_or(0);
    let (state, remark) = if let Some((what, part)) = is(Steadiness::NeverSteady) {
        (SteadyState::NeverSteady, Some(unrest(what, part, &buckets)))
    } else if is(Steadiness::TooShort).is_some() {
        (SteadyState::TooShort, None)
    } else if is(Steadiness::AfterWarmUp).is_some() {
        (SteadyState::AfterWarmUp, None)
    } else {
        (SteadyState::Flat, None)
    };
    let from_s = buckets.get(from).map_or(0.0, |bucket| bucket.start_s);
    Steady { state, remark, from_s, end_change: of_times.change.and_then(|change| end_change(change, buckets.len())) }
}

/// The relative change of a series of `count` values towards its end.
fn end_change(change: SeriesChange, count: usize) -> Option<f64> {
    match change {
        SeriesChange::Level { to, share, .. } => (to == count).then_some(share),
        SeriesChange::Drift { share } => Some(share),
    }
}

/// Describes how a series is not steady.
fn unrest(what: &str, part: &SteadyPart, buckets: &[Bucket]) -> String {
    let second = |index: usize| buckets.get(index).or(buckets.last()).map_or(0.0, |bucket| bucket.start_s);
    match part.change {
        Some(SeriesChange::Level { from, to, share }) => {
            let (from, to) = (second(from), second(to));
            format!("{what} changed by {:+.0} % between {from:.1} and {to:.1} s", share * 100.0)
        }
        Some(SeriesChange::Drift { share }) => {
            format!("{what} drifted by {:+.0} % from {:.1} s to the end", share * 100.0, second(part.from))
        }
        None => format!("{what} was not steady"),
    }
}

/// Merges into few enough buckets with enough responses each. The last one is omitted if it is incomplete.
fn bucketed(series: &[Bucket]) -> Vec<Bucket> {
    let answers: u64 = series.iter().map(|bucket| bucket.count).sum();
    let buckets_max = usize::try_from(answers / BUCKET_ANSWERS_MIN).unwrap_or(usize::MAX).clamp(1, BUCKETS_MAX);
    let per_bucket = series.len().div_ceil(buckets_max).max(1);
    let whole = series.chunks_exact(per_bucket);
    let merged =
        whole.filter_map(|chunk| chunk.iter().skip(1).fold(chunk.first().copied(), |sum, next| Some(sum?.with(next))));
    let mut buckets: Vec<Bucket> = merged.collect();
    let is_cut = |last: &Bucket, first: &Bucket| last.length_s < 0.9 * first.length_s;
    if buckets.len() > 1 && is_cut(&buckets[buckets.len() - 1], &buckets[0]) {
        buckets.pop();
    }
    buckets
}

/// The first row that begins at `from_s` or later, so that rows and intervals are cut at the same place.
fn beginning_of_row(rows: &[Row], from_s: f64) -> f64 {
    rows.iter().map(|row| row.start_s).find(|&start| start >= from_s - EPSILON_S).unwrap_or(from_s)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    /// A trial of 100 ms intervals; each has `count` responses after `millis`.
    fn written(intervals: &[(u64, u64)]) -> (tempfile::TempDir, PathBuf, Vec<Row>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("user.hlog");
        let row = |tag: &str, index: usize, millis: u64, count: u64| {
            let mut histogram = Histogram::new();
            // Some spread, or every difference would be significant.
            (0..count).for_each(|answer| {
                histogram.record(millis * 1_000_000 + (answer * 7919 + index as u64 * 104_729) % 200_000);
            });
            Interval { tag: Some(tag.to_owned()), start: STEP * index as u32, length: STEP, histogram }
        };
        let lines = intervals.iter().enumerate().flat_map(|(index, &(millis, count))| {
            [row(SERVICE, index, millis, count), row(RESPONSE, index, millis, count), row(CONNECT, index, millis, 1)]
        });
        breme_stats::log::write(&mut File::create(&path).unwrap(), SystemTime::UNIX_EPOCH, lines).unwrap();
        let rows = intervals.iter().enumerate().map(|(index, &(_, answered))| Row {
            start_s: index as f64 / 10.0,
            length_s: 0.1,
            answered,
            errors: 1,
            received_bytes: answered * 100,
            ..Row::default()
        });
        (folder, path, rows.collect())
    }

    fn trial(rows: &[Row], warm_up: WarmUp) -> Trial<'_> {
        Trial { rows, end_s: rows.len() as f64 / 10.0, warm_up, is_changing: false, has_faults: false, is_open: false }
    }

    #[test]
    fn a_warm_up_is_kept_apart_and_the_rest_counts_to_the_last_answer() {
        let mut intervals = vec![(20, 20); 15];
        intervals.extend(vec![(2, 100); 85]);
        let (_folder, path, rows) = written(&intervals);
        let measured = read(&path, trial(&rows, WarmUp::Found)).unwrap();
        let (steady, counted, warm_up) = (measured.steady, measured.counted, measured.warm_up.unwrap());
        assert_eq!(steady.state, SteadyState::AfterWarmUp, "{steady:?}");
        assert!((1.5..2.5).contains(&steady.from_s), "{steady:?}");
        assert_eq!((counted.answered, warm_up.answered), (counted.response.count(), warm_up.service.count()));
        assert_eq!(counted.answered + warm_up.answered, 15 * 20 + 85 * 100);
        assert_eq!((counted.received_bytes, warm_up.received_bytes), (counted.answered * 100, warm_up.answered * 100));
        assert_eq!((counted.errors + warm_up.errors, warm_up.errors), (100, (steady.from_s * 10.0).round() as u64));
        assert!(counted.response.max() < 3_000_000 && warm_up.response.max() > 19_000_000);
        assert!((warm_up.length_s - steady.from_s).abs() < 1e-9);
        assert!((counted.length_s - (10.0 - steady.from_s)).abs() < 1e-9);
    }

    #[test]
    fn a_trial_that_is_not_steady_counts_from_its_warm_up_to_its_end() {
        let mut intervals = vec![(20, 20); 15];
        intervals.extend(vec![(2, 100); 55]);
        intervals.extend(vec![(3, 66); 30]);
        let (_folder, path, rows) = written(&intervals);
        let measured = read(&path, trial(&rows, WarmUp::Found)).unwrap();
        assert_eq!(measured.steady.state, SteadyState::NeverSteady, "{:?}", measured.steady);
        assert!((1.5..2.5).contains(&measured.steady.from_s), "{:?}", measured.steady);
        assert!(measured.counted.response.max() < 4_000_000 && measured.counted.response.count() > 7_000);
        assert!(measured.steady.end_change.is_some_and(|share| (0.2..0.6).contains(&share)), "{:?}", measured.steady);
        // Slower for a while in the middle, then as before.
        let middle: Vec<(u64, u64)> = (0..100).map(|index| if index / 30 == 1 { (3, 66) } else { (2, 100) }).collect();
        let (_folder, path, rows) = written(&middle);
        let measured = read(&path, trial(&rows, WarmUp::Found)).unwrap();
        assert_eq!((measured.steady.state, measured.steady.end_change), (SteadyState::NeverSteady, None));
        assert_eq!((measured.steady.from_s, measured.counted.answered), (0.0, 70 * 100 + 30 * 66));
        assert!(measured.warm_up.is_none());
    }

    #[test]
    fn a_given_warm_up_is_cut_off_at_the_beginning_of_a_row() {
        let (_folder, path, rows) = written(&vec![(2, 50); 100]);
        let measured = read(&path, trial(&rows, WarmUp::Fixed(Duration::from_millis(1_950)))).unwrap();
        assert!((measured.steady.from_s - 2.0).abs() < 1e-9 && measured.warm_up.is_none());
        let counted = &measured.counted;
        assert_eq!((counted.answered, counted.service.count(), counted.connect.count()), (4_000, 4_000, 80));
        let measured = read(&path, trial(&rows, WarmUp::Fixed(Duration::from_secs(60)))).unwrap();
        assert_eq!((measured.steady.state, measured.counted.answered), (SteadyState::TooShort, 5_000));
    }

    #[test]
    fn a_trial_with_faults_is_cut_and_not_checked() {
        let intervals: Vec<(u64, u64)> =
            (0..100).map(|index| if index / 30 == 1 { (90, 3) } else { (2, 50) }).collect();
        let (_folder, path, rows) = written(&intervals);
        let warm_up = WarmUp::Fixed(Duration::from_secs(2));
        let measured = read(&path, Trial { has_faults: true, ..trial(&rows, warm_up) }).unwrap();
        assert_eq!((measured.steady.state, measured.steady.remark), (SteadyState::NotChecked, None));
        assert_eq!(measured.counted.answered, 10 * 50 + 30 * 3 + 40 * 50);
    }

    #[test]
    fn responses_after_the_end_do_not_count_for_the_rate() {
        let (_folder, path, rows) = written(&vec![(2, 50); 100]);
        let counted = read(&path, Trial { end_s: 9.0, ..trial(&rows, WarmUp::None) }).unwrap().counted;
        assert_eq!((counted.answered, counted.response.count()), (4_500, 5_000));
    }

    #[test]
    fn a_few_answers_are_taken_as_they_are() {
        let (_folder, path, rows) = written(&[(2, 3), (2, 4)]);
        let measured = read(&path, trial(&rows, WarmUp::Found)).unwrap();
        assert_eq!((measured.steady.state, measured.counted.answered), (SteadyState::TooShort, 7));
    }
}
