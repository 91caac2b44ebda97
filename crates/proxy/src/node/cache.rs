//! Connects exchanges to the cache.
//!
//! ```text
//!   request head ──► look_up_cache ──┬─ Responded   from the cache, in this call
//!                                    ├─ Wait        another exchange fetches it; `follow` is called when more
//!                                    │              can be read, or when the client reads again
//!                                    ├─ NotCached   an error response: the client wants no other
//!                                    └─ Upstream    perhaps with the cache's conditions in place of the client's
//!   response head ─► receive_cached_head ──┬─ Relay      to the client too
//!                                          └─ Discard    the client gets a stored response (after a 304 or an error),
//!                                                        or the request is sent again (a 304 about another response)
//!   body ──────────► receive_cached_body   before it goes to the client
//!   end ───────────► complete_cached       before the client's response is completed
//!   failure ───────► recover_from_cache    true: a stored response was sent instead (stale-if-error)
//!   any end ───────► abort_fetch           once for each exchange; aborts an incomplete fill
//! ```
//!
//! An exchange may continue without its client, while others read what it fetches, and a background refresh never has
//! one. Without a client an exchange ends as soon as its fetch is of no use: an endless response would keep it, its
//! connection and its place at the upstream forever. For followers see `followers`.

use std::sync::Arc;

use breme_cache::{
    Cache, CacheDecision, CacheStatus, CachedResponse, FailureInfo, FetchError, Follower, Forward, HeadAction, Now,
    Request, ResponseBody, Scheme, Waiter, Wakes,
};
use breme_http::{FieldBlock, Framing, RequestHead, ResponseHead, Target};
use breme_http1::{FieldName, ResponseWriter};
use breme_node::ShardId;
use bytes::Bytes;

use super::context::{Context, ShardState};
use super::keys::{ClientKey, ExchangeKey};
use super::log_entry::cache_status_text;
use super::tables::{Client, Exchange};
use crate::access_log::Completion;
use crate::counters::RequestOutcome;
use crate::failure::{Failure, SharedFailure};
use crate::forwarded::{named_authorities, named_schemes};
use crate::settings::Settings;
use crate::shared_state::{Role, SharedState};
use crate::upstream_request::{self, is_for_others};

