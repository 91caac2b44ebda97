//! Estimates from a few paired blocks: the Hodges–Lehmann estimate with its signed-rank interval.
//!
//! The errors of blocks on a shared machine are not normal: a neighbour takes the CPU for half a block. The median of
//! all pairwise (Walsh) averages is nearly as efficient as the mean for normal errors (95 %) and robust against
//! outliers; its interval inverts Wilcoxon's signed-rank test: it contains every shift that the test does not reject.
//! It assumes only that the differences are independent and symmetric about their centre, and it is exact for any
//! number of them. But fewer than six blocks cannot reach 95 %. So it serves where no verdict depends on few blocks
//! (the noise floor, `watch`); verdicts use [`TrimmedMean`](crate::TrimmedMean).
//!
//! J. L. Hodges, E. L. Lehmann: *Estimates of location based on rank tests*, Ann. Math. Stat. 34 (1963) 598–611.
//! M. Hollander, D. A. Wolfe, E. Chicken: *Nonparametric Statistical Methods*, 3rd ed. (2014), 3.2 and 3.3.

use crate::estimate::{Estimate, cumulated};

/// Limit of the values: the averages of all pairs are stored.
pub const VALUES_MAX: usize = 500;

/// The centre of `values`.
///
/// None if there is no value, more than [`VALUES_MAX`], or one that is not finite.
#[must_use]
pub fn hodges_lehmann(values: &[f64], confidence: f64) -> Option<Estimate> {
    if !is_usable(values) {
        return None;
    }
    Some(Estimate::from_sorted(&walsh_averages(values), at_most_below(values.len()), confidence))
}

/// The ratio of two values measured in each block: first ÷ second. Computed on the logarithms, so that the inverse
/// ratio has the inverse interval.
///
/// None where [`hodges_lehmann`] returns none, or if a value is not positive.
#[must_use]
pub fn paired_ratio(pairs: &[(f64, f64)], confidence: f64) -> Option<Estimate> {
    let is_positive = |&(first, second): &(f64, f64)| first > 0.0 && second > 0.0;
    if !pairs.iter().all(is_positive) {
        return None;
    }
    let logarithms: Vec<f64> = pairs.iter().map(|(first, second)| (first / second).ln()).collect();
    hodges_lehmann(&logarithms, confidence).map(Estimate::exp)
}

/// Two-sided p-value: the probability of values so far from 0, on either side, if their centre is 0.
///
/// It is the level at which the interval begins to contain 0: for two or more values, the interval of
/// [`hodges_lehmann`] excludes 0 if and only if this is at most 1 − its [`Estimate::confidence`]. Averages of 0 count
/// for neither side, so zeros and ties make it larger, never smaller. None where [`hodges_lehmann`] returns none.
#[must_use]
pub fn signed_rank_p(values: &[f64]) -> Option<f64> {
    let (below, above) = averages_beside_zero(values)?;
    Some((2.0 * at_most(values.len(), below.min(above))).min(1.0))
}

/// At least one value, not too many, and all of them finite.
pub(crate) fn is_usable(values: &[f64]) -> bool {
    !values.is_empty() && values.len() <= VALUES_MAX && values.iter().all(|value| value.is_finite())
}

/// How many averages of pairs are at or below 0, and how many at or above it.
fn averages_beside_zero(values: &[f64]) -> Option<(usize, usize)> {
    if !is_usable(values) {
        return None;
    }
    let (mut below, mut above) = (0, 0);
    for (index, &value) in values.iter().enumerate() {
        for &other in &values[index..] {
            let average = f64::midpoint(value, other);
            below += usize::from(average <= 0.0);
            above += usize::from(average >= 0.0);
        }
    }
    Some((below, above))
}

/// Averages of all pairs, including each value with itself, ascending.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, &value) in values.iter().enumerate() {
        averages.extend(values[index..].iter().map(|&other| f64::midpoint(value, other)));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

