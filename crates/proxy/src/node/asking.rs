//! From a request to a server that has it: who is asked, over which connection, and what if that fails.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use breme_http1::{Fields, Framing, Method, RequestHead, Target};
use breme_node::{Close, ConnectError, ConnectTicket, Connected, Endpoint};

use super::Turn;
use super::tables::{
    Asked, ClientKey, Connecting, ConnectingKey, EndpointKey, Exchange, ExchangeKey, Kind, Notes, Owner, Route, Server,
    ServerKey, Stage, Waiting, Way,
};
use crate::failure::Failure;
use crate::request::{self, Asker, Passing};
use crate::resolver::{Requester, Resolution, ResolveError};
use crate::settings::HostRule;
use crate::shared::Role;
use crate::targets::split_authority;
use crate::upstreams::Outcome;

/// Addresses of one host that are tried.
const ADDRESSES_TRIED_MAX: usize = 4;
/// Upstreams that are tried for one request, if they cannot be reached.
const UPSTREAMS_TRIED_MAX: usize = 3;
/// Messages that concern names which were looked up: the number of an exchange in the low half, its place behind that.
const PLACE_BITS: u32 = 32;

impl Turn<'_> {
    /// A request has come.
    pub(super) fn handle_request(&mut self, client_key: ClientKey, head: &RequestHead<'_, '_>) {
        let key = self.begin_exchange(client_key, head);
        if let Err(failure) = self.prepare(key, client_key, head) {
            self.fail(key, &failure);
        }
    }

    fn begin_exchange(&mut self, client_key: ClientKey, head: &RequestHead<'_, '_>) -> ExchangeKey {
        self.node.exchange_count = self.node.exchange_count.wrapping_add(1);
        let mut exchange = Exchange::new(self.node.exchange_count, client_key, self.now, Asked::of(head));
        exchange.content = match head.framing {
            _ if !head.has_content() => Way::None,
            Framing::Chunked => Way::Chunks,
            _ => Way::Raw,
        };
        exchange.is_request_complete = !head.has_content();
        if self.shared.access_log.is_some() {
            exchange.notes = Some(Box::new(Notes::of(head, self.node.date.second(self.now))));
        }
        let key = ExchangeKey::of(self.node.exchanges.insert(exchange));
        self.node.counts.exchanges_open.add();
        self.node.client_timers.clear(client_key.timer());
        if let Some(client) = self.client(client_key) {
            client.exchange = Some(key);
            client.waiting = Waiting::Exchange;
        }
        key
    }

    /// Judges the request, writes what goes upstream, and goes to find who takes it.
    fn prepare(&mut self, key: ExchangeKey, client_key: ClientKey, head: &RequestHead<'_, '_>) -> Result<(), Failure> {
        let shared = self.shared;
        let hops_left = hops_left(head)?;
        match &shared.role {
            Role::Reverse { host, .. } => {
                if head.method == Method::Connect {
                    return Err(Failure::NoTunnels);
                }
                self.choose_upstream(key)?;
                let authority = match (host, head.authority) {
                    (HostRule::Fixed(host), _) => Arc::from(host.as_str()),
                    (HostRule::Keep, Some(authority)) => {
                        return self.write_and_reach(key, client_key, head, authority, hops_left);
                    }
                    (HostRule::Keep, None) | (HostRule::Upstream, _) => self.upstream_name(key),
                };
                self.write_and_reach(key, client_key, head, &authority, hops_left)
            }
            Role::Forward { .. } => {
                if request::has_come_through(head.fields, &shared.via_name) {
                    return Err(Failure::Loop);
                }
                let authority = self.name_target(key, head)?;
                if head.method != Method::Connect {
                    self.write_request(key, client_key, head, authority, hops_left)?;
                }
                self.resolve(key)
            }
        }
    }

    fn write_and_reach(
        &mut self,
        key: ExchangeKey,
        client_key: ClientKey,
        head: &RequestHead<'_, '_>,
        authority: &str,
        hops_left: Option<u64>,
    ) -> Result<(), Failure> {
        self.write_request(key, client_key, head, authority, hops_left)?;
        self.reach(key)
    }

    fn write_request(
        &mut self,
        key: ExchangeKey,
        client_key: ClientKey,
        head: &RequestHead<'_, '_>,
        authority: &str,
        hops_left: Option<u64>,
    ) -> Result<(), Failure> {
        let Some(client) = self.node.clients.get(client_key.index()) else { return Ok(()) };
        let asker = Asker { address: client.peer.ip(), is_secured: client.is_secured, is_trusted: client.is_trusted };
        let with_upgrade = self.shared.settings.upgrades && head.asks_upgrade && !asks_for_http2(head.fields);
        let passing = Passing { authority, asker, with_upgrade, hops_left };
        let mut buffer = self.node.take_buffer();
        let written = request::write(&self.shared, head, &passing, &mut buffer);
        if let Some(exchange) = self.exchange(key) {
            exchange.request = buffer;
            exchange.asked.asks_upgrade = with_upgrade;
        }
        written.map_err(|_| Failure::Unsendable)
    }

    fn upstream_name(&mut self, key: ExchangeKey) -> Arc<str> {
        match self.exchange(key).map(|exchange| &exchange.route) {
            Some(Route::Upstream { choice, .. }) => choice.name.clone(),
            Some(Route::Host { name, .. }) => name.clone(),
            _ => Arc::from(""),
        }
    }
}

