//! The result of judging a run's records, which reports render. It has a published schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Answer to the experiment's question, in a sentence.
    pub answer: String,
    /// Basis of the answer, with numbers and intervals, and the data that could not be used; may be empty.
    pub grounds: String,
    /// The hypotheses, in the order of the plan.
    pub hypotheses: Vec<HypothesisJudgement>,
    /// Comparisons of each pair of levels of each factor, for each measure, with the other factors equal: at most 500,
    /// the decided ones and the largest differences first.
    pub comparisons: Vec<Comparison>,
    /// Confidence level of the plan, from 0 to 1; 0 in documents of earlier versions.
    #[serde(default)]
    pub confidence: f64,
    /// Number of comparisons by verdict, with those that are not in the list; absent in documents of earlier versions.
    #[serde(default)]
    pub comparison_counts: Option<ComparisonCounts>,
    /// Differences between the two trials of the A/A pair, for each measure.
    pub noise: Vec<NoiseFloor>,
    /// Each measure at each combination of levels.
    pub tables: Vec<MeasureTable>,
    /// Checks of operational laws on trials with closed loops.
    pub laws: Vec<LawCheck>,
    /// Searches for a failure point.
    pub searches: Vec<SearchOutcome>,
    /// Models, with the error of their predictions.
    pub models: Vec<ModelOutcome>,
    /// Counts of trials.
    pub trials: TrialCounts,
    /// Conditions that may make a result wrong or incomplete.
    pub warnings: Vec<String>,
    /// Other remarks, which affect no result.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Counts of trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialCounts {
    /// Number of planned trials.
    pub planned: u32,
    /// Number of trials run; a repeated trial counts once, with its last attempt.
    pub run: u32,
    /// Number of repeats of INVALID trials.
    #[serde(default)]
    pub repeated: u32,
    /// Number of trials that count.
    pub counted: u32,
    /// Number of failed trials.
    pub failed: u32,
    /// Number of INVALID trials.
    pub invalid: u32,
    /// Number of trials that were not steady; they count.
    pub unsteady: u32,
    /// Number of complete blocks.
    pub blocks: u32,
}

/// A verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The claim is supported.
    Supported,
    /// The claim is refuted: its opposite is supported.
    Refuted,
    /// The difference between the two sides is too small to matter.
    PracticallyEqual,
    /// The data do not decide.
    Undecided {
        /// Estimated number of additional blocks for a verdict; null if it cannot be estimated.
        more_blocks: Option<u32>,
    },
    /// No data.
    #[default]
    NoData,
}

impl Verdict {
    /// Its name in reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::PracticallyEqual => "practically-equal",
            Self::Undecided { .. } => "undecided",
            Self::NoData => "no-data",
        }
    }
}

/// Result of a hypothesis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HypothesisJudgement {
    /// The claim in the words of the plan.
    pub says: String,
    /// The claim as an expression.
    pub expect: String,
    /// Verdict on all cases together: supported if every case is, refuted if any is.
    pub verdict: Verdict,
    /// The result in a sentence, with the numbers.
    pub sentence: String,
    /// The decisive number, with its interval and the claimed bound; empty without data.
    #[serde(default)]
    pub finding: String,
    /// Basis of the finding: both sides, the number of blocks and combinations, missing data.
    #[serde(default)]
    pub basis: String,
    /// One case for each combination of the levels that the claim leaves open; a single case if it leaves none open.
    pub cases: Vec<Case>,
}

/// A hypothesis at one combination of the levels that it leaves open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// The combination.
    pub levels: BTreeMap<String, String>,
    /// Verdict on this case.
    pub verdict: Verdict,
    /// Left ÷ right (or left − right) over the blocks, as tested: 1 (or 0) is the bound of the claim.
    pub effect: Effect,
    /// The same for readers: relative to the other side without its constant factor. Null without data.
    #[serde(default)]
    pub finding: Option<Finding>,
    /// Reason for the verdict, if it needs one.
    pub reason: Option<String>,
}

