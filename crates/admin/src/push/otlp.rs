//! OTLP over HTTP with binary protobuf (OpenTelemetry Protocol 1): an `ExportMetricsServiceRequest`.
//!
//! Metrics keep their names of `/metrics`, without the `_total` that OpenMetrics adds to those of counters. Field
//! numbers are those of `opentelemetry/proto/metrics/v1/metrics.proto`.

use breme_base::one_line;

use super::protobuf::{Value, fields, push_bytes, push_fixed64, push_number, push_packed_fixed64};
use super::samples::{Family, Sample, families};
use super::source::Source;

pub(super) const HEADERS: &[(&str, &str)] = &[("Content-Type", "application/x-protobuf")];
/// Longer responses are not read.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Longest text of a receiver in a message.
const REASON_MAX: usize = 300;
const CUMULATIVE: u64 = 2;
const NS_PER_MS: u64 = 1_000_000;
const DATA_POINT_ATTRIBUTES: u64 = 7;
const HISTOGRAM_ATTRIBUTES: u64 = 9;

/// The times of a data point, Unix time in nanoseconds.
#[derive(Clone, Copy)]
struct Period {
    start_ns: u64,
    now_ns: u64,
}

/// What a receiver says of a message that it has accepted, at least in part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PartialSuccess {
    /// 0: only a warning.
    pub(super) rejected_points: u64,
    /// On one line.
    pub(super) reason: String,
}

/// `partial_success` (1) of an `ExportMetricsServiceResponse`: `rejected_data_points` (1), `error_message` (2).
pub(super) fn partial_success(response: &[u8]) -> Option<PartialSuccess> {
    let response = fields(Some(response).filter(|response| response.len() <= RESPONSE_BYTES_MAX)?)?;
    let (_, Value::Bytes(partial)) = response.into_iter().rfind(|(field, _)| *field == 1)? else { return None };
    let mut found = PartialSuccess { rejected_points: 0, reason: String::new() };
    for field in fields(partial)? {
        match field {
            // A signed number.
            (1, Value::Number(count)) => found.rejected_points = u64::try_from(count.cast_signed()).unwrap_or(0),
            (2, Value::Bytes(text)) => {
                found.reason = one_line(&String::from_utf8_lossy(text)).chars().take(REASON_MAX).collect();
            }
            _ => {}
        }
    }
    (found.rejected_points > 0 || !found.reason.is_empty()).then_some(found)
}

pub(super) fn message(exposition: &str, source: &Source, wall_ms: i64) -> Vec<u8> {
    let in_ns = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(NS_PER_MS);
    let period = Period { start_ns: in_ns(source.start_ms()), now_ns: in_ns(wall_ms) };
    let mut resource = Vec::new();
    push_attribute(&mut resource, 1, "service.name", &source.job());
    push_attribute(&mut resource, 1, "service.instance.id", source.host());
    push_attribute(&mut resource, 1, "service.version", env!("CARGO_PKG_VERSION"));
    let mut scope = Vec::new();
    push_bytes(&mut scope, 1, b"breme");
    let mut scope_metrics = Vec::new();
    push_bytes(&mut scope_metrics, 1, &scope);
    for family in families(exposition, &source.prefix()) {
        push_bytes(&mut scope_metrics, 2, &metric(&family, period));
    }
    let mut resource_metrics = Vec::new();
    push_bytes(&mut resource_metrics, 1, &resource);
    push_bytes(&mut resource_metrics, 2, &scope_metrics);
    let mut request = Vec::new();
    push_bytes(&mut request, 1, &resource_metrics);
    request
}

fn metric(family: &Family<'_>, period: Period) -> Vec<u8> {
    let mut metric = Vec::new();
    push_bytes(&mut metric, 1, family.name.as_bytes());
    push_bytes(&mut metric, 2, family.help.as_bytes());
    push_bytes(&mut metric, 3, unit(family.unit).as_bytes());
    let mut data = Vec::new();
    let field = match family.kind {
        "histogram" => {
            histograms(family).iter().for_each(|histogram| push_bytes(&mut data, 1, &histogram.data_point(period)));
            push_number(&mut data, 2, CUMULATIVE);
            9
        }
        "counter" => {
            push_data_points(&mut data, family, period);
            push_number(&mut data, 2, CUMULATIVE);
            push_number(&mut data, 3, 1); // monotonic
            7
        }
        _ => {
            push_data_points(&mut data, family, period);
            5
        }
    };
    push_bytes(&mut metric, field, &data);
    metric
}

