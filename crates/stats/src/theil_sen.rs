//! A line through a few points: the slope of Theil and Sen with its exact interval.
//!
//! The slope is the median of the slopes of all pairs of points, so that a quarter of the points may be arbitrarily
//! wrong without carrying it away. Its interval inverts Kendall's test: it contains every slope for which the residuals
//! show no trend that the test would reject. The number of slopes below the true one is the number of inversions in the
//! order of the errors, so the only assumption is that the errors are independent and of one distribution. A slow
//! change that has nothing to do with x (a warm season, a fuller disk) violates it.
//!
//! Ties count against a trend on both sides, which makes the interval wider, never narrower.
//!
//! H. Theil: *A rank-invariant method of linear and polynomial regression analysis*, Proc. Kon. Ned. Akad. Wetensch. A
//! 53 (1950) 386–392, 521–525, 1397–1412. P. K. Sen: *Estimates of the regression coefficient based on Kendall's tau*,
//! J. Am. Stat. Assoc. 63 (1968) 1379–1389. M. Hollander, D. A. Wolfe, E. Chicken: *Nonparametric Statistical Methods*,
//! 3rd ed. (2014), 9.1 to 9.3.

use crate::estimate::{Estimate, cumulated, median_of_sorted};
use crate::signed_rank::VALUES_MAX;

/// A line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TheilSen {
    pub slope: Estimate,
    /// Value of the line at x = 0: the median of what the slope leaves.
    pub intercept: f64,
    /// Two-sided p-value of no trend, by Kendall's test.
    pub p: f64,
}

impl TheilSen {
    /// The line through points of ascending x.
    ///
    /// None if there are fewer than two points, more than [`VALUES_MAX`], one that is not finite, or two with the same
    /// x.
    #[must_use]
    pub fn from_points(points: &[(f64, f64)], confidence: f64) -> Option<Self> {
        let is_finite = points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
        let is_ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !(2..=VALUES_MAX).contains(&points.len()) || !is_finite || !is_ascending {
            return None;
        }
        let slopes = slopes(points);
        let at_most: Vec<f64> = at_most_inverted(points.len()).collect();
        let slope = Estimate::from_sorted(&slopes, at_most.iter().copied(), confidence);
        let mut left: Vec<f64> = points.iter().map(|(x, y)| y - slope.center * x).collect();
        left.sort_by(f64::total_cmp);
        let not_above = slopes.iter().filter(|&&slope| slope <= 0.0).count();
        let not_below = slopes.iter().filter(|&&slope| slope >= 0.0).count();
        let p = at_most.get(not_above.min(not_below)).map_or(1.0, |tail| (2.0 * tail).min(1.0));
        Some(Self { slope, intercept: median_of_sorted(&left), p })
    }

    /// The smallest number of points whose interval has at least this confidence: 5 for 0.95, since only 2 of 120
    /// orders are as extreme as an ascending one.
    #[must_use]
    pub fn points_min(confidence: f64) -> usize {
        let mut orders = 1.0;
        let is_enough = |&count: &usize| {
            orders *= count as f64;
            count >= 2 && 2.0 / orders <= 1.0 - confidence
        };
        (1..=VALUES_MAX).find(is_enough).unwrap_or(VALUES_MAX)
    }
}

/// The slopes of all pairs, ascending.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(points.len() * (points.len() - 1) / 2);
    for (index, &(x, y)) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().map(|&(later_x, later_y)| (later_y - y) / (later_x - x)));
    }
    slopes.sort_by(f64::total_cmp);
    slopes
}

