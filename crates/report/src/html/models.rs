//! Models with the points excluded from the fit, and searches for the failure point.

use breme_expression::Unit;
use breme_judge::judgement::{ModelOutcome, SearchOutcome, SearchStep};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Counting, LegendEntry, Look};
use crate::figures::{figure, figure_or_dash, ratio};
use crate::html::measures::CROSS;
use crate::html::parts::{Gallery, prose, table};
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{units, words};

/// Limit of the groups of models, and of the searches.
const GROUPS_MAX: usize = 60;

pub(crate) fn models(run: &Run<'_>, gallery: &mut Gallery) -> Option<Markup> {
    let mut groups: Vec<Vec<&ModelOutcome>> = Vec::new();
    for model in &run.judgement.models {
        let is_same = |group: &&mut Vec<&ModelOutcome>| {
            group.first().is_some_and(|first| {
                (&first.measure, &first.factor, &first.at) == (&model.measure, &model.factor, &model.at)
            })
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(model),
            None => groups.push(vec![model]),
        }
    }
    if groups.is_empty() {
        return None;
    }
    let left_out = groups.len().saturating_sub(GROUPS_MAX);
    let vocabulary = units::vocabulary(run);
    let unit = |group: &[&ModelOutcome]| {
        group.first().map_or(Unit::Plain, |first| units::measure_unit(&first.measure, run.judgement, &vocabulary))
    };
    Some(html! {
        p.lead { "Fitted to some of the levels, and compared with the others, which the fit did not use." }
        @for group in groups.iter().take(GROUPS_MAX) { (model_group(group, unit(group), gallery)) }
        @if left_out > 0 { p.remark { (left_out) " more are in the run's files." } }
    })
}

fn model_group(group: &[&ModelOutcome], unit: Unit, gallery: &mut Gallery) -> Markup {
    let Some(first) = group.first() else { return html! {} };
    html! {
        h3 {
            code { (words::one_line(&first.measure)) } " over " (words::one_line(&first.factor))
            @if !first.at.is_empty() { ", " (words::levels(&first.at)) }
        }
        @for model in group.iter().filter(|model| model.is_best && !model.sentence.is_empty()) { p { (prose(&model.sentence)) } }
        (gallery.figure(&model_chart(group, first, unit)))
        (table("Models", &parameters(group), None))
    }
}

fn model_chart(group: &[&ModelOutcome], first: &ModelOutcome, unit: Unit) -> Chart {
    let points = || group.iter().flat_map(|model| &model.points);
    let x = Axis::fit(points().map(|point| point.level), Counting::In(Unit::Plain)).starting_at_zero();
    let y = Axis::fit(
        points().flat_map(|point| [point.measured.unwrap_or(point.predicted), point.predicted]),
        Counting::In(unit),
    )
    .starting_at_zero();
    let mut names: Vec<String> = group.iter().map(|model| words::short(&model.name, words::NAME_CHARS_MAX)).collect();
    let entry = |(index, name): (usize, &String)| LegendEntry::line(index, name.clone(), Look::neutral(index), true);
    let legend = names.iter().enumerate().map(entry).collect();
    names.push(String::from("measured"));
    Chart {
        caption: String::from(
            "Lines: models. Filled: measured, used by the fit. Hollow: measured, not used by the fit.",
        ),
        says: model_says(group, first),
        height_px: 320,
        option: model_option(group, first, &x, &y),
        words: json!({ "x": x.words(), "y": y.words(), "names": names }),
        legend,
        table: points_table(group, unit),
    }
}

