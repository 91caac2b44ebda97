//! Units of the numbers of a claim or a measure.

use std::collections::{BTreeMap, BTreeSet};

use breme_expression::{Claim, Expression, Unit, Vocabulary};
use breme_judge::judgement::Judgement;

use crate::run::Run;

/// The names known to the records of a run: those of its plan that were used.
pub(crate) fn vocabulary(run: &Run<'_>) -> Vocabulary {
    let (mut workloads, mut subjects) = (BTreeSet::new(), BTreeSet::new());
    let mut factors: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for trial in run.trials {
        workloads.extend(trial.workloads.keys());
        subjects.extend(trial.subjects.keys());
        trial.levels.iter().for_each(|(factor, level)| {
            factors.entry(factor).or_default().insert(level);
        });
    }
    let owned = |names: BTreeSet<&String>| names.into_iter().cloned().collect();
    Vocabulary {
        workloads: owned(workloads),
        subjects: owned(subjects),
        factors: factors.into_iter().map(|(factor, levels)| (factor.clone(), owned(levels))).collect(),
        ..Vocabulary::default()
    }
}

/// The unit of both sides of a claim; a plain number if unknown.
pub(crate) fn claim_unit(claim: &str, vocabulary: &Vocabulary) -> Unit {
    Claim::parse(claim, vocabulary).map_or(Unit::Plain, |claim| claim.left.unit())
}

/// The unit of a measure: from its table, or from its expression.
pub(crate) fn measure_unit(measure: &str, judgement: &Judgement, vocabulary: &Vocabulary) -> Unit {
    let table = judgement.tables.iter().find(|table| table.measure == measure);
    let written = || Expression::parse(measure, vocabulary).map_or(Unit::Plain, |written| written.unit());
    table.map_or_else(written, |table| Unit::from_symbol(&table.unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_determines_its_unit() {
        let vocabulary = Vocabulary { workloads: vec![String::from("user")], ..Vocabulary::default() };
        assert_eq!(claim_unit("mean(user) < 0.25 * p99(user)", &vocabulary), Unit::Seconds);
        assert_eq!(claim_unit("rate(user) / rate(user) > 1.5", &vocabulary), Unit::Plain);
        assert_eq!(claim_unit("errors(user) < 1 %", &vocabulary), Unit::Share);
        assert_eq!(claim_unit("mean(nobody) < ", &vocabulary), Unit::Plain);
    }
}
