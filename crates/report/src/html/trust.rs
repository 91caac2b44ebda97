//! The validity of the numbers: warnings, noise floor, laws, and the uncounted trials, with the reasons.

use breme_experiment::record::{TrialEnd, TrialFailure, TrialRecord};
use breme_expression::Unit;
use maud::{Markup, html};

use crate::figures::figure;
use crate::html::forest;
use crate::html::parts::{Gallery, prose, table};
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{text, units, words};

/// Limit of the uncounted trials listed.
const DISCOUNTED_MAX: usize = 50;
/// Limit of the rows of a table in this section.
const ROWS_MAX: usize = 200;

pub(crate) fn section(run: &Run<'_>, gallery: &mut Gallery) -> Option<Markup> {
    let judgement = run.judgement;
    Some(html! {
        p.lead { (text::trial_counts(run)) "." }
        @if !judgement.warnings.is_empty() {
            h3 id="warnings" { "Warnings" }
            ul { @for warning in judgement.warnings.iter().take(ROWS_MAX) { li { (prose(warning)) } } }
        }
        @if !judgement.notes.is_empty() {
            h3 id="notes" { "Notes" }
            ul { @for note in judgement.notes.iter().take(ROWS_MAX) { li { (prose(note)) } } }
        }
        (discounted(run))
        (noise(run, gallery))
        (laws(run))
    })
}

fn noise(run: &Run<'_>, gallery: &mut Gallery) -> Markup {
    let floors = &run.judgement.noise;
    let vocabulary = units::vocabulary(run);
    let verdict = |is_biased: bool| match is_biased {
        true => words::VerdictWords { sign: "✗", class: "refuted", words: String::from("significantly different") },
        false => {
            words::VerdictWords { sign: "", class: "different", words: String::from("not significantly different") }
        }
    };
    let rows: Vec<forest::Row<'_>> = floors
        .iter()
        .map(|noise| {
            let name = match words::levels(&noise.levels) {
                levels if levels.is_empty() => noise.measure.clone(),
                levels => format!("{} at {levels}", noise.measure),
            };
            let unit = units::measure_unit(&noise.measure, run.judgement, &vocabulary);
            forest::Row::from_effect(name, verdict(noise.is_biased), &noise.effect, unit)
        })
        .collect();
    let chart = forest::chart(&rows, "the same combination twice");
    html! {
        @if !floors.is_empty() {
            h3 { "Noise floor" }
            p { "One combination was run twice in each block (A/A). Differences between its two trials are noise; an effect that is no larger is not significant." }
            (forest::key())
            @if let Some(chart) = chart { (gallery.figure(&chart)) }
            (table("Noise floor", &text::noise(run).limited(ROWS_MAX), None))
        }
    }
}

fn laws(run: &Run<'_>) -> Markup {
    let laws = &run.judgement.laws;
    let broken = laws.iter().filter(|law| !law.agrees).count();
    let mut rows = Table::new(["trial", "workload", "#users", "#by the law", "#in the generator", "agrees"]);
    let mut sorted: Vec<_> = laws.iter().collect();
    sorted.sort_by_key(|law| law.agrees);
    for law in sorted {
        let agrees = if law.agrees { Cell::from("yes") } else { Cell::classed("no", "refuted") };
        let number = |value| Cell::from(figure(value, Unit::Plain));
        let held = Cell::from(figure(law.held_share, Unit::Share));
        let trial = Cell::linked(law.trial.to_string(), format!("trial-{}", law.trial));
        rows.push([
            trial,
            words::one_line(&law.workload).into(),
            number(law.users),
            number(law.users_by_law),
            held,
            agrees,
        ]);
    }
    html! {
        @if !laws.is_empty() {
            h3 { "Little's law" }
            p { "Little's law: in a closed loop, users = rate × (response time + think time + the time a response waits in the generator). Checked on " (laws.len()) " workloads of trials; " (broken) " do not agree." }
            details.data open[broken > 0] {
                summary { "Each check" }
                (table("Checks of Little's law", &rows.limited(ROWS_MAX), None))
            }
        }
    }
}

fn discounted(run: &Run<'_>) -> Markup {
    let count = run.discounted().count();
    html! {
        @if count > 0 {
            h3 id="discounted" { "Trials that do not count" }
            @for trial in run.discounted().take(DISCOUNTED_MAX) { (discounted_trial(trial)) }
            @if count > DISCOUNTED_MAX { p.remark { "And " (count - DISCOUNTED_MAX) " more, in the table of every trial." } }
        }
    }
}

fn discounted_trial(trial: &TrialRecord) -> Markup {
    html! {
        div.discounted {
            p {
                a href=(format!("#trial-{}", trial.number)) { "Trial " (trial.number) } ", block " (trial.block)
                @if !trial.levels.is_empty() { ", " (words::levels(&trial.levels)) }
                ": " strong { (words::trial_state(trial)) }
            }
            ul { @for reason in words::why_not(trial) { li { (words::one_line(&reason)) } } }
            @if let TrialEnd::Failed(TrialFailure { printed, .. }) = &trial.end {
                @if !printed.trim().is_empty() { pre tabindex="0" aria-label="Last lines of its output" { (words::printed(printed)) } }
            }
        }
    }
}
