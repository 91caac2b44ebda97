//! Text shared by all outputs: verdicts, combinations of levels, effects.

use std::collections::BTreeMap;

pub(crate) use breme_base::{many_lines, one_line};
use breme_experiment::record::{Purpose, TrialEnd, TrialRecord};
use breme_expression::Unit;
use breme_judge::judgement::{Case, Effect, Finding, FindingKind, Scale, Verdict};

use crate::figures;

/// Limit of a name in a chart or in a row on a terminal, in characters.
pub(crate) const NAME_CHARS_MAX: usize = 48;
/// Limit of a subject's output, in characters; its end is kept.
pub(crate) const PRINTED_CHARS_MAX: usize = 4_000;

/// A verdict for display: words, and a sign, so that colour is not the only distinction.
pub(crate) struct VerdictWords {
    pub sign: &'static str,
    /// A CSS class.
    pub class: &'static str,
    pub words: String,
}

pub(crate) fn verdict(verdict: Verdict) -> VerdictWords {
    let (sign, class, words) = match verdict {
        Verdict::Supported => ("✓", "supported", String::from("supported")),
        Verdict::Refuted => ("✗", "refuted", String::from("refuted")),
        Verdict::PracticallyEqual => ("≈", "equal", String::from("practically equal")),
        Verdict::Undecided { more_blocks } => ("?", "undecided", undecided(more_blocks)),
        Verdict::NoData => ("–", "no-data", String::from("no data")),
    };
    VerdictWords { sign, class, words }
}

/// A verdict on a pair of levels; "supported" means that they differ.
pub(crate) fn pair_verdict(of: Verdict) -> VerdictWords {
    let words = verdict(of);
    match of {
        Verdict::Supported | Verdict::Refuted => {
            VerdictWords { sign: "≠", class: "different", words: String::from("different") }
        }
        _ => words,
    }
}

fn undecided(more_blocks: Option<u32>) -> String {
    match more_blocks {
        Some(more) => format!("undecided: about {}", breme_base::plural(u64::from(more), "more block")),
        None => String::from("undecided"),
    }
}

/// `path=cached, crowd=250`; empty without levels.
pub(crate) fn levels(levels: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> =
        levels.iter().map(|(factor, level)| format!("{}={}", one_line(factor), one_line(level))).collect();
    parts.join(", ")
}

/// Like [`levels`], with `none` for no levels.
pub(crate) fn levels_or(of: &BTreeMap<String, String>, none: &str) -> String {
    if of.is_empty() { none.to_owned() } else { levels(of) }
}

/// An estimate with its interval: `0.214 (0.198 – 0.231)`. Only a difference has a unit.
pub(crate) fn effect(effect: &Effect, unit: Unit) -> String {
    let number = |value: f64| scaled(value, effect.scale, unit);
    match (effect.center, effect.low, effect.high) {
        (Some(center), Some(low), Some(high)) if has_interval(effect) => {
            format!("{} ({} – {})", number(center), number(low), number(high))
        }
        (Some(center), _, _) => format!("{} (no interval)", number(center)),
        _ => String::from("–"),
    }
}

/// The interval of a single block is a point, at no confidence.
fn has_interval(effect: &Effect) -> bool {
    effect.confidence > 0.0
}

/// The number of a case, with its interval: `1.01 (0.99 – 1.10)`, `8.2 ms (8.0 – 8.5 ms)`.
fn finding(finding: &Finding, effect: &Effect) -> String {
    let unit = Unit::from_symbol(&finding.unit);
    let [center, low, high] =
        [finding.center, finding.low, finding.high].map(|value| of_kind(finding.kind, value, unit));
    let interval = if has_interval(effect) { figures::joined(&low, &high) } else { String::from("no interval") };
    format!("{center} ({interval})")
}

/// A number of a finding.
pub(crate) fn of_kind(kind: FindingKind, value: f64, unit: Unit) -> String {
    match kind {
        FindingKind::Ratio => figures::ratio(value),
        FindingKind::Difference => figures::difference(value, unit),
        FindingKind::Value => figures::figure(value, unit),
    }
}

