//! Warnings before a run, and the limit of its size.

use breme_stats::BLOCKS_MIN;
use breme_toml::{Collector, Table};

use super::combinations::AllResolved;
use super::document::Document;
use super::estimate::Estimate;
use super::model::Plan;
use super::run::Run;

const TRIAL_COUNT_MAX: u64 = 100_000;

/// Warns of definitions that nothing uses, which are probably mistakes. A subject that only the levels left out by a
/// profile use is none.
pub(super) fn unused(document: &Document, resolved: &AllResolved, omits_levels: bool) -> Vec<String> {
    let factors = document.factor_names.iter().filter(|name| !resolved.used.contains(*name));
    let factors = factors.map(|name| format!("factor `{name}` changes nothing: ${name} is not used"));
    let subjects = document.subjects.iter().filter(|name| !omits_levels && !resolved.requested.contains(*name));
    factors
        .chain(subjects.map(|name| format!("subject `{name}` is never started: no workload or subject uses it")))
        .collect()
}

pub(super) fn check_size(run: &Run, combinations: usize, tree: &Table, collector: &mut Collector) {
    let combinations = combinations as u64 + u64::from(run.aa.is_some());
    let blocks = run.blocks.to_run();
    let count = combinations * u64::from(blocks);
    if count > TRIAL_COUNT_MAX {
        let place = tree
            .get("design")
            .and_then(|_| tree.table("design").iter().find(|entry| entry.key == "blocks"))
            .or_else(|| tree.get("factor"));
        let span = place.map_or(0..0, |entry| entry.key_span.clone());
        collector.note(&span, format!("{combinations} trials in each of {blocks} blocks are {count}, more than {TRIAL_COUNT_MAX}; use fewer blocks or levels"));
    }
}

impl Plan {
    pub(super) fn warn_of_the_run(&mut self) {
        let most = self.blocks.to_run();
        if !self.hypotheses.is_empty() && most < BLOCKS_MIN {
            self.warnings.push(format!(
                "{} cannot decide a hypothesis: a verdict needs at least {BLOCKS_MIN}",
                if most == 1 { "1 block".to_owned() } else { format!("{most} blocks") },
            ));
        }
        let Some(budget) = self.budget else { return };
        let blocks = self.blocks.extended_to.unwrap_or(self.blocks.least);
        let Estimate { known, requests } = self.estimate_of(blocks);
        if known > budget {
            let fitting = (f64::from(blocks) * budget.as_secs_f64() / known.as_secs_f64()).floor().max(1.0);
            let about = if requests == 0 { "about" } else { "at least" };
            let of_blocks = if requests == 0 { "about" } else { "at most" };
            self.warnings.push(format!(
                "{blocks} blocks take {about} {} s and the budget is {} s: {of_blocks} {fitting} of them will fit",
                known.as_secs(),
                budget.as_secs()
            ));
        }
    }
}
