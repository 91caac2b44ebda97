//! How a rate grows with the number of users: laws of scalability, fitted and compared.
//!
//! | law | X(N) | meaning |
//! |---|---|---|
//! | linear | λN | users do not affect each other |
//! | Amdahl's | λN / (1 + σ(N−1)) | a share σ of the work waits in one queue: the rate has a ceiling, λ/σ |
//! | universal | λN / (1 + σ(N−1) + κN(N−1)) | and each exchange with all others costs κ: beyond a peak, more users reduce the rate |
//!
//! Parameters are constrained: λ > 0, 0 ≤ σ ≤ 1, κ ≥ 0. A free fit to noisy data may result in a negative contention,
//! which explains nothing and predicts nonsense. For given σ and κ the best λ is known in closed form, so the fit is a
//! search in a rectangle: a grid finds the valley (the sum of squares may have more than one), then damped steps
//! (Levenberg, Marquardt) on λ, σ and κ, clamped to the bounds, descend to its minimum. It needs no starting values and
//! is deterministic.
//!
//! More parameters always fit better. AICc ([`Fit::aicc`]) selects the law that the data support: smaller is better,
//! and a difference below 2 is irrelevant. It needs data: it is defined only for at least three levels more than
//! parameters, and with seven it rarely accepts a peak. So every trial should be a separate level, rather than the mean
//! of several.
//!
//! N. J. Gunther: *Guerrilla Capacity Planning*, Springer 2007, chapters 4 to 6. G. M. Amdahl, AFIPS 30 (1967) 483–485.
//! C. M. Hurvich, C.-L. Tsai: *Regression and time series model selection in small samples*, Biometrika 76 (1989)
//! 297–307.

/// The measurement at one number of users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Users (or threads, or processors): positive, and at least 1 for the laws to be meaningful.
    pub x: f64,
    /// The rate.
    pub y: f64,
    /// Weight of the level: 1 ÷ the variance of `y` over the repetitions, or 1 for all. Only the ratios of weights
    /// matter.
    pub weight: f64,
}

/// A law of scalability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    Linear,
    /// Contention only.
    Amdahl,
    /// Contention and coherency: the Universal Scalability Law.
    Universal,
}

impl Law {
    /// Simplest first.
    pub const ALL: [Self; 3] = [Self::Linear, Self::Amdahl, Self::Universal];

    #[must_use]
    pub const fn parameters(self) -> usize {
        match self {
            Self::Linear => 1,
            Self::Amdahl => 2,
            Self::Universal => 3,
        }
    }
}

/// A law with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub law: Law,
    /// λ: the rate of a single user.
    pub rate: f64,
    /// σ: the share of the work that waits for others; from 0 to 1.
    pub contention: f64,
    /// κ: the cost of each pair of users; at least 0.
    pub coherency: f64,
    /// The weighted sum of squared residuals, with weights that average 1.
    pub residual_sum_of_squares: f64,
    /// Akaike's criterion for few data; the smallest fits best. Minus infinity for a perfect fit.
    pub aicc: Option<f64>,
}

impl Fit {
    /// The rate at `x` users.
    #[must_use]
    pub fn predict(&self, x: f64) -> f64 {
        self.rate * x / burden(x, self.contention, self.coherency)
    }

    /// The number of users of the highest rate, and that rate; none if the rate never falls.
    #[must_use]
    pub fn peak(&self) -> Option<(f64, f64)> {
        if self.coherency <= 0.0 {
            return None;
        }
        let x = ((1.0 - self.contention) / self.coherency).sqrt().max(1.0);
        Some((x, self.predict(x)))
    }

    /// The limit of the rate; none if it is unbounded.
    #[must_use]
    pub fn ceiling(&self) -> Option<f64> {
        match self.peak() {
            Some((_, rate)) => Some(rate),
            None => (self.contention > 0.0).then(|| self.rate / self.contention),
        }
    }
}

/// The law with the parameters that fit best (weighted least squares).
///
/// None if there are fewer levels with different `x` than parameters, a number is not finite, an `x` or a weight is not
/// positive, or the sum of the rates is not positive.
#[must_use]
pub fn fit(law: Law, levels: &[Level]) -> Option<Fit> {
    let levels = usable(levels)?;
    if distinct(&levels) < law.parameters() {
        return None;
    }
    let best = search(law, &levels)?;
    let residual_sum_of_squares = best.residual_sum_of_squares(&levels);
    (best.rate > 0.0).then_some(Fit {
        law,
        rate: best.rate,
        contention: best.contention,
        coherency: best.coherency,
        residual_sum_of_squares,
        aicc: aicc(law, residual_sum_of_squares, &levels),
    })
}

