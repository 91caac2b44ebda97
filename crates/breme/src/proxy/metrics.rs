//! The metrics of a proxy, beside those of every server.

use std::fmt;
use std::sync::Arc;

use breme_balance::{UpstreamState, UpstreamStatus};
use breme_cache::{Cache, Statistics};
use breme_proxy::{Histogram, Proxy, ProxyCounts};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::access_log::{LineCounts, Log};
use super::upstreams::{Upstreams, scheme};
use crate::admin::{Buckets, Families, Label, refusal_name};

/// Reads what the proxy and its log have counted.
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
        clients(&mut families, &counts)?;
        upstreams(&mut families, &counts)?;
        self.upstreams.as_ref().map_or(Ok(()), |upstreams| each(&mut families, &upstreams.states()))?;
        self.cache.as_ref().map_or(Ok(()), |cache| stored(&mut families, &counts, &cache.statistics()))?;
        self.log.as_ref().map_or(Ok(()), |log| lines(&mut families, log.counts()))
    }
}

fn clients(families: &mut Families<'_>, counts: &ProxyCounts) -> fmt::Result {
    let answers = counts.answers.iter().map(|answers| {
        let status = answers.status;
        ([("status", format!("{}xx", status / 100)), ("code", status.to_string())], answers.count)
    });
    families.counters("requests", "Completed responses, by status.", answers)?;
    let methods = counts.requests_received.iter().map(|&(method, count)| ([("method", method.to_owned())], count));
    families.counters("requests_received", "Requests with a valid head, by method.", methods)?;
    let help = "Requests handled by replay: byte-identical to an earlier one, and so not parsed again.";
    families.counter("requests_repeated", help, counts.requests_repeated + counts.cache_repeated)?;
    families.gauge("requests_in_flight", "Requests in progress, including tunnels.", counts.exchanges_open)?;
    let times =
        counts.request_times.iter().map(|(outcome, times)| ([("outcome", outcome.name().to_owned())], buckets(times)));
    let help = "Time from the end of a request's head to the end of its response, by outcome.";
    families.histograms("request_duration", help, times)?;
    let refusals = counts.refusals.iter().map(|(reason, count)| ([("reason", refusal_name(*reason))], *count));
    families.counters("refusals", "Requests refused as malformed, too large or too slow, by reason.", refusals)?;
    let cut = [("client-gone", counts.clients_gone), ("upstream-failed", counts.answers_cut)];
    let cut = cut.map(|(reason, count)| ([("reason", reason.to_owned())], count));
    families.counters("answers_cut", "Incomplete responses, by reason.", cut)?;
    let limited = [("requests", counts.requests_limited), ("connections", counts.connections_limited)];
    let limited = limited.map(|(kind, count)| ([("kind", kind.to_owned())], count));
    families.counters("clients_limited", "Requests and connections over a client's limits.", limited)?;
    families.evicted(counts.evicted)?;
    families.counter("requests_queued", "Requests queued because every upstream was full.", counts.requests_queued)?;
    families.gauge("queue_length", "Requests in the queue for an upstream.", counts.queue_length)?;
    let help = "Targets refused by the rules of a forward proxy.";
    families.counter("targets_refused", help, counts.targets_refused)?;
    families.counter("tunnels", "Tunnels opened by CONNECT or Upgrade.", counts.tunnels)?;
    families.gauge("tunnels_open", "Open tunnels.", counts.tunnels_open)
}

