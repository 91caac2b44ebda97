//! The cycle of round robin, in which each upstream occurs as often as its weight requires, evenly spread.
//!
//! The cycle is built when the list changes, so that a choice costs one addition and one load. Each upstream begins at
//! a position of its own (multiples of the golden ratio, which stay apart from each other), or those of equal weight
//! would be adjacent.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The longest cycle. Weights that need a longer one are rounded, so that changing a list is cheap.
const TURNS_MAX: u64 = 16_384;
/// 2³² divided by the golden ratio.
const GOLDEN: u32 = 0x9E37_79B9;

/// A cycle of indexes.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    turns: Box<[u16]>,
}

impl Rotation {
    /// The cycle of these weights; 0 does not occur.
    pub(crate) fn new(weights: &[u32]) -> Self {
        let counts = counts(weights);
        let mut turns: Vec<(u64, u16)> = Vec::new();
        for (index, &count) in (0_u16..).zip(&counts) {
            let start = u64::from(GOLDEN.wrapping_mul(u32::from(index)));
            turns.extend((0..count).map(|turn| (((turn << 32) + start) / count, index)));
        }
        turns.sort_unstable();
        Self { turns: turns.into_iter().map(|(_, index)| index).collect() }
    }

    /// Takes the next position in the cycle.
    pub(crate) fn next(&self, taken: &AtomicU32) -> usize {
        // All shards contend here; a counter per shard would be faster, and only roughly even.
        taken.fetch_add(1, Relaxed) as usize % self.turns.len().max(1)
    }

    /// The index at a position, which may exceed the cycle.
    pub(crate) fn index(&self, turn: usize) -> usize {
        let turn = if turn < self.turns.len() { turn } else { turn % self.turns.len() };
        usize::from(self.turns[turn])
    }
}

/// Occurrences per cycle: the weights divided by their common divisor.
fn counts(weights: &[u32]) -> Vec<u64> {
    let divisor = weights.iter().fold(0, |divisor, &weight| greatest_common_divisor(divisor, weight)).max(1);
    let counts: Vec<u64> = weights.iter().map(|&weight| u64::from(weight / divisor)).collect();
    let sum: u64 = counts.iter().sum();
    if sum <= TURNS_MAX {
        return counts;
    }
    counts.into_iter().map(|count| if count == 0 { 0 } else { (count * TURNS_MAX / sum).max(1) }).collect()
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cycle(weights: &[u32]) -> String {
        let rotation = Rotation::new(weights);
        (0..rotation.turns.len()).map(|turn| (b'a' + rotation.index(turn) as u8) as char).collect()
    }

    #[test]
    fn cycles_are_short_and_even() {
        assert_eq!(cycle(&[1]), "a");
        assert_eq!(cycle(&[7, 7, 7]), "acb");
        assert_eq!(cycle(&[10, 2, 2]), "aacaaba");
        assert_eq!(cycle(&[2, 0, 1]), "aca");
        assert_eq!(Rotation::new(&[]).turns.len(), 0);
        assert_eq!(Rotation::new(&[0]).turns.len(), 0);
    }

    #[test]
    fn cycle_wraps() {
        let (rotation, taken) = (Rotation::new(&[3, 1]), AtomicU32::new(0));
        let turns: Vec<usize> = (0..8).map(|_| rotation.index(rotation.next(&taken))).collect();
        assert_eq!(turns[..4], turns[4..]);
        assert_eq!(turns.iter().filter(|&&index| index == 1).count(), 2);
        assert_eq!(rotation.index(9), rotation.index(1));
    }

    #[test]
    fn bounded_cycle_contains_all() {
        let mut weights = vec![2_560; 1_023];
        weights.push(1);
        let rotation = Rotation::new(&weights);
        assert!(rotation.turns.len() as u64 <= TURNS_MAX + weights.len() as u64);
        assert!((0..rotation.turns.len()).any(|turn| rotation.index(turn) == 1_023));
    }

    proptest! {
        #[test]
        fn occurrences_follow_weights_evenly(weights in prop::collection::vec(1_u32..=256, 1..12)) {
            let rotation = Rotation::new(&weights);
            let counts = counts(&weights);
            let length = rotation.turns.len();
            prop_assert_eq!(length as u64, counts.iter().sum::<u64>());
            for (index, &count) in counts.iter().enumerate() {
                let turns: Vec<usize> = (0..length).filter(|&turn| rotation.index(turn) == index).collect();
                prop_assert_eq!(turns.len() as u64, count);
                // Between two occurrences of one, any other has at most one more than its share.
                let gap_max = length.div_ceil(turns.len()) + weights.len();
                let follows = turns.iter().skip(1).copied().chain([turns[0] + length]);
                for (turn, next) in turns.iter().zip(follows) {
                    prop_assert!(next - turn <= gap_max, "{index}: {turn} to {next} of {length}");
                }
            }
        }
    }
}
