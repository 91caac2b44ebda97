//! Sessions handed over between live nodes: one request, one commit by the owner, one response.

use breme_base::Instant;

use super::Machine;
use super::messages::{Call, HandOverAnswer, HandOverRequest, Moment, Output};
use super::sessions::{Phase, Session, Wanted};
use super::tenure::Leaving;
use crate::id::SessionKey;
use crate::name::{NodeName, Owner};
use crate::record::SessionState;

impl Machine {
    pub(crate) fn request_hand_over(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        let Some(to) = self.myself() else { return };
        let call = Call(self.number());
        self.calls.insert(call, key);
        self.set_phase(key, Phase::Requesting { call, until: at.now + self.settings.response_max, owner });
        let question = HandOverRequest { session: key, to };
        self.outputs.push(Output::RequestHandOver {
            call,
            to: owner.node,
            address: self.address(&owner.node),
            question,
        });
    }

    /// Another node requests a session.
    pub(crate) fn take_hand_over_request(&mut self, at: Moment, from: NodeName, call: Call, question: HandOverRequest) {
        let HandOverRequest { session: key, to } = question;
        let wanted = Wanted { from, call, to, until: at.now + self.settings.response_max };
        let is_known = self.sessions.contains_key(&key);
        if to.node != from || (!is_known && !self.makes_room()) {
            self.refuse_wanted(Some(wanted));
            return;
        }
        // The requesting node has read that this node is the owner. If the session is not in memory, read its record
        // and claim it first.
        let session = self.sessions.entry(key).or_insert_with(|| Session::new(false));
        match session.phase {
            Phase::Unread | Phase::Reading { .. } | Phase::Pausing { .. } if session.wanted.is_none() => {
                session.wanted = Some(wanted);
            }
            Phase::Elsewhere { .. } => {
                session.wanted = Some(wanted);
                self.set_phase(key, Phase::Unread);
            }
            _ => self.promise_hand_over(at, key, wanted),
        }
        self.advance(at, key);
    }

    /// Hands the session over once the requests waiting here have run, if this node owns it.
    pub(crate) fn promise_hand_over(&mut self, at: Moment, key: SessionKey, wanted: Wanted) {
        let Wanted { from, call, to, until } = wanted;
        let grants_left = self.sessions.get(&key).map_or(0, |session| session.queue.len());
        let tenure = self.tenure_mut(key).filter(|tenure| tenure.can_be_given() && at.now < tenure.expires());
        // Refused at once if the release delay outlasts the wait: the other node forwards its requests meanwhile.
        let Some(tenure) = tenure.filter(|tenure| at.now.max(tenure.release_at()) < until) else {
            self.refuse_wanted(Some(wanted));
            return;
        };
        let next_look = next_look(at.now, tenure.release_at(), until);
        tenure.leaving = Some(Box::new(Leaving::HandOver { from, call, to, until, next_look, grants_left }));
    }

    pub(crate) fn refuse_wanted(&mut self, wanted: Option<Wanted>) {
        if let Some(Wanted { from, call, .. }) = wanted {
            self.answer_hand_over(from, call, HandOverAnswer::Refused);
        }
    }

    /// At a deadline: the release delay may have passed, or the requesting node has given up.
    pub(crate) fn look_at_hand_over(&mut self, at: Moment, key: SessionKey) {
        let Some(tenure) = self.tenure_mut(key) else { return };
        let release = tenure.release_at();
        if tenure.is_ending() {
            return;
        }
        let Some(Leaving::HandOver { until, next_look: look, .. }) = tenure.leaving.as_deref_mut() else { return };
        if at.now.max(release) < *until {
            *look = next_look(at.now, release, *until);
        } else if let Some(leaving) = tenure.leaving.take() {
            self.abandon_hand_over(&leaving);
        }
    }

    pub(crate) fn abandon_hand_over(&mut self, leaving: &Leaving) {
        if let Leaving::HandOver { from, call, .. } = leaving {
            self.answer_hand_over(*from, *call, HandOverAnswer::Refused);
        }
    }

    pub(crate) fn answer_hand_over(&mut self, to: NodeName, call: Call, answer: HandOverAnswer) {
        self.outputs.push(Output::Answer { to, call, answer });
    }

    /// A response counts only while its call is open, and only for this life.
    pub(crate) fn take_hand_over_answer(&mut self, at: Moment, call: Call, answer: HandOverAnswer) {
        let Some(key) = self.calls.remove(&call) else { return };
        let me = self.myself().map(SessionState::Owned);
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let Phase::Requesting { call: pending, owner, .. } = session.phase else { return };
        if pending != call {
            return;
        }
        match answer {
            HandOverAnswer::Given { sequence, record } if me == Some(record.state) && sequence > session.seen.0 => {
                self.statistics.taken += 1;
                self.install(at, key, sequence, record);
            }
            HandOverAnswer::Given { .. } => self.set_phase(key, Phase::Unread),
            HandOverAnswer::Refused => {
                session.refuse(owner, at.now + self.settings.release_delay);
                self.set_phase(key, Phase::Unread);
            }
        }
        self.advance(at, key);
    }
}

/// When to look again: at the end of the release delay, or when the requesting node gives up.
fn next_look(now: Instant, release: Instant, until: Instant) -> Instant {
    if release > now { release.min(until) } else { until }
}
