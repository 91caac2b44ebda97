//! The proxy as a node: its tables, and which part of it an event concerns.
//!
//! ```text
//!   client ──────────────┐                                   ┌────────── server
//!   (accepted)           │                                   │   (opened; idle ones in the pool)
//!                        └────────────► exchange ◄───────────┘
//!                    receives requests             receives answers
//! ```
//!
//! An **exchange** is one request on its way to its answer. It joins a client to a server for that time, and outlives
//! neither: when its answer is complete the server goes to the pool and the client may ask again. No other path leads
//! from one to the other, so the answers of two clients cannot be mixed.
//!
//! | file | what |
//! |---|---|
//! | `clients` | accepted connections: requests, their content, how long they may take |
//! | `refusing` | … and what is none |
//! | `asking` | from a request to what is to become of it |
//! | `caching` | where the cache meets an exchange |
//! | `following` | exchanges that read what another one fetches |
//! | `parting` | slow clients that read on without what is fetched for them |
//! | `routing` | who is asked |
//! | `servers` | opened connections: from the pool or new, given to an exchange, taken back |
//! | `answering` | from a server's answer to the client |
//! | `ending` | exchanges that end, well or badly |
//! | `queueing` | requests that wait for an upstream to have room |
//! | `tunnels` | bytes of no protocol of ours |
//! | `health`, `checks` | checks of the upstreams, beside all exchanges |
//! | `purging` | requests to let stored answers go |
//! | `pool` | servers that wait |
//! | `reuse` | which request may follow on a server's connection |
//! | `familiar`, `repeating` | requests and answers whose heads came before, byte for byte |
//! | `standing`, `hitting` | the same for answers out of the store |
//! | `noting`, `notes` | what the log is told |
//! | `part` | what the cache holds of an exchange |
//! | `tables` | the records of all these |
//! | `turn` | one event in one shard, to which each of these files adds a part |

mod answering;
mod asking;
mod caching;
mod checks;
mod clients;
mod ending;
mod familiar;
mod following;
mod health;
mod hitting;
mod notes;
mod noting;
mod part;
mod parting;
mod pool;
mod purging;
mod queueing;
mod refusing;
mod repeating;
mod reuse;
mod routing;
mod servers;
mod standing;
mod tables;
mod tunnels;
mod turn;

use std::sync::Arc;

use breme_base::Instant;
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Node, Pressure,
    Received, Shard,
};
use checks::Checks;
use tables::{Client, ClientKey, Connecting, ConnectingKey, ExchangeKey, Owner, ServerKey};
use turn::{State, Turn};

use crate::limits::Entrance;
use crate::renewal::{InForce, RENEWED};
use crate::shared::Shared;

/// The node of one shard of a [`Proxy`](crate::Proxy).
#[derive(Debug)]
pub struct ProxyNode {
    in_force: Arc<InForce>,
    shared: Arc<Shared>,
    state: State,
}

impl ProxyNode {
    pub(crate) fn new(in_force: Arc<InForce>, shard: Shard) -> Self {
        let shared = in_force.shared();
        let state = State::new(&shared, shard);
        Self { in_force, shared, state }
    }

    fn turn<'a>(&'a mut self, now: Instant, actions: &'a mut Actions) -> Turn<'a> {
        self.turn_with(now, &[], actions)
    }

    /// A turn in which `received` is lent.
    fn turn_with<'a>(&'a mut self, now: Instant, received: &'a [u8], actions: &'a mut Actions) -> Turn<'a> {
        Turn {
            shared: &self.shared,
            node: &mut self.state,
            now,
            actions,
            received,
            receiving: None,
            is_wanted: false,
            given: None,
        }
    }
}