impl Context<'_> {
    pub(super) fn look_up_cache(
        &mut self,
        key: ExchangeKey,
        client: ClientKey,
        head: &RequestHead<'_, '_>,
    ) -> CacheLookup {
        const PAST: CacheLookup = CacheLookup::Upstream { conditions: None };
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return PAST };
        let from = self.node.clients.get(client.index());
        let Some(request) = shared.cache_request(from, head) else { return PAST };
        if shared.bypasses(from, head) {
            self.set_fetch(key, Box::new(cache.bypass(&request)));
            return PAST;
        }
        let waiter = Waiter { shard: self.node.shard.id.0, message: self.node.message_of(key) };
        match cache.look_up(&request, self.cache_now(), waiter) {
            CacheDecision::Respond(response) => {
                self.respond_from_cache(key, &response);
                CacheLookup::Responded
            }
            CacheDecision::RespondAndRefresh(response, refresh) => {
                let conditions = refresh.conditions().cloned();
                self.begin_background_fetch(client, head, conditions.as_ref(), refresh);
                self.respond_from_cache(key, &response);
                CacheLookup::Responded
            }
            CacheDecision::Forward(forward) => {
                let conditions = forward.conditions().cloned();
                self.set_fetch(key, Box::new(forward));
                CacheLookup::Upstream { conditions }
            }
            CacheDecision::Wait(follower) => CacheLookup::Wait(Box::new(follower)),
            CacheDecision::NotCached => CacheLookup::NotCached,
        }
    }

    pub(super) fn cache_now(&mut self) -> Now {
        Now { instant: self.now, wall: self.node.date.at(self.now).second() }
    }

    /// The cache takes part in what the exchange fetches.
    pub(super) fn set_fetch(&mut self, key: ExchangeKey, fetch: Box<Forward>) {
        if let Some(exchange) = self.exchange(key) {
            exchange.fetch = Some(fetch);
        }
    }

    /// Puts the cache's conditions in place of those of the prepared request.
    pub(super) fn replace_conditions(&mut self, key: ExchangeKey, forward: &Forward) {
        let request = self.exchange(key).and_then(|exchange| exchange.stage.request());
        if let (Some(conditions), Some(request)) = (forward.conditions(), request) {
            upstream_request::replace_conditions(&mut request.head, conditions);
        }
    }

    pub(super) fn wake(&mut self, mut wakes: Wakes) {
        for Waiter { shard, message } in wakes.drain() {
            self.actions.wake(ShardId(shard), message);
        }
    }

    /// Sends a complete stored response and ends the exchange.
    pub(super) fn respond_from_cache(&mut self, key: ExchangeKey, response: &CachedResponse) {
        self.record_cache_status(key, response.cache_status(), response.body_bytes());
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        let fields = |writer: &mut ResponseWriter<'_, '_>, _: &[u8; 29]| write_fields(cache, response, writer);
        let client = self.exchange(key).and_then(|exchange| exchange.client).filter(|_| self.captures_hit);
        let from = client.and_then(|client| self.send_position(client));
        self.respond_from_memory(key, response.status(), response.framing(), fields, pieces(response));
        self.capture_hit(response, from);
    }

    /// As [`respond_from_cache`](Self::respond_from_cache), for an exchange whose upstream response is about to end;
    /// its end completes the client's response.
    fn respond_before_end(&mut self, key: ExchangeKey, response: &CachedResponse) {
        self.record_cache_status(key, response.cache_status(), response.body_bytes());
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        self.begin_response(key, response.status(), response.framing(), |writer, _| {
            write_fields(cache, response, writer);
        });
        self.relay_pieces(key, pieces(response));
    }

    /// Counts and logs the decision of the cache.
    pub(super) fn record_cache_status(&mut self, key: ExchangeKey, cache_status: CacheStatus, stored_bytes: u64) {
        self.node.counts.count_cached(&cache_status, stored_bytes);
        let Some(exchange) = self.exchange(key) else { return };
        exchange.source = RequestOutcome::from_cache_status(&cache_status);
        if let Some(log_entry) = exchange.log_entry.as_mut() {
            log_entry.cache_status = Some(cache_status_text(cache_status));
        }
    }

    /// Handles the head of the upstream's final response.
    pub(super) fn receive_cached_head(&mut self, key: ExchangeKey, head: &ResponseHead<'_, '_>) -> HeadOutcome {
        let Some(mut forward) = self.exchange(key).and_then(|exchange| exchange.fetch.take()) else {
            return HeadOutcome::Relay;
        };
        let added = self.added_lines(head);
        let length = match head.framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let response_head =
            breme_cache::ResponseHead { status: head.status, fields: head.fields, length, added: &added };
        let (cache_now, mut wakes) = (self.cache_now(), Wakes::new());
        let outcome = forward.handle_head(cache_now, &response_head, &mut wakes);
        self.wake(wakes);
        match outcome {
            HeadAction::Relay => {
                self.record_cache_status(key, forward.cache_status(), 0);
                self.set_fetch(key, forward);
                let is_useless = head.has_content() && self.node.has_useless_fetch(key);
                if is_useless {
                    self.abandon_fetch(key);
                }
                if is_useless { HeadOutcome::Discard } else { HeadOutcome::Relay }
            }
            HeadAction::Replace(response) => {
                if head.has_content() {
                    // The upstream's body is not needed, and nothing waits for its end.
                    self.respond_from_cache(key, &response);
                } else if let Some(exchange) = self.node.exchanges.get_mut(key.index()) {
                    self.node.buffers.keep(exchange.stage.discard(response));
                }
                HeadOutcome::Discard
            }
            HeadAction::SendAgain => {
                self.replace_conditions(key, &forward);
                self.set_fetch(key, forward);
                self.send_again(key);
                HeadOutcome::Discard
            }
        }
    }

    /// Lines stored with a response in addition to its own.
    fn added_lines(&mut self, head: &ResponseHead<'_, '_>) -> FieldBlock {
        let mut added = FieldBlock::new();
        let identity = &self.shared.settings.identity;
        if identity.via {
            let _ = added.push("Via", format!("{} {}", head.version.name(), identity.pseudonym).as_bytes());
        }
        if head.fields.first("Date").is_none() {
            let date = *self.node.date.at(self.now).text();
            let _ = added.push("Date", &date);
        }
        added
    }

    /// This ends an exchange without a client, if its fetch is of no use any more.
    pub(super) fn receive_cached_body(&mut self, key: ExchangeKey, bytes: &[u8]) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let (Some(forward), client) = (&mut exchange.fetch, exchange.client) else { return };
        if forward.wants_body() {
            let mut wakes = Wakes::new();
            forward.handle_body(bytes, &mut wakes);
            self.wake(wakes);
        }
        if client.is_none() && self.node.has_useless_fetch(key) {
            self.abandon_fetch(key);
        }
    }

    /// Ends an exchange without a client, whose response has begun.
    #[cold]
    fn abandon_fetch(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchange(key) else { return };
        // The upstream did its part: the response is of no use, whatever follows.
        let outcome = exchange.outcome(Completion::Complete);
        self.report_outcome(key, outcome);
        self.end_exchange(key, Completion::ClientGone, false);
    }

    pub(super) fn complete_cached(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchange(key) else { return };
        if let Some(forward) = exchange.fetch.take() {
            let mut wakes = Wakes::new();
            forward.handle_end(&mut wakes);
            self.wake(wakes);
        } else if let Some(response) = exchange.stage.take_stored() {
            self.respond_before_end(key, &response);
        }
    }

    /// Handles a missing response. Returns whether the client got a stored one, which ended the exchange.
    pub(super) fn recover_from_cache(&mut self, key: ExchangeKey, failure: &Failure) -> bool {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return false };
        let response = match exchange.fetch.take() {
            Some(fetch) => {
                let fetch_error = exchange.fetch_error(failure, &self.shared.settings);
                self.abort_fetch(Some(fetch), fetch_error)
            }
            None => exchange.stage.take_stored().map(|response| *response),
        };
        let Some(response) = response else { return false };
        // The response takes the place of what the exchange waits for.
        self.cancel_wait(key);
        self.respond_from_cache(key, &response);
        true
    }

    /// There is no response, or it is incomplete. Returns a stored one that may be sent instead.
    pub(super) fn abort_fetch(&mut self, fetch: Option<Box<Forward>>, error: FetchError) -> Option<CachedResponse> {
        let forward = fetch?;
        let (cache_now, mut wakes) = (self.cache_now(), Wakes::new());
        let response = forward.handle_failure(cache_now, error, &mut wakes);
        self.wake(wakes);
        response
    }
}

