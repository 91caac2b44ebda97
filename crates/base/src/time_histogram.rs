//! Histograms of times for metrics.

use std::time::Duration;

use crate::{Count, PerShard, nanos};

/// Upper bounds of the buckets of a histogram of times, in nanoseconds; the last bucket is unbounded.
pub const TIME_BOUNDS_NS: [u64; 16] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

const BUCKETS: usize = TIME_BOUNDS_NS.len() + 1;

/// Times in buckets with the bounds [`TIME_BOUNDS_NS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeHistogram {
    counts: [u64; BUCKETS],
    sum: Duration,
}

impl TimeHistogram {
    pub fn record(&mut self, time: Duration) {
        self.counts[bucket(nanos(time))] += 1;
        self.sum += time;
    }

    /// The upper bound of each bucket in seconds, the last one infinite, and the number of times in it (not
    /// cumulative).
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        TIME_BOUNDS_NS.iter().map(|&bound| bound as f64 / 1e9).chain([f64::INFINITY]).zip(self.counts)
    }

    /// The number of all times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }
}

/// The histogram of a shard, its only writer.
#[derive(Debug, Default)]
pub struct TimeCounts {
    counts: [Count; BUCKETS],
    nanos: Count,
}

impl TimeCounts {
    #[inline]
    pub fn record(&self, time: Duration) {
        let nanos = nanos(time);
        self.counts[bucket(nanos)].add();
        self.nanos.add_many(nanos);
    }
}

impl<T> PerShard<T> {
    pub fn sum_times(&self, of: impl Fn(&T) -> &TimeCounts) -> TimeHistogram {
        TimeHistogram {
            counts: std::array::from_fn(|bucket| self.sum(|shard| of(shard).counts[bucket].load())),
            sum: Duration::from_nanos(self.sum(|shard| of(shard).nanos.load())),
        }
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    TIME_BOUNDS_NS.iter().position(|&bound| nanos <= bound).unwrap_or(TIME_BOUNDS_NS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        let (shards, mut histogram) = (PerShard::<TimeCounts>::default(), TimeHistogram::default());
        for nanos in [0, 100_000, 100_001, 500_000, 500_001, 10_000_000_000, 10_000_000_001] {
            histogram.record(Duration::from_nanos(nanos));
            shards.add_shard().record(Duration::from_nanos(nanos));
        }
        let filled: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.0001, 2), (0.00025, 1), (0.0005, 1), (0.001, 1), (10.0, 1), (f64::INFINITY, 1)]);
        assert_eq!(histogram.sum(), Duration::from_nanos(20_001_200_003));
        assert_eq!(shards.sum_times(|shard| shard), histogram);
    }
}
