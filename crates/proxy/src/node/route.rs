//! Routes: an upstream chosen by the balancer (reverse proxy), or the host named by the client (forward proxy).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use breme_balance::{Hints, UpstreamOutcome};
use breme_http::{Fields, RequestHead, Target};

use super::context::Context;
use super::keys::{EndpointKey, ExchangeKey};
use super::retry::ADDRESSES_TRIED_MAX;
use super::stage::Wait;
use super::tables::Route;
use crate::failure::Failure;
use crate::resolver::{Requester, Resolution, ResolveError};
use crate::shared_state::Role;
use crate::targets::{TargetRefusal, TargetRules, split_authority};
use crate::tls_client_ids::TlsClientIds;

/// Cookie lines evaluated by the balancer.
const COOKIE_LINES_MAX: usize = 8;
/// Joins Cookie lines into one.
pub(super) const COOKIES_JOINED_BY: &[u8] = b"; ";
/// The port of `http://` URLs without one.
const HTTP_PORT: u16 = 80;

impl Context<'_> {
    /// Forwards the prepared request. `cookies`: its Cookie lines as one.
    #[inline]
    pub(super) fn forward_with_cookies(&mut self, key: ExchangeKey, cookies: &[u8]) {
        let gone = match self.shared.role {
            Role::Reverse { .. } => self.choose_and_reach(key, &[cookies]),
            Role::Forward { .. } => self.resolve(key),
        };
        if let Err(failure) = gone {
            self.fail(key, &failure);
        }
    }

    /// As [`forward_with_cookies`](Self::forward_with_cookies), with the fields of the request.
    pub(super) fn forward_with_fields(&mut self, key: ExchangeKey, fields: Fields<'_, '_>) -> Result<(), Failure> {
        let Role::Reverse { group, .. } = &self.shared.role else { return self.resolve(key) };
        if group.reads_cookies() {
            let mut cookies: [&[u8]; COOKIE_LINES_MAX] = [&[]; COOKIE_LINES_MAX];
            let lines = cookies.iter_mut().zip(fields.all("Cookie"));
            let count = lines.map(|(position, line)| *position = line).count();
            self.choose_and_reach(key, &cookies[..count])
        } else {
            self.choose_and_reach(key, &[])
        }
    }

    fn choose_and_reach(&mut self, key: ExchangeKey, cookies: &[&[u8]]) -> Result<(), Failure> {
        if self.choose_or_queue(key, cookies)? { self.connect_upstream(key) } else { Ok(()) }
    }
}

impl Route {
    /// The endpoint to connect to.
    pub(super) fn endpoint(&self, tls_clients: &TlsClientIds) -> Result<EndpointKey, Failure> {
        match self {
            Self::Upstream { choice, .. } if choice.tls => {
                let client = tls_clients.client(&choice.name).ok_or(Failure::NoTlsClient)?;
                Ok(EndpointKey { address: choice.address, tls: Some(client) })
            }
            Self::Upstream { choice, .. } => Ok(EndpointKey { address: choice.address, tls: None }),
            Self::Host { rest, .. } => {
                let address = rest.last().ok_or(Failure::Resolve(ResolveError::NoSuchName))?;
                Ok(EndpointKey { address: *address, tls: None })
            }
            Self::None => Err(Failure::Unsendable),
        }
    }

    /// Whether the response gets the balancer's cookie.
    pub(super) fn sets_affinity(&self) -> bool {
        matches!(self, Self::Upstream { choice, .. } if choice.set_affinity.is_some())
    }

    /// The balancer's Set-Cookie, for one response.
    pub(super) fn take_affinity(&mut self) -> Option<Arc<str>> {
        match self {
            Self::Upstream { choice, .. } => choice.set_affinity.take(),
            Self::Host { .. } | Self::None => None,
        }
    }

    fn host_name(&self) -> Option<Arc<str>> {
        match self {
            Self::Host { name, .. } => Some(name.clone()),
            Self::Upstream { .. } | Self::None => None,
        }
    }
}

impl Role {
    /// The cookies to keep for the balancer while a request waits; none if it reads no cookies.
    pub(super) fn cookies_to_keep(&self, fields: Fields<'_, '_>) -> Vec<u8> {
        match self {
            Self::Reverse { group, .. } if group.reads_cookies() => joined_cookies(fields).unwrap_or_default(),
            Self::Reverse { .. } | Self::Forward { .. } => Vec::new(),
        }
    }
}

/// The Cookie lines for the balancer as one (RFC 9113, 8.2.3).
pub(super) fn joined_cookies(fields: Fields<'_, '_>) -> Option<Vec<u8>> {
    fields.first("Cookie")?;
    let lines: Vec<&[u8]> = fields.all("Cookie").take(COOKIE_LINES_MAX).collect();
    Some(lines.join(COOKIES_JOINED_BY))
}

