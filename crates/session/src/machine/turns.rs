//! Requests take turns on the state in memory; their responses wait for confirmation.

use breme_base::Instant;
use bytes::Bytes;

use super::Machine;
use super::messages::{Access, Change, Moment, Outcome, Output, RequestNumber};
use super::requests::Stage;
use super::sessions::{Phase, Streak};
use super::tenure::{Held, Leaving, Snapshot, Tenure};
use crate::engine::Sequence;
use crate::id::SessionKey;
use crate::record::{SessionRecord, SessionState};
use crate::settings::Durability;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Applied {
    Nothing,
    Written,
    /// It has logged out or rotated the id.
    Ended,
}

impl Machine {
    /// Starts a new session: this node owns it, and nothing is stored until a request writes.
    pub(crate) fn start_fresh(&mut self, at: Moment, key: SessionKey) {
        if self.drain.is_some() && self.other_node(at, &key).is_some() && !self.is_needed_here(key) {
            self.forward_away(at, key);
            return;
        }
        let record = self.new_record(at);
        self.install(at, key, Sequence::ABSENT, record);
    }

    pub(crate) fn new_record(&self, at: Moment) -> SessionRecord {
        SessionRecord {
            state: self.myself().map_or(SessionState::Free, SessionState::Owned),
            epoch: 1,
            version: 0,
            created: at.wall,
            accessed: at.wall,
            idle: self.settings.idle,
            absolute: self.settings.absolute,
            operations: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// This node starts to serve the session.
    pub(crate) fn install(&mut self, at: Moment, key: SessionKey, sequence: Sequence, record: SessionRecord) {
        let number = self.number();
        let mut wanted = None;
        if let Some(session) = self.sessions.get_mut(&key) {
            wanted = session.wanted.take();
            session.seen = (sequence, record.version);
            session.streak = Streak::default();
            session.refused_by = None;
            session.tries = 0;
        }
        let tenure = Tenure::new(number, sequence, record, at, self.settings.release_delay);
        self.set_phase(key, Phase::Owned(Box::new(tenure)));
        if let Some(wanted) = wanted {
            self.promise_hand_over(at, key, wanted);
        }
        self.advance(at, key);
    }

    /// Advances a session of this node: runs requests, starts commits, ends the tenure.
    pub(crate) fn serve(&mut self, at: Moment, key: SessionKey) {
        self.start_ending_if_expired(at, key);
        self.run_waiting(at, key);
        let Some(tenure) = self.tenure_mut(key) else { return };
        if tenure.commit.is_some() {
            return;
        }
        if tenure.is_idle() && tenure.may_leave(at.now) {
            self.leave(at, key);
        } else if tenure.change > tenure.committed || tenure.wants_commit {
            self.save(at, key);
        } else if tenure.is_quiet() && tenure.sequence == Sequence::ABSENT {
            self.end_unstored(key);
        }
    }

    fn start_ending_if_expired(&mut self, at: Moment, key: SessionKey) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        if tenure.leaving.is_none() && at.now >= tenure.expires() && !tenure.is_ending() {
            tenure.leaving = Some(Box::new(Leaving::End));
            self.statistics.expired += 1;
        }
    }

    fn run_waiting(&mut self, at: Moment, key: SessionKey) {
        while let Some(session) = self.sessions.get_mut(&key) {
            let (Some(&number), Phase::Owned(tenure)) = (session.queue.front(), &mut session.phase) else { return };
            let Some(request) = self.requests.get(&number) else {
                session.queue.pop_front();
                continue;
            };
            if !tenure.admits(request.access, at.now) {
                return;
            }
            session.queue.pop_front();
            let snapshot = tenure.start(request.access, at);
            let (body, count) = (tenure.body.clone(), tenure.runs);
            self.set_stage(number, Stage::Running(snapshot), Instant::FAR);
            self.statistics.run += 1;
            self.outputs.push(Output::Run { request: number, body, count });
        }
    }

    /// Ends a new session without changes: there is nothing to store.
    fn end_unstored(&mut self, key: SessionKey) {
        if self.sessions.get(&key).is_some_and(|session| session.queue.is_empty()) {
            self.remove_session(key);
        }
    }

    pub(crate) fn finish(&mut self, at: Moment, number: RequestNumber, change: Change) {
        let Some(request) = self.requests.get(&number) else { return };
        let Stage::Running(snapshot) = request.stage else { return };
        let (key, access) = (request.session, request.access);
        let tenure = self.tenure_mut(key).filter(|tenure| tenure.number == snapshot.tenure);
        let Some(tenure) = tenure else {
            // The session has moved to another node meanwhile. With `Memory`, what was read is good enough.
            let is_done = self.settings.durability == Durability::Memory && change == Change::Unchanged;
            self.release(number, if is_done { Outcome::Done } else { Outcome::NotDone });
            return;
        };
        tenure.stop(at);
        match self.apply(number, key, access, change) {
            Ok(applied) => self.settle(at, key, number, snapshot, applied),
            Err(outcome) => self.release(number, outcome),
        }
        self.advance(at, key);
    }

    /// Applies the change in memory.
    fn apply(
        &mut self,
        number: RequestNumber,
        key: SessionKey,
        access: Access,
        change: Change,
    ) -> Result<Applied, Outcome> {
        let body_max = self.settings.body_max;
        let Some(tenure) = self.tenure_mut(key) else { return Err(Outcome::NotDone) };
        if change == Change::Unchanged || matches!(&change, Change::Write(body) if *body == tenure.body) {
            return Ok(Applied::Nothing);
        }
        if access == Access::Shared {
            return Err(Outcome::NotDone); // it was told to read only
        }
        if matches!(&change, Change::Write(body) | Change::Rotate { body, .. } if body.len() > body_max) {
            return Err(Outcome::TooLarge);
        }
        tenure.change += 1;
        match change {
            Change::Unchanged => {}
            Change::Write(body) => {
                tenure.body = body;
                return Ok(Applied::Written);
            }
            Change::Destroy => self.change_leaving(key, Leaving::End),
            Change::Rotate { to, body } => {
                self.change_leaving(key, Leaving::Rotate { request: number, to, body, is_ready: false });
            }
        }
        Ok(Applied::Ended)
    }

    /// Logout and rotation take precedence over any other planned end.
    fn change_leaving(&mut self, key: SessionKey, leaving: Leaving) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        match tenure.leaving.replace(Box::new(leaving)).as_deref() {
            Some(Leaving::Free) => self.count_freed(),
            Some(former) => self.abandon_hand_over(former),
            None => {}
        }
    }

