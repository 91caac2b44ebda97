//! Each trial over time: rate, errors, response times, and the instruments; one trial at a time, selected by the
//! reader.
//!
//! The script draws these from plain columns of numbers. The number of points in a page is limited (`POINTS_MAX`,
//! `VALUES_MAX`): in a run of many trials neighbouring rows are merged, rates by their mean, tails by their maximum.

use breme_experiment::record::{FaultRecord, SeriesRow, TrialRecord};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::chart::number;
use crate::html::palette::Palette;
use crate::instruments::{Instrument, InstrumentLine, SOURCES_MAX};
use crate::run::Run;
use crate::words;

/// Limit of the trials to select from.
const TRIALS_MAX: usize = 1_000;
/// Limit of the rows of time series in the page.
const POINTS_MAX: usize = 40_000;
/// Limit of the instruments' values in the page.
const VALUES_MAX: usize = 200_000;
/// Limit of the instruments' lines in the page; beyond it, only some of the trials have theirs.
const LINES_MAX: usize = 100_000;

/// Limit of the factor by which rows are merged to keep the page small: with it hardly any is left.
const COARSER_MAX: usize = 1 << 20;

pub(crate) fn section(run: &Run<'_>) -> Option<Markup> {
    let trials = shown(run);
    (!trials.is_empty()).then(|| body(run, &trials))
}

/// The data for the script, as fine as `room_bytes` allows.
pub(crate) fn data(run: &Run<'_>, palette: &Palette, room_bytes: usize) -> Value {
    let trials = shown(run);
    if trials.is_empty() {
        return Value::Null;
    }
    let mut coarser = 1;
    loop {
        let columns = columns(run, palette, &trials, coarser);
        let bytes = columns.to_string().len();
        if bytes <= room_bytes || coarser >= COARSER_MAX {
            return columns;
        }
        coarser = (bytes.div_ceil(room_bytes.max(1)).next_power_of_two()).max(coarser * 2).min(COARSER_MAX);
    }
}

fn shown<'a>(run: &Run<'a>) -> Vec<&'a TrialRecord> {
    run.trials.iter().filter(|trial| has_series(run, trial)).take(TRIALS_MAX).collect()
}

fn has_series(run: &Run<'_>, trial: &TrialRecord) -> bool {
    trial.workloads.values().any(|workload| !workload.series.is_empty()) || run.instruments.saw(trial.number)
}

fn body(run: &Run<'_>, trials: &[&TrialRecord]) -> Markup {
    html! {
        p.lead { "One trial at a time, with an instrument beside its load." (without_series(trials)) }
        div.chooser {
            label { "Trial " select id="time-trial" { @for (index, trial) in trials.iter().enumerate() { option value=(index) { (name(trial)) } } } }
            label { "Instrument " select id="time-instrument" {} }
            span.steps {
                button type="button" id="time-previous" { "Previous" }
                button type="button" id="time-next" { "Next" }
            }
        }
        figure.chart {
            div.plot #time-plot role="img" aria-label="Rate, response time and instrument over the time of a trial" style="height:560px" {}
            ul.key #time-key {}
            figcaption #time-caption { "Rate and errors; median (line) and 99th percentile (dashed) of the response time; the instrument. Shaded: warm-up, not used. Vertical lines: faults." }
            details.data #time-data { summary { "The same as a table" } div.scroll role="region" aria-label="The trial over time" tabindex="0" {} }
        }
        @if run.instruments.is_truncated() { p.remark { "Only the first " (SOURCES_MAX) " processes are shown; all are in instruments.csv." } }
    }
}

/// Why the upper panels of some trials are empty.
fn without_series(trials: &[&TrialRecord]) -> String {
    let has_none = |trial: &&&TrialRecord| trial.workloads.values().all(|workload| workload.series.is_empty());
    match trials.iter().filter(has_none).count() {
        0 => String::new(),
        count if count == trials.len() => {
            String::from(" Only the instruments are shown: the load generators report no series of rates and times.")
        }
        count => format!(" {} without a series of rates and times.", breme_base::plural(count as u64, "trial")),
    }
}

fn name(trial: &TrialRecord) -> String {
    let aa = if trial.replicate > 0 { ", A/A" } else { "" };
    let purpose = words::purpose(&trial.purpose);
    let place = if purpose == "block" { format!("block {}", trial.block) } else { purpose.to_owned() };
    let state = match words::trial_state(trial) {
        "counts" => String::new(),
        state => format!(" – {state}"),
    };
    let levels = if trial.levels.is_empty() { String::new() } else { format!(": {}", words::levels(&trial.levels)) };
    format!("{} · {place}{aa}{}{state}", trial.number, words::short(&levels, 100))
}

