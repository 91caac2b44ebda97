//! Request collapsing: exchanges that read what another exchange fetches.
//!
//! Followers do not poll: the cache returns whom to wake, and the message leads here. A follower that cannot use the
//! response, or has waited too long, is forwarded with the request that was prepared when it began to wait. If the
//! fetch fails, its followers fail with it, or with its successor (`breme_cache::FillOutcome`): if each retried, an
//! upstream that is down would get as many requests as there are clients.
//!
//! The client that caused a fetch may read slowly. Then its exchange becomes two: one fetches at the upstream's pace,
//! the other reads from the cache at the client's, as followers do; otherwise one slow client would slow down all
//! others. This requires a known length: a response of unknown length may grow too large for the store, and is then
//! fetched at the pace of its client.

use breme_cache::{BodyRead, CacheDecision, Follower, FollowerPoll, StreamedHead, Waiter};
use breme_http::Framing;

use super::cache::{write_age, write_cache_status};
use super::context::Context;
use super::keys::ExchangeKey;
use super::stage::{BodyMode, BodySource, Following, PreparedRequest, Stage, TakenFollower, Wait};
use super::tables::{Exchange, Route};
use crate::failure::{Failure, SharedFailure};

/// Bytes that a follower copies in one call.
const TURN_BYTES: usize = 256 * 1024;
/// Bytes that it copies at a time.
const STEP_BYTES: usize = 16 * 1024;

impl Context<'_> {
    /// More can be read.
    pub(super) fn follow(&mut self, key: ExchangeKey) {
        match self.exchange(key).and_then(|exchange| exchange.stage.take_follower()) {
            Some(TakenFollower::Waiting(following)) => self.poll_follower(key, following),
            Some(TakenFollower::Reading(follower)) => self.read_stream(key, follower),
            None => {}
        }
    }

    fn poll_follower(&mut self, key: ExchangeKey, mut following: Following) {
        match following.follower.poll(self.cache_now()) {
            FollowerPoll::Pending => {
                if let Some(exchange) = self.exchange(key) {
                    exchange.stage.wait_for(Wait::Following(following));
                }
            }
            FollowerPoll::Retry => self.retry_lookup(key, following),
            FollowerPoll::Failed(info) => match info.downcast::<SharedFailure>() {
                Ok(shared) => self.fail(key, &Failure::Shared(shared)),
                Err(_) => self.retry_lookup(key, following),
            },
            FollowerPoll::Response(response) => self.respond_from_cache(key, &response),
            FollowerPoll::Stream(head) => {
                self.begin_stream(key, &head);
                self.read_stream(key, following.follower);
            }
        }
    }

    /// Repeats the lookup: forwards the request, or waits for another fetch.
    fn retry_lookup(&mut self, key: ExchangeKey, following: Following) {
        let Following { follower, cookies } = following;
        let cache_now = self.cache_now();
        match follower.retry(cache_now) {
            // The next request will refresh it.
            CacheDecision::Respond(response) | CacheDecision::RespondAndRefresh(response, _) => {
                self.respond_from_cache(key, &response);
            }
            CacheDecision::Wait(follower) => {
                self.poll_follower(key, Following { follower: Box::new(follower), cookies });
            }
            CacheDecision::Forward(forward) => {
                self.replace_conditions(key, &forward);
                self.set_fetch(key, Box::new(forward));
                self.forward_with_cookies(key, &cookies);
            }
            CacheDecision::NotCached => self.fail(key, &Failure::NotCached),
        }
    }

    fn begin_stream(&mut self, key: ExchangeKey, head: &StreamedHead) {
        self.record_cache_status(key, head.cache_status, 0);
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        let framing = head.length.map_or(Framing::Chunked, Framing::Length);
        self.begin_response(key, head.status, framing, |writer, _| {
            writer.block(&cache.client_lines(&head.lines));
            write_age(head.age_s, writer);
            write_cache_status(cache, head.cache_status, writer);
        });
    }

    /// Sends what is available, as far as the client reads.
    fn read_stream(&mut self, key: ExchangeKey, mut follower: Box<Follower>) {
        let mut buffer = self.node.buffers.take();
        let mut copied = 0;
        let reading = loop {
            let exchange = self.node.exchanges.get(key.index());
            if copied >= TURN_BYTES || exchange.is_some_and(|exchange| self.node.client_is_slow(exchange)) {
                break None;
            }
            buffer.clear();
            match follower.read(&mut buffer, STEP_BYTES) {
                BodyRead::Copied(bytes) => {
                    copied += bytes;
                    self.relay_body(key, &buffer);
                }
                other => break Some(other),
            }
        };
        self.node.buffers.keep(buffer);
        let now = self.now;
        if let Some(exchange) = self.exchange(key) {
            exchange.progress = now;
        }
        match reading {
            None | Some(BodyRead::Pending | BodyRead::Copied(_)) => {
                if let Some(exchange) = self.exchange(key) {
                    exchange.stage.read_on(follower);
                }
                self.set_exchange_deadline(key);
                if copied >= TURN_BYTES {
                    let message = self.node.message_of(key);
                    self.actions.wake(self.node.shard.id, message);
                }
            }
            Some(BodyRead::Rest(rest)) => {
                self.node.counts.cache_bytes.add_many(rest.len() as u64);
                self.relay_pieces(key, [rest]);
                self.finish(key, false);
            }
            Some(BodyRead::End) => self.finish(key, false),
            Some(BodyRead::Aborted) => self.fail(key, &Failure::ConnectionLost),
        }
    }

    /// Ends the wait of a follower whose deadline has passed.
    pub(super) fn end_wait(&mut self, key: ExchangeKey) {
        let follower = self.exchange(key).and_then(|exchange| exchange.stage.take_follower());
        if let Some(TakenFollower::Waiting(following)) = follower {
            self.retry_lookup(key, following);
        }
    }
}

