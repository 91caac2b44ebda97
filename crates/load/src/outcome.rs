//! The result of a run: the shards' counts put together, and a verdict on whether they may be believed.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::Instant;
use breme_http1::Version;
use breme_stats::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

use crate::figures::duration;
use crate::node::Load;
use crate::plan::{OpenLoop, Settings};
use crate::run::Run;
use crate::scenario::{Scenario, Scenarios};
use crate::schedule::{Shape, Stage};
use crate::series::Row;
use crate::tally::{ErrorKind, SessionTally, StepTally, Tally};

/// A thread that was busy for a larger share of the time was the limit, not the server.
pub const THREAD_SHARE_MAX: f64 = 0.95;
/// An open loop is invalid if more than one request in a hundred left later than this because of the generator …
pub const LATENESS_P99_MAX: Duration = Duration::from_millis(1);
/// … and later than this share of the median service time: what is small beside the thing measured does no harm.
pub const LATENESS_SHARE_MAX: f64 = 0.1;
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

/// Requests, by what became of them: `issued = answered + failed + unfinished`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Requests {
    /// Begun: sent, or failed because no connection could be opened for them.
    pub issued: u64,
    /// Handed to the kernel, each counted once.
    pub sent: u64,
    /// Answered, whatever the status.
    pub answered: u64,
    /// Answered as expected.
    pub ok: u64,
    /// Without an answer.
    pub failed: u64,
    /// Under way when the run ended and not answered in the time that was left to them.
    pub unfinished: u64,
    /// Sent once more, since the server ended a pipeline before them.
    pub resent: u64,
}

/// How late requests were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lateness {
    /// The median.
    pub p50_ns: u64,
    /// 90 %.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Arrivals of an open loop (requests, or sessions), by what became of them: `due = begun + dropped + shed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenLoopSummary {
    /// By the schedule, until the end.
    pub due: u64,
    /// Begun.
    pub begun: u64,
    /// Of the begun ones, those for which no connection was free when they were due.
    pub waited: u64,
    /// Never begun: too many waited already, or they were waiting at the end.
    pub dropped: u64,
    /// Not sent, since they were past the deadline.
    pub shed: u64,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bytes {
    /// Received, with heads and framing.
    pub received: u64,
    /// Sent, with heads and framing.
    pub sent: u64,
    /// Content of answers.
    pub content: u64,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Connections {
    /// Opened.
    pub opened: u64,
    /// Of these, in place of one that had ended.
    pub reconnects: u64,
    /// On which bytes came that no request had asked for.
    pub unexpected: u64,
    /// On which TLS went on with the keys of an earlier session.
    pub resumed: u64,
}

/// What generator and server agreed on in their first handshake of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TlsSummary {
    /// `1.2` or `1.3`.
    pub version: &'static str,
    /// By the name that IANA has for it.
    pub cipher_suite: &'static str,
}

/// What the generator itself used.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GeneratorUse {
    /// CPU time of the whole process, in user and system mode.
    pub cpu_ns: Option<u64>,
    /// CPU time per request.
    pub cpu_ns_per_request: Option<f64>,
    /// The CPU time's share of the elapsed time; 1 is one processor.
    pub cpu_share: Option<f64>,
    /// The same for each of its threads.
    pub thread_shares: Vec<f64>,
    /// Processors that it may use.
    pub processors: u64,
}

/// The sessions of a scenario: `begun = completed + failed + unfinished`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScenarioSummary {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Sessions begun.
    pub begun: u64,
    /// Sessions that did all steps, every answer being as expected.
    pub completed: u64,
    /// Sessions in which something was not as expected, or that could not go on.
    pub failed: u64,
    /// Sessions under way at the end.
    pub unfinished: u64,
    /// From the instant at which the first request was due to the last answer, with the time to think, of sessions that did all steps.
    pub session_time: TimeSummary,
}

/// The steps of one name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StepSummary {
    /// Their name.
    pub name: String,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered, whatever the status.
    pub answered: u64,
    /// Errors by kind, those that happened.
    pub errors: BTreeMap<String, u64>,
    /// Due → done.
    pub response_time: TimeSummary,
    /// Sent → done.
    pub service_time: TimeSummary,
}

