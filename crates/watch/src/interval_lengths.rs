//! Lengths of the intervals of a journal, which is continued when the watch file has another interval.

use serde::{Deserialize, Serialize};

/// Most lengths; the two oldest are merged.
const LENGTHS_MAX: usize = 1_000;

/// Length of the intervals from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IntervalLength {
    /// Number of the first interval.
    first: u64,
    /// Milliseconds.
    length_ms: u64,
}

/// In the order of the intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntervalLengths(Vec<IntervalLength>);

impl IntervalLengths {
    /// All intervals have the same length, milliseconds.
    #[must_use]
    pub fn constant(length_ms: u64) -> Self {
        Self(vec![IntervalLength { first: 1, length_ms }])
    }

    /// Intervals from `next` on, which do not exist yet, have this length.
    pub(crate) fn begin(&mut self, next: u64, length_ms: u64) {
        self.0.retain(|length| length.first < next);
        match self.0.last() {
            None => *self = Self::constant(length_ms),
            Some(last) if last.length_ms == length_ms => {}
            Some(_) => self.0.push(IntervalLength { first: next, length_ms }),
        }
        if let [first, second, ..] = self.0[..]
            && self.0.len() > LENGTHS_MAX
        {
            // The shorter one of both: records are kept too long rather than not long enough.
            self.0[1] = IntervalLength { length_ms: first.length_ms.min(second.length_ms), ..first };
            self.0.remove(0);
        }
    }

    /// Measured time from the start of interval `from` to the start of interval `to`, without gaps, milliseconds.
    pub(crate) fn measured_ms(&self, from: u64, to: u64) -> u64 {
        let ends = self.0.iter().skip(1).map(|next| next.first).chain([u64::MAX]);
        let lengths = self.0.iter().zip(ends).map(|(length, end)| {
            let intervals = to.min(end).saturating_sub(from.max(length.first));
            intervals.saturating_mul(length.length_ms)
        });
        lengths.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interval_counts_with_its_own_length() {
        let mut lengths = IntervalLengths::default();
        lengths.begin(1, 1_000);
        lengths.begin(101, 20_000);
        assert_eq!(lengths.measured_ms(1, 101), 100_000);
        assert_eq!(lengths.measured_ms(91, 111), 10_000 + 200_000);
        assert_eq!(lengths.measured_ms(111, 91), 0);
        lengths.begin(201, 20_000);
        lengths.begin(201, 5_000);
        lengths.begin(201, 20_000);
        assert_eq!(lengths.0.len(), 2, "no interval had another length: {lengths:?}");
    }

    #[test]
    fn number_of_lengths_is_bounded() {
        let mut lengths = IntervalLengths::constant(1_000);
        (2..=2_000).for_each(|next| lengths.begin(next, 1_000 + next % 2));
        assert_eq!(lengths.0.len(), LENGTHS_MAX);
        // Longer are every other one of the 999 that are not merged.
        assert_eq!(lengths.measured_ms(1, 2_001), 2_000_000 + 499);
    }
}
