//! Fills levels of factors into the parts of the file that use them.
//!
//! A string that consists only of `$crowd` or `$protocol.http` becomes the level's value, with its type; `${crowd}`
//! inside a longer string becomes its text. Placeholders `${…}` for the runner remain. Any other name is an error. `$$`
//! at the beginning of a string stands for `$`.

use std::collections::BTreeSet;

use breme_base::suggest_or_list;
use breme_toml::{Collector, Entry, Span, Table, TreeNode, Value};

use crate::placeholder::{self, Placeholder};

/// The levels of one combination: factor, name of the level, value or settings.
pub(crate) struct Levels<'a> {
    pub chosen: Vec<(&'a str, &'a str, &'a TreeNode)>,
    /// All factors, for suggestions.
    pub factors: &'a [String],
    /// Factors that could not be read: references to them can be neither filled in nor reported as errors.
    pub unreadable: &'a [String],
    /// All subjects: `${SUBJECT.url}`.
    pub subjects: &'a [String],
    /// The experiment's folder: `${experiment}`.
    pub folder: &'a str,
    /// Placeholders for the process that the runner starts.
    pub own: &'a [&'a str],
}

const EXPERIMENT: &str = "experiment";
/// Placeholders for a running subject.
pub(crate) const OF_SUBJECT: [&str; 3] = ["url", "port", "folder"];
/// Placeholders for the process itself.
pub(crate) const OF_ITSELF: [&str; 2] = ["port", "folder"];
/// Placeholders for a foreign generator.
pub(crate) const OF_GENERATOR: [&str; 6] = ["url", "connections", "rate", "duration", "seed", "folder"];
/// Placeholders valid everywhere: this program, and the folder of the preparation.
pub(crate) const OF_RUN: [&str; 2] = ["breme", "shared"];

