//! Reads an experiment: checks all profiles and combinations of levels before reporting errors.

use std::collections::BTreeSet;
use std::sync::Arc;

use breme_base::suggest_or_list;
use breme_expression::Vocabulary;
use breme_load_plan::DURATION_DEFAULT;
use breme_stats::BLOCKS_MIN;
use breme_toml::{Collector, Diagnostics, Entry, Table, TreeNode, Value, node_of};

use super::blocks::Blocks;
use super::document::Document;
use super::estimate::Estimate;
use super::factors::{self, COMBINATION_COUNT_MAX, FactorSpec};
use super::foreign;
use super::gate::Gate;
use super::model::{Plan, PlanFactor};
use super::questions::{self, Questions};
use super::quick;
use super::resolve::Resolved;
use super::resolver::{CheckArguments, Files, ReadFile, Resolver};
use super::roles::Roles;
use super::run::{CONFIDENCE_DEFAULT, EQUAL_WITHIN_DEFAULT, Run, SEED_DEFAULT};
use crate::file::levels::Levels;
use crate::file::values::{At, Command};
use crate::file::{self, RestartText};

/// Limit of an experiment file, in bytes.
pub const EXPERIMENT_BYTES_MAX: usize = 32 * 1024 * 1024;
const TRIAL_COUNT_MAX: u64 = 100_000;
/// Not merged with those of a profile: its levels replace all others.
const REPLACED_WHOLE: [&str; 1] = ["factor"];

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
    let mut tree = base.clone();
    let chosen = profiles.iter().find(|entry| Some(entry.key.as_str()) == profile);
    if let Some(Entry { node: TreeNode { value: Value::Table(over), .. }, .. }) = chosen {
        tree.lay_over(&factors::choose_levels(over, base, collector), &REPLACED_WHOLE);
    }
    let file: Option<file::File> = breme_toml::read_rest(&node_of(tree.clone()), collector);
    let subjects: Vec<String> = tree.table("subject").iter().map(|entry| entry.key.clone()).collect();
    let factors = factors::read(&tree, &subjects, collector);
    let left_out = left_out(base, file.as_ref(), &factors, &subjects);
    // A misspelt section would be reported missing everywhere; its name has been reported already.
    let is_section = |entry: &&Entry| matches!(entry.node.value, Value::Table(_) | Value::List(_));
    let has_all_sections =
        tree.entries.iter().filter(is_section).all(|entry| file::SECTIONS.contains(&entry.key.as_str()));
    if !has_all_sections {
        return None;
    }
    let is_unreadable = |entry: &&Entry| factors.iter().all(|factor| factor.name != entry.key);
    let unreadable_factors: Vec<String> =
        tree.table("factor").iter().filter(is_unreadable).map(|entry| entry.key.clone()).collect();
    let folder = file.as_ref().and_then(|file| file.folder.clone()).unwrap_or_else(|| surroundings.folder.to_owned());
    let files = Files { read: Some(surroundings.read), ..Files::default() };
    for (name, content) in file.iter().flat_map(|file| &file.file.0) {
        files.known.borrow_mut().insert(name.value.clone(), content.as_str().into());
    }
    let mut document = Document {
        factor_names: factors.iter().map(|factor| factor.name.clone()).collect(),
        unreadable_factors,
        files: Default::default(),
        roles: surroundings.roles.clone(),
        tree,
        factors,
        subjects,
        folder,
    };
    let combinations = combinations(&document.factors, collector)?;
    let run = Run::read(&document.tree, &combinations, collector);
    let prepare = prepare(&document, collector);
    if document.tree.table("workload").is_empty() {
        collector.note_at_large(
            "there is no workload, so nothing can be measured; add [workload.NAME] with request = \"/\"",
        );
    }
    check_names(&document, collector);
    let seed = run.as_ref().map_or(SEED_DEFAULT, |run| run.seed);
    let resolved = resolve_all(&document, &files, &combinations, seed, surroundings, collector);
    let mut plan = Plan {
        title: "experiment".to_owned(),
        question: None,
        notes: None,
        profile: profile.map(str::to_owned),
        seed,
        blocks: Blocks::fixed(0),
        repeats: 0,
        budget: None,
        confidence: CONFIDENCE_DEFAULT,
        equal_within: EQUAL_WITHIN_DEFAULT,
        prepare,
        factors: document.factors.iter().map(plan_factor).collect(),
        aa: None,
        hypotheses: Vec::new(),
        measures: Vec::new(),
        published: Vec::new(),
        models: Vec::new(),
        search: None,
        warnings: resolved.warnings(&document, !left_out.is_empty()),
        combinations,
        is_random: true,
        vocabulary: Vocabulary::default(),
        gate: Gate::default(),
        document: Arc::new(Document::default()),
    };
    if let Some(run) = run {
        run.into_plan(&mut plan);
    }
    if !document.unreadable_factors.is_empty() {
        return None; // what is asked may name any factor
    }
    plan.read_questions(file?, &document, &left_out, &resolved, collector);
    if plan.hypotheses.is_empty() {
        // There is no verdict that could end it.
        plan.blocks.most = plan.blocks.least;
    }
    plan.check_size(&document.tree, collector);
    document.files = files.known.into_inner();
    document.keep(&left_out);
    plan.document = Arc::new(document);
    if collector.count() > before {
        return None;
    }
    plan.warn_of_the_run();
    Some(plan)
}

