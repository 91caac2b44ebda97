//! Sends the metrics of `/metrics` to a receiver, with the sender's time, on a thread of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use breme_base::plural;
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::delivery::{Delivery, DeliveryError};
use super::otlp::PartialSuccess;
use super::receiver::{PushResponse, Receiver};
use super::retry::{Backoff, random_of_clock};
use super::source::Source;
use super::{otlp, remote_write, retry};

/// Limit of queued messages; further ones are dropped.
const QUEUE_MAX: usize = 600;
/// At the end, messages are sent for this long, plus the time limit of the last request.
const ENDING_MAX: Duration = Duration::from_secs(5);

/// The protocol of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Prometheus remote write 0.1.0.
    RemoteWrite,
    /// OpenTelemetry Protocol over HTTP.
    Otlp,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::RemoteWrite => "remote write",
            Self::Otlp => "OTLP",
        }
    }

    const fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::RemoteWrite => remote_write::HEADERS,
            Self::Otlp => otlp::HEADERS,
        }
    }

    /// Whether the receiver may accept the same message later. OTLP prohibits to repeat it after other statuses.
    const fn is_retryable(self, status: u16) -> bool {
        match self {
            Self::RemoteWrite => matches!(status, 429 | 500..),
            Self::Otlp => matches!(status, 429 | 502..=504),
        }
    }

    fn partial_success(self, content: &[u8]) -> Option<PartialSuccess> {
        match self {
            Self::RemoteWrite => None,
            Self::Otlp => otlp::partial_success(content),
        }
    }

    fn message(self, exposition: &str, source: &Source, wall_ms: i64) -> Vec<u8> {
        match self {
            Self::RemoteWrite => remote_write::message(exposition, source, wall_ms),
            Self::Otlp => otlp::message(exposition, source, wall_ms),
        }
    }
}

/// Dropping it sends what is queued, until an attempt fails or `ENDING_MAX` has passed.
pub struct MetricsExporter {
    protocol: Protocol,
    source: Source,
    registry: Registry,
    account: Arc<Account>,
    delivery: Delivery<Vec<u8>>,
}

/// When problems are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemReports {
    /// On standard error, when they occur.
    Immediate,
    /// By [`MetricsExporter::finish`]: a terminal with a view has no place for them before.
    AtEnd,
}

/// The number of messages by outcome.
#[derive(Debug)]
struct Account {
    protocol: Protocol,
    command: &'static str,
    url: String,
    reports: ProblemReports,
    offered: AtomicU64,
    delivered: AtomicU64,
    /// Data points of delivered messages.
    rejected_points: AtomicU64,
    /// The latest.
    problem: Mutex<Option<String>>,
    /// Why data points were rejected; the latest.
    rejection: Mutex<String>,
}

impl Account {
    fn report(&self, problem: &str, consequence: &str) {
        match self.reports {
            ProblemReports::Immediate => {
                breme_base::error_line!("breme {}: {}: {problem}{consequence}", self.command, self.protocol.name());
            }
            ProblemReports::AtEnd => self.note(problem),
        }
    }

    fn note(&self, problem: &str) {
        *self.problem.lock() = Some(problem.to_owned());
    }

    /// The problem of a response with which the receiver is done with a message, if there is one.
    fn settle(&self, response: &PushResponse) -> Option<String> {
        let url = &self.url;
        if !(200..300).contains(&response.status) {
            return Some(format!("{url} rejects a message with status {}", response.status));
        }
        self.delivered.fetch_add(1, Ordering::Relaxed);
        let PartialSuccess { rejected_points, reason } = self.protocol.partial_success(&response.content)?;
        if rejected_points == 0 {
            return Some(format!("{url} warns: {reason}"));
        }
        self.rejected_points.fetch_add(rejected_points, Ordering::Relaxed);
        let reason = if reason.is_empty() { String::from("without a reason") } else { reason };
        let problem = format!("{url} rejects {} of a message: {reason}", plural(rejected_points, "data point"));
        *self.rejection.lock() = reason;
        Some(problem)
    }

    /// None if every message was delivered and accepted.
    fn gaps(&self) -> Option<String> {
        let offered = self.offered.load(Ordering::Relaxed);
        let missing = offered.saturating_sub(self.delivered.load(Ordering::Relaxed));
        let problem = self.problem.lock().take();
        let problem = problem.unwrap_or_else(|| format!("no response from {}", self.url));
        let missing =
            (missing > 0).then(|| format!("{missing} of {} not delivered: {problem}", plural(offered, "sample")));
        let points = self.rejected_points.load(Ordering::Relaxed);
        let rejected = (points > 0)
            .then(|| format!("{} rejected by {}: {}", plural(points, "data point"), self.url, self.rejection.lock()));
        let gaps: Vec<String> = missing.into_iter().chain(rejected).collect();
        (!gaps.is_empty()).then(|| format!("{}: {}", self.protocol.name(), gaps.join("; ")))
    }
}