impl Levels<'_> {
    /// Whether a factor has no levels because it could not be read.
    pub(crate) fn is_unreadable(&self, name: &str) -> bool {
        let factor = name.split('.').next().unwrap_or_default();
        self.unreadable.iter().any(|unreadable| unreadable == factor)
    }

    /// Whether a part of the file depends on an unreadable factor.
    pub(crate) fn is_open(&self, node: &TreeNode) -> bool {
        match &node.value {
            Value::Text(text) => {
                text.strip_prefix('$').is_some_and(|name| self.is_unreadable(name)) || self.is_open_text(text)
            }
            Value::List(list) => list.iter().any(|node| self.is_open(node)),
            Value::Table(table) => table.entries.iter().any(|entry| self.is_open(&entry.node)),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => false,
        }
    }

    /// The same for a string with `${…}`.
    pub(crate) fn is_open_text(&self, text: &str) -> bool {
        !self.unreadable.is_empty()
            && placeholder::find(text).any(|found| !found.is_escaped && self.is_unreadable(found.name))
    }

    /// Returns the part with all levels filled in, and adds the factors that it names to `used`. What cannot be filled
    /// in is reported and omitted.
    pub(crate) fn fill(
        &self,
        node: &TreeNode,
        used: &mut BTreeSet<String>,
        collector: &mut Collector,
    ) -> Option<TreeNode> {
        let value = match &node.value {
            Value::Text(text) => return self.fill_text(text, &node.span, used, collector),
            Value::List(list) => Value::List(list.iter().filter_map(|node| self.fill(node, used, collector)).collect()),
            Value::Table(table) => {
                let fill =
                    |entry: &Entry| Some(Entry { node: self.fill(&entry.node, used, collector)?, ..entry.clone() });
                Value::Table(Table { entries: table.entries.iter().filter_map(fill).collect() })
            }
            other => other.clone(),
        };
        Some(TreeNode { span: node.span.clone(), value })
    }

    fn fill_text(
        &self,
        text: &str,
        span: &Span,
        used: &mut BTreeSet<String>,
        collector: &mut Collector,
    ) -> Option<TreeNode> {
        let node = |value| Some(TreeNode { span: span.clone(), value });
        match text.strip_prefix('$') {
            Some(rest) if rest.starts_with('$') && !rest.starts_with("${") => node(Value::Text(rest.to_owned())),
            Some(name) if placeholder::is_name(name) => match self.value(name) {
                Ok((factor, found)) => {
                    used.insert(factor.to_owned());
                    Some(found)
                }
                Err(problem) => {
                    let problem = problem.unwrap_or_else(|| {
                        let first = name.split('.').next().unwrap_or_default();
                        format!(
                            "there is no factor `{first}`; {}",
                            suggest_or_list(first, self.factors.iter().map(String::as_str))
                        )
                    });
                    collector.note_within(span, text, 1, text.chars().count(), problem);
                    None
                }
            },
            _ => node(Value::Text(self.fill_within(text, span, used, collector))),
        }
    }

    /// Fills in a string with `${…}`. The content of an included file has no position of its own; errors are then at
    /// the place that names the file.
    pub(crate) fn fill_within(
        &self,
        text: &str,
        span: &Span,
        used: &mut BTreeSet<String>,
        collector: &mut Collector,
    ) -> String {
        let replaced: Result<String, ()> = placeholder::replace(text, |Placeholder { name, range, is_escaped }| {
            if is_escaped || self.is_for_runner(name) {
                return Ok(None);
            }
            if name == EXPERIMENT {
                return Ok(Some(self.folder.to_owned()));
            }
            match self.value(name) {
                Ok((factor, found)) => {
                    used.insert(factor.to_owned());
                    Ok(found.value.plain())
                }
                Err(problem) => {
                    let column = text[..range.start].chars().count() + 1;
                    let problem = problem.unwrap_or_else(|| self.unknown(name));
                    collector.note_within(span, text, column, range.len(), problem);
                    Ok(None)
                }
            }
        });
        replaced.unwrap_or_default()
    }

    fn is_for_runner(&self, name: &str) -> bool {
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        let is_own = self.own.contains(&first) && (rest.is_empty() || first == "port");
        let of_subject = rest.split('.').next().unwrap_or_default();
        is_own
            || OF_RUN.contains(&name)
            || (self.subjects.iter().any(|subject| subject == first) && OF_SUBJECT.contains(&of_subject))
    }

    /// The value of `FACTOR` or `FACTOR.SETTING`. An error without a message: there is no such factor.
    fn value(&self, name: &str) -> Result<(&str, TreeNode), Option<String>> {
        let (factor, setting) = name.split_once('.').map_or((name, None), |(factor, setting)| (factor, Some(setting)));
        let (factor, level, node) = self.chosen.iter().find(|(known, ..)| *known == factor).ok_or(None)?;
        match (&node.value, setting) {
            (Value::Table(_), None) => {
                Ok((factor, TreeNode { span: node.span.clone(), value: Value::Text((*level).to_owned()) }))
            }
            (Value::Table(settings), Some(setting)) => match settings.get(setting) {
                Some(entry) => Ok((factor, entry.node.clone())),
                None => Err(Some(format!(
                    "level `{level}` of factor `{factor}` has no setting `{setting}`; {}",
                    suggest_or_list(setting, settings.keys())
                ))),
            },
            (_, Some(setting)) => Err(Some(format!(
                "the levels of factor `{factor}` have no settings such as `{setting}`; write ${factor}"
            ))),
            (_, None) => Ok((factor, (*node).clone())),
        }
    }

    /// Suggests what `${NAME}` may mean.
    fn unknown(&self, name: &str) -> String {
        let of_subjects = self.subjects.iter().flat_map(|subject| OF_SUBJECT.map(|part| format!("{subject}.{part}")));
        let own = self.own.iter().copied().chain([EXPERIMENT]).chain(OF_RUN).map(str::to_owned);
        let known: Vec<String> = self.factors.iter().cloned().chain(own).chain(of_subjects).collect();
        match breme_base::nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("${{{name}}} is not known; did you mean ${{{near}}}?"),
            None => {
                let known: Vec<String> = known.iter().take(12).map(|known| format!("${{{known}}}")).collect();
                format!(
                    "${{{name}}} is not known; there are {}; for the text itself write $${{{name}}}",
                    known.join(", ")
                )
            }
        }
    }
}
