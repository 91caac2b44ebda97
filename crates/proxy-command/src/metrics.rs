//! The metrics of a proxy, in addition to those of every server.

use std::fmt;
use std::sync::Arc;

use breme_admin::{Families, Label, refusal_name};
use breme_balance::{UpstreamState, UpstreamStatus};
use breme_cache::{Cache, Statistics};
use breme_proxy::{Proxy, ProxyCounts};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::access_log::{LineCounts, Log};
use super::upstreams::{Upstreams, scheme};

/// Exports the counters of the proxy and its log.
#[derive(Debug)]
pub struct ProxyMetrics {
    pub proxy: Proxy,
    pub upstreams: Option<Upstreams>,
    pub cache: Option<Arc<Cache>>,
    pub log: Option<Arc<Log>>,
}

impl Collector for ProxyMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let counts = self.proxy.counts();
        requests(&mut families, &counts)?;
        let has_cache = self.cache.is_some();
        let metrics = ProxyCounts::METRICS.iter().filter(|metric| has_cache || !metric.name.starts_with("cache_"));
        families.table(metrics, &counts)?;
        self.upstreams.as_ref().map_or(Ok(()), |upstreams| each(&mut families, &upstreams.states()))?;
        self.cache.as_ref().map_or(Ok(()), |cache| families.table(Statistics::METRICS, &cache.statistics()))?;
        self.log.as_ref().map_or(Ok(()), |log| lines(&mut families, log.counts()))
    }
}

/// Metrics with more than one label, and histograms.
fn requests(families: &mut Families<'_>, counts: &ProxyCounts) -> fmt::Result {
    let responses = counts.responses.iter().map(|of_status| {
        let status = of_status.status;
        ([("status", format!("{}xx", status / 100)), ("code", status.to_string())], of_status.count)
    });
    families.counters("requests", "Completed responses, by status.", responses)?;
    let methods = counts.requests_received.iter().map(|&(method, count)| ([("method", method.to_owned())], count));
    families.counters("requests_received", "Requests with a valid head, by method.", methods)?;
    let times =
        counts.request_times.iter().map(|(outcome, times)| ([("outcome", outcome.name().to_owned())], (*times).into()));
    let help = "Time from the end of a request's head to the end of its response, by outcome.";
    families.histograms("request_duration", help, times)?;
    let refusals = counts.refusals.iter().map(|(reason, count)| ([("reason", refusal_name(*reason))], *count));
    families.counters("refusals", "Requests refused as malformed, too large or too slow, by reason.", refusals)?;
    let help = "Time from the end of a request sent upstream to the head of its response.";
    families.histogram("upstream_response", help, &counts.upstream_times.into())
}

/// The metrics of each upstream.
fn each(families: &mut Families<'_>, states: &[UpstreamState]) -> fmt::Result {
    let gauge = |value: fn(&UpstreamState) -> u64| states.iter().map(move |state| (labels(state), value(state)));
    let is_up = gauge(|state| u64::from(state.status == UpstreamStatus::Up));
    families.gauges("upstream_up", "Whether an upstream is healthy: 1, or 0.", is_up)?;
    let is_draining = gauge(|state| u64::from(state.is_draining));
    families.gauges("upstream_draining", "Whether an upstream is drained: 1, or 0.", is_draining)?;
    let outstanding = gauge(|state| u64::from(state.outstanding));
    families.gauges("upstream_outstanding", "Requests in progress at an upstream.", outstanding)?;
    let ejections = gauge(|state| state.ejections);
    families.counters("upstream_ejections", "Ejections of an upstream after failed requests.", ejections)?;
    let checks = states.iter().flat_map(|state| {
        let outcomes = [("good", state.checks.good), ("failed", state.checks.failed)];
        outcomes.map(|(outcome, count)| (labels_and(state, outcome), count))
    });
    families.counters("upstream_checks", "Health checks of an upstream, by outcome.", checks)?;
    let help = "Requests to an upstream, by outcome.";
    families.counters("upstream_requests", help, states.iter().flat_map(ends))
}

fn ends(state: &UpstreamState) -> [([Label; 3], u64); 6] {
    let totals = &state.totals;
    let ends = [
        ("answered", totals.responded - totals.failure_statuses),
        ("failure-status", totals.failure_statuses),
        ("connect-failed", totals.connect_failed),
        ("broke-off", totals.connection_lost),
        ("timed-out", totals.timed_out),
        ("abandoned", totals.abandoned),
    ];
    ends.map(|(outcome, count)| (labels_and(state, outcome), count))
}

/// The name used in the log, in messages and at the API too; a host and port may be two upstreams, with TLS and
/// without.
fn labels(state: &UpstreamState) -> [Label; 2] {
    [("upstream", state.name.to_string()), ("scheme", scheme(state).to_owned())]
}

fn labels_and(state: &UpstreamState, outcome: &str) -> [Label; 3] {
    let [upstream, scheme] = labels(state);
    [upstream, scheme, ("outcome", outcome.to_owned())]
}

/// Requests by the result of the cache.
pub fn results(counts: &ProxyCounts) -> impl Iterator<Item = (&'static str, u64)> {
    let metrics = ProxyCounts::METRICS.iter().filter(|metric| metric.name == "cache_requests");
    metrics.flat_map(|metric| metric.read(counts))
}

fn lines(families: &mut Families<'_>, counts: LineCounts) -> fmt::Result {
    let LineCounts { written, dropped, failed } = counts;
    let lines = [("written", written), ("dropped", dropped), ("failed", failed)];
    let lines = lines.map(|(outcome, count)| ([("outcome", outcome.to_owned())], count));
    let help = "Access log lines: written, dropped because the disk is too slow, or failed.";
    families.counters("access_log_lines", help, lines)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breme_admin::{exposition_of, metric_names};
    use breme_balance::GroupSettings;
    use breme_cache::CacheSettings;
    use breme_driver::{Clock, UnixSockets};
    use breme_proxy::{HostRule, Mode, Parts, Settings};

    use super::*;
    use crate::upstream_tls::Clients;

    #[test]
    fn documentation_names_each_metric() {
        let clock = Clock::start();
        let list = vec!["http://127.0.0.1:1".parse().unwrap()];
        let (rules, clients, sockets) = (GroupSettings::default(), Clients::default(), UnixSockets::default());
        let upstreams = Upstreams::new(rules, list, Duration::ZERO, clock, clients, sockets).unwrap();
        let settings = Settings::new(Mode::Reverse { host: HostRule::Keep });
        let parts = Parts { group: Some(upstreams.group()), ..Parts::new(settings, clock.wall_clock()) };
        let cache = Some(Cache::new(CacheSettings::new(1 << 20)).unwrap());
        let proxy = Proxy::new(parts).unwrap();
        let metrics = ProxyMetrics { proxy, upstreams: Some(upstreams), cache, log: None };

        let documentation = include_str!("../../../docs/PROXY.md");
        let names = metric_names(&exposition_of(metrics).unwrap());
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            assert!(documentation.contains(&format!("`{name}`")), "docs/PROXY.md lacks {name}");
        }
    }
}
