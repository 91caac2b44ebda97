use std::time::Duration;

use crate::record::{ADDRESS_MAX, BODY_MAX};

/// Limit of all durations, so that calculations with them stay within their types.
const TIME_MAX: Duration = Duration::from_secs(3_650 * 24 * 3_600);

/// When a response that shows a change may leave the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Immediately. **May lose acknowledged writes**: those of a node that is killed or loses a session.
    Memory,
    /// When the engine has committed the change; data in the page cache of the engine's hosts is lost on power failure.
    Quorum,
    /// When the engine has committed the change and written it to its disks. Depends on the engine; this machine treats
    /// both alike.
    #[default]
    QuorumFsync,
}

/// How a node makes sure that a read from its own memory is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reads {
    /// By its lease while that is valid; else as `Confirmed`. Relies on clocks that run equally fast, to
    /// [`Settings::clock_drift`].
    #[default]
    Leased,
    /// By a compare-and-set for each read (several share one). Relies on no clock.
    Confirmed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Forward it to the owner.
    Forward {
        /// Take the session over with the request after this many in a row, during which the owner has run no others:
        /// the cluster's director seems to prefer this node. If all nodes get requests of a session, moving it costs
        /// commits and saves nothing.
        pull_after: Option<u32>,
    },
    /// Take the session over.
    Pull,
}

/// Difference in speed of two clocks, in parts per 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerThousand(pub u32);

impl PerThousand {
    fn part_of(self, duration: Duration) -> Duration {
        duration * self.0 / 1_000
    }
}

/// How a node serves sessions. `lease`, `clock_drift` and `reads` must be the same on all nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Address for other nodes, published in the node's record.
    pub address: String,
    pub durability: Durability,
    pub reads: Reads,
    pub route: Route,
    /// How long a session that another node requests is kept after its last request.
    pub release_delay: Duration,
    pub lease: Duration,
    pub renew_every: Duration,
    pub clock_drift: PerThousand,
    /// A request to the engine or to another node without a response for this time has an unknown outcome.
    pub response_max: Duration,
    /// The first pause before a retry. It doubles with each attempt, up to `response_max`.
    pub retry_pause: Duration,
    /// How long a request may wait to run, and how long its response may wait for a commit.
    pub wait_max: Duration,
    /// Limit of the requests of one session: waiting, running, and with held responses.
    pub session_requests_max: usize,
    pub requests_max: usize,
    /// Includes sessions known to be owned elsewhere.
    pub sessions_max: usize,
    /// Limit of the contents of sessions in memory, in bytes. Idle ones leave memory to keep it; while those in use
    /// alone exceed it, no further sessions are served.
    pub memory_max: usize,
    pub nodes_max: usize,
    /// How many times a request may be forwarded. The last node takes the session over.
    pub hops_max: u8,
    /// A session unused for this time expires. If its owner has died, the engine ends it, up to this time and a minute
    /// later.
    pub idle: Duration,
    /// A session of this age expires, by the calendar.
    pub absolute: Duration,
    pub body_max: usize,
    /// How long the record of an ended session is kept. A compare-and-set without a response never takes effect after
    /// that.
    pub tombstone: Duration,
    /// How long the owner of another node's session is cached.
    pub remember_elsewhere: Duration,
    /// How many sessions are handed over at a time when the node drains.
    pub drain_batch: usize,
}

