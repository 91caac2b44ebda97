//! What belongs to one shard, and one event in it.
//!
//! All that a proxy does is done in a turn: the files beside this one each add a part of it.

use std::sync::Arc;

use breme_base::{Instant, Random, Timers};
use breme_node::{Actions, ConnectionId, Pressure, Shard};
use slab::Slab;

use super::checks::Checks;
use super::familiar::Familiar;
use super::pool::Pools;
use super::standing::{Given, StandingAnswers};
use super::tables::{Client, ClientKey, Connecting, Exchange, ExchangeKey, Owner, Server, ServerKey};
use crate::counters::ShardCounts;
use crate::date::DateLine;
use crate::shared::Shared;

/// Memory for requests that is kept for the next ones.
const BUFFERS_KEPT: usize = 64;
/// … each at most this large.
const BUFFER_BYTES_KEPT: usize = 4096;

/// What belongs to this shard alone.
#[derive(Debug)]
pub(super) struct State {
    pub(super) counts: Arc<ShardCounts>,
    pub(super) shard: Shard,
    pub(super) date: DateLine,
    pub(super) random: Random,
    pub(super) owners: Vec<Owner>,
    pub(super) clients: Slab<Client>,
    pub(super) servers: Slab<Server>,
    pub(super) exchanges: Slab<Exchange>,
    pub(super) connecting: Slab<Connecting>,
    pub(super) pools: Pools,
    pub(super) checks: Checks,
    pub(super) client_timers: Timers,
    pub(super) server_timers: Timers,
    pub(super) exchange_timers: Timers,
    pub(super) buffers: Vec<Vec<u8>>,
    pub(super) familiar: Familiar,
    pub(super) standing: StandingAnswers,
    /// Exchanges so far, so that a message for one is not taken for another's.
    pub(super) exchange_count: u32,
    pub(super) pressure: Pressure,
    pub(super) is_stopping: bool,
}

impl State {
    pub(super) fn new(shared: &Shared, shard: Shard) -> Self {
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
            pressure: Pressure::default(),
            is_stopping: false,
        }
    }

    /// Whose connection this is; nobody's if it was closed by us.
    pub(super) fn owner(&self, id: ConnectionId) -> Owner {
        let owner = self.owners.get(id.index()).copied().unwrap_or_default();
        let is_same = match owner {
            Owner::Nobody => true,
            Owner::Client(key) => self.clients.get(key.index()).is_some_and(|client| client.id == id),
            Owner::Server(key) => self.servers.get(key.index()).is_some_and(|server| server.id == id),
            Owner::Check(number) => self.checks.owns(number, id),
        };
        if is_same { owner } else { Owner::Nobody }
    }

    pub(super) fn set_owner(&mut self, id: ConnectionId, owner: Owner) {
        if id.index() >= self.owners.len() {
            self.owners.resize(id.index() + 1, Owner::Nobody);
        }
        self.owners[id.index()] = owner;
    }

    /// The connection is not ours any more.
    pub(super) fn disown(&mut self, id: ConnectionId) {
        if let Some(owner) = self.owners.get_mut(id.index()) {
            *owner = Owner::Nobody;
        }
    }

    /// What was learnt holds no longer.
    pub(super) fn forget_familiar(&mut self, shared: &Shared) {
        self.familiar = Familiar::new(shared.settings.seed);
        self.standing = StandingAnswers::new(shared.settings.seed);
    }

    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    pub(super) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_KEPT && buffer.capacity() <= BUFFER_BYTES_KEPT {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

/// One event.
pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    pub(super) node: &'a mut State,
    pub(super) now: Instant,
    pub(super) actions: &'a mut Actions,
    /// All that is lent: what lies in it is sent on without a copy.
    pub(super) received: &'a [u8],
    /// The client whose requests are being read in this turn: what comes behind an answer is read there.
    pub(super) receiving: Option<ClientKey>,
    /// The stored answer to the request that is being read should become familiar.
    pub(super) is_wanted: bool,
    /// … and this was it.
    pub(super) given: Option<Given>,
}

impl Turn<'_> {
    pub(super) fn client(&mut self, key: ClientKey) -> Option<&mut Client> {
        self.node.clients.get_mut(key.index())
    }

    pub(super) fn server(&mut self, key: ServerKey) -> Option<&mut Server> {
        self.node.servers.get_mut(key.index())
    }

    pub(super) fn exchange(&mut self, key: ExchangeKey) -> Option<&mut Exchange> {
        self.node.exchanges.get_mut(key.index())
    }
}
