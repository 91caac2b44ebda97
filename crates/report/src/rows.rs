//! A run for programs: JSON and rows.
//!
//! Rows are wide and plain: one header line, a point as decimal sign, base units (seconds, bytes, shares of one) with
//! the unit in the column's name, an empty field for unknown values. Of trials, `window_s`, `rate` and times are those
//! of the part after the warm-up; counts are those of the whole trial.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use breme_base::CsvField;
use breme_experiment::record::{RunHead, TrialRecord, WorkloadRecord};
use breme_judge::Levels;
use breme_judge::judgement::Judgement;
use schemars::JsonSchema;
use serde::Serialize;

use crate::run::Run;
use crate::words;

/// Whether the JSON contains the histograms, which are most of its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Histograms {
    Kept,
    /// Count, mean, standard deviation, minimum and maximum only.
    #[default]
    LeftOut,
}

/// A run: header, results, trials and plan.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A run of breme")]
struct Document<'a> {
    /// Header: experiment, versions, machine.
    head: &'a RunHead,
    /// Results.
    judgement: &'a Judgement,
    /// The trials, in the order of execution.
    trials: Cow<'a, [TrialRecord]>,
    /// The plan (TOML).
    plan: &'a str,
}

/// The run as JSON.
///
/// # Errors
///
/// Not caused by input: numbers that JSON cannot represent become null.
pub fn json(run: &Run<'_>, histograms: Histograms) -> Result<String, serde_json::Error> {
    let trials = match histograms {
        Histograms::Kept => Cow::Borrowed(run.trials),
        Histograms::LeftOut => run.trials.iter().map(without_histograms).collect(),
    };
    let document = Document { head: run.head, judgement: run.judgement, trials, plan: run.plan };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

fn without_histograms(trial: &TrialRecord) -> TrialRecord {
    let mut trial = trial.clone();
    for workload in trial.workloads.values_mut() {
        workload.response.histogram.clear();
        workload.service.histogram.clear();
        workload.connect.histogram.clear();
    }
    trial
}

#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Document<'static>)
}

const TRIAL_COLUMNS: &str = "trial,block,combination,replicate,repeat,purpose,state,started_unix_ms,workload,path,background,connections,\
    window_s,answered,ok,errors,rate,offered_rate,received_bytes,\
    response_mean_s,response_stdev_s,response_min_s,response_p50_s,response_p90_s,response_p95_s,response_p99_s,response_p999_s,response_max_s,\
    service_mean_s,service_p50_s,service_p99_s,lateness_p99_s,generator_cpu_share";

/// The measures in the columns of times.
const TIMES: [&str; 12] =
    ["mean", "stdev", "min", "p50", "p90", "p95", "p99", "p99.9", "max", "service.mean", "service.p50", "service.p99"];

/// One row for each workload of each trial, with every trial's levels.
#[must_use]
pub fn csv_trials(run: &Run<'_>) -> String {
    let factors = factors(run.trials.iter().map(|trial| &trial.levels));
    let mut text = TRIAL_COLUMNS.to_owned();
    factors.iter().for_each(|factor| text.push_str(&format!(",{}", field(&format!("factor {factor}")))));
    text.push('\n');
    for trial in run.trials {
        let levels: String = factors.iter().map(|&factor| format!(",{}", level(&trial.levels, factor))).collect();
        if trial.workloads.is_empty() {
            let empty = ",".repeat(TRIAL_COLUMNS.matches(',').count() - 7);
            let _ = writeln!(text, "{}{empty}{levels}", trial_fields(trial));
        }
        for (name, workload) in &trial.workloads {
            let _ = writeln!(text, "{},{}{levels}", trial_fields(trial), workload_fields(name, workload));
        }
    }
    text
}

