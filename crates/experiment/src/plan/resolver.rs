//! What is needed to fill the levels of one combination into the parts of the file: the tree, the roles, the files that
//! it names, and a collector of errors. The parts themselves (`subject`, `workload`, `request`, `resolve`) are methods
//! of it, each in its own file.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use breme_toml::{Collector, Span, Table, TreeNode};

use super::roles::Roles;
use crate::file::RestartText;
use crate::file::levels::Levels;
use crate::file::positions::At;
use crate::file::values::ContentSource;
use crate::placeholder;

/// Limit of a file that an experiment names, and of all of them together.
const CONTENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads a file relative to the experiment's folder.
pub(super) type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;
/// Checks the arguments of `breme ROLE`; returns what is wrong.
pub(super) type CheckArguments<'a> = &'a dyn Fn(&str, &[String]) -> Result<(), String>;

/// The context of an experiment.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub roles: &'a Roles,
    /// The folder of the experiment file, for `${experiment}` and relative paths.
    pub folder: &'a str,
    /// Reads a file relative to this folder.
    pub read: ReadFile<'a>,
    /// Checks the arguments of `breme load` and of the servers.
    pub check: CheckArguments<'a>,
}

/// Contents of the files that an experiment names, each read once.
#[derive(Default)]
pub(super) struct Files<'a> {
    pub known: RefCell<BTreeMap<String, Arc<str>>>,
    pub read: Option<ReadFile<'a>>,
}

pub(super) struct Resolver<'a, 'b> {
    pub tree: &'a Table,
    pub roles: &'a Roles,
    pub files: &'a Files<'a>,
    pub levels: Levels<'a>,
    pub seed: u64,
    pub check: Option<CheckArguments<'a>>,
    /// Default of a subject's `restart`.
    pub restart: RestartText,
    /// Factors in use, and subjects with requests.
    pub used: &'b mut BTreeSet<String>,
    pub requested: &'b mut BTreeSet<String>,
    pub collector: &'b mut Collector,
}

impl Resolver<'_, '_> {
    /// None if it cannot be filled in; the error is reported, except for factors that could not be read.
    pub(super) fn fill(&mut self, node: &TreeNode) -> Option<TreeNode> {
        if self.levels.is_open(node) {
            return None;
        }
        self.levels.fill(node, self.used, self.collector)
    }

    /// Reads a file relative to the experiment.
    pub(super) fn load(&mut self, path: &At<String>) -> Option<String> {
        let known = self.files.known.borrow().get(&path.value).cloned();
        let content = match (known, self.files.read) {
            (Some(content), _) => content,
            (None, Some(read)) => match read(&path.value) {
                Ok(content) => self.keep(path, content)?,
                Err(problem) => {
                    let problem = format!("the file {:?} cannot be read: {problem}", path.value);
                    return self.collector.reject(&path.span, problem);
                }
            },
            (None, None) => {
                let problem = format!("the plan does not contain the file {:?}", path.value);
                return self.collector.reject(&path.span, problem);
            }
        };
        if self.levels.is_open_text(&content) {
            return None;
        }
        Some(self.levels.fill_within(&content, &path.span, self.used, self.collector))
    }

    fn keep(&mut self, path: &At<String>, content: String) -> Option<Arc<str>> {
        let mut known = self.files.known.borrow_mut();
        let sum: usize = known.values().map(|content| content.len()).sum();
        if sum + content.len() > CONTENT_BYTES_MAX {
            let problem = format!("the files of the experiment exceed {CONTENT_BYTES_MAX} bytes in total");
            return self.collector.reject(&path.span, problem);
        }
        let content: Arc<str> = content.into();
        known.insert(path.value.clone(), Arc::clone(&content));
        Some(content)
    }

    pub(super) fn check_with_program(&mut self, role: &str, arguments: &[String], span: &Span) {
        let arguments: Vec<String> =
            arguments.iter().map(|argument| placeholder::fill_with_dummies(argument)).collect();
        if let Some(Err(problem)) = self.check.map(|check| check(role, &arguments)) {
            self.collector.note(span, format!("`breme {role}` would not start: {problem}"));
        }
    }

    /// The text itself, or that of the file that it names.
    pub(super) fn content(&mut self, content: &At<ContentSource>) -> Option<String> {
        match &content.value {
            ContentSource::Here(text) => Some(text.clone()),
            ContentSource::File(path) => self.load(path),
        }
    }
}
