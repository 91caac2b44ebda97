//! A comparison of runs as a page: the verdict, each gated row over the runs with its margin and trend, all rows, the
//! runs.

use breme_base::plural;
use breme_expression::Unit;
use breme_judge::judgement::Scale;
use breme_judge::{
    GateVerdict, Gated, History, HistoryPoint, HistoryRow, RunComparison, RunRole, RunRow, RunVerdict, TrendVerdict,
};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::page::{Section, all, colour_choice, document, foot, head};
use super::parts::{Gallery, badge, prose, table};
use crate::chart::{Axis, Chart, Counting, upright_whiskers};
use crate::figures::{estimate, figure_or_dash, range};
use crate::history::{changes, name, role, run_cells, runs_table, started, trend_words};
use crate::table::{Cell, Table};
use crate::words::{self, VerdictWords};

/// Limit of the charts, each of a gated row.
const CHARTS_MAX: usize = 40;
/// Number of charts that are open initially; so are those against which something speaks.
const OPEN_MAX: usize = 6;
/// Limit of the rows in the table of all measures.
const ROWS_MAX: usize = 300;
const CHART_PX: u32 = 300;

/// Page of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct HistoryPage<'a> {
    pub comparison: &'a RunComparison,
    /// At least the two compared runs.
    pub history: &'a History,
}

