//! Means of blocks long enough that neighbours are uncorrelated: of the middle half of their values, which is robust
//! against outliers and varies less than the median.

/// Numbers of blocks to try, from fine to coarse.
const COUNTS: [usize; 2] = [14, 10];
/// Limit of the autocorrelation of neighbours, in standard deviations.
const DEVIATIONS: f64 = 1.5;
/// Minimum number of values for a test.
pub(super) const VALUES_MIN: usize = 28;
/// Minimum number of blocks before and after a change.
pub(super) const EDGE: usize = 3;
/// Changes of level that are removed before the autocorrelation is computed.
const STEPS_REMOVED: usize = 2;

/// The batch means with the median time of each block; none if neighbours are correlated at every number of blocks.
pub(super) fn uncorrelated_blocks(values: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    COUNTS.into_iter().map(|count| block_means(values, count)).find(|blocks| {
        // Autocorrelations of independent values have a standard deviation of 1 ÷ √count.
        autocorrelation(&residuals(blocks)) < DEVIATIONS / (blocks.len() as f64).sqrt()
    })
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
