//! The metrics of every server, of its process and its connections; and encoding of metrics.
//!
//! Nothing is stored here: values are read from their sources at each scrape.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use breme_base::{Metric, MetricKind, TimeHistogram};
use breme_driver::{CloseKind, CounterReader, ShardCounters};
use breme_http::RefusalReason;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// A label and its value.
pub type Label = (&'static str, String);

#[derive(Clone, Debug)]
pub struct Buckets {
    /// The upper bound of each bucket, the last one infinite, and the number of values in it (not cumulative).
    pub counts: Vec<(f64, u64)>,
    /// The sum of all values.
    pub sum: f64,
}

impl From<TimeHistogram> for Buckets {
    fn from(times: TimeHistogram) -> Self {
        Self { counts: times.buckets().collect(), sum: times.sum().as_secs_f64() }
    }
}

/// Encodes families of metrics, each in one call.
pub struct Families<'a>(DescriptorEncoder<'a>);

impl<'a> Families<'a> {
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.one(name, help, None, &ConstCounter::new(value))
    }

    /// The metrics of a table, with their values read from `counts`.
    pub fn table<'m, T: 'static>(
        &mut self,
        metrics: impl IntoIterator<Item = &'m Metric<T>>,
        counts: &T,
    ) -> fmt::Result {
        metrics.into_iter().try_for_each(|metric| self.metric(metric, counts))
    }

    fn metric<T>(&mut self, metric: &Metric<T>, counts: &T) -> fmt::Result {
        let (kind, unit) = match metric.kind {
            MetricKind::Counter => (MetricType::Counter, None),
            MetricKind::ByteCounter => (MetricType::Counter, Some(&Unit::Bytes)),
            MetricKind::Gauge => (MetricType::Gauge, None),
            MetricKind::ByteGauge => (MetricType::Gauge, Some(&Unit::Bytes)),
        };
        let mut family = self.0.encode_descriptor(metric.name, metric.help, unit, kind)?;
        for (value, count) in metric.read(counts) {
            match (kind, metric.label) {
                (MetricType::Counter, "") => family.encode_counter::<NoLabelSet, u64, f64>(&count, None)?,
                (_, "") => family.encode_gauge(&signed(count))?,
                (kind, label) => {
                    let labels = [(label, value)];
                    let mut metric = family.encode_family(&labels)?;
                    match kind {
                        MetricType::Counter => metric.encode_counter::<NoLabelSet, u64, f64>(&count, None)?,
                        _ => metric.encode_gauge(&signed(count))?,
                    }
                }
            }
        }
        Ok(())
    }

    /// A counter with a unit, which becomes part of the name.
    pub fn counter_of(&mut self, unit: &Unit, name: &str, help: &str, value: u64) -> fmt::Result {
        self.one(name, help, Some(unit), &ConstCounter::new(value))
    }

    /// Counters distinguished by labels.
    pub fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, u64, f64>(&value, None)?;
        }
        Ok(())
    }

    /// A histogram of seconds.
    pub fn histogram(&mut self, name: &str, help: &str, Buckets { counts, sum }: &Buckets) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        family.encode_histogram::<NoLabelSet>(*sum, total(counts), counts, None)
    }

    /// Histograms distinguished by labels.
    pub fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], Buckets)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, Buckets { counts, sum }) in values {
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, total(&counts), &counts, None)?;
        }
        Ok(())
    }

    /// Gauges distinguished by labels.
    pub fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], u64)>,
    ) -> fmt::Result {
        self.labelled(None, name, help, values.into_iter().map(|(labels, value)| (labels, signed(value))))
    }

    /// Gauges with a unit, which becomes part of the name, distinguished by labels.
    pub fn gauges_of<const N: usize>(
        &mut self,
        unit: &Unit,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], u64)>,
    ) -> fmt::Result {
        self.labelled(Some(unit), name, help, values.into_iter().map(|(labels, value)| (labels, signed(value))))
    }

    /// Gauges with fractions and a unit, distinguished by labels.
    pub fn numbers_of<const N: usize>(
        &mut self,
        unit: &Unit,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], f64)>,
    ) -> fmt::Result {
        self.labelled(Some(unit), name, help, values)
    }

    fn labelled<V: EncodeGaugeValue, const N: usize>(
        &mut self,
        unit: Option<&Unit>,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.one(name, help, None, &ConstGauge::new(signed(value)))
    }

    /// A gauge with a unit, which becomes part of the name.
    pub fn gauge_of(&mut self, unit: &Unit, name: &str, help: &str, value: u64) -> fmt::Result {
        self.one(name, help, Some(unit), &ConstGauge::new(signed(value)))
    }

    /// Gauges with fractions, distinguished by labels.
    pub fn numbers<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([Label; N], f64)>,
    ) -> fmt::Result {
        self.labelled(None, name, help, values)
    }

    /// Texts as labels.
    pub fn infos<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        infos: impl IntoIterator<Item = [Label; N]>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        infos.into_iter().try_for_each(|labels| family.encode_info(&labels))
    }

    /// A gauge with fractions.
    pub fn number(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.one(name, help, None, &ConstGauge::new(value))
    }

    fn one(&mut self, name: &str, help: &str, unit: Option<&Unit>, metric: &impl EncodeMetric) -> fmt::Result {
        metric.encode(self.0.encode_descriptor(name, help, unit, metric.metric_type())?)
    }
}

