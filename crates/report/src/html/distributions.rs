//! Distributions of response times: quantile curves of the combinations, overlaid.
//!
//! The axis is that of HdrHistogram's plots: each step to the right is a tenth of the requests above. So the tail,
//! which a mean hides, takes most of the chart. The curve of a combination merges all its trials that count.

use std::collections::BTreeMap;

use breme_experiment::record::{Purpose, TrialRecord, WorkloadRecord};
use breme_expression::Unit;
use breme_judge::Levels;
use breme_stats::Histogram;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Counting, LegendEntry, Look, number};
use crate::distribution::decode;
use crate::figures::figure;
use crate::html::palette::Palette;
use crate::html::parts::Gallery;
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::words;
use breme_base::{grouped, plural};

/// Limit of the workloads with a chart.
const WORKLOADS_MAX: usize = 12;
/// Limit of the curves of all charts together.
const CURVES_MAX: usize = 240;
/// Number of curves shown initially.
const CURVES_SHOWN: usize = 6;
/// Points for each tenth of the requests above.
const POINTS_PER_DECADE: u32 = 16;
/// Limit of the axis: a further decade would need a hundred million requests.
const DECADES_MAX: f64 = 7.0;

/// The distributions of a run, decoded once.
pub(crate) struct Distributions<'a> {
    workloads: Vec<Workload<'a>>,
    /// Number of omitted workloads.
    left_out: usize,
}

pub(crate) struct Workload<'a> {
    pub(crate) name: &'a str,
    pub(crate) curves: Vec<Curve<'a>>,
    /// Number of omitted combinations.
    left_out: usize,
}

/// All requests of one combination.
pub(crate) struct Curve<'a> {
    pub(crate) levels: &'a Levels,
    pub(crate) histogram: Histogram,
    pub(crate) totals: Totals,
}

/// Sums over the trials of a combination.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) trials: u64,
    pub(crate) connections: u64,
    pub(crate) offered_rate: Option<f64>,
    pub(crate) rate: f64,
    /// Responses, warm-ups included.
    pub(crate) answered: u64,
    /// Responses as expected, warm-ups included.
    pub(crate) ok: u64,
    /// Failed requests and wrong responses, warm-ups included.
    pub(crate) errors: u64,
}

impl<'a> Distributions<'a> {
    pub(crate) fn from_run(run: &Run<'a>) -> Self {
        let names = workloads(run.trials);
        let curves_max = CURVES_MAX / names.len().clamp(1, WORKLOADS_MAX);
        let workload = |name: &&'a str| {
            let (curves, left_out) = curves(name, curves_max, run.trials);
            Workload { name, curves, left_out }
        };
        let workloads: Vec<Workload<'a>> = names.iter().take(WORKLOADS_MAX).map(workload).collect();
        Self { workloads, left_out: names.len().saturating_sub(WORKLOADS_MAX) }
    }

    /// The workloads with a distribution.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &Workload<'a>> {
        self.workloads.iter().filter(|workload| !workload.curves.is_empty())
    }

    pub(crate) fn section(&self, palette: &Palette, gallery: &mut Gallery) -> Option<Markup> {
        self.workloads().next()?;
        Some(html! {
            p.lead { "Response times of the requests of all trials that count, without warm-ups, each from when the request is due to the last byte of its response. Lower is faster; the slowest requests are at the right." }
            @for workload in self.workloads() {
                h3 { "Workload " code { (words::one_line(workload.name)) } }
                (gallery.figure(&chart(workload, palette)))
            }
            @if self.left_out > 0 { p.remark { "In the run's files only: " (plural(self.left_out as u64, "more workload")) "." } }
        })
    }
}

/// Foreground workloads first: the questions are about them.
fn workloads(trials: &[TrialRecord]) -> Vec<&str> {
    let mut names: BTreeMap<&str, bool> = BTreeMap::new();
    for (name, workload) in trials.iter().flat_map(|trial| &trial.workloads) {
        names.insert(name, workload.is_background);
    }
    let mut names: Vec<(&str, bool)> = names.into_iter().collect();
    names.sort_by_key(|(_, is_background)| *is_background);
    names.into_iter().map(|(name, _)| name).collect()
}

