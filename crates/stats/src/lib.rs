//! Histograms of times and their file formats, statistics of a few repetitions, and performance models.
//!
//! | part | what it is |
//! |---|---|
//! | [`Histogram`] | counts of times from 1 ns to 1 h with three significant digits; merging loses nothing |
//! | [`log`] | `.hlog`: one histogram for each interval of a run (HdrHistogram log 1.3, with tags) |
//! | [`jtl`] | `.jtl`: JMeter's result log |
//! | [`go_bench`] | lines in the format of Go's benchmarks, for `benchstat` |
//! | [`Histogram::encode`] | one histogram as a line of text, for records in JSON |
//! | [`write_quantile_text`] | `.hgrm`: the distribution as text, for people and for HdrHistogram's plotters |
//! | [`hodges_lehmann`], [`paired_ratio`] | centre and interval of a few blocks, by signed ranks, for the noise floor and `watch`; verdicts use [`TrimmedMean`] |
//! | [`signed_rank_p`], [`holm()`], [`false_discovery_rates`] | their p-value; corrections for many tests at once |
//! | [`TrimmedMean`], [`Looks`] | centre and interval of a growing number of blocks, by Student's t; the confidence required at each look |
//! | [`student_p`], [`student_quantile`] | Student's distribution |
//! | [`welch_p_above`] | Student's test for the means of two runs |
//! | [`geometric_mean`], [`noise_floor`] | one arm run twice in each block: its value, and how much trials of the same arm differ |
//! | [`rank_sum`] | centre and interval for two runs without common blocks |
//! | [`TheilSen`] | a line through the values of several runs: its slope, with an exact interval |
//! | [`power_of_equal`] | the probability that two equal systems are found equal |
//! | [`more_blocks`] | how many more blocks would probably decide |
//! | [`steady_state`] | where a trial's steady part begins, and whether there is one |
//! | [`scalability`] | rates over users: linear, Amdahl, Universal Scalability Law |
//! | [`queueing_network`] | closed systems from their demands: exact mean value analysis, the interactive response-time law |
//!
//! A quantile of a run is read from the **merged** histogram, never averaged over parts.
//!
//! This crate uses no clock, files or threads: it writes to any [`std::io::Write`] and reads from bytes.
//!
//! ```
//! use breme_stats::Histogram;
//!
//! let mut histogram = Histogram::new();
//! (1..=1_000).for_each(|micros| histogram.record(micros * 1_000));
//! assert_eq!(histogram.count(), 1_000);
//! assert!((histogram.quantile(0.99) as f64 / 990_000.0 - 1.0).abs() < 0.001);
//! ```

mod estimate;
mod false_discovery;
pub mod go_bench;
mod histogram;
mod histogram_text;
mod holm;
pub mod jtl;
pub mod log;
mod looks;
mod normal;
mod p_values;
mod power;
mod quantile_text;
pub mod queueing_network;
pub mod rank_sum;
mod replicates;
mod required_blocks;
pub mod scalability;
mod signed_rank;
pub mod steady_state;
mod student;
mod theil_sen;
mod trimmed_mean;
mod welch;

pub use estimate::Estimate;
pub use false_discovery::false_discovery_rates;
pub use histogram::{Histogram, TIME_NS_MAX};
pub use histogram_text::DecodeError;
pub use holm::holm;
pub use looks::{BLOCKS_MIN, EXTENSION_MAX, Looks};
pub use power::power_of_equal;
pub use quantile_text::write as write_quantile_text;
pub use rank_sum::{rank_sum_p_above, rank_sum_p_min};
pub use replicates::{FLOOR_CONFIDENCE, geometric_mean, noise_floor};
pub use required_blocks::{MORE_BLOCKS_MAX, more_blocks};
pub use signed_rank::{VALUES_MAX, hodges_lehmann, paired_ratio, signed_rank_p};
pub use student::{student_p, student_quantile};
pub use theil_sen::TheilSen;
pub use trimmed_mean::{Trim, TrimmedMean};
pub use welch::welch_p_above;