/// Reverse: one of the upstreams.
impl Turn<'_> {
    /// Chooses an upstream that was not tried before.
    fn choose_upstream(&mut self, key: ExchangeKey) -> Result<(), Failure> {
        let shared = self.shared;
        let Role::Reverse { upstreams, .. } = &shared.role else { return Err(Failure::NoUpstream) };
        let now = self.now;
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return Ok(()) };
        let tried = match std::mem::replace(&mut exchange.route, Route::None) {
            Route::Upstream { tried, .. } => tried,
            _ => Vec::new(),
        };
        let choice = upstreams.choose(now, &tried, &mut self.node.random).ok_or(Failure::NoUpstream)?;
        exchange.route = Route::Upstream { choice, tried };
        Ok(())
    }

    /// Tells the balancer what became of the choice, once.
    pub(super) fn conclude(&mut self, key: ExchangeKey, outcome: Outcome) {
        let shared = self.shared;
        let now = self.now;
        if let Role::Reverse { upstreams, .. } = &shared.role
            && let Some(exchange) = self.exchange(key)
            && let Route::Upstream { choice, .. } = &exchange.route
        {
            upstreams.finished(now, choice.upstream, outcome);
        }
    }
}

/// Forward: a host that the client names.
impl Turn<'_> {
    /// What the client wants to reach, if the rules let it. Returns the authority.
    fn name_target<'a>(&mut self, key: ExchangeKey, head: &RequestHead<'a, '_>) -> Result<&'a str, Failure> {
        let shared = self.shared;
        let Role::Forward { rules, .. } = &shared.role else { return Err(Failure::NotAbsolute) };
        let (authority, is_tunnel) = match head.target {
            Target::Authority(authority) => (authority, true),
            Target::Absolute { scheme, .. } if scheme.eq_ignore_ascii_case("https") => {
                return Err(Failure::NeedsTunnel);
            }
            Target::Absolute { authority, .. } => (authority, false),
            Target::Origin { .. } | Target::Asterisk => return Err(Failure::NotAbsolute),
        };
        if let Some(exchange) = self.exchange(key) {
            exchange.route = Route::Host { name: Arc::from(authority), rest: Vec::new() };
        }
        let Some((host, port)) = split_authority(authority, 80) else { return Err(Failure::NotAbsolute) };
        let judged = rules.judge_name(host, port, is_tunnel);
        judged.map_err(|refusal| {
            self.node.counts.targets_refused.add();
            Failure::Target(refusal)
        })?;
        Ok(authority)
    }

    /// Finds the addresses of the host.
    fn resolve(&mut self, key: ExchangeKey) -> Result<(), Failure> {
        let shared = self.shared;
        let Role::Forward { resolver, .. } = &shared.role else { return Ok(()) };
        let name = self.upstream_name(key);
        let Some((host, port)) = split_authority(&name, 80) else { return Err(Failure::NotAbsolute) };
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.take_addresses(key, vec![SocketAddr::new(address, port)]);
        }
        let requester = self.requester(key);
        match resolver.resolve(host, port, requester) {
            Resolution::Known(addresses) => self.take_addresses(key, addresses),
            Resolution::Failed(error) => Err(Failure::Resolve(error)),
            Resolution::Asked => {
                if let Some(exchange) = self.exchange(key) {
                    exchange.stage = Stage::Resolving;
                }
                self.set_exchange_deadline(key);
                Ok(())
            }
        }
    }

    fn requester(&mut self, key: ExchangeKey) -> Requester {
        let number = self.exchange(key).map_or(0, |exchange| exchange.number);
        let message = (key.index() as u64) << PLACE_BITS | u64::from(number);
        Requester { shard: self.node.shard.id, message }
    }

    /// A wake-up: the addresses for an exchange are there.
    pub(super) fn handle_message(&mut self, message: u64) {
        let key = ExchangeKey::of((message >> PLACE_BITS) as usize);
        let number = message as u32;
        let is_waiting =
            self.exchange(key).is_some_and(|exchange| exchange.number == number && exchange.stage == Stage::Resolving);
        let shared = self.shared;
        if let Role::Forward { resolver, .. } = &shared.role
            && is_waiting
        {
            let requester = Requester { shard: self.node.shard.id, message };
            let answer = resolver.fetch(requester).unwrap_or(Err(ResolveError::NoSuchName));
            let taken = match answer {
                Ok(addresses) => self.take_addresses(key, addresses),
                Err(error) => Err(Failure::Resolve(error)),
            };
            if let Err(failure) = taken {
                self.fail(key, &failure);
            }
        }
    }

    /// Nobody waits for the addresses any more.
    pub(super) fn forget_question(&mut self, key: ExchangeKey) {
        let requester = self.requester(key);
        if let Role::Forward { resolver, .. } = &self.shared.role {
            resolver.forget(requester);
        }
    }

    /// Judges what the name has led to, and goes there.
    fn take_addresses(&mut self, key: ExchangeKey, mut addresses: Vec<SocketAddr>) -> Result<(), Failure> {
        let shared = self.shared;
        let Role::Forward { rules, .. } = &shared.role else { return Ok(()) };
        let name = self.upstream_name(key);
        let host = split_authority(&name, 80).map_or("", |(host, _)| host);
        if addresses.is_empty() {
            return Err(Failure::Resolve(ResolveError::NoSuchName));
        }
        rules.judge_addresses(host, &mut addresses).map_err(|refusal| {
            self.node.counts.targets_refused.add();
            Failure::Target(refusal)
        })?;
        addresses.truncate(ADDRESSES_TRIED_MAX);
        addresses.reverse();
        if let Some(exchange) = self.exchange(key) {
            exchange.route = Route::Host { name, rest: addresses };
        }
        self.reach(key)
    }
}

