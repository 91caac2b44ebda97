//! Hypotheses, effects and findings.

use std::time::Duration;

use crate::history::Point;

/// Smallest effect on response times that is reported.
pub const EFFECT_MIN: f64 = 0.05;
/// Smallest growth over the whole time that is reported.
pub const GROWTH_MIN: f64 = 0.03;

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
    pub(super) fn value(self, point: &Point) -> Option<f64> {
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
    /// Share of [`FALSE_ALARM`](super::FALSE_ALARM), relative to the others. Leaks must be found within a week, and
    /// take the longest to detect.
    pub(super) const fn weight(self) -> f64 {
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// The level after it, divided by that before it, with a 95 % interval.
    pub ratio: Ratio,
}

/// Period of a growth that lasted at least that long.
pub const DAY: Duration = Duration::from_hours(24);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Factor per period, with its 95 % interval.
    pub ratio: Ratio,
    /// [`DAY`], or the whole time if that is shorter.
    pub period: Duration,
    /// Factor over the whole time.
    pub total: f64,
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
pub(super) struct TestResult {
    pub(super) hypothesis: Hypothesis,
    pub(super) outcome: Result<(f64, Option<Effect>), &'static str>,
}
