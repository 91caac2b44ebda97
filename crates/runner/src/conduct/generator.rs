//! A generator: `breme load` or a foreign one, in a process of its own, so that it has its own CPUs, is watched by the
//! same instruments as the subjects, and can fail alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use breme_experiment::record::{AvailabilityRecord, Distribution, SERIES_MAX, WarmUpRecord, WorkloadRecord};
use breme_experiment::trial::{GeneratorCommand, LoadRate, TrialSpec, WarmUp, WorkloadSpec};
use breme_load_result::LoadOutcome;
use breme_subject::{
    ExitInfo, FillError, FolderError, Launcher, PlaceholderNames, SpawnError, SpawnSpec, StopError, SupervisedProcess,
    write_file,
};
use thiserror::Error;

use super::faults::LoadStart;
use super::foreign_generator::{self, FiguresError};
use super::load_report;
use super::window::{self, LogError, PartMeasurements, TrialMeasurements};

/// Intervals per trial that are needed to find its steady part.
const INTERVALS: u32 = 100;
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_secs(1);
const RESULT_BYTES_MAX: u64 = 64 << 20;
/// Time limit of a generator to exit after the stop signal: it waits for requests in progress.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Exit codes with a result: success, no responses, an unexpected response.
const RESULT_CODES: [i32; 3] = [0, 1, 3];

/// From this rate on, a fraction of a rate is rounded to an integer.
const RATE_WHOLE_MIN: f64 = 100.0;

/// Flags of `breme load` that change the load on purpose.
const CHANGING: [&str; 3] = ["--stages=", "--ramp=", "--over="];

/// Why a load could not be started.
#[derive(Debug, Error)]
pub(super) enum LoadError {
    #[error(transparent)]
    Text(#[from] FillError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("its rate is a share of that of `{predecessor}`, which has none")]
    NoRate { predecessor: String },
}

/// Why a load has no result.
#[derive(Debug, Error)]
pub(super) enum ResultError {
    #[error("the generator {0}; it has no result")]
    NoResult(ExitInfo),
    #[error("the generator {0}, and could not begin")]
    NotBegun(ExitInfo),
    #[error("the generator {0}")]
    Failed(ExitInfo),
    #[error("the generator's result {path}: {problem}")]
    Report { path: PathBuf, problem: ReportProblem },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Figures(#[from] FiguresError),
}

#[derive(Debug, Error)]
pub(super) enum ReportProblem {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("has {0} bytes; at most {max} are read", max = RESULT_BYTES_MAX)]
    TooLong(u64),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A running load.
#[derive(Debug)]
pub(super) struct Generator {
    workload: WorkloadSpec,
    process: SupervisedProcess,
    folder: PathBuf,
    warm_up: WarmUp,
    has_faults: bool,
    started: Started,
}

/// The start of a generator, on three clocks.
#[derive(Clone, Copy, Debug)]
struct Started {
    unix_s: u64,
    monotonic_ns: u64,
    at: Instant,
}

#[derive(Clone, Copy)]
pub(super) struct GeneratorContext<'a> {
    pub(super) launcher: &'a Launcher,
    /// The trial's folder, absolute, since it is the generator's working directory.
    pub(super) folder: &'a Path,
    pub(super) cpus: &'a [usize],
    /// Placeholders of the subjects.
    pub(super) names: &'a PlaceholderNames,
    /// Requests per second reached by the preceding workload, if it follows one.
    pub(super) rate_before: Option<f64>,
}

impl Generator {
    pub(super) fn start(
        trial: &TrialSpec,
        workload: &WorkloadSpec,
        context: GeneratorContext<'_>,
    ) -> Result<Self, LoadError> {
        let warm_up = warm_up(trial, workload);
        let folder = context.folder.to_owned();
        let mut names = context.names.clone();
        names.set("folder", folder.display().to_string());
        let mut workload = workload.clone();
        workload.url = names.fill(&workload.url, "its URL")?;
        workload.arguments = names.fill_all(&workload.arguments, "its arguments")?;
        let rate = rate(&workload, context.rate_before)?;
        if workload.command.is_some() {
            foreign_generator::set_names(&mut names, trial, &workload, rate);
        } else {
            workload.arguments.extend(rate.map(|rate| format!("--rate={rate}")));
        }
        for (name, content) in &workload.files {
            write_file(&folder, name, &names.fill(content, name)?)?;
        }
        let (command, output, standard_output) = match &workload.command {
            Some(foreign) => (names.fill_all(&foreign.command, "its command")?, output(&folder, &workload), None),
            None => {
                let mut command = vec![context.launcher.own_program.display().to_string(), "load".to_owned()];
                command.extend(arguments(trial, &workload));
                let result = folder.join(format!("{}.json", workload.name));
                (command, folder.join(format!("{}.err", workload.name)), Some(result))
            }
        };
        let order = SpawnSpec {
            name: workload.name.clone(),
            command,
            folder: folder.clone(),
            output,
            standard_output,
            cpus: context.cpus.to_vec(),
            ..SpawnSpec::default()
        };
        let process = context.launcher.keeper.start(&order, &context.launcher.hierarchy)?;
        Ok(Self { workload, process, folder, warm_up, has_faults: !trial.faults.is_empty(), started: Started::now() })
    }

