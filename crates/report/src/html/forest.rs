//! Effects as a forest plot: each with its interval and its blocks, together with "no difference", the claim, the zone
//! of irrelevant differences, and the noise floor.

use breme_expression::Unit;
use breme_judge::judgement::{Case, Effect, Finding, FindingKind, Scale};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Counting, number, rows_axis, whiskers};
use crate::figures;
use crate::table::Table;
use crate::words::{self, VerdictWords};

/// Limit of the rows of a plot; a longer one is not readable.
pub(crate) const ROWS_MAX: usize = 60;
const ROW_PX: u32 = 34;
const AROUND_PX: u32 = 64;

pub(crate) struct Row<'a> {
    pub name: String,
    pub verdict: VerdictWords,
    effect: &'a Effect,
    /// Unit of both sides.
    unit: Unit,
    /// For readers; none if the effect itself is shown.
    finding: Option<&'a Finding>,
}

impl<'a> Row<'a> {
    /// A case of a claim, relative to the other side instead of the claim's bound.
    pub(crate) fn from_case(name: String, case: &'a Case, unit: Unit) -> Self {
        let finding = case.finding.as_ref();
        let unit = finding.map_or(unit, |finding| Unit::from_symbol(&finding.unit));
        Self { name, verdict: words::verdict(case.verdict), effect: &case.effect, unit, finding }
    }

    /// An effect without a claim.
    pub(crate) const fn from_effect(name: String, verdict: VerdictWords, effect: &'a Effect, unit: Unit) -> Self {
        Self { name, verdict, effect, unit, finding: None }
    }

    fn kind(&self) -> FindingKind {
        match (self.finding, self.effect.scale) {
            (Some(finding), _) => finding.kind,
            (None, Scale::Ratio) => FindingKind::Ratio,
            (None, Scale::Difference) => FindingKind::Difference,
        }
    }

    /// Converts a number of the effect for display.
    fn shown(&self, value: f64) -> f64 {
        let Some(finding) = self.finding else { return value };
        let bound = finding.bound;
        // The bound of a value is the claim's constant, on either side.
        let is_turned = finding.kind == FindingKind::Value
            && self.effect.blocks.first().is_some_and(|pair| pair.left == bound && pair.right != bound);
        match (finding.kind, self.effect.scale, is_turned) {
            (FindingKind::Difference, ..) => value,
            (_, Scale::Ratio, false) => bound * value,
            (_, Scale::Ratio, true) => bound / value,
            (_, Scale::Difference, false) => bound + value,
            (_, Scale::Difference, true) => bound - value,
        }
    }

    fn zone(&self, (low, high): (f64, f64)) -> (f64, f64) {
        let (one, other) = (self.shown(low), self.shown(high));
        (one.min(other), one.max(other))
    }

    /// Estimate and interval.
    fn ends(&self) -> Option<[f64; 3]> {
        let (low, high) = self.zone((self.effect.low?, self.effect.high?));
        Some([self.shown(self.effect.center?), low, high])
    }

    fn center(&self) -> Option<f64> {
        self.effect.center.map(|center| self.shown(center))
    }

    fn blocks(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        block_effects(self.effect).map(|(block, value)| (block, self.shown(value)))
    }

    /// The claimed value, if it is a separate number.
    fn claimed(&self) -> Option<f64> {
        self.finding.map(|finding| finding.bound).filter(|bound| Some(*bound) != neutral(self.kind()))
    }

    fn formatted(&self, value: f64) -> String {
        match self.kind() {
            FindingKind::Ratio => figures::ratio(value),
            FindingKind::Difference | FindingKind::Value => figures::figure(value, self.unit),
        }
    }

    fn says(&self) -> String {
        let numbers = self.finding.map_or_else(|| words::effect(self.effect, self.unit), words::finding);
        let claimed = self.finding.map(|finding| format!("; claimed: {}", finding.claimed)).unwrap_or_default();
        format!("{numbers}, {}{claimed}", self.verdict.words)
    }
}

/// The plot of effects of one kind; none if it would be empty.
pub(crate) fn chart(rows: &[Row<'_>], what: &str) -> Option<Chart> {
    // A case without data has no finding and is treated like the others.
    let first = rows.iter().find(|row| row.effect.center.is_some())?;
    if rows
        .iter()
        .all(|row| row.center().is_none_or(|center| center == 0.0) && row.blocks().all(|(_, value)| value == 0.0))
    {
        return None;
    }
    let kind = first.kind();
    let is_alike = |row: &&Row<'_>| {
        row.effect.center.is_none() || row.kind() == kind && (kind == FindingKind::Ratio || row.unit == first.unit)
    };
    let rows: Vec<&Row<'_>> = rows.iter().filter(is_alike).take(ROWS_MAX).collect();
    let axis = Axis::fit(rows.iter().flat_map(|row| on_axis(row)), counting(kind, first.unit));
    Some(Chart {
        caption: caption(&rows, &sides(&rows, kind)),
        says: says(&rows, what),
        height_px: AROUND_PX + ROW_PX * rows.len() as u32,
        option: option(&rows, &axis, kind),
        words: json!({
            "rows": rows.iter().map(|row| words::short(&row.name, words::NAME_CHARS_MAX)).collect::<Vec<_>>(),
            "x": axis.words(),
        }),
        legend: Vec::new(),
        table: Table::default(),
    })
}

