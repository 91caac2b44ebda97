//! Experiments with blocks in random order: one arm twice (A, A) and another (B).

use breme_base::Random;
use breme_stats::{Estimate, geometric_mean, hodges_lehmann, noise_floor, paired_ratio, rank_sum, signed_rank_p};

use crate::at_most;
use crate::noise::{Noise, normal};

const CONFIDENCE: f64 = 0.95;
const BLOCKS: usize = 10;
const EXPERIMENTS: usize = 2_000;
/// Where the margin is wide.
const FEWER: usize = 400;

/// The values of the three trials of a block.
struct Block {
    ours: [f64; 2],
    other: f64,
}

/// Blocks whose second arm is `ratio` times the first.
fn experiment(noise: Noise, ratio: f64, random: &mut Random) -> Vec<Block> {
    let errors = noise.of_blocks::<3>(BLOCKS, random);
    let block = |in_time: [f64; 3]| {
        let [first, second, third] = shuffled(in_time, random).map(|error| 0.02 * error.exp());
        Block { ours: [first, second], other: third * ratio }
    };
    errors.into_iter().map(block).collect()
}

fn shuffled<const N: usize>(mut values: [f64; N], random: &mut Random) -> [f64; N] {
    for last in (1..N).rev() {
        values.swap(last, random.below(last as u64 + 1) as usize);
    }
    values
}

/// The direction found from one trial of each arm: below (−1), above (1), or no difference (0).
fn judged_by_single_trials(blocks: &[Block]) -> i32 {
    let pairs: Vec<_> = blocks.iter().map(|block| (block.other, block.ours[0])).collect();
    paired_ratio(&pairs, CONFIDENCE).map(side).expect("times are positive")
}

/// The direction found from both trials of the first arm, beyond the noise floor.
fn judged_by_all_trials(blocks: &[Block]) -> i32 {
    let twice: Vec<_> = blocks.iter().map(|block| block.ours.into()).collect();
    let pairs: Option<Vec<_>> = blocks.iter().map(|block| Some((block.other, geometric_mean(&block.ours)?))).collect();
    let estimate = pairs.and_then(|pairs| paired_ratio(&pairs, CONFIDENCE)).expect("times are positive");
    let is_past = noise_floor(&twice).is_some_and(|floor| estimate.center.max(1.0 / estimate.center) > floor);
    if is_past { side(estimate) } else { 0 }
}

fn side(ratio: Estimate) -> i32 {
    i32::from(ratio.low > 1.0) - i32::from(ratio.high < 1.0)
}

fn share_found(noise: Noise, ratio: f64, experiments: usize, judge: impl Fn(&[Block]) -> i32) -> f64 {
    let mut random = Random::new(23);
    let direction = if ratio > 1.0 { 1 } else { -1 };
    let found = (0..experiments).filter(|_| judge(&experiment(noise, ratio, &mut random)) == direction);
    found.count() as f64 / experiments as f64
}

#[test]
fn equal_servers_are_called_different_in_one_of_twenty_at_most() {
    for noise in Noise::ALL {
        let mut random = Random::new(17);
        let (mut by_single, mut by_all, mut by_chance) = (0, 0, 0);
        for _ in 0..EXPERIMENTS {
            let blocks = experiment(noise, 1.0, &mut random);
            by_single += judged_by_single_trials(&blocks).unsigned_abs() as usize;
            by_all += judged_by_all_trials(&blocks).unsigned_abs() as usize;
            let logarithms: Vec<f64> = blocks.iter().map(|block| (block.other / block.ours[0]).ln()).collect();
            by_chance += usize::from(signed_rank_p(&logarithms).unwrap() <= 1.0 - CONFIDENCE);
        }
        assert!(at_most(by_single, EXPERIMENTS, 0.05), "{noise:?}: {by_single} by single trials");
        assert!(at_most(by_all, EXPERIMENTS, 0.05), "{noise:?}: {by_all} by all trials");
        // 10 blocks allow 4.88 %: a test that never rejects would also keep the bound.
        assert!(by_single > EXPERIMENTS / 50, "{noise:?}: only {by_single} by single trials");
        assert_eq!(by_chance, by_single, "{noise:?}: interval and p");
    }
}

