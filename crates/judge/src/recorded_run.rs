//! The inputs of a comparison: stored runs with their values and their differences, and the rules.

use std::collections::BTreeSet;

use breme_experiment::plan::{Gate, PlanMeasure};
use breme_experiment::record::{RunHead, TrialRecord};
use breme_expression::{Unit, less_is_better_of};
use breme_stats::VALUES_MAX;

use crate::levels::Levels;
use crate::measure::Lack;
use crate::noise_floor::NoiseFloors;
use crate::observations::Observations;
use crate::question::Question;
use crate::words::{amount, count};

/// A stored run.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRun<'a> {
    pub head: &'a RunHead,
    /// Its plan, as a self-contained file.
    pub plan: &'a str,
    /// The questions of its plan.
    pub question: &'a Question,
    pub records: &'a [TrialRecord],
}

/// Requirements of a comparison.
#[derive(Clone, Debug)]
pub struct CompareRules {
    /// Confidence of the intervals: 0.95.
    pub confidence: f64,
    /// Smaller differences are practically equal.
    pub equal_within: f64,
    pub gate: Gate,
}

impl Default for CompareRules {
    fn default() -> Self {
        Self { confidence: 0.95, equal_within: 0.02, gate: Gate::default() }
    }
}

/// Blocks of a run with trials that do not count: the reason of each.
#[derive(Default)]
pub(crate) struct Uncounted {
    /// Number of all blocks.
    pub(crate) blocks: usize,
    pub(crate) failed: Vec<String>,
    pub(crate) invalid: Vec<String>,
}

impl Uncounted {
    /// `1 of 8 blocks of the later run failed (site: ended with signal 11)`.
    pub(crate) fn in_words(&self, run: &str) -> Vec<String> {
        let of_kind = |reasons: &[String], happened: &str| {
            let (number, blocks) = (reasons.len(), count(self.blocks, "block"));
            reasons.first().map(|first| format!("{number} of {blocks} of the {run} run {happened} ({first})"))
        };
        [of_kind(&self.failed, "failed"), of_kind(&self.invalid, "had INVALID trials")].into_iter().flatten().collect()
    }
}

/// The measures of a run.
pub(crate) struct Side {
    pub(crate) seen: Observations,
    pub(crate) floors: NoiseFloors,
}

impl Side {
    pub(crate) fn new(run: &RecordedRun<'_>, measures: &[PlanMeasure]) -> Self {
        let question = Question { measures: measures.to_vec(), hypotheses: Vec::new(), ..run.question.clone() };
        let seen = Observations::new(question.all_measures(), run.records);
        let (floors, _) = NoiseFloors::seen(&question, &seen);
        Self { seen, floors }
    }

    /// The values, evenly sampled from a long run; if there are none, the reason.
    pub(crate) fn values(&self, measure: &PlanMeasure, levels: &Levels) -> Result<Vec<f64>, Lack> {
        let every = self.seen.blocks_of(levels).count().div_ceil(VALUES_MAX).max(1);
        let (mut values, mut lack) = (Vec::new(), Lack::NotRun);
        for value in self.each_value(measure, levels).step_by(every) {
            match value {
                Ok(value) => values.push(value),
                Err(why) => lack = why,
            }
        }
        if values.is_empty() { Err(lack) } else { Ok(values) }
    }

    /// The value of every block.
    fn each_value(&self, measure: &PlanMeasure, levels: &Levels) -> impl Iterator<Item = Result<f64, Lack>> {
        self.seen.blocks_of(levels).map(|block| self.seen.evaluate(&measure.expression, levels, block))
    }

    /// The worst value of all blocks.
    pub(crate) fn worst(&self, measure: &PlanMeasure, levels: &Levels) -> Option<f64> {
        let less_is_better = less_is_better_of(&measure.expression)?;
        let values = self.each_value(measure, levels).filter_map(Result::ok);
        values.reduce(if less_is_better { f64::max } else { f64::min })
    }

    /// The blocks with trials that do not count.
    pub(crate) fn uncounted(&self, measure: &PlanMeasure, levels: &Levels) -> Uncounted {
        let mut uncounted = Uncounted { blocks: self.seen.blocks_of(levels).count(), ..Uncounted::default() };
        let blocks = self.seen.blocks_of(levels);
        for lack in blocks.filter_map(|block| self.seen.uncounted(&measure.expression, levels, block)) {
            match lack {
                Lack::Failed(what) => uncounted.failed.push(what),
                Lack::Invalid(why) => uncounted.invalid.push(why),
                _ => {}
            }
        }
        uncounted
    }
}

/// Other differences between the runs.
pub(crate) fn differences(before: &RecordedRun<'_>, after: &RecordedRun<'_>) -> Vec<String> {
    let mut warnings = head_differences(before.head, after.head);
    if before.plan != after.plan {
        warnings.push("The plans of the runs differ.".to_owned());
    }
    warnings
}

/// Differences of two runs in the experiment, the machine and the versions of programs, a sentence for each.
#[must_use]
pub fn head_differences(one: &RunHead, other: &RunHead) -> Vec<String> {
    let text = |value: Option<&String>| value.map_or("unknown", String::as_str).to_owned();
    let profile = |head: &RunHead| head.profile.as_deref().unwrap_or("none").to_owned();
    let mut facts = vec![
        ("The experiment's title", one.title.clone(), other.title.clone()),
        ("The profile", profile(one), profile(other)),
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
    let names: BTreeSet<&String> = subjects.collect();
    let titles: Vec<String> = names.iter().map(|name| format!("The version of `{name}`")).collect();
    for (name, title) in names.iter().zip(&titles) {
        facts.push((title, text(one.subject_versions.get(*name)), text(other.subject_versions.get(*name))));
    }
    facts
        .into_iter()
        .filter(|(_, one, other)| one != other)
        .map(|(what, one, other)| format!("{what} differs: {one} → {other}."))
        .collect()
}

fn memory(head: &RunHead) -> String {
    amount(head.machine.memory_bytes as f64, Unit::Bytes)
}
