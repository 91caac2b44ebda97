//! How a node serves sessions.

use std::fmt;
use std::time::Duration;

use crate::record::{ADDRESS_MAX, BODY_MAX};

/// When a response that shows a change may leave the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// At once. **May lose acknowledged writes**: those of a node that is killed or loses a session.
    Memory,
    /// When the engine has committed the change; what the engine keeps in its operating system's memory is lost with
    /// the power.
    Quorum,
    /// When the engine has committed the change and written it to its disks. It is up to the engine; this machine does
    /// the same for both.
    #[default]
    QuorumFsync,
}

/// How a node makes sure that what it reads from its own memory is the newest state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reads {
    /// By its lease, as long as that is valid; else as `Confirmed`. Rests on clocks that run equally fast, to
    /// [`Settings::clock_drift`].
    #[default]
    Leased,
    /// By a compare-and-set for each read (several share one). Rests on no clock.
    Confirmed,
}

/// What a node does with a request for a session that another node owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Forwards it to the owner.
    Forward {
        /// And takes the session over with the request that comes after so many, if the cluster's director seems to
        /// prefer this node.
        pull_after: Option<u32>,
    },
    /// Takes the session over.
    Pull,
}

/// The parts of 1,000 by which two clocks may differ in speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerThousand(pub u32);

impl PerThousand {
    fn of(self, duration: Duration) -> Duration {
        duration * self.0 / 1_000
    }
}

/// How a node serves sessions. All nodes of a cluster have the same `lease`, `clock_drift` and `reads`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Where other nodes reach this one; it stands in the node's record.
    pub address: String,
    /// When a response may leave.
    pub durability: Durability,
    /// How reads are made sure of.
    pub reads: Reads,
    /// What becomes of a request for another node's session.
    pub route: Route,
    /// A session that another node asks for is kept for so long after its last request.
    pub release_delay: Duration,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How often it is renewed.
    pub renew_every: Duration,
    /// By how much clocks may differ in speed.
    pub clock_drift: PerThousand,
    /// An engine that has not responded for so long has an unknown outcome; so has a node that was asked for a session.
    pub response_max: Duration,
    /// The first pause before something is tried again. It doubles with each try, up to `response_max`.
    pub retry_pause: Duration,
    /// How long a request may wait to run, and how long its response may wait for a commit.
    pub wait_max: Duration,
    /// The most requests that one session has at a time: waiting, running, and with their responses held.
    pub session_requests_max: usize,
    /// The most requests in all.
    pub requests_max: usize,
    /// The most sessions in memory, including those that are known to be elsewhere.
    pub sessions_max: usize,
    /// The most other nodes.
    pub nodes_max: usize,
    /// How often a request may be forwarded. The node that gets it then takes the session over.
    pub hops_max: u8,
    /// A session that is not used for so long expires.
    pub idle: Duration,
    /// A session that is so old expires.
    pub absolute: Duration,
    /// The most bytes of a session's body.
    pub body_max: usize,
    /// How long the record of a session that has ended is kept. A compare-and-set without a response never takes effect
    /// after that.
    pub tombstone: Duration,
    /// How long it is remembered where another node's session is.
    pub remember_elsewhere: Duration,
    /// How many sessions are given up at a time when the node drains.
    pub drain_batch: usize,
}

impl Settings {
    /// The usual settings of a node at this address.
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
            (self.renew_every * 2 > self.lease, "renew_every", "at most half of the lease"),
            (self.clock_drift.0 > 200, "clock_drift", "at most 200 parts in 1,000"),
            (self.address.len() > ADDRESS_MAX, "address", "at most 256 bytes"),
            (self.body_max > BODY_MAX, "body_max", "at most 1 MiB − 1 KiB, so that a record fits into a message"),
            (self.response_max.is_zero(), "response_max", "more than nothing"),
            (self.retry_pause.is_zero(), "retry_pause", "more than nothing"),
            (self.wait_max.is_zero(), "wait_max", "more than nothing"),
            (self.idle < Duration::from_secs(1), "idle", "at least a second"),
            (self.absolute < self.idle, "absolute", "at least `idle`"),
            (self.tombstone < Duration::from_secs(60), "tombstone", "at least a minute"),
            (self.session_requests_max == 0, "session_requests_max", "at least 1"),
            (self.requests_max == 0, "requests_max", "at least 1"),
            (self.sessions_max == 0, "sessions_max", "at least 1"),
            (self.drain_batch == 0, "drain_batch", "at least 1"),
        ];
        match wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, field, allowed)) => Err(SettingsError { field, allowed }),
            None => Ok(()),
        }
    }

    /// How long the holder of a lease trusts it, from before it was sent.
    #[must_use]
    pub fn lease_trusted(&self) -> Duration {
        self.lease - self.clock_drift.of(self.lease)
    }

    /// How long the others wait, from when they saw it.
    #[must_use]
    pub fn lease_waited(&self) -> Duration {
        self.lease + 2 * self.clock_drift.of(self.lease)
    }

    /// After this time the engine may forget the record of a session that nobody uses.
    pub(crate) fn record_lifetime(&self) -> Duration {
        2 * self.idle + self.lease + self.tombstone
    }

    pub(crate) fn pause(&self, tries: u32) -> Duration {
        self.retry_pause.saturating_mul(1 << tries.min(16)).min(self.response_max)
    }
}

/// Which setting is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    field: &'static str,
    allowed: &'static str,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the session setting `{}` must be {}", self.field, self.allowed)
    }
}

impl std::error::Error for SettingsError {}

/// What the proof of the protocol rests on. Tests switch one off and see whether the checker of histories notices; a
/// node that serves has them all.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A response waits for the commit that covers it, not only for its being sent.
    pub responds_after_commit: bool,
    /// The lease is checked by the clock after the state was taken; it is not enough that it was good before.
    pub checks_lease_after_snapshot: bool,
    /// A session is claimed only from a node whose life is over for certain.
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
    fn others_wait_longer_than_the_holder_trusts_whatever_the_clocks_do() {
        let settings = Settings::new("a:1");
        // The holder's clock is slow by 1 %, the other's fast by 1 %.
        let really_trusted = settings.lease_trusted().as_secs_f64() * 1.01;
        let really_waited = settings.lease_waited().as_secs_f64() / 1.01;
        assert!(really_trusted < really_waited, "{really_trusted} {really_waited}");
    }
}
