//! Who is asked: one of a reverse proxy's upstreams by the balancer's choice, or the host that a forward proxy's client
//! names.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use breme_balance::{Hints, Outcome};
use breme_http1::{Fields, RequestHead, Target};
use breme_node::ConnectError;

use super::tables::{EndpointKey, ExchangeKey, Route, Stage};
use super::turn::Turn;
use crate::failure::Failure;
use crate::resolver::{Requester, Resolution, ResolveError};
use crate::shared::Role;
use crate::targets::{TargetRefusal, TargetRules, split_authority};

/// Addresses of one host that are tried.
const ADDRESSES_TRIED_MAX: usize = 4;
/// Upstreams that are tried for one request, if they cannot be reached.
const UPSTREAMS_TRIED_MAX: usize = 3;
/// Lines of Cookie that the balancer is shown.
const COOKIE_LINES_MAX: usize = 8;
/// What separates lines of Cookie that are kept as one.
pub(super) const COOKIES_JOINED_BY: &[u8] = b"; ";
/// The port of `http://` URLs that name none.
const HTTP_PORT: u16 = 80;

impl Turn<'_> {
    /// Sends an exchange upstream that has waited, and whose request was written before.
    pub(super) fn go_upstream(&mut self, key: ExchangeKey) {
        let cookies = self.exchange(key).map(|exchange| std::mem::take(&mut exchange.cookies)).unwrap_or_default();
        self.go_upstream_with_cookies(key, &cookies);
    }

    /// The same for one that has these cookies, as one line.
    #[inline]
    pub(super) fn go_upstream_with_cookies(&mut self, key: ExchangeKey, cookies: &[u8]) {
        let gone = match self.shared.role {
            Role::Reverse { .. } => self.choose_and_reach(key, &[cookies]),
            Role::Forward { .. } => self.resolve(key),
        };
        if let Err(failure) = gone {
            self.fail(key, &failure);
        }
    }

    /// The same while the request's fields are at hand.
    pub(super) fn go_upstream_with(&mut self, key: ExchangeKey, fields: Fields<'_, '_>) -> Result<(), Failure> {
        let Role::Reverse { group, .. } = &self.shared.role else { return self.resolve(key) };
        if group.reads_cookies() {
            let mut cookies: [&[u8]; COOKIE_LINES_MAX] = [&[]; COOKIE_LINES_MAX];
            let lines = cookies.iter_mut().zip(fields.all("Cookie"));
            let count = lines.map(|(place, line)| *place = line).count();
            self.choose_and_reach(key, &cookies[..count])
        } else {
            self.choose_and_reach(key, &[])
        }
    }

    /// Keeps the cookies of a request that is to wait, if they say where it goes.
    pub(super) fn keep_cookies(&mut self, key: ExchangeKey, fields: Fields<'_, '_>) {
        if let Role::Reverse { group, .. } = &self.shared.role
            && group.reads_cookies()
            && let Some(exchange) = self.exchange(key)
        {
            exchange.cookies = joined_cookies(fields).unwrap_or_default();
        }
    }

    fn choose_and_reach(&mut self, key: ExchangeKey, cookies: &[&[u8]]) -> Result<(), Failure> {
        if self.choose_or_wait(key, cookies)? { self.reach(key) } else { Ok(()) }
    }

    /// Where the exchange is to go now.
    pub(super) fn endpoint(&mut self, key: ExchangeKey) -> Result<EndpointKey, Failure> {
        let clients = &self.shared.tls_clients;
        match self.exchange(key).map(|exchange| &exchange.route) {
            Some(Route::Upstream { choice, .. }) if choice.tls => {
                let client = clients.client(&choice.name).ok_or(Failure::NoTlsClient)?;
                Ok(EndpointKey { address: choice.address, tls: Some(client) })
            }
            Some(Route::Upstream { choice, .. }) => Ok(EndpointKey { address: choice.address, tls: None }),
            Some(Route::Host { rest, .. }) => {
                let address = rest.last().ok_or(Failure::Resolve(ResolveError::NoSuchName))?;
                Ok(EndpointKey { address: *address, tls: None })
            }
            Some(Route::None) | None => Err(Failure::Unsendable),
        }
    }

    /// There is no connection to be had. Nothing was sent yet, so any request may go elsewhere.
    pub(super) fn try_elsewhere(&mut self, key: ExchangeKey, error: ConnectError) {
        let failure = Failure::Connect(error);
        if let Ok(endpoint) = self.endpoint(key) {
            self.conclude(key, Outcome::ConnectFailed { address: endpoint.address });
        }
        let Some(exchange) = self.exchange(key) else { return };
        let has_next = match &mut exchange.route {
            // If nobody else is left, the one that failed is the one to tell of.
            Route::Upstream { tried, .. } if tried.len() + 1 < UPSTREAMS_TRIED_MAX => self.choose_again(key),
            Route::Host { rest, .. } => {
                rest.pop();
                !rest.is_empty()
            }
            Route::Upstream { .. } | Route::None => false,
        };
        let reached = if has_next { self.reach(key) } else { Err(failure) };
        if let Err(failure) = reached {
            self.fail(key, &failure);
        }
    }
}

/// The lines of Cookie that the balancer is shown, as one (RFC 9113, 8.2.3); none if there is none.
pub(super) fn joined_cookies(fields: Fields<'_, '_>) -> Option<Vec<u8>> {
    fields.first("Cookie")?;
    let lines: Vec<&[u8]> = fields.all("Cookie").take(COOKIE_LINES_MAX).collect();
    Some(lines.join(COOKIES_JOINED_BY))
}

