//! The state of one shard, and the context of one event in it.

use std::sync::Arc;

use breme_base::{Instant, Random, Timers};
use breme_node::{Actions, ConnectionId, Shard};
use breme_server::{CachedDate, ServerShard};
use slab::Slab;

use super::buffers::Buffers;
use super::health_checks::Checks;
use super::hit_replay_cache::{CapturedHit, HitReplayCache};
use super::keys::{ClientKey, ExchangeKey, Owner, Owners, UpstreamKey};
use super::log_entry::{LogEntry, LoggedRequest};
use super::pool::Pools;
use super::relay_replay_cache::RelayReplayCache;
use super::tables::{Client, Connecting, Exchange, UpstreamConnection};
use crate::counters::ShardCounts;
use crate::shared_state::SharedState;

/// The state of one shard.
#[derive(Debug)]
pub(super) struct ShardState {
    pub(super) counts: Arc<ShardCounts>,
    pub(super) shard: Shard,
    pub(super) server: ServerShard,
    pub(super) date: CachedDate,
    pub(super) random: Random,
    pub(super) owners: Owners,
    pub(super) clients: Slab<Client>,
    pub(super) upstreams: Slab<UpstreamConnection>,
    pub(super) exchanges: Slab<Exchange>,
    pub(super) connecting: Slab<Connecting>,
    pub(super) pools: Pools,
    pub(super) checks: Checks,
    pub(super) upstream_timers: Timers,
    pub(super) exchange_timers: Timers,
    pub(super) buffers: Buffers,
    pub(super) relay_replay: RelayReplayCache,
    pub(super) hit_replay: HitReplayCache,
    /// Numbers exchanges, so that a wake-up for an earlier one is recognised.
    pub(super) exchange_count: u32,
}

impl ShardState {
    pub(super) fn new(shared: &SharedState, shard: Shard) -> Self {
        Self {
            counts: shared.counters.add_shard(),
            server: ServerShard::default(),
            date: CachedDate::new(shared.clock.clone()),
            random: Random::stream(shared.settings.seed, shard.id.0 as u64),
            pools: Pools::new(shared.settings.seed),
            checks: Checks::new(shared, shard.id),
            shard,
            owners: Owners::default(),
            clients: Slab::new(),
            upstreams: Slab::new(),
            exchanges: Slab::new(),
            connecting: Slab::new(),
            upstream_timers: Timers::new(),
            exchange_timers: Timers::new(),
            buffers: Buffers::default(),
            relay_replay: RelayReplayCache::new(shared.settings.seed),
            hit_replay: HitReplayCache::new(shared.settings.seed),
            exchange_count: 0,
        }
    }

    /// The owner of a connection; `None` if it was closed by this node.
    pub(super) fn owner(&self, id: ConnectionId) -> Owner {
        let owner = self.owners.get(id.index());
        let is_same = match owner {
            Owner::None => true,
            Owner::Client(key) => self.clients.get(key.index()).is_some_and(|client| client.id == id),
            Owner::UpstreamConnection(key) => self.upstreams.get(key.index()).is_some_and(|upstream| upstream.id == id),
            Owner::Check(number) => self.checks.owns(number, id),
        };
        if is_same { owner } else { Owner::None }
    }

    /// The exchange of a client, and the upstream connection.
    pub(super) fn exchange_of(
        &mut self,
        client: ClientKey,
    ) -> Option<(ExchangeKey, &mut Exchange, Option<ConnectionId>)> {
        let key = self.clients.get(client.index())?.state.exchange?;
        let exchange = self.exchanges.get_mut(key.index())?;
        let upstream = exchange.stage.upstream().and_then(|upstream| self.upstreams.get(upstream.index()));
        Some((key, exchange, upstream.map(|upstream| upstream.id)))
    }

    pub(super) fn client_of(&self, key: ExchangeKey) -> Option<ClientKey> {
        self.exchanges.get(key.index())?.client
    }

    /// The message that wakes this exchange.
    pub(super) fn message_of(&self, key: ExchangeKey) -> u64 {
        key.message(self.exchanges.get(key.index()).map_or(0, |exchange| exchange.number))
    }

    /// Whether an upstream reads slowly.
    pub(super) fn is_slow(&self, upstream: UpstreamKey) -> bool {
        self.upstreams.get(upstream.index()).is_some_and(|upstream| upstream.queue_is_long)
    }

    /// Discards entries that depend on the old settings.
    pub(super) fn clear_replay_caches(&mut self, shared: &SharedState) {
        self.relay_replay = RelayReplayCache::new(shared.settings.seed);
        self.hit_replay = HitReplayCache::new(shared.settings.seed);
    }
}

/// One event in one shard.
pub(super) struct Context<'a> {
    pub(super) shared: &'a SharedState,
    pub(super) node: &'a mut ShardState,
    pub(super) now: Instant,
    pub(super) actions: &'a mut Actions,
    /// All received bytes of this call; parts of them are sent without a copy.
    pub(super) received: &'a [u8],
    /// The client whose requests are being read in this call.
    pub(super) receiving: Option<ClientKey>,
    /// Capture the response to the current request for replay.
    pub(super) captures_hit: bool,
    /// The captured response.
    pub(super) captured: Option<CapturedHit>,
}

impl Context<'_> {
    pub(super) fn client(&mut self, key: ClientKey) -> Option<&mut Client> {
        self.node.clients.get_mut(key.index())
    }

    pub(super) fn upstream(&mut self, key: UpstreamKey) -> Option<&mut UpstreamConnection> {
        self.node.upstreams.get_mut(key.index())
    }

    pub(super) fn exchange(&mut self, key: ExchangeKey) -> Option<&mut Exchange> {
        self.node.exchanges.get_mut(key.index())
    }

    /// A new entry, if there is a log. `request` gets whether the client is trusted.
    pub(super) fn log_entry_of(
        &mut self,
        client: ClientKey,
        request: impl FnOnce(bool) -> LoggedRequest,
    ) -> Option<Box<LogEntry>> {
        self.shared.access_log.as_ref()?;
        let client = self.node.clients.get(client.index())?;
        Some(Box::new(
            client.state.log_entry(self.node.date.millis(self.now), Arc::new(request(client.state.is_trusted))),
        ))
    }
}
