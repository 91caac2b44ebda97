//! Units: how numbers with them are written, and which sides of a claim are comparable.

use crate::terms::{ArithmeticOperation, Expression, Unit};

/// Spelling of a unit: its name, its base unit, the power of ten that converts to the base unit (so that `50 ms` is
/// exactly the number nearest to 0.05), and a factor for units that are no power of ten.
struct Written(&'static str, Unit, i32, f64);

const WRITTEN: [Written; 17] = [
    Written("ns", Unit::Seconds, -9, 1.0),
    Written("us", Unit::Seconds, -6, 1.0),
    Written("µs", Unit::Seconds, -6, 1.0),
    Written("ms", Unit::Seconds, -3, 1.0),
    Written("s", Unit::Seconds, 0, 1.0),
    Written("m", Unit::Seconds, 0, 60.0),
    Written("h", Unit::Seconds, 0, 3_600.0),
    Written("B", Unit::Bytes, 0, 1.0),
    Written("kB", Unit::Bytes, 3, 1.0),
    Written("MB", Unit::Bytes, 6, 1.0),
    Written("GB", Unit::Bytes, 9, 1.0),
    Written("KiB", Unit::Bytes, 0, 1_024.0),
    Written("MiB", Unit::Bytes, 0, 1_048_576.0),
    Written("GiB", Unit::Bytes, 0, 1_073_741_824.0),
    Written("%", Unit::Share, -2, 1.0),
    // Thousands, as in 10k/s; not a unit by itself.
    Written("k", Unit::Plain, 3, 1.0),
    Written("M", Unit::Plain, 6, 1.0),
];

/// The names of all units, for suggestions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    WRITTEN.iter().map(|written| written.0)
}

/// The value of a number with a unit; `is_rate` if `/s` follows. None if there is no such unit, it has no rate, or the
/// number is too large.
#[must_use]
pub fn read(number: &str, name: &str, is_rate: bool) -> Option<(f64, Unit)> {
    let plain = Written("", Unit::Plain, 0, 1.0);
    let Written(_, unit, power, factor) =
        if name.is_empty() { &plain } else { WRITTEN.iter().find(|written| written.0 == name)? };
    let unit = match (unit, is_rate) {
        (unit, false) => *unit,
        (Unit::Plain, true) => Unit::PerSecond,
        (Unit::Bytes, true) => Unit::BytesPerSecond,
        _ => return None,
    };
    let value = breme_base::decimal_shifted(number, *power)? * factor;
    value.is_finite().then_some((value, unit))
}

/// Formats a number in its most readable unit; parsing the result returns the same number.
pub(crate) fn write(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Plain => value.to_string(),
        Unit::PerSecond => format!("{value} /s"),
        Unit::Bytes => in_best(value, &[(6, "MB"), (3, "kB"), (0, "B")]),
        Unit::BytesPerSecond => in_best(value, &[(6, "MB/s"), (3, "kB/s"), (0, "B/s")]),
        Unit::Seconds => in_best(value, &[(0, "s"), (-3, "ms"), (-6, "us"), (-9, "ns")]),
        Unit::Share => in_best(value, &[(-2, "%")]),
    }
}

fn in_best(value: f64, units: &[(i32, &str)]) -> String {
    let fits = |&&(power, _): &&(i32, &str)| value.abs() >= 10_f64.powi(power);
    let smallest = if value == 0.0 { units.iter().find(|unit| unit.0 == 0) } else { None };
    let best = smallest.or_else(|| units.iter().find(fits)).or(units.last());
    best.map_or_else(|| value.to_string(), |(power, name)| format!("{} {name}", unshifted(value, -power)))
}

/// The shortest decimal of a number, with its point moved by `power` places.
fn unshifted(value: f64, power: i32) -> String {
    if value == 0.0 {
        return "0".to_owned(); // its zeros would be moved too
    }
    let written = format!("{value:e}");
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or_default() + power;
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let digits = digits.replace('.', "");
    let whole = usize::try_from(exponent + 1).unwrap_or(0);
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        format!("{sign}0.{}{digits}", "0".repeat(zeros))
    } else if digits.len() <= whole {
        format!("{sign}{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// The dimension of a number, as powers of seconds and of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dimension {
    seconds: i32,
    bytes: i32,
}

impl Dimension {
    const fn from_unit(unit: Unit) -> Self {
        let (seconds, bytes) = match unit {
            Unit::Seconds => (1, 0),
            Unit::PerSecond => (-1, 0),
            Unit::BytesPerSecond => (-1, 1),
            Unit::Bytes => (0, 1),
            Unit::Share | Unit::Plain => (0, 0),
        };
        Self { seconds, bytes }
    }

    pub(crate) fn describe(self) -> &'static str {
        match (self.seconds, self.bytes) {
            (0, 0) => "a plain number or a share",
            (1, 0) => "a time",
            (-1, 0) => "a number per second",
            (0, 1) => "bytes",
            (-1, 1) => "bytes per second",
            _ => "a mixture of units",
        }
    }

    /// A unit to suggest.
    pub(crate) fn unit_name(self) -> Option<&'static str> {
        match (self.seconds, self.bytes) {
            (1, 0) => Some("ms"),
            (-1, 0) => Some("/s"),
            (0, 1) => Some("MB"),
            (-1, 1) => Some("MB/s"),
            _ => None,
        }
    }
}

