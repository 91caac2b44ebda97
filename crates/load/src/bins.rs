//! A distribution in a few bins with round limits, to show its shape.
//!
//! If the bulk of the times spans more than a factor of [`LINEAR_SPAN_MAX`], the limits grow geometrically, by the
//! preferred numbers of each decade; otherwise they are equidistant. The first bin includes everything below the bulk,
//! the last everything above it.

use breme_load_result::HistogramBin;
use breme_stats::Histogram;

pub const BIN_COUNT_MAX: usize = 16;
/// The bulk is between these quantiles.
const BULK: [f64; 2] = [0.001, 0.999];
const LINEAR_SPAN_MAX: f64 = 4.0;
/// Limits within a decade, from fine to coarse.
const DECADES: [&[u32]; 5] = [
    &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800],
    &[100, 160, 250, 400, 630],
    &[100, 200, 500],
    &[100, 300],
    &[100],
];

/// At most `count_max` bins (4 to [`BIN_COUNT_MAX`]) that include every time of the histogram; none if it is empty.
#[must_use]
pub fn bins(times: &Histogram, count_max: usize) -> Vec<HistogramBin> {
    if times.is_empty() {
        return Vec::new();
    }
    let count_max = count_max.clamp(4, BIN_COUNT_MAX);
    let [low, high] = BULK.map(|quantile| times.quantile(quantile).max(1));
    let (min, max) = (times.min(), times.max());
    // One bin is reserved for the times above the bulk.
    let inner = limits(low, high, count_max - 1).into_iter().filter(|limit| (min..max).contains(limit));
    let limits: Vec<u64> = inner.chain([max]).collect();
    let mut bins = Vec::with_capacity(limits.len());
    let (mut from_ns, mut below) = (min, 0);
    for to_ns in limits {
        let up_to = times.count_between(0, to_ns);
        bins.push(HistogramBin { from_ns, to_ns, count: up_to.saturating_sub(below) });
        (from_ns, below) = (to_ns, up_to);
    }
    bins
}

/// At most `count_max` round limits, the first above `low`, the last at least `high`.
fn limits(low: u64, high: u64, count_max: usize) -> Vec<u64> {
    if high as f64 / low as f64 > LINEAR_SPAN_MAX {
        let mut limits = Vec::new();
        for decade in DECADES {
            limits = geometric(low, high, decade);
            if limits.len() <= count_max {
                return limits;
            }
        }
        // Even whole decades are too many: takes every second, third, … one, and the last.
        let every = limits.len().div_ceil(count_max);
        let mut kept: Vec<u64> = limits.into_iter().rev().step_by(every).collect();
        kept.reverse();
        return kept;
    }
    let span = (high - low).max(1);
    let mut steps = (0..).flat_map(|decade| [1, 2, 5].map(|digit| digit * 10_u64.pow(decade)));
    let step = steps.find(|step| span.div_ceil(*step) < count_max as u64).unwrap_or(span);
    let first = low / step + 1;
    let last = high.div_ceil(step).max(first);
    (first..=last).map(|number| number * step).collect()
}

/// The limits of each decade, from the first above `low` to the first that is at least `high`.
fn geometric(low: u64, high: u64, decade: &[u32]) -> Vec<u64> {
    let mut limits = Vec::new();
    let mut power = 1_u64;
    // Times are below 2⁵³ ns, so the products fit.
    loop {
        for digits in decade {
            let limit = u64::from(*digits) * power / 100;
            if limit > low && limits.last() != Some(&limit) {
                limits.push(limit);
            }
            if limit >= high {
                return limits;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(times: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        for (time, count) in times {
            (0..*count).for_each(|_| histogram.record(*time));
        }
        histogram
    }

    fn shown(histogram: &Histogram) -> Vec<(u64, u64, u64)> {
        let bins = bins(histogram, 12);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), histogram.count());
        assert!(bins.len() <= 12 && bins.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{bins:?}");
        bins.iter().map(|bin| (bin.from_ns, bin.to_ns, bin.count)).collect()
    }

    #[test]
    fn narrow_distributions_have_equal_bins() {
        let millis = |tenths: u64| tenths * 100_000;
        let times: Vec<(u64, u64)> = (500..=510).map(|tenths| (millis(tenths), 10)).collect();
        let bins = shown(&histogram(&times));
        assert!(bins.len() >= 5, "{bins:?}");
        let widths: Vec<u64> = bins[1..bins.len() - 1].iter().map(|(from, to, _)| to - from).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{bins:?}");
    }

    #[test]
    fn wide_distributions_have_geometric_bins_with_round_limits() {
        let times: Vec<(u64, u64)> = (0..60).map(|step| ((20_000.0 * 1.1_f64.powi(step)) as u64, 100)).collect();
        let bins = shown(&histogram(&times));
        let limits: Vec<u64> = bins[..bins.len() - 1].iter().map(|(_, to, _)| *to).collect();
        assert!(bins.len() >= 6 && limits.iter().all(|limit| limit % 1_000 == 0), "{bins:?}");
    }

    #[test]
    fn a_rare_outlier_is_in_the_last_bin() {
        let mut histogram = histogram(&(0..100).map(|step| (100_000 + step * 10_000, 100)).collect::<Vec<_>>());
        histogram.record(5_000_000_000);
        let bins = shown(&histogram);
        let (from, to, count) = *bins.last().unwrap();
        assert!(from < 3_000_000 && to >= 5_000_000_000 && count <= 20, "{bins:?}");
    }

    #[test]
    fn any_distribution_fits() {
        assert!(bins(&Histogram::new(), 12).is_empty());
        for time in [0, 1, 7, 1_000, 123_456_789] {
            assert_eq!(shown(&histogram(&[(time, 3)])).len(), 1, "{time}");
        }
        shown(&histogram(&[(0, 1), (1, 1), (1_000_000_000_000, 1)]));
        shown(&histogram(&[(3, 5), (4, 5), (5, 5)]));
        let spread = histogram(&[(30_000, 500), (200_000, 400), (3_000_000, 300), (26_000_000, 1)]);
        let few: Vec<u64> = bins(&spread, 4).iter().map(|bin| bin.count).collect();
        assert_eq!(few, [500, 400, 300, 1], "a low panel shows the shape too");
    }
}