/// A distribution of times. The quantiles are those of all samples together, to three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimeSummary {
    /// Samples.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub stdev_ns: f64,
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 75 %.
    pub p75_ns: u64,
    /// 90 %.
    pub p90_ns: u64,
    /// 95 %.
    pub p95_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Samples beyond what the histogram tells apart (an hour).
    pub saturated: u64,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingsSummary {
    /// The first target.
    pub url: String,
    /// How many targets there are.
    pub targets: u64,
    /// The address that was loaded.
    pub address: Option<String>,
    /// The method of the first target.
    pub method: String,
    /// `1.0` or `1.1`.
    pub http: String,
    /// Connections.
    pub connections: u64,
    /// Threads.
    pub threads: u64,
    /// Pipeline depth.
    pub pipeline_depth: u64,
    /// Number of requests, if that ends the run.
    pub requests: Option<u64>,
    /// Duration, if that ends the run.
    pub duration_ns: Option<u64>,
    /// Whether the run was to go on until the outside ends it.
    pub until_stopped: bool,
    /// Whether connections are used again.
    pub keep_alive: bool,
    /// Shortest time to think.
    pub think_min_ns: u64,
    /// Longest time to think.
    pub think_max_ns: u64,
    /// Time over which the connections start.
    pub ramp_ns: u64,
    /// Time that a request may take.
    pub timeout_ns: u64,
    /// Whether each connection keeps cookies.
    pub cookies: bool,
    /// The schedule of an open loop.
    pub schedule: Option<ScheduleSummary>,
    /// How long the intervals of the time series are.
    pub interval_ns: u64,
    /// The seed of everything random.
    pub seed: u64,
}

/// The schedule of an open loop.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScheduleSummary {
    /// Arrivals per second at the beginning.
    pub rate: f64,
    /// `even` or `poisson`.
    pub arrivals: String,
    /// How the rate goes on.
    pub stages: Vec<StageSummary>,
    /// The most that may be under way.
    pub in_flight_max: u64,
    /// The most that may wait for a connection.
    pub waiting_max: u64,
    /// What is later than this is not sent.
    pub deadline_ns: Option<u64>,
}

/// A part of a schedule.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StageSummary {
    /// How long it is.
    pub duration_ns: u64,
    /// The rate at its end.
    pub rate: f64,
    /// Whether the rate goes there in a straight line; else it is there from the beginning.
    pub is_ramp: bool,
}

/// What only the outside of the node can know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generator {
    /// CPU time of the process during the run.
    pub process_cpu: Option<Duration>,
    /// Processors that it may use.
    pub processors: usize,
    /// Its threads were told to stay awake: how busy they were says nothing.
    pub stays_awake: bool,
    /// The user ended the run.
    pub interrupted: bool,
    /// When the run began, on the calendar: the time since 1970-01-01 00:00:00 UTC.
    pub started_at: Duration,
    /// When the run began, by the machine's monotonic clock.
    pub started_at_monotonic: Duration,
    /// What was agreed on with the server, if TLS was spoken.
    pub tls: Option<TlsSummary>,
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
        let requests = requests(&tally);
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
            open_loop: run.queue().is_some().then(|| open_loop(&tally)),
            generator: generator_use(shards, generator, ended.since(started), requests.issued),
            requests,
            errors: errors(&tally.errors),
            statuses: statuses(&tally),
            bytes: Bytes { received: tally.bytes_received, sent: tally.bytes_sent, content: tally.content_bytes },
            connections: Connections {
                opened: tally.connections_opened,
                reconnects: tally.reconnects,
                unexpected: tally.unexpected,
                resumed: tally.resumed,
            },
            service_time: TimeSummary::of(&series.total().service),
            response_time: TimeSummary::of(&series.total().response),
            first_byte_time: TimeSummary::of(&series.total().first_byte),
            connect_time: TimeSummary::of(&tally.connect_times),
            handshake_time: TimeSummary::of(&tally.handshake_times),
            tls: generator.tls,
            scenarios: scenarios(run, &tally),
            steps: steps(run, &tally),
            series: series.rows().to_vec(),
            settings: settings(run),
        };
        drop(series);
        outcome.invalid_reasons = invalid_reasons(run, &outcome, generator.stays_awake);
        outcome.valid = outcome.invalid_reasons.is_empty();
        outcome.notes = notes(&outcome);
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

impl Lateness {
    fn of(tally: &Tally) -> Self {
        let (punctual, late) = (tally.punctual as f64, tally.lateness.count() as f64);
        // The quantile of all, as one of the late ones.
        let quantile = |quantile: f64| {
            let among_late = ((punctual + late) * quantile - punctual) / late;
            if among_late > 0.0 { tally.lateness.quantile(among_late.min(1.0)) } else { 0 }
        };
        Self {
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: quantile(1.0),
        }
    }
}

