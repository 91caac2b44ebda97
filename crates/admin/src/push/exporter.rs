//! Sends the metrics of `/metrics` to a receiver, with the sender's time, on a thread of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use breme_base::plural;
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::delivery::{Delivery, DeliveryError};
use super::receiver::Receiver;
use super::source::Source;
use super::{otlp, remote_write};

/// Limit of queued messages; further ones are dropped.
const QUEUE_MAX: usize = 600;
/// Pause after a failed attempt; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// At the end, messages are sent for this long, plus the time limit of the last request.
const ENDING_MAX: Duration = Duration::from_secs(5);
const TOO_MANY_REQUESTS: u16 = 429;

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
    /// The latest.
    problem: Mutex<Option<String>>,
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

    /// None if every message was delivered.
    fn gaps(&self) -> Option<String> {
        let offered = self.offered.load(Ordering::Relaxed);
        let missing = offered.saturating_sub(self.delivered.load(Ordering::Relaxed));
        let problem = self.problem.lock().take();
        let problem = problem.unwrap_or_else(|| format!("no response from {}", self.url));
        let name = self.protocol.name();
        (missing > 0).then(|| format!("{name}: {missing} of {} not delivered: {problem}", plural(offered, "sample")))
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
            problem: Mutex::default(),
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
        let problem = match receiver.post(account.protocol.headers(), body) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn account(offered: u64, delivered: u64) -> Account {
        Account {
            protocol: Protocol::RemoteWrite,
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
}
