//! A load without output, for other commands: the same flags, plan, driver and result.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use breme_command::driver::DriverChoice;
use breme_command::failure::{Failure, in_a_line};
use breme_command::tls::ClientFiles;
use breme_driver::{Clock, DriverKind, Stopper};
use breme_load::{Generator, Run};
use breme_load_plan::{Plan, Settings};
use breme_load_result::LoadOutcome;
use breme_node::TlsFailure;
use breme_stats::Histogram;
use clap::Parser;
use parking_lot::Mutex;

use super::arguments::{LoadArgs, Peers};
use super::drive::{descriptors, internal_error, start};
use super::timed_call::TimedCall;
use super::tls;

/// The flags without a subcommand.
#[derive(Debug, Parser)]
#[command(name = "load", no_binary_name = true)]
struct LoadCommand {
    #[command(flatten)]
    args: LoadArgs,
}

/// Part of its time limit, one in this many, that a request must have; a failure in less says nothing of the target.
const TIMEOUT_PART: u32 = 2;

/// A load that can be run repeatedly.
pub struct Measurement {
    args: Arc<LoadArgs>,
    settings: Settings,
    /// That of the settings. A run has a plan of its own, with the time that is left for it.
    plan: Arc<Plan>,
    tls_files: ClientFiles,
    resolution: TimedCall<Result<Peers, Failure>>,
}

impl fmt::Debug for Measurement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Measurement").field("settings", &self.settings).finish_non_exhaustive()
    }
}

pub struct MeasurementResult {
    pub outcome: LoadOutcome,
    /// Response times of all requests.
    pub response: Histogram,
    /// Number of expected responses slower than a limit.
    pub late_after: Box<dyn Fn(Duration) -> u64>,
    /// The first TLS failure.
    pub tls_failure: Option<TlsFailure>,
    /// Expiry of the certificate that the server presented in the first complete handshake, in Unix seconds; with
    /// several hosts, the earliest one.
    pub certificate_expires_at: Option<u64>,
}

/// Resolved once, so that a fallback is reported once and all intervals use the same driver.
fn driver(choice: DriverChoice) -> DriverKind {
    static AUTO: OnceLock<DriverKind> = OnceLock::new();
    match choice {
        DriverChoice::Named(kind) => kind,
        DriverChoice::Auto => *AUTO.get_or_init(|| choice.resolve("watch")),
    }
}

/// Why a load did not run.
#[derive(Debug)]
pub enum MeasurementError {
    /// The target's name has no address.
    Unresolved(String),
    /// This machine cannot run it; nothing is known of the target.
    Local(String),
}

impl MeasurementError {
    fn local(failure: Failure) -> Self {
        Self::Local(failure.message)
    }

    /// A resolver without a descriptor fails as for an unknown name.
    fn from_resolution(failure: Failure) -> Self {
        match std::fs::File::open("/dev/null") {
            Ok(_) => Self::Unresolved(failure.message),
            Err(error) => Self::Local(format!("no name can be resolved: {error}; raise the limit with ulimit -n")),
        }
    }
}

/// Aborts all running loads, and those that start later.
#[derive(Debug, Default)]
pub struct Cancellation {
    is_set: AtomicBool,
    stoppers: Mutex<Vec<Stopper>>,
}

impl Cancellation {
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Aborts at once, without a result.
    pub fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        self.stoppers.lock().iter().for_each(Stopper::abort);
    }

    fn add(&self, stopper: Stopper) {
        self.stoppers.lock().push(stopper);
        // It may have been set before `stopper` was added.
        if self.is_set() {
            self.set();
        }
    }

    /// Drops the stoppers of loads that have ended.
    pub fn clear(&self) {
        self.stoppers.lock().clear();
    }
}

fn plan(args: &LoadArgs, settings: Settings) -> Result<Plan, Failure> {
    Plan::new(settings).map_err(|error| Failure::usage(args.locate(&error)))
}

impl Measurement {
    /// Parses arguments of `breme load`.
    pub fn new(arguments: &[String]) -> Result<Self, Failure> {
        let line = LoadCommand::try_parse_from(arguments).map_err(|error| Failure::usage(in_a_line(&error)))?;
        let settings = line.args.settings()?;
        let plan = Arc::new(plan(&line.args, settings.clone())?);
        let tls_files = tls::flags(&line.args).read()?;
        tls::clients(&line.args, &tls_files, plan.hosts())?;
        Ok(Self { args: Arc::new(line.args), settings, plan, tls_files, resolution: TimedCall::default() })
    }

    pub fn connections(&self) -> usize {
        self.settings.connections
    }

    /// Connections that may be open at the same time.
    pub fn descriptors(&self) -> u64 {
        descriptors(&self.plan)
    }

    /// The addresses, within the time limit of a request: a resolver may take half a minute to give up.
    fn resolve(&self, deadline: Instant) -> Result<Peers, MeasurementError> {
        let (args, plan) = (Arc::clone(&self.args), Arc::clone(&self.plan));
        let within = self.settings.timeout.min(deadline.saturating_duration_since(Instant::now()));
        let peers = self
            .resolution
            .make(within, move || args.connection.resolve(&plan))
            .map_err(|error| MeasurementError::Local(format!("cannot start a thread: {error}")))?;
        let late = || MeasurementError::Unresolved(String::from("the name resolver did not answer in time"));
        peers.ok_or_else(late)?.map_err(MeasurementError::from_resolution)
    }

