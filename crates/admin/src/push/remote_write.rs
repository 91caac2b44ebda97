//! Prometheus remote write (protocol version 0.1.0).

use super::protobuf::{push_bytes, push_fixed64, push_number, push_varint};
use super::samples::{Sample, families};
use super::source::Source;

pub(super) const HEADERS: &[(&str, &str)] = &[
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

pub(super) fn message(exposition: &str, source: &Source, wall_ms: i64) -> Vec<u8> {
    compressed(&write_request(exposition, source, wall_ms))
}

/// The protobuf message `prometheus.WriteRequest`: repeated series (1), each with labels (1) and one sample (2).
fn write_request(exposition: &str, source: &Source, wall_ms: i64) -> Vec<u8> {
    let mut request = Vec::new();
    for sample in families(exposition, &source.prefix()).iter().flat_map(|family| &family.samples) {
        let mut series = Vec::new();
        for (name, value) in labels(sample, source) {
            let mut label = Vec::new();
            push_bytes(&mut label, 1, name.as_bytes());
            push_bytes(&mut label, 2, value.as_bytes());
            push_bytes(&mut series, 1, &label);
        }
        let mut of_now = Vec::new();
        push_fixed64(&mut of_now, 1, sample.value.to_bits());
        push_number(&mut of_now, 2, wall_ms.cast_unsigned());
        push_bytes(&mut series, 2, &of_now);
        push_bytes(&mut request, 1, &series);
    }
    request
}

/// Labels in their order, with those that a server that scrapes would add.
fn labels(sample: &Sample<'_>, source: &Source) -> Vec<(String, String)> {
    let added = [("__name__", sample.name.to_owned()), ("instance", source.host().to_owned()), ("job", source.job())];
    let all = added.into_iter().chain(sample.labels.iter().cloned());
    let mut labels: Vec<(String, String)> = all.map(|(name, value)| (name.to_owned(), value)).collect();
    labels.sort();
    labels
}

/// A Snappy block of literals only: the protocol requires Snappy, and a few kilobytes need no compression.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    /// Tag of a literal whose length, minus one, follows in two bytes.
    const LITERAL: u8 = 61 << 2;
    let mut block = Vec::with_capacity(bytes.len() + 8);
    push_varint(&mut block, bytes.len() as u64);
    for chunk in bytes.chunks(1 << 16) {
        block.push(LITERAL);
        let last = u16::try_from(chunk.len() - 1).unwrap_or(u16::MAX);
        block.extend(last.to_le_bytes());
        block.extend_from_slice(chunk);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source::for_tests("watch", "h", 0)
    }

    #[test]
    fn labels_are_sorted() {
        let labels = vec![("target", "t".to_owned()), ("a", "b".to_owned())];
        let sample = Sample { name: "breme_watch_up", labels, value: 1.5 };
        let labels = super::labels(&sample, &source());
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected =
            [("__name__", "breme_watch_up"), ("a", "b"), ("instance", "h"), ("job", "breme-watch"), ("target", "t")];
        assert_eq!(labels, expected);
    }

    /// By hand, from the specification of protobuf.
    #[test]
    fn request_is_protobuf() {
        let request = write_request("# TYPE breme_watch_x gauge\nbreme_watch_x 2\n", &source(), 300);
        let mut expected = vec![0x0a, 0, 0x0a, 25, 0x0a, 8];
        expected.extend(b"__name__");
        expected.extend([0x12, 13]);
        expected.extend(b"breme_watch_x");
        expected.extend(*b"\x0a\x0d\x0a\x08instance\x12\x01h\x0a\x12\x0a\x03job\x12\x0bbreme-watch");
        expected.extend([0x12, 12, 0x09, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x10, 0xac, 0x02]);
        expected[1] = u8::try_from(expected.len() - 2).unwrap();
        assert_eq!(request, expected);
    }

    #[test]
    fn block_holds_literals() {
        assert_eq!(compressed(b"abc"), [3, 61 << 2, 2, 0, b'a', b'b', b'c']);
        let long = compressed(&vec![7; (1 << 16) + 1]);
        assert_eq!((long.len(), &long[..6]), ((1 << 16) + 1 + 3 + 6, &[0x81, 0x80, 0x04, 61 << 2, 0xff, 0xff][..]));
    }
}
