//! Converts a workload of the file into the arguments of `breme load` and what else the runner and the judge need to
//! know.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::{ThinkTime, suggest_or_list};
use breme_load_plan::{
    Arrivals, CONNECTION_COUNT_MAX, CONNECTIONS_DEFAULT, HTTP_VERSIONS, PIPELINE_DEPTH_MAX, PaceStage, Spread,
    THREAD_COUNT_MAX, TLS_VERSIONS, is_field_name,
};
use breme_toml::{Entry, Span, Table, Value};

use super::foreign::is_command;
use super::names::{absolute, check_name};
use super::request::PlannedRequest;
use super::resolve::{DURATION_MAX, Design, Route};
use super::resolver::Resolver;
use super::workload_draft::{WorkloadDraft, load_rate, start_delay};
use crate::file;
use crate::file::positions::At;
use crate::file::values::{ContentSource, Text, trim_parts};
use crate::trial::{LoadRate, WorkloadSpec};

const WORKLOAD_COUNT_MAX: usize = 50;
/// Longer content is written to a file, since the command line is limited.
const ARGUMENT_BYTES_MAX: usize = 8_192;
const DRIVERS: [&str; 4] = ["auto", "uring", "events", "threads"];

/// The arguments of a command under construction.
#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn flag(&mut self, name: &str, is_given: bool) {
        if is_given {
            self.0.push(name.to_owned());
        }
    }

    fn value(&mut self, name: &str, value: Option<String>) {
        // As one word, so that a value may begin with a dash.
        self.0.extend(value.map(|value| format!("{name}={value}")));
    }
}

/// Each stage as `breme load` takes it, and its place in the file.
fn stage_texts(stages: &[At<String>]) -> impl Iterator<Item = (String, &Span)> {
    stages.iter().flat_map(|at| at.value.split(',').map(move |text| (trim_parts(text), &at.span)))
}

/// Formats a duration exactly, as flags expect it.
fn seconds(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        nanos => format!("{}s", format!("{}.{nanos:09}", duration.as_secs()).trim_end_matches('0')),
    }
}

impl Resolver<'_, '_> {
    /// All workloads to which the design's duration applies, in file order.
    pub(super) fn workloads(
        &mut self,
        entries: &[Entry],
        routes: &[Route],
        design: Option<&Design>,
    ) -> Option<Vec<(WorkloadSpec, String)>> {
        let before = self.collector.count();
        if let Some(entry) = entries.get(WORKLOAD_COUNT_MAX) {
            self.collector.note(&entry.key_span, format!("there are more than {WORKLOAD_COUNT_MAX} workloads"));
        }
        let mut specs = Vec::new();
        for entry in entries.iter().take(WORKLOAD_COUNT_MAX) {
            specs.extend(self.workload(entry, routes));
        }
        if self.collector.count() > before || specs.len() < entries.len() {
            return None;
        }
        self.settle_background(&mut specs);
        self.check_sequence(&specs, entries);
        self.check_ends(&specs, entries, design);
        (self.collector.count() == before).then(|| specs.into_iter().map(|draft| (draft.spec, draft.subject)).collect())
    }

