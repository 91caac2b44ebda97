//! Many questions that nobody asked beforehand: Benjamini and Hochberg's correction.
//!
//! Who looks at forty comparisons wants to know that what is called a difference is one, and not that there is no
//! single error among forty, which is what [`holm`](crate::holm()) promises at the price of finding little. This
//! procedure keeps the share of wrong ones among those that are found at the level on average. Where nothing differs at
//! all, each find is wrong, so that the chance of any is kept as Holm keeps it; where much differs, each find makes the
//! next one easier.
//!
//! Y. Benjamini, Y. Hochberg: *Controlling the false discovery rate*, J. R. Statist. Soc. B 57 (1995) 289–300. Measures
//! of the same trials go together, which does it no harm (Y. Benjamini, D. Yekutieli, Ann. Statist. 29 (2001)
//! 1165–1188).

use crate::chances::{ascending, cleaned};

/// Each chance after correction, in the order in which they came: to be held against the level as it is.
///
/// What is not a number counts as 1.
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

    /// Six blocks that all agree have a chance of 1 in 32. Nine such comparisons of ten stand; one of ten does not.
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
