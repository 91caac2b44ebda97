//! Connections to upstreams: taken from the pool or opened, assigned to exchanges, released.

use breme_http::Method;
use breme_node::{Close, ConnectError, ConnectTicket, Connected, Endpoint};

use super::context::{Context, ShardState};
use super::keys::{ClientKey, ConnectingKey, EndpointKey, ExchangeKey, Owner, UpstreamKey};
use super::reuse::Reuse;
use super::stage::{Attempt, Stage, Wait};
use super::tables::{Connecting, MethodClass, UpstreamConnection};
use crate::failure::Failure;
use crate::upstream_request;

impl Context<'_> {
    /// Finds an idle connection for the exchange, or opens one.
    pub(super) fn connect_upstream(&mut self, key: ExchangeKey) -> Result<(), Failure> {
        let Some(exchange) = self.node.exchanges.get(key.index()) else { return Ok(()) };
        let endpoint = exchange.route.endpoint(&self.shared.tls_clients)?;
        // A retry needs a new connection: other idle ones may be closed too.
        let may_reuse = exchange.retries == 0 && exchange.request_info.method_class != MethodClass::Connect;
        let client = exchange.client;
        if may_reuse && let Some(upstream_key) = self.node.take_idle(client, endpoint) {
            self.node.counts.pool_idle.remove();
            self.node.counts.pool_busy.add();
            self.node.upstream_timers.clear(upstream_key.timer());
            self.assign_upstream(key, upstream_key);
            return Ok(());
        }
        let connecting = ConnectingKey::new(self.node.connecting.insert(Connecting { endpoint, exchange: key }));
        if let Some(exchange) = self.exchange(key) {
            exchange.stage.wait_for(Wait::Connecting(connecting));
        }
        let mut target = Endpoint::tcp(endpoint.address);
        target.tls = endpoint.tls;
        self.actions.connect(ConnectTicket(connecting.index() as u64), target);
        self.set_exchange_deadline(key);
        Ok(())
    }

    /// Handles the result of opening a connection.
    pub(super) fn handle_connected(
        &mut self,
        key: ConnectingKey,
        endpoint: EndpointKey,
        exchange_key: ExchangeKey,
        outcome: Result<Connected, ConnectError>,
    ) {
        let exchange = self.exchange(exchange_key);
        let is_awaited = exchange.is_some_and(|exchange| exchange.stage.take_connecting(key));
        match outcome {
            Ok(connected) => {
                self.node.counts.connects.add();
                let upstream_key = self.node.add_upstream(UpstreamConnection::new(connected.connection, endpoint));
                match is_awaited {
                    true => self.assign_upstream(exchange_key, upstream_key),
                    // Its exchange is over; the connection goes to the pool.
                    false => self.release_upstream(upstream_key, Reuse::AnyClient, None),
                }
            }
            Err(error) => {
                self.node.counts.connects_failed.add();
                if is_awaited {
                    self.retry_elsewhere(exchange_key, error);
                }
            }
        }
    }

    /// Sends the request on a connection.
    fn assign_upstream(&mut self, key: ExchangeKey, upstream_key: UpstreamKey) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(upstream) = self.node.upstreams.get_mut(upstream_key.index()) else { return };
        upstream.exchange = Some(key);
        let is_reused = upstream.request_count > 0;
        (exchange.progress, exchange.content.began) = (self.now, self.now);
        let attempt = Attempt { upstream: upstream_key, sent: self.now, is_reused, response_began: false };
        exchange.stage.wait_for(Wait::Requesting(attempt));
        if is_reused {
            self.node.counts.reuses.add();
        }
        upstream.request_count += 1;
        if exchange.request_info.method_class == MethodClass::Connect {
            return self.open_tunnel(key);
        }
        let method = exchange.request_info.method();
        let Stage::Pending { request, .. } = &exchange.stage else { return };
        if request.requests_upgrade {
            upstream.http.sent_with_upgrade(method);
        } else {
            upstream.http.sent(method);
        }
        let out = self.actions.send(upstream.id);
        out.extend_from_slice(&request.head);
        upstream_request::end(if request.needs_host { exchange.upstream_name() } else { None }, out);
        let (client, is_request_complete) = (exchange.client, exchange.content.is_complete);
        self.set_exchange_deadline(key);
        if !is_request_complete && let Some(client) = client {
            self.resume_client(client);
        }
    }

    /// Returns a connection to the pool, if it can be reused; if a body was sent on it, reserves it for `client`.
    pub(super) fn release_upstream(&mut self, key: UpstreamKey, reuse: Reuse, client: Option<ClientKey>) {
        let pool = &self.shared.settings.pool;
        let Some(upstream) = self.node.upstreams.get_mut(key.index()) else { return };
        upstream.exchange = None;
        let may_stay = !self.node.server.is_stopping()
            && !upstream.ended
            && !upstream.queue_is_long
            && upstream.request_count < pool.requests_max
            && upstream.http.can_send(Method::Get)
            && reuse != Reuse::Never;
        let is_own = upstream.own_client.is_some() || reuse == Reuse::SameClient;
        let is_kept = may_stay
            && match is_own {
                true => self.keep_own(key, client),
                false => self.node.pools.put(upstream.endpoint, key, pool.idle_max),
            };
        if !is_kept {
            return self.drop_upstream(key, Close::Graceful);
        }
        self.node.counts.pool_busy.remove();
        self.node.counts.pool_idle.add();
        self.node.upstream_timers.set(key.timer(), self.now + pool.idle_timeout);
        if let Some(upstream) = self.node.upstreams.get_mut(key.index())
            && std::mem::take(&mut upstream.is_paused)
        {
            self.actions.resume(upstream.id);
        }
    }

    /// Reserves an idle connection for a client, in place of the one reserved before. False: the client has left, or
    /// too many are reserved.
    fn keep_own(&mut self, key: UpstreamKey, client_key: Option<ClientKey>) -> bool {
        let Some(client_key) = client_key else { return false };
        let before = self.client(client_key).and_then(|client| client.state.own_upstream);
        if let Some(before) = before {
            self.drop_upstream(before, Close::Graceful);
        }
        let Some(client) = self.node.clients.get_mut(client_key.index()) else { return false };
        let Some(upstream) = self.node.upstreams.get_mut(key.index()) else { return false };
        if !self.node.pools.keep_own(self.shared.settings.pool.idle_max) {
            return false;
        }
        upstream.own_client = Some(client_key);
        client.state.own_upstream = Some(key);
        true
    }

    /// Closes a connection, unless it is closed already, and removes it.
    pub(super) fn drop_upstream(&mut self, key: UpstreamKey, how: Close) {
        self.close_upstream(key, how);
        self.node.remove_upstream(key);
    }

    /// Closes a connection whose exchange continues; the exchange removes it when it leaves its stage.
    pub(super) fn close_upstream(&mut self, key: UpstreamKey, how: Close) {
        if let Some(upstream) = self.node.upstreams.get_mut(key.index())
            && !std::mem::replace(&mut upstream.is_closed, true)
        {
            self.actions.close(upstream.id, how);
        }
    }

    pub(super) fn drop_idle_upstreams(&mut self) {
        for key in self.node.pools.idle() {
            self.drop_upstream(key, Close::Graceful);
        }
    }
}

