//! Handles requests: rules, rate limit, cache lookup, serialisation for the upstream.

use std::hash::BuildHasher;

use breme_balance::OwnCookie;
use breme_cache::{Forward, Scheme, normalise_authority};
use breme_http::{FieldBlock, Fields, Framing, Method, RequestHead, Target, Version};
use breme_http1::ResponseWriter;
use foldhash::fast::FixedState;

use super::cache::CacheLookup;
use super::context::Context;
use super::keys::{ClientKey, ExchangeKey};
use super::log_entry::LoggedRequest;
use super::retry::is_idempotent;
use super::reuse::Reuse;
use super::stage::{Following, PreparedRequest, Stage, Wait};
use super::tables::{Exchange, MethodClass, RequestContent, RequestInfo};
use crate::failure::Failure;
use crate::settings::HostRule;
use crate::shared_state::{Role, SharedState};
use crate::upstream_request::{self, ClientInfo, ForwardOptions};

impl Context<'_> {
    pub(super) fn handle_request(&mut self, client_key: ClientKey, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        self.node.counts.count_request(head.method);
        let key = self.begin_exchange(client_key, head);
        if let Err(failure) = self.process_request(key, client_key, head, bytes) {
            self.fail(key, &failure);
        }
    }

    fn begin_exchange(&mut self, client_key: ClientKey, head: &RequestHead<'_, '_>) -> ExchangeKey {
        let mut exchange = self.new_exchange(Some(client_key), head);
        exchange.content = RequestContent::new(self.now, head);
        let shared = self.shared;
        exchange.reuse = Reuse::after(head, self.is_private(client_key));
        let logged_request = |is_trusted| LoggedRequest::new(head, shared.forwarded_client(is_trusted, head.fields));
        exchange.log_entry = self.log_entry_of(client_key, logged_request);
        let key = self.add_exchange(exchange);
        if let Some(client) = self.node.clients.get_mut(client_key.index()) {
            client.begin_exchange();
            client.state.exchange = Some(key);
            self.node.server.timers.clear(client.id.key());
        }
        key
    }

    /// Whether what a client sends and gets is for it alone: it is no proxy, and responses are not cached.
    pub(super) fn is_private(&self, client: ClientKey) -> bool {
        let client = self.node.clients.get(client.index());
        client.is_some_and(|client| !client.state.is_trusted) && !self.shared.has_cache()
    }

    fn new_exchange(&mut self, client: Option<ClientKey>, head: &RequestHead<'_, '_>) -> Exchange {
        self.node.exchange_count = self.node.exchange_count.wrapping_add(1);
        let request_info = RequestInfo::new(head);
        Exchange::new(self.node.exchange_count, client, self.now, request_info, PreparedRequest::default())
    }

    fn add_exchange(&mut self, exchange: Exchange) -> ExchangeKey {
        self.node.counts.exchanges_open.add();
        ExchangeKey::new(self.node.exchanges.insert(exchange))
    }

    /// Checks the request, looks up the cache, and forwards the request if necessary.
    fn process_request(
        &mut self,
        key: ExchangeKey,
        client: ClientKey,
        head: &RequestHead<'_, '_>,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        self.check_rate_limit(client, Some(head.fields))?;
        let hops_left = match hops_left(head) {
            Hops::Left(hops) => hops,
            Hops::Spent if head.method == Method::Options => {
                self.respond_to_options(key);
                return Ok(());
            }
            Hops::Spent => return Err(Failure::HopsExhausted),
        };
        self.check_request(key, head)?;
        if self.purge(key, client, head)? {
            return Ok(());
        }
        let lookup = if head.method == Method::Connect {
            CacheLookup::Upstream { conditions: None }
        } else {
            self.look_up_cache(key, client, head)
        };
        let conditions = match lookup {
            CacheLookup::Responded => return Ok(()),
            CacheLookup::NotCached => return Err(Failure::NotCached),
            CacheLookup::Wait(follower) => {
                self.write_request(key, client, head, hops_left, None)?;
                let cookies = self.shared.role.cookies_to_keep(head.fields);
                if let Some(exchange) = self.exchange(key) {
                    exchange.stage.wait_for(Wait::Following(Following { follower, cookies }));
                }
                self.set_exchange_deadline(key);
                // The fetch may have begun long ago.
                self.follow(key);
                return Ok(());
            }
            CacheLookup::Upstream { conditions } => conditions,
        };
        self.write_request(key, client, head, hops_left, conditions.as_ref())?;
        self.insert_relay(key, client, head, bytes);
        self.forward_with_fields(key, head.fields)
    }

    /// Responds to an OPTIONS request as its final recipient (RFC 9110, 7.6.2 and 9.3.7).
    fn respond_to_options(&mut self, key: ExchangeKey) {
        let methods = self.shared.role.methods();
        let fields = |writer: &mut ResponseWriter<'_, '_>, date: &[u8; 29]| {
            writer.date(date);
            let _ = writer.field("Allow", methods); // a constant of ours
        };
        self.respond_from_memory(key, 200, Framing::Length(0), fields, []);
    }

    /// Applies the rate limit, keyed by the forwarded address in `fields` if the client is a trusted proxy.
    pub(super) fn check_rate_limit(
        &mut self,
        client: ClientKey,
        fields: Option<Fields<'_, '_>>,
    ) -> Result<(), Failure> {
        let shared = self.shared;
        let limits = &shared.settings.clients;
        if limits.requests_per_second == 0 {
            return Ok(());
        }
        let Some(client) = self.node.clients.get(client.index()) else { return Ok(()) };
        let limited = match fields {
            _ if !client.state.is_trusted => Some(client.state.ip()),
            Some(fields) => shared.forwarded_client(true, fields).map(Some),
            None => None,
        };
        match limited {
            Some(address) => shared.clients.check_rate(self.now, address, limits).map_err(Failure::RateLimited),
            None => Ok(()),
        }
    }

    /// Rejects loops, and what the proxy's mode forbids.
    fn check_request(&mut self, key: ExchangeKey, head: &RequestHead<'_, '_>) -> Result<(), Failure> {
        if self.shared.loop_marks.are_in(head.fields) {
            return Err(Failure::Loop);
        }
        match &self.shared.role {
            Role::Reverse { .. } if head.method == Method::Connect => Err(Failure::NoTunnels),
            Role::Reverse { .. } => Ok(()),
            Role::Forward { rules, .. } => self.check_target(key, head, rules),
        }
    }

    /// Begins a fetch for the cache alone, caused by a request of `client`.
    pub(super) fn begin_background_fetch(
        &mut self,
        client: ClientKey,
        head: &RequestHead<'_, '_>,
        conditions: Option<&FieldBlock>,
        fetch: Box<Forward>,
    ) {
        let mut exchange = self.new_exchange(None, head);
        exchange.reuse = Reuse::after(head, false);
        exchange.fetch = Some(fetch);
        exchange.is_refresh = true;
        let key = self.add_exchange(exchange);
        let gone = match self
            .check_request(key, head)
            .and_then(|()| self.write_request(key, client, head, None, conditions))
        {
            Ok(()) => self.forward_with_fields(key, head.fields),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = gone {
            self.fail(key, &failure);
        }
    }

    fn write_request(
        &mut self,
        key: ExchangeKey,
        client_key: ClientKey,
        head: &RequestHead<'_, '_>,
        hops_left: Option<u64>,
        conditions: Option<&FieldBlock>,
    ) -> Result<(), Failure> {
        if head.method == Method::Connect {
            return Ok(());
        }
        let mut buffer = self.node.buffers.take();
        let Some(client) = self.node.clients.get(client_key.index()) else { return Ok(()) };
        let accepts_trailers =
            self.node.exchanges.get(key.index()).is_some_and(|exchange| exchange.request_info.accepts_trailers);
        let scheme = self.shared.scheme_of(Some(client), head);
        let normalised = head.authority.map(|authority| normalise_authority(scheme, authority));
        // The cache key contains the normalised authority, so the upstream must see the same.
        let requested_authority = if self.shared.has_cache() { normalised.as_deref() } else { head.authority };
        let authority = match &self.shared.role {
            Role::Reverse { host: HostRule::Fixed(host), .. } => Some(host.as_str()),
            Role::Reverse { host: HostRule::Upstream, .. } => None,
            Role::Reverse { host: HostRule::Keep, .. } | Role::Forward { .. } => requested_authority,
        };
        // What the upstream gets must follow from the key: that contains the scheme of the URL, or the one that a
        // trusted proxy names, however this proxy was reached.
        let is_secured = scheme == Scheme::Https;
        let client = ClientInfo { address: &client.state.address, is_secured, is_trusted: client.state.is_trusted };
        let with_upgrade = self.shared.forwards_upgrade(head);
        let own_cookie = self.shared.role.own_cookie(head.fields);
        let options = ForwardOptions {
            authority,
            requested_authority,
            client,
            with_upgrade,
            accepts_trailers,
            hops_left,
            conditions,
            own_cookie: own_cookie.as_ref(),
        };
        let written = upstream_request::write(self.shared, head, &options, &mut buffer);
        let key_hash = self.shared.key_hash(normalised.as_deref(), head.target);
        let needs_host = authority.is_none();
        if let Some(request) = self.exchange(key).and_then(|exchange| exchange.stage.request()) {
            *request =
                PreparedRequest { head: buffer, needs_host, requests_upgrade: with_upgrade, key_hash, replay: None };
        }
        written.map_err(|_| Failure::Unsendable)
    }

    /// Wakes a waiting exchange.
    pub(super) fn handle_message(&mut self, message: u64) {
        let key = ExchangeKey::new((message >> u32::BITS) as usize);
        match self.node.exchanges.get(key.index()) {
            Some(exchange) if exchange.number != message as u32 => {}
            Some(Exchange { stage: Stage::Pending { wait: Wait::Resolving, .. }, .. }) => {
                self.handle_resolved(key, message);
            }
            Some(exchange) if exchange.stage.is_queued() => {
                self.handle_capacity(key);
            }
            Some(_) => self.follow(key),
            None => {}
        }
    }
}

