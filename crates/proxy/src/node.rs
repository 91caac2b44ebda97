//! The proxy as a node: its tables, and which part of it an event concerns.
//!
//! ```text
//!   client ──────────────┐                                   ┌────────── server
//!   (accepted)           │                                   │   (opened; idle ones in the pool)
//!                        └────────────► exchange ◄───────────┘
//!                    receives requests             receives answers
//! ```
//!
//! An **exchange** is one request on its way to its answer. It joins a client to a server for that time, and outlives neither: when its answer is
//! complete the server goes to the pool and the client may ask again. No other path leads from one to the other, so the answers of
//! two clients cannot be mixed.
//!
//! | file | what |
//! |---|---|
//! | `clients` | accepted connections: requests, their content, how long they may take |
//! | `refusing` | … and what is none |
//! | `asking` | from a request to what is to become of it |
//! | `caching` | where the cache meets an exchange |
//! | `following` | exchanges that read what another one fetches |
//! | `routing` | who is asked |
//! | `servers` | opened connections: from the pool or new, given to an exchange, taken back |
//! | `answering` | from a server's answer to the client |
//! | `ending` | exchanges that end, well or badly |
//! | `queueing` | requests that wait for an upstream to have room |
//! | `tunnels` | bytes of no protocol of ours |
//! | `health` | checks of the upstreams, beside all exchanges |
//! | `purging` | requests to let stored answers go |
//! | `pool` | servers that wait |
//! | `familiar`, `repeating` | requests and answers whose heads came before, byte for byte |
//! | `standing`, `hitting` | the same for answers out of the store |
//! | `notes` | what the log is told |
//! | `tables` | the records of all these |

mod answering;
mod asking;
mod caching;
mod clients;
mod ending;
mod familiar;
mod following;
mod health;
mod hitting;
mod notes;
mod pool;
mod purging;
mod queueing;
mod refusing;
mod repeating;
mod routing;
mod servers;
mod standing;
mod tables;
mod tunnels;

use std::sync::Arc;

use breme_base::{Instant, Random, Timers};
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Node, Received, Shard,
};
use familiar::Familiar;
use health::Checks;
use pool::Pools;
use slab::Slab;
use standing::{Given, StandingAnswers};
use tables::{Client, ClientKey, Connecting, ConnectingKey, Exchange, ExchangeKey, Owner, Server, ServerKey};

use crate::counters::ShardCounts;
use crate::date::DateLine;
use crate::limits::Entrance;
use crate::renewal::{InForce, RENEWED};
use crate::shared::Shared;

/// Memory for requests that is kept for the next ones.
const BUFFERS_KEPT: usize = 64;
/// … each at most this large.
const BUFFER_BYTES_KEPT: usize = 4096;

/// The node of one shard of a [`Proxy`](crate::Proxy).
#[derive(Debug)]
pub struct ProxyNode {
    in_force: Arc<InForce>,
    shared: Arc<Shared>,
    state: State,
}

/// What belongs to this shard alone.
#[derive(Debug)]
struct State {
    counts: Arc<ShardCounts>,
    shard: Shard,
    date: DateLine,
    random: Random,
    owners: Vec<Owner>,
    clients: Slab<Client>,
    servers: Slab<Server>,
    exchanges: Slab<Exchange>,
    connecting: Slab<Connecting>,
    pools: Pools,
    checks: Checks,
    client_timers: Timers,
    server_timers: Timers,
    exchange_timers: Timers,
    buffers: Vec<Vec<u8>>,
    familiar: Familiar,
    standing: StandingAnswers,
    /// Exchanges so far, so that a message for one is not taken for another's.
    exchange_count: u32,
    is_stopping: bool,
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

impl State {
    fn new(shared: &Shared, shard: Shard) -> Self {
        Self {
            counts: shared.counters.add_shard(),
            date: DateLine::new(shared.clock.clone()),
            random: Random::stream(shared.settings.seed, shard.id.0 as u64),
            pools: Pools::new(shared.settings.seed),
            checks: Checks::new(shared, shard.id),
            shard,
            owners: Vec::new(),
            clients: Slab::new(),
            servers: Slab::new(),
            exchanges: Slab::new(),
            connecting: Slab::new(),
            client_timers: Timers::new(),
            server_timers: Timers::new(),
            exchange_timers: Timers::new(),
            buffers: Vec::new(),
            familiar: Familiar::new(shared.settings.seed),
            standing: StandingAnswers::new(shared.settings.seed),
            exchange_count: 0,
            is_stopping: false,
        }
    }

    /// Whose connection this is; nobody's if it was closed by us.
    fn owner(&self, id: ConnectionId) -> Owner {
        let owner = self.owners.get(id.index()).copied().unwrap_or_default();
        let is_same = match owner {
            Owner::Nobody => true,
            Owner::Client(key) => self.clients.get(key.index()).is_some_and(|client| client.id == id),
            Owner::Server(key) => self.servers.get(key.index()).is_some_and(|server| server.id == id),
            Owner::Check(number) => self.checks.owns(number, id),
        };
        if is_same { owner } else { Owner::Nobody }
    }

    fn set_owner(&mut self, id: ConnectionId, owner: Owner) {
        if id.index() >= self.owners.len() {
            self.owners.resize(id.index() + 1, Owner::Nobody);
        }
        self.owners[id.index()] = owner;
    }

    /// The connection is not ours any more.
    fn disown(&mut self, id: ConnectionId) {
        if let Some(owner) = self.owners.get_mut(id.index()) {
            *owner = Owner::Nobody;
        }
    }

    fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_KEPT && buffer.capacity() <= BUFFER_BYTES_KEPT {
            buffer.clear();
            self.buffers.push(buffer);
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
        let client =
            Client { is_secured, is_trusted, is_counted: entrance == Entrance::Counted, ..Client::new(id, accepted) };
        let key = ClientKey::of(self.state.clients.insert(client));
        self.state.set_owner(id, Owner::Client(key));
        self.state.client_timers.set(key.timer(), now + self.shared.settings.limits.idle_timeout);
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
            self.state.familiar = Familiar::new(self.shared.settings.seed);
            self.state.standing = StandingAnswers::new(self.shared.settings.seed);
        } else {
            self.turn(now, actions).handle_message(message);
        }
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.state.is_stopping = true;
        let mut turn = self.turn(now, actions);
        turn.stop_checks();
        turn.drop_idle_servers();
        turn.drop_idle_clients();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let State { exchange_timers, client_timers, server_timers, checks, .. } = &self.state;
        let deadlines = [exchange_timers.next(), client_timers.next(), server_timers.next(), checks.next_deadline()];
        deadlines.into_iter().flatten().min()
    }
}

/// One event.
struct Turn<'a> {
    shared: &'a Shared,
    node: &'a mut State,
    now: Instant,
    actions: &'a mut Actions,
    /// All that is lent: what lies in it is sent on without a copy.
    received: &'a [u8],
    /// The client whose requests are being read in this turn: what comes behind an answer is read there.
    receiving: Option<ClientKey>,
    /// The stored answer to the request that is being read should become familiar.
    is_wanted: bool,
    /// … and this was it.
    given: Option<Given>,
}

impl Turn<'_> {
    fn client(&mut self, key: ClientKey) -> Option<&mut Client> {
        self.node.clients.get_mut(key.index())
    }

    fn server(&mut self, key: ServerKey) -> Option<&mut Server> {
        self.node.servers.get_mut(key.index())
    }

    fn exchange(&mut self, key: ExchangeKey) -> Option<&mut Exchange> {
        self.node.exchanges.get_mut(key.index())
    }
}
