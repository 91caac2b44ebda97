//! Alerts: lines of JSON in a file, POST requests to a webhook.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use breme_admin::push::{Delivery, Receiver};
use breme_command::failure::Failure;
use breme_http::media_type::JSON;
use breme_watch::objective::AlertEvent;
use serde_json::{Value, json};

/// Longest queue; further alerts go to standard error only.
const WAITING_MAX: usize = 64;
/// Attempts per alert, and the pause after the first, which doubles.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// Dropping it sends the queued alerts.
#[derive(Debug)]
pub(super) struct Alerts(Delivery<Value>);

impl Alerts {
    pub(super) fn start(webhook: Option<Receiver>, file: Option<String>) -> Result<Self, Failure> {
        // Report an unwritable file at the start, not with the first alert.
        if let Some(file) = &file {
            append(file, "").map_err(|error| Failure::run(format!("alert.file {file}: cannot be written: {error}")))?;
        }
        let deliver = move |alerts: &mpsc::Receiver<Value>, is_ending: &AtomicBool| {
            send_all(alerts, webhook.as_ref(), file.as_deref(), is_ending);
        };
        Ok(Self(Delivery::start("alerts", WAITING_MAX, deliver)?))
    }

    /// Sends an alert, and prints it to standard error.
    pub(super) fn raise(&self, target: &str, time: &str, event: &AlertEvent, cause: Option<&str>) {
        let (state, text) = match event {
            AlertEvent::Down { intervals } => {
                let cause = cause.unwrap_or("late");
                ("down", format!("{target} is down ({cause}) for {}", breme_base::plural(*intervals, "interval")))
            }
            AlertEvent::Up => ("up", format!("{target} is up again")),
            AlertEvent::BurnRateHigh { rate } => {
                ("burn-rate-high", format!("{target} is using up its error budget {rate:.1} times as fast as allowed"))
            }
            AlertEvent::BurnRateNormal => {
                ("burn-rate-normal", format!("{target} no longer uses up its error budget too fast"))
            }
        };
        breme_base::error_line!("breme watch: {time}: {text}");
        let alert = json!({ "time": time, "target": target, "state": state, "cause": cause, "text": text });
        if !self.0.queue(alert) {
            breme_base::error_line!(
                "breme watch: {WAITING_MAX} alerts are queued for the webhook; this one is not sent"
            );
        }
    }
}

fn send_all(alerts: &mpsc::Receiver<Value>, webhook: Option<&Receiver>, file: Option<&str>, is_ending: &AtomicBool) {
    let mut is_reachable = true;
    for alert in alerts {
        if let Some(file) = file
            && let Err(error) = append(file, &format!("{alert}\n"))
        {
            breme_base::error_line!("breme watch: alert.file {file}: cannot be written: {error}");
        }
        // At the end an unreachable webhook delays the exit once, not once per alert.
        if let Some(receiver) = webhook.filter(|_| is_reachable || !is_ending.load(Ordering::SeqCst)) {
            is_reachable = post(receiver, &alert.to_string(), is_ending);
        }
    }
}

fn append(file: &str, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

/// Whether the webhook accepted it. At the end of the watch the attempt in progress is the last one.
fn post(receiver: &Receiver, body: &str, is_ending: &AtomicBool) -> bool {
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        let problem = match receiver.post(&[("Content-Type", JSON)], body.as_bytes()) {
            Ok(200..300) => return true,
            Ok(status) => format!("POST {} returned status {status}", receiver.url()),
            Err(problem) => problem,
        };
        if attempt == ATTEMPTS || is_ending.load(Ordering::SeqCst) {
            breme_base::error_line!(
                "breme watch: alert.webhook: {problem}; given up after {}",
                breme_base::plural(attempt.into(), "attempt")
            );
            return false;
        }
        std::thread::park_timeout(pause);
        pause *= 2;
    }
    false
}
