//! Histograms of times with three significant digits.
//!
//! A sample costs an index and an increment, whatever its size, and a week of samples takes as much memory as a minute.
//! The counters have 64 bits and the bounds are fixed, so the size is fixed too (about 270 kB): two histograms merge by
//! plain addition, and none grows during a measurement. One without samples takes no memory.

use std::fmt;
use std::sync::LazyLock;

use hdrhistogram::Histogram as Counts;

/// The longest time that is distinguished: one hour. Longer ones are recorded as this value and counted separately.
pub const TIME_NS_MAX: u64 = 3_600_000_000_000;
/// A time of 0 is recorded as 1 ns.
const TIME_NS_MIN: u64 = 1;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Initial counts; copying them is faster than creating them.
#[expect(clippy::expect_used, reason = "three constants that the structure accepts")]
static EMPTY: LazyLock<Counts<u64>> =
    LazyLock::new(|| Counts::new_with_bounds(TIME_NS_MIN, TIME_NS_MAX, SIGNIFICANT_DIGITS).expect("constant bounds"));

/// A histogram of times in nanoseconds.
#[derive(Clone, Default)]
pub struct Histogram {
    /// None before the first sample.
    counts: Option<Counts<u64>>,
    /// Exact, so that the mean does not depend on the buckets.
    sum: u128,
    saturated: u64,
}

impl Histogram {
    #[must_use]
    pub const fn new() -> Self {
        Self { counts: None, sum: 0, saturated: 0 }
    }