/// Reverse: one of the upstreams.
impl Turn<'_> {
    /// Chooses another upstream, if there is one and not too many requests were in need of that.
    fn choose_again(&mut self, key: ExchangeKey) -> bool {
        if !self.has_other(key) || !self.take_retry() {
            return false;
        }
        let is_chosen = self.choose_upstream(key, &[]).is_ok();
        if is_chosen {
            self.node.counts.second_choices.add();
        } else {
            // Somebody else took the last place.
            self.shared.retry_budget.give_back();
        }
        is_chosen
    }

    fn has_other(&self, key: ExchangeKey) -> bool {
        let exchange = self.node.exchanges.get(key.index());
        match (&self.shared.role, exchange.map(|exchange| &exchange.route)) {
            (Role::Reverse { group, .. }, Some(Route::Upstream { choice, tried, .. })) => {
                group.has_other(&[&tried[..], &[choice.upstream]].concat())
            }
            _ => false,
        }
    }

    /// Chooses an upstream that was not tried before. If there is none, the route stays as it is.
    pub(super) fn choose_upstream(&mut self, key: ExchangeKey, cookies: &[&[u8]]) -> Result<(), Failure> {
        let Role::Reverse { group, .. } = &self.shared.role else { return Err(Failure::Unsendable) };
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return Ok(()) };
        let client = exchange.client.and_then(|client| self.node.clients.get(client.index()));
        let is_secured = client.is_some_and(|client| client.is_secured);
        let (mut tried, mut named) = (Vec::new(), None);
        if let Route::Upstream { choice, tried: before, .. } = &mut exchange.route {
            before.push(choice.upstream);
            tried.clone_from(before);
            named = choice.named;
        }
        let hints = Hints { key_hash: exchange.key_hash, cookies, named, is_secured, tried: &tried };
        let mut choice = group.choose(self.now, &hints, &mut self.node.random).map_err(Failure::NoUpstream)?;
        exchange.set_affinity = choice.set_affinity.take();
        exchange.route = Route::Upstream { choice, tried, is_open: true };
        Ok(())
    }

    /// Tells the balancer what became of its choice, once for each.
    pub(super) fn conclude(&mut self, key: ExchangeKey, outcome: Outcome) {
        let now = self.now;
        if let Role::Reverse { group, .. } = &self.shared.role
            && let Some(exchange) = self.exchange(key)
            && let Route::Upstream { choice, is_open, .. } = &mut exchange.route
            && std::mem::take(is_open)
        {
            let has_room = group.finished(now, choice.upstream, outcome);
            if has_room {
                self.wake_first();
            }
        }
    }
}

/// Forward: a host that the client names.
impl Turn<'_> {
    /// What the client wants to reach, if the rules let it.
    pub(super) fn name_target(
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

    /// Where the exchange would have gone it may not go, which the client has been told: nobody is asked.
    pub(super) fn ask_nobody(&mut self, key: ExchangeKey) {
        if let Some(exchange) = self.exchange(key) {
            exchange.route = Route::None;
        }
    }

    fn host_name(&mut self, key: ExchangeKey) -> Arc<str> {
        match self.exchange(key).map(|exchange| &exchange.route) {
            Some(Route::Host { name, .. }) => name.clone(),
            _ => Arc::from(""),
        }
    }

    /// Finds the addresses of the host.
    fn resolve(&mut self, key: ExchangeKey) -> Result<(), Failure> {
        let Role::Forward { resolver, .. } = &self.shared.role else { return Err(Failure::Unsendable) };
        let name = self.host_name(key);
        let (host, port) = split_authority(&name, HTTP_PORT).ok_or(Failure::NotAbsolute)?;
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.take_addresses(key, vec![SocketAddr::new(address, port)]);
        }
        let requester = Requester { shard: self.node.shard.id, message: self.message_of(key) };
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

    /// The addresses for an exchange are there.
    pub(super) fn handle_resolved(&mut self, key: ExchangeKey, message: u64) {
        let Role::Forward { resolver, .. } = &self.shared.role else { return };
        let requester = Requester { shard: self.node.shard.id, message };
        // Somebody else's wake-up, or one that came too early: the answer is still to come.
        let Some(answer) = resolver.fetch(requester) else { return };
        if let Some(exchange) = self.exchange(key) {
            exchange.stage = Stage::Connecting;
        }
        let taken = match answer {
            Ok(addresses) => self.take_addresses(key, addresses),
            Err(error) => Err(Failure::Resolve(error)),
        };
        if let Err(failure) = taken {
            self.fail(key, &failure);
        }
    }

    /// Nobody waits for the addresses any more.
    pub(super) fn forget_question(&mut self, key: ExchangeKey) {
        let requester = Requester { shard: self.node.shard.id, message: self.message_of(key) };
        if let Role::Forward { resolver, .. } = &self.shared.role {
            resolver.forget(requester);
        }
    }

    /// Judges what the name has led to, and goes there.
    fn take_addresses(&mut self, key: ExchangeKey, mut addresses: Vec<SocketAddr>) -> Result<(), Failure> {
        let Role::Forward { rules, .. } = &self.shared.role else { return Err(Failure::Unsendable) };
        if addresses.is_empty() {
            return Err(Failure::Resolve(ResolveError::NoSuchName));
        }
        let name = self.host_name(key);
        let host = split_authority(&name, HTTP_PORT).map_or("", |(host, _)| host);
        rules.judge_addresses(host, &mut addresses).map_err(|refusal| self.refuse_target(refusal))?;
        addresses.truncate(ADDRESSES_TRIED_MAX);
        // They are taken from the end.
        addresses.reverse();
        if let Some(exchange) = self.exchange(key) {
            exchange.route = Route::Host { name, rest: addresses };
        }
        self.reach(key)
    }
}
