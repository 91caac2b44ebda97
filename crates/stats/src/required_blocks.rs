//! How many more blocks would lead to a decision.
//!
//! "Undecided" is useful only with a remedy. If the estimate and the scatter stay the same, the interval narrows with
//! the root of the number of blocks; the number suggested is that at which it excludes the bound with probability
//! [`PROBABILITY`]. The centre of few blocks is imprecise, so this is an order of magnitude, not a promise.

use crate::normal;
use crate::student;
use crate::trimmed_mean::{Trim, TrimmedMean, freedom_of};

/// Probability that the suggested blocks are enough.
const PROBABILITY: f64 = 0.85;

/// Limit of the suggested blocks: beyond it, the result is not worth the effort.
pub const MORE_BLOCKS_MAX: u32 = 200;

/// How many more values would probably make the interval of [`TrimmedMean`] exclude `bound`; 0 if it does.
///
/// Values and bound are on the scale of the interval: for ratios, their logarithms. `level_after` returns the two-sided
/// level of the interval after that many more values.
///
/// None if the centre lies at the bound, if it would take more than [`MORE_BLOCKS_MAX`], or where
/// [`TrimmedMean::from_values`] returns none.
#[must_use]
pub fn more_blocks(values: &[f64], trim: Trim, bound: f64, level_after: impl Fn(u32) -> f64) -> Option<u32> {
    let now = TrimmedMean::from_values(values, trim)?;
    let (low, high) = now.interval(level_after(0));
    if low > bound || high < bound {
        return Some(0);
    }
    let distance = (now.center - bound).abs();
    if distance.is_nan() || distance == 0.0 {
        return None;
    }
    let to_be_likely = normal::upper_quantile(1.0 - PROBABILITY);
    let is_enough = |more: u32| {
        let count = values.len() + more as usize;
        let error = now.error * (values.len() as f64 / count as f64).sqrt();
        distance / error >= student::student_quantile(freedom_of(count, trim), 1.0 - level_after(more)) + to_be_likely
    };
    if !is_enough(MORE_BLOCKS_MAX) {
        return None;
    }
    let (mut few, mut enough) = (0, MORE_BLOCKS_MAX);
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        if is_enough(middle) { enough = middle } else { few = middle }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;

    fn normal(random: &mut Random) -> f64 {
        normal::upper_quantile(random.unit().max(1e-12))
    }

    fn needed(values: &[f64], bound: f64) -> Option<u32> {
        more_blocks(values, Trim::Eighth, bound, |_| 0.05)
    }

    #[test]
    fn a_clear_effect_needs_no_more_blocks() {
        assert_eq!(needed(&[1.0, 1.1, 1.2, 1.1, 0.9, 1.0], 0.0), Some(0));
    }

    #[test]
    fn an_effect_at_the_bound_never_gets_clear() {
        assert_eq!(needed(&[-1.0, 1.0, -2.0, 2.0, 0.5, -0.5], 0.0), None);
        assert_eq!(needed(&[-1.0, 1.0, -2.0, 2.0, 0.5, -0.4], 0.0), None);
        assert_eq!(needed(&[1.0], 0.0), None);
        assert_eq!(needed(&[], 0.0), None);
        assert_eq!(needed(&[1.0, 2.0], f64::NAN), None);
    }

    #[test]
    fn a_stricter_level_needs_more_blocks() {
        let values = [1.0, -0.5, 2.0, 0.7, 1.4, -0.3, 1.1];
        let strict = more_blocks(&values, Trim::Eighth, 0.0, |_| 0.001).unwrap();
        assert!(strict > needed(&values, 0.0).unwrap(), "{strict}");
    }

    /// Values distributed exactly as estimated: the number must suffice in 80 to 92 of 100 cases.
    #[test]
    fn it_is_enough_as_often_as_it_says() {
        let mut random = Random::new(5);
        for (center, trials) in [(0.8_f64, 800), (0.5, 600), (0.3, 300)] {
            // Seven values with known centre and scatter.
            let known = [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0].map(|value| value + center);
            let blocks = known.len() + needed(&known, 0.0).unwrap() as usize;
            let enough = (0..trials).filter(|_| {
                let values: Vec<f64> = (0..blocks).map(|_| center + normal(&mut random)).collect();
                TrimmedMean::from_values(&values, Trim::Eighth).unwrap().interval(0.05).0 > 0.0
            });
            let share = enough.count() as f64 / f64::from(trials);
            assert!((0.80..0.92).contains(&share), "{center}: {blocks} blocks were enough in {share}");
        }
    }
}
