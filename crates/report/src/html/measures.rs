//! Measured values: the table of the study, lines over the levels of a factor, and every point of every block.

use breme_expression::Unit;
use breme_judge::Levels;
use breme_judge::judgement::{MeasureRow, MeasureTable};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Counting, LegendEntry, Look, number, rows_axis, whiskers};
use crate::figures::{estimate, figure, figure_or_dash, range};
use crate::html::palette::{Palette, level, numeric_factor};
use crate::html::parts::{Gallery, folded_table, table};
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{key_comparisons, text, words};
use breme_base::plural;

/// Limit of the measures with charts.
const MEASURES_MAX: usize = 24;
/// Limit of the combinations with a row in a chart.
const ROWS_MAX: usize = 80;
/// Limit of the lines of a chart; the table has all.
const LINES_MAX: usize = 24;
/// Number of lines shown initially.
const LINES_SHOWN: usize = 8;
/// Limit of the single trials in all charts of measures and their tables: the first blocks of each row are drawn.
const POINTS_MAX: usize = 12_000;
/// Limit of the rows of the table of the study.
const STUDY_ROWS_MAX: usize = 300;
const ROW_PX: u32 = 26;
const AROUND_PX: u32 = 58;

pub(crate) fn section(run: &Run<'_>, palette: &Palette, gallery: &mut Gallery) -> Option<Markup> {
    let tables = &run.judgement.tables;
    if tables.iter().all(|table| table.rows.is_empty()) {
        return None;
    }
    let has_chart = |table: &&MeasureTable| !table.rows.is_empty() && !text::is_zero(table);
    let charted: Vec<&MeasureTable> = tables.iter().filter(has_chart).take(MEASURES_MAX).collect();
    let points_max = POINTS_MAX / charted.len().max(1);
    Some(html! {
        p.lead { "Each figure is the median over the blocks, with its interval in parentheses." }
        @for (title, study) in text::study(run.judgement, text::MEASURES_ABREAST_MAX) { (table(&title, &study.limited(STUDY_ROWS_MAX), None)) }
        @for line in text::zero_measures(run.judgement) { p { (words::one_line(&line)) "." } }
        p.remark {
            (interval_remark(run.judgement.confidence))
        }
        (sources(tables))
        @for (index, measure) in charted.iter().enumerate() {
            (measure_section(measure, is_open(run, measure, index), points_max, palette, gallery))
        }
        @if tables.len() > MEASURES_MAX { p.remark { "Charts of the first " (MEASURES_MAX) " of " (tables.len()) " measures." } }
    })
}

fn interval_remark(confidence: f64) -> String {
    // All values are on one side of the median with a probability of 2 ÷ 2ⁿ; a remainder is an error of rounding.
    let blocks = (1.0 - (1.0 - confidence).log2() - 1e-9).ceil();
    format!(
        "Interval of the median by the sign test: at least {} from {blocks} blocks on. Of fewer blocks it is the range \
         of all values, which is less certain.",
        words::confidence(confidence)
    )
}

/// Whether a measure is shown initially: those of hypotheses; without hypotheses, the first ones.
fn is_open(run: &Run<'_>, measure: &MeasureTable, index: usize) -> bool {
    const OPEN_MIN: usize = 2;
    index < OPEN_MIN && run.judgement.hypotheses.is_empty()
        || key_comparisons::is_in_hypothesis(run.judgement, &measure.measure)
}

/// One chart: lines over the numbers of a factor, or a row for each combination.
fn measure_section(
    measure: &MeasureTable,
    is_open: bool,
    points_max: usize,
    palette: &Palette,
    gallery: &mut Gallery,
) -> Markup {
    let chart = lines(measure, points_max, palette).or_else(|| points(measure, points_max, palette));
    let values = values_table(measure, points_max);
    html! {
        details.measure open[is_open] {
            summary { h3 { code { (words::one_line(&measure.measure)) } (better(measure)) } }
            @if let Some(chart) = chart { (gallery.figure(&chart)) }
            (folded_table("Every trial", &values, None))
        }
    }
}

fn better(measure: &MeasureTable) -> Markup {
    html! {
        @match measure.less_is_better {
            Some(true) => span.better { " less is better" },
            Some(false) => span.better { " more is better" },
            None => {},
        }
    }
}

