//! `--fail-if`: conditions on the result, in the language of experiments.

use std::collections::BTreeMap;

use breme_command::checks::{CheckResult, Checks, NamedCheck};
use breme_experiment::record::{Distribution, TrialRecord, WorkloadRecord};
use breme_expression::{Condition, Quantity, Vocabulary};
use breme_judge::{MeasureReader, amount, is_met};
use breme_load::Run;
use breme_load_result::{ConditionVerdict, FailIfResult, LoadOutcome};

/// The name of the load in conditions, as in `p99(load)`; `p99` alone means the same.
const LOAD: &str = "load";

/// A condition under which the load has failed.
#[derive(Clone, Debug)]
pub struct FailIf {
    text: String,
    condition: Condition,
}

impl FailIf {
    /// Parses `p99 > 50ms or errors > 1%`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let vocabulary = Vocabulary {
            workloads: vec![LOAD.to_owned()],
            workload_meant: Some(LOAD.to_owned()),
            ..Vocabulary::default()
        };
        let condition = Condition::parse(text, &vocabulary)
            .map_err(|error| format!("column {}: {}", error.column, error.problem))?;
        let of_process = |quantity: &Quantity| quantity.is_of_generator() && *quantity != Quantity::GeneratorCpuShare;
        if let Some(measure) = condition.measures().iter().find(|measure| of_process(&measure.quantity)) {
            return Err(format!("`{}` is measured by `breme run`; use generator.cpu_share", measure.quantity));
        }
        Ok(Self { text: text.trim().to_owned(), condition })
    }

    fn judge(&self, record: &TrialRecord) -> FailIfResult {
        let measures = self.condition.measures();
        // What went wrong does not depend on when the generator sent its requests; the number of all responses does.
        let is_untimed = |quantity: &Quantity| {
            quantity.is_counted() && !matches!(quantity, Quantity::Answered | Quantity::Counter(_))
        };
        let counts_only = measures.iter().all(|measure| is_untimed(&measure.quantity));
        let invalid_reasons = if counts_only { Vec::new() } else { record.invalid_reasons.clone() };
        let record = TrialRecord { invalid_reasons, ..record.clone() };
        let mut reader = MeasureReader::new(&record);
        let mut values: Vec<String> = Vec::new();
        for measure in measures {
            let value = match reader.value(measure) {
                Ok(value) => format!("{} {}", measure.quantity, amount(value, measure.quantity.unit())),
                Err(lack) => format!("{}: {lack}", measure.quantity),
            };
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let verdict = match is_met(&self.condition, &record) {
            Some(true) => ConditionVerdict::Failed,
            Some(false) => ConditionVerdict::Passed,
            None => ConditionVerdict::NoVerdict,
        };
        FailIfResult { condition: self.text.clone(), verdict, measured: values.join(", ") }
    }
}

/// Judges every condition.
pub fn judge(conditions: &[FailIf], run: &Run, outcome: &LoadOutcome) -> Vec<FailIfResult> {
    if conditions.is_empty() {
        return Vec::new();
    }
    let record = record(run, outcome);
    conditions.iter().map(|condition| condition.judge(&record)).collect()
}

/// The result as the record of a trial, to which conditions refer.
fn record(run: &Run, outcome: &LoadOutcome) -> TrialRecord {
    let workload = WorkloadRecord {
        window_s: outcome.elapsed_ns as f64 / 1e9,
        achieved_rate: outcome.achieved_rate,
        offered_rate: Some(outcome.offered_rate),
        response: Distribution::from_histogram(&run.response_histogram()),
        service: Distribution::from_histogram(&run.service_histogram()),
        connect: Distribution::from_histogram(&run.connect_histogram()),
        ..WorkloadRecord::from_load(outcome)
    };
    TrialRecord {
        invalid_reasons: outcome.invalid_reasons.clone(),
        workloads: BTreeMap::from([(LOAD.to_owned(), workload)]),
        ..TrialRecord::default()
    }
}

