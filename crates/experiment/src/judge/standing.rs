//! Where an interval stands: beside "no difference", inside of what counts as equal, or on both sides of something.
//!
//! An effect is believed when its interval is as sure as was asked, leaves "no difference" out, **and** its centre lies
//! beyond the noise floor. Six blocks are the fewest for 95 %: with five, even signs that all agree come up by chance
//! once in sixteen times.

use breme_stats::{more_blocks, signed_rank_p_above, signed_rank_p_below, student_p_above, student_p_below};

use crate::judge::effect::values_of;
use crate::judgement::{Effect, Scale};

/// An effect on the scale on which it is judged: 0 is no difference.
pub(crate) struct Standing<'a> {
    effect: &'a Effect,
    /// The confidence that was asked for.
    confidence: f64,
    values: Vec<f64>,
}

impl<'a> Standing<'a> {
    pub(crate) fn new(effect: &'a Effect, confidence: f64) -> Self {
        Self { effect, confidence, values: values_of(effect.scale, &effect.blocks) }
    }

    /// Whether the interval is as sure as was asked.
    pub(crate) fn is_sure(&self) -> bool {
        self.effect.center.is_some() && self.effect.confidence >= self.confidence
    }

    /// The left side is surely the smaller one.
    pub(crate) fn is_below(&self) -> bool {
        self.is_sure() && self.high() < 0.0 && self.center() < -self.floor()
    }

    /// The left side is surely the larger one.
    pub(crate) fn is_above(&self) -> bool {
        self.is_sure() && self.low() > 0.0 && self.center() > self.floor()
    }

    /// The interval leaves no difference out, but two trials of the same thing differed as much.
    pub(crate) fn is_within_noise(&self) -> bool {
        let excludes = self.high() < 0.0 || self.low() > 0.0;
        self.is_sure() && excludes && self.center().abs() <= self.floor()
    }

    /// Both sides are surely so alike that it does not matter.
    pub(crate) fn is_equal(&self) -> bool {
        self.is_sure() && self.low() >= -self.band() && self.high() <= self.band()
    }

    /// The difference is surely one that matters.
    pub(crate) fn is_beyond_equal(&self) -> bool {
        let is_outside = self.high() < -self.band() || self.low() > self.band();
        self.is_sure() && is_outside && self.center().abs() > self.floor()
    }

    /// The chance of such values if the side towards which they lean were the wrong one.
    pub(crate) fn p_of_direction(&self, test: Test) -> f64 {
        self.p_below(test, 0.0).min(self.p_above(test, 0.0))
    }

    /// The chance of such values if the sides were not equal (or if they were, where that is what the values lean to).
    pub(crate) fn p_of_equality(&self, test: Test) -> f64 {
        let band = self.band();
        let is_inside = self.p_below(test, band).max(self.p_above(test, -band));
        let is_outside = self.p_below(test, -band).min(self.p_above(test, band));
        is_inside.min(is_outside)
    }

    fn p_below(&self, test: Test, bound: f64) -> f64 {
        let p = match test {
            Test::Ranks => signed_rank_p_below(&self.values, bound),
            Test::Student => student_p_below(&self.values, bound),
        };
        p.unwrap_or(1.0)
    }

    fn p_above(&self, test: Test, bound: f64) -> f64 {
        let p = match test {
            Test::Ranks => signed_rank_p_above(&self.values, bound),
            Test::Student => student_p_above(&self.values, bound),
        };
        p.unwrap_or(1.0)
    }

    /// How many more blocks would probably tell on which side of "no difference" it lies, or that it makes none,
    /// whichever is sooner.
    pub(crate) fn more_blocks(&self, confidence: f64) -> Option<u32> {
        let fewest = blocks_min(confidence).saturating_sub(self.values.len() as u32);
        let beside = more_blocks(&self.values, 0.0, confidence);
        let inside = more_blocks(&self.values, self.band(), confidence)
            .zip(more_blocks(&self.values, -self.band(), confidence))
            .filter(|_| self.center().abs() < self.band())
            .map(|(above, below)| above.max(below));
        match beside.into_iter().chain(inside).min() {
            Some(0) | None if fewest > 0 => Some(fewest),
            more => more.filter(|&more| more > 0).map(|more| more.max(fewest)),
        }
    }

    fn center(&self) -> f64 {
        self.on_scale(self.effect.center)
    }

    fn low(&self) -> f64 {
        self.on_scale(self.effect.low)
    }