impl ShardState {
    /// Whether an exchange has no client, and nobody needs what it fetches.
    fn has_useless_fetch(&self, key: ExchangeKey) -> bool {
        let Some(Exchange { client: None, fetch: Some(forward), is_refresh, .. }) = self.exchanges.get(key.index())
        else {
            return false;
        };
        !forward.wants_body() || !(*is_refresh || forward.should_finish())
    }
}

impl Exchange {
    /// The value of Cache-Status for a relayed response.
    pub(super) fn cache_status_value(&self, cache: &Cache) -> Option<Vec<u8>> {
        let forward = self.fetch.as_ref()?;
        let mut value = Vec::new();
        forward.cache_status().write(&cache.settings().name, &mut value);
        Some(value)
    }

    /// Whether the fetch continues without a client.
    pub(super) fn outlives_client(&self) -> bool {
        self.fetch.as_ref().is_some_and(|forward| forward.should_finish())
    }

    /// Why there is no response, for other requests that wait for it.
    fn fetch_error(&self, failure: &Failure, settings: &Settings) -> FetchError {
        let upstream = self.visible_upstream_name(settings).map(Arc::from);
        let info: FailureInfo = Arc::new(SharedFailure { failure: failure.clone(), upstream });
        match failure {
            Failure::NoUpstream(_) | Failure::Connect(_) | Failure::NoTlsClient | Failure::Resolve(_) => {
                FetchError::Unreachable(info)
            }
            Failure::ConnectionLost
            | Failure::UpstreamDown
            | Failure::InvalidResponse(_)
            | Failure::ResponseHeadTimeout => FetchError::NoResponse(info),
            _ => FetchError::Request,
        }
    }
}

