//! Two unpaired samples: the shift between them with its rank-sum interval.
//!
//! Two stored runs have no blocks in common, so their values cannot be paired. The estimate is the median of all
//! differences between a value of one and a value of the other; its interval contains every shift that the rank-sum
//! test (Mann and Whitney, Wilcoxon) does not reject. The only assumption is that the two distributions have the same
//! shape. The conditions of each run (a busy neighbour) affect the difference but not the interval: comparisons are
//! better made within one run with blocks.
//!
//! The distribution is exact while each side has at most [`EXACT_MAX`] values, then normal with the correction for
//! continuity. Ties count against a difference on both sides, which makes the interval wider, never narrower.
//!
//! H. B. Mann, D. R. Whitney: *On a test of whether one of two random variables is stochastically larger than the
//! other*, Ann. Math. Stat. 18 (1947) 50–60. M. Hollander, D. A. Wolfe, E. Chicken: *Nonparametric Statistical
//! Methods*, 3rd ed. (2014), 4.2, 4.3.

use crate::estimate::{self, Estimate};
use crate::normal;
use crate::signed_rank::is_usable;

/// Maximum number of values on a side for the exact distribution.
pub const EXACT_MAX: usize = 50;

/// How far `first` lies above `second`.
///
/// None if a side is empty, has more than [`VALUES_MAX`](crate::VALUES_MAX) values, or one that is not finite.
#[must_use]
pub fn shift(first: &[f64], second: &[f64], confidence: f64) -> Option<Estimate> {
    let mut differences = differences(first, second)?;
    differences.sort_by(f64::total_cmp);
    let at_most = cumulated(first.len(), second.len(), differences.len() / 2);
    Some(Estimate::from_sorted(&differences, at_most, confidence))
}

/// `first` ÷ `second`, computed on the logarithms. None where [`shift`] returns none, or if a value is not positive.
#[must_use]
pub fn ratio(first: &[f64], second: &[f64], confidence: f64) -> Option<Estimate> {
    let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
        values.iter().map(|&value| (value > 0.0).then(|| value.ln())).collect()
    };
    shift(&logarithms(first)?, &logarithms(second)?, confidence).map(Estimate::exp)
}

/// One-sided p-value: the probability of a shift so far above `bound` if the true one is at or below it.
#[must_use]
pub fn rank_sum_p_above(first: &[f64], second: &[f64], bound: f64) -> Option<f64> {
    let not_above = differences(first, second)?.iter().filter(|&&difference| difference <= bound).count();
    let pairs = first.len() * second.len();
    Some(match not_above {
        // By symmetry: P(U ≤ u) = 1 − P(U ≤ pairs − 1 − u).
        beyond if 2 * beyond > pairs => {
            1.0 - (pairs - beyond).checked_sub(1).map_or(0.0, |rest| at_most(first.len(), second.len(), rest))
        }
        few => at_most(first.len(), second.len(), few),
    })
}

/// The minimum of [`rank_sum_p_above`] for these numbers of values: 1 ÷ the number of ways to choose `first` of them.
#[must_use]
pub fn rank_sum_p_min(first: usize, second: usize) -> f64 {
    (1..=first).map(|index| index as f64 / (second + index) as f64).product()
}

fn differences(first: &[f64], second: &[f64]) -> Option<Vec<f64>> {
    if !is_usable(first) || !is_usable(second) {
        return None;
    }
    Some(first.iter().flat_map(|&one| second.iter().map(move |&other| one - other)).collect())
}

/// P(U ≤ `count`), where U counts the pairs in which the value of the first side is smaller.
fn at_most(first: usize, second: usize, count: usize) -> f64 {
    if count > first * second / 2 { 1.0 } else { cumulated(first, second, count).last().unwrap_or(0.0) }
}

/// P(U ≤ u) for u from 0 to `last`, which is at most the middle.
fn cumulated(first: usize, second: usize, last: usize) -> Box<dyn Iterator<Item = f64>> {
    if first.max(second) > EXACT_MAX {
        return Box::new((0..=last).map(move |count| normal_at_most(first as f64, second as f64, count as f64)));
    }
    Box::new(estimate::cumulated(probabilities(first, second, last)))
}

fn normal_at_most(first: f64, second: f64, count: f64) -> f64 {
    let deviation = (first * second * (first + second + 1.0) / 12.0).sqrt();
    let distance = (first * second / 2.0 - count - 0.5) / deviation;
    normal::upper_tail(distance)
}

