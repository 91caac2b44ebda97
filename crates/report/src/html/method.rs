//! Method, machine, every trial, the plan.

use breme_experiment::record::{TrialRecord, WorkloadRecord};
use breme_expression::Unit;
use maud::{Markup, html};

use crate::figures::figure;
use crate::run::Run;
use crate::{text, words};
use breme_base::grouped;

/// Limit of the rows of the table of trials; the whole journal is next to the page.
const ROWS_MAX: usize = 2_000;
/// Limit of a plan, in characters.
const PLAN_CHARS_MAX: usize = 200_000;

pub(crate) fn section(run: &Run<'_>) -> Option<Markup> {
    Some(html! {
        p {
            "The unit of evidence is the block: one trial of every combination, in random order. Each trial's percentiles come from all of its requests, and \
            are then compared over the blocks: trimmed means of the logarithms with repeated confidence intervals (Student's t); p-values after Holm (hypotheses) or Benjamini and \
            Hochberg (comparisons). The warm-up is detected in each trial's time series and discarded. An INVALID trial is repeated at \
            the end of its block; one without a steady state counts. Response time starts at the instant at which the request was due."
        }
        dl.facts-list { @for (name, value) in facts(run) { div { dt { (name) } dd { (words::one_line(&value)) } } } }
        p.links {
            "In the same folder: " a href="plan.toml" { "plan.toml" } ", " a href="trials.jsonl" { "trials.jsonl" } ", "
            a href="instruments.csv" { "instruments.csv" } "."
        }
    })
}

fn facts(run: &Run<'_>) -> Vec<(String, String)> {
    let (head, machine) = (run.head, &run.head.machine);
    let mut facts = vec![("Trials", text::trial_counts(run))];
    facts.push(("Planned", format!("{} trials", run.judgement.trials.planned)));
    facts.push(("Seed", head.seed.to_string()));
    facts.extend(head.profile.clone().map(|profile| ("Profile", profile)));
    facts.extend(head.revision.as_ref().map(|revision| ("Commit", revision.to_string())));
    facts.push(("breme", head.breme_version.clone()));
    facts.push(("Machine", machine.host.clone()));
    facts.push(("Processor", format!("{}, {} used", machine.processor, machine.processors)));
    facts.extend(text::placement(run).map(|placement| ("Placement", placement)));
    facts.push(("Memory", figure(machine.memory_bytes as f64, Unit::Bytes)));
    facts.push(("Kernel", machine.kernel.clone()));
    facts.push(("Clock speed", machine.governor.clone().unwrap_or_else(|| String::from("unknown"))));
    facts.push(("Virtual machine", machine.virtualization.clone().unwrap_or_else(|| String::from("none detected"))));
    let versions = head
        .subject_versions
        .iter()
        .map(|(subject, version)| (format!("Subject {}", words::one_line(subject)), version.clone()));
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(versions).collect()
}

pub(crate) fn trials(run: &Run<'_>) -> Option<Markup> {
    if run.trials.is_empty() {
        return None;
    }
    Some(html! {
        details.data {
            summary { "All " (grouped(run.trials.len() as u64)) " trials, in the order of the run" }
            (trials_table(run))
        }
    })
}

/// Number of trials in the table.
fn shown(run: &Run<'_>) -> usize {
    let rows = run.trials.iter().scan(0, |rows, trial| {
        *rows += trial.workloads.len().max(1);
        Some(*rows)
    });
    rows.take_while(|rows| *rows <= ROWS_MAX).count()
}

fn trials_table(run: &Run<'_>) -> Markup {
    let shown = shown(run);
    const NAMES: [&str; 11] = [
        "trial",
        "block",
        "combination",
        "state",
        "workload",
        "steady from",
        "answered",
        "errors",
        "rate",
        "mean response",
        "generator CPU",
    ];
    html! {
        div.scroll role="region" aria-label="Every trial" tabindex="0" {
            table {
                thead { tr { @for name in NAMES { th scope="col" { (name) } } } }
                tbody { @for trial in run.trials.iter().take(shown) { (trial_rows(trial)) } }
            }
        }
        p.remark { "Answered and errors are those of the whole trial; rate and response time are those of its steady part." }
        @if run.trials.len() > shown { p.remark { "The first " (shown) "; all are in trials.jsonl." } }
    }
}

fn trial_rows(trial: &TrialRecord) -> Markup {
    let state = words::trial_state(trial);
    let class = if state == "counts" { "counts" } else { "refuted" };
    html! {
        @if trial.workloads.is_empty() {
            tr id=(format!("trial-{}", trial.number)) { (trial_cells(trial, state, class)) @for _ in 0..7 { td { "–" } } }
        }
        @for (index, (name, workload)) in trial.workloads.iter().enumerate() {
            tr id=[(index == 0).then(|| format!("trial-{}", trial.number))] {
                (trial_cells(trial, state, class))
                (workload_cells(name, workload))
            }
        }
    }
}

fn trial_cells(trial: &TrialRecord, state: &str, class: &'static str) -> Markup {
    let aa = if trial.replicate > 0 { " (A/A)" } else { "" };
    let again = if trial.repeat > 0 { " (again)" } else { "" };
    let purpose = words::purpose(&trial.purpose);
    html! {
        th scope="row" { (trial.number) }
        td { @if purpose == "block" { (trial.block) } @else { (purpose) } }
        td { (words::levels_or(&trial.levels, "–")) (aa) (again) }
        td { span.(class).verdict-text { (state) } @if trial.is_unsteady() { " (not steady)" } }
    }
}

fn workload_cells(name: &str, workload: &WorkloadRecord) -> Markup {
    html! {
        td { (words::one_line(name)) }
        td.number { (figure(workload.steady.from_s, Unit::Seconds)) }
        td.number { (grouped(workload.answered)) }
        td.number { (grouped(workload.failed())) }
        td.number { (figure(workload.achieved_rate, Unit::PerSecond)) }
        td.number { (figure(workload.response.mean_ns / 1e9, Unit::Seconds)) }
        td.number { (figure(workload.generator_cpu_share, Unit::Share)) }
    }
}

pub(crate) fn plan(run: &Run<'_>) -> Option<Markup> {
    if run.plan.trim().is_empty() {
        return None;
    }
    let plan: String = words::many_lines(run.plan).chars().take(PLAN_CHARS_MAX).collect();
    Some(html! {
        p.lead { "As of the start of the run." }
        pre.plan tabindex="0" aria-label="The plan" { code { (plan) } }
    })
}