impl Node for ProxyNode {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, accepted: Accepted, actions: &mut Actions) {
        let is_secured = self.shared.settings.secured_listeners.contains(&accepted.listener);
        let address = accepted.peer.ip();
        let is_trusted = self.shared.is_trusted(address);
        let entrance = match is_trusted {
            true => Entrance::Uncounted,
            false => self.shared.clients.enter(now, address, &self.shared.settings.clients),
        };
        if entrance == Entrance::Closed {
            return actions.close(id, Close::Abort);
        }
        let client = Client {
            is_secured,
            is_trusted,
            is_counted: entrance == Entrance::Counted,
            ..Client::new(id, now, accepted)
        };
        let key = ClientKey::of(self.state.clients.insert(client));
        self.state.set_owner(id, Owner::Client(key));
        let patience = self.state.pressure.idle_timeout(self.shared.settings.limits.idle_timeout);
        self.state.client_timers.set(key.timer(), now + patience);
    }

    fn handle_connected(
        &mut self,
        now: Instant,
        ticket: ConnectTicket,
        outcome: Result<Connected, ConnectError>,
        actions: &mut Actions,
    ) {
        if let Some(number) = Checks::of_ticket(ticket) {
            return self.turn(now, actions).handle_check_connected(number, outcome);
        }
        let index = ticket.0 as usize;
        if let Some(connecting) = self.state.connecting.try_remove(index) {
            let Connecting { endpoint, exchange } = connecting;
            self.turn(now, actions).handle_connected(ConnectingKey::of(index), endpoint, exchange, outcome);
        }
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        match self.state.owner(id) {
            Owner::Client(key) => self.turn_with(now, received.bytes, actions).receive_from_client(key, received),
            Owner::Server(key) => self.turn_with(now, received.bytes, actions).receive_from_server(key, received),
            Owner::Check(number) => self.turn(now, actions).receive_from_checked(number, received),
            Owner::Nobody => received.bytes.len(),
        }
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        match self.state.owner(id) {
            Owner::Client(key) => self.turn(now, actions).handle_client_queue(key, unsent_bytes > 0),
            Owner::Server(key) => self.turn(now, actions).handle_server_queue(key, unsent_bytes > 0),
            Owner::Check(_) | Owner::Nobody => {}
        }
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        match self.state.owner(id) {
            Owner::Client(key) => self.turn(now, actions).handle_client_closed(key, reason),
            Owner::Server(key) => self.turn(now, actions).handle_server_closed(key, reason),
            Owner::Check(number) => self.turn(now, actions).handle_check_closed(number),
            Owner::Nobody => {}
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if self.state.pressure.rises_at().is_some_and(|at| at <= now) {
            self.turn(now, actions).change_pressure(Pressure::rise);
        }
        while let Some(key) = self.state.exchange_timers.pop_due(now) {
            self.turn(now, actions).handle_exchange_deadline(ExchangeKey::of(key as usize));
        }
        while let Some(key) = self.state.client_timers.pop_due(now) {
            self.turn(now, actions).handle_client_deadline(ClientKey::of(key as usize));
        }
        while let Some(key) = self.state.server_timers.pop_due(now) {
            self.turn(now, actions).drop_server(ServerKey::of(key as usize), Close::Graceful);
        }
        self.turn(now, actions).make_checks();
    }

    fn handle_woken(&mut self, now: Instant, message: u64, actions: &mut Actions) {
        if message == RENEWED {
            self.shared = self.in_force.shared();
            // What was written for them was written after the old settings.
            self.state.forget_familiar(&self.shared);
        } else {
            self.turn(now, actions).handle_message(message);
        }
    }

    fn handle_pressure(&mut self, now: Instant, is_high: bool, actions: &mut Actions) {
        self.turn(now, actions).change_pressure(|pressure| pressure.set(now, is_high));
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.state.is_stopping = true;
        let mut turn = self.turn(now, actions);
        turn.stop_checks();
        turn.drop_idle_servers();
        turn.drop_idle_clients();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let State { exchange_timers, client_timers, server_timers, checks, pressure, .. } = &self.state;
        let timers = [exchange_timers.next(), client_timers.next(), server_timers.next()];
        timers.into_iter().chain([checks.next_deadline(), pressure.rises_at()]).flatten().min()
    }
}
