//! Scenarios: their sessions, and their steps by name.

use breme_load_plan::{Scenario, Scenarios};
use breme_load_result::{ScenarioSummary, StepSummary, TimeSummary};

use super::counts::errors;
use crate::run::Run;
use crate::tally::{SessionTally, StepTally, Tally};

pub(super) fn scenarios(run: &Run, tally: &Tally) -> Vec<ScenarioSummary> {
    let scenarios = run.plan().scenarios().map_or(&[][..], Scenarios::scenarios);
    let summary = |(scenario, tally): (&Scenario, &SessionTally)| ScenarioSummary {
        name: scenario.name.clone(),
        weight: scenario.weight,
        begun: tally.begun,
        completed: tally.completed,
        failed: tally.failed,
        unfinished: tally.begun - tally.completed - tally.failed,
        session_time: TimeSummary::from_histogram(&tally.times),
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
        response_time: TimeSummary::from_histogram(&tally.response),
        service_time: TimeSummary::from_histogram(&tally.service),
    };
    names.iter().zip(&tally.steps).map(summary).collect()
}