impl HistoryPage<'_> {
    #[must_use]
    pub fn html(&self) -> String {
        let mut gallery = Gallery::default();
        let sections: Vec<Section> = [
            ("history", "Gated measures", self.charts(&mut gallery)),
            ("comparison", "All measures", self.all_measures()),
            ("runs", "Runs", Some(self.runs())),
        ]
        .into_iter()
        .filter_map(|(id, heading, body)| body.map(|body| Section { id, heading, body }))
        .collect();
        let version = env!("CARGO_PKG_VERSION");
        let data = json!({ "charts": gallery.into_json(), "time": null });
        let head = head(&format!("{} · breme compare", self.title()), version, "");
        let main = html! { (self.answer()) (all(&sections)) };
        let links = sections.iter().map(Section::link);
        document(&head, &self.banner(), ("answer", "Answer"), links, &main, &foot(version, &data)).into_string()
    }

    fn title(&self) -> String {
        let [before, after] =
            [&self.comparison.before, &self.comparison.after].map(|run| words::short(run, words::NAME_CHARS_MAX));
        format!("{before} → {after}")
    }

    fn banner(&self) -> Markup {
        let ends = self.history.runs.first().zip(self.history.runs.last());
        html! {
            header.banner {
                p.run {
                    strong { "breme compare" } " "
                    span { (plural(self.history.runs.len() as u64, "run")) }
                    @if let Some((first, last)) = ends {
                        " · " time { (started(first.started_unix_ms)) } " to " time { (started(last.started_unix_ms)) } " UTC"
                    }
                }
                (colour_choice())
            }
        }
    }

    fn answer(&self) -> Markup {
        let RunComparison { sentence, gate, verdict, warnings, .. } = self.comparison;
        let trends = |wanted: TrendVerdict| {
            self.history.rows.iter().filter(|row| row.trend.is_some_and(|trend| trend.verdict == wanted)).count()
        };
        let trends = [
            (trends(TrendVerdict::GettingWorse), "getting worse"),
            (trends(TrendVerdict::GettingBetter), "getting better"),
        ];
        html! {
            section.answer id="answer" aria-labelledby="title" {
                h1 id="title" { (self.title()) }
                p.the-answer { (prose(sentence)) }
                ul.facts {
                    li { (badge(&gate_words(*verdict))) }
                    li { (plural(gate.rows as u64, "gated row")) }
                    @for (count, words) in trends { @if count > 0 { li { (count) " " (words) } } }
                }
                p.grounds { (prose(&gate.sentence)) }
                @if !warnings.is_empty() {
                    aside.warnings aria-label="Differences between the two runs" { @for warning in warnings { p { (prose(warning)) } } }
                }
                noscript { p.remark { "The charts need the script in this file. Every number is in the tables too." } }
            }
        }
    }

    fn charts(&self, gallery: &mut Gallery) -> Option<Markup> {
        let gated = self.comparison.rows.iter();
        let gated: Vec<Compared<'_>> = gated.filter_map(|row| Compared::new(row, self.history)).collect();
        (!gated.is_empty()).then_some(())?;
        Some(html! {
            p.lead {
                "The oldest run is on the left. Diamond: baseline; large point: the judged run, in the colour of its verdict. \
                The gate judges the interval of the ratio of these two runs; the trend decides nothing."
            }
            @for (index, compared) in gated.iter().take(CHARTS_MAX).enumerate() { (self.measure(index, compared, gallery)) }
            @if gated.len() > CHARTS_MAX { p.remark { "Charts of the first " (CHARTS_MAX) " of " (gated.len()) " rows; all are in the JSON." } }
        })
    }

    fn measure(&self, index: usize, compared: &Compared<'_>, gallery: &mut Gallery) -> Markup {
        let Compared { gated, row, .. } = compared;
        let (verdict, trend) = (gate_words(gated.verdict), trend_words(row));
        let is_open = index < OPEN_MAX || gated.verdict != GateVerdict::NotWorse || trend.class == "refuted";
        let better = if row.less_is_better { " less is better" } else { " more is better" };
        html! {
            details.measure open[is_open] {
                summary {
                    h3 {
                        code { (words::one_line(&row.measure)) }
                        @if !row.levels.is_empty() { " at " (words::levels(&row.levels)) }
                        span.better { (better) }
                    }
                }
                p.verdict { (badge(&verdict)) @if row.trend.is_some() { " " (badge(&trend)) } }
                p { (prose(&row.sentence)) }
                @if let Some(chart) = chart(self.history, compared) { (gallery.figure(&chart)) }
            }
        }
    }

    fn all_measures(&self) -> Option<Markup> {
        let rows = &self.comparison.rows;
        (!rows.is_empty()).then_some(())?;
        let mut all =
            Table::new(["verdict", "measure", "at", "#baseline", "#judged run", "#change", "#allowed", "gated"]);
        for row in rows {
            let unit = Unit::from_symbol(&row.unit);
            let VerdictWords { sign, class, words } =
                row.gated.as_ref().map_or_else(|| difference_words(row.verdict), |gated| gate_words(gated.verdict));
            all.push([
                Cell::classed(format!("{sign} {words}"), class),
                Cell::from(words::one_line(&row.measure)),
                words::levels_or(&row.levels, "all").into(),
                figure_or_dash(row.before, unit).into(),
                figure_or_dash(row.after, unit).into(),
                change(row, unit).into(),
                row.gated.as_ref().map_or("–", |gated| gated.allowed.as_str()).into(),
                if row.gated.is_some() { "yes" } else { "no" }.into(),
            ]);
        }
        Some(html! {
            p.lead { "Medians over the blocks. Change: judged run ÷ baseline, or the difference of shares, with its interval." }
            (table("All measures", &all.limited(ROWS_MAX), None))
        })
    }

    fn runs(&self) -> Markup {
        let every: Vec<usize> = (0..self.history.runs.len()).collect();
        let changes = changes(self.history);
        html! {
            (table("Runs, oldest first", &runs_table(self.history, &every), None))
            @if !changes.is_empty() {
                h3 { "Changes between the runs" }
                ul { @for change in &changes { li { (prose(change)) } } }
            }
        }
    }
}

/// A gated row and its history.
struct Compared<'a> {
    gated: &'a Gated,
    scale: Scale,
    row: &'a HistoryRow,
}

impl<'a> Compared<'a> {
    fn new(row: &'a RunRow, history: &'a History) -> Option<Self> {
        Some(Self { gated: row.gated.as_ref()?, scale: row.scale, row: history.row_of(row)? })
    }

    /// What the margin allows.
    fn margin(&self) -> String {
        let sign = if self.scale == Scale::Ratio { '÷' } else { '−' };
        format!("judged run {sign} baseline {}", self.gated.allowed)
    }
}

fn gate_words(verdict: GateVerdict) -> VerdictWords {
    let (sign, class, words) = match verdict {
        GateVerdict::NotWorse => ("✓", "supported", "not worse"),
        GateVerdict::Worse => ("✗", "refuted", "worse"),
        GateVerdict::NoVerdict => ("?", "undecided", "no verdict"),
    };
    VerdictWords { sign, class, words: words.to_owned() }
}

