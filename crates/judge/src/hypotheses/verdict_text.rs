//! The verdict on a hypothesis in words and numbers.

use breme_expression::{Claim, Unit};

use crate::effect::median;
use crate::hypotheses::case_result;
use crate::judgement::{BlockPair, Case, Effect, FindingKind, Verdict};
use crate::levels::Levels;
use crate::words::{amount, at_levels, count};

#[derive(Default)]
pub(super) struct VerdictText {
    /// The complete text.
    pub(super) sentence: String,
    /// The deciding number: "At 1 user `rate(user)` with a is 1.01 times (0.99–1.10) that with b; claimed: more than
    /// 1.2".
    pub(super) finding: String,
    /// The basis of the verdict.
    pub(super) basis: String,
}

pub(super) fn describe(claim: &Claim, verdict: Verdict, cases: &[Case]) -> VerdictText {
    let head = head_of(verdict);
    let same: Vec<&Case> = cases.iter().filter(|case| head_of(case.verdict) == head).collect();
    let Some(case) = quoted_case(verdict, &same) else {
        return VerdictText { sentence: format!("{head}."), ..VerdictText::default() };
    };
    let share = share(same.len(), cases.len());
    let tail = tail_of(case);
    let at = at_levels(&levels_beside(claim, case));
    let Some(found) = &case.finding else {
        let place = if at.is_empty() || cases.len() == 1 { String::new() } else { format!(", for example {at}") };
        let basis = tail.trim_start_matches(['(', ' ', ';']).trim_end_matches(')');
        return VerdictText {
            sentence: format!("{head}{share}{place}{tail}."),
            basis: sentence(basis),
            ..VerdictText::default()
        };
    };
    let place = match cases.len() {
        1 if at.is_empty() => String::new(),
        1 => format!(" {at}"),
        all => format!("{} {at}", which(verdict, &case.effect, same.len(), all)),
    };
    let found = format!("{}; claimed: {}", found.sentence, found.claimed);
    let measured = measured(claim, case);
    VerdictText {
        sentence: format!("{head}{share}{place}: {found}; {measured}{tail}."),
        finding: if at.is_empty() { found } else { format!("{} {found}", capitalised(&at)) },
        basis: sentence(&match share.as_str() {
            "" => format!("{measured}{tail}"),
            share => format!("{head}{share}; {measured}{tail}"),
        }),
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

/// The case to quote: the clearest that refutes, or the least clear that supports.
fn quoted_case<'a>(verdict: Verdict, same: &[&'a Case]) -> Option<&'a Case> {
    same.iter().copied().min_by(|one, other| {
        let (one, other) = (strength(&one.effect), strength(&other.effect));
        if verdict == Verdict::Refuted { other.total_cmp(&one) } else { one.total_cmp(&other) }
    })
}

/// The number of combinations; empty for a hypothesis with one.
fn share(same: usize, all: usize) -> String {
    match all {
        1 => String::new(),
        _ if same == all => format!(" at all {}", count(all, "combination")),
        _ => format!(" at {same} of {}", count(all, "combination")),
    }
}

fn which(verdict: Verdict, effect: &Effect, same: usize, all: usize) -> &'static str {
    match verdict {
        _ if same == 1 => ",",
        _ if same < all || strength(effect) == 0.0 => ", for example",
        Verdict::Refuted => ", most clearly",
        _ => ", least clearly",
    }
}

fn tail_of(case: &Case) -> String {
    let more = match case.verdict {
        Verdict::Undecided { more_blocks: Some(more) } => {
            format!("; about {} would probably decide it", count(more as usize, "more block"))
        }
        _ => String::new(),
    };
    let reason = case.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{more}{reason}")
}

/// The case's levels except those that the finding itself names.
fn levels_beside(claim: &Claim, case: &Case) -> Levels {
    let measures = claim.measures();
    let is_named = |factor: &String| measures.iter().any(|(_, at)| at.iter().any(|(name, _)| name == factor));
    let mut levels = case.levels.clone();
    if case_result::says_levels(claim, case) {
        levels.retain(|factor, _| !is_named(factor));
    }
    levels
}

/// How far the near end of the interval is from the bound.
fn strength(effect: &Effect) -> f64 {
    let (Some(low), Some(high)) = (effect.low, effect.high) else { return 0.0 };
    let (low, high) = (effect.scale.transform(low), effect.scale.transform(high));
    if low <= 0.0 && high >= 0.0 { 0.0 } else { low.abs().min(high.abs()) }
}

/// `74,092/s against 61,200/s over 6 blocks`.
fn measured(claim: &Claim, case: &Case) -> String {
    let blocks = count(case.effect.blocks.len(), "block");
    if case.finding.as_ref().is_none_or(|finding| finding.kind == FindingKind::Value) || claim.right.is_constant() {
        return format!("over {blocks}");
    }
    let side = |of: fn(&BlockPair) -> f64, factor: f64, unit: Unit| {
        let value = median(case.effect.blocks.iter().map(of));
        value.map(|value| amount(value / factor, unit)).unwrap_or_default()
    };
    let (left, right) = case_result::factors(claim, case.effect.scale);
    let left = side(|pair| pair.left, left, claim.left.unit());
    let right = side(|pair| pair.right, right, claim.right.unit());
    format!("{left} against {right} over {blocks}")
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn sentence(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{}.", capitalised(text)) }
}
