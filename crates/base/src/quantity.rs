//! Durations and counts in flags and files: `10s`, `1.5m`, `10k`; and numbers formatted for people.

use std::time::Duration;

use thiserror::Error;

/// A text that is no such quantity; the message has the expected form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    #[error("{0:?} is not a duration; write 500ms, 10s, 3m, 1h, or a number of seconds")]
    Duration(String),
    #[error("{0:?} is not a count; write a whole number, or 10k, 1.5M, 2G")]
    Count(String),
    #[error("{0:?} is not a number of bytes; write a whole number, or 64KiB, 256MiB, 1GiB, 10kB, 5M")]
    Bytes(String),
}

/// Parses a duration: `500ms`, `10s`, `3m`, `1h`, `2d`; a bare number is seconds.
///
/// # Errors
/// [`QuantityError::Duration`]
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    const UNITS: [(&str, f64); 7] =
        [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let fault = || QuantityError::Duration(text.to_owned());
    let (number, unit) = split_suffix(text);
    let factor = match unit {
        "" => 1.0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fault)?.1,
    };
    let value: f64 = number.parse().map_err(|_| fault())?;
    Duration::try_from_secs_f64(value * factor).map_err(|_| fault())
}

/// Parses a count: `500`, `10k`, `1.5M`, `2G`.
///
/// # Errors
/// [`QuantityError::Count`]
pub fn parse_count(text: &str) -> Result<u64, QuantityError> {
    let fault = || QuantityError::Count(text.to_owned());
    let (number, unit) = split_suffix(text);
    let power = match unit {
        "" => return number.parse().map_err(|_| fault()),
        "k" | "K" => 3,
        "M" | "m" => 6,
        "G" | "g" => 9,
        _ => return Err(fault()),
    };
    let count = decimal_shifted(number, power).filter(|count| *count >= 0.0 && count.fract() == 0.0 && *count < 1e18);
    count.map(|count| count as u64).ok_or_else(fault)
}

/// A decimal number times a power of ten, rounded once: 4.1 × 10⁶ is 4100000. None if it is no number, or too large.
#[must_use]
pub fn decimal_shifted(number: &str, power: i32) -> Option<f64> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let value: f64 = format!("{mantissa}e{}", exponent.checked_add(power)?).parse().ok()?;
    value.is_finite().then_some(value)
}

/// Parses a number of bytes: `4096`, `64KiB`, `256MiB`, `1.5GiB`; also `64kB`, `10M` by thousands.
///
/// # Errors
/// [`QuantityError::Bytes`]
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let fault = || QuantityError::Bytes(text.to_owned());
    let (number, unit) = split_suffix(text);
    let Some((_, exponent)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        let by_thousands = text.strip_suffix(['b', 'B']).filter(|rest| !rest.is_empty());
        return parse_count(by_thousands.unwrap_or(text)).map_err(|_| fault());
    };
    let bytes = number.parse::<f64>().map_err(|_| fault())? * 2f64.powi(*exponent as i32);
    if bytes.is_finite() && bytes.fract() == 0.0 && bytes < 1e18 { Ok(bytes as u64) } else { Err(fault()) }
}

/// Splits a number from its unit.
#[must_use]
pub fn split_suffix(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Formats 1234567 as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    group_digits(&number.to_string())
}

