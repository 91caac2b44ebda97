//! Two runs: is the later one worse?
//!
//! The runs had no blocks in common, so values are not paired: each run's blocks are one sample (Hodges and Lehmann's
//! shift of two samples on logarithms, with the interval of the rank-sum test). A gate looks at many measures at once
//! and must not cry wolf, so the chances are corrected by Holm over all rows whose measure has a better and a worse.
//! Whatever else differs between the runs (machine, versions, plan) is in the difference too, and is told.

use breme_stats::{Estimate, VALUES_MAX, holm, rank_sum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge::effect::typical;
use crate::judge::levels::{Levels, in_words};
use crate::judge::noise::Floors;
use crate::judge::question::Question;
use crate::judge::seen::Seen;
use crate::judge::words::{self, amount, count, less_is_better_of, symbol};
use crate::judgement::Scale;
use crate::plan::PlanMeasure;
use crate::record::{RunHead, TrialRecord};

/// The version of the layout of a [`RunComparison`].
pub const VERSION: u32 = 1;

/// A stored run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its head.
    pub head: &'a RunHead,
    /// Its plan, as it was frozen.
    pub plan: &'a str,
    /// What its plan asks.
    pub question: &'a Question,
    /// Its trials.
    pub records: &'a [TrialRecord],
}

/// What is demanded of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct CompareRules {
    /// How sure the intervals are: 0.95.
    pub confidence: f64,
    /// What differs by less is practically equal.
    pub equal_within: f64,
    /// By how much it may be worse before that is called worse: 0.03 is 3 %.
    pub slowdown_max: f64,
}

impl Default for CompareRules {
    fn default() -> Self {
        Self { confidence: 0.95, equal_within: 0.02, slowdown_max: 0.0 }
    }
}

/// Two runs, side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComparison {
    /// The version of this layout.
    pub version: u32,
    /// The earlier run's name.
    pub before: String,
    /// The later run's name.
    pub after: String,
    /// Of all rows together: worse if one is, better if one is and none is worse.
    pub verdict: RunVerdict,
    /// In a sentence or two.
    pub sentence: String,
    /// Each measure at each combination that both runs have; what is worse first.
    pub rows: Vec<RunRow>,
    /// What else differs between the runs.
    pub warnings: Vec<String>,
}

/// What became of a measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunVerdict {
    /// For certain, and by more than is allowed.
    Worse,
    /// For certain.
    Better,
    /// For certain, where more is neither better nor worse.
    Different,
    /// The difference is too small to matter.
    PracticallyEqual,
    /// The data do not say; or it is worse by no more than is allowed.
    #[default]
    Undecided,
}

/// A measure at a combination, in both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// The measure.
    pub measure: String,
    /// Its unit: `s`, `/s`, `B`, `B/s`, `share`, or nothing.
    pub unit: String,
    /// The combination.
    pub levels: Levels,
    /// What became of it.
    pub verdict: RunVerdict,
    /// The earlier run: the median over its blocks.
    pub before: Option<f64>,
    /// The later run: the median over its blocks.
    pub after: Option<f64>,
    /// Blocks of the earlier run.
    pub blocks_before: usize,
    /// Blocks of the later run.
    pub blocks_after: usize,
    /// What the three numbers below are.
    pub scale: Scale,
    /// After ÷ before, or after − before.
    pub center: Option<f64>,
    /// The interval's lower end.
    pub low: Option<f64>,
    /// The interval's upper end.
    pub high: Option<f64>,
    /// How sure the interval is.
    pub confidence: f64,
    /// The chance of so large a difference if there were none.
    pub p: Option<f64>,
    /// The same after Holm, over the rows that can be better or worse.
    pub p_holm: Option<f64>,
    /// The larger noise floor (A/A) of the two runs, which it had to exceed.
    pub floor: Option<f64>,
    /// In words.
    pub sentence: String,
}

