//! Sessions as this node sees them: what it knows of each, and what is under way.

use std::collections::VecDeque;
use std::time::Duration;

use breme_base::Instant;
use bytes::Bytes;

use super::agenda::Timer;
use super::evictions::{Content, Share};
use super::messages::{Call, Moment, RequestNumber, Ticket};
use super::tenure::Tenure;
use super::{Machine, Requester};
use crate::engine::{EngineRequest, EngineResponse, Register, Sequence};
use crate::id::SessionKey;
use crate::name::{NodeName, Owner};
use crate::record::SessionRecord;

#[derive(Clone, Debug, Hash)]
pub(crate) struct Session {
    /// Requests that have not run, in order of arrival.
    pub(crate) queue: VecDeque<RequestNumber>,
    pub(crate) phase: Phase,
    /// The newest version seen in its register.
    pub(crate) seen: (Sequence, u64),
    pub(crate) streak: Streak,
    /// The owner that has refused to hand the session over; do not retry at once.
    pub(crate) refused_by: Option<Owner>,
    /// When the session may be requested again although no request needs it here.
    pub(crate) asks_from: Instant,
    /// Another node requests the session, which this node owns but does not have in memory.
    pub(crate) wanted: Option<Wanted>,
    /// Number of failed attempts.
    pub(crate) tries: u32,
    deadline: Instant,
    share: Share,
}

/// A request of another node for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) from: NodeName,
    pub(crate) call: Call,
    pub(crate) to: Owner,
    /// When the waiting node gives up.
    pub(crate) until: Instant,
}

/// Requests in a row that this node has forwarded, while the owner has run no others.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Streak {
    pub(crate) length: u32,
    /// The owner's count with the last of them.
    last: u64,
}

impl Streak {
    pub(crate) fn add(&mut self, count: u64) {
        let has_run_others = count.checked_sub(1) != Some(self.last);
        self.length = if has_run_others { 1 } else { self.length.saturating_add(1) };
        self.last = count;
    }
}

#[derive(Clone, Debug, Hash)]
pub(crate) enum Phase {
    /// A new session, not stored.
    Fresh,
    /// Its record must be read.
    Unread,
    Reading {
        ticket: Ticket,
        until: Instant,
    },
    /// Its record will be read again.
    Pausing {
        until: Instant,
    },
    /// Its owner does not respond; waits for news of its node.
    AwaitingNode {
        owner: Owner,
        until: Instant,
    },
    /// A compare-and-set is under way that makes this node its owner.
    Claiming {
        ticket: Ticket,
        until: Instant,
        record: Box<SessionRecord>,
    },
    /// A compare-and-set is under way that ends it.
    Burying {
        ticket: Ticket,
        until: Instant,
    },
    /// A hand-over has been requested from its owner.
    Requesting {
        call: Call,
        until: Instant,
        owner: Owner,
    },
    /// Another node owns it and gets its requests.
    Elsewhere {
        owner: Owner,
        until: Instant,
    },
    Owned(Box<Tenure>),
}

impl Session {
    pub(crate) fn new(is_new: bool) -> Self {
        Self {
            queue: VecDeque::new(),
            phase: if is_new { Phase::Fresh } else { Phase::Unread },
            seen: (Sequence::ABSENT, 0),
            streak: Streak::default(),
            refused_by: None,
            asks_from: Instant::ZERO,
            wanted: None,
            tries: 0,
            deadline: Instant::FAR,
            share: Share::default(),
        }
    }

    /// The owner does not hand it over: its requests are forwarded, and it is not requested again at once.
    pub(crate) fn refuse(&mut self, owner: Owner, asks_from: Instant) {
        self.refused_by = Some(owner);
        self.asks_from = asks_from;
        self.streak = Streak::default();
    }

    /// What it contributes to the room in memory.
    fn share(&self, deadline: Instant) -> Share {
        let content = match &self.phase {
            Phase::Elsewhere { .. } => Some(Content::Owner),
            Phase::Owned(tenure) if tenure.is_quiet() => Some(Content::Body),
            _ => None,
        };
        let bytes = match &self.phase {
            // The value of a commit is a copy.
            Phase::Owned(tenure) => tenure.body.len() + tenure.commit.as_ref().map_or(0, |commit| commit.value.len()),
            Phase::Claiming { record, .. } => record.body.len(),
            _ => 0,
        };
        Share::new(content.filter(|_| self.queue.is_empty()), deadline, bytes)
    }

    pub(crate) fn request_count(&self) -> usize {
        let in_tenure = if let Phase::Owned(tenure) = &self.phase { tenure.request_count() } else { 0 };
        self.queue.len() + in_tenure
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        !self.queue.is_empty() || self.wanted.is_some()
    }

    fn waits_until(&self) -> Instant {
        match &self.phase {
            Phase::Fresh | Phase::Unread => Instant::FAR,
            Phase::Reading { until, .. }
            | Phase::Pausing { until }
            | Phase::AwaitingNode { until, .. }
            | Phase::Claiming { until, .. }
            | Phase::Burying { until, .. }
            | Phase::Requesting { until, .. }
            | Phase::Elsewhere { until, .. } => *until,
            Phase::Owned(tenure) => tenure.deadline(),
        }
    }
}

