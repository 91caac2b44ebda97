//! The result as text for a terminal.
//!
//! First its validity and the rate; then the activities of users; then the distributions, a row per quantile and a
//! column per kind of time, each with a suitable unit; then the errors. A run without a response has no distributions.

use std::fmt::Write;

use breme_base::{grouped, plural};
use breme_load_result::{
    AvailabilitySummary, CacheSummary, ConditionVerdict, FailIfResult, Lateness, LoadOutcome, OpenLoopSummary,
    PairsSummary, RedirectsSummary, ScenarioSummary, ScheduleSummary, StageSummary, StalePageSummary, StepSummary,
    TimeSummary, UsersSummary,
};

use crate::figures::{duration, percent, rate, size};
use crate::histogram_lines::histogram_lines;

/// Indentation of continued lines.
const INDENT: usize = 11;
/// Lines are not folded to less than this.
const WIDTH_MIN: usize = 40;
/// From this width on a table has wide columns.
const WIDE: usize = 80;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours; not if the output is no terminal, or if `NO_COLOR` is set.
    pub colours: bool,
    /// Columns of the terminal; none: lines are not folded.
    pub width: Option<usize>,
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
pub fn render(outcome: &LoadOutcome, style: Style) -> String {
    let mut text = String::new();
    let parts = [
        head(outcome, style),
        checks(outcome, style),
        verdict(outcome, style),
        figures(outcome),
        times(outcome, style),
        histogram(outcome, style),
        steps(outcome, style),
        sessions(outcome, style),
        reads(outcome, style),
        counts(outcome, style),
        notes(outcome),
    ];
    for part in parts.iter().filter(|part| !part.is_empty()) {
        text.push_str(&fold(part, style.width));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Folds lines that are too long for the terminal at a space; continued lines are indented.
fn fold(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.map(|width| width.max(WIDTH_MIN)) else { return text.to_owned() };
    let mut folded = String::new();
    for line in text.lines() {
        if visible(line) <= width {
            folded.push_str(line);
        } else {
            fold_line(line, width, &mut folded);
        }
        folded.push('\n');
    }
    folded
}

fn fold_line(line: &str, width: usize, folded: &mut String) {
    let mut column = 0;
    for (number, word) in line.split(' ').enumerate() {
        let length = visible(word);
        if column + 1 + length > width && column > INDENT {
            folded.push('\n');
            folded.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else if number > 0 {
            folded.push(' ');
            column += 1;
        }
        push_word(word, width, &mut column, folded);
    }
}

/// A word that is longer than a line is broken at the end of the line.
fn push_word(word: &str, width: usize, column: &mut usize, folded: &mut String) {
    let mut is_escape = false;
    for character in word.chars() {
        is_escape |= character == '\x1b';
        if !is_escape {
            if *column >= width {
                folded.push('\n');
                folded.push_str(&" ".repeat(INDENT));
                *column = INDENT;
            }
            *column += 1;
        }
        folded.push(character);
        is_escape &= character != 'm';
    }
}

/// The number of visible characters, without colour sequences.
fn visible(text: &str) -> usize {
    let mut count = 0;
    let mut is_escape = false;
    for character in text.chars() {
        match character {
            '\x1b' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ if is_escape => {}
            _ => count += 1,
        }
    }
    count
}

fn notes(outcome: &LoadOutcome) -> String {
    outcome.notes.iter().fold(String::new(), |text, note| text + "note       " + note + "\n")
}

fn head(outcome: &LoadOutcome, style: Style) -> String {
    let settings = &outcome.settings;
    let more = if settings.targets > 1 {
        format!(" and {}", plural(settings.targets - 1, "more target"))
    } else {
        String::new()
    };
    let pipeline = if settings.pipeline_depth > 1 {
        format!(", pipeline depth {}", settings.pipeline_depth)
    } else {
        String::new()
    };
    let closing = if settings.keep_alive { "" } else { ", no keep-alive" };
    let think = match &settings.think_distribution {
        Some(distribution) => format!(", think time {} ({distribution})", duration(settings.think_mean_ns)),
        None => String::new(),
    };
    let what = match outcome.scenarios.as_slice() {
        [] => settings.method.clone(),
        [only] => format!("scenario {:?} at", only.name),
        several => format!("{} at", plural(several.len() as u64, "scenario")),
    };
    let mut text = style.paint(BOLD, &format!("{what} {}{more}", settings.url));
    let _ = writeln!(
        text,
        "\n{}, {}, {}, HTTP/{}{pipeline}{closing}{think}, {}",
        plural(settings.connections, "connection"),
        plural(settings.threads, "thread"),
        settings.schedule.as_ref().map_or_else(|| "closed loop".to_owned(), schedule),
        settings.http,
        duration(outcome.elapsed_ns),
    );
    text
}

/// Failed checks, and each condition of `--fail-if`.
fn checks(outcome: &LoadOutcome, style: Style) -> String {
    let mut text = String::new();
    if outcome.all_failed() {
        let statuses: Vec<&str> = outcome.statuses.keys().map(String::as_str).collect();
        let (answered, statuses) = (grouped(outcome.requests.answered), statuses.join(", "));
        let failed = format!("every response failed its check: {answered} of {answered} (status {statuses})");
        let _ = writeln!(text, "{}     {failed}", style.paint(RED, "FAILED"));
    }
    for FailIfResult { condition, verdict, measured } in &outcome.conditions {
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

/// The verdict, to be read before any figure.
fn verdict(outcome: &LoadOutcome, style: Style) -> String {
    let mut text = String::new();
    if !outcome.valid {
        text = style.paint(RED, "INVALID") + "\n";
        for reason in &outcome.invalid_reasons {
            let _ = writeln!(text, "  {reason}");
        }
    }
    text
}

fn figures(outcome: &LoadOutcome) -> String {
    if outcome.requests.answered == 0 {
        return String::new();
    }
    let mut text = format!("rate       {} responses/s", rate(outcome.achieved_rate));
    if outcome.open_loop.is_some() {
        let _ = write!(text, ", {} requests/s due", rate(outcome.offered_rate));
    }
    text.push('\n');
    if let Some(users) = &outcome.users {
        let _ = writeln!(text, "users      {}", users_text(users, outcome.dispersion));
    }
    if let Some(OpenLoopSummary { due, begun, waited, dropped, shed }) = outcome.open_loop {
        let (due, begun, waited) = (grouped(due), grouped(begun), grouped(waited));
        let _ = write!(text, "schedule   {due} due, {begun} begun, {waited} of them waited for a connection");
        if dropped + shed > 0 {
            let _ = write!(text, "; {} dropped, {} shed", grouped(dropped), grouped(shed));
        }
        let Lateness { p50_ns, p99_ns, max_ns, .. } = outcome.lateness;
        let (p50, p99, max) = (duration(p50_ns), duration(p99_ns), duration(max_ns));
        let _ =
            writeln!(text, "\nlateness   50 % {p50}, 99 % {p99}, max {max} (the generator's share of response times)");
    }
    text + &generator(outcome)
}

/// The parts add up: Little's law applied to the run itself.
fn users_text(users: &UsersSummary, dispersion: Option<f64>) -> String {
    let count = |users: f64| if users < 9.95 { format!("{users:.1}") } else { format!("{users:.0}") };
    let parts = [
        (users.server, "waiting for the server"),
        (users.connecting, "connecting"),
        (users.generator, "for the generator"),
        (users.thinking, "thinking"),
        (users.idle, "idle"),
    ];
    let shown = parts.iter().filter(|(users, _)| *users >= 0.05);
    let parts: Vec<String> = shown.map(|(users, what)| format!("{} {what}", count(*users))).collect();
    let index = dispersion.filter(|_| users.thinking > 0.0);
    let index = index.map_or(String::new(), |index| format!("; index of dispersion of their requests {index:.1}"));
    format!("{}: {}{index}", grouped(users.count), parts.join(", "))
}

fn generator(outcome: &LoadOutcome) -> String {
    let generator = &outcome.generator;
    let Some(share) = generator.cpu_share else { return String::new() };
    let processors = generator.processors.max(1);
    let mut text = format!(
        "generator  CPU {share:.2} of {} ({})",
        plural(processors, "processor"),
        percent(share / processors as f64)
    );
    if generator.spin_share >= 0.005 {
        let _ = write!(text, ", {:.2} of it spinning", generator.spin_share);
    }
    if generator.thread_shares.len() > 1 {
        let _ = write!(text, ", busiest thread {}", percent(generator.busiest_thread()));
    }
    if let Some(nanos) = generator.cpu_ns_per_request {
        let _ = write!(text, ", {} per request", duration(nanos as u64));
    }
    text + "\n"
}

/// A row's name, its value, and the number of samples needed for one to be beyond it.
type TimeRow = (&'static str, fn(&TimeSummary) -> u64, u64);

const TIME_ROWS: [TimeRow; 10] = [
    ("mean", |time| time.mean_ns.round() as u64, 1),
    ("stdev", |time| time.stdev_ns.round() as u64, 2),
    ("min", |time| time.min_ns, 1),
    ("50 %", |time| time.p50_ns, 2),
    ("75 %", |time| time.p75_ns, 4),
    ("90 %", |time| time.p90_ns, 10),
    ("95 %", |time| time.p95_ns, 20),
    ("99 %", |time| time.p99_ns, 100),
    ("99.9 %", |time| time.p999_ns, 1_000),
    ("max", |time| time.max_ns, 1),
];

fn times(outcome: &LoadOutcome, style: Style) -> String {
    if outcome.response_time.count == 0 {
        return String::new();
    }
    let all = [
        ("response", &outcome.response_time),
        ("service", &outcome.service_time),
        ("first byte", &outcome.first_byte_time),
        ("connect", &outcome.connect_time),
        ("handshake", &outcome.handshake_time),
    ];
    let (mut columns, mut same): (Vec<(&str, &TimeSummary)>, Vec<&str>) = (Vec::new(), Vec::new());
    for (name, time) in all.into_iter().filter(|(_, time)| time.count > 0) {
        match columns.last() {
            Some((_, before)) if is_same(before, time) => same.push(name),
            _ => columns.push((name, time)),
        }
    }
    let width = style.width.map_or(WIDE, |width| width.max(WIDTH_MIN));
    let column_width = if width < WIDE { 10 } else { 12 };
    columns.truncate((width - 9) / (column_width + 1));
    let names: String = columns.iter().map(|(name, _)| format!(" {name:>column_width$}")).collect();
    let mut text = style.paint(DIM, &format!("{:<8}{names}", "latency")) + "\n";
    for (name, pick, least) in TIME_ROWS.iter().filter(|(.., least)| outcome.response_time.count >= *least) {
        let cell = |time: &TimeSummary| if time.count < *least { "-".to_owned() } else { duration(pick(time)) };
        let cells: String = columns.iter().map(|(_, time)| format!(" {:>column_width$}", cell(time))).collect();
        let _ = writeln!(text, "{name:>8}{cells}");
    }
    if !same.is_empty() {
        let note = format!("{} time: the same within 1 %", same.join(" and "));
        text += &(style.paint(DIM, &note) + "\n");
    }
    text
}

/// Wider bars are no more precise.
const HISTOGRAM_WIDTH_MAX: usize = 100;

fn histogram(outcome: &LoadOutcome, style: Style) -> String {
    if outcome.histogram.len() < 2 {
        return String::new();
    }
    let width = style.width.map_or(WIDE, |width| width.clamp(WIDTH_MIN, HISTOGRAM_WIDTH_MAX));
    let title = style.paint(DIM, "response times up to");
    histogram_lines(&outcome.histogram, width).iter().fold(title + "\n", |text, line| text + &line.text() + "\n")
}

/// Whether two columns have the same values.
fn is_same(one: &TimeSummary, other: &TimeSummary) -> bool {
    let is_near = |one: u64, other: u64| one.abs_diff(other) as f64 <= 0.01 * one.max(other) as f64;
    let quantiles = |time: &TimeSummary| [time.mean_ns as u64, time.p50_ns, time.p90_ns, time.p99_ns];
    one.count == other.count && quantiles(one).into_iter().zip(quantiles(other)).all(|(one, other)| is_near(one, other))
}

/// The widest step name for which the table has room.
const NAME_WIDTH_MAX: usize = 40;

fn steps(outcome: &LoadOutcome, style: Style) -> String {
    if outcome.steps.is_empty() {
        return String::new();
    }
    let names = outcome.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let room = style.width.unwrap_or(usize::MAX).max(WIDTH_MIN);
    let name_width = names.clamp(10, NAME_WIDTH_MAX.min(room / 3));
    let places = (room - name_width) / STEP_COLUMN_WIDTH;
    let columns: Vec<&StepColumn> = STEP_COLUMNS.iter().filter(|column| column.rank < places).collect();
    let titles: String = columns.iter().map(|column| format!(" {:>10}", column.title)).collect();
    let mut text = style.paint(DIM, &format!("{:<name_width$}{titles}", "step")) + "\n";
    for step in &outcome.steps {
        let name: String = step.name.chars().take(name_width).collect();
        let cells: String = columns.iter().map(|column| format!(" {:>10}", (column.cell)(step))).collect();
        let _ = writeln!(text, "{name:<name_width$}{cells}");
    }
    text
}

struct StepColumn {
    title: &'static str,
    /// Columns with the highest ranks are omitted if there is no room.
    rank: usize,
    cell: fn(&StepSummary) -> String,
}

const STEP_COLUMN_WIDTH: usize = 11;
const STEP_COLUMNS: [StepColumn; 7] = [
    StepColumn { title: "answered", rank: 0, cell: |step| grouped(step.answered) },
    StepColumn { title: "errors", rank: 1, cell: |step| grouped(step.errors.values().sum()) },
    StepColumn { title: "mean", rank: 5, cell: |step| step_time(step, step.response_time.mean_ns.round() as u64) },
    StepColumn { title: "50 %", rank: 2, cell: |step| step_time(step, step.response_time.p50_ns) },
    StepColumn { title: "90 %", rank: 4, cell: |step| step_time(step, step.response_time.p90_ns) },
    StepColumn { title: "99 %", rank: 3, cell: |step| step_time(step, step.response_time.p99_ns) },
    StepColumn { title: "max", rank: 6, cell: |step| step_time(step, step.response_time.max_ns) },
];

fn step_time(step: &StepSummary, nanos: u64) -> String {
    if step.response_time.count == 0 { "-".to_owned() } else { duration(nanos) }
}

fn sessions(outcome: &LoadOutcome, style: Style) -> String {
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

/// Cache hits, stale reads, and the pairs of sessions.
fn reads(outcome: &LoadOutcome, style: Style) -> String {
    let mut text = String::new();
    if let Some(CacheSummary { hits, misses, unsaid, hit_ratio, origin_requests, origin_hit_ratio }) = outcome.cache {
        let _ = match hit_ratio {
            Some(ratio) => write!(
                text,
                "cache      {} hits of {} ({})",
                grouped(hits),
                plural(hits + misses, "response"),
                percent(ratio)
            ),
            None => write!(text, "cache      no response to GET says whether it came from a cache"),
        };
        if unsaid > 0 && hit_ratio.is_some() {
            let _ = write!(text, "; {} without Cache-Status", grouped(unsaid));
        }
        if let (Some(requests), Some(ratio)) = (origin_requests, origin_hit_ratio) {
            let requests = plural(requests, "request");
            let _ = write!(text, "; {requests} reached the origin by its own count (hit ratio {})", percent(ratio));
        }
        text.push('\n');
    }
    if let Some(stale) = &outcome.stale {
        let count = format!("{} stale", grouped(stale.count));
        let count = style.paint(if stale.count == 0 { GREEN } else { RED }, &count);
        let _ = write!(text, "versions   {count} of {}", plural(stale.judged, "response"));
        if stale.count > 0 {
            let TimeSummary { p50_ns, p99_ns, max_ns, .. } = stale.age;
            let (p50, p99, max) = (duration(p50_ns), duration(p99_ns), duration(max_ns));
            let _ = write!(text, " (age 50 % {p50}, 99 % {p99}, max {max})");
        }
        let _ = write!(text, "; {} acknowledged", plural(stale.writes, "write"));
        if stale.unversioned > 0 {
            let _ = write!(text, "; {} without a version", plural(stale.unversioned, "response"));
        }
        if stale.not_followed > 0 {
            let _ = write!(text, "; {} not followed", plural(stale.not_followed, "write"));
        }
        text.push('\n');
        for StalePageSummary { path, count, age_max_ns } in &stale.pages {
            let _ = writeln!(text, "           {path}: {} stale, age up to {}", grouped(*count), duration(*age_max_ns));
        }
    }
    if let Some(found) = &outcome.pairs {
        text += &pairs(found, style);
    }
    text
}

/// Findings in the pairs of sessions: the inconsistent ones, and those of the other kinds that occurred.
fn pairs(found: &PairsSummary, style: Style) -> String {
    let wrong = format!("{} inconsistent", grouped(found.inconsistent));
    let wrong = style.paint(if found.inconsistent == 0 { GREEN } else { RED }, &wrong);
    let mut text = format!("pairs      {wrong} of {}", plural(found.responses, "response"));
    let faults = [
        (found.lost, "lost"),
        (found.foreign, "foreign"),
        (found.shared_ids, "shared ids"),
        (found.status_500, "status 500"),
        (found.status_503, "status 503"),
        (found.unknown, "unknown"),
    ];
    let stale = (found.inconsistent > 0).then_some((found.stale, "stale"));
    for (count, what) in stale.into_iter().chain(faults.into_iter().filter(|(count, _)| *count > 0)) {
        let _ = write!(text, "; {} {what}", grouped(count));
    }
    text.push('\n');
    text
}

/// Of a run with errors, in which some response was as expected.
fn gaps(outcome: &LoadOutcome) -> String {
    if outcome.requests.ok == 0 {
        return String::new();
    }
    let AvailabilitySummary { gap_ns, gap_from_ns, user_gap_ns, refused, recovered_ns, .. } = outcome.availability;
    let (gap, from, user_gap) = (duration(gap_ns), duration(gap_from_ns), duration(user_gap_ns));
    let refused = if refused == 0 { String::new() } else { format!("; {} refused", grouped(refused)) };
    let end = recovered_ns.map_or_else(
        || String::from("; no successful response after the last error"),
        |nanos| format!("; no error after {}", duration(nanos)),
    );
    format!("gaps       {gap} without a successful response (from {from}), {user_gap} for one user{refused}{end}\n")
}

fn counts(outcome: &LoadOutcome, style: Style) -> String {
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
    if let Some(RedirectsSummary { followed, not_followed }) = outcome.redirects {
        let _ = write!(text, "redirects  {} followed", grouped(followed));
        if not_followed > 0 {
            let _ =
                write!(text, "; {} not followed: to other hosts, too many in a row, or invalid", grouped(not_followed));
        }
        text.push('\n');
    }
    let kinds: Vec<String> =
        outcome.errors.iter().map(|(kind, count)| format!("{kind}: {}", grouped(*count))).collect();
    if !kinds.is_empty() {
        let _ = writeln!(text, "errors     {}", style.paint(RED, &kinds.join("   ")));
        text += &gaps(outcome);
    }
    if requests.answered == 0 {
        return text;
    }
    let _ = writeln!(
        text,
        "bytes      {} received, {} of it response bodies; {} sent",
        size(bytes.received),
        size(bytes.content),
        size(bytes.sent)
    );
    let _ = writeln!(
        text,
        "opened     {}, {} of them to replace a closed one",
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