/// The finding of a case, or why there is none.
pub(crate) fn case(case: &Case, unit: Unit) -> String {
    case_numbers(case.finding.as_ref(), &case.effect, unit)
}

/// The numbers for readers: of the finding, if there is one.
pub(crate) fn case_numbers(of: Option<&Finding>, tested: &Effect, unit: Unit) -> String {
    of.map_or_else(|| effect(tested, unit), |of| finding(of, tested))
}

/// A confidence: `96.9 %`; a dash for a single block, which has none.
pub(crate) fn confidence(confidence: f64) -> String {
    if confidence == 0.0 {
        return String::from("–");
    }
    let text = format!("{:.1}", confidence * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// A number of an effect.
pub(crate) fn scaled(value: f64, scale: Scale, unit: Unit) -> String {
    match scale {
        Scale::Ratio => figures::ratio(value),
        Scale::Difference => figures::difference(value, unit),
    }
}

/// The state of a trial that counts.
pub(crate) const COUNTS: &str = "counts";

/// Why a trial does not count.
pub(crate) fn why_not(trial: &TrialRecord) -> Vec<String> {
    let failed = match &trial.end {
        TrialEnd::Failed(failure) => Some(failure.to_string()),
        TrialEnd::Complete => None,
    };
    failed.into_iter().chain(trial.invalid_reasons.iter().cloned()).collect()
}

/// How a trial ended and whether it counts, in one word.
pub(crate) fn trial_state(trial: &TrialRecord) -> &'static str {
    match &trial.end {
        TrialEnd::Failed(_) => "failed",
        TrialEnd::Complete if !trial.invalid_reasons.is_empty() => "INVALID",
        TrialEnd::Complete => COUNTS,
    }
}

/// The purpose of a trial.
pub(crate) const fn purpose(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Block => "block",
        Purpose::Search => "search",
        Purpose::Confirmation => "confirmation",
    }
}

/// The output of a subject; its end if it is too long.
pub(crate) fn printed(text: &str) -> String {
    let text = many_lines(text);
    let count = text.chars().count();
    if count <= PRINTED_CHARS_MAX {
        return text;
    }
    std::iter::once('…').chain(text.chars().skip(count - PRINTED_CHARS_MAX)).collect()
}

/// Shortens a name for a label.
pub(crate) fn short(name: &str, chars_max: usize) -> String {
    let name = one_line(name);
    if name.chars().count() <= chars_max {
        return name;
    }
    name.chars().take(chars_max - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_text_is_limited() {
        assert_eq!(printed("a\r\nb\u{7}"), "a\nb\u{fffd}");
        let long = printed(&"x".repeat(PRINTED_CHARS_MAX + 5));
        assert_eq!(long.chars().count(), PRINTED_CHARS_MAX + 1);
        assert_eq!(short("abcdef", 4), "abc…");
    }

    #[test]
    fn an_effect_without_data_is_a_dash() {
        assert_eq!(effect(&Effect::default(), Unit::Plain), "–");
        let some = Effect { center: Some(0.5), low: Some(0.4), high: Some(0.6), confidence: 0.95, ..Effect::default() };
        assert_eq!(effect(&some, Unit::Seconds), "0.500 (0.400 – 0.600)");
        let difference = Effect { scale: Scale::Difference, ..some };
        assert_eq!(effect(&difference, Unit::Seconds), "500 ms (400 ms – 600 ms)");
        assert_eq!(effect(&difference, Unit::Share), "50.0 pp (40.0 pp – 60.0 pp)");
    }

    #[test]
    fn a_single_block_has_no_interval() {
        let effect = Effect { center: Some(5.07), low: Some(5.07), high: Some(5.07), ..Effect::default() };
        let finding = Finding { center: 5.07, low: 5.07, high: 5.07, ..Finding::default() };
        let of = |finding| case(&Case { effect: effect.clone(), finding, ..Case::default() }, Unit::Plain);
        assert_eq!([of(None), of(Some(finding))], ["5.07 (no interval)", "5.07 (no interval)"]);
        assert_eq!(confidence(effect.confidence), "–");
    }
}
