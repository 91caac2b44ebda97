//! A run as short GitHub Flavored Markdown, for a pull request.

use std::fmt::Write;

use breme_expression::Unit;
use breme_judge::judgement::{HypothesisJudgement, Judgement};

use crate::run::Run;
use crate::table::Table;
use crate::{text, units, words};
use breme_base::{markdown_prose, markdown_text, plural};

/// Limit of the rows of a table, since a comment should be short.
const ROWS_MAX: usize = 40;
/// Limit of the uncounted trials listed.
const DISCOUNTED_MAX: usize = 10;

#[must_use]
pub fn markdown(run: &Run<'_>) -> String {
    let judgement = run.judgement;
    let mut out = format!("## {}\n\n", markdown_text(run.title()));
    if let Some(question) = run.question() {
        let _ = writeln!(out, "*{}*\n", markdown_prose(&question));
    }
    let _ = writeln!(out, "**{}**\n", markdown_prose(text::answer(judgement)));
    if !judgement.grounds.is_empty() {
        let _ = writeln!(out, "{}\n", markdown_prose(&judgement.grounds));
    }
    for paragraph in run.notes().iter().flat_map(|notes| notes.split("\n\n")) {
        let _ = writeln!(out, "{}\n", markdown_prose(paragraph));
    }
    write_warnings(&mut out, judgement);
    write_table(&mut out, hypotheses(run));
    for (title, table) in text::study(judgement, text::MEASURES_ABREAST_MAX) {
        let _ = writeln!(out, "### {}\n", markdown_text(&title));
        write_table(&mut out, table.limited(ROWS_MAX));
    }
    for line in text::zero_measures(judgement) {
        let _ = writeln!(out, "{}\n", markdown_prose(&line));
    }
    write_folded(&mut out, "Comparisons", text::comparisons(run));
    write_folded(&mut out, "A/A: one combination run twice", text::noise(run));
    for sentence in text::sentences(judgement) {
        let _ = writeln!(out, "- {}", markdown_prose(sentence));
    }
    write_discounted(&mut out, run);
    let _ = writeln!(out, "\n<sub>{}</sub>", markdown_text(&text::provenance(run)));
    out
}

fn hypotheses(run: &Run<'_>) -> Table {
    let vocabulary = units::vocabulary(run);
    let mut table = Table::new(["", "hypothesis", "verdict", "#effect", "in words"]);
    for hypothesis in &run.judgement.hypotheses {
        let verdict = words::verdict(hypothesis.verdict);
        let effect = only_effect(hypothesis, units::claim_unit(&hypothesis.expect, &vocabulary));
        table.push([mark(verdict.class), &hypothesis.says, &verdict.words, &effect, &hypothesis.sentence]);
    }
    table
}

/// The effect of a hypothesis with one case; with several the sentence is enough.
fn only_effect(hypothesis: &HypothesisJudgement, unit: Unit) -> String {
    match hypothesis.cases.as_slice() {
        [case] => words::case(case, unit),
        cases => plural(cases.len() as u64, "combination"),
    }
}

/// A symbol that GitHub displays in colour.
pub(crate) fn mark(class: &str) -> &'static str {
    match class {
        "supported" => "✅",
        "refuted" => "❌",
        "equal" => "🟰",
        "undecided" => "❔",
        _ => "➖",
    }
}

fn write_warnings(out: &mut String, judgement: &Judgement) {
    for (kind, texts) in [("WARNING", &judgement.warnings), ("NOTE", &judgement.notes)] {
        if texts.is_empty() {
            continue;
        }
        let _ = writeln!(out, "> [!{kind}]");
        for text in texts {
            let _ = writeln!(out, "> - {}", markdown_prose(text));
        }
        out.push('\n');
    }
}

fn write_discounted(out: &mut String, run: &Run<'_>) {
    let count = run.discounted().count();
    if count == 0 {
        return;
    }
    let _ = writeln!(out, "\n<details><summary>{} not used</summary>\n", plural(count as u64, "trial"));
    for trial in run.discounted().take(DISCOUNTED_MAX) {
        let why = words::why_not(trial).join("; ");
        let (number, state) = (trial.number, words::trial_state(trial));
        let _ = writeln!(
            out,
            "- trial {number} ({}): {state}: {}",
            markdown_text(&words::levels_or(&trial.levels, "no levels")),
            markdown_text(&why)
        );
    }
    if count > DISCOUNTED_MAX {
        let _ = writeln!(out, "- and {} more", count - DISCOUNTED_MAX);
    }
    let _ = writeln!(out, "\n</details>");
}

pub(crate) fn write_folded(out: &mut String, title: &str, table: Table) {
    if table.is_empty() {
        return;
    }
    let _ = writeln!(out, "<details><summary>{title}</summary>\n");
    write_table(out, table.limited(ROWS_MAX));
    let _ = writeln!(out, "</details>\n");
}

#[expect(clippy::needless_pass_by_value, reason = "a table is made to be written once")]
fn write_table(out: &mut String, table: Table) {
    if table.is_empty() {
        return;
    }
    let names: Vec<String> = table.columns.iter().map(|column| markdown_text(&column.name)).collect();
    let _ = writeln!(out, "| {} |", names.join(" | "));
    let rules: Vec<&str> = table.columns.iter().map(|column| if column.is_number { "--:" } else { "---" }).collect();
    let _ = writeln!(out, "| {} |", rules.join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(|cell| markdown_prose(&cell.text)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if let Some(remark) = &table.remark {
        let _ = writeln!(out, "\n{}", markdown_text(remark));
    }
    out.push('\n');
}
