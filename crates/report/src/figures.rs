//! Numbers for people: three digits and a suitable unit.

use breme_base::{bytes_text, in_unit, three_digits, time_text};
use breme_expression::Unit;

/// `1.23 ms`, `45.6k/s`, `12.3 MB`, `0.42 %`.
pub(crate) fn figure(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return String::from("–");
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let value = value.abs();
    match unit {
        Unit::Seconds => format!("{sign}{}", time_text(value)),
        Unit::PerSecond => format!("{sign}{}/s", thousands(value)),
        Unit::Bytes => format!("{sign}{}", bytes_text(value)),
        Unit::BytesPerSecond => format!("{sign}{}/s", bytes_text(value)),
        Unit::Share => format!("{sign}{} %", percent(value)),
        Unit::Plain => format!("{sign}{}", thousands(value)),
    }
}

/// A difference of two figures; that of shares in percentage points: `0.42 pp`.
pub(crate) fn difference(value: f64, unit: Unit) -> String {
    if unit != Unit::Share || !value.is_finite() {
        return figure(value, unit);
    }
    format!("{}{} pp", if value < 0.0 { "−" } else { "" }, short(value.abs() * 100.0))
}

/// Like [`figure`]; a dash for none.
pub(crate) fn figure_or_dash(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| String::from("–"), |value| figure(value, unit))
}

/// `1.20 – 1.27 ms`, `980 µs – 1.27 ms`; empty if an end is missing.
pub(crate) fn range(low: Option<f64>, high: Option<f64>, unit: Unit) -> Option<String> {
    Some(joined(&figure(low?, unit), &figure(high?, unit)))
}

/// Both ends with their unit once, if it is the same; `1 min 30 s` has two.
pub(crate) fn joined(low: &str, high: &str) -> String {
    let has_one_unit = |figure: &str| !number_of(figure).contains(' ');
    if unit_of(low) == unit_of(high) && has_one_unit(low) && has_one_unit(high) {
        format!("{} – {high}", number_of(low))
    } else {
        format!("{low} – {high}")
    }
}

/// `1.23 ms (1.20 – 1.27 ms)`; without the interval if an end is missing.
pub(crate) fn estimate(center: Option<f64>, low: Option<f64>, high: Option<f64>, unit: Unit) -> String {
    let center = figure_or_dash(center, unit);
    range(low, high, unit).map_or_else(|| center.clone(), |range| format!("{center} ({range})"))
}

/// The unit of a formatted number.
fn unit_of(figure: &str) -> &str {
    &figure[number_of(figure).len()..]
}

fn number_of(figure: &str) -> &str {
    figure.trim_end_matches(|c: char| !c.is_ascii_digit())
}

/// A ratio: `0.214`, `1.020`, `3.70`, `12.3`.
pub(crate) fn ratio(value: f64) -> String {
    if !value.is_finite() {
        return String::from("–");
    }
    match value.abs() {
        size if size >= 1_000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 2.0 => format!("{value:.2}"),
        // Around 1 the third decimal is a tenth of a percent.
        size if size >= 0.1 => format!("{value:.3}"),
        0.0 => String::from("0"),
        _ => significant(value, 3),
    }
}

/// A p-value: `0.034`, `< 0.001`.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.001 { String::from("< 0.001") } else { format!("{p:.3}") }
}

/// A share in percent. Just below 1 the distance has two digits, so that nothing less than all reads like all.
fn percent(share: f64) -> String {
    let distance = 100.0 * (1.0 - share);
    // Smaller distances are errors of rounding.
    if !(1e-10..=1.0).contains(&distance) {
        return short(share * 100.0);
    }
    let decimals = (1.0 - distance.log10().floor()) as usize;
    let text = format!("{:.decimals$}", 100.0 - distance);
    let kept = text.trim_end_matches('0');
    if kept.ends_with('.') { format!("{kept}0") } else { kept.to_owned() }
}

fn thousands(value: f64) -> String {
    // The logarithmic mean of equal counts is none exactly.
    let whole = value.round();
    if (value - whole).abs() <= 1e-9 * whole && whole < 10_000.0 {
        return format!("{whole}");
    }
    let (scaled, unit) = in_unit(value, &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]);
    short(scaled) + unit
}

/// Three digits; two below 0.01, and a power of ten from a million on.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => String::from("0"),
        size if size < 0.01 => significant(value, 2),
        size if size < 1e6 => three_digits(value),
        _ => format!("{value:.1e}"),
    }
}

fn significant(value: f64, digits: i32) -> String {
    let exponent = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    if decimals > 9 { format!("{value:.1e}") } else { format!("{value:.decimals$}") }
}

#[cfg(test)]
mod tests {
    use breme_base::grouped;

    use super::*;

    #[test]
    fn each_value_has_the_unit_that_fits() {
        let cases = [
            (0.001_23, Unit::Seconds, "1.23 ms"),
            (0.999_6, Unit::Seconds, "1.00 s"),
            (0.0, Unit::Seconds, "0 s"),
            (45_630.0, Unit::PerSecond, "45.6k/s"),
            (840.0, Unit::PerSecond, "840/s"),
            (-0.000_012, Unit::Seconds, "−12.0 µs"),
            (64.0, Unit::Bytes, "64 B"),
            (12_345_678.0, Unit::Bytes, "12.3 MB"),
            (1_500.0, Unit::BytesPerSecond, "1.50 kB/s"),
            (0.004_2, Unit::Share, "0.42 %"),
            (0.000_01, Unit::Share, "0.0010 %"),
            (1.0, Unit::Share, "100 %"),
            (0.99, Unit::Share, "99.0 %"),
            (0.993_4, Unit::Share, "99.34 %"),
            (0.999_8, Unit::Share, "99.98 %"),
            (0.999_987_6, Unit::Share, "99.9988 %"),
            (1.0 - 1e-15, Unit::Share, "100 %"),
            (250.0, Unit::Plain, "250"),
            (19.999_999_999_999_996, Unit::Plain, "20"),
            (0.0, Unit::Plain, "0"),
            (1e300, Unit::Plain, "1.0e288T"),
            (f64::NAN, Unit::Plain, "–"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(figure(value, unit), expected);
        }
    }

    #[test]
    fn the_ends_of_a_range_share_one_unit_only() {
        let of = |low, high, unit| range(Some(low), Some(high), unit).unwrap();
        assert_eq!(of(0.001_2, 0.001_27, Unit::Seconds), "1.20 – 1.27 ms");
        assert_eq!(of(0.000_98, 0.001_27, Unit::Seconds), "980 µs – 1.27 ms");
        assert_eq!(of(1.22, 132.0, Unit::Seconds), "1.22 s – 2 min 12 s");
        assert_eq!(of(125.0, 132.0, Unit::Seconds), "2 min 5 s – 2 min 12 s");
    }

    #[test]
    fn differences_of_shares_are_in_percentage_points() {
        assert_eq!([-0.005, 0.0].map(|value| difference(value, Unit::Share)), ["−0.50 pp", "0 pp"]);
        assert_eq!(difference(0.005, Unit::Seconds), "5.00 ms");
    }

    #[test]
    fn ratios_keep_what_matters_around_one() {
        let cases =
            [(0.2137, "0.214"), (1.0204, "1.020"), (12.34, "12.3"), (0.012_34, "0.0123"), (123.4, "123"), (0.0, "0")];
        for (value, expected) in cases {
            assert_eq!(ratio(value), expected);
        }
        assert_eq!([0.5, 0.000_2].map(p_value), ["0.500", "< 0.001"]);
        assert_eq!([0, 1_234_567].map(grouped), ["0", "1,234,567"]);
    }
}