/// What the later run shows beside the earlier one.
#[must_use]
pub fn compare(before: &Run<'_>, after: &Run<'_>, rules: &CompareRules) -> RunComparison {
    let mut rows = rows(before, after, rules);
    judge_rows(&mut rows, rules);
    let verdict = overall(&rows);
    let mut comparison = RunComparison {
        version: VERSION,
        before: before.head.run.clone(),
        after: after.head.run.clone(),
        verdict,
        warnings: differences(before, after),
        ..RunComparison::default()
    };
    rows.sort_by_key(|row| (rank(row.row.verdict), row.row.levels.clone()));
    if rows.is_empty() {
        comparison.warnings.push("The runs have no measure at a common combination of levels.".to_owned());
    }
    comparison.sentence = sentence(&rows, verdict, rules);
    comparison.rows = rows.into_iter().map(|row| row.row).collect();
    comparison
}

/// A row with the measure that it is about.
struct Drafted {
    measure: PlanMeasure,
    row: RunRow,
}

fn rows(before: &Run<'_>, after: &Run<'_>, rules: &CompareRules) -> Vec<Drafted> {
    let both = before.question.measures.iter().filter(|measure| after.question.measures.contains(measure));
    let measures: Vec<PlanMeasure> = both.cloned().collect();
    let sides = [before, after].map(|run| Side::of(run, &measures));
    let mut common: Vec<&Levels> = sides[0]
        .seen
        .combinations()
        .filter(|levels| sides[1].seen.combinations().any(|other| other == *levels))
        .collect();
    common.sort_by_key(|levels| after.question.place(levels));
    let drafted = measures.iter().flat_map(|measure| {
        let sides = &sides;
        common.iter().map(move |levels| Drafted { measure: measure.clone(), row: row(measure, levels, sides, rules) })
    });
    drafted.collect()
}

struct Side {
    seen: Seen,
    floors: Floors,
}

impl Side {
    fn of(run: &Run<'_>, measures: &[PlanMeasure]) -> Self {
        let question = Question { measures: measures.to_vec(), hypotheses: Vec::new(), ..run.question.clone() };
        let seen = Seen::new(question.all_measures(), run.records);
        let (floors, _) = Floors::seen(&question, &seen);
        Self { seen, floors }
    }

    /// Evenly chosen ones of a long run.
    fn values(&self, measure: &PlanMeasure, levels: &Levels) -> Vec<f64> {
        let blocks: Vec<u32> = self.seen.blocks_of(levels).collect();
        let every = blocks.len().div_ceil(VALUES_MAX).max(1);
        let value = |block: u32| self.seen.evaluate(&measure.expression, levels, block).ok();
        blocks.into_iter().step_by(every).filter_map(value).collect()
    }
}

fn row(measure: &PlanMeasure, levels: &Levels, sides: &[Side; 2], rules: &CompareRules) -> RunRow {
    let [before, after] = [0, 1].map(|side| sides[side].values(measure, levels));
    let is_ratio = before.iter().chain(&after).all(|&value| value > 0.0);
    let scale = if is_ratio { Scale::Ratio } else { Scale::Difference };
    let estimate: Option<Estimate> = if is_ratio {
        rank_sum::ratio(&after, &before, rules.confidence)
    } else {
        rank_sum::shift(&after, &before, rules.confidence)
    };
    RunRow {
        measure: measure.name.clone(),
        unit: symbol(measure.unit).to_owned(),
        levels: levels.clone(),
        before: typical(before.iter().copied()),
        after: typical(after.iter().copied()),
        blocks_before: before.len(),
        blocks_after: after.len(),
        scale,
        center: estimate.map(|estimate| estimate.center),
        low: estimate.map(|estimate| estimate.low),
        high: estimate.map(|estimate| estimate.high),
        confidence: estimate.map_or(0.0, |estimate| estimate.confidence),
        p: rank_sum::rank_sum_p(&after, &before),
        floor: sides.iter().filter_map(|side| side.floors.of_expression(&measure.expression, scale)).reduce(f64::max),
        ..RunRow::default()
    }
}

fn judge_rows(rows: &mut [Drafted], rules: &CompareRules) {
    let is_judged = |row: &Drafted| row.row.p.is_some() && less_is_better_of(&row.measure.expression).is_some();
    let chances: Vec<f64> = rows.iter().filter(|row| is_judged(row)).filter_map(|row| row.row.p).collect();
    let mut corrected = holm(&chances).into_iter();
    for drafted in rows {
        drafted.row.p_holm = if is_judged(drafted) { corrected.next() } else { drafted.row.p };
        drafted.row.verdict = verdict_of(&drafted.measure, &drafted.row, rules);
        drafted.row.sentence = row_sentence(&drafted.measure, &drafted.row);
    }
}