/// The sources of published figures.
fn sources(tables: &[MeasureTable]) -> Markup {
    let rows = tables.iter().flat_map(|table| &table.rows);
    let mut sources: Vec<String> =
        rows.filter_map(|row| Some(words::one_line(&row.published.as_ref()?.source))).collect();
    sources.sort();
    sources.dedup();
    sources.retain(|source| !source.is_empty());
    html! { @if !sources.is_empty() { p.remark { "Published: " (sources.join("; ")) "." } } }
}

/// Every trial as a dot, a row for each combination, with the estimate and its interval.
fn points(measure: &MeasureTable, points_max: usize, palette: &Palette) -> Option<Chart> {
    let unit = Unit::from_symbol(&measure.unit);
    let rows: Vec<&MeasureRow> = measure.rows.iter().take(ROWS_MAX).collect();
    if rows.iter().all(|row| row.values.is_empty() && row.center.is_none()) {
        return None;
    }
    let published = |row: &&MeasureRow| row.published.as_ref().map(|published| published.value);
    let of_row = |row: &&MeasureRow| {
        let values: Vec<f64> = row.values.iter().map(|(_, value)| *value).collect();
        [row.center, row.low, row.high, published(row)].into_iter().flatten().chain(values).collect::<Vec<f64>>()
    };
    let axis = Axis::fit(rows.iter().flat_map(of_row), Counting::In(unit));
    let names: Vec<String> =
        rows.iter().map(|row| words::short(&words::levels_or(&row.levels, "all"), words::NAME_CHARS_MAX)).collect();
    let mut says = format!("Dot plot of {}: {}", measure.measure, plural(measure.rows.len() as u64, "combination"));
    if let Some((least, most)) = extremes(&rows) {
        says = format!(
            "{says}; lowest at {} with {}, highest at {} with {}",
            words::levels_or(&least.levels, "all"),
            figure_or_dash(least.center, unit),
            words::levels_or(&most.levels, "all"),
            figure_or_dash(most.center, unit)
        );
    }
    let has_published = text::has_published(measure);
    let left_out = if measure.rows.len() > ROWS_MAX {
        format!(" The first {ROWS_MAX} of {} combinations.", measure.rows.len())
    } else {
        String::new()
    };
    Some(Chart {
        caption: format!(
            "{}: trials (dots), median over the blocks (diamond) and its interval (bar){}.{left_out}",
            words::one_line(&measure.measure),
            if has_published { ", published figure (cross)" } else { "" }
        ),
        says: words::one_line(&says) + ".",
        height_px: AROUND_PX + ROW_PX * rows.len() as u32,
        option: points_option(&rows, &axis, unit, points_max, palette),
        words: json!({ "rows": names, "x": axis.words() }),
        legend: Vec::new(),
        table: Table::default(),
    })
}

fn extremes<'a>(rows: &[&'a MeasureRow]) -> Option<(&'a MeasureRow, &'a MeasureRow)> {
    let known = || rows.iter().filter(|row| row.center.is_some_and(f64::is_finite));
    let center = |row: &&&MeasureRow| row.center.unwrap_or(0.0);
    let least = known().min_by(|a, b| center(a).total_cmp(&center(b)))?;
    let most = known().max_by(|a, b| center(a).total_cmp(&center(b)))?;
    Some((least, most))
}

