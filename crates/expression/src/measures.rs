//! The measures named by expressions, claims and conditions.

use crate::{Claim, Condition, Expression, Measure};

/// At all levels.
impl From<Measure> for Expression {
    fn from(measure: Measure) -> Self {
        Self::Measured { measure, at: Vec::new() }
    }
}

impl Expression {
    /// All its measures, with their levels.
    #[must_use]
    pub fn measures(&self) -> Vec<(&Measure, &[(String, String)])> {
        match self {
            Self::Number(..) => Vec::new(),
            Self::Measured { measure, at } => vec![(measure, at.as_slice())],
            Self::Binary { left, right, .. } => [left.measures(), right.measures()].concat(),
        }
    }

    /// Whether it contains no measure.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        match self {
            Self::Number(..) => true,
            Self::Measured { .. } => false,
            Self::Binary { left, right, .. } => left.is_constant() && right.is_constant(),
        }
    }

    /// Whether it is a single measure that is counted rather than timed, and so comparable with an exact number.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        matches!(self, Self::Measured { measure, .. } if measure.quantity.is_counted())
    }
}

impl Claim {
    /// All measures of both sides, with their levels.
    #[must_use]
    pub fn measures(&self) -> Vec<(&Measure, &[(String, String)])> {
        [self.left.measures(), self.right.measures()].concat()
    }
}

impl Condition {
    #[must_use]
    pub fn measures(&self) -> Vec<&Measure> {
        match self {
            Self::Is(claim) => claim.measures().into_iter().map(|(measure, _)| measure).collect(),
            Self::And(left, right) | Self::Or(left, right) => [left.measures(), right.measures()].concat(),
        }
    }
}
