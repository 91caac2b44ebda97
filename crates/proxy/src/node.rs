//! The proxy as a node.
//!
//! ```text
//!   client ──────────────┐                                   ┌────────── upstream connection
//!   (accepted)           │                                   │   (opened; idle ones in the pool)
//!                        └────────────► exchange ◄───────────┘
//!                    receives requests             receives responses
//! ```
//!
//! An **exchange** is one request until its response is complete. During that time it joins a client to an upstream
//! connection; then the connection returns to the pool, and the client may send another request. A client and an
//! upstream connection have no other link, so the responses of two clients cannot be mixed.
//!
//! | file | contents |
//! |---|---|
//! | `clients` | accepted connections: requests, bodies, timeouts; connection pressure |
//! | `refusals` | responses to malformed requests |
//! | `request` | a request: rate limit, rules, cache lookup, serialisation |
//! | `cache`, `followers`, `purge` | stored responses; request collapsing; PURGE |
//! | `route`, `queue` | the choice of an upstream or host; requests that wait for capacity |
//! | `retry` | requests that are sent again, to the same upstream or another |
//! | `upstreams`, `pool`, `reuse` | upstream connections: opened, idle, reused |
//! | `response` | from upstream or cache to client |
//! | `response_head` | how each response to a client begins: the place for a field of all responses |
//! | `stage` | the stages of an exchange, each with its data, and the transitions |
//! | `exchange_end`, `deadlines` | completion, failure and error responses; timeouts |
//! | `tunnels` | CONNECT and upgrades |
//! | `health_checks` | active health checks |
//! | `relay_replay`, `hit_replay`, and their caches | byte-identical requests: forwarded, or served from the store |
//! | `log_entry` | entries of the access log |
//! | `tables`, `keys` | the records of a shard; their keys |
//! | `context`, `buffers` | one event in a shard; buffers kept for reuse |

mod buffers;
mod cache;
mod clients;
mod context;
mod deadlines;
mod exchange_end;
mod followers;
mod health_checks;
mod hit_replay;
mod hit_replay_cache;
mod keys;
mod log_entry;
mod pool;
mod purge;
mod queue;
mod refusals;
mod relay_replay;
mod relay_replay_cache;
mod request;
mod response;
mod response_head;
mod retry;
mod reuse;
mod route;
mod stage;
mod tables;
mod tunnels;
mod upstreams;

use std::sync::Arc;

use breme_base::Instant;
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectResult, ConnectTicket, ConnectionId, Node, Pressure, Received, Shard,
};
use context::{Context, ShardState};
use health_checks::{CheckContext, Checks};
use keys::{ClientKey, ConnectingKey, ExchangeKey, Owner, UpstreamKey};
use tables::{Client, ClientState, Connecting};

use crate::client_limits::Admission;
use crate::reload::{CurrentState, RELOADED};
use crate::shared_state::SharedState;

/// The node of one shard of a [`Proxy`](crate::Proxy).
#[derive(Debug)]
pub struct ProxyNode {
    current: Arc<CurrentState>,
    shared: Arc<SharedState>,
    state: ShardState,
}

impl ProxyNode {
    pub(crate) fn new(current: Arc<CurrentState>, shard: Shard) -> Self {
        let shared = current.shared();
        let state = ShardState::new(&shared, shard);
        Self { current, shared, state }
    }

    fn context<'a>(&'a mut self, now: Instant, actions: &'a mut Actions) -> Context<'a> {
        self.context_with(now, &[], actions)
    }

    /// With the bytes received.
    fn context_with<'a>(&'a mut self, now: Instant, received: &'a [u8], actions: &'a mut Actions) -> Context<'a> {
        Context {
            shared: &self.shared,
            node: &mut self.state,
            now,
            actions,
            received,
            receiving: None,
            captures_hit: false,
            captured: None,
        }
    }

    fn checks<'a>(&'a mut self, now: Instant, actions: &'a mut Actions) -> CheckContext<'a> {
        let ShardState { checks, owners, .. } = &mut self.state;
        CheckContext { shared: &self.shared, checks, owners, now, actions }
    }
}

