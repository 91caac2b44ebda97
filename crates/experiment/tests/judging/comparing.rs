//! Two runs beside each other: a gate that stops what is slower and lets pass what is not.

use breme_experiment::judge::{CompareRules, Levels, Run, RunComparison, RunVerdict, compare};
use breme_experiment::record::{Machine, RunHead};

use crate::made::{Experiment, Noise, factor};

fn experiment(blocks: u32) -> Experiment {
    Experiment::new(vec![factor("path", &["source", "cached"])], blocks, Noise::Normal, 0.02)
}

fn head(run: &str) -> RunHead {
    RunHead { run: run.into(), title: "t".into(), breme_version: "0.1.0".into(), ..RunHead::default() }
}

fn compared(blocks: u32, seed: u64, rules: &CompareRules, slower: impl Fn(&Levels) -> f64) -> RunComparison {
    let experiment = experiment(blocks);
    let before = experiment.run(2 * seed, |_| 0.01);
    let after = experiment.run(2 * seed + 1, |levels| 0.01 * slower(levels));
    let (one, other) = (head("before"), head("after"));
    let run = |head, records| Run { head, plan: "plan", question: &experiment.question, records };
    compare(&run(&one, &before), &run(&other, &after), rules)
}

#[test]
fn what_is_slower_is_worse_and_what_is_faster_is_better() {
    let rules = CompareRules::default();
    let worse = compared(8, 1, &rules, |levels| if levels["path"] == "cached" { 1.3 } else { 1.0 });
    assert_eq!(worse.verdict, RunVerdict::Worse);
    assert!(worse.sentence.starts_with("Worse in 2 of 4 comparisons."), "{}", worse.sentence);
    assert_eq!(worse.rows[0].levels["path"], "cached");
    assert!(worse.warnings.is_empty(), "{:?}", worse.warnings);
    let better = compared(8, 2, &rules, |_| 0.7);
    assert_eq!(better.verdict, RunVerdict::Better);
    assert!(better.rows.iter().all(|row| row.verdict == RunVerdict::Better), "{:?}", better.rows);
}

#[test]
fn a_slowdown_that_is_allowed_is_not_called_worse() {
    let allowed = CompareRules { slowdown_max: 0.5, ..CompareRules::default() };
    assert_eq!(compared(8, 1, &allowed, |_| 1.3).verdict, RunVerdict::Undecided);
    assert_eq!(compared(8, 1, &allowed, |_| 1.8).verdict, RunVerdict::Worse);
}

#[test]
fn two_runs_of_the_same_thing_are_seldom_called_different() {
    let rules = CompareRules::default();
    let called = (0..200).filter(|&seed| {
        matches!(compared(8, 100 + seed, &rules, |_| 1.0).verdict, RunVerdict::Worse | RunVerdict::Better)
    });
    let called = called.count();
    assert!(called <= 10, "{called} of 200");
}

#[test]
fn few_blocks_and_nothing_in_common_are_told() {
    let rules = CompareRules::default();
    let few = compared(3, 1, &rules, |_| 2.0);
    assert_eq!(few.verdict, RunVerdict::Undecided);
    assert!(few.sentence.contains("each run needs 5 blocks at least"), "{}", few.sentence);
    let (one, other) = (experiment(6), Experiment::new(vec![factor("x", &["1", "2"])], 6, Noise::Normal, 0.02));
    let (before, after) = (one.run(1, |_| 0.01), other.run(1, |_| 0.01));
    let (head_one, mut head_other) = (head("a"), head("b"));
    head_other.machine = Machine { processors: 8, ..Machine::default() };
    head_other.subject_versions = [("site".to_owned(), "nginx 1.28".to_owned())].into();
    let comparison = compare(
        &Run { head: &head_one, plan: "one", question: &one.question, records: &before },
        &Run { head: &head_other, plan: "other", question: &other.question, records: &after },
        &rules,
    );
    assert_eq!((comparison.verdict, comparison.rows.len()), (RunVerdict::Undecided, 0));
    let told = comparison.warnings.join(" ");
    for part in [
        "number of processors differs: 0 → 8",
        "version of `site` differs: unknown → nginx 1.28",
        "plans",
        "no measure at a common",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
