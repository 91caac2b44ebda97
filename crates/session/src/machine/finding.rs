//! Sessions that this node does not serve: finds their owners, claims sessions without an owner, forwards requests to
//! the others.

use std::time::Duration;

use breme_base::Instant;
use bytes::Bytes;

use super::messages::{
    Call, Event, ForwardResult, HandOver, Moment, Outcome, Output, RanOn, Refusal, RequestNumber, Ticket,
};
use super::nodes::OwnerStatus;
use super::requests::Stage;
use super::sessions::{Phase, Session, Streak};
use super::{Machine, Requester};
use crate::engine::{EngineRequest, EngineResponse, Register, Sequence};
use crate::id::SessionKey;
use crate::name::{NodeName, Owner};
use crate::record::{SessionRecord, SessionState};
use crate::settings::Route;

impl Machine {
    pub(crate) fn read_session(&mut self, at: Moment, key: SessionKey) {
        let (ticket, until) = self.request_read(at, key);
        self.set_phase(key, Phase::Reading { ticket, until });
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

    fn pause_session(&mut self, at: Moment, key: SessionKey) {
        let until = self.end_of_pause(at, key);
        self.set_phase(key, Phase::Pausing { until });
    }

    fn end_of_pause(&mut self, at: Moment, key: SessionKey) -> Instant {
        let tries = self.sessions.get_mut(&key).map_or(0, |session| {
            session.tries += 1;
            session.tries - 1
        });
        at.now + self.settings.pause(tries)
    }

    pub(crate) fn take_read(&mut self, at: Moment, key: SessionKey, response: EngineResponse) {
        let EngineResponse::Found(found) = response else {
            self.pause_session(at, key);
            return;
        };
        if !self.sessions.get(&key).is_some_and(Session::is_waited_for) {
            self.remove_session(key);
            return;
        }
        match found {
            None => self.judge_absence(at, key),
            Some((sequence, value)) => self.judge_record(at, key, sequence, &value),
        }
    }

    /// A read that finds nothing may be stale. Only a compare-and-set proves absence.
    fn judge_absence(&mut self, at: Moment, key: SessionKey) {
        if self.rules.serves_after_commit {
            let record = self.new_record(at);
            self.bury(at, key, Sequence::ABSENT, &record);
        } else {
            self.end_queue_absent(key);
            self.remove_session(key);
        }
    }

    fn judge_record(&mut self, at: Moment, key: SessionKey, sequence: Sequence, value: &Bytes) {
        let seen = self.sessions.get(&key).map_or((Sequence::ABSENT, 0), |session| session.seen);
        if sequence < seen.0 {
            self.pause_session(at, key); // stale
            return;
        }
        let record = SessionRecord::decode(&key, value).ok().filter(|record| record.version >= seen.1);
        let Some(record) = record else {
            self.report_damaged(Register::Session(key));
            for request in self.take_queue(key) {
                self.refuse(request, Refusal::Damaged);
            }
            self.remove_session(key);
            return;
        };
        if let Some(session) = self.sessions.get_mut(&key) {
            session.seen = (sequence, record.version);
        }
        match record.state {
            SessionState::Ended | SessionState::Rotated => {
                self.end_queue_absent(key);
                self.remove_session(key);
            }
            SessionState::Free => self.take_up(at, key, sequence, record),
            SessionState::Owned(owner) if !self.rules.serves_after_commit && self.myself() == Some(owner) => {
                self.install(at, key, sequence, record);
            }
            SessionState::Owned(owner) if self.owner_status(at, &owner) == OwnerStatus::Over => {
                self.take_up(at, key, sequence, record);
            }
            SessionState::Owned(owner) => {
                let wanted = self.sessions.get_mut(&key).and_then(|session| session.wanted.take());
                self.refuse_wanted(wanted);
                self.set_phase(key, Phase::Elsewhere { owner, until: at.now + self.settings.remember_elsewhere });
                self.advance(at, key);
            }
        }
    }

    /// The session has no owner: this node claims it, unless it has expired or the node drains. Only the engine knows
    /// that it was not used for too long, by the lifetime of its record: calendars of nodes may be wrong by hours.
    fn take_up(&mut self, at: Moment, key: SessionKey, sequence: Sequence, record: SessionRecord) {
        if record.has_expired(at.wall) {
            self.bury(at, key, sequence, &record);
        } else if self.drain.is_some() && self.other_node(at, &key).is_some() && !self.is_needed_here(key) {
            self.forward_away(at, key);
        } else {
            self.claim(at, key, sequence, record);
        }
    }

    fn claim(&mut self, at: Moment, key: SessionKey, expected: Sequence, mut record: SessionRecord) {
        let Some(me) = self.myself() else {
            self.set_phase(key, Phase::Unread);
            return;
        };
        record.state = SessionState::Owned(me);
        record.epoch += 1;
        record.advance(self.operation());
        let (value, lifetime) = (record.encode(&key), self.settings.record_lifetime(record.idle));
        let (ticket, until) = self.request_write(at, key, expected, value, lifetime);
        self.set_phase(key, Phase::Claiming { ticket, until, record: Box::new(record) });
    }

    /// Writes a tombstone: makes sure that the session has ended, or never existed.
    fn bury(&mut self, at: Moment, key: SessionKey, expected: Sequence, record: &SessionRecord) {
        let mut record = SessionRecord { state: SessionState::Ended, body: Bytes::new(), ..record.clone() };
        record.advance(self.operation());
        let (ticket, until) = self.request_write(at, key, expected, record.encode(&key), self.settings.tombstone);
        self.set_phase(key, Phase::Burying { ticket, until });
    }

    /// Unless the claim is known to be the newest change, reads the record again: a second claim replaces the first.
    pub(crate) fn take_claim(&mut self, at: Moment, key: SessionKey, response: EngineResponse) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match (response, &session.phase) {
            (EngineResponse::Committed(sequence), Phase::Claiming { record, .. }) => {
                let record = SessionRecord::clone(record);
                self.statistics.claimed += 1;
                self.statistics.commits += 1;
                self.install(at, key, sequence, record);
            }
            (response, _) => {
                self.statistics.conflicts += u64::from(response == EngineResponse::Conflict);
                self.pause_session(at, key);
            }
        }
    }

