//! The gate: is the later run demonstrably not worse?
//!
//! "Not worse" is a claim that must be shown (non-inferiority): the whole interval of a row lies within the margin. A
//! row whose interval extends beyond the margin does not pass, even if that is for lack of data; a gate must not pass
//! what it cannot measure.
//!
//! All gated rows must pass. That is an intersection-union test: each row may be tested at the full level, since a
//! wrong pass requires an error in **every** row that is truly worse; so nothing is corrected, and more rows never make
//! a pass easier (R. L. Berger: *Multiparameter hypothesis testing and acceptance sampling*, Technometrics 24 (1982)
//! 295–300). A single row suffices for "worse", so there the p-values are corrected by Holm over all gated rows.
//!
//! Worse means: the whole interval lies **beyond** the margin, and its corrected p-value is small enough. The
//! alternative (significantly slower, and the estimate beyond the margin) would reject a permitted change in half of
//! the runs if its true effect is just below the margin.
//!
//! | | interval | multiplicity | test |
//! |---|---|---|---|
//! | not worse | ends within the margin | none: every row must pass | ranks |
//! | worse | begins beyond the margin | Holm | ranks, or Welch's where ranks of so few blocks cannot be significant |
//!
//! Ranks describe the typical block. So a row is not "not worse" if a block of the later run failed, nor, if it is
//! about exceptions such as errors, if a later block is worse than every earlier one by more than the margin.

use breme_expression::{Unit, less_is_better_of};
use breme_stats::{holm, power_of_equal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judgement::Scale;
use crate::recorded_run::CompareRules;
use crate::run_row::{Drafted, GateVerdict, Gated, p_above};
use crate::words::{count, difference};

/// Minimum number of blocks in each run for a verdict: four values against four are the smallest samples whose ranks
/// can be significant at 95 %.
pub const BLOCKS_MIN: usize = 4;
/// Power intended by the suggested number of blocks.
const POWER_WANTED: f64 = 0.9;
/// Limit of the suggested blocks in each run.
const BLOCKS_PROPOSED_MAX: usize = 200;

/// Rows, correction and power of the gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateSummary {
    /// Number of gated rows: measures × combinations.
    pub rows: usize,
    /// Number of rows that are not worse.
    pub not_worse: usize,
    /// Number of rows that are worse.
    pub worse: usize,
    /// Probability that two equal systems pass with this scatter and number of blocks, assuming independent rows (they
    /// usually are not, and the probability is higher). Null without intervals.
    pub power: Option<f64>,
    /// Number of blocks in each run for a power of 0.9; null if it is more than 200.
    pub blocks_for_power: Option<usize>,
    /// Rows, correction and power, in a line.
    pub sentence: String,
}

/// The result of the gate.
pub(crate) struct Judged {
    pub(crate) verdict: GateVerdict,
    pub(crate) summary: GateSummary,
}

pub(crate) fn judge(rows: &mut [Drafted], rules: &CompareRules) -> Judged {
    let sided: Vec<Sided> = rows.iter().enumerate().filter_map(|(index, row)| Sided::from_row(index, row)).collect();
    let p_values: Vec<Option<f64>> =
        sided.iter().map(|side| side.p_worse(&rows[side.index], sided.len(), rules.confidence)).collect();
    // One-sided p-values are compared with half of the probability outside the interval.
    let doubled: Vec<f64> = p_values.iter().map(|p| (2.0 * p.unwrap_or(1.0)).min(1.0)).collect();
    let corrected = holm(&doubled);
    for ((side, p), p_holm) in sided.iter().zip(p_values).zip(corrected) {
        let row = &mut rows[side.index];
        let verdict = side.verdict(row, p_holm, rules.confidence);
        row.row.gated = Some(Gated {
            verdict,
            margin: row.margin.unwrap_or_default(),
            allowed: side.allowed(row),
            p_worse: p,
            p_worse_holm: p.map(|_| p_holm / 2.0),
            exception: side.exception(row),
            power: side.power(row, None),
        });
    }
    let number = |wanted| rows.iter().filter(|row| gated(row).is_some_and(|gated| gated.verdict == wanted)).count();
    let mut summary = GateSummary {
        rows: sided.len(),
        not_worse: number(GateVerdict::NotWorse),
        worse: number(GateVerdict::Worse),
        ..GateSummary::default()
    };
    let power = |blocks: Option<usize>| {
        sided.iter().map(|side| side.power(&rows[side.index], blocks)).try_fold(1.0, |all, one| Some(all * one?))
    };
    if !sided.is_empty() {
        summary.power = power(None);
        summary.blocks_for_power = fewest(|blocks| power(Some(blocks)).is_some_and(|power| power >= POWER_WANTED));
    }
    summary.sentence = line(rows, &summary, rules);
    let verdict = match () {
        () if summary.worse > 0 => GateVerdict::Worse,
        () if summary.rows > 0 && summary.not_worse == summary.rows => GateVerdict::NotWorse,
        () => GateVerdict::NoVerdict,
    };
    Judged { verdict, summary }
}

