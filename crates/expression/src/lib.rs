//! The language of measures of a trial, and of claims about them.
//!
//! ```text
//! mean(user) [path=cached, crowd=250] < 0.25 * mean(user) [path=source, crowd=250]
//! p99(user) < 50 ms                          at every level of every factor
//! rate(crowd) [protocol="1.1"] / rate(crowd) [protocol="1.0"] > 1.5
//! p95(user) > 2 s or errors(user) > 1 %      a condition: of one trial, without levels
//! ```
//!
//! A measure is a number of one trial. An expression is arithmetic on measures; it is computed **within each block**,
//! so that what all trials of a block have in common cancels out. A claim compares two expressions.
//!
//! `parse` turns text into an [`Expression`], a [`Claim`] or a [`Condition`] and checks names and units; `print` turns
//! them into text. Experiments, `breme load --fail-if` and gates share this language; `breme-judge` computes it.
//!
//! This crate knows no plans, trials and records: a [`Vocabulary`] has the names that an expression may use.

mod cursor;
mod direction;
mod measures;
mod parse;
mod print;
mod quantity;
mod terms;
mod units;
mod vocabulary;

pub use cursor::ExpressionError;
pub use direction::less_is_better_of;
pub use quantity::{MeasureNameError, MeasuredOn};
pub use terms::{
    ArithmeticOperation, Claim, Condition, Expression, Measure, PairCount, Quantity, Relation, TimeFigure, TimeKind,
    Unit,
};
pub use units::read as read_unit;
pub use vocabulary::Vocabulary;
