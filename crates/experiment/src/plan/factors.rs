//! Factors, their levels and the combinations of levels.

use breme_base::suggest_or_list;
use breme_toml::{Collector, Entry, Table, TreeNode, Value};

const FACTOR_COUNT_MAX: usize = 12;
const LEVEL_COUNT_MAX: usize = 1_000;
/// Limit of the combinations of levels of a plan.
pub const COMBINATION_COUNT_MAX: usize = 2_000;

/// A factor as in the file.
#[derive(Clone, Debug)]
pub(super) struct FactorSpec {
    pub name: String,
    pub entry: Entry,
    /// The name of each level with its value or settings.
    pub levels: Vec<(String, TreeNode)>,
    pub range: Option<LevelRange>,
}

/// The range of a searched factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelRange {
    pub from: f64,
    pub to: f64,
    /// Only integers are levels.
    pub is_whole: bool,
}

impl LevelRange {
    /// Formats a level of the range; this text identifies trials.
    pub(super) fn level(&self, value: f64) -> String {
        if self.is_whole { format!("{}", value.round() as i64) } else { format!("{value}") }
    }

    /// The same as a node of the file.
    pub(super) fn node(&self, value: f64, span: &std::ops::Range<usize>) -> TreeNode {
        let value = if self.is_whole { Value::Integer(value.round() as i64) } else { Value::Float(value) };
        TreeNode { span: span.clone(), value }
    }
}

/// Reads the factors of a file, in file order.
pub(super) fn read(tree: &Table, subjects: &[String], collector: &mut Collector) -> Vec<FactorSpec> {
    let entries = tree.table("factor");
    if let Some(entry) = entries.get(FACTOR_COUNT_MAX) {
        collector.note(&entry.key_span, format!("there are more than {FACTOR_COUNT_MAX} factors"));
    }
    entries.iter().take(FACTOR_COUNT_MAX).filter_map(|entry| factor(entry, subjects, collector)).collect()
}

fn factor(entry: &Entry, subjects: &[String], collector: &mut Collector) -> Option<FactorSpec> {
    super::names::check_name("factor", entry, collector)?;
    if subjects.contains(&entry.key) {
        return collector.reject(
            &entry.key_span,
            format!("there is a subject `{}` already; give the factor another name", entry.key),
        );
    }
    let mut factor = FactorSpec { name: entry.key.clone(), entry: entry.clone(), levels: Vec::new(), range: None };
    match &entry.node.value {
        Value::List(list) => factor.levels = plain_levels(entry, list, collector)?,
        Value::Table(table) if is_range(table) => {
            factor.range = Some(range(entry, table, collector)?);
        }
        Value::Table(table) => factor.levels = named_levels(entry, table, collector)?,
        other => {
            let described = other.describe();
            let example = other.plain().unwrap_or_default();
            return collector.reject(
                &entry.node.span,
                format!("a factor has a list of levels, such as [{example}], not {described}"),
            );
        }
    }
    if factor.levels.len() > LEVEL_COUNT_MAX {
        let problem = format!("factor `{}` has more than {LEVEL_COUNT_MAX} levels", entry.key);
        return collector.reject(&entry.key_span, problem);
    }
    Some(factor)
}

/// A profile with the levels that it chooses by name: where the experiment has levels with settings, a list such as
/// `factor.server = ["nginx", "site"]` is replaced by these levels.
pub(super) fn choose_levels(profile: &Table, base: &Table, collector: &mut Collector) -> Table {
    let mut profile = profile.clone();
    let section = profile.entries.iter_mut().find(|entry| entry.key == "factor");
    if let Some(Entry { node: TreeNode { value: Value::Table(factors), .. }, .. }) = section {
        for factor in &mut factors.entries {
            let known = base.table("factor").iter().find(|entry| entry.key == factor.key);
            if let Some(Value::Table(known)) = known.map(|entry| &entry.node.value)
                && !is_range(known)
            {
                choose_from(known, factor, collector);
            }
        }
    }
    profile
}

fn choose_from(known: &Table, factor: &mut Entry, collector: &mut Collector) {
    let Value::List(list) = &factor.node.value else { return };
    let Some(names) = plain_levels(factor, list, collector) else { return };
    let entries = names.iter().filter_map(|(name, node)| chosen(name, node, known, collector)).collect();
    factor.node.value = Value::Table(Table { entries });
}

