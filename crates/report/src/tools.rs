//! A run for existing tools: JMeter's log, and Go's benchmark lines for benchstat.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use breme_experiment::record::{TrialRecord, WorkloadRecord};
use breme_stats::Histogram;
use breme_stats::go_bench::{self as lines, Better, Measure};
use breme_stats::jtl::{JtlInterval, JtlWriter};

use crate::distribution::decode;
use crate::run::Run;
use crate::words;

/// The run as a JMeter log: a row for each request of the steady parts of all trials that count. A record contains the
/// times of all requests and the number of failures, but not which failed: these are spread evenly over the times.
///
/// # Errors
///
/// Those of `out`.
pub fn jtl<W: Write>(run: &Run<'_>, mut out: W) -> io::Result<()> {
    let mut is_first = true;
    for (trial, name, workload) in counted(run) {
        let Some(times) = decode(&workload.response.histogram) else { continue };
        let label = [name, &words::levels(&trial.levels)].join(" ");
        let mut rows = Vec::new();
        write_trial(&mut rows, trial, workload, &times, label.trim())?;
        // Each writer begins with the header; one is enough.
        let head_bytes = rows.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        out.write_all(if is_first { &rows } else { &rows[head_bytes..] })?;
        is_first = false;
    }
    if is_first {
        JtlWriter::begin(out, "", "", 0)?;
    }
    Ok(())
}

/// Number of counted loads that a log of requests and benchmark lines leave out, since their generators report no
/// distribution of times.
#[must_use]
pub fn loads_without_times(run: &Run<'_>) -> usize {
    counted(run).filter(|(_, _, workload)| decode(&workload.response.histogram).is_none()).count()
}

fn write_trial(
    rows: &mut Vec<u8>,
    trial: &TrialRecord,
    workload: &WorkloadRecord,
    times: &Histogram,
    label: &str,
) -> io::Result<()> {
    let all_errors: u64 = workload.errors.values().sum();
    let all_lost = all_errors.saturating_sub(workload.answered.saturating_sub(workload.ok));
    // Records of earlier versions count only the whole load.
    let errors = workload.window_errors.unwrap_or(all_errors);
    let lost = (errors as f64 * all_lost as f64 / all_errors.max(1) as f64).round() as u64;
    let wrong = spread(times, errors.saturating_sub(lost));
    let mut writer =
        JtlWriter::begin(rows, label, &workload.path, usize::try_from(workload.connections).unwrap_or(usize::MAX))?;
    writer.write(&JtlInterval {
        start: Duration::from_millis(trial.started_unix_ms) + seconds(workload.steady.from_s),
        length: seconds(workload.window_s),
        times,
        wrong: &wrong,
        first_byte: &Histogram::new(),
        lost,
        received_bytes: workload.window_bytes.unwrap_or(workload.received_bytes),
    })
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

/// Selects this many of the times, evenly over their ranks.
fn spread(times: &Histogram, count: u64) -> Histogram {
    let count = count.min(times.count());
    let mut chosen = Histogram::new();
    (0..count).for_each(|index| chosen.record(times.quantile((index as f64 + 0.5) / count as f64)));
    chosen
}

/// The run in the format of Go's benchmarks: a line for each workload of each trial that counts, so that trials of one
/// combination are repetitions of one benchmark.
#[must_use]
pub fn go_bench(run: &Run<'_>) -> String {
    let mut out = Vec::new();
    // Writing to a vector cannot fail.
    let _ = write_go_bench(run, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_go_bench(run: &Run<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    lines::write_configuration(out, "run", &run.head.run)?;
    lines::write_configuration(out, "cpu", &run.head.machine.processor)?;
    lines::write_unit(out, "req/s", Better::Higher)?;
    for (trial, name, workload) in counted(run) {
        let Some(times) = decode(&workload.response.histogram) else { continue };
        let time = |quantile: f64| times.quantile(quantile) as f64;
        let measures = [
            Measure { value: workload.response.mean_ns, unit: "ns/op" },
            Measure { value: workload.achieved_rate, unit: "req/s" },
            Measure { value: time(0.5), unit: "p50-ns" },
            Measure { value: time(0.99), unit: "p99-ns" },
        ];
        let processors = run.head.machine.processors as u64;
        lines::write_line(out, &benchmark(name, &trial.levels), processors, times.count(), &measures)?;
    }
    Ok(())
}

/// `user/crowd=250/path=cached`: the format in which benchstat expects levels.
fn benchmark(name: &str, levels: &BTreeMap<String, String>) -> String {
    let plain = |text: &str| words::one_line(text).replace('/', "_");
    let levels = levels.iter().map(|(factor, level)| format!("/{}={}", plain(factor), plain(level)));
    std::iter::once(plain(name)).chain(levels).collect()
}

fn counted<'a>(run: &Run<'a>) -> impl Iterator<Item = (&'a TrialRecord, &'a str, &'a WorkloadRecord)> {
    let trials = run.trials.iter().filter(|trial| trial.counts());
    trials.flat_map(|trial| trial.workloads.iter().map(move |(name, workload)| (trial, name.as_str(), workload)))
}
