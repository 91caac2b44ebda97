//! Whose a session is, by its record: another node's, nobody's, or that it does not exist.

use bytes::Bytes;

use super::Machine;
use super::messages::{Moment, Refusal};
use super::nodes::OwnerStatus;
use super::sessions::{Phase, Session};
use crate::engine::{EngineResponse, Register, Sequence};
use crate::id::SessionKey;
use crate::name::Owner;
use crate::record::{SessionRecord, SessionState};

impl Machine {
    pub(crate) fn read_session(&mut self, at: Moment, key: SessionKey) {
        let (ticket, until) = self.request_read(at, key);
        self.set_phase(key, Phase::Reading { ticket, until });
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
            self.end_absent(key);
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
            self.refuse_damaged(key);
            return;
        };
        if let Some(session) = self.sessions.get_mut(&key) {
            session.seen = (sequence, record.version);
        }
        match record.state {
            SessionState::Ended | SessionState::Rotated => {
                self.end_absent(key);
            }
            SessionState::Free => self.take_up(at, key, sequence, record),
            SessionState::Owned(owner) if !self.rules.serves_after_commit && self.myself() == Some(owner) => {
                self.install(at, key, sequence, record);
            }
            SessionState::Owned(owner) if self.owner_status(at, &owner) == OwnerStatus::Over => {
                self.take_up(at, key, sequence, record);
            }
            SessionState::Owned(owner) => self.leave_to(at, key, owner),
        }
    }

    fn refuse_damaged(&mut self, key: SessionKey) {
        self.report_damaged(Register::Session(key));
        for request in self.take_queue(key) {
            self.refuse(request, Refusal::Damaged);
        }
        self.remove_session(key);
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

    /// Another node owns the session and gets its requests.
    fn leave_to(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        let wanted = self.sessions.get_mut(&key).and_then(|session| session.wanted.take());
        self.refuse_wanted(wanted);
        self.set_elsewhere(at, key, owner);
        self.advance(at, key);
    }
}
