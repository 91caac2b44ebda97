//! Scenarios: their sessions, and their steps by name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::times::TimeSummary;

/// Sessions of a scenario: `begun = completed + failed + unfinished`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioSummary {
    /// Name of the scenario.
    pub name: String,
    /// Weight of the scenario.
    pub weight: u32,
    /// Number of sessions begun.
    pub begun: u64,
    /// Number of sessions in which all steps were done and all checks passed.
    pub completed: u64,
    /// Number of sessions with a failed check, or that ended early.
    pub failed: u64,
    /// Number of sessions in progress at the end of the run.
    pub unfinished: u64,
    /// Time from the due time of the first request to the last response, including think times, of sessions in which
    /// all steps were done.
    pub session_time: TimeSummary,
}

/// Requests of the steps of one name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StepSummary {
    /// Name of the step.
    pub name: String,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of complete responses, of any status.
    pub answered: u64,
    /// Number of errors by kind; kinds without errors are omitted.
    pub errors: BTreeMap<String, u64>,
    /// Time from the due time of the request to the last byte of its response.
    pub response_time: TimeSummary,
    /// Time from sending the request to the last byte of its response.
    pub service_time: TimeSummary,
}