/// The probabilities that at most 0, 1, … Walsh averages lie below the true centre, up to the middle: their number is
/// the signed-rank statistic T.
fn at_most_below(count: usize) -> impl Iterator<Item = f64> {
    cumulated(rank_sum_probabilities(count, count * (count + 1) / 4))
}

/// P(T ≤ `sum`), where each of the ranks 1 to `count` is in the sum T with probability one half.
fn at_most(count: usize, sum: usize) -> f64 {
    let largest = count * (count + 1) / 2;
    if sum >= largest {
        return 1.0;
    }
    // T is symmetric: add up the shorter tail.
    if sum > largest / 2 {
        return 1.0 - at_most(count, largest - sum - 1);
    }
    rank_sum_probabilities(count, sum).iter().sum()
}

/// P(T = t) for t from 0 up to `last`.
fn rank_sum_probabilities(count: usize, last: usize) -> Vec<f64> {
    let mut probabilities = vec![0.0; last + 1];
    probabilities[0] = 1.0;
    for rank in 1..=count {
        // The sum of all ranks so far is the maximum.
        for sum in (0..=last.min(rank * (rank + 1) / 2)).rev() {
            let with_it = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
            probabilities[sum] = f64::midpoint(probabilities[sum], with_it);
        }
    }
    probabilities
}

#[cfg(test)]
mod tests {
    use breme_base::Random;
    use proptest::prelude::*;

    use super::*;
    use crate::estimate::outside_of_interval;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    /// Hamilton's depression scores before and after a tranquilliser: Hollander and Wolfe, table 3.1, and the example
    /// of R's `wilcox.test(x, y, paired = TRUE, conf.int = TRUE)`.
    #[test]
    fn agrees_with_the_textbook() {
        // In thousandths.
        let before = [1_830, 500, 1_620, 2_480, 1_680, 1_880, 1_550, 3_060, 1_300];
        let after = [878, 647, 598, 2_050, 1_060, 1_290, 1_060, 3_140, 1_290];
        let differences: Vec<f64> =
            before.iter().zip(after).map(|(before, after)| f64::from(before - after) / 1_000.0).collect();
        let estimate = hodges_lehmann(&differences, 0.95).unwrap();
        assert!(close(estimate.center, 0.46), "{estimate:?}");
        assert!(close(estimate.low, 0.010) && close(estimate.high, 0.786), "{estimate:?}");
        assert!(close(estimate.confidence, 1.0 - 2.0 * 10.0 / 512.0), "{estimate:?}");
    }

