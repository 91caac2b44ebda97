//! Daily and weekly cycles.
//!
//! Each hour is compared with the median of its own day, which removes changes from day to day. If the hour does not
//! matter, a day rotated by any number of hours is as likely as the day itself; rotation keeps the correlation of
//! neighbouring hours. The same holds for the days of a week. Deviations are clipped at three standard deviations
//! (estimated from the median deviation), to limit the influence of a few outliers.

use std::collections::BTreeMap;

use breme_base::Random;
use breme_stats::hodges_lehmann;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::batch_means::median;
use super::finding::{EFFECT_MIN, Effect, Hypothesis, Metric, Ratio, TestResult};
use crate::history::Point;

const ROTATIONS: usize = 1_999;
const SEED: u64 = 0xda11;
/// Fewest days with at least [`HOURS_OF_DAY_MIN`] hours.
const DAYS_MIN: usize = 4;
const HOURS_OF_DAY_MIN: usize = 18;
/// Fewest weeks with at least [`DAYS_OF_WEEK_MIN`] days: four have 343 different rotations.
const WEEKS_MIN: usize = 4;
const DAYS_OF_WEEK_MIN: usize = 6;
/// Limit of the days or weeks tested; the latest are used.
const PERIODS_MAX: usize = 400;

/// A day of hours, or a week of days.
type Period = Vec<Option<f64>>;

pub(super) fn hours(points: &[Point], zone: &TimeZone) -> TestResult {
    let mut days: BTreeMap<i64, Vec<Vec<f64>>> = BTreeMap::new();
    for point in points {
        let Some(((day, hour, _), value)) = local(middle(point), zone).zip(Metric::Median.value(point)) else {
            continue;
        };
        // On the day on which daylight-saving time ends, an hour occurs twice.
        days.entry(day).or_insert_with(|| vec![Vec::new(); 24])[usize::from(hour)].push(value.ln());
    }
    let outcome = judge(days, HOURS_OF_DAY_MIN, DAYS_MIN, "fewer than four days");
    TestResult { hypothesis: Hypothesis::HourOfDay, outcome }
}

pub(super) fn days(points: &[Point], zone: &TimeZone) -> TestResult {
    let mut weeks: BTreeMap<i64, Vec<Vec<f64>>> = BTreeMap::new();
    for point in points {
        let Some(((day, _, weekday), value)) = local(middle(point), zone).zip(Metric::Median.value(point)) else {
            continue;
        };
        let week = weeks.entry(day - i64::from(weekday)).or_insert_with(|| vec![Vec::new(); 7]);
        week[usize::from(weekday)].push(value.ln());
    }
    let outcome = judge(weeks, DAYS_OF_WEEK_MIN, WEEKS_MIN, "fewer than four weeks");
    TestResult { hypothesis: Hypothesis::DayOfWeek, outcome }
}

/// An interval of an hour may begin within another local hour.
fn middle(point: &Point) -> i64 {
    const HALF_AN_HOUR_MS: i64 = 1_800_000;
    point.wall_ms.div_euclid(2 * HALF_AN_HOUR_MS) * 2 * HALF_AN_HOUR_MS + HALF_AN_HOUR_MS
}

fn judge(
    periods: BTreeMap<i64, Vec<Vec<f64>>>,
    filled_min: usize,
    periods_min: usize,
    too_few: &'static str,
) -> Result<(f64, Option<Effect>), &'static str> {
    let mut periods: Vec<Period> = periods
        .into_values()
        .map(|places| places.into_iter().map(|mut values| Some(median(&mut values)).filter(|m| !m.is_nan())).collect())
        .filter(|places: &Period| places.iter().flatten().count() >= filled_min)
        .collect();
    periods.drain(..periods.len().saturating_sub(PERIODS_MAX));
    if periods.len() < periods_min {
        return Err(too_few);
    }
    for period in &mut periods {
        let middle = median(&mut period.iter().flatten().copied().collect::<Vec<_>>());
        period.iter_mut().flatten().for_each(|value| *value -= middle);
    }
    let mut sizes: Vec<f64> = periods.iter().flatten().flatten().map(|value| value.abs()).collect();
    // A normal distribution's standard deviation is 1.48 median deviations.
    let bound = 3.0 * 1.48 * median(&mut sizes);
    let uncut = periods.clone();
    periods.iter_mut().flatten().flatten().for_each(|value| *value = value.clamp(-bound, bound));
    let length = periods[0].len();
    let unrotated = vec![0; periods.len()];
    let seen = largest(&periods, &unrotated);
    let mut random = Random::new(SEED);
    let mut sizes: Vec<f64> = (0..ROTATIONS)
        .map(|_| {
            let rotations: Vec<usize> = periods.iter().map(|_| random.below(length as u64) as usize).collect();
            largest(&periods, &rotations)
        })
        .collect();
    let larger = sizes.iter().filter(|&&size| size >= seen).count();
    sizes.sort_by(f64::total_cmp);
    let threshold = sizes[ROTATIONS * 95 / 100];
    let differing = (0..length).filter(|&place| mean(&at(&periods, &unrotated, place)).abs() >= threshold);
    let differing: Vec<(u8, Ratio)> = differing.filter_map(|place| deviation(&uncut, &unrotated, place)).collect();
    let effect = (!differing.is_empty()).then_some(Effect::Periodic(differing));
    Ok(((larger + 1) as f64 / (ROTATIONS + 1) as f64, effect))
}

fn at(periods: &[Period], rotations: &[usize], place: usize) -> Vec<f64> {
    let value = |(period, rotation): (&Period, &usize)| period[(place + rotation) % period.len()];
    periods.iter().zip(rotations).filter_map(value).collect()
}

/// Largest mean of a place over all periods.
fn largest(periods: &[Period], rotations: &[usize]) -> f64 {
    (0..periods[0].len()).map(|place| mean(&at(periods, rotations, place)).abs()).fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Factor by which a position differs; none if it is too small to report.
fn deviation(periods: &[Period], unrotated: &[usize], place: usize) -> Option<(u8, Ratio)> {
    let estimate = hodges_lehmann(&at(periods, unrotated, place), 0.95)?;
    let ratio = Ratio { center: estimate.center.exp(), low: estimate.low.exp(), high: estimate.high.exp() };
    (estimate.center.abs() >= (1.0 + EFFECT_MIN).ln()).then_some((u8::try_from(place).ok()?, ratio))
}

/// Local day (as a number), hour and day of the week (0 = Monday).
fn local(wall_ms: i64, zone: &TimeZone) -> Option<(i64, u8, u8)> {
    let local = Timestamp::from_millisecond(wall_ms).ok()?.to_zoned(zone.clone());
    let day = local.date().duration_since(jiff::civil::date(1970, 1, 1)).as_secs().div_euclid(86_400);
    let weekday = u8::try_from(local.weekday().to_monday_zero_offset()).ok()?;
    Some((day, u8::try_from(local.hour()).ok()?, weekday))
}
