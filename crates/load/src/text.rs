//! The result as text for a terminal.
//!
//! First its validity and the rate; then the activities of users; then the distributions, a row per quantile and a
//! column per kind of time, each with a suitable unit; then the errors. A run without a response has no distributions.

mod counts;
mod reads;
mod times;

use std::fmt::Write;

use breme_base::terminal::{BOLD, GREEN, RED, Style, fold};
use breme_base::{grouped, plural};
use breme_load_result::{
    ConditionVerdict, FailIfResult, Lateness, LoadOutcome, OpenLoopSummary, ScenarioSummary, ScheduleSummary,
    StageSummary, UsersSummary,
};
use counts::counts;
use reads::reads;
use times::{histogram, steps, times};

use crate::figures::{duration, percent, rate};

/// Indentation of continued lines.
const INDENT: usize = 11;

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
        text += &style.width.map_or_else(|| part.clone(), |width| fold(part, width, INDENT));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
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
        let _ = write!(text, "schedule   {due} due, {begun} issued, {waited} of them waited for a connection");
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
