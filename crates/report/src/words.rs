//! Text shared by all outputs: verdicts, combinations of levels, effects; and sanitisation of foreign text.

use std::collections::BTreeMap;

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
        (Some(center), Some(low), Some(high)) => format!("{} ({} – {})", number(center), number(low), number(high)),
        (Some(center), _, _) => format!("{} (no interval)", number(center)),
        _ => String::from("–"),
    }
}

/// The number of a case, with its interval: `1.01 (0.99 – 1.10)`, `8.2 ms (8.0 – 8.5 ms)`.
pub(crate) fn finding(finding: &Finding) -> String {
    let unit = Unit::from_symbol(&finding.unit);
    let Finding { center, low, high, .. } = *finding;
    match finding.kind {
        FindingKind::Ratio => {
            format!("{} ({} – {})", figures::ratio(center), figures::ratio(low), figures::ratio(high))
        }
        FindingKind::Difference | FindingKind::Value => {
            let range = figures::range(Some(low), Some(high), unit).unwrap_or_default();
            format!("{} ({range})", figures::figure(center, unit))
        }
    }
}

/// The finding of a case, or why there is none.
pub(crate) fn case(case: &Case, unit: Unit) -> String {
    case.finding.as_ref().map_or_else(|| effect(&case.effect, unit), finding)
}

/// A confidence: `96.9 %`.
pub(crate) fn confidence(confidence: f64) -> String {
    let text = format!("{:.1}", confidence * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// A number of an effect.
pub(crate) fn scaled(value: f64, scale: Scale, unit: Unit) -> String {
    match scale {
        Scale::Ratio => figures::ratio(value),
        Scale::Difference => figures::figure(value, unit),
    }
}

/// The state of a trial that counts.
pub(crate) const COUNTS: &str = "counts";

/// Why a trial does not count.
pub(crate) fn why_not(trial: &TrialRecord) -> Vec<String> {
    let failed = match &trial.end {
        TrialEnd::Failed { who, what, .. } => Some(format!("{who}: {what}")),
        TrialEnd::Complete => None,
    };
    failed.into_iter().chain(trial.invalid_reasons.iter().cloned()).collect()
}

/// How a trial ended and whether it counts, in one word.
pub(crate) fn trial_state(trial: &TrialRecord) -> &'static str {
    match &trial.end {
        TrialEnd::Failed { .. } => "failed",
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

/// Foreign text on one line: replaces characters that would break the line, move a terminal's cursor or change the
/// direction of text.
pub(crate) fn one_line(text: &str) -> String {
    without_escapes(text)
        .chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_dangerous(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Foreign text of several lines.
pub(crate) fn many_lines(text: &str) -> String {
    let is_break = |c: char| c == '\n' || c == '\t';
    let text = without_escapes(text).replace('\r', "");
    text.chars().map(|c| if is_dangerous(c) && !is_break(c) { '\u{fffd}' } else { c }).collect()
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

/// Removes the escape sequences for colours (ESC, `[`, parameters, a letter), which many programs print.
fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        kept.push_str(before);
        rest = after.trim_start_matches(|c: char| ('\u{20}'..='\u{3f}').contains(&c));
        rest = rest.strip_prefix(|c: char| ('\u{40}'..='\u{7e}').contains(&c)).unwrap_or(rest);
    }
    kept.push_str(rest);
    kept
}

/// Shortens a name for a label.
pub(crate) fn short(name: &str, chars_max: usize) -> String {
    let name = one_line(name);
    if name.chars().count() <= chars_max {
        return name;
    }
    name.chars().take(chars_max - 1).chain(['…']).collect()
}

/// Control characters, and marks that change the direction of text.
fn is_dangerous(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_line() {
        assert_eq!(one_line("a\nb\u{1b}[2;1Jc\u{202e}d\u{1b}]"), "a bc\u{fffd}d\u{fffd}]");
        assert_eq!(printed("a\r\nb\u{7}"), "a\nb\u{fffd}");
        let long = printed(&"x".repeat(PRINTED_CHARS_MAX + 5));
        assert_eq!(long.chars().count(), PRINTED_CHARS_MAX + 1);
        assert_eq!(short("abcdef", 4), "abc…");
    }

    #[test]
    fn an_effect_without_data_is_a_dash() {
        assert_eq!(effect(&Effect::default(), Unit::Plain), "–");
        let some = Effect { center: Some(0.5), low: Some(0.4), high: Some(0.6), ..Effect::default() };
        assert_eq!(effect(&some, Unit::Seconds), "0.500 (0.400 – 0.600)");
        let difference = Effect { scale: Scale::Difference, ..some };
        assert_eq!(effect(&difference, Unit::Seconds), "500 ms (400 ms – 600 ms)");
    }
}
