//! Every pair of levels of every factor, with the other factors equal.
//!
//! None of these was claimed in advance, and there are many: of twenty equal pairs, one would be called different by
//! chance. So they are corrected for their number, over the whole experiment, by the false discovery rate: on average,
//! at most one in twenty of those called different is not. If nothing differs, that is the probability that any pair is
//! called different.

use breme_experiment::plan::PlanMeasure;
use breme_expression::{Expression, Quantity};
use breme_stats::false_discovery_rates;

use crate::claims::with_each_level;
use crate::effect::{effect_of, pairs_between};
use crate::interval_position::IntervalPosition;
use crate::judgement::{Comparison, ComparisonCounts, Effect, Scale, Verdict};
use crate::levels::Levels;
use crate::look::Look;
use crate::noise_floor::NoiseFloors;
use crate::observations::{Observations, overridden};
use crate::question::{Factor, Question};
use crate::words::{self, different};

/// Limit of the comparisons kept, the most significant first.
pub const COMPARISONS_MAX: usize = 500;

/// If a factor has more levels than this, only neighbours are compared, and each with the first.
pub const LEVELS_MAX: usize = 50;

/// Compares every pair of levels. Decided comparisons come first, the largest differences before smaller ones.
pub(crate) fn compare_levels(
    question: &Question,
    seen: &Observations,
    floors: &NoiseFloors,
    look: &Look,
) -> (Vec<Comparison>, ComparisonCounts) {
    let mut comparisons = Vec::new();
    for measure in &question.measures {
        for factor in &question.factors {
            for others in combinations_without(&question.factors, &factor.name) {
                comparisons.extend(pairs_of_levels(question, seen, (floors, look), measure, factor, &others));
            }
        }
    }
    correct_for_number(&mut comparisons, look);
    // A stable sort keeps the plan's order among equals.
    comparisons.sort_by(|one, other| order(one).cmp(&order(other)).then(weight(other).total_cmp(&weight(one))));
    let counts = ComparisonCounts::of(&comparisons);
    comparisons.truncate(COMPARISONS_MAX);
    for comparison in &mut comparisons {
        comparison.sentence = sentence(question, look, comparison);
    }
    (comparisons, counts)
}

/// Withdraws verdicts that do not survive the correction for the number of comparisons. A comparison whose blocks are
/// all equal on both sides is no test.
fn correct_for_number(comparisons: &mut [Comparison], look: &Look) {
    let is_tested = |effect: &Effect| effect.p.is_some() && effect.blocks.iter().any(|pair| pair.left != pair.right);
    let tested: Vec<&mut Comparison> =
        comparisons.iter_mut().filter(|comparison| is_tested(&comparison.effect)).collect();
    let p_values: Vec<f64> = tested.iter().filter_map(|comparison| comparison.effect.p).collect();
    let rates = false_discovery_rates(&p_values);
    for (comparison, rate) in tested.into_iter().zip(rates) {
        comparison.effect.p_discovery = Some(rate);
        if comparison.verdict == Verdict::Supported && rate > 1.0 - look.confidence() + 1e-9 {
            // The confidence required of the only comparison that differs.
            let more_blocks = IntervalPosition::new(&comparison.effect, look).more_blocks(p_values.len());
            comparison.verdict = Verdict::Undecided { more_blocks };
        }
    }
}

/// Each combination of the levels of all factors but one.
pub(crate) fn combinations_without(factors: &[Factor], left_out: &str) -> Vec<Levels> {
    let others = factors.iter().filter(|factor| factor.name != left_out);
    others.fold(vec![Levels::new()], |combinations, factor| with_each_level(&combinations, factor))
}

fn pairs_of_levels(
    question: &Question,
    seen: &Observations,
    (floors, look): (&NoiseFloors, &Look),
    measure: &PlanMeasure,
    factor: &Factor,
    others: &Levels,
) -> Vec<Comparison> {
    let at = |level: &String| overridden(others, &[(factor.name.clone(), level.clone())]);
    let mut comparisons = Vec::new();
    for (index, right) in factor.levels.iter().enumerate() {
        let is_all = index == 0 || factor.levels.len() <= LEVELS_MAX;
        let with = if is_all { usize::MAX } else { 1 };
        for left in factor.levels[index + 1..].iter().take(with) {
            let pairs = pairs_between(seen, &measure.expression, &at(left), &at(right));
            if pairs.is_empty() {
                continue;
            }
            let mut effect = effect_of(pairs, look, question.equal_within);
            effect.floor = floors.for_expression(&measure.expression, effect.scale);
            let verdict = verdict_of_levels(&effect, look);
            comparisons.push(Comparison {
                measure: measure.name.clone(),
                factor: factor.name.clone(),
                left: left.clone(),
                right: right.clone(),
                at: others.clone(),
                verdict,
                // Its verdict may still be revoked, or the comparison dropped.
                sentence: String::new(),
                effect,
            });
        }
    }
    comparisons
}

