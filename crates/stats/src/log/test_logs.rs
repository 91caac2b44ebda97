//! Logs for the tests of writing and of reading.

use std::time::{Duration, SystemTime};

use super::{Interval, write};
use crate::Histogram;

pub fn interval(second: u64, tag: Option<&str>, samples: &[u64]) -> Interval {
    let mut histogram = Histogram::new();
    samples.iter().for_each(|&sample| histogram.record(sample));
    Interval {
        tag: tag.map(str::to_owned),
        start: Duration::from_secs(second),
        length: Duration::from_secs(1),
        histogram,
    }
}

pub fn written(intervals: Vec<Interval>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250), intervals).unwrap();
    out
}
