//! Uses of running one arm twice in each block.
//!
//! The second trial shows how much two trials of the same arm differ (A/A), and it improves the arm's own value: the
//! [`geometric_mean`] of the two varies less. It remains to define how far a ratio must lie from 1 to be more than that
//! noise.
//!
//! With the farther end of the 95 % interval of A/A as the floor, real differences would be missed: it is wider than
//! the interval of the comparison itself. The farther end of its **50 %** interval is enough. By simulation, 20,000
//! experiments of 10 blocks each, in %:
//!
//! | | interval only | and beyond the 50 % end | and beyond the 95 % end |
//! |---|---|---|---|
//! | found: 5 % slower, trials vary by 3 %, one trial per block each | 88.2 | 86.2 | 66.7 |
//! | the same, one arm twice and its geometric mean | 95.1 | 92.9 | 67.8 |
//! | found: 5 % faster, one arm twice | 96.8 | 94.8 | 73.3 |
//! | the same as the first, half of the variance shared by the block | 99.2 | 98.7 | 93.0 |
//! | nothing there: normal noise, one arm twice | 4.7 | 3.1 | 0.3 |
//! | nothing there: a quarter of the trials 20 to 80 % slower, one trial each | 5.0 | 2.5 | 0.5 |
//! | the same, one arm twice | **6.1** | 2.9 | 0.4 |
//!
//! The bold figure is the reason for the floor: with one-sided outliers the mean of two trials compared with one is not
//! symmetric, as the signed-rank test requires. With 20 blocks it would be 7.1 (4.6 with the floor).

use crate::signed_rank::paired_ratio;

/// Confidence of the A/A interval whose farther end is the floor.
pub const FLOOR_CONFIDENCE: f64 = 0.5;

/// The value of an arm that ran several times in a block. None if there is no value, or one is not positive and finite.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_usable = |&value: &f64| value > 0.0 && value.is_finite();
    if values.is_empty() || !values.iter().all(is_usable) {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// How far a ratio must lie from 1 (this or more, or its reciprocal or less) to exceed the noise between trials of the
/// same arm; at least 1. `pairs` are the two trials of each block.
///
/// None where [`paired_ratio`] returns none.
#[must_use]
pub fn noise_floor(pairs: &[(f64, f64)]) -> Option<f64> {
    let between = paired_ratio(pairs, FLOOR_CONFIDENCE)?;
    Some(between.high.max(1.0 / between.low).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_ratios() {
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[f64::INFINITY]), None);
    }

    #[test]
    fn the_floor_is_the_same_for_both_directions() {
        let pairs = [(1.0, 1.02), (1.01, 1.0), (1.0, 1.05), (1.0, 0.99), (1.0, 1.03), (1.02, 1.0)];
        let turned = pairs.map(|(first, second)| (second, first));
        let floor = noise_floor(&pairs).unwrap();
        assert!((1.01..1.05).contains(&floor), "{floor}");
        assert!((noise_floor(&turned).unwrap() - floor).abs() < 1e-12);
        assert_eq!(noise_floor(&[(3.0, 3.0); 4]), Some(1.0));
        assert_eq!(noise_floor(&[]), None);
    }
}
