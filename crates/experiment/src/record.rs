//! What one trial showed: a line of the journal, and all that judging and reporting need of it.
//!
//! Times are whole distributions, not a few quantiles, so that a report can lay them over each other and a question
//! that comes up later can still be asked. The raw files (`.hlog`, `.csv`) lie beside the journal; nothing here depends
//! on them.

use std::collections::{BTreeMap, HashMap};

use breme_stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::TrialKey;

/// The version of this layout; a journal of a later one is refused.
pub const VERSION: u32 = 1;

/// The head of a run: what it was made from, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHead {
    /// [`VERSION`].
    pub version: u32,
    /// The run's name: that of its folder.
    pub run: String,
    /// The experiment's title.
    pub title: String,
    /// The profile, if one was asked for.
    pub profile: Option<String>,
    /// The seed of order and content.
    pub seed: u64,
    /// When it began, in ms since 1970-01-01 00:00:00 UTC.
    pub started_unix_ms: u64,
    /// The version of breme.
    pub breme_version: String,
    /// The machine.
    pub machine: Machine,
    /// Versions of the subjects' programs, as far as they tell: subject → text.
    pub subject_versions: BTreeMap<String, String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// Every planned trial is in the journal.
    Complete,
    /// Every hypothesis had a verdict before the last planned block.
    Decided,
    /// The time budget was spent before the last planned block.
    OutOfTime,
    /// The user interrupted it; it can be resumed.
    Interrupted,
    /// The same trial fails again and again, this one last; the run can be resumed once the cause is repaired.
    Failing {
        /// Its number.
        trial: u32,
    },
}

/// A machine, as far as it matters for what is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// System and version of the kernel.
    pub kernel: String,
    /// The processor's model.
    pub processor: String,
    /// Processors that the laboratory may use.
    pub processors: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// How the clock speed is governed, if it is known.
    pub governor: Option<String>,
    /// Whether it is a virtual machine, and of which kind, if it is known.
    pub virtualization: Option<String>,
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Its number in the run, from 1, in the order in which they were run.
    pub number: u32,
    /// The block, from 1.
    pub block: u32,
    /// The number of the combination of levels, from 0.
    pub combination: u32,
    /// 0, or 1 for the second trial of the A/A pair.
    pub replicate: u32,
    /// How often it had been run before in vain: 0, or more where it was run again because it was INVALID. The last
    /// attempt counts.
    #[serde(default)]
    pub repeat: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// Levels by factor.
    pub levels: BTreeMap<String, String>,
    /// When its load began, in ms since 1970-01-01 00:00:00 UTC.
    pub started_unix_ms: u64,
    /// The same on the monotonic clock of the machine (CLOCK_MONOTONIC), which the instruments use too.
    pub started_monotonic_ns: u64,
    /// From the beginning of the load to its end.
    pub length_s: f64,
    /// What it took of the run's time in all: starting, resting, loading, ending, writing down.
    #[serde(default)]
    pub spent_s: f64,
    /// How it ended.
    pub end: TrialEnd,
    /// Why its numbers say more about the generator or the machine than about the subject. Empty: it counts.
    pub invalid_reasons: Vec<String>,
    /// What should be known besides.
    pub notes: Vec<String>,
    /// By the workload's name.
    pub workloads: BTreeMap<String, WorkloadRecord>,
    /// By the subject's name.
    pub subjects: BTreeMap<String, SubjectRecord>,
    /// What the generators used, by the workload's name.
    #[serde(default)]
    pub generators: BTreeMap<String, SubjectRecord>,
    /// The machine during the trial.
    pub machine: MachineUse,
}

/// What a trial is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A block of the design.
    #[default]
    Block,
    /// The search for a failure point.
    Search,
    /// The longer trial that confirms what a search has found.
    Confirmation,
}

/// How a trial ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum TrialEnd {
    /// As planned.
    #[default]
    Complete,
    /// A subject or a generator failed.
    Failed {
        /// Whose fault: the subject's name, or the workload's.
        who: String,
        /// What happened.
        what: String,
        /// The end of what it had printed.
        printed: String,
    },
}

