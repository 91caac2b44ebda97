//! The result of one trial: a line of the journal, with all data needed for judgement and reports.
//!
//! Times are whole distributions, not a few quantiles, so that a report can overlay them and later questions can be
//! answered. The raw files (`.hlog`, `.csv`) are stored next to the journal; nothing here depends on them.

mod from_load;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use breme_stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::{FaultAction, TrialKey};

/// Version of this layout; a journal with a later one is rejected.
pub const VERSION: u32 = 1;

/// Header of a run: experiment, versions, machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHead {
    /// Version of this schema.
    pub version: u32,
    /// Name of the run and of its folder.
    pub run: String,
    /// Title of the experiment.
    pub title: String,
    /// Selected profile; null without one.
    pub profile: Option<String>,
    /// Random seed of the order of trials and of the requests.
    pub seed: u64,
    /// Start of the run, in milliseconds since 1970-01-01 00:00:00 UTC.
    pub started_unix_ms: u64,
    /// Version of breme.
    pub breme_version: String,
    /// The machine that ran the trials.
    pub machine: Machine,
    /// Versions of the programs of subjects and of other load generators, by subject or workload, where a program
    /// reports one.
    pub subject_versions: BTreeMap<String, String>,
    /// State of the git working tree in which the run was started; null without one.
    pub revision: Option<Revision>,
}

/// State of a git working tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revision {
    /// Hash of the commit that was checked out.
    pub commit: String,
    /// Branch; null if none was checked out.
    pub branch: Option<String>,
    /// Whether tracked files differed from the commit.
    pub is_modified: bool,
}

/// Characters of a commit's hash that suffice for people.
const COMMIT_CHARS: usize = 10;

impl fmt::Display for Revision {
    /// `main 1a2b3c4d5e`, `1a2b3c4d5e (modified)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(branch) = &self.branch {
            write!(formatter, "{branch} ")?;
        }
        write!(formatter, "{:.COMMIT_CHARS$}", self.commit)?;
        if self.is_modified { formatter.write_str(" (modified)") } else { Ok(()) }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// Every planned trial is in the journal.
    Complete,
    /// Every hypothesis had a verdict before the last planned block.
    Decided,
    /// The time budget was exhausted before the last planned block.
    OutOfTime,
    /// The user interrupted it; it can be resumed.
    Interrupted,
    /// The same trial fails repeatedly, most recently this one; the run can be resumed once the cause is fixed.
    Failing {
        /// Number of the trial.
        trial: u32,
    },
}

/// A machine: the properties that influence measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Name and version of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Number of processors available to breme.
    pub processors: usize,
    /// Size of the memory, in bytes.
    pub memory_bytes: u64,
    /// CPU frequency governor; null if unknown.
    pub governor: Option<String>,
    /// Kind of virtualization; null if there is none, or it is unknown.
    pub virtualization: Option<String>,
}

/// A trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Number of the trial in the run, from 1, in the order of execution.
    pub number: u32,
    /// Number of the block, from 1.
    pub block: u32,
    /// Number of the combination of levels, from 0.
    pub combination: u32,
    /// 0, or 1 for the second trial of the A/A pair.
    pub replicate: u32,
    /// Number of earlier attempts that were INVALID. The last attempt counts.
    #[serde(default)]
    pub repeat: u32,
    /// Purpose of the trial.
    pub purpose: Purpose,
    /// Level of each factor.
    pub levels: BTreeMap<String, String>,
    /// Start of the load, in milliseconds since 1970-01-01 00:00:00 UTC.
    pub started_unix_ms: u64,
    /// Start of the load on the machine's monotonic clock (CLOCK_MONOTONIC), in nanoseconds; the instruments use the
    /// same clock.
    pub started_monotonic_ns: u64,
    /// Time from the start of the load to its end, in seconds.
    pub length_s: f64,
    /// Total time of the trial, in seconds: starting subjects, pause, load, stopping, writing records.
    #[serde(default)]
    pub spent_s: f64,
    /// How the trial ended.
    pub end: TrialEnd,
    /// Reasons why the trial is INVALID, that is, describes the generator or the machine rather than the subject; empty
    /// if it counts.
    pub invalid_reasons: Vec<String>,
    /// Other remarks on the trial.
    pub notes: Vec<String>,
    /// Faults that happened, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultRecord>,
    /// Measurements of the workloads, by name.
    pub workloads: BTreeMap<String, WorkloadRecord>,
    /// Resources used by the subjects, by name.
    pub subjects: BTreeMap<String, SubjectRecord>,
    /// Resources used by the generators, by name of the workload.
    #[serde(default)]
    pub generators: BTreeMap<String, SubjectRecord>,
    /// Processors on which each subject and generator ran, by name; distant subjects are missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpus: BTreeMap<String, Vec<usize>>,
    /// Resources used on the whole machine during the trial.
    pub machine: MachineUse,
}

