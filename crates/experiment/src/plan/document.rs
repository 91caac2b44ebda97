//! The experiment file with everything that it names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use breme_toml::{Collector, Diagnostics, Entry, Table, TreeNode, Value, node_of};

use super::factors::{self, FactorSpec};
use super::questions::PlanSearch;
use super::resolve::Resolved;
use super::resolver::{Files, Resolver};
use super::roles::Roles;
use crate::file::levels::{Levels, OF_ITSELF};
use crate::file::{RestartText, SECTIONS};

/// Not merged with those of a profile: its levels replace all others.
pub(super) const REPLACED_WHOLE: [&str; 1] = ["factor"];

/// The file with its profile applied and everything that it names: enough to create any trial.
#[derive(Debug)]
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

/// The name of a factor with a range, and a level in this range as text and as a node.
pub(super) type RangedLevel = (String, String, TreeNode);

impl Document {
    /// Reads factors and subjects. None if a section is unknown: a misspelt one would be reported missing everywhere,
    /// and its name has been reported already.
    pub(super) fn read(tree: Table, folder: &str, roles: &Roles, collector: &mut Collector) -> Option<Self> {
        let subjects: Vec<String> = tree.table("subject").iter().map(|entry| entry.key.clone()).collect();
        let factors = factors::read(&tree, &subjects, collector);
        let is_unknown = |entry: &Entry| {
            matches!(entry.node.value, Value::Table(_) | Value::List(_)) && !SECTIONS.contains(&entry.key.as_str())
        };
        if tree.entries.iter().any(is_unknown) {
            return None;
        }
        let factor_names: Vec<String> = factors.iter().map(|factor| factor.name.clone()).collect();
        let unreadable = tree.table("factor").iter().filter(|entry| !factor_names.contains(&entry.key));
        let unreadable_factors = unreadable.map(|entry| entry.key.clone()).collect();
        let (folder, roles, files) = (folder.to_owned(), roles.clone(), BTreeMap::new());
        Some(Self { tree, factors, factor_names, unreadable_factors, subjects, folder, files, roles })
    }

    /// Resolves one combination: the level of each factor by name; for the factor of a search, a value of its range.
    pub(super) fn resolve_named(
        &self,
        levels: &[(String, String)],
        searched: Option<(&PlanSearch, f64)>,
        seed: u64,
    ) -> Result<Resolved, Diagnostics> {
        let ranged = searched.map(|(search, value)| {
            [(search.factor.clone(), search.range.level(value), search.range.node(value, &(0..0)))]
        });
        let ranged = ranged.as_ref().map_or(&[][..], |ranged| ranged);
        let files = Files { known: RefCell::new(self.files.clone()), read: None };
        let (mut collector, mut used, mut requested) = (Collector::new(""), BTreeSet::new(), BTreeSet::new());
        let mut resolver = Resolver {
            tree: &self.tree,
            roles: &self.roles,
            files: &files,
            levels: self.levels(levels, ranged),
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

    /// With a level of each factor: one of its range, or the named one.
    pub(super) fn levels<'a>(&'a self, named: &[(String, String)], ranged: &'a [RangedLevel]) -> Levels<'a> {
        let level = |factor: &'a FactorSpec| {
            if let Some((name, level, node)) = ranged.iter().find(|(name, ..)| *name == factor.name) {
                return Some((name.as_str(), level.as_str(), node));
            }
            let (_, wanted) = named.iter().find(|(name, _)| *name == factor.name)?;
            let (level, node) = factor.levels.iter().find(|(level, _)| level == wanted)?;
            Some((factor.name.as_str(), level.as_str(), node))
        };
        Levels {
            chosen: self.factors.iter().filter_map(level).collect(),
            factors: &self.factor_names,
            unreadable: &self.unreadable_factors,
            subjects: &self.subjects,
            folder: &self.folder,
            own: &OF_ITSELF,
        }
    }

    /// Adds folder, left-out levels and named files to the tree, so that it is self-contained.
    pub(super) fn keep(&mut self, left_out: &[(String, String)]) {
        let text = |text: &str| TreeNode { span: 0..0, value: Value::Text(text.to_owned()) };
        let entry = |key: &str, node: TreeNode| Entry { key: key.to_owned(), key_span: 0..0, node };
        let files = self.files.iter().map(|(name, content)| entry(name, text(content))).collect();
        let mut gone: Vec<Entry> = Vec::new();
        for factor in &self.factor_names {
            let levels = left_out.iter().filter(|(name, _)| name == factor).map(|(_, level)| text(level));
            let levels: Vec<TreeNode> = levels.collect();
            if !levels.is_empty() {
                gone.push(entry(factor, TreeNode { span: 0..0, value: Value::List(levels) }));
            }
        }
        let (files, gone) = (Table { entries: files }, Table { entries: gone });
        for (key, node) in [("folder", text(&self.folder)), ("left_out", node_of(gone)), ("file", node_of(files))] {
            drop(self.tree.take(key));
            self.tree.entries.push(entry(key, node));
        }
    }

    pub(super) fn to_toml(&self) -> String {
        self.tree.to_toml()
    }

    /// The same with this line in its `[design]`.
    pub(super) fn to_toml_with_design(&self, line: &str) -> String {
        let mut tree = self.tree.clone();
        tree.lay_over(&Table::parse(&format!("[design]\n{line}\n"), &mut Collector::new("")), &REPLACED_WHOLE);
        tree.to_toml()
    }
}
