//! The result of a run: the shards' counts put together, and a verdict on whether they may be believed.

mod counts;
mod generator;
mod sessions;
mod settings;
mod times;
mod validity;

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::Instant;
use breme_stats::Histogram;
pub use counts::{Bytes, Connections, OpenLoopSummary, Requests, TlsSummary};
pub use generator::{Generator, GeneratorUse};
use schemars::JsonSchema;
use serde::Serialize;
pub use sessions::{ScenarioSummary, StepSummary};
pub use settings::{ScheduleSummary, SettingsSummary, StageSummary};
pub use times::{Lateness, TimeSummary};
pub use validity::{LATENESS_P99_MAX, LATENESS_SHARE_MAX, THREAD_SHARE_MAX};

use crate::node::Load;
use crate::run::Run;
use crate::series::Row;
use crate::tally::{ErrorKind, Tally};

/// The version of the layout of [`Outcome`]; it changes when a field changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

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
    /// When the run began, by the monotonic clock (`CLOCK_MONOTONIC`) that all its instants are read from: so that what another process
    /// of this machine has measured can be laid over it.
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
    /// Of an open loop: requests (with a scenario, sessions) that were due, per second. A closed loop has no schedule: it offers
    /// what it sends.
    pub offered_rate: f64,
    /// Answers per second.
    pub achieved_rate: f64,
    /// How long requests waited for the generator: from the instant at which they were due, and a connection was free, to
    /// their sending. Part of the response time, and no fault of the server.
    pub lateness: Lateness,
    /// What came of the schedule; none for a closed loop.
    pub open_loop: Option<OpenLoopSummary>,
    /// What the generator itself used.
    pub generator: GeneratorUse,
    /// Requests, by what became of them.
    pub requests: Requests,
    /// Errors by kind, those that happened. `status` and `assertion` are of answered requests, the others of failed ones.
    pub errors: BTreeMap<String, u64>,
    /// Answers by status.
    pub statuses: BTreeMap<String, u64>,
    /// Bytes.
    pub bytes: Bytes,
    /// Connections.
    pub connections: Connections,
    /// Sent → done, of answers of every status; time-outs are in it at their limit.
    pub service_time: TimeSummary,
    /// Due → done, of the same requests. In an open loop the waiting for a free connection is in it.
    pub response_time: TimeSummary,
    /// Sent → first byte of the answer.
    pub first_byte_time: TimeSummary,
    /// From asking for a connection to having it, without the handshake of TLS.
    pub connect_time: TimeSummary,
    /// From having a connection to the end of the handshake of TLS.
    pub handshake_time: TimeSummary,
    /// What was agreed on with the server, if TLS was spoken.
    pub tls: Option<TlsSummary>,
    /// Of scenarios: what became of their sessions.
    pub scenarios: Vec<ScenarioSummary>,
    /// Of scenarios: each step by its name.
    pub steps: Vec<StepSummary>,
    /// Interval by interval; for runs of more than 3600 of them, two, four … in one row.
    pub series: Vec<Row>,
    /// What was asked for.
    pub settings: SettingsSummary,
}

impl Outcome {
    /// Puts together what the shards counted. Call it once, when all have ended.
    #[must_use]
    pub fn of(run: &Run, shards: &mut [Load], generator: Generator) -> Self {
        let mut tally = Tally::of_scenarios(run.plan().scenarios());
        shards.iter_mut().for_each(Load::close);
        shards.iter().for_each(|shard| tally.merge(&shard.tally));
        let started = run.started().unwrap_or_default();
        let ended = shards.iter().map(|shard| shard.span.ended).max().unwrap_or_default();
        let window = window(shards, started, ended);
        let mut series = run.series();
        series.finish(ended.since(started));
        let requests = Requests::of(&tally);
        let per_second = |count: u64| if window.is_zero() { 0.0 } else { count as f64 / window.as_secs_f64() };
        let mut outcome = Self {
            schema_version: SCHEMA_VERSION,
            breme_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_unix_s: generator.started_at.as_secs(),
            started_at_unix_ns: nanos(generator.started_at),
            started_at_monotonic_ns: nanos(generator.started_at_monotonic),
            valid: true,
            invalid_reasons: Vec::new(),
            notes: Vec::new(),
            interrupted: generator.interrupted,
            elapsed_ns: nanos(window),
            offered_rate: per_second(if run.queue().is_some() { tally.arrived } else { requests.issued }),
            achieved_rate: per_second(tally.answered - tally.answered_late),
            lateness: Lateness::of(&tally),
            open_loop: run.queue().is_some().then(|| OpenLoopSummary::of(&tally)),
            generator: GeneratorUse::of(shards, generator, ended.since(started), requests.issued),
            requests,
            errors: counts::errors(&tally.errors),
            statuses: counts::statuses(&tally),
            bytes: Bytes::of(&tally),
            connections: Connections::of(&tally),
            service_time: TimeSummary::of(&series.total().service),
            response_time: TimeSummary::of(&series.total().response),
            first_byte_time: TimeSummary::of(&series.total().first_byte),
            connect_time: TimeSummary::of(&tally.connect_times),
            handshake_time: TimeSummary::of(&tally.handshake_times),
            tls: generator.tls,
            scenarios: sessions::scenarios(run, &tally),
            steps: sessions::steps(run, &tally),
            series: series.rows().to_vec(),
            settings: SettingsSummary::of(run),
        };
        drop(series);
        outcome.invalid_reasons = validity::invalid_reasons(run, &outcome, generator.stays_awake);
        outcome.valid = outcome.invalid_reasons.is_empty();
        outcome.notes = validity::notes(&outcome);
        outcome
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

    /// The distribution of the service times, for files.
    #[must_use]
    pub fn service_histogram(run: &Run) -> Histogram {
        run.series().total().service.clone()
    }
}

/// The time that rates refer to: what is waited for at the end does not dilute them.
fn window(shards: &[Load], started: Instant, ended: Instant) -> Duration {
    let window_ends = shards.iter().map(|shard| shard.window_ends).filter(|&ends| ends != Instant::FAR).max();
    window_ends.map_or(ended, |window_ends| ended.min(window_ends)).since(started)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
