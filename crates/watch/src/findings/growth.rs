//! Growth: a robust regression with autocorrelated errors.
//!
//! The values and their logarithms are each fitted by a line and, from three days on, a daily cycle of two harmonics;
//! the fit that leaves smaller residuals counts (a leak of constant rate is no line in logarithms, and systematic
//! residuals look like a strong correlation). For the comparison the values are divided by their geometric mean, as for
//! the power transformations of Box and Cox (1964, J. R. Stat. Soc. B 26, 211-252). Values farther than [`CLIP`]
//! standard deviations (estimated from the median deviation) from the fit are excluded, and the fit is repeated.
//!
//! The residuals of neighbouring blocks are modelled as a first-order autoregressive process. Its coefficient, after
//! correction for the bias of short series, determines the variance of the slope and the degrees of freedom of
//! Student's test. A longer correlation leaves fewer degrees; with fewer than [`FREEDOM_MIN`], the steps between the
//! blocks are tested instead.

use breme_stats::{student_p, student_quantile};

use super::batch_means::{EDGE, VALUES_MIN, median};
use super::finding::{DAY, Effect, GROWTH_MIN, Hypothesis, Metric, Ratio, TestResult, Trend};

const DAY_MS: f64 = 86_400_000.0;
/// Standard deviations beyond which a value is an outlier.
const CLIP: f64 = 3.0;
const ITERATIONS_MAX: usize = 8;
/// Harmonics of the daily cycle, each a sine and a cosine, and the number of days needed to fit it.
const HARMONICS: usize = 2;
const CYCLE_FROM_DAYS: f64 = 3.0;
/// Values per block, and the maximum number of blocks; more values make longer blocks.
const BLOCK_VALUES_MIN: usize = 2;
const BLOCKS_MAX: usize = 336;
/// Twice the log likelihood ratio from which a change of level is preferred to a line.
const STEP_EVIDENCE: f64 = 14.0;
const FREEDOM_MIN: f64 = 3.0;
/// A line is not followed below this share of its mean.
const LEVEL_MIN: f64 = 0.01;
/// Larger autocorrelations cannot be distinguished from a random walk.
const CORRELATION_MAX: f64 = 0.97;

const TOO_FEW: &str = "too few measurements";
const TOO_CORRELATED: &str = "neighbouring measurements are too strongly correlated";

/// Tests for growth. A change of level is not one.
pub(super) fn growth(metric: Metric, values: &[(f64, f64)]) -> TestResult {
    TestResult { hypothesis: Hypothesis::Growth(metric), outcome: test(values) }
}

fn test(values: &[(f64, f64)]) -> Result<(f64, Option<Effect>), &'static str> {
    if values.len() < VALUES_MIN {
        return Err(TOO_FEW);
    }
    let days = (values[values.len() - 1].0 - values[0].0) / DAY_MS;
    let (exponential, linear) = (Slope::fit(values), Slope::fit(&relative(values)));
    let left = |slope: &Option<Slope>| slope.as_ref().map_or(f64::INFINITY, |slope| slope.sum_of_squares);
    let is_linear = left(&linear) < left(&exponential);
    let slope = if is_linear { linear } else { exponential }.ok_or(TOO_CORRELATED)?;
    let freedom = slope.freedom.ok_or(TOO_CORRELATED)?;
    let p = student_p(slope.per_day / slope.error, freedom);
    if slope.is_step {
        return Ok((p, None));
    }
    let reach = student_quantile(freedom, 0.95) * slope.error;
    // Less than a day is not extrapolated to one: 1 % in 40 s would be 10^9 times as much after a day.
    let period_days = days.min(1.0);
    let factor = |per_day: f64| {
        if is_linear { slope.total(per_day, days).powf(period_days / days) } else { (per_day * period_days).exp() }
    };
    let ratio = Ratio {
        center: factor(slope.per_day),
        low: factor(slope.per_day - reach),
        high: factor(slope.per_day + reach),
    };
    let period = DAY.mul_f64(period_days);
    let total = ratio.center.powf(days / period_days);
    Ok((p, (total >= 1.0 + GROWTH_MIN).then_some(Effect::Trend(Trend { ratio, period, total }))))
}