/// The curve of each combination, in the plan's order.
fn curves<'a>(workload: &str, curves_max: usize, trials: &'a [TrialRecord]) -> (Vec<Curve<'a>>, usize) {
    let mut curves: BTreeMap<(u32, &Levels), (Histogram, Totals)> = BTreeMap::new();
    let mut left_out = std::collections::BTreeSet::new();
    for trial in trials.iter().filter(|trial| trial.counts() && trial.purpose == Purpose::Block) {
        let Some(record) = trial.workloads.get(workload) else { continue };
        let key = (trial.combination, &trial.levels);
        if curves.len() >= curves_max && !curves.contains_key(&key) {
            left_out.insert(key);
            continue;
        }
        if let Some(histogram) = decode(&record.response.histogram) {
            let (all, totals) = curves.entry(key).or_default();
            all.merge(&histogram);
            totals.add(record);
        }
    }
    let curve = |((_, levels), (histogram, totals))| Curve { levels, histogram, totals };
    (curves.into_iter().map(curve).collect(), left_out.len())
}

impl Totals {
    fn add(&mut self, record: &WorkloadRecord) {
        self.trials += 1;
        self.connections = self.connections.max(record.connections);
        self.offered_rate = record.offered_rate.or(self.offered_rate);
        self.rate += record.achieved_rate;
        self.answered += record.answered;
        self.ok += record.ok;
        self.errors += record.failed();
    }

    /// The mean over the trials.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.rate / self.trials.max(1) as f64
    }

    /// As the measure `errors`.
    pub(crate) fn error_share(&self) -> f64 {
        self.errors as f64 / (self.ok + self.errors).max(1) as f64
    }
}

fn chart(workload: &Workload<'_>, palette: &Palette) -> Chart {
    let curves = &workload.curves;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let ends = curves.iter().flat_map(|curve| [curve.histogram.quantile(0.01), curve.histogram.max()]).map(seconds);
    let y = Axis::fit(ends, Counting::In(Unit::Seconds)).starting_at_zero();
    let shown = shown_first(curves.len());
    let names: Vec<String> = curves
        .iter()
        .map(|curve| words::short(&words::levels_or(curve.levels, "all trials"), words::NAME_CHARS_MAX))
        .collect();
    let looks: Vec<Look> = curves.iter().map(|curve| palette.look(curve.levels)).collect();
    let left_out = match workload.left_out {
        0 => String::new(),
        left_out => format!(" Not shown: {}.", plural(left_out as u64, "more combination")),
    };
    Chart {
        caption: format!("Response time of {} by percentile.{left_out}", words::one_line(workload.name)),
        says: says(workload.name, curves),
        height_px: 360,
        option: option(curves, &looks, &y, &shown),
        words: json!({ "x": "@quantile", "y": y.words(), "names": names }),
        legend: legend(&names, &looks, &shown),
        table: table(curves),
    }
}

/// Which curves are shown initially: a few, spread over all of them.
fn shown_first(curves: usize) -> Vec<bool> {
    let step = curves.div_ceil(CURVES_SHOWN).max(1);
    (0..curves).map(|index| curves <= CURVES_SHOWN || index % step == 0 || index + 1 == curves).collect()
}

fn legend(names: &[String], looks: &[Look], shown: &[bool]) -> Vec<LegendEntry> {
    if names.len() < 2 {
        return Vec::new();
    }
    let named = names.iter().zip(shown).enumerate();
    named.map(|(index, (name, &is_on))| LegendEntry::line(index, name.clone(), looks[index], is_on)).collect()
}