const fn counting(kind: FindingKind, unit: Unit) -> Counting {
    match kind {
        FindingKind::Ratio => Counting::Ratio,
        FindingKind::Difference | FindingKind::Value => Counting::In(unit),
    }
}

/// The value of "no difference"; a single value has none.
fn neutral(kind: FindingKind) -> Option<f64> {
    match kind {
        FindingKind::Ratio => Some(1.0),
        FindingKind::Difference => Some(0.0),
        FindingKind::Value => None,
    }
}

/// Every value that must be on the axis.
fn on_axis(row: &Row<'_>) -> Vec<f64> {
    let mut values: Vec<f64> = neutral(row.kind()).into_iter().chain(row.claimed()).collect();
    values.extend(row.ends().into_iter().flatten());
    values.extend(row.center());
    values.extend(row.blocks().map(|(_, value)| value));
    for zone in [equal_zone(row.effect), floor_zone(row.effect)].into_iter().flatten() {
        let (low, high) = row.zone(zone);
        values.extend([low, high]);
    }
    values.retain(|&value| value.is_finite() && (row.kind() != FindingKind::Ratio || value > 0.0));
    values
}

fn block_effects(effect: &Effect) -> impl Iterator<Item = (u32, f64)> + '_ {
    let of = |pair: &breme_judge::judgement::BlockPair| match effect.scale {
        Scale::Ratio => pair.left / pair.right,
        Scale::Difference => pair.left - pair.right,
    };
    effect.blocks.iter().map(move |pair| (pair.block, of(pair)))
}

/// The range of practical equality, known for ratios only.
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

fn option(rows: &[&Row<'_>], axis: &Axis, kind: FindingKind) -> Value {
    let mut x = axis.option(name_of(kind));
    x["nameLocation"] = json!("middle");
    x["nameGap"] = json!(26);
    json!({
        "grid": { "left": "@rows", "right": 20, "top": 6, "bottom": 46 },
        "xAxis": x,
        "yAxis": rows_axis(rows.len()),
        "tooltip": { "trigger": "item", "formatter": "@row" },
        "series": [zones(rows, axis), blocks(rows, axis), whiskers("interval", &intervals(rows, axis)), centers(rows, axis)],
    })
}

const fn name_of(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Ratio => "left ÷ right",
        FindingKind::Difference => "left − right",
        FindingKind::Value => "",
    }
}

/// Zones behind each row, since each has its own floor; the line of no difference; the claim.
fn zones(rows: &[&Row<'_>], axis: &Axis) -> Value {
    let mut areas = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let (top, bottom) = (index as f64 - 0.42, index as f64 + 0.42);
        let mut area = |(low, high): (f64, f64), style: Value| {
            areas.push(json!([{ "coord": [axis.place(low), top], "itemStyle": style }, { "coord": [axis.place(high), bottom] }]));
        };
        floor_zone(row.effect).into_iter().for_each(|zone| {
            area(row.zone(zone), json!({ "color": "var(--zone-floor)", "borderColor": "var(--zone-floor-edge)", "borderWidth": 1, "borderType": [3, 3] }));
        });
        equal_zone(row.effect)
            .into_iter()
            .for_each(|zone| area(row.zone(zone), json!({ "color": "var(--zone-equal)" })));
    }
    let mut lines = Vec::new();
    if let Some(neutral) = rows.first().and_then(|row| neutral(row.kind())) {
        lines.push(json!({ "xAxis": axis.place(neutral) }));
    }
    let mut claimed: Vec<f64> = rows.iter().filter_map(|row| row.claimed()).collect();
    claimed.sort_by(f64::total_cmp);
    claimed.dedup();
    for bound in claimed {
        lines.push(json!({ "xAxis": axis.place(bound), "lineStyle": { "type": [5, 4], "color": "var(--ink)" } }));
    }
    json!({
        "type": "scatter", "name": "zones", "data": [], "silent": true, "z": 1,
        "markArea": { "silent": true, "data": areas },
        "markLine": {
            "silent": true, "symbol": "none", "label": { "show": false },
            "lineStyle": { "color": "var(--ink-2)", "type": "solid", "width": 1.5 },
            "data": lines,
        },
    })
}

