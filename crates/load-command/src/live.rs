//! The metrics of a load while it runs.
//!
//! ```text
//!  shards ──► Run (counts) ─────────────────────────────────────────────────────────┐
//!     └─────► intervals, through a bounded queue (feed) ──► attendant ──► times ────┴──► LoadMetrics ──► /metrics
//! ```
//!
//! Counts and times are those of the shards' last complete intervals, as in the live view, so that a scrape costs the
//! generator's threads nothing.

use std::fmt;
use std::sync::Arc;

use breme_admin::{Buckets, Families};
use breme_base::TIME_BOUNDS_NS;
use breme_driver::Clock;
use breme_load::{Counts, ErrorKind, Run};
use breme_stats::Histogram;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

const NANOS_PER_SECOND: f64 = 1e9;

/// Response times so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponseTimes(Arc<Mutex<Histogram>>);

impl ResponseTimes {
    pub(super) fn add(&self, interval: &Histogram) {
        self.0.lock().merge(interval);
    }

    /// Replaces them by those of the whole run.
    pub(super) fn set(&self, whole: Histogram) {
        *self.0.lock() = whole;
    }

    fn buckets(&self) -> Buckets {
        let times = self.0.lock();
        // A server without a proxy can be faster, and a response time includes the wait for a connection.
        let bounds_ns: Vec<u64> = [50_000].into_iter().chain(TIME_BOUNDS_NS).chain([30_000_000_000]).collect();
        let within = times.counts_within(&bounds_ns).into_iter().chain([times.count()]);
        let bounds = bounds_ns.iter().map(|&bound| bound as f64 / NANOS_PER_SECOND).chain([f64::INFINITY]);
        let mut before = 0;
        let counts = bounds.zip(within).map(|(bound, within)| (bound, within - std::mem::replace(&mut before, within)));
        Buckets { counts: counts.collect(), sum: times.sum() as f64 / NANOS_PER_SECOND }
    }
}

#[derive(Clone, Debug)]
pub(super) struct LoadMetrics {
    pub run: Arc<Run>,
    pub clock: Clock,
    pub times: ResponseTimes,
}

impl Collector for LoadMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        requests(&mut families, &self.run.counts())?;
        let help = "Time from when a request was wanted, or due, to the last byte of its response.";
        families.histogram("load_response_time", help, &self.times.buckets())?;
        families.gauge("load_connections_open", "Open connections.", self.run.progress().open)?;
        self.shape(&mut families)
    }
}

impl LoadMetrics {
    /// The configured load.
    fn shape(&self, families: &mut Families<'_>) -> fmt::Result {
        let settings = self.run.plan().settings();
        let Some(open_loop) = &settings.open_loop else {
            let users = (settings.connections * settings.pipeline_depth) as u64;
            return families.gauge("load_users", "Users of a closed loop.", users);
        };
        let elapsed = self.run.started().map(|started| self.clock.now().since(started));
        let is_over = |elapsed| settings.duration.is_some_and(|duration| elapsed >= duration);
        let rate = elapsed.filter(|&elapsed| !is_over(elapsed)).map_or(0.0, |elapsed| open_loop.pace.rate_at(elapsed));
        let help = "Requests, or with scenarios sessions, per second by the schedule of an open loop.";
        families.number("load_offered_rate", help, rate)
    }
}

fn requests(families: &mut Families<'_>, counts: &Counts) -> fmt::Result {
    families.counter("load_requests", "Requests sent.", counts.sent)?;
    let responses = counts
        .statuses
        .iter()
        .map(|(status, count)| ([("status", format!("{}xx", status / 100)), ("code", status.to_string())], *count));
    families.counters("load_responses", "Complete responses, by status.", responses)?;
    // All of them, so that the first error is an increase.
    let errors = ErrorKind::ALL
        .into_iter()
        .map(|kind| ([("kind", kind.name().to_owned())], counts.errors.get(&kind).copied().unwrap_or_default()));
    families.counters("load_errors", "Errors, by kind.", errors)?;
    let help = "Requests sent more than 1 ms late because of the generator.";
    families.counter("load_late_requests", help, counts.late)?;
    families.counter_of(
        &Unit::Bytes,
        "load_received",
        "Bytes received, without TLS overhead.",
        counts.received_bytes,
    )?;
    families.counter_of(&Unit::Bytes, "load_sent", "Bytes sent, without TLS overhead.", counts.sent_bytes)?;
    families.counter("load_connections_opened", "Connections opened.", counts.connections_opened)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breme_admin::metric_names;
    use breme_load_plan::{OpenLoop, Plan, Settings};

    use super::*;

    fn metrics(settings: Settings) -> String {
        let (plan, clock) = (Plan::new(settings).unwrap(), Clock::start());
        let times = ResponseTimes::default();
        let mut interval = Histogram::new();
        [40_000, 50_000, 2_000_000, 90_000_000_000].into_iter().for_each(|nanos| interval.record(nanos));
        times.add(&interval);
        let run = Arc::new(Run::new(plan, Vec::new(), 1, clock.wall_clock()));
        let own: [Box<dyn Collector>; 1] = [Box::new(LoadMetrics { run, clock, times })];
        let registry = breme_admin::application_registry("load", breme_admin::ProcessMetrics::starting_now(), own);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn buckets_are_cumulative() {
        let text = metrics(Settings::new("http://host.example/"));
        for line in [
            "breme_load_response_time_seconds_bucket{le=\"0.00005\"} 2",
            "breme_load_response_time_seconds_bucket{le=\"0.001\"} 2",
            "breme_load_response_time_seconds_bucket{le=\"0.0025\"} 3",
            "breme_load_response_time_seconds_bucket{le=\"30.0\"} 3",
            "breme_load_response_time_seconds_bucket{le=\"+Inf\"} 4",
            "breme_load_response_time_seconds_count 4",
            "breme_load_response_time_seconds_sum 90.00209",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_closed_loop_has_users_and_an_open_one_a_rate() {
        let url = "http://host.example/";
        let closed = metrics(Settings { connections: 7, ..Settings::new(url) });
        assert!(closed.contains("breme_load_users 7\n") && !closed.contains("offered_rate"), "{closed}");
        let open_loop = Some(OpenLoop::constant(100.0));
        let open = metrics(Settings { open_loop, duration: Some(Duration::from_secs(1)), ..Settings::new(url) });
        // It has not begun.
        assert!(open.contains("breme_load_offered_rate 0.0\n") && !open.contains("load_users"), "{open}");
    }

    #[test]
    fn documentation_names_each_metric() {
        let documentation = include_str!("../../../docs/LOAD.md");
        for name in metric_names(&metrics(Settings::new("http://host.example/"))) {
            let Some(name) = name.strip_prefix("breme_load_") else { continue };
            assert!(documentation.contains(&format!("`{name}`")), "{name}");
        }
    }
}
