//! The result as an HTML page, in the format of reports.

use breme_base::{grouped, plural};
use breme_load::{
    ConditionVerdict, Outcome, Row, SettingsSummary, StepSummary, TimeSummary, duration_text, rate_text, size_text,
};
use breme_report::{LoadBin, LoadCondition, LoadInterval, LoadPage, LoadTimes};

pub(super) fn html(outcome: &Outcome) -> String {
    LoadPage {
        breme_version: outcome.breme_version.clone(),
        title: title(outcome),
        load: load(outcome),
        started_unix_s: outcome.started_at_unix_s,
        invalid_reasons: outcome.invalid_reasons.clone(),
        notes: outcome.notes.clone(),
        conditions: conditions(outcome),
        rate: outcome.achieved_rate,
        answered: outcome.requests.answered,
        requests: outcome.requests.issued.max(outcome.open_loop.map_or(0, |open_loop| open_loop.due)),
        error_count: outcome.errors.values().sum(),
        times: all_times(outcome),
        intervals: outcome.series.iter().map(interval).collect(),
        bins: outcome.histogram.iter().map(|bin| LoadBin { to_ns: bin.to_ns, count: bin.count }).collect(),
        statuses: outcome.statuses.clone().into_iter().collect(),
        errors: outcome.errors.clone().into_iter().collect(),
        steps: outcome.steps.iter().map(step).collect(),
        facts: facts(outcome),
        settings: settings(&outcome.settings),
    }
    .html()
}

fn title(outcome: &Outcome) -> String {
    let SettingsSummary { url, method, targets, .. } = &outcome.settings;
    let what = match outcome.scenarios.as_slice() {
        [] => method.clone(),
        [only] => format!("Scenario {:?} at", only.name),
        several => format!("{} at", plural(several.len() as u64, "scenario")),
    };
    let more = if *targets > 1 { format!(" and {} more", grouped(targets - 1)) } else { String::new() };
    format!("{what} {url}{more}")
}

fn load(outcome: &Outcome) -> String {
    let settings = &outcome.settings;
    let shape = match &settings.schedule {
        None => "closed loop".to_owned(),
        Some(schedule) if schedule.stages.is_empty() => {
            format!("open loop, {} {}/s", schedule.arrivals, rate_text(schedule.rate))
        }
        Some(schedule) => format!("open loop, {}", plural(schedule.stages.len() as u64, "stage")),
    };
    let interrupted = if outcome.interrupted { ", interrupted" } else { "" };
    format!(
        "{}, {shape}, HTTP/{}, {}{interrupted}",
        plural(settings.connections, "connection"),
        settings.http,
        duration_text(outcome.elapsed_ns)
    )
}

fn conditions(outcome: &Outcome) -> Vec<LoadCondition> {
    let all_failed = outcome.all_failed().then(|| LoadCondition {
        condition: "every response failed its check".to_owned(),
        has_failed: Some(true),
        measured: format!("{} of {}", grouped(outcome.requests.answered), grouped(outcome.requests.answered)),
    });
    let of_flags = outcome.conditions.iter().map(|result| LoadCondition {
        condition: result.condition.clone(),
        has_failed: match result.verdict {
            ConditionVerdict::Passed => Some(false),
            ConditionVerdict::Failed => Some(true),
            ConditionVerdict::NoVerdict => None,
        },
        measured: result.measured.clone(),
    });
    all_failed.into_iter().chain(of_flags).collect()
}

fn all_times(outcome: &Outcome) -> Vec<LoadTimes> {
    let all = [
        ("response", &outcome.response_time),
        ("service", &outcome.service_time),
        ("first byte", &outcome.first_byte_time),
        ("connect", &outcome.connect_time),
        ("TLS handshake", &outcome.handshake_time),
    ];
    all.into_iter().filter(|(_, summary)| summary.count > 0).map(|(name, summary)| times(name, summary)).collect()
}

fn times(name: &str, summary: &TimeSummary) -> LoadTimes {
    let TimeSummary { count, mean_ns, min_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns, .. } = *summary;
    LoadTimes { name: name.to_owned(), count, mean_ns, min_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns }
}

fn interval(row: &Row) -> LoadInterval {
    LoadInterval {
        start_s: row.start_s,
        length_s: row.length_s,
        answered: row.answered,
        errors: row.errors,
        p50_ns: row.response_p50_ns,
        p90_ns: row.response_p90_ns,
        p99_ns: row.response_p99_ns,
        max_ns: row.response_max_ns,
    }
}

fn step(step: &StepSummary) -> (String, u64, u64, LoadTimes) {
    let errors = step.errors.values().sum();
    (step.name.clone(), step.answered, errors, times("response", &step.response_time))
}

fn facts(outcome: &Outcome) -> Vec<(String, String)> {
    let (requests, bytes, connections) = (&outcome.requests, &outcome.bytes, &outcome.connections);
    let mut facts = vec![
        ("requests sent".to_owned(), grouped(requests.sent)),
        ("complete responses".to_owned(), grouped(requests.answered)),
        (
            "received".to_owned(),
            format!("{}, {} of it response bodies", size_text(bytes.received), size_text(bytes.content)),
        ),
        ("sent".to_owned(), size_text(bytes.sent)),
        (
            "connections opened".to_owned(),
            format!(
                "{}, {} of them to replace a closed one",
                grouped(connections.opened),
                grouped(connections.reconnects)
            ),
        ),
    ];
    if let Some(redirects) = outcome.redirects {
        let (followed, others) = (grouped(redirects.followed), grouped(redirects.not_followed));
        facts.push(("redirects".to_owned(), format!("{followed} followed, {others} not")));
    }
    if let Some(tls) = &outcome.tls {
        facts.push(("TLS".to_owned(), format!("{} with {}", tls.version, tls.cipher_suite)));
    }
    if let Some(share) = outcome.generator.cpu_share {
        let processors = plural(outcome.generator.processors.max(1), "processor");
        facts.push(("CPU of the generator".to_owned(), format!("{share:.2} of {processors}")));
    }
    facts
}

fn settings(settings: &SettingsSummary) -> Vec<(String, String)> {
    let limit = |count: Option<u64>| count.map_or_else(|| "none".to_owned(), grouped);
    let time = |nanos: u64| if nanos == 0 { "none".to_owned() } else { duration_text(nanos) };
    let of = |name: &str, value: String| (name.to_owned(), value);
    vec![
        of("URL", settings.url.clone()),
        of("targets", grouped(settings.targets)),
        of("address", settings.address.clone().unwrap_or_default()),
        of("connections", grouped(settings.connections)),
        of("threads", grouped(settings.threads)),
        of("pipeline depth", grouped(settings.pipeline_depth)),
        of("requests", limit(settings.requests)),
        of("duration", settings.duration_ns.map_or_else(|| "none".to_owned(), duration_text)),
        of("keep-alive", if settings.keep_alive { "yes" } else { "no" }.to_owned()),
        of("think time", time(settings.think_mean_ns)),
        of("ramp", time(settings.ramp_ns)),
        of("timeout", time(settings.timeout_ns)),
        of("interval", time(settings.interval_ns)),
        of("seed", settings.seed.to_string()),
    ]
}