fn blocks(rows: &[&Row<'_>], axis: &Axis) -> Value {
    let mut data = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (block, value) in row.blocks().filter(|(_, value)| !axis.place(*value).is_null()) {
            let name = format!("block {block}: {}", row.formatted(value));
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
        let [_, low, high] = row.ends()?;
        Some(json!({ "value": [axis.place(low), index, axis.place(high)], "itemStyle": { "color": colour(row) } }))
    };
    rows.iter().enumerate().filter_map(whisker).collect()
}

fn centers(rows: &[&Row<'_>], axis: &Axis) -> Value {
    let center = |(index, row): (usize, &&Row<'_>)| {
        let place = axis.place(row.center()?);
        let level = words::confidence(row.effect.confidence);
        let name = format!("{}; {level} interval", row.says());
        Some(json!({ "name": name, "value": [place, index], "itemStyle": { "color": colour(row) } }))
    };
    let data: Vec<Value> = rows.iter().enumerate().filter_map(center).collect();
    json!({ "type": "scatter", "name": "estimate", "symbol": "diamond", "symbolSize": 15, "z": 4, "data": data })
}

fn colour(row: &Row<'_>) -> String {
    format!("var(--{})", row.verdict.class)
}

/// A drawn legend of the plots.
pub(crate) fn key() -> Markup {
    html! {
        ul.key.forest-key aria-label="Key of the interval plots" {
            li { svg.swatch viewBox="0 0 24 12" aria-hidden="true" {
                path d="M2 6H22M2 3V9M22 3V9" stroke="var(--ink)" stroke-width="2" fill="none" {}
                path d="M12 1L17 6L12 11L7 6Z" fill="var(--ink)" {}
            } "estimate and interval" }
            li { svg.swatch viewBox="0 0 24 12" aria-hidden="true" { circle cx="12" cy="6" r="3" fill="var(--ink-2)" opacity="0.5" {} } "one block" }
            li { svg.swatch viewBox="0 0 24 12" aria-hidden="true" { path d="M12 0V12" stroke="var(--ink-2)" stroke-width="1.5" {} } "no difference" }
            li { svg.swatch viewBox="0 0 24 12" aria-hidden="true" { path d="M12 0V12" stroke="var(--ink)" stroke-width="1.5" stroke-dasharray="3 2" {} } "claimed" }
            li { svg.swatch viewBox="0 0 24 12" aria-hidden="true" { rect x="1" y="1" width="22" height="10" fill="var(--zone-equal)" {} } "too small to matter" }
            li { svg.swatch viewBox="0 0 24 12" aria-hidden="true" {
                rect x="1" y="1" width="22" height="10" fill="var(--zone-floor)" stroke="var(--zone-floor-edge)" stroke-dasharray="3 2" {}
            } "noise floor (A/A)" }
        }
    }
}

/// The meaning of the numbers, by name if all rows are of one claim.
fn sides(rows: &[&Row<'_>], kind: FindingKind) -> String {
    let finding = rows.iter().find_map(|row| row.finding);
    match (kind, finding) {
        (FindingKind::Ratio, Some(finding)) => words::one_line(&format!("{} ÷ {}", finding.of, finding.relative_to)),
        (FindingKind::Difference, Some(finding)) => {
            words::one_line(&format!("{} − {}", finding.of, finding.relative_to))
        }
        (FindingKind::Value, Some(finding)) => words::one_line(&finding.of),
        (FindingKind::Difference, None) => String::from("Left − right"),
        (FindingKind::Ratio | FindingKind::Value, None) => String::from("Left ÷ right"),
    }
}

/// Each row has its own confidence: it depends on the number of blocks.
fn caption(rows: &[&Row<'_>], sides: &str) -> String {
    let mut levels: Vec<f64> =
        rows.iter().map(|row| row.effect.confidence).filter(|&confidence| confidence > 0.0).collect();
    levels.sort_by(f64::total_cmp);
    match (levels.first(), levels.last()) {
        (Some(least), Some(most)) if words::confidence(*least) == words::confidence(*most) => {
            format!("{sides}, with its {} interval.", words::confidence(*most))
        }
        (Some(least), Some(most)) => format!(
            "{sides}, with its interval: {} to {}, depending on the number of blocks of the row.",
            words::confidence(*least),
            words::confidence(*most)
        ),
        _ => format!("{sides}."),
    }
}

fn says(rows: &[&Row<'_>], what: &str) -> String {
    /// Limit of the rows read to screen readers; the table has all.
    const DESCRIBED_MAX: usize = 6;
    let describe = |row: &&Row<'_>| format!("{}: {}", row.name, row.says());
    let described: Vec<String> = rows.iter().take(DESCRIBED_MAX).map(describe).collect();
    let more = if rows.len() > DESCRIBED_MAX {
        format!("; and {} more rows", rows.len() - DESCRIBED_MAX)
    } else {
        String::new()
    };
    format!("Interval plot of {what}. {}{more}.", words::one_line(&described.join("; ")))
}