/// The values divided by their geometric mean, from their logarithms.
fn relative(values: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let middle = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
    values.iter().map(|(at, value)| (*at, (value - middle).exp())).collect()
}

/// A fitted line.
struct Slope {
    per_day: f64,
    /// Standard error.
    error: f64,
    /// None if the residuals are too strongly correlated.
    freedom: Option<usize>,
    /// Whether a change of level fits better.
    is_step: bool,
    sum_of_squares: f64,
    mean_day: f64,
    mean_level: f64,
}

impl Slope {
    /// The end of a line of this slope, divided by its beginning.
    fn total(&self, per_day: f64, days: f64) -> f64 {
        let level = |day: f64| (self.mean_level + per_day * (day - self.mean_day)).max(LEVEL_MIN * self.mean_level);
        level(days) / level(0.0)
    }

    /// None if every value is an outlier.
    fn fit(values: &[(f64, f64)]) -> Option<Self> {
        let start = values[0].0;
        let days: Vec<f64> = values.iter().map(|(at, _)| (at - start) / DAY_MS).collect();
        let harmonics = if days[days.len() - 1] >= CYCLE_FROM_DAYS { HARMONICS } else { 0 };
        let rows: Vec<Vec<f64>> = days.iter().map(|day| row(*day, harmonics)).collect();
        let (used, coefficients) = robust_fit(&rows, values);
        let without_cycle = |index: usize| {
            let cycle: f64 = rows[index].iter().zip(&coefficients).skip(2).map(|(x, b)| x * b).sum();
            values[index].1 - cycle
        };
        let length = values.len().div_ceil(BLOCKS_MAX).max(BLOCK_VALUES_MIN);
        let block = |first: usize| {
            let indexes = (first..(first + length).min(values.len())).filter(|&index| used[index]);
            mean(indexes.map(|index| [days[index], without_cycle(index)]))
        };
        let blocks: Vec<Option<[f64; 2]>> = (0..values.len()).step_by(length).map(block).collect();
        Self::from_blocks(&blocks, 2 * harmonics)
    }

    /// The drift of a random walk, from the steps between neighbouring blocks. Their correlation counts as that of
    /// levels does. For levels that do return to a line the error is too large, never too small.
    fn from_steps(blocks: &[Option<[f64; 2]>], sum_of_squares: f64, [mean_day, mean_level]: [f64; 2]) -> Self {
        let known: Vec<[f64; 2]> = blocks.iter().flatten().copied().collect();
        let steps: Vec<[f64; 2]> =
            known.windows(2).map(|pair| [pair[1][0] - pair[0][0], pair[1][1] - pair[0][1]]).collect();
        let [days, growth] = steps.iter().fold([0.0; 2], |sum, step| [sum[0] + step[0], sum[1] + step[1]]);
        let per_day = growth / days;
        let residuals: Vec<Option<f64>> = steps.iter().map(|[days, growth]| Some(growth - per_day * days)).collect();
        let noise = Noise::from_residuals(&residuals, 0);
        let count = steps.len() as f64;
        let variance = noise.sum_of_squares / (count - 1.0) * noise.inflation();
        let error = ((variance * count).sqrt() / days).max(f64::MIN_POSITIVE);
        let freedom = count / noise.inflation() - 1.0;
        let freedom = (freedom >= FREEDOM_MIN).then_some(freedom as usize);
        Self { per_day, error, freedom, is_step: false, sum_of_squares, mean_day, mean_level }
    }