    pub(crate) fn take_burial(&mut self, at: Moment, key: SessionKey, response: &EngineResponse) {
        if matches!(response, EngineResponse::Committed(_)) {
            self.end_queue_absent(key);
            self.remove_session(key);
        } else {
            self.pause_session(at, key);
        }
    }

    pub(crate) fn route(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        match self.owner_status(at, &owner) {
            OwnerStatus::Over => {
                self.set_phase(key, Phase::Unread);
                self.advance(at, key);
            }
            OwnerStatus::Serving { .. } => self.route_to(at, key, owner),
            // A later life of this node: another process uses its name.
            OwnerStatus::Unknown if owner.node == self.me => self.pause_session(at, key),
            OwnerStatus::Unknown | OwnerStatus::Silent | OwnerStatus::Unreachable => {
                let until = self.end_of_pause(at, key);
                self.set_phase(key, Phase::AwaitingNode { owner, until });
                let news = self.await_node(at, key, &owner);
                self.set_phase(key, Phase::AwaitingNode { owner, until: until.min(news) });
            }
        }
    }

    pub(crate) fn end_awaiting(&mut self, at: Moment, key: SessionKey) {
        let Some(session) = self.sessions.get(&key) else { return };
        if let Phase::AwaitingNode { owner, .. } = session.phase {
            self.set_phase(key, Phase::Elsewhere { owner, until: at.now + self.settings.remember_elsewhere });
        }
        self.advance(at, key);
    }

    /// The owner is reachable: requests the session from it, or forwards the requests.
    fn route_to(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let has_refused = session.refused_by.take() == Some(owner);
        let is_needed = self.is_needed_here(key);
        let is_wanted = is_needed || (self.drain.is_none() && self.is_preferred_here(key));
        if is_wanted && !has_refused && self.membership.member().is_some() {
            self.request_hand_over(at, key, owner);
        } else if is_needed {
            self.pause_session(at, key);
        } else {
            self.forward_to_owner(at, key, owner);
        }
    }

    fn is_preferred_here(&self, key: SessionKey) -> bool {
        let forwarded = self.sessions.get(&key).map_or(0, |session| session.streak.length);
        match self.settings.route {
            Route::Pull => true,
            Route::Forward { pull_after } => pull_after.is_some_and(|count| forwarded >= count),
        }
    }

    /// Whether a request that has no hops left waits for the session.
    pub(crate) fn is_needed_here(&self, key: SessionKey) -> bool {
        let queue = self.sessions.get(&key).map(|session| &session.queue);
        queue.is_some_and(|queue| queue.iter().any(|request| self.is_tired(*request)))
    }

    /// Whether the request has no hops left and must be served here.
    fn is_tired(&self, request: RequestNumber) -> bool {
        self.requests.get(&request).is_some_and(|request| request.hops >= self.settings.hops_max)
    }