/// Connections.
impl Turn<'_> {
    /// Finds a connection for the exchange: an idle one, or a new one.
    pub(super) fn reach(&mut self, key: ExchangeKey) -> Result<(), Failure> {
        let endpoint = self.endpoint(key)?;
        let Some(exchange) = self.exchange(key) else { return Ok(()) };
        let may_reuse = !exchange.wants_fresh && exchange.asked.kind != Kind::Connect;
        if may_reuse && let Some(server_key) = self.node.pools.take(endpoint) {
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

    fn endpoint(&mut self, key: ExchangeKey) -> Result<EndpointKey, Failure> {
        let shared = self.shared;
        match self.exchange(key).map(|exchange| &exchange.route) {
            Some(Route::Upstream { choice, .. }) if choice.tls => {
                let client = shared.tls_clients.get(&*choice.name).ok_or(Failure::NoTlsClient)?;
                Ok(EndpointKey { address: choice.address, tls: Some(*client) })
            }
            Some(Route::Upstream { choice, .. }) => Ok(EndpointKey { address: choice.address, tls: None }),
            Some(Route::Host { rest, .. }) => {
                let address = rest.last().ok_or(Failure::Resolve(ResolveError::NoSuchName))?;
                Ok(EndpointKey { address: *address, tls: None })
            }
            _ => Err(Failure::NoUpstream),
        }
    }

    /// What became of a connection that was to be opened.
    pub(super) fn handle_connected(
        &mut self,
        key: ConnectingKey,
        connecting: Connecting,
        outcome: Result<Connected, ConnectError>,
    ) {
        let Connecting { endpoint, exchange } = connecting;
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
                    None => self.release_server(server_key),
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

    /// Nothing was sent yet, so any request may go elsewhere.
    fn try_elsewhere(&mut self, key: ExchangeKey, error: ConnectError) {
        self.conclude(key, Outcome::ConnectFailed);
        let Some(exchange) = self.exchange(key) else { return };
        let is_left = match &mut exchange.route {
            Route::Upstream { choice, tried } => {
                tried.push(choice.upstream);
                tried.len() < UPSTREAMS_TRIED_MAX
            }
            Route::Host { rest, .. } => {
                rest.pop();
                !rest.is_empty()
            }
            Route::None => false,
        };
        // The name of the one that failed is the one to tell.
        let before = match &exchange.route {
            Route::Upstream { choice, tried } => Some((choice.clone(), tried.clone())),
            _ => None,
        };
        let is_upstream = before.is_some();
        let chosen = if is_left && is_upstream { self.choose_upstream(key).is_ok() } else { is_left };
        if chosen {
            if let Err(failure) = self.reach(key) {
                self.fail(key, &failure);
            }
            return;
        }
        if let (Some((choice, tried)), Some(exchange)) = (before, self.exchange(key)) {
            exchange.route = Route::Upstream { choice, tried };
        }
        self.fail_concluded(key, &Failure::Connect(error));
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
        if exchange.asked.asks_upgrade {
            server.http.sent_with_upgrade(method)
        } else {
            server.http.sent(method)
        }
        self.actions.send(server.id).extend_from_slice(&exchange.request);
        let (client, is_request_complete) = (exchange.client, exchange.is_request_complete);
        self.set_exchange_deadline(key);
        if !is_request_complete {
            self.lend_client_again(client);
        }
    }

    /// The connection was idle too long, and the server ended it when the request came: nothing of an answer has come, and asking twice does
    /// no harm. Returns whether the request is on its way again.
    pub(super) fn ask_again(&mut self, key: ExchangeKey) -> bool {
        let retries_max = self.shared.settings.retries_max;
        let Some(exchange) = self.exchange(key) else { return false };
        let may_retry = exchange.stage == Stage::Asking
            && exchange.is_reused
            && !exchange.is_answer_begun
            && exchange.asked.is_idempotent
            && exchange.content == Way::None
            && exchange.retries < retries_max;
        if !may_retry {
            return false;
        }
        exchange.retries += 1;
        exchange.wants_fresh = true;
        self.node.counts.retries.add();
        if let Err(failure) = self.reach(key) {
            self.fail(key, &failure);
        }
        true
    }

    /// The connection is free: it waits for the next request, if it may.
    pub(super) fn release_server(&mut self, key: ServerKey) {
        let pool = &self.shared.settings.pool;
        let Some(server) = self.node.servers.get_mut(key.index()) else { return };
        server.exchange = None;
        let may_stay = !self.node.is_stopping
            && !server.ended
            && !server.queue_is_long
            && server.request_count < pool.requests_max
            && server.http.can_send(Method::Get);
        if !may_stay || !self.node.pools.put(server.endpoint, key) {
            return self.drop_server(key, Close::Graceful);
        }
        self.node.counts.pool_idle.add();
        self.node.server_timers.set(key.timer(), self.now + pool.idle_timeout);
        if std::mem::take(&mut server.is_paused) {
            self.actions.resume(server.id);
        }
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

impl Asked {
    fn of(head: &RequestHead<'_, '_>) -> Self {
        let kind = match head.method {
            Method::Head => Kind::Head,
            Method::Connect => Kind::Connect,
            _ => Kind::Other,
        };
        // RFC 9110, 9.2.2.
        let is_idempotent = matches!(
            head.method,
            Method::Get | Method::Head | Method::Options | Method::Trace | Method::Put | Method::Delete
        );
        Self { kind, is_idempotent, asks_upgrade: false, version: head.version }
    }
}

impl Notes {
    fn of(head: &RequestHead<'_, '_>, began: breme_base::UnixSeconds) -> Self {
        let with_query = |path: &str, query: Option<&str>| match query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let target = match head.target {
            Target::Origin { path, query } => with_query(path, query),
            Target::Absolute { scheme, authority, path, query } => {
                format!("{scheme}://{authority}{}", with_query(path, query))
            }
            Target::Authority(authority) => authority.to_owned(),
            Target::Asterisk => "*".to_owned(),
        };
        Self {
            began,
            method: head.method.as_str().to_owned(),
            target,
            authority: head.authority.map(str::to_owned),
            referer: head.fields.first("Referer").map(<[u8]>::to_vec),
            user_agent: head.fields.first("User-Agent").map(<[u8]>::to_vec),
        }
    }
}

/// What Max-Forwards is to be behind this proxy; none if that stays as it is. Only TRACE and OPTIONS count hops (RFC 9110, 7.6.2).
fn hops_left(head: &RequestHead<'_, '_>) -> Result<Option<u64>, Failure> {
    if !matches!(head.method, Method::Trace | Method::Options) {
        return Ok(None);
    }
    let value = head.fields.first("Max-Forwards").and_then(|value| std::str::from_utf8(value).ok());
    match value.and_then(|value| value.parse::<u64>().ok()) {
        Some(0) => Err(Failure::HopsSpent),
        Some(hops) => Ok(Some(hops - 1)),
        None => Ok(None),
    }
}

/// An upgrade to HTTP/2 would take the requests behind it out of our sight.
fn asks_for_http2(fields: Fields<'_, '_>) -> bool {
    fields.list("Upgrade").any(|protocol| protocol.get(..2).is_some_and(|front| front.eq_ignore_ascii_case(b"h2")))
}