/// A fault that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRecord {
    /// What happened.
    pub action: FaultAction,
    /// The subject.
    pub subject: String,
    /// Words by which its processes were chosen; null: all processes of the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Number of processes that it happened to.
    pub processes: u32,
    /// Planned time, in seconds from the start of the measured part of the trial.
    pub planned_s: f64,
    /// Actual time, in seconds from the start of the load.
    pub at_s: f64,
}

impl fmt::Display for FaultRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.action.write(&self.subject, self.process.as_deref(), formatter)
    }
}

/// Purpose of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Part of a block of the design.
    #[default]
    Block,
    /// Part of the search for a failure point.
    Search,
    /// Longer trial that confirms the result of a search.
    Confirmation,
}

/// How a trial ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum TrialEnd {
    /// Complete, as planned.
    #[default]
    Complete,
    /// A subject or a generator failed.
    Failed(TrialFailure),
}

/// The failure of a subject or a generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TrialFailure {
    /// The subject or workload that failed.
    pub who: String,
    /// Description of the failure.
    pub what: String,
    /// Last lines of its output.
    pub printed: String,
    /// Whether the generator of the workload `who` failed rather than a subject. False in records of earlier versions.
    #[serde(default)]
    pub is_generator: bool,
}

impl TrialFailure {
    /// The failure of a subject.
    #[must_use]
    pub fn new(who: &str, what: impl fmt::Display, printed: impl Into<String>) -> Self {
        Self { who: who.to_owned(), what: what.to_string(), printed: printed.into(), is_generator: false }
    }

    /// The failure of the generator of a workload.
    #[must_use]
    pub fn of_generator(workload: &str, what: impl fmt::Display, printed: impl Into<String>) -> Self {
        Self { is_generator: true, ..Self::new(workload, what, printed) }
    }
}

impl fmt::Display for TrialFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.who, self.what)
    }
}

impl From<TrialFailure> for TrialEnd {
    fn from(failure: TrialFailure) -> Self {
        Self::Failed(failure)
    }
}

impl TrialRecord {
    /// Whether it counts in a judgement: complete and valid. Steadiness is irrelevant: disturbances also slow a trial
    /// down, so selecting steady trials would select fast ones.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.end == TrialEnd::Complete && self.invalid_reasons.is_empty()
    }

    /// The subject that a measure names: itself, or the one that a workload with this name loads.
    #[must_use]
    pub fn subject_of<'a>(&'a self, name: &'a str) -> &'a str {
        match self.workloads.get(name) {
            Some(workload) if !self.subjects.contains_key(name) => &workload.subject,
            _ => name,
        }
    }

    /// Whether one of its workloads was not steady. Overload never is, and a search provokes it.
    #[must_use]
    pub fn is_unsteady(&self) -> bool {
        self.purpose == Purpose::Block && self.unsteady_workloads().next().is_some()
    }

    /// The unsteady workloads, and what changed.
    pub fn unsteady_workloads(&self) -> impl Iterator<Item = (&str, &str)> {
        let unsteady = self.workloads.iter().filter(|(_, workload)| workload.steady.state == SteadyState::NeverSteady);
        unsteady.map(|(name, workload)| {
            (name.as_str(), workload.steady.remark.as_deref().unwrap_or("no steady part was found"))
        })
    }

    /// Its identity in the plan.
    #[must_use]
    pub const fn key(&self) -> TrialKey {
        TrialKey { block: self.block, combination: self.combination, replicate: self.replicate }
    }
}

