//! Where the warm-up of a trial ends, and whether what follows is steady.
//!
//! 43 % of the programs that Barrett and others ran never reached a steady state. A trial is cut first and examined
//! then.
//!
//! 1. **Cut.** MSER-5: discard what minimises the standard error of the rest, by means of five values; at most half.
//!    The discarded part is a warm-up only if it differs from the rest from its first values on: MSER also cuts a
//!    disturbance that begins later, and would make the remainder look better than the trial was.
//! 2. **Another level?** The sum of deviations from the mean drifts away where the level changes. Its widest excursion
//!    over a stretch of at least a sixth is compared with that of noise (Kuiper's form of CUSUM: a step is a stretch
//!    that ends at the edge). Shorter disturbances are dips, and dips are part of the measurement.
//! 3. **A drift?** The slope of a line, for leaks. MSER hides half of a leak by cutting it off: if the rest still has
//!    the slope of the whole, the whole is a drift and nothing is cut.
//!
//! Both tests clamp values far from the median (five deviations), so that a freeze or a heavy tail has no excessive
//! weight. Both allow for autocorrelation: the residuals around the tested change determine the correlation of
//! neighbours, corrected for the fit (Kendall), and thus the deviation of a mean (first-order autoregression). A change
//! below [`CHANGE_MIN`] of the mean is ignored, however significant. The method is deterministic.
//!
//! [`Steadiness::NeverSteady`] is a warning, not a reason to discard: disturbances also slow a trial down, so selecting
//! steady trials would select fast ones (docs/STATISTICS.md has the figures).
//!
//! Measured by seeded simulation, in % of series called [`Steadiness::NeverSteady`] (the tests hold bounds around
//! these):
//!
//! | series | 30 values | 60 | 120 | 300 |
//! |---|---|---|---|---|
//! | normal noise, 10 % | 0.1 | 0.2 | 0.5 | 0.8 |
//! | heavy tails (Student's t, 2 degrees of freedom) | 0.0 | 0.1 | 0.1 | 0.7 |
//! | autocorrelated noise (first order, 0.7), 10 % | 3.8 | 4.0 | 3.1 | 1.8 |
//! | the same with 0.85 | 7.8 | 8.6 | 6.5 | 3.4 |
//! | one value of ten is a freeze | 0 | 0 | 0 | 0 |
//! | ten values of a hundred are | 19 | 31 | 9 | 0 |
//! | a step of 10 % at 60 % of the time, noise 5 % | 55 | 98 | 100 | 100 |
//! | the same, noise autocorrelated (0.7) | 21 | 37 | 69 | 99 |
//! | a step of 20 %, noise 5 % autocorrelated | 47 | 78 | 98 | 100 |
//! | 10 % less for a fifth of the time, noise 3 % | 47 | 98 | 100 | 100 |
//! | a leak of 20 %, noise 5 % | 85 | 95 | 99 | 100 |
//! | a leak of 20 %, noise 5 % autocorrelated (0.7) | 34 | 53 | 81 | 95 |
//! | a leak of 50 %, noise 5 % autocorrelated | 88 | 98 | 100 | 100 |
//!
//! A trial should have 60 values or more: 30 hide a step of twice their noise every other time. Recurring freezes are
//! recognised when three of their periods are seen. A warm-up that ends before half of the time is cut off, and the
//! rest judged steady, in 98 to 100 %.
//!
//! K. P. White: *An effective truncation heuristic for bias reduction in simulation output*, Simulation 69 (1997)
//! 323–334. E. Barrett and others: *Virtual machine warmup blows hot and cold*, OOPSLA 2017. N. H. Kuiper: *Tests
//! concerning random points on a circle*, Proc. KNAW A 63 (1960) 38–47. M. G. Kendall: *Note on bias in the estimation
//! of autocorrelation*, Biometrika 41 (1954) 403–404.

use crate::estimate::median_of_sorted;

