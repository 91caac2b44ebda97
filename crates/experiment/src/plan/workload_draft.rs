//! A workload under construction, and what `breme load` and a command have in common: route, users, rate, start.

use std::time::Duration;

use breme_base::suggest_or_list;
use breme_toml::{Entry, Span, Value};

use super::resolve::{Route, check_duration};
use super::resolver::Resolver;
use crate::file;
use crate::file::positions::At;
use crate::file::values::StartAfter;
use crate::placeholder;
use crate::trial::{LoadRate, WorkloadSpec};

/// A workload under construction.
pub(super) struct WorkloadDraft {
    pub(super) spec: WorkloadSpec,
    pub(super) subject: String,
    pub(super) background: Option<bool>,
}

impl Resolver<'_, '_> {
    /// The entry with its levels filled in: as its type, and as the table of its keys; and its route.
    pub(super) fn read_workload<'r>(
        &mut self,
        entry: &Entry,
        routes: &'r [Route],
    ) -> Option<(file::Workload, Value, &'r Route)> {
        let before = self.collector.count();
        let node = self.fill(&entry.node)?;
        let file: Option<file::Workload> = breme_toml::read(&node, self.collector);
        let is_filled = self.collector.count() == before;
        let route = self.route(entry, file.as_ref().and_then(|file| file.to.as_ref()), &node.value, routes);
        let file = file.filter(|_| is_filled)?;
        Some((file, node.value, route?))
    }

    /// The route of its requests; if the file names none, it must be unambiguous.
    fn route<'r>(
        &mut self,
        entry: &Entry,
        to: Option<&At<String>>,
        value: &Value,
        routes: &'r [Route],
    ) -> Option<&'r Route> {
        let factor = self.levels.chosen.iter().find(|(factor, ..)| *factor == "path").copied();
        let (name, span) = match (to, factor) {
            (Some(to), _) => (to.value.clone(), to.span.clone()),
            (None, Some((_, level, node))) => {
                self.used.insert("path".to_owned());
                (level.to_owned(), node.span.clone())
            }
            (None, None) if self.levels.is_unreadable("path") => return None,
            (None, None) => return self.only_route(entry, value, routes),
        };
        let found = routes.iter().find(|route| route.name == name);
        if found.is_none() {
            let hint = suggest_or_list(&name, routes.iter().map(|route| route.name.as_str()));
            self.collector.note(&span, format!("there is no path or subject `{name}`; {hint}"));
        }
        found
    }

    fn only_route<'r>(&mut self, entry: &Entry, value: &Value, routes: &'r [Route]) -> Option<&'r Route> {
        // A `to` that could not be read has been reported already.
        let has_to = if let Value::Table(table) = value { table.get("to").is_some() } else { true };
        let paths: Vec<&Route> = routes.iter().filter(|route| route.is_path).collect();
        let subjects: Vec<&Route> = routes.iter().filter(|route| !route.is_path).collect();
        match (paths.as_slice(), subjects.as_slice()) {
            ([only], _) | ([], [only]) => Some(*only),
            _ if has_to => None,
            ([], []) => {
                if self.levels.subjects.is_empty() {
                    self.collector.note(&entry.key_span, "there is no subject to load; add [subject.NAME]");
                }
                None
            }
            _ => {
                let known: Vec<String> = routes.iter().map(|route| format!("to = \"{}\"", route.name)).collect();
                self.collector.reject(
                    &entry.key_span,
                    format!("workload `{}` has several possible targets; write {}", entry.key, known.join(" or ")),
                )
            }
        }
    }

    pub(super) fn positive(&mut self, time: Option<&At<file::values::Time>>) -> Option<Duration> {
        let time = time?;
        check_duration(time.value.0, &time.span, self.collector);
        Some(time.value.0)
    }

    /// A generator has no port of its own.
    pub(super) fn check_texts(&mut self, spec: &WorkloadSpec, span: &Span) {
        let names = spec.texts().flat_map(placeholder::find).filter(|found| !found.is_escaped);
        for found in names.filter(|found| found.name == "port" || found.name.starts_with("port.")) {
            let subject = self.levels.subjects.first().map_or("SUBJECT", String::as_str);
            self.collector.note(
                span,
                format!("workload `{}` has no port of its own; write ${{{subject}.{}}}", spec.name, found.name),
            );
        }
    }

    /// The workload that it waits for.
    pub(super) fn predecessor(&mut self, file: &file::Workload) -> Option<String> {
        let by_start = file.start_after.as_ref().and_then(|start| match &start.value.0 {
            StartAfter::Workload(name) => Some((name, &start.span)),
            StartAfter::Time(_) => None,
        });
        let by_rate = file.rate.as_ref().and_then(|rate| match &rate.value.0 {
            file::values::LoadRate::OfWorkload { workload, .. } => Some((workload, &rate.span)),
            file::values::LoadRate::PerSecond(_) => None,
        });
        if let (Some((start, span)), Some((rate, _))) = (by_start, by_rate)
            && start != rate
        {
            let problem = format!(
                "it starts when `{rate}` has ended, since its rate is a share of that of `{rate}`; remove start_after"
            );
            self.collector.note(span, problem);
        }
        by_start.or(by_rate).map(|(name, _)| name.clone())
    }
}

/// The delay before its start, in addition to the end of its predecessor.
pub(super) fn start_delay(file: &file::Workload) -> Duration {
    match file.start_after.as_ref().map(|start| &start.value.0) {
        Some(StartAfter::Time(delay)) => *delay,
        Some(StartAfter::Workload(_)) | None => Duration::ZERO,
    }
}

pub(super) fn load_rate(file: &file::Workload) -> Option<LoadRate> {
    file.rate.as_ref().map(|rate| match rate.value.0 {
        file::values::LoadRate::PerSecond(rate) => LoadRate::PerSecond(rate),
        file::values::LoadRate::OfWorkload { share, .. } => LoadRate::ShareOfPredecessor(share),
    })
}