impl Context<'_> {
    /// Moves the client of a fetching exchange to an exchange of its own, if it can read the rest from the cache.
    /// Returns the client's exchange.
    pub(super) fn detach_slow_reader(&mut self, key: ExchangeKey) -> ExchangeKey {
        let number = self.node.exchange_count.wrapping_add(1);
        let reading_key = ExchangeKey::new(self.node.exchanges.vacant_key());
        let Some(fetching) = self.node.exchanges.get_mut(key.index()) else { return key };
        let Some(forward) = &fetching.fetch else { return key };
        let is_raw = fetching.stage.response_body() == Some(BodyMode::Raw);
        if !fetching.content.is_complete || !is_raw || fetching.client.is_none() {
            return key;
        }
        let waiter = Waiter { shard: self.node.shard.id.0, message: reading_key.message(number) };
        let Some(follower) = forward.reader(waiter) else { return key };
        let reading = fetching.detached_reader(number, Box::new(follower));
        self.node.exchange_count = number;
        self.node.counts.exchanges_open.add();
        let client = reading.client;
        self.node.exchanges.insert(reading);
        if let Some(client) = client.and_then(|client| self.client(client)) {
            client.state.exchange = Some(reading_key);
        }
        self.pause_upstream(key, false);
        self.set_exchange_deadline(reading_key);
        reading_key
    }
}

impl Exchange {
    /// A new exchange with the client and the log entry of this one.
    fn detached_reader(&mut self, number: u32, follower: Box<Follower>) -> Self {
        let body = self.stage.response_body().unwrap_or(BodyMode::None);
        let client = self.client.take();
        Self {
            stage: Stage::Responding { body, source: BodySource::Follower(follower) },
            route: self.route.for_log(),
            retries: self.retries,
            status: self.status,
            progress: self.progress,
            upstream_response: self.upstream_response,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            log_entry: self.log_entry.take(),
            ..Self::new(number, client, self.began, self.request_info, PreparedRequest::default())
        }
    }
}

impl Route {
    /// A copy for the log. The fetching exchange reports to the balancer.
    fn for_log(&self) -> Self {
        match self {
            Self::Upstream { choice, .. } => {
                Self::Upstream { choice: choice.clone(), tried: Vec::new(), is_open: false }
            }
            Self::Host { name, .. } => Self::Host { name: name.clone(), rest: Vec::new() },
            Self::None => Self::None,
        }
    }
}