/// Minimum length of a meaningful series.
pub const VALUES_MIN: usize = 20;
/// Longer series are reduced to at most this many values by averaging neighbours.
pub const VALUES_MAX: usize = 512;
/// A smaller change, as a share of the mean, is irrelevant.
pub const CHANGE_MIN: f64 = 0.03;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyPart {
    pub steadiness: Steadiness,
    /// Index of the first value after the warm-up; 0 if there is none.
    pub from: usize,
    /// The change after it; only for [`Steadiness::NeverSteady`].
    pub change: Option<SeriesChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steadiness {
    /// The same from beginning to end.
    Flat,
    /// Steady after a discarded beginning.
    AfterWarmUp,
    /// It drifts, or has another level for a while.
    NeverSteady,
    /// Too few values ([`VALUES_MIN`]), or some that are not finite.
    TooShort,
}

/// The change of a series that is not steady. Shares are of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeriesChange {
    /// Another level for a while, or from some point on.
    Level {
        /// Index of its first value.
        from: usize,
        /// Index of the first value after it.
        to: usize,
        /// How far it lies above the rest.
        share: f64,
    },
    /// A drift.
    Drift {
        /// The rise over the whole series.
        share: f64,
    },
}

/// Finds the steady part of a series of rates or times in intervals of equal length.
#[must_use]
pub fn find_steady(series: &[f64]) -> SteadyPart {
    if series.len() < VALUES_MIN || !series.iter().all(|value| value.is_finite()) {
        return SteadyPart { steadiness: Steadiness::TooShort, from: 0, change: None };
    }
    let group = series.len().div_ceil(VALUES_MAX);
    let values: Vec<f64> = series.chunks(group).map(mean).collect();
    let cut = warm_up(&values);
    let rest = Part::new(&values[cut..]);
    let leak = rest.drift_of_the_whole(&values);
    let is_warm_up = leak.is_none() && rest.follows_warm_up(&values[..cut]);
    let from = if is_warm_up { cut * group } else { 0 };
    if let Some(change) = rest.other_level().or_else(|| rest.drift()).or(leak) {
        let change = change.in_series(cut, group, series.len());
        return SteadyPart { steadiness: Steadiness::NeverSteady, from, change: Some(change) };
    }
    let steadiness = if is_warm_up { Steadiness::AfterWarmUp } else { Steadiness::Flat };
    SteadyPart { steadiness, from, change: None }
}

impl SeriesChange {
    /// Converts the indices to those of the series before averaging and cutting.
    fn in_series(self, cut: usize, group: usize, length: usize) -> Self {
        let place = |index: usize| ((cut + index) * group).min(length);
        match self {
            Self::Level { from, to, share } => Self::Level { from: place(from), to: place(to), share },
            Self::Drift { share } => Self::Drift { share },
        }
    }
}

/// The number of values to discard: those without which the squared standard error is smallest, in batches of five
/// values, or of fewer in short series.
fn warm_up(values: &[f64]) -> usize {
    let size = (values.len() / 20).clamp(1, 5);
    let batches: Vec<f64> = values.chunks_exact(size).map(mean).collect();
    // Relative to one of the values, so that large numbers do not cancel.
    let origin = batches[batches.len() - 1];
    let (mut sum, mut squares, mut kept) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (index, batch) in batches.iter().enumerate().rev() {
        let value = batch - origin;
        (sum, squares, kept) = (sum + value, squares + value * value, kept + 1.0);
        let error = (squares - sum * sum / kept).max(0.0) / (kept * kept);
        // The earliest of equal ones.
        if index <= batches.len() / 2 && error <= best.0 {
            best = (error, index);
        }
    }
    best.1 * size
}

/// Deviations beyond which noise does not explain another level: a Brownian bridge has so wide an excursion in 2 of 100
/// cases.
const LEVEL_LIMIT: f64 = 1.9;
/// Standard errors beyond which noise does not explain a slope.
const DRIFT_LIMIT: f64 = 3.2;
/// Standard errors by which a warm-up must differ from the rest.
const WARM_UP_LIMIT: f64 = 3.0;
/// A warm-up differs from the rest already in its first part, of this many.
const BEGINNING: usize = 3;
/// Another level lasts for at least one of this many parts of the whole, and so does the usual one.
const STRETCHES: usize = 6;
/// Values are clamped to this many deviations from the median.
const FAR_OUT: f64 = 5.0;
/// Degrees of freedom that a line removes from the residuals, and that the best of all stretches removes (by
/// simulation).
const LINE_PARAMETERS: f64 = 2.0;
const LEVEL_PARAMETERS: f64 = 4.0;
/// A stronger correlation of neighbours cannot be distinguished from a drift.
const MEMORY_MAX: f64 = 0.95;

