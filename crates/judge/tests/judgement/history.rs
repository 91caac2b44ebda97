//! Histories of many runs: values, changes and trends.

use breme_experiment::plan::{Gate, GatedMeasure};
use breme_experiment::record::{Machine, RunHead, TrialRecord};
use breme_judge::{
    CompareRules, GateVerdict, History, HistoryBuilder, HistoryRow, RecordedRun, RunComparison, RunRole, TrendVerdict,
    compare,
};

use crate::fixture::{Experiment, Noise, factor, measure};

const RUNS: u64 = 8;

fn rules() -> CompareRules {
    let measures = ["mean(user)", "rate(user)"];
    let measures = measures.map(|text| GatedMeasure { measure: measure(text), margin: None }).into();
    CompareRules { gate: Gate { measures, margin: 0.1 }, ..CompareRules::default() }
}

fn head(number: u64) -> RunHead {
    RunHead { run: format!("run-{number}"), started_unix_ms: number, ..RunHead::default() }
}

/// Runs of two paths, of which one becomes slower by this factor with each run; the first is the baseline, the last is
/// judged.
fn history_of(
    seed: u64,
    slower: f64,
    spoil: impl Fn(u64, &mut RunHead, &mut Vec<TrialRecord>),
) -> (RunComparison, History) {
    let experiment = Experiment::new(vec![factor("path", &["source", "cached"])], 6, Noise::Normal, 0.02);
    let runs: Vec<(RunHead, Vec<TrialRecord>)> = (0..RUNS)
        .map(|number| {
            let times = slower.powf(number as f64);
            let mut records = experiment
                .run(100 * seed + number, |levels| if levels["path"] == "cached" { 0.01 * times } else { 0.02 });
            let mut head = head(number);
            spoil(number, &mut head, &mut records);
            (head, records)
        })
        .collect();
    let run = |number: usize| {
        let (head, records) = &runs[number];
        RecordedRun { head, plan: "plan", question: &experiment.question, records }
    };
    let (rules, last) = (rules(), runs.len() - 1);
    let comparison = compare(&run(0), &run(last), &rules);
    let mut builder = HistoryBuilder::new(&comparison.rows, &rules);
    for number in 0..=last {
        let role = match number {
            0 => RunRole::Baseline,
            _ if number == last => RunRole::Judged,
            _ => RunRole::Shown,
        };
        builder.push(&run(number), role);
    }
    let history = builder.finish();
    (comparison, history)
}

fn row<'a>(history: &'a History, measure: &str, path: &str) -> &'a HistoryRow {
    history.rows.iter().find(|row| row.measure == measure && row.levels["path"] == path).unwrap()
}

#[test]
fn small_steps_in_one_direction_are_a_trend_and_the_gate_judges_the_last_run_alone() {
    let (comparison, history) = history_of(1, 1.04, |_, _, _| {});
    let names: Vec<String> = (0..RUNS).map(|number| format!("run-{number}")).collect();
    assert_eq!(history.runs.iter().map(|run| run.run.clone()).collect::<Vec<_>>(), names);
    assert_eq!((history.runs[0].role, history.runs[7].role), (RunRole::Baseline, RunRole::Judged));
    // 1.04^7 is 1.32: beyond the margin.
    assert_eq!(comparison.verdict, GateVerdict::Worse);
    for (measure, factor) in [("mean(user)", 1.04), ("rate(user)", 1.0 / 1.04)] {
        let trend = row(&history, measure, "cached").trend.unwrap();
        assert_eq!(trend.verdict, TrendVerdict::GettingWorse, "{measure}: {trend:?}");
        assert!((trend.center / factor - 1.0).abs() < 0.01, "{measure}: {trend:?}");
        assert!(trend.low <= trend.center && trend.center <= trend.high, "{measure}: {trend:?}");
        let flat = row(&history, measure, "source").trend.unwrap();
        assert!((flat.center - 1.0).abs() < 0.01, "{measure}: {flat:?}");
    }
    for (compared, row) in comparison.rows.iter().filter(|row| row.gated.is_some()).zip(&history.rows) {
        assert_eq!(history.row_of(compared), Some(row), "in the same order");
        assert_eq!((row.points[0].value, row.points[7].value), (compared.before, compared.after));
        assert_eq!(row.baseline, compared.before);
        assert!(row.points.iter().all(|point| point.low <= point.value && point.value <= point.high), "{row:?}");
    }
    let ends = |measure: &str| {
        let row = row(&history, measure, "cached");
        row.limit.unwrap() / row.baseline.unwrap()
    };
    assert!((ends("mean(user)") - 1.1).abs() < 1e-9 && (ends("rate(user)") - 0.9).abs() < 1e-9);
}

#[test]
fn equal_runs_seldom_have_a_trend() {
    let shown = (0..50).filter(|&seed| {
        let (_, history) = history_of(seed, 1.0, |_, _, _| {});
        history.rows.iter().any(|row| row.trend.unwrap().verdict != TrendVerdict::NotShown)
    });
    let shown = shown.count();
    // At most 5 % of the histories: 2.5 with a deviation of 1.5.
    assert!(shown <= 8, "{shown} of 50");
}

#[test]
fn a_run_without_a_value_is_a_gap_and_changes_are_named() {
    let (_, history) = history_of(1, 1.04, |number, head, records| match number {
        2 => records.retain(|record| record.levels["path"] == "source"),
        3.. => head.machine = Machine { kernel: "Linux 7".to_owned(), ..Machine::default() },
        _ => {}
    });
    let gap = row(&history, "mean(user)", "cached").points[2];
    assert_eq!((gap.value, gap.low, gap.blocks), (None, None, 0));
    assert_eq!(row(&history, "mean(user)", "cached").trend.unwrap().runs as u64, RUNS - 1);
    let changed: Vec<(usize, &String)> = history
        .runs
        .iter()
        .enumerate()
        .flat_map(|(at, run)| run.changes.iter().map(move |change| (at, change)))
        .collect();
    assert_eq!(changed, [(3, &"The kernel differs:  → Linux 7.".to_owned())]);
}
