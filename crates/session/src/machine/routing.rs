//! Requests for sessions that other nodes own: forwarded to the owner, or the reason to request the session from it.

use breme_base::Instant;

use super::Machine;
use super::messages::{Access, ForwardResult, Moment, Outcome, Output, RanOn, Refusal, RequestNumber};
use super::nodes::OwnerStatus;
use super::requests::Stage;
use super::sessions::{Phase, Session, Streak};
use crate::id::SessionKey;
use crate::name::{NodeName, Owner};
use crate::settings::Route;

impl Machine {
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
            self.set_elsewhere(at, key, owner);
        }
        self.advance(at, key);
    }

    /// The owner is reachable: requests the session from it, or forwards the requests.
    fn route_to(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let has_refused = session.refused_by.take() == Some(owner);
        let is_needed = self.is_needed_here(key);
        let is_wanted = is_needed || (self.drain.is_none() && self.is_preferred_here(at, key));
        if is_wanted && !has_refused && self.membership.member().is_some() {
            self.request_hand_over(at, key, owner);
        } else if is_needed {
            self.pause_session(at, key);
        } else {
            self.forward_to_owner(at, key, owner);
        }
    }

    fn is_preferred_here(&self, at: Moment, key: SessionKey) -> bool {
        let Some(session) = self.sessions.get(&key).filter(|session| session.asks_from <= at.now) else { return false };
        let forwarded = session.streak.length;
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

    fn forward_to_owner(&mut self, at: Moment, key: SessionKey, owner: Owner) {
        let queue = self.take_queue(key);
        if let Some(session) = self.sessions.get_mut(&key) {
            session.tries = 0;
        }
        self.set_elsewhere(at, key, owner);
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
        let is_reader = request.access == Access::Shared;
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
}