fn total(counts: &[(f64, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

/// Gauges are signed in the format; larger values are practically unlimited.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Resource use of the process, under the names common to Prometheus clients.
#[derive(Debug)]
pub struct ProcessMetrics {
    started: SystemTime,
}

impl ProcessMetrics {
    /// Create it at the start of the program.
    pub fn starting_now() -> Self {
        Self { started: SystemTime::now() }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let cpu = breme_sys::cpu_time_of_process().total().as_secs_f64();
        families.one(
            "process_cpu",
            "CPU time in user and system mode.",
            Some(&Unit::Seconds),
            &ConstCounter::new(cpu),
        )?;
        families.one(
            "process_start_time",
            "Unix time at which the program started.",
            Some(&Unit::Seconds),
            &ConstGauge::new(started),
        )?;
        if let Some(bytes) = breme_sys::resident_bytes() {
            families.gauge_of(&Unit::Bytes, "process_resident_memory", "Resident memory.", bytes)?;
        }
        if let Some(count) = breme_sys::open_descriptors() {
            families.gauge("process_open_fds", "Open file descriptors.", count)?;
        }
        families.gauge(
            "process_max_fds",
            "Maximum number of open file descriptors.",
            breme_sys::descriptor_limit().soft,
        )
    }
}

/// The counters of a driver, for all its shards.
#[derive(Debug)]
pub struct ConnectionMetrics(CounterReader);

impl ConnectionMetrics {
    pub fn new(counters: CounterReader) -> Self {
        Self(counters)
    }
}

impl Collector for ConnectionMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let shards = self.0.all();
        let sum = |count: fn(&ShardCounters) -> u64| shards.iter().map(count).sum::<u64>();
        let begun = sum(|shard| shard.accepted) + sum(|shard| shard.connected);
        let open = begun.saturating_sub(sum(|shard| shard.closed));
        families.counter("connections_accepted", "Accepted connections.", sum(|shard| shard.accepted))?;
        families.gauge("connections_open", "Open connections, to clients and upstreams.", open)?;
        let ends = (0..).zip(CloseKind::ALL).map(|(index, end): (usize, CloseKind)| {
            ([("reason", format!("{end:?}").to_lowercase())], shards.iter().map(|shard| shard.ended[index]).sum())
        });
        families.counters("connections_closed", "Closed connections, by reason.", ends)?;
        let failed = sum(|shard| shard.accepts_failed);
        families.counter("accepts_failed", "Failed accepts, for lack of file descriptors or memory.", failed)?;
        let [received, sent] = [sum(|shard| shard.received_bytes), sum(|shard| shard.sent_bytes)];
        families.counter_of(&Unit::Bytes, "received", "Bytes received, without TLS overhead.", received)?;
        families.counter_of(
            &Unit::Bytes,
            "sent",
            "Bytes handed to the kernel for sending, without TLS overhead.",
            sent,
        )?;
        let resumed = sum(|shard| shard.handshakes_resumed);
        let handshakes = [
            ("full", sum(|shard| shard.handshakes).saturating_sub(resumed)),
            ("resumed", resumed),
            ("failed", sum(|shard| shard.handshakes_failed)),
        ];
        let handshakes = handshakes.map(|(outcome, count)| ([("outcome", outcome.to_owned())], count));
        families.counters("tls_handshakes", "TLS handshakes, by outcome.", handshakes)
    }
}

/// `BadHost` becomes `bad-host`: words are joined as in labels of the log and of load.
pub fn refusal_name(reason: RefusalReason) -> String {
    let mut name = String::new();
    for character in format!("{reason:?}").chars() {
        if character.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(character.to_ascii_lowercase());
    }
    name
}

/// The exposition of these metrics, as text, for tests.
///
/// # Errors
/// A collector cannot encode its metrics.
pub fn exposition_of(metrics: impl Collector) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut exposition = String::new();
    text::encode(&mut exposition, &registry)?;
    Ok(exposition)
}

/// The names of its metrics, with the endings of their samples, as documentation gives them; for tests.
pub fn metric_names(exposition: &str) -> Vec<String> {
    let families = exposition.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    families
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_a_name_of_small_letters() {
        assert_eq!(refusal_name(RefusalReason::SeveralContentLengths), "several-content-lengths");
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        for &reason in RefusalReason::ALL {
            assert!(refusal_name(reason).bytes().all(is_plain));
        }
    }
}