/// In the Unified Code for Units of Measure, as OpenTelemetry prescribes.
fn unit(name: &str) -> &str {
    match name {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

fn push_data_points(data: &mut Vec<u8>, family: &Family<'_>, period: Period) {
    for sample in &family.samples {
        let mut point = Vec::new();
        push_period(&mut point, period);
        push_fixed64(&mut point, 4, sample.value.to_bits());
        push_attributes(&mut point, DATA_POINT_ATTRIBUTES, &sample.labels);
        push_bytes(data, 1, &point);
    }
}

fn push_period(point: &mut Vec<u8>, period: Period) {
    push_fixed64(point, 2, period.start_ns);
    push_fixed64(point, 3, period.now_ns);
}

fn push_attributes(message: &mut Vec<u8>, field: u64, labels: &[(&str, String)]) {
    labels.iter().for_each(|(name, value)| push_attribute(message, field, name, value));
}

fn push_attribute(message: &mut Vec<u8>, field: u64, name: &str, value: &str) {
    let (mut attribute, mut any) = (Vec::new(), Vec::new());
    push_bytes(&mut any, 1, value.as_bytes());
    push_bytes(&mut attribute, 1, name.as_bytes());
    push_bytes(&mut attribute, 2, &any);
    push_bytes(message, field, &attribute);
}

/// The samples of a histogram that share their labels.
struct Histogram<'a> {
    labels: Vec<(&'a str, String)>,
    count: f64,
    sum: f64,
    /// Upper bounds and cumulative counts.
    buckets: Vec<(f64, f64)>,
}

fn histograms<'a>(family: &Family<'a>) -> Vec<Histogram<'a>> {
    let mut all: Vec<Histogram<'a>> = Vec::new();
    for Sample { name, labels, value } in &family.samples {
        let labels_of_all: Vec<_> = labels.iter().filter(|(label, _)| *label != "le").cloned().collect();
        if all.last().is_none_or(|last| last.labels != labels_of_all) {
            all.push(Histogram { labels: labels_of_all, count: 0.0, sum: 0.0, buckets: Vec::new() });
        }
        let Some(last) = all.last_mut() else { continue };
        match name.strip_prefix(family.name) {
            Some("_count") => last.count = *value,
            Some("_sum") => last.sum = *value,
            Some("_bucket") => {
                let bound = labels.iter().find(|(label, _)| *label == "le").and_then(|(_, bound)| bound.parse().ok());
                last.buckets.extend(bound.map(|bound: f64| (bound, *value)));
            }
            _ => {}
        }
    }
    all
}