fn model_option(group: &[&ModelOutcome], first: &ModelOutcome, x: &Axis, y: &Axis) -> Value {
    let mut x_option = x.option(&words::short(&first.factor, words::NAME_CHARS_MAX));
    x_option["nameLocation"] = json!("middle");
    x_option["nameGap"] = json!(26);
    let line = |(index, model): (usize, &&ModelOutcome)| {
        let look = Look::neutral(index);
        let mut points: Vec<_> = model.points.iter().collect();
        points.sort_by(|a, b| a.level.total_cmp(&b.level));
        let data: Vec<Value> =
            points.iter().map(|point| json!([x.place(point.level), y.place(point.predicted)])).collect();
        json!({
            "type": "line", "name": format!("line {index}"), "data": data, "symbol": "none", "z": 2,
            "itemStyle": { "color": look.colour() },
            "lineStyle": { "color": look.colour(), "width": if model.is_best { 3.0 } else { 1.5 }, "type": look.line_type() },
        })
    };
    let measured = |held_out: bool| -> Vec<Value> {
        let points = first.points.iter().filter(|point| point.is_held_out == held_out);
        points.filter_map(|point| Some(json!([x.place(point.level), y.place(point.measured?)]))).collect()
    };
    let key = format!("line {}", group.len());
    let mut series: Vec<Value> = group.iter().enumerate().map(line).collect();
    series.push(json!({ "type": "scatter", "name": key, "id": "fitted", "data": measured(false), "symbolSize": 9, "z": 4, "itemStyle": { "color": "var(--ink)" } }));
    series.push(json!({
        "type": "scatter", "name": key, "id": "omitted from the fit", "data": measured(true), "symbolSize": 10, "z": 4,
        "itemStyle": { "color": "var(--paper)", "borderColor": "var(--ink)", "borderWidth": 2 },
    }));
    json!({
        "grid": { "left": 64, "right": 16, "top": 14, "bottom": 46 },
        "xAxis": x_option,
        "yAxis": y.option(""),
        "tooltip": { "trigger": "axis", "formatter": "@axis" },
        "legend": { "show": false },
        "series": series,
    })
}

fn parameters(group: &[&ModelOutcome]) -> Table {
    let mut table = Table::new(["model", "parameters", "#AICc", "#error at omitted levels", ""]);
    for model in group {
        let parameters: Vec<String> = model
            .parameters
            .iter()
            .map(|(name, value)| format!("{} = {}", words::one_line(name), ratio(*value)))
            .collect();
        table.push([
            Cell::from(words::one_line(&model.name)),
            parameters.join(", ").into(),
            model.aicc.map_or_else(|| String::from("–"), |aicc| format!("{aicc:.1}")).into(),
            figure_or_dash(model.prediction_error, Unit::Share).into(),
            if model.is_best { Cell::classed("✓ best", "different") } else { Cell::from("") },
        ]);
    }
    table
}

fn points_table(group: &[&ModelOutcome], unit: Unit) -> Table {
    let mut table = Table::new(["model", "#level", "#measured", "#predicted", "used by the fit"]);
    for model in group {
        for point in &model.points {
            table.push([
                words::one_line(&model.name),
                figure(point.level, Unit::Plain),
                figure_or_dash(point.measured, unit),
                figure(point.predicted, unit),
                String::from(if point.is_held_out { "no" } else { "yes" }),
            ]);
        }
    }
    table
}

fn model_says(group: &[&ModelOutcome], first: &ModelOutcome) -> String {
    let describe = |model: &&ModelOutcome| {
        let error = model.prediction_error.map_or_else(
            || String::from("no level omitted"),
            |error| format!("error {} at omitted levels", figure(error, Unit::Share)),
        );
        format!("{}{}: {error}", model.name, if model.is_best { " (best)" } else { "" })
    };
    let described: Vec<String> = group.iter().map(describe).collect();
    words::one_line(&format!("Models of {} over {}. {}.", first.measure, first.factor, described.join("; ")))
}

pub(crate) fn searches(run: &Run<'_>, gallery: &mut Gallery) -> Option<Markup> {
    let searches = &run.judgement.searches;
    if searches.is_empty() {
        return None;
    }
    Some(html! {
        @for search in searches.iter().take(GROUPS_MAX) {
            h3 {
                (words::one_line(&search.factor)) " until " code { (words::one_line(&search.until)) }
                @if !search.at.is_empty() { ", " (words::levels(&search.at)) }
            }
            p { (prose(&search.sentence)) }
            @if let Some(chart) = search_chart(search) { (gallery.figure(&chart)) }
        }
        @if searches.len() > GROUPS_MAX { p.remark { (searches.len() - GROUPS_MAX) " more are in the run's files." } }
    })
}