impl TimeSummary {
    /// Sums up a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            mean_ns: histogram.mean(),
            stdev_ns: histogram.stdev(),
            min_ns: histogram.min(),
            p50_ns: histogram.quantile(0.5),
            p75_ns: histogram.quantile(0.75),
            p90_ns: histogram.quantile(0.9),
            p95_ns: histogram.quantile(0.95),
            p99_ns: histogram.quantile(0.99),
            p999_ns: histogram.quantile(0.999),
            max_ns: histogram.max(),
            saturated: histogram.saturated(),
        }
    }
}

/// The time that rates refer to: what is waited for at the end does not dilute them.
fn window(shards: &[Load], started: Instant, ended: Instant) -> Duration {
    let window_ends = shards.iter().map(|shard| shard.window_ends).filter(|&ends| ends != Instant::FAR).max();
    window_ends.map_or(ended, |window_ends| ended.min(window_ends)).since(started)
}

fn requests(tally: &Tally) -> Requests {
    let wrong: u64 =
        ErrorKind::ALL.into_iter().filter(|kind| kind.is_answered()).map(|kind| tally.errors_of(kind)).sum();
    Requests {
        issued: tally.issued,
        sent: tally.sent,
        answered: tally.answered,
        ok: tally.answered - wrong,
        failed: tally.failed(),
        unfinished: tally.unfinished,
        resent: tally.resent,
    }
}

fn open_loop(tally: &Tally) -> OpenLoopSummary {
    let (dropped, shed) = (tally.errors_of(ErrorKind::Dropped), tally.errors_of(ErrorKind::Shed));
    OpenLoopSummary { due: tally.arrived, begun: tally.arrived - dropped - shed, waited: tally.waited, dropped, shed }
}

