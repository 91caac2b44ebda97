//! The combinations of levels of a plan, and what all of them resolve to.

use std::collections::BTreeSet;

use breme_toml::Collector;

use super::document::{Document, RangedLevel};
use super::factors::{self, COMBINATION_COUNT_MAX, FactorSpec, LevelRange};
use super::resolve::Resolved;
use super::resolver::{Files, Resolver, Surroundings};
use crate::file::RestartText;

/// The level names of every combination; factors with a range are not included.
pub(super) fn read(factors: &[FactorSpec], collector: &mut Collector) -> Option<Vec<Vec<(String, String)>>> {
    let listed: Vec<&FactorSpec> = factors.iter().filter(|factor| factor.range.is_none()).collect();
    let Some(indices) = factors::combinations(&listed) else {
        let counts: Vec<String> = listed.iter().map(|factor| factor.levels.len().to_string()).collect();
        let problem = format!(
            "{} combinations of levels are more than {COMBINATION_COUNT_MAX}; use fewer levels, or split the experiment",
            counts.join(" × ")
        );
        return collector.reject(&listed.first()?.entry.key_span, problem);
    };
    let names = |indices: Vec<usize>| {
        let level = |(factor, index): (&&FactorSpec, usize)| (factor.name.clone(), factor.levels[index].0.clone());
        listed.iter().zip(indices).map(level).collect()
    };
    Some(indices.into_iter().map(names).collect())
}

/// The distinct combinations without one factor.
pub(super) fn without(factor: Option<&str>, combinations: &[Vec<(String, String)>]) -> Vec<Vec<(String, String)>> {
    let mut others: Vec<Vec<(String, String)>> = Vec::new();
    for combination in combinations {
        let rest: Vec<(String, String)> =
            combination.iter().filter(|(name, _)| Some(name.as_str()) != factor).cloned().collect();
        if !others.contains(&rest) {
            others.push(rest);
        }
    }
    others
}

/// The results of all combinations.
#[derive(Default)]
pub(super) struct AllResolved {
    pub first: Option<Resolved>,
    /// Some combination has faults.
    pub has_faults: bool,
    pub used: BTreeSet<String>,
    pub requested: BTreeSet<String>,
}

/// Resolves every combination; a range at both its ends.
pub(super) fn resolve_all(
    document: &Document,
    files: &Files<'_>,
    combinations: &[Vec<(String, String)>],
    seed: u64,
    surroundings: &Surroundings<'_>,
    collector: &mut Collector,
) -> AllResolved {
    let mut all = AllResolved::default();
    let ends = range_ends(&document.factors);
    let pairs = combinations.iter().flat_map(|combination| ends.iter().map(move |end| (combination, end)));
    for (combination, end) in pairs {
        let resolved = Resolver {
            tree: &document.tree,
            roles: &document.roles,
            files,
            levels: document.levels(combination, end),
            seed,
            check: Some(surroundings.check),
            restart: RestartText::Block,
            used: &mut all.used,
            requested: &mut all.requested,
            collector,
        }
        .resolve();
        all.has_faults |= resolved.as_ref().is_some_and(|resolved| !resolved.faults.is_empty());
        all.first = all.first.or(resolved);
        if collector.is_full() {
            break;
        }
    }
    all
}

/// The levels at both ends of all ranges; without a range, no levels once.
fn range_ends(factors: &[FactorSpec]) -> Vec<Vec<RangedLevel>> {
    let at = |end: fn(LevelRange) -> f64| -> Vec<RangedLevel> {
        let level = |factor: &FactorSpec| {
            let range = factor.range?;
            let value = end(range);
            Some((factor.name.clone(), range.level(value), range.node(value, &factor.entry.node.span)))
        };
        factors.iter().filter_map(level).collect()
    };
    match at(|range| range.from) {
        none if none.is_empty() => vec![none],
        from => vec![from, at(|range| range.to)],
    }
}
