//! Changes of level.

use breme_base::Random;

use super::batch_means::{BatchMeans, VALUES_MIN, best_split, median, slope};
use super::finding::{EFFECT_MIN, Effect, Hypothesis, LevelChange, Metric, Ratio, TestResult};

/// Permutations: the smallest p is the reciprocal of one more.
const PERMUTATIONS: usize = 1_999;
const SEED: u64 = 0x77a7;
/// A change of level has one more parameter than a line, its position: its residuals must be smaller by this factor.
const LINE_FAVOUR: f64 = 1.15;
/// Limit of the values on each side of a change that are used for its interval.
const SIDE_MAX: usize = 250;

const TOO_FEW: &str = "too few measurements";
const TOO_ALIKE: &str = "neighbouring measurements are too alike to tell an effect from chance";

/// Tests for a change of level. Steady growth is not one.
pub(super) fn change(measure: Metric, values: &[(f64, f64)]) -> TestResult {
    TestResult { hypothesis: Hypothesis::Change(measure), outcome: judge_change(values) }
}

fn judge_change(values: &[(f64, f64)]) -> Result<(f64, Option<Effect>), &'static str> {
    if values.len() < VALUES_MIN {
        return Err(TOO_FEW);
    }
    let means = BatchMeans::from_values(values).ok_or(TOO_ALIKE)?;
    let blocks = &means.blocks;
    let levels: Vec<f64> = blocks.iter().map(|(_, level)| *level).collect();
    let Some((at, size)) = best_split(&levels) else { return Ok((1.0, None)) };
    let p = permutation_p(&levels, size / means.inflation.sqrt(), |levels| {
        best_split(levels).map_or(0.0, |(_, size)| size)
    });
    if is_better_as_line(blocks, at) {
        return Ok((p, None));
    }
    // The single measurement near the boundary of blocks at which the level changed.
    let near = values.len() * at / blocks.len();
    let width = values.len() / blocks.len() + 1;
    let (from, to) = (near.saturating_sub(2 * width), (near + 2 * width).min(values.len()));
    let window: Vec<f64> = values[from..to].iter().map(|(_, level)| *level).collect();
    let at = best_split(&window).map_or(near, |(at, _)| from + at);
    Ok((p, effect_of_change(values, &means.into_coarse(values), at).map(Effect::Change)))
}

fn effect_of_change(values: &[(f64, f64)], blocks: &[(f64, f64)], at: usize) -> Option<LevelChange> {
    let at_ms = values[at].0;
    let side = |is_after: bool| -> Vec<f64> {
        let wanted = blocks.iter().filter(|(time, _)| (*time >= at_ms) == is_after);
        wanted.map(|(_, level)| level.exp()).take(SIDE_MAX).collect()
    };
    let ratio = breme_stats::rank_sum::ratio(&side(true), &side(false), 0.95)?;
    let change =
        LevelChange { at_ms: at_ms as i64, ratio: Ratio { center: ratio.center, low: ratio.low, high: ratio.high } };
    (ratio.center.ln().abs() >= (1.0 + EFFECT_MIN).ln()).then_some(change)
}

/// Share of permutations with at least this score.
fn permutation_p(levels: &[f64], seen: f64, score: impl Fn(&[f64]) -> f64) -> f64 {
    let mut random = Random::new(SEED);
    let mut levels = levels.to_vec();
    let larger = (0..PERMUTATIONS)
        .filter(|_| {
            for last in (1..levels.len()).rev() {
                levels.swap(last, random.below(last as u64 + 1) as usize);
            }
            score(&levels) >= seen
        })
        .count();
    (larger + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// Whether a line leaves about as small residuals as a change of level at this block, or smaller.
fn is_better_as_line(blocks: &[(f64, f64)], at: usize) -> bool {
    let slope = slope(blocks);
    let rest = |levels: Vec<f64>| {
        let middle = median(&mut levels.clone());
        levels.iter().map(|level| (level - middle).abs()).sum::<f64>()
    };
    let by_line = rest(blocks.iter().map(|(x, y)| y - slope * x).collect());
    let levels = |part: &[(f64, f64)]| part.iter().map(|(_, y)| *y).collect::<Vec<_>>();
    by_line <= LINE_FAVOUR * (rest(levels(&blocks[..at])) + rest(levels(&blocks[at..])))
}
