//! Holm's correction, for several tests at once.
//!
//! Twenty tests of pure noise at 5 % produce one false positive on average. Holm's step-down procedure keeps the
//! probability of any false positive among all of them at the level, however they are correlated, and is more powerful
//! than Bonferroni's.
//!
//! S. Holm: *A simple sequentially rejective multiple test procedure*, Scand. J. Statist. 6 (1979) 65–70.

use crate::p_values::{ascending, cleaned};

/// The corrected p-values, in the order of the input, to be compared with the level directly.
///
/// NaN counts as 1.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let plain = cleaned(p);
    let mut corrected = plain.clone();
    let mut largest = 0.0_f64;
    for (step, &index) in ascending(&plain).iter().enumerate() {
        let left_to_test = (plain.len() - step) as f64;
        largest = largest.max((plain[index] * left_to_test).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` of R.
    #[test]
    fn agrees_with_r() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{corrected:?}");
    }

    #[test]
    fn stays_between_zero_and_one() {
        assert_eq!(holm(&[]), []);
        assert_eq!(holm(&[0.2]), [0.2]);
        assert_eq!(holm(&[0.7, f64::NAN, 0.9]), [1.0, 1.0, 1.0]);
    }
}
