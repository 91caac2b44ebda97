//! Whether a result is valid, and further remarks.

use std::time::Duration;

use breme_base::{nanos, plural};
use breme_load_result::{LoadOutcome, OpenLoopSummary};

use crate::error_kind::ErrorKind;
use crate::figures::duration;
use crate::run::Run;

/// A thread with a larger CPU share is saturated.
const THREAD_SHARE_MAX: f64 = 0.95;
/// A closed loop is invalid if a thread is saturated and a larger share of the users who do not think wait for the
/// generator: the rate is then the generator's.
const GENERATOR_SHARE_MAX: f64 = 0.5;
/// An open loop is invalid if more than one request in a hundred was sent later than this because of the generator …
pub const LATENESS_P99_MAX: Duration = Duration::from_millis(1);
/// … and later than this share of the median service time: a delay that is small relative to the measured time is
/// harmless.
const LATENESS_SHARE_MAX: f64 = 0.1;
/// A shorter run cannot show how busy the generator was, or how well it kept the schedule.
const SHORT_RUN_MAX: Duration = Duration::from_millis(100);
/// If users think, requests should be nearly independent of each other: an index of dispersion of 1. From this value
/// on, response times include queues that form behind each batch of requests.
const DISPERSION_MAX: f64 = 3.0;

pub(super) fn invalid_reasons(run: &Run, outcome: &LoadOutcome) -> Vec<String> {
    let mut reasons = Vec::new();
    let authorities: Vec<&str> = run.plan().peers().iter().map(|peer| peer.text.as_str()).collect();
    let authority = authorities.join(", ");
    if let (true, Some(refused)) = (outcome.requests.answered == 0, run.refused_tunnel()) {
        reasons.push(format!("{authority}: {refused}"));
    } else if let (true, Some(failure)) = (outcome.requests.answered == 0, run.tls_failure()) {
        reasons.push(format!("TLS with {authority} failed: {failure}"));
    } else if run.gave_up() {
        reasons.push(format!("cannot connect to {authority}; is the server running?"));
    } else if outcome.requests.answered == 0 {
        reasons.push("no request was answered".to_owned());
    }
    if let Some(count) = outcome.errors.get(ErrorKind::NoResources.name()) {
        reasons.push(format!(
            "this machine ran out of file descriptors, ports or memory {count} times; use fewer connections, or keep them open"
        ));
    }
    if !is_short(outcome) {
        reasons.extend(lateness_reason(outcome));
        reasons.extend(backlog_reason(outcome));
        reasons.extend(saturation_reason(outcome));
    }
    reasons
}

const fn is_short(outcome: &LoadOutcome) -> bool {
    outcome.elapsed_ns < SHORT_RUN_MAX.as_nanos() as u64
}

/// Of an open loop: its connections were busy because the generator had not read their responses.
fn backlog_reason(outcome: &LoadOutcome) -> Option<String> {
    let OpenLoopSummary { begun, waited, .. } = outcome.open_loop?;
    let late = outcome.lateness.p50_ns as f64;
    (waited > begun / 2 && late > outcome.service_time.p50_ns as f64 * GENERATOR_SHARE_MAX).then(|| {
        format!(
            "the generator had a backlog: {waited} of {begun} requests waited for a connection, and were sent {} after one was free (median); lower the rate, use more threads (-t), or leave a processor to the generator",
            duration(outcome.lateness.p50_ns)
        )
    })
}

/// Of a closed loop: how busy the threads of an open loop are does not matter while requests are sent on time.
fn saturation_reason(outcome: &LoadOutcome) -> Option<String> {
    let share = outcome.users?.generator_share();
    let busiest = outcome.generator.busiest_thread();
    (busiest > THREAD_SHARE_MAX && share > GENERATOR_SHARE_MAX).then(|| {
        format!(
            "the generator was the limit: its busiest thread worked {:.0} % of the time, and {:.0} % of the users waited for it; use more threads (-t) or a second machine",
            busiest * 100.0,
            share * 100.0
        )
    })
}