impl MetricsExporter {
    /// Sends the metrics `breme_COMMAND_*` of `registry`.
    ///
    /// # Errors
    /// The thread that delivers them cannot be started.
    pub fn start(
        command: &'static str,
        protocol: Protocol,
        receiver: Receiver,
        registry: Registry,
        reports: ProblemReports,
    ) -> Result<Self, DeliveryError> {
        let account = Arc::new(Account {
            protocol,
            command,
            url: receiver.url().to_owned(),
            reports,
            offered: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            rejected_points: AtomicU64::new(0),
            problem: Mutex::default(),
            rejection: Mutex::default(),
        });
        let noted = Arc::clone(&account);
        let deliver = move |bodies: &mpsc::Receiver<Vec<u8>>, is_ending: &AtomicBool| {
            send_all(bodies, &receiver, &noted, is_ending);
        };
        let delivery = Delivery::start("metrics", QUEUE_MAX, deliver)?;
        Ok(Self { protocol, source: Source::starting_now(command), registry, account, delivery })
    }

    /// Queues the current values; a problem if that is not possible.
    pub fn send(&self, wall_ms: i64) -> Option<String> {
        self.account.offered.fetch_add(1, Ordering::Relaxed);
        let problem = self.queue(wall_ms).err()?;
        self.account.note(&problem);
        Some(format!("{}: {problem}", self.protocol.name()))
    }

    fn queue(&self, wall_ms: i64) -> Result<(), String> {
        let mut exposition = String::new();
        text::encode(&mut exposition, &self.registry).map_err(|_| String::from("cannot encode the metrics"))?;
        let body = self.protocol.message(&exposition, &self.source, wall_ms);
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
    let post = |body: &[u8]| receiver.exchange(account.protocol.headers(), body);
    let backoff = Backoff::new(random_of_clock());
    let wait = std::thread::park_timeout;
    Sender { account, is_ending, post, wait, backoff, last_problem: None }.send_all(bodies);
}

/// Sends messages in their order.
struct Sender<'a, P, W> {
    account: &'a Account,
    is_ending: &'a AtomicBool,
    post: P,
    wait: W,
    backoff: Backoff,
    /// Of the last message with which the receiver was done.
    last_problem: Option<String>,
}

impl<P: FnMut(&[u8]) -> Result<PushResponse, String>, W: FnMut(Duration)> Sender<'_, P, W> {
    fn send_all(&mut self, bodies: &mpsc::Receiver<Vec<u8>>) {
        let mut ends_at: Option<Instant> = None;
        for body in bodies {
            let now = Instant::now();
            if self.is_ending.load(Ordering::SeqCst) && now >= *ends_at.get_or_insert(now + ENDING_MAX) {
                let problem = format!("{} is too slow", self.account.url);
                return self.account.report(&problem, "; the queued messages are not sent");
            }
            if !self.send_one(&body) {
                return;
            }
        }
    }

    /// Repeats until the receiver accepts or rejects the body; false if the command ended before that.
    fn send_one(&mut self, body: &[u8]) -> bool {
        let protocol = self.account.protocol;
        self.backoff.reset();
        for attempt in 1_u64.. {
            let (problem, asked) = match (self.post)(body) {
                Ok(response) if !protocol.is_retryable(response.status) => {
                    self.settle(&response);
                    return true;
                }
                Ok(PushResponse { status, retry_after, .. }) => {
                    let asked = retry_after.and_then(|value| retry::retry_after(&value, SystemTime::now()));
                    (format!("{} returned status {status}", self.account.url), asked)
                }
                Err(problem) => (problem, None),
            };
            if self.is_ending.load(Ordering::SeqCst) {
                self.account.report(&problem, "; the queued messages are not sent");
                return false;
            }
            if attempt == 1 {
                self.account.report(&problem, "; retrying");
            }
            (self.wait)(self.backoff.pause(asked));
        }
        false
    }

    /// Reports each problem once, until it changes.
    fn settle(&mut self, response: &PushResponse) {
        let problem = self.account.settle(response);
        problem.iter().for_each(|problem| self.account.note(problem));
        if let Some(news) = news(&mut self.last_problem, problem) {
            self.account.report(news, "");
        }
    }
}