/// Reverse proxy: upstreams.
impl Context<'_> {
    /// Chooses an upstream that was not tried before. On failure the route is unchanged.
    pub(super) fn choose_upstream(&mut self, key: ExchangeKey, cookies: &[&[u8]]) -> Result<(), Failure> {
        let Role::Reverse { group, .. } = &self.shared.role else { return Err(Failure::Unsendable) };
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return Ok(()) };
        let client = exchange.client.and_then(|client| self.node.clients.get(client.index()));
        let is_secured = client.is_some_and(|client| client.state.is_secured);
        let (mut tried, mut named) = (Vec::new(), None);
        if let Route::Upstream { choice, tried: before, .. } = &mut exchange.route {
            before.push(choice.upstream);
            tried.clone_from(before);
            named = choice.named;
        }
        let key_hash = exchange.stage.request().map_or(0, |request| request.key_hash);
        let hints = Hints { key_hash, cookies, named, is_secured, tried: &tried };
        let choice = group.choose(self.now, &hints, &mut self.node.random).map_err(Failure::NoUpstream)?;
        exchange.route = Route::Upstream { choice, tried, is_open: true };
        Ok(())
    }

    /// Reports the outcome to the balancer, once for each choice.
    pub(super) fn report_outcome(&mut self, key: ExchangeKey, outcome: UpstreamOutcome) {
        let now = self.now;
        if let Role::Reverse { group, .. } = &self.shared.role
            && let Some(exchange) = self.exchange(key)
            && let Route::Upstream { choice, is_open, .. } = &mut exchange.route
            && std::mem::take(is_open)
        {
            let has_capacity = group.finished(now, choice.upstream, outcome);
            if has_capacity {
                self.wake_first_queued();
            }
        }
    }
}

/// Forward proxy: a host that the client names.
impl Context<'_> {
    /// Checks the target against the rules.
    pub(super) fn check_target(
        &mut self,
        key: ExchangeKey,
        head: &RequestHead<'_, '_>,
        rules: &TargetRules,
    ) -> Result<(), Failure> {
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
        let (host, port) = split_authority(authority, HTTP_PORT).ok_or(Failure::NotAbsolute)?;
        rules.judge_name(host, port, is_tunnel).map_err(|refusal| self.refuse_target(refusal))
    }

    fn refuse_target(&self, refusal: TargetRefusal) -> Failure {
        self.node.counts.targets_refused.add();
        Failure::Target(refusal)
    }

    fn host_name(&self, key: ExchangeKey) -> Result<Arc<str>, Failure> {
        let exchange = self.node.exchanges.get(key.index());
        exchange.and_then(|exchange| exchange.route.host_name()).ok_or(Failure::Unsendable)
    }

    fn resolve(&mut self, key: ExchangeKey) -> Result<(), Failure> {
        let Role::Forward { resolver, .. } = &self.shared.role else { return Err(Failure::Unsendable) };
        let name = self.host_name(key)?;
        let (host, port) = split_authority(&name, HTTP_PORT).ok_or(Failure::NotAbsolute)?;
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.take_addresses(key, vec![SocketAddr::new(address, port)]);
        }
        let requester = Requester { shard: self.node.shard.id, message: self.node.message_of(key) };
        match resolver.resolve(host, port, requester) {
            Resolution::Known(addresses) => self.take_addresses(key, addresses),
            Resolution::Failed(error) => Err(Failure::Resolve(error)),
            Resolution::Pending => {
                if let Some(exchange) = self.exchange(key) {
                    exchange.stage.wait_for(Wait::Resolving);
                }
                self.set_exchange_deadline(key);
                Ok(())
            }
        }
    }

    pub(super) fn handle_resolved(&mut self, key: ExchangeKey, message: u64) {
        let Role::Forward { resolver, .. } = &self.shared.role else { return };
        let requester = Requester { shard: self.node.shard.id, message };
        // None: a wake-up of an earlier exchange.
        let Some(response) = resolver.fetch(requester) else { return };
        if let Some(exchange) = self.exchange(key) {
            exchange.stage.stop_waiting();
        }
        let taken = match response {
            Ok(addresses) => self.take_addresses(key, addresses),
            Err(error) => Err(Failure::Resolve(error)),
        };
        if let Err(failure) = taken {
            self.fail(key, &failure);
        }
    }

    /// Cancels the name lookup.
    pub(super) fn cancel_lookup(&mut self, key: ExchangeKey) {
        let requester = Requester { shard: self.node.shard.id, message: self.node.message_of(key) };
        if let Role::Forward { resolver, .. } = &self.shared.role {
            resolver.forget(requester);
        }
    }

    /// Checks the addresses against the rules, and connects.
    fn take_addresses(&mut self, key: ExchangeKey, mut addresses: Vec<SocketAddr>) -> Result<(), Failure> {
        let Role::Forward { rules, .. } = &self.shared.role else { return Err(Failure::Unsendable) };
        if addresses.is_empty() {
            return Err(Failure::Resolve(ResolveError::NoSuchName));
        }
        let name = self.host_name(key)?;
        let host = split_authority(&name, HTTP_PORT).map_or("", |(host, _)| host);
        rules.judge_addresses(host, &mut addresses).map_err(|refusal| self.refuse_target(refusal))?;
        addresses.truncate(ADDRESSES_TRIED_MAX);
        // Addresses are taken from the end.
        addresses.reverse();
        if let Some(exchange) = self.exchange(key) {
            exchange.route = Route::Host { name, rest: addresses };
        }
        self.connect_upstream(key)
    }
}
