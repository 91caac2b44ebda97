//! Each hypothesis: its claim, verdict, effect and blocks.

use breme_expression::Unit;
use breme_judge::judgement::{Case, HypothesisJudgement};
use maud::{Markup, html};

use crate::figures::{figure, p_value};
use crate::html::forest;
use crate::html::parts::{Gallery, badge, folded_table, prose};
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{units, words};

/// Limit of the rows of blocks under a hypothesis.
const BLOCK_ROWS_MAX: usize = 400;

pub(crate) fn section(run: &Run<'_>, gallery: &mut Gallery) -> Option<Markup> {
    let hypotheses = &run.judgement.hypotheses;
    if hypotheses.is_empty() {
        return None;
    }
    let vocabulary = units::vocabulary(run);
    let unit = |hypothesis: &HypothesisJudgement| units::claim_unit(&hypothesis.expect, &vocabulary);
    Some(html! {
        (forest::key())
        @for (index, hypothesis) in hypotheses.iter().enumerate() { (card(index + 1, hypothesis, unit(hypothesis), gallery)) }
    })
}

fn card(number: usize, hypothesis: &HypothesisJudgement, unit: Unit, gallery: &mut Gallery) -> Markup {
    let verdict = words::verdict(hypothesis.verdict);
    let id = format!("hypothesis-{number}");
    let (data, blocks) = (format!("{id}-data"), blocks(hypothesis, unit));
    let rows: Vec<forest::Row<'_>> = hypothesis.cases.iter().map(|case| row(case, unit)).collect();
    let chart = forest::chart(&rows, &format!("hypothesis {number}"));
    html! {
        article.hypothesis.(verdict.class) id=(id) {
            h3 { (words::one_line(&hypothesis.says)) }
            p.verdict {
                (badge(&verdict))
                @if let [only] = hypothesis.cases.as_slice() { (effect(only, unit)) }
            }
            @if !hypothesis.sentence.is_empty() { p { (prose(&hypothesis.sentence)) } }
            @if let Some(chart) = chart { (gallery.figure(&chart)) }
            (reasons(&hypothesis.cases))
            p.claim { "Checked as " code { (words::one_line(&hypothesis.expect)) } }
            p.links {
                @if !hypothesis.cases.is_empty() { a href=(format!("#{data}")) { "Its data, block by block" } }
                " · " a href="#trials" { "every trial" }
            }
            (folded_table("Each case", &cases(hypothesis, unit), blocks.is_empty().then_some(&data)))
            (folded_table("Each block", &blocks, Some(&data)))
        }
    }
}

fn row(case: &Case, unit: Unit) -> forest::Row<'_> {
    forest::Row::from_case(words::levels_or(&case.levels, "all blocks"), case, unit)
}

/// The deciding number, in large type.
fn effect(case: &Case, unit: Unit) -> Markup {
    html! {
        @if case.effect.center.is_some() {
            span.effect { (words::case(case, unit)) }
            @if let Some(finding) = &case.finding { span.effect-name { "claimed: " (words::one_line(&finding.claimed)) } }
            @if let Some(p) = case.effect.p_holm.or(case.effect.p) {
                span.effect-name { "p " (p_value(p)) @if case.effect.p_holm.is_some() { " (Holm)" } }
            }
        }
    }
}

fn reasons(cases: &[Case]) -> Markup {
    let reasons: Vec<String> = cases.iter().filter_map(|case| Some(reason(case, case.reason.as_ref()?))).collect();
    html! { @for reason in reasons.iter().take(forest::ROWS_MAX) { p.remark { (prose(reason)) } } }
}

fn reason(case: &Case, reason: &str) -> String {
    if case.levels.is_empty() { reason.to_owned() } else { format!("{}: {reason}", words::levels(&case.levels)) }
}

fn cases(hypothesis: &HypothesisJudgement, unit: Unit) -> Table {
    let mut table =
        Table::new(["at", "verdict", "#estimate and interval", "#level", "#p", "#p (Holm)", "#noise", "#blocks"]);
    for case in &hypothesis.cases {
        let effect = &case.effect;
        let verdict = words::verdict(case.verdict);
        let optional = |value: Option<String>| Cell::from(value.unwrap_or_else(|| String::from("–")));
        table.push([
            words::levels_or(&case.levels, "all").into(),
            Cell::classed(format!("{} {}", verdict.sign, verdict.words), verdict.class),
            words::case(case, unit).into(),
            words::confidence(effect.confidence).into(),
            optional(effect.p.map(p_value)),
            optional(effect.p_holm.map(p_value)),
            optional(effect.floor.map(|floor| words::scaled(floor, effect.scale, unit))),
            effect.blocks.len().to_string().into(),
        ]);
    }
    table
}

fn blocks(hypothesis: &HypothesisJudgement, unit: Unit) -> Table {
    let mut table = Table::new(["at", "#block", "#left side", "#right side", "#effect"]);
    for case in &hypothesis.cases {
        for pair in &case.effect.blocks {
            let at = words::levels_or(&case.levels, "all");
            table.push([
                at,
                pair.block.to_string(),
                figure(pair.left, unit),
                figure(pair.right, unit),
                words::scaled(case.effect.scale.compare(pair.left, pair.right), case.effect.scale, unit),
            ]);
        }
    }
    table.limited(BLOCK_ROWS_MAX)
}