    pub(super) fn workload(&self) -> &WorkloadSpec {
        &self.workload
    }

    pub(super) fn process(&self) -> &SupervisedProcess {
        &self.process
    }

    /// When its load begins. A foreign generator is assumed to begin with its process.
    pub(super) fn load_start(&self) -> LoadStart {
        match &self.workload.command {
            Some(_) => LoadStart::At(self.started.at),
            None => LoadStart::InLog(self.log()),
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.hlog", self.workload.name))
    }

    /// Time since its start.
    pub(super) fn running_for(&self) -> Duration {
        self.started.at.elapsed()
    }

    pub(super) fn ended(&self) -> Option<ExitInfo> {
        self.process.ended()
    }

    pub(super) fn wait_ended(&self, timeout: Duration) -> Option<ExitInfo> {
        self.process.wait_ended(timeout)
    }

    /// Stops it, if it is still running; its result is complete.
    pub(super) fn stop(&mut self) -> Result<ExitInfo, StopError> {
        match self.process.ended() {
            Some(ending) => Ok(ending),
            None => self.process.stop(rustix::process::Signal::TERM.as_raw(), STOP_WITHIN),
        }
    }

    /// Reads its result after its exit. `fault_ns`: when the first fault was injected, on the monotonic clock.
    pub(super) fn result(&self, ending: &ExitInfo, fault_ns: Option<u64>) -> Result<GeneratorRun, ResultError> {
        if let Some(command) = &self.workload.command {
            return self.foreign_result(command, ending);
        }
        if !ending.code.is_some_and(|code| RESULT_CODES.contains(&code)) {
            return Err(ResultError::NoResult(ending.clone()));
        }
        let path = self.folder.join(format!("{}.json", self.workload.name));
        if fs::metadata(&path).is_ok_and(|found| found.len() == 0) {
            return Err(ResultError::NotBegun(ending.clone()));
        }
        let outcome = read(&path)?;
        let changes = |argument: &String| CHANGING.iter().any(|flag| argument.starts_with(flag));
        let is_changing = self.workload.arguments.iter().any(changes);
        let trial = window::Trial {
            rows: &outcome.series,
            end_s: outcome.elapsed_ns as f64 / 1e9,
            warm_up: self.warm_up,
            is_changing,
            has_faults: self.has_faults,
            is_open: self.workload.is_open,
        };
        let measured = window::read(&self.log(), trial)?;
        let record = WorkloadRecord { is_changing, ..record(&self.workload, &outcome, measured, fault_ns) };
        Ok(GeneratorRun {
            record,
            started_unix_ms: outcome.started_at_unix_s * 1000,
            started_monotonic_ns: outcome.started_at_monotonic_ns,
            elapsed_s: outcome.elapsed_ns as f64 / 1e9,
            invalid_reasons: outcome.invalid_reasons,
            notes: outcome.notes,
        })
    }
}

impl Generator {
    fn foreign_result(&self, command: &GeneratorCommand, ending: &ExitInfo) -> Result<GeneratorRun, ResultError> {
        let elapsed = self.started.at.elapsed();
        if !ending.is_success() {
            return Err(ResultError::Failed(ending.clone()));
        }
        let figures = foreign_generator::figures(command, &output(&self.folder, &self.workload))?;
        Ok(GeneratorRun {
            record: foreign_generator::record(&self.workload, figures, elapsed),
            started_unix_ms: self.started.unix_s * 1000,
            started_monotonic_ns: self.started.monotonic_ns,
            elapsed_s: elapsed.as_secs_f64(),
            invalid_reasons: Vec::new(),
            notes: Vec::new(),
        })
    }
}

impl Started {
    fn now() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix_s: unix.as_secs(), monotonic_ns: breme_sys::monotonic_ns(), at: Instant::now() }
    }
}

