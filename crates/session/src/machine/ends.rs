//! Sessions that leave a node for good: under a new id, with the node's life, or because the node drains.

use std::ops::Bound;

use super::Machine;
use super::messages::{Moment, Outcome};
use super::sessions::{Phase, Session};
use super::tenure::{Leaving, Tenure};
use crate::engine::Sequence;
use crate::id::SessionKey;
use crate::record::SessionRecord;

/// The node releases its sessions, a batch at a time.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Drain {
    cursor: Option<SessionKey>,
    /// Sessions whose release is under way.
    active: usize,
    /// The node leaves once no session is left.
    is_leaving: bool,
    /// No session is left and the node leaves.
    pub(crate) is_done: bool,
}

impl Machine {
    /// First stores the session under its new id, which no client knows yet, and only then ends the old one. So both
    /// ids are never known at once, and a crash in between loses nothing.
    pub(crate) fn store_successor(&mut self, at: Moment, key: SessionKey) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        let Some(Leaving::Rotate { to, body, .. }) = tenure.leaving.as_deref() else { return };
        let (to, body) = (*to, body.clone());
        // `--absolute` limits the age of a session under all its ids: a login does not make it younger.
        let (created, absolute_end) = (tenure.record.created, tenure.absolute_end);
        if let Some(session) = self.sessions.get(&to) {
            let is_under_way = matches!(&session.phase, Phase::Owned(tenure) if tenure.successor_of == Some(key));
            if !is_under_way {
                self.keep_former(at, key);
            }
            return;
        }
        self.sessions.insert(to, Session::new(true));
        let number = self.number();
        let record = SessionRecord { created, ..self.new_record(at) };
        let mut tenure = Tenure::new(number, Sequence::ABSENT, record, at, self.settings.release_delay);
        (tenure.body, tenure.change) = (body, 1);
        tenure.absolute_end = absolute_end;
        tenure.successor_of = Some(key);
        self.set_phase(to, Phase::Owned(Box::new(tenure)));
        self.advance(at, to);
    }

    pub(crate) fn end_former(&mut self, at: Moment, key: SessionKey) {
        let leaving = self.tenure_mut(key).and_then(|tenure| tenure.leaving.as_deref_mut());
        if let Some(Leaving::Rotate { is_ready, .. }) = leaving {
            *is_ready = true;
            self.advance(at, key);
        }
    }

    /// The successor could not be stored: the old session continues.
    pub(crate) fn keep_former(&mut self, at: Moment, key: SessionKey) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        let Some(Leaving::Rotate { request, .. }) = tenure.leaving.as_deref() else { return };
        let request = *request;
        tenure.leaving = None;
        if let Some(place) = tenure.held.iter().position(|held| held.request == request) {
            tenure.held.remove(place);
            self.release(request, Outcome::NotDone);
        }
        self.advance(at, key);
    }

    /// The session was lost before it could leave in an orderly way.
    pub(crate) fn abandon_leaving(&mut self, at: Moment, leaving: &Leaving) {
        match leaving {
            Leaving::HandOver { .. } => self.abandon_hand_over(leaving),
            Leaving::Free => self.count_freed(),
            Leaving::End => {}
            Leaving::Rotate { to, .. } => {
                if let Some(successor) = self.tenure_mut(*to) {
                    successor.leaving = Some(Box::new(Leaving::End));
                    self.advance(at, *to);
                }
            }
        }
    }

    /// This node's life has ended: its copies of sessions may be stale.
    pub(crate) fn drop_all_sessions(&mut self, at: Moment) {
        for key in self.sessions.keys().copied().collect::<Vec<_>>() {
            let Some(session) = self.sessions.get(&key) else { continue };
            match session.phase {
                Phase::Owned(_) => self.lose_tenure(at, key, false),
                _ => self.drop_question(key),
            }
            self.advance(at, key);
        }
    }

    pub(crate) fn start_drain(&mut self, at: Moment) {
        if self.drain.is_none() {
            self.drain = Some(Drain::default());
            self.renew(at);
        }
    }

    pub(crate) fn start_leaving(&mut self, at: Moment) {
        self.start_drain(at);
        if let Some(drain) = &mut self.drain {
            drain.is_leaving = true;
        }
    }

    pub(crate) fn count_freed(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.active = drain.active.saturating_sub(1);
        }
    }

    /// Releases up to a batch of sessions at a time; leaves when none is left.
    pub(crate) fn continue_drain(&mut self, at: Moment) {
        while let Some(key) = self.next_to_free() {
            if let Some(tenure) = self.tenure_mut(key) {
                tenure.leaving = Some(Box::new(Leaving::Free));
            }
            self.advance(at, key);
        }
        let is_empty = self.owned == 0 && self.requests.is_empty();
        let Some(drain) = &mut self.drain else { return };
        if drain.is_leaving && drain.active == 0 && is_empty {
            drain.is_done = true;
        }
        if drain.is_done {
            self.renew(at);
        }
    }

    fn next_to_free(&mut self) -> Option<SessionKey> {
        let drain = self.drain.as_mut().filter(|drain| drain.active < self.settings.drain_batch)?;
        let can_go = |session: &Session| matches!(&session.phase, Phase::Owned(tenure) if tenure.can_be_given());
        let start = drain.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let found = self.sessions.range((start, Bound::Unbounded)).find(|(_, session)| can_go(session));
        drain.cursor = found.map(|(key, _)| *key);
        drain.active += usize::from(found.is_some());
        drain.cursor
    }
}
