//! What a message says of its sender.

use std::time::{SystemTime, UNIX_EPOCH};

/// A command on this machine.
#[derive(Clone, Debug)]
pub(super) struct Source {
    command: &'static str,
    host: String,
    start_ms: i64,
}

impl Source {
    pub(super) fn starting_now(command: &'static str) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { command, host, start_ms: i64::try_from(start.as_millis()).unwrap_or(i64::MAX) }
    }

    #[cfg(test)]
    pub(super) fn for_tests(command: &'static str, host: &str, start_ms: i64) -> Self {
        Self { command, host: host.to_owned(), start_ms }
    }

    /// Of the metrics that are sent; others describe this process.
    pub(super) fn prefix(&self) -> String {
        format!("breme_{}_", self.command)
    }

    pub(super) fn job(&self) -> String {
        format!("breme-{}", self.command)
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Since when counters count, Unix time in milliseconds.
    pub(super) const fn start_ms(&self) -> i64 {
        self.start_ms
    }
}
