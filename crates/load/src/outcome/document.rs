//! The result as it is written down.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::counts::{Bytes, Connections, OpenLoopSummary, Requests, TlsSummary};
use super::generator::GeneratorUse;
use super::reads::{CacheSummary, StaleSummary};
use super::sessions::{ScenarioSummary, StepSummary};
use super::settings::SettingsSummary;
use super::times::{Lateness, TimeSummary};
use super::users::UsersSummary;
use crate::run::Run;
use crate::series::Row;
use crate::tally::ErrorKind;

/// The version of the layout of [`Outcome`]; it changes when a field changes its meaning or goes.
pub(super) const SCHEMA_VERSION: u32 = 2;

/// The result of `breme load`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// The version of this layout.
    pub schema_version: u32,
    /// The version of breme.
    pub breme_version: String,
    /// When the run began, in seconds since 1970-01-01 00:00:00 UTC.
    pub started_at_unix_s: u64,
    /// The same in nanoseconds.
    pub started_at_unix_ns: u64,
    /// When the run began, by the monotonic clock (`CLOCK_MONOTONIC`) that all its instants are read from: so that what
    /// another process of this machine has measured can be laid over it.
    pub started_at_monotonic_ns: u64,
    /// Whether the numbers say something about the server. If not, `invalid_reasons` say why.
    pub valid: bool,
    /// Why the numbers say more about the generator than about the server; empty if `valid`.
    pub invalid_reasons: Vec<String>,
    /// What should be known besides.
    pub notes: Vec<String>,
    /// The run was ended before its time.
    pub interrupted: bool,
    /// From the beginning to the last answer, or to the instant from which nothing new was sent, whichever came first.
    pub elapsed_ns: u64,
    /// Of an open loop: requests (with a scenario, sessions) that were due, per second. A closed loop has no schedule:
    /// it offers what it sends.
    pub offered_rate: f64,
    /// Answers per second.
    pub achieved_rate: f64,
    /// How long requests waited for the generator: from the instant at which they were due, and a connection was free,
    /// to their sending. Part of the response time, and no fault of the server.
    pub lateness: Lateness,
    /// Where the users were; none for an open loop.
    pub users: Option<UsersSummary>,
    /// The index of dispersion of the requests sent in windows of 100 µs: 1 if they leave independently of each other,
    /// *n* if they leave *n* at a time. None for an open loop, and for a run too short to tell.
    pub dispersion: Option<f64>,
    /// What came of the schedule; none for a closed loop.
    pub open_loop: Option<OpenLoopSummary>,
    /// What the generator itself used.
    pub generator: GeneratorUse,
    /// Requests, by what became of them.
    pub requests: Requests,
    /// Errors by kind, those that happened. `status` and `assertion` are of answered requests, the others of failed
    /// ones.
    pub errors: BTreeMap<String, u64>,
    /// Answers by status.
    pub statuses: BTreeMap<String, u64>,
    /// Bytes.
    pub bytes: Bytes,
    /// Connections.
    pub connections: Connections,
    /// From the moment the user wants the request (open loop: the moment it is due) to the last byte of its response,
    /// of responses of every status. Waiting for a connection is in it. Time-outs are in it at their limit.
    pub response_time: TimeSummary,
    /// From sending a request to the last byte of its response, of the same requests.
    pub service_time: TimeSummary,
    /// From sending a request to the first byte of its response.
    pub first_byte_time: TimeSummary,
    /// Time to open a connection, TLS handshake included.
    pub connect_time: TimeSummary,
    /// The TLS handshake's part of it.
    pub handshake_time: TimeSummary,
    /// What was agreed on with the server, if TLS was spoken.
    pub tls: Option<TlsSummary>,
    /// Hits and misses by Cache-Status; none if they were not counted (`--cache-status`).
    pub cache: Option<CacheSummary>,
    /// Stale responses; none if no request writes a `{page_version}`.
    pub stale: Option<StaleSummary>,
    /// Each condition of `--fail-if`.
    pub conditions: Vec<ConditionResult>,
    /// Of scenarios: what became of their sessions.
    pub scenarios: Vec<ScenarioSummary>,
    /// Of scenarios: each step by its name.
    pub steps: Vec<StepSummary>,
    /// Interval by interval; for runs of more than 3600 of them, two, four … in one row.
    pub series: Vec<Row>,
    /// What was asked for.
    pub settings: SettingsSummary,
}

/// A condition under which the load has failed (`--fail-if`), and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConditionResult {
    /// As it was given: `p99 > 50ms or errors > 1%`.
    pub condition: String,
    /// Whether it holds.
    pub verdict: ConditionVerdict,
    /// The measures that it names: `p99 43 ms, errors 0 %`.
    pub measured: String,
}

/// The verdict of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionVerdict {
    /// The condition does not hold.
    Passed,
    /// The condition holds.
    Failed,
    /// There is nothing to judge by: no data, or the result is INVALID.
    NoVerdict,
}

impl Outcome {
    /// Whether there were responses, and every one failed its check (the status, or what else was expected).
    #[must_use]
    pub fn all_failed(&self) -> bool {
        self.requests.answered > 0 && self.requests.ok == 0
    }

    /// Whether anything that the user expected of the answers was not so.
    #[must_use]
    pub fn expectations_failed(&self, run: &Run) -> bool {
        let count = |kind: ErrorKind| self.errors.get(kind.name()).copied().unwrap_or(0);
        let has_checks = match run.plan().scenarios() {
            Some(scenarios) => scenarios.has_checks(),
            None => run.plan().settings().expectations.any(),
        };
        has_checks && count(ErrorKind::Status) + count(ErrorKind::Assertion) + count(ErrorKind::Capture) > 0
    }
}
