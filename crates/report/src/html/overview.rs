//! The runs in a table: load, requests, errors and percentiles of every combination.

use breme_expression::Unit;
use maud::{Markup, html};

use crate::figures::figure;
use crate::html::distributions::{Curve, Distributions, Workload, at};
use crate::html::parts::table;
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{text, words};
use breme_base::{grouped, plural};

/// Limit of the rows of the table.
const ROWS_MAX: usize = 60;

pub(crate) fn section(run: &Run<'_>, distributions: &Distributions<'_>) -> Option<Markup> {
    distributions.workloads().next()?;
    Some(html! {
        p.lead { (lead(run, distributions)) }
        @for workload in distributions.workloads() {
            h3 { "Workload " code { (words::one_line(workload.name)) } }
            (table(&format!("Overview of {}", words::one_line(workload.name)), &rows(workload), None))
        }
        p.remark { "Responses and errors are those of whole trials. Rates and percentiles of the response time are without warm-ups; percentiles are of all trials that count, taken together." }
    })
}

/// `1,234,567 responses at 8 combinations of levels, in 6 complete blocks.`
fn lead(run: &Run<'_>, distributions: &Distributions<'_>) -> String {
    let responses: u64 =
        distributions.workloads().flat_map(|workload| &workload.curves).map(|curve| curve.totals.answered).sum();
    let combinations = distributions.workloads().map(|workload| workload.curves.len()).max().unwrap_or(0);
    format!(
        "{} at {} of levels, in {}; {}.",
        plural(responses, "response"),
        plural(combinations as u64, "combination"),
        plural(u64::from(run.judgement.trials.blocks), "complete block"),
        text::trial_counts(run)
    )
}

fn rows(workload: &Workload<'_>) -> Table {
    let has_rate = workload.curves.iter().any(|curve| curve.totals.offered_rate.is_some());
    let load = if has_rate { "#offered" } else { "#users" };
    let names = ["at", load, "#responses", "#per second", "#errors", "#50 %", "#90 %", "#99 %", "#99.9 %", "#longest"];
    let mut table = Table::new(names);
    for curve in &workload.curves {
        table.push(row(curve, has_rate));
    }
    table.limited(ROWS_MAX)
}

fn row(curve: &Curve<'_>, has_rate: bool) -> Vec<Cell> {
    let totals = &curve.totals;
    let load = match totals.offered_rate {
        Some(rate) => figure(rate, Unit::PerSecond),
        None if has_rate => String::from("–"),
        None => grouped(totals.connections),
    };
    let mut row = vec![
        Cell::from(words::levels_or(curve.levels, "all trials")),
        load.into(),
        grouped(totals.answered).into(),
        figure(totals.mean_rate(), Unit::PerSecond).into(),
        match totals.errors {
            0 => Cell::from("0"),
            _ => Cell::classed(figure(totals.error_share(), Unit::Share), "refuted"),
        },
    ];
    row.extend([0.5, 0.9, 0.99, 0.999, 1.0].map(|quantile| Cell::from(at(&curve.histogram, quantile))));
    row
}
