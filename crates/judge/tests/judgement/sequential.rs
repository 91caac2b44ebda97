//! Runs that end as soon as their hypothesis has a verdict: how often it is wrong, and how long it takes.
//!
//! For 10,000 runs: `cargo run --release -p breme-judge --example sequential`.

use breme_judge::judge;
use breme_judge::judgement::Verdict;

use crate::fixture::{Noise, times};
use crate::sequential_design::{Grown, LEAST, MOST, experiment, grow};

const RUNS: u64 = 300;

fn all(noise: Noise, size: f64, ratio: f64, runs: u64) -> Vec<Grown> {
    let experiment = experiment(noise, size);
    (0..runs).map(|seed| grow(&experiment, seed, ratio)).collect()
}

fn share(runs: &[Grown], is: impl Fn(&Grown) -> bool) -> f64 {
    runs.iter().filter(|run| is(run)).count() as f64 / runs.len() as f64
}

/// Nineteen looks without an effect. Of 300 runs with a true share of 5 %, more than 8.5 % occur by chance once in 300
/// times. Using the plain 95 % at each look finds a difference in 18 % of them.
#[test]
fn repeated_looks_at_nothing_seldom_find_a_difference() {
    for noise in [Noise::Normal, Noise::HeavyTailed, Noise::Autocorrelated, Noise::Blocked, Noise::Trend] {
        let wrong = share(&all(noise, 0.03, 1.0, RUNS), Grown::is_difference);
        assert!(wrong <= 0.085, "{noise:?}: {wrong}");
    }
}

#[test]
fn five_percent_are_found_in_nine_of_ten_runs_within_twelve_blocks() {
    let runs = all(Noise::Normal, 0.025, 1.05, RUNS);
    let found = share(&runs, |run| run.verdict == Verdict::Refuted && run.blocks <= 12);
    assert!(found >= 0.9, "{found}");
    assert!(share(&runs, |run| run.verdict == Verdict::Supported) == 0.0, "no wrong direction");
}

#[test]
fn the_larger_the_difference_the_sooner_the_run_ends() {
    let blocks = [1.05, 1.10, 1.50].map(|ratio| {
        let runs = all(Noise::Normal, 0.03, ratio, 100);
        runs.iter().map(|run| f64::from(run.blocks)).sum::<f64>() / runs.len() as f64
    });
    assert!(blocks[0] > blocks[1] && blocks[1] >= blocks[2], "{blocks:?}");
    assert!(blocks[0] < 12.0 && blocks[1] < 7.0 && blocks[2] == f64::from(LEAST), "{blocks:?}");
}

/// A run ends where its interval is most extreme; the intervals contain the true value nevertheless.
#[test]
fn intervals_of_runs_that_ended_early_hold_the_truth() {
    for (noise, ratio) in [(Noise::Normal, 1.05), (Noise::HeavyTailed, 1.10)] {
        let runs = all(noise, 0.03, ratio, RUNS);
        assert!(share(&runs, |run| run.blocks < MOST) > 0.5);
        let held = share(&runs, |run| run.effect.low.unwrap() <= ratio && ratio <= run.effect.high.unwrap());
        assert!(held >= 0.92, "{noise:?}: {held}");
    }
}

#[test]
fn equal_levels_are_called_equal_before_the_last_block() {
    let runs = all(Noise::Normal, 0.01, 1.0, 100);
    let equal = share(&runs, |run| run.verdict == Verdict::PracticallyEqual && run.blocks < MOST);
    assert!(equal >= 0.9, "{equal}");
}

/// Interval, p-value and verdict use one method: the interval shows every decision.
#[test]
fn verdict_interval_and_p_value_agree() {
    for (size, ratio) in [(0.03, 1.0), (0.03, 1.04), (0.01, 1.01)] {
        let experiment = experiment(Noise::Normal, size);
        for seed in 0..60 {
            let Grown { verdict, effect, .. } = grow(&experiment, seed, ratio);
            let (low, high) = (effect.low.unwrap(), effect.high.unwrap());
            let excludes = low > 1.0 || high < 1.0;
            assert_eq!(excludes, effect.p.unwrap() <= 0.05, "{effect:?}");
            let is_past_floor = effect.center.unwrap().ln().abs() > effect.floor.unwrap().ln();
            match verdict {
                Verdict::Supported | Verdict::Refuted => assert!(excludes && is_past_floor, "{effect:?}"),
                Verdict::Undecided { .. } => assert!(!excludes || !is_past_floor, "{effect:?}"),
                _ => assert!(low >= 1.0 / 1.02 && high <= 1.02, "{effect:?}"),
            }
        }
    }
}

/// 1.61 (1.58–1.67) over five of six blocks was called undecided.
#[test]
fn a_lost_block_does_not_make_a_clear_difference_undecided() {
    let mut experiment = experiment(Noise::Normal, 0.02);
    (experiment.question.blocks, experiment.question.looks) = (6, Some((6, 6)));
    let mut records = experiment.run(3, times(0.62));
    records.retain(|record| record.block != 4);
    let judgement = judge(&experiment.question, &records);
    assert_eq!(judgement.hypotheses[0].verdict, Verdict::Supported, "{}", judgement.hypotheses[0].sentence);
    assert_eq!(judgement.hypotheses[0].cases[0].effect.blocks.len(), 5);
}

/// A run of 12 blocks that is extended to 24 is judged more strictly than one planned with 24.
#[test]
fn extending_a_finished_run_is_another_look() {
    let mut experiment = experiment(Noise::Normal, 0.03);
    let records = experiment.run(1, |_| 0.01);
    let mut width = |looks| {
        experiment.question.looks = looks;
        let effect = judge(&experiment.question, &records).hypotheses.remove(0).cases.remove(0).effect;
        effect.high.unwrap() / effect.low.unwrap()
    };
    let (planned, extended) = (width(Some((24, 24))), width(Some((12, 12))));
    assert!(extended > planned, "{extended} {planned}");
}