    #[inline]
    pub fn record(&mut self, nanos: u64) {
        let known = nanos.clamp(TIME_NS_MIN, TIME_NS_MAX);
        self.recording().saturating_record(known);
        self.sum += u128::from(nanos);
        self.saturated += u64::from(nanos > TIME_NS_MAX);
    }

    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other.clone(); // half the work of adding
            return;
        }
        let added = self.recording().add(other.counts());
        debug_assert!(added.is_ok(), "all histograms have the same bounds");
        self.sum += other.sum;
        self.saturated += other.saturated;
    }

    /// Removes all samples but keeps the memory.
    pub fn clear(&mut self) {
        if let Some(counts) = &mut self.counts
            && !counts.is_empty()
        {
            counts.reset();
        }
        (self.sum, self.saturated) = (0, 0);
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.as_ref().is_none_or(Counts::is_empty)
    }

    /// Number of samples longer than [`TIME_NS_MAX`].
    #[must_use]
    pub const fn saturated(&self) -> u64 {
        self.saturated
    }

    /// The exact sum of all samples.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The shortest sample, with three digits; 0 if there is none.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.counts().min() }
    }

    /// The longest sample, rounded up to three digits; 0 if there is none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.counts().max()
    }

    /// The exact mean, independent of the buckets.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// The standard deviation of the samples.
    #[must_use]
    pub fn stdev(&self) -> f64 {
        self.counts().stdev()
    }

    /// The time not exceeded by the fraction `quantile` (0 to 1) of the samples: the smallest recorded time whose
    /// cumulative count reaches `ceil(quantile × count)`, rounded up to three digits. 0 if there is no sample.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.counts().value_at_quantile(quantile).min(self.max())
    }

    /// Several quantiles in one pass: a hundred cost as much as two calls of [`Self::quantile`]. They must be
    /// ascending.
    #[must_use]
    pub fn quantiles(&self, ascending: &[f64]) -> Vec<u64> {
        let counts = self.counts();
        let rank = |quantile: f64| ((quantile.clamp(0.0, 1.0) * counts.len() as f64).ceil() as u64).max(1);
        let mut steps = counts.iter_recorded();
        let (mut seen, mut value) = (0, 0);
        let mut at = |quantile: &f64| {
            while seen < rank(*quantile) {
                let Some(step) = steps.next() else { break };
                seen += step.count_since_last_iteration();
                value = step.value_iterated_to();
            }
            value.min(self.max())
        };
        ascending.iter().map(&mut at).collect()
    }

    /// Number of samples from `low` to `high`, inclusive, to three digits.
    #[must_use]
    pub fn count_between(&self, low: u64, high: u64) -> u64 {
        if low > high { 0 } else { self.counts().count_between(low, high.min(TIME_NS_MAX)) }
    }

    /// For each of these times, the number of samples that are at most as long, to three digits, in one pass. The times
    /// must be ascending.
    #[must_use]
    pub fn counts_within(&self, ascending: &[u64]) -> Vec<u64> {
        let counts = self.counts();
        let mut steps = counts.iter_recorded().peekable();
        let mut seen = 0;
        let mut within = |nanos: &u64| {
            let highest = counts.highest_equivalent(*nanos);
            while let Some(step) = steps.next_if(|step| step.value_iterated_to() <= highest) {
                seen += step.count_since_last_iteration();
            }
            seen
        };
        ascending.iter().map(&mut within).collect()
    }

    /// For the writers of files.
    pub(crate) fn counts(&self) -> &Counts<u64> {
        self.counts.as_ref().unwrap_or(&EMPTY)
    }

    #[inline]
    fn recording(&mut self) -> &mut Counts<u64> {
        self.counts.get_or_insert_with(|| EMPTY.clone())
    }

    /// Restores it from a file, which does not contain the exact sum: that of the buckets replaces it.
    pub(crate) fn from_counts(counts: &Counts<u64>) -> Self {
        let mut histogram = Self::new();
        for step in counts.iter_recorded() {
            let value = step.value_iterated_to();
            let known = value.clamp(TIME_NS_MIN, TIME_NS_MAX);
            histogram.recording().saturating_record_n(known, step.count_at_value());
            histogram.sum += u128::from(counts.median_equivalent(value)) * u128::from(step.count_at_value());
            histogram.saturated +=
                if value > counts.highest_equivalent(TIME_NS_MAX) { step.count_at_value() } else { 0 };
        }
        histogram
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Histogram")
            .field("count", &self.count())
            .field("min", &self.min())
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use breme_base::Random;
    use proptest::prelude::*;

    use super::*;

    /// The definition, applied to the samples themselves.
    fn exact_quantile(sorted: &[u64], quantile: f64) -> u64 {
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    }

    fn histogram_of(samples: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        samples.iter().for_each(|&sample| histogram.record(sample));
        histogram
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_samples_to_three_digits(
            mut samples in proptest::collection::vec(1..TIME_NS_MAX, 1..400),
            quantile in 0.001..=1.0_f64,
        ) {
            let histogram = histogram_of(&samples);
            samples.sort_unstable();
            let (exact, found) = (exact_quantile(&samples, quantile), histogram.quantile(quantile));
            prop_assert!(found >= exact, "{found} is below {exact}");
            prop_assert!(found as f64 <= exact as f64 * 1.001 + 1.0, "{found} is not {exact} to three digits");
        }

        #[test]
        fn quantiles_in_one_pass_are_those_one_by_one(
            samples in proptest::collection::vec(1..TIME_NS_MAX, 0..200),
            mut quantiles in proptest::collection::vec(0.000_1..=1.0_f64, 0..20),
        ) {
            let histogram = histogram_of(&samples);
            quantiles.sort_by(f64::total_cmp);
            let one_by_one: Vec<u64> = quantiles.iter().map(|&quantile| histogram.quantile(quantile)).collect();
            prop_assert_eq!(histogram.quantiles(&quantiles), one_by_one);
        }

        #[test]
        fn counts_within_times_are_those_of_the_ranges(
            samples in proptest::collection::vec(1..TIME_NS_MAX, 0..200),
            mut times in proptest::collection::vec(1..TIME_NS_MAX, 0..20),
        ) {
            let histogram = histogram_of(&samples);
            times.sort_unstable();
            let one_by_one: Vec<u64> = times.iter().map(|&time| histogram.count_between(0, time)).collect();
            prop_assert_eq!(histogram.counts_within(&times), one_by_one);
        }

        #[test]
        fn merging_is_recording_together(
            left in proptest::collection::vec(0..2 * TIME_NS_MAX, 0..100),
            right in proptest::collection::vec(0..2 * TIME_NS_MAX, 0..100),
        ) {
            let mut merged = histogram_of(&left);
            merged.merge(&histogram_of(&right));
            let together = histogram_of(&[left, right].concat());
            prop_assert_eq!(merged.counts(), together.counts());
            prop_assert_eq!(merged.sum(), together.sum());
            prop_assert_eq!(merged.saturated(), together.saturated());
        }
    }

    #[test]
    fn nothing_recorded_gives_zeros() {
        let histogram = Histogram::new();
        assert_eq!((histogram.count(), histogram.min(), histogram.max(), histogram.quantile(0.5)), (0, 0, 0, 0));
        assert_eq!((histogram.mean(), histogram.stdev()), (0.0, 0.0));
    }

    #[test]
    fn times_outside_the_bounds_are_kept_at_the_bound_and_counted() {
        let histogram = histogram_of(&[0, 5 * TIME_NS_MAX, TIME_NS_MAX]);
        assert_eq!(histogram.count(), 3);
        assert_eq!(histogram.saturated(), 1);
        assert_eq!(histogram.min(), 1);
        assert!(histogram.max() >= TIME_NS_MAX && histogram.max() < TIME_NS_MAX + TIME_NS_MAX / 500);
        assert_eq!(histogram.sum(), u128::from(6 * TIME_NS_MAX), "the sum stays exact");
    }

    #[test]
    fn mean_and_spread_are_those_of_the_samples() {
        let mut random = Random::new(3);
        let samples: Vec<u64> = (0..20_000).map(|_| 100_000 + random.below(50_000)).collect();
        let histogram = histogram_of(&samples);
        let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64;
        let variance = samples.iter().map(|&s| (s as f64 - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        assert_eq!(histogram.mean(), mean);
        assert!((histogram.stdev() / variance.sqrt() - 1.0).abs() < 0.01);
    }

    #[test]
    fn counts_between() {
        let histogram = histogram_of(&[10, 20, 30, 40]);
        assert_eq!(histogram.count_between(15, 30), 2);
        assert_eq!(histogram.count_between(31, 30), 0);
    }

    #[test]
    fn clearing_forgets_all() {
        let mut histogram = histogram_of(&[7, 2 * TIME_NS_MAX]);
        histogram.clear();
        assert_eq!((histogram.count(), histogram.sum(), histogram.saturated(), histogram.max()), (0, 0, 0, 0));
        histogram.record(9);
        assert_eq!((histogram.min(), histogram.max()), (9, 9));
    }
}
