//! Repeated looks at a growing run: the level of *p* required after each number of blocks.
//!
//! A run that is judged after every block and ends at the first clear result has many opportunities for error: at 5 %
//! each, nineteen looks at pure noise find a difference in a fifth of all runs. A group-sequential test divides the
//! error among the looks in advance. Here the nominal level of a look is a common factor times a weight:
//!
//! | look | weight | why |
//! |---|---|---|
//! | `least` to `most` blocks | blocks ÷ `most` | strict while the scatter is poorly known; most of the error remains for the full run |
//! | before `least` | falls with the fourth power | a truncated run is judged only on overwhelming evidence |
//! | after `most` | 0.3 × `most` ÷ blocks, up to [`EXTENSION_MAX`] times `most` | a finished run can be extended without a second budget of errors |
//!
//! The factor is chosen so that all looks together have the requested probability of error. That probability comes from
//! the recursive integration of Armitage, McPherson and Rowe over sums of normal values. With an unknown variance the
//! same nominal levels are applied to Student's t (the significance-level approach). Successive t statistics of few
//! blocks correlate less than normal ones, above all those of trimmed means; [`KEPT_BACK`] and [`EXTENSION_EXCESS`]
//! cover that, as simulated. An interval whose nominal confidence is 1 − the level of its look is a *repeated
//! confidence interval*: all intervals of a run together contain the true value with the requested confidence, whatever
//! made it stop.
//!
//! P. Armitage, C. K. McPherson, B. C. Rowe: *Repeated significance tests on accumulating data*, J. R. Statist. Soc. A
//! 132 (1969) 235–244. K. K. G. Lan, D. L. DeMets: *Discrete sequential boundaries for clinical trials*, Biometrika 70
//! (1983) 659–663. C. Jennison, B. W. Turnbull: *Interim analyses: the repeated confidence interval approach*, J. R.
//! Statist. Soc. B 51 (1989) 305–361; *Group Sequential Methods with Applications to Clinical Trials* (2000), 4.4
//! (unknown variance) and 9 (intervals).

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::normal;

/// Minimum number of blocks that can be judged.
pub const BLOCKS_MIN: u32 = 5;
/// A run can be extended to this multiple of its planned blocks.
pub const EXTENSION_MAX: u32 = 4;

/// The share of the error that is not spent, because the recursion treats successive statistics as normal.
const KEPT_BACK: f64 = 0.2;
/// An extended run of pure noise shows a difference this many times as often as the recursion says: each time that one
/// more pair of values is trimmed, the statistic changes more than a sum does.
const EXTENSION_EXCESS: f64 = 2.5;
/// Beyond this many blocks, looks are a sixteenth of the blocks apart: closer ones hardly differ.
const EACH_BLOCK_UP_TO: u32 = 24;
/// Intervals of the integration; even, for Simpson's rule.
const STEPS: usize = 48;
/// Number of designs with a cached table: a run is judged many times by one of them.
const DESIGNS_KEPT: usize = 16;

/// The looks of a design, with the probability that any of them falls below its nominal level.
#[derive(Debug)]
pub struct Looks {
    least: u32,
    most: u32,
    /// Logarithms of the factor and of that probability, both ascending.
    probabilities: Vec<(f64, f64)>,
}

impl Looks {
    /// For a run that may end after any number of blocks from `least` to `most`.
    #[must_use]
    pub fn cached(least: u32, most: u32) -> Arc<Self> {
        static KNOWN: Mutex<VecDeque<Arc<Looks>>> = Mutex::new(VecDeque::new());
        let most = most.max(BLOCKS_MIN);
        let least = least.clamp(BLOCKS_MIN, most);
        let mut known = KNOWN.lock();
        if let Some(looks) = known.iter().find(|looks| (looks.least, looks.most) == (least, most)) {
            return Arc::clone(looks);
        }
        let looks = Arc::new(Self::new(least, most));
        known.truncate(DESIGNS_KEPT - 1);
        known.push_front(Arc::clone(&looks));
        looks
    }

    fn new(least: u32, most: u32) -> Self {
        let mut looks = Self { least, most, probabilities: Vec::new() };
        let blocks = looks.places();
        // Four per decade in the usual range of levels, one for the p-values of clear differences.
        let coarse = (5..=14).rev().map(|decade| 10.0_f64.powi(-decade));
        let fine = (0..=16).rev().map(|quarter| 10.0_f64.powf(-f64::from(quarter) / 4.0));
        let level = |blocks, factor: f64| (blocks, factor * looks.weight(blocks));
        let probability = |factor: f64| {
            let levels: Vec<(u32, f64)> = blocks.iter().map(|&blocks| level(blocks, factor)).collect();
            (factor.ln(), probability_of_any(&levels).min(1.0).ln())
        };
        looks.probabilities = coarse.chain(fine).map(probability).collect();
        looks
    }

