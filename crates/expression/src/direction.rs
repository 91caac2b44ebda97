//! The direction in which a measure improves.

use crate::{ArithmeticOperation, Claim, Expression};

impl Claim {
    /// Whether any of its measures is of exceptions.
    #[must_use]
    pub fn is_of_exceptions(&self) -> bool {
        self.measures().iter().any(|(measure, _)| measure.quantity.is_of_exceptions())
    }
}

/// Whether a smaller value of an expression is better: sums and multiples inherit the direction of their parts; ratios
/// have none.
#[must_use]
pub fn less_is_better_of(expression: &Expression) -> Option<bool> {
    match expression {
        Expression::Number(..) => None,
        Expression::Measured { measure, .. } => measure.quantity.less_is_better(),
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