    fn workload(&mut self, entry: &Entry, routes: &[Route]) -> Option<WorkloadDraft> {
        check_name("workload", entry, self.collector)?;
        if is_command(entry) {
            return self.foreign(entry, routes);
        }
        let before = self.collector.count();
        let (file, value, route) = self.read_workload(entry, routes)?;
        self.check_together(&file, &value);
        self.refuse_keys_of_command(&value);
        let (duration, stages) = (self.positive(file.duration.as_ref()), self.stages(&file.stages.0));
        let mut files = BTreeMap::new();
        let target = self.target(entry, &file, &mut files);
        let mut arguments = self.arguments(&file, route, target.as_ref(), &mut files);
        let requested_subject = route.behind.as_ref().unwrap_or(&route.subject);
        let url = match file.hosts.0.first() {
            Some(host) => host.value.clone(),
            None if file.targets.is_some() => String::new(),
            None => format!("${{{requested_subject}.url}}"),
        };
        let url = url + target.as_ref().map_or("", |request| request.target.as_str());
        let spec = WorkloadSpec {
            name: entry.key.clone(),
            path: route.name.clone(),
            subject: route.subject.clone(),
            url,
            is_background: false,
            requests: file.requests.as_ref().map(|requests| requests.value.0),
            spread: spread(&file),
            duration: duration.or(stages),
            connections: file.connections.map_or(CONNECTIONS_DEFAULT as u64, |count| count.0),
            is_open: file.rate.is_some() || stages.is_some() || file.over.is_some(),
            think_mean: self.think_mean(file.think.as_ref()),
            arguments: std::mem::take(&mut arguments.0),
            command: None,
            files,
            start_after: start_delay(&file),
            after: self.predecessor(&file),
            rate: load_rate(&file).filter(|rate| matches!(rate, LoadRate::ShareOfPredecessor(_))),
            cpus: self.cpus(file.cpus.as_ref()),
        };
        self.check_texts(&spec, &entry.key_span);
        self.check_headers(&file.headers.0);
        if spec.start_after > DURATION_MAX {
            self.collector.note(
                &entry.key_span,
                format!("workload `{}` starts after more than {} days", spec.name, DURATION_MAX.as_secs() / 86_400),
            );
        }
        if self.collector.count() == before {
            self.check_with_program("load", &command_line(&spec), &entry.key_span);
        }
        let background = file.background.map(|background| background.value);
        (self.collector.count() == before).then(|| WorkloadDraft { spec, subject: route.subject.clone(), background })
    }

    /// Settings that require or exclude each other.
    fn check_together(&mut self, file: &file::Workload, value: &Value) {
        let Value::Table(table) = value else { return };
        let exclusive = [
            ("scenario", &["request", "targets", "method", "body", "expect"][..], "a scenario sets it in each step"),
            ("targets", &["request"], "the file of targets contains the requests"),
            ("over", &["rate", "stages"], "the rate follows from `requests` and `over`"),
            ("duration", &["stages"], "the stages determine the duration"),
        ];
        for (one, others, why) in exclusive.into_iter().filter(|(one, ..)| table.get(one).is_some()) {
            for other in others.iter().filter_map(|other| table.get(other)) {
                self.collector.note(&other.key_span, format!("`{}` and `{one}` exclude each other: {why}", other.key));
            }
        }
        if let (Some(over), None) = (&file.over, &file.requests) {
            self.collector.note(&over.span, "`over` is the time over which `requests` are spread; add requests = 1000");
        }
        let is_open = file.rate.is_some() || !file.stages.0.is_empty() || file.over.is_some();
        let of_open_loop = ["arrivals", "max_in_flight", "max_waiting", "deadline", "spin"];
        for entry in of_open_loop.iter().filter_map(|key| table.get(key)).filter(|_| !is_open) {
            self.collector.note(&entry.key_span, format!("`{}` belongs to an open loop; add a `rate`", entry.key));
        }
        if let (Some(entry), None) = (table.get("variables"), &file.scenario) {
            self.collector.note(&entry.key_span, "`variables` require a `scenario`");
        }
        for entry in ["hosts", "spread"].iter().filter_map(|key| table.get(key)).filter(|_| file.scenario.is_none()) {
            self.collector.note(&entry.key_span, format!("`{}` requires a `scenario`", entry.key));
        }
        if let (Some(key), None) = (table.get("key"), &file.cert) {
            self.collector.note(&key.key_span, "a key belongs to a certificate; add cert = \"FILE\"");
        }
        for (key, known) in [
            ("arrivals", &Arrivals::NAMES[..]),
            ("http", &HTTP_VERSIONS),
            ("tls", &TLS_VERSIONS),
            ("driver", &DRIVERS),
            ("spread", &Spread::NAMES),
        ] {
            self.check_choice(table, key, known);
        }
        self.check_numbers(file, table);
        if let Some(requests) = file.requests.as_ref().filter(|requests| requests.value.0 == 0) {
            self.collector
                .note(&requests.span, "`requests` must be at least 1; to disable the workload, set connections = 0");
        }
    }

