//! Observations: the value of every measure in every block at every combination of levels.
//!
//! Two trials of one combination in one block (the A/A pair) are one observation of that block, their mean: the block
//! is the unit of evidence, and a combination that was run twice is merely known more precisely.

use std::collections::BTreeMap;

use breme_experiment::record::{Purpose, TrialRecord};
use breme_expression::{Expression, Measure};
use breme_stats::geometric_mean;

use crate::arithmetic::evaluate;
use crate::levels::Levels;
use crate::measure::{Lack, MeasureReader};

pub(crate) struct Observations {
    measures: Vec<Measure>,
    combinations: BTreeMap<Levels, BTreeMap<u32, Block>>,
}

/// The trials of one combination in one block, by replicate. The later attempt replaces the earlier one.
type Block = BTreeMap<u32, Vec<Result<f64, Lack>>>;

impl Observations {
    pub(crate) fn new(measures: Vec<Measure>, records: &[TrialRecord]) -> Self {
        let mut combinations: BTreeMap<Levels, BTreeMap<u32, Block>> = BTreeMap::new();
        for record in records.iter().filter(|record| record.purpose == Purpose::Block) {
            let mut reader = MeasureReader::new(record);
            let values = measures.iter().map(|measure| reader.value(measure)).collect();
            let blocks = combinations.entry(record.levels.clone()).or_default();
            blocks.entry(record.block).or_default().insert(record.replicate, values);
        }
        Self { measures, combinations }
    }

    /// Combinations with at least one trial.
    pub(crate) fn combinations(&self) -> impl Iterator<Item = &Levels> {
        self.combinations.keys()
    }

    /// The blocks with a trial of this combination.
    pub(crate) fn blocks_of(&self, levels: &Levels) -> impl Iterator<Item = u32> {
        self.combinations.get(levels).into_iter().flat_map(|blocks| blocks.keys().copied())
    }

    /// All blocks with at least one trial.
    pub(crate) fn blocks(&self) -> Vec<u32> {
        let mut blocks: Vec<u32> = self.combinations.values().flat_map(|blocks| blocks.keys().copied()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// The value of a measure at a combination in a block.
    pub(crate) fn value(&self, measure: &Measure, levels: &Levels, block: u32) -> Result<f64, Lack> {
        let replicates = self.replicates(measure, levels, block);
        let known: Vec<f64> = replicates.iter().filter_map(|(_, value)| value.clone().ok()).collect();
        if known.is_empty() {
            return Err(replicates.into_iter().find_map(|(_, value)| value.err()).unwrap_or(Lack::NotRun));
        }
        Ok(mean(&known))
    }

    /// An expression in the first and the second trial of an A/A pair, if both count.
    pub(crate) fn pair(&self, expression: &Expression, levels: &Levels, block: u32) -> Option<(f64, f64)> {
        let of = |replicate: u32| {
            evaluate(expression, &mut |measure, at| {
                let there = overridden(levels, at);
                // Other levels that the expression names are the same for both.
                if there == *levels {
                    self.replicate(measure, levels, block, replicate)
                } else {
                    self.value(measure, &there, block)
                }
            })
        };
        Some((of(0).ok()?, of(1).ok()?))
    }

    fn replicate(&self, measure: &Measure, levels: &Levels, block: u32, wanted: u32) -> Result<f64, Lack> {
        let replicates = self.replicates(measure, levels, block);
        replicates.into_iter().find(|(number, _)| *number == wanted).map_or(Err(Lack::NotRun), |(_, value)| value)
    }

    /// Whether this combination was run twice in some block.
    pub(crate) fn is_repeated(&self, levels: &Levels) -> bool {
        self.combinations.get(levels).is_some_and(|blocks| blocks.values().any(|block| block.contains_key(&1)))
    }

    /// An expression in a block, at these levels unless it names others itself.
    pub(crate) fn evaluate(&self, expression: &Expression, levels: &Levels, block: u32) -> Result<f64, Lack> {
        evaluate(expression, &mut |measure, at| self.value(measure, &overridden(levels, at), block))
    }

    /// Why a trial that an expression needs in a block does not count: the failure, if one of several failed.
    pub(crate) fn uncounted(&self, expression: &Expression, levels: &Levels, block: u32) -> Option<Lack> {
        let needed = expression.measures().into_iter();
        let values = needed.flat_map(|(measure, at)| self.replicates(measure, &overridden(levels, at), block));
        let lacks = values.filter_map(|(_, value)| value.err());
        let uncounted = lacks.filter(|lack| matches!(lack, Lack::Failed(_) | Lack::Invalid(_)));
        uncounted.min_by_key(|lack| matches!(lack, Lack::Invalid(_)))
    }

    fn replicates(&self, measure: &Measure, levels: &Levels, block: u32) -> Vec<(u32, Result<f64, Lack>)> {
        let Some(index) = self.measures.iter().position(|known| known == measure) else { return Vec::new() };
        let Some(block) = self.combinations.get(levels).and_then(|blocks| blocks.get(&block)) else {
            return Vec::new();
        };
        block.iter().map(|(&replicate, values)| (replicate, values[index].clone())).collect()
    }
}

/// These levels, overridden by the named ones.
pub(crate) fn overridden(levels: &Levels, named: &[(String, String)]) -> Levels {
    let mut all = levels.clone();
    all.extend(named.iter().cloned());
    all
}

/// The geometric mean of positive values, since ratios are compared; else the arithmetic mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    geometric_mean(values).unwrap_or_else(|| values.iter().sum::<f64>() / values.len() as f64)
}
