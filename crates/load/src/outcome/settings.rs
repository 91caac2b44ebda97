//! What was asked for, so that a result can be understood, and repeated, without the command that made it.

use breme_base::nanos;
use breme_http1::Version;
use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::{OpenLoop, Settings};
use crate::run::Run;
use crate::schedule::{Shape, Stage};

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
    /// Mean think time.
    pub think_mean_ns: u64,
    /// Distribution of the think time: `exponential`, `uniform` or `constant`; none without `--think`.
    pub think_distribution: Option<String>,
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

impl SettingsSummary {
    pub(super) fn of(run: &Run) -> Self {
        let plan = run.plan();
        let settings: &Settings = plan.settings();
        Self {
            url: plan.url().to_owned(),
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
            think_mean_ns: settings.think.map_or(0, |think| nanos(think.mean())),
            think_distribution: settings.think.map(|think| think.distribution().to_owned()),
            ramp_ns: nanos(settings.ramp),
            timeout_ns: nanos(settings.timeout),
            cookies: settings.cookies,
            schedule: settings.open_loop.as_ref().map(|open_loop| ScheduleSummary::of(settings, open_loop)),
            interval_ns: nanos(settings.interval),
            seed: settings.seed,
        }
    }
}

impl ScheduleSummary {
    fn of(settings: &Settings, open_loop: &OpenLoop) -> Self {
        let pace = &open_loop.pace;
        let places = (settings.connections * settings.pipeline_depth) as u64;
        let stage = |stage: &Stage| StageSummary {
            duration_ns: nanos(stage.duration),
            rate: stage.rate,
            is_ramp: stage.shape == Shape::Ramp,
        };
        Self {
            rate: pace.rate,
            arrivals: pace.arrivals.name().to_owned(),
            stages: pace.stages.iter().map(stage).collect(),
            in_flight_max: open_loop.in_flight_max.unwrap_or(places),
            waiting_max: open_loop.waiting_max,
            deadline_ns: open_loop.deadline.map(nanos),
        }
    }
}
