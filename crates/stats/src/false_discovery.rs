//! Benjamini and Hochberg's correction, for many comparisons without a prior hypothesis.
//!
//! A reader of forty comparisons wants the reported differences to be real, not the guarantee that none of the forty is
//! wrong, which [`holm`](crate::holm()) gives at the price of low power. This procedure keeps the expected share of
//! false discoveries at the level. If nothing differs, every discovery is false, so that the probability of any is
//! controlled as by Holm; if much differs, each discovery makes the next one easier.
//!
//! Y. Benjamini, Y. Hochberg: *Controlling the false discovery rate*, J. R. Statist. Soc. B 57 (1995) 289–300. Measures
//! of the same trials are positively correlated, which does no harm (Y. Benjamini, D. Yekutieli, Ann. Statist. 29
//! (2001) 1165–1188).

use crate::p_values::{ascending, cleaned};

/// The corrected p-values, in the order of the input, to be compared with the level directly.
///
/// NaN counts as 1.
#[must_use]
pub fn false_discovery_rates(p: &[f64]) -> Vec<f64> {
    let plain = cleaned(p);
    let mut corrected = plain.clone();
    let mut smallest = 1.0_f64;
    for (place, &index) in ascending(&plain).iter().enumerate().rev() {
        smallest = smallest.min(plain[index] * plain.len() as f64 / (place + 1) as f64);
        corrected[index] = smallest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `p.adjust(c(0.01, 0.04, 0.03, 0.005), "BH")` of R.
    #[test]
    fn agrees_with_r() {
        let corrected = false_discovery_rates(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.02, 0.04, 0.04, 0.02];
        assert!(corrected.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{corrected:?}");
    }

    #[test]
    fn stays_between_zero_and_one() {
        assert_eq!(false_discovery_rates(&[]), []);
        assert_eq!(false_discovery_rates(&[0.2]), [0.2]);
        assert_eq!(false_discovery_rates(&[0.7, f64::NAN, 0.9]), [1.0, 1.0, 1.0]);
    }

    /// Six blocks that all agree have a p-value of 1 in 32. Nine such comparisons of ten are significant; one of ten is
    /// not.
    #[test]
    fn where_much_differs_each_find_helps_the_next() {
        let mut many = [1.0 / 32.0; 10];
        many[9] = 0.8;
        assert!(false_discovery_rates(&many)[..9].iter().all(|&rate| rate < 0.05));
        let mut one = [0.8; 10];
        one[0] = 1.0 / 32.0;
        assert!(false_discovery_rates(&one)[0] > 0.05);
    }
}
