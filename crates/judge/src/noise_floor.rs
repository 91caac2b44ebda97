//! The noise floor: how much two trials of the same combination differ.
//!
//! Every interval covers the random variation between blocks, but not what makes two trials of the *same combination*
//! differ in the same direction in each block: the order, a port, a warm disk. The A/A pair shows that, so an effect
//! counts only if it exceeds the A/A difference ([`breme_stats::noise_floor`]: the farther end of its 50 % interval).

use breme_expression::{Expression, Measure};
use breme_stats::{FLOOR_CONFIDENCE, hodges_lehmann, noise_floor};

use crate::effect::{effect_of, values_of};
use crate::judgement::{BlockPair, Effect, NoiseFloor, Scale};
use crate::look::Look;
use crate::observations::Observations;
use crate::question::Question;

/// The noise floors of all measures.
pub(crate) struct NoiseFloors {
    of: Vec<(Expression, Effect)>,
}

impl NoiseFloors {
    /// The measured noise floors, and their description in the judgement.
    pub(crate) fn seen(question: &Question, seen: &Observations) -> (Self, Vec<NoiseFloor>) {
        let look = Look::at(question, seen);
        let (mut of, mut shown) = (Vec::new(), Vec::new());
        for measure in question.shown() {
            for levels in seen.combinations().filter(|levels| seen.is_repeated(levels)) {
                let pair = |block| {
                    seen.pair(&measure.expression, levels, block).map(|(right, left)| BlockPair { block, left, right })
                };
                let pairs: Vec<BlockPair> = seen.blocks_of(levels).filter_map(pair).collect();
                if pairs.is_empty() {
                    continue;
                }
                let mut effect = effect_of(pairs, &look, question.equal_within);
                effect.floor = floor_of(&effect, effect.scale);
                let is_biased = effect.p.is_some() && excludes_nothing(&effect);
                of.push((measure.expression.clone(), effect.clone()));
                shown.push(NoiseFloor { measure: measure.name.clone(), levels: levels.clone(), effect, is_biased });
            }
        }
        (Self { of }, shown)
    }

    /// The floor for an effect on these measures: the largest among them; none if none was measured on this scale.
    pub(crate) fn for_measures(&self, measures: &[&Measure], scale: Scale) -> Option<f64> {
        let is_involved = |expression: &Expression| matches!(expression, Expression::Measured { measure, at } if at.is_empty() && measures.contains(&measure));
        self.largest(is_involved, scale)
    }

    /// The largest floor of an expression.
    pub(crate) fn for_expression(&self, expression: &Expression, scale: Scale) -> Option<f64> {
        self.largest(|known| known == expression, scale)
    }

    fn largest(&self, is_involved: impl Fn(&Expression) -> bool, scale: Scale) -> Option<f64> {
        let involved = self.of.iter().filter(|(expression, _)| is_involved(expression));
        involved.filter_map(|(_, effect)| floor_of(effect, scale)).reduce(f64::max)
    }
}

/// How much two trials of the same combination may differ: a ratio of at least 1, or a difference of at least 0. Both
/// are the farther end of an interval of [`FLOOR_CONFIDENCE`].
fn floor_of(effect: &Effect, scale: Scale) -> Option<f64> {
    match scale {
        Scale::Ratio => noise_floor(&effect.blocks.iter().map(|pair| (pair.left, pair.right)).collect::<Vec<_>>()),
        Scale::Difference => hodges_lehmann(&values_of(scale, &effect.blocks), FLOOR_CONFIDENCE)
            .map(|estimate| estimate.low.abs().max(estimate.high.abs())),
    }
}

fn excludes_nothing(effect: &Effect) -> bool {
    let nothing = if effect.scale == Scale::Ratio { 1.0 } else { 0.0 };
    effect.low.is_some_and(|low| low > nothing) || effect.high.is_some_and(|high| high < nothing)
}
