//! Resolves one combination of levels: fills them into the parts of the file, checks the result, and converts it into a
//! trial.

use std::collections::BTreeSet;
use std::time::Duration;

use breme_base::suggest_or_list;
use breme_load_plan::DURATION_DEFAULT;
use breme_toml::{Collector, Entry, Span, Table, Value};

use super::names::check_name;
use super::order;
use super::resolver::Resolver;
use super::subject::{SUBJECT_COUNT_MAX, Subject};
use crate::file::positions::{At, OneOrMany};
use crate::file::{self, RestartText};
use crate::trial::{Fault, Reset, SubjectSpec, TrialKey, TrialSpec, WarmUp, WorkloadSpec};

/// Limit of a trial's duration.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(30 * 86_400);
const PAUSE_DEFAULT: Duration = Duration::from_millis(500);

/// A named route to a subject.
pub(super) struct Route {
    pub name: String,
    pub subject: String,
    /// The destination of the requests, if the subject is a forward proxy.
    pub behind: Option<String>,
    pub headers: Vec<(String, String)>,
    /// Whether it is a path, not the subject itself.
    pub is_path: bool,
}

/// The design's settings for each trial.
#[derive(Clone, Debug)]
pub(super) struct Design {
    pub duration: Duration,
    pub warm_up: WarmUp,
    pub pause: Duration,
    pub resets: Vec<At<String>>,
}

pub(super) struct Resolved {
    pub subjects: Vec<SubjectSpec>,
    pub workloads: Vec<WorkloadSpec>,
    pub resets: Vec<Reset>,
    pub faults: Vec<Fault>,
    pub design: Design,
}

impl Resolved {
    pub(super) fn trial(self, key: TrialKey, levels: Vec<(String, String)>, seed: u64) -> TrialSpec {
        let Design { duration, warm_up, pause, .. } = self.design;
        let seed = order::load_seed(seed, key.block);
        let Self { subjects, workloads, resets, faults, .. } = self;
        TrialSpec { key, levels, subjects, workloads, resets, faults, duration, warm_up, pause, seed }
    }
}