    /// Reports values that `breme load` would reject, at their position.
    fn check_numbers(&mut self, file: &file::Workload, table: &Table) {
        let at = |count: &Option<At<file::values::Count>>| count.as_ref().map(|count| count.value.0);
        let bounded = [
            ("connections", file.connections.map(|count| count.0), 0..=CONNECTION_COUNT_MAX as u64),
            ("pipeline", at(&file.pipeline), 1..=PIPELINE_DEPTH_MAX as u64),
            ("threads", at(&file.threads), 1..=THREAD_COUNT_MAX as u64),
        ];
        for (key, value, bounds) in bounded {
            if let (Some(value), Some(entry)) = (value.filter(|value| !bounds.contains(value)), table.get(key)) {
                let (least, most) = (bounds.start(), breme_base::grouped(*bounds.end()));
                self.collector
                    .note(&entry.node.span, format!("`{key}` is a number from {least} to {most}, not {value}"));
            }
        }
    }

    fn check_choice(&mut self, table: &Table, key: &str, known: &[&str]) {
        let Some(entry) = table.get(key) else { return };
        let text = entry.node.value.plain().unwrap_or_default();
        if !known.contains(&text.as_str()) {
            let hint = suggest_or_list(&text, known.iter().copied());
            self.collector.note(&entry.node.span, format!("`{key}` cannot be {text:?}; {hint}"));
        }
    }

    /// Total duration of the stages of an open loop; none without stages.
    fn stages(&mut self, stages: &[At<String>]) -> Option<Duration> {
        let mut sum = Duration::ZERO;
        for (text, span) in stage_texts(stages) {
            match PaceStage::parse(&text) {
                Ok(stage) => sum = sum.saturating_add(stage.duration),
                Err(problem) => self.collector.note(span, problem),
            }
        }
        (!stages.is_empty()).then_some(sum)
    }

    fn think_mean(&mut self, think: Option<&At<Text>>) -> Duration {
        let Some(At { value: Text(text), span }) = think else { return Duration::ZERO };
        match ThinkTime::parse(text) {
            Ok(think) => think.mean(),
            Err(problem) => {
                self.collector.note(span, problem);
                Duration::ZERO
            }
        }
    }

    /// The request target; none for a file of targets or scenarios.
    fn target(
        &mut self,
        entry: &Entry,
        file: &file::Workload,
        files: &mut BTreeMap<String, String>,
    ) -> Option<PlannedRequest> {
        for (name, path) in [("scenario.toml", &file.scenario), ("targets", &file.targets)] {
            if let Some(content) = path.as_ref().and_then(|path| self.load(path)) {
                files.insert(name.to_owned(), content);
            }
        }
        match &file.request {
            Some(request) => self.request(request),
            None if file.scenario.is_none() && file.targets.is_none() => self
                .collector
                .reject(&entry.key_span, format!("workload `{}` has no request; add request = \"/\"", entry.key)),
            None => None,
        }
    }