/// The smallest sufficient number of blocks; power only grows with their number.
fn fewest(is_enough: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (BLOCKS_MIN, BLOCKS_PROPOSED_MAX);
    if !is_enough(high) {
        return None;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_enough(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

fn gated(row: &Drafted) -> Option<&Gated> {
    row.row.gated.as_ref()
}

/// A gated row with the direction in which it is worse.
struct Sided {
    index: usize,
    less_is_better: bool,
    /// The margin on the scale of the comparison.
    margin: f64,
}

impl Sided {
    fn from_row(index: usize, row: &Drafted) -> Option<Self> {
        let margin = row.margin?;
        // The plan gates no measure without a known direction.
        let less_is_better = less_is_better_of(&row.measure.expression)?;
        let margin = match row.row.scale {
            Scale::Ratio if less_is_better => margin.ln_1p(),
            Scale::Ratio => -(-margin).ln_1p(),
            Scale::Difference if row.measure.unit == Unit::Share => margin,
            Scale::Difference => margin * row.row.before.unwrap_or_default().abs(),
        };
        Some(Self { index, less_is_better, margin })
    }

    /// How much worse the later run is: the centre, and the better and the worse end of the interval.
    fn loss(&self, row: &Drafted) -> Option<[f64; 3]> {
        let [center, low, high] = row.interval()?;
        Some(if self.less_is_better { [center, low, high] } else { [-center, -high, -low] })
    }

    fn p_worse(&self, row: &Drafted, questions: usize, confidence: f64) -> Option<f64> {
        let (first, second) = if self.less_is_better { (&row.after, &row.before) } else { (&row.before, &row.after) };
        p_above(first, second, self.margin, questions, confidence)
    }

    fn verdict(&self, row: &Drafted, p_holm: f64, confidence: f64) -> GateVerdict {
        let has_blocks = row.row.blocks_before.min(row.row.blocks_after) >= BLOCKS_MIN;
        let Some([center, better_end, worse_end]) = self.loss(row) else { return GateVerdict::NoVerdict };
        if !has_blocks || row.row.confidence < confidence {
            return GateVerdict::NoVerdict;
        }
        if worse_end <= self.margin {
            let has_bad_block = row.row.failed_after > 0 || self.exception(row).is_some();
            return if has_bad_block { GateVerdict::NoVerdict } else { GateVerdict::NotWorse };
        }
        let is_likely = p_holm <= 1.0 - confidence + 1e-9;
        if is_likely && better_end > self.margin && center > row.floor() {
            GateVerdict::Worse
        } else {
            GateVerdict::NoVerdict
        }
    }

    /// The worst block of the later run, if it is worse than every earlier one by more than the margin.
    fn exception(&self, row: &Drafted) -> Option<f64> {
        let [before, after] = row.worst?;
        let loss = if self.less_is_better { after - before } else { before - after };
        (loss > self.margin).then(|| row.row.scale.restore(after))
    }

    fn allowed(&self, row: &Drafted) -> String {
        let margin = row.margin.unwrap_or_default();
        match (row.row.scale, self.less_is_better) {
            (Scale::Ratio, true) => format!("≤ {:.3}", 1.0 + margin),
            (Scale::Ratio, false) => format!("≥ {:.3}", 1.0 - margin),
            (Scale::Difference, true) => format!("≤ {}", difference(self.margin, row.measure.unit)),
            (Scale::Difference, false) => format!("≥ {}", difference(-self.margin, row.measure.unit)),
        }
    }

    /// The probability that the row passes if both systems are equal, given the observed scatter, optionally with
    /// another number of blocks in each run.
    fn power(&self, row: &Drafted, blocks: Option<usize>) -> Option<f64> {
        let [_, better_end, worse_end] = self.loss(row)?;
        let now = (row.row.blocks_before, row.row.blocks_after);
        let freedom = |(before, after): (usize, usize)| (before + after).saturating_sub(2).max(1);
        let half = (worse_end - better_end) / 2.0;
        let confidence = row.row.confidence;
        let Some(blocks) = blocks else { return Some(power_of_equal(half, freedom(now), confidence, self.margin)) };
        // The half width is a quantile times the deviation of the centre, which shrinks with the number of blocks.
        let spread = |(before, after): (usize, usize)| (1.0 / before as f64 + 1.0 / after as f64).sqrt();
        let quantile = |of| breme_stats::student_quantile(freedom(of), confidence);
        let then = (blocks, blocks);
        let half = half * spread(then) / spread(now) * quantile(then) / quantile(now);
        Some(power_of_equal(half, freedom(then), confidence, self.margin))
    }
}

/// Describes the rule and its power in a line.
fn line(rows: &[Drafted], summary: &GateSummary, rules: &CompareRules) -> String {
    if summary.rows == 0 {
        return "The gate has nothing to judge.".to_owned();
    }
    let percent = (rules.confidence * 1e4).round() / 1e2;
    format!(
        "Gate of {}: passes if the {percent} % interval of every row is within its margin. {}",
        count(summary.rows, "row"),
        power_text(rows, summary)
    )
}

fn power_text(rows: &[Drafted], summary: &GateSummary) -> String {
    let Some(power) = summary.power else { return "Without data its power is unknown.".to_owned() };
    let blocks = |side: fn(&Drafted) -> usize| {
        rows.iter().filter(|row| row.margin.is_some()).map(side).min().unwrap_or_default()
    };
    let blocks = match (blocks(|row| row.row.blocks_before), blocks(|row| row.row.blocks_after)) {
        (before, after) if before == after => format!("{before} blocks per run"),
        (before, after) => format!("{before} and {after} blocks"),
    };
    let more = match summary.blocks_for_power {
        _ if power >= POWER_WANTED => String::new(),
        Some(blocks) => format!("; {blocks} blocks per run would make that 90 %"),
        None => format!("; for 90 %, more than {BLOCKS_PROPOSED_MAX} blocks per run are needed, or a wider margin"),
    };
    let percent = power * 100.0;
    format!("With {blocks} and this noise, two equal systems would pass in about {percent:.0} % of comparisons{more}.")
}

/// The verdict in one or two sentences.
pub(crate) fn sentence(rows: &[Drafted], judged: &Judged) -> String {
    let GateSummary { rows: all, not_worse, worse, .. } = judged.summary;
    let first = rows.first().map(|row| row.row.sentence.clone()).unwrap_or_default();
    match judged.verdict {
        _ if rows.is_empty() => "No verdict: the runs have no combination of levels in common.".to_owned(),
        _ if all == 0 => "No verdict: no measure is gated; name one with --gate, or in [gate].".to_owned(),
        GateVerdict::Worse => format!("Worse in {worse} of {}. {first}", count(all, "gated row")),
        GateVerdict::NotWorse => format!("Not worse in any of {}.", count(all, "gated row")),
        GateVerdict::NoVerdict => {
            format!("No verdict: {} of {} are undecided. {first}", all - not_worse, count(all, "gated row"))
        }
    }
}