impl TrialRecord {
    /// Whether it counts in a judgement: complete and valid. Whether it was steady has no say: what disturbs a trial
    /// also slows it, so that a selection of steady trials is a selection of fast ones.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.end == TrialEnd::Complete && self.invalid_reasons.is_empty()
    }

    /// Whether one of its workloads was not steady. Overload never is, and a search asks for it.
    #[must_use]
    pub fn is_unsteady(&self) -> bool {
        self.purpose == Purpose::Block && self.unsteady_workloads().next().is_some()
    }

    /// The workloads that were not steady, and what changed.
    pub fn unsteady_workloads(&self) -> impl Iterator<Item = (&str, &str)> {
        let unsteady = self.workloads.iter().filter(|(_, workload)| workload.steady.state == SteadyState::NeverSteady);
        unsteady.map(|(name, workload)| {
            (name.as_str(), workload.steady.remark.as_deref().unwrap_or("no steady part was found"))
        })
    }

    /// Which one of the plan it is.
    #[must_use]
    pub const fn key(&self) -> TrialKey {
        TrialKey { block: self.block, combination: self.combination, replicate: self.replicate }
    }
}

/// The trials that stand: of those that were run again, the last. In their order.
pub fn standing(records: &[TrialRecord]) -> impl Iterator<Item = &TrialRecord> {
    let repeats = records.iter().filter(|record| record.repeat > 0);
    let last: HashMap<TrialKey, u32> = repeats.map(|record| (record.key(), record.number)).collect();
    let is_last = move |record: &&TrialRecord| last.get(&record.key()).is_none_or(|&last| last == record.number);
    records.iter().filter(move |record| record.purpose != Purpose::Block || is_last(record))
}

/// What a workload saw in the steady part of its trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRecord {
    /// The path that it took.
    pub path: String,
    /// The subject to which that leads.
    #[serde(default)]
    pub subject: String,
    /// Whether it ran behind the others.
    pub is_background: bool,
    /// Users, or connections of an open loop.
    pub connections: u64,
    /// Requests that each connection may have under way at once; 0 and 1: one.
    #[serde(default)]
    pub pipeline: u64,
    /// Whether the load itself changed on purpose: a ramp, stages.
    #[serde(default)]
    pub is_changing: bool,
    /// Mean think time.
    pub think_mean_s: f64,
    /// Mean time for which an answer that was there waited for the generator to read it; part of no response time.
    /// None: not recorded.
    #[serde(default)]
    pub held_mean_s: Option<f64>,
    /// The longest of these.
    #[serde(default)]
    pub held_max_s: f64,
    /// The part that counts.
    pub steady: Steady,
    /// What was measured before that part, if its beginning was found in the time series; a judgement adds it where
    /// most other trials show no warm-up.
    #[serde(default)]
    pub warm_up: Option<Box<WarmUpRecord>>,
    /// Length of the part that counts, in seconds.
    pub window_s: f64,
    /// Requests that were answered, whatever the status.
    pub answered: u64,
    /// Requests that were answered as expected.
    pub ok: u64,
    /// Requests without an answer, or with a wrong one, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Answers by status, of the whole trial.
    pub statuses: BTreeMap<String, u64>,
    /// Bytes received.
    pub received_bytes: u64,
    /// Answers a second.
    pub achieved_rate: f64,
    /// Requests due a second, of an open loop.
    pub offered_rate: Option<f64>,
    /// From the moment the user wants the request (open loop: the moment it is due) to the last byte of its response;
    /// waiting for a connection is in it.
    pub response: Distribution,
    /// From sending the request to the last byte of its response.
    pub service: Distribution,
    /// To open a connection, TLS handshake included.
    #[serde(default)]
    pub connect: Distribution,
    /// How late the generator sent, at its 99 % quantile, in ns; of an open loop.
    pub lateness_p99_ns: Option<u64>,
    /// CPU time of the generator over the trial's time; 1 is one processor.
    pub generator_cpu_share: f64,
    /// The whole trial, in at most [`SERIES_MAX`] rows.
    pub series: Vec<SeriesRow>,
    /// Of scenarios: sessions begun, completed and failed.
    pub sessions: Option<Sessions>,
    /// Of scenarios: each step by name.
    pub steps: BTreeMap<String, StepRecord>,
    /// Responses to GET by what their Cache-Status says, of the whole trial; none: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheRecord>,
    /// Stale responses, of the whole trial; none: the load writes no versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<StaleRecord>,
}

/// Responses to GET, by what their Cache-Status (RFC 9211) says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheRecord {
    /// Given by a cache without asking further.
    pub hits: u64,
    /// Not given by any cache on their way.
    pub misses: u64,
}

/// Responses that showed a version of a page which had been replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StaleRecord {
    /// How many.
    pub count: u64,
    /// Responses whose version could be judged, the stale ones too.
    pub judged: u64,
    /// Responses that showed no version, of pages of which one had been acknowledged.
    pub unversioned: u64,
    /// From the acknowledgement that replaced the version to the sending of the request.
    pub age: Distribution,
}

