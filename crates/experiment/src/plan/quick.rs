//! The profile `quick` of an experiment that defines none: a first result in a fraction of the time.

use std::time::Duration;

use breme_toml::{Collector, Entry, Table, TreeNode, Value, read};

use super::blocks::Blocks;
use crate::file::values::Time;

pub(super) const NAME: &str = "quick";
/// Limit of the duration of trials.
const DURATION: Duration = Duration::from_secs(1);
/// The same as written in an experiment.
const DURATION_TEXT: &str = "1s";
/// Limit of the blocks; 6 suffice for a verdict if the difference is clear.
const BLOCKS: Blocks = Blocks { least: 6, most: 12, extended_to: None };

/// Keys of a workload that set its course over time: its start and its changing rate.
const TIMED: [&str; 4] = ["start_after", "over", "stages", "ramp"];

/// The profile never makes an experiment longer. Loads that end by a number of requests keep it, and trials with timed
/// events keep their length.
pub(super) fn profile(experiment: &Table) -> Entry {
    let mut design = Vec::new();
    if blocks(experiment).is_none_or(|blocks| blocks.most > BLOCKS.most) {
        let range = [("least", BLOCKS.least), ("most", BLOCKS.most)];
        design.push(table("blocks", range.map(|(key, count)| entry(key, Value::Integer(i64::from(count)))).into()));
    }
    let mut workloads = Vec::new();
    if !has_instants(experiment) {
        if is_longer(experiment.table("design")) {
            design.push(duration());
        }
        let with_own = experiment.table("workload").iter().filter(|workload| match &workload.node.value {
            Value::Table(table) => table.get("duration").is_some() && is_longer(&table.entries),
            _ => false,
        });
        workloads.extend(with_own.map(|workload| table(&workload.key, vec![duration()])));
    }
    table(NAME, vec![table("design", design), table("workload", workloads)])
}

fn blocks(experiment: &Table) -> Option<Blocks> {
    let written = experiment.table("design").iter().find(|entry| entry.key == "blocks");
    Blocks::read(written.map(|entry| &entry.node), &mut Collector::new(""))
}

/// Whether a trial has timed events: a warm-up, a fault, a stage of a load.
fn has_instants(experiment: &Table) -> bool {
    let design = experiment.table("design").iter();
    let has_warm_up = design.filter(|entry| entry.key == "warm_up").any(|entry| time(&entry.node).is_some());
    let is_timed = |workload: &Entry| match &workload.node.value {
        Value::Table(table) => table.keys().any(|key| TIMED.contains(&key)),
        _ => false,
    };
    let has_faults =
        experiment.get("fault").is_some() || experiment.table("factor").iter().any(|factor| factor.key == "fault");
    has_warm_up || has_faults || experiment.table("workload").iter().any(is_timed)
}

/// Whether the `duration` among these entries, or the default, is longer. One that depends on a factor is kept.
fn is_longer(entries: &[Entry]) -> bool {
    let written = entries.iter().find(|entry| entry.key == "duration");
    written.is_none_or(|written| time(&written.node).is_some_and(|time| time > DURATION))
}

fn time(node: &TreeNode) -> Option<Duration> {
    read::<Time>(node, &mut Collector::new("")).map(|time| time.0)
}

fn duration() -> Entry {
    entry("duration", Value::Text(DURATION_TEXT.to_owned()))
}

fn table(key: &str, entries: Vec<Entry>) -> Entry {
    entry(key, Value::Table(Table { entries }))
}

fn entry(key: &str, value: Value) -> Entry {
    Entry { key: key.to_owned(), key_span: 0..0, node: TreeNode { span: 0..0, value } }
}