impl Role {
    /// The balancer's cookie, if these fields may contain it.
    fn own_cookie(&self, fields: Fields<'_, '_>) -> Option<OwnCookie> {
        fields.first("Cookie")?;
        self.group()?.own_cookie()
    }
}

impl SharedState {
    /// Whether Upgrade is forwarded. Requests after an upgrade to HTTP/2 could not be parsed.
    pub(super) fn forwards_upgrade(&self, head: &RequestHead<'_, '_>) -> bool {
        head.requests_upgrade && self.settings.upgrades && !offers_http2(head.fields)
    }

    /// A hash of the URL, equal in all shards and in all proxies with the same seed. `authority` is the normalised one.
    fn key_hash(&self, authority: Option<&str>, target: Target<'_>) -> u64 {
        let (path, query) = match target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Authority(_) | Target::Asterisk => ("", None),
        };
        FixedState::with_seed(self.settings.seed).hash_one((authority, path, query))
    }
}

/// Whether the client's response can have trailers: not if it is close-delimited.
fn may_have_trailers(head: &RequestHead<'_, '_>) -> bool {
    head.version == Version::Http11 && head.fields.accept_trailers()
}

impl RequestInfo {
    fn new(head: &RequestHead<'_, '_>) -> Self {
        let method_class = match head.method {
            Method::Head => MethodClass::Head,
            Method::Connect => MethodClass::Connect,
            _ => MethodClass::Other,
        };
        let is_idempotent = is_idempotent(head.method);
        Self { method_class, is_idempotent, accepts_trailers: may_have_trailers(head) }
    }
}

/// How far a request may be forwarded (RFC 9110, 7.6.2).
enum Hops {
    /// None: the proxy is its final recipient.
    Spent,
    /// With this Max-Forwards; None: unchanged.
    Left(Option<u64>),
}

/// Only TRACE and OPTIONS count hops.
fn hops_left(head: &RequestHead<'_, '_>) -> Hops {
    if !matches!(head.method, Method::Trace | Method::Options) {
        return Hops::Left(None);
    }
    let value = head.fields.first("Max-Forwards").and_then(|value| std::str::from_utf8(value).ok());
    match value.and_then(|value| value.parse::<u64>().ok()) {
        Some(0) => Hops::Spent,
        hops => Hops::Left(hops.map(|hops| hops - 1)),
    }
}

fn offers_http2(fields: Fields<'_, '_>) -> bool {
    fields.list("Upgrade").any(|protocol| protocol.get(..2).is_some_and(|front| front.eq_ignore_ascii_case(b"h2")))
}