/// The most rows that a record keeps of a trial's time series.
pub const SERIES_MAX: usize = 120;

/// The steady part of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// What the time series looks like.
    pub state: SteadyState,
    /// Where the part that counts begins, in seconds of the load.
    pub from_s: f64,
    /// In words, if there is something to be said.
    pub remark: Option<String>,
    /// By which share of its mean the response time still changed towards the end of the trial; none if it did not.
    #[serde(default)]
    pub end_change: Option<f64>,
}

/// What a workload saw in the warm-up of its trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUpRecord {
    /// Its length, in seconds.
    pub length_s: f64,
    /// Requests that were answered in it.
    pub answered: u64,
    /// Mean time for which an answer that was there waited for the generator to read it.
    pub held_mean_s: f64,
    /// The longest of these.
    pub held_max_s: f64,
    /// Response time.
    pub response: Distribution,
    /// Service time.
    pub service: Distribution,
    /// Time to connect.
    #[serde(default)]
    pub connect: Distribution,
}

/// What a time series looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyState {
    /// The same from beginning to end.
    Flat,
    /// Steady after a warm-up, which was cut off.
    AfterWarmUp,
    /// It changed after the warm-up. It counts all the same, and the report says so.
    NeverSteady,
    /// Too few intervals to tell; it is taken as it is.
    #[default]
    TooShort,
    /// It was not examined.
    NotChecked,
}

/// The distribution of a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Samples.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub stdev_ns: f64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All of it: an HdrHistogram in the compressed V2 encoding, base64.
    pub histogram: String,
}

impl Distribution {
    /// That of these times in nanoseconds.
    #[must_use]
    pub fn of(times: &Histogram) -> Self {
        Self {
            count: times.count(),
            mean_ns: times.mean(),
            stdev_ns: times.stdev(),
            min_ns: times.min(),
            max_ns: times.max(),
            histogram: times.encode(),
        }
    }
}

/// A row of a trial's time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesRow {
    /// Its beginning, in seconds of the load.
    pub start_s: f64,
    /// Its length.
    pub length_s: f64,
    /// Answers a second.
    pub rate: f64,
    /// Errors a second.
    pub error_rate: f64,
    /// Median response time, in ns.
    pub response_p50_ns: u64,
    /// 99 % quantile of the response time, in ns.
    pub response_p99_ns: u64,
}

/// Sessions of scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// Begun.
    pub begun: u64,
    /// Done to their end, everything as expected.
    pub completed: u64,
    /// Something was wrong.
    pub failed: u64,
}

/// A step of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// Answered, whatever the status.
    pub answered: u64,
    /// Errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// Mean response time.
    pub response_mean_ns: f64,
    /// Its median.
    pub response_p50_ns: u64,
    /// Its 99 % quantile.
    pub response_p99_ns: u64,
}

/// What a subject used during the trial, all its processes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectRecord {
    /// CPU time in user mode.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel.
    pub cpu_system_ns: u64,
    /// Resident memory: the mean of the samples.
    pub memory_mean_bytes: u64,
    /// Resident memory: the most that was seen.
    pub memory_max_bytes: u64,
    /// By how many bytes a second the resident memory grew, if it grew to the end of the trial and did not level off;
    /// else 0.
    #[serde(default)]
    pub memory_growth_per_s: f64,
    /// Threads: the most.
    pub threads_max: u64,
    /// Open descriptors: the most.
    pub descriptors_max: u64,
    /// Their share of the limit, of the process that was nearest to it.
    pub descriptors_share_max: f64,
    /// Context switches that it asked for by waiting.
    pub switches_voluntary: u64,
    /// Context switches that were forced on it.
    pub switches_forced: u64,
    /// How often it was found to have been started anew by itself or its supervisor.
    pub restarts: u64,
    /// For how long it had been up at the end of the trial.
    pub uptime_s: f64,
    /// Its own counters, by name with labels as they were exposed: by how much they grew; gauges: their last value.
    pub counters: BTreeMap<String, f64>,
}

/// The machine during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineUse {
    /// Share of all processors' time that was used; 1 is all of them.
    pub cpu_share: f64,
    /// Share that the hypervisor took.
    pub steal_share: f64,
    /// Share that was used by others than subjects and generators.
    pub foreign_share: f64,
    /// The least memory that was free for use.
    pub memory_available_min_bytes: u64,
    /// The most TCP sockets.
    pub tcp_sockets_max: u64,
    /// The most TCP sockets that waited for the end of their time (TIME_WAIT).
    pub tcp_time_wait_max: u64,
}
