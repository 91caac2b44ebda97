//! Faults of a trial: what happens to which subject, and when.

use std::time::Duration;

use breme_base::suggest_or_list;
use breme_toml::{Collector, Span, TreeNode, Value};

use super::resolve::Design;
use super::resolver::Resolver;
use crate::file;
use crate::file::positions::At;
use crate::trial::{Fault, FaultAction, SubjectKind, SubjectSpec, WarmUp, WorkloadSpec};

const FAULT_COUNT_MAX: usize = 100;
/// The key of the file, and the factor whose level applies if that key is missing.
const FAULT: &str = "fault";
/// The role of subjects that can be partitioned.
const LINK: &str = "link";

struct LocatedFault {
    fault: Fault,
    span: Span,
    subject_span: Span,
}

impl Resolver<'_, '_> {
    /// The faults at this combination of levels, sorted by time.
    pub(super) fn faults(
        &mut self,
        subjects: &[SubjectSpec],
        workloads: &[WorkloadSpec],
        design: &Design,
    ) -> Vec<Fault> {
        let Some(node) = self.fault_node() else { return Vec::new() };
        let nodes = match node.value {
            Value::List(list) => list,
            _ => vec![node],
        };
        if let Some(node) = nodes.get(FAULT_COUNT_MAX) {
            self.collector.note(&node.span, format!("there are more than {FAULT_COUNT_MAX} faults"));
        }
        let mut located: Vec<LocatedFault> =
            nodes.iter().take(FAULT_COUNT_MAX).filter_map(|node| self.fault(node)).collect();
        located.sort_by_key(|located| located.fault.at);
        let window = window(workloads, design);
        for LocatedFault { fault, span, subject_span } in &located {
            self.check_subject(fault, subject_span, subjects);
            check_time(fault, span, window, design, self.collector);
        }
        check_sequence(&located, self.collector);
        located.into_iter().map(|located| located.fault).collect()
    }

    /// The value of the key, or the level of the factor of this name; none if there are no faults.
    fn fault_node(&mut self) -> Option<TreeNode> {
        let entry = self.tree.get(FAULT);
        let named = match entry.map(|entry| &entry.node.value) {
            None => FAULT,
            Some(Value::Text(text)) => text.strip_prefix('$').unwrap_or_default(),
            Some(_) => "",
        };
        let level = self.levels.chosen.iter().find(|(factor, ..)| *factor == named).map(|(.., node)| (*node).clone());
        let node = match (level, entry) {
            (Some(level), _) => {
                self.used.insert(named.to_owned());
                self.fill(&level)?
            }
            (None, Some(entry)) => self.fill(&entry.node)?,
            (None, None) => return None,
        };
        let is_none = matches!(&node.value, Value::Table(table) if table.entries.is_empty());
        (!is_none).then_some(node)
    }

    fn fault(&mut self, node: &TreeNode) -> Option<LocatedFault> {
        if !matches!(node.value, Value::Table(_)) {
            let described = node.value.describe();
            let problem = format!(
                "a fault is a table, such as {{ kill = \"SUBJECT\", at = \"5s\" }}, a list of them, or {{}} for none; not {described}"
            );
            return self.collector.reject(&node.span, problem);
        }
        let before = self.collector.count();
        let file: Option<file::Fault> = breme_toml::read(node, self.collector);
        let mut file = file.filter(|_| self.collector.count() == before)?;
        let actions: Vec<(FaultAction, At<String>)> =
            FaultAction::ALL.into_iter().filter_map(|action| Some((action, file.take(action)?))).collect();
        let [(action, subject)] = <[_; 1]>::try_from(actions).ok().or_else(|| {
            let known: Vec<String> =
                FaultAction::ALL.iter().map(|action| format!("{} = \"SUBJECT\"", action.name())).collect();
            self.collector.reject(&node.span, format!("a fault has exactly one of {}", known.join(", ")))
        })?;
        let Some(at) = file.at else {
            let problem = "this fault has no time; add at = \"5s\", counted from the end of the warm-up";
            return self.collector.reject(&node.span, problem);
        };
        let by_process = [FaultAction::Kill, FaultAction::Freeze, FaultAction::Thaw];
        if let Some(process) = file.process.as_ref().filter(|_| !by_process.contains(&action)) {
            let problem = format!("`process` belongs to kill, freeze and thaw, not to {}; remove it", action.name());
            self.collector.note(&process.span, problem);
        }
        if let Some(process) = file.process.as_ref().filter(|process| process.value.trim().is_empty()) {
            let problem = "`process` is empty; write words of the command line of the process, such as \"--name n2\"";
            self.collector.note(&process.span, problem);
        }
        let process = file.process.map(|process| process.value);
        let fault = Fault { action, subject: subject.value, process, at: at.value.0 };
        Some(LocatedFault { fault, span: at.span, subject_span: subject.span })
    }

