//! Prometheus remote write (protocol version 0.1.0): the metrics of `/metrics` after each interval, with the interval's
//! start as their time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::delivery::Delivery;
use crate::failure::Failure;

/// Most intervals that wait for the receiver; further ones are not sent.
const QUEUE_MAX: usize = 600;
/// Time limit of a request.
const WITHIN: Duration = Duration::from_secs(5);
/// Pause after a failed attempt; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const TOO_MANY_REQUESTS: u16 = 429;
/// Series of other prefixes describe this process, not the targets.
const PREFIX: &str = "breme_watch_";
const HEADERS: [(&str, &str); 3] = [
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

/// Dropping it sends what is queued, until an attempt fails.
pub(super) struct RemoteWriter {
    registry: Registry,
    delivery: Delivery<Vec<u8>>,
}

impl RemoteWriter {
    pub(super) fn start(url: &str, registry: Registry) -> Result<Self, Failure> {
        let url = url.to_owned();
        let deliver = move |bodies: &Receiver<Vec<u8>>, is_ending: &AtomicBool| send_all(bodies, &url, is_ending);
        Ok(Self { registry, delivery: Delivery::start("remote write", QUEUE_MAX, deliver)? })
    }

    /// Queues the current values; a problem if that is not possible.
    pub(super) fn send(&self, wall_ms: i64) -> Option<String> {
        let mut exposition = String::new();
        if text::encode(&mut exposition, &self.registry).is_err() {
            return Some(String::from("remote_write: cannot encode the metrics"));
        }
        let body = compressed(&write_request(&exposition, wall_ms));
        (!self.delivery.queue(body))
            .then(|| format!("remote_write: {QUEUE_MAX} intervals are queued; this one is not sent"))
    }
}

fn send_all(bodies: &Receiver<Vec<u8>>, url: &str, is_ending: &AtomicBool) {
    for body in bodies {
        if !send_one(&body, url, is_ending) {
            return;
        }
    }
}

/// Repeats until the receiver accepts or rejects the body; false if the watch ended before that.
fn send_one(body: &[u8], url: &str, is_ending: &AtomicBool) -> bool {
    let mut pause = PAUSE_MIN;
    loop {
        let problem = match breme_runner::post(url, &HEADERS, body, WITHIN) {
            Ok(200..300) => return true,
            // The receiver would reject it again.
            Ok(status) if (300..500).contains(&status) && status != TOO_MANY_REQUESTS => {
                eprintln!("breme watch: remote_write: {url} rejects an interval with status {status}");
                return true;
            }
            Ok(status) => format!("{url} returned status {status}"),
            Err(problem) => problem,
        };
        if is_ending.load(Ordering::SeqCst) {
            eprintln!("breme watch: remote_write: {problem}; the queued intervals are not sent");
            return false;
        }
        if pause == PAUSE_MIN {
            eprintln!("breme watch: remote_write: {problem}; retrying");
        }
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The protobuf message `prometheus.WriteRequest`: repeated series (1), each with labels (1) and one sample (2).
fn write_request(exposition: &str, wall_ms: i64) -> Vec<u8> {
    let mut request = Vec::new();
    for (labels, value) in exposition.lines().filter_map(series) {
        let mut message = Vec::new();
        for (name, value) in labels {
            let mut label = Vec::new();
            push_bytes(&mut label, 1, name.as_bytes());
            push_bytes(&mut label, 2, value.as_bytes());
            push_bytes(&mut message, 1, &label);
        }
        let mut sample = vec![(1 << 3) | 1];
        sample.extend(value.to_le_bytes());
        sample.push(2 << 3);
        push_varint(&mut sample, wall_ms.cast_unsigned());
        push_bytes(&mut message, 2, &sample);
        push_bytes(&mut request, 1, &message);
    }
    request
}

/// Labels in their order, the name first, and the value of a line of the watch's own metrics.
fn series(line: &str) -> Option<(Vec<(String, String)>, f64)> {
    let (series, value) = line.starts_with(PREFIX).then(|| line.rsplit_once(' '))??;
    let (name, mut rest) = series.split_once('{').unwrap_or((series, "}"));
    let mut labels = vec![(String::from("__name__"), name.to_owned())];
    while let Some((label, quoted)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next()? {
                (end, '"') => break end,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter => letter,
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.push((label.to_owned(), value));
        rest = quoted[end + 1..].trim_start_matches(',');
    }
    labels.sort();
    Some((labels, value.parse().ok()?))
}

fn push_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_varint(out, (field << 3) | 2);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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

    #[test]
    fn labels_are_unescaped_and_sorted() {
        let line = "breme_watch_up{target=\"a \\\"b\\\" \\\\ {c}, \\n\",state=\"up\"} 1.5";
        let (labels, value) = series(line).unwrap();
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(labels, [("__name__", "breme_watch_up"), ("state", "up"), ("target", "a \"b\" \\ {c}, \n")]);
        assert_eq!(value, 1.5);
        assert!(series("process_threads 3").is_none() && series("# EOF").is_none());
        assert_eq!(series("breme_watch_x 2").unwrap().0.len(), 1);
    }

    /// By hand, from the specification of protobuf.
    #[test]
    fn request_is_protobuf() {
        let request = write_request("breme_watch_x 2\n", 300);
        let mut expected = vec![0x0a, 46, 0x0a, 25, 0x0a, 8];
        expected.extend(b"__name__");
        expected.extend([0x12, 13]);
        expected.extend(b"breme_watch_x");
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