pub(crate) fn verdict_of_levels(effect: &Effect, look: &Look) -> Verdict {
    let position = IntervalPosition::new(effect, look);
    if effect.center.is_none() {
        Verdict::NoData
    } else if position.is_equal() {
        Verdict::PracticallyEqual
    } else if position.is_below() || position.is_above() {
        Verdict::Supported
    } else if position.is_within_noise() {
        Verdict::Undecided { more_blocks: None }
    } else {
        Verdict::Undecided { more_blocks: position.more_blocks(1) }
    }
}

/// The measured quantity, if there is only one.
fn quantity_of(expression: &Expression) -> Option<&Quantity> {
    match expression {
        Expression::Measured { measure, .. } => Some(&measure.quantity),
        _ => None,
    }
}

fn sentence(question: &Question, look: &Look, comparison: &Comparison) -> String {
    let Comparison { verdict, effect, at: others, .. } = comparison;
    let measure = question.measures.iter().find(|measure| measure.name == comparison.measure);
    let factor = question.factors.iter().find(|factor| factor.name == comparison.factor);
    let (Some(measure), Some(factor)) = (measure, factor) else { return String::new() };
    let level = |level: &str| words::level_text(&factor.name, level);
    let (left, right) = (&*level(&comparison.left), &*level(&comparison.right));
    let name = &measure.name;
    let at = if others.is_empty() { String::new() } else { format!(" {}", words::at_levels(others)) };
    let said = words::effect(effect, measure.unit);
    let [Some(center), Some(low), Some(high)] = [effect.center, effect.low, effect.high] else {
        return format!("No block has `{name}` for both `{left}` and `{right}`{at}.");
    };
    let kind = if effect.scale == Scale::Ratio { "ratio" } else { "difference" };
    match verdict {
        Verdict::Supported if effect.scale == Scale::Ratio => {
            let said = different(quantity_of(&measure.expression), name, left, right, [center, low, high]);
            format!("{said}{at} (`{name}`).")
        }
        Verdict::Supported => format!("`{left}` and `{right}` differ in `{name}` by {said}{at}."),
        Verdict::PracticallyEqual => {
            format!("`{left}` and `{right}` are practically equal in `{name}`{at}: {kind} {said}.")
        }
        Verdict::Undecided { more_blocks } => {
            let more = more_blocks
                .map(|more| format!("; about {} would probably decide it", words::count(more as usize, "more block")));
            let nothing = if effect.scale == Scale::Ratio { 1.0 } else { 0.0 };
            let few = words::too_few_blocks(effect.blocks.len());
            // Noise, or one of many comparisons: the interval alone would indicate a difference.
            let why = match effect.p_discovery {
                _ if few.is_some() => few.map(|few| format!(" ({few})")).unwrap_or_default(),
                _ if low <= nothing && high >= nothing => String::new(),
                Some(rate) if rate > 1.0 - question.confidence => {
                    String::from(" (not after correction for all comparisons)")
                }
                _ if IntervalPosition::new(effect, look).is_within_noise() => {
                    String::from(" (two trials of the same combination, A/A, differ by as much)")
                }
                _ => String::new(),
            };
            format!(
                "No clear difference between `{left}` and `{right}` in `{name}`{at}: {kind} {said}{why}{}.",
                more.unwrap_or_default()
            )
        }
        Verdict::Refuted | Verdict::NoData => format!("`{left}` and `{right}` in `{name}`{at}: {kind} {said}."),
    }
}

/// Decided comparisons first, then equal ones, then undecided ones.
fn order(comparison: &Comparison) -> u8 {
    match comparison.verdict {
        Verdict::Supported | Verdict::Refuted => 0,
        Verdict::PracticallyEqual => 1,
        Verdict::Undecided { .. } => 2,
        Verdict::NoData => 3,
    }
}

/// Distance from "no difference", on one scale for all measures.
fn weight(comparison: &Comparison) -> f64 {
    let Effect { scale, center, blocks, .. } = &comparison.effect;
    match (scale, center) {
        (Scale::Ratio, Some(center)) => center.ln().abs(),
        (Scale::Difference, Some(center)) => {
            let size = blocks.iter().map(|pair| pair.left.abs().max(pair.right.abs())).fold(0.0, f64::max);
            if size > 0.0 { center.abs() / size } else { 0.0 }
        }
        (_, None) => 0.0,
    }
}
