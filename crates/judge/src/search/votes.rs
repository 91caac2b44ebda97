//! The votes of all trials of a search on where the system begins to fail.

use crate::judgement::SearchStep;

/// A longer trial has the weight of three.
const CONFIRMATION_VOTES: u32 = 3;
/// A level is settled when one side leads by this many votes …
const LEAD: u32 = 2;
/// … or leads at all after this many: then the level is a coin toss, and its side does not matter.
const ENOUGH: u32 = 7;

/// The votes on each level, ascending.
pub(super) struct Votes {
    levels: Vec<Level>,
}

struct Level {
    level: f64,
    held: u32,
    failed: u32,
}

/// The two levels that enclose the failure point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub holds_at: Option<f64>,
    pub fails_at: Option<f64>,
}

impl Votes {
    pub(super) fn from_steps(steps: &[SearchStep]) -> Self {
        let mut levels: Vec<Level> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let Some(failed) = step.failed else { continue };
            if failed && is_from_above(steps, index) {
                // Shows that the system does not recover, not that it fails here on the way up.
                continue;
            }
            let votes = if step.is_confirmation { CONFIRMATION_VOTES } else { 1 };
            let place = levels.iter().position(|level| is_same(level.level, step.level)).unwrap_or_else(|| {
                levels.push(Level { level: step.level, held: 0, failed: 0 });
                levels.len() - 1
            });
            let counted = if failed { &mut levels[place].failed } else { &mut levels[place].held };
            *counted += votes;
        }
        levels.sort_by(|one, other| one.level.total_cmp(&other.level));
        Self { levels }
    }

    /// The split with the fewest votes on its wrong side: failures below it, successes above. Of several, the lowest:
    /// that level is tested again.
    pub(super) fn bounds(&self) -> Bounds {
        let mut wrong: u32 = self.levels.iter().map(|level| level.held).sum();
        let (mut least, mut split) = (wrong, 0);
        for (index, level) in self.levels.iter().enumerate() {
            wrong = wrong + level.failed - level.held;
            if wrong < least {
                (least, split) = (wrong, index + 1);
            }
        }
        Bounds {
            holds_at: split.checked_sub(1).map(|below| self.levels[below].level),
            fails_at: self.levels.get(split).map(|above| above.level),
        }
    }

    /// Whether a level's own votes decide its side.
    pub(super) fn is_settled(&self, level: f64) -> bool {
        let Some(votes) = self.levels.iter().find(|known| is_same(known.level, level)) else { return false };
        let lead = votes.held.abs_diff(votes.failed);
        lead >= LEAD || lead > 0 && votes.held + votes.failed >= ENOUGH
    }
}

/// Whether two levels are equal, up to the error of a conversion to text and back.
pub(super) fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

pub(super) fn is_failed_confirmation(step: &SearchStep) -> bool {
    step.is_confirmation && step.failed == Some(true)
}

/// Whether the step came down from a longer trial that failed.
pub(super) fn is_from_above(steps: &[SearchStep], index: usize) -> bool {
    let Some(before) = index.checked_sub(1).map(|before| &steps[before]) else { return false };
    steps[index].is_confirmation && is_failed_confirmation(before) && before.level > steps[index].level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(votes: &[(f64, bool)]) -> Vec<SearchStep> {
        votes
            .iter()
            .map(|&(level, failed)| SearchStep { level, failed: Some(failed), ..SearchStep::default() })
            .collect()
    }

    fn check(votes: &[(f64, bool)], holds_at: Option<f64>, fails_at: Option<f64>) {
        assert_eq!(Votes::from_steps(&steps(votes)).bounds(), Bounds { holds_at, fails_at }, "{votes:?}");
    }

    #[test]
    fn the_point_is_where_the_fewest_votes_are_wrong() {
        check(&[], None, None);
        check(&[(1.0, false), (2.0, false)], Some(2.0), None);
        check(&[(1.0, true)], None, Some(1.0));
        check(&[(1.0, false), (2.0, false), (4.0, true)], Some(2.0), Some(4.0));
        // One failure far below many successes is outvoted.
        check(&[(1.0, false), (2.0, true), (4.0, false), (8.0, false), (16.0, true)], Some(8.0), Some(16.0));
        // Evenly divided: the lower split, so that the level is tested again.
        check(&[(1.0, false), (2.0, true), (2.0, false)], Some(1.0), Some(2.0));
    }

    #[test]
    fn a_level_is_settled_by_a_lead_of_two() {
        let votes = Votes::from_steps(&steps(&[
            (1.0, false),
            (2.0, true),
            (2.0, true),
            (3.0, true),
            (3.0, true),
            (3.0, false),
        ]));
        assert_eq!([1.0, 2.0, 3.0, 4.0].map(|level| votes.is_settled(level)), [false, true, false, false]);
    }
}
