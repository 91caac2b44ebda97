//! The rate of an open loop over time, and its textual forms: `20k`, `600/1m`, `10s:500`, `poisson`.

use std::time::Duration;

use breme_base::{QuantityError, parse_duration, split_suffix};
use thiserror::Error;

pub(crate) const STAGE_COUNT_MAX: usize = 1_000;
pub(crate) const RATE_MAX: f64 = 1e8;

/// The rate of a load over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Arrivals per second at the start.
    pub rate: f64,
    /// Later changes of the rate; after the last stage it is constant.
    pub stages: Vec<PaceStage>,
    pub arrivals: Arrivals,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaceStage {
    pub duration: Duration,
    /// The rate at its end, per second.
    pub rate: f64,
    pub shape: Shape,
}

/// How the rate changes within a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Linearly from the rate before.
    Ramp,
    /// At once.
    Step,
}

/// The distribution of arrivals at a given rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Even,
    /// Independent of each other, as those of many people.
    Poisson,
}

/// A text that is no rate; the message has the expected form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a rate; write a number per second (100, 0.5, 20k), or per another time (600/1m)")]
pub struct RateError(String);

/// A text that is no stage; the message has the expected form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StageError {
    #[error(
        "{0:?} is not a stage; write TIME:RATE for a linear change to RATE, as in 10s:500, or TIME@RATE for a constant rate, as in 1m@500"
    )]
    Form(String),
    #[error(transparent)]
    Duration(#[from] QuantityError),
    #[error(transparent)]
    Rate(#[from] RateError),
}

/// Parses a rate in arrivals per second: `100`, `0.5`, `20k`, or per another time: `50/1s`, `600/1m`.
///
/// # Errors
/// [`RateError`]
pub fn parse_rate(text: &str) -> Result<f64, RateError> {
    let fault = || RateError(text.to_owned());
    let (count, per) = match text.split_once('/') {
        Some((count, "s")) => (count, 1.0),
        Some((count, per)) => {
            let per = parse_duration(per).ok().filter(|per| !per.is_zero()).ok_or_else(fault)?;
            (count, per.as_secs_f64())
        }
        None => (text, 1.0),
    };
    let (number, unit) = split_suffix(count);
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        _ => return Err(fault()),
    };
    Ok(number.parse::<f64>().map_err(|_| fault())? * factor / per)
}

impl PaceStage {
    /// Parses a stage: `10s:500` is a ramp to 500 per second, `1m@500` that rate for the whole stage.
    ///
    /// # Errors
    /// If it has neither form, or its time or rate is none.
    pub fn parse(text: &str) -> Result<Self, StageError> {
        let (place, shape) = match (text.find(':'), text.find('@')) {
            (Some(place), None) => (place, Shape::Ramp),
            (None, Some(place)) => (place, Shape::Step),
            _ => return Err(StageError::Form(text.to_owned())),
        };
        Ok(Self { duration: parse_duration(&text[..place])?, rate: parse_rate(&text[place + 1..])?, shape })
    }
}

impl Arrivals {
    pub const NAMES: [&'static str; 2] = [Self::Even.name(), Self::Poisson.name()];

    /// The name in flags, files and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Poisson => "poisson",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Even, Self::Poisson].into_iter().find(|arrivals| arrivals.name() == name)
    }
}

impl Pace {
    #[must_use]
    pub const fn constant(rate: f64, arrivals: Arrivals) -> Self {
        Self { rate, stages: Vec::new(), arrivals }
    }

    /// The rate at this time from the start, per second.
    #[must_use]
    pub fn rate_at(&self, elapsed: Duration) -> f64 {
        let mut rate = self.rate;
        let mut since = elapsed;
        for stage in &self.stages {
            if since < stage.duration {
                return match stage.shape {
                    Shape::Step => stage.rate,
                    Shape::Ramp => rate + (stage.rate - rate) * since.div_duration_f64(stage.duration),
                };
            }
            since -= stage.duration;
            rate = stage.rate;
        }
        rate
    }

    #[must_use]
    pub fn peak_rate(&self) -> f64 {
        self.stages.iter().map(|stage| stage.rate).fold(self.rate, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let parsed = ["100", "0.5", "20k", "7/s"].map(parse_rate);
        assert_eq!(parsed, [Ok(100.0), Ok(0.5), Ok(20_000.0), Ok(7.0)]);
        assert_eq!(["50/1s", "600/1m", "2k/s"].map(parse_rate), [Ok(50.0), Ok(10.0), Ok(2_000.0)]);
        for wrong in ["1/", "1/0s", "/s", "-1", "x", "1e3", ""] {
            assert!(parse_rate(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn stages() {
        let expected = PaceStage { duration: Duration::from_secs(10), rate: 1_000.0, shape: Shape::Ramp };
        assert_eq!(PaceStage::parse("10s:1k"), Ok(expected));
        assert_eq!(PaceStage::parse("10@1k"), Ok(PaceStage { shape: Shape::Step, ..expected }));
        let problem = |text: &str| PaceStage::parse(text).unwrap_err().to_string();
        assert!(problem("10s").contains("TIME:RATE") && problem("1:2@3").contains("TIME:RATE"));
        assert!(problem("x:1").contains("not a duration") && problem("1s:x").contains("not a rate"));
    }

    #[test]
    fn the_rate_follows_the_stages() {
        let stages = ["10s:100", "5s@20", "0s:7"].map(|text| PaceStage::parse(text).unwrap()).to_vec();
        let pace = Pace { rate: 50.0, stages, arrivals: Arrivals::Even };
        let rates = [0, 5, 10, 14, 15, 99].map(|second| pace.rate_at(Duration::from_secs(second)));
        assert_eq!(rates, [50.0, 75.0, 20.0, 20.0, 7.0, 7.0]);
    }

    #[test]
    fn arrivals_are_read_as_they_are_written() {
        for name in Arrivals::NAMES {
            assert_eq!(Arrivals::from_name(name).map(Arrivals::name), Some(name));
        }
        assert_eq!(Arrivals::from_name("poison"), None);
    }
}