/// Groups the digits of a number in threes.
#[must_use]
pub fn group_digits(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 trial`, `28 trials`.
#[must_use]
pub fn plural(count: u64, name: &str) -> String {
    format!("{} {name}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A number with three digits, and all those before the point: `1.23`, `12.3`, `123`, `1234`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A size and its name.
pub type NamedUnit = (f64, &'static str);

/// Units of times, in seconds.
pub const TIME_UNITS: [NamedUnit; 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
pub const BYTE_UNITS: [NamedUnit; 5] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];

/// A value in the unit that fits it, and the name of the unit; the largest is the first of `units`. What rounds to a
/// thousand of one unit is one of the next: 1.00 ms, not 1000 µs. Zero has the unit of size 1.
#[must_use]
pub fn in_unit(value: f64, units: &[NamedUnit]) -> (f64, &'static str) {
    let fits = |(size, _): &&NamedUnit| (value.abs() / size).round() < 1e3 && (value != 0.0 || *size == 1.0);
    units.iter().rev().find(fits).or(units.first()).map_or((value, ""), |(size, name)| (value / size, *name))
}

/// A time in a suitable unit: `12.3 µs`, `1.23 s`, `2 min 5 s`.
#[must_use]
pub fn time_text(seconds: f64) -> String {
    match in_unit(seconds, &TIME_UNITS) {
        (0.0, _) => String::from("0 s"),
        (value, "s") if value >= 120.0 => long_duration(value.round() as u64),
        (value, unit) => format!("{} {unit}", three_digits(value)),
    }
}

/// A number of bytes in a suitable unit: `12 B`, `1.50 kB`.
#[must_use]
pub fn bytes_text(bytes: f64) -> String {
    match in_unit(bytes, &BYTE_UNITS) {
        (value, "B") if value.fract() == 0.0 => format!("{value} B"),
        (value, unit) => format!("{} {unit}", three_digits(value)),
    }
}

/// A duration of minutes or hours: `2 min 5 s`, `2 h 1 min`.
#[must_use]
pub fn long_duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {seconds} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations() {
        let millis = |text: &str| parse_duration(text).map(|duration| duration.as_micros() as f64 / 1e3);
        let cases =
            [("10", 10_000.0), ("10s", 10_000.0), ("1.5s", 1_500.0), ("250ms", 250.0), ("20us", 0.02), ("20µs", 0.02)];
        for (text, expected) in cases {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        assert_eq!(
            [parse_duration("3m"), parse_duration("1h")],
            [Ok(Duration::from_secs(180)), Ok(Duration::from_secs(3_600))]
        );
        for bad in ["", "s", "-1s", "10x", "1e9", "1..2", "99999999999999999999999s", "10 s"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn parses_counts() {
        for (text, expected) in [("0", 0), ("500", 500), ("10k", 10_000), ("1.5M", 1_500_000), ("2G", 2_000_000_000)] {
            assert_eq!(parse_count(text), Ok(expected), "{text}");
        }
        for (suffix, power) in [("k", 3), ("M", 6), ("G", 9)] {
            for (places, steps) in [(1, 1_000), (2, 10_000), (3, 100_000)] {
                for digits in 0..steps {
                    let (whole, part) = (digits / 10_u64.pow(places), digits % 10_u64.pow(places));
                    let text = format!("{whole}.{part:0width$}{suffix}", width = places as usize);
                    assert_eq!(parse_count(&text), Ok(digits * 10_u64.pow(power - places)), "{text}");
                }
            }
        }
        for bad in ["", "k", "-5", "1.5", "1.2345k", "10x", "18446744073709551616", "999999999999G"] {
            assert!(parse_count(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn parses_bytes() {
        let cases = [("0", 0), ("4096", 4_096), ("256MiB", 256 << 20), ("1.5kib", 1_536), ("1GiB", 1 << 30)];
        let by_thousands = [
            ("64kB", 64_000),
            ("2.01kB", 2_010),
            ("8.2G", 8_200_000_000),
            ("10k", 10_000),
            ("5MB", 5_000_000),
            ("7B", 7),
        ];
        for (text, expected) in cases.into_iter().chain(by_thousands) {
            assert_eq!(parse_bytes(text), Ok(expected), "{text}");
        }
        for bad in ["", "B", "MiB", "-1MiB", "1.3B", "1 MiB", "1e3KiB", "9999999TiB", "10x"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [(0.0, "0.00"), (1.234, "1.23"), (9.994, "9.99"), (9.995, "10.0"), (99.94, "99.9"), (99.95, "100")];
        for (value, expected) in cases.into_iter().chain([(-12.34, "-12.3"), (1_234.4, "1234")]) {
            assert_eq!(three_digits(value), expected, "{value}");
        }
    }

    #[test]
    fn a_value_is_rounded_before_it_has_a_unit() {
        let check = |texts: [String; 2], expected: [&str; 2]| assert_eq!(texts, expected);
        for (index, times) in [["999 ns", "1.00 µs"], ["999 µs", "1.00 ms"], ["999 ms", "1.00 s"]].iter().enumerate()
        {
            let least = 1e-9 * 1e3_f64.powi(index as i32);
            check([999.4, 999.6].map(|count| time_text(count * least)), *times);
        }
        check([999_490.0, 999_990.0].map(bytes_text), ["999 kB", "1.00 MB"]);
        check([999_500.0, 12.0].map(bytes_text), ["1.00 MB", "12 B"]);
        check([0.000_999_5, 119.9].map(time_text), ["1.00 ms", "120 s"]);
        check([0.0, 125.4].map(time_text), ["0 s", "2 min 5 s"]);
        check([1.5e12, 0.5].map(bytes_text), ["1.50 TB", "0.50 B"]);
    }

    #[test]
    fn long_durations_have_two_units() {
        assert_eq!([125, 3_599, 7_260].map(long_duration), ["2 min 5 s", "59 min 59 s", "2 h 1 min"]);
    }
}
