//! The node's own lease: it joins, renews, notices that it was fenced, and leaves.

use breme_base::Instant;

use super::agenda::Timer;
use super::messages::{Event, Moment, Ticket};
use super::{Machine, Requester};
use crate::engine::{EngineRequest, EngineResponse, Register, Sequence};
use crate::name::{Incarnation, Owner};
use crate::record::{NodeRecord, NodeState};
use crate::settings::Reads;

#[derive(Clone, Debug, Hash)]
pub(crate) struct Membership {
    nonce: u64,
    /// The current life, or the last one; 0 before the first.
    incarnation: Incarnation,
    /// The highest incarnation number that a life of this process tried to take.
    highest: u64,
    lost: u64,
    stage: MembershipStage,
    /// Sequence of this node's record as last written by this node.
    sequence: Sequence,
    renewal: u64,
    lease_end: Instant,
    /// An earlier process of the same name, and since when its record has been seen unchanged.
    former: Option<Former>,
    /// A process that has exited, according to its supervisor.
    exited: Option<u64>,
    deadline: Instant,
    tries: u32,
}

#[derive(Clone, Debug, Hash)]
struct Former {
    sequence: Sequence,
    since: Instant,
    nonce: u64,
    /// It has been reported that the process still renews its lease.
    is_reported: bool,
}

#[derive(Clone, Debug, Hash)]
enum MembershipStage {
    /// Not a member, and nothing under way.
    Outside,
    /// Not a member; reads its record.
    Reading(Ticket),
    /// Not a member; writes its record.
    Registering { ticket: Ticket, sent: Instant, record: NodeRecord },
    /// A member, until the next renewal.
    Member,
    /// A member, with a renewal under way.
    Renewing(Renewal),
    /// Has left for good.
    Left,
}

#[derive(Clone, Debug, Hash)]
struct Renewal {
    ticket: Ticket,
    is_read: bool,
    /// When it was first sent, and when last.
    first_sent: Instant,
    last_sent: Instant,
    /// Since when the register has been absent, or older than this node has written it.
    lost_since: Option<Instant>,
    record: NodeRecord,
}

impl Membership {
    pub(crate) const fn new(nonce: u64) -> Self {
        Self {
            nonce,
            incarnation: Incarnation { number: 0, nonce },
            highest: 0,
            lost: 0,
            stage: MembershipStage::Outside,
            sequence: Sequence::ABSENT,
            renewal: 0,
            lease_end: Instant::ZERO,
            former: None,
            exited: None,
            deadline: Instant::ZERO,
            tries: 0,
        }
    }

    pub(crate) const fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(crate) const fn member(&self) -> Option<Incarnation> {
        match self.stage {
            MembershipStage::Member | MembershipStage::Renewing(_) => Some(self.incarnation),
            _ => None,
        }
    }

    pub(crate) const fn has_left(&self) -> bool {
        matches!(self.stage, MembershipStage::Left)
    }

    pub(crate) const fn lease_end(&self) -> Instant {
        self.lease_end
    }

    pub(crate) const fn last_incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(crate) const fn set_exited(&mut self, nonce: u64) {
        self.exited = Some(nonce);
    }
}

impl Machine {
    /// The identity under which this node owns sessions.
    pub(crate) fn myself(&self) -> Option<Owner> {
        self.membership.member().map(|incarnation| Owner { node: self.me, incarnation })
    }

    /// Whether no other node can have claimed a session of this one before `at`.
    pub(crate) fn has_lease(&self, at: Moment) -> bool {
        let is_in_time = at.now < self.membership.lease_end || !self.rules.checks_lease_after_snapshot;
        self.settings.reads == Reads::Leased && self.membership.member().is_some() && is_in_time
    }

    fn set_lease_timer(&mut self, deadline: Instant) {
        self.agenda.set(Timer::Membership, self.membership.deadline, deadline);
        self.membership.deadline = deadline;
    }

    pub(crate) fn ring_membership(&mut self, at: Moment) {
        self.membership.deadline = Instant::FAR;
        match &self.membership.stage {
            MembershipStage::Outside => self.read_own_record(at),
            MembershipStage::Reading(ticket) | MembershipStage::Registering { ticket, .. } => {
                self.tickets.remove(ticket);
                self.pause_joining(at);
            }
            MembershipStage::Member => self.renew(at),
            MembershipStage::Renewing(renewal) => {
                let ticket = renewal.ticket;
                self.tickets.remove(&ticket);
                if renewal.is_read { self.resend_renewal(at) } else { self.look_up_renewal(at) }
            }
            MembershipStage::Left => {}
        }
    }