fn difference_words(verdict: RunVerdict) -> VerdictWords {
    let (sign, class, words) = match verdict {
        RunVerdict::Worse => ("✗", "refuted", "worse"),
        RunVerdict::Better => ("✓", "supported", "better"),
        RunVerdict::Different => ("≠", "different", "different"),
        RunVerdict::PracticallyEqual => ("≈", "equal", "practically equal"),
        RunVerdict::Undecided => ("?", "undecided", "undecided"),
    };
    VerdictWords { sign, class, words: words.to_owned() }
}

fn change(row: &RunRow, unit: Unit) -> String {
    let [Some(center), Some(low), Some(high)] = [row.center, row.low, row.high] else { return String::from("–") };
    let [center, low, high] = [center, low, high].map(|value| words::scaled(value, row.scale, unit));
    format!("{center} ({low} – {high})")
}

/// A row over the runs; none if no run has a value.
fn chart(history: &History, compared: &Compared<'_>) -> Option<Chart> {
    let Compared { gated, row, .. } = *compared;
    row.points.iter().find(|point| point.value.is_some())?;
    let unit = Unit::from_symbol(&row.unit);
    let line: Vec<f64> =
        row.trend.iter().flat_map(|trend| (0..row.points.len()).map(|run| trend.value_at(run))).collect();
    let ends = row.points.iter().flat_map(|point| [point.value, point.low, point.high]);
    let values = ends.chain([row.baseline, row.limit]).flatten().chain(line.iter().copied());
    let axis = Axis::fit(values, Counting::In(unit));
    let marks = Marks { history, row, gated, unit, axis: &axis };
    Some(Chart {
        caption: format!(
            "Median over the blocks of each run (points) and its interval (bars). Line: the baseline, {}; band: its margin, {}.{}",
            figure_or_dash(row.baseline, unit),
            compared.margin(),
            if line.is_empty() { "" } else { " Dashes: the trend." }
        ),
        says: marks.says(),
        height_px: CHART_PX,
        option: marks.option(&line),
        words: json!({ "y": axis.words() }),
        legend: Vec::new(),
        table: marks.table(),
    })
}

/// What is drawn of a row.
struct Marks<'a> {
    history: &'a History,
    row: &'a HistoryRow,
    gated: &'a Gated,
    unit: Unit,
    axis: &'a Axis,
}