    fn high(&self) -> f64 {
        self.on_scale(self.effect.high)
    }

    fn on_scale(&self, value: Option<f64>) -> f64 {
        let value = value.unwrap_or(f64::NAN);
        if self.effect.scale == Scale::Ratio { value.ln() } else { value }
    }

    fn floor(&self) -> f64 {
        match self.effect.scale {
            Scale::Ratio => self.effect.floor.map_or(0.0, f64::ln),
            Scale::Difference => self.effect.floor.unwrap_or(0.0),
        }
    }

    fn band(&self) -> f64 {
        match self.effect.scale {
            Scale::Ratio => self.effect.equal_within.ln_1p(),
            Scale::Difference => self.effect.equal_within,
        }
    }
}

/// The fewest blocks whose signs can be that sure, if they all agree: six for 95 %.
#[must_use]
pub fn blocks_min(confidence: f64) -> u32 {
    let outside = (1.0 - confidence).max(1e-9);
    (2.0 / outside).log2().ceil() as u32
}

/// By what the chances are computed that are corrected for their number. The interval is that of the ranks, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// Ranks: nothing is assumed about the scatter. The least chance that `n` blocks can give is 1 ÷ 2ⁿ.
    Ranks,
    /// Student's: where even that, times the number of questions, is above the level. Then no effect could ever be
    /// called sure, however large.
    Student,
}

impl Test {
    /// Which one depends on how many blocks and questions there are, and on nothing that was measured.
    pub(crate) fn of(blocks: usize, questions: usize, confidence: f64) -> Self {
        let least = 0.5_f64.powi(blocks.min(1_000) as i32) * questions as f64;
        if least <= 1.0 - confidence + 1e-9 { Self::Ranks } else { Self::Student }
    }
}

/// How sure the interval of one of so many hypotheses must be, so that the first of them passes Holm's correction.
pub(crate) fn confidence_for(hypotheses: usize, confidence: f64) -> f64 {
    let outside = 1.0 - confidence;
    1.0 - outside.min(2.0 * outside / hypotheses.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::effect::effect_of;
    use crate::judgement::BlockPair;

    fn effect(ratios: &[f64], floor: Option<f64>) -> Effect {
        let pairs = ratios.iter().zip(1..).map(|(&left, block)| BlockPair { block, left, right: 1.0 }).collect();
        Effect { floor, ..effect_of(pairs, 0.95, 0.02) }
    }

    const LOW: [f64; 6] = [0.80, 0.81, 0.79, 0.80, 0.82, 0.78];

    #[test]
    fn a_clear_effect_is_believed_from_six_blocks_on() {
        let clear = effect(&LOW, Some(1.05));
        assert!(Standing::new(&clear, 0.95).is_below() && Standing::new(&clear, 0.95).is_beyond_equal());
        let few = effect(&LOW[..5], Some(1.05));
        assert!(!Standing::new(&few, 0.95).is_below());
        assert_eq!(Standing::new(&few, 0.95).more_blocks(0.95), Some(1));
        let one = effect(&LOW[..1], None);
        assert!(!Standing::new(&one, 0.95).is_sure());
        assert_eq!(Standing::new(&one, 0.95).more_blocks(0.95), Some(5));
    }

    #[test]
    fn an_effect_below_the_floor_is_noise() {
        let noisy = effect(&LOW, Some(1.3));
        let standing = Standing::new(&noisy, 0.95);
        assert!(!standing.is_below() && !standing.is_above() && standing.is_within_noise());
    }

    #[test]
    fn small_effects_are_equal_and_not_beyond() {
        let small = effect(&[1.001, 1.004, 0.999, 1.002, 1.003, 1.0], None);
        let standing = Standing::new(&small, 0.95);
        assert!(standing.is_equal() && !standing.is_beyond_equal());
        assert!(standing.p_of_equality(Test::Ranks) < 0.05);
    }

    #[test]
    fn the_fewest_blocks_and_what_they_can_answer() {
        assert_eq!([0.9, 0.95, 0.99].map(blocks_min), [5, 6, 8]);
        let tests =
            [(6, 1), (6, 3), (6, 4), (10, 51), (10, 52)].map(|(blocks, questions)| Test::of(blocks, questions, 0.95));
        assert_eq!(tests, [Test::Ranks, Test::Ranks, Test::Student, Test::Ranks, Test::Student]);
    }
}
