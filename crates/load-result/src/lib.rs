//! The result of `breme load` as a document ([`LoadOutcome`]): one definition of its fields, for the generator that
//! writes it, for those who read it, and for the published schema (`schemas/load.schema.json`).
//!
//! The order of the fields is that of the JSON, their comments are the descriptions of the schema.

mod availability;
mod counts;
mod generator;
mod reads;
mod series;
mod sessions;
mod settings;
mod times;
mod users;

use std::collections::BTreeMap;

pub use availability::AvailabilitySummary;
pub use counts::{Bytes, Connections, OpenLoopSummary, RedirectsSummary, Requests, TlsSummary};
pub use generator::GeneratorUse;
pub use reads::{CacheSummary, PairsSummary, StalePageSummary, StaleSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use series::Row;
pub use sessions::{ScenarioSummary, StepSummary};
pub use settings::{ScheduleSummary, SettingsSummary, StageSummary};
pub use times::{HistogramBin, Lateness, TimeSummary};
pub use users::UsersSummary;

/// The version of the layout of [`LoadOutcome`]; it changes when a field changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 2;

/// The result of `breme load`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct LoadOutcome {
    /// Version of this schema.
    pub schema_version: u32,
    /// Version of breme.
    pub breme_version: String,
    /// Start of the run, in seconds since 1970-01-01 00:00:00 UTC.
    pub started_at_unix_s: u64,
    /// Start of the run, in nanoseconds since 1970-01-01 00:00:00 UTC.
    pub started_at_unix_ns: u64,
    /// Start of the run on the machine's monotonic clock (`CLOCK_MONOTONIC`), in nanoseconds, for alignment with
    /// measurements of other processes on the machine.
    pub started_at_monotonic_ns: u64,
    /// Whether the result describes the server; if not, `invalid_reasons` has the reasons.
    pub valid: bool,
    /// Reasons why the result describes the generator rather than the server; empty if `valid`.
    pub invalid_reasons: Vec<String>,
    /// Other remarks on the result.
    pub notes: Vec<String>,
    /// Whether the run was interrupted before its end.
    pub interrupted: bool,
    /// Time from the start to the last response, or to the end of sending if that is earlier.
    pub elapsed_ns: u64,
    /// Due requests per second (sessions, with a scenario); in a closed loop, requests sent per second.
    pub offered_rate: f64,
    /// Responses per second.
    pub achieved_rate: f64,
    /// Delay of requests in the generator: time from the instant at which a request was due and a connection was free
    /// to its sending. Part of the response time, and not caused by the server.
    pub lateness: Lateness,
    /// Average number of users in each activity; null in an open loop.
    pub users: Option<UsersSummary>,
    /// Index of dispersion of the requests sent in windows of 100 µs: 1 if they are sent independently, *n* if they are
    /// sent *n* at a time. Null in an open loop, and in a run that is too short to measure it.
    pub dispersion: Option<f64>,
    /// Arrivals by outcome; null in a closed loop.
    pub open_loop: Option<OpenLoopSummary>,
    /// Resources used by the generator.
    pub generator: GeneratorUse,
    /// Requests by outcome.
    pub requests: Requests,
    /// Redirects; null without `--follow-redirects`.
    pub redirects: Option<RedirectsSummary>,
    /// Times without a successful response, and requests refused.
    pub availability: AvailabilitySummary,
    /// Number of errors by kind; kinds without errors are omitted. `status`, `assertion` and `capture` are counted on
    /// complete responses, the others on requests without one.
    pub errors: BTreeMap<String, u64>,
    /// Number of responses by status.
    pub statuses: BTreeMap<String, u64>,
    /// Bytes received and sent.
    pub bytes: Bytes,
    /// Counts of connections.
    pub connections: Connections,
    /// Time from the moment the user wants the request (in an open loop, the moment it is due) to the last byte of its
    /// response, including the wait for a connection; responses of any status, and timed-out requests with their time
    /// limit.
    pub response_time: TimeSummary,
    /// Histogram of the response times in a few bins with round limits.
    pub histogram: Vec<HistogramBin>,
    /// Time from sending a request to the last byte of its response, for the same requests.
    pub service_time: TimeSummary,
    /// Time from sending a request to the first byte of its response.
    pub first_byte_time: TimeSummary,
    /// Time to open a connection, including the TLS handshake.
    pub connect_time: TimeSummary,
    /// Time of the TLS handshake.
    pub handshake_time: TimeSummary,
    /// Negotiated TLS parameters; null without TLS.
    pub tls: Option<TlsSummary>,
    /// Hits and misses by Cache-Status; null if they were not counted (`--cache-status`).
    pub cache: Option<CacheSummary>,
    /// Stale responses; null if no request contains a `{page_version}`.
    pub stale: Option<StaleSummary>,
    /// Pairs that sessions stored and showed; null if no step checks them.
    pub pairs: Option<PairsSummary>,
    /// Result of each `--fail-if` condition.
    pub conditions: Vec<FailIfResult>,
    /// Sessions of each scenario.
    pub scenarios: Vec<ScenarioSummary>,
    /// Requests of each scenario step, by name.
    pub steps: Vec<StepSummary>,
    /// Time series, one row per interval; in a run of more than 3600 intervals a row covers two, four … of them.
    pub series: Vec<Row>,
    /// Settings of the run.
    pub settings: SettingsSummary,
}

/// A `--fail-if` condition and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ConditionResult")]
pub struct FailIfResult {
    /// The condition as given: `p99 > 50ms or errors > 1%`.
    pub condition: String,
    /// Verdict of the condition.
    pub verdict: ConditionVerdict,
    /// Measured values of the condition: `p99 43 ms, errors 0 %`.
    pub measured: String,
}

/// The verdict of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionVerdict {
    /// The condition is false.
    Passed,
    /// The condition is true: the load has failed.
    Failed,
    /// No data, or the result is INVALID.
    NoVerdict,
}

impl LoadOutcome {
    /// Adds the number of requests that the origin counted during the run.
    pub fn count_origin(&mut self, requests: u64) {
        let responses = self.requests.answered;
        if let Some(cache) = &mut self.cache {
            cache.count_origin(requests, responses);
        }
    }

    /// Whether there were responses, and every one failed its check (the status, or another expectation).
    #[must_use]
    pub fn all_failed(&self) -> bool {
        self.requests.answered > 0 && self.requests.ok == 0
    }
}
