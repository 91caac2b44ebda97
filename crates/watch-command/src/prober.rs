//! One measurement of a target: a run of `load` in this process, and a sample of the target's resources.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use breme_admin::push::AuthorizationFile;
use breme_load_command::{Cancellation, Measurement, MeasurementError, MeasurementResult, TimedCall};
use breme_load_result::LoadOutcome;
use breme_node::TlsFailure;
use breme_subject::{ExternalLocator, ExternalProcesses, ExternalUsage, scrape};
use breme_watch::record::{Counts, Probe, ResponseTimes, Usage};
use breme_watch::{Destination, Objective, ProcessLocator, WatchTarget};
use parking_lot::Mutex;

/// Time limit of a scrape.
const METRICS_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Prober {
    number: u32,
    name: String,
    measurement: Mutex<Arc<Measurement>>,
    within: Duration,
    processes: Option<Mutex<ExternalProcesses>>,
    metrics: Option<Metrics>,
    scraping: TimedCall<Result<BTreeMap<String, f64>, String>>,
    /// CPU seconds of the previous scrape, and its time.
    scraped: Mutex<Option<(f64, Instant)>>,
    /// Whether a probe is in progress.
    is_busy: AtomicBool,
}

/// The metrics of a target's processes.
#[derive(Clone, Debug)]
struct Metrics {
    url: String,
    authorization: Option<AuthorizationFile>,
}

impl Metrics {
    fn scrape(&self, within: Duration) -> Result<BTreeMap<String, f64>, String> {
        let authorization = self.authorization.as_ref().map(AuthorizationFile::value).transpose();
        let authorization = authorization.map_err(|problem| format!("metrics_auth_file {problem}"))?;
        let headers: Vec<_> = authorization.map(|value| (String::from("Authorization"), value)).into_iter().collect();
        scrape(&self.url, &headers, within).map_err(|error| error.to_string())
    }
}

/// Times of an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    pub measurement: Instant,
    pub metrics: Instant,
}

#[derive(Debug)]
pub(crate) struct ProbeResult {
    pub probe: Probe,
    /// Failures of the watch itself, for standard error.
    pub problems: Vec<String>,
}

impl Prober {
    pub(crate) fn new(
        number: u32,
        target: &WatchTarget,
        measurement: Measurement,
        authorization: Option<AuthorizationFile>,
        objective: Objective,
    ) -> Self {
        let metrics = |Destination { url, .. }: &Destination| Metrics { url: url.clone(), authorization };
        let place = target.process.clone().map(|place| match place {
            ProcessLocator::Pid(pid) => ExternalLocator::Pid(pid),
            ProcessLocator::Port(port) => ExternalLocator::Port(port),
            ProcessLocator::Unit(unit) => ExternalLocator::Unit(unit),
        });
        Self {
            number,
            name: target.name.clone(),
            measurement: Mutex::new(Arc::new(measurement)),
            within: objective.within,
            processes: place.map(|place| Mutex::new(ExternalProcesses::new(place))),
            metrics: target.metrics.as_ref().map(metrics),
            scraping: TimedCall::default(),
            scraped: Mutex::default(),
            is_busy: AtomicBool::new(false),
        }
    }

    /// Measures with other contents of the files that the target names, from the next interval on.
    pub(crate) fn replace_measurement(&self, measurement: Measurement) {
        *self.measurement.lock() = Arc::new(measurement);
    }

    /// Probes on a thread of its own, which passes on the result. None starts while one is in progress.
    pub(crate) fn start(
        self: &Arc<Self>,
        stop: &Arc<Cancellation>,
        deadlines: Deadlines,
        pass_on: impl Fn(ProbeResult) + Clone + Send + 'static,
    ) {
        if self.is_busy.swap(true, Ordering::SeqCst) {
            return pass_on(self.unknown("the measurement of an earlier interval has not ended"));
        }
        let (prober, stop, passing_on) = (Arc::clone(self), Arc::clone(stop), pass_on.clone());
        let probe = move || {
            let probed = catch_unwind(AssertUnwindSafe(|| prober.probe(&stop, deadlines)));
            prober.is_busy.store(false, Ordering::SeqCst);
            passing_on(probed.unwrap_or_else(|_| prober.unknown("internal error, please report it")));
        };
        if let Err(error) = Builder::new().name("probe".to_owned()).spawn(probe) {
            self.is_busy.store(false, Ordering::SeqCst);
            pass_on(self.unknown(&format!("cannot start a thread: {error}")));
        }
    }

    fn probe(&self, stop: &Cancellation, deadlines: Deadlines) -> ProbeResult {
        let measurement = Arc::clone(&self.measurement.lock());
        let measured = measurement.run(stop, deadlines.measurement);
        let (usage, problem) = self.usage(deadlines.metrics);
        let mut problems: Vec<String> = problem.into_iter().collect();
        let mut probe = match measured {
            Ok(measured) => probe_of(&measured, self.within),
            Err(MeasurementError::Unresolved(problem)) => {
                problems.push(problem);
                let counts = Counts { requests: 1, transport: 1, ..Counts::default() };
                Probe { counts, cause: Some(String::from("unresolved")), ..Probe::default() }
            }
            Err(MeasurementError::Local(problem)) => {
                problems.push(problem);
                Probe::default()
            }
        };
        if probe.counts.requests == 0 && problems.is_empty() {
            problems.push(String::from("no request was sent: this machine lacks descriptors or ports"));
        }
        (probe.target, probe.usage) = (self.number, usage);
        problems.iter_mut().for_each(|problem| *problem = format!("target {}: {problem}", self.name));
        ProbeResult { probe, problems }
    }