fn points_option(rows: &[&MeasureRow], axis: &Axis, unit: Unit, points_max: usize, palette: &Palette) -> Value {
    let trials_max = points_max / rows.len().max(1);
    let mut trials = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (position, &(block, value)) in row.values.iter().take(trials_max).enumerate() {
            let name = format!("block {block}: {}", figure(value, unit));
            trials.push(json!({
                "name": name, "value": [axis.place(value), number(index as f64 + jitter(position))],
                "itemStyle": { "color": palette.line(&row.levels).colour() },
            }));
        }
    }
    let coloured = |row: &MeasureRow| json!({ "color": palette.line(&row.levels).colour() });
    let mark = |value: f64, index: usize, name: String| json!({ "name": name, "value": [axis.place(value), index] });
    let centers: Vec<Value> = numbered(rows, |row, index| {
        let mut mark = mark(row.center?, index, describe(row, unit));
        mark["itemStyle"] = coloured(row);
        Some(mark)
    });
    let bars: Vec<Value> = numbered(rows, |row, index| {
        let ends = [axis.place(row.low?), json!(index), axis.place(row.high?)];
        Some(json!({ "value": ends, "itemStyle": coloured(row) }))
    });
    let published: Vec<Value> = numbered(rows, |row, index| {
        let published = row.published.as_ref()?;
        let name = format!(
            "published: {} ({})",
            figure(published.value, unit),
            words::short(&published.source, words::NAME_CHARS_MAX)
        );
        Some(mark(published.value, index, name))
    });
    json!({
        "grid": { "left": "@rows", "right": 20, "top": 6, "bottom": 34 },
        "xAxis": axis.option(""),
        "yAxis": rows_axis(rows.len()),
        "tooltip": { "trigger": "item", "formatter": "@row" },
        "series": [
            { "type": "scatter", "name": "trials", "symbolSize": 6, "z": 2, "data": trials, "itemStyle": { "opacity": 0.5 } },
            whiskers("interval", &bars),
            { "type": "scatter", "name": "median", "symbol": "diamond", "symbolSize": 12, "z": 4, "data": centers },
            { "type": "scatter", "name": "published", "symbol": CROSS, "symbolSize": 9, "z": 5, "data": published, "itemStyle": { "color": "var(--ink)" } },
        ],
    })
}

/// A cross drawn as a path, which looks the same in all fonts.
pub(crate) const CROSS: &str = "path://M0 0L3 0L5 2L7 0L10 0L6.5 5L10 10L7 10L5 8L3 10L0 10L3.5 5Z";

fn numbered(rows: &[&MeasureRow], of: impl Fn(&MeasureRow, usize) -> Option<Value>) -> Vec<Value> {
    rows.iter().enumerate().filter_map(|(index, row)| of(row, index)).collect()
}

fn describe(row: &MeasureRow, unit: Unit) -> String {
    let center = format!("median {}", figure_or_dash(row.center, unit));
    range(row.low, row.high, unit).map_or_else(|| center.clone(), |range| format!("{center}, interval {range}"))
}

/// Spreads the dots of a row below its bar, in the same order in every row, so that blocks can be followed.
fn jitter(position: usize) -> f64 {
    const LANES: usize = 4;
    0.2 + (position % LANES) as f64 * 0.07
}

fn values_table(measure: &MeasureTable, points_max: usize) -> Table {
    let unit = Unit::from_symbol(&measure.unit);
    let mut names = vec!["at", "#median", "#interval", "#published", "single trials, by block"];
    if !text::has_published(measure) {
        names.remove(3);
    }
    let mut table = Table::new(names);
    let values_max = points_max / measure.rows.len().clamp(1, STUDY_ROWS_MAX);
    for row in &measure.rows {
        let values: Vec<String> = row
            .values
            .iter()
            .take(values_max)
            .map(|(block, value)| format!("{block}: {}", figure(*value, unit)))
            .collect();
        let mut cells = vec![
            Cell::from(words::levels_or(&row.levels, "all")),
            figure_or_dash(row.center, unit).into(),
            range(row.low, row.high, unit).unwrap_or_else(|| String::from("–")).into(),
        ];
        if text::has_published(measure) {
            cells.push(figure_or_dash(row.published.as_ref().map(|published| published.value), unit).into());
        }
        cells.push(values.join(" · ").into());
        table.push(cells);
    }
    table.limited(STUDY_ROWS_MAX)
}

/// One combination of the other factors.
struct MeasureLine<'a> {
    name: String,
    look: Look,
    /// By level.
    points: Vec<(f64, &'a MeasureRow)>,
}