fn verdict_of(measure: &PlanMeasure, row: &RunRow, rules: &CompareRules) -> RunVerdict {
    let [Some(center), Some(low), Some(high)] = [row.center, row.low, row.high] else { return RunVerdict::Undecided };
    if row.confidence < rules.confidence {
        return RunVerdict::Undecided;
    }
    // On a scale on which 0 is no difference, and shares are shares of the earlier run.
    let size = row.before.unwrap_or_default().abs();
    let (center, low, high) = match row.scale {
        Scale::Ratio => (center.ln(), low.ln(), high.ln()),
        Scale::Difference => (center, low, high),
    };
    let of_share = |share: f64| if row.scale == Scale::Ratio { share.ln_1p() } else { share * size };
    let floor = row.floor.map_or(0.0, |floor| if row.scale == Scale::Ratio { floor.ln() } else { floor });
    let band = of_share(rules.equal_within);
    if low >= -band && high <= band {
        return RunVerdict::PracticallyEqual;
    }
    let is_likely = row.p_holm.is_some_and(|p| p <= 1.0 - rules.confidence + 1e-9);
    if !is_likely || center.abs() <= floor || (low <= 0.0 && high >= 0.0) {
        return RunVerdict::Undecided;
    }
    match less_is_better_of(&measure.expression) {
        None => RunVerdict::Different,
        Some(less) if (center < 0.0) == less => RunVerdict::Better,
        Some(_) if center.abs() <= of_share(rules.slowdown_max) => RunVerdict::Undecided,
        Some(_) => RunVerdict::Worse,
    }
}

fn row_sentence(measure: &PlanMeasure, row: &RunRow) -> String {
    let unit = measure.unit;
    let [Some(before), Some(after)] = [row.before, row.after] else {
        return format!("`{}`: one of the runs has no value.", row.measure);
    };
    let [Some(center), Some(low), Some(high)] = [row.center, row.low, row.high] else {
        return format!("`{}`: {} → {}.", row.measure, amount(before, unit), amount(after, unit));
    };
    let said = match row.scale {
        Scale::Ratio => words::with_interval(center, low, high),
        Scale::Difference => format!("{} ({} to {})", amount(center, unit), amount(low, unit), amount(high, unit)),
    };
    let at = if row.levels.is_empty() { String::new() } else { format!(" at {}", in_words(&row.levels)) };
    let word = match row.verdict {
        RunVerdict::Worse => "worse",
        RunVerdict::Better => "better",
        RunVerdict::Different => "different",
        RunVerdict::PracticallyEqual => "practically equal",
        RunVerdict::Undecided => "undecided",
    };
    let kind = if row.scale == Scale::Ratio { "ratio" } else { "difference" };
    format!("`{}`{at}: {word}, {} → {}, {kind} {said}.", row.measure, amount(before, unit), amount(after, unit))
}

fn rank(verdict: RunVerdict) -> u8 {
    match verdict {
        RunVerdict::Worse => 0,
        RunVerdict::Better => 1,
        RunVerdict::Different => 2,
        RunVerdict::Undecided => 3,
        RunVerdict::PracticallyEqual => 4,
    }
}

fn overall(rows: &[Drafted]) -> RunVerdict {
    let any = |wanted: RunVerdict| rows.iter().any(|row| row.row.verdict == wanted);
    let all = |wanted: RunVerdict| rows.iter().all(|row| row.row.verdict == wanted);
    match () {
        () if any(RunVerdict::Worse) => RunVerdict::Worse,
        () if any(RunVerdict::Better) => RunVerdict::Better,
        () if any(RunVerdict::Different) => RunVerdict::Different,
        () if !rows.is_empty() && all(RunVerdict::PracticallyEqual) => RunVerdict::PracticallyEqual,
        () => RunVerdict::Undecided,
    }
}

