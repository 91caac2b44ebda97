//! The specification of one trial, with every factor's level filled in.
//!
//! The plan creates it; the runner executes it. Values known only after a subject has started (its port, its folder)
//! remain as `${…}`, which the runner fills in.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Figure;

/// Identifies a trial of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialKey {
    /// From 1. Trials of a search have separate blocks.
    pub block: u32,
    /// Index of the combination of levels, in the order of the plan.
    pub combination: u32,
    /// Index of the trial among those of this combination in this block: 0, or 1 for the second one of the A/A pair.
    pub replicate: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TrialSpec {
    pub key: TrialKey,
    /// The level of each factor, by name, in the plan's order.
    pub levels: Vec<(String, String)>,
    /// The subjects on the paths of its workloads, each after those that it needs itself.
    pub subjects: Vec<SubjectSpec>,
    pub workloads: Vec<WorkloadSpec>,
    /// Actions before the trial, in this order: `subject.action`.
    pub resets: Vec<Reset>,
    /// Faults while the load runs, in this order.
    pub faults: Vec<Fault>,
    /// Duration of the load, unless a workload ends it by a number of requests.
    pub duration: Duration,
    /// The discarded beginning.
    pub warm_up: WarmUp,
    /// Pause before the trial.
    pub pause: Duration,
    /// Seed of all random choices of its load.
    pub seed: u64,
}

/// How the discarded beginning of a trial is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// Detected in its time series.
    Found,
    /// This long; the rest is checked for a steady state.
    Fixed(Duration),
    /// Nothing is discarded or checked.
    None,
}

impl WarmUp {
    /// The fixed length; 0 if there is none.
    #[must_use]
    pub const fn given(self) -> Duration {
        match self {
            Self::Fixed(length) => length,
            Self::Found | Self::None => Duration::ZERO,
        }
    }
}

/// When a subject is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Block,
    Trial,
    /// Only after it has died.
    Never,
}

/// A system under test.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectSpec {
    pub name: String,
    /// What to start, if anything.
    pub kind: SubjectKind,
    /// Where requests are sent, with `${…}`: `http://127.0.0.1:${port}`.
    pub url: String,
    /// Where its own counters are read (OpenMetrics or Prometheus text), with `${…}`.
    pub metrics_url: Option<String>,
    /// How readiness is detected.
    pub ready: Ready,
    /// When it is restarted.
    pub restart: Restart,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SubjectKind {
    /// One of breme's own servers: `breme ROLE ARGUMENTS`.
    Own {
        /// For example `site`.
        role: String,
        /// With `${…}`; the runner adds `--listen` and `--admin`, and `--admin-token-file` for a generated token.
        arguments: Vec<String>,
        /// Authorises changes through its admin address.
        token: AdminToken,
        process: ProcessSpec,
    },
    /// Any program.
    Command {
        /// Program and arguments, with `${…}`.
        command: Vec<String>,
        process: ProcessSpec,
    },
    /// Runs already, elsewhere.
    External,
}

/// The token that authorises changes through the admin address of one of breme's own servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminToken {
    /// Started without one: nothing can be changed.
    #[default]
    None,
    /// The runner generates a new one at each start.
    Drawn,
    /// Read from this file, which the experiment names, with `${…}`.
    File(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSpec {
    /// Files written to its folder before it starts: name → content, with `${…}`.
    pub files: BTreeMap<String, String>,
    /// Commands that must succeed before it starts, with `${…}`.
    pub prepare: Vec<Vec<String>>,
    /// Environment variables in addition to the laboratory's own, with `${…}`.
    pub environment: BTreeMap<String, String>,
    /// Names of the free ports that it needs: `${port}` is the one named `port`, `${port.NAME}` any other.
    pub ports: Vec<String>,
    pub cpus: Cpus,
    pub limits: ResourceLimits,
    /// The signal that requests it to exit (`TERM`, `QUIT`, …).
    pub stop_signal: Option<String>,
    /// How long it may take to exit before it is killed.
    pub stop_within: Option<Duration>,
}

/// The CPUs on which a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cpus {
    /// CPUs of its own if the machine has enough; with at least two, never the generator's.
    #[default]
    Auto,
    All,
    List(Vec<usize>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceLimits {
    /// CPUs (0.5: half of one), by cgroup.
    pub cpu: Option<f64>,
    /// Bytes of memory, by cgroup.
    pub memory_bytes: Option<u64>,
    /// Open files (RLIMIT_NOFILE).
    pub open_files: Option<u64>,
    /// Processes and threads, by cgroup (pids.max) where permitted, else RLIMIT_NPROC.
    pub processes: Option<u64>,
}

/// How the readiness of a subject is detected.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    pub check: ReadyCheck,
    /// Limit of the time until it is ready.
    pub within: Duration,
}

/// The sign of readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyCheck {
    /// Its port accepts connections.
    Port,
    /// A request for this path gets this status.
    Answer {
        /// For example `/health`.
        path: String,
        /// For example `200`.
        status: u16,
    },
    /// It prints a line that contains this text.
    Line(String),
}

/// An action on a subject before a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Reset {
    pub subject: String,
    /// Name of the action.
    pub name: String,
    pub action: ResetAction,
}

