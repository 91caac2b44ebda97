//! What became of a hypothesis, in a sentence with its numbers.

use crate::expression::{Claim, Expression, Relation, Unit};
use crate::judge::effect::typical;
use crate::judge::levels::in_words;
use crate::judge::words::{self, amount, count};
use crate::judgement::{Case, Effect, Scale, Verdict};

pub(super) fn of_hypothesis(claim: &Claim, verdict: Verdict, cases: &[Case]) -> String {
    let head = head_of(verdict);
    let [case] = cases else { return of_cases(claim, head, verdict, cases) };
    let tail = tail_of(case);
    match verdict {
        Verdict::NoData => format!("{head}{tail}."),
        _ => format!("{head}: {}{tail}.", of_case(claim, case)),
    }
}

fn head_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Supported => "Supported",
        Verdict::Refuted => "Refuted",
        Verdict::PracticallyEqual => "Practically equal",
        Verdict::Undecided { .. } => "Undecided",
        Verdict::NoData => "No data",
    }
}

fn tail_of(case: &Case) -> String {
    let more = match case.verdict {
        Verdict::Undecided { more_blocks: Some(more) } => {
            format!("; about {} would probably tell", count(more as usize, "more block"))
        }
        _ => String::new(),
    };
    let reason = case.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{more}{reason}")
}

/// The one that decides is told, and how many there are.
fn of_cases(claim: &Claim, head: &str, verdict: Verdict, cases: &[Case]) -> String {
    let same: Vec<&Case> = cases.iter().filter(|case| head_of(case.verdict) == head).collect();
    let telling = same.iter().copied().min_by(|one, other| {
        let (one, other) = (strength(&one.effect), strength(&other.effect));
        // What refutes is told where it is clearest; what supports, where it is least clear.
        if verdict == Verdict::Refuted { other.total_cmp(&one) } else { one.total_cmp(&other) }
    });
    let Some(case) = telling else { return format!("{head}.") };
    let at = in_words(&case.levels);
    let tail = tail_of(case);
    if verdict == Verdict::NoData {
        return format!("{head} at {} of {}, as {at}{tail}.", same.len(), count(cases.len(), "combination"));
    }
    let said = of_case(claim, case);
    if same.len() == cases.len() {
        let which = match verdict {
            _ if strength(&case.effect) == 0.0 => "as",
            Verdict::Refuted => "most clearly",
            _ => "least clearly",
        };
        format!("{head} at all {}, {which} at {at}: {said}{tail}.", count(cases.len(), "combination"))
    } else {
        format!("{head} at {} of {}, as at {at}: {said}{tail}.", same.len(), count(cases.len(), "combination"))
    }
}

/// How far the near end of the interval is from "no difference".
fn strength(effect: &Effect) -> f64 {
    let (Some(low), Some(high)) = (effect.low, effect.high) else { return 0.0 };
    let (low, high) = if effect.scale == Scale::Ratio { (low.ln(), high.ln()) } else { (low, high) };
    if low <= 0.0 && high >= 0.0 { 0.0 } else { low.abs().min(high.abs()) }
}

fn of_case(claim: &Claim, case: &Case) -> String {
    let blocks = count(case.effect.blocks.len(), "block");
    if claim.right.is_constant() {
        let at = against_constant(&claim.left, &case.effect, Side::Left);
        return format!("`{}` is {at} over {blocks}, {} `{}`", claim.left, stands(claim, &case.effect), claim.right);
    }
    if claim.left.is_constant() {
        let at = against_constant(&claim.right, &case.effect, Side::Right);
        return format!("`{}` is {at} over {blocks}, against `{}`", claim.right, claim.left);
    }
    of_two(claim, &case.effect, &blocks)
}

fn of_two(claim: &Claim, effect: &Effect, blocks: &str) -> String {
    let unit = claim.left.unit();
    let side = |of: fn(&crate::judgement::BlockPair) -> f64, unit: Unit| {
        typical(effect.blocks.iter().map(of)).map(|value| amount(value, unit)).unwrap_or_default()
    };
    let (left, right) = (side(|pair| pair.left, unit), side(|pair| pair.right, claim.right.unit()));
    let said = words::effect(effect, unit);
    match effect.scale {
        Scale::Ratio => format!("`{}` ({left}) is {said} times `{}` ({right}) over {blocks}", claim.left, claim.right),
        Scale::Difference => {
            format!("`{}` ({left}) less `{}` ({right}) is {said} over {blocks}", claim.left, claim.right)
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// The measured side itself, with its interval, where the other one is a number.
fn against_constant(measured: &Expression, effect: &Effect, side: Side) -> String {
    let constant = effect.blocks.first().map(|pair| if side == Side::Left { pair.right } else { pair.left });
    let (Some(constant), Some(ends)) =
        (constant, [effect.center, effect.low, effect.high].into_iter().collect::<Option<Vec<f64>>>())
    else {
        return "unknown".to_owned();
    };
    let back = |value: f64| match (effect.scale, side) {
        (Scale::Ratio, Side::Left) => constant * value,
        (Scale::Ratio, Side::Right) => constant / value,
        (Scale::Difference, Side::Left) => constant + value,
        (Scale::Difference, Side::Right) => constant - value,
    };
    let unit = measured.unit();
    let [center, one, other] = [0, 1, 2].map(|index| back(ends[index]));
    // What is below 500 must not read as 500.
    let [center, low, high] =
        [center, one.min(other), one.max(other)].map(|value| words::amount_beside(constant, value, unit));
    if low == high { center } else { format!("{center} ({low} to {high})") }
}

fn stands(claim: &Claim, effect: &Effect) -> &'static str {
    let nothing = if effect.scale == Scale::Ratio { 1.0 } else { 0.0 };
    let is_beside = |low: f64, high: f64| low > nothing || high < nothing;
    match (effect.low, effect.high) {
        (Some(low), Some(high)) if is_beside(low, high) => {
            if high < nothing {
                "below"
            } else {
                "above"
            }
        }
        _ if claim.relation == Relation::Equal => "as",
        _ => "against",
    }
}
