//! How many more blocks would tell.
//!
//! "Undecided" is of use only with what to do about it. If the estimate and the scatter stay as they are, the interval
//! narrows with the root of the number of blocks; so many are asked for that it would then be clear of the bound with a
//! chance of [`CHANCE`]. The scatter is the mean difference between two values (Gini's), which one outlier moves less
//! than it moves a standard deviation. Few blocks know their own centre badly, so this is the order of magnitude, not a
//! promise: whoever adds the blocks and judges again by the same rule looks twice at the same data, and a plan should
//! say so.
//!
//! G. E. Noether: *Sample size determination for some common nonparametric tests*, J. Am. Stat. Assoc. 82 (1987)
//! 645–647.

use std::f64::consts::PI;

use crate::normal;
use crate::signed_rank::hodges_lehmann;

/// How likely the blocks that are asked for would be enough.
pub const CHANCE: f64 = 0.85;

/// No more blocks than these are asked for: past it, the question is not worth its answer.
pub const MORE_BLOCKS_MAX: u32 = 200;

/// How many more values would probably bring the interval of [`hodges_lehmann`] clear of `bound`; 0 if it is.
///
/// Values and bound are on the scale on which the interval is made: for ratios, their logarithms.
///
/// None if the centre lies at the bound, if it would take more than [`MORE_BLOCKS_MAX`], if there are fewer than two
/// values, or where [`hodges_lehmann`] gives none.
#[must_use]
pub fn more_blocks(values: &[f64], bound: f64, confidence: f64) -> Option<u32> {
    let now = hodges_lehmann(values, confidence)?;
    if values.len() < 2 || !bound.is_finite() || !(0.0..1.0).contains(&confidence) {
        return None;
    }
    let is_clear = now.low > bound || now.high < bound;
    if is_clear && now.confidence >= confidence {
        return Some(0);
    }
    let distance = (now.center - bound).abs();
    let more = (blocks_for(distance, scatter(values), confidence) - values.len() as f64).max(1.0);
    // A centre at the bound asks for infinitely many.
    (more <= f64::from(MORE_BLOCKS_MAX)).then_some(more as u32)
}

/// So many blocks in all, a whole number or infinity.
fn blocks_for(distance: f64, scatter: f64, confidence: f64) -> f64 {
    if distance <= 0.0 {
        return f64::INFINITY;
    }
    let outside = 1.0 - confidence;
    let to_be_sure = normal::exceeded_with(outside / 2.0);
    let to_be_likely = normal::exceeded_with(1.0 - CHANCE);
    // The ranks use 3/π of what a mean uses of normal errors.
    let by_scatter = (PI / 3.0) * ((to_be_sure + to_be_likely) * scatter / distance).powi(2);
    // The scatter is estimated too: Student's tails, to the first order (Guenther 1981).
    let for_tails = to_be_sure * to_be_sure / 2.0;
    // All signs alike have probability 2 ÷ 2ⁿ: fewer cannot be sure of anything.
    let by_signs = (2.0 / outside).log2();
    (by_scatter + for_tails).max(by_signs).ceil()
}

/// The standard deviation that normal values of this mean difference have.
fn scatter(values: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (index, value) in values.iter().enumerate() {
        sum += values[index + 1..].iter().map(|other| (value - other).abs()).sum::<f64>();
    }
    let pairs = (values.len() * (values.len() - 1) / 2) as f64;
    sum / pairs * PI.sqrt() / 2.0
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;

    fn normal(random: &mut Random) -> f64 {
        normal::exceeded_with(random.unit().max(1e-12))
    }

    #[test]
    fn what_is_clear_needs_no_more() {
        assert_eq!(more_blocks(&[1.0, 1.1, 1.2, 1.1, 0.9, 1.0], 0.0, 0.95), Some(0));
    }

    #[test]
    fn what_lies_at_the_bound_never_gets_clear() {
        assert_eq!(more_blocks(&[-1.0, 1.0, -2.0, 2.0, 0.5, -0.5], 0.0, 0.95), None);
        assert_eq!(more_blocks(&[-1.0, 1.0, -2.0, 2.0, 0.5, -0.4], 0.0, 0.95), None);
        assert_eq!(more_blocks(&[1.0], 0.0, 0.95), None);
        assert_eq!(more_blocks(&[], 0.0, 0.95), None);
        assert_eq!(more_blocks(&[1.0, 2.0], f64::NAN, 0.95), None);
        assert_eq!(more_blocks(&[1.0, 2.0], 0.0, 1.0), None);
    }

    #[test]
    fn a_few_that_agree_need_only_be_six() {
        assert_eq!(more_blocks(&[1.0, 1.0, 1.0], 0.0, 0.95), Some(3));
        assert_eq!(more_blocks(&[1.0, 1.01, 0.99], 0.0, 0.95), Some(3));
    }

    /// Values that are exactly as the estimate says: the number must be enough in 80 to 90 of 100 cases.
    #[test]
    fn it_is_enough_as_often_as_it_says() {
        let mut random = Random::new(5);
        for (center, trials) in [(1.2, 800), (0.8, 600), (0.5, 300)] {
            let blocks = blocks_for(center, 1.0, 0.95) as usize;
            let enough = (0..trials).filter(|_| {
                let values: Vec<f64> = (0..blocks).map(|_| center + normal(&mut random)).collect();
                hodges_lehmann(&values, 0.95).unwrap().low > 0.0
            });
            let share = enough.count() as f64 / f64::from(trials);
            assert!((0.80..0.91).contains(&share), "{center}: {blocks} blocks were enough in {share}");
        }
    }

    #[test]
    fn an_outlier_does_not_ask_for_a_hundred() {
        let plain = more_blocks(&[1.0, -0.5, 2.0, 0.7, 1.4, -0.3, 1.1], 0.0, 0.95).unwrap();
        let with_outlier = more_blocks(&[1.0, -0.5, 2.0, 0.7, 1.4, -0.3, 6.0], 0.0, 0.95).unwrap();
        assert!(plain >= 1 && with_outlier < 12 * plain.max(3), "{plain}, {with_outlier}");
    }
}
