//! Each pair of levels of each factor, measure by measure.

use breme_expression::Unit;
use breme_judge::judgement::{Comparison, ComparisonCounts, Judgement};
use maud::{Markup, html};

use crate::html::forest;
use crate::html::parts::{Gallery, folded_table};
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{key_comparisons, units, words};
use breme_base::plural;

/// Limit of the pairs in the page, over all measures.
const ROWS_MAX: usize = 1_200;
/// Limit of the measures with their pairs in the page.
const MEASURES_MAX: usize = 40;
/// With more pairs a plot would be longer than the rest of the page.
const CHART_ROWS_MAX: usize = 30;

pub(crate) fn section(run: &Run<'_>, gallery: &mut Gallery) -> Option<Markup> {
    let mut comparisons: Vec<&Comparison> = run.judgement.comparisons.iter().collect();
    comparisons.sort_by_key(|of| key_comparisons::order(run.judgement, of));
    let mut measures: Vec<&str> = Vec::new();
    for comparison in &comparisons {
        if !measures.contains(&comparison.measure.as_str()) {
            measures.push(&comparison.measure);
        }
    }
    if measures.is_empty() {
        return None;
    }
    let vocabulary = units::vocabulary(run);
    let rows_max = ROWS_MAX / measures.len().min(MEASURES_MAX);
    let unit = |measure: &str| units::measure_unit(measure, run.judgement, &vocabulary);
    let is_open = |index: usize, measure: &str| match run.judgement.hypotheses.as_slice() {
        [] => index == 0,
        _ => key_comparisons::is_in_hypothesis(run.judgement, measure),
    };
    Some(html! {
        p.lead { "Every pair of levels of each factor, the other factors being equal. " (verdict_counts(run.judgement)) }
        (forest::key())
        @for (index, measure) in measures.iter().take(MEASURES_MAX).enumerate() {
            (measure_section(rows_max, is_open(index, measure), measure, unit(measure), comparisons.iter().copied().filter(|comparison| comparison.measure == *measure).collect(), gallery))
        }
        @if measures.len() > MEASURES_MAX { p.remark { "The first " (MEASURES_MAX) " of " (measures.len()) " measures; all are in the run's files." } }
    })
}

/// Of all pairs, and how many of them are in the judgement.
fn verdict_counts(judgement: &Judgement) -> String {
    let counts = key_comparisons::counts(judgement);
    let ComparisonCounts { different, equal, undecided, .. } = counts;
    let (all, listed) = (plural(counts.all() as u64, "pair"), judgement.comparisons.len());
    let only = if listed < counts.all() {
        format!(" Only {listed} are listed: the decided ones and the largest differences first.")
    } else {
        String::new()
    };
    format!("Of {all}: {different} different, {equal} practically equal, {undecided} undecided.{only}")
}

#[expect(clippy::needless_pass_by_value, reason = "a list of references made for this")]
fn measure_section(
    rows_max: usize,
    is_open: bool,
    measure: &str,
    unit: Unit,
    pairs: Vec<&Comparison>,
    gallery: &mut Gallery,
) -> Markup {
    let heading = html! { h3 { code { (words::one_line(measure)) } } };
    if pairs.iter().all(|pair| is_zero(pair)) {
        return html! { p.remark { code { (words::one_line(measure)) } ": 0 on both sides of all " (plural(pairs.len() as u64, "pair")) "." } };
    }
    let rows: Vec<forest::Row<'_>> = pairs.iter().map(|pair| row(pair, unit)).collect();
    let chart =
        if rows.len() <= CHART_ROWS_MAX { forest::chart(&rows, &format!("pairs of levels, {measure}")) } else { None };
    let summary = format!("All {}", plural(pairs.len() as u64, "pair"));
    html! {
        details.measure open[is_open] {
            summary { (heading) }
            @if let Some(chart) = chart { (gallery.figure(&chart)) }
            (folded_table(&summary, &table(&pairs, unit).limited(rows_max), None))
        }
    }
}

fn is_zero(pair: &Comparison) -> bool {
    pair.effect.blocks.iter().all(|pair| pair.left == 0.0 && pair.right == 0.0)
}

fn row<'a>(pair: &'a Comparison, unit: Unit) -> forest::Row<'a> {
    let levels = key_comparisons::pair(pair);
    let name = if pair.at.is_empty() { levels } else { format!("{levels}, {}", words::levels(&pair.at)) };
    forest::Row::from_effect(name, words::pair_verdict(pair.verdict), &pair.effect, unit)
}

fn table(pairs: &[&Comparison], unit: Unit) -> Table {
    let mut table = Table::new(["pair", "at", "verdict", "#effect", "#level", "in words"]);
    for pair in pairs {
        let verdict = words::pair_verdict(pair.verdict);
        table.push([
            Cell::from(key_comparisons::pair(pair)),
            words::levels(&pair.at).into(),
            Cell::classed(format!("{} {}", verdict.sign, verdict.words), verdict.class),
            words::effect(&pair.effect, unit).into(),
            words::confidence(pair.effect.confidence).into(),
            Cell::sentence(words::one_line(&pair.sentence)),
        ]);
    }
    table
}