/// Of an open loop: a slightly longer think time changes nothing. A backlog in the generator is lateness too, and grows
/// with the run.
fn lateness_reason(outcome: &LoadOutcome) -> Option<String> {
    outcome.open_loop?;
    let late = outcome.lateness.p99_ns;
    let share = outcome.service_time.p50_ns as f64 * LATENESS_SHARE_MAX;
    (late > nanos(LATENESS_P99_MAX) && late as f64 > share).then(|| {
        format!(
            "the generator was late: 1 % of the requests were sent more than {} after they were due; lower the rate, use more threads (-t), or leave a processor to the generator",
            duration(late)
        )
    })
}

/// Without think times, batches change nothing: the waiting times follow from the number of users and the rate.
fn dispersion_note(outcome: &LoadOutcome) -> Option<String> {
    let index = outcome.dispersion.filter(|&index| index > DISPERSION_MAX)?;
    let thinks = outcome.users.is_some_and(|users| users.thinking > 0.0);
    let remedy = if outcome.settings.think_distribution.as_deref() == Some("constant") {
        "remove \",constant\" from the think time"
    } else {
        "use more threads (-t), or leave a processor to the generator"
    };
    thinks.then(|| {
        format!(
            "requests were sent in bursts (index of dispersion {index:.1} per 100 µs; independent users: 1), so response times include the queues that these bursts form; {remedy}"
        )
    })
}

/// Users waited for a generator that had work for less than all of the time: it had to wait for a CPU itself. Without
/// a response there is no rate; users then pause after each attempt, and the rest of their time is microseconds.
fn starvation_note(outcome: &LoadOutcome) -> Option<String> {
    let has_rate = !is_short(outcome) && outcome.requests.answered > 0;
    let users = outcome.users.filter(|_| has_rate && outcome.generator.busiest_thread() <= THREAD_SHARE_MAX)?;
    // If nearly all users think, the think time sets the rate.
    let share = users.generator / (users.server + users.connecting + users.generator + users.thinking);
    (share > GENERATOR_SHARE_MAX).then(|| {
        format!(
            "{:.0} % of the users waited for the generator: it limits the rate; leave a processor to it",
            share * 100.0
        )
    })
}

pub(super) fn notes(outcome: &LoadOutcome) -> Vec<String> {
    let mut notes = Vec::new();
    let LoadOutcome { requests, connections, service_time, .. } = outcome;
    if outcome.interrupted {
        notes.push("interrupted: the result is partial".to_owned());
    }
    if let Some(OpenLoopSummary { due, dropped, shed, .. }) = outcome.open_loop
        && dropped + shed > 0
    {
        notes.push(format!(
            "{} of {due} requests that were due were never sent ({dropped} dropped, {shed} shed); the times are those of the others",
            dropped + shed
        ));
    }
    if is_short(outcome) && requests.answered > 0 {
        notes.push(format!(
            "the run is too short for reliable figures: {} in {}; use a longer duration (-d) or more requests (-n)",
            plural(requests.answered, "response"),
            duration(outcome.elapsed_ns)
        ));
    }
    notes.extend(dispersion_note(outcome));
    notes.extend(starvation_note(outcome));
    if requests.unfinished > 0 {
        notes.push(format!(
            "{} requests had no response at the end of the run; their times are not in the result",
            requests.unfinished
        ));
    }
    if requests.resent > 0 {
        notes.push(format!(
            "{} requests were sent again because the server closed their connection before it responded",
            requests.resent
        ));
    }
    if connections.unexpected > 0 {
        notes
            .push(format!("the server sent bytes that belong to no request on {} connections", connections.unexpected));
    }
    if service_time.saturated > 0 {
        notes.push(format!("{} service times exceeded one hour and count as one hour", service_time.saturated));
    }
    notes
}

#[cfg(test)]
mod tests {
    use breme_load_result::{Requests, UsersSummary};

    use super::*;

    #[test]
    fn a_server_that_refuses_every_connection_is_no_slow_generator() {
        let users = UsersSummary { count: 1, connecting: 1e-5, generator: 1e-4, idle: 0.999_89, ..Default::default() };
        let outcome = |answered| LoadOutcome {
            elapsed_ns: 358_000_000,
            users: Some(users),
            requests: Requests { answered, ..Default::default() },
            ..Default::default()
        };
        assert_eq!([outcome(0), outcome(1)].map(|outcome| starvation_note(&outcome).is_some()), [false, true]);
    }
}