    fn arguments(
        &mut self,
        file: &file::Workload,
        route: &Route,
        request: Option<&PlannedRequest>,
        files: &mut BTreeMap<String, String>,
    ) -> Arguments {
        let mut arguments = Arguments::default();
        let count = |count: &Option<At<file::values::Count>>| count.as_ref().map(|count| count.value.0.to_string());
        let time = |time: &Option<At<file::values::Time>>| time.as_ref().map(|time| seconds(time.value.0));
        let text = |text: &Option<At<Text>>| text.as_ref().map(|text| text.value.0.clone());
        let path = |path: &Option<String>| path.as_ref().map(|path| absolute(path, self.levels.folder));
        arguments.value("--proxy", route.behind.as_ref().map(|_| format!("${{{}.url}}", route.subject)));
        arguments.value("--threads", count(&file.threads));
        arguments.value("--driver", file.driver.as_ref().map(|driver| driver.value.clone()));
        arguments.value("--over", time(&file.over));
        let rate = file.rate.as_ref().and_then(|rate| rate.value.0.per_second());
        arguments.value("--rate", rate.map(|rate| rate.to_string()));
        arguments.value("--arrivals", file.arrivals.as_ref().map(|arrivals| arrivals.value.clone()));
        let stages: Vec<String> = stage_texts(&file.stages.0).map(|(text, _)| text).collect();
        arguments.value("--stages", (!stages.is_empty()).then(|| stages.join(",")));
        arguments.value("--max-in-flight", count(&file.max_in_flight));
        arguments.value("--max-waiting", count(&file.max_waiting));
        arguments.value("--deadline", time(&file.deadline));
        arguments.value("--spin", time(&file.spin));
        arguments.value("--pipeline", count(&file.pipeline));
        arguments.value("--http", text(&file.http));
        arguments.flag("--no-keepalive", file.keep_alive == Some(false));
        arguments.value("--think", text(&file.think));
        arguments.value("--ramp", file.ramp.map(|ramp| seconds(ramp.0)));
        arguments.value("--timeout", file.timeout.map(|timeout| seconds(timeout.0)));
        arguments.flag("--cookies", file.cookies == Some(true));
        arguments.flag("--cache-status", file.cache_status == Some(true));
        arguments.value("--origin-counter", file.origin_counter.clone());
        let method = file.method.as_ref().map(|method| method.value.clone());
        let method = method.or_else(|| request.and_then(|request| request.method.clone()));
        arguments.value("--method", method.filter(|method| method != "GET" || file.body.is_some()));
        for (name, value) in headers(route, &file.headers.0) {
            arguments.value("--header", Some(format!("{name}: {value}")));
        }
        if let Some(expect) = &file.expect {
            arguments.value("--expect-status", expect.status.as_ref().map(|status| status.0.clone()));
            arguments.value("--expect-bytes", expect.bytes.map(|bytes| bytes.0.to_string()));
            arguments.value("--expect-contains", expect.contains.clone());
            arguments.value("--expect-body-sha256", expect.sha256.clone());
        }
        arguments.value("--scenario", file.scenario.as_ref().map(|_| "${folder}/scenario.toml".to_owned()));
        arguments.value("--spread", file.spread.as_ref().map(|spread| spread.value.clone()));
        arguments.0.extend(file.hosts.0.iter().skip(1).map(|host| host.value.clone()));
        for (name, value) in &file.variables.0 {
            arguments.value("--var", Some(format!("{}={}", name.value, value.0)));
        }
        arguments.value("--targets", file.targets.as_ref().map(|_| "${folder}/targets".to_owned()));
        arguments.flag("--insecure", file.insecure == Some(true));
        arguments.value("--cacert", path(&file.cacert));
        arguments.value("--cert", path(&file.cert));
        arguments.value("--key", path(&file.key));
        arguments.value("--tls", text(&file.tls));
        arguments.flag("--no-tls-resumption", file.tls_resumption == Some(false));
        if let Some(body) = &file.body {
            arguments.value("--body", self.body(body, files));
        }
        arguments
    }

    /// A leading `@` would be interpreted as a file name.
    fn body(&mut self, body: &At<ContentSource>, files: &mut BTreeMap<String, String>) -> Option<String> {
        let content = self.content(body)?;
        if content.len() <= ARGUMENT_BYTES_MAX && !content.starts_with('@') {
            return Some(content);
        }
        files.insert("body".to_owned(), content);
        Some("@${folder}/body".to_owned())
    }

    /// Invalid fields (RFC 9110, section 5) would otherwise be found only by the generator.
    pub(super) fn check_headers(&mut self, headers: &[(At<String>, Text)]) {
        for (name, value) in headers {
            if !is_field_name(&name.value) {
                self.collector.note(
                    &name.span,
                    format!("{:?} is not a valid header name; use letters, digits and '-'", name.value),
                );
            } else if value.0.contains(['\r', '\n', '\0']) {
                self.collector.note(&name.span, format!("the value of header {:?} contains a line break", name.value));
            }
        }
    }

    /// Workloads without an end run in the background of those that have one.
    fn settle_background(&mut self, specs: &mut [WorkloadDraft]) {
        let has_end = |WorkloadDraft { spec, .. }: &WorkloadDraft| {
            spec.requests.is_some() || spec.duration.is_some() || spec.command.is_some()
        };
        let ends: Vec<bool> = specs.iter().map(|draft| has_end(draft) && draft.spec.connections > 0).collect();
        for (index, draft) in specs.iter_mut().enumerate() {
            let another_ends = ends.iter().enumerate().any(|(other, ends)| other != index && *ends);
            draft.spec.is_background = draft.background.unwrap_or(!has_end(draft) && another_ends);
        }
    }

