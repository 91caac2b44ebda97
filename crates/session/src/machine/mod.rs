//! The ownership protocol as a state machine. The crate's documentation describes it.

mod agenda;
mod claims;
mod commits;
mod ends;
mod evictions;
mod hand_overs;
mod hints;
mod membership;
mod messages;
mod nodes;
mod owner_lookup;
mod requests;
mod routing;
mod sessions;
mod statistics;
mod tenure;
mod turns;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use breme_base::Instant;

pub use self::messages::{
    Access, Call, Change, Event, ForwardResult, HandOverAnswer, HandOverRequest, Input, Moment, Outcome, Output, RanOn,
    Refusal, RequestNumber, SessionTarget, Ticket,
};
pub use self::statistics::{Gauges, Statistics};

use self::agenda::{Agenda, Timer};
use self::ends::Drain;
use self::evictions::Room;
use self::membership::Membership;
use self::nodes::Node;
use self::requests::Request;
use self::sessions::Session;
use crate::engine::{EngineRequest, EngineResponse, Register};
use crate::id::SessionKey;
use crate::name::{Incarnation, NodeName};
use crate::record::OperationId;
use crate::settings::{Rules, Settings, SettingsError};

/// One node's part in the ownership protocol. Performs no I/O and reads no clock: the same inputs give the same
/// outputs.
#[derive(Clone, Debug)]
pub struct Machine {
    settings: Arc<Settings>,
    rules: Rules,
    me: NodeName,
    membership: Membership,
    nodes: BTreeMap<NodeName, Node>,
    sessions: BTreeMap<SessionKey, Session>,
    /// Number of sessions that this node owns.
    owned: usize,
    room: Room,
    requests: BTreeMap<RequestNumber, Request>,
    /// Who awaits each response of the engine.
    tickets: BTreeMap<Ticket, Requester>,
    /// The session of each call to another node.
    calls: BTreeMap<Call, SessionKey>,
    agenda: Agenda,
    /// Numbers tickets, calls, tenures and operations.
    last: u64,
    drain: Option<Drain>,
    statistics: Statistics,
    outputs: Vec<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Requester {
    Membership,
    Node(NodeName),
    Session(SessionKey),
}

impl Machine {
    /// Creates the machine of the node `me` in this process, with a random `nonce`. It joins the cluster with its first
    /// [`Input::Time`].
    ///
    /// # Errors
    ///
    /// If the settings contradict each other.
    pub fn new(settings: Settings, me: NodeName, nonce: u64) -> Result<Self, SettingsError> {
        Self::with_rules(settings, Rules::default(), me, nonce)
    }

    /// Like `new`, with some rules disabled, to test checkers.
    #[doc(hidden)]
    pub fn with_rules(settings: Settings, rules: Rules, me: NodeName, nonce: u64) -> Result<Self, SettingsError> {
        settings.check()?;
        let mut agenda = Agenda::default();
        agenda.set(Timer::Membership, Instant::FAR, Instant::ZERO);
        Ok(Self {
            settings: Arc::new(settings),
            rules,
            me,
            membership: Membership::new(nonce),
            nodes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            owned: 0,
            room: Room::default(),
            requests: BTreeMap::new(),
            tickets: BTreeMap::new(),
            calls: BTreeMap::new(),
            agenda,
            last: 0,
            drain: None,
            statistics: Statistics::default(),
            outputs: Vec::new(),
        })
    }

    /// Handles an input and appends the resulting outputs. `at` must never decrease.
    pub fn handle(&mut self, at: Moment, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Begin { request, session, access, hops } => self.begin(at, request, session, access, hops),
            Input::Finish { request, change } => self.finish(at, request, change),
            Input::Abandon { request } => self.abandon(at, request),
            Input::ForwardEnded { request, result } => self.end_forward(at, request, result),
            Input::Engine { ticket, response } => self.take_response(at, ticket, response),
            Input::Watched { register, sequence, value } => self.take_hint(at, register, sequence, &value),
            Input::HandOverRequested { from, call, question } => self.take_hand_over_request(at, from, call, question),
            Input::Answered { call, answer } => self.take_hand_over_answer(at, call, answer),
            Input::Exited { node, nonce } => self.take_exit(at, node, nonce),
            Input::Drain => self.start_drain(at),
            Input::Leave => self.start_leaving(at),
            Input::Time => {}
        }
        while let Some(timer) = self.agenda.pop_due(at.now) {
            self.ring(at, timer);
        }
        self.continue_drain(at);
        self.keep_memory_bound();
        outputs.append(&mut self.outputs);
    }

    /// The latest time for the next [`Input::Time`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.agenda.next()
    }

    #[must_use]
    pub const fn node(&self) -> NodeName {
        self.me
    }

    /// The node's current life, if it is a member of the cluster.
    #[must_use]
    pub const fn incarnation(&self) -> Option<Incarnation> {
        self.membership.member()
    }

    fn ring(&mut self, at: Moment, timer: Timer) {
        match timer {
            Timer::Membership => self.ring_membership(at),
            Timer::Node(name) => self.ring_node(at, name),
            Timer::Session(key) => self.ring_session(at, key),
            Timer::Request(number) => self.ring_request(at, number),
        }
    }

    fn take_response(&mut self, at: Moment, ticket: Ticket, response: EngineResponse) {
        match self.tickets.remove(&ticket) {
            Some(Requester::Membership) => self.take_lease_response(at, ticket, response),
            Some(Requester::Node(name)) => self.take_node_response(at, name, ticket, response),
            Some(Requester::Session(key)) => self.take_session_response(at, key, ticket, response),
            // Late: the outcome has been looked up, or is no longer needed.
            None => {}
        }
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn request_engine(&mut self, requester: Requester, request: EngineRequest) -> Ticket {
        let ticket = Ticket(self.number());
        self.tickets.insert(ticket, requester);
        self.outputs.push(Output::Engine { ticket, request });
        ticket
    }

    fn operation(&mut self) -> OperationId {
        OperationId { nonce: self.membership.nonce(), number: self.number() }
    }

    fn emit(&mut self, event: Event) {
        self.outputs.push(Output::Event(event));
    }

    fn report_damaged(&mut self, register: Register) {
        self.statistics.damaged += 1;
        self.emit(Event::Damaged(register));
    }
}

/// Hashes the state without settings and statistics, so that a model checker recognises equal states.
impl Hash for Machine {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.membership.hash(hasher);
        self.nodes.hash(hasher);
        self.sessions.hash(hasher);
        self.requests.hash(hasher);
        self.tickets.hash(hasher);
        self.calls.hash(hasher);
        self.last.hash(hasher);
        self.drain.hash(hasher);
    }
}