    /// From time and level of each block; none if every value was an outlier.
    fn from_blocks(blocks: &[Option<[f64; 2]>], cycle_parameters: usize) -> Option<Self> {
        let [mean_day, mean_level] = mean(blocks.iter().flatten().copied())?;
        let count = blocks.iter().flatten().count() as f64;
        let centred: Vec<f64> = blocks.iter().map(|block| block.map_or(0.0, |[day, _]| day - mean_day)).collect();
        let squares: f64 = centred.iter().map(|x| x * x).sum();
        if squares <= 0.0 {
            return None;
        }
        let weights: Vec<f64> = centred.iter().map(|x| x / squares).collect();
        let level = |block: &Option<[f64; 2]>| block.map_or(0.0, |[_, level]| level - mean_level);
        let per_day: f64 = weights.iter().zip(blocks).map(|(weight, block)| weight * level(block)).sum();
        let residual = |(x, block): (&f64, &Option<[f64; 2]>)| block.map(|_| level(block) - per_day * x);
        let residuals: Vec<Option<f64>> = centred.iter().zip(blocks).map(residual).collect();
        let noise = Noise::from_residuals(&residuals, cycle_parameters);
        if noise.sum_of_squares <= f64::EPSILON * count {
            // A constant, or a counter.
            let (error, freedom) = (f64::MIN_POSITIVE, Some(count as usize));
            return Some(Self { per_day, error, freedom, is_step: false, sum_of_squares: 0.0, mean_day, mean_level });
        }
        let freedom = count / noise.inflation() - 2.0;
        let is_stationary = noise.correlation <= CORRELATION_MAX && freedom >= FREEDOM_MIN;
        if !is_stationary {
            return Some(Self::from_steps(blocks, noise.sum_of_squares, [mean_day, mean_level]));
        }
        let left = (1.0 - 2.0 * noise.inflation() / count).max(LEFT_MIN);
        let variance = noise.sum_of_squares / (count - cycle_parameters as f64) / left;
        let error = (variance * quadratic_form(&weights, noise.correlation)).sqrt();
        let levels: Vec<Option<f64>> = blocks.iter().map(|block| block.map(|[_, level]| level)).collect();
        let is_step = best_step(&levels, cycle_parameters).is_some_and(|step| {
            let ratio = noise.sum_of_squares / step.sum_of_squares.max(f64::MIN_POSITIVE);
            count / step.inflation() * ratio.ln() > STEP_EVIDENCE
        });
        let freedom = Some(freedom as usize);
        Some(Self { per_day, error, freedom, is_step, sum_of_squares: noise.sum_of_squares, mean_day, mean_level })
    }
}

/// Residuals of a fit as an autoregressive process.
struct Noise {
    sum_of_squares: f64,
    correlation: f64,
}

impl Noise {
    fn from_residuals(residuals: &[Option<f64>], cycle_parameters: usize) -> Self {
        let count = residuals.iter().flatten().count() as f64;
        let sum_of_squares: f64 = residuals.iter().flatten().map(|rest| rest * rest).sum();
        let neighbours: Vec<f64> = residuals.windows(2).filter_map(|pair| Some(pair[0]? * pair[1]?)).collect();
        let covariance = neighbours.iter().sum::<f64>() / neighbours.len().max(1) as f64;
        let measured = covariance / (sum_of_squares / count).max(f64::MIN_POSITIVE);
        // Fitting a line lowers it by (1 + 4 r) ÷ n, and the cycle by its number of parameters.
        let correlation = (measured + (1.0 + 4.0 * measured + cycle_parameters as f64) / count).max(0.0);
        Self { sum_of_squares, correlation }
    }

    /// How many of these residuals carry as much information as one independent one.
    fn inflation(&self) -> f64 {
        let correlation = self.correlation.min(CORRELATION_MAX);
        (1.0 + correlation) / (1.0 - correlation)
    }
}

/// Residuals of the best change of level.
fn best_step(levels: &[Option<f64>], cycle_parameters: usize) -> Option<Noise> {
    let centred = |part: &[Option<f64>]| -> Vec<Option<f64>> {
        let [middle, _] = mean(part.iter().flatten().map(|level| [*level, 0.0])).unwrap_or_default();
        part.iter().map(|level| level.map(|level| level - middle)).collect()
    };
    let step = |at: usize| {
        let mut residuals = centred(&levels[..at]);
        residuals.extend(centred(&levels[at..]));
        Noise::from_residuals(&residuals, cycle_parameters)
    };
    let places = EDGE..levels.len().saturating_sub(EDGE) + 1;
    places.map(step).min_by(|a, b| a.sum_of_squares.total_cmp(&b.sum_of_squares))
}

/// Minimum share of the variance that the fit leaves.
const LEFT_MIN: f64 = 0.3;

