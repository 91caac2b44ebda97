//! Whole experiments drawn from seeds: how often a judgement is wrong when the true value is known.

use breme_judge::judge;
use breme_judge::judgement::{Comparison, Judgement, Verdict};

use crate::fixture::{Experiment, KINDS, Noise, factor, hypothesis, times};

fn share(experiments: u64, is: impl Fn(u64) -> bool) -> f64 {
    (0..experiments).filter(|&seed| is(seed)).count() as f64 / experiments as f64
}

fn compared(judgement: &Judgement) -> &Comparison {
    &judgement.comparisons[0]
}

fn is_called_different(judgement: &Judgement) -> bool {
    compared(judgement).verdict == Verdict::Supported
}

#[test]
fn at_most_one_in_twenty_experiments_without_a_difference_finds_one() {
    let wrong = KINDS.map(|noise| {
        let experiment = Experiment::of_builds(10, noise, 0.03);
        share(400, |seed| is_called_different(&judge(&experiment.question, &experiment.run(seed, times(1.0)))))
    });
    // About 3 % are expected (`breme_stats::noise_floor`), so of 400 seldom more than 5 % are found.
    assert!(wrong.iter().all(|&wrong| wrong > 0.0 && wrong <= 0.05), "{wrong:?}");
}

/// Ten pairs of five builds: without a correction, one of six such experiments finds something.
#[test]
fn at_most_one_in_twenty_experiments_that_compare_much_without_a_difference_finds_any() {
    let mut experiment = Experiment::of_builds(10, Noise::Normal, 0.03);
    experiment.question.factors = vec![factor("build", &["a", "b", "c", "d", "e"])];
    let found = |seed| judge(&experiment.question, &experiment.run(seed, times(1.0)));
    let wrong = share(200, |seed| found(seed).comparisons.iter().any(|pair| pair.verdict == Verdict::Supported));
    assert_eq!(found(0).comparisons.len(), 10);
    assert!(wrong <= 0.05, "{wrong}");
}

#[test]
fn five_percent_are_found_by_twelve_blocks_of_trials_that_vary_by_three() {
    for (noise, needed) in [(Noise::Normal, 0.9), (Noise::Autocorrelated, 0.9), (Noise::Blocked, 0.9)] {
        let experiment = Experiment::of_builds(12, noise, 0.03);
        let found =
            share(400, |seed| is_called_different(&judge(&experiment.question, &experiment.run(seed, times(1.05)))));
        assert!(found >= needed, "{noise:?}: {found}");
    }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for noise in KINDS {
        let experiment = Experiment::of_builds(8, noise, 0.03);
        let held = share(200, |seed| {
            let judgement = judge(&experiment.question, &experiment.run(seed, times(1.2)));
            let effect = &compared(&judgement).effect;
            effect.low.unwrap() <= 1.2 && effect.high.unwrap() >= 1.2
        });
        assert!(held >= 0.92, "{noise:?}: {held}");
    }
}

#[test]
fn hypotheses_get_the_verdict_of_the_arithmetic() {
    let mut experiment = Experiment::of_builds(10, Noise::Normal, 0.02);
    let factors = experiment.question.factors.clone();
    let expectations = [
        ("mean(user) [build=new] < 0.75 * mean(user) [build=old]", Verdict::Supported),
        ("mean(user) [build=new] < 0.5 * mean(user) [build=old]", Verdict::Refuted),
        ("rate(user) [build=new] / rate(user) [build=old] > 1.4", Verdict::Supported),
        ("mean(user) > 12 ms", Verdict::Refuted),
        ("mean(user) < 12 ms", Verdict::Supported),
        ("mean(user) [build=new] != mean(user) [build=old]", Verdict::Supported),
        ("mean(user) [build=new] ≈ mean(user) [build=old]", Verdict::Refuted),
        ("pass(user) == 100 %", Verdict::Supported),
        ("errors(user) < 1 %", Verdict::Supported),
    ];
    experiment.question.hypotheses = expectations.iter().map(|(expect, _)| hypothesis(expect, &factors)).collect();
    let mut right = 0;
    for seed in 0..40 {
        let judgement = judge(&experiment.question, &experiment.run(seed, times(0.66)));
        for (judged, (expect, verdict)) in judgement.hypotheses.iter().zip(&expectations) {
            let is_opposite = matches!(
                (judged.verdict, verdict),
                (Verdict::Supported, Verdict::Refuted) | (Verdict::Refuted, Verdict::Supported)
            );
            assert!(!is_opposite, "{expect}: {}", judged.sentence);
            right += usize::from(judged.verdict == *verdict);
        }
    }
    assert!(right >= 40 * expectations.len() * 98 / 100, "{right}");
}

/// Eight claims exactly at their limit, judged together: the probability that any is called wrong is kept.
#[test]
fn many_hypotheses_together_are_wrong_no_more_often_than_one() {
    let levels: Vec<String> = (0..9).map(|index| format!("v{index}")).collect();
    let names: Vec<&str> = levels.iter().map(String::as_str).collect();
    for (blocks, noise) in [(12, Noise::Normal), (6, Noise::Normal), (6, Noise::HeavyTailed)] {
        let mut experiment = Experiment::new(vec![factor("build", &names)], blocks, noise, 0.03);
        let factors = experiment.question.factors.clone();
        let claims = (1..9).map(|index| format!("mean(user) [build=v{index}] < mean(user) [build=v0]"));
        experiment.question.hypotheses = claims.map(|claim| hypothesis(&claim, &factors)).collect();
        experiment.question.measures.clear();
        let wrong = share(100, |seed| {
            let judgement = judge(&experiment.question, &experiment.run(seed, |_| 0.01));
            judgement.hypotheses.iter().any(|judged| judged.verdict == Verdict::Supported)
        });
        assert!(wrong <= 0.05, "{blocks} blocks, {noise:?}: {wrong}");
    }
}

#[test]
fn alike_is_said_of_what_is_alike() {
    let experiment = Experiment::of_builds(12, Noise::Normal, 0.008);
    let alike = share(100, |seed| {
        let judgement = judge(&experiment.question, &experiment.run(seed, times(1.0)));
        compared(&judgement).verdict == Verdict::PracticallyEqual
    });
    assert!(alike >= 0.95, "{alike}");
}

/// The number of blocks suggested for an undecided comparison usually decides it.
#[test]
fn the_suggested_blocks_decide() {
    let (few, mut suggested, mut decided) = (Experiment::of_builds(6, Noise::Normal, 0.03), 0, 0);
    for seed in 0..100 {
        let records = few.run(seed, times(1.03));
        let Verdict::Undecided { more_blocks: Some(more) } = compared(&judge(&few.question, &records)).verdict else {
            continue;
        };
        if more > 60 {
            continue;
        }
        suggested += 1;
        let longer = Experiment::of_builds(6 + more, Noise::Normal, 0.03);
        let verdict = compared(&judge(&longer.question, &longer.run(seed, times(1.03)))).verdict;
        decided += usize::from(!matches!(verdict, Verdict::Undecided { .. }));
    }
    assert!(suggested > 20 && decided * 3 >= suggested * 2, "{decided} of {suggested}");
}
