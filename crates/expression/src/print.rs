//! Formats expressions as text; parsing that text returns the same expression.

use std::fmt;

use crate::quantity::{Quoted, is_level_character};
use crate::terms::{ArithmeticOperation, Claim, Condition, Expression, Measure, Relation};
use crate::units;

impl fmt::Display for Measure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of.as_str() {
            "" => write!(formatter, "{}", self.quantity),
            of => write!(formatter, "{}({})", self.quantity, Quoted(of)),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value, unit) => formatter.write_str(&units::write(*value, *unit)),
            Self::Measured { measure, at } => {
                write!(formatter, "{measure}")?;
                write_levels(at, formatter)
            }
            Self::Binary { operation, left, right } => {
                write_operand(left, left.strength() < operation.strength(), formatter)?;
                write!(formatter, " {operation} ")?;
                write_operand(right, right.strength() <= operation.strength(), formatter)
            }
        }
    }
}

fn write_levels(at: &[(String, String)], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    if at.is_empty() {
        return Ok(());
    }
    let levels: Vec<String> =
        at.iter().map(|(factor, level)| format!("{}={}", Quoted(factor), level_text(level))).collect();
    write!(formatter, " [{}]", levels.join(", "))
}

fn level_text(level: &str) -> String {
    let is_plain = !level.is_empty() && level.chars().all(is_level_character);
    if is_plain { level.to_owned() } else { format!("\"{}\"", level.replace('\\', "\\\\").replace('"', "\\\"")) }
}

fn write_operand(operand: &Expression, in_parentheses: bool, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    if in_parentheses { write!(formatter, "({operand})") } else { write!(formatter, "{operand}") }
}

impl Expression {
    /// Precedence, for parentheses.
    fn strength(&self) -> u8 {
        match self {
            Self::Binary { operation, .. } => operation.strength(),
            _ => u8::MAX,
        }
    }
}

impl ArithmeticOperation {
    fn strength(self) -> u8 {
        match self {
            Self::Add | Self::Subtract => 1,
            Self::Multiply | Self::Divide => 2,
        }
    }
}

impl fmt::Display for ArithmeticOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
        })
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Less => "<",
            Self::Greater => ">",
            Self::Equal => "≈",
            Self::Different => "!=",
        })
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.left, self.relation, self.right)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(claim) => write!(formatter, "{claim}"),
            Self::And(left, right) => {
                write_condition(left, matches!(**left, Self::Or(..)), formatter)?;
                formatter.write_str(" and ")?;
                write_condition(right, !matches!(**right, Self::Is(_)), formatter)
            }
            Self::Or(left, right) => {
                write!(formatter, "{left} or ")?;
                write_condition(right, matches!(**right, Self::Or(..)), formatter)
            }
        }
    }
}

fn write_condition(condition: &Condition, in_parentheses: bool, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    if in_parentheses { write!(formatter, "({condition})") } else { write!(formatter, "{condition}") }
}
