//! Comparison of two runs: the gate passes what is demonstrably not worse, and nothing else.

use breme_experiment::plan::{Gate, GatedMeasure, MARGIN_DEFAULT};
use breme_experiment::record::{Machine, RunHead, TrialFailure, TrialRecord};
use breme_judge::{CompareRules, GateVerdict, Levels, RecordedRun, RunComparison, RunRow, RunVerdict, compare};

use crate::fixture::{Experiment, Noise, factor, measure};

fn experiment(blocks: u32) -> Experiment {
    Experiment::new(vec![factor("path", &["source", "cached"])], blocks, Noise::Normal, 0.02)
}

/// Users at `combinations` levels.
fn experiment_of(combinations: usize, blocks: u32, noise: Noise, size: f64) -> Experiment {
    let levels: Vec<String> = (1..=combinations).map(|users| users.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    Experiment::new(vec![factor("users", &levels)], blocks, noise, size)
}

fn head(run: &str) -> RunHead {
    RunHead { run: run.into(), title: "t".into(), breme_version: "0.1.0".into(), ..RunHead::default() }
}

fn gate(measures: &[&str], margin: f64) -> CompareRules {
    let measures = measures.iter().map(|text| GatedMeasure { measure: measure(text), margin: None }).collect();
    CompareRules { gate: Gate { measures, margin }, ..CompareRules::default() }
}

fn compared_of(
    experiment: &Experiment,
    seed: u64,
    rules: &CompareRules,
    slower: impl Fn(&Levels) -> f64,
) -> RunComparison {
    let before = experiment.run(2 * seed, |_| 0.01);
    let after = experiment.run(2 * seed + 1, |levels| 0.01 * slower(levels));
    compared_records(experiment, &before, &after, rules)
}

fn compared_records(
    experiment: &Experiment,
    before: &[TrialRecord],
    after: &[TrialRecord],
    rules: &CompareRules,
) -> RunComparison {
    let (one, other) = (head("before"), head("after"));
    let run = |head, records| RecordedRun { head, plan: "plan", question: &experiment.question, records };
    compare(&run(&one, before), &run(&other, after), rules)
}

fn compared(blocks: u32, seed: u64, rules: &CompareRules, slower: impl Fn(&Levels) -> f64) -> RunComparison {
    compared_of(&experiment(blocks), seed, rules, slower)
}

#[test]
fn a_slower_run_is_worse_and_a_faster_one_passes() {
    let rules = gate(&["mean(user)"], 0.05);
    let worse = compared(8, 1, &rules, |levels| if levels["path"] == "cached" { 1.3 } else { 1.0 });
    assert_eq!(worse.verdict, GateVerdict::Worse);
    assert!(
        worse.sentence.starts_with("Worse in 1 of 2 gated rows. `mean(user)` at path=cached: "),
        "{}",
        worse.sentence
    );
    assert!(worse.sentence.contains(", allowed ≤ 1.050."), "{}", worse.sentence);
    // The rate is shown, but not gated.
    let rates: Vec<RunVerdict> = worse.rows.iter().filter(|row| row.gated.is_none()).map(|row| row.verdict).collect();
    assert_eq!((rates.len(), rates[0], worse.rows[0].gated.is_some()), (2, RunVerdict::Worse, true));
    assert!(worse.warnings.is_empty(), "{:?}", worse.warnings);
    let better = compared(8, 2, &rules, |_| 0.7);
    assert_eq!(better.verdict, GateVerdict::NotWorse);
    assert!(better.rows.iter().all(|row| row.verdict == RunVerdict::Better), "{:?}", better.rows);
}

#[test]
fn the_margin_decides_how_much_worse_is_too_much() {
    let rules = gate(&["mean(user)", "rate(user)"], 0.5);
    assert_eq!(compared(8, 1, &rules, |_| 1.3).verdict, GateVerdict::NotWorse);
    // A rate may be halved: the time may double.
    let rows = compared(8, 1, &rules, |_| 1.8).rows;
    let verdict = |name: &str| rows.iter().find(|row| row.measure == name).unwrap().gated.as_ref().unwrap().verdict;
    assert_eq!([verdict("mean(user)"), verdict("rate(user)")], [GateVerdict::Worse, GateVerdict::NotWorse]);
    let own = Gate { measures: vec![GatedMeasure { measure: measure("mean(user)"), margin: Some(0.9) }], margin: 0.05 };
    let rules = CompareRules { gate: own, ..CompareRules::default() };
    assert_eq!(compared(8, 1, &rules, |_| 1.5).verdict, GateVerdict::NotWorse);
}

/// Verdicts on an injected slowdown, over these seeds.
fn verdicts(combinations: usize, blocks: u32, noise: Noise, slower: f64, seeds: u64) -> [usize; 3] {
    verdicts_within(0.05, combinations, blocks, noise, slower, seeds)
}

fn verdicts_within(margin: f64, combinations: usize, blocks: u32, noise: Noise, slower: f64, seeds: u64) -> [usize; 3] {
    let (experiment, rules) = (experiment_of(combinations, blocks, noise, 0.03), gate(&["mean(user)"], margin));
    let mut counts = [0; 3];
    for seed in 0..seeds {
        let comparison = compared_of(&experiment, 1_000 + seed, &rules, |_| slower);
        counts[comparison.verdict as usize] += 1;
    }
    counts
}

const BLOCKS: [u32; 3] = [6, 8, 12];
const ROWS: [usize; 3] = [1, 5, 30];
const NOISES: [Noise; 2] = [Noise::Normal, Noise::HeavyTailed];

fn each_cell(mut check: impl FnMut(usize, u32, Noise)) {
    for rows in ROWS {
        for blocks in BLOCKS {
            NOISES.iter().for_each(|&noise| check(rows, blocks, noise));
        }
    }
}

/// In the order of [`GateVerdict`].
const NOT_WORSE: usize = 0;
const WORSE: usize = 1;

#[test]
fn a_planted_slowdown_by_two_or_a_hundred_is_worse_with_six_blocks_and_thirty_rows() {
    each_cell(|rows, blocks, noise| {
        for slower in [2.0, 100.0] {
            let counts = verdicts(rows, blocks, noise, slower, 4);
            assert_eq!(counts[NOT_WORSE], 0, "{slower} times, {rows} rows, {blocks} blocks, {noise:?}: {counts:?}");
            if noise == Noise::Normal || slower > 10.0 {
                assert_eq!(counts[WORSE], 4, "{slower} times, {rows} rows, {blocks} blocks, {noise:?}: {counts:?}");
            }
        }
    });
}

#[test]
fn a_planted_slowdown_by_a_fifth_does_not_pass() {
    each_cell(|rows, blocks, noise| {
        let counts = verdicts(rows, blocks, noise, 1.2, 8);
        assert_eq!(counts[NOT_WORSE], 0, "{rows} rows, {blocks} blocks, {noise:?}: {counts:?}");
        if noise == Noise::Normal && blocks >= 8 {
            assert!(counts[WORSE] >= 7, "{rows} rows, {blocks} blocks: {counts:?}");
        }
    });
}

/// A slowdown of exactly the margin passes in at most 2.5 % of the runs, and is called worse in at most as many,
/// whatever the number of rows.
#[test]
fn a_slowdown_as_large_as_the_margin_seldom_passes_and_is_seldom_called_worse() {
    for (rows, seeds) in [(1, 400), (5, 60), (30, 10)] {
        for noise in NOISES {
            let counts = verdicts(rows, 6, noise, 1.05, seeds);
            // 0.025 · 400 = 10 with a standard deviation of 3.1; with more rows none should pass.
            let most = if rows == 1 { 20 } else { seeds as usize / 10 };
            assert!(counts[NOT_WORSE] <= most, "{rows} rows, {noise:?}: {counts:?}");
            assert!(counts[WORSE] <= most.max(3), "{rows} rows, {noise:?}: {counts:?}");
        }
    }
}

#[test]
fn equal_systems_pass_as_often_as_the_power_says() {
    for (rows, blocks, size) in [(1, 6, 0.03), (1, 12, 0.03), (5, 8, 0.02)] {
        let (experiment, rules) = (experiment_of(rows, blocks, Noise::Normal, size), gate(&["mean(user)"], 0.05));
        let (mut passed, mut promised, seeds) = (0.0, 0.0, 150_u32);
        for seed in 0..seeds {
            let comparison = compared_of(&experiment, 5_000 + u64::from(seed), &rules, |_| 1.0);
            passed += f64::from(u8::from(comparison.verdict == GateVerdict::NotWorse));
            promised += comparison.gate.power.unwrap();
            assert_ne!(comparison.verdict, GateVerdict::Worse, "{}", comparison.sentence);
        }
        let (passed, promised) = (passed / f64::from(seeds), promised / f64::from(seeds));
        assert!((passed - promised).abs() < 0.13, "{rows} rows, {blocks} blocks: {passed} passed, {promised} promised");
    }
}

#[test]
fn a_measure_that_is_zero_is_compared_by_points() {
    let rules = gate(&["errors(user)"], 0.05);
    let experiment = Experiment::new(vec![factor("path", &["a"])], 6, Noise::Normal, 0.02);
    let records = |lost: u64| {
        let mut records = experiment.run(1, |_| 0.01);
        for record in &mut records {
            let user = record.workloads.get_mut("user").unwrap();
            (user.ok, user.errors) = (100_000 - lost, [("status".to_owned(), lost)].into());
        }
        records
    };
    let verdict = |lost| compared_records(&experiment, &records(0), &records(lost), &rules).verdict;
    // 0.1 points of 100,000 requests are 100.
    let verdicts = [0, 10, 99, 500, 100_000].map(verdict);
    let expected =
        [GateVerdict::NotWorse, GateVerdict::NotWorse, GateVerdict::NotWorse, GateVerdict::Worse, GateVerdict::Worse];
    assert_eq!(verdicts, expected);
}

#[test]
fn two_runs_of_the_same_thing_are_seldom_called_different() {
    let rules = CompareRules::default();
    let called = (0..200).filter(|&seed| {
        let rows = compared(8, 100 + seed, &rules, |_| 1.0).rows;
        rows.iter().any(|row| matches!(row.verdict, RunVerdict::Worse | RunVerdict::Better))
    });
    let called = called.count();
    assert!(called <= 10, "{called} of 200");
}

#[test]
fn a_hundredfold_difference_is_seen_in_every_row_whatever_their_number() {
    let comparison =
        compared_of(&experiment_of(30, 6, Noise::Normal, 0.03), 1, &gate(&["rate(user)"], 0.05), |_| 100.0);
    assert_eq!(comparison.rows.len(), 60);
    assert!(comparison.rows.iter().all(|row| row.verdict == RunVerdict::Worse), "{:?}", comparison.rows);
    // In the order of the plan, not alphabetical: 2 comes before 10.
    let users: Vec<&str> = comparison.rows[..30].iter().map(|row| row.levels["users"].as_str()).collect();
    assert_eq!(users, (1..=30).map(|users| users.to_string()).collect::<Vec<_>>());
}

#[test]
fn few_blocks_and_nothing_in_common_give_no_verdict() {
    let rules = gate(&["mean(user)"], 0.05);
    for slower in [1.0, 100.0] {
        let few = compared(3, 1, &rules, |_| slower);
        assert_eq!(few.verdict, GateVerdict::NoVerdict);
        assert!(few.sentence.contains("3 of 4 blocks"), "{}", few.sentence);
    }
    assert_eq!(compared(6, 1, &CompareRules::default(), |_| 1.0).verdict, GateVerdict::NoVerdict, "nothing is gated");
    let (one, other) = (experiment(6), Experiment::new(vec![factor("x", &["1", "2"])], 6, Noise::Normal, 0.02));
    let (before, after) = (one.run(1, |_| 0.01), other.run(1, |_| 0.01));
    let (head_one, mut head_other) = (head("a"), head("b"));
    head_other.machine = Machine { processors: 8, ..Machine::default() };
    head_other.subject_versions = [("site".to_owned(), "nginx 1.28".to_owned())].into();
    let comparison = compare(
        &RecordedRun { head: &head_one, plan: "one", question: &one.question, records: &before },
        &RecordedRun { head: &head_other, plan: "other", question: &other.question, records: &after },
        &rules,
    );
    assert_eq!((comparison.verdict, comparison.rows.len()), (GateVerdict::NoVerdict, 0));
    assert!(comparison.sentence.contains("no combination of levels in common"), "{}", comparison.sentence);
    let warnings = comparison.warnings.join(" ");
    for part in ["number of processors differs: 0 → 8", "version of `site` differs: unknown → nginx 1.28", "plans"]
    {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
}

/// A combination of both plans that only one run has tried, or in which every trial failed, does not pass.
#[test]
fn a_combination_without_values_gives_no_verdict() {
    let (experiment, rules) = (experiment(6), gate(&["mean(user)"], 0.05));
    let (before, after) = (experiment.run(1, |_| 0.01), experiment.run(2, |_| 0.01));
    let partly: Vec<_> = after.iter().filter(|record| record.levels["path"] == "source").cloned().collect();
    let comparison = compared_records(&experiment, &before, &partly, &rules);
    assert_eq!(comparison.verdict, GateVerdict::NoVerdict);
    assert!(
        comparison.sentence.contains("path=cached: the later run has no value: not run"),
        "{}",
        comparison.sentence
    );
    let turned = compared_records(&experiment, &partly, &before, &rules);
    assert!(turned.sentence.contains("path=cached: the earlier run has no value: not run"), "{}", turned.sentence);
}

/// Changes the first trials of a combination, one per block.
fn change_first(records: &mut [TrialRecord], path: &str, number: usize, change: impl Fn(&mut TrialRecord)) {
    let of_path = |record: &&mut TrialRecord| record.levels["path"] == path && record.replicate == 0;
    records.iter_mut().filter(of_path).take(number).for_each(change);
}

fn fail(record: &mut TrialRecord) {
    record.end = TrialFailure::new("site", "ended with signal 11", "").into();
}

fn void(record: &mut TrialRecord) {
    record.invalid_reasons = vec!["the generator was saturated".to_owned()];
}

#[test]
fn a_run_with_crashes_does_not_pass() {
    let (experiment, rules) = (experiment(8), gate(&["mean(user)"], 0.1));
    let good = experiment.run(1, |_| 0.01);
    let mut bad = experiment.run(2, |_| 0.01);
    // `source` is run twice in each block: one crash of two trials counts as well.
    change_first(&mut bad, "source", 2, fail);
    change_first(&mut bad, "cached", 1, void);
    let verdicts = |comparison: &RunComparison| {
        let of = |path| comparison.rows.iter().find(|row| row.gated.is_some() && row.levels["path"] == path).unwrap();
        ["source", "cached"].map(|path| of(path).gated.clone().unwrap().verdict)
    };
    let worse = compared_records(&experiment, &good, &bad, &rules);
    assert_eq!(verdicts(&worse), [GateVerdict::NoVerdict, GateVerdict::NotWorse], "INVALID says nothing");
    assert_eq!(worse.verdict, GateVerdict::NoVerdict);
    let said = "; 2 of 8 blocks of the later run failed (site: ended with signal 11).";
    assert!(worse.sentence.ends_with(said), "{}", worse.sentence);
    let cached = worse.rows.iter().find(|row| row.levels["path"] == "cached").unwrap();
    let said = "; 1 of 8 blocks of the later run had INVALID trials (the generator was saturated).";
    assert!(cached.sentence.ends_with(said), "{}", cached.sentence);
    let counts = |row: &RunRow| [row.failed_before, row.failed_after, row.invalid_before, row.invalid_after];
    assert_eq!((counts(&worse.rows[0]), counts(cached)), ([0, 2, 0, 0], [0, 0, 0, 1]));
    let better = compared_records(&experiment, &bad, &good, &rules);
    assert_eq!(better.verdict, GateVerdict::NotWorse, "only the later run is judged: {}", better.sentence);
    assert!(better.rows[0].sentence.contains("2 of 8 blocks of the earlier run failed"), "{}", better.rows[0].sentence);
}

#[test]
fn a_rare_total_failure_does_not_pass() {
    let experiment = experiment(8);
    let rules = gate(&["errors(user)", "pass(user)", "failed(user)"], 0.1);
    let (before, mut after) = (experiment.run(1, |_| 0.01), experiment.run(2, |_| 0.01));
    change_first(&mut after, "cached", 1, |record| {
        let user = record.workloads.get_mut("user").unwrap();
        (user.errors, user.ok) = ([("status".to_owned(), user.ok)].into(), 0);
    });
    let comparison = compared_records(&experiment, &before, &after, &rules);
    let cached: Vec<&RunRow> =
        comparison.rows.iter().filter(|row| row.gated.is_some() && row.levels["path"] == "cached").collect();
    assert_eq!(cached.len(), 3);
    assert!(cached.iter().all(|row| row.gated.as_ref().unwrap().verdict == GateVerdict::NoVerdict), "{cached:?}");
    let said = "; the worst block of the later run has 100 %, worse than every earlier one by more than the margin.";
    assert!(comparison.sentence.ends_with(said), "{}", comparison.sentence);
    let back = compared_records(&experiment, &after, &before, &rules);
    assert_eq!(back.verdict, GateVerdict::NotWorse, "{}", back.sentence);
}

/// The table of docs/STATISTICS.md:
/// `cargo test -p breme-judge --test judgement -- --ignored --nocapture table_of_the_gate`.
#[test]
#[ignore = "prints a table"]
fn table_of_the_gate() {
    for noise in NOISES {
        for slower in [1.0, 1.05, 1.1, 1.2, 2.0, 100.0] {
            for (rows, seeds) in [(1, 1_000), (5, 200), (30, 50)] {
                let cell = |blocks: u32| {
                    let counts = verdicts_within(MARGIN_DEFAULT, rows, blocks, noise, slower, seeds);
                    let percent = |count: usize| 100.0 * count as f64 / seeds as f64;
                    format!("{:.1} / {:.1}", percent(counts[NOT_WORSE]), percent(counts[WORSE]))
                };
                println!("| {noise:?} | {slower} | {rows} | {} |", BLOCKS.map(cell).join(" | "));
            }
        }
    }
}
