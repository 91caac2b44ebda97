//! The normal distribution, as the approximation of a sum of many small terms.

use std::f64::consts::SQRT_2;

/// The probability of a value above `deviations` standard deviations.
pub(crate) fn upper_tail(deviations: f64) -> f64 {
    libm::erfc(deviations / SQRT_2) / 2.0
}

/// The value, in standard deviations, that is exceeded with the given probability (between 0 and 1).
pub(crate) fn upper_quantile(probability: f64) -> f64 {
    // No probability that a float can represent lies farther out. Bisection is slow but robust.
    let (mut low, mut high) = (-39.0, 39.0);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if upper_tail(middle) > probability { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_tables() {
        for (probability, deviations) in
            [(0.5, 0.0), (0.025, 1.959_963_985), (0.15, 1.036_433_389), (0.9, -1.281_551_566)]
        {
            assert!((upper_quantile(probability) - deviations).abs() < 1e-8, "{probability}");
            assert!((upper_tail(deviations) - probability).abs() < 1e-9, "{probability}");
        }
    }
}
