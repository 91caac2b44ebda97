//! What this node knows of the others: whether they may still serve their sessions.

use std::collections::BTreeSet;

use breme_base::Instant;
use bytes::Bytes;

use super::agenda::Timer;
use super::messages::{Event, Moment, Ticket};
use super::requests::Stage;
use super::{Machine, Requester};
use crate::engine::{EngineRequest, EngineResponse, Register, Sequence};
use crate::id::SessionKey;
use crate::name::{NodeName, Owner};
use crate::record::{NodeRecord, NodeState};

#[derive(Clone, Debug, Hash)]
pub(crate) struct Node {
    sequence: Sequence,
    record: Option<NodeRecord>,
    /// When the newest known record was first seen; none if none was ever read.
    observed: Option<Instant>,
    question: Option<Question>,
    /// A process that has exited, according to its supervisor.
    exited: Option<u64>,
    /// No requests are forwarded to it before then, unless it renews its lease.
    unreachable_until: Instant,
    /// Sessions that wait for news of this node.
    awaiting: BTreeSet<SessionKey>,
    deadline: Instant,
}

#[derive(Clone, Debug, Hash)]
enum Question {
    Read(Ticket),
    /// Writing the record that ends its life.
    Fence(Ticket, NodeRecord),
}

impl Default for Node {
    fn default() -> Self {
        Self {
            sequence: Sequence::ABSENT,
            record: None,
            observed: None,
            question: None,
            exited: None,
            unreachable_until: Instant::ZERO,
            awaiting: BTreeSet::new(),
            deadline: Instant::FAR,
        }
    }
}

/// Whether an owner may still serve its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerStatus {
    /// It may serve them.
    Serving { is_draining: bool },
    /// It may, but cannot currently be reached.
    Unreachable,
    /// Its lease has expired, so its life can be ended.
    Silent,
    /// Its life has ended.
    Over,
    /// Nothing of this life is known yet.
    Unknown,
}

impl Node {
    fn lease_end(&self, waited: std::time::Duration) -> Instant {
        self.observed.map_or(Instant::FAR, |observed| observed + waited)
    }

    fn has_exited(&self, nonce: u64) -> bool {
        self.exited == Some(nonce)
    }
}

impl Machine {
    pub(crate) fn owner_status(&self, at: Moment, owner: &Owner) -> OwnerStatus {
        if owner.node == self.me {
            let last = self.membership.last_incarnation();
            return if owner.incarnation.number <= last.number { OwnerStatus::Over } else { OwnerStatus::Unknown };
        }
        let Some(node) = self.nodes.get(&owner.node) else { return OwnerStatus::Unknown };
        if node.observed.is_none() {
            return OwnerStatus::Unknown;
        }
        let is_silent =
            node.lease_end(self.settings.lease_waited()) <= at.now || node.has_exited(owner.incarnation.nonce);
        let is_draining = match &node.record {
            // Its register has been lost. Its life ends as usual: after a lease.
            None => false,
            Some(record) if record.incarnation.number > owner.incarnation.number => return OwnerStatus::Over,
            Some(record) if record.incarnation.number < owner.incarnation.number => return OwnerStatus::Unknown,
            Some(record) if record.incarnation.nonce != owner.incarnation.nonce => return OwnerStatus::Over,
            Some(record) => match record.state {
                NodeState::Over => return OwnerStatus::Over,
                NodeState::Draining => true,
                NodeState::Active => false,
            },
        };
        let is_unreachable = node.unreachable_until > at.now;
        if !self.rules.waits_for_lease && is_unreachable {
            return OwnerStatus::Over;
        }
        match (is_silent, is_unreachable) {
            (true, _) => OwnerStatus::Silent,
            (false, true) => OwnerStatus::Unreachable,
            (false, false) => OwnerStatus::Serving { is_draining },
        }
    }

    pub(crate) fn address(&self, name: &NodeName) -> String {
        let record = self.nodes.get(name).and_then(|node| node.record.as_ref());
        record.map_or_else(String::new, |record| record.address.clone())
    }

    /// The node that would take a session from this one; the same for all callers (rendezvous hashing).
    pub(crate) fn other_node(&self, at: Moment, key: &SessionKey) -> Option<NodeName> {
        let takes = |name: &NodeName, node: &Node| {
            let record = node.record.as_ref()?;
            let owner = Owner { node: *name, incarnation: record.incarnation };
            (self.owner_status(at, &owner) == OwnerStatus::Serving { is_draining: false }).then_some(*name)
        };
        let weight = |name: &NodeName| {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(key.as_bytes());
            hasher.update(name.as_bytes());
            hasher.finalize()
        };
        self.nodes.iter().filter_map(|(name, node)| takes(name, node)).max_by_key(weight)
    }

