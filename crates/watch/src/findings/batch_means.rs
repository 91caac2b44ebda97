//! Means of blocks long enough that neighbours are nearly uncorrelated: of the middle half of their values, which is
//! robust against outliers and varies less than the median.
//!
//! A permutation test needs several blocks on each side of a change, however large it is: fewer can be chosen in too
//! few ways. After the correction for the number of tests, five are needed, of 14 blocks as of 28. So 28 are tried
//! first. They are shorter, so less correlation is accepted, and what is left inflates the variance of the test (J.
//! Antoch, M. Hušková, Z. Prášková: *Effect of dependence on statistics for determination of change*, J. Stat. Plan.
//! Inference 60 (1997) 291–310).

/// A way to divide a series into blocks.
struct Division {
    count: usize,
    /// Minimum number of values.
    values_min: usize,
    /// Limit of the autocorrelation of neighbours, in standard deviations.
    deviations: f64,
    /// How much lower the autocorrelation of residuals is than that of the values, by simulation; none: what is left
    /// does not matter.
    bias: Option<f64>,
}

/// From fine to coarse.
const DIVISIONS: [Division; 3] = [
    Division { count: 28, values_min: 112, deviations: 0.5, bias: Some(0.2) },
    Division { count: COARSE_COUNT, values_min: VALUES_MIN, deviations: 1.5, bias: None },
    Division { count: 10, values_min: VALUES_MIN, deviations: 1.5, bias: None },
];
/// More blocks are too correlated for an interval.
const COARSE_COUNT: usize = 14;
/// Minimum number of values for a test.
pub(super) const VALUES_MIN: usize = 28;
/// Minimum number of blocks before and after a change.
pub(super) const EDGE: usize = 3;
/// Changes of level that are removed before the autocorrelation is computed.
const STEPS_REMOVED: usize = 2;

/// Batch means of a series.
pub(super) struct BatchMeans {
    /// Median time and mean of each block.
    pub(super) blocks: Vec<(f64, f64)>,
    /// How much the correlation of neighbours increases the variance of a sum of the means.
    pub(super) inflation: f64,
}

impl BatchMeans {
    /// None if neighbours are correlated in every division.
    pub(super) fn from_values(values: &[(f64, f64)]) -> Option<Self> {
        DIVISIONS.iter().filter(|division| values.len() >= division.values_min).find_map(|division| {
            let blocks = block_means(values, division.count);
            let correlation = autocorrelation(&residuals(&blocks));
            // Autocorrelations of independent values have a standard deviation of 1 ÷ √count.
            let is_small = correlation < division.deviations / (division.count as f64).sqrt();
            let left = division.bias.map_or(0.0, |bias| (correlation + bias).max(0.0));
            is_small.then(|| Self { blocks, inflation: (1.0 + left) / (1.0 - left) })
        })
    }

    /// The blocks for an interval, which has no allowance for a correlation: coarse ones.
    pub(super) fn into_coarse(self, values: &[(f64, f64)]) -> Vec<(f64, f64)> {
        if self.blocks.len() > COARSE_COUNT { block_means(values, COARSE_COUNT) } else { self.blocks }
    }
}

/// Median time and mean of each of `count` blocks.
fn block_means(values: &[(f64, f64)], count: usize) -> Vec<(f64, f64)> {
    let each = |index: usize| values.len() * index / count;
    let block = |index: usize| {
        let block = &values[each(index)..each(index + 1)];
        let (mut times, mut levels): (Vec<f64>, Vec<f64>) = block.iter().copied().unzip();
        (median(&mut times), interquartile_mean(&mut levels))
    };
    (0..count).map(block).collect()
}

fn interquartile_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let outside = values.len() / 4;
    let middle = &values[outside..values.len() - outside];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

/// The residuals after removing a line or up to [`STEPS_REMOVED`] changes of level, whichever leaves less.
fn residuals(blocks: &[(f64, f64)]) -> Vec<f64> {
    let slope = slope(blocks);
    let mut by_line: Vec<f64> = blocks.iter().map(|(x, y)| y - slope * x).collect();
    centre(&mut by_line);
    let mut by_steps: Vec<f64> = blocks.iter().map(|(_, y)| *y).collect();
    let mut bounds = vec![0, by_steps.len()];
    for _ in 0..STEPS_REMOVED {
        let parts = bounds.windows(2).map(|part| (part[0], part[1]));
        let best = parts.filter_map(|(from, to)| Some((from, best_split(&by_steps[from..to])?)));
        let Some((from, (at, _))) = best.max_by(|a, b| a.1.1.total_cmp(&b.1.1)) else { break };
        bounds.push(from + at);
        bounds.sort_unstable();
    }
    for part in bounds.windows(2) {
        centre(&mut by_steps[part[0]..part[1]]);
    }
    let size = |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>();
    if size(&by_line) <= size(&by_steps) { by_line } else { by_steps }
}

fn centre(values: &mut [f64]) {
    let middle = median(&mut values.to_vec());
    values.iter_mut().for_each(|value| *value -= middle);
}

/// Theil–Sen: the median of the slopes of all pairs.
pub(super) fn slope(blocks: &[(f64, f64)]) -> f64 {
    median(&mut slopes(blocks))
}

fn slopes(blocks: &[(f64, f64)]) -> Vec<f64> {
    let pairs = blocks.iter().enumerate().flat_map(|(index, a)| blocks[index + 1..].iter().map(move |b| (a, b)));
    pairs.filter(|(a, b)| b.0 > a.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect()
}

/// Autocorrelation of neighbours by ranks, which are robust against outliers.
fn autocorrelation(values: &[f64]) -> f64 {
    let ranks = ranks(values);
    let mean = (ranks.len() as f64 - 1.0) / 2.0;
    let covariance: f64 = ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let variance: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

/// The best split of the levels, and the distance of the sum of ranks before it from its mean, in standard deviations.
pub(super) fn best_split(levels: &[f64]) -> Option<(usize, f64)> {
    let ranks = ranks(levels);
    let (count, mean) = (ranks.len() as f64, (ranks.len() as f64 - 1.0) / 2.0);
    let mut sum = 0.0;
    let sums = ranks.iter().enumerate().map(|(index, rank)| {
        sum += rank - mean;
        let before = index as f64 + 1.0;
        (index + 1, sum.abs() / (before * (count - before) * (count + 1.0) / 12.0).max(1e-9).sqrt())
    });
    let inner = sums.filter(|(at, _)| *at >= EDGE && at + EDGE <= ranks.len());
    inner.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Ranks from 0; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = order[from..].iter().take_while(|&&index| values[index] == values[order[from]]).count();
        let shared = from as f64 + (same as f64 - 1.0) / 2.0;
        order[from..from + same].iter().for_each(|&index| ranks[index] = shared);
        from += same;
    }
    ranks
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd { upper } else { f64::midpoint(below.iter().copied().fold(f64::NEG_INFINITY, f64::max), upper) }
}
