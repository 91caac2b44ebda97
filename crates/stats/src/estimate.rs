//! A centre with its interval, from the ranks of values in ascending order.

/// A value with the interval that contains the true one with `confidence`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub center: f64,
    pub low: f64,
    pub high: f64,
    /// Confidence of the interval: at least the requested one, since the steps of few values are coarse; or, with fewer
    /// than six values at 95 %, the maximum possible (0 for a single one).
    pub confidence: f64,
}

impl Estimate {
    /// The median of ascending values; its interval as [`outside_of_interval`] determines it.
    pub(crate) fn from_sorted(sorted: &[f64], at_most: impl IntoIterator<Item = f64>, confidence: f64) -> Self {
        let (outside, confidence) = outside_of_interval(at_most, sorted.len(), confidence);
        let (low, high) = (sorted[outside], sorted[sorted.len() - 1 - outside]);
        Self { center: median_of_sorted(sorted), low, high, confidence }
    }

    /// The ratio, if this estimates its logarithm.
    pub(crate) fn exp(self) -> Self {
        let [center, low, high] = [self.center, self.low, self.high].map(f64::exp);
        Self { center, low, high, ..self }
    }
}

/// How many of `count` ascending values lie outside the interval on each side, and its confidence.
///
/// `at_most` are the probabilities that at most 0, 1, … of them lie below the true value: to exclude n on each side
/// misses it with twice the n-th.
pub(crate) fn outside_of_interval(
    at_most: impl IntoIterator<Item = f64>,
    count: usize,
    confidence: f64,
) -> (usize, f64) {
    let tail = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    let mut found = (0, 0.0);
    for (outside, at_most) in at_most.into_iter().enumerate() {
        // With none outside it is the widest possible, whatever its confidence.
        if outside > 0 && at_most > tail {
            break;
        }
        found = (outside, (1.0 - 2.0 * at_most).max(0.0));
    }
    // The median itself stays inside.
    (found.0.min((count - 1) / 2), found.1)
}

/// The sums of the first 1, 2, … probabilities.
pub(crate) fn cumulated(probabilities: Vec<f64>) -> impl Iterator<Item = f64> {
    probabilities.into_iter().scan(0.0, |sum, probability| {
        *sum += probability;
        Some(*sum)
    })
}

pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}