/// Requests per second, if the workload sets them. Rounded to an integer where the error is not measurable: some
/// generators accept nothing else.
fn rate(workload: &WorkloadSpec, before: Option<f64>) -> Result<Option<f64>, LoadError> {
    let whole = |rate: f64| if rate >= RATE_WHOLE_MIN { rate.round() } else { rate };
    match (workload.rate, before) {
        (None, _) => Ok(None),
        (Some(LoadRate::PerSecond(rate)), _) => Ok(Some(rate)),
        (Some(LoadRate::ShareOfPredecessor(share)), Some(before)) if before > 0.0 => Ok(Some(whole(share * before))),
        (Some(LoadRate::ShareOfPredecessor(_)), _) => {
            Err(LoadError::NoRate { predecessor: workload.after.clone().unwrap_or_default() })
        }
    }
}

/// The captured output of a foreign generator.
fn output(folder: &Path, workload: &WorkloadSpec) -> PathBuf {
    folder.join(format!("{}.out", workload.name))
}

/// A run of a generator, with its result.
#[derive(Debug)]
pub(super) struct GeneratorRun {
    pub(super) record: WorkloadRecord,
    pub(super) started_unix_ms: u64,
    pub(super) started_monotonic_ns: u64,
    pub(super) elapsed_s: f64,
    pub(super) invalid_reasons: Vec<String>,
    pub(super) notes: Vec<String>,
}

pub(crate) fn arguments(trial: &TrialSpec, workload: &WorkloadSpec) -> Vec<String> {
    let mut arguments = workload.arguments.clone();
    if !workload.url.is_empty() {
        arguments.push(workload.url.clone());
    }
    arguments.extend(["--connections".to_owned(), workload.connections.to_string()]);
    let length = length(trial, workload);
    match (workload.requests, workload.is_background) {
        (Some(requests), _) => arguments.extend(["--requests".to_owned(), requests.to_string()]),
        (None, true) => arguments.push("--until-stopped".to_owned()),
        (None, false) => arguments.extend(["--duration".to_owned(), format!("{}ms", length.as_millis())]),
    }
    let warm_up = warm_up(trial, workload);
    if let WarmUp::Fixed(length) = warm_up {
        arguments.extend(["--gaps-after".to_owned(), format!("{}ms", length.as_millis())]);
    }
    // The log, which begins with the first interval, says when the load has begun, before the first fault is due.
    let first_fault = trial.faults.first().map_or(Duration::MAX, |fault| warm_up.given() + fault.at);
    let interval = (length / INTERVALS).min(first_fault / 2).clamp(INTERVAL_MIN, INTERVAL_MAX);
    arguments.extend(["--interval".to_owned(), format!("{}ms", interval.as_millis())]);
    arguments.extend(["--seed".to_owned(), trial.seed.to_string()]);
    arguments.extend(["--json", "--quiet", "--output"].map(str::to_owned));
    arguments.push(format!("{}.hlog", workload.name));
    arguments
}