fn chosen(name: &str, node: &TreeNode, known: &Table, collector: &mut Collector) -> Option<Entry> {
    let level = known.get(name);
    if level.is_none() {
        let hint = suggest_or_list(name, known.keys());
        collector.note(&node.span, format!("the experiment has no level `{name}` of this factor; {hint}"));
    }
    level.cloned()
}

fn is_range(table: &Table) -> bool {
    table.get("from").is_some_and(is_number) || table.get("to").is_some_and(is_number)
}

fn is_number(entry: &Entry) -> bool {
    number(&entry.node).is_some()
}

fn number(node: &TreeNode) -> Option<(f64, bool)> {
    match node.value {
        Value::Integer(number) => Some((number as f64, true)),
        Value::Float(number) if number.is_finite() => Some((number, false)),
        _ => None,
    }
}

fn plain_levels(entry: &Entry, list: &[TreeNode], collector: &mut Collector) -> Option<Vec<(String, TreeNode)>> {
    let before = collector.count();
    if list.is_empty() {
        collector.note(&entry.node.span, format!("factor `{}` has no levels", entry.key));
    }
    let mut levels: Vec<(String, TreeNode)> = Vec::new();
    for node in list {
        let Some(name) = node.value.plain() else {
            let described = node.value.describe();
            collector.note(&node.span, format!("a level in a list is a string, a number or a boolean, not {described}; levels with settings are written as a table: {{ NAME = {{ … }} }}"));
            continue;
        };
        if levels.iter().any(|(known, _)| *known == name) {
            collector.note(&node.span, format!("factor `{}` has the level `{name}` twice", entry.key));
        }
        levels.push((name, node.clone()));
    }
    (collector.count() == before).then_some(levels)
}

fn named_levels(entry: &Entry, table: &Table, collector: &mut Collector) -> Option<Vec<(String, TreeNode)>> {
    let before = collector.count();
    if table.entries.is_empty() {
        collector.note(&entry.node.span, format!("factor `{}` has no levels", entry.key));
    }
    for level in &table.entries {
        if !matches!(level.node.value, Value::Table(_) | Value::List(_)) {
            let described = level.node.value.describe();
            collector.note(
                &level.node.span,
                format!(
                    "level `{}` of factor `{}` is a table of settings, such as {{ {} = … }}, not {described}",
                    level.key, entry.key, "http"
                ),
            );
        }
    }
    let levels = table.entries.iter().map(|level| (level.key.clone(), level.node.clone())).collect();
    (collector.count() == before).then_some(levels)
}

fn range(entry: &Entry, table: &Table, collector: &mut Collector) -> Option<LevelRange> {
    let before = collector.count();
    for other in table.entries.iter().filter(|other| other.key != "from" && other.key != "to") {
        let problem = format!("a range has only `from` and `to`, not `{}`", other.key);
        collector.note(&other.key_span, problem);
    }
    let ends = ["from", "to"].map(|key| table.get(key).and_then(|entry| number(&entry.node)));
    match ends {
        _ if collector.count() > before => None,
        [Some((from, from_is_whole)), Some((to, to_is_whole))] if from < to => {
            Some(LevelRange { from, to, is_whole: from_is_whole && to_is_whole })
        }
        [Some(_), Some(_)] => collector.reject(&entry.node.span, "this range is empty; `from` must be less than `to`"),
        _ => collector.reject(&entry.node.span, "a range is two numbers: { from = 1, to = 1000 }"),
    }
}

/// All combinations, the last factor varying fastest: for each factor, the index of its level. None if there are too
/// many.
pub(super) fn combinations(factors: &[&FactorSpec]) -> Option<Vec<Vec<usize>>> {
    let count = factors.iter().try_fold(1_usize, |count, factor| count.checked_mul(factor.levels.len()))?;
    if count > COMBINATION_COUNT_MAX {
        return None;
    }
    let combination = |mut number: usize| {
        let mut indices: Vec<usize> = factors
            .iter()
            .rev()
            .map(|factor| {
                let index = number % factor.levels.len();
                number /= factor.levels.len();
                index
            })
            .collect();
        indices.reverse();
        indices
    };
    Some((0..count).map(combination).collect())
}
