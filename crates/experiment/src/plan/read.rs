//! Reads an experiment: checks all profiles and combinations of levels before reporting errors.

use std::collections::BTreeSet;
use std::sync::Arc;

use breme_base::suggest_or_list;
use breme_load_plan::DURATION_DEFAULT;
use breme_toml::{Collector, Diagnostics, Entry, Table, TreeNode, Value, node_of};

use super::combinations::{self, AllResolved, resolve_all};
use super::document::{Document, REPLACED_WHOLE};
use super::factors::{self, FactorSpec};
use super::foreign;
use super::model::{Plan, PlanFactor};
use super::questions::{self, Questions};
use super::quick;
use super::resolver::{Files, Surroundings};
use super::run::{Run, SEED_DEFAULT};
use super::warnings;
use crate::file;
use crate::file::levels::Levels;
use crate::file::positions::At;
use crate::file::values::Command;

/// Limit of an experiment file, in bytes.
pub const EXPERIMENT_BYTES_MAX: usize = 32 * 1024 * 1024;

impl Plan {
    /// Reads an experiment and applies a profile to it.
    ///
    /// # Errors
    ///
    /// All its errors, in this profile or another, with positions and remedies.
    pub fn read(text: &str, profile: Option<&str>, surroundings: &Surroundings<'_>) -> Result<Self, Diagnostics> {
        let mut collector = Collector::new(text);
        if text.len() > EXPERIMENT_BYTES_MAX {
            collector.note_at_large(format!(
                "the file has {} bytes; at most {EXPERIMENT_BYTES_MAX} are allowed",
                text.len()
            ));
            return Err(collector.into_diagnostics());
        }
        let mut tree = Table::parse(text, &mut collector);
        if collector.count() > 0 {
            return Err(collector.into_diagnostics());
        }
        let profiles = profiles(&mut tree, profile, &mut collector);
        let plan = read_profile(&tree, &profiles, profile, surroundings, &mut collector);
        for other in [None].into_iter().chain(profiles.iter().map(|entry| Some(entry.key.as_str()))) {
            if other != profile && !collector.is_full() {
                drop(read_profile(&tree, &profiles, other, surroundings, &mut collector));
            }
        }
        match plan {
            Some(plan) if collector.count() == 0 => Ok(plan),
            _ => {
                if collector.count() == 0 {
                    collector.note_at_large("the experiment cannot be read");
                }
                Err(collector.into_diagnostics())
            }
        }
    }
}

/// Takes the profiles out of the tree, and checks the wanted one.
fn profiles(tree: &mut Table, wanted: Option<&str>, collector: &mut Collector) -> Vec<Entry> {
    let section = tree.take("profile");
    let mut profiles = Vec::new();
    match section.map(|entry| entry.node) {
        Some(TreeNode { value: Value::Table(table), .. }) => {
            for entry in table.entries {
                if matches!(entry.node.value, Value::Table(_)) {
                    profiles.push(entry);
                } else {
                    collector.note(
                        &entry.key_span,
                        format!("a profile is a table; write [profile.NAME], and put `{}` below it", entry.key),
                    );
                }
            }
        }
        Some(node) => {
            collector.note(&node.span, format!("profiles are tables, [profile.NAME], not {}", node.value.describe()));
        }
        None => {}
    }
    if wanted == Some(quick::NAME) && profiles.iter().all(|entry| entry.key != quick::NAME) {
        profiles.push(quick::profile(tree));
    }
    if let Some(wanted) = wanted.filter(|wanted| !profiles.iter().any(|entry| entry.key == *wanted)) {
        let hint = suggest_or_list(wanted, profiles.iter().map(|entry| entry.key.as_str()));
        collector.note_at_large(format!("there is no profile `{wanted}`; {hint}"));
    }
    profiles
}

/// The plan of one profile. None after reporting an error.
fn read_profile(
    base: &Table,
    profiles: &[Entry],
    profile: Option<&str>,
    surroundings: &Surroundings<'_>,
    collector: &mut Collector,
) -> Option<Plan> {
    let before = collector.count();
    let tree = merge_profile(base, profiles, profile, collector);
    let file: Option<file::File> = breme_toml::read_rest(&node_of(tree.clone()), collector);
    let draft = Draft::read(base, tree, file.as_ref(), surroundings, collector)?;
    let mut plan = draft.into_plan(file?, profile, collector)?;
    if collector.count() > before {
        return None;
    }
    plan.warn_of_the_run();
    Some(plan)
}

