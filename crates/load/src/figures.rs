//! Numbers for people: three digits and a suitable unit.

use breme_base::{bytes_text, grouped, time_text};

/// A time with a suitable unit: `850 ns`, `12.3 µs`, `2 min 5 s`.
#[must_use]
pub fn duration(nanos: u64) -> String {
    if nanos < 1_000 { format!("{nanos} ns") } else { time_text(nanos as f64 / 1e9) }
}

/// A rate: `12.3`, `68,412`.
#[must_use]
pub fn rate(rate: f64) -> String {
    if rate < 99.95 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

pub(crate) fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// A number of bytes: `12 B`, `1.50 kB`, `3.21 GB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    bytes_text(bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_600, "1.00 ms"),
            (4_560_000, "4.56 ms"),
            (9_999_000, "10.0 ms"),
            (1_230_000_000, "1.23 s"),
            (119_900_000_000, "120 s"),
            (125_000_000_000, "2 min 5 s"),
            (7_260_000_000_000, "2 h 1 min"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(duration(nanos), expected);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.04, 99.9, 68_412.4].map(rate), ["0.0", "99.9", "68,412"]);
        assert_eq!([12, 1_500, 2_000_000, 3_210_000_000].map(size), ["12 B", "1.50 kB", "2.00 MB", "3.21 GB"]);
    }
}
