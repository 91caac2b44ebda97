//! Noise of trials, on the logarithm of the measured value.

use std::f64::consts::TAU;

use breme_base::Random;

#[derive(Clone, Copy, Debug)]
pub enum Noise {
    /// 3 %, independent.
    Normal,
    /// Right-skewed.
    LogNormal,
    /// Student's t with two degrees of freedom: without a variance.
    HeavyTails,
    /// Drifts from trial to trial: first-order autoregression with 0.9.
    Autocorrelated,
    /// All trials of a block get the same shock in addition to their own noise.
    SharedByBlock,
    /// Half of the variance of 3 % belongs to the block.
    HalfShared,
    /// One trial of ten is 20 to 80 % slower.
    Outliers,
    /// Steadily slower.
    Trend,
}

impl Noise {
    pub const ALL: [Self; 8] = [
        Self::Normal,
        Self::LogNormal,
        Self::HeavyTails,
        Self::Autocorrelated,
        Self::SharedByBlock,
        Self::HalfShared,
        Self::Outliers,
        Self::Trend,
    ];

    /// The errors of `blocks` blocks of `N` trials, in order of time.
    pub fn of_blocks<const N: usize>(self, blocks: usize, random: &mut Random) -> Vec<[f64; N]> {
        let (mut state, mut number) = (normal(random), 0.0);
        let mut block = || {
            let shock = normal(random);
            std::array::from_fn(|_| {
                number += 1.0;
                match self {
                    Self::Normal => 0.03 * normal(random),
                    Self::LogNormal => 0.05 * normal(random).exp(),
                    Self::HeavyTails => 0.03 * heavy(random),
                    Self::Autocorrelated => {
                        state = 0.9 * state + 0.19_f64.sqrt() * normal(random);
                        0.1 * state + 0.01 * normal(random)
                    }
                    Self::SharedByBlock => 0.2 * shock + 0.03 * normal(random),
                    Self::HalfShared => 0.03 * (shock + normal(random)) / 2.0_f64.sqrt(),
                    Self::Outliers => 0.03 * normal(random) + outlier(random),
                    Self::Trend => 0.01 * number + 0.03 * normal(random),
                }
            })
        };
        (0..blocks).map(|_| block()).collect()
    }
}

/// A normal variate, by the method of Box and Muller.
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.unit().max(1e-300).ln()).sqrt();
    radius * (TAU * random.unit()).cos()
}

/// Student's t with two degrees of freedom: normal ÷ the root of an exponential.
pub fn heavy(random: &mut Random) -> f64 {
    normal(random) / (-random.unit().max(1e-300).ln()).sqrt()
}

fn outlier(random: &mut Random) -> f64 {
    if random.chance(0.1) { 0.2 + 0.6 * random.unit() } else { 0.0 }
}

/// First-order autoregression with deviation 1.
pub fn autocorrelated(count: usize, memory: f64, random: &mut Random) -> Vec<f64> {
    let mut state = normal(random);
    let next = |_| {
        let now = state;
        state = memory * state + (1.0 - memory * memory).sqrt() * normal(random);
        now
    };
    (0..count).map(next).collect()
}