/// The experiment with a profile laid over it.
fn merge_profile(base: &Table, profiles: &[Entry], profile: Option<&str>, collector: &mut Collector) -> Table {
    let mut tree = base.clone();
    let chosen = profiles.iter().find(|entry| Some(entry.key.as_str()) == profile);
    if let Some(Entry { node: TreeNode { value: Value::Table(over), .. }, .. }) = chosen {
        tree.lay_over(&factors::choose_levels(over, base, collector), &REPLACED_WHOLE);
    }
    tree
}

/// A plan without its questions.
struct Draft {
    document: Document,
    /// Levels that exist in the experiment, but not in this profile.
    left_out: Vec<(String, String)>,
    combinations: Vec<Vec<(String, String)>>,
    /// None after reporting an error.
    run: Option<Run>,
    prepare: Vec<Vec<String>>,
    resolved: AllResolved,
}

impl Draft {
    fn read(
        base: &Table,
        tree: Table,
        file: Option<&file::File>,
        surroundings: &Surroundings<'_>,
        collector: &mut Collector,
    ) -> Option<Self> {
        let folder = file.and_then(|file| file.folder.as_deref()).unwrap_or(surroundings.folder);
        let mut document = Document::read(tree, folder, surroundings.roles, collector)?;
        let left_out = left_out(base, file, &document);
        let combinations = combinations::read(&document.factors, collector)?;
        let run = Run::read(&document.tree, &combinations, collector);
        let prepare = prepare(&document, collector);
        check_workloads(&document, collector);
        let files = Files { read: Some(surroundings.read), ..Files::default() };
        for (name, content) in file.iter().flat_map(|file| &file.file.0) {
            files.known.borrow_mut().insert(name.value.clone(), content.as_str().into());
        }
        let seed = run.as_ref().map_or(SEED_DEFAULT, |run| run.seed);
        let resolved = resolve_all(&document, &files, &combinations, seed, surroundings, collector);
        if !document.unreadable_factors.is_empty() {
            return None; // what is asked may name any factor
        }
        document.files = files.known.into_inner();
        document.keep(&left_out);
        Some(Self { document, left_out, combinations, run, prepare, resolved })
    }

    /// Reads the questions. None if the design is wrong, which has been reported.
    fn into_plan(self, file: file::File, profile: Option<&str>, collector: &mut Collector) -> Option<Plan> {
        let Self { document, left_out, combinations, run, prepare, resolved } = self;
        let first = resolved.first.as_ref();
        let workloads: Vec<String> = document.tree.table("workload").iter().map(|entry| entry.key.clone()).collect();
        let mut vocabulary = questions::vocabulary(&document.factors, &left_out, &document.subjects, &workloads, first);
        vocabulary.captured = foreign::captured(document.tree.table("workload"));
        let searched =
            file.search.as_ref().and_then(|search| search.value.factor.as_ref()).map(|name| name.value.as_str());
        let others = combinations::without(searched, &combinations);
        let mut warnings = warnings::unused(&document, &resolved, !left_out.is_empty());
        let mut questions = Questions { vocabulary, factors: &document.factors, warnings: &mut warnings, collector };
        questions.named(&file.measure.0);
        let measures = questions.measures(&file.measures.0, first, resolved.requested.len(), resolved.has_faults);
        let hypotheses = questions.hypotheses(&file.hypothesis);
        let published = questions.published(&file.published);
        let models = questions.models(&file.model);
        let gate = questions.gate(file.gate.as_ref(), first);
        let duration = first.map_or(DURATION_DEFAULT, |resolved| resolved.design.duration);
        let search = file.search.as_ref().and_then(|search| questions.search(search, duration, &others));
        let vocabulary = questions.vocabulary;
        check_ranges(&document.factors, searched, &file.hypothesis, collector);
        let mut run = run?;
        if hypotheses.is_empty() {
            // There is no verdict that could end it.
            run.blocks.most = run.blocks.least;
        }
        warnings::check_size(&run, combinations.len(), &document.tree, collector);
        let Run { seed, blocks, repeats, budget, confidence, equal_within, is_random, aa } = run;
        Some(Plan {
            // `--baseline` finds earlier runs by it, so it must differ between experiments.
            title: file.title.or_else(|| file.question.clone()).unwrap_or_else(|| "experiment".to_owned()),
            question: file.question,
            notes: file.notes,
            profile: profile.map(str::to_owned),
            seed,
            blocks,
            repeats,
            budget,
            confidence,
            equal_within,
            prepare,
            factors: document.factors.iter().map(plan_factor).collect(),
            aa,
            hypotheses,
            measures,
            published,
            models,
            search,
            gate,
            warnings,
            combinations,
            is_random,
            vocabulary,
            document: Arc::new(document),
        })
    }
}