    /// Each workload that another waits for must end.
    fn check_sequence(&mut self, specs: &[WorkloadDraft], entries: &[Entry]) {
        for (draft, entry) in specs.iter().zip(entries).filter(|(draft, _)| draft.spec.connections > 0) {
            let find = |name: &str| specs.iter().find(|other| other.spec.name == name).map(|other| &other.spec);
            let (name, Some(after)) = (&draft.spec.name, &draft.spec.after) else { continue };
            let problem = match find(after) {
                None => {
                    let names = specs.iter().map(|other| other.spec.name.as_str()).filter(|other| other != name);
                    format!("there is no workload `{after}`; {}", suggest_or_list(after, names))
                }
                Some(other) if other.connections == 0 => format!("workload `{after}` does not run at these levels"),
                Some(other) if other.is_background => format!("workload `{after}` is in the background and has no end"),
                Some(_) if draft.spec.is_background => "it waits for another workload, so it needs an end".to_owned(),
                Some(_) if waits_for_itself(&draft.spec, find) => "it waits for its own end".to_owned(),
                Some(_) => continue,
            };
            self.collector.note(&entry.key_span, format!("workload `{name}`: {problem}"));
        }
    }

    fn check_ends(&mut self, specs: &[WorkloadDraft], entries: &[Entry], design: Option<&Design>) {
        let Some(first) = entries.first() else { return };
        let running: Vec<&WorkloadDraft> = specs.iter().filter(|draft| draft.spec.connections > 0).collect();
        let at: Vec<String> = self.levels.chosen.iter().map(|(factor, level, _)| format!("{factor}={level}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
        if running.is_empty() {
            self.collector.note(&first.key_span, format!("nothing is measured{at}: no workload has a connection"));
        } else if running.iter().all(|draft| draft.spec.is_background) {
            self.collector.note(
                &first.key_span,
                format!(
                    "every workload is in the background{at}, and none ends the trial; set background = false for one"
                ),
            );
        }
        let late = running.iter().find(|draft| {
            let length = draft.spec.duration.or(design.map(|design| design.duration));
            let starts_late = !draft.spec.start_after.is_zero() && draft.spec.requests.is_none();
            starts_late && length.is_some_and(|length| draft.spec.start_after >= length)
        });
        if let Some(late) = late {
            self.collector
                .note(&first.key_span, format!("workload `{}` starts after the trial has ended", late.spec.name));
        }
    }
}

/// Whether the chain of predecessors leads back to it.
fn waits_for_itself<'s>(spec: &'s WorkloadSpec, find: impl Fn(&str) -> Option<&'s WorkloadSpec>) -> bool {
    let mut next = spec.after.as_deref().and_then(&find);
    for _ in 0..WORKLOAD_COUNT_MAX {
        let Some(other) = next else { return false };
        if other.name == spec.name {
            return true;
        }
        next = other.after.as_deref().and_then(&find);
    }
    true
}

/// The time that a schedule takes to send its requests.
fn spread(file: &file::Workload) -> Option<Duration> {
    let at_rate = |rate: f64, requests: u64| Duration::try_from_secs_f64(requests as f64 / rate).ok();
    let rate = file.rate.as_ref().and_then(|rate| rate.value.0.per_second());
    let of_rate = rate.zip(file.requests.as_ref());
    let over = file.over.as_ref().map(|over| over.value.0);
    over.or_else(|| of_rate.and_then(|(rate, requests)| at_rate(rate, requests.value.0)))
}

/// The fields of the path, overridden by those of the workload.
fn headers(route: &Route, own: &[(At<String>, Text)]) -> Vec<(String, String)> {
    let mut headers = route.headers.clone();
    headers.retain(|(name, _)| !own.iter().any(|(other, _)| other.value.eq_ignore_ascii_case(name)));
    headers.extend(own.iter().map(|(name, value)| (name.value.clone(), value.0.clone())));
    headers
}

/// The command line that the runner will use, for checking.
fn command_line(spec: &WorkloadSpec) -> Vec<String> {
    let mut line = spec.arguments.clone();
    line.push(format!("--connections={}", spec.connections.max(1)));
    line.extend(spec.rate.map(|_| "--rate=1".to_owned()));
    line.extend(spec.requests.map(|requests| format!("--requests={requests}")));
    if !spec.url.is_empty() {
        line.push(spec.url.clone());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_exactly() {
        for duration in
            [Duration::ZERO, Duration::from_millis(250), Duration::from_nanos(20_000), Duration::from_secs(90)]
        {
            assert_eq!(breme_base::parse_duration(&seconds(duration)), Ok(duration));
        }
    }
}