/// What a reset does.
#[derive(Clone, Debug, PartialEq)]
pub enum ResetAction {
    /// Restarts the subject.
    Restart,
    /// A request that must get a status from 200 to 399.
    Request {
        /// For example `POST`.
        method: String,
        /// With `${…}`; a path is relative to the subject.
        url: String,
        headers: Vec<(String, String)>,
    },
    /// A POST to the admin address of one of breme's own servers, with its token; the status must be from 200 to 299.
    Admin {
        /// For example `/cache/purge`.
        path: String,
        /// JSON.
        content: String,
    },
    /// A command that must succeed, with `${…}`.
    Command(Vec<String>),
}

/// An event that affects a subject while the load runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub action: FaultAction,
    pub subject: String,
    /// Words in the command lines of the affected processes; none: all processes of the subject.
    pub process: Option<String>,
    /// When, measured from the start of the window.
    pub at: Duration,
}

/// A kind of fault, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultAction {
    /// The processes are killed (SIGKILL).
    Kill,
    /// A killed subject is started again.
    Start,
    /// The processes are suspended.
    Freeze,
    /// They are resumed.
    Thaw,
    /// A link carries no bytes.
    Partition,
    /// It carries them again.
    Heal,
}

impl FaultAction {
    pub(crate) const ALL: [Self; 6] = [Self::Kill, Self::Start, Self::Freeze, Self::Thaw, Self::Partition, Self::Heal];

    /// The name in files and records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Start => "start",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Partition => "partition",
            Self::Heal => "heal",
        }
    }

    /// Writes what happens, and to what.
    pub(crate) fn write(self, subject: &str, process: Option<&str>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {subject}", self.name())?;
        process.map_or(Ok(()), |process| write!(formatter, " ({process})"))
    }
}

/// `kill node2`, `freeze cluster (--name n2)`.
impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.action.write(&self.subject, self.process.as_deref(), formatter)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    pub name: String,
    /// Name of the path (or of the subject) that its requests take.
    pub path: String,
    /// The subject at the end of that path.
    pub subject: String,
    /// Where the requests go, with `${SUBJECT.url}`, followed by the request target.
    pub url: String,
    /// It runs as long as the others and does not end the trial.
    pub is_background: bool,
    /// Ends after this number of requests.
    pub requests: Option<u64>,
    /// The time over which a schedule sends that number.
    pub spread: Option<Duration>,
    /// Ends after this time.
    pub duration: Option<Duration>,
    /// Users of a closed loop, or connections of an open one. 0: it does not run in this trial.
    pub connections: u64,
    /// It is an open loop: requests have due times.
    pub is_open: bool,
    /// Mean think time of a closed loop's user.
    pub think_mean: Duration,
    /// All other arguments of `breme load`, with `${…}`; `${folder}` is where `files` are.
    pub arguments: Vec<String>,
    /// A foreign generator instead of `breme load`.
    pub command: Option<GeneratorCommand>,
    /// Files that the arguments name: name → content, with `${…}`.
    pub files: BTreeMap<String, String>,
    /// The delay of its start after the others, or after the end of the workload in `after`.
    pub start_after: Duration,
    /// The workload that must have ended before it starts.
    pub after: Option<String>,
    /// Its rate, if the arguments of `breme load` do not contain it.
    pub rate: Option<LoadRate>,
    /// The CPUs on which the generator runs.
    pub cpus: Cpus,
}

/// Requests per second of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadRate {
    PerSecond(f64),
    /// A share of the rate achieved by the workload in `after`.
    ShareOfPredecessor(f64),
}

/// A foreign load generator.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorCommand {
    /// Program and arguments, with `${…}`.
    pub command: Vec<String>,
    /// Figures in its output.
    pub figures: Vec<Figure>,
    /// Limit of its run time; none: somewhat more than its duration.
    pub within: Option<Duration>,
    /// The counter of its subject that must increase by the number of its responses.
    pub server_count: Option<String>,
}

impl WorkloadSpec {
    /// All texts that may contain `${…}`.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let command = self.command.iter().flat_map(|command| &command.command);
        self.arguments.iter().chain(command).chain(self.files.values()).chain([&self.url]).map(String::as_str)
    }
}

impl SubjectKind {
    /// The process settings, if it is started.
    #[must_use]
    pub fn process(&self) -> Option<&ProcessSpec> {
        match self {
            Self::Own { process, .. } | Self::Command { process, .. } => Some(process),
            Self::External => None,
        }
    }
}

impl SubjectSpec {
    /// All texts that may contain `${…}`.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        let mut texts = vec![self.url.as_str()];
        texts.extend(self.metrics_url.as_deref());
        match &self.kind {
            SubjectKind::Own { arguments: words, .. } | SubjectKind::Command { command: words, .. } => {
                texts.extend(words.iter().map(String::as_str));
            }
            SubjectKind::External => {}
        }
        if let Some(process) = self.kind.process() {
            texts.extend(process.files.values().chain(process.environment.values()).map(String::as_str));
            texts.extend(process.prepare.iter().flatten().map(String::as_str));
        }
        texts
    }
}

impl ResetAction {
    pub(crate) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Restart | Self::Admin { .. } => Vec::new(),
            Self::Request { url, headers, .. } => {
                let values = headers.iter().map(|(_, value)| value.as_str());
                values.chain([url.as_str()]).collect()
            }
            Self::Command(command) => command.iter().map(String::as_str).collect(),
        }
    }
}
