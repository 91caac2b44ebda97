//! Clients: each has a session, alone or with others, and records what it sees.

use std::time::Duration;

use breme_base::Instant;
use breme_session::history::{Action, Operation, OperationOutcome};

use crate::scenario::Scenario;
use crate::world::{Event, Http, Inside, Response, Sender, World, key};

/// How long a client waits at most.
const PATIENCE: Duration = Duration::from_secs(12);
/// How long an impatient client waits.
const IMPATIENCE: Duration = Duration::from_millis(700);

pub struct Clients {
    clients: Vec<Client>,
    slots: Vec<Slot>,
    /// Numbers for tokens, sessions and ids.
    last: u64,
    /// When they stop.
    pub end: Instant,
}

struct Client {
    slot: usize,
    node: usize,
    pending: Option<Pending>,
    /// Ids of sessions that have ended, to be tried again.
    old: Vec<(u64, u64)>,
}

struct Pending {
    operation: usize,
    has_created: bool,
    node: usize,
}

#[derive(Default)]
struct Slot {
    session: u64,
    /// The id, once a client has it.
    id: Option<u64>,
    is_being_created: bool,
}

impl Clients {
    pub fn new(scenario: &Scenario) -> Self {
        let clients = (0..scenario.clients).map(|client| Client {
            slot: client / scenario.sharers,
            node: 0,
            pending: None,
            old: Vec::new(),
        });
        let slots = (0..scenario.clients.div_ceil(scenario.sharers)).map(|_| Slot::default());
        let end = Instant::ZERO + scenario.duration;
        Self { clients: clients.collect(), slots: slots.collect(), last: 0, end }
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The sessions that should exist, with their ids.
    pub fn living(&self) -> Vec<(u64, u64)> {
        self.slots.iter().filter_map(|slot| slot.id.map(|id| (slot.session, id))).collect()
    }
}

impl World {
    pub fn plan_clients(&mut self) {
        for client in 0..self.clients.clients.len() {
            self.rest(client);
        }
    }

    fn rest(&mut self, client: usize) {
        let millis = if self.random.chance(0.1) { self.random.below(500) } else { self.random.below(40) };
        self.agenda.after(Duration::from_millis(millis), Event::ClientWakes { client });
    }

    pub fn wake_client(&mut self, client: usize) {
        if self.agenda.now >= self.clients.end {
            return;
        }
        let slot = self.clients.clients[client].slot;
        if let Some((session, id)) = self.clients.clients[client].old.pop() {
            self.request(client, session, id, Action::Read, false);
            return;
        }
        let Slot { session, id, is_being_created } = self.clients.slots[slot];
        match id {
            Some(id) => {
                let action = self.draw_action();
                self.request(client, session, id, action, false);
            }
            None if is_being_created => self.rest(client),
            None => {
                let [session, id, token] = std::array::from_fn(|_| self.clients.number());
                self.clients.slots[slot] = Slot { session, id: None, is_being_created: true };
                self.request(client, session, id, Action::Append(token), true);
            }
        }
    }

    fn draw_action(&mut self) -> Action {
        if self.random.chance(self.scenario.restless) {
            return if self.random.chance(0.4) { Action::LogOut } else { Action::Rotate { to: self.clients.number() } };
        }
        if self.random.chance(0.55) { Action::Append(self.clients.number()) } else { Action::Read }
    }

    fn request(&mut self, client: usize, session: u64, id: u64, action: Action, has_created: bool) {
        if !self.random.chance(self.scenario.sticky) {
            self.clients.clients[client].node = self.random.below(self.hosts.len() as u64) as usize;
        }
        let node = self.clients.clients[client].node;
        let patience = if self.random.chance(self.scenario.impatient) { IMPATIENCE } else { PATIENCE };
        let operation = self.send(node, session, id, action, has_created, patience);
        self.clients.clients[client].pending = Some(Pending { operation, has_created, node });
    }

    /// Sends a request; the outcome of its operation is unknown until a response arrives.
    fn send(&mut self, node: usize, session: u64, id: u64, action: Action, is_new: bool, patience: Duration) -> usize {
        let operation = self.history.len();
        let (invoked, outcome) = (self.agenda.now, OperationOutcome::Unknown);
        self.history.push(Operation { session, id, action, invoked, returned: Instant::FAR, outcome });
        let new_key = if let Action::Rotate { to } = action { Some(key(to)) } else { None };
        let from = Sender::Client { operation };
        let http = Http { key: key(id), is_new, action, hops: 0, from, new_key };
        let process = self.hosts[node].process;
        let delay = Duration::from_micros(50 + self.random.below(300));
        self.agenda.after(delay, Event::Inside { node, process, what: Inside::Http(http) });
        self.agenda.after(patience, Event::ClientTimeout { operation });
        operation
    }

    pub fn end_operation(&mut self, operation: usize, response: Response) {
        if self.history[operation].returned != Instant::FAR {
            return;
        }
        self.history[operation].returned = self.agenda.now;
        self.history[operation].outcome = match response {
            Response::Done(list) => OperationOutcome::Done(list),
            Response::Failed => OperationOutcome::Failed,
            Response::Unknown => OperationOutcome::Unknown,
            Response::Absent => OperationOutcome::Absent,
        };
        let is_pending = |pending: &Option<Pending>| pending.as_ref().is_some_and(|one| one.operation == operation);
        let client = self.clients.clients.iter().position(|client| is_pending(&client.pending));
        if let Some(client) = client {
            self.learn(client, operation);
            self.rest(client);
        }
    }

    fn learn(&mut self, client: usize, operation: usize) {
        let Operation { session, id, action, ref outcome, .. } = self.history[operation];
        let outcome = outcome.clone();
        let Some(pending) = self.clients.clients[client].pending.take() else { return };
        if matches!(outcome, OperationOutcome::Failed | OperationOutcome::Unknown) {
            // It will try another node.
            self.clients.clients[client].node = (pending.node + 1) % self.hosts.len();
        }
        let slot = self.clients.clients[client].slot;
        let slot = &mut self.clients.slots[slot];
        if slot.session != session {
            return;
        }
        if pending.has_created {
            slot.is_being_created = false;
            slot.id = matches!(outcome, OperationOutcome::Done(_)).then_some(id);
            return;
        }
        let is_current = slot.id == Some(id);
        match (action, outcome) {
            (_, OperationOutcome::Absent) if is_current => *slot = Slot::default(),
            (Action::LogOut, OperationOutcome::Done(_)) => {
                *slot = Slot::default();
                self.clients.clients[client].old.push((session, id));
            }
            (Action::Rotate { to }, OperationOutcome::Done(_)) if is_current => {
                slot.id = Some(to);
                self.clients.clients[client].old.push((session, id));
            }
            _ => {}
        }
    }

    /// Reads a session at a node and waits for the response.
    pub fn read_to_the_end(&mut self, node: usize, session: u64, id: u64) -> OperationOutcome {
        let operation = self.send(node, session, id, Action::Read, false, PATIENCE);
        let end = self.agenda.now + PATIENCE + Duration::from_secs(1);
        while self.history[operation].returned == Instant::FAR && self.agenda.now < end {
            self.play_until(self.agenda.now + Duration::from_millis(1));
        }
        self.history[operation].outcome.clone()
    }
}
