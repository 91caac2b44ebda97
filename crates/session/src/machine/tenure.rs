//! A session that this node serves.

use std::time::Duration;

use breme_base::Instant;
use bytes::Bytes;

use super::messages::{Access, Call, Moment, RequestNumber, Ticket};
use crate::engine::Sequence;
use crate::id::SessionKey;
use crate::name::{NodeName, Owner};
use crate::record::{OperationId, SessionRecord};

#[derive(Clone, Debug, Hash)]
pub(crate) struct Tenure {
    /// Distinguishes it from an earlier tenure of the same session.
    pub(crate) number: u64,
    /// Sequence of the last record known to be committed; absent if nothing is stored yet.
    pub(crate) sequence: Sequence,
    pub(crate) record: SessionRecord,
    /// The newest body; that of the record may be older.
    pub(crate) body: Bytes,
    /// Number of changes of the body, and how many of them are committed.
    pub(crate) change: u64,
    pub(crate) committed: u64,
    pub(crate) commits_sent: u64,
    /// Number of requests that have begun to run.
    pub(crate) runs: u64,
    pub(crate) running: Running,
    pub(crate) held: Vec<Held>,
    pub(crate) commit: Option<Box<Commit>>,
    pub(crate) leaving: Option<Box<Leaving>>,
    /// A commit is needed though nothing has changed: to confirm a read, or to store the time of use.
    pub(crate) wants_commit: bool,
    pub(crate) used: Moment,
    /// When the record must be written again if the session is in use, so that the engine keeps it.
    touch_at: Instant,
    /// When it expires by age.
    pub(crate) absolute_end: Instant,
    /// The session that this one replaces; no client knows it yet.
    pub(crate) successor_of: Option<SessionKey>,
    release_delay: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Running {
    Readers(usize),
    Writer,
}

/// The state that a request runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Snapshot {
    pub(crate) tenure: u64,
    /// Number of changes that it contains.
    pub(crate) change: u64,
    /// Number of commits sent before it was taken.
    pub(crate) commits_sent: u64,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Held {
    pub(crate) request: RequestNumber,
    /// Number of changes that it shows.
    pub(crate) change: u64,
    pub(crate) commits_sent: u64,
    pub(crate) has_written: bool,
}

/// A commit under way.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Commit {
    pub(crate) kind: CommitKind,
    pub(crate) operation: OperationId,
    /// The record to be written.
    pub(crate) record: SessionRecord,
    pub(crate) value: Bytes,
    pub(crate) lifetime: Duration,
    /// How many changes it covers.
    pub(crate) covers: u64,
    /// How many commits of the tenure were sent before it.
    pub(crate) earlier: u64,
    pub(crate) stage: CommitStage,
    pub(crate) tries: u32,
    /// When the session is given up if the outcome is still unknown.
    pub(crate) give_up: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CommitKind {
    /// The tenure continues.
    Save,
    HandOver {
        from: NodeName,
        call: Call,
        to: Owner,
    },
    Free,
    End,
    Rotate,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum CommitStage {
    /// The compare-and-set has been sent.
    Sent { ticket: Ticket, until: Instant },
    /// Its outcome is unknown; the register is read.
    LookingUp { ticket: Ticket, until: Instant },
    /// To be sent again.
    Pausing { until: Instant },
}

#[derive(Clone, Debug, Hash)]
pub(crate) enum Leaving {
    /// Another node requests it. Requests waiting here run first.
    HandOver {
        from: NodeName,
        call: Call,
        to: Owner,
        /// When the requesting node gives up.
        until: Instant,
        /// When to check whether it can be handed over.
        next_look: Instant,
        grants_left: usize,
    },
    /// The node drains.
    Free,
    /// Logged out or expired.
    End,
    /// Continues under another id: first the new one is stored (`is_ready`), then this one ends.
    Rotate { request: RequestNumber, to: SessionKey, body: Bytes, is_ready: bool },
}

impl Tenure {
    pub(crate) fn new(
        number: u64,
        sequence: Sequence,
        record: SessionRecord,
        at: Moment,
        release_delay: Duration,
    ) -> Self {
        Self {
            number,
            sequence,
            body: record.body.clone(),
            change: 0,
            committed: 0,
            commits_sent: 0,
            runs: 0,
            running: Running::Readers(0),
            held: Vec::new(),
            commit: None,
            leaving: None,
            wants_commit: false,
            used: at,
            // The record has just been written: by a claim, or by the former owner.
            touch_at: at.now + touch_interval(&record),
            absolute_end: at.now + record.absolute.saturating_sub(record.age(at.wall)),
            successor_of: None,
            release_delay,
            record,
        }
    }

    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.running, Running::Readers(0))
    }

