//! What a log is made of.

use std::time::Duration;

use crate::Histogram;

/// The samples of one interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// What is measured (`service`, `first-byte`); none for a file with one thing in it.
    pub tag: Option<String>,
    /// When the interval began, counted from the log's start time.
    pub start: Duration,
    /// How long it was.
    pub length: Duration,
    /// Its samples.
    pub histogram: Histogram,
}