/// P(U = u) for u from 0 to `last`, exactly.
///
/// The orders of m and n values with u such pairs correspond to the partitions of u into at most m parts of at most n,
/// so their numbers are the coefficients of the Gaussian binomial: the product of (1 − q^(n+i)) ÷ (1 − q^i) for i from
/// 1 to m. Integers, so that nothing is rounded before the division; 100 over 50 is below 2^97.
fn probabilities(first: usize, second: usize, last: usize) -> Vec<f64> {
    let mut orders = vec![0_i128; last + 1];
    orders[0] = 1;
    let mut all = 1.0;
    for index in 1..=first {
        for count in (second + index..=last).rev() {
            orders[count] -= orders[count - second - index];
        }
        for count in index..=last {
            orders[count] += orders[count - index];
        }
        all *= (second + index) as f64 / index as f64;
    }
    orders.into_iter().map(|orders| orders as f64 / all).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::estimate::outside_of_interval;

    fn close(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() < tolerance
    }

    /// Two-sided p-value of no shift.
    fn rank_sum_p(first: &[f64], second: &[f64]) -> Option<f64> {
        let (above, below) = (rank_sum_p_above(first, second, 0.0)?, rank_sum_p_above(second, first, 0.0)?);
        Some((2.0 * above.min(below)).min(1.0))
    }

    /// Permeability of two membranes: Hollander and Wolfe, table 4.1, and the example of R's `wilcox.test(x, y,
    /// conf.int = TRUE)`: W = 35, p = 0.2544, shift 0.305, interval -0.15 to 0.76.
    #[test]
    fn agrees_with_the_textbook() {
        let at_term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        let p = rank_sum_p(&at_term, &early).unwrap();
        assert!(close(p, 0.2544, 5e-5), "{p}");
        let estimate = shift(&at_term, &early, 0.95).unwrap();
        assert!(close(estimate.center, 0.305, 1e-9), "{estimate:?}");
        assert!(close(estimate.low, -0.15, 1e-9) && close(estimate.high, 0.76, 1e-9), "{estimate:?}");
    }

    /// Critical values of the two-sided test at 5 % from published tables.
    #[test]
    fn agrees_with_the_published_critical_values() {
        for (first, second, critical) in [(4, 4, 0), (5, 5, 2), (5, 10, 8), (8, 8, 13), (10, 10, 23), (20, 20, 127)] {
            // A critical value of U rejects; that many differences lie outside.
            let (outside, _) = outside_of_interval(cumulated(first, second, first * second / 2), first * second, 0.95);
            assert_eq!(outside, critical, "{first}, {second}");
        }
    }

    #[test]
    fn few_values_say_how_little_they_mean() {
        let estimate = shift(&[3.0], &[1.0], 0.95).unwrap();
        assert_eq!((estimate.center, estimate.low, estimate.high, estimate.confidence), (2.0, 2.0, 2.0, 0.0));
        let of_three = shift(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0], 0.95).unwrap();
        assert!(close(of_three.confidence, 0.9, 1e-12), "{of_three:?}");
        assert!(close(rank_sum_p(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]).unwrap(), 0.1, 1e-12));
        assert_eq!(shift(&[], &[1.0], 0.95), None);
        assert_eq!(rank_sum_p(&[f64::INFINITY], &[1.0]), None);
        assert_eq!(ratio(&[1.0], &[0.0], 0.95), None);
    }

    #[test]
    fn one_side_is_half_of_the_two_sided_chance() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [11.0, 12.0, 13.0, 14.0, 15.0, 16.0]);
        let p = rank_sum_p_above(&high, &low, 0.0).unwrap();
        assert!(close(p, 1.0 / 924.0, 1e-12) && close(rank_sum_p_min(6, 6), p, 1e-12), "{p}");
        assert!(close(2.0 * p, rank_sum_p(&high, &low).unwrap(), 1e-12));
        assert!(close(rank_sum_p_above(&low, &high, 0.0).unwrap(), 1.0, 1e-12));
        assert!(rank_sum_p_above(&high, &low, 10.0).unwrap() > 0.5, "half of the pairs lie at 10 or below");
        assert!(rank_sum_p_above(&high, &low, 4.5).unwrap() < 0.01);
        assert_eq!(rank_sum_p_above(&[], &low, 0.0), None);
    }

    #[test]
    fn many_values_are_nearly_as_exact() {
        let exact: f64 = probabilities(50, 50, 965).iter().sum();
        assert!(close(normal_at_most(50.0, 50.0, 965.0), exact, 2e-4), "{exact}");
        let first: Vec<f64> = (0..200).map(f64::from).collect();
        let second: Vec<f64> = first.iter().map(|value| value + 40.0).collect();
        let estimate = shift(&first, &second, 0.95).unwrap();
        assert!(close(estimate.center, -40.0, 1e-9) && estimate.high < 0.0, "{estimate:?}");
        assert!(rank_sum_p(&first, &second).unwrap() < 0.01);
    }

    proptest! {
        /// With more than one pair, the interval excludes 0 if and only if p is at most 1 − its confidence.
        #[test]
        fn the_chance_and_the_interval_agree(
            first in prop::collection::vec(-4_i32..9, 1..12),
            second in prop::collection::vec(-4_i32..5, 1..12),
            confidence in 0.5_f64..0.999,
        ) {
            let first: Vec<f64> = first.into_iter().map(f64::from).collect();
            let second: Vec<f64> = second.into_iter().map(f64::from).collect();
            let estimate = shift(&first, &second, confidence).unwrap();
            prop_assert!(estimate.low <= estimate.center && estimate.center <= estimate.high);
            let leaves_zero_out = estimate.low > 0.0 || estimate.high < 0.0;
            let p = rank_sum_p(&first, &second).unwrap();
            if first.len() * second.len() > 1 {
                prop_assert_eq!(leaves_zero_out, p <= 1.0 - estimate.confidence + 1e-12, "{} {:?}", p, estimate);
            }
            let turned = shift(&second, &first, confidence).unwrap();
            prop_assert_eq!((turned.center, turned.low, turned.high), (-estimate.center, -estimate.high, -estimate.low));
        }
    }
}
