//! The report of a generator: the JSON of `breme load --json`, as far as a record needs it.
//!
//! Parsed as by any other tool (`schemas/load.schema.json`), so that laboratory and generator share only a published
//! format.

use std::collections::BTreeMap;

use breme_experiment::record::{
    AvailabilityRecord, CacheRecord, Distribution, PairsRecord, SeriesRow, Sessions, StaleRecord, StepRecord,
};
use serde::Deserialize;

/// The report of a generator.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LoadReport {
    pub(super) started_at_unix_s: u64,
    pub(super) started_at_monotonic_ns: u64,
    pub(super) elapsed_ns: u64,
    pub(super) settings: Settings,
    pub(super) requests: Requests,
    pub(super) bytes: Bytes,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) statuses: BTreeMap<String, u64>,
    pub(super) offered_rate: Option<f64>,
    pub(super) open_loop: Option<OpenLoop>,
    pub(super) lateness: Lateness,
    pub(super) generator: Generator,
    pub(super) invalid_reasons: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) series: Vec<Row>,
    pub(super) scenarios: Vec<Scenario>,
    pub(super) steps: Vec<Step>,
    pub(super) cache: Option<CacheRecord>,
    pub(super) pairs: Option<PairsRecord>,
    pub(super) availability: Option<Availability>,
    pub(super) stale: Option<Stale>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Availability {
    gap_ns: u64,
    user_gap_ns: u64,
    last_failure_ns: Option<u64>,
    recovered_ns: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) pipeline_depth: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requests {
    pub(super) answered: u64,
    pub(super) ok: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Bytes {
    pub(super) received: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OpenLoop {
    pub(super) dropped: u64,
    pub(super) shed: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lateness {
    pub(super) p99_ns: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Generator {
    pub(super) cpu_share: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Row {
    pub(super) start_s: f64,
    pub(super) length_s: f64,
    pub(super) answered: u64,
    pub(super) errors: u64,
    pub(super) response_p50_ns: u64,
    pub(super) response_p99_ns: u64,
    pub(super) held_mean_ns: f64,
    pub(super) held_max_ns: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Scenario {
    begun: u64,
    completed: u64,
    failed: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    name: String,
    answered: u64,
    errors: BTreeMap<String, u64>,
    response_time: Time,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stale {
    count: u64,
    judged: u64,
    unversioned: u64,
    age: Time,
    age_histogram: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Time {
    count: u64,
    mean_ns: f64,
    stdev_ns: f64,
    min_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl LoadReport {
    /// Errors by kind, including requests that an open loop never sent.
    pub(super) fn all_errors(&self) -> BTreeMap<String, u64> {
        let mut errors = self.errors.clone();
        if let Some(open_loop) = &self.open_loop {
            for (kind, count) in [("dropped", open_loop.dropped), ("shed", open_loop.shed)] {
                if count > 0 {
                    errors.insert(kind.to_owned(), count);
                }
            }
        }
        errors
    }

    /// `fault_ns`: the time of the first fault of the trial on the monotonic clock.
    pub(super) fn availability(&self, fault_ns: Option<u64>) -> Option<AvailabilityRecord> {
        let Availability { gap_ns, user_gap_ns, last_failure_ns, recovered_ns } = self.availability?;
        let recovery_ns = fault_ns.and_then(|fault_ns| {
            let fault_ns = fault_ns.saturating_sub(self.started_at_monotonic_ns);
            match last_failure_ns.filter(|&failure_ns| failure_ns >= fault_ns) {
                None => Some(0),
                Some(_) => recovered_ns.map(|recovered_ns| recovered_ns.saturating_sub(fault_ns)),
            }
        });
        Some(AvailabilityRecord { gap_ns, user_gap_ns, recovery_ns })
    }

    /// None without a scenario.
    pub(super) fn sessions(&self) -> Option<Sessions> {
        let sum = |of: fn(&Scenario) -> u64| self.scenarios.iter().map(of).sum();
        (!self.scenarios.is_empty()).then(|| Sessions {
            begun: sum(|scenario| scenario.begun),
            completed: sum(|scenario| scenario.completed),
            failed: sum(|scenario| scenario.failed),
        })
    }

    /// Scenario steps by name.
    pub(super) fn step_records(&self) -> BTreeMap<String, StepRecord> {
        let record = |step: &Step| StepRecord {
            answered: step.answered,
            errors: step.errors.clone(),
            response_mean_ns: step.response_time.mean_ns,
            response_p50_ns: step.response_time.p50_ns,
            response_p99_ns: step.response_time.p99_ns,
        };
        self.steps.iter().map(|step| (step.name.clone(), record(step))).collect()
    }

    /// None if it wrote no versions.
    pub(super) fn stale(&self) -> Option<StaleRecord> {
        let Stale { count, judged, unversioned, age, age_histogram } = self.stale.as_ref()?;
        let age = Distribution {
            count: age.count,
            mean_ns: age.mean_ns,
            stdev_ns: age.stdev_ns,
            min_ns: age.min_ns,
            max_ns: age.max_ns,
            histogram: age_histogram.clone(),
        };
        Some(StaleRecord { count: *count, judged: *judged, unversioned: *unversioned, age })
    }

    /// The time series in at most `rows_max` rows.
    pub(super) fn series(&self, rows_max: usize) -> Vec<SeriesRow> {
        let rows_per_row = self.series.len().div_ceil(rows_max).max(1);
        self.series.chunks(rows_per_row).map(merged).collect()
    }
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
        let report = LoadReport { series: (0..10).map(row).collect(), ..LoadReport::default() };
        let series = report.series(4);
        assert_eq!(series.len(), 4, "3 + 3 + 3 + 1");
        assert!(series.iter().all(|row| (row.rate - 100.0).abs() < 1e-9));
        let summary = |row: &SeriesRow| (row.start_s as u32, row.length_s as u32, row.response_p99_ns);
        assert_eq!(series.iter().map(summary).collect::<Vec<_>>(), [(0, 3, 9), (3, 3, 9), (6, 3, 900), (9, 1, 9)]);
    }

    #[test]
    fn recovery_counts_from_the_fault_to_the_first_success_after_the_last_failure() {
        let recovery = |last_failure_ns, recovered_ns, fault_ns| {
            let availability = Availability { last_failure_ns, recovered_ns, ..Availability::default() };
            let report = LoadReport {
                started_at_monotonic_ns: 1_000,
                availability: Some(availability),
                ..LoadReport::default()
            };
            report.availability(fault_ns).unwrap().recovery_ns
        };
        assert_eq!(recovery(Some(70), Some(90), Some(1_020)), Some(70));
        assert_eq!(recovery(Some(70), None, Some(1_020)), None, "it failed to the end");
        assert_eq!(recovery(None, None, Some(1_020)), Some(0), "no request failed");
        assert_eq!(recovery(Some(10), Some(15), Some(1_020)), Some(0), "none after the fault");
        assert_eq!(recovery(Some(70), Some(90), None), None, "no fault");
        assert_eq!(LoadReport::default().availability(Some(5)), None);
    }

    #[test]
    fn requests_never_sent_are_errors_too() {
        let text = r#"{"errors": {"reset": 2}, "open_loop": {"dropped": 3, "shed": 0}}"#;
        let report: LoadReport = serde_json::from_str(text).unwrap();
        let errors: Vec<(String, u64)> = report.all_errors().into_iter().collect();
        assert_eq!(errors, [("dropped".to_owned(), 3), ("reset".to_owned(), 2)]);
        assert_eq!(report.sessions(), None);
    }
}
