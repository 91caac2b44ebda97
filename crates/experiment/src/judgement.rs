//! What the records of a run show. This is what a report renders; it has a published schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All that a run shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// The answer to the experiment's question, in a sentence.
    pub answer: String,
    /// What the answer rests on, with numbers and intervals, and what could not be used; may be empty.
    pub grounds: String,
    /// Each hypothesis, in the plan's order.
    pub hypotheses: Vec<HypothesisJudgement>,
    /// Each pair of levels of each factor, for each measure of the plan, the other factors being equal.
    pub comparisons: Vec<Comparison>,
    /// How much a measure differed between two trials of the same combination (A/A).
    pub noise: Vec<NoiseFloor>,
    /// The table of the run: each measure at each combination of levels.
    pub tables: Vec<MeasureTable>,
    /// Operational laws, checked on closed trials.
    pub laws: Vec<LawCheck>,
    /// Searches for a failure point.
    pub searches: Vec<SearchOutcome>,
    /// Models, and how well they predicted what they had not seen.
    pub models: Vec<ModelOutcome>,
    /// How many trials there are, and how many count.
    pub trials: TrialCounts,
    /// What may make a result wrong or incomplete.
    pub warnings: Vec<String>,
    /// What is worth knowing and changes no result.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How many trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialCounts {
    /// Planned.
    pub planned: u32,
    /// Run; those that were run several times count once, and the last stands.
    pub run: u32,
    /// How often one was run again, because it was INVALID.
    #[serde(default)]
    pub repeated: u32,
    /// That count.
    pub counted: u32,
    /// Failed.
    pub failed: u32,
    /// INVALID.
    pub invalid: u32,
    /// Not steady; they count.
    pub unsteady: u32,
    /// Blocks that are complete.
    pub blocks: u32,
}

/// A verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The claim holds.
    Supported,
    /// The opposite holds.
    Refuted,
    /// The two sides differ by less than matters.
    PracticallyEqual,
    /// The data do not say.
    Undecided {
        /// About this many more blocks would probably decide; none if that cannot be estimated.
        more_blocks: Option<u32>,
    },
    /// There is nothing to judge by.
    #[default]
    NoData,
}

/// What became of a hypothesis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HypothesisJudgement {
    /// In the words of the plan.
    pub says: String,
    /// As it was checked.
    pub expect: String,
    /// Of all its cases together: supported if every case is, refuted if any is.
    pub verdict: Verdict,
    /// In a sentence, with the numbers.
    pub sentence: String,
    /// The number that decides, with its interval and the bound that was claimed; empty without data.
    #[serde(default)]
    pub finding: String,
    /// What the finding rests on: both sides, the number of blocks and of combinations, and what is missing.
    #[serde(default)]
    pub basis: String,
    /// Each combination of the levels that it leaves open; one if it leaves none open.
    pub cases: Vec<Case>,
}

/// A hypothesis at one combination of the levels that it leaves open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// These levels.
    pub levels: BTreeMap<String, String>,
    /// What was seen.
    pub verdict: Verdict,
    /// Left ÷ right (or left − right) over the blocks, as it was tested: 1 (or 0) is the bound of the claim.
    pub effect: Effect,
    /// The same for readers, relative to the other side without its constant factor. None without data.
    #[serde(default)]
    pub finding: Option<Finding>,
    /// Why, if it needs a reason.
    pub reason: Option<String>,
}

/// The result of a case as readers ask for it. Of `rate(a) > 1.2 * rate(b)` it is `rate(a)` ÷ `rate(b)`, claimed to be
/// more than 1.2; of `p99(a) < 10 ms` it is `p99(a)` itself, claimed to be less than 10 ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What the numbers below are.
    pub kind: FindingKind,
    /// What is measured: `rate(user) [server=a]`.
    pub of: String,
    /// What it is relative to; empty for a value.
    pub relative_to: String,
    /// The unit of the numbers below: `s`, `/s`, `B`, `B/s`, `share`; empty for a ratio and for a plain number.
    pub unit: String,
    /// The estimate.
    pub center: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
    /// What was claimed of it: `<`, `>`, `≈` or `!=` …
    pub relation: String,
    /// … this.
    pub bound: f64,
    /// What was claimed, in words: "more than 1.2".
    pub claimed: String,
    /// In words, without the claim: "`rate(user)` with a is 1.01 times (0.99–1.10) that with b".
    pub sentence: String,
}

/// What the numbers of a finding are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// One side ÷ the other.
    #[default]
    Ratio,
    /// One side − the other, where a ratio has no meaning.
    Difference,
    /// The measured side itself, where the other one is a number.
    Value,
}

/// How two things differ, over the blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// What the numbers below are.
    pub scale: Scale,
    /// The estimate: the mean (of a ratio, the geometric mean), from eight blocks on without the lowest and the highest
    /// eighth; none without data.
    pub center: Option<f64>,
    /// The lower end of the interval, which allows for repeated looks at the run.
    pub low: Option<f64>,
    /// The upper end of the interval.
    pub high: Option<f64>,
    /// The confidence of the interval, from 0 to 1: of all looks at the run together. 0 for a single block.
    pub confidence: f64,
    /// The p-value, two-sided and corrected for repeated looks: at most 1 − the confidence exactly if the interval
    /// excludes "no difference" (of a claim of equality: lies within the band of equality, or outside of it). None with
    /// fewer than five blocks, and for what is counted and held against a number.
    pub p: Option<f64>,
    /// The same after Holm, over all hypotheses of the experiment.
    pub p_holm: Option<f64>,
    /// The same for what nobody claimed beforehand, after Benjamini and Hochberg, over all comparisons of the
    /// experiment.
    #[serde(default)]
    pub p_discovery: Option<f64>,
    /// The noise floor that it had to exceed, on the same scale (a ratio above 1, or a difference).
    pub floor: Option<f64>,
    /// Practically equal within this: 0.02 is ±2 %.
    pub equal_within: f64,
    /// Each block.
    pub blocks: Vec<BlockPair>,
}

