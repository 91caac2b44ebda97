//! Commits: one compare-and-set at a time for each session, repeated until its outcome is known.

use std::sync::Arc;

use bytes::Bytes;

use super::Machine;
use super::messages::{HandOverAnswer, Moment, Outcome, Ticket};
use super::sessions::Phase;
use super::tenure::{Commit, CommitKind, CommitStage, Held, Leaving};
use crate::engine::{EngineResponse, Register, Sequence};
use crate::id::SessionKey;
use crate::record::{SessionRecord, SessionState};

enum CommitLookup {
    /// The compare-and-set has not taken effect (as far as a stale read can tell).
    NotYet,
    /// It has, and is the newest change.
    Newest(Sequence),
    /// It has, and the register has changed since.
    Replaced,
    /// It has not, and never will: another change preceded it.
    Lost,
    /// The register has changed too often to tell.
    Forgotten,
}

impl Machine {
    pub(crate) fn save(&mut self, at: Moment, key: SessionKey) {
        self.start_commit(at, key, CommitKind::Save);
    }

    pub(crate) fn leave(&mut self, at: Moment, key: SessionKey) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        let is_unstored = tenure.sequence == Sequence::ABSENT;
        let kind = match tenure.leaving.as_deref() {
            Some(&Leaving::HandOver { from, call, to, .. }) => CommitKind::HandOver { from, call, to },
            Some(Leaving::Free) => CommitKind::Free,
            Some(Leaving::End) => CommitKind::End,
            Some(Leaving::Rotate { is_ready: false, .. }) => {
                self.store_successor(at, key);
                return;
            }
            Some(Leaving::Rotate { .. }) => CommitKind::Rotate,
            None => return,
        };
        if is_unstored {
            // The session was never stored or seen elsewhere, so there is nothing to write.
            self.end_tenure(at, key, kind, Sequence::ABSENT);
        } else {
            self.start_commit(at, key, kind);
        }
    }

    fn start_commit(&mut self, at: Moment, key: SessionKey, kind: CommitKind) {
        let operation = self.operation();
        let settings = Arc::clone(&self.settings);
        let give_up = at.now + settings.tombstone;
        let Some(tenure) = self.tenure_mut(key) else { return };
        let lifetime = match kind {
            CommitKind::End | CommitKind::Rotate => settings.tombstone,
            CommitKind::Save | CommitKind::HandOver { .. } => settings.record_lifetime(tenure.record.idle),
            // Without an owner, only the engine ends it when it is not used. Its outcome may have to be looked up.
            CommitKind::Free => tenure.expires().since(at.now).max(settings.tombstone),
        };
        let mut record = SessionRecord { body: tenure.body.clone(), ..tenure.record.clone() };
        record.advance(operation);
        record.accessed = tenure.used.wall;
        match kind {
            CommitKind::Save => {}
            CommitKind::HandOver { to, .. } => {
                record.state = SessionState::Owned(to);
                record.epoch += 1;
            }
            CommitKind::Free => record.state = SessionState::Free,
            CommitKind::End => (record.state, record.body) = (SessionState::Ended, Bytes::new()),
            CommitKind::Rotate => (record.state, record.body) = (SessionState::Rotated, Bytes::new()),
        }
        let value = record.encode(&key);
        let (covers, earlier) = (tenure.change, tenure.commits_sent);
        tenure.commits_sent += 1;
        tenure.wants_commit = false;
        tenure.note_commit(at.now);
        let stage = CommitStage::Pausing { until: at.now };
        tenure.commit = Some(Box::new(Commit {
            kind,
            operation,
            record,
            value,
            lifetime,
            covers,
            earlier,
            stage,
            tries: 0,
            give_up,
        }));
        self.send_commit(at, key);
        if !self.rules.responds_after_commit {
            self.release_covered(at, key);
        }
    }

    fn send_commit(&mut self, at: Moment, key: SessionKey) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        let Some(commit) = &tenure.commit else { return };
        let (expected, value, lifetime) = (tenure.sequence, commit.value.clone(), commit.lifetime);
        let (ticket, until) = self.request_write(at, key, expected, value, lifetime);
        self.set_commit_stage(key, CommitStage::Sent { ticket, until });
    }

    fn look_up_commit(&mut self, at: Moment, key: SessionKey) {
        self.statistics.looked_up += 1;
        let (ticket, until) = self.request_read(at, key);
        self.set_commit_stage(key, CommitStage::LookingUp { ticket, until });
    }

    fn pause_commit(&mut self, at: Moment, key: SessionKey) {
        let settings = Arc::clone(&self.settings);
        let Some(commit) = self.tenure_mut(key).and_then(|tenure| tenure.commit.as_mut()) else { return };
        commit.tries += 1;
        commit.stage = CommitStage::Pausing { until: at.now + settings.pause(commit.tries) };
    }

    fn set_commit_stage(&mut self, key: SessionKey, stage: CommitStage) {
        if let Some(commit) = self.tenure_mut(key).and_then(|tenure| tenure.commit.as_mut()) {
            commit.stage = stage;
        }
    }

    /// Handles a deadline of a session that this node serves.
    pub(crate) fn ring_tenure(&mut self, at: Moment, key: SessionKey) {
        self.look_at_hand_over(at, key);
        let Some(tenure) = self.tenure_mut(key) else { return };
        if !tenure.is_idle() {
            tenure.touch_if_due(at);
        }
        let Some(commit) = &tenure.commit else { return };
        if commit.until() > at.now {
            return;
        }
        let (stage, is_hopeless) = (commit.stage, at.now >= commit.give_up);
        match stage {
            CommitStage::Sent { ticket, .. } => {
                self.tickets.remove(&ticket);
                self.look_up_commit(at, key);
            }
            CommitStage::LookingUp { ticket, .. } => {
                self.tickets.remove(&ticket);
                self.pause_commit(at, key);
            }
            CommitStage::Pausing { .. } if is_hopeless => self.lose_tenure(at, key, false),
            CommitStage::Pausing { .. } => self.send_commit(at, key),
        }
    }

    pub(crate) fn take_commit_response(
        &mut self,
        at: Moment,
        key: SessionKey,
        ticket: Ticket,
        response: EngineResponse,
    ) {
        let Some(commit) = self.tenure_mut(key).and_then(|tenure| tenure.commit.as_ref()) else { return };
        match (commit.stage, response) {
            (CommitStage::Sent { ticket: pending, .. }, response) if pending == ticket => match response {
                EngineResponse::Committed(sequence) => self.end_commit(at, key, sequence),
                EngineResponse::Refused => self.pause_commit(at, key),
                EngineResponse::Conflict => {
                    self.statistics.conflicts += 1;
                    self.look_up_commit(at, key);
                }
                _ => self.look_up_commit(at, key),
            },
            (CommitStage::LookingUp { ticket: pending, .. }, EngineResponse::Found(found)) if pending == ticket => {
                self.judge_commit(at, key, found.as_ref());
            }
            (CommitStage::LookingUp { ticket: pending, .. }, _) if pending == ticket => self.pause_commit(at, key),
            _ => return,
        }
        self.advance(at, key);
    }

    fn judge_commit(&mut self, at: Moment, key: SessionKey, found: Option<&(Sequence, Bytes)>) {
        match self.commit_outcome(key, found) {
            CommitLookup::NotYet => self.pause_commit(at, key),
            CommitLookup::Newest(sequence) => self.end_commit(at, key, sequence),
            CommitLookup::Replaced => {
                self.release_covered_by_commit(key);
                self.lose_tenure(at, key, true);
            }
            CommitLookup::Lost => self.lose_tenure(at, key, true),
            CommitLookup::Forgotten => self.lose_tenure(at, key, false),
        }
    }

    fn commit_outcome(&mut self, key: SessionKey, found: Option<&(Sequence, Bytes)>) -> CommitLookup {
        let resolves = self.rules.resolves_operations;
        let Some(tenure) = self.tenure_mut(key) else { return CommitLookup::NotYet };
        let (Some(commit), Some((sequence, value))) = (&tenure.commit, found) else { return CommitLookup::NotYet };
        if *sequence <= tenure.sequence {
            return CommitLookup::NotYet;
        }
        let Ok(record) = SessionRecord::decode(&key, value) else {
            self.report_damaged(Register::Session(key));
            return CommitLookup::Forgotten;
        };
        if !resolves {
            return CommitLookup::Lost;
        }
        let version = commit.record.version;
        match record.operation_at(version) {
            Some(operation) if operation != commit.operation => CommitLookup::Lost,
            Some(_) if record.version == version => CommitLookup::Newest(*sequence),
            Some(_) => CommitLookup::Replaced,
            None if record.version < version => CommitLookup::Lost,
            None => CommitLookup::Forgotten,
        }
    }

    fn end_commit(&mut self, at: Moment, key: SessionKey, sequence: Sequence) {
        self.statistics.commits += 1;
        self.release_covered(at, key);
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Phase::Owned(tenure) = &mut session.phase else { return };
        let Some(commit) = tenure.commit.take() else { return };
        session.seen = (sequence, commit.record.version);
        let kind = commit.kind;
        tenure.sequence = sequence;
        tenure.committed = commit.covers;
        tenure.record = commit.record;
        // Reads of state that is committed by now, but taken after this commit was sent, need another commit or the
        // lease.
        tenure.wants_commit |= tenure.held.iter().any(|held| held.change <= tenure.committed);
        if kind != CommitKind::Save {
            self.end_tenure(at, key, kind, sequence);
        } else if let Some(former) = tenure.successor_of.take() {
            self.end_former(at, former);
        }
    }

    /// The commit has taken effect: releases the responses that it covers and those that the lease confirms.
    fn release_covered(&mut self, at: Moment, key: SessionKey) {
        let has_lease = self.has_lease(at);
        self.release_held(key, |commit, held| commit.covers(held) || (has_lease && held.change <= commit.covers));
    }

    fn release_covered_by_commit(&mut self, key: SessionKey) {
        self.release_held(key, Commit::covers);
    }

    fn release_held(&mut self, key: SessionKey, is_good: impl Fn(&Commit, &Held) -> bool) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        let Some(commit) = &tenure.commit else { return };
        let good: Vec<_> = tenure.held.extract_if(.., |held| is_good(commit, held)).collect();
        for held in good {
            self.release(held.request, Outcome::Done);
        }
    }

    /// The last commit of a tenure has taken effect.
    fn end_tenure(&mut self, at: Moment, key: SessionKey, kind: CommitKind, sequence: Sequence) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        // Only for a session that was never stored: no request ran when the commit was sent, so it covered all.
        let held = std::mem::take(&mut tenure.held);
        let record = tenure.record.clone();
        tenure.leaving = None;
        for held in held {
            self.release(held.request, Outcome::Done);
        }
        match kind {
            CommitKind::Save => {}
            CommitKind::HandOver { from, call, to } => {
                self.statistics.given += 1;
                self.answer_hand_over(from, call, HandOverAnswer::Given { sequence, record });
                self.set_elsewhere(at, key, to);
            }
            CommitKind::Free => {
                self.count_freed();
                self.set_phase(key, Phase::Unread);
            }
            CommitKind::End | CommitKind::Rotate => {
                self.end_absent(key);
            }
        }
        self.advance(at, key);
    }

    /// Another node owns the session, or may own it. With `is_certain`, the commit under way, if it is not covered, has
    /// certainly not taken effect and never will.
    pub(crate) fn lose_tenure(&mut self, at: Moment, key: SessionKey, is_certain: bool) {
        self.statistics.lost += 1;
        let Some(tenure) = self.tenure_mut(key) else { return };
        let commit = tenure.commit.take();
        let held = std::mem::take(&mut tenure.held);
        let leaving = tenure.leaving.take();
        let former = tenure.successor_of.take();
        for held in held {
            let is_sent = commit.as_ref().is_some_and(|commit| held.change <= commit.covers);
            let is_unknown = held.has_written && is_sent && !is_certain;
            self.release(held.request, if is_unknown { Outcome::Unknown } else { Outcome::NotDone });
        }
        if let Some(commit) = commit {
            self.forget_ticket(&commit);
        }
        self.set_phase(key, Phase::Unread);
        if let Some(leaving) = leaving {
            self.abandon_leaving(at, &leaving);
        }
        if let Some(former) = former {
            self.keep_former(at, former);
        }
        self.advance(at, key);
    }

    fn forget_ticket(&mut self, commit: &Commit) {
        if let CommitStage::Sent { ticket, .. } | CommitStage::LookingUp { ticket, .. } = commit.stage {
            self.tickets.remove(&ticket);
        }
    }
}