impl Node for ProxyNode {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, accepted: Accepted, actions: &mut Actions) {
        let is_secured = self.shared.settings.secured_listeners.contains(&accepted.listener);
        let address = accepted.peer.map(|peer| peer.ip());
        let is_trusted = self.shared.is_trusted(address);
        let admission = match is_trusted {
            true => Admission::Uncounted,
            false => self.shared.clients.admit(now, address, &self.shared.settings.clients),
        };
        if admission == Admission::Closed {
            return actions.close(id, Close::Abort);
        }
        let is_counted = admission == Admission::Counted;
        let state = ClientState::new(accepted, is_secured, is_trusted, is_counted);
        let client = Client::new(id, now, state).with_response_fields(self.shared.settings.response_fields.clone());
        let key = ClientKey::new(self.state.clients.insert(client));
        self.state.owners.set(id, Owner::Client(key));
        self.context(now, actions).wait_for_more(key);
    }

    fn handle_connected(&mut self, now: Instant, ticket: ConnectTicket, result: ConnectResult, actions: &mut Actions) {
        if let Some(number) = Checks::from_ticket(ticket) {
            return self.checks(now, actions).handle_connected(number, result);
        }
        let index = ticket.0 as usize;
        if let Some(connecting) = self.state.connecting.try_remove(index) {
            let Connecting { endpoint, exchange } = connecting;
            self.context(now, actions).handle_connected(ConnectingKey::new(index), endpoint, exchange, result);
        }
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        match self.state.owner(id) {
            Owner::Client(key) => self.context_with(now, input.bytes, actions).receive_from_client(key, input),
            Owner::UpstreamConnection(key) => {
                self.context_with(now, input.bytes, actions).receive_from_upstream(key, input)
            }
            Owner::Check(number) => self.checks(now, actions).receive(number, input),
            Owner::None => input.bytes.len(),
        }
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        match self.state.owner(id) {
            Owner::Client(key) => self.context(now, actions).handle_client_queue(key, unsent_bytes > 0),
            Owner::UpstreamConnection(key) => self.context(now, actions).handle_upstream_queue(key, unsent_bytes > 0),
            Owner::Check(_) | Owner::None => {}
        }
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        match self.state.owner(id) {
            Owner::Client(key) => self.context(now, actions).handle_client_closed(key, reason),
            Owner::UpstreamConnection(key) => self.context(now, actions).handle_upstream_closed(key, reason),
            Owner::Check(number) => self.checks(now, actions).handle_closed(number),
            Owner::None => {}
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if self.state.server.pressure.rises_at().is_some_and(|at| at <= now) {
            self.context(now, actions).change_pressure(Pressure::rise);
        }
        while let Some(key) = self.state.exchange_timers.pop_due(now) {
            self.context(now, actions).handle_exchange_deadline(ExchangeKey::new(key as usize));
        }
        while let Some(key) = self.state.server.timers.pop_due(now) {
            if let Owner::Client(client) = self.state.owners.get(key as usize) {
                self.context(now, actions).handle_client_deadline(client);
            }
        }
        while let Some(key) = self.state.upstream_timers.pop_due(now) {
            self.context(now, actions).drop_upstream(UpstreamKey::new(key as usize), Close::Graceful);
        }
        self.checks(now, actions).run();
    }

    fn handle_woken(&mut self, now: Instant, message: u64, actions: &mut Actions) {
        if message == RELOADED {
            self.shared = self.current.shared();
            // Entries depend on the old settings.
            self.state.clear_replay_caches(&self.shared);
        } else {
            self.context(now, actions).handle_message(message);
        }
    }

    fn handle_pressure(&mut self, now: Instant, is_high: bool, actions: &mut Actions) {
        self.context(now, actions).change_pressure(|pressure| pressure.set(now, is_high));
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.state.server.stop(self.shared.settings.stopping_linger);
        self.checks(now, actions).stop();
        let mut context = self.context(now, actions);
        context.drop_idle_upstreams();
        context.stop_clients();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let ShardState { server, exchange_timers, upstream_timers, checks, .. } = &self.state;
        let deadlines =
            [server.next_deadline(), exchange_timers.next(), upstream_timers.next(), checks.next_deadline()];
        deadlines.into_iter().flatten().min()
    }
}
