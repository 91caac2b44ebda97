//! Each pair of levels of each factor, measure by measure.

use breme_experiment::judgement::Comparison;
use maud::{Markup, html};

use crate::figures::Unit;
use crate::html::forest;
use crate::html::parts::{Gallery, folded_table};
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{units, words};

/// The most pairs, of all measures together, that the page holds.
const ROWS_MAX: usize = 1_200;
/// The most measures that have their pairs in the page.
const MEASURES_MAX: usize = 40;
/// With more pairs than this a plot would be longer than the rest of the page.
const CHART_ROWS_MAX: usize = 30;

pub(crate) fn section(run: &Run<'_>, gallery: &mut Gallery) -> Option<Markup> {
    let comparisons = &run.judgement.comparisons;
    let mut measures: Vec<&str> = Vec::new();
    for comparison in comparisons {
        if !measures.contains(&comparison.measure.as_str()) {
            measures.push(&comparison.measure);
        }
    }
    if measures.is_empty() {
        return None;
    }
    let vocabulary = units::vocabulary(run);
    let rows_max = ROWS_MAX / measures.len().min(MEASURES_MAX);
    let unit = |measure: &str| units::of_measure(measure, run.judgement, &vocabulary);
    Some(html! {
        p.lead { "Every pair of levels of every factor, the other factors being equal. " (told(comparisons)) }
        p.remark { (forest::LEGEND) }
        @for measure in measures.iter().take(MEASURES_MAX) {
            (of_measure(rows_max, measure, unit(measure), comparisons.iter().filter(|comparison| comparison.measure == *measure).collect(), gallery))
        }
        @if measures.len() > MEASURES_MAX { p.remark { "The first " (MEASURES_MAX) " of " (measures.len()) " measures; all are in the run's files." } }
    })
}

fn told(comparisons: &[Comparison]) -> String {
    let count =
        |wanted: &str| comparisons.iter().filter(|pair| words::pair_verdict(pair.verdict).class == wanted).count();
    format!(
        "Of {} pairs: {} different, {} practically equal, {} undecided.",
        comparisons.len(),
        count("supported"),
        count("equal"),
        count("undecided")
    )
}

#[expect(clippy::needless_pass_by_value, reason = "a list of references made for this")]
fn of_measure(rows_max: usize, measure: &str, unit: Unit, pairs: Vec<&Comparison>, gallery: &mut Gallery) -> Markup {
    let rows: Vec<forest::Row<'_>> = pairs.iter().map(|pair| row(pair, unit)).collect();
    let chart =
        if rows.len() <= CHART_ROWS_MAX { forest::chart(&rows, &format!("pairs of levels, {measure}")) } else { None };
    let summary = format!("All {} pairs", pairs.len());
    html! {
        h3 { code { (words::one_line(measure)) } }
        @if let Some(chart) = chart { (gallery.figure(&chart)) }
        (folded_table(&summary, &table(&pairs, unit).limited(rows_max), None))
    }
}

fn row<'a>(pair: &'a Comparison, unit: Unit) -> forest::Row<'a> {
    let levels = format!("{} ÷ {}", pair.left, pair.right);
    let name = if pair.at.is_empty() { levels } else { format!("{levels}, {}", words::levels(&pair.at)) };
    forest::Row { name, verdict: pair.verdict, effect: &pair.effect, unit }
}

fn table(pairs: &[&Comparison], unit: Unit) -> Table {
    let mut table = Table::new(&["left", "right", "at", "#left ÷ right", "verdict", "in words"]);
    for pair in pairs {
        let verdict = words::pair_verdict(pair.verdict);
        table.push([
            Cell::from(format!("{}={}", pair.factor, pair.left)),
            format!("{}={}", pair.factor, pair.right).into(),
            words::levels(&pair.at).into(),
            words::effect(&pair.effect, unit).into(),
            Cell::classed(format!("{} {}", verdict.sign, verdict.words), verdict.class),
            words::one_line(&pair.sentence).into(),
        ]);
    }
    table
}
