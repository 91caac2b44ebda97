//! Alerts: lines of JSON in a file, POST requests to a webhook.
//!
//! A line is written at once. A webhook gets the latest alert of each target and kind, and until then the watch tries
//! again, also after a restart: the latest alerts are kept in a file beside the journal.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Ended, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use breme_admin::push::Receiver;
use breme_command::failure::Failure;
use breme_http::media_type::JSON;
use breme_watch::objective::{AlertEvent, AlertKind};
use breme_watch::{LatestAlert, text};
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::journal_folder::write_private;

/// Pause after a failed attempt; it doubles. A new alert is tried at once.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// At the end alerts are sent until an attempt fails, and for this long; the next watch sends the rest.
const ENDING_MAX: Duration = Duration::from_secs(5);
/// Longest file of the latest alerts: three per target.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug)]
struct Latest {
    of: LatestAlert,
    attempts: u32,
    /// In the order in which they were raised.
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    webhook: Option<Receiver>,
    file: Option<String>,
    /// At most three per target.
    latest: Vec<Latest>,
    last_number: u64,
    /// Whether the latest attempt failed, and when the next one is due.
    retry: Option<(Duration, Instant)>,
    /// Whether the file of the latest alerts cannot be written.
    is_unsaved: bool,
    is_ending: bool,
}

#[derive(Debug)]
struct Shared {
    /// The file of the latest alerts.
    path: PathBuf,
    pause_min: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

/// Dropping it sends what is not delivered, for [`ENDING_MAX`].
#[derive(Debug)]
pub(crate) struct Alerts {
    shared: Arc<Shared>,
    ended: Ended<()>,
    /// What each target's latest alerts said when the previous watch ended; none without such a watch.
    before: Option<BTreeMap<(String, AlertKind), bool>>,
}

/// Reports an unwritable file at the start, not with the first alert.
pub(crate) fn check(file: Option<&str>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    append(file, "").map_err(|error| Failure::run(format!("alert.file {file}: cannot be written: {error}")))
}

impl Alerts {
    /// `path` is the file of the latest alerts.
    pub(crate) fn start(path: PathBuf) -> Result<Self, Failure> {
        Self::start_with(path, PAUSE_MIN)
    }

