//! A foreign generator: a command whose output contains its measurements.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use breme_experiment::figure::{Figure, FigureFault};
use breme_experiment::record::{Distribution, Steady, SteadyState, TrialRecord, WorkloadRecord};
use breme_experiment::trial::{GeneratorCommand, TrialSpec, WorkloadSpec};
use breme_expression::{Quantity, TimeFigure, TimeKind};
use breme_subject::PlaceholderNames;
use thiserror::Error;

/// Tolerance between the server's count of requests and the generator's, in addition to one per connection: a generator
/// that ends by time abandons requests in progress.
const COUNT_TOLERANCE: f64 = 0.01;
/// Error kind for errors that the output does not classify.
const FAILED: &str = "failed";
/// Limit of the output that is parsed, from its end: the size limit of the file that captures it.
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// Why the output has no figures.
#[derive(Debug, Error)]
pub(super) enum FiguresError {
    #[error("its output {path}: {source}")]
    Output { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Figure(#[from] FigureFault),
}

/// Adds the placeholders available to its command and files, in addition to those of the subjects.
pub(super) fn set_names(names: &mut PlaceholderNames, trial: &TrialSpec, workload: &WorkloadSpec, rate: Option<f64>) {
    if let Some(rate) = rate {
        names.set("rate", rate.to_string());
    }
    names.set("url", workload.url.clone());
    names.set("connections", workload.connections.to_string());
    let seconds = workload.duration.unwrap_or(trial.duration).as_secs_f64();
    names.set("duration", seconds.to_string());
    names.set("seed", trial.seed.to_string());
}

/// Parses the figures in this output file.
pub(super) fn figures(command: &GeneratorCommand, output: &Path) -> Result<BTreeMap<String, f64>, FiguresError> {
    let bytes = fs::read(output).map_err(|source| FiguresError::Output { path: output.to_owned(), source })?;
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(OUTPUT_BYTES_MAX)..]);
    let figure = |figure: &Figure| Ok((figure.quantity.to_string(), figure.read(&text)?));
    command.figures.iter().map(figure).collect()
}

/// The record of a load of which only figures are known.
pub(super) fn record(workload: &WorkloadSpec, figures: BTreeMap<String, f64>, elapsed: Duration) -> WorkloadRecord {
    let figure = |quantity: Quantity| figures.get(&quantity.to_string()).copied();
    let whole = |quantity| figure(quantity).map_or(0, |count| count.max(0.0).round() as u64);
    let time = |of| figure(Quantity::Time { kind: TimeKind::Response, figure: of }).unwrap_or_default() * 1e9;
    let (answered, failed) = (whole(Quantity::Answered), whole(Quantity::Failed));
    WorkloadRecord {
        path: workload.path.clone(),
        subject: workload.subject.clone(),
        connections: workload.connections,
        steady: Steady {
            state: SteadyState::NotChecked,
            remark: Some("a foreign generator has no time series".to_owned()),
            ..Steady::default()
        },
        window_s: elapsed.as_secs_f64(),
        answered,
        ok: answered.saturating_sub(failed),
        errors: (failed > 0).then(|| (FAILED.to_owned(), failed)).into_iter().collect(),
        achieved_rate: figure(Quantity::Rate).unwrap_or_default(),
        // Without a count, so that it is not mistaken for a distribution.
        response: Distribution {
            mean_ns: time(TimeFigure::Mean),
            stdev_ns: time(TimeFigure::Stdev),
            min_ns: time(TimeFigure::Min) as u64,
            max_ns: time(TimeFigure::Max) as u64,
            ..Distribution::default()
        },
        figures,
        ..WorkloadRecord::default()
    }
}

/// Adds to the loads of foreign generators what the instruments know: CPU time, and the server's own count of requests.
/// A difference makes the trial INVALID.
pub(super) fn complete(trial: &TrialSpec, record: &mut TrialRecord) {
    for workload in &trial.workloads {
        let Some(command) = workload.command.as_ref().filter(|_| workload.connections > 0) else { continue };
        let used = record.generators.get(&workload.name).map(|used| used.cpu_user_ns + used.cpu_system_ns);
        if let (Some(used), Some(load)) = (used, record.workloads.get_mut(&workload.name)) {
            load.generator_cpu_share = used as f64 / 1e9 / load.window_s.max(f64::MIN_POSITIVE);
        }
        let problem = command.server_count.as_ref().and_then(|counter| miscount(&workload.subject, counter, record));
        record.invalid_reasons.extend(problem.map(|problem| format!("{}: {problem}", workload.name)));
    }
}

fn miscount(subject: &str, counter: &str, record: &TrialRecord) -> Option<String> {
    let is_it = |shown: &str| shown == counter || shown.strip_prefix(counter).is_some_and(|rest| rest.starts_with('{'));
    let counters = record.subjects.get(subject).map(|subject| &subject.counters);
    let grown: Vec<f64> =
        counters.into_iter().flatten().filter(|(shown, _)| is_it(shown)).map(|(_, &value)| value).collect();
    if grown.is_empty() {
        return Some(format!("server_count: `{subject}` exposes no counter `{counter}`"));
    }
    let counted: f64 = grown.iter().sum();
    // The server counts the requests of every workload that loads it.
    let loads = record.workloads.values().filter(|load| load.subject == subject);
    let (reported, connections) = loads.fold((0, 0), |(reported, connections), load| {
        let by_status: u64 = load.statuses.values().sum();
        (reported + by_status.max(load.answered), connections + load.connections)
    });
    let tolerance = reported as f64 * COUNT_TOLERANCE + connections as f64;
    ((counted - reported as f64).abs() > tolerance)
        .then(|| format!("it reports {reported} responses, but `{subject}` counted {counted} requests ({counter})"))
}

#[cfg(test)]
mod tests {
    use breme_experiment::record::SubjectRecord;

    use super::*;

    #[test]
    fn the_count_of_the_server_must_be_that_of_the_generator() {
        let load =
            WorkloadRecord { subject: "site".into(), answered: 10_000, connections: 5, ..WorkloadRecord::default() };
        let problem = |counted: &[(&str, f64)]| {
            let counters = counted.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
            let subject = SubjectRecord { counters, ..SubjectRecord::default() };
            let record = TrialRecord {
                workloads: [("ab".to_owned(), load.clone())].into(),
                subjects: [("site".to_owned(), subject)].into(),
                ..TrialRecord::default()
            };
            miscount("site", "requests", &record)
        };
        assert_eq!(problem(&[("requests", 10_000.0)]), None);
        assert_eq!(problem(&[("requests{status=\"200\"}", 9_000.0), ("requests{status=\"404\"}", 1_105.0)]), None);
        assert!(problem(&[("requests", 10_106.0)]).unwrap().contains("10000 responses, but `site` counted 10106"));
        assert!(problem(&[("requests", 9_894.0)]).is_some());
        assert!(problem(&[("requests_total", 10_000.0)]).unwrap().contains("exposes no counter `requests`"));
    }
}