    /// The result of a probe that did not end.
    pub(crate) fn unknown(&self, problem: &str) -> ProbeResult {
        let problems = vec![format!("target {}: {problem}", self.name)];
        ProbeResult { probe: Probe { target: self.number, ..Probe::default() }, problems }
    }

    /// Index in the journal.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    fn usage(&self, deadline: Instant) -> (Option<Usage>, Option<String>) {
        if let Some(used) = self.processes.as_ref().and_then(|processes| processes.lock().sample()) {
            return (Some(usage_of(&used)), None);
        }
        let Some(metrics) = &self.metrics else {
            let is_missing = self.processes.is_some();
            return (None, is_missing.then(|| String::from("its process is not running, or belongs to another user")));
        };
        let url = &metrics.url;
        let within = METRICS_WITHIN.min(deadline.saturating_duration_since(Instant::now()));
        if within.is_zero() {
            let problem = format!("the interval left no time for {url}; use a longer interval or a shorter timeout");
            return (None, Some(problem));
        }
        let asked = metrics.clone();
        match self.scraping.make(within, move || asked.scrape(within)) {
            Ok(Some(Ok(exposed))) => match self.usage_of_metrics(&exposed) {
                None => (None, Some(format!("{url} has no process_resident_memory_bytes"))),
                usage => (usage, None),
            },
            Ok(Some(Err(problem))) => (None, Some(problem)),
            Ok(None) => (None, Some(format!("{url} did not answer in time"))),
            Err(error) => (None, Some(format!("cannot start a thread: {error}"))),
        }
    }

    /// From the `process_*` metrics of the Prometheus client libraries.
    fn usage_of_metrics(&self, exposed: &BTreeMap<String, f64>) -> Option<Usage> {
        let value = |names: &[&str]| names.iter().find_map(|name| exposed.get(*name).copied());
        let whole = |names: &[&str]| value(names).map_or(0, |value| value.max(0.0) as u64);
        let memory_bytes = value(&["process_resident_memory_bytes"])?.max(0.0) as u64;
        let descriptors = whole(&["process_open_fds"]);
        let limit = value(&["process_max_fds"]).filter(|limit| *limit >= 1.0);
        let cpu_s = value(&["process_cpu_seconds_total", "process_cpu_seconds"]).unwrap_or(0.0);
        let now = Instant::now();
        let before = self.scraped.lock().replace((cpu_s, now));
        let (cpu_ns, over_ns) = before.map_or((0, 0), |(cpu_before_s, before)| {
            let over = now.duration_since(before).as_nanos();
            (((cpu_s - cpu_before_s).max(0.0) * 1e9) as u64, u64::try_from(over).unwrap_or(u64::MAX))
        });
        Some(Usage {
            cpu_ns,
            over_ns,
            memory_bytes,
            threads: whole(&["process_threads", "go_threads", "jvm_threads_live_threads"]),
            descriptors,
            descriptors_share: limit.map_or(0.0, |limit| share(descriptors as f64 / limit)),
        })
    }
}

fn usage_of(used: &ExternalUsage) -> Usage {
    Usage {
        cpu_ns: used.cpu_ns,
        over_ns: used.over_ns,
        memory_bytes: used.memory_bytes,
        threads: used.threads,
        descriptors: used.descriptors,
        descriptors_share: share(used.descriptors_share),
    }
}

fn share(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn probe_of(measured: &MeasurementResult, within: Duration) -> Probe {
    let MeasurementResult { outcome, response, late_after, tls_failure, certificate_expires_at } = measured;
    let errors = |kind: &str| outcome.errors.get(kind).copied().unwrap_or(0);
    let statuses = |class: char| {
        let of_class = outcome.statuses.iter().filter(|(status, _)| status.starts_with(class));
        of_class.map(|(_, count)| count).sum::<u64>()
    };
    // Requests for which this machine had no port or descriptor are not the target's failures.
    let local_failures = errors("no-resources");
    let requests = outcome.requests.issued.saturating_sub(local_failures);
    let unexpected = errors("status");
    let client_errors = statuses('4').min(unexpected);
    let server_errors = statuses('5').min(unexpected - client_errors);
    let wrong = (unexpected - client_errors - server_errors) + errors("assertion") + errors("capture");
    let ok = outcome.requests.ok;
    let transport = requests.saturating_sub(ok + client_errors + server_errors + wrong);
    let counts = Counts {
        requests,
        ok,
        late: late_after(within).min(ok),
        client_errors,
        server_errors,
        wrong,
        transport,
        received_bytes: outcome.bytes.received,
        content_bytes: outcome.bytes.content,
    };
    Probe {
        target: 0,
        elapsed_ns: outcome.elapsed_ns,
        counts,
        cause: cause(outcome, *tls_failure, counts.errors()),
        times: ResponseTimes::from_histogram(response),
        usage: None,
        certificate_expires_at: *certificate_expires_at,
    }
}

/// The most frequent error, or error status.
fn cause(outcome: &LoadOutcome, tls_failure: Option<TlsFailure>, errors: u64) -> Option<String> {
    if errors == 0 {
        return None;
    }
    let (kind, _) = outcome.errors.iter().max_by_key(|(_, count)| **count)?;
    if kind == "status" {
        let worst = outcome.statuses.iter().filter(|(status, _)| status.as_str() >= "400");
        return worst.max_by_key(|(_, count)| **count).map(|(status, _)| format!("status {status}"));
    }
    let term = match (kind.as_str(), tls_failure) {
        ("tls-expired", _) => "certificate expired",
        ("tls-unknown-authority", _) => "certificate not trusted",
        ("tls-wrong-host", _) => "certificate of another host",
        ("tls-bad-certificate", Some(TlsFailure::NotYetValid)) => "certificate not yet valid",
        ("tls-bad-certificate", _) => "certificate not valid",
        (kind, _) => kind,
    };
    Some(term.to_owned())
}