fn sentence(rows: &[Drafted], verdict: RunVerdict, rules: &CompareRules) -> String {
    let number = |wanted: RunVerdict| rows.iter().filter(|row| row.row.verdict == wanted).count();
    let all = count(rows.len(), "comparison");
    let first = rows.first().map(|row| row.row.sentence.clone()).unwrap_or_default();
    match verdict {
        RunVerdict::Worse => format!("Worse in {} of {all}. {first}", number(verdict)),
        RunVerdict::Better => format!("Better in {} of {all}, worse in none. {first}", number(verdict)),
        RunVerdict::Different => format!("Different in {} of {all}, worse in none. {first}", number(verdict)),
        RunVerdict::PracticallyEqual => format!("Practically equal in all of {all}."),
        RunVerdict::Undecided if rows.is_empty() => "There is nothing to compare.".to_owned(),
        RunVerdict::Undecided => format!(
            "No difference is sure in any of {all}{}.",
            few(rows, rules).map(|blocks| format!(" ({blocks})")).unwrap_or_default()
        ),
    }
}

/// Whether the runs have so few blocks that nothing could have been sure.
fn few(rows: &[Drafted], rules: &CompareRules) -> Option<String> {
    let (judged, fewest) = (rows.iter().filter(|row| row.row.p.is_some()), |row: &Drafted| {
        row.row.blocks_before.min(row.row.blocks_after)
    });
    let blocks = judged.clone().map(fewest).max()?;
    let needed = blocks_each_min(judged.count(), rules.confidence);
    (blocks < needed)
        .then(|| format!("each run needs {needed} blocks at least for so many comparisons, there are {blocks}"))
}

/// The fewest blocks of each run with which so many comparisons can be sure: the ranks of two samples that do not
/// overlap.
fn blocks_each_min(comparisons: usize, confidence: f64) -> usize {
    let outside = (1.0 - confidence) / comparisons.max(1) as f64;
    // 2 ÷ the number of ways to choose n of 2n.
    let mut ways = 1.0;
    let mut blocks = 0;
    while 2.0 / ways > outside && blocks < VALUES_MAX {
        blocks += 1;
        let n = blocks as f64;
        ways *= (2.0 * n) * (2.0 * n - 1.0) / (n * n);
    }
    blocks
}

/// What else differs.
fn differences(before: &Run<'_>, after: &Run<'_>) -> Vec<String> {
    let (one, other) = (before.head, after.head);
    let text = |value: Option<&String>| value.map_or("unknown", String::as_str).to_owned();
    let mut facts = vec![
        ("The experiment's title", one.title.clone(), other.title.clone()),
        ("The profile", text(one.profile.as_ref()), text(other.profile.as_ref())),
        ("The version of breme", one.breme_version.clone(), other.breme_version.clone()),
        ("The machine", one.machine.host.clone(), other.machine.host.clone()),
        ("The kernel", one.machine.kernel.clone(), other.machine.kernel.clone()),
        ("The processor", one.machine.processor.clone(), other.machine.processor.clone()),
        ("The number of processors", one.machine.processors.to_string(), other.machine.processors.to_string()),
        ("The memory", memory(one), memory(other)),
        ("The governor of the clock speed", text(one.machine.governor.as_ref()), text(other.machine.governor.as_ref())),
        ("The virtualization", text(one.machine.virtualization.as_ref()), text(other.machine.virtualization.as_ref())),
    ];
    let subjects = one.subject_versions.keys().chain(other.subject_versions.keys());
    let names: std::collections::BTreeSet<&String> = subjects.collect();
    let titles: Vec<String> = names.iter().map(|name| format!("The version of `{name}`")).collect();
    for (name, title) in names.iter().zip(&titles) {
        facts.push((title, text(one.subject_versions.get(*name)), text(other.subject_versions.get(*name))));
    }
    let mut warnings: Vec<String> = facts
        .into_iter()
        .filter(|(_, one, other)| one != other)
        .map(|(what, one, other)| format!("{what} differs: {one} → {other}."))
        .collect();
    if before.plan != after.plan {
        warnings.push("The plans of the runs differ.".to_owned());
    }
    warnings
}

fn memory(head: &RunHead) -> String {
    amount(head.machine.memory_bytes as f64, crate::expression::Unit::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_blocks_are_those_of_the_rank_sum_table() {
        // 2 ÷ C(8, 4) = 0.029; 2 ÷ C(6, 3) = 0.1.
        assert_eq!(blocks_each_min(1, 0.95), 4);
        assert_eq!(blocks_each_min(20, 0.95), 6);
    }
}