    /// Critical values of the two-sided test at 5 % from published tables (Wilcoxon, Wilcox 1970).
    #[test]
    fn agrees_with_the_published_critical_values() {
        let table = [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89), (50, 434)];
        for (count, critical) in table {
            let (outside, confidence) = outside_of_interval(at_most_below(count), count * (count + 1) / 2, 0.95);
            assert_eq!(outside, critical, "of {count}");
            assert!((0.95..0.98).contains(&confidence), "{count}: {confidence}");
        }
    }

    #[test]
    fn few_values_give_their_range_and_say_how_little_it_means() {
        let one = hodges_lehmann(&[2.0], 0.95).unwrap();
        assert_eq!(one, Estimate { center: 2.0, low: 2.0, high: 2.0, confidence: 0.0 });
        let three = hodges_lehmann(&[1.0, 2.0, 4.0], 0.95).unwrap();
        assert_eq!(three, Estimate { center: 2.25, low: 1.0, high: 4.0, confidence: 0.75 });
        assert_eq!(hodges_lehmann(&[], 0.95), None);
        assert_eq!(hodges_lehmann(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(hodges_lehmann(&vec![1.0; VALUES_MAX + 1], 0.95), None);
        assert_eq!(hodges_lehmann(&vec![1.0; VALUES_MAX], 0.95).unwrap().center, 1.0);
    }

    /// The same data: R reports V = 40, p-value = 0.03906.
    #[test]
    fn the_chance_agrees_with_the_textbook() {
        let differences = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];
        assert!(close(signed_rank_p(&differences).unwrap(), 20.0 / 512.0));
        assert_eq!(signed_rank_p(&[0.0; 12]), Some(1.0));
        assert_eq!(signed_rank_p(&[]), None);
        assert_eq!(signed_rank_p(&[f64::NAN]), None);
    }

    #[test]
    fn an_outlier_does_not_move_the_ratio() {
        let mut pairs = [(8.0, 10.0); 9];
        pairs[4] = (80.0, 10.0);
        let ratio = paired_ratio(&pairs, 0.95).unwrap();
        assert!(close(ratio.center, 0.8) && close(ratio.low, 0.8), "{ratio:?}");
        assert_eq!(paired_ratio(&[(1.0, 0.0)], 0.95), None);
        assert_eq!(paired_ratio(&[], 0.95), None);
    }

    /// Drawn from a symmetric long-tailed distribution with centre 0, the interval must contain 0 as often as claimed.
    #[test]
    fn the_interval_is_as_sure_as_it_says() {
        let mut random = Random::new(11);
        let (trials, mut held) = (4_000, 0);
        for _ in 0..trials {
            let values: Vec<f64> = (0..8).map(|_| (random.unit() - 0.5) / (random.unit() + 0.01)).collect();
            let estimate = hodges_lehmann(&values, 0.95).unwrap();
            held += u32::from(estimate.low <= 0.0 && 0.0 <= estimate.high);
        }
        let share = f64::from(held) / f64::from(trials);
        let (_, confidence) = outside_of_interval(at_most_below(8), 36, 0.95);
        assert!((share - confidence).abs() < 0.012, "{share} of the intervals held the centre, not {confidence}");
    }

    proptest! {
        /// Also with many ties and zeros.
        #[test]
        fn the_chance_and_the_interval_agree(values in prop::collection::vec(-6_i32..9, 2..25), confidence in 0.5_f64..0.999) {
            let values: Vec<f64> = values.into_iter().map(|value| f64::from(value) / 2.0).collect();
            let estimate = hodges_lehmann(&values, confidence).unwrap();
            let leaves_zero_out = estimate.low > 0.0 || estimate.high < 0.0;
            let p = signed_rank_p(&values).unwrap();
            prop_assert_eq!(leaves_zero_out, p <= 1.0 - estimate.confidence + 1e-12, "{} {:?}", p, estimate);
        }

        #[test]
        fn follows_shifts_and_reversals(values in prop::collection::vec(-1e3_f64..1e3, 1..30), shift in -1e3_f64..1e3) {
            let plain = hodges_lehmann(&values, 0.95).unwrap();
            let shifted: Vec<f64> = values.iter().map(|value| shift - value).collect();
            let turned = hodges_lehmann(&shifted, 0.95).unwrap();
            prop_assert!((turned.center - (shift - plain.center)).abs() < 1e-9);
            prop_assert!((turned.low - (shift - plain.high)).abs() < 1e-9);
            prop_assert!((turned.high - (shift - plain.low)).abs() < 1e-9);
            prop_assert!(plain.low <= plain.center && plain.center <= plain.high);
        }

        #[test]
        fn the_ratio_turned_around_has_the_interval_turned_around(
            pairs in prop::collection::vec((0.01_f64..1e3, 0.01_f64..1e3), 1..20)
        ) {
            let ratio = paired_ratio(&pairs, 0.95).unwrap();
            let back: Vec<_> = pairs.iter().map(|&(first, second)| (second, first)).collect();
            let turned = paired_ratio(&back, 0.95).unwrap();
            prop_assert!((turned.center * ratio.center - 1.0).abs() < 1e-9);
            prop_assert!((turned.low * ratio.high - 1.0).abs() < 1e-9);
        }
    }
}