/// The trials that count: the last attempt at each, in order.
pub fn last_attempts(records: &[TrialRecord]) -> impl Iterator<Item = &TrialRecord> {
    let repeats = records.iter().filter(|record| record.repeat > 0);
    let last: HashMap<TrialKey, u32> = repeats.map(|record| (record.key(), record.number)).collect();
    let is_last = move |record: &&TrialRecord| last.get(&record.key()).is_none_or(|&last| last == record.number);
    records.iter().filter(move |record| record.purpose != Purpose::Block || is_last(record))
}

/// Measurements of a workload. Counts are those of the whole load; times and rates are those of the counted part of its
/// trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRecord {
    /// Path of its requests.
    pub path: String,
    /// Subject that receives its requests.
    #[serde(default)]
    pub subject: String,
    /// Whether it ran in the background of other workloads.
    pub is_background: bool,
    /// Number of users of a closed loop, or of connections of an open one.
    pub connections: u64,
    /// Maximum number of outstanding requests per connection; 0 means 1.
    #[serde(default)]
    pub pipeline: u64,
    /// Whether the load changes by design: a ramp, or stages.
    #[serde(default)]
    pub is_changing: bool,
    /// Mean think time, in seconds.
    pub think_mean_s: f64,
    /// Mean time from the arrival of a response in the kernel to its reading by the generator, in seconds; not part of
    /// the response time. Null: not recorded.
    #[serde(default)]
    pub held_mean_s: Option<f64>,
    /// Maximum of this time, in seconds.
    #[serde(default)]
    pub held_max_s: f64,
    /// The counted part of the trial.
    pub steady: Steady,
    /// Measurements of the warm-up, if one was detected in the time series; the judgement includes them if most trials
    /// of the combination have no warm-up.
    #[serde(default)]
    pub warm_up: Option<Box<WarmUpRecord>>,
    /// Length of the counted part, in seconds.
    pub window_s: f64,
    /// Number of complete responses, of any status.
    pub answered: u64,
    /// Number of responses that passed all checks.
    pub ok: u64,
    /// Number of failed requests and wrong responses, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Number of responses by status.
    pub statuses: BTreeMap<String, u64>,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes received in the counted part; null in records of earlier versions.
    #[serde(default)]
    pub window_bytes: Option<u64>,
    /// Number of errors of all kinds in the counted part; null in records of earlier versions.
    #[serde(default)]
    pub window_errors: Option<u64>,
    /// Responses per second in the counted part.
    pub achieved_rate: f64,
    /// Due requests per second of an open loop; null in a closed loop.
    pub offered_rate: Option<f64>,
    /// Time from the moment the user wants the request (in an open loop, the moment it is due) to the last byte of its
    /// response, including the wait for a connection.
    pub response: Distribution,
    /// Time from sending a request to the last byte of its response.
    pub service: Distribution,
    /// Time to open a connection, including the TLS handshake.
    #[serde(default)]
    pub connect: Distribution,
    /// 99th percentile of the lateness of an open loop, in nanoseconds; null in a closed loop.
    pub lateness_p99_ns: Option<u64>,
    /// CPU time of the generator ÷ duration of the trial; 1 is one processor.
    pub generator_cpu_share: f64,
    /// Time series of the whole trial, at most 120 rows.
    pub series: Vec<SeriesRow>,
    /// Sessions of scenarios by outcome; null without a scenario.
    pub sessions: Option<Sessions>,
    /// Requests of each scenario step, by name.
    pub steps: BTreeMap<String, StepRecord>,
    /// Times without a successful response; null in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability: Option<AvailabilityRecord>,
    /// Figures in the output of a foreign generator, by measure, in base units (seconds, bytes, shares of 1); all that
    /// is known of its load. Missing for `breme load`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    /// Responses to GET by cache result, over the whole trial; null if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheRecord>,
    /// Stale responses over the whole trial; null if the load writes no versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<StaleRecord>,
    /// Pairs that sessions stored and showed, over the whole trial; null if no step checks them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<PairsRecord>,
}

