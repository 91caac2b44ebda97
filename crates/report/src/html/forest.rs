//! Effects as a forest plot: each with its interval and its blocks, together with "no difference", the claim, the zone
//! of irrelevant differences, and the noise floor.

use breme_base::plural;
use breme_expression::Unit;
use breme_judge::judgement::{Case, Effect, Finding, FindingKind, Scale};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Counting, number, rows_axis, whiskers};
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
        match (finding.kind, self.effect.scale, finding.is_turned) {
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

    const fn has_data(&self) -> bool {
        self.effect.center.is_some()
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
        words::of_kind(self.kind(), value, self.unit)
    }

    fn says(&self) -> String {
        let numbers = words::case_numbers(self.finding, self.effect, self.unit);
        let claimed = self.finding.map(|finding| format!("; claimed: {}", finding.claimed)).unwrap_or_default();
        format!("{numbers}, {}{claimed}", self.verdict.words)
    }
}

/// The plot of the effects of the same kind as the first one; none if it would be empty.
pub(crate) fn chart(rows: &[Row<'_>], what: &str) -> Option<Chart> {
    // A row without data has no finding, and so no kind of its own.
    let first = rows.iter().find(|row| row.has_data())?;
    if rows
        .iter()
        .all(|row| row.center().is_none_or(|center| center == 0.0) && row.blocks().all(|(_, value)| value == 0.0))
    {
        return None;
    }
    let kind = first.kind();
    let is_alike = |row: &&Row<'_>| {
        !row.has_data() || row.kind() == kind && (kind == FindingKind::Ratio || row.unit == first.unit)
    };
    let (alike, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) = rows.iter().partition(is_alike);
    let left_out = left_out(kind, others.len(), alike.len().saturating_sub(ROWS_MAX));
    let rows = &alike[..alike.len().min(ROWS_MAX)];
    let with_data = || rows.iter().filter(|row| row.has_data());
    let axis = Axis::fit(with_data().flat_map(|row| on_axis(row, kind)), counting(kind, first.unit));
    Some(Chart {
        caption: format!("{}{left_out}", caption(rows, &sides(rows, kind))),
        says: format!("{}{left_out}", says(rows, what)),
        height_px: AROUND_PX + ROW_PX * rows.len() as u32,
        option: option(rows, &axis, kind),
        words: json!({
            "rows": rows.iter().map(|row| words::short(&row.name, words::NAME_CHARS_MAX)).collect::<Vec<_>>(),
            "x": axis.words(),
        }),
        legend: Vec::new(),
        table: Table::default(),
    })
}

/// The rows that are in the table only.
fn left_out(kind: FindingKind, others: usize, beyond: usize) -> String {
    let why = match kind {
        FindingKind::Ratio => " with a value of 0 or less",
        FindingKind::Difference | FindingKind::Value => " compared on another scale",
    };
    let of = |count: usize, noun: &str, why: &str| {
        let are = if count == 1 { "is" } else { "are" };
        let text = format!(" {}{why} {are} in the table only.", plural(count as u64, noun));
        if count > 0 { text } else { String::new() }
    };
    format!("{}{}", of(others, "row", why), of(beyond, "more row", ""))
}