/// Constant, line, sines and cosines of the day.
fn row(day: f64, harmonics: usize) -> Vec<f64> {
    let cycle = (1..=harmonics).flat_map(|harmonic| {
        let (sine, cosine) = (std::f64::consts::TAU * harmonic as f64 * day).sin_cos();
        [sine, cosine]
    });
    [1.0, day].into_iter().chain(cycle).collect()
}

/// The values that are not outliers, and the coefficients of their fit.
fn robust_fit(rows: &[Vec<f64>], values: &[(f64, f64)]) -> (Vec<bool>, Vec<f64>) {
    let mut used = vec![true; values.len()];
    let mut coefficients = least_squares(rows, values, &used);
    for _ in 0..ITERATIONS_MAX {
        let fitted = |row: &Vec<f64>| row.iter().zip(&coefficients).map(|(x, b)| x * b).sum::<f64>();
        let mut residuals: Vec<f64> = rows.iter().zip(values).map(|(row, (_, y))| y - fitted(row)).collect();
        let middle = median(&mut residuals.clone());
        residuals.iter_mut().for_each(|rest| *rest = (*rest - middle).abs());
        // A normal distribution's standard deviation is 1.48 median deviations.
        let bound = CLIP * 1.48 * median(&mut residuals.clone());
        let next: Vec<bool> = residuals.iter().map(|rest| bound <= 0.0 || *rest <= bound).collect();
        if next == used {
            break;
        }
        coefficients = least_squares(rows, values, &next);
        used = next;
    }
    (used, coefficients)
}

/// Solves the normal equations by Gaussian elimination; a column that depends on others gets 0.
fn least_squares(rows: &[Vec<f64>], values: &[(f64, f64)], used: &[bool]) -> Vec<f64> {
    const PIVOT_MIN: f64 = 1e-9;
    let width = rows[0].len();
    let mut equations = vec![vec![0.0; width + 1]; width];
    for ((row, (_, y)), _) in rows.iter().zip(values).zip(used).filter(|(_, used)| **used) {
        for (x, equation) in row.iter().zip(&mut equations) {
            row.iter().chain([y]).zip(equation).for_each(|(other, sum)| *sum += x * other);
        }
    }
    for column in 0..width {
        let size = |line: &usize| equations[*line][column].abs();
        let Some(pivot) = (column..width).max_by(|a, b| size(a).total_cmp(&size(b))) else { break };
        equations.swap(column, pivot);
        let pivot = equations[column].clone();
        if pivot[column].abs() < PIVOT_MIN {
            continue;
        }
        for (_, equation) in equations.iter_mut().enumerate().filter(|(line, _)| *line != column) {
            let factor = equation[column] / pivot[column];
            equation.iter_mut().zip(&pivot).for_each(|(value, from)| *value -= factor * from);
        }
    }
    let solution = |column: usize| {
        let pivot = equations[column][column];
        if pivot.abs() < PIVOT_MIN { 0.0 } else { equations[column][width] / pivot }
    };
    (0..width).map(solution).collect()
}

/// Variance of a weighted sum of a process with variance 1 and this autocorrelation.
fn quadratic_form(weights: &[f64], correlation: f64) -> f64 {
    // Each term contributes its square and twice its product with all earlier ones.
    let (mut sum, mut before) = (0.0, 0.0);
    for weight in weights {
        before *= correlation;
        sum += weight * (weight + 2.0 * before);
        before += weight;
    }
    sum
}