/// The dimension of an expression; none if it is a number without a unit (which is compatible with rates and bytes, but
/// not with times, since seconds or milliseconds may be meant).
pub(crate) fn dimension(expression: &Expression) -> Option<Dimension> {
    match expression {
        Expression::Number(_, Unit::Plain) => None,
        Expression::Number(_, unit) => Some(Dimension::from_unit(*unit)),
        Expression::Measured { measure, .. } => Some(Dimension::from_unit(measure.quantity.unit())),
        Expression::Binary { operation, left, right } => {
            let (left, right) = (dimension(left), dimension(right));
            let plain = Dimension::from_unit(Unit::Plain);
            let sign = match operation {
                ArithmeticOperation::Add | ArithmeticOperation::Subtract => return left.or(right),
                ArithmeticOperation::Multiply => 1,
                ArithmeticOperation::Divide => -1,
            };
            if left.is_none() && right.is_none() {
                return None;
            }
            let (left, right) = (left.unwrap_or(plain), right.unwrap_or(plain));
            let (seconds, bytes) = (left.seconds + sign * right.seconds, left.bytes + sign * right.bytes);
            Some(Dimension { seconds, bytes })
        }
    }
}

impl Unit {
    /// Its name in results: `s`, `/s`, `B`, `B/s`, `share`; empty for a plain number.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::PerSecond => "/s",
            Self::BytesPerSecond => "B/s",
            Self::Bytes => "B",
            Self::Share => "share",
            Self::Plain => "",
        }
    }

    /// The unit with this symbol; for any other text, that of a plain number.
    #[must_use]
    pub fn from_symbol(symbol: &str) -> Self {
        match symbol {
            "s" => Self::Seconds,
            "/s" => Self::PerSecond,
            "B/s" => Self::BytesPerSecond,
            "B" => Self::Bytes,
            "share" => Self::Share,
            _ => Self::Plain,
        }
    }
}

impl Expression {
    /// The unit, if the result has one: the ratio of two times is a plain number.
    #[must_use]
    pub fn unit(&self) -> Unit {
        let Some(found) = dimension(self) else { return Unit::Plain };
        let units = [Unit::Seconds, Unit::PerSecond, Unit::BytesPerSecond, Unit::Bytes];
        match units.into_iter().find(|unit| Dimension::from_unit(*unit) == found) {
            Some(unit) => unit,
            None if self.is_share() => Unit::Share,
            None => Unit::Plain,
        }
    }

    /// A share, or arithmetic on shares that results in a share.
    fn is_share(&self) -> bool {
        match self {
            Self::Number(_, unit) => *unit == Unit::Share,
            Self::Measured { measure, .. } => measure.quantity.unit() == Unit::Share,
            Self::Binary { operation: ArithmeticOperation::Add | ArithmeticOperation::Subtract, left, right } => {
                left.is_share() && right.is_share()
            }
            Self::Binary { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        let cases = [
            ("50", "ms", false, 0.05, Unit::Seconds),
            ("0.1", "%", false, 0.001, Unit::Share),
            ("1e3", "us", false, 0.001, Unit::Seconds),
            ("1.5", "KiB", false, 1_536.0, Unit::Bytes),
            ("10", "k", true, 10_000.0, Unit::PerSecond),
            ("2", "MB", true, 2e6, Unit::BytesPerSecond),
            ("3", "", true, 3.0, Unit::PerSecond),
        ];
        for (number, name, is_rate, value, unit) in cases {
            assert_eq!(read(number, name, is_rate), Some((value, unit)), "{number} {name}");
        }
        for (number, name, is_rate) in
            [("1", "ms", true), ("1", "x", false), ("1e999", "", false), ("1e999", "s", false), ("1e308", "h", false)]
        {
            assert_eq!(read(number, name, is_rate), None, "{number} {name}");
        }
    }

    #[test]
    fn a_symbol_names_its_unit() {
        let units = [Unit::Seconds, Unit::PerSecond, Unit::BytesPerSecond, Unit::Bytes, Unit::Share, Unit::Plain];
        assert_eq!(units.map(|unit| Unit::from_symbol(unit.symbol())), units);
    }

    #[test]
    fn numbers_are_written_in_the_unit_that_reads_best() {
        let cases = [
            (0.05, Unit::Seconds, "50 ms"),
            (0.0, Unit::Seconds, "0 s"),
            (1.5, Unit::Seconds, "1.5 s"),
            (2.5e-10, Unit::Seconds, "0.25 ns"),
            (-0.0025, Unit::Seconds, "-2.5 ms"),
            (0.01, Unit::Share, "1 %"),
            (1_536.0, Unit::Bytes, "1.536 kB"),
            (12e6, Unit::BytesPerSecond, "12 MB/s"),
            (1_000.0, Unit::PerSecond, "1000 /s"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(write(value, unit), expected);
        }
    }
}