impl<'a> Resolver<'a, '_> {
    /// None after reporting an error.
    pub(super) fn resolve(&mut self) -> Option<Resolved> {
        let before = self.collector.count();
        let design = self.design();
        let subjects = self.subjects();
        let routes = self.routes();
        let tree: &'a Table = self.tree;
        let workloads = self.workloads(tree.table("workload"), &routes, design.as_ref());
        let design = design?;
        let resets = subjects.as_ref().map(|subjects| self.resets(&design.resets, subjects));
        let (subjects, workloads, resets) = (subjects?, workloads?, resets?);
        let requested = workloads.iter().filter(|(spec, _)| spec.connections > 0);
        let requested: Vec<String> =
            requested.flat_map(|(spec, subject)| named_in(spec).chain([subject.clone()])).collect();
        self.requested.extend(requested.iter().cloned());
        let subjects = self.in_order(&subjects, &requested)?;
        let resets = resets.into_iter().filter(|reset| subjects.iter().any(|subject| subject.name == reset.subject));
        let resets = resets.collect();
        let workloads: Vec<WorkloadSpec> = workloads.into_iter().map(|(spec, _)| spec).collect();
        let faults = self.faults(&subjects, &workloads, &design);
        (self.collector.count() == before).then_some(Resolved { subjects, workloads, resets, faults, design })
    }

    fn design(&mut self) -> Option<Design> {
        let Some(entry) = self.tree.get("design") else {
            return Some(Design {
                duration: DURATION_DEFAULT,
                warm_up: WarmUp::Found,
                pause: PAUSE_DEFAULT,
                resets: Vec::new(),
            });
        };
        let before = self.collector.count();
        let node = self.fill(&entry.node)?;
        let file: file::Design = breme_toml::read(&node, self.collector)?;
        let duration = file.duration.as_ref().map_or(DURATION_DEFAULT, |duration| duration.value.0);
        if let Some(at) = &file.duration {
            check_duration(at.value.0, &at.span, self.collector);
        }
        if let Some(at) = file.pause.as_ref().filter(|pause| pause.value.0 > DURATION_MAX) {
            self.collector.note(&at.span, "the pause is too long; write for example \"1s\"");
        }
        let warm_up = self.warm_up(file.warm_up.as_ref());
        self.restart = file.restart.unwrap_or(RestartText::Block);
        let pause = file.pause.map_or(PAUSE_DEFAULT, |pause| pause.value.0);
        let OneOrMany(resets) = file.reset;
        (self.collector.count() == before).then_some(Design { duration, warm_up, pause, resets })
    }

    fn warm_up(&mut self, text: Option<&At<file::values::Text>>) -> WarmUp {
        let Some(At { value, span }) = text else { return WarmUp::Found };
        match value.0.as_str() {
            "auto" => return WarmUp::Found,
            "none" => return WarmUp::None,
            _ => {}
        }
        match file::values::time(&value.0) {
            Ok(fixed) if fixed > DURATION_MAX => {
                self.collector.note(span, format!("a warm-up lasts at most {} days", DURATION_MAX.as_secs() / 86_400));
            }
            Ok(fixed) => return WarmUp::Fixed(fixed),
            Err(_) => {
                let remedy = match breme_base::nearest(&value.0, ["auto", "none"]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "write auto, none, or a time such as \"5s\"".to_owned(),
                };
                self.collector.note(span, format!("{:?} is not a warm-up; {remedy}", value.0));
            }
        }
        WarmUp::Found
    }

    fn subjects(&mut self) -> Option<Vec<Subject>> {
        let before = self.collector.count();
        let entries = self.tree.table("subject");
        if let Some(entry) = entries.get(SUBJECT_COUNT_MAX) {
            self.collector.note(&entry.key_span, format!("there are more than {SUBJECT_COUNT_MAX} subjects"));
        }
        let subjects: Vec<Subject> =
            entries.iter().take(SUBJECT_COUNT_MAX).filter_map(|entry| self.subject(entry)).collect();
        (self.collector.count() == before && subjects.len() == entries.len()).then_some(subjects)
    }

    /// The paths, and each subject as a path to itself.
    fn routes(&mut self) -> Vec<Route> {
        let tree: &'a Table = self.tree;
        let mut routes: Vec<Route> = tree.table("path").iter().filter_map(|entry| self.path(entry)).collect();
        for subject in self.levels.subjects {
            if let Some(path) = tree.table("path").iter().find(|path| path.key == *subject) {
                self.collector.note(
                    &path.key_span,
                    format!("there is a subject `{subject}` already; give the path another name"),
                );
            }
            let (name, subject) = (subject.clone(), subject.clone());
            routes.push(Route { name, subject, behind: None, headers: Vec::new(), is_path: false });
        }
        routes
    }

    /// Keeps an invalid path, so that workloads do not report it missing.
    fn path(&mut self, entry: &Entry) -> Option<Route> {
        check_name("path", entry, self.collector)?;
        let (name, headers) = (entry.key.clone(), Vec::new());
        let nowhere = Route { name, subject: String::new(), behind: None, headers, is_path: true };
        let Some(node) = self.fill(&entry.node) else { return Some(nowhere) };
        if let Value::Text(to) = &node.value {
            self.collector.note(&node.span, format!("a path is a table; write {} = {{ to = {to:?} }}", entry.key));
            return Some(nowhere);
        }
        let before = self.collector.count();
        let file: Option<file::Path> = breme_toml::read(&node, self.collector);
        let Some(file) = file.filter(|_| self.collector.count() == before) else { return Some(nowhere) };
        let Some(to) = &file.to else {
            self.collector.note(
                &entry.key_span,
                format!("path `{}` has no subject; write {} = {{ to = \"SUBJECT\" }}", entry.key, entry.key),
            );
            return Some(nowhere);
        };
        for subject in [to].into_iter().chain(&file.r#for) {
            if !self.levels.subjects.contains(&subject.value) {
                let hint = suggest_or_list(&subject.value, self.levels.subjects.iter().map(String::as_str));
                self.collector.note(&subject.span, format!("there is no subject `{}`; {hint}", subject.value));
            }
        }
        self.check_headers(&file.headers.0);
        let headers = file.headers.0.into_iter().map(|(name, value)| (name.value, value.0)).collect();
        let behind = file.r#for.map(|behind| behind.value);
        Some(Route { subject: to.value.clone(), behind, headers, ..nowhere })
    }

    /// The subjects that get requests and those that they need, each after those that it needs; and, unless that is a
    /// cycle, after those whose ports it names.
    fn in_order(&mut self, subjects: &[Subject], requested: &[String]) -> Option<Vec<SubjectSpec>> {
        let mut needed: BTreeSet<String> = requested.iter().cloned().collect();
        while let Some(more) = subjects
            .iter()
            .filter(|subject| needed.contains(&subject.spec.name))
            .flat_map(|subject| subject.needs.iter().chain(&subject.meets))
            .find(|need| !needed.contains(*need))
        {
            needed.insert(more.clone());
        }
        let order = order::subjects(subjects.len(), self.seed);
        let mut waiting: Vec<&Subject> = order.iter().filter_map(|&index| subjects.get(index)).collect();
        let mut ready: Vec<&Subject> = Vec::new();
        while !waiting.is_empty() {
            let is_there = |name: &String| ready.iter().any(|ready| ready.spec.name == *name);
            let can_start = |subject: &&Subject| subject.needs.iter().all(is_there);
            let is_ready = |subject: &&Subject| can_start(subject) && subject.meets.iter().all(is_there);
            let next = waiting.iter().position(is_ready).or_else(|| waiting.iter().position(can_start));
            let Some(index) = next else {
                let mut names: Vec<&str> = circle(&waiting);
                names.push(names[0]);
                let first = waiting.iter().find(|subject| subject.spec.name == names[0]).unwrap_or(&waiting[0]);
                return self.collector.reject(
                    &first.key_span,
                    format!("subjects depend on each other in a cycle: {}", names.join(" → ")),
                );
            };
            ready.push(waiting.remove(index));
        }
        self.requested.extend(needed.iter().cloned());
        Some(
            ready
                .into_iter()
                .filter(|subject| needed.contains(&subject.spec.name))
                .map(|subject| subject.spec.clone())
                .collect(),
        )
    }
}

