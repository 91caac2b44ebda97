//! The time series as CSV, a line per interval; and the steps of scenarios, a line per name.

use std::io::{self, Write};

use breme_base::CsvField;
use breme_load_result::{LoadOutcome, TimeSummary};

/// Writes the intervals of the run after a header line. Times are in nanoseconds, as the names say.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(out: &mut W, outcome: &LoadOutcome) -> io::Result<()> {
    writeln!(
        out,
        "start_s,length_s,answered,answered_per_s,errors,received_bytes,service_mean_ns,service_p50_ns,service_p90_ns,\
         service_p99_ns,service_max_ns,response_p50_ns,response_p99_ns,response_max_ns,held_mean_ns,held_max_ns"
    )?;
    for row in &outcome.series {
        writeln!(
            out,
            "{:.3},{:.3},{},{:.1},{},{},{:.0},{},{},{},{},{},{},{},{:.0},{}",
            row.start_s,
            row.length_s,
            row.answered,
            row.answered as f64 / row.length_s,
            row.errors,
            row.received_bytes,
            row.service_mean_ns,
            row.service_p50_ns,
            row.service_p90_ns,
            row.service_p99_ns,
            row.service_max_ns,
            row.response_p50_ns,
            row.response_p99_ns,
            row.response_max_ns,
            row.held_mean_ns,
            row.held_max_ns
        )?;
    }
    Ok(())
}

/// Writes the steps of scenarios by name, after a header line. Times are in nanoseconds, as the names say.
///
/// # Errors
/// Those of `out`.
pub fn write_steps<W: Write>(out: &mut W, outcome: &LoadOutcome) -> io::Result<()> {
    const TIMES: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "p999", "max"];
    write!(out, "step,sent,answered,errors")?;
    for kind in ["response", "service"] {
        TIMES.iter().try_for_each(|time| write!(out, ",{kind}_{time}_ns"))?;
    }
    writeln!(out)?;
    for step in &outcome.steps {
        let errors: u64 = step.errors.values().sum();
        write!(out, "{},{},{},{errors}", CsvField(&step.name), step.sent, step.answered)?;
        for time in [&step.response_time, &step.service_time] {
            let TimeSummary { mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns, .. } = time;
            write!(out, ",{mean_ns:.0},{p50_ns},{p90_ns},{p95_ns},{p99_ns},{p999_ns},{max_ns}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
