//! Settings of the whole run: number of blocks, confidence, A/A combination, repeats.

use std::time::Duration;

use breme_base::suggest_or_list;
use breme_toml::{Collector, Entry, Table, Value, node_of};

use super::blocks::Blocks;
use super::repeats::{REPEATS_DEFAULT, REPEATS_MAX};
use crate::file::positions::{At, Raw};
use crate::file::{self, OrderText};

pub(super) const SEED_DEFAULT: u64 = 1;
const EQUAL_WITHIN_DEFAULT: f64 = 0.02;
const CONFIDENCE_DEFAULT: f64 = 0.95;

pub(super) struct Run {
    pub seed: u64,
    pub blocks: Blocks,
    pub repeats: u32,
    pub budget: Option<Duration>,
    pub confidence: f64,
    pub equal_within: f64,
    pub is_random: bool,
    pub aa: Option<u32>,
}

/// Keys that are the same for the whole run; the rest of the design may differ between combinations.
const OF_THE_RUN: [&str; 8] = ["blocks", "repeats", "seed", "budget", "aa", "equal_within", "confidence", "order"];

impl Run {
    pub(super) fn read(
        tree: &Table,
        combinations: &[Vec<(String, String)>],
        collector: &mut Collector,
    ) -> Option<Self> {
        let before = collector.count();
        let entries = tree.table("design").iter().filter(|entry| OF_THE_RUN.contains(&entry.key.as_str()));
        let entries: Vec<Entry> = entries.cloned().collect();
        for entry in &entries {
            if matches!(&entry.node.value, Value::Text(text) if text.starts_with('$')) {
                let problem = format!("`{}` applies to the whole run; it cannot depend on a factor", entry.key);
                collector.note(&entry.node.span, problem);
            }
        }
        if collector.count() > before {
            return None;
        }
        let file: file::Design = breme_toml::read_rest(&node_of(Table { entries: entries.clone() }), collector)?;
        let written = entries.iter().find(|entry| entry.key == "blocks");
        let blocks = Blocks::read(written.map(|entry| &entry.node), collector);
        let repeats = file.repeats.as_ref().map_or(REPEATS_DEFAULT, |repeats| repeats.value.0);
        if let Some(at) = file.repeats.as_ref().filter(|_| repeats > REPEATS_MAX) {
            let problem = format!(
                "a trial is repeated at most {REPEATS_MAX} times; the default is {REPEATS_DEFAULT}, and 0 means never"
            );
            collector.note(&at.span, problem);
        }
        let confidence = file.confidence.as_ref().map_or(CONFIDENCE_DEFAULT, |share| share.value.0);
        if let Some(at) = file.confidence.as_ref().filter(|_| !(0.5..1.0).contains(&confidence)) {
            collector.note(&at.span, "the confidence is at least 50 % and less than 100 %; write for example \"95 %\"");
        }
        if let Some(at) = file.budget.as_ref().filter(|budget| budget.value.0.is_zero()) {
            collector.note(&at.span, "nothing can be measured in 0 s; write for example \"30m\"");
        }
        let aa = same_twice(file.aa.as_ref(), combinations, collector);
        if collector.count() > before {
            return None;
        }
        Some(Self {
            seed: file.seed.map_or(SEED_DEFAULT, |seed| seed.0),
            blocks: blocks?,
            repeats: u32::try_from(repeats).unwrap_or(u32::MAX),
            budget: file.budget.map(|budget| budget.value.0),
            confidence,
            equal_within: file.equal_within.map_or(EQUAL_WITHIN_DEFAULT, |share| share.0),
            is_random: file.order != Some(OrderText::Fixed),
            aa,
        })
    }
}

/// The combination that is run twice: the first, or the first with these levels.
fn same_twice(aa: Option<&At<Raw>>, combinations: &[Vec<(String, String)>], collector: &mut Collector) -> Option<u32> {
    let Some(At { value: Raw(value), span }) = aa else { return Some(0) };
    let table = match value {
        Value::Boolean(is_wanted) => return is_wanted.then_some(0),
        Value::Table(table) => table,
        other => {
            return collector.reject(
                span,
                format!("expected true, false or the levels of a combination, found {}", other.describe()),
            );
        }
    };
    let has = |levels: &[(String, String)], entry: &Entry| {
        levels.iter().any(|(name, level)| *name == entry.key && Some(level) == entry.node.value.plain().as_ref())
    };
    for entry in &table.entries {
        if combinations.iter().any(|levels| has(levels, entry)) {
            continue;
        }
        let known: Vec<&str> = combinations
            .iter()
            .flatten()
            .filter(|(name, _)| *name == entry.key)
            .map(|(_, level)| level.as_str())
            .collect();
        if known.is_empty() {
            let factors = combinations.first().into_iter().flatten().map(|(name, _)| name.as_str());
            collector.note(
                &entry.key_span,
                format!("there is no factor `{}`; {}", entry.key, suggest_or_list(&entry.key, factors)),
            );
        } else {
            let level = entry.node.value.plain().unwrap_or_default();
            let mut distinct: Vec<&str> = Vec::new();
            known.iter().for_each(|level| {
                if !distinct.contains(level) {
                    distinct.push(level);
                }
            });
            collector.note(
                &entry.node.span,
                format!(
                    "factor `{}` has no level `{level}`; {}",
                    entry.key,
                    suggest_or_list(&level, distinct.into_iter())
                ),
            );
        }
        return None;
    }
    let found = combinations.iter().position(|levels| table.entries.iter().all(|entry| has(levels, entry)));
    found.and_then(|index| u32::try_from(index).ok())
}
