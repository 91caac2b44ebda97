//! A measure at a combination in two runs: the row of a comparison, with the verdict of the gate.

use breme_experiment::plan::PlanMeasure;
use breme_stats::{rank_sum_p_above, rank_sum_p_min, welch_p_above};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judgement::Scale;
use crate::levels::Levels;

/// Difference of a measure between the runs, gated or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunVerdict {
    /// Significantly worse.
    Worse,
    /// Significantly better.
    Better,
    /// Significantly different, for a measure without a better direction.
    Different,
    /// The difference is too small to matter.
    PracticallyEqual,
    /// The data do not decide.
    #[default]
    Undecided,
}

/// A measure at a combination, in both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// The measure.
    pub measure: String,
    /// Unit: `s`, `/s`, `B`, `B/s`, `share`, or empty.
    pub unit: String,
    /// The combination.
    pub levels: Levels,
    /// Difference between the runs.
    pub verdict: RunVerdict,
    /// Verdict of the gate; null if the row is not gated.
    pub gated: Option<Gated>,
    /// Median over the blocks of the earlier run.
    pub before: Option<f64>,
    /// Median over the blocks of the later run.
    pub after: Option<f64>,
    /// Number of blocks of the earlier run.
    pub blocks_before: usize,
    /// Number of blocks of the later run.
    pub blocks_after: usize,
    /// Number of blocks of the earlier run in which a trial failed.
    #[serde(default)]
    pub failed_before: usize,
    /// Number of blocks of the later run in which a trial failed; with one the row cannot be not worse.
    #[serde(default)]
    pub failed_after: usize,
    /// Number of blocks of the earlier run in which a trial was INVALID, and none failed.
    #[serde(default)]
    pub invalid_before: usize,
    /// Number of blocks of the later run in which a trial was INVALID, and none failed.
    #[serde(default)]
    pub invalid_after: usize,
    /// Kind of the three numbers below.
    pub scale: Scale,
    /// Estimate: after ÷ before, or after − before.
    pub center: Option<f64>,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Confidence level of the interval.
    pub confidence: f64,
    /// p-value of no difference (two-sided).
    pub p: Option<f64>,
    /// The same after Benjamini and Hochberg's correction over all rows.
    pub p_discovery: Option<f64>,
    /// Noise floor (A/A) that the effect had to exceed: the larger one of the two runs.
    pub floor: Option<f64>,
    /// The result in words.
    pub sentence: String,
}

/// Verdict of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateVerdict {
    /// Not worse: the whole interval is within the margin.
    NotWorse,
    /// Worse: the whole interval is beyond the margin.
    Worse,
    /// Neither is demonstrated.
    #[default]
    NoVerdict,
}

/// Verdict of the gate on a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gated {
    /// Verdict.
    pub verdict: GateVerdict,
    /// How much worse the measure may be: a share of the earlier value, or percentage points if the measure is a share.
    pub margin: f64,
    /// Allowed range of the interval, in words: `≤ 1.050`.
    pub allowed: String,
    /// One-sided p-value of the null hypothesis that the later run is worse by at most the margin.
    pub p_worse: Option<f64>,
    /// The same after Holm's correction over all gated rows.
    pub p_worse_holm: Option<f64>,
    /// Value of the worst block of the later run, if it is worse than every block of the earlier one by more than the
    /// margin: then the row cannot be not worse. Only for counts and shares of exceptions such as errors.
    #[serde(default)]
    pub exception: Option<f64>,
    /// Probability that this row passes if both systems are equal, with this scatter.
    pub power: Option<f64>,
}

/// A row with its input data.
pub(crate) struct Drafted {
    pub(crate) measure: PlanMeasure,
    pub(crate) row: RunRow,
    /// The margin of the gate, if it is gated.
    pub(crate) margin: Option<f64>,
    /// The values of both runs on the scale of the comparison: logarithms, or unchanged.
    pub(crate) before: Vec<f64>,
    pub(crate) after: Vec<f64>,
    /// The worst block of each run, on the same scale; only for counts and shares of exceptions.
    pub(crate) worst: Option<[f64; 2]>,
    /// The blocks that do not count, in words.
    pub(crate) uncounted: Vec<String>,
    /// Why one of the runs has no value.
    pub(crate) lack: Option<String>,
}

impl Drafted {
    /// Converts a share of the earlier value to the scale of the comparison.
    pub(crate) fn share_on_scale(&self, share: f64) -> f64 {
        if self.row.scale == Scale::Ratio { share.ln_1p() } else { share * self.row.before.unwrap_or_default().abs() }
    }

    /// Centre and ends of the interval on the scale of the comparison; 0 is no difference.
    pub(crate) fn interval(&self) -> Option<[f64; 3]> {
        let ends = [self.row.center?, self.row.low?, self.row.high?];
        Some(ends.map(|end| self.row.scale.transform(end)))
    }

    /// The distance from 0 that an effect must exceed to be more than noise between two trials of the same combination.
    pub(crate) fn floor(&self) -> f64 {
        self.row.floor.map_or(0.0, |floor| self.row.scale.transform(floor))
    }
}

/// One-sided p-value of `first` exceeding `second` by more than `bound`, as one of `questions` tests. By ranks; if
/// their smallest possible p-value is too large for that number of tests, by Welch's test. The choice depends only on
/// the numbers of blocks and tests, on nothing measured.
pub(crate) fn p_above(first: &[f64], second: &[f64], bound: f64, questions: usize, confidence: f64) -> Option<f64> {
    let least = 2.0 * rank_sum_p_min(first.len(), second.len()) * questions as f64;
    if least <= 1.0 - confidence + 1e-9 {
        rank_sum_p_above(first, second, bound)
    } else {
        welch_p_above(first, second, bound)
    }
}
