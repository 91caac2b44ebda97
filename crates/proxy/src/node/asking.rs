//! From a request to what is to become of it: judged, asked of the cache, written for an upstream.

use std::hash::BuildHasher;

use breme_balance::OwnCookie;
use breme_cache::{Scheme, normalise_authority};
use breme_http1::{FieldBlock, Fields, Framing, LastChunk, Method, RequestHead, ResponseWriter, Target, Version};
use foldhash::fast::FixedState;

use super::notes::Noted;
use super::part::{Asking, Part};
use super::reuse::Reuse;
use super::tables::{Asked, ClientKey, Exchange, ExchangeKey, Kind, Stage, Waiting, Way};
use super::turn::Turn;
use crate::failure::Failure;
use crate::request::{self, Asker, Passing};
use crate::settings::HostRule;
use crate::shared::Role;

impl Turn<'_> {
    /// A request has come, whose head is `bytes`.
    pub(super) fn handle_request(&mut self, client_key: ClientKey, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        self.node.counts.count_request(head.method);
        let key = self.begin_exchange(client_key, head);
        if let Err(failure) = self.prepare(key, client_key, head, bytes) {
            self.fail(key, &failure);
        }
    }

    fn begin_exchange(&mut self, client_key: ClientKey, head: &RequestHead<'_, '_>) -> ExchangeKey {
        let mut exchange = self.new_exchange(Some(client_key), head);
        exchange.content = match head.framing {
            _ if !head.has_content() => Way::None,
            Framing::Chunked => {
                exchange.last_chunk = LastChunk::from_fields(head.fields);
                Way::Chunks
            }
            _ => Way::Raw,
        };
        exchange.is_request_complete = !head.has_content();
        exchange.awaits_continue = head.expects_continue;
        let shared = self.shared;
        let is_trusted = self.client(client_key).is_some_and(|client| client.is_trusted);
        exchange.reuse = Reuse::after(head, !is_trusted && !self.has_cache());
        let noted = |is_trusted| Noted::of(head, shared.named_by(is_trusted, head.fields));
        exchange.notes = self.notes_of(client_key, noted);
        let key = self.add_exchange(exchange);
        self.node.client_timers.clear(client_key.timer());
        if let Some(client) = self.client(client_key) {
            client.exchange = Some(key);
            client.waiting = Waiting::Exchange;
        }
        key
    }

    fn new_exchange(&mut self, client: Option<ClientKey>, head: &RequestHead<'_, '_>) -> Exchange {
        self.node.exchange_count = self.node.exchange_count.wrapping_add(1);
        Exchange::new(self.node.exchange_count, client, self.now, Asked::of(head))
    }

    fn add_exchange(&mut self, exchange: Exchange) -> ExchangeKey {
        self.node.counts.exchanges_open.add();
        ExchangeKey::of(self.node.exchanges.insert(exchange))
    }

    /// Judges the request, asks the cache, and else goes to find who takes it.
    fn prepare(
        &mut self,
        key: ExchangeKey,
        client: ClientKey,
        head: &RequestHead<'_, '_>,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        self.judge_client(client, Some(head.fields))?;
        let hops_left = match hops_left(head) {
            Hops::Left(hops) => hops,
            Hops::Spent if head.method == Method::Options => {
                self.answer_options(key);
                return Ok(());
            }
            Hops::Spent => return Err(Failure::HopsSpent),
        };
        self.judge(key, head)?;
        if self.purge(key, client, head)? {
            return Ok(());
        }
        let asking = if head.method == Method::Connect {
            Asking::Upstream { conditions: None }
        } else {
            self.ask_cache(key, client, head)
        };
        let conditions = match asking {
            Asking::Answered => return Ok(()),
            Asking::Waiting => {
                self.write_request(key, client, head, hops_left, None)?;
                self.keep_cookies(key, head.fields);
                if let Some(exchange) = self.exchange(key) {
                    exchange.stage = Stage::Waiting;
                }
                self.set_exchange_deadline(key);
                // What it follows may have begun long ago.
                self.follow(key);
                return Ok(());
            }
            Asking::Upstream { conditions } => conditions,
        };
        self.write_request(key, client, head, hops_left, conditions.as_ref())?;
        self.learn_request(key, client, head, bytes);
        self.go_upstream_with(key, head.fields)
    }

    /// Responds to an OPTIONS request as its final recipient (RFC 9110, 7.6.2 and 9.3.7).
    fn answer_options(&mut self, key: ExchangeKey) {
        let methods = self.shared.role.methods();
        let fields = |writer: &mut ResponseWriter<'_, '_>, date: &[u8; 29]| {
            writer.date(date);
            let _ = writer.field("Allow", methods); // a constant of ours
        };
        self.answer_from_memory(key, 200, Framing::Length(0), fields, []);
    }

    /// Whether the client may ask so much. Whoever is trusted asks for others, and says in `fields` for whom.
    pub(super) fn judge_client(&mut self, client: ClientKey, fields: Option<Fields<'_, '_>>) -> Result<(), Failure> {
        let shared = self.shared;
        let limits = &shared.settings.clients;
        if limits.requests_per_second == 0 {
            return Ok(());
        }
        let Some(client) = self.node.clients.get(client.index()) else { return Ok(()) };
        let address = match fields {
            _ if !client.is_trusted => Some(client.peer.ip()),
            Some(fields) => shared.named_by(true, fields),
            None => None,
        };
        match address {
            Some(address) => shared.clients.ask(self.now, address, limits).map_err(Failure::TooMany),
            None => Ok(()),
        }
    }

    /// Whether the proxy lets it pass at all.
    fn judge(&mut self, key: ExchangeKey, head: &RequestHead<'_, '_>) -> Result<(), Failure> {
        if self.shared.loop_marks.are_in(head.fields) {
            return Err(Failure::Loop);
        }
        match &self.shared.role {
            Role::Reverse { .. } if head.method == Method::Connect => Err(Failure::NoTunnels),
            Role::Reverse { .. } => Ok(()),
            Role::Forward { rules, .. } => self.name_target(key, head, rules),
        }
    }

    /// Begins an exchange for nobody: what comes of it is for the cache. `client` is who caused it.
    pub(super) fn begin_alone(
        &mut self,
        client: ClientKey,
        head: &RequestHead<'_, '_>,
        conditions: Option<&FieldBlock>,
        part: Part,
    ) {
        let mut exchange = self.new_exchange(None, head);
        exchange.caching = part;
        let key = self.add_exchange(exchange);
        let gone = match self.judge(key, head).and_then(|()| self.write_request(key, client, head, None, conditions)) {
            Ok(()) => self.go_upstream_with(key, head.fields),
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
        let mut buffer = self.node.take_buffer();
        let Some(client) = self.node.clients.get(client_key.index()) else { return Ok(()) };
        let accepts_trailers =
            self.node.exchanges.get(key.index()).is_some_and(|exchange| exchange.asked.accepts_trailers);
        // What is stored is found by the authority without what has no meaning in it, so upstream must not see what was
        // left out.
        let scheme = self.shared.role.scheme_of(head.target, client.is_secured);
        let normalised = head
            .authority
            .filter(|_| self.shared.cache.is_some())
            .map(|authority| normalise_authority(scheme, authority));
        let asked = normalised.as_deref().or(head.authority);
        let authority = match &self.shared.role {
            Role::Reverse { host: HostRule::Fixed(host), .. } => Some(host.as_str()),
            Role::Reverse { host: HostRule::Upstream, .. } => None,
            Role::Reverse { host: HostRule::Keep, .. } | Role::Forward { .. } => asked,
        };
        // What upstream is told must follow from the key: of what a forward proxy is asked, that is the target's
        // scheme, however it was reached.
        let is_secured = scheme == Scheme::Https;
        let asker = Asker { address: &client.address, is_secured, is_trusted: client.is_trusted };
        let with_upgrade = self.shared.settings.upgrades && head.requests_upgrade && !asks_for_http2(head.fields);
        let own_cookie = self.own_cookie(head.fields);
        let passing = Passing {
            authority,
            asked,
            asker,
            with_upgrade,
            accepts_trailers,
            hops_left,
            conditions,
            own_cookie: own_cookie.as_ref(),
        };
        let written = request::write(self.shared, head, &passing, &mut buffer);
        let key_hash = self.key_hash(head);
        if let Some(exchange) = self.exchange(key) {
            exchange.request = buffer;
            exchange.lacks_host = authority.is_none();
            exchange.asked.requests_upgrade = with_upgrade;
            exchange.key_hash = key_hash;
        }
        written.map_err(|_| Failure::Unsendable)
    }

    /// The balancer's cookie, if it can stand among these fields.
    fn own_cookie(&self, fields: Fields<'_, '_>) -> Option<OwnCookie> {
        fields.first("Cookie")?;
        match &self.shared.role {
            Role::Reverse { group, .. } => group.own_cookie(),
            Role::Forward { .. } => None,
        }
    }

    /// The same for the same target in all shards, and in all proxies of the same seed.
    fn key_hash(&self, head: &RequestHead<'_, '_>) -> u64 {
        let (path, query) = match head.target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Authority(_) | Target::Asterisk => ("", None),
        };
        FixedState::with_seed(self.shared.settings.seed).hash_one((head.authority, path, query))
    }

    /// How an exchange is called in a wake-up.
    pub(super) fn message_of(&self, key: ExchangeKey) -> u64 {
        let number = self.node.exchanges.get(key.index()).map_or(0, |exchange| exchange.number);
        key.message(number)
    }

    /// A wake-up for an exchange that waits for something.
    pub(super) fn handle_message(&mut self, message: u64) {
        let key = ExchangeKey::of((message >> u32::BITS) as usize);
        match self.node.exchanges.get(key.index()) {
            Some(exchange) if exchange.number != message as u32 => {}
            Some(Exchange { stage: Stage::Resolving, .. }) => self.handle_resolved(key, message),
            Some(Exchange { stage: Stage::Queued, .. }) => self.handle_room(key),
            Some(Exchange { server: None, stage: Stage::Waiting | Stage::Answering, .. }) => self.follow(key),
            _ => {}
        }
    }
}

/// Whether the client can be given trailers: not where its answer ends with the connection.
fn may_have_trailers(head: &RequestHead<'_, '_>) -> bool {
    head.version == Version::Http11 && head.fields.accept_trailers()
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
        Self { kind, is_idempotent, requests_upgrade: false, accepts_trailers: may_have_trailers(head) }
    }
}

/// How far a request may be forwarded (RFC 9110, 7.6.2).
enum Hops {
    /// Not at all: the proxy is its final recipient.
    Spent,
    /// With this Max-Forwards; none: as it came.
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

/// An upgrade to HTTP/2 would take the requests behind it out of our sight.
fn asks_for_http2(fields: Fields<'_, '_>) -> bool {
    fields.list("Upgrade").any(|protocol| protocol.get(..2).is_some_and(|front| front.eq_ignore_ascii_case(b"h2")))
}
