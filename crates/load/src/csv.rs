//! The time series as CSV: a line for each second.

use std::io::{self, Write};

use crate::outcome::Outcome;

/// Writes the seconds of the run, with a line of names first. Times are in nanoseconds, as the names say.
///
/// # Errors
/// What `out` says.
pub fn write<W: Write>(out: &mut W, outcome: &Outcome) -> io::Result<()> {
    writeln!(
        out,
        "start_s,length_s,answered,answered_per_s,errors,received_bytes,service_mean_ns,service_p50_ns,service_p90_ns,\
         service_p99_ns,service_max_ns,response_p50_ns,response_p99_ns,response_max_ns"
    )?;
    for row in &outcome.series {
        writeln!(
            out,
            "{:.3},{:.3},{},{:.1},{},{},{:.0},{},{},{},{},{},{},{}",
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
            row.response_max_ns
        )?;
    }
    Ok(())
}