/// Result of a case for readers: for `rate(a) > 1.2 * rate(b)`, `rate(a)` ÷ `rate(b)`, claimed to be more than 1.2; for
/// `p99(a) < 10 ms`, `p99(a)` itself, claimed to be less than 10 ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Kind of the numbers below.
    pub kind: FindingKind,
    /// The measure: `rate(user) [server=a]`.
    pub of: String,
    /// The measure that it is relative to; empty for a value.
    pub relative_to: String,
    /// Unit of the numbers below: `s`, `/s`, `B`, `B/s`, `share`; empty for a ratio and for a plain number.
    pub unit: String,
    /// Estimate.
    pub center: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Claimed relation to the bound: `<`, `>`, `≈` or `!=`.
    pub relation: String,
    /// Claimed bound.
    pub bound: f64,
    /// Whether the bound is the left side of the claim: then the effect is bound ÷ value, or bound − value.
    #[serde(default)]
    pub is_turned: bool,
    /// The claim in words: "more than 1.2".
    pub claimed: String,
    /// The finding in words, without the claim: "`rate(user)` with a is 1.01 times (0.99–1.10) that with b".
    pub sentence: String,
}

/// Kind of the numbers of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// One side ÷ the other.
    #[default]
    Ratio,
    /// One side − the other, if a ratio is not meaningful.
    Difference,
    /// The measured side itself, if the other side is a number.
    Value,
}

/// Difference between two sides, over the blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Kind of the numbers below.
    pub scale: Scale,
    /// Estimate: the mean (of a ratio, the geometric mean), from eight blocks on trimmed by an eighth at each end; null
    /// without data.
    pub center: Option<f64>,
    /// Lower end of the interval, which allows for repeated looks at the run.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Confidence level of the intervals of all looks at the run together, from 0 to 1; 0 for a single block.
    pub confidence: f64,
    /// p-value, two-sided and corrected for repeated looks: at most 1 − the confidence level exactly if the interval
    /// excludes "no difference" (for a claim of equality: is inside the band of equality, or outside it). Null with
    /// fewer than five blocks, and for a count compared with a number.
    pub p: Option<f64>,
    /// p-value after Holm's correction over all hypotheses of the experiment.
    pub p_holm: Option<f64>,
    /// p-value after Benjamini and Hochberg's correction over all comparisons of the experiment; for differences that
    /// no hypothesis claims.
    #[serde(default)]
    pub p_discovery: Option<f64>,
    /// Noise floor that the effect had to exceed, on the same scale (a ratio above 1, or a difference).
    pub floor: Option<f64>,
    /// Differences below this share are practically equal: 0.02 is ±2 %.
    pub equal_within: f64,
    /// Both sides in each block.
    pub blocks: Vec<BlockPair>,
}

/// Kind of the numbers of an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Left ÷ right; 1 is no difference.
    #[default]
    Ratio,
    /// Left − right, if a ratio is not meaningful; 0 is no difference.
    Difference,
}

impl Scale {
    /// One side against the other: left ÷ right, or left − right.
    #[must_use]
    pub fn compare(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Ratio => left / right,
            Self::Difference => left - right,
        }
    }

    /// The value as it is judged: the logarithm of a ratio, so that 0 is no difference.
    pub(crate) fn transform(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.ln(),
            Self::Difference => value,
        }
    }

    /// Converts back what [`Scale::transform`] has converted.
    pub(crate) fn restore(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Difference => value,
        }
    }
}

/// Both sides in one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockPair {
    /// Number of the block.
    pub block: u32,
    /// Value of the left side.
    pub left: f64,
    /// Value of the right side.
    pub right: f64,
}

/// Comparison of two levels of a factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The measure, as in the plan: `p99(user)`.
    pub measure: String,
    /// The factor.
    pub factor: String,
    /// Level on the left.
    pub left: String,
    /// Level on the right.
    pub right: String,
    /// Levels of the other factors.
    pub at: BTreeMap<String, String>,
    /// Supported (they differ), practically equal, or undecided.
    pub verdict: Verdict,
    /// Effect, left ÷ right.
    pub effect: Effect,
    /// The result in words: "a is 23 % (20–26 %) faster than b".
    pub sentence: String,
}

/// Number of comparisons by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonCounts {
    /// The levels differ.
    pub different: usize,
    /// Practically equal.
    pub equal: usize,
    /// Undecided.
    pub undecided: usize,
    /// No data.
    pub no_data: usize,
}

impl ComparisonCounts {
    /// Counts the verdicts.
    #[must_use]
    pub fn of(comparisons: &[Comparison]) -> Self {
        let mut counts = Self::default();
        for comparison in comparisons {
            *match comparison.verdict {
                Verdict::Supported | Verdict::Refuted => &mut counts.different,
                Verdict::PracticallyEqual => &mut counts.equal,
                Verdict::Undecided { .. } => &mut counts.undecided,
                Verdict::NoData => &mut counts.no_data,
            } += 1;
        }
        counts
    }

