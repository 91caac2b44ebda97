//! The inputs of a comparison: stored runs with their values and their differences, and the rules.

use std::collections::BTreeSet;

use breme_experiment::plan::{Gate, PlanMeasure};
use breme_experiment::record::{RunHead, TrialRecord};
use breme_expression::Unit;
use breme_stats::VALUES_MAX;

use crate::levels::Levels;
use crate::measure::Lack;
use crate::noise_floor::NoiseFloors;
use crate::observations::Observations;
use crate::question::Question;
use crate::words::amount;

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
        let blocks: Vec<u32> = self.seen.blocks_of(levels).collect();
        let every = blocks.len().div_ceil(VALUES_MAX).max(1);
        let each =
            blocks.into_iter().step_by(every).map(|block| self.seen.evaluate(&measure.expression, levels, block));
        let (mut values, mut lack) = (Vec::new(), Lack::NotRun);
        for value in each {
            match value {
                Ok(value) => values.push(value),
                Err(why) => lack = why,
            }
        }
        if values.is_empty() { Err(lack) } else { Ok(values) }
    }
}

/// Other differences between the runs.
pub(crate) fn differences(before: &RecordedRun<'_>, after: &RecordedRun<'_>) -> Vec<String> {
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
    let names: BTreeSet<&String> = subjects.collect();
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
    amount(head.machine.memory_bytes as f64, Unit::Bytes)
}