impl SharedState {
    /// The scheme of the target: for a forward proxy as in the URL, for a reverse proxy that of the client's
    /// connection, or the one that a trusted client names.
    pub(super) fn scheme_of(&self, client: Option<&Client>, head: &RequestHead<'_, '_>) -> Scheme {
        let is_https = match (&self.role, head.target, client) {
            (Role::Forward { .. }, Target::Absolute { scheme, .. }, _) => scheme.eq_ignore_ascii_case("https"),
            (_, _, Some(client)) if client.state.is_trusted => {
                let named = named_schemes(head.fields).next();
                named.map_or(client.state.is_secured, |named| named.eq_ignore_ascii_case(b"https"))
            }
            (_, _, client) => client.is_some_and(|client| client.state.is_secured),
        };
        if is_https { Scheme::Https } else { Scheme::Http }
    }

    /// Whether a trusted client names a scheme or an authority that is not in the key. The upstream is told these, so
    /// its response may depend on them.
    fn names_another_target(&self, client: &Client, head: &RequestHead<'_, '_>) -> bool {
        let (scheme, authority) = (self.scheme_of(Some(client), head), head.authority.unwrap_or_default());
        let is_other = |named: &[u8], own: &str| !named.eq_ignore_ascii_case(own.as_bytes());
        named_schemes(head.fields).any(|named| is_other(named, scheme.as_str()))
            || named_authorities(head.fields).any(|named| is_other(named, authority))
    }

    /// Whether there is a cache. [Replayed requests](super::relay_replay) bypass it, so with a cache none are recorded.
    pub(super) fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// The request as seen by the cache; None if nothing could be stored for it.
    pub(super) fn cache_request<'a, 'f>(
        &self,
        client: Option<&Client>,
        head: &RequestHead<'a, 'f>,
    ) -> Option<Request<'a, 'f>> {
        let (path, query) = match head.target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Authority(_) | Target::Asterisk => return None,
        };
        let is_trusted = client.is_some_and(|client| client.state.is_trusted);
        let is_stripped: fn(&str) -> bool = if is_trusted { |_| false } else { is_for_others };
        Some(Request {
            method: head.method,
            scheme: self.scheme_of(client, head),
            authority: head.authority?,
            path,
            query,
            fields: head.fields,
            is_stripped,
            has_body: head.has_content(),
        })
    }

    /// Whether a forwarded Upgrade, a configured header, or forwarding fields that are not in the key bypass the cache.
    fn bypasses(&self, client: Option<&Client>, head: &RequestHead<'_, '_>) -> bool {
        self.forwards_upgrade(head)
            || self.settings.cache_bypass_header.as_ref().is_some_and(|name| head.fields.first(name).is_some())
            || client.is_some_and(|client| client.state.is_trusted && self.names_another_target(client, head))
    }
}

fn pieces(response: &CachedResponse) -> impl Iterator<Item = Bytes> {
    let (one, several) = match response.body() {
        ResponseBody::None => (None, &[][..]),
        ResponseBody::One(bytes) => (Some(bytes.clone()), &[][..]),
        ResponseBody::Several(pieces) => (None, pieces.as_slice()),
    };
    one.into_iter().chain(several.iter().cloned())
}

fn write_fields(cache: &Cache, response: &CachedResponse, writer: &mut ResponseWriter<'_, '_>) {
    writer.block(&cache.client_lines(response.lines()));
    write_age(response.age_s(), writer);
    write_cache_status(cache, response.cache_status(), writer);
}

const AGE: FieldName = FieldName::new("Age");
const CACHE_STATUS: FieldName = FieldName::new("Cache-Status");

pub(super) fn write_age(age_s: u64, writer: &mut ResponseWriter<'_, '_>) {
    writer.number(AGE, age_s);
}

pub(super) fn write_cache_status(cache: &Cache, cache_status: CacheStatus, writer: &mut ResponseWriter<'_, '_>) {
    // The name was validated with the settings; the rest consists of tokens and numbers.
    let _ = writer.field_with(CACHE_STATUS, |out| cache_status.write(&cache.settings().name, out));
}

/// The result of a cache lookup.
#[derive(Debug)]
pub(super) enum CacheLookup {
    /// A response was sent, and the exchange is over.
    Responded,
    /// Another exchange fetches the response.
    Wait(Box<Follower>),
    /// The request has `only-if-cached`.
    NotCached,
    /// Forward the request, with these conditions in place of the client's.
    Upstream { conditions: Option<FieldBlock> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadOutcome {
    /// Send it to the client, with its body.
    Relay,
    /// Do not send it to the client.
    Discard,
}
