//! The result of a case in the form that readers expect.
//!
//! A claim is tested against its bound: for `rate(a) > 1.2 * rate(b)` the statistics are those of `rate(a)` ÷ `1.2 *
//! rate(b)`. Readers want `rate(a)` ÷ `rate(b)`, compared with the claimed 1.2. Multiplying estimate and interval by
//! the constant changes nothing else.

use breme_expression::{ArithmeticOperation, Claim, Expression, Relation, Unit};

use crate::judgement::{Case, Effect, Finding, FindingKind, Scale};
use crate::levels::Levels;
use crate::observations::overridden;
use crate::words::{self, amount};

/// The finding; none without an estimate.
pub(super) fn finding(claim: &Claim, case: &Case) -> Option<Finding> {
    let Effect { center, low, high, .. } = case.effect;
    Shape::from_case(claim, case)?.finding(claim, case, [center?, low?, high?])
}

/// The constant factors of both sides, which are removed from the displayed ratio.
pub(super) fn factors(claim: &Claim, scale: Scale) -> (f64, f64) {
    match scale {
        Scale::Ratio => (without_factor(&claim.left).0, without_factor(&claim.right).0),
        Scale::Difference => (1.0, 1.0),
    }
}

/// Whether the finding itself names the levels in which both sides differ: "with a … with b".
pub(super) fn says_levels(claim: &Claim, case: &Case) -> bool {
    let Some(Shape::Ratio { left, right, .. }) = Shape::from_case(claim, case) else { return false };
    sides(left, right, &case.levels).is_some()
}

/// The number that a claim is about.
enum Shape<'a> {
    /// `left ÷ right`, claimed to be on one side of `bound`.
    Ratio { left: &'a Expression, right: &'a Expression, bound: f64 },
    /// `left − right`, claimed to be on one side of 0.
    Difference,
    /// `of`, claimed to be on one side of `bound`, which is the claim's left side if `is_turned`.
    Value { of: &'a Expression, bound: f64, is_turned: bool },
}

impl<'a> Shape<'a> {
    fn from_case(claim: &'a Claim, case: &Case) -> Option<Self> {
        let (left, right, pair) = (&claim.left, &claim.right, case.effect.blocks.first()?);
        let is_ratio = case.effect.scale == Scale::Ratio;
        Some(match (left.is_constant(), right.is_constant()) {
            (false, true) => match left {
                Expression::Binary { operation: ArithmeticOperation::Divide, left, right }
                    if is_ratio && !left.is_constant() && !right.is_constant() =>
                {
                    Self::Ratio { left, right, bound: pair.right }
                }
                _ => Self::Value { of: left, bound: pair.right, is_turned: false },
            },
            (true, false) => Self::Value { of: right, bound: pair.left, is_turned: true },
            _ if is_ratio => {
                let ((by_left, left), (by_right, right)) = (without_factor(left), without_factor(right));
                Self::Ratio { left, right, bound: by_right / by_left }
            }
            _ => Self::Difference,
        })
    }

    fn finding(&self, claim: &Claim, case: &Case, ends: [f64; 3]) -> Option<Finding> {
        let is_turned = matches!(self, Self::Value { is_turned: true, .. });
        let relation = if is_turned { turned(claim.relation) } else { claim.relation };
        let of_effect = |value: f64| match (self, case.effect.scale) {
            (Self::Difference, _) => value,
            (Self::Ratio { bound, .. } | Self::Value { bound, is_turned: false, .. }, Scale::Ratio) => value * bound,
            (Self::Value { bound, .. }, Scale::Ratio) => bound / value,
            (Self::Ratio { bound, .. } | Self::Value { bound, is_turned: false, .. }, Scale::Difference) => {
                bound + value
            }
            (Self::Value { bound, .. }, Scale::Difference) => bound - value,
        };
        let [center, one, other] = ends.map(of_effect);
        let numbers = [center, one.min(other), one.max(other)];
        if numbers.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let (kind, of, relative_to, unit, bound) = match self {
            Self::Ratio { left, right, bound } => (FindingKind::Ratio, *left, right.to_string(), Unit::Plain, *bound),
            Self::Difference => (FindingKind::Difference, &claim.left, claim.right.to_string(), claim.left.unit(), 0.0),
            Self::Value { of, bound, .. } => (FindingKind::Value, *of, String::new(), of.unit(), *bound),
        };
        // A number is repeated as written in the claim.
        let written = match self {
            Self::Value { is_turned: true, .. } => claim.left.to_string(),
            Self::Value { .. } => claim.right.to_string(),
            Self::Ratio { .. } | Self::Difference => words::exact(bound),
        };
        Some(Finding {
            kind,
            of: of.to_string(),
            relative_to,
            unit: unit.symbol().to_owned(),
            center: numbers[0],
            low: numbers[1],
            high: numbers[2],
            relation: relation.to_string(),
            bound,
            is_turned,
            claimed: claimed(relation, &written, unit, &case.effect),
            sentence: self.sentence(claim, &case.levels, numbers),
        })
    }