/// The problem, unless the last one was the same.
fn news(last: &mut Option<String>, problem: Option<String>) -> Option<&str> {
    let is_news = *last != problem;
    *last = problem;
    last.as_deref().filter(|_| is_news)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use breme_base::Random;

    use super::super::protobuf::{push_bytes, push_number};
    use super::*;

    fn account(offered: u64, delivered: u64) -> Account {
        Account {
            protocol: Protocol::RemoteWrite,
            command: "load",
            url: String::from("http://r/"),
            reports: ProblemReports::AtEnd,
            offered: AtomicU64::new(offered),
            delivered: AtomicU64::new(delivered),
            rejected_points: AtomicU64::new(0),
            problem: Mutex::default(),
            rejection: Mutex::default(),
        }
    }

    fn status(status: u16) -> PushResponse {
        PushResponse { status, ..PushResponse::default() }
    }

    fn rejection(rejected_points: u64, reason: &str) -> PushResponse {
        let (mut partial, mut content) = (Vec::new(), Vec::new());
        push_number(&mut partial, 1, rejected_points);
        push_bytes(&mut partial, 2, reason.as_bytes());
        push_bytes(&mut content, 1, &partial);
        PushResponse { content, ..status(200) }
    }

    /// Sends messages until the receiver has given these responses, the last of which ends a message; the number of
    /// messages, and the pauses between attempts.
    fn sent(account: &Account, responses: Vec<PushResponse>) -> (u64, Vec<Duration>) {
        let responses = RefCell::new(VecDeque::from(responses));
        let (mut messages, mut pauses) = (0, Vec::new());
        let mut sender = Sender {
            account,
            is_ending: &AtomicBool::new(false),
            post: |_: &[u8]| Ok(responses.borrow_mut().pop_front().unwrap()),
            wait: |pause| pauses.push(pause),
            backoff: Backoff::new(Random::new(7)),
            last_problem: None,
        };
        while !responses.borrow().is_empty() {
            assert!(sender.send_one(b""));
            messages += 1;
        }
        (messages, pauses)
    }

    #[test]
    fn only_statuses_of_the_protocol_are_repeated() {
        for (protocol, repeated) in
            [(Protocol::RemoteWrite, &[429, 500, 501, 502, 503, 504, 507][..]), (Protocol::Otlp, &[429, 502, 503, 504])]
        {
            for code in [200, 204, 301, 400, 401, 404, 408, 413, 429, 500, 501, 502, 503, 504, 507] {
                let account = Account { protocol, ..account(2, 0) };
                let (messages, pauses) = sent(&account, vec![status(code), status(200)]);
                let is_repeated = repeated.contains(&code);
                assert_eq!((messages, pauses.len()), if is_repeated { (1, 1) } else { (2, 0) }, "{protocol:?} {code}");
            }
        }
    }

    #[test]
    fn pauses_follow_retry_after() {
        let asked = |value: &str| PushResponse { retry_after: Some(value.to_owned()), ..status(503) };
        let (_, pauses) = sent(&account(1, 0), vec![asked("30"), asked("86400"), asked("soon"), status(200)]);
        assert_eq!(pauses[..2], [Duration::from_secs(30), Duration::from_secs(300)]);
        assert!(pauses[2] <= Duration::from_secs(4), "{pauses:?}");
    }

    #[test]
    fn problems_are_news_when_they_change() {
        let mut last = None;
        let mut is_news = |problem: Option<&str>| news(&mut last, problem.map(str::to_owned)).is_some();
        let problems = [None, Some("a"), Some("a"), Some("b"), None, Some("b")];
        assert_eq!(problems.map(&mut is_news), [false, true, false, true, false, true]);
    }

    #[test]
    fn rejected_data_points_are_counted() {
        let account = Account { protocol: Protocol::Otlp, ..account(4, 0) };
        sent(&account, vec![rejection(5, "first"), rejection(0, "a warning"), rejection(2, "nope\n"), status(200)]);
        assert_eq!(account.gaps().unwrap(), "OTLP: 7 data points rejected by http://r/: nope ");
        account.delivered.store(3, Ordering::Relaxed);
        account.note("http://r/ returned status 503");
        let expected = "OTLP: 1 of 4 samples not delivered: http://r/ returned status 503; 7 data points rejected by \
                        http://r/: nope ";
        assert_eq!(account.gaps().unwrap(), expected);
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
}