    pub(crate) fn take_lease_response(&mut self, at: Moment, ticket: Ticket, response: EngineResponse) {
        match (&self.membership.stage, response) {
            (MembershipStage::Reading(pending), EngineResponse::Found(found)) if *pending == ticket => {
                self.judge_own(at, found);
            }
            (MembershipStage::Registering { ticket: pending, sent, .. }, EngineResponse::Committed(sequence))
                if *pending == ticket =>
            {
                let sent = *sent;
                self.become_member(at, sequence, sent + self.settings.lease_trusted());
            }
            (MembershipStage::Reading(pending) | MembershipStage::Registering { ticket: pending, .. }, _)
                if *pending == ticket =>
            {
                self.pause_joining(at);
            }
            (MembershipStage::Renewing(renewal), response) if renewal.ticket == ticket => {
                let renewal = renewal.clone();
                self.judge_renewal(at, &renewal, response);
            }
            _ => {}
        }
    }

    fn read_own_record(&mut self, at: Moment) {
        let ticket =
            self.request_engine(Requester::Membership, EngineRequest::Read { register: Register::Node(self.me) });
        self.membership.stage = MembershipStage::Reading(ticket);
        self.set_lease_timer(at.now + self.settings.response_max);
    }

    fn pause_joining(&mut self, at: Moment) {
        self.membership.stage = MembershipStage::Outside;
        let pause = self.settings.pause(self.membership.tries);
        self.membership.tries += 1;
        self.set_lease_timer(at.now + pause);
    }

    /// Decides from the record found (which may be stale) how to join.
    fn judge_own(&mut self, at: Moment, found: Option<(Sequence, bytes::Bytes)>) {
        let Some((sequence, value)) = found else {
            self.register(at, Sequence::ABSENT, 0);
            return;
        };
        let Ok(record) = NodeRecord::decode(&self.me, &value) else {
            self.report_damaged(Register::Node(self.me));
            self.pause_joining(at);
            return;
        };
        let Incarnation { number, nonce } = record.incarnation;
        if record.state == NodeState::Over {
            self.register(at, sequence, number);
        } else if nonce == self.membership.nonce && number > self.membership.lost {
            // This process's own record, whose response was lost. Renew its lease before trusting it.
            self.membership.incarnation = record.incarnation;
            self.membership.renewal = record.renewal;
            self.become_member(at, sequence, Instant::ZERO);
        } else if self.is_former_over(at, sequence, &record) {
            self.register(at, sequence, number);
        } else {
            self.pause_joining(at);
        }
    }

    /// Whether the process that wrote the record, or the lost life of this one, can no longer trust its lease.
    fn is_former_over(&mut self, at: Moment, sequence: Sequence, record: &NodeRecord) -> bool {
        let nonce = record.incarnation.nonce;
        if self.membership.exited == Some(nonce) {
            return true;
        }
        let mut is_reported = false;
        match &self.membership.former {
            Some(former) if former.sequence == sequence => {
                return at.now >= former.since + self.settings.lease_waited();
            }
            Some(former) if former.sequence > sequence => return false,
            Some(former) if former.nonce == nonce && nonce != self.membership.nonce => {
                if !former.is_reported {
                    self.emit(Event::NameTaken { address: record.address.clone() });
                }
                is_reported = true;
            }
            _ => {}
        }
        self.membership.former = Some(Former { sequence, since: at.now, nonce, is_reported });
        false
    }

    fn register(&mut self, at: Moment, expected: Sequence, number: u64) {
        let number = number.max(self.membership.highest) + 1;
        self.membership.highest = number;
        self.membership.incarnation = Incarnation { number, nonce: self.membership.nonce };
        self.membership.renewal = 0;
        let record = self.own_record(self.active_state());
        let ticket = self.write_own(expected, &record);
        self.membership.stage = MembershipStage::Registering { ticket, sent: at.now, record };
        self.set_lease_timer(at.now + self.settings.response_max);
    }

    const fn active_state(&self) -> NodeState {
        if self.drain.is_some() { NodeState::Draining } else { NodeState::Active }
    }

    fn own_record(&self, state: NodeState) -> NodeRecord {
        NodeRecord {
            incarnation: self.membership.incarnation,
            state,
            renewal: self.membership.renewal,
            address: self.settings.address.clone(),
        }
    }

    fn write_own(&mut self, expected: Sequence, record: &NodeRecord) -> Ticket {
        let request = EngineRequest::CompareAndSet {
            register: Register::Node(self.me),
            expected,
            value: record.encode(&self.me),
            time_to_live: None,
        };
        self.request_engine(Requester::Membership, request)
    }

    fn become_member(&mut self, at: Moment, sequence: Sequence, lease_end: Instant) {
        self.membership.sequence = sequence;
        self.membership.lease_end = lease_end;
        self.membership.former = None;
        self.membership.tries = 0;
        self.membership.stage = MembershipStage::Member;
        self.emit(Event::Joined(self.membership.incarnation));
        if lease_end > at.now {
            self.set_lease_timer(at.now + self.settings.renew_every);
        } else {
            self.renew(at);
        }
        self.advance_waiting(at);
    }