/// The checks of the responses, and every condition.
pub fn checks(run: &Run, outcome: &LoadOutcome) -> Checks {
    let errors: u64 = outcome.errors.values().sum();
    let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 * 100.0 };
    let sentence = format!(
        "{:.0} responses/s, p50 {}, p99 {}, {} errors ({:.2} % of {} requests)",
        outcome.achieved_rate,
        breme_load::duration_text(outcome.response_time.p50_ns),
        breme_load::duration_text(outcome.response_time.p99_ns),
        errors,
        share(errors, outcome.requests.issued),
        outcome.requests.issued,
    );
    let is_wrong = outcome.all_failed() || run.expectations_failed(outcome) || outcome.requests.answered == 0;
    let responses = NamedCheck {
        name: "responses".to_owned(),
        result: if is_wrong { CheckResult::Failed } else { CheckResult::Passed },
        detail: format!("{} of {} requests got the expected response", outcome.requests.ok, outcome.requests.issued),
    };
    let condition = |condition: &FailIfResult| NamedCheck {
        name: format!("fail if {}", condition.condition),
        result: match condition.verdict {
            ConditionVerdict::Passed => CheckResult::Passed,
            ConditionVerdict::Failed => CheckResult::Failed,
            ConditionVerdict::NoVerdict => CheckResult::NoVerdict,
        },
        detail: condition.measured.clone(),
    };
    let all = [responses].into_iter().chain(outcome.conditions.iter().map(condition)).collect();
    let title = format!("{} {}", outcome.settings.method, outcome.settings.url);
    Checks { title, sentence, allow_undecided: false, all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str, record: &TrialRecord) -> (ConditionVerdict, String) {
        let result = FailIf::parse(text).unwrap().judge(record);
        (result.verdict, result.measured)
    }

    #[test]
    fn conditions_are_judged_on_the_result() {
        use ConditionVerdict::{Failed, NoVerdict, Passed};
        let workload = WorkloadRecord {
            ok: 99,
            errors: BTreeMap::from([("status".to_owned(), 1)]),
            achieved_rate: 200.0,
            ..WorkloadRecord::default()
        };
        let record = |invalid: &[&str]| TrialRecord {
            workloads: BTreeMap::from([(LOAD.to_owned(), workload.clone())]),
            invalid_reasons: invalid.iter().map(|&reason| reason.to_owned()).collect(),
            ..TrialRecord::default()
        };
        let valid = record(&[]);
        assert_eq!(verdict("errors > 0.5% or rate < 1", &valid), (Failed, "errors 1 %, rate 200/s".to_owned()));
        assert_eq!(verdict("errors(load) > 2 %", &valid).0, Passed);
        // Without any times: that is no reason to pass.
        assert_eq!(verdict("p99 > 50ms", &valid).0, NoVerdict);
        // The generator was the limit: its rate is meaningless, its errors are not.
        let invalid = record(&["late"]);
        assert_eq!(verdict("rate < 100", &invalid), (NoVerdict, "rate: INVALID: late".to_owned()));
        assert_eq!(verdict("errors > 0.5%", &invalid).0, Failed);
    }

    #[test]
    fn mistakes_name_their_column() {
        let problem = FailIf::parse("p99 > 50").unwrap_err();
        assert!(problem.starts_with("column "), "{problem}");
        assert!(FailIf::parse("p99(user) > 50ms").unwrap_err().contains("user"));
        assert!(FailIf::parse("cpu > 1ms").unwrap_err().contains("of an experiment"));
        let known = FailIf::parse("foo > 1").unwrap_err();
        assert!(known.contains("generator.cpu_share") && !known.contains("generator.memory"), "{known}");
        assert!(known.contains("step.NAME.p99") && !known.contains("counter.NAME"), "{known}");
        assert!(FailIf::parse("generator.memory > 1MB").unwrap_err().contains("`breme run`"));
    }
}
