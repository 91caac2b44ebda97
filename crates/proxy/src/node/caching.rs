//! Where the cache meets an exchange: the one place that knows both.
//!
//! ```text
//!   request's head ──► ask_cache ──┬─ Answered   out of memory, in this call
//!                                  ├─ Waiting    another exchange fetches it: `follow` is called when there is more to read, or when the
//!                                  │             client reads again
//!                                  └─ Upstream   perhaps with conditions of the cache's instead of the client's
//!   answer's head  ──► take_head ──┬─ Relay      to the client too
//!                                  └─ Keep       the client gets something else: what was stored, after a 304 or in place of an error
//!   content ─────────► take_content              before it goes to the client
//!   end ─────────────► take_end                  complete; before the client's answer is ended
//!   no answer ───────► take_failure              true: answered out of memory in the failure's place (stale-if-error)
//!   any end ─────────► leave                     complete or not, once for each exchange: what was not completed is given up here
//! ```
//!
//! An exchange may go on without its client (others read what it fetches), and one may never have had a client (a
//! refresh in the background). How followers read is in `following`.

use std::sync::Arc;

use breme_cache::{
    Cache, CacheDecision, CacheStatus, CachedResponse, FailureInfo, FetchError, HeadAction, Now, Request, ResponseBody,
    Scheme, Waiter, Wakes,
};
use breme_http1::{FieldBlock, FieldName, Framing, RequestHead, ResponseHead, ResponseWriter, Target, Version};
use breme_node::ShardId;
use bytes::Bytes;

use super::notes::cache_words;
use super::part::{Asking, Part, Taking};
use super::tables::{ClientKey, Exchange, ExchangeKey};
use super::turn::Turn;
use crate::counters::RequestOutcome;
use crate::failure::{Failure, SharedFailure};
use crate::request::is_for_others;
use crate::shared::{Role, Shared};

