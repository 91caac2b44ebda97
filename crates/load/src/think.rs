//! Times to think, and durations as people write them.

use std::time::Duration;

use breme_base::Random;

/// A think time: drawn evenly from a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl Think {
    /// The middle of the range.
    #[must_use]
    pub fn mean(self) -> Duration {
        (self.min + self.max) / 2
    }

    /// Reads a time to think: `100ms`, or a range `50ms..200ms`.
    ///
    /// # Errors
    /// With a sentence that says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let think = Self { min: parse_duration(min)?, max: parse_duration(max)? };
        if think.min > think.max {
            return Err(format!("{text:?} is reversed; write the shorter time first"));
        }
        Ok(think)
    }

    /// A time from the range.
    pub(crate) fn draw(self, random: &mut Random) -> Duration {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(random.between(nanos(self.min), nanos(self.max)))
    }
}

/// Reads a duration: `500ms`, `10s`, `3m`, `1h`, `2d`; a bare number is seconds.
///
/// # Errors
/// With a sentence that says what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 7] =
        [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let fault = || format!("{text:?} is no duration; write 500ms, 10s, 3m, 1h, or a number of seconds");
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "" => 1.0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fault)?.1,
    };
    let value: f64 = number.parse().map_err(|_| fault())?;
    Duration::try_from_secs_f64(value * factor).map_err(|_| fault())
}