/// The measure over the levels of the factor with the most numbers among its levels; none if no factor has three.
fn lines(measure: &MeasureTable, points_max: usize, palette: &Palette) -> Option<Chart> {
    const LEVELS_MIN: usize = 3;
    let (factor, levels) = numeric_factor(&measure.rows).filter(|(_, levels)| levels.len() >= LEVELS_MIN)?;
    let lines = lines_over(&measure.rows, &factor, palette);
    let drawn = &lines[..lines.len().min(LINES_MAX)];
    let unit = Unit::from_symbol(&measure.unit);
    let rows = || drawn.iter().flat_map(|line| line.points.iter().map(|(_, row)| *row));
    let published = |row: &MeasureRow| row.published.as_ref().map(|published| published.value);
    let ends = |row: &MeasureRow| [row.center, row.low, row.high, published(row)].into_iter().flatten();
    let values = rows().flat_map(|row| ends(row).chain(row.values.iter().map(|(_, value)| *value)));
    let trials_max = points_max / rows().count().max(1);
    let x = Axis::fit(levels.iter().copied(), Counting::In(Unit::Plain)).starting_at_zero();
    let y = Axis::fit(values, Counting::In(unit)).starting_at_zero();
    let legend = if drawn.len() > 1 { legend(drawn) } else { Vec::new() };
    Some(Chart {
        caption: format!(
            "{} over {}: median over the blocks (line), its interval (band), trials (dots){}.{}",
            words::one_line(&measure.measure),
            words::one_line(&factor),
            if text::has_published(measure) { "; dashed with hollow marks: published" } else { "" },
            if lines.len() > LINES_MAX {
                format!(" The first {LINES_MAX} of {} lines.", lines.len())
            } else {
                String::new()
            }
        ),
        says: words::one_line(&lines_say(measure, &factor, drawn)),
        height_px: 340,
        option: lines_option(drawn, &factor, &x, &y, trials_max),
        words: json!({ "x": x.words(), "y": y.words(), "names": drawn.iter().map(|line| words::short(&line.name, words::NAME_CHARS_MAX)).collect::<Vec<_>>() }),
        legend,
        table: lines_table(&factor, drawn, unit),
    })
}

fn lines_over<'a>(rows: &'a [MeasureRow], factor: &str, palette: &Palette) -> Vec<MeasureLine<'a>> {
    let mut lines: Vec<(Levels, MeasureLine<'a>)> = Vec::new();
    for row in rows {
        let Some(level) = level(&row.levels, factor) else { continue };
        let mut others = row.levels.clone();
        others.remove(factor);
        match lines.iter_mut().find(|(known, _)| *known == others) {
            Some((_, line)) => line.points.push((level, row)),
            None => lines.push((
                others.clone(),
                MeasureLine {
                    name: words::levels_or(&others, "measured"),
                    look: palette.line(&row.levels),
                    points: vec![(level, row)],
                },
            )),
        }
    }
    let sorted = lines.into_iter().map(|(_, mut line)| {
        line.points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        line
    });
    sorted.collect()
}