impl WorkloadRecord {
    /// Number of requests that ended in an error, in the whole trial.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Times without a successful response, in the measured part of the trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AvailabilityRecord {
    /// Longest time in which no user got a successful response, in nanoseconds.
    pub gap_ns: u64,
    /// Longest time for which one user wanted a response and got no successful one, in nanoseconds.
    pub user_gap_ns: u64,
    /// Time from the first fault to the first successful response after the last request that failed or got a wrong
    /// response, in nanoseconds; 0 if none did after the fault; null if no request succeeded after it, or there was no
    /// fault.
    pub recovery_ns: Option<u64>,
}

/// Responses to GET by cache result, from their Cache-Status (RFC 9211).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheRecord {
    /// Number of responses served by a cache.
    pub hits: u64,
    /// Number of responses that no cache on their path served.
    pub misses: u64,
    /// Hit ratio by the origin's own count of requests; null without an `origin_counter`.
    #[serde(default)]
    pub origin_hit_ratio: Option<f64>,
}

/// Responses with a version of a page that had been replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StaleRecord {
    /// Number of stale responses.
    pub count: u64,
    /// Number of responses with a version that could be checked, including the stale ones.
    pub judged: u64,
    /// Number of responses without a version, after one had been acknowledged for the page.
    pub unversioned: u64,
    /// Age of stale responses: time from the acknowledgement of a newer version to the sending of the request.
    pub age: Distribution,
}

/// Pairs that sessions stored, and the responses that showed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairsRecord {
    /// Number of responses that were compared.
    pub responses: u64,
    /// Number of responses that lacked a pair which was acknowledged before.
    pub inconsistent: u64,
    /// Number of inconsistent responses whose missing pairs were shown again.
    pub stale: u64,
    /// Number of acknowledged pairs that were not shown again.
    pub lost: u64,
    /// Number of lines that were no pair of the session, or were there twice.
    pub foreign: u64,
    /// Number of responses that set a session id which another session had.
    pub shared_ids: u64,
    /// Number of pairs whose request got no response.
    pub unknown: u64,
}

/// Limit of the rows of a trial's time series.
pub const SERIES_MAX: usize = 120;

/// The counted part of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// State of the time series.
    pub state: SteadyState,
    /// Start of the counted part, in seconds from the start of the load.
    pub from_s: f64,
    /// Remark on the time series, in words.
    pub remark: Option<String>,
    /// Relative change of the mean response time towards the end of the trial; null if it did not change.
    #[serde(default)]
    pub end_change: Option<f64>,
}

/// Measurements of a workload in the warm-up of its trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUpRecord {
    /// Length, in seconds.
    pub length_s: f64,
    /// Number of complete responses.
    pub answered: u64,
    /// Number of errors of all kinds.
    #[serde(default)]
    pub errors: u64,
    /// Bytes received.
    #[serde(default)]
    pub received_bytes: u64,
    /// Mean time from the arrival of a response in the kernel to its reading by the generator, in seconds.
    pub held_mean_s: f64,
    /// Maximum of this time, in seconds.
    pub held_max_s: f64,
    /// Response time.
    pub response: Distribution,
    /// Service time.
    pub service: Distribution,
    /// Time to open a connection.
    #[serde(default)]
    pub connect: Distribution,
}

/// State of a time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyState {
    /// Steady from the start.
    Flat,
    /// Steady after a warm-up, which is discarded.
    AfterWarmUp,
    /// Not steady after the warm-up. The trial counts, with a remark in the report.
    NeverSteady,
    /// Too few intervals to decide; the whole trial counts.
    #[default]
    TooShort,
    /// Not checked.
    NotChecked,
}

/// Distribution of a time, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Number of samples.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stdev_ns: f64,
    /// Minimum.
    pub min_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// The histogram: HdrHistogram in the compressed V2 encoding, base64.
    pub histogram: String,
}

impl Distribution {
    /// Creates it from times in nanoseconds.
    #[must_use]
    pub fn from_histogram(times: &Histogram) -> Self {
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
    /// Start, in seconds from the start of the load.
    pub start_s: f64,
    /// Length, in seconds.
    pub length_s: f64,
    /// Responses per second.
    pub rate: f64,
    /// Errors per second.
    pub error_rate: f64,
    /// Median response time, in nanoseconds.
    pub response_p50_ns: u64,
    /// 99th percentile of the response time, in nanoseconds.
    pub response_p99_ns: u64,
}

/// Sessions of scenarios by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// Number of sessions begun.
    pub begun: u64,
    /// Number of sessions in which all steps were done and all checks passed.
    pub completed: u64,
    /// Number of sessions with a failed check, or that ended early.
    pub failed: u64,
}