/// The series after the cut.
struct Part<'a> {
    values: &'a [f64],
    /// The values with outliers clamped.
    tame: Vec<f64>,
    reach: (f64, f64),
    stretch: Stretch,
}

/// The stretch whose level differs most from that of the others.
#[derive(Clone, Copy)]
struct Stretch {
    /// The excursion of the summed deviations from the mean within it.
    excursion: f64,
    from: usize,
    to: usize,
    /// √n times the deviation of a mean of n values, around the two levels.
    noise: f64,
}

impl Stretch {
    fn widest(values: &[f64]) -> Self {
        let (excursion, from, to) = widest_excursion(values);
        let [inside, outside] = means_of_stretch(values, from, to);
        let level = |index: usize| if (from..to).contains(&index) { inside } else { outside };
        let residuals = values.iter().enumerate().map(|(index, value)| value - level(index));
        Self { excursion, from, to, noise: long_run_deviation(residuals, LEVEL_PARAMETERS) }
    }
}

impl<'a> Part<'a> {
    fn new(values: &'a [f64]) -> Self {
        let reach = reach(values);
        let tame: Vec<f64> = values.iter().map(|value| value.clamp(reach.0, reach.1)).collect();
        let stretch = Stretch::widest(&tame);
        Self { values, tame, reach, stretch }
    }

    fn other_level(&self) -> Option<SeriesChange> {
        let (count, Stretch { excursion, from, to, .. }) = (self.tame.len(), self.stretch);
        let [inside, outside] = means_of_stretch(self.values, from, to);
        let share = (inside - outside) / mean(self.values).abs();
        let expected = self.stretch.noise * (count as f64).sqrt();
        let is_change = excursion > for_count(LEVEL_LIMIT, count) * expected && matters(share);
        is_change.then(|| match from {
            // The first level is the usual one, the later one the change.
            0 => SeriesChange::Level { from: to, to: count, share: -share },
            _ => SeriesChange::Level { from, to, share },
        })
    }

    fn drift(&self) -> Option<SeriesChange> {
        let line = RegressionLine::through(&self.tame);
        let share = RegressionLine::through(self.values).rise / mean(self.values).abs();
        (line.rises() && matters(share)).then_some(SeriesChange::Drift { share })
    }

    /// The drift of the whole series, if this rest still has at least half of its slope.
    fn drift_of_the_whole(&self, whole: &[f64]) -> Option<SeriesChange> {
        Part::new(whole).drift()?;
        let slope_before = RegressionLine::through(whole).slope();
        let line = RegressionLine::through(&self.tame);
        let share = line.rise / mean(self.values).abs();
        (line.slope() / slope_before >= 0.5 && matters(share)).then_some(SeriesChange::Drift { share })
    }

    /// Whether the discarded part is a warm-up: it differs from the rest from its first values on. A later disturbance
    /// is not, and counts like any other.
    fn follows_warm_up(&self, cut: &[f64]) -> bool {
        let beginning = &cut[..cut.len().div_ceil(BEGINNING)];
        !cut.is_empty() && self.differs(cut) && self.differs(beginning) && {
            let usual = mean(&self.tame);
            let (early, all) = (mean(&self.tamed(beginning)) - usual, mean(&self.tamed(cut)) - usual);
            early / all >= 0.5
        }
    }

    /// Whether the mean of other values differs from that of these by more than noise explains.
    fn differs(&self, others: &[f64]) -> bool {
        let (center, usual) = (mean(&self.tame), mean(self.values));
        let error = self.stretch.noise / (others.len() as f64).sqrt();
        matters((mean(others) - usual) / usual.abs())
            && (mean(&self.tamed(others)) - center).abs() > WARM_UP_LIMIT * error
    }

    fn tamed(&self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| value.clamp(self.reach.0, self.reach.1)).collect()
    }
}