    fn sentence(&self, claim: &Claim, levels: &Levels, numbers: [f64; 3]) -> String {
        match self {
            Self::Ratio { left, right, .. } => {
                let times = words::times(numbers);
                match sides(left, right, levels) {
                    Some(Sides { measure, left, right, common }) => {
                        let at = if common.is_empty() { common } else { format!(" {common}") };
                        format!("`{measure}` with {left} is {times} that with {right}{at}")
                    }
                    None => format!("`{left}` is {times} `{right}`"),
                }
            }
            Self::Difference => {
                let said = between(numbers, |value| words::difference(value, claim.left.unit()));
                format!("`{}` minus `{}` is {said}", claim.left, claim.right)
            }
            Self::Value { of, bound, .. } => {
                // A value below 500 must not be displayed as 500.
                let said = between(numbers, |value| words::amount_beside(*bound, value, of.unit()));
                format!("`{of}` is {said}")
            }
        }
    }
}

/// `12 ms (10 ms to 13 ms)`.
fn between(numbers: [f64; 3], describe: impl Fn(f64) -> String) -> String {
    let [center, low, high] = numbers.map(describe);
    if low == high { center } else { format!("{center} ({low} to {high})") }
}

/// Separates a constant factor: `1.2 * rate(b)` is 1.2 and `rate(b)`.
fn without_factor(expression: &Expression) -> (f64, &Expression) {
    let Expression::Binary { operation, left, right } = expression else { return (1.0, expression) };
    let (factor, rest) = match (operation, &**left, &**right) {
        (ArithmeticOperation::Multiply, Expression::Number(factor, _), rest)
        | (ArithmeticOperation::Multiply, rest, Expression::Number(factor, _)) => (*factor, rest),
        (ArithmeticOperation::Divide, rest, Expression::Number(divisor, _)) => (1.0 / divisor, rest),
        _ => return (1.0, expression),
    };
    if !(factor > 0.0 && factor.is_finite()) || rest.is_constant() {
        return (1.0, expression);
    }
    let (inner, rest) = without_factor(rest);
    (factor * inner, rest)
}

/// One measure at two combinations of levels.
struct Sides {
    measure: String,
    /// Levels of the left side that differ.
    left: String,
    /// Levels of the right side that differ.
    right: String,
    /// `at crowd=250`: levels common to both sides.
    common: String,
}

fn sides(left: &Expression, right: &Expression, levels: &Levels) -> Option<Sides> {
    let (Expression::Measured { measure, at }, Expression::Measured { measure: other, at: there }) = (left, right)
    else {
        return None;
    };
    let common: Levels = at.iter().filter(|named| there.contains(named)).cloned().collect();
    let (at, there) = (overridden(levels, at), overridden(levels, there));
    let differing = |of: &Levels, other: &Levels| -> Levels {
        of.iter().filter(|(factor, level)| other.get(*factor) != Some(*level)).map(cloned).collect()
    };
    let (left, right) = (differing(&at, &there), differing(&there, &at));
    (measure == other && !left.is_empty() && !right.is_empty()).then(|| Sides {
        measure: measure.to_string(),
        left: words::levels_text(&left),
        right: words::levels_text(&right),
        common: words::at_levels(&common),
    })
}

fn cloned((factor, level): (&String, &String)) -> (String, String) {
    (factor.clone(), level.clone())
}

const fn turned(relation: Relation) -> Relation {
    match relation {
        Relation::Less => Relation::Greater,
        Relation::Greater => Relation::Less,
        same => same,
    }
}

fn claimed(relation: Relation, value: &str, unit: Unit, effect: &Effect) -> String {
    let within = (effect.equal_within > 0.0).then(|| match effect.scale {
        Scale::Ratio => amount(effect.equal_within, Unit::Share),
        Scale::Difference => words::difference(effect.equal_within, unit),
    });
    match (relation, within) {
        (Relation::Less, _) => format!("less than {value}"),
        (Relation::Greater, _) => format!("more than {value}"),
        (Relation::Equal, Some(within)) => format!("{value}, within {within}"),
        (Relation::Equal, None) => format!("exactly {value}"),
        (Relation::Different, Some(within)) => format!("a difference of more than {within} from {value}"),
        (Relation::Different, None) => format!("not {value}"),
    }
}