    /// All of them.
    #[must_use]
    pub const fn all(&self) -> usize {
        self.different + self.equal + self.undecided + self.no_data
    }
}

/// Difference between two trials of the same combination (A/A).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseFloor {
    /// The measure.
    pub measure: String,
    /// The combination that runs twice in each block.
    pub levels: BTreeMap<String, String>,
    /// Effect, second ÷ first.
    pub effect: Effect,
    /// Whether the two differ significantly; other differences of this run may then be noise too.
    pub is_biased: bool,
}

/// A measure at every combination of levels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureTable {
    /// The measure, as in the plan.
    pub measure: String,
    /// Unit: `s`, `/s`, `B`, `B/s`, `share`, or empty.
    pub unit: String,
    /// Whether smaller values are better; null if neither direction is.
    pub less_is_better: Option<bool>,
    /// The rows, one for each combination.
    pub rows: Vec<MeasureRow>,
}

/// A measure at a combination of levels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureRow {
    /// The combination.
    pub levels: BTreeMap<String, String>,
    /// Median over the blocks.
    pub center: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Block and value of each trial that counts.
    pub values: Vec<(u32, f64)>,
    /// Published figure; null if there is none.
    pub published: Option<Published>,
}

/// A published figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The figure, in the unit of the table.
    pub value: f64,
    /// Its source.
    pub source: String,
}

/// Check of an operational law on a trial with a closed loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LawCheck {
    /// Number of the trial.
    pub trial: u32,
    /// The workload.
    pub workload: String,
    /// `N`: number of users.
    pub users: f64,
    /// `X·(R+Z+H)`: number of users computed from the measured rate and times (response, think time, waiting for the
    /// generator).
    pub users_by_law: f64,
    /// Share of a user's time, without thinking, in which its response had arrived and waited for the generator.
    #[serde(default)]
    pub held_share: f64,
    /// Whether the two numbers of users agree within the tolerance.
    pub agrees: bool,
}

/// Result of a search for a failure point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchOutcome {
    /// The factor that was increased.
    pub factor: String,
    /// The condition.
    pub until: String,
    /// Levels of the other factors.
    pub at: BTreeMap<String, String>,
    /// Highest level at which the condition was false; null if there was none.
    pub holds_at: Option<f64>,
    /// Lowest level at which the condition was true; null if it was false over the whole range.
    pub fails_at: Option<f64>,
    /// Level at which the condition became false again after a failure, if it is below `holds_at` (hysteresis);
    /// otherwise null.
    #[serde(default)]
    pub recovers_at: Option<f64>,
    /// Whether longer trials confirmed both levels.
    pub is_confirmed: bool,
    /// Levels abandoned because most of their trials were INVALID, ascending.
    #[serde(default)]
    pub abandoned: Vec<f64>,
    /// The trials of the search.
    pub steps: Vec<SearchStep>,
    /// The result in words.
    pub sentence: String,
}

/// A trial of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchStep {
    /// Level.
    pub level: f64,
    /// Whether the condition was true; null if the trial does not count.
    pub failed: Option<bool>,
    /// Number of the trial.
    pub trial: u32,
    /// Whether it is a longer trial, which confirms the result.
    pub is_confirmation: bool,
}

/// A model fitted to a part of the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOutcome {
    /// Name: `Universal Scalability Law`, `Amdahl`, `linear` or `exact MVA`.
    pub name: String,
    /// The measure.
    pub measure: String,
    /// The factor on the x axis.
    pub factor: String,
    /// Levels of the other factors.
    pub at: BTreeMap<String, String>,
    /// Parameters, by name.
    pub parameters: BTreeMap<String, f64>,
    /// AICc, for comparison with models fitted to the same data; smaller is better.
    pub aicc: Option<f64>,
    /// Whether it is the best of the compared models.
    pub is_best: bool,
    /// Measured and predicted value at each level.
    pub points: Vec<ModelPoint>,
    /// Mean of |predicted ÷ measured − 1| over the levels omitted from the fit.
    pub prediction_error: Option<f64>,
    /// The result in words.
    pub sentence: String,
}

/// Measured and predicted value at a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelPoint {
    /// Level.
    pub level: f64,
    /// Measured value; null if there is none.
    pub measured: Option<f64>,
    /// Value predicted by the model.
    pub predicted: f64,
    /// Whether the level was omitted from the fit.
    pub is_held_out: bool,
}
