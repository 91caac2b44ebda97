//! The result as text for a person at a terminal.
//!
//! First the question whether it may be believed, and the rate; then the distribution, a row for each quantile and a
//! column for each kind of time, each with the unit that fits it; then what went wrong.

use std::fmt::Write;

use crate::figures::{duration, percent, rate, size};
use crate::outcome::{
    ConditionResult, ConditionVerdict, Lateness, OpenLoopSummary, Outcome, ScenarioSummary, ScheduleSummary,
    StageSummary, TimeSummary,
};
use breme_base::{grouped, plural};

/// Whether to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours; not when the output is no terminal, or when `NO_COLOR` is set.
    pub colours: bool,
}

const BOLD: &str = "1";
const GREEN: &str = "32";
const RED: &str = "31";
const DIM: &str = "2";

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The whole result.
#[must_use]
pub fn render(outcome: &Outcome, style: Style) -> String {
    let mut text = String::new();
    let parts = [
        head(outcome, style),
        checks(outcome, style),
        verdict(outcome, style),
        times(outcome, style),
        steps(outcome, style),
        sessions(outcome, style),
        counts(outcome, style),
    ];
    for part in parts.iter().filter(|part| !part.is_empty()) {
        text.push_str(part);
        text.push('\n');
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn head(outcome: &Outcome, style: Style) -> String {
    let settings = &outcome.settings;
    let more = if settings.targets > 1 {
        format!(" and {} more targets", grouped(settings.targets - 1))
    } else {
        String::new()
    };
    let pipeline = if settings.pipeline_depth > 1 {
        format!(", {} deep pipeline", settings.pipeline_depth)
    } else {
        String::new()
    };
    let closing = if settings.keep_alive { "" } else { ", a connection for each request" };
    let what = match outcome.scenarios.as_slice() {
        [] => settings.method.clone(),
        [only] => format!("scenario {:?} at", only.name),
        several => format!("{} at", plural(several.len() as u64, "scenario")),
    };
    let mut text = style.paint(BOLD, &format!("{what} {}{more}", settings.url));
    let _ = writeln!(
        text,
        "\n{}, {}, {}, HTTP/{}{pipeline}{closing}, {}",
        plural(settings.connections, "connection"),
        plural(settings.threads, "thread"),
        settings.schedule.as_ref().map_or_else(|| "closed loop".to_owned(), schedule),
        settings.http,
        duration(outcome.elapsed_ns),
    );
    text
}

/// What failed, where something did, and each condition of `--fail-if`.
fn checks(outcome: &Outcome, style: Style) -> String {
    let mut text = String::new();
    if outcome.all_failed() {
        let failed = format!("every response failed its check: {} of {0}", grouped(outcome.requests.answered));
        let _ = writeln!(text, "{}     {failed}", style.paint(RED, "FAILED"));
    }
    for ConditionResult { condition, verdict, measured } in &outcome.conditions {
        let word = match verdict {
            ConditionVerdict::Passed => style.paint(GREEN, "passed"),
            ConditionVerdict::Failed => style.paint(RED, "FAILED"),
            ConditionVerdict::NoVerdict => style.paint(RED, "NO VERDICT"),
        };
        let _ = writeln!(text, "fail if    {condition}: {word} ({measured})");
    }
    text
}

fn schedule(schedule: &ScheduleSummary) -> String {
    let rates: Vec<String> = match schedule.stages.as_slice() {
        [] => vec![format!("{}/s", rate(schedule.rate))],
        stages => {
            let shape = |stage: &StageSummary| if stage.is_ramp { ':' } else { '@' };
            stages
                .iter()
                .map(|stage| format!("{}{}{}", duration(stage.duration_ns), shape(stage), rate(stage.rate)))
                .collect()
        }
    };
    format!("open loop, {} {}", schedule.arrivals, rates.join(", "))
}

fn verdict(outcome: &Outcome, style: Style) -> String {
    let mut text = if outcome.valid { String::new() } else { style.paint(RED, "INVALID") + "\n" };
    for reason in &outcome.invalid_reasons {
        let _ = writeln!(text, "  {reason}");
    }
    if !outcome.valid {
        text.push('\n');
    }
    let rate = style.paint(BOLD, &format!("{:>12}", rate(outcome.achieved_rate)));
    let _ = writeln!(
        text,
        "achieved   {rate} answers/s       offered {} requests/s",
        crate::figures::rate(outcome.offered_rate)
    );
    let generator = &outcome.generator;
    let busiest = generator.thread_shares.iter().copied().fold(0.0, f64::max);
    let cpu = match generator.cpu_share {
        Some(share) => format!(
            "{} of {}, busiest thread {}",
            percent(share),
            plural(generator.processors, "processor"),
            percent(busiest)
        ),
        None => "not known".to_owned(),
    };
    let per_request =
        generator.cpu_ns_per_request.map_or(String::new(), |nanos| format!(", {} a request", duration(nanos as u64)));
    let _ = writeln!(text, "generator  CPU {cpu}{per_request}");
    let Lateness { p50_ns, p99_ns, max_ns, .. } = outcome.lateness;
    let _ =
        writeln!(text, "lateness   median {}, 99 % {}, peak {}", duration(p50_ns), duration(p99_ns), duration(max_ns));
    if let Some(OpenLoopSummary { due, begun, waited, dropped, shed }) = outcome.open_loop {
        let (due, begun, waited) = (grouped(due), grouped(begun), grouped(waited));
        let unbegun = format!("{} dropped, {} shed", grouped(dropped), grouped(shed));
        let unbegun = if dropped + shed == 0 { unbegun } else { style.paint(RED, &unbegun) };
        let _ = writeln!(
            text,
            "schedule   {due} due, {begun} begun, {waited} of them had to wait for a connection; {unbegun}"
        );
    }
    text
}

/// A row's name, and what stands in it.
type TimeRow = (&'static str, fn(&TimeSummary) -> u64);

const TIME_ROWS: [TimeRow; 10] = [
    ("mean", |time| time.mean_ns.round() as u64),
    ("stdev", |time| time.stdev_ns.round() as u64),
    ("min", |time| time.min_ns),
    ("50 %", |time| time.p50_ns),
    ("75 %", |time| time.p75_ns),
    ("90 %", |time| time.p90_ns),
    ("95 %", |time| time.p95_ns),
    ("99 %", |time| time.p99_ns),
    ("99.9 %", |time| time.p999_ns),
    ("max", |time| time.max_ns),
];

fn times(outcome: &Outcome, style: Style) -> String {
    let mut columns =
        vec![&outcome.response_time, &outcome.service_time, &outcome.first_byte_time, &outcome.connect_time];
    let mut names =
        format!("{:<10} {:>12} {:>12} {:>12} {:>12}", "latency", "response", "service", "first byte", "connect");
    if outcome.handshake_time.count > 0 {
        columns.push(&outcome.handshake_time);
        let _ = write!(names, " {:>12}", "handshake");
    }
    let mut text = style.paint(DIM, &names) + "\n";
    for (name, pick) in TIME_ROWS {
        let _ = write!(text, "{name:>8}  ");
        for column in &columns {
            let cell = if column.count == 0 { "-".to_owned() } else { duration(pick(column)) };
            let _ = write!(text, " {cell:>12}");
        }
        text.push('\n');
    }
    text
}

/// The widest name of a step that the table makes room for.
const NAME_WIDTH_MAX: usize = 40;

fn steps(outcome: &Outcome, style: Style) -> String {
    if outcome.steps.is_empty() {
        return String::new();
    }
    let width = outcome.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let width = width.clamp(10, NAME_WIDTH_MAX);
    let titles = ["answered", "errors", "mean", "50 %", "90 %", "99 %", "max"];
    let titles: String = titles.iter().map(|title| format!(" {title:>10}")).collect();
    let mut text = style.paint(DIM, &format!("{:<width$}{titles}", "step")) + "\n";
    for step in &outcome.steps {
        let time = &step.response_time;
        let errors: u64 = step.errors.values().sum();
        let name: String = step.name.chars().take(NAME_WIDTH_MAX).collect();
        let _ = write!(text, "{name:<width$} {:>10} {:>10}", grouped(step.answered), grouped(errors));
        let times = [time.mean_ns.round() as u64, time.p50_ns, time.p90_ns, time.p99_ns, time.max_ns];
        for nanos in times {
            let cell = if time.count == 0 { "-".to_owned() } else { duration(nanos) };
            let _ = write!(text, " {cell:>10}");
        }
        text.push('\n');
    }
    text
}

fn sessions(outcome: &Outcome, style: Style) -> String {
    let mut text = String::new();
    for ScenarioSummary { name, begun, completed, failed, unfinished, session_time, .. } in &outcome.scenarios {
        let failed_text = format!("{} failed", grouped(*failed));
        let failed_text = if *failed == 0 { failed_text } else { style.paint(RED, &failed_text) };
        let median = if session_time.count == 0 { "-".to_owned() } else { duration(session_time.p50_ns) };
        let _ = writeln!(
            text,
            "sessions   {name}: {} begun, {} completed, {failed_text}, {} unfinished; median {median}",
            grouped(*begun),
            grouped(*completed),
            grouped(*unfinished)
        );
    }
    text
}

fn counts(outcome: &Outcome, style: Style) -> String {
    let (requests, bytes, connections) = (&outcome.requests, &outcome.bytes, &outcome.connections);
    let errors: u64 = outcome.errors.values().sum();
    let mut text = String::new();
    let _ = write!(text, "requests   {} sent, {} answered, ", grouped(requests.sent), grouped(requests.answered));
    let error_text = plural(errors, "error");
    let _ =
        writeln!(text, "{}", if errors == 0 { style.paint(GREEN, &error_text) } else { style.paint(RED, &error_text) });
    let statuses: Vec<String> =
        outcome.statuses.iter().map(|(status, count)| format!("{status}: {}", grouped(*count))).collect();
    if !statuses.is_empty() {
        let _ = writeln!(text, "statuses   {}", statuses.join("   "));
    }
    let kinds: Vec<String> =
        outcome.errors.iter().map(|(kind, count)| format!("{kind}: {}", grouped(*count))).collect();
    if !kinds.is_empty() {
        let _ = writeln!(text, "errors     {}", style.paint(RED, &kinds.join("   ")));
    }
    let _ = writeln!(
        text,
        "bytes      {} received, {} of it content; {} sent",
        size(bytes.received),
        size(bytes.content),
        size(bytes.sent)
    );
    let _ = writeln!(
        text,
        "opened     {}, {} of them anew",
        plural(connections.opened, "connection"),
        grouped(connections.reconnects)
    );
    if let Some(tls) = &outcome.tls {
        let full = outcome.handshake_time.count.saturating_sub(connections.resumed);
        let (full, resumed) = (plural(full, "full handshake"), grouped(connections.resumed));
        let _ = writeln!(text, "TLS        {} with {}, {full}, {resumed} resumed", tls.version, tls.cipher_suite);
    }
    let _ = writeln!(text, "seed       {}", outcome.settings.seed);
    text
}