impl ShardState {
    /// An idle connection for a request of this client: reserved for it, or from the pool.
    fn take_idle(&mut self, client: Option<ClientKey>, endpoint: EndpointKey) -> Option<UpstreamKey> {
        let own =
            client.and_then(|client| self.clients.get(client.index())).and_then(|client| client.state.own_upstream);
        match own.filter(|&it| self.upstreams.get(it.index()).is_some_and(|upstream| upstream.endpoint == endpoint)) {
            Some(_) => {
                self.pools.release_own();
                self.clients.get_mut(client?.index())?.state.own_upstream.take()
            }
            None => self.pools.take(endpoint),
        }
    }

    fn add_upstream(&mut self, upstream: UpstreamConnection) -> UpstreamKey {
        let (id, endpoint) = (upstream.id, upstream.endpoint);
        let key = UpstreamKey::new(self.upstreams.insert(upstream));
        self.owners.set(id, Owner::UpstreamConnection(key));
        self.pools.opened(endpoint);
        self.counts.pool_busy.add();
        key
    }

    pub(super) fn remove_upstream(&mut self, key: UpstreamKey) {
        let Some(upstream) = self.upstreams.try_remove(key.index()) else { return };
        let client = upstream.own_client.and_then(|client| self.clients.get_mut(client.index()));
        let is_own = client.is_some_and(|client| client.state.own_upstream.take_if(|own| *own == key).is_some());
        if is_own {
            self.pools.release_own();
        }
        let is_pooled = self.pools.remove(upstream.endpoint, key);
        let counts = &self.counts;
        if is_own || is_pooled {
            counts.pool_idle.remove();
        } else {
            counts.pool_busy.remove();
        }
        self.pools.closed(upstream.endpoint);
        self.upstream_timers.clear(key.timer());
        self.owners.clear(upstream.id);
    }
}