/// The best result from the grid and from the simpler law, which is a special case: there may be several minima, and
/// more parameters must not fit worse.
fn search(law: Law, levels: &[Level]) -> Option<Parameters> {
    let by_sum_of_squares = |one: &Parameters, other: &Parameters| {
        one.residual_sum_of_squares(levels).total_cmp(&other.residual_sum_of_squares(levels))
    };
    let from_grid = grid(law, levels)
        .map(|(contention, coherency)| Parameters::best_rate(contention, coherency, levels))
        .min_by(by_sum_of_squares);
    let from_simpler = match law {
        Law::Linear => return from_grid,
        Law::Amdahl => search(Law::Linear, levels),
        Law::Universal => search(Law::Amdahl, levels),
    };
    from_grid.into_iter().chain(from_simpler).map(|start| start.descend(law, levels)).min_by(by_sum_of_squares)
}

/// Fits each law for which there are enough levels, and returns the index of the supported one: that with the smallest
/// AICc; if a simpler law is within 2 of it, the simpler one.
#[must_use]
pub fn compare(levels: &[Level]) -> (Vec<Fit>, Option<usize>) {
    let fits: Vec<Fit> = Law::ALL.into_iter().filter_map(|law| fit(law, levels)).collect();
    let smallest = fits.iter().filter_map(|fit| fit.aicc).min_by(f64::total_cmp);
    let supported = smallest.and_then(|smallest| {
        // The first, in order of complexity, that is as good as the best.
        fits.iter().position(|fit| fit.aicc.is_some_and(|aicc| aicc == smallest || aicc - smallest < 2.0))
    });
    (fits, supported)
}

/// Cost of one unit of rate at `x` users, relative to that of a single user.
fn burden(x: f64, contention: f64, coherency: f64) -> f64 {
    1.0 + contention * (x - 1.0) + coherency * x * (x - 1.0)
}

/// The levels with weights that average 1.
fn usable(levels: &[Level]) -> Option<Vec<Level>> {
    let is_usable = |level: &Level| level.x > 0.0 && level.weight > 0.0;
    let is_finite = |level: &Level| level.x.is_finite() && level.y.is_finite() && level.weight.is_finite();
    if levels.is_empty() || !levels.iter().all(|level| is_usable(level) && is_finite(level)) {
        return None;
    }
    let mean = levels.iter().map(|level| level.weight).sum::<f64>() / levels.len() as f64;
    Some(levels.iter().map(|level| Level { weight: level.weight / mean, ..*level }).collect())
}

fn distinct(levels: &[Level]) -> usize {
    let mut x: Vec<f64> = levels.iter().map(|level| level.x).collect();
    x.sort_by(f64::total_cmp);
    x.dedup();
    x.len()
}

/// Number of steps along σ and along κ.
const GRID: u32 = 24;
/// Limit of the steps of Levenberg and Marquardt; a dozen are usual.
const STEPS_MAX: u32 = 200;

/// Starting points, denser towards 0: both parameters are small where a system scales at all.
fn grid(law: Law, levels: &[Level]) -> impl Iterator<Item = (f64, f64)> {
    let largest = levels.iter().map(|level| level.x).fold(1.0, f64::max);
    let contentions = if law == Law::Linear { 0 } else { GRID };
    let coherencies = if law == Law::Universal { GRID } else { 0 };
    // At κ = 1 the peak is at one user; at 10⁻³ ÷ N² it is invisible.
    let smallest = 1e-3 / largest.powi(2);
    let step = move |number: u32, smallest: f64| match number {
        0 => 0.0,
        _ => smallest.powf(1.0 - f64::from(number) / f64::from(GRID)),
    };
    (0..=contentions).flat_map(move |contention| {
        (0..=coherencies).map(move |coherency| (step(contention, 1e-3 / largest), step(coherency, smallest)))
    })
}

#[derive(Clone, Copy)]
struct Parameters {
    rate: f64,
    contention: f64,
    coherency: f64,
}

impl Parameters {
    /// With the best-fitting λ, which enters linearly.
    fn best_rate(contention: f64, coherency: f64, levels: &[Level]) -> Self {
        let (mut with_y, mut with_itself) = (0.0, 0.0);
        for level in levels {
            let of_one = level.x / burden(level.x, contention, coherency);
            with_y += level.weight * of_one * level.y;
            with_itself += level.weight * of_one * of_one;
        }
        Self { rate: with_y / with_itself, contention, coherency }
    }

