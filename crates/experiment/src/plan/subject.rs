//! Converts a subject of the file into what the runner starts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use breme_base::{HttpUrl, InvalidUrl, parse_cpu_list, suggest_or_list};
use breme_toml::{Entry, Span, Table, TreeNode, Value};

use super::names::check_name;
use super::resolver::Resolver;
use super::roles::{Role, Roles, Scope};
use crate::file::levels::OF_RUN;
use crate::file::positions::At;
use crate::file::values::Text;
use crate::file::{self, RestartText};
use crate::placeholder;
use crate::trial::{
    Cpus, ProcessSpec, Ready, ReadyCheck, ResetAction, ResourceLimits, Restart, SubjectKind, SubjectSpec,
};

pub(super) const SUBJECT_COUNT_MAX: usize = 100;
/// Default limit of the time until a subject is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Printed by breme's own servers when they are ready.
const READY_LINE: &str = "listening on ";
/// Signals allowed for ending a subject.
const SIGNALS: [&str; 8] = ["TERM", "QUIT", "INT", "HUP", "KILL", "USR1", "USR2", "WINCH"];
/// Keys of every subject; the others are flags of its role.
pub(crate) const KEYS: [&str; 15] = [
    "kind",
    "command",
    "url",
    "files",
    "prepare",
    "environment",
    "ports",
    "ready",
    "stop",
    "metrics",
    "limits",
    "cpus",
    "restart",
    "reset",
    "needs",
];
/// Keys only of subjects that are started.
const STARTED_KEYS: [&str; 10] =
    ["command", "files", "prepare", "environment", "ports", "stop", "limits", "cpus", "restart", "reset"];

/// A subject with additional information for the plan.
pub(super) struct Subject {
    pub spec: SubjectSpec,
    /// Subjects that must run before it.
    pub needs: BTreeSet<String>,
    /// Subjects of which it names only ports, which are known before they run: for example a server and the cache that
    /// it purges.
    pub meets: BTreeSet<String>,
    pub resets: Vec<(String, ResetAction)>,
    pub key_span: Span,
}

/// The kind of a subject, before its settings are known.
enum DeclaredKind<'a> {
    Own(&'a Role),
    Command,
    External,
}

