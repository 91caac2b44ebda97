//! The combinations of levels at which a claim is checked.

use breme_experiment::plan::COMBINATION_COUNT_MAX;
use breme_expression::{Claim, Expression};

use crate::levels::Levels;
use crate::observations::overridden;
use crate::question::Factor;

/// Limit of the combinations of open levels at which a hypothesis is checked: all that a plan can have, since a claim
/// must hold at each of them.
pub const CASES_MAX: usize = COMBINATION_COUNT_MAX;

/// The combinations of the levels that a claim leaves open; one without levels if it leaves none open. A combination at
/// which both sides would be identical is skipped: `mean(user) [path=cached] < mean(user)` is about the other paths.
pub(crate) fn cases(claim: &Claim, factors: &[Factor]) -> Vec<Levels> {
    let measured = claim.measures();
    let is_open = |factor: &&Factor| measured.iter().any(|(_, at)| !at.iter().any(|(name, _)| *name == factor.name));
    let mut cases = vec![Levels::new()];
    for factor in factors.iter().filter(is_open) {
        cases = with_each_level(&cases, factor);
    }
    cases.retain(|levels| !is_about_itself(claim, levels));
    cases
}

fn is_about_itself(claim: &Claim, levels: &Levels) -> bool {
    match (&claim.left, &claim.right) {
        (Expression::Measured { measure, at }, Expression::Measured { measure: other, at: there }) => {
            measure == other && overridden(levels, at) == overridden(levels, there)
        }
        _ => false,
    }
}

/// Each of `cases` at each level of another factor.
pub(crate) fn with_each_level(cases: &[Levels], factor: &Factor) -> Vec<Levels> {
    let at_each = |case: &Levels| -> Vec<Levels> {
        factor.levels.iter().map(|level| overridden(case, &[(factor.name.clone(), level.clone())])).collect()
    };
    cases.iter().flat_map(at_each).take(CASES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use breme_expression::Vocabulary;

    use super::*;

    #[test]
    fn a_claim_is_checked_at_every_combination_of_the_largest_plan() {
        let factor = |name: &str, count: usize| Factor {
            name: name.to_owned(),
            levels: (0..count).map(|level| level.to_string()).collect(),
        };
        let factors = [factor("path", 2), factor("crowd", COMBINATION_COUNT_MAX / 2)];
        let claim = Claim::parse("mean(user) < 1 s", &Vocabulary::default()).unwrap();
        let cases = cases(&claim, &factors);
        assert_eq!(cases.len(), COMBINATION_COUNT_MAX);
        assert_eq!(cases.last().unwrap()["crowd"], (COMBINATION_COUNT_MAX / 2 - 1).to_string());
    }
}
