//! Times to think.

use std::time::Duration;

use breme_base::{Random, nanos, parse_duration};

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
        Duration::from_nanos(random.between(nanos(self.min), nanos(self.max)))
    }
}
