//! Times without a successful response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Times without a successful response: complete, and with the expected status and body. They count from
/// `settings.gaps_after_ns` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AvailabilitySummary {
    /// Longest time in which no user got a successful response, in nanoseconds; up to 0.1 ms too long with several
    /// threads.
    pub gap_ns: u64,
    /// Start of this time, from the start of the run.
    pub gap_from_ns: u64,
    /// Longest time for which one user (connection) wanted a response and got no successful one: from the moment it
    /// wanted the request, over failed attempts and the pauses between them, to its next successful response.
    pub user_gap_ns: u64,
    /// Start of this time, from the start of the run.
    pub user_gap_from_ns: u64,
    /// Number of requests refused: refused connections, and responses with status 503.
    pub refused: u64,
    /// Time of the last request that failed or got a wrong response, from the start of the run; null if there was none.
    pub last_failure_ns: Option<u64>,
    /// Time of the first successful response after it, from the start of the run; null if there was none.
    pub recovered_ns: Option<u64>,
}
