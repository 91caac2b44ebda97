//! The outcomes of requests, arrivals, bytes and connections: each is in exactly one of the counts.

use std::collections::BTreeMap;

use breme_load_result::{Bytes, Connections, OpenLoopSummary, RedirectsSummary, Requests};

use crate::error_kind::ErrorKind;
use crate::run::Run;
use crate::tally::Tally;

pub(super) fn requests(tally: &Tally) -> Requests {
    let wrong: u64 =
        ErrorKind::ALL.into_iter().filter(|kind| kind.is_answered()).map(|kind| tally.errors_of(kind)).sum();
    Requests {
        issued: tally.issued,
        sent: tally.sent,
        answered: tally.answered,
        ok: tally.answered - wrong,
        failed: tally.failed(),
        unfinished: tally.unfinished,
        resent: tally.resent,
    }
}

/// None if they are not followed.
pub(super) fn redirects(run: &Run, tally: &Tally) -> Option<RedirectsSummary> {
    let is_following = run.plan().settings().redirects_max > 0;
    is_following.then_some(RedirectsSummary { followed: tally.redirected, not_followed: tally.unfollowed })
}

pub(super) fn open_loop(tally: &Tally) -> OpenLoopSummary {
    let (dropped, shed) = (tally.errors_of(ErrorKind::Dropped), tally.errors_of(ErrorKind::Shed));
    OpenLoopSummary { due: tally.arrived, begun: tally.arrived - dropped - shed, waited: tally.waited, dropped, shed }
}

pub(super) const fn bytes(tally: &Tally) -> Bytes {
    Bytes { received: tally.bytes_received, sent: tally.bytes_sent, content: tally.content_bytes }
}

pub(super) const fn connections(tally: &Tally) -> Connections {
    Connections {
        opened: tally.connections_opened,
        reconnects: tally.reconnects,
        unexpected: tally.unexpected,
        resumed: tally.resumed,
    }
}

/// Kinds with a count above 0.
pub(super) fn errors(counts: &[u64; ErrorKind::ALL.len()]) -> BTreeMap<String, u64> {
    let counts = ErrorKind::ALL.into_iter().map(|kind| (kind.name().to_owned(), counts[kind as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Statuses with a count above 0.
pub(super) fn statuses(tally: &Tally) -> BTreeMap<String, u64> {
    let counts = tally.statuses.0.iter().enumerate().filter(|(_, count)| **count > 0);
    counts.map(|(status, count)| (status.to_string(), *count)).collect()
}
