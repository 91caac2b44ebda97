//! The direction in which a measure improves.

use crate::{ArithmeticOperation, Claim, Expression, Quantity};

/// Whether less is better, if the quantity alone determines that.
#[must_use]
pub fn less_is_better(quantity: &Quantity) -> Option<bool> {
    match quantity {
        Quantity::Time { .. }
        | Quantity::Step { .. }
        | Quantity::ErrorShare
        | Quantity::Failed
        | Quantity::Refused
        | Quantity::Gap
        | Quantity::UserGap
        | Quantity::Recovery
        | Quantity::StaleCount
        | Quantity::StaleRatio
        | Quantity::Pairs(_)
        | Quantity::InconsistentRatio
        | Quantity::CpuPerRequest
        | Quantity::UserCpuPerRequest
        | Quantity::Memory
        | Quantity::MemoryGrowth
        | Quantity::GeneratorCpuPerRequest
        | Quantity::GeneratorUserCpuPerRequest
        | Quantity::GeneratorMemory
        | Quantity::Switches => Some(true),
        Quantity::Rate
        | Quantity::ByteRate
        | Quantity::PassShare
        | Quantity::SessionShare
        | Quantity::HitRatio
        | Quantity::HitRatioByOrigin => Some(false),
        // More may mean more work done, or more resources needed for the same work.
        Quantity::OfferedRate
        | Quantity::Answered
        | Quantity::Status(_)
        | Quantity::CpuShare
        | Quantity::GeneratorCpuShare
        | Quantity::Threads
        | Quantity::Descriptors
        | Quantity::DescriptorShare
        | Quantity::Counter(_) => None,
    }
}

/// Whether it counts exceptions, or is the share of requests with or without one: a single block that is far worse than
/// all others matters there, while a time or a rate may have an outlier.
#[must_use]
pub const fn is_of_exceptions(quantity: &Quantity) -> bool {
    matches!(
        quantity,
        Quantity::ErrorShare
            | Quantity::PassShare
            | Quantity::Failed
            | Quantity::Refused
            | Quantity::SessionShare
            | Quantity::StaleCount
            | Quantity::StaleRatio
            | Quantity::Pairs(_)
            | Quantity::InconsistentRatio
    )
}

impl Claim {
    /// Whether any of its measures is of exceptions.
    #[must_use]
    pub fn is_of_exceptions(&self) -> bool {
        self.measures().iter().any(|(measure, _)| is_of_exceptions(&measure.quantity))
    }
}

/// Whether a smaller value of an expression is better: sums and multiples inherit the direction of their parts; ratios
/// have none.
#[must_use]
pub fn less_is_better_of(expression: &Expression) -> Option<bool> {
    match expression {
        Expression::Number(..) => None,
        Expression::Measured { measure, .. } => less_is_better(&measure.quantity),
        Expression::Binary { operation: ArithmeticOperation::Add, left, right } => {
            less_is_better_of(left).filter(|less| less_is_better_of(right) == Some(*less))
        }
        Expression::Binary { operation: ArithmeticOperation::Multiply, left, right } => match (&**left, &**right) {
            (Expression::Number(factor, _), other) | (other, Expression::Number(factor, _)) if *factor > 0.0 => {
                less_is_better_of(other)
            }
            _ => None,
        },
        Expression::Binary { operation: ArithmeticOperation::Divide, left, right } => match &**right {
            Expression::Number(divisor, _) if *divisor > 0.0 => less_is_better_of(left),
            _ => None,
        },
        Expression::Binary { operation: ArithmeticOperation::Subtract, .. } => None,
    }
}
