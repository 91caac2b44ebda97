//! What has happened and what there is, for `/metrics`.

use std::time::Duration;

use super::sessions::Phase;
use super::{Machine, Moment};
use crate::id::SessionKey;

/// How often what has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that came.
    pub requests: u64,
    /// Requests that ran.
    pub run: u64,
    /// Responses released as good.
    pub done: u64,
    /// Requests whose change is not in the session.
    pub not_done: u64,
    /// Requests of which nobody knows.
    pub unknown: u64,
    /// Requests refused before they ran.
    pub refused: u64,
    /// Requests for sessions that are not there.
    pub absent: u64,
    /// Requests forwarded.
    pub forwarded: u64,
    /// Reads that rested on the lease.
    pub leased_reads: u64,
    /// Compare-and-sets of sessions that were committed.
    pub commits: u64,
    /// Compare-and-sets of sessions that met another's.
    pub conflicts: u64,
    /// Compare-and-sets of sessions whose outcome had to be looked up.
    pub looked_up: u64,
    /// Sessions lost to another node.
    pub lost: u64,
    /// Sessions claimed, after a failover or because nobody had them.
    pub claimed: u64,
    /// Sessions given to another node.
    pub given: u64,
    /// Sessions taken over from another node that was alive.
    pub taken: u64,
    /// Lives of this node that another node ended.
    pub fenced: u64,
    /// Lives of other nodes that this node ended.
    pub fenced_others: u64,
    /// Sessions that expired here.
    pub expired: u64,
    /// Records that were damaged or went back.
    pub damaged: u64,
}

/// What there is at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Sessions that this node owns.
    pub owned: usize,
    /// Sessions in memory, including those that are known to be elsewhere.
    pub sessions: usize,
    /// Requests that wait, run, or are held or forwarded.
    pub requests: usize,
    /// Questions to the engine that have no response yet.
    pub engine_questions: usize,
    /// How long the lease is still good for; zero if it is over.
    pub lease_margin: Duration,
}

impl Machine {
    /// Whether this node would respond from its own memory, without asking anyone: for models.
    #[doc(hidden)]
    #[must_use]
    pub fn trusts_memory(&self, at: Moment, key: &SessionKey) -> bool {
        let tenure = self.sessions.get(key).map(|session| &session.phase);
        self.has_lease(at) && matches!(tenure, Some(Phase::Owned(tenure)) if !tenure.is_ending())
    }

    /// What has happened since the start.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What there is.
    #[must_use]
    pub fn gauges(&self, at: Moment) -> Gauges {
        Gauges {
            owned: self.owned,
            sessions: self.sessions.len(),
            requests: self.requests.len(),
            engine_questions: self.tickets.len(),
            lease_margin: self.membership.lease_end().since(at.now),
        }
    }
}