impl Turn<'_> {
    /// Whether there is a cache. Requests that are [familiar](super::familiar) pass none of these hooks, so with a
    /// cache none becomes it.
    pub(super) fn has_cache(&self) -> bool {
        self.shared.cache.is_some()
    }

    /// A request that the rules let pass.
    pub(super) fn ask_cache(&mut self, key: ExchangeKey, client: ClientKey, head: &RequestHead<'_, '_>) -> Asking {
        const PAST: Asking = Asking::Upstream { conditions: None };
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return PAST };
        let Some(request) = self.cache_request(client, head) else { return PAST };
        if shared.bypasses(head) {
            self.set_part(key, Part::Forward(Box::new(cache.bypass(&request))));
            return PAST;
        }
        let waiter = Waiter { shard: self.node.shard.id.0, message: self.message_of(key) };
        match cache.look_up(&request, self.moment(), waiter) {
            CacheDecision::Respond(answer) => {
                self.give(key, &answer);
                Asking::Answered
            }
            CacheDecision::RespondAndRefresh(answer, refresh) => {
                let conditions = refresh.conditions().cloned();
                self.begin_alone(client, head, conditions.as_ref(), Part::Forward(refresh));
                self.give(key, &answer);
                Asking::Answered
            }
            CacheDecision::Forward(forward) => {
                let conditions = forward.conditions().cloned();
                self.set_part(key, Part::Forward(Box::new(forward)));
                Asking::Upstream { conditions }
            }
            CacheDecision::Wait(follower) => {
                self.set_part(key, Part::Follow(Box::new(follower)));
                Asking::Waiting
            }
        }
    }

    /// The request as the cache sees it; none if it names nothing that could be stored, or is about the connection.
    pub(super) fn cache_request<'a, 'f>(
        &self,
        client: ClientKey,
        head: &RequestHead<'a, 'f>,
    ) -> Option<Request<'a, 'f>> {
        let client = self.node.clients.get(client.index());
        let (path, query) = match head.target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Authority(_) | Target::Asterisk => return None,
        };
        let is_believed = client.is_some_and(|client| client.is_trusted);
        let is_stripped: fn(&str) -> bool = if is_believed { |_| false } else { is_for_others };
        if head.requests_upgrade {
            return None;
        }
        Some(Request {
            method: head.method,
            scheme: self.shared.role.scheme_of(head.target, client.is_some_and(|client| client.is_secured)),
            authority: head.authority?,
            path,
            query,
            fields: head.fields,
            is_stripped,
            has_body: head.has_content(),
        })
    }

    pub(super) fn moment(&mut self) -> Now {
        Now { instant: self.now, wall: self.node.date.second(self.now) }
    }

    pub(super) fn set_part(&mut self, key: ExchangeKey, part: Part) {
        if let Some(exchange) = self.exchange(key) {
            exchange.caching = part;
        }
    }

    pub(super) fn take_part(&mut self, key: ExchangeKey) -> Part {
        self.exchange(key).map(|exchange| std::mem::take(&mut exchange.caching)).unwrap_or_default()
    }

    pub(super) fn wake(&mut self, mut wakes: Wakes) {
        for Waiter { shard, message } in wakes.drain() {
            self.actions.wake(ShardId(shard), message);
        }
    }

    /// Gives the client an answer out of memory, whole, and ends the exchange.
    pub(super) fn give(&mut self, key: ExchangeKey, answer: &CachedResponse) {
        self.note(key, answer.cache_status(), answer.body_bytes());
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        let fields = |writer: &mut ResponseWriter<'_, '_>, date: &[u8; 29]| write_fields(cache, answer, writer, date);
        let client = self.exchange(key).and_then(|exchange| exchange.client).filter(|_| self.is_wanted);
        let from = client.and_then(|client| self.sending_from(client));
        self.answer_from_memory(key, answer.status(), answer.framing(), fields, pieces(answer));
        self.note_given(answer, from);
    }

    /// The same for an exchange whose server's answer is complete in a moment; whoever ends that ends the client's too.
    fn give_behind(&mut self, key: ExchangeKey, answer: &CachedResponse) {
        self.note(key, answer.cache_status(), answer.body_bytes());
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        self.begin_answer(key, answer.status(), answer.framing(), |writer, date| {
            write_fields(cache, answer, writer, date);
        });
        self.pass_pieces(key, pieces(answer));
    }

    /// Counts what the cache did, and tells the log.
    pub(super) fn note(&mut self, key: ExchangeKey, report: CacheStatus, stored_bytes: u64) {
        self.node.counts.count_cached(&report, stored_bytes);
        let Some(exchange) = self.exchange(key) else { return };
        exchange.source = RequestOutcome::of_report(&report);
        if let Some(notes) = exchange.notes.as_mut() {
            notes.cache_status = Some(cache_words(report));
        }
    }

    /// The head of the upstream's final answer.
    pub(super) fn take_head(&mut self, key: ExchangeKey, head: &ResponseHead<'_, '_>) -> Taking {
        let Part::Forward(mut forward) = self.take_part(key) else { return Taking::Relay };
        let added = self.added_lines(head);
        let length = match head.framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let told = breme_cache::ResponseHead { status: head.status, fields: head.fields, length, added: &added };
        let (moment, mut wakes) = (self.moment(), Wakes::new());
        let verdict = forward.handle_head(moment, &told, &mut wakes);
        self.wake(wakes);
        match verdict {
            HeadAction::Relay => {
                self.note(key, forward.cache_status(), 0);
                self.set_part(key, Part::Forward(forward));
                Taking::Relay
            }
            HeadAction::Replace(answer) => {
                if head.has_content() {
                    // Upstream's content is of no use, and nobody waits for its end.
                    self.give(key, &answer);
                } else {
                    self.set_part(key, Part::Kept(answer));
                }
                Taking::Keep
            }
        }
    }

    /// What is stored with an answer beside its own lines.
    fn added_lines(&mut self, head: &ResponseHead<'_, '_>) -> FieldBlock {
        let mut added = FieldBlock::new();
        let identity = &self.shared.settings.identity;
        if identity.via {
            let version = if head.version == Version::Http10 { "1.0" } else { "1.1" };
            let _ = added.push("Via", format!("{version} {}", identity.pseudonym).as_bytes());
        }
        if head.fields.first("Date").is_none() {
            let date = *self.node.date.text(self.now);
            let _ = added.push("Date", &date);
        }
        added
    }

    /// The value of Cache-Status for an answer that is relayed.
    pub(super) fn cache_says(&self, key: ExchangeKey) -> Option<Vec<u8>> {
        let cache = self.shared.cache.as_ref()?;
        let Part::Forward(forward) = &self.node.exchanges.get(key.index())?.caching else { return None };
        let mut value = Vec::new();
        forward.cache_status().write(&cache.settings().name, &mut value);
        Some(value)
    }

    /// A part of its content.
    pub(super) fn take_content(&mut self, key: ExchangeKey, bytes: &[u8]) {
        let Some(Exchange { caching: Part::Forward(forward), .. }) = self.node.exchanges.get_mut(key.index()) else {
            return;
        };
        if forward.wants_body() {
            let mut wakes = Wakes::new();
            forward.handle_body(bytes, &mut wakes);
            self.wake(wakes);
        }
    }

    /// It is complete.
    pub(super) fn take_end(&mut self, key: ExchangeKey) {
        match self.take_part(key) {
            Part::Forward(forward) => {
                let mut wakes = Wakes::new();
                forward.handle_end(&mut wakes);
                self.wake(wakes);
            }
            Part::Kept(answer) => self.give_behind(key, &answer),
            Part::Nothing | Part::Follow(_) | Part::Read(_) => {}
        }
    }

    /// There is no answer. Whether the client was given another one, and the exchange is over.
    pub(super) fn take_failure(&mut self, key: ExchangeKey, failure: &Failure) -> bool {
        let answer = match self.take_part(key) {
            Part::Forward(forward) => {
                let (moment, mut wakes) = (self.moment(), Wakes::new());
                let fault = self.fault(key, failure);
                let answer = forward.handle_failure(moment, fault, &mut wakes);
                self.wake(wakes);
                answer
            }
            Part::Kept(answer) => Some(*answer),
            Part::Nothing | Part::Follow(_) | Part::Read(_) => None,
        };
        let Some(answer) = answer else { return false };
        self.give(key, &answer);
        true
    }

    /// Why there is no answer, for those who wait for the same.
    fn fault(&self, key: ExchangeKey, failure: &Failure) -> FetchError {
        let settings = &self.shared.settings;
        let exchange = self.node.exchanges.get(key.index());
        let upstream = exchange.and_then(|exchange| exchange.visible_upstream_name(settings)).map(Arc::from);
        let told: FailureInfo = Arc::new(SharedFailure { failure: failure.clone(), upstream });
        match failure {
            Failure::NoUpstream(_) | Failure::Connect(_) | Failure::NoTlsClient | Failure::Resolve(_) => {
                FetchError::Unreachable(told)
            }
            Failure::BrokeOff | Failure::Answer(_) | Failure::HeadTimeout => FetchError::NoResponse(told),
            _ => FetchError::Request,
        }
    }

    /// Whether the answer is wanted although nobody listens any more.
    pub(super) fn outlives_client(&self, key: ExchangeKey) -> bool {
        let exchange = self.node.exchanges.get(key.index());
        matches!(exchange, Some(Exchange { caching: Part::Forward(forward), .. }) if forward.should_finish())
    }

    /// The exchange is over.
    pub(super) fn leave(&mut self, exchange: &mut Exchange) {
        if let Part::Forward(forward) = std::mem::take(&mut exchange.caching) {
            let (moment, mut wakes) = (self.moment(), Wakes::new());
            let _ = forward.handle_failure(moment, FetchError::Request, &mut wakes);
            self.wake(wakes);
        }
    }
}