impl Machine {
    pub(crate) fn set_phase(&mut self, key: SessionKey, phase: Phase) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        self.owned += usize::from(matches!(phase, Phase::Owned(_)));
        self.owned -= usize::from(matches!(session.phase, Phase::Owned(_)));
        session.phase = phase;
    }

    /// Another node owns it, as far as is known.
    pub(crate) fn set_elsewhere(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        self.set_phase(key, Phase::Elsewhere { owner, until: at.now + self.settings.remember_elsewhere });
    }

    pub(crate) fn remove_session(&mut self, key: SessionKey) {
        if let Some(session) = self.sessions.remove(&key) {
            self.owned -= usize::from(matches!(session.phase, Phase::Owned(_)));
            self.agenda.set(Timer::Session(key), session.deadline, Instant::FAR);
            self.room.replace(key, session.share, Share::default());
            self.refuse_wanted(session.wanted);
        }
    }

    pub(crate) fn tenure_mut(&mut self, key: SessionKey) -> Option<&mut Tenure> {
        match &mut self.sessions.get_mut(&key)?.phase {
            Phase::Owned(tenure) => Some(tenure),
            _ => None,
        }
    }

    pub(crate) fn advance(&mut self, at: Moment, key: SessionKey) {
        let Some(session) = self.sessions.get(&key) else { return };
        let is_waited_for = session.is_waited_for();
        let can_own = self.membership.member().is_some();
        match session.phase {
            Phase::Fresh | Phase::Unread if !is_waited_for => self.remove_session(key),
            Phase::Fresh | Phase::Unread if self.membership.has_left() => self.forward_away(at, key),
            Phase::Fresh if can_own => self.start_fresh(at, key),
            Phase::Unread if can_own => self.read_session(at, key),
            Phase::Elsewhere { owner, .. } if !session.queue.is_empty() => self.route(at, key, owner),
            Phase::Owned(_) => self.serve(at, key),
            _ => {}
        }
        self.note_session(key);
    }

    /// Advances sessions that waited until this node is a member, or that it may no longer keep.
    pub(crate) fn advance_waiting(&mut self, at: Moment) {
        let is_waiting = |session: &Session| matches!(session.phase, Phase::Fresh | Phase::Unread);
        let keys = self.sessions.iter().filter(|(_, session)| is_waiting(session)).map(|(key, _)| *key);
        for key in keys.collect::<Vec<_>>() {
            self.advance(at, key);
        }
    }

    /// After each change of a session: its timer, its size and its place in the order of eviction follow its phase.
    fn note_session(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let deadline = session.waits_until();
        self.agenda.set(Timer::Session(key), session.deadline, deadline);
        session.deadline = deadline;
        let share = session.share(deadline);
        self.room.replace(key, session.share, share);
        session.share = share;
    }

    pub(crate) fn ring_session(&mut self, at: Moment, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.deadline = Instant::FAR;
        match &session.phase {
            Phase::Reading { .. } | Phase::Claiming { .. } | Phase::Burying { .. } => self.drop_question(key),
            Phase::Pausing { .. } => self.set_phase(key, Phase::Unread),
            Phase::AwaitingNode { .. } => {
                self.end_awaiting(at, key);
                return;
            }
            Phase::Requesting { owner, .. } => {
                let owner = *owner;
                session.refuse(owner, at.now + self.settings.release_delay);
                self.drop_question(key);
            }
            Phase::Elsewhere { .. } => {
                self.remove_session(key);
                return;
            }
            Phase::Owned(_) => self.ring_tenure(at, key),
            Phase::Fresh | Phase::Unread => {}
        }
        self.advance(at, key);
    }

    /// Reads a session's register. Also returns how long to wait for the response.
    pub(crate) fn request_read(&mut self, at: Moment, key: SessionKey) -> (Ticket, Instant) {
        let ticket =
            self.request_engine(Requester::Session(key), EngineRequest::Read { register: Register::Session(key) });
        (ticket, at.now + self.settings.response_max)
    }

    /// Like [`Self::request_read`], for a compare-and-set.
    pub(crate) fn request_write(
        &mut self,
        at: Moment,
        key: SessionKey,
        expected: Sequence,
        value: Bytes,
        lifetime: Duration,
    ) -> (Ticket, Instant) {
        let register = Register::Session(key);
        let request = EngineRequest::CompareAndSet { register, expected, value, time_to_live: Some(lifetime) };
        (self.request_engine(Requester::Session(key), request), at.now + self.settings.response_max)
    }

    pub(crate) fn pause_session(&mut self, at: Moment, key: SessionKey) {
        let until = self.end_of_pause(at, key);
        self.set_phase(key, Phase::Pausing { until });
    }

    pub(crate) fn end_of_pause(&mut self, at: Moment, key: SessionKey) -> Instant {
        let tries = self.sessions.get_mut(&key).map_or(0, |session| {
            session.tries += 1;
            session.tries - 1
        });
        at.now + self.settings.pause(tries)
    }

    /// Stops waiting for the response to a request about the session.
    pub(crate) fn drop_question(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get(&key) else { return };
        match &session.phase {
            Phase::Reading { ticket, .. } | Phase::Claiming { ticket, .. } | Phase::Burying { ticket, .. } => {
                self.tickets.remove(ticket);
            }
            Phase::Requesting { call, .. } => {
                self.calls.remove(call);
            }
            _ => return,
        }
        self.set_phase(key, Phase::Unread);
    }

    pub(crate) fn take_session_response(
        &mut self,
        at: Moment,
        key: SessionKey,
        ticket: Ticket,
        response: EngineResponse,
    ) {
        let Some(session) = self.sessions.get(&key) else { return };
        match &session.phase {
            Phase::Reading { ticket: pending, .. } if *pending == ticket => self.take_read(at, key, response),
            Phase::Claiming { ticket: pending, .. } if *pending == ticket => self.take_claim(at, key, response),
            Phase::Burying { ticket: pending, .. } if *pending == ticket => self.take_burial(at, key, &response),
            Phase::Owned(_) => self.take_commit_response(at, key, ticket, response),
            _ => {}
        }
        self.note_session(key);
    }
}