    fn residual_sum_of_squares(&self, levels: &[Level]) -> f64 {
        let square = |level: &Level| level.weight * (level.y - self.predict(level.x)).powi(2);
        levels.iter().map(square).sum()
    }

    fn predict(&self, x: f64) -> f64 {
        self.rate * x / burden(x, self.contention, self.coherency)
    }

    /// Descends to the minimum.
    fn descend(mut self, law: Law, levels: &[Level]) -> Self {
        let (mut damping, mut residual_sum_of_squares) = (1e-3, self.residual_sum_of_squares(levels));
        for _ in 0..STEPS_MAX {
            let Some(next) = self.step(law, damping, levels) else { break };
            let next_sum_of_squares = next.residual_sum_of_squares(levels);
            if next_sum_of_squares < residual_sum_of_squares {
                (self, residual_sum_of_squares) = (next, next_sum_of_squares);
                damping = (damping / 5.0).max(1e-12);
            } else {
                damping *= 4.0;
                if damping > 1e12 {
                    break;
                }
            }
        }
        self
    }

    /// One step, followed by a new fit of λ. A parameter at a bound that would leave it stays there.
    fn step(&self, law: Law, damping: f64, levels: &[Level]) -> Option<Self> {
        let with_coherency = law == Law::Universal;
        let (mut gradient, mut square) = ([0.0; 3], [[0.0; 3]; 3]);
        for level in levels {
            let slope = self.slopes(level.x);
            let missing = level.y - self.predict(level.x);
            for row in 0..3 {
                gradient[row] += level.weight * slope[row] * missing;
                for column in 0..3 {
                    square[row][column] += level.weight * slope[row] * slope[column];
                }
            }
        }
        let is_free = [
            true,
            !(self.contention <= 0.0 && gradient[1] <= 0.0 || self.contention >= 1.0 && gradient[1] >= 0.0),
            with_coherency && !(self.coherency <= 0.0 && gradient[2] <= 0.0),
        ];
        for index in 0..3 {
            if is_free[index] {
                square[index][index] *= 1.0 + damping;
            } else {
                gradient[index] = 0.0;
                square[index] = [0.0; 3];
                (0..3).for_each(|row| square[row][index] = 0.0);
                square[index][index] = 1.0;
            }
        }
        let [_, contention, coherency] = solve(square, gradient)?;
        let contention = (self.contention + contention).clamp(0.0, 1.0);
        let coherency = (self.coherency + coherency).max(0.0);
        Some(Self::best_rate(contention, coherency, levels))
    }

    /// Derivatives of the prediction by λ, σ and κ.
    fn slopes(&self, x: f64) -> [f64; 3] {
        let burden = burden(x, self.contention, self.coherency);
        let by_burden = -self.rate * x / (burden * burden);
        [x / burden, by_burden * (x - 1.0), by_burden * x * (x - 1.0)]
    }
}

/// Solves three equations, scaled by their diagonal (the parameters differ by orders of magnitude), by Cramer's rule.
fn solve(matrix: [[f64; 3]; 3], right: [f64; 3]) -> Option<[f64; 3]> {
    let scale: [f64; 3] = std::array::from_fn(|index| matrix[index][index].sqrt());
    if scale.iter().any(|&scale| !(scale > 0.0 && scale.is_finite())) {
        return None;
    }
    let scaled: [[f64; 3]; 3] =
        std::array::from_fn(|row| std::array::from_fn(|column| matrix[row][column] / scale[row] / scale[column]));
    let determinant = determinant(&scaled);
    let unknown = |index: usize| {
        let mut with_right = scaled;
        (0..3).for_each(|row| with_right[row][index] = right[row] / scale[row]);
        self::determinant(&with_right) / determinant / scale[index]
    };
    let found: [f64; 3] = std::array::from_fn(unknown);
    found.iter().all(|value| value.is_finite()).then_some(found)
}

fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
}

