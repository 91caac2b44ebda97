//! Findings: effects in a history, each with its evidence.
//!
//! | hypothesis | test |
//! |---|---|
//! | the hour of the day matters | `cycles`: largest mean deviation of an hour from its day's median, against randomly rotated days |
//! | the day of the week matters | the same for weekdays and weeks, from four weeks on |
//! | the level changed | `change_point`: largest cumulative sum of ranks, against permuted blocks |
//! | a metric grows | `growth`: robust regression with a daily cycle and autocorrelated errors |
//!
//! Response times of neighbouring hours are correlated, whatever the time of day; a test that assumes independence
//! finds an effect in every week. So nothing here permutes single hours: days are rotated as a whole; levels are tested
//! on blocks long enough that neighbours are hardly correlated, with an allowance for the rest, and trends with the
//! correlation as a parameter. The tests of a target are corrected together (Holm), so that a target without any effect
//! shows one in at most [`FALSE_ALARM`] of cases.

mod batch_means;
mod change_point;
mod cycles;
mod finding;
mod growth;

use jiff::tz::TimeZone;

use crate::history::{Point, TargetHistory};

use finding::TestResult;
pub use finding::{
    DAY, EFFECT_MIN, Effect, Finding, GROWTH_MIN, Hypothesis, LevelChange, Metric, Ratio, Trend, Verdict,
};

/// Probability of any finding on a target without an effect.
pub const FALSE_ALARM: f64 = 0.04;
/// Time span from which hours (minutes) are tested instead of minutes (intervals).
const HOURS_FROM_MS: i64 = 3 * DAY_MS;
const MINUTES_FROM_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * 3_600_000;

#[must_use]
pub fn find(target: &TargetHistory, zone: &TimeZone) -> Vec<Finding> {
    let points = resolution(target);
    let series = |metric: Metric| -> Vec<(f64, f64)> {
        points.iter().filter_map(|point| Some((point.wall_ms as f64, metric.value(point)?.ln()))).collect()
    };
    let mut results = vec![cycles::hours(&target.hours, zone), cycles::days(&target.hours, zone)];
    for metric in [Metric::Mean, Metric::Tail] {
        results.push(change_point::change(metric, &series(metric)));
    }
    for metric in [Metric::Median, Metric::Memory, Metric::Descriptors] {
        results.push(growth::growth(metric, &series(metric)));
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