impl<'a> Resolver<'a, '_> {
    pub(super) fn subject(&mut self, entry: &Entry) -> Option<Subject> {
        check_name("subject", entry, self.collector)?;
        if ["port", "folder", "experiment"].contains(&entry.key.as_str()) {
            let problem = format!("${{{}}} is reserved; give the subject another name", entry.key);
            return self.collector.reject(&entry.key_span, problem);
        }
        let before = self.collector.count();
        let node = self.fill(&entry.node)?;
        let Value::Table(table) = &node.value else {
            let described = node.value.describe();
            return self.collector.reject(&node.span, format!("a subject is a table of settings, not {described}"));
        };
        let kind = self.kind(entry, table)?;
        let (common, flags) = divide(table, matches!(kind, DeclaredKind::Own(_)));
        let arguments = match kind {
            DeclaredKind::Own(role) => {
                let scope = Scope { subjects: self.levels.subjects, folder: self.levels.folder };
                role.arguments(&flags, &KEYS, &scope, self.collector)
            }
            _ => Vec::new(),
        };
        let file: Option<file::Subject> =
            breme_toml::read(&TreeNode { value: Value::Table(common), ..node.clone() }, self.collector);
        let file = file.filter(|_| self.collector.count() == before)?;
        self.subject_of(entry, table, &kind, arguments, &file)
    }

    fn kind(&mut self, entry: &Entry, table: &Table) -> Option<DeclaredKind<'a>> {
        let roles: &'a Roles = self.roles;
        let kind = table.get("kind");
        let named = kind.and_then(|entry| entry.node.value.plain());
        let inferred = if table.get("command").is_some() {
            "command"
        } else if table.get("url").is_some() {
            "external"
        } else {
            ""
        };
        let name = named.as_deref().unwrap_or(inferred);
        match name {
            "command" => return Some(DeclaredKind::Command),
            "external" => return Some(DeclaredKind::External),
            _ => {}
        }
        if let Some(role) = roles.find(name) {
            return Some(DeclaredKind::Own(role));
        }
        let known: Vec<&str> = roles.0.iter().map(|role| role.name.as_str()).chain(["command", "external"]).collect();
        match kind {
            Some(kind) => {
                let hint = suggest_or_list(name, known.iter().copied());
                self.collector.note(&kind.node.span, format!("there is no kind of subject `{name}`; {hint}"));
            }
            None => self.collector.note(
                &entry.key_span,
                format!("subject `{}` has no `kind`; there are {}", entry.key, known.join(", ")),
            ),
        }
        None
    }

    fn subject_of(
        &mut self,
        entry: &Entry,
        table: &Table,
        kind: &DeclaredKind<'_>,
        arguments: Vec<String>,
        file: &file::Subject,
    ) -> Option<Subject> {
        let before = self.collector.count();
        let name = entry.key.clone();
        if matches!(kind, DeclaredKind::External) {
            self.refuse(
                table,
                &STARTED_KEYS,
                "it runs already and breme does not start it; use `command` to have it started",
            );
        }
        let mut process = self.process(file);
        let resets: Vec<(String, ResetAction)> =
            file.reset.0.iter().filter_map(|(action, reset)| self.reset(action, reset)).collect();
        let kind_of = match kind {
            DeclaredKind::Own(role) => {
                self.refuse(table, &["command"], "it is one of breme's own servers; remove the key");
                let has_admin = role.flags.iter().any(|flag| flag.name == "admin");
                let own = ["port", "admin"].into_iter().take(1 + usize::from(has_admin)).map(str::to_owned);
                let more = file.ports.iter().flatten().map(|port| port.value.clone());
                process.ports = own.chain(more.filter(|name| name != "port" && name != "admin")).collect();
                self.check_with_program(&role.name, &arguments, &entry.key_span);
                let token = role.token(&arguments, &resets);
                SubjectKind::Own { role: role.name.clone(), arguments, token, process }
            }
            DeclaredKind::Command => match &file.command {
                Some(command) => SubjectKind::Command { command: command.value.0.clone(), process },
                None => {
                    return self.collector.reject(
                        &entry.key_span,
                        format!("subject `{name}` has no `command`; write command = [\"PROGRAM\", \"ARGUMENT\"]"),
                    );
                }
            },
            DeclaredKind::External => SubjectKind::External,
        };
        let url = self.url(entry, &kind_of, file)?;
        let metrics_url = self.metrics_url(&kind_of, &url, file);
        let ready = self.ready(&kind_of, file.ready.as_ref());
        let restart = restart(file.restart.unwrap_or(self.restart));
        let spec = SubjectSpec { name, kind: kind_of, url, metrics_url, ready, restart };
        let (needs, meets) = self.needs(&spec, &resets, &file.needs, &entry.key_span);
        let key_span = entry.key_span.clone();
        (self.collector.count() == before).then_some(Subject { spec, needs, meets, resets, key_span })
    }

    fn refuse(&mut self, table: &Table, keys: &[&str], why: &str) {
        for entry in table.entries.iter().filter(|entry| keys.contains(&entry.key.as_str())) {
            self.collector.note(&entry.key_span, format!("`{}` is not allowed in this subject: {why}", entry.key));
        }
    }

    fn process(&mut self, file: &file::Subject) -> ProcessSpec {
        let mut files = BTreeMap::new();
        for (name, content) in &file.files.0 {
            self.check_file_name(name);
            if let Some(content) = self.content(content) {
                files.insert(name.value.clone(), content);
            }
        }
        let limits = file.limits.as_ref();
        if let Some(cpu) = limits.and_then(|limits| limits.cpu.as_ref()).filter(|cpu| cpu.value.0 <= 0.0) {
            self.collector.note(&cpu.span, "a limit of processors must be above 0; 0.5 is half a processor");
        }
        let ports = file
            .ports
            .as_ref()
            .map_or_else(|| vec!["port".to_owned()], |ports| ports.iter().map(|port| port.value.clone()).collect());
        for port in
            file.ports.iter().flatten().filter(|port| !placeholder::is_name(&port.value) || port.value.contains('.'))
        {
            self.collector.note(
                &port.span,
                format!(
                    "{:?} is not a valid port name; write a word, such as \"admin\" for ${{port.admin}}",
                    port.value
                ),
            );
        }
        ProcessSpec {
            files,
            prepare: file.prepare.iter().map(|command| command.0.clone()).collect(),
            environment: file.environment.0.iter().map(|(name, value)| (name.value.clone(), value.0.clone())).collect(),
            ports,
            cpus: self.cpus(file.cpus.as_ref()),
            limits: ResourceLimits {
                cpu: limits.and_then(|limits| limits.cpu.as_ref()).map(|cpu| cpu.value.0),
                memory_bytes: limits.and_then(|limits| limits.memory).map(|size| size.0),
                open_files: limits.and_then(|limits| limits.open_files).map(|count| count.0),
                processes: limits.and_then(|limits| limits.processes).map(|count| count.0),
            },
            stop_signal: file
                .stop
                .as_ref()
                .and_then(|stop| stop.signal.as_ref())
                .and_then(|signal| self.signal(signal)),
            stop_within: file.stop.as_ref().and_then(|stop| stop.within).map(|within| within.0),
        }
    }

    pub(super) fn check_file_name(&mut self, name: &At<String>) {
        let is_inside = !name.value.is_empty() && name.value.split('/').all(|part| !["", ".", ".."].contains(&part));
        if !is_inside {
            self.collector.note(
                &name.span,
                format!(
                    "{:?} is not a file name inside the trial's folder; write for example \"conf/nginx.conf\"",
                    name.value
                ),
            );
        }
    }

    fn signal(&mut self, signal: &At<String>) -> Option<String> {
        let name = signal.value.to_uppercase();
        let name = name.strip_prefix("SIG").unwrap_or(&name).to_owned();
        if SIGNALS.contains(&name.as_str()) {
            return Some(name);
        }
        self.collector.reject(
            &signal.span,
            format!("there is no signal {:?}; {}", signal.value, suggest_or_list(&name, SIGNALS.into_iter())),
        )
    }

    pub(super) fn cpus(&mut self, cpus: Option<&At<Text>>) -> Cpus {
        let Some(At { value: Text(text), span }) = cpus else { return Cpus::Auto };
        match text.as_str() {
            "auto" => Cpus::Auto,
            "all" => Cpus::All,
            list => match parse_cpu_list(list) {
                Some(cpus) => Cpus::List(cpus),
                None => {
                    self.collector.note(span, format!("{text:?} is not a list of processors; write auto, all, or numbers and ranges such as \"0,2-3\""));
                    Cpus::Auto
                }
            },
        }
    }

    fn url(&mut self, entry: &Entry, kind: &SubjectKind, file: &file::Subject) -> Option<String> {
        let Some(url) = &file.url else {
            return match kind {
                SubjectKind::External => self.collector.reject(
                    &entry.key_span,
                    format!("subject `{}` has no `url`; write url = \"http://HOST:PORT\"", entry.key),
                ),
                SubjectKind::Own { arguments, .. } => {
                    let is_secured = arguments.iter().any(|argument| argument.starts_with("--tls-"));
                    Some(format!("{}://127.0.0.1:${{port}}", if is_secured { "https" } else { "http" }))
                }
                SubjectKind::Command { .. } => Some("http://127.0.0.1:${port}".to_owned()),
            };
        };
        if !url.value.starts_with("${")
            && let Err(problem) = check_url(&url.value)
        {
            self.collector.note(
                &url.span,
                format!("{:?} is not a URL: {problem}; write http://HOST:PORT or https://HOST:PORT", url.value),
            );
        }
        Some(url.value.trim_end_matches('/').to_owned())
    }

    fn metrics_url(&mut self, kind: &SubjectKind, url: &str, file: &file::Subject) -> Option<String> {
        let Some(metrics) = &file.metrics else {
            let has_admin = kind.process().is_some_and(|process| process.ports.iter().any(|port| port == "admin"));
            let is_own = matches!(kind, SubjectKind::Own { .. });
            return (is_own && has_admin).then(|| "http://127.0.0.1:${port.admin}/metrics".to_owned());
        };
        if metrics.value.starts_with('/') {
            return Some(format!("{url}{}", metrics.value));
        }
        if let Err(problem) = check_url(&metrics.value) {
            self.collector.note(
                &metrics.span,
                format!("{:?} is neither a path nor a URL: {problem}; write for example \"/metrics\"", metrics.value),
            );
        }
        Some(metrics.value.clone())
    }

    fn ready(&mut self, kind: &SubjectKind, ready: Option<&At<file::Ready>>) -> Ready {
        let standard = match kind {
            SubjectKind::Own { .. } => ReadyCheck::Line(READY_LINE.to_owned()),
            _ => ReadyCheck::Port,
        };
        let Some(At { value: file, span }) = ready else { return Ready { check: standard, within: READY_WITHIN } };
        let within = file.within.map_or(READY_WITHIN, |within| within.0);
        let checks = [file.port == Some(true), file.get.is_some(), file.line.is_some()];
        if checks.iter().filter(|is_named| **is_named).count() > 1 {
            self.collector.note(span, "`port`, `get` and `line` exclude each other; keep one of them");
        }
        let status = file.status.as_ref();
        if let Some(status) = status.filter(|status| !(100..600).contains(&status.value.0)) {
            self.collector
                .note(&status.span, format!("{} is not a status code; write one from 100 to 599", status.value.0));
        }
        if let (Some(status), None) = (status, &file.get) {
            self.collector.note(&status.span, "`status` needs a path; add get = \"/\"");
        }
        let check = match (&file.get, &file.line) {
            (Some(get), _) => {
                if !get.value.starts_with('/') {
                    self.collector.note(&get.span, format!("{:?} is not a path; a path begins with '/'", get.value));
                }
                let status = status.and_then(|status| u16::try_from(status.value.0).ok()).unwrap_or(200);
                ReadyCheck::Answer { path: get.value.clone(), status }
            }
            (None, Some(line)) => ReadyCheck::Line(line.clone()),
            (None, None) if file.port == Some(true) => ReadyCheck::Port,
            (None, None) => standard,
        };
        Ready { check, within }
    }

    /// The subjects that its texts name and those listed as needed; separately, those of which it names only ports.
    /// Also checks its own ports.
    fn needs(
        &mut self,
        spec: &SubjectSpec,
        resets: &[(String, ResetAction)],
        named: &[At<String>],
        span: &Span,
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut needs, mut meets) = (BTreeSet::new(), BTreeSet::new());
        for need in named {
            if self.levels.subjects.contains(&need.value) {
                needs.insert(need.value.clone());
            } else {
                let hint = suggest_or_list(&need.value, self.levels.subjects.iter().map(String::as_str));
                self.collector.note(&need.span, format!("there is no subject `{}`; {hint}", need.value));
            }
        }
        let ports = spec.kind.process().map_or(&[][..], |process| &process.ports);
        for text in spec.texts().into_iter().chain(resets.iter().flat_map(|(_, action)| action.texts())) {
            for found in placeholder::find(text).filter(|found| !found.is_escaped) {
                let (first, rest) = found.name.split_once('.').unwrap_or((found.name, ""));
                match first {
                    "port" => {
                        let port = if rest.is_empty() { "port" } else { rest };
                        if !ports.iter().any(|known| known == port) {
                            let hint = if ports.is_empty() {
                                "it has no ports".to_owned()
                            } else {
                                {
                                    let all: Vec<&str> = ports.iter().map(String::as_str).chain([port]).collect();
                                    format!("write ports = {all:?}")
                                }
                            };
                            self.collector.note(
                                span,
                                format!(
                                    "${{{}}} is used in subject `{}`, but there is no port `{port}`; {hint}",
                                    found.name, spec.name
                                ),
                            );
                        }
                    }
                    "folder" => {}
                    first if rest.is_empty() && OF_RUN.contains(&first) => {}
                    subject if subject == spec.name => {}
                    subject => {
                        let is_port = placeholder::port_of_subject(found.name).is_some();
                        let into = if is_port { &mut meets } else { &mut needs };
                        into.insert(subject.to_owned());
                    }
                }
            }
        }
        (needs, meets)
    }
}

/// Separates the keys of every subject from the flags of breme's own servers.
fn divide(table: &Table, has_flags: bool) -> (Table, Table) {
    if !has_flags {
        return (table.clone(), Table::default());
    }
    let is_common = |entry: &&Entry| KEYS.contains(&entry.key.as_str());
    let common = table.entries.iter().filter(is_common).cloned().collect();
    let flags = table.entries.iter().filter(|entry| !is_common(entry)).cloned().collect();
    (Table { entries: common }, Table { entries: flags })
}

/// Checks a URL. Host and port may contain placeholders, whose values are not known yet.
pub(super) fn check_url(url: &str) -> Result<(), InvalidUrl> {
    let url = HttpUrl::split(url)?;
    if url.authority.contains("${") { Ok(()) } else { url.host_and_port().map(drop) }
}

pub(super) fn restart(text: RestartText) -> Restart {
    match text {
        RestartText::Block => Restart::Block,
        RestartText::Trial => Restart::Trial,
        RestartText::Never => Restart::Never,
    }
}
