//! The roles of this program's own servers and the flags of each. The binary provides them; the plan checks against
//! them.

use breme_toml::{Collector, Entry, Span, Table, Value};

use crate::trial::{AdminToken, ResetAction};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles(pub Vec<Role>);

/// `breme NAME FLAGS`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// For example `site`.
    pub name: String,
    /// Includes positional arguments.
    pub flags: Vec<Flag>,
    pub resets: Vec<RoleReset>,
}

/// An action supported by every server of a role before a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleReset {
    /// For example `cache`.
    pub name: String,
    pub action: ResetAction,
    /// The flag without which there is nothing to reset, such as `cache-memory`.
    pub needs: Option<String>,
}

/// A flag or a positional argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flag {
    /// The name without leading dashes: `cache-bytes`. In the file `_` may replace `-`.
    pub name: String,
    pub is_positional: bool,
    /// Else it is a switch.
    pub takes_value: bool,
    pub is_path: bool,
    /// Its value is the URL of another server; the name of a subject is accepted.
    pub is_upstream: bool,
    /// The allowed values, if it is an enumeration.
    pub values: Vec<String>,
    pub help: String,
}

/// Flags set by the laboratory.
const MADE: [&str; 3] = ["listen", "admin", "cpus"];
/// The flag that names the token file of the admin address.
const TOKEN_FILE: &str = "admin-token-file";
/// The flag that names a file with more flags, which has not been read yet.
const CONFIG: &str = "config";

/// Whether a server with given arguments has something to reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetReadiness<'a> {
    Ready,
    Off,
    /// This flag is missing.
    Lacking(&'a str),
}

impl Roles {
    pub(super) fn find(&self, name: &str) -> Option<&Role> {
        self.0.iter().find(|role| role.name == name)
    }
}

/// Names that the values of flags may refer to.
pub(super) struct Scope<'a> {
    pub subjects: &'a [String],
    pub folder: &'a str,
}

impl Role {
    /// The arguments from the flags in a table; `others` are its keys that are no flags, for suggestions.
    pub(super) fn arguments(
        &self,
        table: &Table,
        others: &[&str],
        scope: &Scope<'_>,
        collector: &mut Collector,
    ) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut positional = Vec::new();
        for (name, entry) in flattened(table, "") {
            let Some(flag) = self.flags.iter().find(|flag| flag.name == name && !MADE.contains(&name.as_str())) else {
                collector.note(&entry.key_span, self.unknown(&name, entry, others));
                continue;
            };
            let into = if flag.is_positional { &mut positional } else { &mut arguments };
            match &entry.node.value {
                Value::List(list) => {
                    list.iter().for_each(|node| flag.push(&node.value, &node.span, scope, collector, into));
                }
                value => flag.push(value, &entry.node.span, scope, collector, into),
            }
        }
        arguments.extend(positional);
        arguments
    }

    /// The token of a server with these arguments: the experiment's own, else a generated one, but only if a reset
    /// needs it that the experiment does not define itself. A configuration file may set another; flags of the
    /// laboratory must not override that.
    pub(super) fn token(&self, arguments: &[String], described: &[(String, ResetAction)]) -> AdminToken {
        if let Some(path) = value_of(TOKEN_FILE, arguments) {
            return AdminToken::File(path.to_owned());
        }
        let is_described = |name: &str| described.iter().any(|(known, _)| known == name);
        let needs = |reset: &RoleReset| {
            reset.needs_token() && reset.readiness(arguments) == ResetReadiness::Ready && !is_described(&reset.name)
        };
        let is_drawn = value_of(CONFIG, arguments).is_none() && self.resets.iter().any(needs);
        if is_drawn { AdminToken::Drawn } else { AdminToken::None }
    }

    fn unknown(&self, name: &str, entry: &Entry, others: &[&str]) -> String {
        if MADE.contains(&name) {
            return format!("`{}` is set by breme; remove it", entry.key);
        }
        let flags = self.flags.iter().map(|flag| key_of(&flag.name)).filter(|name| !MADE.contains(&name.as_str()));
        let known: Vec<String> = flags.chain(others.iter().map(|other| (*other).to_owned())).collect();
        let known_flags = "see the flags of";
        match breme_base::nearest(&entry.key, known.iter().map(String::as_str)) {
            Some(near) => format!("`{}` has no flag `{}`; did you mean `{near}`?", self.name, entry.key),
            None => format!("`{}` has no flag `{}`; {known_flags} breme {} --help", self.name, entry.key, self.name),
        }
    }
}

impl RoleReset {
    pub(super) fn needs_token(&self) -> bool {
        matches!(self.action, ResetAction::Admin { .. })
    }

    /// The content of a configuration file is only known at run time.
    pub(super) fn readiness(&self, arguments: &[String]) -> ResetReadiness<'_> {
        let Some(flag) = self.needs.as_deref() else { return ResetReadiness::Ready };
        match value_of(flag, arguments) {
            Some(size) if is_nothing(size) => ResetReadiness::Off,
            None if value_of(CONFIG, arguments).is_none() => ResetReadiness::Lacking(flag),
            _ => ResetReadiness::Ready,
        }
    }
}

fn is_nothing(size: &str) -> bool {
    size.starts_with('0') && !size.contains(|character: char| matches!(character, '1'..='9'))
}

/// The value of a flag in the arguments.
fn value_of<'a>(flag: &str, arguments: &'a [String]) -> Option<&'a str> {
    arguments.iter().find_map(|argument| argument.strip_prefix("--")?.strip_prefix(flag)?.strip_prefix('='))
}

/// The spelling of a flag in an experiment.
pub(super) fn key_of(flag: &str) -> String {
    flag.replace('-', "_")
}

/// The entries with `-` for `_`; `cache = { memory = 1 }` is equivalent to `cache_memory = 1`.
fn flattened<'a>(table: &'a Table, before: &str) -> Vec<(String, &'a Entry)> {
    let mut flat = Vec::new();
    for entry in &table.entries {
        let name = format!("{before}{}", entry.key.replace('_', "-"));
        match &entry.node.value {
            Value::Table(inner) => flat.extend(flattened(inner, &format!("{name}-"))),
            _ => flat.push((name, entry)),
        }
    }
    flat
}

impl Flag {
    fn push(
        &self,
        value: &Value,
        span: &Span,
        scope: &Scope<'_>,
        collector: &mut Collector,
        arguments: &mut Vec<String>,
    ) {
        let name = format!("--{}", self.name);
        if !self.takes_value && !self.is_positional {
            match value {
                Value::Boolean(true) => arguments.push(name),
                Value::Boolean(false) => {}
                other => collector.note(
                    span,
                    format!("`{}` is a switch: expected true or false, found {}", self.name, other.describe()),
                ),
            }
            return;
        }
        let Some(text) = value.plain() else {
            return collector.note(span, format!("expected a value for `{}`, found {}", self.name, value.describe()));
        };
        if !self.values.is_empty() && !self.values.contains(&text) {
            let known = breme_base::suggest_or_list(&text, self.values.iter().map(String::as_str));
            return collector.note(span, format!("`{}` cannot be {text:?}; {known}", self.name));
        }
        let text = self.meant(text, scope);
        if self.is_positional { arguments.push(text) } else { arguments.push(format!("{name}={text}")) }
    }

    /// Replaces a subject's name by its URL, and makes a path relative to the experiment absolute.
    fn meant(&self, text: String, scope: &Scope<'_>) -> String {
        if self.is_upstream && scope.subjects.contains(&text) {
            format!("${{{text}.url}}")
        } else if self.is_path {
            super::names::absolute(&text, scope.folder)
        } else {
            text
        }
    }
}
