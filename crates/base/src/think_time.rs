//! Think times: the pause of a user between a response and the next request.

use std::time::Duration;

use thiserror::Error;

use crate::{QuantityError, Random, nanos, parse_duration};

/// An exponential think time is truncated at this many times its mean, as in TPC-C (5.2.5.4) and TPC-W.
const EXPONENTIAL_MAX: u32 = 10;
/// The keyword of a constant think time.
const CONSTANT: &str = "constant";

/// The distribution of a think time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkTime {
    /// Exponential with this mean, truncated at ten times the mean: users served at the same time drift apart.
    Exponential(Duration),
    /// Uniform between these two, inclusive.
    Uniform(Duration, Duration),
    /// Constant: users served at the same time send at the same time.
    Constant(Duration),
}

/// A text that is no think time; the message has the expected form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ThinkTimeError {
    #[error(transparent)]
    Duration(#[from] QuantityError),
    #[error("{0:?} is not a think time; write 1s (exponential), 1s..3s (uniform) or 1s,constant")]
    Distribution(String),
    #[error("{0:?} is reversed; write the shorter time first")]
    Reversed(String),
}

impl ThinkTime {
    /// Parses `1s` (exponential with this mean), `1s..3s` (uniform) or `1s,constant`.
    ///
    /// # Errors
    /// An unknown distribution, or times that are none or reversed.
    pub fn parse(text: &str) -> Result<Self, ThinkTimeError> {
        if let Some((mean, distribution)) = text.split_once(',') {
            if distribution.trim() != CONSTANT {
                return Err(ThinkTimeError::Distribution(text.to_owned()));
            }
            return Ok(Self::Constant(parse_duration(mean.trim())?));
        }
        let Some((min, max)) = text.split_once("..") else { return Ok(Self::Exponential(parse_duration(text)?)) };
        let (min, max) = (parse_duration(min)?, parse_duration(max)?);
        if min > max {
            return Err(ThinkTimeError::Reversed(text.to_owned()));
        }
        Ok(Self::Uniform(min, max))
    }

    #[must_use]
    pub fn mean(self) -> Duration {
        match self {
            Self::Exponential(mean) | Self::Constant(mean) => mean,
            Self::Uniform(min, max) => min.saturating_add(max) / 2,
        }
    }

    /// Whether it is always zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        match self {
            Self::Exponential(longest) | Self::Uniform(_, longest) | Self::Constant(longest) => longest.is_zero(),
        }
    }

    #[must_use]
    pub const fn distribution(self) -> &'static str {
        match self {
            Self::Exponential(_) => "exponential",
            Self::Uniform(..) => "uniform",
            Self::Constant(_) => CONSTANT,
        }
    }

    pub fn draw(self, random: &mut Random) -> Duration {
        match self {
            Self::Exponential(mean) => {
                let times = -(1.0 - random.unit()).ln();
                mean.saturating_mul(EXPONENTIAL_MAX).min(saturating_mul(mean, times))
            }
            Self::Uniform(min, max) => Duration::from_nanos(random.between(nanos(min), nanos(max))),
            Self::Constant(time) => time,
        }
    }

    /// The rest of a think time at a random instant within it: for the first request of a user who exists before the
    /// run.
    pub fn draw_rest(self, random: &mut Random) -> Duration {
        match self {
            Self::Exponential(_) => self.draw(random), // it has no memory
            Self::Uniform(..) | Self::Constant(_) => {
                let whole = self.draw(random);
                saturating_mul(whole, random.unit())
            }
        }
    }
}

fn saturating_mul(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn parses_distributions() {
        assert_eq!(ThinkTime::parse("1ms"), Ok(ThinkTime::Exponential(MILLISECOND)));
        assert_eq!(ThinkTime::parse("1ms, constant"), Ok(ThinkTime::Constant(MILLISECOND)));
        let range = ThinkTime::parse("1ms..2s").unwrap();
        assert_eq!(range, ThinkTime::Uniform(MILLISECOND, Duration::from_secs(2)));
        assert_eq!(range.mean(), Duration::from_micros(1_000_500));
        assert!(ThinkTime::parse("2s..1ms").unwrap_err().to_string().contains("the shorter time first"));
        assert!(ThinkTime::parse("1s,pareto").unwrap_err().to_string().contains("1s,constant"));
        assert!(ThinkTime::parse("1s..x").is_err() && ThinkTime::parse("soon").is_err());
        assert!(ThinkTime::parse("0s").unwrap().is_zero() && !ThinkTime::parse("0s..1s").unwrap().is_zero());
    }

    /// Mean and coefficient of variation.
    fn moments(draw: impl FnMut() -> Duration) -> (f64, f64) {
        const COUNT: usize = 200_000;
        let drawn: Vec<f64> = std::iter::repeat_with(draw).take(COUNT).map(|time| time.as_secs_f64()).collect();
        let mean = drawn.iter().sum::<f64>() / COUNT as f64;
        let variance = drawn.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / COUNT as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn draws_match_mean_and_spread() {
        let mut random = Random::new(1);
        let second = Duration::from_secs(1);
        let is_near = |(mean, spread): (f64, f64), expected: (f64, f64)| {
            assert!((mean - expected.0).abs() < 0.01 && (spread - expected.1).abs() < 0.01, "{mean} {spread}");
        };
        is_near(moments(|| ThinkTime::Exponential(second).draw(&mut random)), (1.0, 1.0));
        is_near(moments(|| ThinkTime::Uniform(Duration::ZERO, 2 * second).draw(&mut random)), (1.0, 0.577));
        is_near(moments(|| ThinkTime::Constant(second).draw(&mut random)), (1.0, 0.0));
        is_near(moments(|| ThinkTime::Constant(second).draw_rest(&mut random)), (0.5, 0.577));
        is_near(moments(|| ThinkTime::Exponential(second).draw_rest(&mut random)), (1.0, 1.0));
    }

    #[test]
    fn exponential_times_are_truncated() {
        let mut random = Random::new(2);
        let longest = (0..1_000_000).map(|_| ThinkTime::Exponential(MILLISECOND).draw(&mut random)).max().unwrap();
        assert_eq!(longest, 10 * MILLISECOND, "of a million, 45 would be longer");
        let endless = ThinkTime::Exponential(Duration::MAX);
        assert!((0..100).all(|_| endless.draw(&mut random) > Duration::ZERO));
    }
}