    /// Time limit of a request that begins now, and of the resolution before it.
    fn timeout(&self, deadline: Instant) -> Duration {
        let left = deadline.saturating_duration_since(Instant::now());
        left.saturating_sub(self.settings.duration.unwrap_or_default()).min(self.settings.timeout)
    }

    fn ensure_time(&self, deadline: Instant) -> Result<(), MeasurementError> {
        if self.timeout(deadline) < self.settings.timeout / TIMEOUT_PART {
            let problem = "the measurement began too late; this machine was busy or suspended";
            return Err(MeasurementError::Local(String::from(problem)));
        }
        Ok(())
    }

    /// What is left of the time after the resolution.
    fn rest(&self, deadline: Instant) -> Result<Settings, MeasurementError> {
        let timeout = self.timeout(deadline);
        if timeout.is_zero() {
            let problem = "the name resolver left no time for a request";
            return Err(MeasurementError::Unresolved(String::from(problem)));
        }
        Ok(Settings { timeout, ..self.settings.clone() })
    }

    /// Longest time of a run; none if only the number of requests ends it.
    pub fn longest(&self) -> Option<Duration> {
        match (self.settings.duration, self.settings.requests) {
            (Some(duration), _) => Some(duration.saturating_add(self.settings.timeout)),
            (None, Some(requests)) if requests <= self.settings.connections as u64 => Some(self.settings.timeout),
            _ => None,
        }
    }

    /// Ends at the `deadline`, if there is a [longest](Self::longest) time.
    pub fn run(&self, stop: &Cancellation, deadline: Instant) -> Result<MeasurementResult, MeasurementError> {
        self.ensure_time(deadline)?;
        let Peers { addresses, unix_sockets } = self.resolve(deadline)?;
        let settings = self.rest(deadline)?;
        let plan = plan(&self.args, settings).map_err(MeasurementError::local)?;
        // A resumed session of an earlier run would hide that the certificate has been replaced or has expired.
        let tls = tls::clients(&self.args, &self.tls_files, plan.hosts()).map_err(MeasurementError::local)?;
        let threads = self.args.thread_count(&plan);
        let clock = Clock::start();
        let run = Arc::new(Run::new(plan, addresses, threads, clock.wall_clock()));
        let running = start(&run, &self.args, driver(self.args.driver), (&tls, unix_sockets), clock)
            .map_err(|error| MeasurementError::Local(error.to_string()))?;
        stop.add(running.stopper());
        let (mut shards, generator) =
            running.join().map_err(|panic| MeasurementError::Local(internal_error(&panic)))?;
        // Other loads run in this process at the same time.
        let generator = Generator { process_cpu: None, interrupted: stop.is_set(), ..generator };
        let outcome = run.outcome(&mut shards, &generator);
        let response = run.response_histogram();
        Ok(MeasurementResult {
            outcome,
            response,
            tls_failure: run.tls_failure(),
            certificate_expires_at: tls.iter().filter_map(|client| client.certificate_expires_at()).min(),
            late_after: Box::new(move |limit| run.late(limit)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(url: &str) -> Measurement {
        Measurement::new(&["--requests=1", "--connections=1", "--timeout=50ms", url].map(String::from)).unwrap()
    }

    fn problem(measured: Result<MeasurementResult, MeasurementError>) -> String {
        match measured {
            Err(MeasurementError::Unresolved(problem)) => problem,
            Err(MeasurementError::Local(problem)) => panic!("{problem}"),
            Ok(_) => panic!("it has a result"),
        }
    }

    #[test]
    fn a_silent_resolver_costs_no_more_than_the_time_limit_of_a_request() {
        let measurement = measurement("http://127.0.0.1:9/");
        let (release, released) = std::sync::mpsc::channel::<()>();
        let silent = move || {
            let _ = released.recv();
            Err(Failure::run("late"))
        };
        assert!(measurement.resolution.make(Duration::ZERO, silent).unwrap().is_none());
        let far = Instant::now() + Duration::from_secs(3_600);
        let problem = problem(measurement.run(&Cancellation::default(), far));
        assert_eq!(problem, "the name resolver did not answer in time");
        drop(release);
    }

    #[test]
    fn a_late_start_tells_nothing_of_the_target() {
        let measured = measurement("http://127.0.0.1:9/").run(&Cancellation::default(), Instant::now());
        assert!(matches!(measured, Err(MeasurementError::Local(problem)) if problem.contains("began too late")));
    }

    #[test]
    fn the_resolution_counts_to_the_time_of_a_measurement() {
        let measurement = measurement("http://127.0.0.1:9/");
        let left = |millis| measurement.rest(Instant::now() + Duration::from_millis(millis));
        assert_eq!(left(3_600_000).unwrap().timeout, Duration::from_millis(50));
        assert!(left(20).unwrap().timeout <= Duration::from_millis(20));
        assert!(matches!(left(0), Err(MeasurementError::Unresolved(_))));
    }
}
