//! Findings: effects in a history, each with its evidence.
//!
//! | hypothesis | test |
//! |---|---|
//! | the hour of the day matters | `cycles`: largest mean deviation of an hour from its day's median, against randomly rotated days |
//! | the day of the week matters | the same for weekdays and weeks, from four weeks on |
//! | the level changed | `levels`: largest cumulative sum of ranks, against permuted blocks |
//! | a metric grows | `trend`: robust regression with a daily cycle and autocorrelated errors |
//!
//! Response times of neighbouring hours are correlated, whatever the time of day; a test that assumes independence
//! finds an effect in every week. So nothing here permutes single hours: days are rotated as a whole; levels are tested
//! on blocks long enough that neighbours are no longer correlated, and trends with the correlation as a parameter. The
//! tests of a target are corrected together (Holm), so that a target without any effect shows one in at most
//! [`FALSE_ALARM`] of cases.

mod blocks;
mod cycles;
mod levels;
mod trend;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::history::{Point, TargetHistory};

pub use levels::LevelChange;
pub use trend::Trend;

/// Probability of any finding on a target without an effect.
pub const FALSE_ALARM: f64 = 0.04;
/// Smallest effect on response times that is reported.
pub const EFFECT_MIN: f64 = 0.05;
/// Smallest growth over the whole time that is reported.
pub const GROWTH_MIN: f64 = 0.03;
/// Time span from which hours (minutes) are tested instead of minutes (intervals).
const HOURS_FROM_MS: i64 = 3 * DAY_MS;
const MINUTES_FROM_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Mean response time.
    Mean,
    /// Median response time.
    Median,
    /// 99th percentile of the response time.
    Tail,
    /// Resident memory.
    Memory,
    /// Open descriptors.
    Descriptors,
}

impl Metric {
    /// Name in sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean response time",
            Self::Median => "median response time",
            Self::Tail => "99th percentile of the response time",
            Self::Memory => "memory",
            Self::Descriptors => "number of open descriptors",
        }
    }

    /// Key in JSON.
    const fn key(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Tail => "p99",
            Self::Memory => "memory",
            Self::Descriptors => "descriptors",
        }
    }

    /// None if it was not measured.
    fn value(self, point: &Point) -> Option<f64> {
        let value = match self {
            Self::Mean => point.mean_ns,
            Self::Median => point.p50_ns as f64,
            Self::Tail => point.p99_ns as f64,
            Self::Memory => point.usage?.memory_bytes as f64,
            Self::Descriptors => point.usage?.descriptors as f64,
        };
        (value > 0.0).then_some(value)
    }
}

/// An effect that is tested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypothesis {
    HourOfDay,
    DayOfWeek,
    /// The level changed.
    Change(Metric),
    /// The metric grows.
    Growth(Metric),
}

impl Hypothesis {
    /// Share of [`FALSE_ALARM`], relative to the others. Leaks must be found within a week, and take the longest to
    /// detect.
    const fn weight(self) -> f64 {
        match self {
            Self::Growth(Metric::Memory) => 8.0,
            _ => 1.0,
        }
    }

    /// Keys in JSON of the effect and of the metric.
    #[must_use]
    pub const fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::HourOfDay => ("hour-of-day", Metric::Median.key()),
            Self::DayOfWeek => ("day-of-week", Metric::Median.key()),
            Self::Change(metric) => ("change", metric.key()),
            Self::Growth(metric) => ("growth", metric.key()),
        }
    }
}

/// An effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Hours (0–23) or weekdays (0 = Monday) that differ from the others, and by what factor.
    Periodic(Vec<(u8, Ratio)>),
    Change(LevelChange),
    Trend(Trend),
}

/// A factor with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub center: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Found(Effect),
    /// No effect, or one too small to matter.
    NotFound,
    /// The data do not allow the test; the reason.
    NotTested(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub hypothesis: Hypothesis,
    pub verdict: Verdict,
    /// p-value, corrected for the number of tests; none if not tested.
    pub p: Option<f64>,
}

/// A test before the correction for the number of tests.
struct TestResult {
    hypothesis: Hypothesis,
    outcome: Result<(f64, Option<Effect>), &'static str>,
}

#[must_use]
pub fn find(target: &TargetHistory, zone: &TimeZone) -> Vec<Finding> {
    let points = resolution(target);
    let series = |metric: Metric| -> Vec<(f64, f64)> {
        points.iter().filter_map(|point| Some((point.wall_ms as f64, metric.value(point)?.ln()))).collect()
    };
    let mut results = vec![cycles::hours(&target.hours, zone), cycles::days(&target.hours, zone)];
    for metric in [Metric::Mean, Metric::Tail] {
        results.push(levels::change(metric, &series(metric)));
    }
    for metric in [Metric::Median, Metric::Memory, Metric::Descriptors] {
        results.push(trend::growth(metric, &series(metric)));
    }
    correct(results)
}

/// The coarsest resolution with enough points.
fn resolution(target: &TargetHistory) -> &[Point] {
    let span = |points: &[Point]| match (points.first(), points.last()) {
        (Some(first), Some(last)) => last.wall_ms.saturating_sub(first.wall_ms),
        _ => 0,
    };
    if span(&target.hours) >= HOURS_FROM_MS || (target.minutes.is_empty() && target.recent.is_empty()) {
        &target.hours
    } else if span(&target.minutes) >= MINUTES_FROM_MS || target.recent.is_empty() {
        &target.minutes
    } else {
        &target.recent
    }
}

/// Holm's step-down correction with weights: the smallest p-value by weight is compared with its share of
/// [`FALSE_ALARM`] first.
fn correct(results: Vec<TestResult>) -> Vec<Finding> {
    let mut order: Vec<(f64, usize)> = results
        .iter()
        .enumerate()
        .filter_map(|(index, result)| Some((result.outcome.as_ref().ok()?.0 / result.hypothesis.weight(), index)))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut weight: f64 = order.iter().map(|(_, index)| results[*index].hypothesis.weight()).sum();
    let mut corrected = vec![None; results.len()];
    let mut largest: f64 = 0.0;
    for (weighted, index) in order {
        largest = largest.max((weighted * weight).min(1.0));
        corrected[index] = Some(largest);
        weight -= results[index].hypothesis.weight();
    }
    let finding = |(TestResult { hypothesis, outcome }, p): (TestResult, Option<f64>)| match outcome {
        Err(why) => Finding { hypothesis, verdict: Verdict::NotTested(why), p: None },
        Ok((_, effect)) => {
            let is_significant = p.is_some_and(|p| p <= FALSE_ALARM);
            let verdict = effect.filter(|_| is_significant).map_or(Verdict::NotFound, Verdict::Found);
            Finding { hypothesis, verdict, p }
        }
    };
    results.into_iter().zip(corrected).map(finding).collect()
}

/// Local day (as a number), hour and day of the week (0 = Monday).
fn local(wall_ms: i64, zone: &TimeZone) -> Option<(i64, u8, u8)> {
    let local = Timestamp::from_millisecond(wall_ms).ok()?.to_zoned(zone.clone());
    let day = local.date().duration_since(jiff::civil::date(1970, 1, 1)).as_secs().div_euclid(86_400);
    let weekday = u8::try_from(local.weekday().to_monday_zero_offset()).ok()?;
    Some((day, u8::try_from(local.hour()).ok()?, weekday))
}

fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd { upper } else { f64::midpoint(below.iter().copied().fold(f64::NEG_INFINITY, f64::max), upper) }
}
