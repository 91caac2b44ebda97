//! Effects as a forest plot: each with its interval and its blocks, against "no difference", the zone of what does not
//! matter, and the noise floor.

use breme_experiment::judgement::{Effect, Scale, Verdict};
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Counting, number, rows_axis, whiskers};
use crate::figures::Unit;
use crate::table::Table;
use crate::words;

/// The most rows of a plot; a longer one is not looked through.
pub(crate) const ROWS_MAX: usize = 60;
const ROW_PX: u32 = 34;
const AROUND_PX: u32 = 64;

/// A row of the plot.
pub(crate) struct Row<'a> {
    pub name: String,
    pub verdict: Verdict,
    pub effect: &'a Effect,
    /// Of the two sides.
    pub unit: Unit,
}

/// The plot of effects of one scale; none if there is nothing to be seen.
pub(crate) fn chart(rows: &[Row<'_>], what: &str) -> Option<Chart> {
    let scale = rows.first()?.effect.scale;
    let rows: Vec<&Row<'_>> = rows.iter().filter(|row| row.effect.scale == scale).take(ROWS_MAX).collect();
    if rows.iter().all(|row| row.effect.center.is_none()) {
        return None;
    }
    let axis = Axis::fit(rows.iter().flat_map(|row| shown(row.effect)), counting(scale, rows.first()?.unit));
    Some(Chart {
        caption: caption(&rows, scale),
        says: says(&rows, what),
        height_px: AROUND_PX + ROW_PX * rows.len() as u32,
        option: option(&rows, &axis, scale),
        words: json!({
            "rows": rows.iter().map(|row| words::short(&row.name, words::NAME_CHARS_MAX)).collect::<Vec<_>>(),
            "x": axis.words(),
        }),
        legend: Vec::new(),
        table: Table::default(),
    })
}

const fn counting(scale: Scale, unit: Unit) -> Counting {
    match scale {
        Scale::Ratio => Counting::Ratio,
        Scale::Difference => Counting::In(unit),
    }
}

/// What "no difference" is.
const fn neutral(scale: Scale) -> f64 {
    match scale {
        Scale::Ratio => 1.0,
        Scale::Difference => 0.0,
    }
}

/// Every value that must lie on the axis.
fn shown(effect: &Effect) -> Vec<f64> {
    let mut values = vec![neutral(effect.scale)];
    values.extend([effect.center, effect.low, effect.high].into_iter().flatten());
    values.extend(block_effects(effect).map(|(_, value)| value));
    for (low, high) in [equal_zone(effect), floor_zone(effect)].into_iter().flatten() {
        values.extend([low, high]);
    }
    values.retain(|&value| value.is_finite() && (effect.scale == Scale::Difference || value > 0.0));
    values
}

fn block_effects(effect: &Effect) -> impl Iterator<Item = (u32, f64)> + '_ {
    let of = |pair: &breme_experiment::judgement::BlockPair| match effect.scale {
        Scale::Ratio => pair.left / pair.right,
        Scale::Difference => pair.left - pair.right,
    };
    effect.blocks.iter().map(move |pair| (pair.block, of(pair)))
}

/// Practically equal; only of a ratio is it known.
fn equal_zone(effect: &Effect) -> Option<(f64, f64)> {
    (effect.scale == Scale::Ratio && effect.equal_within > 0.0 && effect.equal_within < 1.0)
        .then_some((1.0 - effect.equal_within, 1.0 + effect.equal_within))
}

fn floor_zone(effect: &Effect) -> Option<(f64, f64)> {
    let floor = effect.floor?.abs();
    match effect.scale {
        Scale::Ratio => (floor > 0.0 && floor.is_finite()).then(|| (floor.min(1.0 / floor), floor.max(1.0 / floor))),
        Scale::Difference => Some((-floor, floor)),
    }
}

