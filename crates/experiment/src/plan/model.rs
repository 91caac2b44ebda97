//! An experiment that was read and found right.

use std::sync::Arc;
use std::time::Duration;

use breme_toml::{Diagnostic, Diagnostics};

use super::blocks::Blocks;
use super::document::Document;
use super::factors::LevelRange;
use super::gate::{Gate, GatedMeasure};
use super::order;
use super::questions::{PlanHypothesis, PlanMeasure, PlanModel, PlanPublished, PlanSearch};
use crate::expression::Vocabulary;
use crate::trial::{TrialKey, TrialSpec};

/// An experiment, checked: what is asked, and every trial that answers it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is called.
    pub title: String,
    /// The question that it answers.
    pub question: Option<String>,
    /// Anything else that readers of the report should know.
    pub notes: Option<String>,
    /// The profile that was laid over it.
    pub profile: Option<String>,
    /// Everything random comes from it.
    pub seed: u64,
    /// How often each combination is tried.
    pub blocks: Blocks,
    /// How often an INVALID trial is run again at the end of its block.
    pub repeats: u32,
    /// How long the whole run may take.
    pub budget: Option<Duration>,
    /// How sure verdicts are, from 0 to 1.
    pub confidence: f64,
    /// Differences below this do not matter: 0.02 is ±2 %.
    pub equal_within: f64,
    /// Commands that run once, before the first trial, with `${shared}` and `${breme}`.
    pub prepare: Vec<Vec<String>>,
    /// What is varied, in the order of the file.
    pub factors: Vec<PlanFactor>,
    /// The combination that is tried twice in each block.
    pub aa: Option<u32>,
    /// What is expected.
    pub hypotheses: Vec<PlanHypothesis>,
    /// What is compared and shown.
    pub measures: Vec<PlanMeasure>,
    /// Published figures.
    pub published: Vec<PlanPublished>,
    /// Models.
    pub models: Vec<PlanModel>,
    /// The search for a level at which something fails.
    pub search: Option<PlanSearch>,
    /// What a later run is held to.
    pub gate: Gate,
    /// What should be known before the run.
    pub warnings: Vec<String>,
    pub(super) combinations: Vec<Vec<(String, String)>>,
    pub(super) is_random: bool,
    pub(super) vocabulary: Vocabulary,
    pub(super) document: Arc<Document>,
}

/// A factor of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFactor {
    /// Its name.
    pub name: String,
    /// Its levels, in the order of the file; none if it has a range.
    pub levels: Vec<String>,
    /// The range in which it is searched.
    pub range: Option<LevelRange>,
}

/// How long a trial of a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchLength {
    /// One of many, to come near.
    Short,
    /// To confirm what was found.
    Long,
}

impl Plan {
    /// Every combination of levels, in the order of the file; the last factor changes first. A factor that has a range
    /// is not in it.
    #[must_use]
    pub fn combinations(&self) -> &[Vec<(String, String)>] {
        &self.combinations
    }

    /// All trials of all blocks that may be run, in the order in which they are run. Inside a block every order is
    /// equally likely, and so is every place of the second trial of the A/A pair.
    #[must_use]
    pub fn trials(&self) -> Vec<TrialKey> {
        if self.has_range() {
            return Vec::new();
        }
        let (count, seed) = (self.combinations.len(), self.is_random.then_some(self.seed));
        (1..=self.blocks.to_run()).flat_map(|block| order::block(block, count, self.aa, seed)).collect()
    }

    /// What a trial needs. None if there is no such trial.
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

    /// A trial of the search: the level `value` of the factor that is turned up, and these levels of the others (one of
    /// [`PlanSearch::others`]). Blocks of searches begin behind those of the design; the runner numbers them.
    ///
    /// # Errors
    /// If the experiment cannot be carried out at this level.
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

    /// A measure of the gate as the command line names it: `p99(user)` or `p99(user) within 10 %`.
    ///
    /// # Errors
    /// If it is not a measure of this experiment, or neither of its directions is the better one.
    pub fn gated_measure(&self, text: &str) -> Result<GatedMeasure, String> {
        GatedMeasure::parse(text, &self.vocabulary).map_err(|fault| fault.problem)
    }

    /// The plan as a file of its own: the profile is laid over it and the files that it names stand in it, so that a
    /// run can go on whatever became of the original. Reading it gives the same plan.
    #[must_use]
    pub fn frozen(&self) -> String {
        self.document.frozen()
    }

    /// The same after the run, of which there are `begun` blocks, is extended to so many.
    ///
    /// # Errors
    /// What [`Blocks::extended`] says.
    pub fn frozen_extended(&self, blocks: u32, begun: u32) -> Result<String, String> {
        if self.has_range() {
            return Err("--blocks: a search has no blocks".to_owned());
        }
        Ok(self.document.frozen_with_design(&self.blocks.extended(blocks, begun)?.to_toml()))
    }

    /// Whether the run ends as soon as every hypothesis has a verdict. One that was extended runs to its new end.
    #[must_use]
    pub fn ends_when_decided(&self) -> bool {
        let Blocks { least, most, extended_to } = self.blocks;
        least < most && extended_to.is_none() && !self.hypotheses.is_empty()
    }

    /// Some factor has a range: its levels are found by the search, and there are no blocks.
    #[must_use]
    pub fn has_range(&self) -> bool {
        self.factors.iter().any(|factor| factor.range.is_some())
    }
}