/// Rejects durations beyond the limit.
pub(super) fn check_duration(duration: Duration, span: &Span, collector: &mut Collector) {
    if duration.is_zero() {
        collector.note(span, "nothing can be measured in 0 s; write for example \"10s\"");
    } else if duration > DURATION_MAX {
        collector.note(span, format!("a trial lasts at most {} days", DURATION_MAX.as_secs() / 86_400));
    }
}

/// The names of a cycle; subjects that wait for each other contain one.
fn circle<'s>(waiting: &[&'s Subject]) -> Vec<&'s str> {
    let find = |name: &str| waiting.iter().find(|subject| subject.spec.name == name);
    let mut names: Vec<&'s str> = vec![&waiting[0].spec.name];
    loop {
        let last = names[names.len() - 1];
        let next = find(last).and_then(|subject| subject.needs.iter().find_map(|need| find(need)));
        let Some(next) = next else { return names };
        if let Some(start) = names.iter().position(|name| *name == next.spec.name) {
            let mut names = names.split_off(start);
            // Always begins with the same name, whatever the order.
            let smallest = (0..names.len()).min_by_key(|&index| names[index]).unwrap_or(0);
            names.rotate_left(smallest);
            return names;
        }
        names.push(&next.spec.name);
    }
}

/// Subjects named in the texts of a workload.
fn named_in(spec: &WorkloadSpec) -> impl Iterator<Item = String> {
    let names = spec.texts().flat_map(crate::placeholder::find).filter(|found| !found.is_escaped);
    names.filter_map(|found| found.name.split_once('.').map(|(subject, _)| subject.to_owned()))
}