fn search_chart(search: &SearchOutcome) -> Option<Chart> {
    if search.steps.is_empty() {
        return None;
    }
    let ends = [search.holds_at, search.fails_at].into_iter().flatten();
    let y = Axis::fit(search.steps.iter().map(|step| step.level).chain(ends), Counting::In(Unit::Plain));
    let level_text =
        |level: Option<f64>| level.map_or_else(|| String::from("nowhere"), |level| figure(level, Unit::Plain));
    Some(Chart {
        caption: String::from(
            "Each trial of the search, from left to right. Circle: passed; cross: failed; hollow: does not count; large: a longer trial that confirms. Lines: the highest level that passed and the lowest that failed.",
        ),
        says: words::one_line(&format!(
            "Search over {} in {} trials: passes at {}, fails at {}.",
            search.factor,
            search.steps.len(),
            level_text(search.holds_at),
            level_text(search.fails_at)
        )),
        height_px: 260,
        option: search_option(search, &y),
        words: json!({ "y": y.words() }),
        legend: Vec::new(),
        table: steps_table(search),
    })
}

fn search_option(search: &SearchOutcome, y: &Axis) -> Value {
    let bound = |level: Option<f64>, colour: &str| {
        level.map(|level| json!({ "yAxis": y.place(level), "lineStyle": { "color": colour } }))
    };
    let bounds: Vec<Value> = [bound(search.holds_at, "var(--supported)"), bound(search.fails_at, "var(--refuted)")]
        .into_iter()
        .flatten()
        .collect();
    let data: Vec<Value> = search.steps.iter().enumerate().map(|(index, step)| step_mark(index + 1, step, y)).collect();
    json!({
        "grid": { "left": 64, "right": 16, "top": 14, "bottom": 46 },
        "xAxis": {
            "type": "value", "min": 0.5, "max": search.steps.len() as f64 + 0.5, "minInterval": 1, "name": "step", "nameLocation": "middle",
            "nameGap": 26, "splitLine": { "show": false }, "axisLabel": { "showMinLabel": false, "showMaxLabel": false },
        },
        "yAxis": y.option(""),
        "tooltip": { "trigger": "item", "formatter": "@name" },
        "series": [{
            "type": "line", "name": "steps", "data": data, "z": 3, "showAllSymbol": true, "lineStyle": { "color": "var(--line)", "width": 1.5 },
            "markLine": { "silent": true, "symbol": "none", "label": { "show": false }, "data": bounds },
        }],
    })
}

fn step_mark(number: usize, step: &SearchStep, y: &Axis) -> Value {
    let (symbol, colour) = match step.failed {
        Some(false) => ("circle", "var(--supported)"),
        Some(true) => (CROSS, "var(--refuted)"),
        None => ("circle", "var(--paper)"),
    };
    let edge_px = if step.failed.is_none() { 1.5 } else { 0.0 };
    let name = format!("trial {}, level {}: {}", step.trial, figure(step.level, Unit::Plain), outcome(step));
    json!({
        "name": name, "value": [number, y.place(step.level)], "symbol": symbol, "symbolSize": if step.is_confirmation { 16 } else { 9 },
        "itemStyle": { "color": colour, "borderColor": "var(--ink-2)", "borderWidth": edge_px },
    })
}

const fn outcome(step: &SearchStep) -> &'static str {
    match step.failed {
        Some(false) => "held",
        Some(true) => "failed",
        None => "does not count",
    }
}

fn steps_table(search: &SearchOutcome) -> Table {
    let mut table = Table::new(["trial", "#level", "outcome", "confirms"]);
    for step in &search.steps {
        table.push([
            Cell::linked(step.trial.to_string(), format!("trial-{}", step.trial)),
            figure(step.level, Unit::Plain).into(),
            outcome(step).into(),
            if step.is_confirmation { "yes" } else { "no" }.into(),
        ]);
    }
    table
}
