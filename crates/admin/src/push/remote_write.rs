//! Prometheus remote write (protocol version 0.1.0): the metrics of `/metrics`, with the sender's time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use breme_base::plural;
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::delivery::{Delivery, DeliveryError};
use super::receiver::Receiver;

/// Limit of queued messages; further ones are dropped.
const QUEUE_MAX: usize = 600;
/// Pause after a failed attempt; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// At the end, messages are sent for this long, plus the time limit of the last request.
const ENDING_MAX: Duration = Duration::from_secs(5);
const TOO_MANY_REQUESTS: u16 = 429;
const HEADERS: [(&str, &str); 3] = [
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

/// Dropping it sends what is queued, until an attempt fails or `ENDING_MAX` has passed.
pub struct RemoteWriter {
    source: SeriesSource,
    registry: Registry,
    account: Arc<Account>,
    delivery: Delivery<Vec<u8>>,
}

/// When problems are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemReports {
    /// On standard error, when they occur.
    Immediate,
    /// By [`RemoteWriter::finish`]: a terminal with a view has no place for them before.
    AtEnd,
}

/// The number of messages by outcome.
#[derive(Debug)]
struct Account {
    command: &'static str,
    url: String,
    reports: ProblemReports,
    offered: AtomicU64,
    delivered: AtomicU64,
    /// The latest.
    problem: Mutex<Option<String>>,
}

impl Account {
    fn report(&self, problem: &str, consequence: &str) {
        match self.reports {
            ProblemReports::Immediate => {
                breme_base::error_line!("breme {}: remote write: {problem}{consequence}", self.command);
            }
            ProblemReports::AtEnd => self.note(problem),
        }
    }

    fn note(&self, problem: &str) {
        *self.problem.lock() = Some(problem.to_owned());
    }

    /// None if every message was delivered.
    fn gaps(&self) -> Option<String> {
        let offered = self.offered.load(Ordering::Relaxed);
        let missing = offered.saturating_sub(self.delivered.load(Ordering::Relaxed));
        let problem = self.problem.lock().take();
        let problem = problem.unwrap_or_else(|| format!("no response from {}", self.url));
        (missing > 0)
            .then(|| format!("remote write: {missing} of {} not delivered: {problem}", plural(offered, "sample")))
    }
}

