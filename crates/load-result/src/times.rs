//! Summaries of time distributions.

use breme_stats::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Distribution of a time, in nanoseconds; percentiles of all samples, to three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSummary {
    /// Number of samples.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stdev_ns: f64,
    /// Minimum.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 75th percentile.
    pub p75_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Number of samples above the upper limit of the histogram, one hour.
    pub saturated: u64,
}

/// Distribution of the lateness of requests, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

/// A bin of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramBin {
    /// Lower limit, exclusive except in the first bin.
    pub from_ns: u64,
    /// Upper limit, inclusive.
    pub to_ns: u64,
    /// Number of times between the limits.
    pub count: u64,
}

impl TimeSummary {
    #[must_use]
    pub fn from_histogram(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            mean_ns: histogram.mean(),
            stdev_ns: histogram.stdev(),
            min_ns: histogram.min(),
            p50_ns: histogram.quantile(0.5),
            p75_ns: histogram.quantile(0.75),
            p90_ns: histogram.quantile(0.9),
            p95_ns: histogram.quantile(0.95),
            p99_ns: histogram.quantile(0.99),
            p999_ns: histogram.quantile(0.999),
            max_ns: histogram.max(),
            saturated: histogram.saturated(),
        }
    }
}