    fn request_hand_over(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        let Some(to) = self.myself() else { return };
        let call = Call(self.number());
        self.calls.insert(call, key);
        self.set_phase(key, Phase::Requesting { call, until: at.now + self.settings.response_max, owner });
        let question = HandOver { session: key, to };
        self.outputs.push(Output::RequestHandOver {
            call,
            to: owner.node,
            address: self.address(&owner.node),
            question,
        });
    }

    fn forward_to_owner(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        let queue = self.take_queue(key);
        if let Some(session) = self.sessions.get_mut(&key) {
            session.tries = 0;
        }
        self.set_phase(key, Phase::Elsewhere { owner, until: at.now + self.settings.remember_elsewhere });
        for request in queue {
            self.forward(at, request, owner.node);
        }
    }

    /// Forwards requests for a session that this node must not take to another node.
    pub(crate) fn forward_away(&mut self, at: Moment, key: SessionKey) {
        let other = self.other_node(at, &key);
        for request in self.take_queue(key) {
            match other {
                Some(to) => self.forward(at, request, to),
                None => self.refuse(request, Refusal::Timeout),
            }
        }
        self.remove_session(key);
    }

    fn forward(&mut self, at: Moment, request: RequestNumber, to: NodeName) {
        if self.is_tired(request) {
            self.refuse(request, Refusal::Busy);
            return;
        }
        self.statistics.forwarded += 1;
        self.set_stage(request, Stage::Forwarded(to), Instant::FAR);
        self.outputs.push(Output::Forward { request, to, address: self.address(&to) });
        self.watch_lease(at, to);
    }

    pub(crate) fn end_forward(&mut self, at: Moment, number: RequestNumber, result: ForwardResult) {
        let Some(request) = self.requests.get(&number) else { return };
        let Stage::Forwarded(to) = request.stage else { return };
        let is_reader = request.access == super::Access::Shared;
        let key = request.session;
        match result {
            ForwardResult::Responded { by } => {
                self.forget(number);
                self.note_run(key, to, by);
                return;
            }
            ForwardResult::Broken | ForwardResult::Unreachable => self.note_unreachable(at, to),
        }
        match result {
            ForwardResult::Broken if !is_reader => self.release(number, Outcome::Unknown),
            _ => self.wait_again(at, number),
        }
    }

    /// If a request ran on another node than the one it was sent to, the session has moved, and later requests go to
    /// that node. If that is wrong, they take one hop more.
    fn note_run(&mut self, key: SessionKey, sent_to: NodeName, by: Option<RanOn>) {
        let Some(RanOn { node, count }) = by.filter(|by| by.node != self.me) else { return };
        let Some(life) = self.life(node) else { return };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Phase::Elsewhere { owner, .. } = &mut session.phase else { return };
        if owner.node != sent_to {
            return;
        }
        if node != sent_to {
            *owner = life;
            session.streak = Streak::default();
        }
        session.streak.add(count);
    }

    fn wait_again(&mut self, at: Moment, number: RequestNumber) {
        let Some(request) = self.requests.get(&number) else { return };
        let (key, is_new, waits_until) = (request.session, request.is_new, request.waits_until);
        if waits_until <= at.now {
            self.refuse(number, Refusal::Timeout);
            return;
        }
        self.set_stage(number, Stage::Waiting, waits_until);
        self.sessions.entry(key).or_insert_with(|| Session::new(is_new)).queue.push_back(number);
        self.advance(at, key);
    }

    /// Uses a watch's report only where a wrong one does no harm.
    pub(crate) fn take_hint(&mut self, at: Moment, register: Register, sequence: Sequence, value: &Bytes) {
        match register {
            Register::Node(name) if name == self.me => self.take_own_hint(at, sequence),
            Register::Node(name) => self.observe_bytes(at, name, sequence, value),
            Register::Session(key) => self.take_session_hint(at, key, sequence, value),
        }
    }

    fn take_session_hint(&mut self, at: Moment, key: SessionKey, sequence: Sequence, value: &Bytes) {
        let me = self.myself().map(SessionState::Owned);
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Ok(record) = SessionRecord::decode(&key, value) else { return };
        match &mut session.phase {
            // Another node seems to own the session; a commit will show.
            Phase::Owned(tenure)
                if sequence > tenure.sequence && tenure.commit.is_none() && Some(record.state) != me =>
            {
                tenure.wants_commit = true;
                self.advance(at, key);
            }
            Phase::Elsewhere { owner, .. } if sequence > session.seen.0 => {
                if let SessionState::Owned(new) = record.state {
                    *owner = new;
                    session.seen = (sequence, record.version.max(session.seen.1));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn report_damaged(&mut self, register: Register) {
        self.statistics.damaged += 1;
        self.emit(Event::Damaged(register));
    }
}