fn upstreams(families: &mut Families<'_>, counts: &ProxyCounts) -> fmt::Result {
    families.counter("upstream_connects", "Connections opened to upstreams.", counts.connects)?;
    let help = "Requests sent on a reused connection.";
    families.counter("upstream_reuses", help, counts.reuses)?;
    families.counter("upstream_retries", "Requests sent again to the same upstream.", counts.retries)?;
    let help = "Requests sent to another upstream because the first could not be reached.";
    families.counter("upstream_second_choices", help, counts.second_choices)?;
    let help = "Requests that failed without a retry because the retry budget was spent (--retry-budget).";
    families.counter("upstream_retries_denied", help, counts.retries_denied)?;
    let errors = [
        ("connect", counts.connects_failed),
        ("502", counts.bad_gateway),
        ("503", counts.unavailable),
        ("504", counts.gateway_timeouts),
    ];
    let errors = errors.map(|(kind, count)| ([("kind", kind.to_owned())], count));
    let help = "Failed connections to upstreams, and error responses made by the proxy, by status.";
    families.counters("upstream_errors", help, errors)?;
    let pool = [("idle", counts.pool_idle), ("busy", counts.pool_busy)];
    let pool = pool.map(|(state, count)| ([("state", state.to_owned())], count));
    families.gauges("upstream_connections", "Open connections to upstreams, by state.", pool)?;
    let help = "Body bytes sent to upstreams, including tunnels.";
    families.counter_of(&Unit::Bytes, "upstream_sent", help, counts.bytes_upstream)?;
    let help = "Body bytes sent to clients, including tunnels.";
    families.counter_of(&Unit::Bytes, "downstream_sent", help, counts.bytes_downstream)?;
    let help = "Time from the end of a request sent upstream to the head of its response.";
    families.histogram("upstream_response", help, &buckets(&counts.upstream_times))
}

fn buckets(times: &Histogram) -> Buckets {
    let counts = times.buckets.iter().map(|bucket| (bucket.bound, bucket.count)).collect();
    Buckets { counts, sum: times.seconds }
}

/// Each upstream by itself.
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

/// What it is called in the log, in messages and at the API too; a host and a port may be two upstreams, with TLS and
/// without.
fn labels(state: &UpstreamState) -> [Label; 2] {
    [("upstream", state.name.to_string()), ("scheme", scheme(state).to_owned())]
}

fn labels_and(state: &UpstreamState, outcome: &str) -> [Label; 3] {
    let [upstream, scheme] = labels(state);
    [upstream, scheme, ("outcome", outcome.to_owned())]
}

/// Requests by what the cache did.
pub fn results(counts: &ProxyCounts) -> [(&'static str, u64); 6] {
    [
        ("hit", counts.cache_hits),
        ("stale", counts.cache_stale),
        ("revalidated", counts.cache_revalidated),
        ("collapsed", counts.cache_collapsed),
        ("miss", counts.cache_misses),
        ("bypass", counts.cache_bypassed),
    ]
}

/// What the cache does and holds.
fn stored(families: &mut Families<'_>, counts: &ProxyCounts, statistics: &Statistics) -> fmt::Result {
    let results = results(counts).map(|(result, count)| ([("result", result.to_owned())], count));
    families.counters("cache_requests", "Requests by cache result.", results)?;
    let help = "Body bytes served from the cache.";
    families.counter_of(&Unit::Bytes, "cache_sent", help, counts.cache_bytes)?;
    families.gauge("cache_objects", "Stored responses.", statistics.objects)?;
    families.gauge_of(&Unit::Bytes, "cache_used", "Memory used by the cache.", statistics.bytes)?;
    families.gauge_of(&Unit::Bytes, "cache_size", "Memory limit of the cache.", statistics.bytes_max)?;
    families.counter("cache_inserted", "Responses stored.", statistics.inserted)?;
    families.counter("cache_evicted", "Responses evicted to free memory.", statistics.evicted)?;
    families.counter("cache_purged", "Responses purged or invalidated.", statistics.purged)?;
    families.gauge("cache_fills", "Responses being fetched into the cache.", statistics.fills)
}

fn lines(families: &mut Families<'_>, counts: LineCounts) -> fmt::Result {
    let LineCounts { written, dropped, failed } = counts;
    let lines = [("written", written), ("dropped", dropped), ("failed", failed)];
    let lines = lines.map(|(outcome, count)| ([("outcome", outcome.to_owned())], count));
    let help = "Access log lines: written, dropped because the disk is too slow, or failed.";
    families.counters("access_log_lines", help, lines)
}
