//! The head of the page: the question, its answer, and the warnings.

use maud::{Markup, html};

use crate::html::page::colour_choice;
use crate::html::parts::{badge, prose};
use crate::run::Run;
use crate::{text, words};
use breme_base::plural;

/// Limit of the warnings at the top of the page; the others follow further down.
const WARNINGS_ON_TOP_MAX: usize = 4;

/// Limit of the notes at the top.
const NOTES_MAX: usize = 20;

pub(crate) fn banner(run: &Run<'_>) -> Markup {
    let started = std::time::UNIX_EPOCH.checked_add(std::time::Duration::from_millis(run.head.started_unix_ms));
    html! {
        header.banner {
            p.run {
                strong { "breme" } " "
                span { (words::one_line(&run.head.run)) }
                @if let Some(started) = started.filter(|_| run.head.started_unix_ms > 0 && run.head.started_unix_ms < 200_000_000_000_000) {
                    " · " time { (httpdate::fmt_http_date(started)) }
                }
            }
            (colour_choice())
        }
    }
}

pub(crate) fn answer(run: &Run<'_>) -> Markup {
    html! {
        section.answer id="answer" aria-labelledby="title" {
            h1 id="title" { (words::one_line(run.title())) }
            @if let Some(question) = run.question() { p.question { (prose(&question)) } }
            p.the-answer { (prose(text::answer(run.judgement))) }
            @if !run.judgement.grounds.is_empty() {
                p.grounds { (prose(&run.judgement.grounds)) }
            }
            ul.facts {
                @for (verdict, count) in verdicts(run) { li { (badge(&verdict)) @if count > 1 { " × " (count) } } }
                li { (text::trial_counts(run)) }
                li { (plural(u64::from(run.judgement.trials.blocks), "complete block")) }
            }
            @for paragraph in run.notes().iter().flat_map(|notes| notes.split("\n\n")) {
                p.remark { (prose(&words::one_line(paragraph))) }
            }
            (warnings(run))
            noscript { p.remark { "The charts need the script in this file. Every number is in the tables too." } }
        }
    }
}

/// The count of each verdict, in the order of the hypotheses.
fn verdicts(run: &Run<'_>) -> Vec<(words::VerdictWords, usize)> {
    let mut counted: Vec<(words::VerdictWords, usize)> = Vec::new();
    for hypothesis in &run.judgement.hypotheses {
        let mut verdict = words::verdict(hypothesis.verdict);
        if verdict.class == "undecided" {
            verdict.words = String::from("undecided");
        }
        match counted.iter_mut().find(|(seen, _)| seen.class == verdict.class) {
            Some((_, count)) => *count += 1,
            None => counted.push((verdict, 1)),
        }
    }
    counted
}

fn warnings(run: &Run<'_>) -> Markup {
    let (warnings, notes) = (&run.judgement.warnings, &run.judgement.notes);
    html! {
        @if !warnings.is_empty() {
            aside.warnings aria-label="Warnings" {
                @for warning in warnings.iter().take(WARNINGS_ON_TOP_MAX) { p { (prose(warning)) } }
                @if warnings.len() > WARNINGS_ON_TOP_MAX {
                    p { a href="#warnings" { (plural((warnings.len() - WARNINGS_ON_TOP_MAX) as u64, "more warning")) } }
                }
            }
        }
        @if !notes.is_empty() {
            details.data.notes {
                summary { (plural(notes.len() as u64, "note")) }
                ul { @for note in notes.iter().take(NOTES_MAX) { li { (prose(note)) } } }
            }
        }
    }
}