/// The commands that run once. Factors have no levels then, and no subject runs.
fn prepare(document: &Document, collector: &mut Collector) -> Vec<Vec<String>> {
    let Some(entry) = document.tree.get("prepare") else { return Vec::new() };
    let levels = Levels { subjects: &[], own: &[], ..document.levels(Vec::new()) };
    let Some(node) = levels.fill(&entry.node, &mut BTreeSet::new(), collector) else { return Vec::new() };
    let commands: Option<Vec<Command>> = breme_toml::read(&node, collector);
    commands.into_iter().flatten().map(|command| command.0).collect()
}

/// `memory(user)` and the names in charts must be unambiguous.
fn check_names(document: &Document, collector: &mut Collector) {
    for entry in document.tree.table("workload").iter().filter(|entry| document.subjects.contains(&entry.key)) {
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
fn left_out(
    base: &Table,
    file: Option<&file::File>,
    factors: &[FactorSpec],
    subjects: &[String],
) -> Vec<(String, String)> {
    let base = factors::read(base, subjects, &mut Collector::new(""));
    let of_base =
        base.iter().flat_map(|factor| factor.levels.iter().map(|(level, _)| (factor.name.clone(), level.clone())));
    let kept = file.iter().flat_map(|file| &file.left_out.0);
    let of_file = kept.flat_map(|(name, levels)| levels.iter().map(|level| (name.value.clone(), level.0.clone())));
    let is_gone = |gone: &(String, String)| {
        let factor = factors.iter().find(|factor| factor.name == gone.0);
        factor.is_some_and(|factor| factor.levels.iter().all(|(level, _)| *level != gone.1))
    };
    of_base.chain(of_file).filter(is_gone).collect()
}

/// The level names of every combination; factors with a range are not included.
fn combinations(factors: &[FactorSpec], collector: &mut Collector) -> Option<Vec<Vec<(String, String)>>> {
    let listed: Vec<&FactorSpec> = factors.iter().filter(|factor| factor.range.is_none()).collect();
    let Some(indices) = factors::combinations(&listed) else {
        let counts: Vec<String> = listed.iter().map(|factor| factor.levels.len().to_string()).collect();
        let problem = format!(
            "{} combinations of levels are more than {COMBINATION_COUNT_MAX}; use fewer levels, or split the experiment",
            counts.join(" × ")
        );
        collector.note(&listed.first()?.entry.key_span, problem);
        return None;
    };
    let names = |indices: Vec<usize>| {
        let level = |(factor, index): (&&FactorSpec, usize)| (factor.name.clone(), factor.levels[index].0.clone());
        listed.iter().zip(indices).map(level).collect()
    };
    Some(indices.into_iter().map(names).collect())
}

/// The results of all combinations.
struct AllResolved {
    first: Option<Resolved>,
    /// Some combination has faults.
    has_faults: bool,
    used: BTreeSet<String>,
    requested: BTreeSet<String>,
    is_whole: bool,
}

/// Resolves every combination; a range at both its ends.
fn resolve_all(
    document: &Document,
    files: &Files<'_>,
    combinations: &[Vec<(String, String)>],
    seed: u64,
    surroundings: &Surroundings<'_>,
    collector: &mut Collector,
) -> AllResolved {
    let before = collector.count();
    let mut all = AllResolved {
        first: None,
        has_faults: false,
        used: BTreeSet::new(),
        requested: BTreeSet::new(),
        is_whole: true,
    };
    let ends: Vec<[(String, TreeNode); 2]> = document.factors.iter().filter_map(range_ends).collect();
    for combination in combinations {
        for end in 0..if ends.is_empty() { 1 } else { 2 } {
            let mut ranged = ends.iter();
            let mut chosen: Vec<(&str, &str, &TreeNode)> = Vec::new();
            for factor in &document.factors {
                if factor.range.is_some() {
                    chosen.extend(ranged.next().map(|ends| (factor.name.as_str(), ends[end].0.as_str(), &ends[end].1)));
                    continue;
                }
                let wanted = combination.iter().find(|(name, _)| *name == factor.name).map(|(_, level)| level);
                let found = factor.levels.iter().find(|(name, _)| Some(name) == wanted);
                chosen.extend(found.map(|(level, node)| (factor.name.as_str(), level.as_str(), node)));
            }
            let resolved = Resolver {
                tree: &document.tree,
                roles: &document.roles,
                files,
                levels: document.levels(chosen),
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
                all.is_whole = false;
                return all;
            }
        }
    }
    all.is_whole = collector.count() == before;
    all
}

fn range_ends(factor: &FactorSpec) -> Option<[(String, TreeNode); 2]> {
    let range = factor.range?;
    Some([range.from, range.to].map(|value| (range.level(value), range.node(value, &factor.entry.node.span))))
}

impl AllResolved {
    /// Warns of definitions that nothing uses, which are probably mistakes. A subject that only the levels left out
    /// by a profile use is none.
    fn warnings(&self, document: &Document, omits_levels: bool) -> Vec<String> {
        if !self.is_whole {
            return Vec::new();
        }
        let factors = document.factor_names.iter().filter(|name| !self.used.contains(*name));
        let factors = factors.map(|name| format!("factor `{name}` changes nothing: ${name} is not used"));
        let subjects = document.subjects.iter().filter(|name| !omits_levels && !self.requested.contains(*name));
        factors
            .chain(subjects.map(|name| format!("subject `{name}` is never started: no workload or subject uses it")))
            .collect()
    }
}

impl Plan {
    /// Reads the questions.
    fn read_questions(
        &mut self,
        file: file::File,
        document: &Document,
        left_out: &[(String, String)],
        resolved: &AllResolved,
        collector: &mut Collector,
    ) {
        let first = resolved.first.as_ref();
        let workloads: Vec<String> = document.tree.table("workload").iter().map(|entry| entry.key.clone()).collect();
        let mut vocabulary = questions::vocabulary(&document.factors, left_out, &document.subjects, &workloads, first);
        vocabulary.captured = foreign::captured(document.tree.table("workload"));
        let searched =
            file.search.as_ref().and_then(|search| search.value.factor.as_ref()).map(|name| name.value.clone());
        let others = self.others(searched.as_deref());
        let mut questions =
            Questions { vocabulary, factors: &document.factors, warnings: &mut self.warnings, collector };
        questions.named(&file.measure.0);
        self.measures = questions.measures(&file.measures.0, first, resolved.requested.len(), resolved.has_faults);
        self.hypotheses = questions.hypotheses(&file.hypothesis);
        self.published = questions.published(&file.published);
        self.models = questions.models(&file.model);
        self.gate = questions.gate(file.gate.as_ref(), first);
        let duration = first.map_or(DURATION_DEFAULT, |resolved| resolved.design.duration);
        self.search = file.search.as_ref().and_then(|search| questions.search(search, duration, &others));
        self.vocabulary = questions.vocabulary;
        self.title = file.title.unwrap_or_else(|| "experiment".to_owned());
        (self.question, self.notes) = (file.question, file.notes);
        self.check_ranges(document, searched.as_deref(), &file.hypothesis, collector);
    }

    /// The distinct combinations without one factor.
    fn others(&self, factor: Option<&str>) -> Vec<Vec<(String, String)>> {
        let mut others: Vec<Vec<(String, String)>> = Vec::new();
        for combination in &self.combinations {
            let rest: Vec<(String, String)> =
                combination.iter().filter(|(name, _)| Some(name.as_str()) != factor).cloned().collect();
            if !others.contains(&rest) {
                others.push(rest);
            }
        }
        others
    }

    /// A range has no levels: it is searched, and cannot be used otherwise.
    fn check_ranges(
        &self,
        document: &Document,
        searched: Option<&str>,
        hypotheses: &[At<file::Hypothesis>],
        collector: &mut Collector,
    ) {
        for factor in
            document.factors.iter().filter(|factor| factor.range.is_some() && Some(factor.name.as_str()) != searched)
        {
            let problem = format!(
                "factor `{}` has a range, but there is no search; add [search] with factor = \"{}\", or list its levels",
                factor.name, factor.name
            );
            collector.note(&factor.entry.key_span, problem);
        }
        if let (true, Some(hypothesis)) = (self.has_range(), hypotheses.first()) {
            let expect = hypothesis.value.expect.as_ref().map_or(&hypothesis.span, |expect| &expect.span);
            collector.note(expect, "a hypothesis needs fixed levels, but a factor has a range; list its levels instead: a search can use them too");
        }
    }

    fn check_size(&self, tree: &Table, collector: &mut Collector) {
        let combinations = self.combinations.len() as u64 + u64::from(self.aa.is_some());
        let blocks = self.blocks.to_run();
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

    fn warn_of_the_run(&mut self) {
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

impl Document {
    /// Adds folder, left-out levels and named files to the tree, so that it is self-contained.
    fn keep(&mut self, left_out: &[(String, String)]) {
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
