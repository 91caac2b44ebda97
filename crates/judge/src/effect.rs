//! How two sides differ over the blocks.
//!
//! Both sides are computed within each block, so that what all trials of a block have in common cancels out. They are
//! compared as a ratio, on logarithms; as a difference if a side is not positive, since a ratio to zero is meaningless.

use breme_expression::Expression;
use breme_stats::{BLOCKS_MIN, Trim, TrimmedMean};

use crate::judgement::{BlockPair, Effect, Scale};
use crate::levels::Levels;
use crate::look::Look;
use crate::measure::Lack;
use crate::observations::{Observations, mean};

/// Limit of the pairs of an effect. In a longer run neighbouring blocks are averaged, so that all of it counts.
///
/// The cost of the statistics grows with the square of the pairs, and two hundred resolve a difference of a tenth of
/// the scatter.
pub const PAIRS_MAX: usize = 200;

/// Both sides in every block that has both, and why the other blocks lack one.
pub(crate) fn pairs_of(
    seen: &Observations,
    left: &Expression,
    right: &Expression,
    levels: &Levels,
) -> (Vec<BlockPair>, Vec<(u32, Lack)>) {
    let (mut pairs, mut lacks) = (Vec::new(), Vec::new());
    for block in seen.blocks() {
        let both = seen.evaluate(left, levels, block).and_then(|left| Ok((left, seen.evaluate(right, levels, block)?)));
        match both {
            Ok((left, right)) => pairs.push(BlockPair { block, left, right }),
            Err(lack) => lacks.push((block, lack)),
        }
    }
    (pairs, lacks)
}

/// One expression at two combinations of levels, in every block that has both.
pub(crate) fn pairs_between(
    seen: &Observations,
    expression: &Expression,
    left: &Levels,
    right: &Levels,
) -> Vec<BlockPair> {
    let pair = |block| {
        let left = seen.evaluate(expression, left, block).ok()?;
        let right = seen.evaluate(expression, right, block).ok()?;
        Some(BlockPair { block, left, right })
    };
    seen.blocks_of(left).filter_map(pair).collect()
}

/// Statistics of the pairs. `equal_within` is a fraction, also if the effect is a difference: then it is relative to
/// the right side.
///
/// With fewer than [`BLOCKS_MIN`] blocks the interval is Student's at this one look, and decides nothing.
pub(crate) fn effect_of(pairs: Vec<BlockPair>, look: &Look, equal_within: f64) -> Effect {
    let blocks = average_neighbours(pairs);
    let scale = scale_of(&blocks);
    let equal_within = match scale {
        Scale::Ratio => equal_within,
        Scale::Difference => equal_within * median(blocks.iter().map(|pair| pair.right.abs())).unwrap_or_default(),
    };
    let values = values_of(scale, &blocks);
    let mut effect = Effect { scale, equal_within, ..Effect::default() };
    let back = |value| Some(scale.restore(value));
    if let Some(mean) = TrimmedMean::from_values(&values, trim_of(scale)) {
        let is_enough = values.len() >= BLOCKS_MIN as usize;
        let (low, high) = mean.interval(if is_enough { look.level() } else { 1.0 - look.confidence() });
        (effect.center, effect.low, effect.high) = (back(mean.center), back(low), back(high));
        effect.confidence = look.confidence();
        effect.p = is_enough.then(|| look.corrected(2.0 * mean.p_below(0.0).min(mean.p_above(0.0))));
    } else if let [only] = values[..] {
        (effect.center, effect.low, effect.high) = (back(only), back(only), back(only));
    }
    effect.blocks = blocks;
    effect
}

/// Differences are used for values that are zero somewhere, such as errors: there a rare exception matters.
pub(crate) fn trim_of(scale: Scale) -> Trim {
    match scale {
        Scale::Ratio => Trim::Eighth,
        Scale::Difference => Trim::Nothing,
    }
}

/// The values to be judged: logarithms of ratios, or differences.
pub(crate) fn values_of(scale: Scale, blocks: &[BlockPair]) -> Vec<f64> {
    let value = |pair: &BlockPair| scale.transform(scale.compare(pair.left, pair.right));
    blocks.iter().map(value).collect()
}

fn scale_of(blocks: &[BlockPair]) -> Scale {
    let is_positive = blocks.iter().all(|pair| pair.left > 0.0 && pair.right > 0.0);
    if is_positive { Scale::Ratio } else { Scale::Difference }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Limits the pairs to [`PAIRS_MAX`] by averaging neighbours.
fn average_neighbours(pairs: Vec<BlockPair>) -> Vec<BlockPair> {
    let each = pairs.len().div_ceil(PAIRS_MAX);
    if each <= 1 {
        return pairs;
    }
    let together = |neighbours: &[BlockPair]| {
        let side = |of: fn(&BlockPair) -> f64| mean(&neighbours.iter().map(of).collect::<Vec<_>>());
        BlockPair { block: neighbours[0].block, left: side(|pair| pair.left), right: side(|pair| pair.right) }
    };
    pairs.chunks(each).map(together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Vec<BlockPair> {
        values.iter().zip(1..).map(|(&(left, right), block)| BlockPair { block, left, right }).collect()
    }

    #[test]
    fn positive_sides_are_compared_as_a_ratio() {
        let effect = effect_of(pairs(&[(2.0, 1.0), (4.0, 2.0), (2.2, 1.0)]), &Look::only(6), 0.02);
        assert_eq!(effect.scale, Scale::Ratio);
        assert!((effect.center.unwrap() - 2.0).abs() < 0.11);
        assert_eq!((effect.p, effect.equal_within), (None, 0.02), "three blocks decide nothing");
    }

    #[test]
    fn a_side_that_is_zero_makes_it_a_difference() {
        let effect = effect_of(pairs(&[(0.0, 0.01); 6]), &Look::only(6), 0.02);
        assert_eq!(effect.scale, Scale::Difference);
        assert_eq!((effect.center, effect.low, effect.high), (Some(-0.01), Some(-0.01), Some(-0.01)));
        assert!((effect.equal_within - 0.0002).abs() < 1e-12, "2 % of the right side");
        assert!(effect.p.unwrap() < 0.05, "equal values are not the same as none");
    }

    #[test]
    fn nothing_gives_nothing() {
        let effect = effect_of(Vec::new(), &Look::only(6), 0.02);
        assert_eq!((effect.center, effect.p, effect.confidence), (None, None, 0.0));
    }

    #[test]
    fn every_block_of_a_long_run_counts() {
        let values: Vec<(f64, f64)> = (0..1_700).map(|block| (1.0 + f64::from(block % 2), 1.0)).collect();
        let effect = effect_of(pairs(&values), &Look::only(1_700), 0.02);
        assert!(effect.blocks.len() <= PAIRS_MAX && effect.blocks.len() > PAIRS_MAX / 2);
        assert!((effect.center.unwrap() - 2.0_f64.sqrt()).abs() < 1e-6, "{:?}", effect.center);
    }

    #[test]
    fn the_typical_value_is_the_median() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }
}