impl Histogram<'_> {
    fn data_point(&self, period: Period) -> Vec<u8> {
        let mut point = Vec::new();
        push_period(&mut point, period);
        push_fixed64(&mut point, 4, self.count as u64);
        push_fixed64(&mut point, 5, self.sum.to_bits());
        // One more count than bounds: the last bucket ends at infinity.
        let bounds = self.buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
        let cumulative = self.buckets.iter().map(|(_, count)| *count as u64);
        let before = std::iter::once(0).chain(cumulative.clone());
        let counts = cumulative.zip(before).map(|(count, before)| count.saturating_sub(before));
        push_packed_fixed64(&mut point, 6, counts);
        push_packed_fixed64(&mut point, 7, bounds.map(f64::to_bits));
        push_attributes(&mut point, HISTOGRAM_ATTRIBUTES, &self.labels);
        point
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[field and wire type, length, content]`.
    fn nested(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn attribute(tag: u8, name: &str, value: &str) -> Vec<u8> {
        let value = nested(0x12, &nested(0x0a, value.as_bytes()));
        nested(tag, &[nested(0x0a, name.as_bytes()), value].concat())
    }

    fn fixed(tag: u8, bits: u64) -> Vec<u8> {
        [&[tag][..], &bits.to_le_bytes()].concat()
    }

    fn family(text: &str) -> Family<'_> {
        families(text, "").pop().unwrap()
    }

    const PERIOD: Period = Period { start_ns: 1, now_ns: 2 };

    /// By hand, from `opentelemetry/proto/metrics/v1/metrics.proto` and the specification of protobuf.
    #[test]
    fn counter_is_a_cumulative_monotonic_sum() {
        let text = "# HELP x X.\n# TYPE x counter\n# UNIT x bytes\nx_total{a=\"b\"} 3\n";
        let point = [fixed(0x11, 1), fixed(0x19, 2), fixed(0x21, 3.0_f64.to_bits()), attribute(0x3a, "a", "b")];
        let sum = [nested(0x0a, &point.concat()), vec![0x10, 2, 0x18, 1]].concat();
        let expected = [nested(0x0a, b"x"), nested(0x12, b"X."), nested(0x1a, b"By"), nested(0x3a, &sum)].concat();
        assert_eq!(metric(&family(text), PERIOD), expected);
    }

    #[test]
    fn a_response_may_reject_a_part() {
        let partial =
            |rejected_points, reason: &str| Some(PartialSuccess { rejected_points, reason: reason.to_owned() });
        for (content, expected) in [
            (vec![0x08, 5, 0x12, 4, b'n', b'o', b'p', b'e'], partial(5, "nope")),
            (vec![0x08, 5], partial(5, "")),
            (nested(0x12, b"a\nb\x1b[31m"), partial(0, "a b")),
            (vec![], None),
            ([&[0x08][..], &[0xff; 9], &[1]].concat(), None),
            (vec![0x08], None),
        ] {
            assert_eq!(partial_success(&nested(0x0a, &content)), expected, "{content:?}");
        }
        assert_eq!(partial_success(b""), None);
        assert_eq!(partial_success(b"{\"partialSuccess\":{}}"), None);
        for (length, expected) in [(10_000, partial(0, &"x".repeat(REASON_MAX))), (RESPONSE_BYTES_MAX, None)] {
            let (mut content, mut response) = (Vec::new(), Vec::new());
            push_bytes(&mut content, 2, &vec![b'x'; length]);
            push_bytes(&mut response, 1, &content);
            assert_eq!(partial_success(&response), expected);
        }
    }

    #[test]
    fn other_types_are_gauges() {
        let point = [fixed(0x11, 1), fixed(0x19, 2), fixed(0x21, 0.5_f64.to_bits())].concat();
        let gauge = nested(0x0a, &point);
        let expected = [nested(0x0a, b"x"), nested(0x12, b""), nested(0x1a, b"s"), nested(0x2a, &gauge)].concat();
        assert_eq!(metric(&family("# TYPE x gauge\n# UNIT x seconds\nx 0.5\n"), PERIOD), expected);
    }

    /// The counts of an exposition are cumulative over the buckets, those of OTLP are not.
    #[test]
    fn histograms_have_a_data_point_for_each_set_of_labels() {
        let text = "# TYPE x histogram\nx_sum{a=\"b\"} 1.5\nx_count{a=\"b\"} 5\nx_bucket{le=\"0.1\",a=\"b\"} 1\n\
            x_bucket{le=\"1.0\",a=\"b\"} 4\nx_bucket{le=\"+Inf\",a=\"b\"} 5\nx_sum{a=\"c\"} 0.0\nx_count{a=\"c\"} 0\n\
            x_bucket{le=\"+Inf\",a=\"c\"} 0\n";
        let family = family(text);
        let [first, second] = &histograms(&family)[..] else { panic!("{family:?}") };
        let counts = [1, 3, 1_u64].map(u64::to_le_bytes).concat();
        let bounds = [0.1, 1.0_f64].map(f64::to_le_bytes).concat();
        let expected = [
            fixed(0x11, 1),
            fixed(0x19, 2),
            fixed(0x21, 5),
            fixed(0x29, 1.5_f64.to_bits()),
            nested(0x32, &counts),
            nested(0x3a, &bounds),
            attribute(0x4a, "a", "b"),
        ];
        assert_eq!(first.data_point(PERIOD), expected.concat());
        assert_eq!((second.labels[0].1.as_str(), second.count, second.buckets.len()), ("c", 0.0, 1));
    }

    #[test]
    fn resource_is_the_command_and_its_machine() {
        let source = Source::for_tests("load", "h", 5);
        let request = message("# TYPE process_x gauge\nprocess_x 1\n# EOF\n", &source, 7);
        let resource = [
            attribute(0x0a, "service.name", "breme-load"),
            attribute(0x0a, "service.instance.id", "h"),
            attribute(0x0a, "service.version", env!("CARGO_PKG_VERSION")),
        ];
        let scope_metrics = nested(0x0a, &nested(0x0a, b"breme"));
        let expected = [nested(0x0a, &resource.concat()), nested(0x12, &scope_metrics)].concat();
        assert_eq!(request, nested(0x0a, &expected), "metrics of the process are not sent");
    }
}
