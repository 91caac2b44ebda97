//! What a claim is about: its measures, and the levels that it leaves open.

use crate::expression::{Claim, Condition, Expression, Measure, Quantity};
use crate::judge::levels::Levels;
use crate::judge::observations::overridden;
use crate::judge::question::Factor;

/// The most combinations of open levels at which a hypothesis is checked.
pub const CASES_MAX: usize = 1_000;

impl Expression {
    /// Whether it holds no measure.
    pub(crate) fn is_constant(&self) -> bool {
        self.measures().is_empty()
    }

    /// Whether it is one measure that is counted, not timed: then it can be held to be exactly a number.
    pub(crate) fn is_counted(&self) -> bool {
        let is_counted = |quantity: &Quantity| {
            matches!(
                quantity,
                Quantity::ErrorShare
                    | Quantity::PassShare
                    | Quantity::SessionShare
                    | Quantity::HitRatio
                    | Quantity::HitRatioByOrigin
                    | Quantity::StaleCount
                    | Quantity::StaleRatio
                    | Quantity::Pairs(_)
                    | Quantity::InconsistentRatio
                    | Quantity::Status(_)
                    | Quantity::Answered
                    | Quantity::Failed
                    | Quantity::Refused
                    | Quantity::Counter(_)
            )
        };
        matches!(self, Self::Measured { measure, .. } if is_counted(&measure.quantity))
    }
}

impl Condition {
    /// The measures that it names.
    #[must_use]
    pub fn measures(&self) -> Vec<&Measure> {
        match self {
            Self::Is(claim) => claim.measures(),
            Self::And(left, right) | Self::Or(left, right) => [left.measures(), right.measures()].concat(),
        }
    }
}

impl Claim {
    /// The measures of both sides.
    pub(crate) fn measures(&self) -> Vec<&Measure> {
        self.measured().into_iter().map(|(measure, _)| measure).collect()
    }

    fn measured(&self) -> Vec<(&Measure, &[(String, String)])> {
        [self.left.measures(), self.right.measures()].concat()
    }

    /// The combinations of the levels that it leaves open; one without levels if it leaves none open. A combination at
    /// which both sides would be the same thing is left out: `mean(user) [path=cached] < mean(user)` is about the other
    /// paths.
    pub(crate) fn cases(&self, factors: &[Factor]) -> Vec<Levels> {
        let measured = self.measured();
        let is_open =
            |factor: &&Factor| measured.iter().any(|(_, at)| !at.iter().any(|(name, _)| *name == factor.name));
        let mut cases = vec![Levels::new()];
        for factor in factors.iter().filter(is_open) {
            cases = with_each_level(&cases, factor);
        }
        cases.retain(|levels| !self.is_about_itself(levels));
        cases
    }

    fn is_about_itself(&self, levels: &Levels) -> bool {
        match (&self.left, &self.right) {
            (Expression::Measured { measure, at }, Expression::Measured { measure: other, at: there }) => {
                measure == other && overridden(levels, at) == overridden(levels, there)
            }
            _ => false,
        }
    }
}

/// Each of `cases` at each level of one more factor.
pub(crate) fn with_each_level(cases: &[Levels], factor: &Factor) -> Vec<Levels> {
    let at_each = |case: &Levels| -> Vec<Levels> {
        factor.levels.iter().map(|level| overridden(case, &[(factor.name.clone(), level.clone())])).collect()
    };
    cases.iter().flat_map(at_each).take(CASES_MAX).collect()
}
