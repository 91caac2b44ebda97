//! Waits until a subject is ready, and notices at once that it never will be.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use breme_experiment::trial::{Ready, ReadyCheck};
use breme_http_client::{HostPort, HttpClient, with_path};

use crate::keeping::{ExitInfo, SupervisedProcess};

/// The first pause between two checks; each further pause is half as long again.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Time limit of one check.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) enum NotReady {
    /// It exited.
    Ended(ExitInfo),
    /// Timed out; the last observation.
    TooLate(String),
    /// The laboratory was cancelled.
    Cancelled,
}

pub(super) struct Watch<'a> {
    pub(super) kept: Option<&'a SupervisedProcess>,
    pub(super) url: &'a str,
    pub(super) http_client: &'a HttpClient,
    /// Set when the laboratory is cancelled.
    pub(super) cancelled: &'a AtomicBool,
}

impl Watch<'_> {
    /// Waits until the check succeeds.
    pub(super) fn wait(&self, ready: &Ready) -> Result<(), NotReady> {
        let deadline = Instant::now() + ready.within;
        if let (ReadyCheck::Line(text), Some(_)) = (&ready.check, self.kept) {
            return self.wait_line(0, text, deadline).map(drop);
        }
        let mut pause = PAUSE_MIN;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Err(seen) = self.look(&ready.check, left.clamp(PAUSE_MAX, LOOK_WITHIN)) else { return Ok(()) };
            self.rest(pause.min(left))?;
            if Instant::now() >= deadline {
                return Err(NotReady::TooLate(seen));
            }
            pause = (pause * 3 / 2).min(PAUSE_MAX);
        }
    }

    /// Waits for the line with the wanted text at this index.
    pub(super) fn wait_line(&self, position: usize, text: &str, deadline: Instant) -> Result<String, NotReady> {
        let Some(kept) = self.kept else {
            return Err(NotReady::TooLate(String::from("the subject has no output that could be read")));
        };
        loop {
            match kept.wait_line(position, PAUSE_MAX) {
                Some(Ok(line)) => return Ok(line),
                Some(Err(ending)) => return Err(NotReady::Ended(ending)),
                None if self.is_cancelled() => return Err(NotReady::Cancelled),
                None if Instant::now() >= deadline => {
                    return Err(NotReady::TooLate(format!("no line with {text:?} was printed")));
                }
                None => {}
            }
        }
    }

    /// Pauses, but not beyond the exit of the process.
    fn rest(&self, pause: Duration) -> Result<(), NotReady> {
        if self.is_cancelled() {
            return Err(NotReady::Cancelled);
        }
        match self.kept {
            Some(kept) => kept.wait_ended(pause).map_or(Ok(()), |ending| Err(NotReady::Ended(ending))),
            None => {
                std::thread::sleep(pause);
                Ok(())
            }
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Checks once. The error is the observation.
    fn look(&self, check: &ReadyCheck, within: Duration) -> Result<(), String> {
        match check {
            ReadyCheck::Answer { path, status } => {
                let url = with_path(self.url, path);
                match self.http_client.request("GET", &url, &[], within).map_err(|error| error.to_string())? {
                    response if response.status == *status => Ok(()),
                    response => Err(format!("GET {url} returned status {}, not {status}", response.status)),
                }
            }
            ReadyCheck::Port | ReadyCheck::Line(_) => accepts_connections(self.url, within),
        }
    }
}

/// Whether a server accepts connections at this URL.
///
/// # Errors
/// Why not, with the address.
pub fn accepts_connections(url: &str, within: Duration) -> Result<(), String> {
    connect(&HostPort::parse(url).map_err(|error| error.to_string())?, within)
}

/// The same at this address.
pub(super) fn connect(host_port: &HostPort, within: Duration) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", host_port.address());
    let addresses = breme_sys::resolve(&host_port.host, host_port.port).map_err(fault)?;
    let mut failure = None;
    // `localhost` has two addresses, and a server listens on one of them.
    for address in addresses {
        match TcpStream::connect_timeout(&address, within) {
            Ok(_) => return Ok(()),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    Err(failure.map_or_else(|| format!("{} has no address", host_port.host), fault))
}
