//! Student's distribution, for tests that use the size of the values.
//!
//! Ranks use only the signs and the order of values, so the p-value of six of them cannot be less than one in 64,
//! however far they lie from the bound. For many tests at once that is not enough, and the size of the values must
//! count, as here, at the price of assuming that their mean is normal. With heavier tails the test is conservative.
//!
//! Student: *The probable error of a mean*, Biometrika 6 (1908) 1–25. The distribution for whole degrees of freedom:
//! Abramowitz and Stegun, 26.7.3 and 26.7.4.

use std::f64::consts::FRAC_2_PI;

/// The bound within which a variable of Student's distribution with `freedom` degrees of freedom lies, on either side
/// of 0, with this probability: 2.571 for 5 degrees and 0.95.
#[must_use]
pub fn student_quantile(freedom: usize, confidence: f64) -> f64 {
    let tail = 1.0 - confidence.clamp(0.0, 1.0 - 1e-12);
    let (mut low, mut high) = (0.0, 1.0);
    while outside(high, freedom) > tail && high < f64::MAX / 4.0 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if outside(middle, freedom) > tail { low = middle } else { high = middle }
    }
    high
}

/// Bisections that exhaust the precision of a double.
const BISECTIONS: usize = 60;

/// The probability that a variable of Student's distribution with `freedom` degrees of freedom is above `t`.
#[must_use]
pub fn student_p(t: f64, freedom: usize) -> f64 {
    let tail = outside(t.abs(), freedom) / 2.0;
    if t > 0.0 { tail } else { 1.0 - tail }
}

/// P(|T| > t) of Student's distribution.
fn outside(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let square = cosine * cosine;
    let is_odd = freedom % 2 == 1;
    // cos + 2/3 cos³ + 2·4/(3·5) cos⁵ …, or 1 + 1/2 cos² + 1·3/(2·4) cos⁴ …, up to the power freedom − 2.
    let (mut term, mut sum) = (if is_odd { cosine } else { 1.0 }, 0.0);
    let mut power = usize::from(is_odd);
    while power + 2 <= freedom {
        sum += term;
        term *= square * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    let inside = if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    (1.0 - inside).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided critical values from published tables of Student's distribution.
    #[test]
    fn agrees_with_the_published_critical_values() {
        let at_5_percent =
            [(1, 12.706_205), (2, 4.302_653), (5, 2.570_582), (9, 2.262_157), (10, 2.228_139), (30, 2.042_272)];
        for (freedom, critical) in at_5_percent {
            assert!((outside(critical, freedom) - 0.05).abs() < 1e-7, "{freedom}: {}", outside(critical, freedom));
        }
        assert!((outside(6.868_827, 5) - 0.001).abs() < 1e-8);
        for (freedom, critical) in at_5_percent {
            assert!((student_quantile(freedom, 0.95) - critical).abs() < 1e-5, "{freedom}");
        }
    }

    /// Student's own example: the hours of sleep gained by ten patients with two drugs (t = 4.062128, p = 0.002833
    /// two-sided).
    #[test]
    fn agrees_with_the_first_example() {
        let p = student_p(4.062_128, 9);
        assert!((2.0 * p - 0.002_833).abs() < 1e-6, "{p}");
        assert!((student_p(-4.062_128, 9) - (1.0 - p)).abs() < 1e-12);
    }

    #[test]
    fn ends_of_the_scale() {
        assert_eq!((student_p(f64::INFINITY, 2), student_p(0.0, 1)), (0.0, 0.5), "nothing is left to chance");
    }
}