impl Settings {
    /// Default settings of a node at this address.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            durability: Durability::default(),
            reads: Reads::default(),
            route: Route::Forward { pull_after: Some(3) },
            release_delay: Duration::ZERO,
            lease: Duration::from_secs(3),
            renew_every: Duration::from_secs(1),
            clock_drift: PerThousand(10),
            response_max: Duration::from_secs(1),
            retry_pause: Duration::from_millis(10),
            wait_max: Duration::from_secs(10),
            session_requests_max: 1_024,
            requests_max: 65_536,
            sessions_max: 1_000_000,
            memory_max: 1 << 30,
            nodes_max: 256,
            hops_max: 2,
            idle: Duration::from_secs(20 * 60),
            absolute: Duration::from_secs(12 * 3_600),
            body_max: BODY_MAX,
            tombstone: Duration::from_secs(60),
            remember_elsewhere: Duration::from_secs(60),
            drain_batch: 64,
        }
    }

    /// # Errors
    ///
    /// If they contradict each other, or a bound is beyond what records can hold.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = [
            // First: what follows calculates with it.
            (self.lease > TIME_MAX, "lease", "at most 3,650 days"),
            (self.renew_every.saturating_mul(2) > self.lease, "renew_every", "at most half of the lease"),
            (self.clock_drift.0 > 200, "clock_drift", "at most 200 parts in 1,000"),
            (self.address.len() > ADDRESS_MAX, "address", "at most 256 bytes"),
            (
                self.body_max > BODY_MAX,
                "body_max",
                "at most 1,047,552 bytes, so that a session fits into one message of NATS",
            ),
            (self.response_max.is_zero(), "response_max", "more than nothing"),
            (self.retry_pause.is_zero(), "retry_pause", "more than nothing"),
            (self.wait_max.is_zero(), "wait_max", "more than nothing"),
            (self.idle < Duration::from_secs(1), "idle", "at least a second"),
            (self.idle > TIME_MAX, "idle", "at most 3,650 days"),
            (self.absolute < self.idle, "absolute", "at least `idle`"),
            (self.absolute > TIME_MAX, "absolute", "at most 3,650 days"),
            (self.wait_max > TIME_MAX, "wait_max", "at most 3,650 days"),
            (self.release_delay > TIME_MAX, "release_delay", "at most 3,650 days"),
            (self.tombstone < Duration::from_secs(60), "tombstone", "at least a minute"),
            (self.session_requests_max == 0, "session_requests_max", "at least 1"),
            (self.requests_max == 0, "requests_max", "at least 1"),
            (self.sessions_max == 0, "sessions_max", "at least 1"),
            (self.memory_max == 0, "memory_max", "at least 1"),
            (self.drain_batch == 0, "drain_batch", "at least 1"),
        ];
        match wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, field, allowed)) => Err(SettingsError { field, allowed }),
            None => Ok(()),
        }
    }

    /// How long the holder of a lease trusts it, counted from before sending the renewal.
    #[must_use]
    pub fn lease_trusted(&self) -> Duration {
        self.lease - self.clock_drift.part_of(self.lease)
    }

    /// How long the other nodes wait, counted from when they saw the renewal.
    #[must_use]
    pub fn lease_waited(&self) -> Duration {
        self.lease + 2 * self.clock_drift.part_of(self.lease)
    }

    /// After this time the engine deletes the record of a session that is not used.
    pub(crate) fn record_lifetime(&self, idle: Duration) -> Duration {
        // That of a record may come from another node.
        idle.saturating_mul(2).saturating_add(self.lease + self.tombstone)
    }

    pub(crate) fn pause(&self, tries: u32) -> Duration {
        self.retry_pause.saturating_mul(1 << tries.min(16)).min(self.response_max)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session setting `{field}` must be {allowed}")]
pub struct SettingsError {
    pub field: &'static str,
    pub allowed: &'static str,
}

/// Assumptions of the correctness proof. Tests disable one at a time to see whether the history checker notices; a node
/// in service has them all.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A response waits until its commit has taken effect, not only until it was sent.
    pub responds_after_commit: bool,
    /// The lease is checked after the snapshot was taken; a check before is not enough.
    pub checks_lease_after_snapshot: bool,
    /// A session is claimed only from a node whose life has certainly ended.
    pub waits_for_lease: bool,
    /// A session is served only after a compare-and-set of this node, whatever a read says.
    pub serves_after_commit: bool,
    /// A compare-and-set without a response is looked up by its operation's id.
    pub resolves_operations: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            responds_after_commit: true,
            checks_lease_after_snapshot: true,
            waits_for_lease: true,
            serves_after_commit: true,
            resolves_operations: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_settings_are_allowed() {
        assert_eq!(Settings::new("a:1").check(), Ok(()));
        let wrong = Settings { renew_every: Duration::from_secs(2), ..Settings::new("a:1") };
        let message = wrong.check().unwrap_err().to_string();
        assert_eq!(message, "the session setting `renew_every` must be at most half of the lease");
    }

    #[test]
    fn endless_times_are_refused_and_harmless_in_records() {
        let usual = Settings::new("a:1");
        for (field, wrong) in [
            ("lease", Settings { lease: Duration::MAX, renew_every: Duration::MAX, ..usual.clone() }),
            ("idle", Settings { idle: Duration::MAX, absolute: Duration::MAX, ..usual.clone() }),
            ("absolute", Settings { absolute: Duration::MAX, ..usual.clone() }),
            ("wait_max", Settings { wait_max: Duration::MAX, ..usual.clone() }),
            ("release_delay", Settings { release_delay: Duration::MAX, ..usual.clone() }),
        ] {
            assert_eq!(wrong.check().unwrap_err().field, field);
        }
        assert_eq!(usual.record_lifetime(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn others_wait_longer_than_the_holder_trusts_whatever_the_clocks_do() {
        let settings = Settings::new("a:1");
        // The holder's clock is slow by 1 %, the other's is fast by 1 %.
        let really_trusted = settings.lease_trusted().as_secs_f64() * 1.01;
        let really_waited = settings.lease_waited().as_secs_f64() / 1.01;
        assert!(really_trusted < really_waited, "{really_trusted} {really_waited}");
    }
}