fn columns(run: &Run<'_>, palette: &Palette, trials: &[&TrialRecord], coarser: usize) -> Value {
    let rows: usize =
        trials.iter().flat_map(|trial| trial.workloads.values()).map(|workload| workload.series.len()).sum();
    let rows_pooled = rows.div_ceil(POINTS_MAX).max(1) * coarser;
    let bins_pooled = run.instruments.point_count().div_ceil(VALUES_MAX).max(1) * coarser;
    let instruments: Vec<Value> = Instrument::ALL
        .iter()
        .map(|instrument| json!({ "name": instrument.name(), "unit": instrument.unit() }))
        .collect();
    let watched_every = run.instruments.line_count().div_ceil(LINES_MAX).max(1) * coarser;
    let mut sources = Vec::new();
    let trial = |(index, trial): (usize, &&TrialRecord)| {
        let mut times = Vec::new();
        let workloads: Vec<Value> = trial
            .workloads
            .iter()
            .map(|(name, workload)| {
                let mut value = series(&workload.series, rows_pooled, &mut times);
                value["name"] = json!(words::short(name, words::NAME_CHARS_MAX));
                value["from"] = number(workload.steady.from_s);
                value
            })
            .collect();
        let seen =
            if index % watched_every == 0 { run.instruments.lines(trial.number, bins_pooled) } else { Vec::new() };
        let lines: Vec<Value> = seen.iter().map(|seen| line(seen, &mut sources, &mut times)).collect();
        json!({ "colour": palette.line(&trial.levels).colour(), "length": number(trial.length_s), "times": times, "workloads": workloads, "lines": lines, "faults": trial.faults.iter().map(fault).collect::<Vec<_>>() })
    };
    let trials: Vec<Value> = trials.iter().enumerate().map(trial).collect();
    json!({ "instruments": instruments, "sources": sources, "trials": trials })
}

/// The time of a fault and its text.
fn fault(fault: &FaultRecord) -> Value {
    json!([coarse_time(fault.at_s), words::short(&fault.to_string(), words::NAME_CHARS_MAX)])
}

/// Rounded to the millisecond.
fn coarse_time(seconds: f64) -> Value {
    number((seconds * 1e3).round() / 1e3)
}

/// Columns: the middle of each interval, rate, errors, median, 99 %; times in µs, as integers.
fn series(rows: &[SeriesRow], pooled: usize, times: &mut Vec<Vec<Value>>) -> Value {
    let pools: Vec<SeriesRow> = rows.chunks(pooled).filter_map(pool).collect();
    let column = |of: &dyn Fn(&SeriesRow) -> f64| -> Vec<Value> { pools.iter().map(|row| coarse(of(row))).collect() };
    let errors = if pools.iter().all(|row| row.error_rate == 0.0) { Vec::new() } else { column(&|row| row.error_rate) };
    json!({
        "t": shared(column(&|row| row.start_s + row.length_s / 2.0), times),
        "rate": column(&|row| row.rate),
        "errors": errors,
        "p50": column(&|row| row.response_p50_ns as f64 / 1e3),
        "p99": column(&|row| row.response_p99_ns as f64 / 1e3),
    })
}

fn pool(rows: &[SeriesRow]) -> Option<SeriesRow> {
    let (first, length_s) = (rows.first()?, rows.iter().map(|row| row.length_s).sum::<f64>());
    let mean = |of: &dyn Fn(&SeriesRow) -> f64| {
        rows.iter().map(|row| of(row) * row.length_s).sum::<f64>() / length_s.max(1e-9)
    };
    Some(SeriesRow {
        start_s: first.start_s,
        length_s,
        rate: mean(&|row| row.rate),
        error_rate: mean(&|row| row.error_rate),
        response_p50_ns: mean(&|row| row.response_p50_ns as f64) as u64,
        response_p99_ns: rows.iter().map(|row| row.response_p99_ns).max()?,
    })
}

/// An array, since there are many: instrument, source, column of times, values.
fn line(line: &InstrumentLine<'_>, sources: &mut Vec<String>, times: &mut Vec<Vec<Value>>) -> Value {
    let of = words::short(line.of, words::NAME_CHARS_MAX);
    let instrument = Instrument::ALL.iter().position(|instrument| *instrument == line.instrument);
    let (t, v): (Vec<Value>, Vec<Value>) = line.points.iter().map(|&(t, v)| (coarse(t), coarse(v))).unzip();
    json!([instrument, shared(of, sources), shared(t, times), v])
}

/// The index of a repeated value: names, and the instants at which all instruments of a trial were read.
fn shared<T: PartialEq>(one: T, known: &mut Vec<T>) -> usize {
    if let Some(place) = known.iter().position(|known| *known == one) {
        return place;
    }
    known.push(one);
    known.len() - 1
}

/// Three digits are enough for a pixel.
fn coarse(value: f64) -> Value {
    if !value.is_finite() || value == 0.0 {
        return number(value);
    }
    let factor = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    number((value * factor).round() / factor)
}

#[cfg(test)]
mod tests {
    use breme_experiment::record::WorkloadRecord;

    use super::*;

    #[test]
    fn trials_without_a_series_are_explained() {
        let trial = |series| TrialRecord {
            workloads: [("user".to_owned(), WorkloadRecord { series, ..WorkloadRecord::default() })].into(),
            ..TrialRecord::default()
        };
        let (with, without) = (trial(vec![SeriesRow::default()]), trial(Vec::new()));
        assert_eq!(without_series(&[&with]), "");
        assert_eq!(without_series(&[&with, &without]), " 1 trial without a series of rates and times.");
        assert!(without_series(&[&without]).starts_with(" Only the instruments are shown"));
    }
}
