//! Whether intervals contain the true value as often as claimed while a neighbour disturbs the trials: a few
//! experiments in some worlds. `cargo run --release -p breme-judge --example coverage` prints the table of
//! docs/STATISTICS.md.

use crate::interference::{Rule, WORLDS, World};

const BLOCKS: u32 = 8;
const EXPERIMENTS: u64 = 100;
/// Enough to know the true value to a tenth of an interval.
const DRAWS: usize = 3_000;

fn world(name: &str) -> World {
    WORLDS.into_iter().find(|world| world.name == name).unwrap()
}

#[test]
fn intervals_hold_the_truth_though_trials_are_disturbed() {
    for name in ["bursts", "warm-up of the new build, bursts"] {
        let world = world(name);
        let shown = world.shown(Rule::Keep, world.truth(DRAWS), BLOCKS, EXPERIMENTS);
        // Four standard errors below 95 %.
        assert!(shown.covered >= 0.86 && shown.bias.abs() < shown.width / 8.0, "{name}: {shown:?}");
    }
}

/// More disturbed trials are discarded more often, and the rest misrepresents the subject.
#[test]
fn discarding_what_is_not_steady_would_miss_the_truth() {
    let world = world("bursts, new build not slowed at all");
    let truth = world.truth(DRAWS);
    let [discarded, kept] = [Rule::Discard, Rule::Keep].map(|rule| world.shown(rule, truth, BLOCKS, EXPERIMENTS));
    assert!(kept.covered >= 0.86 && discarded.covered < kept.covered, "{discarded:?}, {kept:?}");
    // For the mean times over a long run, some 4.5 % against 1.5 %.
    let off = [discarded, kept].map(|shown| shown.bias + truth - world.truth_of_means());
    assert!(off[0] > 1.5 * off[1].abs(), "{off:?}");
}