    /// Releases the response if it is confirmed, else holds it.
    fn settle(&mut self, at: Moment, key: SessionKey, request: RequestNumber, snapshot: Snapshot, applied: Applied) {
        // The lease is checked after the snapshot was taken: if it is valid now, it was valid then.
        let has_lease = self.has_lease(at);
        let has_written = applied != Applied::Nothing;
        // Logout and rotation must be visible on every node.
        let is_memory = self.settings.durability == Durability::Memory && applied != Applied::Ended;
        let deadline = at.now + self.settings.wait_max;
        let Some(tenure) = self.tenure_mut(key) else { return };
        let change = if has_written { tenure.change } else { snapshot.change };
        let is_committed = !has_written && change <= tenure.committed;
        tenure.touch_if_due(at);
        // A new session without changes shows nothing.
        let is_empty = is_committed && tenure.sequence == Sequence::ABSENT;
        if is_memory || is_empty {
            self.release(request, Outcome::Done);
        } else if is_committed && has_lease {
            self.statistics.leased_reads += 1;
            self.release(request, Outcome::Done);
        } else {
            tenure.held.push(Held { request, change, commits_sent: snapshot.commits_sent, has_written });
            tenure.wants_commit |= is_committed;
            self.set_stage(request, Stage::Held, deadline);
        }
    }

    /// A held response has timed out.
    pub(crate) fn give_up_held(&mut self, number: RequestNumber) {
        let Some(key) = self.requests.get(&number).map(|request| request.session) else { return };
        let Some(tenure) = self.tenure_mut(key) else { return };
        let Some(place) = tenure.held.iter().position(|held| held.request == number) else { return };
        let held = tenure.held.remove(place);
        self.release(number, if held.has_written { Outcome::Unknown } else { Outcome::NotDone });
    }
}
