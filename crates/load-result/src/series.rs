//! The time series.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A row of the time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Start, in seconds from the start of the run.
    pub start_s: f64,
    /// Length, in seconds.
    pub length_s: f64,
    /// Number of complete responses.
    pub answered: u64,
    /// Number of errors of all kinds.
    pub errors: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Mean service time.
    pub service_mean_ns: f64,
    /// Median service time. This and the percentiles below are, in a row merged from several intervals, the largest of
    /// theirs.
    pub service_p50_ns: u64,
    /// 90th percentile of the service time.
    pub service_p90_ns: u64,
    /// 99th percentile of the service time.
    pub service_p99_ns: u64,
    /// Maximum service time.
    pub service_max_ns: u64,
    /// Median response time.
    pub response_p50_ns: u64,
    /// 90th percentile of the response time.
    pub response_p90_ns: u64,
    /// 99th percentile of the response time.
    pub response_p99_ns: u64,
    /// Maximum response time.
    pub response_max_ns: u64,
    /// Mean time from the arrival of a response in the kernel to its reading by the generator. Not part of any other
    /// time.
    pub held_mean_ns: f64,
    /// Maximum of this time.
    pub held_max_ns: u64,
}
