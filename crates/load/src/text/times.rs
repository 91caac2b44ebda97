//! Tables and the histogram of times.

use std::fmt::Write;

use breme_base::grouped;
use breme_base::terminal::{DIM, Style, WIDTH_MIN};
use breme_load_result::{LoadOutcome, StepSummary, TimeSummary};

use crate::figures::duration;
use crate::histogram_lines::histogram_lines;

/// From this width on a table has wide columns.
const WIDE: usize = 80;

/// A row's name, its value, and the number of samples needed for one to be beyond it.
type TimeRow = (&'static str, fn(&TimeSummary) -> u64, u64);

const TIME_ROWS: [TimeRow; 10] = [
    ("mean", |time| time.mean_ns.round() as u64, 1),
    ("stdev", |time| time.stdev_ns.round() as u64, 2),
    ("min", |time| time.min_ns, 1),
    ("50 %", |time| time.p50_ns, 2),
    ("75 %", |time| time.p75_ns, 4),
    ("90 %", |time| time.p90_ns, 10),
    ("95 %", |time| time.p95_ns, 20),
    ("99 %", |time| time.p99_ns, 100),
    ("99.9 %", |time| time.p999_ns, 1_000),
    ("max", |time| time.max_ns, 1),
];

pub(super) fn times(outcome: &LoadOutcome, style: Style) -> String {
    if outcome.response_time.count == 0 {
        return String::new();
    }
    let all = [
        ("response", &outcome.response_time),
        ("service", &outcome.service_time),
        ("first byte", &outcome.first_byte_time),
        ("connect", &outcome.connect_time),
        ("handshake", &outcome.handshake_time),
    ];
    let (mut columns, mut same): (Vec<(&str, &TimeSummary)>, Vec<&str>) = (Vec::new(), Vec::new());
    for (name, time) in all.into_iter().filter(|(_, time)| time.count > 0) {
        match columns.last() {
            Some((_, before)) if is_same(before, time) => same.push(name),
            _ => columns.push((name, time)),
        }
    }
    let width = style.width.map_or(WIDE, |width| width.max(WIDTH_MIN));
    let column_width = if width < WIDE { 10 } else { 12 };
    columns.truncate((width - 9) / (column_width + 1));
    let names: String = columns.iter().map(|(name, _)| format!(" {name:>column_width$}")).collect();
    let mut text = style.paint(DIM, &format!("{:<8}{names}", "latency")) + "\n";
    for (name, pick, least) in TIME_ROWS.iter().filter(|(.., least)| outcome.response_time.count >= *least) {
        let cell = |time: &TimeSummary| if time.count < *least { "-".to_owned() } else { duration(pick(time)) };
        let cells: String = columns.iter().map(|(_, time)| format!(" {:>column_width$}", cell(time))).collect();
        let _ = writeln!(text, "{name:>8}{cells}");
    }
    if !same.is_empty() {
        let note = format!("{} time: the same within 1 %", same.join(" and "));
        text += &(style.paint(DIM, &note) + "\n");
    }
    text
}

/// Wider bars are no more precise.
const HISTOGRAM_WIDTH_MAX: usize = 100;

pub(super) fn histogram(outcome: &LoadOutcome, style: Style) -> String {
    if outcome.histogram.len() < 2 {
        return String::new();
    }
    let width = style.width.map_or(WIDE, |width| width.clamp(WIDTH_MIN, HISTOGRAM_WIDTH_MAX));
    let title = style.paint(DIM, "response times up to");
    histogram_lines(&outcome.histogram, width).iter().fold(title + "\n", |text, line| text + &line.text() + "\n")
}

/// Whether two columns have the same values.
fn is_same(one: &TimeSummary, other: &TimeSummary) -> bool {
    let is_near = |one: u64, other: u64| one.abs_diff(other) as f64 <= 0.01 * one.max(other) as f64;
    let quantiles = |time: &TimeSummary| [time.mean_ns as u64, time.p50_ns, time.p90_ns, time.p99_ns];
    one.count == other.count && quantiles(one).into_iter().zip(quantiles(other)).all(|(one, other)| is_near(one, other))
}

/// The widest step name for which the table has room.
const NAME_WIDTH_MAX: usize = 40;

pub(super) fn steps(outcome: &LoadOutcome, style: Style) -> String {
    if outcome.steps.is_empty() {
        return String::new();
    }
    let names = outcome.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let room = style.width.unwrap_or(usize::MAX).max(WIDTH_MIN);
    let name_width = names.clamp(10, NAME_WIDTH_MAX.min(room / 3));
    let places = (room - name_width) / STEP_COLUMN_WIDTH;
    let columns: Vec<&StepColumn> = STEP_COLUMNS.iter().filter(|column| column.rank < places).collect();
    let titles: String = columns.iter().map(|column| format!(" {:>10}", column.title)).collect();
    let mut text = style.paint(DIM, &format!("{:<name_width$}{titles}", "step")) + "\n";
    for step in &outcome.steps {
        let name: String = step.name.chars().take(name_width).collect();
        let cells: String = columns.iter().map(|column| format!(" {:>10}", (column.cell)(step))).collect();
        let _ = writeln!(text, "{name:<name_width$}{cells}");
    }
    text
}

struct StepColumn {
    title: &'static str,
    /// Columns with the highest ranks are omitted if there is no room.
    rank: usize,
    cell: fn(&StepSummary) -> String,
}

const STEP_COLUMN_WIDTH: usize = 11;
const STEP_COLUMNS: [StepColumn; 7] = [
    StepColumn { title: "answered", rank: 0, cell: |step| grouped(step.answered) },
    StepColumn { title: "errors", rank: 1, cell: |step| grouped(step.errors.values().sum()) },
    StepColumn { title: "mean", rank: 5, cell: |step| step_time(step, step.response_time.mean_ns.round() as u64) },
    StepColumn { title: "50 %", rank: 2, cell: |step| step_time(step, step.response_time.p50_ns) },
    StepColumn { title: "90 %", rank: 4, cell: |step| step_time(step, step.response_time.p90_ns) },
    StepColumn { title: "99 %", rank: 3, cell: |step| step_time(step, step.response_time.p99_ns) },
    StepColumn { title: "max", rank: 6, cell: |step| step_time(step, step.response_time.max_ns) },
];

fn step_time(step: &StepSummary, nanos: u64) -> String {
    if step.response_time.count == 0 { "-".to_owned() } else { duration(nanos) }
}
