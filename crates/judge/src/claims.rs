//! The combinations of levels at which a claim is checked.

use breme_expression::{Claim, Expression};

use crate::levels::Levels;
use crate::observations::overridden;
use crate::question::Factor;

/// Limit of the combinations of open levels at which a hypothesis is checked.
pub const CASES_MAX: usize = 1_000;

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
