//! The measures of a plan, and those of an experiment that names none.

use breme_expression::{Expression, Measure, Quantity, TimeFigure, TimeKind, Unit, Vocabulary};

use super::resolve::Resolved;
use crate::trial::SubjectKind;

/// A measure that is compared and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanMeasure {
    /// Its name, or else its expression as written.
    pub name: String,
    pub expression: Expression,
    pub unit: Unit,
}

impl PlanMeasure {
    #[must_use]
    pub fn new(name: String, expression: Expression) -> Self {
        Self { name, unit: expression.unit(), expression }
    }

    /// As `text` names it, if that is the name of a measure; else as it is printed.
    pub(super) fn named(text: &str, expression: Expression, vocabulary: &Vocabulary) -> Self {
        let name = text.trim();
        let is_named = vocabulary.measures.iter().any(|(known, _)| known == name);
        Self::new(if is_named { name.to_owned() } else { expression.to_string() }, expression)
    }
}

impl From<Measure> for PlanMeasure {
    fn from(measure: Measure) -> Self {
        Self::new(measure.to_string(), measure.into())
    }
}

/// Rate, times and errors of the foreground workloads (and gaps, if there are faults), the rate of the background
/// workloads, and the cost of a request: of the subject that gets it, if that differs between levels, so that they can
/// be compared; else of every subject.
pub(super) fn standard_measures(
    resolved: &Resolved,
    vocabulary: &Vocabulary,
    requested_count: usize,
    has_faults: bool,
) -> Vec<PlanMeasure> {
    let time = |figure| Quantity::Time { kind: TimeKind::Response, figure };
    let mut measures = Vec::new();
    for workload in &resolved.workloads {
        measures.push((Quantity::Rate, workload.name.clone()));
        if !workload.is_background {
            let quantities = [time(TimeFigure::Mean), time(TimeFigure::Quantile(0.99)), Quantity::ErrorShare];
            measures.extend(quantities.map(|quantity| (quantity, workload.name.clone())));
            let gaps = [Quantity::Gap, Quantity::UserGap].into_iter().filter(|_| has_faults);
            measures.extend(gaps.map(|quantity| (quantity, workload.name.clone())));
        }
    }
    measures.retain(|(quantity, workload)| vocabulary.is_captured(workload, quantity));
    let started = resolved.subjects.iter().filter(|subject| !matches!(subject.kind, SubjectKind::External));
    let mut started: Vec<&str> = started.map(|subject| subject.name.as_str()).collect();
    if requested_count > resolved.workloads.len() {
        let in_front = resolved.workloads.iter().filter(|workload| !workload.is_background);
        started = in_front.map(|workload| workload.name.as_str()).collect();
    }
    started.sort_unstable();
    measures.extend(started.into_iter().map(|name| (Quantity::CpuPerRequest, name.to_owned())));
    measures.into_iter().map(|(quantity, of)| Measure { quantity, of }.into()).collect()
}
