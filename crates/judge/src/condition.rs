//! Whether one trial meets a condition: `p95(user) > 2 s or errors(user) > 1 %`.

use breme_experiment::record::{TrialEnd, TrialRecord};
use breme_expression::{Claim, Condition, Relation};

use crate::arithmetic::evaluate;
use crate::measure::{Lack, MeasureReader};

/// Whether the trial meets the condition; none if it does not count or lacks a deciding value.
///
/// A trial in which the subject failed meets every condition for failure: it was loaded until it broke. One in which
/// the generator failed says nothing. It need not be steady: overload never is.
#[must_use]
pub fn is_met(condition: &Condition, record: &TrialRecord) -> Option<bool> {
    if let TrialEnd::Failed(failure) = &record.end {
        return (!failure.is_generator).then_some(true);
    }
    if !record.invalid_reasons.is_empty() {
        return None;
    }
    met(condition, &mut MeasureReader::new(record))
}

fn met(condition: &Condition, reader: &mut MeasureReader<'_>) -> Option<bool> {
    match condition {
        Condition::Is(claim) => holds(claim, reader).ok(),
        Condition::And(left, right) => match (met(left, reader), met(right, reader)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (left, right) => Some(left? && right?),
        },
        Condition::Or(left, right) => match (met(left, reader), met(right, reader)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (left, right) => Some(left? || right?),
        },
    }
}

fn holds(claim: &Claim, reader: &mut MeasureReader<'_>) -> Result<bool, Lack> {
    let left = evaluate(&claim.left, &mut |measure, _| reader.value(measure))?;
    let right = evaluate(&claim.right, &mut |measure, _| reader.value(measure))?;
    Ok(match claim.relation {
        Relation::Less => left < right,
        Relation::Greater => left > right,
        Relation::Equal => is_same(left, right),
        Relation::Different => !is_same(left, right),
    })
}

fn is_same(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use breme_experiment::record::{TrialFailure, WorkloadRecord};
    use breme_expression::{Expression, Measure, Quantity, Unit};

    fn is(quantity: Quantity, of: &str, limit: f64) -> Condition {
        let measure = Measure { quantity, of: of.to_owned() };
        Condition::Is(Claim {
            left: measure.into(),
            relation: Relation::Greater,
            right: Expression::Number(limit, Unit::Plain),
        })
    }

    fn or(left: Condition, right: Condition) -> Condition {
        Condition::Or(Box::new(left), Box::new(right))
    }

    fn and(left: Condition, right: Condition) -> Condition {
        Condition::And(Box::new(left), Box::new(right))
    }

    fn record() -> TrialRecord {
        let workload = WorkloadRecord {
            achieved_rate: 100.0,
            ok: 95,
            errors: BTreeMap::from([("timeout".to_owned(), 5)]),
            ..WorkloadRecord::default()
        };
        TrialRecord { workloads: BTreeMap::from([("user".to_owned(), workload)]), ..TrialRecord::default() }
    }

    #[test]
    fn a_missing_value_does_not_matter_where_the_rest_decides() {
        let (yes, no) = (|| is(Quantity::ErrorShare, "user", 0.01), || is(Quantity::Rate, "user", 200.0));
        let unknown = || is(Quantity::Rate, "nobody", 1.0);
        let met = |condition: &Condition| is_met(condition, &record());
        assert_eq!((met(&yes()), met(&no()), met(&unknown())), (Some(true), Some(false), None));
        assert_eq!((met(&or(unknown(), yes())), met(&or(unknown(), no()))), (Some(true), None));
        assert_eq!((met(&and(unknown(), no())), met(&and(unknown(), yes()))), (Some(false), None));
        assert_eq!((met(&and(yes(), yes())), met(&or(no(), no()))), (Some(true), Some(false)));
    }

    #[test]
    fn a_subject_that_broke_has_failed_and_a_generator_that_broke_has_not() {
        // A trial that fails has no loads.
        let failed = |failure: TrialFailure| TrialRecord { end: failure.into(), ..TrialRecord::default() };
        let condition = is(Quantity::Rate, "user", 1.0);
        assert_eq!(is_met(&condition, &failed(TrialFailure::new("site", "died", ""))), Some(true));
        assert_eq!(is_met(&condition, &failed(TrialFailure::of_generator("user", "died", ""))), None);
        assert_eq!(is_met(&condition, &TrialRecord { invalid_reasons: vec!["slow".into()], ..record() }), None);
    }
}
