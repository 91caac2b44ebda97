//! Changes of level, and growth.

use breme_base::Random;

use super::blocks::{VALUES_MIN, independent, ranks, slope, slopes};
use super::{EFFECT_MIN, Effect, GROWTH_MIN, Hypothesis, Metric, Ratio, TestResult, median};

/// Permutations: the smallest p is the reciprocal of one more.
const PERMUTATIONS: usize = 1_999;
const SEED: u64 = 0x77a7;
/// Blocks before the first and after the last change that can be found.
const EDGE: usize = 3;
const DAY_MS: f64 = 86_400_000.0;
/// A change of level has one more parameter than a line, its place: it must leave this much less.
const LINE_FAVOUR: f64 = 1.15;
/// Values on each side of a change that its interval is made of.
const SIDE_MAX: usize = 250;

const TOO_FEW: &str = "too few measurements";
const TOO_ALIKE: &str = "neighbouring measurements are too alike to tell an effect from chance";

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// When, Unix time in milliseconds.
    pub at_ms: i64,
    /// The level after it, divided by that before it, with an interval of 95 %.
    pub ratio: Ratio,
}

/// Growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Factor per day, with an interval of 95 %.
    pub per_day: Ratio,
    /// Factor over the whole time.
    pub total: f64,
}

/// Did the level change? A steady growth is none.
pub(super) fn change(measure: Metric, values: &[(f64, f64)]) -> TestResult {
    TestResult { hypothesis: Hypothesis::Change(measure), outcome: judge_change(values) }
}

/// Does it grow? A change of level is no growth, and what shrinks does not leak.
pub(super) fn trend(measure: Metric, values: &[(f64, f64)]) -> TestResult {
    TestResult { hypothesis: Hypothesis::Growth(measure), outcome: judge_trend(values) }
}

fn judge_change(values: &[(f64, f64)]) -> Result<(f64, Option<Effect>), &'static str> {
    if values.len() < VALUES_MIN {
        return Err(TOO_FEW);
    }
    let blocks = independent(values).ok_or(TOO_ALIKE)?;
    let levels: Vec<f64> = blocks.iter().map(|(_, level)| *level).collect();
    let Some((at, size)) = split(&levels) else { return Ok((1.0, None)) };
    let p = permuted(&levels, size, |levels| split(levels).map_or(0.0, |(_, size)| size)).0;
    if is_better_as_line(&blocks, at) {
        return Ok((p, None));
    }
    // To the single measurement, near the boundary of blocks.
    let near = values.len() * at / blocks.len();
    let width = values.len() / blocks.len() + 1;
    let (from, to) = (near.saturating_sub(2 * width), (near + 2 * width).min(values.len()));
    let window: Vec<f64> = values[from..to].iter().map(|(_, level)| *level).collect();
    let at = split(&window).map_or(near, |(at, _)| from + at);
    Ok((p, effect_of_change(values, &blocks, at).map(Effect::Change)))
}

fn effect_of_change(values: &[(f64, f64)], blocks: &[(f64, f64)], at: usize) -> Option<Change> {
    let at_ms = values[at].0;
    // The interval is that of blocks, which are independent.
    let side = |is_after: bool| -> Vec<f64> {
        let wanted = blocks.iter().filter(|(time, _)| (*time >= at_ms) == is_after);
        wanted.map(|(_, level)| level.exp()).take(SIDE_MAX).collect()
    };
    let ratio = breme_stats::rank_sum::ratio(&side(true), &side(false), 0.95)?;
    let change =
        Change { at_ms: at_ms as i64, ratio: Ratio { center: ratio.center, low: ratio.low, high: ratio.high } };
    (ratio.center.ln().abs() >= (1.0 + EFFECT_MIN).ln()).then_some(change)
}

fn judge_trend(values: &[(f64, f64)]) -> Result<(f64, Option<Effect>), &'static str> {
    if values.len() < VALUES_MIN {
        return Err(TOO_FEW);
    }
    let blocks = independent(values).ok_or(TOO_ALIKE)?;
    let levels: Vec<f64> = blocks.iter().map(|(_, level)| *level).collect();
    let (p, spread) = permuted(&levels, kendall(&levels), kendall);
    if split(&levels).is_some_and(|(at, _)| !is_better_as_line(&blocks, at)) {
        return Ok((p, None));
    }
    let mut slopes = slopes(&blocks);
    slopes.sort_by(f64::total_cmp);
    // Sen's interval, with the spread of Kendall's score under permutation.
    let outside = ((slopes.len() as f64 - spread) / 2.0).max(0.0) as usize;
    let per_day = |slope: f64| (slope * DAY_MS).exp();
    let per_day = Ratio {
        center: per_day(median(&mut slopes.clone())),
        low: per_day(slopes[outside.min(slopes.len() - 1)]),
        high: per_day(slopes[slopes.len() - 1 - outside.min(slopes.len() - 1)]),
    };
    let days = (values[values.len() - 1].0 - values[0].0) / DAY_MS;
    let total = per_day.center.powf(days);
    let is_large = total >= 1.0 + GROWTH_MIN;
    Ok((p, is_large.then_some(Effect::Trend(Trend { per_day, total }))))
}

/// The place that divides the levels best, and how far the sum of ranks before it lies from its mean, in standard
/// deviations.
pub(super) fn split(levels: &[f64]) -> Option<(usize, f64)> {
    let ranks = ranks(levels);
    let (count, mean) = (ranks.len() as f64, (ranks.len() as f64 - 1.0) / 2.0);
    let mut sum = 0.0;
    let sums = ranks.iter().enumerate().map(|(index, rank)| {
        sum += rank - mean;
        let before = index as f64 + 1.0;
        (index + 1, sum.abs() / (before * (count - before) * (count + 1.0) / 12.0).max(1e-9).sqrt())
    });
    let inner = sums.filter(|(at, _)| *at >= EDGE && at + EDGE <= ranks.len());
    inner.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Mann–Kendall's score: large where later values are larger.
fn kendall(levels: &[f64]) -> f64 {
    let pairs = levels.iter().enumerate().flat_map(|(index, a)| levels[index + 1..].iter().map(move |b| (a, b)));
    let score: i64 = pairs.map(|(a, b)| i64::from(b > a) - i64::from(b < a)).sum();
    score as f64
}

/// How often a permutation gives at least as much, and what 97.5 % of them stay below.
fn permuted(levels: &[f64], seen: f64, score: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    let mut random = Random::new(SEED);
    let mut levels = levels.to_vec();
    let mut scores: Vec<f64> = (0..PERMUTATIONS)
        .map(|_| {
            for last in (1..levels.len()).rev() {
                levels.swap(last, random.below(last as u64 + 1) as usize);
            }
            score(&levels)
        })
        .collect();
    let larger = scores.iter().filter(|&&score| score >= seen).count();
    scores.sort_by(f64::total_cmp);
    ((larger + 1) as f64 / (PERMUTATIONS + 1) as f64, scores[PERMUTATIONS * 975 / 1_000])
}

/// Whether a line leaves about as little as a change of level at this block, or less.
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