    fn check_subject(&mut self, fault: &Fault, span: &Span, subjects: &[SubjectSpec]) {
        let (name, action) = (&fault.subject, fault.action.name());
        let Some(subject) = subjects.iter().find(|subject| subject.name == *name) else {
            let problem = if self.levels.subjects.contains(name) {
                format!("`{action} = \"{name}\"`{}: no workload or subject uses `{name}` there", self.at_levels())
            } else {
                let hint = suggest_or_list(name, self.levels.subjects.iter().map(String::as_str));
                format!("there is no subject `{name}`; {hint}")
            };
            self.collector.note(span, problem);
            return;
        };
        let is_link = matches!(&subject.kind, SubjectKind::Own { role, .. } if role == LINK);
        if matches!(fault.action, FaultAction::Partition | FaultAction::Heal) && !is_link {
            let problem = format!(
                "subject `{name}` is not a link; put one in front of it, [subject.path] kind = \"link\" to = \"{name}\", and write {action} = \"path\""
            );
            self.collector.note(span, problem);
        } else if subject.kind.process().is_none() {
            let problem = format!(
                "subject `{name}` was not started by this experiment, and so has no processes to {action}; put a link in front of it and use `partition`"
            );
            self.collector.note(span, problem);
        }
    }

    fn at_levels(&self) -> String {
        let levels = self.levels.chosen.iter().map(|(factor, level, _)| format!("{factor}={level}"));
        let levels: Vec<String> = levels.collect();
        if levels.is_empty() { String::new() } else { format!(" at {}", levels.join(", ")) }
    }
}

impl file::Fault {
    fn take(&mut self, action: FaultAction) -> Option<At<String>> {
        match action {
            FaultAction::Kill => self.kill.take(),
            FaultAction::Start => self.start.take(),
            FaultAction::Freeze => self.freeze.take(),
            FaultAction::Thaw => self.thaw.take(),
            FaultAction::Partition => self.partition.take(),
            FaultAction::Heal => self.heal.take(),
        }
    }
}

/// The length of the window; none if a number of requests ends the trial.
fn window(workloads: &[WorkloadSpec], design: &Design) -> Option<Duration> {
    let running = workloads.iter().filter(|workload| workload.connections > 0 && !workload.is_background);
    let length = |workload: &WorkloadSpec| match workload.requests {
        _ if workload.after.is_some() => None,
        Some(_) => None,
        None => Some(workload.start_after + workload.duration.unwrap_or(design.duration)),
    };
    let lengths: Option<Vec<Duration>> = running.map(length).collect();
    lengths?.into_iter().max()
}

fn check_time(fault: &Fault, span: &Span, window: Option<Duration>, design: &Design, collector: &mut Collector) {
    if design.warm_up == WarmUp::Found {
        let problem = "the time of a fault counts from the end of the warm-up, so the warm-up needs a fixed length; write warm_up = \"2s\" or \"none\" in [design]";
        collector.note(span, problem);
    }
    if let Some(window) = window.filter(|window| fault.at >= *window) {
        let problem = format!(
            "the fault at {:?} is beyond the {window:?} that are measured; write an earlier time, or a longer duration",
            fault.at
        );
        collector.note(span, problem);
    }
}

/// A fault can end only after it has begun, and only running subjects can be affected.
fn check_sequence(located: &[LocatedFault], collector: &mut Collector) {
    let mut begun: Vec<&Fault> = Vec::new();
    for LocatedFault { fault, span, .. } in located {
        let (name, at) = (&fault.subject, fault.at);
        let is_killed =
            |before: &&Fault| before.action == FaultAction::Kill && before.subject == *name && before.process.is_none();
        if fault.action != FaultAction::Start && begun.iter().any(is_killed) {
            let problem =
                format!("subject `{name}` was killed before {at:?}; add {{ start = \"{name}\", at = … }} between");
            collector.note(span, problem);
        }
        let Some((begins, state)) = fault.action.ends() else {
            begun.push(fault);
            continue;
        };
        let count = begun.len();
        begun.retain(|before| {
            let is_meant = before.action == begins && before.subject == *name;
            !is_meant || fault.process.is_some() && before.process != fault.process
        });
        if begun.len() == count {
            let begins = begins.name();
            let problem =
                format!("subject `{name}` is not {state} at {at:?}; add {{ {begins} = \"{name}\", at = … }} before");
            collector.note(span, problem);
        }
    }
}

impl FaultAction {
    /// The fault that it ends, and the state of a subject in between.
    const fn ends(self) -> Option<(Self, &'static str)> {
        match self {
            Self::Kill | Self::Freeze | Self::Partition => None,
            Self::Start => Some((Self::Kill, "killed")),
            Self::Thaw => Some((Self::Freeze, "frozen")),
            Self::Heal => Some((Self::Partition, "partitioned")),
        }
    }
}