impl Marks<'_> {
    fn option(&self, line: &[f64]) -> Value {
        let runs = self.row.points.len() as f64;
        let dashes = line.iter().enumerate().map(|(run, &value)| json!([run + 1, self.axis.place(value)]));
        let whiskers: Vec<Value> = (0..self.row.points.len()).filter_map(|run| self.whisker(run)).collect();
        let points: Vec<Value> = (0..self.row.points.len()).map(|run| self.point(run)).collect();
        json!({
            "grid": { "left": 68, "right": 16, "top": 14, "bottom": 46 },
            "xAxis": {
                "type": "value", "min": 0.5, "max": runs + 0.5, "minInterval": 1, "name": "run", "nameLocation": "middle",
                "nameGap": 26, "splitLine": { "show": false },
                "axisLabel": { "showMinLabel": false, "showMaxLabel": false, "hideOverlap": true },
            },
            "yAxis": self.axis.option(""),
            "tooltip": { "trigger": "item", "formatter": "@name" },
            "series": [
                self.margin(runs),
                {
                    "type": "line", "name": "trend", "data": dashes.collect::<Vec<_>>(), "symbol": "none", "silent": true, "z": 2,
                    "lineStyle": { "color": "var(--n0)", "width": 2, "type": [7, 4] }, "itemStyle": { "color": "var(--n0)" },
                },
                upright_whiskers("interval", &whiskers),
                {
                    "type": "line", "name": "runs", "data": points, "z": 4, "showAllSymbol": true,
                    "lineStyle": { "color": "var(--line)", "width": 1.5 },
                },
            ],
        })
    }

    /// The baseline and its margin, over the whole width.
    fn margin(&self, runs: f64) -> Value {
        let [baseline, limit] =
            [self.row.baseline, self.row.limit].map(|value| value.map(|value| self.axis.place(value)));
        let area = baseline.as_ref().zip(limit.as_ref()).filter(|(one, other)| !one.is_null() && !other.is_null());
        let area = area.map(|(one, other)| json!([{ "coord": [0.5, one] }, { "coord": [runs + 0.5, other] }]));
        let edge = json!({ "color": "var(--ink-2)", "type": [2, 3], "width": 1 });
        let line = |place: Option<Value>, style: Value| {
            place.filter(|place| !place.is_null()).map(|place| json!({ "yAxis": place, "lineStyle": style }))
        };
        let solid = json!({ "color": "var(--ink-2)", "type": "solid", "width": 1.5 });
        let lines: Vec<Value> = [line(baseline, solid), line(limit, edge)].into_iter().flatten().collect();
        json!({
            "type": "scatter", "name": "margin", "data": [], "silent": true, "z": 1,
            "markArea": { "silent": true, "itemStyle": { "color": "var(--zone-equal)" }, "data": area.into_iter().collect::<Vec<_>>() },
            "markLine": { "silent": true, "symbol": "none", "label": { "show": false }, "data": lines },
        })
    }

    fn whisker(&self, run: usize) -> Option<Value> {
        let point = self.row.points[run];
        let ends = [self.axis.place(point.low?), json!(run + 1), self.axis.place(point.high?)];
        (!ends.iter().any(Value::is_null)).then(|| json!({ "value": ends, "itemStyle": { "color": self.colour(run) } }))
    }

    fn point(&self, run: usize) -> Value {
        let value = self.row.points[run].value.map_or(Value::Null, |value| self.axis.place(value));
        let (symbol, size_px) = match self.history.runs[run].role {
            RunRole::Baseline => ("diamond", 14),
            RunRole::Judged => ("circle", 13),
            RunRole::Shown => ("circle", 8),
        };
        json!({
            "name": self.label(run), "value": [run + 1, value], "symbol": symbol, "symbolSize": size_px,
            "itemStyle": { "color": self.colour(run) },
        })
    }

    fn colour(&self, run: usize) -> String {
        match self.history.runs[run].role {
            RunRole::Baseline => String::from("var(--ink)"),
            RunRole::Judged => format!("var(--{})", gate_words(self.gated.verdict).class),
            RunRole::Shown => String::from("var(--s0)"),
        }
    }

    /// `run 3, main-3, 2026-03-01 10:02, main 1a2b3c4d5e: 1.02 ms (0.99 – 1.05 ms)`.
    fn label(&self, run: usize) -> String {
        let [number, name, started, revision] = run_cells(self.history, run);
        format!("run {number}, {name}, {started} UTC, {revision}: {}", self.estimate(run))
    }

    fn estimate(&self, run: usize) -> String {
        let HistoryPoint { value, low, high, .. } = self.row.points[run];
        estimate(value, low, high, self.unit)
    }

    fn says(&self) -> String {
        let of = |wanted: RunRole| {
            let place = self.history.runs.iter().position(|run| run.role == wanted)?;
            Some(self.estimate(place))
        };
        let [baseline, judged] =
            [RunRole::Baseline, RunRole::Judged].map(|role| of(role).unwrap_or_else(|| String::from("–")));
        words::one_line(&format!(
            "{} over {}: {baseline} in the baseline, {judged} in the judged run. {}",
            name(self.row),
            plural(self.row.points.len() as u64, "run"),
            self.row.sentence
        ))
    }

    fn table(&self) -> Table {
        let mut table = Table::new(["#run", "name", "started (UTC)", "commit", "#median", "#interval", "#blocks", ""]);
        for (run, point) in self.row.points.iter().enumerate() {
            let values = [
                figure_or_dash(point.value, self.unit),
                range(point.low, point.high, self.unit).unwrap_or_else(|| String::from("–")),
                point.blocks.to_string(),
                role(&self.history.runs[run]).to_owned(),
            ];
            table.push(run_cells(self.history, run).into_iter().chain(values));
        }
        table
    }
}
