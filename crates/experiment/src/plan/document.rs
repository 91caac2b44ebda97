//! The experiment file with everything that it names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use breme_toml::{Collector, Diagnostics, Table, TreeNode};

use super::factors::FactorSpec;
use super::questions::PlanSearch;
use super::resolve::Resolved;
use super::resolver::{Files, Resolver};
use super::roles::Roles;
use crate::file::RestartText;
use crate::file::levels::{Levels, OF_ITSELF};

/// The file with its profile applied and everything that it names: enough to create any trial.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub tree: Table,
    pub factors: Vec<FactorSpec>,
    pub factor_names: Vec<String>,
    /// Factors that could not be read; a valid plan has none.
    pub unreadable_factors: Vec<String>,
    pub subjects: Vec<String>,
    pub folder: String,
    pub files: BTreeMap<String, Arc<str>>,
    pub roles: Roles,
}

impl Document {
    /// Resolves one combination: the level of each factor by name; for the factor of a search, a value of its range.
    pub(super) fn resolve_named(
        &self,
        levels: &[(String, String)],
        searched: Option<(&PlanSearch, f64)>,
        seed: u64,
    ) -> Result<Resolved, Diagnostics> {
        let value = searched.map(|(search, value)| {
            (search.factor.as_str(), search.range.level(value), search.range.node(value, &(0..0)))
        });
        let mut chosen: Vec<(&str, &str, &TreeNode)> = Vec::new();
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
        let (mut collector, mut used, mut requested) = (Collector::new(""), BTreeSet::new(), BTreeSet::new());
        let mut resolver = Resolver {
            tree: &self.tree,
            roles: &self.roles,
            files: &files,
            levels: self.levels(chosen),
            seed,
            check: None,
            restart: RestartText::Block,
            used: &mut used,
            requested: &mut requested,
            collector: &mut collector,
        };
        match resolver.resolve() {
            Some(resolved) => Ok(resolved),
            None => Err(collector.into_diagnostics()),
        }
    }

    pub(super) fn levels<'a>(&'a self, chosen: Vec<(&'a str, &'a str, &'a TreeNode)>) -> Levels<'a> {
        Levels {
            chosen,
            factors: &self.factor_names,
            unreadable: &self.unreadable_factors,
            subjects: &self.subjects,
            folder: &self.folder,
            own: &OF_ITSELF,
        }
    }
}