#[test]
fn a_difference_of_five_percent_is_found_in_nine_of_ten() {
    for noise in [Noise::Normal, Noise::SharedByBlock, Noise::HalfShared] {
        for ratio in [1.05, 0.95] {
            let share = share_found(noise, ratio, EXPERIMENTS, judged_by_all_trials);
            assert!(share >= 0.9, "{noise:?}, {ratio}: found in {share}");
        }
    }
}

/// With one trial of each arm it is just below if nothing is shared (88 and 91 % of 20,000), and far above if half is.
#[test]
fn single_trials_find_it_nearly_as_often() {
    for (noise, least) in [(Noise::Normal, 0.86), (Noise::HalfShared, 0.98)] {
        for ratio in [1.05, 0.95] {
            let share = share_found(noise, ratio, EXPERIMENTS, judged_by_single_trials);
            assert!(share >= least, "{noise:?}, {ratio}: found in {share}");
        }
    }
}

/// No wrong direction, and some power even if no mean exists.
#[test]
fn heavy_tails_and_outliers_do_not_hide_a_large_difference() {
    for noise in [Noise::HeavyTails, Noise::Outliers, Noise::Autocorrelated, Noise::Trend] {
        let share = share_found(noise, 1.3, FEWER, judged_by_all_trials);
        assert!(share >= 0.9, "{noise:?}: found in {share}");
        let wrong = share_found(noise, 1.0 / 1.02, FEWER, |blocks| -judged_by_all_trials(blocks));
        assert!(wrong < 0.01, "{noise:?}: wrong direction in {wrong}");
    }
}

/// The interval of a ratio contains the true one as often as claimed.
#[test]
fn intervals_hold_the_truth() {
    for noise in Noise::ALL {
        let mut random = Random::new(37);
        let missed = (0..EXPERIMENTS).filter(|_| {
            let blocks = experiment(noise, 1.2, &mut random);
            let logarithms: Vec<f64> = blocks.iter().map(|block| (block.other / block.ours[0]).ln()).collect();
            let estimate = hodges_lehmann(&logarithms, CONFIDENCE).unwrap();
            !(estimate.low..=estimate.high).contains(&1.2_f64.ln())
        });
        let missed = missed.count();
        assert!(at_most(missed, EXPERIMENTS, 0.05), "{noise:?}: {missed} intervals missed it");
    }
}

/// Two stored runs have no blocks in common; conditions shared within a run are invisible, so only independent noise is
/// covered.
#[test]
fn unpaired_runs_keep_their_level_and_find_differences() {
    for noise in [Noise::Normal, Noise::LogNormal, Noise::HeavyTails, Noise::Outliers] {
        let mut random = Random::new(41);
        let mut is_called = |ratio: f64| {
            let run = noise.of_blocks::<2>(BLOCKS, &mut random);
            let of = |index: usize| -> Vec<f64> { run.iter().map(|block| block[index].exp()).collect() };
            let first: Vec<f64> = of(0).iter().map(|time| time * ratio).collect();
            rank_sum::ratio(&first, &of(1), CONFIDENCE).map(side) != Some(0)
        };
        let called = (0..EXPERIMENTS).filter(|_| is_called(1.0)).count();
        assert!(at_most(called, EXPERIMENTS, 0.05), "{noise:?}: {called} of the same");
        let found = (0..FEWER).filter(|_| is_called(1.5)).count();
        assert!(found > FEWER * 9 / 10, "{noise:?}: {found} of {FEWER} found");
    }
}

/// Twenty tests of pure noise: at most one false positive in one of twenty experiments.
#[test]
fn holm_keeps_the_level_over_many_questions() {
    let mut random = Random::new(43);
    let (experiments, questions, blocks) = (600, 20, 12);
    let wrong = (0..experiments).filter(|_| {
        let p: Vec<f64> = (0..questions)
            .map(|_| signed_rank_p(&(0..blocks).map(|_| normal(&mut random)).collect::<Vec<_>>()).unwrap())
            .collect();
        breme_stats::holm(&p).iter().any(|&p| p <= 0.05)
    });
    let wrong = wrong.count();
    assert!(at_most(wrong, experiments, 0.05), "{wrong} of {experiments}");
}