impl Role {
    /// How the target is reached: by a forward proxy as the client wrote it; by a reverse one as the client has reached
    /// that.
    pub(super) fn scheme_of(&self, target: Target<'_>, is_secured: bool) -> Scheme {
        let is_https = match (self, target) {
            (Self::Forward { .. }, Target::Absolute { scheme, .. }) => scheme.eq_ignore_ascii_case("https"),
            _ => is_secured,
        };
        if is_https { Scheme::Https } else { Scheme::Http }
    }
}

impl Shared {
    /// Whether the user's own word keeps a request away from the cache.
    fn bypasses(&self, head: &RequestHead<'_, '_>) -> bool {
        self.settings.cache_bypass_header.as_ref().is_some_and(|name| head.fields.first(name).is_some())
    }
}

fn pieces(answer: &CachedResponse) -> impl Iterator<Item = Bytes> {
    let (one, several) = match answer.body() {
        ResponseBody::None => (None, &[][..]),
        ResponseBody::One(bytes) => (Some(bytes.clone()), &[][..]),
        ResponseBody::Several(pieces) => (None, pieces.as_slice()),
    };
    one.into_iter().chain(several.iter().cloned())
}

fn write_fields(cache: &Cache, answer: &CachedResponse, writer: &mut ResponseWriter<'_, '_>, date: &[u8; 29]) {
    writer.block(&cache.client_lines(answer.lines()));
    match answer.age_s() {
        Some(age_s) => write_age(age_s, writer),
        None => writer.date(date),
    }
    write_report(cache, answer.cache_status(), writer);
}

const AGE: FieldName = FieldName::new("Age");
const CACHE_STATUS: FieldName = FieldName::new("Cache-Status");

pub(super) fn write_age(age_s: u64, writer: &mut ResponseWriter<'_, '_>) {
    writer.number(AGE, age_s);
}

pub(super) fn write_report(cache: &Cache, report: CacheStatus, writer: &mut ResponseWriter<'_, '_>) {
    // The name was checked with the settings, the rest is made of tokens and numbers.
    let _ = writer.field_with(CACHE_STATUS, |out| report.write(&cache.settings().name, out));
}