    /// The two-sided nominal level at a number of blocks, if all looks together may be wrong with probability
    /// `outside`.
    #[must_use]
    pub fn level(&self, blocks: u32, outside: f64) -> f64 {
        let wanted = (outside * self.spent()).ln();
        let factor =
            interpolated(self.probabilities.iter().map(|&(factor, probability)| (probability, factor)), wanted).exp();
        (factor * self.weight(blocks) / self.excess(blocks)).min(outside)
    }

    /// A two-sided p-value at a number of blocks, corrected for all looks: the probability that any look shows
    /// something as unlikely by its own measure. It is at most `outside` if and only if the p-value is at most
    /// [`Looks::level`].
    #[must_use]
    pub fn corrected(&self, p: f64, blocks: u32) -> f64 {
        let weight = self.weight(blocks) / self.excess(blocks);
        if p <= 0.0 {
            return 0.0;
        }
        let probability = interpolated(self.probabilities.iter().copied(), (p / weight).min(1.0).ln()).exp();
        (probability / self.spent()).max(p).min(1.0)
    }

    /// The share of the error that is spent. A single planned look is Student's test, which is exact without a margin.
    fn spent(&self) -> f64 {
        if self.least < self.most { 1.0 - KEPT_BACK } else { 1.0 }
    }

    fn excess(&self, blocks: u32) -> f64 {
        if blocks > self.most { EXTENSION_EXCESS } else { 1.0 }
    }

    fn weight(&self, blocks: u32) -> f64 {
        let [blocks, least, most] = [blocks.max(1), self.least, self.most].map(f64::from);
        if blocks < least {
            (blocks / least).powi(4) * least / most / 2.0
        } else if blocks <= most {
            blocks / most
        } else {
            0.3 * most / blocks
        }
    }

