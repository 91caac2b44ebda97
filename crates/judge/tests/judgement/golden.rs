//! The complete judgement of a small artificial experiment, word for word: the input of a report.

use std::collections::BTreeMap;

use breme_base::Random;
use breme_experiment::plan::{ModelKind, PlanModel};
use breme_experiment::record::{Purpose, TrialFailure, TrialRecord};
use breme_expression::Condition;
use breme_judge::{PublishedFigure, SearchQuestion, judge};
use breme_stats::Histogram;

use crate::fixture::{Experiment, Noise, factor, hypothesis, levels, measure, trial, vocabulary, workload};

/// A wiki with and without a cache, under three crowds.
fn experiment() -> Experiment {
    let factors = vec![factor("path", &["source", "cached"]), factor("crowd", &["1", "4", "8", "16"])];
    let mut experiment = Experiment::new(factors.clone(), 7, Noise::Normal, 0.02);
    let question = &mut experiment.question;
    question.measures.push(measure("p99(user)"));
    question.hypotheses = [
        "mean(user) [path=cached, crowd=16] < 0.5 * mean(user) [path=source, crowd=16]",
        "p99(user) < 5 ms",
        "pass(user) == 100 %",
        "mean(user) [path=cached, crowd=1] ≈ mean(user) [path=source, crowd=1]",
    ]
    .map(|expect| hypothesis(expect, &factors))
    .to_vec();
    question.published = vec![PublishedFigure {
        measure: "mean(user)".into(),
        at: levels(&[("path", "cached")]),
        value: 0.0144,
        source: "study 1".into(),
    }];
    question.models = vec![PlanModel {
        kind: ModelKind::Growth,
        of: measure("rate(user)"),
        over: "crowd".into(),
        leave_out: Vec::new(),
    }];
    question.searches = vec![SearchQuestion {
        factor: "crowd".into(),
        from: 1.0,
        to: 64.0,
        precision: 0.1,
        is_integer: true,
        until: Condition::parse("mean(user) > 1 s", &vocabulary(&[])).unwrap(),
        at: levels(&[("path", "source")]),
        trial: std::time::Duration::from_secs(2),
        confirmation: std::time::Duration::from_secs(10),
        trials_max: 40,
    }];
    experiment
}

fn records(experiment: &Experiment) -> Vec<TrialRecord> {
    let mut records = experiment.run(7, |levels| {
        let crowd: f64 = levels["crowd"].parse().unwrap();
        if levels["path"] == "cached" { 0.001 + 0.0001 * crowd } else { 0.001 * crowd + 0.0001 }
    });
    let mut random = Random::new(1);
    for record in &mut records {
        let user = record.workloads.get_mut("user").unwrap();
        let mut histogram = Histogram::new();
        // Exponential times with this mean.
        (0..300).for_each(|_| histogram.record((-user.response.mean_ns * (1.0 - random.unit()).ln()) as u64));
        user.response.histogram = histogram.encode();
    }
    records[40].end = TrialFailure::new("site", "ended with signal 11", "…").into();
    for (step, crowd) in [1.0, 2.0, 4.0, 8.0, 16.0].into_iter().enumerate() {
        let number = records.len() as u32 + 1;
        let levels = levels(&[("path", "source"), ("crowd", &format!("{crowd}"))]);
        let searched = trial(step as u32 + 1, 0, &levels, workload(if crowd > 10.0 { 2.0 } else { 0.1 }, 1, 2.0));
        records.push(TrialRecord { number, purpose: Purpose::Search, ..searched });
    }
    records
}

/// The part for people.
#[test]
fn words() {
    let experiment = experiment();
    let judgement = judge(&experiment.question, &records(&experiment));
    let mut lines = vec![judgement.answer.clone(), judgement.grounds.clone(), String::new()];
    lines.extend(judgement.hypotheses.iter().map(|judged| format!("{}\n    {}", judged.expect, judged.sentence)));
    lines.push(String::new());
    lines.extend(judgement.comparisons.iter().map(|comparison| comparison.sentence.clone()));
    lines.push(String::new());
    lines.extend(judgement.searches.iter().map(|search| search.sentence.clone()));
    lines.extend(judgement.models.iter().map(|model| model.sentence.clone()));
    lines.push(String::new());
    lines.extend(judgement.warnings.clone());
    lines.extend(judgement.notes.iter().map(|note| format!("note: {note}")));
    insta::assert_snapshot!(lines.join("\n"));
}

/// The part for programs: all fields of a smaller experiment.
#[test]
fn fields() {
    let mut experiment = Experiment::new(vec![factor("path", &["source", "cached"])], 2, Noise::Normal, 0.02);
    experiment.question.measures.truncate(1);
    let factors = experiment.question.factors.clone();
    experiment.question.hypotheses = vec![hypothesis("mean(user) < 50 ms", &factors)];
    let records = experiment.run(1, |levels| if levels["path"] == "cached" { 0.005 } else { 0.01 });
    let judgement = judge(&experiment.question, &records);
    insta::assert_snapshot!(serde_json::to_string_pretty(&rounded(&serde_json::to_value(judgement).unwrap())).unwrap());
}

/// To six digits, so that another math library does not change it.
fn rounded(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) if number.is_f64() => {
            Value::from(format!("{:.5e}", number.as_f64().unwrap()).parse::<f64>().unwrap())
        }
        Value::Array(values) => values.iter().map(rounded).collect(),
        Value::Object(fields) => {
            let fields: BTreeMap<&String, Value> = fields.iter().map(|(name, value)| (name, rounded(value))).collect();
            serde_json::to_value(fields).unwrap()
        }
        other => other.clone(),
    }
}

#[test]
fn the_same_records_in_another_order_give_the_same_judgement() {
    let experiment = experiment();
    let records = records(&experiment);
    let judgement = judge(&experiment.question, &records);
    let mut turned = records;
    turned.reverse();
    let again = judge(&experiment.question, &turned);
    assert_eq!(again.answer, judgement.answer);
    assert_eq!(again.hypotheses, judgement.hypotheses);
    assert_eq!(again.comparisons, judgement.comparisons);
    assert_eq!(again.searches, judgement.searches);
}