/// The warm-up to cut off. A counted load that starts after a background load has none: the subjects are warm by then.
pub(super) fn warm_up(trial: &TrialSpec, workload: &WorkloadSpec) -> WarmUp {
    let is_behind = |other: &WorkloadSpec| other.is_background && other.connections > 0;
    let is_warm = workload.requests.is_some() && !workload.is_background && trial.workloads.iter().any(is_behind);
    if is_warm { WarmUp::None } else { trial.warm_up }
}

/// How long its load runs if requests do not end it: a configured warm-up is added to the measured time.
pub(super) fn length(trial: &TrialSpec, workload: &WorkloadSpec) -> Duration {
    workload.duration.unwrap_or(trial.duration) + trial.warm_up.given()
}

fn read(path: &Path) -> Result<LoadOutcome, ResultError> {
    read_report(path).map_err(|problem| ResultError::Report { path: path.to_owned(), problem })
}

fn read_report(path: &Path) -> Result<LoadOutcome, ReportProblem> {
    let size = fs::metadata(path)?.len();
    if size > RESULT_BYTES_MAX {
        return Err(ReportProblem::TooLong(size));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn record(
    workload: &WorkloadSpec,
    outcome: &LoadOutcome,
    measured: TrialMeasurements,
    fault_ns: Option<u64>,
) -> WorkloadRecord {
    let whole = WorkloadRecord::from_load(outcome);
    let since_start = |fault_ns: u64| fault_ns.saturating_sub(outcome.started_at_monotonic_ns);
    let recovery_ns =
        fault_ns.and_then(|fault_ns| load_report::recovery_ns(&outcome.availability, since_start(fault_ns)));
    let counted = measured.counted;
    let achieved_rate = if counted.length_s > 0.0 { counted.answered as f64 / counted.length_s } else { 0.0 };
    WorkloadRecord {
        path: workload.path.clone(),
        subject: workload.subject.clone(),
        is_background: workload.is_background,
        connections: workload.connections,
        pipeline: outcome.settings.pipeline_depth,
        think_mean_s: workload.think_mean.as_secs_f64(),
        held_mean_s: Some(counted.held_mean_ns / 1e9),
        held_max_s: counted.held_max_ns as f64 / 1e9,
        window_s: counted.length_s,
        window_bytes: Some(counted.received_bytes),
        window_errors: Some(counted.errors),
        steady: measured.steady,
        warm_up: measured.warm_up.as_ref().map(|part| Box::new(warm_up_record(part))),
        achieved_rate,
        offered_rate: workload.is_open.then_some(outcome.offered_rate),
        response: Distribution::from_histogram(&counted.response),
        service: Distribution::from_histogram(&counted.service),
        connect: Distribution::from_histogram(&counted.connect),
        lateness_p99_ns: workload.is_open.then_some(outcome.lateness.p99_ns),
        generator_cpu_share: outcome.generator.cpu_share.unwrap_or(0.0),
        series: load_report::series(&outcome.series, SERIES_MAX),
        availability: whole.availability.map(|gaps| AvailabilityRecord { recovery_ns, ..gaps }),
        ..whole
    }
}

fn warm_up_record(part: &PartMeasurements) -> WarmUpRecord {
    WarmUpRecord {
        length_s: part.length_s,
        answered: part.answered,
        errors: part.errors,
        received_bytes: part.received_bytes,
        held_mean_s: part.held_mean_ns / 1e9,
        held_max_s: part.held_max_ns as f64 / 1e9,
        response: Distribution::from_histogram(&part.response),
        service: Distribution::from_histogram(&part.service),
        connect: Distribution::from_histogram(&part.connect),
    }
}