    /// Makes a session wait for news of its owner's node, at the latest until `until`.
    pub(crate) fn await_node(&mut self, at: Moment, key: SessionKey, owner: &Owner) -> Instant {
        if let Some(node) = self.node_mut(owner.node) {
            node.awaiting.insert(key);
        }
        self.attend(at, owner);
        let lease_end = self.nodes.get(&owner.node).map(|node| node.lease_end(self.settings.lease_waited()));
        lease_end.filter(|end| *end > at.now).unwrap_or(Instant::FAR)
    }

    fn node_mut(&mut self, name: NodeName) -> Option<&mut Node> {
        let has_place = self.nodes.len() < self.settings.nodes_max || self.nodes.contains_key(&name);
        if name == self.me || !(has_place || self.forget_ended_node()) {
            return None;
        }
        Some(self.nodes.entry(name).or_default())
    }

    /// Makes room for a new node: names of nodes that have left for good are read again if a session needs them.
    fn forget_ended_node(&mut self) -> bool {
        let is_over = |node: &Node| node.record.as_ref().is_some_and(|record| record.state == NodeState::Over);
        let is_unused = |node: &Node| node.question.is_none() && node.awaiting.is_empty();
        let found = self.nodes.iter().find(|(_, node)| is_over(node) && is_unused(node)).map(|(name, _)| *name);
        found.map(|name| self.forget_node(name)).is_some()
    }

    fn forget_node(&mut self, name: NodeName) {
        let Some(node) = self.nodes.remove(&name) else { return };
        self.agenda.set(Timer::Node(name), node.deadline, Instant::FAR);
        if let Some(Question::Read(ticket) | Question::Fence(ticket, _)) = node.question {
            self.tickets.remove(&ticket);
        }
    }

