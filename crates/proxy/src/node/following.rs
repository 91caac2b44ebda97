//! Exchanges that read what another one fetches.
//!
//! Nobody polls: the cache says whom to wake, and the message leads here. A follower whose answer is not for it, or
//! that has waited for too long, goes upstream with the request that was written when it began to wait. Where there is
//! no answer, it is told so with the one that was asked, or the next one (`breme_cache::Fault`): if each asked for
//! itself, an upstream that is down would be asked as often as there are clients, or these would wait for one another.

use breme_cache::{BodyRead, CacheDecision, Follower, FollowerPoll, StreamedHead};
use breme_http1::Framing;

use super::caching::{write_age, write_report};
use super::part::Part;
use super::tables::{Exchange, ExchangeKey, Stage};
use super::turn::Turn;
use crate::failure::{Failure, SharedFailure};
use crate::request;

/// What a follower copies in one turn; then others have theirs.
const TURN_BYTES: usize = 256 * 1024;
/// … and in one step.
const STEP_BYTES: usize = 16 * 1024;

impl Turn<'_> {
    /// There may be more to read for an exchange that waits.
    pub(super) fn follow(&mut self, key: ExchangeKey) {
        match self.take_part(key) {
            Part::Follow(follower) => self.look(key, follower),
            Part::Read(follower) => self.read_on(key, follower),
            other => self.set_part(key, other),
        }
    }

    fn look(&mut self, key: ExchangeKey, mut follower: Box<Follower>) {
        match follower.poll(self.moment()) {
            FollowerPoll::Pending => self.set_part(key, Part::Follow(follower)),
            FollowerPoll::Retry => self.ask_anew(key, *follower),
            FollowerPoll::Failed(told) => match told.downcast::<SharedFailure>() {
                Ok(shared) => self.fail(key, &Failure::Shared(shared)),
                Err(_) => self.ask_anew(key, *follower),
            },
            FollowerPoll::Response(answer) => self.give(key, &answer),
            FollowerPoll::Stream(head) => {
                self.begin_stream(key, &head);
                self.read_on(key, follower);
            }
        }
    }

    /// It waited in vain: now it asks for itself, or waits for another one.
    fn ask_anew(&mut self, key: ExchangeKey, follower: Follower) {
        let moment = self.moment();
        match follower.retry(moment) {
            // Whoever asks next refreshes it.
            CacheDecision::Respond(answer) | CacheDecision::RespondAndRefresh(answer, _) => self.give(key, &answer),
            CacheDecision::Wait(follower) => self.look(key, Box::new(follower)),
            CacheDecision::Forward(forward) => {
                if let (Some(conditions), Some(exchange)) =
                    (forward.conditions(), self.node.exchanges.get_mut(key.index()))
                {
                    request::replace_conditions(&mut exchange.request, conditions);
                }
                self.set_part(key, Part::Forward(Box::new(forward)));
                self.go_upstream(key);
            }
        }
    }

    fn begin_stream(&mut self, key: ExchangeKey, head: &StreamedHead) {
        self.note(key, head.cache_status, 0);
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        let framing = head.length.map_or(Framing::Chunked, Framing::Length);
        self.begin_answer(key, head.status, framing, |writer, _| {
            writer.block(&cache.client_lines(&head.lines));
            write_age(head.age_s, writer);
            write_report(cache, head.cache_status, writer);
        });
    }

    /// Passes on what there is, as far as the client takes it.
    fn read_on(&mut self, key: ExchangeKey, mut follower: Box<Follower>) {
        let mut buffer = self.node.take_buffer();
        let mut copied = 0;
        let reading = loop {
            if self.is_held(key) || copied >= TURN_BYTES {
                break None;
            }
            buffer.clear();
            match follower.read(&mut buffer, STEP_BYTES) {
                BodyRead::Copied(bytes) => {
                    copied += bytes;
                    self.pass_content(key, &buffer);
                }
                other => break Some(other),
            }
        };
        self.node.keep_buffer(buffer);
        let now = self.now;
        if let Some(exchange) = self.exchange(key) {
            exchange.progress = now;
        }
        match reading {
            None | Some(BodyRead::Pending | BodyRead::Copied(_)) => {
                self.set_part(key, Part::Read(follower));
                self.set_exchange_deadline(key);
                if copied >= TURN_BYTES {
                    let message = self.message_of(key);
                    self.actions.wake(self.node.shard.id, message);
                }
            }
            Some(BodyRead::Rest(rest)) => {
                self.node.counts.cache_bytes.add_many(rest.len() as u64);
                self.pass_pieces(key, [rest]);
                self.finish(key, false);
            }
            Some(BodyRead::End) => self.finish(key, false),
            Some(BodyRead::Aborted) => self.fail(key, &Failure::BrokeOff),
        }
    }

    /// The client does not read as fast as there is something to write.
    fn is_held(&self, key: ExchangeKey) -> bool {
        let client = self.node.exchanges.get(key.index()).and_then(|exchange| exchange.client);
        client.and_then(|client| self.node.clients.get(client.index())).is_some_and(|client| client.queue_is_long)
    }

    /// Whether an exchange that waits should wait no more for others; then it does not.
    pub(super) fn wait_no_more(&mut self, key: ExchangeKey) -> bool {
        let now = self.now;
        let exchange = self.node.exchanges.get(key.index());
        let Some(Exchange { caching: Part::Follow(follower), stage: Stage::Waiting, .. }) = exchange else {
            return false;
        };
        if now < follower.deadline() {
            return false;
        }
        let Part::Follow(follower) = self.take_part(key) else { return false };
        self.ask_anew(key, *follower);
        true
    }
}