fn option(curves: &[Curve<'_>], looks: &[Look], y: &Axis, shown: &[bool]) -> Value {
    let decades = curves.iter().map(|curve| decades(&curve.histogram)).fold(1.0, f64::max);
    let ticks: Vec<Value> = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999, 0.999_999_9]
        .into_iter()
        .map(|quantile: f64| -(1.0 - quantile).log10())
        .filter(|place| *place <= decades + 1e-9)
        .map(number)
        .collect();
    let selected: serde_json::Map<String, Value> =
        shown.iter().enumerate().map(|(index, &shown)| (format!("line {index}"), json!(shown))).collect();
    let series = |(index, curve): (usize, &Curve<'_>)| {
        let look = looks[index];
        json!({
            "type": "line", "name": format!("line {index}"), "data": points(&curve.histogram, y), "symbol": "none", "z": 3,
            "itemStyle": { "color": look.colour() },
            "lineStyle": { "color": look.colour(), "width": 2, "type": look.line_type(), "opacity": look.opacity() },
        })
    };
    json!({
        "grid": { "left": 64, "right": 24, "top": 14, "bottom": 46 },
        "xAxis": {
            "type": "value", "min": 0, "max": number(decades), "name": "quantile", "nameLocation": "middle", "nameGap": 26,
            "axisLabel": { "formatter": "@quantile", "customValues": ticks, "hideOverlap": true },
            "axisTick": { "customValues": ticks }, "splitLine": { "show": false },
        },
        "yAxis": y.option(""),
        "tooltip": { "trigger": "axis", "formatter": "@axis" },
        "legend": { "show": false, "selected": selected },
        "series": curves.iter().enumerate().map(series).collect::<Vec<_>>(),
    })
}

/// The extent of the curve: a quantile beyond the last request is meaningless.
fn decades(histogram: &Histogram) -> f64 {
    (histogram.count() as f64).log10().clamp(0.5, DECADES_MAX)
}

fn points(histogram: &Histogram, y: &Axis) -> Vec<Value> {
    let decades = decades(histogram);
    let steps = (decades * f64::from(POINTS_PER_DECADE)).ceil() as u32;
    let low = (1..5_u32).map(|step| f64::from(step) / f64::from(5 * POINTS_PER_DECADE));
    let steps = (1..=steps).map(|step| decades * f64::from(step) / f64::from(steps));
    let places: Vec<f64> = std::iter::once(0.0).chain(low).chain(steps).collect();
    let quantiles: Vec<f64> = places.iter().map(|place| 1.0 - 10_f64.powf(-place)).collect();
    let times = histogram.quantiles(&quantiles);
    let point = |(&place, &nanos): (&f64, &u64)| json!([number(place), y.place(nanos.max(1) as f64 / 1e9)]);
    places.iter().zip(&times).map(point).collect()
}

const TABLE_QUANTILES: [(f64, &str); 5] =
    [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (1.0, "longest")];

fn table(curves: &[Curve<'_>]) -> Table {
    let names: Vec<String> = ["at".to_owned(), "#responses".to_owned(), "#mean".to_owned()]
        .into_iter()
        .chain(TABLE_QUANTILES.iter().map(|(_, name)| format!("#{name}")))
        .collect();
    let mut table = Table::new(names);
    for curve in curves {
        let mut row = vec![
            Cell::from(words::levels_or(curve.levels, "all trials")),
            grouped(curve.histogram.count()).into(),
            figure(curve.histogram.mean() / 1e9, Unit::Seconds).into(),
        ];
        row.extend(TABLE_QUANTILES.iter().map(|(quantile, _)| Cell::from(at(&curve.histogram, *quantile))));
        table.push(row);
    }
    table
}

pub(crate) fn at(histogram: &Histogram, quantile: f64) -> String {
    figure(histogram.quantile(quantile) as f64 / 1e9, Unit::Seconds)
}

fn says(workload: &str, curves: &[Curve<'_>]) -> String {
    const DESCRIBED_MAX: usize = 4;
    let describe = |curve: &Curve<'_>| {
        let name = words::levels_or(curve.levels, "all trials");
        format!("{name}: median {}, 99 % {}", at(&curve.histogram, 0.5), at(&curve.histogram, 0.99))
    };
    let described: Vec<String> = curves.iter().take(DESCRIBED_MAX).map(describe).collect();
    words::one_line(&format!(
        "Percentile curves of the response time of {workload}, {}. {}.",
        plural(curves.len() as u64, "combination"),
        described.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_errors_is_that_of_the_measure() {
        // 100 responses, of which 10 were wrong; 10 requests had no response.
        let errors = BTreeMap::from([("status".to_owned(), 10), ("timeout".to_owned(), 10)]);
        let mut totals = Totals::default();
        totals.add(&WorkloadRecord { answered: 100, ok: 90, errors, ..WorkloadRecord::default() });
        assert!((totals.error_share() - 20.0 / 110.0).abs() < 1e-12);
    }
}
