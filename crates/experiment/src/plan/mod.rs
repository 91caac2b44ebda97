//! From the text of an experiment file to all trials of a run.
//!
//! ```text
//!  text ──► tree ──► profile laid over ──► for every combination: levels filled in ──► subjects, workloads, resets checked
//!                                    └──► hypotheses, measures, published figures, models, search
//! ```
//!
//! Every combination is resolved when the file is read, so that everything that is wrong is told at once and before anything is started.
//! What a trial needs is resolved anew when it is its turn; the same text gives the same trial.

mod estimate;
mod factors;
mod names;
mod order;
mod questions;
mod read;
mod repeats;
mod request;
mod resolve;
mod resolver;
mod roles;
mod run;
mod subject;
mod workload;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::factors::FactorSpec;
pub use self::factors::{COMBINATION_COUNT_MAX, FACTOR_COUNT_MAX, LEVEL_COUNT_MAX, LevelRange};
pub use self::questions::{
    HYPOTHESIS_COUNT_MAX, MEASURE_COUNT_MAX, ModelKind, PlanHypothesis, PlanMeasure, PlanModel, PlanPublished,
    PlanSearch,
};
pub use self::read::{EXPERIMENT_BYTES_MAX, Surroundings, TRIAL_COUNT_MAX};
pub use self::repeats::{Attempts, IN_VAIN_MAX, REPEATS_DEFAULT, REPEATS_MAX, Repeat};
pub use self::resolve::DURATION_MAX;
use self::resolve::Resolved;
pub use self::resolver::CONTENT_BYTES_MAX;
use self::resolver::{Files, Resolver};
pub use self::roles::{Flag, Role, Roles};
pub use self::run::BLOCK_COUNT_MAX;
#[cfg(test)]
pub(crate) use self::subject::KEYS as SUBJECT_KEYS;
pub use self::subject::SUBJECT_COUNT_MAX;
pub use self::workload::{CONNECTION_COUNT_MAX, PIPELINE_DEPTH_MAX, THREAD_COUNT_MAX, WORKLOAD_COUNT_MAX};
use crate::file::RestartText;
use crate::file::fault::Notebook;
pub use crate::file::fault::{FAULTS_MAX, Fault, Faults};
use crate::file::levels::Levels;
pub use crate::file::schema;
use crate::file::tree::{Node, Table};
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
    pub blocks: u32,
    /// How often a trial is run again at the end of its block that was INVALID or never steady.
    pub repeats: u32,
    /// How long the whole run may take.
    pub budget: Option<Duration>,
    /// How sure verdicts are, from 0 to 1.
    pub confidence: f64,
    /// Differences below this do not matter: 0.02 is ±2 %.
    pub equal_within: f64,
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
    /// What should be known before the run.
    pub warnings: Vec<String>,
    combinations: Vec<Vec<(String, String)>>,
    is_random: bool,
    document: Arc<Document>,
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

/// The file with its profile, and all that it names: enough to make any trial.
#[derive(Debug, Default)]
struct Document {
    tree: Table,
    factors: Vec<FactorSpec>,
    factor_names: Vec<String>,
    subjects: Vec<String>,
    folder: String,
    files: BTreeMap<String, Arc<str>>,
    roles: Roles,
}

impl Plan {
    /// Every combination of levels, in the order of the file; the last factor changes first. A factor that has a range is not in it.
    #[must_use]
    pub fn combinations(&self) -> &[Vec<(String, String)>] {
        &self.combinations
    }

    /// What a trial needs. None if there is no such trial.
    #[must_use]
    pub fn trial(&self, key: &TrialKey) -> Option<TrialSpec> {
        let is_planned =
            (1..=self.blocks).contains(&key.block) && key.replicate <= u32::from(self.aa == Some(key.combination));
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
    pub fn search_trial(&self, others: u32, value: f64, length: SearchLength, block: u32) -> Result<TrialSpec, Faults> {
        let fault = |problem: &str| {
            Faults(vec![Fault { place: None, problem: problem.to_owned(), line: String::new(), length: 0 }])
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

    /// The plan as a file of its own: the profile is laid over it and the files that it names stand in it, so that a run can go on
    /// whatever became of the original. Reading it gives the same plan.
    #[must_use]
    pub fn frozen(&self) -> String {
        self.document.frozen()
    }

    /// Some factor has a range: its levels are found by the search, and there are no blocks.
    #[must_use]
    pub fn has_range(&self) -> bool {
        self.factors.iter().any(|factor| factor.range.is_some())
    }
}

impl Document {
    /// The level of each factor by name; for the factor of a search, a value of its range.
    fn resolve_named(
        &self,
        levels: &[(String, String)],
        searched: Option<(&PlanSearch, f64)>,
        seed: u64,
    ) -> Result<Resolved, Faults> {
        let value = searched.map(|(search, value)| {
            (search.factor.as_str(), search.range.level(value), search.range.node(value, &(0..0)))
        });
        let mut chosen: Vec<(&str, &str, &Node)> = Vec::new();
        for factor in &self.factors {
            match &value {
                Some((name, level, node)) if *name == factor.name => chosen.push((name, level, node)),
                _ => {
                    let wanted = levels.iter().find(|(name, _)| *name == factor.name).map(|(_, level)| level);
                    let found = factor.levels.iter().find(|(name, _)| Some(name) == wanted);
                    chosen.extend(found.map(|(level, node)| (factor.name.as_str(), level.as_str(), node)));
                }
            }
        }
        let files = Files { known: RefCell::new(self.files.clone()), read: None };
        let (mut book, mut used, mut asked) = (Notebook::new(""), BTreeSet::new(), BTreeSet::new());
        let mut resolver = Resolver {
            tree: &self.tree,
            roles: &self.roles,
            files: &files,
            levels: self.levels(chosen),
            seed,
            check: None,
            restart: RestartText::Block,
            used: &mut used,
            asked: &mut asked,
            book: &mut book,
        };
        match resolver.resolve() {
            Some(resolved) => Ok(resolved),
            None => Err(book.into_faults()),
        }
    }

    fn levels<'a>(&'a self, chosen: Vec<(&'a str, &'a str, &'a Node)>) -> Levels<'a> {
        Levels { chosen, factors: &self.factor_names, subjects: &self.subjects, folder: &self.folder }
    }
}
