//! Scenarios: their sessions, and their steps by name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::counts::errors;
use super::times::TimeSummary;
use crate::run::Run;
use crate::scenario::{Scenario, Scenarios};
use crate::tally::{SessionTally, StepTally, Tally};

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
    /// From the instant at which the first request was due to the last answer, with the time to think, of sessions that
    /// did all steps.
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

pub(super) fn scenarios(run: &Run, tally: &Tally) -> Vec<ScenarioSummary> {
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

pub(super) fn steps(run: &Run, tally: &Tally) -> Vec<StepSummary> {
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
