//! Comparison of two runs: what differs, and whether the later one is worse.
//!
//! The runs have no blocks in common, so values are not paired: the blocks of each run are one sample (Hodges and
//! Lehmann's shift of two samples on logarithms, with the interval of the rank-sum test). All measures common to both
//! runs are shown; only the measures of the gate decide (see `gate`). Other differences between the runs (machine,
//! versions, plan) contribute as well, and are reported.

use breme_experiment::plan::PlanMeasure;
use breme_expression::{Unit, less_is_better_of};
use breme_stats::{Estimate, false_discovery_rates, rank_sum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::effect::median;
use crate::gate::{self, GateSummary};
use crate::history::History;
use crate::judgement::Scale;
use crate::levels::{Levels, in_words};
use crate::recorded_run::{CompareRules, RecordedRun, Side, differences};
use crate::run_row::{Drafted, GateVerdict, RunRow, RunVerdict, p_above};
use crate::words::{self, amount};

/// Version of the layout of a [`RunComparison`].
pub const VERSION: u32 = 2;

/// Comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComparison {
    /// Version of this schema.
    pub version: u32,
    /// Name of the earlier run.
    pub before: String,
    /// Name of the later run.
    pub after: String,
    /// Verdict of the gate: not worse if every gated row is not worse, worse if any is, otherwise none.
    pub verdict: GateVerdict,
    /// The verdict in one or two sentences.
    pub sentence: String,
    /// Summary of the gate.
    pub gate: GateSummary,
    /// Each measure at each combination that both runs have: the gated ones first.
    pub rows: Vec<RunRow>,
    /// Other differences between the runs.
    pub warnings: Vec<String>,
    /// History of the gated rows; absent if only two runs were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
}

/// Compares the later run with the earlier one.
#[must_use]
pub fn compare(before: &RecordedRun<'_>, after: &RecordedRun<'_>, rules: &CompareRules) -> RunComparison {
    let mut rows = rows(before, after, rules);
    correct_for_number(&mut rows, rules);
    let gate = gate::judge(&mut rows, rules);
    for row in &mut rows {
        row.row.sentence = row_sentence(row);
    }
    // A stable sort keeps the plan's order among equals.
    rows.sort_by_key(|row| (row.row.gated.is_none(), rank(&row.row)));
    let mut comparison = RunComparison {
        version: VERSION,
        before: before.head.run.clone(),
        after: after.head.run.clone(),
        verdict: gate.verdict,
        sentence: gate::sentence(&rows, &gate),
        gate: gate.summary,
        warnings: differences(before, after),
        ..RunComparison::default()
    };
    comparison.rows = rows.into_iter().map(|row| row.row).collect();
    comparison
}

fn rows(before: &RecordedRun<'_>, after: &RecordedRun<'_>, rules: &CompareRules) -> Vec<Drafted> {
    let gated = rules.gate.measures.iter().map(|gated| (gated.measure.clone(), Some(rules.gate.margin_of(gated))));
    let both = before.question.measures.iter().filter(|measure| after.question.measures.contains(measure));
    let others = both.filter(|measure| !rules.gate.measures.iter().any(|gated| gated.measure == **measure));
    let measures: Vec<(PlanMeasure, Option<f64>)> =
        gated.chain(others.map(|measure| (measure.clone(), None))).collect();
    let all: Vec<PlanMeasure> = measures.iter().map(|(measure, _)| measure.clone()).collect();
    let sides = [Side::new(before, &all), Side::new(after, &all)];
    let common = common(before, after, &sides);
    let drafted = measures.iter().flat_map(|(measure, margin)| {
        let sides = &sides;
        common.iter().map(move |levels| draft(measure, *margin, levels, sides, rules))
    });
    drafted.collect()
}

