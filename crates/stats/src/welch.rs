//! Welch's test of two means, whose samples may have different variances.
//!
//! The p-value of ranks of six values against six is at least 1 in 924. If that is too large for the number of tests,
//! the size of the values must count, at the price of assuming that their means are normal.
//!
//! B. L. Welch: *The generalization of "Student's" problem when several different population variances are involved*,
//! Biometrika 34 (1947) 28–35. The degrees of freedom are rounded down, which is conservative.

use crate::student::student_p;

/// One-sided p-value: the probability of means so far apart if `first` lies above `second` by at most `bound`.
///
/// None for fewer than two values on a side, or one that is not finite. Values without any variation leave nothing to
/// chance.
#[must_use]
pub fn welch_p_above(first: &[f64], second: &[f64], bound: f64) -> Option<f64> {
    let (first, second) = (Moments::from_values(first)?, Moments::from_values(second)?);
    let variance = first.variance_of_mean + second.variance_of_mean;
    let distance = first.mean - second.mean - bound;
    if distance == 0.0 {
        return Some(0.5);
    }
    if variance == 0.0 {
        return Some(if distance > 0.0 { 0.0 } else { 1.0 });
    }
    let parts = first.variance_of_mean.powi(2) / first.freedom + second.variance_of_mean.powi(2) / second.freedom;
    let freedom = (variance * variance / parts).floor().max(1.0);
    Some(student_p(distance / variance.sqrt(), freedom as usize))
}

struct Moments {
    mean: f64,
    variance_of_mean: f64,
    freedom: f64,
}

impl Moments {
    fn from_values(values: &[f64]) -> Option<Self> {
        if values.len() < 2 || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Some(Self { mean, variance_of_mean: variance / count, freedom: count - 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's sleep data as two samples: `t.test(extra ~ group, data = sleep)` of R: t = -1.8608, df = 17.776,
    /// p = 0.07939 two-sided. With 17 degrees of freedom: 0.080.
    #[test]
    fn agrees_with_r() {
        let one = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let other = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let p = welch_p_above(&other, &one, 0.0).unwrap();
        assert!((2.0 * p - 0.0797).abs() < 5e-4, "{p}");
        assert!((welch_p_above(&one, &other, 0.0).unwrap() - (1.0 - p)).abs() < 1e-12);
        assert!(welch_p_above(&other, &one, 1.58).unwrap() > 0.49, "the means are 1.58 apart");
    }

    #[test]
    fn ends_of_the_scale() {
        assert_eq!(welch_p_above(&[2.0, 2.0], &[1.0, 1.0], 0.5), Some(0.0));
        assert_eq!(welch_p_above(&[2.0, 2.0], &[1.0, 1.0], 1.5), Some(1.0));
        assert_eq!(welch_p_above(&[2.0, 2.0], &[1.0, 1.0], 1.0), Some(0.5));
        assert_eq!(welch_p_above(&[2.0], &[1.0, 1.0], 0.0), None);
        assert_eq!(welch_p_above(&[2.0, f64::NAN], &[1.0, 1.0], 0.0), None);
    }
}
