//! The gate: the measures in which a later run must not be worse, and their margins.

use breme_expression::{
    Expression, ExpressionError, Measure, Quantity, TimeFigure, TimeKind, Unit, Vocabulary, less_is_better_of,
};
use thiserror::Error;

use super::measures::PlanMeasure;
use super::resolve::Resolved;

/// Default margin. Two runs at different times on a virtual machine often differ by a few percent for reasons other
/// than the code, and with six blocks and a scatter of 3 % the interval alone is ±4 %: with less than 10 %, equal
/// systems would seldom pass.
pub const MARGIN_DEFAULT: f64 = 0.1;
/// Default margin of shares (`errors`, `pass`, `sessions`): 0.1 percentage points.
const SHARE_MARGIN_DEFAULT: f64 = 0.001;
/// Separates a measure from its margin.
const WITHIN: &str = " within ";

#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub measures: Vec<GatedMeasure>,
    /// The margin of measures without one of their own that are not shares.
    pub margin: f64,
}

/// A measure in which a later run must not be worse.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedMeasure {
    pub measure: PlanMeasure,
    /// Its own margin, relative to the earlier value; percentage points if the measure is a share.
    pub margin: Option<f64>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { measures: Vec::new(), margin: MARGIN_DEFAULT }
    }
}

impl Gate {
    /// The margin that applies to a measure.
    #[must_use]
    pub fn margin_of(&self, gated: &GatedMeasure) -> f64 {
        let general = if gated.measure.unit == Unit::Share { SHARE_MARGIN_DEFAULT } else { self.margin };
        gated.margin.unwrap_or(general)
    }

    /// Rate, mean response time and errors of every foreground workload: few, so that all can pass; errors, because a
    /// server that rejects every request is fast.
    pub(super) fn standard(resolved: &Resolved, vocabulary: &Vocabulary) -> Vec<GatedMeasure> {
        let quantities = || {
            [
                Quantity::Rate,
                Quantity::Time { kind: TimeKind::Response, figure: TimeFigure::Mean },
                Quantity::ErrorShare,
            ]
        };
        let foreground = resolved.workloads.iter().filter(|workload| !workload.is_background);
        let measures = foreground.flat_map(|workload| quantities().map(|quantity| (quantity, workload.name.clone())));
        measures
            .filter(|(quantity, of)| vocabulary.is_captured(of, quantity))
            .map(|(quantity, of)| GatedMeasure { measure: Measure { quantity, of }.into(), margin: None })
            .collect()
    }
}

/// Why a text names no measure of a gate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GateError {
    #[error("{}", .0.problem)]
    Expression(#[source] ExpressionError),
    #[error("the gate judges a measure at all levels; omit the levels in brackets")]
    Levels,
    #[error("`{0}` has no direction that is better; gate a rate, a time, errors, cpu or memory")]
    NoDirection(String),
    #[error("{0:?} is not a margin; write for example `p99(user) within 10 %`")]
    Margin(String),
    /// With 0 nothing could pass, and 100 % less than a rate is 0.
    #[error("a margin is more than 0 % and less than 100 %; for example 10 %")]
    MarginRange,
}

impl GateError {
    /// The part of `text` that is wrong: its column from 1, and its length in characters.
    pub(super) fn stretch(&self, text: &str) -> (usize, usize) {
        match self {
            Self::Expression(error) => (error.column, error.length),
            _ => (1, text.chars().count()),
        }
    }
}

impl GatedMeasure {
    /// Parses `p99(user)` or `p99(user) within 10 %`.
    pub(super) fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self, GateError> {
        let (name, margin) = text.rsplit_once(WITHIN).map_or((text, None), |(name, margin)| (name, Some(margin)));
        let expression = Expression::parse(name, vocabulary).map_err(GateError::Expression)?;
        if !expression.measures().iter().all(|(_, at)| at.is_empty()) {
            return Err(GateError::Levels);
        }
        if less_is_better_of(&expression).is_none() {
            return Err(GateError::NoDirection(name.trim().to_owned()));
        }
        let margin = margin.map(share).transpose()?;
        Ok(Self { measure: PlanMeasure::named(name, expression, vocabulary), margin })
    }
}

pub(super) fn check_margin(margin: f64) -> Result<f64, GateError> {
    if margin > 0.0 && margin < 1.0 { Ok(margin) } else { Err(GateError::MarginRange) }
}

fn share(text: &str) -> Result<f64, GateError> {
    match crate::file::values::measured(text.trim()) {
        Some((share, Unit::Share | Unit::Plain)) => check_margin(share),
        _ => Err(GateError::Margin(text.trim().to_owned())),
    }
}