/// The combinations common to both experiments and tried in at least one run: missing values in the other run must not
/// let it pass. In the order of the later run's plan.
fn common(before: &RecordedRun<'_>, after: &RecordedRun<'_>, sides: &[Side; 2]) -> Vec<Levels> {
    let seen = |side: &Side, levels: &Levels| side.seen.combinations().any(|known| known == levels);
    let all = sides.iter().flat_map(|side| side.seen.combinations());
    let is_common = |levels: &&Levels| {
        let [one, other] = [(before, &sides[0]), (after, &sides[1])]
            .map(|(run, side)| seen(side, levels) || run.question.has_levels(levels));
        one && other
    };
    let mut common: Vec<Levels> = all.filter(is_common).cloned().collect();
    common.sort_by_key(|levels| (after.question.place(levels), levels.clone()));
    common.dedup();
    common
}

fn draft(
    measure: &PlanMeasure,
    margin: Option<f64>,
    levels: &Levels,
    sides: &[Side; 2],
    rules: &CompareRules,
) -> Drafted {
    let [before, after] = [0, 1].map(|side| sides[side].values(measure, levels));
    let lack = match (&before, &after) {
        (Err(lack), _) => Some(format!("the earlier run has no value: {lack}")),
        (_, Err(lack)) => Some(format!("the later run has no value: {lack}")),
        _ => None,
    };
    let [before, after] = [before, after].map(Result::unwrap_or_default);
    let [uncounted_before, uncounted_after] = [0, 1].map(|side| sides[side].uncounted(measure, levels));
    let median_of = |values: &[f64]| median(values.iter().copied());
    let mut row = RunRow {
        measure: measure.name.clone(),
        unit: measure.unit.symbol().to_owned(),
        levels: levels.clone(),
        before: median_of(&before),
        after: median_of(&after),
        blocks_before: before.len(),
        blocks_after: after.len(),
        failed_before: uncounted_before.failed.len(),
        failed_after: uncounted_after.failed.len(),
        invalid_before: uncounted_before.invalid.len(),
        invalid_after: uncounted_after.invalid.len(),
        ..RunRow::default()
    };
    // Shares are compared in percentage points: twice almost nothing is still almost nothing.
    let is_ratio = measure.unit != Unit::Share && before.iter().chain(&after).all(|&value| value > 0.0);
    row.scale = if is_ratio { Scale::Ratio } else { Scale::Difference };
    let scale = row.scale;
    let on_scale = |value| scale.transform(value);
    let [before, after] = [before, after].map(|values| values.into_iter().map(on_scale).collect::<Vec<f64>>());
    if let Some(Estimate { center, low, high, confidence }) = rank_sum::shift(&after, &before, rules.confidence) {
        let back = |value| Some(scale.restore(value));
        (row.center, row.low, row.high) = (back(center), back(low), back(high));
        row.confidence = confidence;
    }
    row.floor =
        sides.iter().filter_map(|side| side.floors.for_expression(&measure.expression, row.scale)).reduce(f64::max);
    let worst = worst(measure, levels, sides).map(|worst| worst.map(on_scale));
    let uncounted = [uncounted_before.in_words("earlier"), uncounted_after.in_words("later")].concat();
    Drafted { measure: measure.clone(), row, margin, before, after, worst, uncounted, lack }
}

/// The worst block of each run, if the measure is about exceptions.
fn worst(measure: &PlanMeasure, levels: &Levels, sides: &[Side; 2]) -> Option<[f64; 2]> {
    if !measure.expression.measures().iter().all(|(measure, _)| measure.quantity.is_of_exceptions()) {
        return None;
    }
    let [before, after] = sides.each_ref().map(|side| side.worst(measure, levels));
    Some([before?, after?])
}

