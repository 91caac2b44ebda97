//! A workload with a `command`: another load generator, and how to read its output.

use std::collections::BTreeMap;

use breme_expression::{Quantity, TimeKind};
use breme_load_plan::CONNECTIONS_DEFAULT;
use breme_toml::{Entry, TreeNode, Value};

use super::resolve::Route;
use super::resolver::Resolver;
use super::workload_draft::{WorkloadDraft, load_rate, start_delay};
use crate::figure::{Figure, FigurePattern, PatternFault};
use crate::file;
use crate::file::levels::{OF_GENERATOR, OF_ITSELF};
use crate::file::positions::{At, Ordered, Raw};
use crate::file::values::ContentSource;
use crate::placeholder;
use crate::trial::{GeneratorCommand, WorkloadSpec};

/// Keys of a workload that require a command.
const OF_COMMAND: [&str; 4] = ["measures", "files", "within", "server_count"];
/// Keys shared with `breme load`.
const IN_COMMON: [&str; 8] = ["command", "to", "connections", "rate", "duration", "background", "start_after", "cpus"];
const PATTERN_COUNT_MAX: usize = 20;

/// Whether a workload of the file is a foreign generator.
pub(super) fn is_command(entry: &Entry) -> bool {
    matches!(&entry.node.value, Value::Table(table) if table.get("command").is_some())
}

impl Resolver<'_, '_> {
    pub(super) fn foreign(&mut self, entry: &Entry, routes: &[Route]) -> Option<WorkloadDraft> {
        self.levels.own = &OF_GENERATOR;
        let found = self.foreign_filled(entry, routes);
        self.levels.own = &OF_ITSELF;
        found
    }

    fn foreign_filled(&mut self, entry: &Entry, routes: &[Route]) -> Option<WorkloadDraft> {
        let before = self.collector.count();
        let (file, value, route) = self.read_workload(entry, routes)?;
        self.check_keys(&value);
        if let Some(background) = file.background.as_ref().filter(|background| background.value) {
            self.collector.note(&background.span, "a command ends by itself, so it cannot run in the background");
        }
        let figures = self.figures(entry, file.measures.as_ref());
        if let Some(count) = &file.server_count
            && !figures.iter().any(|figure| figure.quantity == Quantity::Answered)
        {
            let problem = "the server's count is compared with that of the command; add measures.count";
            self.collector.note(&count.span, problem);
        }
        let command = GeneratorCommand {
            command: file.command.as_ref()?.value.0.clone(),
            figures,
            within: self.positive(file.within.as_ref()),
            server_count: file.server_count.as_ref().map(|count| count.value.clone()),
        };
        let requested_subject = route.behind.as_ref().unwrap_or(&route.subject);
        let spec = WorkloadSpec {
            name: entry.key.clone(),
            path: route.name.clone(),
            subject: route.subject.clone(),
            url: format!("${{{requested_subject}.url}}"),
            is_background: false,
            requests: None,
            spread: None,
            duration: self.positive(file.duration.as_ref()),
            connections: file.connections.map_or(CONNECTIONS_DEFAULT as u64, |count| count.0),
            is_open: false,
            think_mean: std::time::Duration::ZERO,
            arguments: Vec::new(),
            command: Some(command),
            files: self.files_of(&file.files),
            start_after: start_delay(&file),
            after: self.predecessor(&file),
            rate: load_rate(&file),
            cpus: self.cpus(file.cpus.as_ref()),
        };
        self.check_texts(&spec, &entry.key_span);
        if spec.rate.is_none() && spec.texts().flat_map(placeholder::find).any(|found| found.name == "rate") {
            let problem = format!("workload `{}` uses ${{rate}}, but has no rate; add rate = 1000", spec.name);
            self.collector.note(&entry.key_span, problem);
        }
        (self.collector.count() == before).then(|| WorkloadDraft {
            spec,
            subject: route.subject.clone(),
            background: None,
        })
    }

    fn check_keys(&mut self, value: &Value) {
        let Value::Table(table) = value else { return };
        let is_known = |key: &str| OF_COMMAND.contains(&key) || IN_COMMON.contains(&key);
        for entry in table.entries.iter().filter(|entry| !is_known(&entry.key)) {
            let problem = format!("`{}` is not for a command; write it as one of the command's arguments", entry.key);
            self.collector.note(&entry.key_span, problem);
        }
    }

    /// Rejects keys that are invalid for `breme load`.
    pub(super) fn refuse_keys_of_command(&mut self, value: &Value) {
        let Value::Table(table) = value else { return };
        for entry in OF_COMMAND.iter().filter_map(|key| table.get(key)) {
            let problem = match (entry.key.as_str(), &entry.node.value) {
                ("measures", Value::List(_)) => "a list of `measures` belongs above the first [table]".to_owned(),
                (key, _) => format!("`{key}` belongs to a command; add command = [\"PROGRAM\", \"ARGUMENT\"]"),
            };
            self.collector.note(&entry.key_span, problem);
        }
    }