fn errors(counts: &[u64; ErrorKind::ALL.len()]) -> BTreeMap<String, u64> {
    let counts = ErrorKind::ALL.into_iter().map(|kind| (kind.name().to_owned(), counts[kind as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn scenarios(run: &Run, tally: &Tally) -> Vec<ScenarioSummary> {
    let scenarios = run.plan().scenarios().map_or(&[][..], Scenarios::scenarios);
    let summary = |(scenario, tally): (&Scenario, &SessionTally)| ScenarioSummary {
        name: scenario.name.clone(),
        weight: scenario.weight,
        begun: tally.begun,
        completed: tally.completed,
        failed: tally.failed,
        unfinished: tally.begun - tally.completed - tally.failed,
        session_time: TimeSummary::of(&tally.times),
    };
    scenarios.iter().zip(&tally.sessions).map(summary).collect()
}

fn steps(run: &Run, tally: &Tally) -> Vec<StepSummary> {
    let names = run.plan().scenarios().map_or(&[][..], Scenarios::step_names);
    let summary = |(name, tally): (&String, &StepTally)| StepSummary {
        name: name.clone(),
        sent: tally.sent,
        answered: tally.answered,
        errors: errors(&tally.errors),
        response_time: TimeSummary::of(&tally.response),
        service_time: TimeSummary::of(&tally.service),
    };
    names.iter().zip(&tally.steps).map(summary).collect()
}

fn statuses(tally: &Tally) -> BTreeMap<String, u64> {
    let counts = tally.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
    counts.map(|(status, count)| (status.to_string(), *count)).collect()
}

fn generator_use(shards: &[Load], generator: Generator, elapsed: Duration, issued: u64) -> GeneratorUse {
    let share = |cpu: Duration, elapsed: Duration| {
        if elapsed.is_zero() { 0.0 } else { cpu.as_secs_f64() / elapsed.as_secs_f64() }
    };
    let thread_shares = shards
        .iter()
        .filter_map(|shard| Some(share(shard.span.cpu?, shard.span.ended.since(shard.span.started))))
        .collect();
    GeneratorUse {
        cpu_ns: generator.process_cpu.map(nanos),
        cpu_ns_per_request: generator
            .process_cpu
            .filter(|_| issued > 0)
            .map(|cpu| cpu.as_nanos() as f64 / issued as f64),
        cpu_share: generator.process_cpu.map(|cpu| share(cpu, elapsed)),
        thread_shares,
        processors: generator.processors as u64,
    }
}

fn invalid_reasons(run: &Run, outcome: &Outcome, stays_awake: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    let authority = &run.plan().authority().text;
    if let (true, Some(failure)) = (outcome.requests.answered == 0, run.tls_failure()) {
        reasons.push(format!("TLS with {authority} failed: {failure}"));
    } else if run.gave_up() {
        reasons.push(format!("no connection to {authority} could be opened; is the server running there?"));
    } else if outcome.requests.answered == 0 {
        reasons.push("nothing was answered".to_owned());
    }
    if let Some(count) = outcome.errors.get(ErrorKind::NoResources.name()) {
        reasons.push(format!(
            "this machine ran out of file descriptors, ports or memory {count} times; use fewer connections, or keep them open"
        ));
    }
    reasons.extend(lateness_reason(outcome));
    let busiest = outcome.generator.thread_shares.iter().copied().fold(0.0, f64::max);
    if busiest > THREAD_SHARE_MAX && !stays_awake {
        reasons.push(format!(
            "the generator was the limit: its busiest thread used {:.0} % of a processor; use more threads (-t) or a second machine",
            busiest * 100.0
        ));
    }
    reasons
}

/// Only of an open loop: a user who thinks a little longer changes nothing.
fn lateness_reason(outcome: &Outcome) -> Option<String> {
    outcome.open_loop?;
    let late = outcome.lateness.p99_ns;
    let share = outcome.service_time.p50_ns as f64 * LATENESS_SHARE_MAX;
    (late > nanos(LATENESS_P99_MAX) && late as f64 > share).then(|| {
        format!(
            "the generator kept the schedule badly: one request in a hundred left more than {} late; lower the rate, use more threads (-t), or leave a processor to the generator",
            duration(late)
        )
    })
}

fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = Vec::new();
    let Outcome { requests, connections, service_time, .. } = outcome;
    if outcome.interrupted {
        notes.push("interrupted: the result is partial".to_owned());
    }
    if let Some(OpenLoopSummary { due, dropped, shed, .. }) = outcome.open_loop
        && dropped + shed > 0
    {
        notes.push(format!(
            "{} of {due} that were due were never sent ({dropped} dropped, {shed} shed); no time in the result is theirs",
            dropped + shed
        ));
    }
    if requests.unfinished > 0 {
        notes.push(format!(
            "{} requests were still under way at the end; their times are not in the result",
            requests.unfinished
        ));
    }
    if requests.resent > 0 {
        notes.push(format!(
            "{} requests were sent again, since the server had ended their connection before them",
            requests.resent
        ));
    }
    if connections.unexpected > 0 {
        notes.push(format!(
            "on {} connections the server sent bytes that no request had asked for",
            connections.unexpected
        ));
    }
    if service_time.saturated > 0 {
        notes.push(format!("{} service times were longer than an hour and count as one hour", service_time.saturated));
    }
    notes
}

fn settings(run: &Run) -> SettingsSummary {
    let plan = run.plan();
    let settings: &Settings = plan.settings();
    SettingsSummary {
        url: url(settings),
        targets: settings.targets.len() as u64,
        address: run.addresses().get(run.preferred_address()).map(ToString::to_string),
        method: plan.method_name(),
        http: if settings.version == Version::Http10 { "1.0" } else { "1.1" }.to_owned(),
        connections: settings.connections as u64,
        threads: run.shard_count() as u64,
        pipeline_depth: settings.pipeline_depth as u64,
        requests: settings.requests,
        duration_ns: settings.duration.map(nanos),
        until_stopped: settings.until_stopped,
        keep_alive: settings.keep_alive,
        think_min_ns: settings.think.map_or(0, |think| nanos(think.min)),
        think_max_ns: settings.think.map_or(0, |think| nanos(think.max)),
        ramp_ns: nanos(settings.ramp),
        timeout_ns: nanos(settings.timeout),
        cookies: settings.cookies,
        schedule: settings.open_loop.as_ref().map(|open_loop| schedule(settings, open_loop)),
        interval_ns: nanos(settings.interval),
        seed: settings.seed,
    }
}

fn url(settings: &Settings) -> String {
    let base = settings.scenarios.as_ref().and_then(Scenarios::base);
    settings.targets.first().map(|target| target.url.as_str()).or(base).unwrap_or_default().to_owned()
}

fn schedule(settings: &Settings, open_loop: &OpenLoop) -> ScheduleSummary {
    let pace = &open_loop.pace;
    let places = (settings.connections * settings.pipeline_depth) as u64;
    let stage = |stage: &Stage| StageSummary {
        duration_ns: nanos(stage.duration),
        rate: stage.rate,
        is_ramp: stage.shape == Shape::Ramp,
    };
    ScheduleSummary {
        rate: pace.rate,
        arrivals: pace.arrivals.name().to_owned(),
        stages: pace.stages.iter().map(stage).collect(),
        in_flight_max: open_loop.in_flight_max.unwrap_or(places),
        waiting_max: open_loop.waiting_max,
        deadline_ns: open_loop.deadline.map(nanos),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