    pub(crate) fn request_count(&self) -> usize {
        let running = if let Running::Readers(count) = self.running { count } else { 1 };
        running + self.held.len()
    }

    /// Whether nothing is under way and everything is committed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_idle()
            && self.held.is_empty()
            && self.commit.is_none()
            && self.leaving.is_none()
            && self.change == self.committed
            && self.successor_of.is_none()
    }

    pub(crate) fn expires(&self) -> Instant {
        let idle_end = if self.is_idle() { self.used.now + self.record.idle } else { Instant::FAR };
        idle_end.min(self.absolute_end)
    }

    /// When a session that another node requests may be handed over: some time after its last use.
    pub(crate) fn release_at(&self) -> Instant {
        if self.release_delay.is_zero() { Instant::ZERO } else { self.used.now + self.release_delay }
    }

    pub(crate) fn admits(&self, access: Access, now: Instant) -> bool {
        let has_place = match (&self.running, access) {
            (Running::Readers(count), Access::Exclusive) => *count == 0,
            (Running::Readers(_), Access::Shared) => true,
            (Running::Writer, _) => false,
        };
        has_place && !self.is_closing(now)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| commit.ends_tenure())
    }

    /// Whether it may move to another node when its requests have ended.
    pub(crate) fn can_be_given(&self) -> bool {
        let is_stored = self.sequence != Sequence::ABSENT;
        is_stored && self.leaving.is_none() && !self.is_ending() && self.successor_of.is_none()
    }

    fn is_closing(&self, now: Instant) -> bool {
        self.is_ending() || self.may_leave(now)
    }

    /// Whether it is to end without running the waiting requests first.
    pub(crate) fn may_leave(&self, now: Instant) -> bool {
        match self.leaving.as_deref() {
            None => false,
            Some(Leaving::HandOver { grants_left, .. }) => *grants_left == 0 && now >= self.release_at(),
            Some(_) => true,
        }
    }

    pub(crate) fn start(&mut self, access: Access, at: Moment) -> Snapshot {
        self.used = at;
        self.runs += 1;
        match (access, &mut self.running) {
            (Access::Shared, Running::Readers(count)) => *count += 1,
            _ => self.running = Running::Writer,
        }
        if let Some(Leaving::HandOver { grants_left, .. }) = self.leaving.as_deref_mut() {
            *grants_left = grants_left.saturating_sub(1);
        }
        Snapshot { tenure: self.number, change: self.change, commits_sent: self.commits_sent }
    }

    pub(crate) fn stop(&mut self, at: Moment) {
        self.used = at;
        match &mut self.running {
            Running::Readers(count) => *count = count.saturating_sub(1),
            Running::Writer => self.running = Running::Readers(0),
        }
    }

    /// When the record must be written again; never if nothing is stored, or a commit under way does it.
    fn touch_due(&self) -> Instant {
        let is_due_later = self.sequence == Sequence::ABSENT || self.commit.is_some();
        if is_due_later { Instant::FAR } else { self.touch_at }
    }

    /// Keeps the record of a session that is in use: at the end of a request, and while a long one runs.
    pub(crate) fn touch_if_due(&mut self, at: Moment) {
        if at.now >= self.touch_due() {
            self.used = at;
            self.wants_commit = true;
        }
    }

    pub(crate) fn note_commit(&mut self, now: Instant) {
        self.touch_at = now + touch_interval(&self.record);
    }

    /// When the session must be advanced next if nothing else happens.
    pub(crate) fn deadline(&self) -> Instant {
        let commit = self.commit.as_ref().map_or(Instant::FAR, |commit| commit.until());
        let leaving = match self.leaving.as_deref() {
            Some(Leaving::HandOver { next_look, .. }) if !self.is_ending() => *next_look,
            _ => Instant::FAR,
        };
        let expiry = if self.leaving.is_none() { self.expires() } else { Instant::FAR };
        let touch = if self.is_idle() { Instant::FAR } else { self.touch_due() };
        commit.min(leaving).min(expiry).min(touch)
    }
}

impl Commit {
    pub(crate) fn ends_tenure(&self) -> bool {
        self.kind != CommitKind::Save
    }

    pub(crate) const fn until(&self) -> Instant {
        match self.stage {
            CommitStage::Sent { until, .. } | CommitStage::LookingUp { until, .. } | CommitStage::Pausing { until } => {
                until
            }
        }
    }

    pub(crate) fn covers(&self, held: &Held) -> bool {
        held.change <= self.covers && held.commits_sent <= self.earlier
    }
}

fn touch_interval(record: &SessionRecord) -> Duration {
    record.idle / 10
}
