//! Unusual records: whatever a journal contains, judging terminates, and its result survives serialisation.

use breme_experiment::plan::{ModelKind, PlanModel};
use breme_experiment::record::{Purpose, RunHead, SteadyState, TrialFailure, TrialRecord, WorkloadRecord};
use breme_judge::judgement::Judgement;
use breme_judge::{CompareRules, Question, RecordedRun, compare, judge};
use proptest::prelude::*;

use crate::fixture::{factor, hypothesis, levels, measure, trial, workload};

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 1e-6..1e6_f64,
        1 => prop::sample::select(vec![0.0, -1.0, 1e300, 1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
    ]
}

fn odd_workload() -> impl Strategy<Value = WorkloadRecord> {
    let numbers = (number(), number(), number(), number());
    let counts = (0..50_u64, 0..50_u64, 0..3_u64, any::<bool>(), 0..4_u8);
    (numbers, counts).prop_map(|((rate, mean_ns, window_s, think_s), (answered, failed, users, is_open, state))| {
        let mut odd = workload(0.01, users, 1.0);
        (odd.achieved_rate, odd.response.mean_ns, odd.window_s, odd.think_mean_s) = (rate, mean_ns, window_s, think_s);
        (odd.answered, odd.ok, odd.response.count) = (answered, answered, answered * 100);
        odd.errors = [("timeout".to_owned(), failed)].into();
        odd.offered_rate = is_open.then_some(rate);
        odd.steady.state = if state == 0 { SteadyState::NeverSteady } else { SteadyState::Flat };
        odd
    })
}

fn odd_trial() -> impl Strategy<Value = TrialRecord> {
    let path = prop::sample::select(vec!["source", "cached", "else"]);
    let users = prop::sample::select(vec!["0", "1", "2", "8", "many"]);
    let key = (1..8_u32, 0..3_u32, 0..10_u8);
    (path, users, key, odd_workload()).prop_map(|(path, users, (block, replicate, kind), workload)| {
        let mut odd = trial(block, replicate, &levels(&[("path", path), ("users", users)]), workload);
        match kind {
            0 => {
                odd.end = TrialFailure::new("site", "died", "").into();
            }
            1 => odd.invalid_reasons = vec!["slow".into()],
            2 => odd.purpose = Purpose::Search,
            3 => odd.workloads.clear(),
            4 => odd.levels.clear(),
            _ => {}
        }
        odd
    })
}

fn question() -> Question {
    let factors = vec![factor("path", &["source", "cached"]), factor("users", &["0", "1", "2", "8"])];
    let claims = ["mean(user) < 5 ms", "rate(user) [path=cached] ≈ rate(user) [path=source]", "errors(user) == 0 %"];
    let mva = ModelKind::Mva { think: None, demands: vec![measure("mean(user)").expression] };
    let model = |kind| PlanModel { kind, of: measure("rate(user)"), over: "users".into(), leave_out: Vec::new() };
    Question {
        hypotheses: claims.map(|claim| hypothesis(claim, &factors)).to_vec(),
        measures: ["mean(user)", "rate(user)", "rate(user) / mean(user)", "errors(user)"].map(measure).to_vec(),
        models: vec![model(ModelKind::Growth), model(mva)],
        factors,
        blocks: 7,
        trials: 63,
        ..Question::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn judging_ends_and_can_be_kept(records in prop::collection::vec(odd_trial(), 0..120)) {
        let question = question();
        let judgement = judge(&question, &records);
        let kept: Judgement = serde_json::from_str(&serde_json::to_string(&judgement).unwrap()).unwrap();
        prop_assert_eq!(kept.hypotheses.len(), 3);
        prop_assert!(!judgement.answer.is_empty());
        let head = RunHead::default();
        let (half, rest) = records.split_at(records.len() / 2);
        let run = |records| RecordedRun { head: &head, plan: "", question: &question, records };
        let comparison = compare(&run(half), &run(rest), &CompareRules::default());
        let text = serde_json::to_string(&comparison).unwrap();
        prop_assert!(serde_json::from_str::<breme_judge::RunComparison>(&text).is_ok());
    }
}