/// The difference of every row. None was claimed in advance, so they are corrected for their number by the false
/// discovery rate.
fn correct_for_number(rows: &mut [Drafted], rules: &CompareRules) {
    let varies = |row: &Drafted| row.before.iter().chain(&row.after).any(|value| Some(value) != row.before.first());
    let tested: Vec<usize> =
        (0..rows.len()).filter(|&index| rows[index].lack.is_none() && varies(&rows[index])).collect();
    let p_of = |&index: &usize| {
        let row = &rows[index];
        let p = |first, second| p_above(first, second, 0.0, tested.len(), rules.confidence).unwrap_or(1.0);
        (2.0 * p(&row.after, &row.before).min(p(&row.before, &row.after))).min(1.0)
    };
    let p_values: Vec<f64> = tested.iter().map(p_of).collect();
    let rates = false_discovery_rates(&p_values);
    for ((&index, p), rate) in tested.iter().zip(p_values).zip(rates) {
        (rows[index].row.p, rows[index].row.p_discovery) = (Some(p), Some(rate));
    }
    for row in rows {
        row.row.verdict = verdict_of_row(row, rules);
    }
}

fn verdict_of_row(drafted: &Drafted, rules: &CompareRules) -> RunVerdict {
    let row = &drafted.row;
    let Some([center, low, high]) = drafted.interval() else { return RunVerdict::Undecided };
    if row.confidence < rules.confidence {
        return RunVerdict::Undecided;
    }
    let band = drafted.share_on_scale(rules.equal_within);
    if low >= -band && high <= band {
        return RunVerdict::PracticallyEqual;
    }
    let is_likely = row.p_discovery.is_some_and(|rate| rate <= 1.0 - rules.confidence + 1e-9);
    if !is_likely || center.abs() <= drafted.floor() || (low <= 0.0 && high >= 0.0) {
        return RunVerdict::Undecided;
    }
    match less_is_better_of(&drafted.measure.expression) {
        None => RunVerdict::Different,
        Some(less) if (center < 0.0) == less => RunVerdict::Better,
        Some(_) => RunVerdict::Worse,
    }
}

fn row_sentence(drafted: &Drafted) -> String {
    let (row, unit) = (&drafted.row, drafted.measure.unit);
    let at = if row.levels.is_empty() { String::new() } else { format!(" at {}", in_words(&row.levels)) };
    let name = format!("`{}`{at}", row.measure);
    if let Some(lack) = &drafted.lack {
        return format!("{name}: {lack}.");
    }
    let [before, after] = [row.before, row.after].map(|value| amount(value.unwrap_or_default(), unit));
    let [Some(center), Some(low), Some(high)] = [row.center, row.low, row.high] else {
        return format!("{name}: {before} → {after}.");
    };
    let said = match row.scale {
        Scale::Ratio => format!("ratio {}", words::with_interval(center, low, high)),
        Scale::Difference => {
            let [center, low, high] = [center, low, high].map(|value| words::difference(value, unit));
            if low == high { format!("difference {center}") } else { format!("difference {center} ({low} to {high})") }
        }
    };
    let allowed = row.gated.as_ref().map_or(String::new(), |gated| format!(", allowed {}", gated.allowed));
    let few = row.blocks_before.min(row.blocks_after);
    let few = if row.gated.is_some() && few < gate::BLOCKS_MIN {
        format!(", {few} of {} blocks", gate::BLOCKS_MIN)
    } else {
        String::new()
    };
    let exception = row.gated.as_ref().and_then(|gated| gated.exception).map(|worst| {
        let worst = amount(worst, unit);
        format!("the worst block of the later run has {worst}, worse than every earlier one by more than the margin")
    });
    let remarks: String = exception.iter().chain(&drafted.uncounted).map(|remark| format!("; {remark}")).collect();
    format!("{name}: {before} → {after}, {said}{allowed}{few}{remarks}.")
}

/// The most important rows come first.
fn rank(row: &RunRow) -> u8 {
    match (row.gated.as_ref().map(|gated| gated.verdict), row.verdict) {
        (Some(GateVerdict::Worse), _) => 0,
        (Some(GateVerdict::NoVerdict), _) => 1,
        (Some(GateVerdict::NotWorse), _) => 2,
        (None, RunVerdict::Worse) => 3,
        (None, RunVerdict::Better) => 4,
        (None, RunVerdict::Different) => 5,
        (None, RunVerdict::Undecided) => 6,
        (None, RunVerdict::PracticallyEqual) => 7,
    }
}