/// The variance of the errors counts as a parameter.
fn aicc(law: Law, residual_sum_of_squares: f64, levels: &[Level]) -> Option<f64> {
    let (count, parameters) = (levels.len() as f64, law.parameters() as f64 + 1.0);
    if count - parameters - 1.0 <= 0.0 {
        return None;
    }
    // Less than the rounding error counts as 0.
    let size: f64 = levels.iter().map(|level| level.weight * level.y * level.y).sum();
    if residual_sum_of_squares <= size * 1e-24 {
        return Some(f64::NEG_INFINITY);
    }
    Some(count * (residual_sum_of_squares / count).ln() + 2.0 * parameters * count / (count - parameters - 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn levels(points: &[(f64, f64)]) -> Vec<Level> {
        points.iter().map(|&(x, y)| Level { x, y, weight: 1.0 }).collect()
    }

    fn near(left: f64, right: f64, relative: f64) -> bool {
        (left - right).abs() <= relative * right.abs()
    }

    /// SPEC SDM91 on a SPARCcenter 2000: users and scripts per hour.
    const SDM91: [(f64, f64); 7] =
        [(1.0, 64.9), (18.0, 995.9), (36.0, 1652.4), (72.0, 1853.2), (108.0, 1828.9), (144.0, 1775.0), (216.0, 1702.2)];

    /// The R package `usl` 3.0 prints for it alpha = 0.0277285, beta = 0.0001044, gamma = 89.9952330 and a residual
    /// standard error of 82.8 on 4 degrees of freedom.
    #[test]
    fn agrees_with_the_published_fit_of_sdm91() {
        let fit = fit(Law::Universal, &levels(&SDM91)).unwrap();
        assert!(near(fit.rate, 89.995_233, 1e-6), "{fit:?}");
        assert!(near(fit.contention, 0.027_728_5, 3e-6), "{fit:?}");
        assert!(near(fit.coherency, 0.000_104_4, 5e-4), "{fit:?}");
        assert!(near((fit.residual_sum_of_squares / 4.0).sqrt(), 82.8, 1e-3), "{fit:?}");
        let (x, rate) = fit.peak().unwrap();
        assert!((95.0..98.0).contains(&x) && (1_850.0..1_950.0).contains(&rate), "{x}, {rate}");
        assert_eq!(fit.ceiling(), Some(rate));
    }

    /// Gunther's ray tracer: no peak. `usl` finds beta = 0, and gamma = 21.848843, alpha = 0.057771.
    #[test]
    fn agrees_with_the_published_fit_of_the_ray_tracer() {
        let points = [1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64].map(f64::from);
        let rates = [20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310].map(f64::from);
        let points: Vec<(f64, f64)> = points.into_iter().zip(rates).collect();
        let universal = fit(Law::Universal, &levels(&points)).unwrap();
        assert!(near(universal.rate, 21.848_843, 1e-6), "{universal:?}");
        assert!(near(universal.contention, 0.057_771, 1e-5), "{universal:?}");
        assert_eq!((universal.coherency, universal.peak()), (0.0, None));
        assert!(near(universal.ceiling().unwrap(), 378.2, 1e-3), "{universal:?}");
        let (fits, supported) = compare(&levels(&points));
        assert_eq!(fits[supported.unwrap()].law, Law::Amdahl, "{fits:?}");
    }

    #[test]
    fn the_data_choose_the_law() {
        let straight = levels(&[(1.0, 10.1), (2.0, 19.8), (4.0, 40.3), (8.0, 79.0), (16.0, 161.0), (32.0, 318.0)]);
        let (fits, supported) = compare(&straight);
        assert_eq!(fits[supported.unwrap()].law, Law::Linear, "{fits:?}");
        // Seven points are few for three parameters and a variance: AICc does not accept the peak …
        let (fits, supported) = compare(&levels(&SDM91));
        assert_eq!(fits[supported.unwrap()].law, Law::Amdahl, "{fits:?}");
        // … unless each was measured twice.
        let twice: Vec<_> = SDM91.iter().flat_map(|&(x, y)| [(x, 0.99 * y), (x, 1.01 * y)]).collect();
        let (fits, supported) = compare(&levels(&twice));
        assert_eq!(fits[supported.unwrap()].law, Law::Universal, "{fits:?}");
    }

    /// Superlinear growth is outside of all laws: the bounds hold, and a straight line remains.
    #[test]
    fn bounds_hold() {
        let steeper = levels(&[(1.0, 10.0), (2.0, 24.0), (4.0, 60.0), (8.0, 140.0), (16.0, 330.0)]);
        let fit = fit(Law::Universal, &steeper).unwrap();
        assert_eq!((fit.contention, fit.coherency, fit.ceiling()), (0.0, 0.0, None));
        let falling = levels(&[(1.0, 10.0), (2.0, 4.0), (4.0, 2.0), (8.0, 1.0), (16.0, 0.5)]);
        let fit = super::fit(Law::Universal, &falling).unwrap();
        assert!(fit.contention <= 1.0 && fit.coherency > 0.0, "{fit:?}");
        let worse_than_waiting = [1.0, 2.0, 4.0, 8.0, 16.0].map(|x| (x, x / (1.0 + 1.5 * (x - 1.0))));
        let fit = super::fit(Law::Amdahl, &levels(&worse_than_waiting)).unwrap();
        assert_eq!(fit.contention, 1.0, "{fit:?}");
    }

    /// The best point of the grid leads to a minimum less deep than that of the simpler law.
    #[test]
    fn the_deeper_of_two_valleys_is_found() {
        let points = levels(&[
            (1.0, 476.940_162_493_969_8),
            (3.0, 341.579_889_029_367_05),
            (9.0, 98.110_561_037_450_52),
            (20.0, 495.409_093_745_292_2),
            (50.0, 835.712_986_245_305_5),
            (90.0, 793.846_073_176_994_4),
        ]);
        let [amdahl, universal] =
            [Law::Amdahl, Law::Universal].map(|law| fit(law, &points).unwrap().residual_sum_of_squares);
        assert!(universal <= amdahl, "{universal} {amdahl}");
    }

    #[test]
    fn a_heavier_point_is_fitted_better() {
        let mut points = levels(&[(1.0, 10.0), (4.0, 36.0), (16.0, 100.0), (64.0, 160.0)]);
        let even = fit(Law::Amdahl, &points).unwrap();
        points[0].weight = 1e6;
        let weighted = fit(Law::Amdahl, &points).unwrap();
        assert!((weighted.predict(1.0) - 10.0).abs() < (even.predict(1.0) - 10.0).abs());
        assert!((weighted.predict(1.0) - 10.0).abs() < 1e-3, "{weighted:?}");
    }

    #[test]
    fn too_few_or_senseless_levels_give_nothing() {
        let two = levels(&[(1.0, 1.0), (2.0, 2.0)]);
        assert!(fit(Law::Universal, &two).is_none());
        assert!(fit(Law::Universal, &[two[0], two[1], two[1], two[0]]).is_none(), "two different ones");
        let line = fit(Law::Linear, &two).unwrap();
        assert_eq!((line.rate, line.aicc, line.predict(7.0)), (1.0, None, 7.0));
        assert!(fit(Law::Linear, &levels(&[(1.0, 0.0), (2.0, 0.0)])).is_none());
        for wrong in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert!(fit(Law::Linear, &levels(&[wrong, (2.0, 2.0)])).is_none(), "{wrong:?}");
        }
        assert!(fit(Law::Linear, &[Level { weight: 0.0, ..two[0] }]).is_none());
        assert_eq!(compare(&[]), (vec![], None));
    }

    proptest! {
        #[test]
        fn finds_the_parameters_of_noiseless_data(
            rate in 0.01_f64..1e5, contention in 0.0_f64..0.9, coherency in prop_oneof![Just(0.0), 1e-6_f64..0.05],
        ) {
            let law = Parameters { rate, contention, coherency };
            let points: Vec<(f64, f64)> =
                [1.0, 2.0, 5.0, 10.0, 25.0, 60.0, 150.0].into_iter().map(|x| (x, law.predict(x))).collect();
            let fit = fit(Law::Universal, &levels(&points)).unwrap();
            prop_assert!(near(fit.rate, rate, 1e-4), "{:?}", fit);
            prop_assert!((fit.contention - contention).abs() < 1e-4, "{:?}", fit);
            prop_assert!((fit.coherency - coherency).abs() < 1e-4 * coherency + 1e-8, "{:?}", fit);
        }

        #[test]
        fn units_do_not_matter(unit in 1e-6_f64..1e6, weight in 1e-6_f64..1e6) {
            let plain = fit(Law::Universal, &levels(&SDM91)).unwrap();
            let scaled: Vec<Level> = SDM91.iter().map(|&(x, y)| Level { x, y: y * unit, weight }).collect();
            let fit = fit(Law::Universal, &scaled).unwrap();
            prop_assert!(near(fit.rate, plain.rate * unit, 1e-6) && near(fit.coherency, plain.coherency, 1e-5), "{:?}", fit);
        }

        #[test]
        fn a_richer_law_never_fits_worse(rates in prop::collection::vec(0.1_f64..1e3, 6)) {
            let points: Vec<(f64, f64)> = [1.0, 3.0, 9.0, 20.0, 50.0, 90.0].into_iter().zip(rates).collect();
            let sum_of_squares = |law| fit(law, &levels(&points)).unwrap().residual_sum_of_squares;
            let [line, amdahl, universal] = Law::ALL.map(sum_of_squares);
            prop_assert!(amdahl <= line && universal <= amdahl, "{} {} {}", line, amdahl, universal);
        }
    }
}