    fn start_with(path: PathBuf, pause_min: Duration) -> Result<Self, Failure> {
        let failed = |problem: String| Failure::run(format!("{}: {problem}", path.display()));
        let mut latest: Vec<LatestAlert> = Vec::new();
        let is_known = path.exists();
        if is_known {
            let bytes = breme_sys::read_bounded(&path, FILE_BYTES_MAX)
                .map_err(|error| failed(format!("cannot be read: {error}")))?;
            latest = serde_json::from_slice(&bytes)
                .map_err(|error| failed(format!("is damaged: {error}; remove it, and alerts may be sent again")))?;
        }
        let before = latest.iter().map(|one| ((one.target.clone(), one.kind), one.is_bad)).collect();
        let shared = Arc::new(Shared {
            path,
            pause_min,
            state: Mutex::new(State {
                latest: latest.into_iter().map(|of| Latest { of, attempts: 0, number: 0 }).collect(),
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        shared.save(&mut shared.state.lock());
        let (alive, ended) = channel();
        let delivering = Arc::clone(&shared);
        Builder::new()
            .name("alerts".to_owned())
            .spawn(move || delivering.deliver(&alive))
            .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
        Ok(Self { shared, ended, before: is_known.then_some(before) })
    }

    /// Sets the destinations. Targets that are not among `names` have no alerts.
    pub(crate) fn configure(&self, webhook: Option<Receiver>, file: Option<String>, names: &[&str]) {
        let mut state = self.shared.state.lock();
        (state.webhook, state.file) = (webhook, file);
        state.latest.retain(|one| names.contains(&one.of.target.as_str()));
        if state.webhook.is_none() {
            state.latest.iter_mut().for_each(|one| one.of.is_delivered = true);
        }
        state.retry = None;
        self.shared.save(&mut state);
        self.shared.changed.notify_one();
    }

    /// What the previous watch said last; none if it is unknown.
    pub(crate) fn said_before(&self, target: &str, kind: AlertKind) -> Option<bool> {
        let before = self.before.as_ref()?;
        Some(before.get(&(target.to_owned(), kind)).copied().unwrap_or(false))
    }

    /// Prints an alert to standard error and to the file, and sends it.
    pub(crate) fn raise(&self, target: &str, time: &str, event: &AlertEvent, cause: Option<&str>) {
        // The errors of an interval say nothing of a certificate that was accepted.
        let cause = cause.filter(|_| event.kind() != AlertKind::Certificate);
        let (state, is_bad, text) = match event {
            AlertEvent::Down { intervals } => {
                let cause = cause.unwrap_or("late");
                ("down", true, format!("{target} is down ({cause}) for {}", breme_base::plural(*intervals, "interval")))
            }
            AlertEvent::Up => ("up", false, format!("{target} is up again")),
            AlertEvent::BurnRateHigh { rate } => {
                let text = format!("{target} is using up its error budget {rate:.1} times as fast as allowed");
                ("burn-rate-high", true, text)
            }
            AlertEvent::BurnRateNormal => {
                ("burn-rate-normal", false, format!("{target} no longer uses up its error budget too fast"))
            }
            AlertEvent::CertificateExpiring(expiry) => {
                let text = format!("the certificate of {target} {}", text::certificate_expiry(expiry));
                ("certificate-expiring", true, text)
            }
            AlertEvent::CertificateRenewed(expiry) => {
                let text = format!("the certificate of {target} now {}", text::certificate_expiry(expiry));
                ("certificate-renewed", false, text)
            }
        };
        breme_base::error_line!("breme watch: {time}: {text}");
        let alert = json!({ "time": time, "target": target, "state": state, "cause": cause, "text": text });
        self.shared.add(target, event.kind(), is_bad, alert);
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        self.shared.state.lock().is_ending = true;
        self.shared.changed.notify_one();
        let _ = self.ended.recv_timeout(ENDING_MAX); // disconnects when the thread has ended
    }
}

impl Shared {
    fn add(&self, target: &str, kind: AlertKind, is_bad: bool, alert: Value) {
        let mut state = self.state.lock();
        if let Some(file) = &state.file
            && let Err(error) = append(file, &format!("{alert}\n"))
        {
            breme_base::error_line!("breme watch: alert.file {file}: cannot be written: {error}");
        }
        state.last_number += 1;
        let (number, is_delivered) = (state.last_number, state.webhook.is_none());
        let of = LatestAlert { target: target.to_owned(), kind, is_bad, is_delivered, alert };
        state.latest.retain(|one| (one.of.target.as_str(), one.of.kind) != (target, kind));
        state.latest.push(Latest { of, attempts: 0, number });
        self.save(&mut state);
        self.changed.notify_one();
    }

    /// Writes the file of the latest alerts.
    fn save(&self, state: &mut State) {
        let latest: Vec<&LatestAlert> = state.latest.iter().map(|one| &one.of).collect();
        let text = serde_json::to_vec_pretty(&latest).unwrap_or_default();
        let written = write_private(&self.path, &text);
        if let (Err(error), false) = (&written, state.is_unsaved) {
            let path = self.path.display();
            breme_base::error_line!("breme watch: {path}: cannot be written: {error}; a restart may repeat alerts");
        }
        state.is_unsaved = written.is_err();
    }

    /// Sends alerts until the watch ends.
    fn deliver(&self, _alive: &Sender<()>) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let retry_at = state.retry.map(|(_, at)| at).filter(|at| *at > now && !state.is_ending);
            let next = state.next().filter(|one| one.attempts == 0 || retry_at.is_none()).cloned();
            match (next, retry_at) {
                (Some(one), _) => {
                    let is_accepted = self.try_one(&mut state, &one);
                    if state.is_ending && !is_accepted {
                        return;
                    }
                }
                (None, _) if state.is_ending => return,
                (None, Some(at)) => drop(self.changed.wait_until(&mut state, at)),
                (None, None) => self.changed.wait(&mut state),
            }
        }
    }

    fn try_one(&self, state: &mut MutexGuard<'_, State>, one: &Latest) -> bool {
        let webhook = state.webhook.clone();
        let posted = MutexGuard::unlocked(state, || webhook.map_or(Ok(()), |webhook| post(&webhook, &one.of.alert)));
        // It may have been superseded.
        if let Some(same) = state.latest.iter_mut().find(|same| same.is_same(one)) {
            same.attempts = one.attempts.saturating_add(1);
            same.of.is_delivered = posted.is_ok();
        }
        match &posted {
            Ok(()) => {
                if state.retry.take().is_some() {
                    breme_base::error_line!("breme watch: alert.webhook: alerts are delivered again");
                }
                self.save(state);
            }
            Err(problem) => {
                if state.retry.is_none() {
                    breme_base::error_line!("breme watch: alert.webhook: {problem}; retrying");
                }
                let pause = state.retry.map_or(self.pause_min, |(pause, _)| (pause * 2).min(PAUSE_MAX));
                state.retry = Some((pause, Instant::now() + pause));
            }
        }
        posted.is_ok()
    }
}

impl State {
    /// The one to be sent next: a rejected one does not keep others back.
    fn next(&self) -> Option<&Latest> {
        let waiting = self.latest.iter().filter(|one| !one.of.is_delivered && self.webhook.is_some());
        waiting.min_by_key(|one| (one.attempts, one.number))
    }
}

impl Latest {
    fn is_same(&self, other: &Self) -> bool {
        (&self.of.target, self.of.kind, self.number) == (&other.of.target, other.of.kind, other.number)
    }
}

fn append(file: &str, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

fn post(receiver: &Receiver, alert: &Value) -> Result<(), String> {
    match receiver.post(&[("Content-Type", JSON)], alert.to_string().as_bytes())? {
        200..300 => Ok(()),
        status => Err(format!("POST {} returned status {status}", receiver.url())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::net::{SocketAddr, TcpListener};
    use std::path::Path;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const DOWN: AlertEvent = AlertEvent::Down { intervals: 3 };

    /// Responds with these statuses, then with 200; sends on the states that it accepts, with their targets.
    fn webhook(statuses: &'static [u16]) -> (SocketAddr, Ended<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, accepted) = channel();
        let mut statuses = statuses.iter();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut input = BufReader::new(&stream);
                let (mut line, mut length) = (String::new(), 0);
                while input.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    let lower = std::mem::take(&mut line).to_ascii_lowercase();
                    length = lower.strip_prefix("content-length: ").map_or(length, |it| it.trim().parse().unwrap());
                }
                let mut body = vec![0; length];
                input.read_exact(&mut body).unwrap();
                let status = *statuses.next().unwrap_or(&200);
                let alert: Value = serde_json::from_slice(&body).unwrap();
                if status == 200 {
                    let _ = sender.send(format!("{} {}", alert["target"], alert["state"]).replace('"', ""));
                }
                let _ = write!(&stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        (address, accepted)
    }

    fn start(folder: &Path, webhook: SocketAddr) -> Alerts {
        let alerts = Alerts::start_with(folder.join("alerts.json"), Duration::from_millis(1)).unwrap();
        configure(&alerts, folder, webhook);
        alerts
    }

    fn configure(alerts: &Alerts, folder: &Path, webhook: SocketAddr) {
        let receiver = Receiver::new(format!("http://{webhook}/"), None).unwrap();
        let file = folder.join("alerts.jsonl").display().to_string();
        alerts.configure(Some(receiver), Some(file), &["a", "b", "c"]);
    }

    fn lines(folder: &Path) -> usize {
        std::fs::read_to_string(folder.join("alerts.jsonl")).unwrap().lines().count()
    }

    #[test]
    fn a_hanging_webhook_delays_no_line_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let alerts = start(folder.path(), silent.local_addr().unwrap());
        ["a", "b", "c"].iter().for_each(|target| alerts.raise(target, "now", &DOWN, None));
        assert_eq!(lines(folder.path()), 3);
        drop(silent);
    }

    #[test]
    fn an_alert_is_sent_until_it_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let (address, accepted) = webhook(&[500, 503, 500, 500, 500, 400]);
        let alerts = start(folder.path(), address);
        alerts.raise("a", "now", &DOWN, None);
        assert_eq!(accepted.recv_timeout(PATIENCE).unwrap(), "a down");
        drop(alerts);
        assert_eq!(accepted.try_iter().count(), 0, "once");
    }

    #[test]
    fn a_restart_sends_the_latest_state_only_if_it_is_undelivered() {
        let folder = tempfile::tempdir().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let alerts = start(folder.path(), closed);
        assert_eq!(alerts.said_before("a", AlertKind::Availability), None, "there is no previous watch");
        alerts.raise("a", "now", &DOWN, None);
        alerts.raise("b", "now", &DOWN, None);
        alerts.raise("b", "now", &AlertEvent::Up, None);
        drop(alerts);
        let (address, accepted) = webhook(&[]);
        let alerts = start(folder.path(), address);
        let said = ["a", "b", "c"].map(|target| alerts.said_before(target, AlertKind::Availability));
        assert_eq!(said, [Some(true), Some(false), Some(false)]);
        let sent = [(); 2].map(|()| accepted.recv_timeout(PATIENCE).unwrap());
        assert_eq!(sent, ["a down", "b up"]);
        drop(alerts);
        drop(start(folder.path(), address));
        assert_eq!(accepted.try_iter().count(), 0, "all is delivered");
        assert_eq!(lines(folder.path()), 3);
    }

    #[test]
    fn a_rejected_alert_keeps_no_other_back() {
        let folder = tempfile::tempdir().unwrap();
        let (address, accepted) = webhook(&[400]);
        let alerts = Alerts::start_with(folder.path().join("alerts.json"), PATIENCE).unwrap();
        configure(&alerts, folder.path(), address);
        alerts.raise("a", "now", &DOWN, None);
        alerts.raise("b", "now", &DOWN, None);
        assert_eq!(accepted.recv_timeout(PATIENCE).unwrap(), "b down");
        assert_eq!(accepted.recv_timeout(PATIENCE).unwrap(), "a down");
    }
}
