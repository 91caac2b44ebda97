//! Intervals, minutes or hours as CSV. The first columns are those of `ab`: time taken, complete and failed requests,
//! bytes, requests per second, mean times, transfer rate.

use std::fmt::Write;

use breme_base::CsvField;

use crate::history::{Point, TargetInfo};

pub const HEADER: &str = "time,unix_s,target,concurrency,time_taken_s,complete,failed,bytes,body_bytes,requests_per_s,\
    mean_ms,mean_across_concurrent_ms,transfer_kB_per_s,errors_4xx,errors_5xx,errors_transport,error_share,late,\
    p50_ms,p95_ms,p99_ms,up,down,cpu_share,memory_bytes,threads,descriptors,descriptors_share,\
    certificate_expires_unix_s";

/// Formats a point. `time` is its local start, in a form that spreadsheets recognise as a date.
#[must_use]
pub fn line(time: &str, target: &TargetInfo, point: &Point) -> String {
    let counts = &point.counts;
    let taken_s = point.elapsed_ns as f64 / 1e9;
    let concurrency = target.concurrency.max(1);
    let per = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
    let complete = counts.requests - counts.transport.min(counts.requests);
    let mean_ms = point.mean_ns / 1e6;
    // The "across all concurrent requests" of `ab`.
    let across_ms = per(taken_s * 1e3, complete as f64);
    let mut line = format!(
        "{time},{}.{:03},{},{concurrency},{taken_s:.6},{complete},{},{},{},{:.3},{mean_ms:.3},{across_ms:.3},{:.3}",
        point.wall_ms.div_euclid(1_000),
        point.wall_ms.rem_euclid(1_000),
        quoted(&target.name),
        counts.errors(),
        counts.received_bytes,
        counts.content_bytes,
        per(complete as f64, taken_s),
        per(counts.received_bytes as f64 / 1e3, taken_s),
    );
    let millis = |nanos: u64| nanos as f64 / 1e6;
    let _ = write!(
        line,
        ",{},{},{},{:.6},{},{:.3},{:.3},{:.3},{},{}",
        counts.client_errors,
        counts.server_errors,
        counts.transport,
        per(counts.errors() as f64, counts.requests as f64),
        counts.late,
        millis(point.p50_ns),
        millis(point.p95_ns),
        millis(point.p99_ns),
        point.up,
        point.down,
    );
    match &point.usage {
        None => line.push_str(",,,,,"),
        Some(usage) => {
            let cpu = point.cpu_share().map_or_else(String::new, |share| format!("{share:.4}"));
            let _ = write!(
                line,
                ",{cpu},{},{},{},{:.6}",
                usage.memory_bytes, usage.threads, usage.descriptors, usage.descriptors_share
            );
        }
    }
    let expires = point.certificate_expires_at.map_or_else(String::new, |seconds| seconds.to_string());
    let _ = write!(line, ",{expires}");
    line
}

/// A quoted cell. A leading apostrophe prevents spreadsheets from evaluating it as a formula.
fn quoted(text: &str) -> String {
    let apostrophe = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    CsvField(&format!("{apostrophe}{text}")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Counts;

    #[test]
    fn every_line_has_all_columns() {
        let target = TargetInfo { name: "a,\"b\"".into(), concurrency: 5, ..TargetInfo::default() };
        let counts = Counts {
            requests: 50,
            ok: 48,
            transport: 2,
            received_bytes: 500_000,
            content_bytes: 480_000,
            ..Counts::default()
        };
        let point = Point {
            counts,
            elapsed_ns: 1_000_000_000,
            mean_ns: 1e8,
            up: 1,
            usage: Some(crate::record::Usage::default()),
            certificate_expires_at: Some(1_800_000_000),
            ..Point::default()
        };
        let line = line("2026-01-05 10:00:00", &target, &point);
        assert!(line.starts_with("2026-01-05 10:00:00,0.000,\"a,\"\"b\"\"\",5,1.000000,48,2,500000,480000,48.000,100.000,20.833,500.000,0,0,2,0.040000,"), "{line}");
        assert!(line.ends_with(",1800000000"), "{line}");
        let cells = line.replace("\"a,\"\"b\"\"\"", "a").split(',').count();
        assert_eq!(cells, HEADER.split(',').count());
        assert_eq!(
            super::line("t", &target, &Point::default()).replace("\"a,\"\"b\"\"\"", "a").split(',').count(),
            cells
        );
        assert_eq!(quoted("=1+1"), "'=1+1");
    }
}