/// The sender.
#[derive(Clone, Debug)]
struct SeriesSource {
    /// Series of other prefixes describe this process.
    prefix: String,
    /// Labels of every series, as a server that scrapes would add them.
    labels: [(&'static str, String); 2],
}

impl SeriesSource {
    fn new(command: &'static str) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let labels = [("instance", host), ("job", format!("breme-{command}"))];
        Self { prefix: format!("breme_{command}_"), labels }
    }
}

impl RemoteWriter {
    /// Sends the metrics `breme_COMMAND_*` of `registry`.
    ///
    /// # Errors
    /// The thread that delivers them cannot be started.
    pub fn start(
        command: &'static str,
        receiver: Receiver,
        registry: Registry,
        reports: ProblemReports,
    ) -> Result<Self, DeliveryError> {
        let account = Arc::new(Account {
            command,
            url: receiver.url().to_owned(),
            reports,
            offered: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            problem: Mutex::default(),
        });
        let noted = Arc::clone(&account);
        let deliver = move |bodies: &mpsc::Receiver<Vec<u8>>, is_ending: &AtomicBool| {
            send_all(bodies, &receiver, &noted, is_ending);
        };
        let delivery = Delivery::start("remote write", QUEUE_MAX, deliver)?;
        Ok(Self { source: SeriesSource::new(command), registry, account, delivery })
    }

    /// Queues the current values; a problem if that is not possible.
    pub fn send(&self, wall_ms: i64) -> Option<String> {
        self.account.offered.fetch_add(1, Ordering::Relaxed);
        let problem = self.queue(wall_ms).err()?;
        self.account.note(&problem);
        Some(format!("remote write: {problem}"))
    }

    fn queue(&self, wall_ms: i64) -> Result<(), String> {
        let mut exposition = String::new();
        text::encode(&mut exposition, &self.registry).map_err(|_| String::from("cannot encode the metrics"))?;
        let body = compressed(&write_request(&exposition, &self.source, wall_ms));
        match self.delivery.queue(body) {
            true => Ok(()),
            false => Err(format!("{QUEUE_MAX} messages are queued; this one is not sent")),
        }
    }

    /// Sends what is queued, as dropping it does; says how many samples were not delivered, if any.
    pub fn finish(self) -> Option<String> {
        drop(self.delivery);
        self.account.gaps()
    }
}

fn send_all(bodies: &mpsc::Receiver<Vec<u8>>, receiver: &Receiver, account: &Account, is_ending: &AtomicBool) {
    let mut ends_at: Option<Instant> = None;
    for body in bodies {
        let now = Instant::now();
        if is_ending.load(Ordering::SeqCst) && now >= *ends_at.get_or_insert(now + ENDING_MAX) {
            let problem = format!("{} is too slow", receiver.url());
            return account.report(&problem, "; the queued messages are not sent");
        }
        if !send_one(&body, receiver, account, is_ending) {
            return;
        }
    }
}

/// Repeats until the receiver accepts or rejects the body; false if the command ended before that.
fn send_one(body: &[u8], receiver: &Receiver, account: &Account, is_ending: &AtomicBool) -> bool {
    let url = receiver.url();
    let mut pause = PAUSE_MIN;
    loop {
        let problem = match receiver.post(&HEADERS, body) {
            Ok(200..300) => {
                account.delivered.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            // The receiver would reject it again.
            Ok(status) if (300..500).contains(&status) && status != TOO_MANY_REQUESTS => {
                account.report(&format!("{url} rejects a message with status {status}"), "");
                return true;
            }
            Ok(status) => format!("{url} returned status {status}"),
            Err(problem) => problem,
        };
        if is_ending.load(Ordering::SeqCst) {
            account.report(&problem, "; the queued messages are not sent");
            return false;
        }
        if pause == PAUSE_MIN {
            account.report(&problem, "; retrying");
        }
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The protobuf message `prometheus.WriteRequest`: repeated series (1), each with labels (1) and one sample (2).
fn write_request(exposition: &str, source: &SeriesSource, wall_ms: i64) -> Vec<u8> {
    let mut request = Vec::new();
    for (labels, value) in exposition.lines().filter_map(|line| series(line, source)) {
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

/// Labels in their order, the name first, and the value of a line of the command's own metrics.
fn series(line: &str, source: &SeriesSource) -> Option<(Vec<(String, String)>, f64)> {
    let (series, value) = line.starts_with(&source.prefix).then(|| line.rsplit_once(' '))??;
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
    labels.extend(source.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
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

    fn source() -> SeriesSource {
        let labels = [("instance", String::from("h")), ("job", String::from("j"))];
        SeriesSource { prefix: String::from("breme_watch_"), labels }
    }

    fn account(offered: u64, delivered: u64) -> Account {
        Account {
            command: "load",
            url: String::from("http://r/"),
            reports: ProblemReports::AtEnd,
            offered: AtomicU64::new(offered),
            delivered: AtomicU64::new(delivered),
            problem: Mutex::default(),
        }
    }

    #[test]
    fn gaps_name_the_latest_reason() {
        assert_eq!(account(61, 61).gaps(), None);
        let account = account(61, 58);
        account.report("http://r/ returned status 503", "; retrying");
        account.report("http://r/ is too slow", "");
        let gaps = account.gaps().unwrap();
        assert_eq!(gaps, "remote write: 3 of 61 samples not delivered: http://r/ is too slow");
    }

    /// After a failed attempt no further one is made.
    #[test]
    fn the_end_is_bounded() {
        let (sender, bodies) = mpsc::channel();
        (0..3).for_each(|_| sender.send(Vec::new()).unwrap());
        drop(sender);
        let receiver = Receiver::new(String::from("http://127.0.0.1:1/"), None).unwrap();
        let (account, is_ending) = (account(3, 0), AtomicBool::new(true));
        send_all(&bodies, &receiver, &account, &is_ending);
        assert!(account.gaps().unwrap().starts_with("remote write: 3 of 3 samples not delivered: "));
        assert_eq!(bodies.try_iter().count(), 2, "the first attempt failed");
    }

    #[test]
    fn labels_are_unescaped_and_sorted() {
        let line = "breme_watch_up{target=\"a \\\"b\\\" \\\\ {c}, \\n\",state=\"up\"} 1.5";
        let (labels, value) = series(line, &source()).unwrap();
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("__name__", "breme_watch_up"),
            ("instance", "h"),
            ("job", "j"),
            ("state", "up"),
            ("target", "a \"b\" \\ {c}, \n"),
        ];
        assert_eq!(labels, expected);
        assert_eq!(value, 1.5);
        assert!(series("process_threads 3", &source()).is_none() && series("# EOF", &source()).is_none());
        assert_eq!(series("breme_watch_x 2", &source()).unwrap().0.len(), 3);
    }

    /// By hand, from the specification of protobuf.
    #[test]
    fn request_is_protobuf() {
        let request = write_request("breme_watch_x 2\n", &source(), 300);
        let mut expected = vec![0x0a, 0, 0x0a, 25, 0x0a, 8];
        expected.extend(b"__name__");
        expected.extend([0x12, 13]);
        expected.extend(b"breme_watch_x");
        expected.extend(*b"\x0a\x0d\x0a\x08instance\x12\x01h\x0a\x08\x0a\x03job\x12\x01j");
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
