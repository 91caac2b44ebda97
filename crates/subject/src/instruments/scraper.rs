//! Reads a subject's `/metrics` on a thread of its own, so that a slow or silent subject delays no other sample.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_http_client::{HttpClient, RequestError};
use parking_lot::{Condvar, Mutex};
use thiserror::Error;

use super::exposition::{Exposed, ExpositionError, parse};

/// Time limit of a response, on a busy machine too.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Values, and when they were read (between request and response, on the monotonic clock).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scrape {
    pub(super) at_ns: u64,
    pub(super) exposed: Exposed,
}

/// Counters that could not be read.
#[derive(Debug, Error)]
pub enum ScrapeError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{url}: {source}")]
    Format { url: String, source: ExpositionError },
    #[error("no response within the time limit")]
    TooLate,
    #[error("no scrape was made")]
    NoScrape,
}

/// Scrapes on demand. After a drop, its thread ends with the response it waits for.
#[derive(Debug)]
pub(super) struct Scraper {
    shared: Arc<SharedScraperState>,
}

#[derive(Debug, Default)]
struct SharedScraperState {
    state: Mutex<ScraperState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ScraperState {
    requested: u64,
    answered: u64,
    /// The newest.
    scrape: Option<Scrape>,
    /// It was taken by the sampling thread.
    is_taken: bool,
    /// Why the last one failed.
    fault: Option<Arc<ScrapeError>>,
    is_over: bool,
}

impl Scraper {
    pub(super) fn start(url: String) -> std::io::Result<Self> {
        let shared = Arc::new(SharedScraperState::default());
        let thread_shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name(String::from("metrics"))
            .spawn(move || run(&thread_shared, &url, &HttpClient::new()))?;
        Ok(Self { shared })
    }

    /// Requests a scrape, unless one is in progress.
    pub(super) fn request(&self) {
        let mut state = self.shared.state.lock();
        if state.requested == state.answered {
            state.requested += 1;
            self.shared.changed.notify_all();
        }
    }

    /// A new scrape since the last call.
    pub(super) fn take(&self) -> Option<Scrape> {
        let mut state = self.shared.state.lock();
        let is_new = !std::mem::replace(&mut state.is_taken, true);
        state.scrape.clone().filter(|_| is_new)
    }

    /// Waits for a successful scrape that starts now, not earlier. The sampling thread may take it as well.
    ///
    /// # Errors
    /// Why the scrape failed.
    pub(super) fn request_and_wait(&self, within: Duration) -> Result<Scrape, Arc<ScrapeError>> {
        let deadline = Instant::now() + within;
        // A scrape in progress began too early. If it fails, the next one would fail too.
        if self.is_under_way() {
            self.wait_answered(deadline)?;
        }
        self.request();
        self.wait_answered(deadline)
    }

    fn is_under_way(&self) -> bool {
        let state = self.shared.state.lock();
        state.answered < state.requested
    }

    fn wait_answered(&self, deadline: Instant) -> Result<Scrape, Arc<ScrapeError>> {
        let mut state = self.shared.state.lock();
        while state.answered < state.requested {
            let is_late = self.shared.changed.wait_until(&mut state, deadline).timed_out();
            if is_late && state.answered < state.requested {
                return Err(ScrapeError::TooLate.into());
            }
        }
        let fault = || state.fault.clone().unwrap_or_else(|| ScrapeError::NoScrape.into());
        state.scrape.clone().filter(|_| state.fault.is_none()).ok_or_else(fault)
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

fn run(shared: &SharedScraperState, url: &str, http_client: &HttpClient) {
    loop {
        let mut state = shared.state.lock();
        while state.requested == state.answered && !state.is_over {
            shared.changed.wait(&mut state);
        }
        if state.is_over {
            return;
        }
        drop(state);
        let before_ns = breme_sys::monotonic_ns();
        let outcome = read(url, &[], http_client, ANSWER_WITHIN);
        let at_ns = u64::midpoint(before_ns, breme_sys::monotonic_ns());
        let mut state = shared.state.lock();
        state.answered = state.requested;
        match outcome {
            Ok(exposed) => {
                (state.scrape, state.is_taken, state.fault) = (Some(Scrape { at_ns, exposed }), false, None);
            }
            Err(error) => state.fault = Some(error.into()),
        }
        shared.changed.notify_all();
    }
}

/// The values exposed by a server, by series: name with labels. `headers` are those of the request.
///
/// # Errors
/// If no exposition could be read in time.
pub fn scrape(url: &str, headers: &[(String, String)], within: Duration) -> Result<BTreeMap<String, f64>, ScrapeError> {
    let exposed = read(url, headers, &HttpClient::new(), within)?;
    Ok(exposed.into_iter().map(|(series, value)| (series, value.value)).collect())
}

fn read(
    url: &str,
    headers: &[(String, String)],
    http_client: &HttpClient,
    within: Duration,
) -> Result<Exposed, ScrapeError> {
    let text = http_client.fetch(url, headers, within)?;
    parse(&text).map_err(|source| ScrapeError::Format { url: url.to_owned(), source })
}