    /// The numbers of blocks at which the integration has a look.
    fn places(&self) -> Vec<u32> {
        let next = |&blocks: &u32| Some(blocks + if blocks < EACH_BLOCK_UP_TO { 1 } else { blocks / 16 });
        let end = self.most.saturating_mul(EXTENSION_MAX);
        let mut places: Vec<u32> = std::iter::successors(Some(BLOCKS_MIN), next).take_while(|&b| b <= end).collect();
        places.extend([self.least, self.most]);
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The probability that any look at pure noise is below its nominal level. Each look is its number of blocks and that
/// level.
fn probability_of_any(looks: &[(u32, f64)]) -> f64 {
    let mut probability = 0.0;
    // The sum of all values so far if no look was below its level: positions and weighted densities.
    let mut sums = vec![(0.0, 1.0)];
    let mut before = 0;
    for &(now, level) in looks {
        let deviations = normal::upper_quantile((level / 2.0).min(0.499));
        let (bound, spread) = (deviations * f64::from(now).sqrt(), f64::from(now - before).sqrt());
        let beyond = |sum: f64| normal::upper_tail((bound - sum) / spread) + normal::upper_tail((bound + sum) / spread);
        probability += sums.iter().map(|&(sum, density)| density * beyond(sum)).sum::<f64>();
        sums = next_sums(&sums, bound, spread);
        before = now;
    }
    probability
}

/// The density of the next sum within ±`bound`, by Simpson's rule.
fn next_sums(sums: &[(f64, f64)], bound: f64, spread: f64) -> Vec<(f64, f64)> {
    let step = 2.0 * bound / STEPS as f64;
    let scale = step / 3.0 / (spread * TAU.sqrt());
    let at = |index: usize| {
        let place = step * index as f64 - bound;
        let weight = if index == 0 || index == STEPS { 1.0 } else { [2.0, 4.0][index % 2] };
        let near = |&(sum, density): &(f64, f64)| density * (-0.5 * ((place - sum) / spread).powi(2)).exp();
        (place, weight * scale * sums.iter().map(near).sum::<f64>())
    };
    (0..=STEPS).map(at).collect()
}

/// Linear between ascending points; beyond the first one with slope 1, since rare events add up.
fn interpolated(points: impl Iterator<Item = (f64, f64)>, x: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (to_x, to_y) in points {
        if x <= to_x {
            return match before {
                None => to_y + (x - to_x),
                Some((from_x, from_y)) if to_x > from_x => from_y + (to_y - from_y) * (x - from_x) / (to_x - from_x),
                Some(_) => to_y,
            };
        }
        before = Some((to_x, to_y));
    }
    before.map_or(0.0, |(_, y)| y)
}

#[cfg(test)]
mod tests {
    use breme_base::Random;

    use super::*;
    use crate::{Trim, TrimmedMean};

    /// Pocock's constant boundaries for 2, 5 and 10 equally spaced looks (Jennison and Turnbull 2000, table 2.1), and
    /// those of O'Brien and Fleming for 4 (table 2.3: 2.024 at the last).
    #[test]
    fn the_integration_agrees_with_published_boundaries() {
        let level = |deviations: f64| 2.0 * normal::upper_tail(deviations);
        for (count, deviations) in [(2_u32, 2.178), (5, 2.413), (10, 2.555)] {
            let looks: Vec<(u32, f64)> = (1..=count).map(|now| (now, level(deviations))).collect();
            assert!((probability_of_any(&looks) - 0.05).abs() < 2e-4, "{count}: {}", probability_of_any(&looks));
        }
        let strict: Vec<(u32, f64)> = (1..=4).map(|now| (now, level(2.024 * (4.0 / f64::from(now)).sqrt()))).collect();
        assert!((probability_of_any(&strict) - 0.05).abs() < 2e-4, "{}", probability_of_any(&strict));
    }

    #[test]
    fn all_looks_together_keep_the_error_rate() {
        for (least, most) in [(6, 24), (6, 6), (12, 12), (5, 200), (1, 1), (10, 10_000)] {
            let looks = Looks::new(least, most);
            for outside in [0.05, 0.01, 0.05 / 30.0] {
                let level = |blocks| looks.level(blocks, outside) * looks.excess(blocks);
                let levels: Vec<(u32, f64)> =
                    looks.places().into_iter().map(|blocks| (blocks, level(blocks))).collect();
                let share = probability_of_any(&levels) / outside / looks.spent();
                assert!((0.98..1.02).contains(&share), "{least} to {most} at {outside}: {share}");
            }
        }
    }

    /// The share of runs of pure noise, extended to `end` blocks, in which any look shows a difference.
    fn false_alarms((least, most): (u32, u32), end: u32, runs: u32, trim: Trim) -> f64 {
        let looks = Looks::new(least, most);
        let mut random = Random::new(42);
        let mut normal = || {
            let (size, angle) = (-2.0 * (1.0 - random.unit()).ln(), TAU * random.unit());
            size.sqrt() * angle.cos()
        };
        let mut alarms = 0;
        for _ in 0..runs {
            let values: Vec<f64> = (0..end).map(|_| normal()).collect();
            let is_alarm = |&blocks: &u32| {
                let mean = TrimmedMean::from_values(&values[..blocks as usize], trim).unwrap();
                let (low, high) = mean.interval(looks.level(blocks, 0.05));
                low > 0.0 || high < 0.0
            };
            alarms += u32::from((BLOCKS_MIN..=end).any(|blocks| is_alarm(&blocks)));
        }
        f64::from(alarms) / f64::from(runs)
    }

    #[test]
    fn trimmed_and_extended_runs_keep_the_error_rate() {
        // The standard error of these shares is 0.5 %.
        for (design, end) in [((6, 24), 24), ((6, 24), 96), ((12, 12), 48)] {
            let share = false_alarms(design, end, 2_000, Trim::Eighth);
            assert!((0.035..0.055).contains(&share), "{design:?} to {end}: {share}");
        }
    }

    #[test]
    #[ignore = "takes a minute; the shares in docs/STATISTICS.md"]
    fn shares_of_false_alarms() {
        for (design, end) in
            [((6, 24), 24), ((6, 24), 96), ((8, 24), 96), ((6, 12), 48), ((6, 6), 24), ((12, 12), 48), ((24, 24), 96)]
        {
            for trim in [Trim::Eighth, Trim::Nothing] {
                let share = false_alarms(design, end, 20_000, trim);
                assert!(share < 0.052, "{design:?} to {end}, {trim:?}: {share}");
                eprintln!("{design:?} to {end}, {trim:?}: {share}");
            }
        }
    }

    #[test]
    fn levels_are_those_that_are_documented() {
        let looks = Looks::cached(6, 24);
        let levels = [5, 6, 12, 24, 48].map(|blocks| (looks.level(blocks, 0.05) * 1e4).round());
        assert_eq!(levels, [8.0, 31.0, 62.0, 125.0, 7.0]);
    }

    #[test]
    fn corrected_chances_and_levels_agree() {
        let looks = Looks::cached(6, 24);
        for blocks in [5, 6, 11, 24, 30, 96] {
            for outside in [0.2, 0.05, 0.001, 1e-9] {
                let level = looks.level(blocks, outside);
                let back = looks.corrected(level, blocks);
                assert!((back / outside - 1.0).abs() < 1e-6, "{blocks}, {outside}: {back}");
                assert!(level < outside && looks.corrected(level * 0.99, blocks) < back);
            }
        }
        assert_eq!((looks.corrected(0.0, 6), looks.corrected(1.0, 6)), (0.0, 1.0));
    }
}
