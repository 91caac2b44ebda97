//! What one trial needs, with every factor's level filled in.
//!
//! The plan makes these; the runner carries them out. What is known only when a subject has been started (its port, its
//! folder) still stands in the texts, as `${…}`, and the runner fills it in.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Figure;

/// Which trial of a run it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialKey {
    /// The block, from 1. Trials of a search have blocks of their own.
    pub block: u32,
    /// The number of the combination of levels, from 0, in the order of the plan.
    pub combination: u32,
    /// Which trial of this combination in this block: 0, or 1 for the second one of the A/A pair.
    pub replicate: u32,
}

/// One trial: these subjects, this load.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSpec {
    /// Which one it is.
    pub key: TrialKey,
    /// The level of each factor, by the factor's name, in the plan's order.
    pub levels: Vec<(String, String)>,
    /// The subjects that the paths of its workloads need, each after those that it needs itself.
    pub subjects: Vec<SubjectSpec>,
    /// The workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// What is done before it, in this order: `subject.action`.
    pub resets: Vec<Reset>,
    /// What happens to subjects while the load runs, in this order.
    pub faults: Vec<Fault>,
    /// How long the load runs, where no workload ends it by a number of requests.
    pub duration: Duration,
    /// What is cut off at its beginning.
    pub warm_up: WarmUp,
    /// Rest before it.
    pub pause: Duration,
    /// The seed of everything random in its load.
    pub seed: u64,
}

/// How the beginning of a trial is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// Found in its time series.
    Found,
    /// So long, and what follows is checked for a steady state.
    Fixed(Duration),
    /// Nothing is left out and nothing is checked.
    None,
}

impl WarmUp {
    /// How long it is, where that is given.
    #[must_use]
    pub const fn given(self) -> Duration {
        match self {
            Self::Fixed(length) => length,
            Self::Found | Self::None => Duration::ZERO,
        }
    }
}

/// When a subject is started anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// For each block.
    Block,
    /// For each trial.
    Trial,
    /// Only when it has died.
    Never,
}

/// A system under test.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectSpec {
    /// Its name.
    pub name: String,
    /// What is to be started, if anything.
    pub kind: SubjectKind,
    /// Where it is asked, with `${…}`: `http://127.0.0.1:${port}`.
    pub url: String,
    /// Where its own counters are read (OpenMetrics or Prometheus text), with `${…}`.
    pub metrics_url: Option<String>,
    /// How it is known to be ready.
    pub ready: Ready,
    /// When it is started anew.
    pub restart: Restart,
}

/// What a subject is.
#[derive(Clone, Debug, PartialEq)]
pub enum SubjectKind {
    /// One of this program's own servers: `breme ROLE ARGUMENTS`.
    Own {
        /// `site`, …
        role: String,
        /// Its arguments, with `${…}`; the runner adds `--listen` and `--admin`, and `--admin-token-file` for a token
        /// that it draws.
        arguments: Vec<String>,
        /// What opens its admin address for changes.
        token: AdminToken,
        /// How it is run.
        process: ProcessSpec,
    },
    /// Any program.
    Command {
        /// Program and arguments, with `${…}`.
        command: Vec<String>,
        /// How it is run.
        process: ProcessSpec,
    },
    /// It runs already, somewhere.
    External,
}

/// The token that must be shown at the admin address of one of our own servers, to change something there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminToken {
    /// It is started without one: nothing can be changed.
    #[default]
    None,
    /// The runner draws another one for each start.
    Drawn,
    /// It stands in this file, which the experiment names, with `${…}`.
    File(String),
}

/// How a process is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSpec {
    /// Files that are written into its folder before it starts: name → content, with `${…}`.
    pub files: BTreeMap<String, String>,
    /// Commands that must have ended well before it starts, with `${…}`.
    pub prepare: Vec<Vec<String>>,
    /// Environment, beside the laboratory's own, with `${…}`.
    pub environment: BTreeMap<String, String>,
    /// Names of free ports that it wants: `${port}` is that of the name `port`, `${port.NAME}` that of another.
    pub ports: Vec<String>,
    /// On which processors it runs.
    pub cpus: Cpus,
    /// What it may use.
    pub limits: ResourceLimits,
    /// The signal that asks it to end (`TERM`, `QUIT`, …).
    pub stop_signal: Option<String>,
    /// How long it may take to end, before it is killed.
    pub stop_within: Option<Duration>,
}

/// On which processors a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cpus {
    /// On its own ones where the machine has enough; never on the generator's, where it has two.
    #[default]
    Auto,
    /// On all.
    All,
    /// On these.
    List(Vec<usize>),
}

