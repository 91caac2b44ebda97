//! What a record needs of a generator's result beside its counts: the time series, and the recovery from a fault.

use breme_experiment::record::SeriesRow;
use breme_load_result::{AvailabilitySummary, Row};

/// `fault_ns`: the time of the first fault of the trial, from the start of the load.
pub(super) fn recovery_ns(availability: &AvailabilitySummary, fault_ns: u64) -> Option<u64> {
    match availability.last_failure_ns.filter(|&failure_ns| failure_ns >= fault_ns) {
        None => Some(0),
        Some(_) => availability.recovered_ns.map(|recovered_ns| recovered_ns.saturating_sub(fault_ns)),
    }
}

/// The time series in at most `rows_max` rows.
pub(super) fn series(rows: &[Row], rows_max: usize) -> Vec<SeriesRow> {
    let rows_per_row = rows.len().div_ceil(rows_max).max(1);
    rows.chunks(rows_per_row).map(merged).collect()
}

/// Merges rows. Quantiles are the maximum, so that a peak does not vanish in a long trial.
fn merged(rows: &[Row]) -> SeriesRow {
    let length_s: f64 = rows.iter().map(|row| row.length_s).sum();
    let per_second = |of: fn(&Row) -> u64| {
        let sum: u64 = rows.iter().map(of).sum();
        if length_s > 0.0 { sum as f64 / length_s } else { 0.0 }
    };
    SeriesRow {
        start_s: rows.first().map_or(0.0, |row| row.start_s),
        length_s,
        rate: per_second(|row| row.answered),
        error_rate: per_second(|row| row.errors),
        response_p50_ns: rows.iter().map(|row| row.response_p50_ns).max().unwrap_or(0),
        response_p99_ns: rows.iter().map(|row| row.response_p99_ns).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_rate_and_its_peaks() {
        let row = |second: u32| Row {
            start_s: f64::from(second),
            length_s: 1.0,
            answered: 100,
            errors: u64::from(second == 7),
            response_p50_ns: 5,
            response_p99_ns: if second == 7 { 900 } else { 9 },
            ..Row::default()
        };
        let rows: Vec<Row> = (0..10).map(row).collect();
        let series = series(&rows, 4);
        assert_eq!(series.len(), 4, "3 + 3 + 3 + 1");
        assert!(series.iter().all(|row| (row.rate - 100.0).abs() < 1e-9));
        let summary = |row: &SeriesRow| (row.start_s as u32, row.length_s as u32, row.response_p99_ns);
        assert_eq!(series.iter().map(summary).collect::<Vec<_>>(), [(0, 3, 9), (3, 3, 9), (6, 3, 900), (9, 1, 9)]);
    }

    #[test]
    fn recovery_counts_from_the_fault_to_the_first_success_after_the_last_failure() {
        let recovery = |last_failure_ns, recovered_ns, fault_ns| {
            let availability = AvailabilitySummary { last_failure_ns, recovered_ns, ..AvailabilitySummary::default() };
            recovery_ns(&availability, fault_ns)
        };
        assert_eq!(recovery(Some(70), Some(90), 20), Some(70));
        assert_eq!(recovery(Some(70), None, 20), None, "it failed to the end");
        assert_eq!(recovery(None, None, 20), Some(0), "no request failed");
        assert_eq!(recovery(Some(10), Some(15), 20), Some(0), "none after the fault");
    }
}
