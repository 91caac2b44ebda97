//! Repeated trials: whether their selection creates false differences, and what they gain.

use breme_experiment::record::TrialRecord;
use breme_judge::judgement::{Judgement, Verdict};
use breme_judge::{Levels, judge};

use crate::fixture::{Experiment, KINDS, Noise, times};

/// The default of an experiment.
const REPEATS: u32 = 2;
/// Experiments with each kind of noise.
const EXPERIMENTS: u64 = 120;

fn two(noise: Noise) -> Experiment {
    Experiment::of_builds(10, noise, 0.03)
}

/// Which trials are INVALID.
#[derive(Clone, Copy, Debug)]
enum Invalid {
    /// Three of ten, independently of their values.
    ByChance,
    /// Most of the outliers.
    OfTheOdd,
    /// Most of the slow ones: what disturbed them also disturbed the generator.
    OfTheSlow,
    /// Every other trial of one of the two, none of the other.
    OfOne,
}

impl Invalid {
    fn chance(self, levels: &Levels, error: f64) -> f64 {
        let is_new = levels["build"] == "new";
        match self {
            Self::ByChance => 0.3,
            Self::OfTheOdd if error.abs() > 0.04 => 0.8,
            Self::OfTheSlow if error > 0.03 => 0.8,
            Self::OfOne if is_new => 0.5,
            Self::OfOne => 0.0,
            Self::OfTheOdd | Self::OfTheSlow => 0.05,
        }
    }
}

fn share(
    noise: Noise,
    invalid: Invalid,
    repeats: u32,
    ratio: f64,
    is: impl Fn(&Judgement, &[TrialRecord]) -> bool,
) -> f64 {
    let experiment = two(noise);
    let is_so = |seed: &u64| {
        let records =
            experiment.run_with_invalid(*seed, times(ratio), repeats, |levels, error| invalid.chance(levels, error));
        is(&judge(&experiment.question, &records), &records)
    };
    (0..EXPERIMENTS).filter(is_so).count() as f64 / EXPERIMENTS as f64
}

fn is_called_different(judgement: &Judgement, _: &[TrialRecord]) -> bool {
    judgement.comparisons.first().is_some_and(|compared| compared.verdict == Verdict::Supported)
}

#[test]
fn equal_levels_are_not_called_different_because_trials_were_repeated() {
    for invalid in [Invalid::ByChance, Invalid::OfTheOdd, Invalid::OfTheSlow, Invalid::OfOne] {
        let kinds = KINDS.into_iter().chain([Noise::Trend]);
        let wrong: Vec<f64> = kinds.map(|noise| share(noise, invalid, REPEATS, 1.0, is_called_different)).collect();
        // 400 of each kind resulted in 0.5 to 4.8 %, 2.6 % on average: three times as many for one kind are no
        // accident.
        let mean = wrong.iter().sum::<f64>() / wrong.len() as f64;
        assert!(mean <= 0.05 && wrong.iter().all(|&wrong| wrong <= 0.08), "{invalid:?}: {wrong:?}");
    }
}

/// Three of ten trials are lost, or every other one of one of the two: with gaps many effects would be lost too.
#[test]
fn a_difference_is_found_though_trials_are_invalid() {
    for invalid in [Invalid::ByChance, Invalid::OfOne] {
        let [holes, again] =
            [0, REPEATS].map(|repeats| share(Noise::Normal, invalid, repeats, 1.05, is_called_different));
        assert!(again > holes + 0.3, "{invalid:?}: {holes} with holes, {again} run again");
    }
}

/// No run is endless: at most two repeats of each trial.
#[test]
fn the_number_of_repeats_is_bounded() {
    let experiment = two(Noise::Normal);
    let records = experiment.run_with_invalid(1, |_| 0.01, REPEATS, |_, _| 1.0);
    // Three trials per block; for each of the two combinations three repeats are in vain, and then there are no more.
    assert_eq!(records.len(), 30 + 6);
    let half = experiment.run_with_invalid(1, |_| 0.01, REPEATS, |_, _| 0.5);
    assert!(half.len() > 45 && half.len() <= 90, "{}", half.len());
}

#[test]
fn the_last_attempt_counts_and_the_others_are_reported() {
    let experiment = two(Noise::Normal);
    let of_new = |levels: &Levels, _| if levels["build"] == "new" { 0.7 } else { 0.0 };
    let records = experiment.run_with_invalid(3, |_| 0.01, REPEATS, of_new);
    let judgement = judge(&experiment.question, &records);
    let repeated = records.iter().filter(|record| record.repeat > 0).count() as u32;
    assert_eq!((judgement.trials.run, judgement.trials.repeated), (30, repeated));
    assert_eq!(judgement.trials.counted + judgement.trials.invalid, 30);
    let warning = judgement.warnings.iter().find(|warning| warning.contains("repeated at the end")).unwrap();
    assert!(warning.contains("were of build=new, so its results may be biased"), "{warning}");
    // Without the repeats in vain, nothing else differs.
    let last: Vec<TrialRecord> = breme_experiment::record::last_attempts(&records).cloned().collect();
    let alone = judge(&experiment.question, &last);
    assert_eq!((&alone.comparisons, &alone.tables), (&judgement.comparisons, &judgement.tables));
}
