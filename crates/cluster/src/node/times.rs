//! Durations of a node's operations.

use std::time::Duration;

/// Upper bounds of a histogram's buckets; the last bucket has none.
pub const BOUNDS: [Duration; 15] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(10),
];

/// Durations counted in buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Counts of each bucket alone (not cumulative).
    pub counts: [u64; BOUNDS.len() + 1],
    pub sum: Duration,
}

impl Histogram {
    pub(super) fn record(&mut self, duration: Duration) {
        self.counts[BOUNDS.partition_point(|bound| *bound < duration)] += 1;
        self.sum += duration;
    }
}

/// Durations since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting of requests for their turns, or for the session itself.
    pub turn: Histogram,
    /// Holding of responses until they are confirmed.
    pub hold: Histogram,
    /// Compare-and-sets of sessions by the engine.
    pub commit: Histogram,
}

/// Requests by what they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Waiting for their turns.
    pub waiting: usize,
    pub running: usize,
    /// Finished, with their responses held.
    pub held: usize,
    pub forwarded: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_in_its_bucket() {
        let mut histogram = Histogram::default();
        for micros in [0, 100, 101, 2_500, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let mut expected = [0; 16];
        (expected[0], expected[1], expected[4], expected[14], expected[15]) = (2, 1, 1, 1, 1);
        assert_eq!(histogram.counts, expected);
        assert_eq!(histogram.sum, Duration::from_micros(20_002_702));
    }
}
