//! What became of requests, arrivals, bytes and connections: every one of them is in one of the counts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::tally::{ErrorKind, Tally};

/// Requests, by what became of them: `issued = answered + failed + unfinished`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Requests {
    /// Begun: sent, or failed because no connection could be opened for them.
    pub issued: u64,
    /// Handed to the kernel, each counted once.
    pub sent: u64,
    /// Answered, whatever the status.
    pub answered: u64,
    /// Answered as expected.
    pub ok: u64,
    /// Without an answer.
    pub failed: u64,
    /// Under way when the run ended and not answered in the time that was left to them.
    pub unfinished: u64,
    /// Sent once more, since the server ended a pipeline before them.
    pub resent: u64,
}

/// Arrivals of an open loop (requests, or sessions), by what became of them: `due = begun + dropped + shed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenLoopSummary {
    /// By the schedule, until the end.
    pub due: u64,
    /// Begun.
    pub begun: u64,
    /// Of the begun ones, those for which no connection was free when they were due.
    pub waited: u64,
    /// Never begun: too many waited already, or they were waiting at the end.
    pub dropped: u64,
    /// Not sent, since they were past the deadline.
    pub shed: u64,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bytes {
    /// Received, with heads and framing.
    pub received: u64,
    /// Sent, with heads and framing.
    pub sent: u64,
    /// Content of answers.
    pub content: u64,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Connections {
    /// Opened.
    pub opened: u64,
    /// Of these, in place of one that had ended.
    pub reconnects: u64,
    /// On which bytes came that no request had asked for.
    pub unexpected: u64,
    /// On which TLS went on with the keys of an earlier session.
    pub resumed: u64,
}

/// What generator and server agreed on in their first handshake of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TlsSummary {
    /// `1.2` or `1.3`.
    pub version: &'static str,
    /// By the name that IANA has for it.
    pub cipher_suite: &'static str,
}

impl Requests {
    pub(super) fn of(tally: &Tally) -> Self {
        let wrong: u64 =
            ErrorKind::ALL.into_iter().filter(|kind| kind.is_answered()).map(|kind| tally.errors_of(kind)).sum();
        Self {
            issued: tally.issued,
            sent: tally.sent,
            answered: tally.answered,
            ok: tally.answered - wrong,
            failed: tally.failed(),
            unfinished: tally.unfinished,
            resent: tally.resent,
        }
    }
}

impl OpenLoopSummary {
    pub(super) fn of(tally: &Tally) -> Self {
        let (dropped, shed) = (tally.errors_of(ErrorKind::Dropped), tally.errors_of(ErrorKind::Shed));
        Self { due: tally.arrived, begun: tally.arrived - dropped - shed, waited: tally.waited, dropped, shed }
    }
}

impl Bytes {
    pub(super) const fn of(tally: &Tally) -> Self {
        Self { received: tally.bytes_received, sent: tally.bytes_sent, content: tally.content_bytes }
    }
}

impl Connections {
    pub(super) const fn of(tally: &Tally) -> Self {
        Self {
            opened: tally.connections_opened,
            reconnects: tally.reconnects,
            unexpected: tally.unexpected,
            resumed: tally.resumed,
        }
    }
}

/// By kind, those that happened.
pub(super) fn errors(counts: &[u64; ErrorKind::ALL.len()]) -> BTreeMap<String, u64> {
    let counts = ErrorKind::ALL.into_iter().map(|kind| (kind.name().to_owned(), counts[kind as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// By status, those that came.
pub(super) fn statuses(tally: &Tally) -> BTreeMap<String, u64> {
    let counts = tally.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
    counts.map(|(status, count)| (status.to_string(), *count)).collect()
}
