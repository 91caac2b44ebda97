//! The settings of the run, so that a result can be understood and repeated without the command that made it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SettingsSummary {
    /// URL of the first target.
    pub url: String,
    /// Number of targets; with a scenario, of its hosts.
    pub targets: u64,
    /// How the users of a scenario choose among several hosts, `random` or `user`; null with one host.
    pub spread: Option<String>,
    /// Network address of the server; of several hosts, of the first.
    pub address: Option<String>,
    /// Method of the first target.
    pub method: String,
    /// HTTP version, `1.0` or `1.1`.
    pub http: String,
    /// Number of connections.
    pub connections: u64,
    /// Number of threads.
    pub threads: u64,
    /// Maximum number of outstanding requests per connection.
    pub pipeline_depth: u64,
    /// Number of requests after which the run ends (sessions, with a scenario); null if it has no such limit.
    pub requests: Option<u64>,
    /// Duration after which the run ends; null if it has no such limit.
    pub duration_ns: Option<u64>,
    /// Whether the run lasts until it is stopped (`--until-stopped`).
    pub until_stopped: bool,
    /// Whether connections stay open between requests.
    pub keep_alive: bool,
    /// Mean think time.
    pub think_mean_ns: u64,
    /// Distribution of the think time: `exponential`, `uniform` or `constant`; null without `--think`.
    pub think_distribution: Option<String>,
    /// Time over which the starts of the connections are spread.
    pub ramp_ns: u64,
    /// Time limit for connecting, and for each request.
    pub timeout_ns: u64,
    /// Whether each connection keeps cookies.
    pub cookies: bool,
    /// Schedule of an open loop; null in a closed loop.
    pub schedule: Option<ScheduleSummary>,
    /// Interval of the time series.
    pub interval_ns: u64,
    /// Time from the start of the run from which gaps between successful responses count.
    pub gaps_after_ns: u64,
    /// Random seed.
    pub seed: u64,
}

/// Schedule of an open loop.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleSummary {
    /// Initial rate, arrivals per second.
    pub rate: f64,
    /// Distribution of the arrivals, `even` or `poisson`.
    pub arrivals: String,
    /// Stages of a changing rate.
    pub stages: Vec<StageSummary>,
    /// Maximum number of requests in flight.
    pub in_flight_max: u64,
    /// Maximum number of requests that wait for a connection.
    pub waiting_max: u64,
    /// Time after which a request that is due and not yet sent is discarded; null without `--deadline`.
    pub deadline_ns: Option<u64>,
}

/// A stage of a schedule.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StageSummary {
    /// Duration of the stage.
    pub duration_ns: u64,
    /// Rate at the end of the stage, arrivals per second.
    pub rate: f64,
    /// Whether the rate changes linearly over the stage; otherwise it changes at its beginning.
    pub is_ramp: bool,
}
