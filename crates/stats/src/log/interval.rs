//! Intervals, the elements of a log.

use std::time::Duration;

use crate::Histogram;

#[derive(Clone, Debug)]
pub struct Interval {
    /// The measured quantity (`service`, `first-byte`); none for a file with only one.
    pub tag: Option<String>,
    /// Relative to the log's start time.
    pub start: Duration,
    pub length: Duration,
    pub histogram: Histogram,
}
