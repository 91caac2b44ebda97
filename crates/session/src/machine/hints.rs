//! Reports of the engine's watch, which may be late, repeated or lost.

use bytes::Bytes;

use super::Machine;
use super::messages::Moment;
use super::sessions::Phase;
use crate::engine::{Register, Sequence};
use crate::id::SessionKey;
use crate::record::{SessionRecord, SessionState};

impl Machine {
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
}
