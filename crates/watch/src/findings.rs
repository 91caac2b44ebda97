//! What a history shows: not curves, but what they mean, each with its evidence.
//!
//! | question | test |
//! |---|---|
//! | does the hour of the day matter? | `daily`: the largest median deviation of an hour from its day's median, against days that are rotated at random |
//! | does the day of the week matter? | `weekly`: the same for days and weeks, from four weeks on |
//! | did the level change? | `change`: largest cumulative sum of ranks, against permuted blocks |
//! | does something grow? | `trend`: Mann–Kendall and Theil–Sen, against permuted blocks |
//!
//! Response times of neighbouring hours are alike, whatever the time of day; a test that takes them for independent
//! finds something in every week. So nothing here permutes single hours: days are rotated as a whole, and levels and
//! trends are judged on the levels of blocks, which are made longer until neighbours are no longer alike; where that
//! leaves too few, nothing is judged, and the finding says so. The tests of a target are judged together (Holm), so
//! that a target without any effect shows one in at most [`FALSE_ALARM`] of cases.

mod blocks;
mod daily;
mod levels;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::history::{Point, TargetHistory};

pub use levels::{Change, Trend};

/// How often a target without any effect may show one.
pub const FALSE_ALARM: f64 = 0.03;
/// Smaller effects on response times are not reported, however sure they are.
pub const EFFECT_MIN: f64 = 0.05;
/// The same for the growth over the whole time.
pub const GROWTH_MIN: f64 = 0.03;
/// From this span on, hours are judged; from an hour on minutes, and below that intervals.
const HOURS_FROM_MS: i64 = 3 * DAY_MS;
const MINUTES_FROM_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * 3_600_000;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
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

impl Measure {
    /// For sentences.
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

    /// None where it was not measured.
    fn of(self, point: &Point) -> Option<f64> {
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

/// A question to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Hour of the day.
    HourOfDay,
    /// Day of the week.
    DayOfWeek,
    /// Change of level.
    Change(Measure),
    /// Growth.
    Growth(Measure),
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Hours (0–23) or days (0 = Monday) that differ from the others: by what factor, with an interval of 95 %.
    Periodic(Vec<(u8, Ratio)>),
    /// The level changed.
    Change(Change),
    /// It grows or shrinks.
    Trend(Trend),
}

/// A factor with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The factor.
    pub center: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// There is an effect.
    Found(Effect),
    /// None that could be told from chance, or none that matters.
    NotFound,
    /// It cannot be judged, and why.
    NotJudged(&'static str),
}

/// A question, its answer and the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The question.
    pub question: Question,
    /// The answer.
    pub answer: Answer,
    /// How likely an effect so large is by chance; corrected for the number of questions. None if not judged.
    pub p: Option<f64>,
}

/// Effects before they are judged together.
struct Candidate {
    question: Question,
    outcome: Result<(f64, Option<Effect>), &'static str>,
}

/// The findings of a target.
#[must_use]
pub fn of(target: &TargetHistory, zone: &TimeZone) -> Vec<Finding> {
    let points = resolution(target);
    let series = |measure: Measure| -> Vec<(f64, f64)> {
        points.iter().filter_map(|point| Some((point.wall_ms as f64, measure.of(point)?.ln()))).collect()
    };
    let mut candidates = vec![daily::hours(&target.hours, zone), daily::days(&target.hours, zone)];
    for measure in [Measure::Mean, Measure::Tail] {
        candidates.push(levels::change(measure, &series(measure)));
    }
    for measure in [Measure::Median, Measure::Memory, Measure::Descriptors] {
        candidates.push(levels::trend(measure, &series(measure)));
    }
    judge(candidates)
}

/// Hours, minutes or intervals: whatever gives enough of them.
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

fn judge(candidates: Vec<Candidate>) -> Vec<Finding> {
    let judged: Vec<f64> = candidates.iter().filter_map(|one| one.outcome.as_ref().ok().map(|(p, _)| *p)).collect();
    let mut corrected = breme_stats::holm(&judged).into_iter();
    let finding = |Candidate { question, outcome }: Candidate| match outcome {
        Err(why) => Finding { question, answer: Answer::NotJudged(why), p: None },
        Ok((_, effect)) => {
            let p = corrected.next();
            let is_sure = p.is_some_and(|p| p <= FALSE_ALARM);
            let answer = effect.filter(|_| is_sure).map_or(Answer::NotFound, Answer::Found);
            Finding { question, answer, p }
        }
    };
    candidates.into_iter().map(finding).collect()
}

/// Local day (as a number), hour and day of the week (0 = Monday).
fn local(wall_ms: i64, zone: &TimeZone) -> Option<(i64, u8, u8)> {
    let local = Timestamp::from_millisecond(wall_ms).ok()?.to_zoned(zone.clone());
    let day = local.date().duration_since(jiff::civil::date(1970, 1, 1)).as_secs().div_euclid(86_400);
    let weekday = u8::try_from(local.weekday().to_monday_zero_offset()).ok()?;
    Some((day, u8::try_from(local.hour()).ok()?, weekday))
}

/// Middle of a list.
fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd { upper } else { f64::midpoint(below.iter().copied().fold(f64::NEG_INFINITY, f64::max), upper) }
}
