//! The order of a run: a pure function of the plan and its seed, so that an interrupted run continues where it stopped.

use breme_base::Random;

use crate::trial::TrialKey;

/// Separates the streams of random numbers.
const ORDER_STREAM: u64 = 0xE0E0_0000_0000_0001;
const SUBJECT_STREAM: u64 = 0xE0E0_0000_0000_0002;
const LOAD_STREAM: u64 = 0xE0E0_0000_0000_0003;

/// The trials of a block in execution order: each combination once, and `twice` twice. Without a seed they are in file
/// order.
pub(super) fn block(block: u32, combinations: usize, twice: Option<u32>, seed: Option<u64>) -> Vec<TrialKey> {
    let count = u32::try_from(combinations).unwrap_or(u32::MAX);
    let mut order: Vec<u32> = (0..count).chain(twice).collect();
    if let Some(seed) = seed {
        shuffle(&mut order, &mut Random::stream(seed ^ ORDER_STREAM, u64::from(block)));
    }
    let mut keys: Vec<TrialKey> = Vec::new();
    for combination in order {
        let replicate = u32::from(keys.iter().any(|key| key.combination == combination));
        keys.push(TrialKey { block, combination, replicate });
    }
    keys
}

/// All trials of a block have the same seed: they send the same requests, which differ from block to block.
pub(super) fn load_seed(seed: u64, block: u32) -> u64 {
    Random::stream(seed ^ LOAD_STREAM, u64::from(block)).next_u64() >> 1
}

/// The order in which subjects are started, where it is free: random, but the same for all trials of a run.
pub(super) fn subjects(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut Random::stream(seed ^ SUBJECT_STREAM, 0));
    order
}

/// Fisher and Yates.
fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last as u64 + 1) as usize);
    }
}
