//! The result as an HTML page, in the format of reports.

use breme_base::{grouped, plural};
use breme_load::{duration_text, rate_text, size_text};
use breme_load_result::{LoadOutcome, SettingsSummary};
use breme_report::LoadPage;

pub(super) fn html(outcome: &LoadOutcome) -> String {
    LoadPage { outcome, load: load(outcome), facts: facts(outcome), settings: settings(&outcome.settings) }.html()
}

fn load(outcome: &LoadOutcome) -> String {
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

fn facts(outcome: &LoadOutcome) -> Vec<(String, String)> {
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