    /// What was known of the engine's registers is no longer true: their sequences have begun anew.
    pub(crate) fn forget_registers(&mut self) {
        for name in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.forget_node(name);
        }
        for session in self.sessions.values_mut() {
            session.seen = (Sequence::ABSENT, 0);
        }
    }

    /// Obtains news of an owner: ends its life if its lease has expired, else reads its record.
    fn attend(&mut self, at: Moment, owner: &Owner) {
        let is_silent = self.owner_status(at, owner) == OwnerStatus::Silent;
        let Some(node) = self.node_mut(owner.node) else { return };
        if node.question.is_some() {
            return;
        }
        if !is_silent {
            self.read_node(at, owner.node);
            return;
        }
        let over = node.record.clone().map_or_else(
            || NodeRecord {
                incarnation: owner.incarnation,
                state: NodeState::Over,
                renewal: 0,
                address: String::new(),
            },
            |record| NodeRecord { state: NodeState::Over, ..record },
        );
        let request = EngineRequest::CompareAndSet {
            register: Register::Node(owner.node),
            expected: node.sequence,
            value: over.encode(&owner.node),
            time_to_live: None,
        };
        self.send_question(at, owner.node, request, |ticket| Question::Fence(ticket, over));
    }

    fn read_node(&mut self, at: Moment, name: NodeName) {
        self.send_question(at, name, EngineRequest::Read { register: Register::Node(name) }, Question::Read);
    }

    fn send_question(
        &mut self,
        at: Moment,
        name: NodeName,
        request: EngineRequest,
        question: impl FnOnce(Ticket) -> Question,
    ) {
        let ticket = self.request_engine(Requester::Node(name), request);
        let deadline = at.now + self.settings.response_max;
        if let Some(node) = self.nodes.get_mut(&name) {
            node.question = Some(question(ticket));
            self.agenda.set(Timer::Node(name), node.deadline, deadline);
            node.deadline = deadline;
        }
    }

    fn take_question_about(&mut self, name: NodeName) -> Option<Question> {
        let node = self.nodes.get_mut(&name)?;
        self.agenda.set(Timer::Node(name), node.deadline, Instant::FAR);
        node.deadline = Instant::FAR;
        node.question.take()
    }

    /// No response about a node arrived in time, or its lease may have expired.
    pub(crate) fn ring_node(&mut self, at: Moment, name: NodeName) {
        match self.take_question_about(name) {
            Some(Question::Fence(ticket, _)) => {
                self.tickets.remove(&ticket);
                self.read_node(at, name);
            }
            Some(Question::Read(ticket)) => {
                self.tickets.remove(&ticket);
            }
            None => self.end_silent_life(at, name),
        }
        self.watch_lease(at, name);
    }

    /// Ends the life of a node with forwarded requests as soon as its lease has expired: if all clients of its sessions
    /// wait, no other request makes this node look for a new owner.
    pub(crate) fn watch_lease(&mut self, at: Moment, name: NodeName) {
        let (waited, pause) = (self.settings.lease_waited(), self.settings.response_max);
        let Some(node) = self.nodes.get(&name).filter(|node| node.deadline == Instant::FAR) else { return };
        let lease_end = node.lease_end(waited);
        if self.life(name).is_none() || !self.has_forwarded_to(name) {
            return;
        }
        // The last request to the engine failed: retry after a pause.
        let deadline = if lease_end > at.now { lease_end } else { at.now + pause };
        self.agenda.set(Timer::Node(name), Instant::FAR, deadline);
        if let Some(node) = self.nodes.get_mut(&name) {
            node.deadline = deadline;
        }
    }

    fn end_silent_life(&mut self, at: Moment, name: NodeName) {
        let owner = self.life(name).filter(|owner| self.owner_status(at, owner) == OwnerStatus::Silent);
        if let Some(owner) = owner.filter(|_| self.has_forwarded_to(name)) {
            self.attend(at, &owner);
        }
    }

    pub(crate) fn life(&self, name: NodeName) -> Option<Owner> {
        let record = self.nodes.get(&name)?.record.as_ref()?;
        (record.state != NodeState::Over).then_some(Owner { node: name, incarnation: record.incarnation })
    }

    fn has_forwarded_to(&self, name: NodeName) -> bool {
        self.requests.values().any(|request| request.stage == Stage::Forwarded(name))
    }

    pub(crate) fn take_node_response(&mut self, at: Moment, name: NodeName, ticket: Ticket, response: EngineResponse) {
        let is_pending = |node: &Node| match &node.question {
            Some(Question::Read(pending) | Question::Fence(pending, _)) => *pending == ticket,
            None => false,
        };
        if !self.nodes.get(&name).is_some_and(is_pending) {
            return;
        }
        match (self.take_question_about(name), response) {
            (Some(Question::Fence(_, record)), EngineResponse::Committed(sequence)) => {
                self.statistics.fenced_others += 1;
                self.emit(Event::FencedPeer(Owner { node: name, incarnation: record.incarnation }));
                self.observe(at, name, sequence, record);
            }
            // It has renewed its lease, or another node was faster, or the outcome is unknown.
            (Some(Question::Fence(..)), _) => self.read_node(at, name),
            (Some(Question::Read(_)), EngineResponse::Found(Some((sequence, value)))) => {
                self.observe_bytes(at, name, sequence, &value);
            }
            (Some(Question::Read(_)), EngineResponse::Found(None)) => self.observe_absence(at, name),
            // Waiting sessions will query again.
            _ => {}
        }
        self.watch_lease(at, name);
    }

    pub(crate) fn observe_bytes(&mut self, at: Moment, name: NodeName, sequence: Sequence, value: &Bytes) {
        match NodeRecord::decode(&name, value) {
            Ok(record) => self.observe(at, name, sequence, record),
            Err(_) => self.report_damaged(Register::Node(name)),
        }
    }

    fn observe_absence(&mut self, at: Moment, name: NodeName) {
        let Some(node) = self.node_mut(name) else { return };
        if node.observed.is_none() {
            node.observed = Some(at.now);
            self.wake_sessions_of(at, name);
        }
    }

    fn observe(&mut self, at: Moment, name: NodeName, sequence: Sequence, record: NodeRecord) {
        let Some(node) = self.node_mut(name) else { return };
        if sequence <= node.sequence {
            return; // stale
        }
        let has_exited = node.has_exited(record.incarnation.nonce) && record.state != NodeState::Over;
        let owner = Owner { node: name, incarnation: record.incarnation };
        node.sequence = sequence;
        node.record = Some(record);
        node.observed = Some(at.now);
        node.unreachable_until = Instant::ZERO;
        if has_exited {
            self.attend(at, &owner);
        }
        self.wake_sessions_of(at, name);
    }

    fn wake_sessions_of(&mut self, at: Moment, name: NodeName) {
        let Some(node) = self.nodes.get_mut(&name) else { return };
        for key in std::mem::take(&mut node.awaiting) {
            self.end_awaiting(at, key);
        }
    }

    pub(crate) fn take_exit(&mut self, at: Moment, name: NodeName, nonce: u64) {
        if name == self.me {
            self.membership.set_exited(nonce);
            return;
        }
        let Some(node) = self.node_mut(name) else { return };
        node.exited = Some(nonce);
        match &node.record {
            Some(record) if record.incarnation.nonce == nonce => {
                let owner = Owner { node: name, incarnation: record.incarnation };
                self.attend(at, &owner);
            }
            _ if node.question.is_none() => self.read_node(at, name),
            _ => {}
        }
        self.wake_sessions_of(at, name);
    }

    pub(crate) fn note_unreachable(&mut self, at: Moment, name: NodeName) {
        let until = at.now + self.settings.renew_every;
        if let Some(node) = self.node_mut(name) {
            node.unreachable_until = until;
        }
    }
}