/// Requests of a scenario step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// Number of complete responses, of any status.
    pub answered: u64,
    /// Number of errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// Mean response time, in nanoseconds.
    pub response_mean_ns: f64,
    /// Median response time, in nanoseconds.
    pub response_p50_ns: u64,
    /// 99th percentile of the response time, in nanoseconds.
    pub response_p99_ns: u64,
}

/// Resources used by a subject during a trial, by all its processes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectRecord {
    /// CPU time in user mode, in nanoseconds.
    pub cpu_user_ns: u64,
    /// CPU time in kernel mode, in nanoseconds.
    pub cpu_system_ns: u64,
    /// Mean resident memory, in bytes.
    pub memory_mean_bytes: u64,
    /// Peak resident memory, in bytes.
    pub memory_max_bytes: u64,
    /// Resident memory at the beginning, in bytes; 0 in records of earlier versions.
    #[serde(default)]
    pub memory_begin_bytes: u64,
    /// Growth of the resident memory, in bytes per second, if it continued to the end of the trial; otherwise 0.
    #[serde(default)]
    pub memory_growth_per_s: f64,
    /// Maximum number of threads.
    pub threads_max: u64,
    /// Maximum number of open file descriptors.
    pub descriptors_max: u64,
    /// Maximum of open file descriptors ÷ their limit, for the process nearest to its limit.
    pub descriptors_share_max: f64,
    /// Time over which these resources were measured, in seconds; 0 in records of earlier versions, and without process
    /// data.
    #[serde(default)]
    pub span_s: f64,
    /// Number of voluntary context switches.
    pub switches_voluntary: u64,
    /// Number of involuntary context switches.
    pub switches_forced: u64,
    /// Number of observed restarts, by the subject itself or its supervisor.
    pub restarts: u64,
    /// Uptime at the end of the trial, in seconds.
    pub uptime_s: f64,
    /// Metrics that the subject exposes, by name with labels: the growth of counters, the last value of gauges.
    pub counters: BTreeMap<String, f64>,
}

impl SubjectRecord {
    /// Whether its processes were sampled. Of a subject that runs elsewhere only the counters are known.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.threads_max > 0 || self.memory_max_bytes > 0
    }
}

/// Resources used on the whole machine during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineUse {
    /// CPU time used ÷ CPU time of all processors; 1 is all of them.
    pub cpu_share: f64,
    /// Share taken by the hypervisor (steal).
    pub steal_share: f64,
    /// Share used by processes other than subjects and generators.
    pub foreign_share: f64,
    /// Minimum of available memory, in bytes.
    pub memory_available_min_bytes: u64,
    /// Maximum number of TCP sockets.
    pub tcp_sockets_max: u64,
    /// Maximum number of TCP sockets in TIME_WAIT.
    pub tcp_time_wait_max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_its_branch_and_the_begin_of_its_hash() {
        let revision = Revision { commit: "1a2b3c4d5e6f".into(), branch: Some("main".into()), is_modified: false };
        assert_eq!(revision.to_string(), "main 1a2b3c4d5e");
        let without = Revision { commit: "1a2".into(), branch: None, is_modified: true };
        assert_eq!(without.to_string(), "1a2 (modified)");
    }

    #[test]
    fn a_failure_of_an_earlier_version_is_that_of_a_subject() {
        let earlier = r#"{"how": "failed", "who": "site", "what": "died", "printed": ""}"#;
        let end: TrialEnd = serde_json::from_str(earlier).unwrap();
        assert_eq!(end, TrialFailure::new("site", "died", "").into());
    }

    #[test]
    fn a_head_of_an_earlier_version_has_no_revision() {
        let mut head = serde_json::to_value(RunHead { run: "x".into(), ..RunHead::default() }).unwrap();
        head.as_object_mut().unwrap().remove("revision").unwrap();
        let head: RunHead = serde_json::from_value(head).unwrap();
        assert_eq!((head.run.as_str(), head.revision), ("x", None));
    }
}
