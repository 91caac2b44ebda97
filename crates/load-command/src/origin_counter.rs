//! `--origin-counter`: the number of requests that reached the origin, by its own count.

use std::time::Duration;

use breme_command::failure::Failure;
use breme_http_client::HttpClient;

/// Time limit of reading the counter.
const WITHIN: Duration = Duration::from_secs(10);

/// A counter that restarts at 0 when it is read.
#[derive(Debug)]
pub struct OriginCounter<'a> {
    url: &'a str,
}

impl<'a> OriginCounter<'a> {
    /// Reads it, so that it counts only the run.
    pub fn begin(url: &'a str) -> Result<Self, Failure> {
        let counter = Self { url };
        counter.count().map(|_| counter)
    }

    /// Its count since then.
    pub fn count(&self) -> Result<u64, Failure> {
        let fault = |problem: String| Failure::run(format!("--origin-counter {}: {problem}", self.url));
        let text = HttpClient::new().fetch(self.url, &[], WITHIN).map_err(|error| fault(error.to_string()))?;
        text.trim().parse().map_err(|_| {
            let shown: String = text.chars().take(40).collect();
            fault(format!("returned {shown:?}; it must return a number of requests"))
        })
    }
}