fn option(rows: &[&Row<'_>], axis: &Axis, scale: Scale) -> Value {
    let name = match scale {
        Scale::Ratio => "left ÷ right",
        Scale::Difference => "left − right",
    };
    let mut x = axis.option(name);
    x["nameLocation"] = json!("middle");
    x["nameGap"] = json!(26);
    json!({
        "grid": { "left": "@rows", "right": 20, "top": 6, "bottom": 46 },
        "xAxis": x,
        "yAxis": rows_axis(rows.len()),
        "tooltip": { "trigger": "item", "formatter": "@row" },
        "series": [zones(rows, axis), blocks(rows, axis), whiskers("interval", &intervals(rows, axis)), centers(rows, axis, scale)],
    })
}

/// Zones behind each row, since each has its own floor; and the line of no difference.
fn zones(rows: &[&Row<'_>], axis: &Axis) -> Value {
    let mut areas = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let (top, bottom) = (index as f64 - 0.42, index as f64 + 0.42);
        let mut area = |(low, high): (f64, f64), style: Value| {
            areas.push(json!([{ "coord": [axis.place(low), top], "itemStyle": style }, { "coord": [axis.place(high), bottom] }]));
        };
        floor_zone(row.effect).into_iter().for_each(|zone| {
            area(zone, json!({ "color": "var(--zone-floor)", "borderColor": "var(--zone-floor-edge)", "borderWidth": 1, "borderType": [3, 3] }));
        });
        equal_zone(row.effect).into_iter().for_each(|zone| area(zone, json!({ "color": "var(--zone-equal)" })));
    }
    let neutral = rows.first().map_or(1.0, |row| neutral(row.effect.scale));
    json!({
        "type": "scatter", "name": "zones", "data": [], "silent": true, "z": 1,
        "markArea": { "silent": true, "data": areas },
        "markLine": {
            "silent": true, "symbol": "none", "label": { "show": false },
            "lineStyle": { "color": "var(--ink-2)", "type": "solid", "width": 1.5 },
            "data": [{ "xAxis": axis.place(neutral) }],
        },
    })
}

fn blocks(rows: &[&Row<'_>], axis: &Axis) -> Value {
    let mut data = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (block, value) in block_effects(row.effect).filter(|(_, value)| !axis.place(*value).is_null()) {
            let name = format!("block {block}: {}", words::scaled(value, row.effect.scale, row.unit));
            data.push(json!({ "name": name, "value": [axis.place(value), number(index as f64 + 0.28)] }));
        }
    }
    json!({
        "type": "scatter", "name": "blocks", "symbolSize": 5, "z": 2, "data": data,
        "itemStyle": { "color": "var(--ink-2)", "opacity": 0.45 },
    })
}

fn intervals(rows: &[&Row<'_>], axis: &Axis) -> Vec<Value> {
    let whisker = |(index, row): (usize, &&Row<'_>)| {
        let (low, high) = (row.effect.low?, row.effect.high?);
        Some(
            json!({ "value": [axis.place(low), index, axis.place(high)], "itemStyle": { "color": colour(row.verdict) } }),
        )
    };
    rows.iter().enumerate().filter_map(whisker).collect()
}

fn centers(rows: &[&Row<'_>], axis: &Axis, scale: Scale) -> Value {
    let center = |(index, row): (usize, &&Row<'_>)| {
        let name = format!(
            "{} {}, {}",
            words::scale(scale),
            words::effect(row.effect, row.unit),
            words::verdict(row.verdict).words
        );
        let place = axis.place(row.effect.center?);
        Some(json!({ "name": name, "value": [place, index], "itemStyle": { "color": colour(row.verdict) } }))
    };
    let data: Vec<Value> = rows.iter().enumerate().filter_map(center).collect();
    json!({ "type": "scatter", "name": "estimate", "symbol": "diamond", "symbolSize": 15, "z": 4, "data": data })
}

fn colour(verdict: Verdict) -> String {
    format!("var(--{})", words::verdict(verdict).class)
}

/// How to read the plots.
pub(crate) const LEGEND: &str = "Diamond: left ÷ right over the blocks. Bar: its interval. Dots: single blocks. Filled zone: too small to matter. \
    Dashed zone: noise floor. Line: no difference.";

fn caption(rows: &[&Row<'_>], scale: Scale) -> String {
    let confidence = rows.iter().map(|row| row.effect.confidence).find(|&confidence| confidence > 0.0);
    let sides = match scale {
        Scale::Ratio => "Left ÷ right",
        Scale::Difference => "Left − right",
    };
    confidence.map_or_else(
        || format!("{sides}."),
        |confidence| format!("{sides}, with its {} % interval.", trimmed(confidence * 100.0)),
    )
}

fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn says(rows: &[&Row<'_>], what: &str) -> String {
    /// A longer list is not listened to; the table has all.
    const TOLD_MAX: usize = 6;
    let tell = |row: &&Row<'_>| {
        format!("{}: {}, {}", row.name, words::effect(row.effect, row.unit), words::verdict(row.verdict).words)
    };
    let told: Vec<String> = rows.iter().take(TOLD_MAX).map(tell).collect();
    let more = if rows.len() > TOLD_MAX { format!("; and {} more rows", rows.len() - TOLD_MAX) } else { String::new() };
    format!("Interval plot of {what}. {}{more}.", words::one_line(&told.join("; ")))
}