fn trial_fields(trial: &TrialRecord) -> String {
    format!(
        "{},{},{},{},{},{},{},{}",
        trial.number,
        trial.block,
        trial.combination,
        trial.replicate,
        trial.repeat,
        words::purpose(&trial.purpose),
        words::trial_state(trial),
        trial.started_unix_ms,
    )
}

fn workload_fields(name: &str, workload: &WorkloadRecord) -> String {
    let errors: u64 = workload.errors.values().sum();
    let mut fields = vec![
        field(name),
        field(&workload.path),
        workload.is_background.to_string(),
        workload.connections.to_string(),
        number(workload.window_s),
        workload.answered.to_string(),
        workload.ok.to_string(),
        errors.to_string(),
        number(workload.achieved_rate),
        workload.offered_rate.map(number).unwrap_or_default(),
        workload.received_bytes.to_string(),
    ];
    fields.extend(times(workload));
    fields.push(workload.lateness_p99_ns.map(|nanos| seconds(nanos as f64)).unwrap_or_default());
    fields.push(number(workload.generator_cpu_share));
    fields.join(",")
}

/// One row for each measure at each combination of levels: its median, interval, number of blocks and published figure.
#[must_use]
pub fn csv_measures(run: &Run<'_>) -> String {
    let tables = &run.judgement.tables;
    let factors = factors(tables.iter().flat_map(|table| &table.rows).map(|row| &row.levels));
    let mut text = String::from("measure,unit,center,low,high,values,published,published_source");
    factors.iter().for_each(|factor| text.push_str(&format!(",{}", field(&format!("factor {factor}")))));
    text.push('\n');
    for (table, row) in tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
        let optional = |value: Option<f64>| value.map(number).unwrap_or_default();
        let mut fields = vec![field(&table.measure), field(&table.unit)];
        fields.extend([row.center, row.low, row.high].map(optional));
        fields.push(row.values.len().to_string());
        fields.push(optional(row.published.as_ref().map(|published| published.value)));
        fields.push(row.published.as_ref().map(|published| field(&published.source)).unwrap_or_default());
        fields.extend(factors.iter().map(|&factor| level(&row.levels, factor)));
        let _ = writeln!(text, "{}", fields.join(","));
    }
    text
}

/// Times of a workload, in the order of the columns.
fn times(workload: &WorkloadRecord) -> Vec<String> {
    if !workload.figures.is_empty() {
        let figure = |name: &&str| workload.figures.get(*name).copied().map(number).unwrap_or_default();
        return TIMES.iter().map(figure).collect();
    }
    let (response, service) = (&workload.response, &workload.service);
    let mut times: Vec<String> =
        [response.mean_ns, response.stdev_ns, response.min_ns as f64].map(seconds).into_iter().collect();
    times.extend(quantiles(&response.histogram, &[0.5, 0.9, 0.95, 0.99, 0.999]));
    times.extend([response.max_ns as f64, service.mean_ns].map(seconds));
    times.extend(quantiles(&service.histogram, &[0.5, 0.99]));
    times
}

fn quantiles(histogram: &str, wanted: &[f64]) -> Vec<String> {
    let Some(histogram) = crate::distribution::decode(histogram) else { return vec![String::new(); wanted.len()] };
    histogram.quantiles(wanted).into_iter().map(|nanos| seconds(nanos as f64)).collect()
}

/// Every factor that occurs.
fn factors<'a>(levels: impl Iterator<Item = &'a Levels>) -> Vec<&'a str> {
    let all: BTreeSet<&str> = levels.flat_map(|levels| levels.keys().map(String::as_str)).collect();
    all.into_iter().collect()
}

fn level(levels: &Levels, factor: &str) -> String {
    levels.get(factor).map(|level| field(level)).unwrap_or_default()
}

fn seconds(nanos: f64) -> String {
    number(nanos / 1e9)
}

/// The shortest text that parses to the same number; empty for a value that is not finite.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { String::new() }
}

fn field(text: &str) -> String {
    CsvField(text).to_string()
}
