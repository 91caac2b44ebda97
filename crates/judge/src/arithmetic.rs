//! Evaluates expressions, whatever the source of their measures.

use breme_expression::{ArithmeticOperation, Expression, Measure};

use crate::measure::Lack;

/// Arithmetic on the values of measures.
pub(crate) fn evaluate(
    expression: &Expression,
    value: &mut impl FnMut(&Measure, &[(String, String)]) -> Result<f64, Lack>,
) -> Result<f64, Lack> {
    let result = match expression {
        Expression::Number(number, _) => *number,
        Expression::Measured { measure, at } => value(measure, at)?,
        Expression::Binary { operation, left, right } => {
            let (left, right) = (evaluate(left, value)?, evaluate(right, value)?);
            match operation {
                ArithmeticOperation::Add => left + right,
                ArithmeticOperation::Subtract => left - right,
                ArithmeticOperation::Multiply => left * right,
                ArithmeticOperation::Divide => left / right,
            }
        }
    };
    if result.is_finite() { Ok(result) } else { Err(Lack::NothingCounted("a division by zero".to_owned())) }
}