/// What the numbers of an effect are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Left ÷ right: 1 is no difference.
    #[default]
    Ratio,
    /// Left − right, where a ratio has no sense: 0 is no difference.
    Difference,
}

/// Both sides in one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockPair {
    /// The block.
    pub block: u32,
    /// The left side.
    pub left: f64,
    /// The right side.
    pub right: f64,
}

/// Two levels of one factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The measure, as the plan writes it: `p99(user)`.
    pub measure: String,
    /// The factor.
    pub factor: String,
    /// The level on the left.
    pub left: String,
    /// The level on the right.
    pub right: String,
    /// The levels of the other factors.
    pub at: BTreeMap<String, String>,
    /// `Supported`: they differ; practically equal; or undecided.
    pub verdict: Verdict,
    /// Left ÷ right.
    pub effect: Effect,
    /// In words: "a is 23 % (20–26 %) faster than b".
    pub sentence: String,
}

/// How much two trials of the same combination differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseFloor {
    /// The measure.
    pub measure: String,
    /// The combination that was run twice.
    pub levels: BTreeMap<String, String>,
    /// Second ÷ first.
    pub effect: Effect,
    /// Whether the two were called different: then so may other things that are alike.
    pub is_biased: bool,
}

/// One measure at every combination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureTable {
    /// The measure, as the plan writes it.
    pub measure: String,
    /// Its unit: `s`, `/s`, `B`, `B/s`, `share`, or nothing.
    pub unit: String,
    /// Whether less is better, if that can be said.
    pub less_is_better: Option<bool>,
    /// Its rows.
    pub rows: Vec<MeasureRow>,
}

/// A measure at one combination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureRow {
    /// The combination.
    pub levels: BTreeMap<String, String>,
    /// The median over the blocks.
    pub center: Option<f64>,
    /// Its interval's lower end.
    pub low: Option<f64>,
    /// Its interval's upper end.
    pub high: Option<f64>,
    /// Each trial that counts: block and value.
    pub values: Vec<(u32, f64)>,
    /// What was published for it.
    pub published: Option<Published>,
}

/// A published figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The figure, in the table's unit.
    pub value: f64,
    /// Where it stands.
    pub source: String,
}

/// An operational law, checked on the trials of one combination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LawCheck {
    /// The trial's number.
    pub trial: u32,
    /// The workload.
    pub workload: String,
    /// `N`: users.
    pub users: f64,
    /// `X·(R+Z+H)`: users as the measured rate and times (response, thinking, waiting for the generator) have it.
    pub users_by_law: f64,
    /// The share of the time of a user who does not think for which its answer was there, and waited for the generator.
    #[serde(default)]
    pub held_share: f64,
    /// Whether they agree as well as they must.
    pub agrees: bool,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchOutcome {
    /// The factor that was turned up.
    pub factor: String,
    /// The condition that was looked for.
    pub until: String,
    /// The levels of the other factors.
    pub at: BTreeMap<String, String>,
    /// It did not fail here …
    pub holds_at: Option<f64>,
    /// … and failed here. None: it never failed within the range.
    pub fails_at: Option<f64>,
    /// Having failed, it held again only here, below `holds_at` (hysteresis). None: it held again at `holds_at`.
    #[serde(default)]
    pub recovers_at: Option<f64>,
    /// Whether longer trials confirmed both ends.
    pub is_confirmed: bool,
    /// Levels that were abandoned because most of their trials did not count (INVALID), ascending.
    #[serde(default)]
    pub abandoned: Vec<f64>,
    /// Each trial of it: level, whether it failed, the trial's number.
    pub steps: Vec<SearchStep>,
    /// In words.
    pub sentence: String,
}

/// A trial of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchStep {
    /// The level.
    pub level: f64,
    /// Whether the condition was met; none if the trial does not count.
    pub failed: Option<bool>,
    /// The trial.
    pub trial: u32,
    /// A longer one, that confirms.
    pub is_confirmation: bool,
}

/// A model that was fitted to part of the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOutcome {
    /// `Universal Scalability Law`, `Amdahl`, `linear`, `exact MVA`.
    pub name: String,
    /// The measure.
    pub measure: String,
    /// The factor on the x axis.
    pub factor: String,
    /// The levels of the other factors.
    pub at: BTreeMap<String, String>,
    /// Its parameters by name.
    pub parameters: BTreeMap<String, f64>,
    /// AICc, of models that were fitted to the same data; the smallest is the best.
    pub aicc: Option<f64>,
    /// Whether it is the best of those that were compared.
    pub is_best: bool,
    /// Each level: measured, said by the model, and whether the fit had seen it.
    pub points: Vec<ModelPoint>,
    /// Mean of |predicted ÷ measured − 1| over the levels that the fit had not seen.
    pub prediction_error: Option<f64>,
    /// In words.
    pub sentence: String,
}

/// A level of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelPoint {
    /// The level.
    pub level: f64,
    /// What was measured, if anything was.
    pub measured: Option<f64>,
    /// What the model says.
    pub predicted: f64,
    /// Whether it was left out of the fit.
    pub is_held_out: bool,
}