/// The commands that run once. Factors have no levels then, and no subject runs.
fn prepare(document: &Document, collector: &mut Collector) -> Vec<Vec<String>> {
    let Some(entry) = document.tree.get("prepare") else { return Vec::new() };
    let levels = Levels { subjects: &[], own: &[], ..document.levels(&[], &[]) };
    let Some(node) = levels.fill(&entry.node, &mut BTreeSet::new(), collector) else { return Vec::new() };
    let commands: Option<Vec<Command>> = breme_toml::read(&node, collector);
    commands.into_iter().flatten().map(|command| command.0).collect()
}

/// There must be some; `memory(user)` and the names in charts must be unambiguous.
fn check_workloads(document: &Document, collector: &mut Collector) {
    let workloads = document.tree.table("workload");
    if workloads.is_empty() {
        collector.note_at_large(
            "there is no workload, so nothing can be measured; add [workload.NAME] with request = \"/\"",
        );
    }
    for entry in workloads.iter().filter(|entry| document.subjects.contains(&entry.key)) {
        let name = &entry.key;
        collector.note(&entry.key_span, format!("`{name}` is a subject already; give the workload another name"));
    }
}

fn plan_factor(factor: &FactorSpec) -> PlanFactor {
    PlanFactor {
        name: factor.name.clone(),
        levels: factor.levels.iter().map(|(name, _)| name.clone()).collect(),
        range: factor.range,
    }
}

/// Levels that exist in the experiment, but not in this profile.
fn left_out(base: &Table, file: Option<&file::File>, document: &Document) -> Vec<(String, String)> {
    let base = factors::read(base, &document.subjects, &mut Collector::new(""));
    let of_base =
        base.iter().flat_map(|factor| factor.levels.iter().map(|(level, _)| (factor.name.clone(), level.clone())));
    let kept = file.iter().flat_map(|file| &file.left_out.0);
    let of_file = kept.flat_map(|(name, levels)| levels.iter().map(|level| (name.value.clone(), level.0.clone())));
    let is_gone = |gone: &(String, String)| {
        let factor = document.factors.iter().find(|factor| factor.name == gone.0);
        factor.is_some_and(|factor| factor.levels.iter().all(|(level, _)| *level != gone.1))
    };
    of_base.chain(of_file).filter(is_gone).collect()
}

/// A range has no levels: it is searched, and cannot be used otherwise.
fn check_ranges(
    factors: &[FactorSpec],
    searched: Option<&str>,
    hypotheses: &[At<file::Hypothesis>],
    collector: &mut Collector,
) {
    let ranges = || factors.iter().filter(|factor| factor.range.is_some());
    for factor in ranges().filter(|factor| Some(factor.name.as_str()) != searched) {
        let problem = format!(
            "factor `{}` has a range, but there is no search; add [search] with factor = \"{}\", or list its levels",
            factor.name, factor.name
        );
        collector.note(&factor.entry.key_span, problem);
    }
    if let (Some(_), Some(hypothesis)) = (ranges().next(), hypotheses.first()) {
        let expect = hypothesis.value.expect.as_ref().map_or(&hypothesis.span, |expect| &expect.span);
        collector.note(expect, "a hypothesis needs fixed levels, but a factor has a range; list its levels instead: a search can use them too");
    }
}