/// What a process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceLimits {
    /// Processors (0.5: half of one), by cgroup.
    pub cpu: Option<f64>,
    /// Bytes of memory, by cgroup.
    pub memory_bytes: Option<u64>,
    /// Open files (RLIMIT_NOFILE).
    pub open_files: Option<u64>,
    /// Processes and threads, by cgroup (pids.max) where permitted, else RLIMIT_NPROC.
    pub processes: Option<u64>,
}

/// How a subject is known to be ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// What must be seen.
    pub check: ReadyCheck,
    /// Within this time.
    pub within: Duration,
}

/// What must be seen of a subject that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyCheck {
    /// Its port accepts connections.
    Port,
    /// It answers this path with this status.
    Answer {
        /// `/health`
        path: String,
        /// `200`
        status: u16,
    },
    /// It prints a line that holds this text.
    Line(String),
}

/// What is done to a subject before a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Reset {
    /// Whose.
    pub subject: String,
    /// The name of the action.
    pub name: String,
    /// What it is.
    pub action: ResetAction,
}

/// What a reset does.
#[derive(Clone, Debug, PartialEq)]
pub enum ResetAction {
    /// The subject is started anew.
    Restart,
    /// A request that must be answered with a status from 200 to 399.
    Request {
        /// `POST`
        method: String,
        /// With `${…}`; a path is the subject's own.
        url: String,
        /// Fields.
        headers: Vec<(String, String)>,
    },
    /// A POST to the admin address of one of our own servers, with its token; the answer's status must be from 200
    /// to 299.
    Admin {
        /// `/cache/purge`
        path: String,
        /// JSON.
        content: String,
    },
    /// A command that must end well, with `${…}`.
    Command(Vec<String>),
}

/// What happens to a subject while the load runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is.
    pub action: FaultAction,
    /// The subject.
    pub subject: String,
    /// Words of the command lines of those processes that it happens to; none: to all of the subject.
    pub process: Option<String>,
    /// When, from the beginning of what is measured.
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
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Kill, Self::Start, Self::Freeze, Self::Thaw, Self::Partition, Self::Heal];

    /// As files and records have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Start => "start",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Partition => "partition",
            Self::Heal => "heal",
        }
    }

    /// What happens, and to what.
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

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// Its name.
    pub name: String,
    /// The name of the path (or of the subject) that its requests take.
    pub path: String,
    /// The subject to which that leads.
    pub subject: String,
    /// Where the requests go, with `${SUBJECT.url}`, and the request's own target behind it.
    pub url: String,
    /// It runs for as long as the others do, and does not end the trial.
    pub is_background: bool,
    /// Ends by this number of requests.
    pub requests: Option<u64>,
    /// The time over which a schedule sends that number.
    pub spread: Option<Duration>,
    /// Ends after this time.
    pub duration: Option<Duration>,
    /// Users of a closed loop, or connections of an open one. 0: it does not run in this trial.
    pub connections: u64,
    /// It is an open loop: there are due instants beside the answers.
    pub is_open: bool,
    /// Mean time to think of a closed loop's user.
    pub think_mean: Duration,
    /// The arguments of `breme load` that say all the rest, with `${…}`; `${folder}` is where `files` are.
    pub arguments: Vec<String>,
    /// Another generator, instead of `breme load`.
    pub command: Option<GeneratorCommand>,
    /// Files that the arguments name: name → content, with `${…}`.
    pub files: BTreeMap<String, String>,
    /// It starts so long after the others, or after the end of the workload in `after`.
    pub start_after: Duration,
    /// The workload that must have ended before it starts.
    pub after: Option<String>,
    /// Its rate, where the arguments of `breme load` do not have it.
    pub rate: Option<LoadRate>,
    /// On which processors the generator runs.
    pub cpus: Cpus,
}

/// Requests per second of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadRate {
    /// So many.
    PerSecond(f64),
    /// A share of the rate that the workload in `after` has reached.
    ShareOfPredecessor(f64),
}

/// A foreign generator.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorCommand {
    /// Program and arguments, with `${…}`.
    pub command: Vec<String>,
    /// What its output says.
    pub figures: Vec<Figure>,
    /// How long it may take; none: somewhat longer than its duration.
    pub within: Option<Duration>,
    /// The counter of its subject that must grow by the number of its responses.
    pub server_count: Option<String>,
}

impl WorkloadSpec {
    /// All texts that may hold `${…}`.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let command = self.command.iter().flat_map(|command| &command.command);
        self.arguments.iter().chain(command).chain(self.files.values()).chain([&self.url]).map(String::as_str)
    }
}

impl SubjectKind {
    /// How its process is run, if it is started.
    #[must_use]
    pub fn process(&self) -> Option<&ProcessSpec> {
        match self {
            Self::Own { process, .. } | Self::Command { process, .. } => Some(process),
            Self::External => None,
        }
    }
}

impl SubjectSpec {
    /// All texts that may hold `${…}`.
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
