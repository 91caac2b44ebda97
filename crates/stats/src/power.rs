//! The power of a test of non-inferiority.

use crate::normal;
use crate::student::student_quantile;

/// The probability that the interval of two **equal** systems ends within `margin`, if its half width is `half_width`
/// and it has `freedom` degrees of freedom. The centre varies normally around 0; the half width is treated as constant.
#[must_use]
pub fn power_of_equal(half_width: f64, freedom: usize, confidence: f64, margin: f64) -> f64 {
    if half_width <= 0.0 {
        return if margin >= 0.0 { 1.0 } else { 0.0 };
    }
    let deviation = half_width / student_quantile(freedom.max(1), confidence);
    1.0 - normal::upper_tail((margin - half_width) / deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scatter of 3 %, six blocks against six, 95 %: the interval is ±2.228 · 0.03 · √(2/6) = ±3.86 %, and its centre
    /// must not exceed 0.05 − 0.0386 = 0.66 standard deviations.
    #[test]
    fn agrees_with_the_arithmetic() {
        let deviation = 0.03 * (2.0_f64 / 6.0).sqrt();
        let power = power_of_equal(2.228_139 * deviation, 10, 0.95, 0.05);
        assert!((power - 0.745).abs() < 0.002, "{power}");
        assert!((power_of_equal(0.05, 10, 0.95, 0.05) - 0.5).abs() < 1e-6);
        assert_eq!([power_of_equal(0.0, 10, 0.95, 0.05), power_of_equal(0.0, 0, 0.95, -1.0)], [1.0, 0.0]);
    }
}