    fn figures(&mut self, entry: &Entry, measures: Option<&At<Raw>>) -> Vec<Figure> {
        let measures = match measures {
            Some(At { value: Raw(Value::Table(table)), .. }) => table.entries.as_slice(),
            Some(At { value: Raw(other), span }) => {
                self.collector
                    .note(span, format!("expected a table of patterns by measure, found {}", other.describe()));
                return Vec::new();
            }
            None => &[],
        };
        if measures.is_empty() {
            let problem = format!(
                "workload `{}` measures nothing; write what its output says: [workload.{}.measures] rate = {{ pattern \
                 = 'Requests per second:\\s+([\\d.]+)' }}",
                entry.key, entry.key
            );
            self.collector.note(&entry.key_span, problem);
        }
        measures.iter().filter_map(|entry| self.figure(entry)).collect()
    }

    fn figure(&mut self, Entry { key: name, key_span, node }: &Entry) -> Option<Figure> {
        let quantity = match Quantity::parse(name).map(|quantity| (is_captured(&quantity), quantity)) {
            Ok((true, quantity)) => quantity,
            Ok((false, _)) => {
                let known = "a command has mean, min, max, stdev, p99 (also of service and connect), rate, offered, \
                             bytes, errors, pass, count, failed, refused";
                return self.collector.reject(key_span, format!("`{name}` is not read from an output; {known}"));
            }
            Err(problem) => {
                return self.collector.reject(key_span, problem);
            }
        };
        let nodes = if let Value::List(list) = &node.value { list.as_slice() } else { std::slice::from_ref(node) };
        if nodes.is_empty() || nodes.len() > PATTERN_COUNT_MAX {
            return self.collector.reject(&node.span, format!("a measure has from 1 to {PATTERN_COUNT_MAX} patterns"));
        }
        let patterns: Vec<FigurePattern> = nodes.iter().filter_map(|node| self.pattern(&quantity, node)).collect();
        (patterns.len() == nodes.len()).then_some(Figure { quantity, patterns })
    }

    fn pattern(&mut self, quantity: &Quantity, node: &TreeNode) -> Option<FigurePattern> {
        if let Value::Text(text) = &node.value {
            return self.collector.reject(&node.span, format!("a measure is a table; write {{ pattern = '{text}' }}"));
        }
        let file: file::FigurePattern = breme_toml::read(node, self.collector)?;
        let unit = file.unit.as_ref();
        let otherwise = file.otherwise.map(|otherwise| otherwise.0);
        let made = FigurePattern::new(quantity, &file.pattern.value, unit.map(|unit| unit.value.as_str()), otherwise);
        match made {
            Ok(pattern) => Some(pattern.with_binary_prefixes(file.binary.unwrap_or(false))),
            Err(PatternFault::Pattern(problem)) => self.collector.reject(&file.pattern.span, problem),
            Err(PatternFault::Unit(problem)) => {
                self.collector.reject(unit.map_or(&node.span, |unit| &unit.span), problem)
            }
        }
    }

    fn files_of(&mut self, files: &Ordered<At<ContentSource>>) -> BTreeMap<String, String> {
        let mut contents = BTreeMap::new();
        for (name, content) in &files.0 {
            self.check_file_name(name);
            contents.extend(self.content(content).map(|content| (name.value.clone(), content)));
        }
        contents
    }
}

/// Whether the output of a generator can contain it.
fn is_captured(quantity: &Quantity) -> bool {
    match quantity {
        Quantity::Time { kind, .. } => *kind != TimeKind::StaleAge,
        Quantity::Rate
        | Quantity::OfferedRate
        | Quantity::ByteRate
        | Quantity::ErrorShare
        | Quantity::PassShare
        | Quantity::Answered
        | Quantity::Failed
        | Quantity::Refused => true,
        _ => false,
    }
}

/// The measures captured by each command of the file, by workload name; used to check claims about other workloads.
pub(super) fn captured(workloads: &[Entry]) -> Vec<(String, Vec<Quantity>)> {
    let of = |entry: &Entry| {
        let Value::Table(table) = &entry.node.value else { return None };
        table.get("command")?;
        let names = table.table("measures").iter().filter_map(|measure| Quantity::parse(&measure.key).ok());
        Some((entry.key.clone(), with_derived(names.collect())))
    };
    workloads.iter().filter_map(of).collect()
}

/// Adds the quantities derived from others.
fn with_derived(mut captured: Vec<Quantity>) -> Vec<Quantity> {
    let has = |quantity| captured.contains(&quantity);
    let has_count = has(Quantity::Answered);
    if has(Quantity::Failed) && has_count || has(Quantity::ErrorShare) || has(Quantity::PassShare) {
        captured.extend([Quantity::ErrorShare, Quantity::PassShare]);
    }
    // Measured by the instruments.
    captured.extend([Quantity::GeneratorCpuShare, Quantity::GeneratorMemory]);
    if has_count {
        captured.extend([Quantity::GeneratorCpuPerRequest, Quantity::GeneratorUserCpuPerRequest]);
    }
    captured
}
