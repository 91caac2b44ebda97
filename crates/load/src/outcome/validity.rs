//! Whether a result may be believed, and what should be known besides.

use std::time::Duration;

use breme_base::nanos;

use super::counts::OpenLoopSummary;
use super::document::Outcome;
use crate::figures::duration;
use crate::run::Run;
use crate::tally::ErrorKind;

/// A thread that was busy for a larger share of the time was the limit, not the server.
pub const THREAD_SHARE_MAX: f64 = 0.95;
/// An open loop is invalid if more than one request in a hundred left later than this because of the generator …
pub const LATENESS_P99_MAX: Duration = Duration::from_millis(1);
/// … and later than this share of the median service time: what is small beside the thing measured does no harm.
pub const LATENESS_SHARE_MAX: f64 = 0.1;

pub(super) fn invalid_reasons(run: &Run, outcome: &Outcome, stays_awake: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    let authority = &run.plan().peer().text;
    if let (true, Some(refused)) = (outcome.requests.answered == 0, run.refused_tunnel()) {
        reasons.push(format!("{authority}: {refused}"));
    } else if let (true, Some(failure)) = (outcome.requests.answered == 0, run.tls_failure()) {
        reasons.push(format!("TLS with {authority} failed: {failure}"));
    } else if run.gave_up() {
        reasons.push(format!("no connection to {authority} could be opened; is the server running there?"));
    } else if outcome.requests.answered == 0 {
        reasons.push("nothing was answered".to_owned());
    }
    if let Some(count) = outcome.errors.get(ErrorKind::NoResources.name()) {
        reasons.push(format!(
            "this machine ran out of file descriptors, ports or memory {count} times; use fewer connections, or keep them open"
        ));
    }
    reasons.extend(lateness_reason(outcome));
    let busiest = outcome.generator.thread_shares.iter().copied().fold(0.0, f64::max);
    if busiest > THREAD_SHARE_MAX && !stays_awake {
        reasons.push(format!(
            "the generator was the limit: its busiest thread used {:.0} % of a processor; use more threads (-t) or a second machine",
            busiest * 100.0
        ));
    }
    reasons
}

/// Only of an open loop: a user who thinks a little longer changes nothing.
fn lateness_reason(outcome: &Outcome) -> Option<String> {
    outcome.open_loop?;
    let late = outcome.lateness.p99_ns;
    let share = outcome.service_time.p50_ns as f64 * LATENESS_SHARE_MAX;
    (late > nanos(LATENESS_P99_MAX) && late as f64 > share).then(|| {
        format!(
            "the generator kept the schedule badly: one request in a hundred left more than {} late; lower the rate, use more threads (-t), or leave a processor to the generator",
            duration(late)
        )
    })
}

pub(super) fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = Vec::new();
    let Outcome { requests, connections, service_time, .. } = outcome;
    if outcome.interrupted {
        notes.push("interrupted: the result is partial".to_owned());
    }
    if let Some(OpenLoopSummary { due, dropped, shed, .. }) = outcome.open_loop
        && dropped + shed > 0
    {
        notes.push(format!(
            "{} of {due} that were due were never sent ({dropped} dropped, {shed} shed); no time in the result is theirs",
            dropped + shed
        ));
    }
    if requests.unfinished > 0 {
        notes.push(format!(
            "{} requests were still under way at the end; their times are not in the result",
            requests.unfinished
        ));
    }
    if requests.resent > 0 {
        notes.push(format!(
            "{} requests were sent again, since the server had ended their connection before them",
            requests.resent
        ));
    }
    if connections.unexpected > 0 {
        notes.push(format!(
            "on {} connections the server sent bytes that no request had asked for",
            connections.unexpected
        ));
    }
    if service_time.saturated > 0 {
        notes.push(format!("{} service times were longer than an hour and count as one hour", service_time.saturated));
    }
    notes
}