/// P(I ≤ i) for i from 0 to the middle, where I counts the inversions in a random order of `count` values.
fn at_most_inverted(count: usize) -> impl Iterator<Item = f64> {
    let last = count * (count - 1) / 4;
    let mut probabilities = vec![0.0; last + 1];
    probabilities[0] = 1.0;
    // The n-th value stands before 0 to n − 1 of the others, each number with the same probability.
    for number in 2..=count {
        let before = probabilities.clone();
        let mut sum = 0.0;
        for (index, probability) in probabilities.iter_mut().enumerate() {
            sum += before[index];
            sum -= index.checked_sub(number).map_or(0.0, |left| before[left]);
            *probability = (sum / number as f64).max(0.0);
        }
    }
    cumulated(probabilities)
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

    fn numbered(values: &[f64]) -> Vec<(f64, f64)> {
        (1_u32..).map(f64::from).zip(values.iter().copied()).collect()
    }

    /// By hand: the ten slopes are -0.15, -0.13, -0.08, -0.07, -0.0575, -0.055, -0.045, -0.0333, 0.01 and 0.04. Of 120
    /// orders 1 has no inversion, 5 have at most one, 14 at most two.
    #[test]
    fn agrees_with_a_calculation_by_hand() {
        let points = numbered(&[1.26, 1.27, 1.12, 1.16, 1.03]);
        let line = TheilSen::from_points(&points, 0.9).unwrap();
        assert!(close(line.slope.center, -0.056_25), "{line:?}");
        assert!(close(line.slope.low, -0.13) && close(line.slope.high, 0.01), "{line:?}");
        assert!(close(line.slope.confidence, 1.0 - 10.0 / 120.0), "{line:?}");
        assert!(close(line.p, 28.0 / 120.0), "{line:?}");
        // Of 1.316 25, 1.382 5, 1.288 75, 1.385 and 1.311 25.
        assert!(close(line.intercept, 1.316_25), "{line:?}");
        let wider = TheilSen::from_points(&points, 0.95).unwrap().slope;
        assert!(close(wider.low, -0.15) && close(wider.high, 0.04), "{wider:?}");
        assert!(close(wider.confidence, 1.0 - 2.0 / 120.0), "{wider:?}");
    }

    /// Critical values of Kendall's S, the slopes above 0 less those below, for two sides at 5 %.
    #[test]
    fn agrees_with_the_published_critical_values() {
        for (count, critical) in [(5, 10), (6, 13), (7, 15), (8, 18), (9, 20), (10, 23), (15, 41), (20, 62)] {
            let slopes = count * (count - 1) / 2;
            let (outside, confidence) = outside_of_interval(at_most_inverted(count), slopes, 0.95);
            assert_eq!(slopes - 2 * outside, critical, "of {count}");
            assert!((0.95..0.99).contains(&confidence), "{count}: {confidence}");
        }
    }

    #[test]
    fn the_smallest_number_of_points_is_that_of_the_interval() {
        for confidence in [0.5, 0.9, 0.95, 0.99, 0.999] {
            let least = TheilSen::points_min(confidence);
            let reaches = |count: usize| {
                let values: Vec<f64> = (0..count).map(|value| value as f64).collect();
                TheilSen::from_points(&numbered(&values), confidence)
                    .is_some_and(|line| line.slope.confidence >= confidence)
            };
            assert!(reaches(least) && !reaches(least - 1), "{confidence}: {least}");
        }
        assert_eq!(TheilSen::points_min(0.95), 5);
    }

    #[test]
    fn a_quarter_of_wild_points_does_not_carry_it_away() {
        let mut values: Vec<f64> = (0..20).map(|value| 10.0 + 0.5 * f64::from(value)).collect();
        for wild in [1, 6, 11, 16, 19] {
            values[wild] = 1e6;
        }
        let line = TheilSen::from_points(&numbered(&values), 0.95).unwrap();
        assert!((0.49..0.6).contains(&line.slope.center) && line.slope.low <= 0.5, "{line:?}");
    }

    #[test]
    fn nonsense_has_no_line_and_no_change_no_trend() {
        let infinite = [(1.0, f64::INFINITY), (2.0, 1.0)];
        for points in [&[][..], &[(1.0, 2.0)], &[(1.0, 2.0), (1.0, 3.0)], &[(2.0, 1.0), (1.0, 1.0)], &infinite] {
            assert_eq!(TheilSen::from_points(points, 0.95), None, "{points:?}");
        }
        assert_eq!(TheilSen::from_points(&numbered(&[1.0; VALUES_MAX + 1]), 0.95), None);
        let flat = TheilSen::from_points(&numbered(&[3.0; 200]), 0.95).unwrap();
        assert_eq!((flat.slope.center, flat.slope.low, flat.slope.high), (0.0, 0.0, 0.0));
        assert_eq!((flat.intercept, flat.p), (3.0, 1.0));
    }

    /// Around a line, with errors of long tails, the interval contains the slope as often as claimed.
    #[test]
    fn the_interval_is_as_sure_as_it_says() {
        let mut random = Random::new(5);
        let (trials, mut held) = (3_000, 0);
        for _ in 0..trials {
            let mut error = || (random.unit() - 0.5) / (random.unit() + 0.01);
            let values: Vec<f64> = (0..9).map(|place| 0.3 * f64::from(place) + error()).collect();
            let slope = TheilSen::from_points(&numbered(&values), 0.95).unwrap().slope;
            held += u32::from(slope.low <= 0.3 && 0.3 <= slope.high);
        }
        let (_, confidence) = outside_of_interval(at_most_inverted(9), 36, 0.95);
        let share = f64::from(held) / f64::from(trials);
        assert!((share - confidence).abs() < 0.015, "{share} of the intervals held the slope, not {confidence}");
    }

    proptest! {
        /// Also with many ties.
        #[test]
        fn the_chance_and_the_interval_agree(values in prop::collection::vec(-6_i32..9, 3..25), confidence in 0.5_f64..0.999) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let line = TheilSen::from_points(&numbered(&values), confidence).unwrap();
            let leaves_zero_out = line.slope.low > 0.0 || line.slope.high < 0.0;
            prop_assert_eq!(leaves_zero_out, line.p <= 1.0 - line.slope.confidence + 1e-12, "{:?}", line);
            prop_assert!(line.slope.low <= line.slope.center && line.slope.center <= line.slope.high);
        }

        #[test]
        fn values_turned_upside_down_turn_the_line(values in prop::collection::vec(-1e3_f64..1e3, 2..30)) {
            let line = TheilSen::from_points(&numbered(&values), 0.95).unwrap();
            let turned: Vec<f64> = values.iter().map(|value| 7.0 - value).collect();
            let turned = TheilSen::from_points(&numbered(&turned), 0.95).unwrap();
            prop_assert!((turned.slope.center + line.slope.center).abs() < 1e-9);
            prop_assert!((turned.slope.low + line.slope.high).abs() < 1e-9);
            prop_assert!((turned.intercept + line.intercept - 7.0).abs() < 1e-6);
            prop_assert!((turned.p - line.p).abs() < 1e-12);
        }
    }
}
