//! Connections to upstreams: from the pool or new, given to an exchange, taken back.

use breme_http1::Method;
use breme_node::{Close, ConnectError, ConnectTicket, Connected, Endpoint};

use super::reuse::Reuse;
use super::tables::{
    ClientKey, Connecting, ConnectingKey, EndpointKey, ExchangeKey, Kind, Owner, Server, ServerKey, Stage, Way,
};
use super::turn::Turn;
use crate::failure::Failure;
use crate::request;

impl Turn<'_> {
    /// Finds a connection for the exchange: an idle one, or a new one.
    pub(super) fn reach(&mut self, key: ExchangeKey) -> Result<(), Failure> {
        let endpoint = self.endpoint(key)?;
        let Some(exchange) = self.exchange(key) else { return Ok(()) };
        let may_reuse = !exchange.wants_fresh && exchange.asked.kind != Kind::Connect;
        let client = exchange.client;
        if may_reuse && let Some(server_key) = self.take_idle(client, endpoint) {
            self.node.counts.pool_idle.remove();
            self.node.server_timers.clear(server_key.timer());
            self.hand_over(key, server_key);
            return Ok(());
        }
        let connecting = ConnectingKey::of(self.node.connecting.insert(Connecting { endpoint, exchange: Some(key) }));
        if let Some(exchange) = self.exchange(key) {
            exchange.stage = Stage::Connecting;
            exchange.connecting = Some(connecting);
        }
        let mut target = Endpoint::tcp(endpoint.address);
        target.tls = endpoint.tls;
        self.actions.connect(ConnectTicket(connecting.index() as u64), target);
        self.set_exchange_deadline(key);
        Ok(())
    }

    /// An idle connection for a request of this client: its own one, or one of the pool.
    fn take_idle(&mut self, client: Option<ClientKey>, endpoint: EndpointKey) -> Option<ServerKey> {
        let own = client.and_then(|client| self.client(client)).and_then(|client| client.own_server);
        match own.filter(|&it| self.server(it).is_some_and(|server| server.endpoint == endpoint)) {
            Some(_) => {
                self.node.pools.release_own();
                client.and_then(|client| self.client(client))?.own_server.take()
            }
            None => self.node.pools.take(endpoint),
        }
    }

    /// What became of a connection that was to be opened.
    pub(super) fn handle_connected(
        &mut self,
        key: ConnectingKey,
        endpoint: EndpointKey,
        exchange: Option<ExchangeKey>,
        outcome: Result<Connected, ConnectError>,
    ) {
        let exchange = exchange.filter(|&exchange| {
            self.exchange(exchange).is_some_and(|exchange| exchange.connecting.take_if(|own| *own == key).is_some())
        });
        match outcome {
            Ok(connected) => {
                self.node.counts.connects.add();
                let server_key = self.add_server(Server::new(connected.connection, endpoint));
                match exchange {
                    Some(exchange) => self.hand_over(exchange, server_key),
                    // Who wanted it is gone; it is as good as any other that waits.
                    None => self.release_server(server_key, Reuse::AnyClient, None),
                }
            }
            Err(error) => {
                self.node.counts.connects_failed.add();
                if let Some(exchange) = exchange {
                    self.try_elsewhere(exchange, error);
                }
            }
        }
    }

    fn add_server(&mut self, server: Server) -> ServerKey {
        let (id, endpoint) = (server.id, server.endpoint);
        let key = ServerKey::of(self.node.servers.insert(server));
        self.node.set_owner(id, Owner::Server(key));
        self.node.pools.opened(endpoint);
        self.node.counts.upstreams_open.add();
        key
    }

    /// Gives the request to a connection.
    fn hand_over(&mut self, key: ExchangeKey, server_key: ServerKey) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(server) = self.node.servers.get_mut(server_key.index()) else { return };
        server.exchange = Some(key);
        exchange.server = Some(server_key);
        exchange.is_reused = server.request_count > 0;
        (exchange.sent, exchange.progress, exchange.content_began) = (self.now, self.now, self.now);
        if exchange.is_reused {
            self.node.counts.reuses.add();
        }
        server.request_count += 1;
        if exchange.asked.kind == Kind::Connect {
            return self.open_tunnel(key);
        }
        exchange.stage = Stage::Asking;
        let method = exchange.asked.method();
        if exchange.asked.requests_upgrade {
            server.http.sent_with_upgrade(method);
        } else {
            server.http.sent(method);
        }
        let out = self.actions.send(server.id);
        out.extend_from_slice(&exchange.request);
        request::end(if exchange.lacks_host { exchange.upstream_name() } else { None }, out);
        let (client, is_request_complete) = (exchange.client, exchange.is_request_complete);
        self.set_exchange_deadline(key);
        if !is_request_complete && let Some(client) = client {
            self.lend_client_again(client);
        }
    }

    /// The connection was idle too long, and the server ended it when the request came: nothing of an answer has come,
    /// and asking twice does no harm. Returns whether the request is on its way again.
    pub(super) fn ask_again(&mut self, key: ExchangeKey) -> bool {
        let retries_max = self.shared.settings.retries_max;
        let Some(exchange) = self.exchange(key) else { return false };
        let may_retry = exchange.stage == Stage::Asking
            && exchange.is_reused
            && !exchange.is_answer_begun
            && exchange.asked.is_idempotent
            && exchange.content == Way::None
            && exchange.retries < retries_max;
        if !may_retry || !self.take_retry() {
            return false;
        }
        let Some(exchange) = self.exchange(key) else { return false };
        exchange.retries += 1;
        exchange.wants_fresh = true;
        self.node.counts.retries.add();
        if let Err(failure) = self.reach(key) {
            self.fail(key, &failure);
        }
        true
    }

    /// Whether not too many requests were sent again already; then this is one more.
    pub(super) fn take_retry(&self) -> bool {
        let percent = self.shared.settings.retry_percent_max;
        self.shared.retry_budget.take(self.now, percent, || self.shared.counters.requests_upstream())
    }

    /// The connection is free: it waits for the next request, if it may, which may be one of `client` only where
    /// content was sent on it before.
    pub(super) fn release_server(&mut self, key: ServerKey, reuse: Reuse, client: Option<ClientKey>) {
        let pool = &self.shared.settings.pool;
        let Some(server) = self.node.servers.get_mut(key.index()) else { return };
        server.exchange = None;
        let may_stay = !self.node.is_stopping
            && !server.ended
            && !server.queue_is_long
            && server.request_count < pool.requests_max
            && server.http.can_send(Method::Get)
            && reuse != Reuse::Never;
        let is_own = server.own_client.is_some() || reuse == Reuse::SameClient;
        let is_kept = may_stay
            && match is_own {
                true => self.keep_own(key, client),
                false => self.node.pools.put(server.endpoint, key, pool.idle_max),
            };
        if !is_kept {
            return self.drop_server(key, Close::Graceful);
        }
        self.node.counts.pool_idle.add();
        self.node.server_timers.set(key.timer(), self.now + pool.idle_timeout);
        if let Some(server) = self.node.servers.get_mut(key.index())
            && std::mem::take(&mut server.is_paused)
        {
            self.actions.resume(server.id);
        }
    }

    /// Keeps an idle connection for the only client whose requests it may carry, in the place of the one that this
    /// client has. False: there is no such client any more, or enough are kept.
    fn keep_own(&mut self, key: ServerKey, client_key: Option<ClientKey>) -> bool {
        let Some(client_key) = client_key else { return false };
        let before = self.client(client_key).and_then(|client| client.own_server);
        if let Some(before) = before {
            self.drop_server(before, Close::Graceful);
        }
        let Some(client) = self.node.clients.get_mut(client_key.index()) else { return false };
        let Some(server) = self.node.servers.get_mut(key.index()) else { return false };
        if !self.node.pools.keep_own(self.shared.settings.pool.idle_max) {
            return false;
        }
        server.own_client = Some(client_key);
        client.own_server = Some(key);
        true
    }

    /// Closes a connection that has no exchange (any more).
    pub(super) fn drop_server(&mut self, key: ServerKey, how: Close) {
        if let Some(id) = self.server(key).map(|server| server.id) {
            self.actions.close(id, how);
            self.forget_server(key);
        }
    }

    pub(super) fn forget_server(&mut self, key: ServerKey) {
        let Some(server) = self.node.servers.try_remove(key.index()) else { return };
        let client = server.own_client.and_then(|client| self.node.clients.get_mut(client.index()));
        if client.is_some_and(|client| client.own_server.take_if(|own| *own == key).is_some()) {
            self.node.pools.release_own();
            self.node.counts.pool_idle.remove();
        }
        if self.node.pools.remove(server.endpoint, key) {
            self.node.counts.pool_idle.remove();
        }
        self.node.pools.closed(server.endpoint);
        self.node.counts.upstreams_open.remove();
        self.node.server_timers.clear(key.timer());
        self.node.disown(server.id);
    }

    pub(super) fn drop_idle_servers(&mut self) {
        for key in self.node.pools.idle() {
            self.drop_server(key, Close::Graceful);
        }
    }
}
