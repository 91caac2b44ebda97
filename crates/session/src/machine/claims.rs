//! Compare-and-sets on sessions that no node owns: one makes this node the owner, the other ends the session.

use bytes::Bytes;

use super::Machine;
use super::messages::Moment;
use super::sessions::Phase;
use crate::engine::{EngineResponse, Sequence};
use crate::id::SessionKey;
use crate::record::{SessionRecord, SessionState};

impl Machine {
    pub(crate) fn claim(&mut self, at: Moment, key: SessionKey, expected: Sequence, mut record: SessionRecord) {
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

    /// Writes a tombstone: makes sure that the session has ended, or never existed.
    pub(crate) fn bury(&mut self, at: Moment, key: SessionKey, expected: Sequence, record: &SessionRecord) {
        let mut record = SessionRecord { state: SessionState::Ended, body: Bytes::new(), ..record.clone() };
        record.advance(self.operation());
        let (ticket, until) = self.request_write(at, key, expected, record.encode(&key), self.settings.tombstone);
        self.set_phase(key, Phase::Burying { ticket, until });
    }

    pub(crate) fn take_burial(&mut self, at: Moment, key: SessionKey, response: &EngineResponse) {
        if matches!(response, EngineResponse::Committed(_)) {
            self.end_absent(key);
        } else {
            self.pause_session(at, key);
        }
    }
}
