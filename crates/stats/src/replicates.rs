//! What running one arm twice in each block is good for.
//!
//! The second trial tells how much two trials of the very same thing differ (A/A), and it makes the arm's own figure
//! better: the [`geometric_mean`] of the two varies less. What remains is to say how far a difference must lie from 1
//! to be more than that noise.
//!
//! The farther end of the 95 % interval of A/A would be a floor that swallows what should be found: it is wider than
//! the interval of the comparison itself. The farther end of its **50 %** interval is enough. Found by simulation,
//! 20,000 experiments of 10 blocks each, in %:
//!
//! | | interval only | and past the 50 % end | and past the 95 % end |
//! |---|---|---|---|
//! | found: 5 % slower, trials vary by 3 %, one trial a block each | 88.2 | 86.2 | 66.7 |
//! | the same, one arm twice and its geometric mean | 95.1 | 92.9 | 67.8 |
//! | found: 5 % faster, one arm twice | 96.8 | 94.8 | 73.3 |
//! | the same as the first, half of the variance shared by the block | 99.2 | 98.7 | 93.0 |
//! | nothing there: normal noise, one arm twice | 4.7 | 3.1 | 0.3 |
//! | nothing there: a quarter of the trials 20 to 80 % slower, one trial each | 5.0 | 2.5 | 0.5 |
//! | the same, one arm twice | **6.1** | 2.9 | 0.4 |
//!
//! The bold figure is why the floor is not left out: the mean of two trials against one is not symmetric where outliers
//! lie on one side only, which the signed-rank test asks for. With 20 blocks it would be 7.1 (4.6 with the floor).

use crate::signed_rank::paired_ratio;

/// How sure the A/A interval is whose farther end is the floor.
pub const FLOOR_CONFIDENCE: f64 = 0.5;

/// The figure of an arm that was run several times in a block. None if there is none, or one is not positive and
/// finite.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_usable = |&value: &f64| value > 0.0 && value.is_finite();
    if values.is_empty() || !values.iter().all(is_usable) {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// How far a ratio must lie from 1 (this or more, or its reciprocal or less) to be more than the noise between trials
/// of the same thing: from 1 on. `pairs` are the two trials of each block.
///
/// None where [`paired_ratio`] gives none.
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
