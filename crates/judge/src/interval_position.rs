//! The position of an interval relative to "no difference" and to the range of practical equality.
//!
//! An effect is accepted if its interval excludes "no difference" **and** its centre lies beyond the noise floor. At
//! least [`BLOCKS_MIN`] blocks are needed.

use breme_stats::{BLOCKS_MIN, TrimmedMean, more_blocks};

use crate::effect::{trim_of, values_of};
use crate::judgement::{Effect, Scale};
use crate::look::Look;

/// An effect on the scale of the judgement: 0 is no difference.
pub(crate) struct IntervalPosition<'a> {
    effect: &'a Effect,
    look: &'a Look,
    values: Vec<f64>,
}

impl<'a> IntervalPosition<'a> {
    pub(crate) fn new(effect: &'a Effect, look: &'a Look) -> Self {
        Self { effect, look, values: values_of(effect.scale, &effect.blocks) }
    }

    /// Whether there are enough blocks for a verdict.
    pub(crate) fn is_sure(&self) -> bool {
        self.effect.center.is_some() && self.values.len() >= BLOCKS_MIN as usize
    }

    /// The left side is significantly smaller.
    pub(crate) fn is_below(&self) -> bool {
        self.is_sure() && self.high() < 0.0 && self.center() < -self.floor()
    }

    /// The left side is significantly larger.
    pub(crate) fn is_above(&self) -> bool {
        self.is_sure() && self.low() > 0.0 && self.center() > self.floor()
    }

    /// The interval excludes "no difference", but two trials of the same combination differed as much.
    pub(crate) fn is_within_noise(&self) -> bool {
        let excludes = self.high() < 0.0 || self.low() > 0.0;
        self.is_sure() && excludes && self.center().abs() <= self.floor()
    }

    /// The whole interval lies within the range of practical equality.
    pub(crate) fn is_equal(&self) -> bool {
        self.is_sure() && self.low() >= -self.band() && self.high() <= self.band()
    }

    /// The whole interval lies outside the range of practical equality, and the centre beyond the noise floor.
    pub(crate) fn is_beyond_equal(&self) -> bool {
        let is_outside = self.high() < -self.band() || self.low() > self.band();
        self.is_sure() && is_outside && self.center().abs() > self.floor()
    }

    /// Two-sided, and corrected for all looks: at most 1 − the confidence if and only if the interval excludes "no
    /// difference".
    pub(crate) fn p_of_direction(&self) -> f64 {
        self.corrected(|mean| mean.p_below(0.0).min(mean.p_above(0.0)))
    }

    /// At most 1 − the confidence if and only if the interval lies wholly within the range of practical equality, or
    /// wholly outside.
    pub(crate) fn p_of_equality(&self) -> f64 {
        let band = self.band();
        self.corrected(|mean| {
            // Without scatter the interval is a point, and it lies inside even if the band is a point as well.
            if mean.error == 0.0 && mean.center.abs() <= band {
                return 0.0;
            }
            let is_inside = mean.p_below(band).max(mean.p_above(-band));
            let is_outside = mean.p_below(-band).min(mean.p_above(band));
            is_inside.min(is_outside)
        })
    }

    fn corrected(&self, one_sided: impl Fn(&TrimmedMean) -> f64) -> f64 {
        let mean = TrimmedMean::from_values(&self.values, trim_of(self.effect.scale)).filter(|_| self.is_sure());
        mean.map_or(1.0, |mean| self.look.corrected((2.0 * one_sided(&mean)).min(1.0)))
    }

    /// How many more blocks would probably show on which side of "no difference" it lies, or that there is no relevant
    /// difference, whichever comes first; as one of `family` tests.
    pub(crate) fn more_blocks(&self, family: usize) -> Option<u32> {
        let trim = trim_of(self.effect.scale);
        let fewest = BLOCKS_MIN.saturating_sub(self.values.len() as u32);
        let clear_of = |bound| more_blocks(&self.values, trim, bound, |more| self.look.level_after(more, family));
        let inside = clear_of(self.band()).zip(clear_of(-self.band())).filter(|_| self.center().abs() < self.band());
        let inside = inside.map(|(above, below)| above.max(below));
        match clear_of(0.0).into_iter().chain(inside).min() {
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
        self.effect.scale.transform(value.unwrap_or(f64::NAN))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::effect_of;
    use crate::judgement::BlockPair;

    fn effect(ratios: &[f64], floor: Option<f64>) -> (Effect, Look) {
        let pairs = ratios.iter().zip(1..).map(|(&left, block)| BlockPair { block, left, right: 1.0 }).collect();
        let look = Look::only(6);
        (Effect { floor, ..effect_of(pairs, &look, 0.02) }, look)
    }

    const LOW: [f64; 6] = [0.80, 0.81, 0.79, 0.80, 0.82, 0.78];

    #[test]
    fn a_clear_effect_is_believed_from_five_blocks_on() {
        for count in [5, 6] {
            let (clear, look) = effect(&LOW[..count], Some(1.05));
            let position = IntervalPosition::new(&clear, &look);
            assert!(position.is_below() && position.is_beyond_equal() && position.p_of_direction() < 0.001);
        }
        for (count, more) in [(4, 1), (1, 4)] {
            let (few, look) = effect(&LOW[..count], Some(1.05));
            let position = IntervalPosition::new(&few, &look);
            assert!(!position.is_sure() && !position.is_below());
            assert_eq!((position.more_blocks(1), position.p_of_direction()), (Some(more), 1.0));
        }
    }

    #[test]
    fn an_effect_below_the_floor_is_noise() {
        let (noisy, look) = effect(&LOW, Some(1.3));
        let position = IntervalPosition::new(&noisy, &look);
        assert!(!position.is_below() && !position.is_above() && position.is_within_noise());
    }

    #[test]
    fn two_sides_that_are_always_zero_are_equal() {
        let pairs = (1..=6).map(|block| BlockPair { block, left: 0.0, right: 0.0 }).collect();
        let look = Look::only(6);
        let zero = effect_of(pairs, &look, 0.02);
        let position = IntervalPosition::new(&zero, &look);
        assert!(position.is_equal() && !position.is_beyond_equal());
        assert_eq!(position.p_of_equality(), 0.0);
    }

    #[test]
    fn small_effects_are_equal_and_not_beyond() {
        let (small, look) = effect(&[1.001, 1.004, 0.999, 1.002, 1.003, 1.0], None);
        let position = IntervalPosition::new(&small, &look);
        assert!(position.is_equal() && !position.is_beyond_equal());
        assert!(position.p_of_equality() < 0.05);
    }
}