const fn counting(kind: FindingKind, unit: Unit) -> Counting {
    match kind {
        FindingKind::Ratio => Counting::Ratio,
        FindingKind::Difference => Counting::Difference(unit),
        FindingKind::Value => Counting::In(unit),
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
fn on_axis(row: &Row<'_>, kind: FindingKind) -> Vec<f64> {
    let mut values: Vec<f64> = neutral(kind).into_iter().chain(row.claimed()).collect();
    values.extend(row.ends().into_iter().flatten());
    values.extend(row.center());
    values.extend(row.blocks().map(|(_, value)| value));
    for zone in [equal_zone(row.effect), floor_zone(row.effect)].into_iter().flatten() {
        let (low, high) = row.zone(zone);
        values.extend([low, high]);
    }
    values.retain(|&value| value.is_finite() && (kind != FindingKind::Ratio || value > 0.0));
    values
}

fn block_effects(effect: &Effect) -> impl Iterator<Item = (u32, f64)> + '_ {
    effect.blocks.iter().map(|pair| (pair.block, effect.scale.compare(pair.left, pair.right)))
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
        "series": [zones(rows, axis, kind), blocks(rows, axis), whiskers("interval", &intervals(rows, axis)), centers(rows, axis)],
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
fn zones(rows: &[&Row<'_>], axis: &Axis, kind: FindingKind) -> Value {
    let mut areas = Vec::new();
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.has_data()) {
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
    if let Some(neutral) = neutral(kind) {
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
        let level = row.effect.confidence;
        let of = if level > 0.0 { format!("; {} interval", words::confidence(level)) } else { String::new() };
        let name = format!("{}{of}", row.says());
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
        format!("; and {}", plural((rows.len() - DESCRIBED_MAX) as u64, "more row"))
    } else {
        String::new()
    };
    format!("Interval plot of {what}. {}{more}.", words::one_line(&described.join("; ")))
}

#[cfg(test)]
mod tests {
    use breme_judge::judgement::{BlockPair, Verdict};

    use super::*;

    fn effect(scale: Scale, pairs: &[(f64, f64)], center: Option<f64>) -> Effect {
        let block = |(&(left, right), block): (&(f64, f64), u32)| BlockPair { block, left, right };
        let blocks = pairs.iter().zip(1..).map(block).collect();
        Effect { scale, blocks, center, low: center, high: center, confidence: 0.95, ..Effect::default() }
    }

    fn value(center: f64, bound: f64, is_turned: bool) -> Finding {
        Finding { kind: FindingKind::Value, center, low: center, high: center, bound, is_turned, ..Finding::default() }
    }

    fn rows<'a>(effects: &'a [&Effect]) -> Vec<Row<'a>> {
        let row = |effect: &&'a Effect| {
            Row::from_effect(String::from("row"), words::pair_verdict(Verdict::Supported), effect, Unit::Plain)
        };
        effects.iter().map(row).collect()
    }

    fn no_difference(chart: &Chart) -> Vec<Value> {
        let lines = chart.option["series"][0]["markLine"]["data"].as_array().unwrap();
        lines.iter().filter(|line| line["lineStyle"].is_null()).map(|line| line["xAxis"].clone()).collect()
    }

    #[test]
    fn a_bound_on_the_left_is_shown_right_if_a_block_is_equal_to_it() {
        let center = 48_f64.cbrt();
        let effect = effect(Scale::Ratio, &[(2.0, 2.0), (2.0, 4.0), (2.0, 6.0)], Some(2.0 / center));
        let case = Case { effect, finding: Some(value(center, 2.0, true)), ..Case::default() };
        let row = Row::from_case(String::new(), &case, Unit::Plain);
        assert!((row.center().unwrap() - center).abs() < 1e-9);
        assert_eq!(row.blocks().map(|(_, value)| value).collect::<Vec<_>>(), [2.0, 4.0, 6.0]);
    }

    #[test]
    fn a_row_without_data_draws_nothing() {
        let known = effect(Scale::Ratio, &[(400.0, 500.0), (410.0, 500.0)], Some(0.81));
        let (nothing, floor) = (Effect { equal_within: 0.02, ..Effect::default() }, Some(9.0));
        let known = Case { effect: known, finding: Some(value(405.0, 500.0, false)), ..Case::default() };
        let nothing = Case { effect: Effect { floor, ..nothing }, ..Case::default() };
        let row = |case| Row::from_case(String::from("row"), case, Unit::Plain);
        let chart = chart(&[row(&nothing), row(&known)], "x").unwrap();
        assert_eq!(no_difference(&chart), Vec::<Value>::new(), "a value has no such line");
        assert!(chart.option["xAxis"]["min"].as_f64().unwrap() >= 390.0, "{}", chart.option["xAxis"]);
        assert_eq!(chart.option["series"][0]["markArea"]["data"], json!([]), "{}", chart.option["series"][0]);
        assert_eq!(chart.words["rows"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn the_caption_says_which_rows_are_in_the_table_only() {
        let ratio = effect(Scale::Ratio, &[(1.0, 2.0)], Some(0.5));
        let difference = effect(Scale::Difference, &[(0.0, 2.0)], Some(-2.0));
        let chart_of = |effects: &[&Effect]| chart(&rows(effects), "x").unwrap();
        let whole = chart_of(&[&ratio, &ratio]);
        assert!(!whole.caption.contains("table only") && no_difference(&whole) == [json!(0)], "{}", whole.caption);
        let some = chart_of(&[&ratio, &difference]);
        for text in [&some.caption, &some.says] {
            assert!(text.ends_with(" 1 row with a value of 0 or less is in the table only."), "{text}");
        }
        let many = chart_of(&vec![&ratio; ROWS_MAX + 2]);
        assert!(many.caption.ends_with(" 2 more rows are in the table only."), "{}", many.caption);
    }

    #[test]
    fn a_difference_of_shares_is_in_percentage_points() {
        let of_shares = effect(Scale::Difference, &[(0.0, 0.005)], Some(-0.005));
        let row = Row::from_effect(String::new(), words::pair_verdict(Verdict::Supported), &of_shares, Unit::Share);
        let chart = chart(&[row], "x").unwrap();
        assert_eq!(chart.words["x"], "@lin:points");
        assert!(chart.says.contains("−0.50 pp"), "{}", chart.says);
    }
}
