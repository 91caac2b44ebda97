//! Models on subjects with a known law: fitted to the lower levels, they must predict the higher ones.

use std::collections::BTreeMap;

use breme_experiment::plan::{ModelKind, PlanModel};
use breme_experiment::record::{SubjectRecord, TrialRecord};
use breme_judge::judgement::ModelOutcome;
use breme_judge::{Factor, Levels, Question, judge};
use breme_stats::queueing_network::{Station, exact_mva};

use crate::fixture::{Disturbance, Noise, factor, levels, measure, trial, workload};

const USERS: [&str; 9] = ["1", "2", "4", "8", "16", "24", "32", "48", "64"];

fn question(kind: &ModelKind, factors: Vec<Factor>) -> Question {
    let model =
        |of: &str| PlanModel { kind: kind.clone(), of: measure(of), over: "users".into(), leave_out: Vec::new() };
    let models = match kind {
        ModelKind::Growth => vec![model("rate(user)")],
        ModelKind::Mva { .. } => vec![model("rate(user)"), model("mean(user)")],
    };
    Question { measures: vec![measure("rate(user)")], factors, models, processors: 2, ..Question::default() }
}

/// Trials at each number of users, given the rate.
fn trials_by_users(rate: impl Fn(f64) -> f64) -> Vec<TrialRecord> {
    let mut noise = Disturbance::new(Noise::Normal, 0.01, 3);
    let mut records = Vec::new();
    for block in 1..=4 {
        for users in USERS {
            let number: f64 = users.parse().unwrap();
            let mean_s = number / rate(number) * noise.draw().exp();
            records.push(trial(block, 0, &levels(&[("users", users)]), workload(mean_s, number as u64, 10.0)));
        }
    }
    records
}

fn best(models: &[ModelOutcome]) -> &ModelOutcome {
    models.iter().find(|model| model.is_best).unwrap()
}

#[test]
fn contention_is_distinguished_from_coherency() {
    let question = question(&ModelKind::Growth, vec![factor("users", &USERS)]);
    let amdahl = judge(&question, &trials_by_users(|users| 100.0 * users / (1.0 + 0.05 * (users - 1.0))));
    let found = best(&amdahl.models);
    assert_eq!(found.name, "Amdahl");
    assert!((found.parameters["contention"] - 0.05).abs() < 0.01, "{found:?}");
    assert!(found.prediction_error.unwrap() < 0.05, "{}", found.sentence);
    assert_eq!(found.points.iter().filter(|point| point.is_held_out).count(), 3, "the highest third");

    let falling = |users: f64| 100.0 * users / (1.0 + 0.02 * (users - 1.0) + 0.001 * users * (users - 1.0));
    let universal = judge(&question, &trials_by_users(falling));
    let found = best(&universal.models);
    assert_eq!(found.name, "Universal Scalability Law");
    assert!((found.parameters["peak users"] / 31.3 - 1.0).abs() < 0.2, "{found:?}");
    assert!(found.prediction_error.unwrap() < 0.15, "{}", found.sentence);
    let linear = universal.models.iter().find(|model| model.name == "linear").unwrap();
    assert!(linear.prediction_error.unwrap() > 1.0, "straight on is wrong here: {}", linear.sentence);
    assert!(linear.sentence.contains("levels not used by the fit"), "{}", linear.sentence);
}

/// A subject with some CPUs, which needs 2 ms of them for each request, with 1 ms in transit.
fn trials_of_subject(servers: u32, cpus: &[usize]) -> Vec<TrialRecord> {
    let stations = [Station { name: "cpu".into(), demand_s: 0.002, servers }];
    let truth = exact_mva(&stations, 0.001, 64).unwrap();
    let mut records = trials_by_users(|users| truth[users as usize - 1].rate);
    for record in &mut records {
        let answered = record.workloads["user"].answered;
        record.workloads.get_mut("user").unwrap().subject = "site".to_owned();
        let site = SubjectRecord { cpu_user_ns: answered * 2_000_000, threads_max: 1, ..SubjectRecord::default() };
        record.subjects.insert("site".to_owned(), site);
        record.subjects.insert("elsewhere".to_owned(), SubjectRecord::default());
        if !cpus.is_empty() {
            record.cpus = BTreeMap::from([("site".to_owned(), cpus.to_vec()), ("user".to_owned(), vec![1])]);
        }
    }
    records
}

#[test]
fn demands_at_low_load_foretell_the_high_load() {
    let records = trials_of_subject(2, &[]);
    let kind = ModelKind::Mva { think: None, demands: Vec::new() };
    let judgement = judge(&question(&kind, vec![factor("users", &USERS)]), &records);
    let [rate, time] = judgement.models.as_slice() else { panic!("{:?}", judgement.models) };
    assert_eq!((rate.measure.as_str(), time.measure.as_str()), ("rate(user)", "mean(user)"));
    assert!((rate.parameters["cpu(site), s"] - 0.002).abs() < 1e-6);
    assert!((rate.parameters["delay without a queue, s"] - 0.001).abs() < 1e-4, "{:?}", rate.parameters);
    assert!(rate.prediction_error.unwrap() < 0.03 && time.prediction_error.unwrap() < 0.03, "{}", rate.sentence);
    assert_eq!(rate.points.iter().filter(|point| point.is_held_out).count(), 6);
}

/// The machine has two CPUs.
#[test]
fn a_queue_has_as_many_servers_as_the_subject_has_cpus() {
    // The default, the same by the name of the workload, and the part in user mode, which is all of it here.
    for demands in [vec![], vec![measure("cpu(user)").expression], vec![measure("cpu.user(site)").expression]] {
        let kind = ModelKind::Mva { think: None, demands };
        let question = question(&kind, vec![factor("users", &USERS)]);
        for (servers, cpus) in [(1, &[0][..]), (2, &[0, 1])] {
            let judgement = judge(&question, &trials_of_subject(servers, cpus));
            let rate = &judgement.models[0];
            assert!(rate.prediction_error.unwrap() < 0.03, "{}", rate.sentence);
            assert!(rate.sentence.contains(&format!(" on {servers}")), "{}", rate.sentence);
        }
    }
}

#[test]
fn obstacles_to_a_model_are_reported() {
    let growth = || ModelKind::Growth;
    let named = judge(&question(&growth(), vec![factor("users", &["few", "many"])]), &[]);
    assert!(named.models.is_empty() && named.warnings.iter().any(|warning| warning.contains("`few` is not a number")));
    let missing = judge(&question(&growth(), vec![]), &[]);
    assert!(missing.warnings.iter().any(|warning| warning.contains("there is no factor `users`")));
    // The subject runs elsewhere, and its processes were not sampled.
    for (demands, said) in [
        (vec![], "no subject was instrumented"),
        (vec![measure("cpu(site)").expression], "the demand `cpu(site)` has no measured value"),
    ] {
        let queueing = ModelKind::Mva { think: None, demands };
        let no_cpu = judge(&question(&queueing, vec![factor("users", &USERS)]), &trials_by_users(|users| users));
        assert!(no_cpu.warnings.iter().any(|warning| warning.contains(said)), "{:?}", no_cpu.warnings);
    }
    let one =
        trial(1, 0, &Levels::from(BTreeMap::from([("users".to_owned(), "1".to_owned())])), workload(0.1, 1, 10.0));
    let lonely = judge(&question(&growth(), vec![factor("users", &["1"])]), &[one]);
    assert!(lonely.warnings.iter().any(|warning| warning.contains("fewer than 3 levels")), "{:?}", lonely.warnings);
}