fn mean(pairs: impl Iterator<Item = [f64; 2]>) -> Option<[f64; 2]> {
    let (sum, count) =
        pairs.fold(([0.0; 2], 0_u32), |(sum, count), pair| ([sum[0] + pair[0], sum[1] + pair[1]], count + 1));
    (count > 0).then(|| sum.map(|sum| sum / f64::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: f64 = 3_600_000.0;

    fn week(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..168).map(|hour| (f64::from(hour) * HOUR_MS, value(f64::from(hour)))).collect()
    }

    #[test]
    fn fits_line_and_daily_cycle_without_outliers() {
        let cycle = |hour: f64| 0.5 * (std::f64::consts::TAU * hour / 24.0).sin();
        let outlier = |hour: f64| if hour % 17.0 == 3.0 { 2.0 } else { 0.0 };
        let noise = |hour: f64| 0.01 * (hour * hour * 0.77).sin();
        let slope = Slope::fit(&week(|hour| 3.0 + 0.01 * hour / 24.0 + cycle(hour) + outlier(hour) + noise(hour)));
        let slope = slope.unwrap();
        assert!(
            (slope.per_day - 0.01).abs() < 3.0 * slope.error && slope.error < 0.001,
            "{} {}",
            slope.per_day,
            slope.error
        );
    }

    #[test]
    fn variance_of_a_sum_counts_every_pair() {
        let weights = [0.5, -1.0, 2.0, 0.25];
        let pairs = (0..4).flat_map(|a| (0..4).map(move |b| (a, b)));
        let expected: f64 =
            pairs.map(|(a, b)| weights[a] * weights[b] * 0.6_f64.powi((a as i32 - b as i32).abs())).sum();
        assert!((quadratic_form(&weights, 0.6) - expected).abs() < 1e-12);
    }

    #[test]
    fn constant_does_not_grow_and_counter_does() {
        let (p, effect) = test(&week(|_| 4.0)).unwrap();
        assert!(p >= 0.5 && effect.is_none(), "{p}");
        let (p, effect) = test(&week(|hour| 4.0 + hour / 100.0)).unwrap();
        assert!(p < 1e-6 && effect.is_some(), "{p}");
    }

    /// By bytes, not by a share: in logarithms it is no line.
    #[test]
    fn leak_of_constant_rate_is_growth() {
        let steps = |hour: f64| 0.002 * (hour * hour * 0.77).sin();
        let (p, effect) = test(&week(|hour| (8.0 + 0.3 * hour + steps(hour)).ln())).unwrap();
        let Some(Effect::Trend(trend)) = effect else { panic!("{p} {effect:?}") };
        let expected = (8.0 + 0.3 * 167.0) / 8.0;
        assert!(p < 1e-6 && (trend.total / expected - 1.0).abs() < 0.02, "{} of {expected}", trend.total);
        assert!(trend.ratio.low < trend.ratio.center && trend.ratio.center < trend.ratio.high);
    }

    #[test]
    fn growth_within_less_than_a_day_is_not_extrapolated() {
        let seconds: Vec<(f64, f64)> =
            (0..40).map(|second| (f64::from(second) * 1_000.0, f64::ln(8.0 + f64::from(second)))).collect();
        let (_, effect) = test(&seconds).unwrap();
        let Some(Effect::Trend(trend)) = effect else { panic!("{effect:?}") };
        assert_eq!(trend.period.as_secs(), 39);
        assert!((trend.ratio.center / (47.0 / 8.0) - 1.0).abs() < 0.02 && trend.ratio.high < 7.0, "{trend:?}");
        assert!((trend.total - trend.ratio.center).abs() < 1e-9, "{trend:?}");
    }

    /// What deviates from the line stays: a random walk around it, too correlated for a test of levels.
    #[test]
    fn drift_of_a_random_walk_is_growth() {
        let mut random = breme_base::Random::new(5);
        let mut level = 8.0;
        let steps: Vec<f64> = (0..168)
            .map(|_| {
                level += 0.3 + 0.5 * (random.unit() - 0.5);
                level
            })
            .collect();
        let (p, effect) = test(&week(|hour| f64::ln(steps[hour as usize]))).unwrap();
        let Some(Effect::Trend(trend)) = effect else { panic!("{p} {effect:?}") };
        let expected = steps[167] / steps[0];
        assert!(p < 1e-6 && (trend.total / expected - 1.0).abs() < 0.1, "{} of {expected}", trend.total);
    }

    #[test]
    fn random_walk_is_not_tested_or_not_growing() {
        let mut random = breme_base::Random::new(5);
        let mut found = 0;
        for _ in 0..50 {
            let mut level = 0.0;
            let steps: Vec<f64> = (0..168)
                .map(|_| {
                    level += random.unit() - 0.5;
                    level
                })
                .collect();
            let walk = week(|hour| steps[hour as usize]);
            found += u32::from(test(&walk).is_ok_and(|(p, effect)| p < 0.015 && effect.is_some()));
        }
        assert!(found <= 5, "{found} of 50");
    }
}
