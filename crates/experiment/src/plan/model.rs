//! A valid experiment.

use std::sync::Arc;
use std::time::Duration;

use breme_expression::Vocabulary;
use breme_toml::{Diagnostic, Diagnostics};

use super::blocks::{Blocks, ExtensionError};
use super::document::Document;
use super::factors::LevelRange;
use super::gate::{Gate, GateError, GatedMeasure};
use super::measures::PlanMeasure;
use super::order;
use super::questions::{PlanHypothesis, PlanModel, PlanPublished, PlanSearch};
use crate::trial::{TrialKey, TrialSpec};

/// A valid experiment and all its trials.
#[derive(Clone, Debug)]
pub struct Plan {
    pub title: String,
    pub question: Option<String>,
    /// Any other information for readers of the report.
    pub notes: Option<String>,
    /// The profile applied to it.
    pub profile: Option<String>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of repetitions of each combination.
    pub blocks: Blocks,
    /// How many times an INVALID trial is repeated at the end of its block.
    pub repeats: u32,
    /// Limit of the duration of the run.
    pub budget: Option<Duration>,
    /// Confidence of verdicts, from 0 to 1.
    pub confidence: f64,
    /// Differences below this are irrelevant: 0.02 is ±2 %.
    pub equal_within: f64,
    /// Commands run once, before the first trial, with `${shared}` and `${breme}`.
    pub prepare: Vec<Vec<String>>,
    /// In file order.
    pub factors: Vec<PlanFactor>,
    /// The combination that is run twice in each block.
    pub aa: Option<u32>,
    pub hypotheses: Vec<PlanHypothesis>,
    /// Measures that are compared and shown.
    pub measures: Vec<PlanMeasure>,
    pub published: Vec<PlanPublished>,
    pub models: Vec<PlanModel>,
    /// The search for a level at which something fails.
    pub search: Option<PlanSearch>,
    /// The gate for later runs.
    pub gate: Gate,
    /// Warnings before the run.
    pub warnings: Vec<String>,
    pub(super) combinations: Vec<Vec<(String, String)>>,
    pub(super) is_random: bool,
    pub(super) vocabulary: Vocabulary,
    pub(super) document: Arc<Document>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlanFactor {
    pub name: String,
    /// In file order; empty if it has a range.
    pub levels: Vec<String>,
    /// The range in which it is searched.
    pub range: Option<LevelRange>,
}

/// Length of a trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchLength {
    /// One of many, to narrow the range.
    Short,
    /// Confirms the result.
    Long,
}

impl Plan {
    /// All combinations of levels, in file order, the last factor varying fastest. A factor with a range is not
    /// included.
    #[must_use]
    pub fn combinations(&self) -> &[Vec<(String, String)>] {
        &self.combinations
    }

    /// All trials of all blocks that may run, in execution order. Within a block every order is equally likely, and so
    /// is every position of the second trial of the A/A pair.
    #[must_use]
    pub fn trials(&self) -> Vec<TrialKey> {
        if self.has_range() {
            return Vec::new();
        }
        let (count, seed) = (self.combinations.len(), self.is_random.then_some(self.seed));
        (1..=self.blocks.to_run()).flat_map(|block| order::block(block, count, self.aa, seed)).collect()
    }

    /// The trials of the first block: those of every combination.
    pub fn first_block(&self) -> impl Iterator<Item = TrialSpec> {
        self.trials().into_iter().take_while(|key| key.block == 1).filter_map(|key| self.trial(&key))
    }

    /// The specification of a trial; none if there is no such trial.
    #[must_use]
    pub fn trial(&self, key: &TrialKey) -> Option<TrialSpec> {
        let is_planned = (1..=self.blocks.to_run()).contains(&key.block)
            && key.replicate <= u32::from(self.aa == Some(key.combination));
        if !is_planned || self.has_range() {
            return None;
        }
        let levels = self.combinations.get(key.combination as usize)?;
        let resolved = self.document.resolve_named(levels, None, self.seed).ok()?;
        Some(resolved.trial(key.clone(), levels.clone(), self.seed))
    }

    /// A trial of the search: `value` is the level of the searched factor, the others are one of
    /// [`PlanSearch::others`]. Blocks of searches are numbered after those of the design, by the runner.
    ///
    /// # Errors
    ///
    /// If the experiment cannot be run at this level.
    pub fn search_trial(
        &self,
        others: u32,
        value: f64,
        length: SearchLength,
        block: u32,
    ) -> Result<TrialSpec, Diagnostics> {
        let fault = |problem: &str| {
            Diagnostics(vec![Diagnostic { place: None, problem: problem.to_owned(), line: String::new(), length: 0 }])
        };
        let search = self.search.as_ref().ok_or_else(|| fault("the experiment has no search"))?;
        let other_levels =
            search.others.get(others as usize).ok_or_else(|| fault("there is no such combination of levels"))?;
        let resolved = self.document.resolve_named(other_levels, Some((search, value)), self.seed)?;
        let level = search.range.level(value);
        let at = |factor: &PlanFactor| {
            let other = other_levels.iter().find(|(name, _)| *name == factor.name).map(|(_, level)| level.clone());
            (factor.name.clone(), other.unwrap_or_else(|| level.clone()))
        };
        let key = TrialKey { block, combination: others, replicate: 0 };
        let mut trial = resolved.trial(key, self.factors.iter().map(at).collect(), self.seed);
        trial.duration = if length == SearchLength::Short { search.short } else { search.long };
        Ok(trial)
    }

    /// Parses a measure of the gate as given on the command line: `p99(user)` or `p99(user) within 10 %`.
    ///
    /// # Errors
    ///
    /// If it is not a measure of this experiment, or neither of its directions is better.
    pub fn gated_measure(&self, text: &str) -> Result<GatedMeasure, GateError> {
        GatedMeasure::parse(text, &self.vocabulary)
    }

    /// The plan as a self-contained file: its profile is applied and the files that it names are included, so that a
    /// run can continue even if the original has changed. Reading it results in the same plan.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.document.to_toml()
    }

    /// The same after an extension of the run, which has begun `begun` blocks, to `blocks`.
    ///
    /// # Errors
    ///
    /// If `blocks` is not more than `begun`, or more than [`Blocks::limit`]; or if the plan is a search.
    pub fn extended_to_toml(&self, blocks: u32, begun: u32) -> Result<String, ExtensionError> {
        if self.has_range() {
            return Err(ExtensionError::Search);
        }
        Ok(self.document.to_toml_with_design(&self.blocks.extended(blocks, begun)?.to_toml()))
    }

    /// Whether the run ends as soon as every hypothesis has a verdict. An extended run continues to its new end.
    #[must_use]
    pub fn ends_when_decided(&self) -> bool {
        let Blocks { least, most, extended_to } = self.blocks;
        least < most && extended_to.is_none() && !self.hypotheses.is_empty()
    }

    /// Whether some factor has a range: the search chooses its levels, and there are no blocks.
    #[must_use]
    pub fn has_range(&self) -> bool {
        self.factors.iter().any(|factor| factor.range.is_some())
    }
}