/// The widest excursion of the summed deviations from the mean, and its stretch.
fn widest_excursion(values: &[f64]) -> (f64, usize, usize) {
    let center = mean(values);
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(values.iter().scan(0.0, |sum, value| {
            *sum += value - center;
            Some(*sum)
        }))
        .collect();
    let shortest = values.len().div_ceil(STRETCHES);
    let mut widest = (0.0, 0, shortest);
    for from in 0..=values.len() - shortest {
        let last = (from + values.len() - shortest).min(values.len());
        for to in from + shortest..=last {
            let excursion = (sums[to] - sums[from]).abs();
            if excursion > widest.0 {
                widest = (excursion, from, to);
            }
        }
    }
    widest
}

/// The mean of the values of a stretch, and of the others.
fn means_of_stretch(values: &[f64], from: usize, to: usize) -> [f64; 2] {
    let inside: f64 = values[from..to].iter().sum();
    let outside: f64 = values[..from].iter().chain(&values[to..]).sum();
    let length = to - from;
    [inside / length as f64, outside / (values.len() - length) as f64]
}

/// A straight line through a series.
struct RegressionLine {
    /// From the first value to the last.
    rise: f64,
    /// Standard error of the rise.
    error: f64,
    count: usize,
}

impl RegressionLine {
    fn through(values: &[f64]) -> Self {
        let (count, center) = (values.len() as f64, mean(values));
        let place = |index: usize| index as f64 - (count - 1.0) / 2.0;
        let spread = count * (count * count - 1.0) / 12.0;
        let along: f64 = values.iter().enumerate().map(|(index, value)| place(index) * (value - center)).sum();
        let slope = along / spread;
        let residuals = values.iter().enumerate().map(|(index, value)| value - center - slope * place(index));
        let error = long_run_deviation(residuals, LINE_PARAMETERS) / spread.sqrt();
        Self { rise: slope * (count - 1.0), error: error * (count - 1.0), count: values.len() }
    }

    fn slope(&self) -> f64 {
        self.rise / (self.count - 1) as f64
    }

    fn rises(&self) -> bool {
        self.rise.abs() > for_count(DRIFT_LIMIT, self.count) * self.error
    }
}

/// The scatter of few values is imprecise: the limit is higher for them.
fn for_count(limit: f64, count: usize) -> f64 {
    limit * (1.0 + 8.0 / count as f64)
}

/// Around a mean of 0, every change matters.
fn matters(share: f64) -> bool {
    share.is_nan() || share.abs() > CHANGE_MIN
}

/// √n times the deviation of a mean of n such values, from residuals of a fit with this many parameters.
fn long_run_deviation(residuals: impl Iterator<Item = f64>, parameters: f64) -> f64 {
    let (mut count, mut squares, mut products, mut before) = (0.0, 0.0, 0.0, 0.0);
    for residual in residuals {
        (count, squares, products) = (count + 1.0, squares + residual * residual, products + residual * before);
        before = residual;
    }
    if squares <= 0.0 {
        return 0.0;
    }
    // Residuals are less correlated than the errors: on average by (p + (p + 2) · memory) ÷ n.
    let memory = (products / squares + parameters / count) / (1.0 - (parameters + 2.0) / count);
    // Alternating neighbours make a mean more precise, but only if they always alternate.
    let memory = memory.clamp(0.0, MEMORY_MAX);
    (squares / (count - parameters) * (1.0 + memory) / (1.0 - memory)).sqrt()
}