    pub(crate) fn renew(&mut self, at: Moment) {
        if !matches!(self.membership.stage, MembershipStage::Member) {
            return;
        }
        self.membership.renewal += 1;
        let state =
            if self.drain.as_ref().is_some_and(|drain| drain.is_done) { NodeState::Over } else { self.active_state() };
        let record = self.own_record(state);
        let ticket = self.write_own(self.membership.sequence, &record);
        let (first_sent, last_sent) = (at.now, at.now);
        self.membership.stage = MembershipStage::Renewing(Renewal {
            ticket,
            is_read: false,
            first_sent,
            last_sent,
            lost_since: None,
            record,
        });
        self.set_lease_timer(at.now + self.settings.response_max);
    }

    fn judge_renewal(&mut self, at: Moment, renewal: &Renewal, response: EngineResponse) {
        match response {
            EngineResponse::Committed(sequence) => self.end_renewal(at, renewal, sequence, renewal.last_sent),
            EngineResponse::Found(found) => self.judge_looked_up(at, renewal, found),
            EngineResponse::Conflict | EngineResponse::Unknown if !renewal.is_read => self.look_up_renewal(at),
            _ => self.set_lease_timer(at.now + self.settings.retry_pause),
        }
    }

    fn look_up_renewal(&mut self, at: Moment) {
        let ticket =
            self.request_engine(Requester::Membership, EngineRequest::Read { register: Register::Node(self.me) });
        if let MembershipStage::Renewing(renewal) = &mut self.membership.stage {
            renewal.ticket = ticket;
            renewal.is_read = true;
        }
        self.set_lease_timer(at.now + self.settings.response_max);
    }

    fn judge_looked_up(&mut self, at: Moment, renewal: &Renewal, found: Option<(Sequence, bytes::Bytes)>) {
        let is_older = found.as_ref().is_none_or(|(sequence, _)| *sequence < self.membership.sequence);
        let newer = found.filter(|(sequence, _)| *sequence > self.membership.sequence);
        let Some((sequence, value)) = newer else {
            // Not written yet; a retry of the same record can take effect only once. Pause first, since the read may be
            // stale.
            self.set_lease_timer(at.now + self.settings.retry_pause);
            self.note_loss(at, is_older);
            return;
        };
        if NodeRecord::decode(&self.me, &value).is_ok_and(|record| record == renewal.record) {
            // The first attempt may be the one that took effect.
            self.end_renewal(at, renewal, sequence, renewal.first_sent);
        } else {
            self.lose_life(at);
        }
    }

    /// The engine shows less than it has confirmed. If it does so for longer than a read may be stale, it has lost its
    /// data, so this life can never be renewed.
    fn note_loss(&mut self, at: Moment, is_older: bool) {
        let MembershipStage::Renewing(renewal) = &mut self.membership.stage else { return };
        renewal.lost_since = is_older.then_some(renewal.lost_since.unwrap_or(at.now));
        let limit = self.settings.lease_waited() + self.settings.tombstone;
        if renewal.lost_since.is_some_and(|since| at.now >= since + limit) {
            self.emit(Event::DataLost(self.membership.incarnation));
            self.forget_registers();
            self.end_life(at);
        }
    }

    fn resend_renewal(&mut self, at: Moment) {
        let MembershipStage::Renewing(renewal) = &self.membership.stage else { return };
        let mut renewal = renewal.clone();
        renewal.ticket = self.write_own(self.membership.sequence, &renewal.record);
        renewal.is_read = false;
        renewal.last_sent = at.now;
        self.membership.stage = MembershipStage::Renewing(renewal);
        self.set_lease_timer(at.now + self.settings.response_max);
    }

    fn end_renewal(&mut self, at: Moment, renewal: &Renewal, sequence: Sequence, sent: Instant) {
        self.membership.sequence = sequence;
        if renewal.record.state == NodeState::Over {
            self.membership.stage = MembershipStage::Left;
            self.membership.lease_end = Instant::ZERO;
            self.set_lease_timer(Instant::FAR);
            self.emit(Event::Left);
            self.advance_waiting(at);
            return;
        }
        self.membership.stage = MembershipStage::Member;
        self.membership.lease_end = self.membership.lease_end.max(sent + self.settings.lease_trusted());
        self.set_lease_timer(sent.max(at.now) + self.settings.renew_every);
        if renewal.record.state != self.active_state() {
            self.renew(at);
        }
    }

    /// Another node seems to have changed this node's record; a renewal will show.
    pub(crate) fn take_own_hint(&mut self, at: Moment, sequence: Sequence) {
        if sequence > self.membership.sequence {
            self.renew(at);
        }
    }

    /// Another node has ended this life, or another process uses this node's name.
    fn lose_life(&mut self, at: Moment) {
        self.statistics.fenced += 1;
        self.emit(Event::Fenced(self.membership.incarnation));
        self.end_life(at);
    }

    /// Drops what this life owned, and joins again.
    fn end_life(&mut self, at: Moment) {
        self.membership.lost = self.membership.incarnation.number;
        self.membership.stage = MembershipStage::Outside;
        self.membership.lease_end = Instant::ZERO;
        self.membership.tries = 0;
        self.drop_all_sessions(at);
        self.set_lease_timer(at.now);
    }
}
