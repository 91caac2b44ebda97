//! Zipf's law: of N items, the k-th most popular is requested in proportion to k^-s. Page popularity is distributed
//! like this, so a cache cannot be judged by uniform requests.

use breme_base::Random;

/// Draws from 1..=N by Zipf's law, exactly, in constant time and memory for any N.
///
/// Rejection-inversion (Hörmann, Derflinger: "Rejection-inversion to generate variates from monotone discrete
/// distributions", ACM TOMACS 6, 1996): a table would cost 8 bytes for each of N pages.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: u64,
    exponent: f64,
    integral_at_first: f64,
    integral_at_last: f64,
    /// Within this distance left of its integer, a candidate needs no test.
    sure_distance: f64,
}

/// Above it, k^-s is indistinguishable from 0 for k = 2, and powers overflow.
pub(crate) const EXPONENT_MAX: f64 = 20.0;
/// Above it, integers are no longer exact in the arithmetic used.
pub(crate) const COUNT_MAX: u64 = 1 << 48;

impl Zipf {
    /// `count` from 1 to [`COUNT_MAX`], `exponent` from 0 (uniform) to [`EXPONENT_MAX`].
    pub(crate) fn new(count: u64, exponent: f64) -> Self {
        let integral_at_first = integral(1.5, exponent) - 1.0;
        let integral_at_last = integral(count as f64 + 0.5, exponent);
        let sure_distance = 2.0 - integral_inverse(integral(2.5, exponent) - density(2.0, exponent), exponent);
        Self { count, exponent, integral_at_first, integral_at_last, sure_distance }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.integral_at_last + random.unit() * (self.integral_at_first - self.integral_at_last);
            let position = integral_inverse(area, self.exponent);
            let candidate = ((position + 0.5) as u64).clamp(1, self.count);
            let whole = candidate as f64;
            let accepted = whole - position <= self.sure_distance
                || area >= integral(whole + 0.5, self.exponent) - density(whole, self.exponent);
            if accepted {
                return candidate;
            }
        }
    }
}

/// x^-s
fn density(x: f64, exponent: f64) -> f64 {
    (-exponent * x.ln()).exp()
}

/// The integral of the density: (x^(1-s) - 1) / (1-s), or ln x where s = 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = x.ln();
    exp_m1_over((1.0 - exponent) * log) * log
}

fn integral_inverse(area: f64, exponent: f64) -> f64 {
    let scaled = (area * (1.0 - exponent)).max(-1.0); // rounding may step over the pole
    (ln_1p_over(scaled) * area).exp()
}

/// (e^x - 1) / x, also near 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x, also near 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares 40,000 draws with the law itself: each count within five of its standard deviations.
    fn check(count: u64, exponent: f64) {
        let draws = 40_000_u32;
        let zipf = Zipf::new(count, exponent);
        let mut random = Random::new(count ^ exponent.to_bits());
        let mut seen = vec![0_u32; count as usize];
        for _ in 0..draws {
            seen[zipf.draw(&mut random) as usize - 1] += 1;
        }
        let norm: f64 = (1..=count).map(|k| (k as f64).powf(-exponent)).sum();
        for (index, &seen) in seen.iter().enumerate() {
            let probability = ((index + 1) as f64).powf(-exponent) / norm;
            let expected = f64::from(draws) * probability;
            let spread = (expected * (1.0 - probability)).sqrt();
            let distance = (f64::from(seen) - expected).abs();
            assert!(
                distance <= 5.0 * spread + 1.0,
                "N {count}, s {exponent}, k {}: {seen} for {expected:.1}",
                index + 1
            );
        }
    }

    #[test]
    fn follows_the_law() {
        for exponent in [0.0, 0.5, 0.8, 0.999_999_999, 1.0, 1.2, 2.0, 5.0, EXPONENT_MAX] {
            for count in [1, 2, 3, 10, 1_000] {
                check(count, exponent);
            }
        }
    }

    #[test]
    fn stays_in_its_range_for_the_largest_count() {
        let mut random = Random::new(1);
        for exponent in [0.0, 1.0, 1.5] {
            let zipf = Zipf::new(COUNT_MAX, exponent);
            assert!((0..10_000).all(|_| (1..=COUNT_MAX).contains(&zipf.draw(&mut random))));
        }
    }
}