/// The range within which values are not clamped.
fn reach(values: &[f64]) -> (f64, f64) {
    let middle = median(values.to_vec());
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let mean_distance = mean(&distances);
    let typical = median(distances);
    // The factors convert to the standard deviation of normal values. More than half of the values may be equal.
    let deviation = if typical > 0.0 { 1.4826 * typical } else { 1.2533 * mean_distance };
    // If all are equal, nothing is an outlier.
    let far = if deviation > 0.0 { FAR_OUT * deviation } else { f64::INFINITY };
    (middle - far, middle + far)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    median_of_sorted(&values)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Without noise, so that the indices are exact.
    fn step(count: usize, at: usize) -> Vec<f64> {
        (0..count).map(|index| if index < at { 1.0 } else { 2.0 }).collect()
    }

    #[test]
    fn says_where_it_begins() {
        assert_eq!(find_steady(&[5.0; 40]), SteadyPart { steadiness: Steadiness::Flat, from: 0, change: None });
        let warm = find_steady(&step(60, 15));
        assert_eq!((warm.steadiness, warm.from), (Steadiness::AfterWarmUp, 15));
        // Batches of five, and half of two hundred.
        assert_eq!(find_steady(&step(200, 98)).from, 100);
    }

    #[test]
    fn a_disturbance_that_begins_later_is_no_warm_up() {
        let pulse = |from: usize, to: usize| -> Vec<f64> {
            (0..60)
                .map(|index| if (from..to).contains(&index) { 2.0 } else { 1.0 + 0.01 * (index % 3) as f64 })
                .collect()
        };
        assert_eq!(find_steady(&pulse(0, 9)).from, 9);
        assert_eq!(find_steady(&pulse(10, 18)).from, 0);
        assert_eq!(find_steady(&pulse(16, 29)).from, 0, "MSER would cut 29");
    }

    #[test]
    fn nothing_of_a_leak_is_cut_but_the_warm_up_before_another_level_is() {
        let leak: Vec<f64> = (0..100).map(|index| 100.0 + f64::from(index) + f64::from(index % 3)).collect();
        assert_eq!((find_steady(&leak).steadiness, find_steady(&leak).from), (Steadiness::NeverSteady, 0));
        let mut both = vec![1.0; 100];
        both[..20].fill(3.0);
        both[70..].fill(1.5);
        let found = find_steady(&both);
        assert_eq!((found.steadiness, found.from), (Steadiness::NeverSteady, 20), "{found:?}");
    }

    #[test]
    fn says_what_changes() {
        let late = find_steady(&step(60, 45));
        assert_eq!(late.steadiness, Steadiness::NeverSteady);
        let Some(SeriesChange::Level { from: 45, to: 60, share }) = late.change else { panic!("{late:?}") };
        assert!((0.7..0.9).contains(&share), "{late:?}");
        let leak: Vec<f64> = (0..100).map(|index| 100.0 + f64::from(index) + f64::from(index % 3)).collect();
        let leak = find_steady(&leak);
        assert_eq!(leak.steadiness, Steadiness::NeverSteady, "{leak:?}");
    }

    #[test]
    fn places_are_those_of_a_long_series() {
        let late = find_steady(&step(10_000, 7_500));
        assert_eq!(late.steadiness, Steadiness::NeverSteady);
        let Some(SeriesChange::Level { from, to, .. }) = late.change else { panic!("{late:?}") };
        assert!(from.abs_diff(7_500) <= 20 && to == 10_000, "{late:?}");
        let warm = find_steady(&step(10_000, 2_000));
        assert!(warm.steadiness == Steadiness::AfterWarmUp && warm.from.abs_diff(2_000) <= 100, "{warm:?}");
    }

    #[test]
    fn too_little_is_said_to_be_so() {
        let too_short = SteadyPart { steadiness: Steadiness::TooShort, from: 0, change: None };
        assert_eq!(find_steady(&[]), too_short);
        assert_eq!(find_steady(&[1.0; VALUES_MIN - 1]), too_short);
        let mut with_gap = [1.0; 50];
        with_gap[20] = f64::NAN;
        assert_eq!(find_steady(&with_gap), too_short);
        // No responses all the time: that is steady.
        assert_eq!(find_steady(&[0.0; 50]).steadiness, Steadiness::Flat);
    }

    proptest! {
        #[test]
        fn stays_in_bounds_and_depends_on_no_unit(
            values in prop::collection::vec(prop_oneof![0.0_f64..2.0, Just(1.0), 0.0_f64..1e6], 0..150), unit in -20_i32..20,
        ) {
            let part = find_steady(&values);
            prop_assert!(part.from <= values.len() / 2 + 5);
            prop_assert_eq!(part.change.is_some(), part.steadiness == Steadiness::NeverSteady);
            if let Some(SeriesChange::Level { from, to, share }) = part.change {
                prop_assert!(part.from <= from && from < to && to <= values.len() && share.abs() > CHANGE_MIN);
            }
            // A power of two causes no rounding.
            let scaled: Vec<f64> = values.iter().map(|value| value * 2.0_f64.powi(unit)).collect();
            prop_assert_eq!(find_steady(&scaled), part);
        }
    }
}