fn legend(lines: &[MeasureLine<'_>]) -> Vec<LegendEntry> {
    let entry = |(index, line): (usize, &MeasureLine<'_>)| {
        let name = words::short(&line.name, words::NAME_CHARS_MAX);
        LegendEntry::line(index, name, line.look, index < LINES_SHOWN)
    };
    lines.iter().enumerate().map(entry).collect()
}

fn lines_option(lines: &[MeasureLine<'_>], factor: &str, x: &Axis, y: &Axis, trials_max: usize) -> Value {
    let mut x_option = x.option(&words::short(factor, words::NAME_CHARS_MAX));
    x_option["nameLocation"] = json!("middle");
    x_option["nameGap"] = json!(26);
    let hidden: serde_json::Map<String, Value> =
        (LINES_SHOWN..lines.len()).map(|index| (format!("line {index}"), json!(false))).collect();
    json!({
        "grid": { "left": 64, "right": 16, "top": 14, "bottom": 46 },
        "xAxis": x_option,
        "yAxis": y.option(""),
        "tooltip": { "trigger": "axis", "formatter": "@axis" },
        "legend": { "show": false, "selected": hidden },
        "series": lines.iter().enumerate().flat_map(|(index, line)| line_series(index, line, x, y, trials_max)).collect::<Vec<_>>(),
    })
}

/// Two invisible stacked lines form the band; then the trials, the line itself, and the published figures.
fn line_series(index: usize, line: &MeasureLine<'_>, x: &Axis, y: &Axis, trials_max: usize) -> Vec<Value> {
    let (key, look) = (format!("line {index}"), line.look);
    let points = |of: &dyn Fn(&MeasureRow) -> Option<Value>| -> Vec<Value> {
        line.points.iter().filter_map(|(level, row)| Some(json!([x.place(*level), of(row)?]))).collect()
    };
    let height = |row: &MeasureRow| Some(number(y.place(row.high?).as_f64()? - y.place(row.low?).as_f64()?));
    let lows =
        points(&|row| y.place(row.low?).as_f64().and_then(|low| y.place(row.high?).as_f64().map(|_| number(low))));
    let band = |data: Vec<Value>, area: Value| {
        json!({
            "type": "line", "name": key, "id": format!("{key} {}", if area.is_null() { "low" } else { "band" }),
            "stack": format!("band {index}"), "stackStrategy": "all", "data": data, "symbol": "none", "silent": true,
            "lineStyle": { "opacity": 0 }, "areaStyle": area, "tooltip": { "show": false }, "z": 1,
        })
    };
    let trials: Vec<Value> = line
        .points
        .iter()
        .flat_map(|(level, row)| row.values.iter().take(trials_max).map(move |(_, value)| (level, value)))
        .map(|(level, value)| json!([x.place(*level), y.place(*value)]))
        .collect();
    let mut series = vec![
        band(lows, Value::Null),
        band(points(&height), json!({ "color": look.colour(), "opacity": 0.16 })),
        json!({
            "type": "scatter", "name": key, "id": format!("{key} trials"), "data": trials, "symbolSize": 5, "z": 2, "silent": true,
            "itemStyle": { "color": look.colour(), "opacity": 0.45 },
        }),
        json!({
            "type": "line", "name": key, "id": format!("{key} measured"), "data": points(&|row| Some(y.place(row.center?))),
            "symbol": look.symbol(), "symbolSize": 7, "z": 3, "itemStyle": { "color": look.colour() },
            "lineStyle": { "color": look.colour(), "width": 2, "type": look.line_type() },
        }),
    ];
    let published = points(&|row| Some(y.place(row.published.as_ref()?.value)));
    if !published.is_empty() {
        series.push(json!({
            "type": "line", "name": key, "id": format!("{key} published"), "data": published,
            "symbol": "circle", "symbolSize": 7, "z": 2,
            "itemStyle": { "color": "var(--paper)", "borderColor": look.colour(), "borderWidth": 1.5 },
            "lineStyle": { "color": look.colour(), "width": 1.2, "type": [5, 4], "opacity": 0.8 },
        }));
    }
    series
}

fn lines_say(measure: &MeasureTable, factor: &str, lines: &[MeasureLine<'_>]) -> String {
    const DESCRIBED_MAX: usize = 4;
    let unit = Unit::from_symbol(&measure.unit);
    let described = lines.iter().take(DESCRIBED_MAX).filter_map(|line| {
        let ((first, from), (last, to)) = (line.points.first()?, line.points.last()?);
        Some(format!(
            "{}: from {} at {first} to {} at {last}",
            line.name,
            figure_or_dash(from.center, unit),
            figure_or_dash(to.center, unit)
        ))
    });
    format!(
        "Line chart of {} over {factor}, {}. {}.",
        measure.measure,
        plural(lines.len() as u64, "line"),
        described.collect::<Vec<_>>().join("; ")
    )
}

/// A row for each level, a column for each line.
fn lines_table(factor: &str, lines: &[MeasureLine<'_>], unit: Unit) -> Table {
    let names: Vec<String> =
        std::iter::once(format!("#{factor}")).chain(lines.iter().map(|line| format!("#{}", line.name))).collect();
    let mut table = Table::new(names);
    let mut levels: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|(level, _)| *level)).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    for level in levels {
        let mut row = vec![figure(level, Unit::Plain)];
        for line in lines {
            let found = line.points.iter().find(|(at, _)| *at == level);
            row.push(found.map_or_else(|| String::from("–"), |(_, row)| estimate(row.center, row.low, row.high, unit)));
        }
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remark_has_the_confidence_of_the_plan() {
        for (confidence, said) in [(0.95, "at least 95 % from 6 blocks"), (0.99, "at least 99 % from 8 blocks")] {
            assert!(interval_remark(confidence).contains(said), "{}", interval_remark(confidence));
        }
    }

    #[test]
    fn one_line_is_no_lines() {
        let said = lines_say(&MeasureTable { measure: String::from("x"), ..MeasureTable::default() }, "users", &[]);
        assert!(said.contains(", 0 lines."), "{said}");
        let line = MeasureLine { name: String::from("a"), look: Look::series(0), points: Vec::new() };
        assert!(lines_say(&MeasureTable::default(), "users", &[line]).contains(", 1 line."));
    }
}
