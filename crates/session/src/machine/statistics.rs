//! Counters and gauges for `/metrics`.

use std::time::Duration;

use super::Machine;
use super::messages::Moment;
use super::sessions::Phase;
use crate::id::SessionKey;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests received.
    pub requests: u64,
    pub run: u64,
    /// Responses released as `Done`.
    pub done: u64,
    /// Requests whose change did not take effect.
    pub not_done: u64,
    /// Requests with unknown outcome.
    pub unknown: u64,
    /// Requests refused before running.
    pub refused: u64,
    /// Requests for sessions that do not exist.
    pub absent: u64,
    pub forwarded: u64,
    /// Reads confirmed by the lease.
    pub leased_reads: u64,
    /// Committed compare-and-sets of sessions.
    pub commits: u64,
    /// Compare-and-sets of sessions that conflicted with another's.
    pub conflicts: u64,
    /// Compare-and-sets of sessions whose outcome had to be looked up.
    pub looked_up: u64,
    pub lost: u64,
    /// Sessions claimed, after a failover or because they had no owner.
    pub claimed: u64,
    /// Sessions handed over to another node.
    pub given: u64,
    /// Sessions taken over from another live node.
    pub taken: u64,
    /// Lives of this node ended by another node.
    pub fenced: u64,
    /// Lives of other nodes ended by this node.
    pub fenced_others: u64,
    pub expired: u64,
    /// Records that were damaged or older than before.
    pub damaged: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    pub owned: usize,
    /// Sessions in memory, including those known to be owned elsewhere.
    pub sessions: usize,
    /// Bytes of the contents of sessions in memory.
    pub memory: usize,
    /// Requests waiting, running, held or forwarded.
    pub requests: usize,
    /// Requests to the engine without a response yet.
    pub engine_questions: usize,
    /// Remaining validity of the lease; zero if it has expired.
    pub lease_margin: Duration,
}

impl Machine {
    /// Whether this node would respond from its own memory without contacting another: for models.
    #[doc(hidden)]
    #[must_use]
    pub fn trusts_memory(&self, at: Moment, key: &SessionKey) -> bool {
        let tenure = self.sessions.get(key).map(|session| &session.phase);
        self.has_lease(at) && matches!(tenure, Some(Phase::Owned(tenure)) if !tenure.is_ending())
    }

    /// Whether this node owns the session, and will go on to own it under this id as far as it knows.
    #[must_use]
    pub fn keeps(&self, key: &SessionKey) -> bool {
        let phase = self.sessions.get(key).map(|session| &session.phase);
        matches!(phase, Some(Phase::Owned(tenure)) if tenure.leaving.is_none() && !tenure.is_ending())
    }

    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    #[must_use]
    pub fn gauges(&self, at: Moment) -> Gauges {
        Gauges {
            owned: self.owned,
            sessions: self.sessions.len(),
            memory: self.room.bytes(),
            requests: self.requests.len(),
            engine_questions: self.tickets.len(),
            lease_margin: self.membership.lease_end().since(at.now),
        }
    }
}
