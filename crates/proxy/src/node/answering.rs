//! From a server's answer to the client: interim ones, the head, the content, the end.

use breme_http1::{
    ClientError, ClientProgress, Field, FieldStorage, Fields, Framing, ResponseBody, ResponseHead, ResponseWriter,
    is_targeted_cache_control,
};
use breme_node::{COPIED_BYTES_MAX, Close, CloseReason, Received};
use bytes::Bytes;

use super::part::Taking;
use super::reuse::Reuse;
use super::tables::{ClientKey, ExchangeKey, ServerKey, Stage, Way};
use super::turn::Turn;
use crate::access_log::Ending;
use crate::failure::Failure;

impl Turn<'_> {
    /// Reads as much of the answer as has come. Tells how many bytes were taken.
    pub(super) fn receive_from_server(&mut self, key: ServerKey, received: Received<'_>) -> usize {
        let length = received.bytes.len();
        let Some(server) = self.server(key) else { return length };
        server.ended |= received.ended;
        let Some(exchange_key) = server.exchange else {
            // Nothing was asked, so this is the end of it, or nothing that could be understood (RFC 9112, 9.2).
            self.drop_server(key, Close::Graceful);
            return length;
        };
        if let Some(taken) = self.tunnel_from_server(exchange_key, received) {
            return taken;
        }
        let now = self.now;
        if let Some(exchange) = self.exchange(exchange_key) {
            exchange.is_answer_begun |= length > 0;
            exchange.progress = now;
        }
        if let Some((taken, keep_alive)) = self.replay_response(key, exchange_key, received.bytes) {
            self.finish_repeated(exchange_key, keep_alive && taken == length);
            return length;
        }
        let mut taken = 0;
        loop {
            match self.answer_step(key, exchange_key, &received.bytes[taken..], received.ended) {
                AnswerStep::Taken(count) => taken += count,
                AnswerStep::Wait(count) => {
                    taken += count;
                    break;
                }
                AnswerStep::Complete { taken: count, keep_alive } => {
                    let is_clean = keep_alive && taken + count == length;
                    self.take_end(exchange_key);
                    self.finish(exchange_key, is_clean);
                    return length;
                }
                AnswerStep::Tunnel(count) => {
                    let rest = Received { bytes: &received.bytes[taken + count..], ..received };
                    self.tunnel_from_server(exchange_key, rest);
                    return length;
                }
                AnswerStep::Failed => return length,
            }
        }
        self.set_exchange_deadline(exchange_key);
        taken
    }

    fn answer_step(&mut self, key: ServerKey, exchange_key: ExchangeKey, input: &[u8], ended: bool) -> AnswerStep {
        let limits = &self.shared.settings.upstream_limits;
        let Some(server) = self.server(key) else { return AnswerStep::Failed };
        let mut storage = FieldStorage::new();
        match server.http.receive(input, ended, limits, &mut storage) {
            Ok(ClientProgress::NeedMore { taken }) => AnswerStep::Wait(taken),
            Ok(ClientProgress::Content { bytes, taken }) => {
                self.take_content(exchange_key, bytes);
                self.pass_content(exchange_key, bytes);
                AnswerStep::Taken(taken)
            }
            Ok(ClientProgress::Head { head, taken }) => {
                self.pass_head(key, exchange_key, &head, &input[..taken]);
                AnswerStep::Taken(taken)
            }
            Ok(ClientProgress::Trailer { field, taken }) => {
                self.pass_trailer(exchange_key, field);
                AnswerStep::Taken(taken)
            }
            Ok(ClientProgress::End { taken, keep_alive }) => AnswerStep::Complete { taken, keep_alive },
            Ok(ClientProgress::Interim { status, fields, taken }) => {
                self.pass_interim(exchange_key, status, fields);
                AnswerStep::Taken(taken)
            }
            Ok(ClientProgress::Switched { fields, taken }) => {
                self.switch(exchange_key, fields);
                AnswerStep::Tunnel(taken)
            }
            Ok(ClientProgress::Over) => self.answer_broken(exchange_key, ClientError::ClosedEarly),
            Err(error) => self.answer_broken(exchange_key, error),
        }
    }

    #[cold]
    fn answer_broken(&mut self, exchange_key: ExchangeKey, error: ClientError) -> AnswerStep {
        let is_begun = self.exchange(exchange_key).is_some_and(|exchange| exchange.is_answer_begun);
        if is_begun || error != ClientError::ClosedEarly {
            self.fail(exchange_key, &Failure::Answer(error));
        } else {
            self.lose_server(exchange_key, Close::Graceful);
        }
        AnswerStep::Failed
    }

    /// RFC 9110, 15.2: passed on, but to those who would not understand it.
    fn pass_interim(&mut self, key: ExchangeKey, status: u16, fields: Fields<'_, '_>) {
        if let Some(exchange) = self.exchange(key).filter(|_| status == 100) {
            exchange.awaits_continue = false;
        }
        let Some(client) = self.listener(key) else { return };
        let Some(client) = self.node.clients.get_mut(client.index()) else { return };
        if let Some(mut writer) = client.http.interim(status, self.actions.send(client.id)) {
            writer.relay(fields, |_| true);
            writer.end();
        }
    }

    /// Who listens to an exchange.
    fn listener(&self, key: ExchangeKey) -> Option<ClientKey> {
        self.node.exchanges.get(key.index())?.client
    }

    /// `bytes` are those of the head.
    fn pass_head(&mut self, server: ServerKey, key: ExchangeKey, head: &ResponseHead<'_, '_>, bytes: &[u8]) {
        let now = self.now;
        let Some(exchange) = self.exchange(key) else { return };
        exchange.stage = Stage::Answering;
        if exchange.awaits_continue || !exchange.is_request_complete {
            exchange.reuse = Reuse::Never;
        }
        let duration = now.since(exchange.sent);
        exchange.upstream_duration = Some(duration);
        let set_affinity = exchange.set_affinity.take();
        let may_have_trailers =
            exchange.asked.accepts_trailers && head.framing == Framing::Chunked && head.fields.keep_trailers();
        exchange.asked.accepts_trailers = may_have_trailers;
        self.node.counts.count_upstream_time(duration);
        if self.take_head(key, head) == Taking::Keep {
            return;
        }
        let shared = self.shared;
        let cache_status = self.cache_says(key);
        let has_date = head.fields.first("Date").is_some();
        let lesson = self.may_learn_answer(key).filter(|_| has_date);
        let start = self.listener(key).and_then(|client| self.client(client)).map(|client| client.id);
        let start = start.map_or(0, |id| self.actions.send(id).len());
        self.begin_answer(key, head.status, framing(head), |writer, date| {
            writer.relay(head.fields, |name| {
                let is_kept = set_affinity.is_none() || !is_for_other_caches(name);
                is_kept && !shared.cache.as_ref().is_some_and(|cache| cache.is_hidden_field(name))
            });
            if may_have_trailers {
                writer.announce_trailers(head.fields);
            }
            if shared.settings.identity.via {
                writer.via(head.version, &shared.settings.identity.pseudonym);
            }
            if !has_date {
                // RFC 9110, 6.6.1: a recipient with a clock makes up for it.
                writer.date(date);
            }
            if let Some(value) = &cache_status {
                // The cache has made it of tokens and numbers.
                let _ = writer.field("Cache-Status", value);
            }
            if let Some(cookie) = &set_affinity {
                let mut lines = Vec::new();
                write_affinity(cookie, &mut lines);
                // The balancer has made the cookie of tokens.
                let _ = writer.lines(&lines);
            }
        });
        if lesson.is_some() {
            self.learn_answer(server, key, head, bytes, start, set_affinity.as_deref());
        }
    }

    /// Begins the client's answer, if somebody listens. `fields` is given the current date.
    pub(super) fn begin_answer(
        &mut self,
        key: ExchangeKey,
        status: u16,
        framing: Framing,
        fields: impl FnOnce(&mut ResponseWriter<'_, '_>, &[u8; 29]),
    ) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        exchange.status = status;
        exchange.stage = Stage::Answering;
        exchange.answer = Some(Way::None);
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        if client.announce_leave(self.node.is_stopping, &mut self.node.pressure, self.now) {
            exchange.is_evicted = true;
            self.node.counts.evicted.add();
        }
        let mut writer = client.http.relay(status, framing, self.actions.send(client.id));
        fields(&mut writer, self.node.date.text(self.now));
        exchange.answer = Some(match (writer.end(), framing) {
            (ResponseBody::Omitted, _) => Way::None,
            (ResponseBody::Expected, Framing::Length(_)) => Way::Raw,
            (ResponseBody::Expected, _) => Way::Chunks,
        });
    }

    /// Passes a part of the content on to the client.
    pub(super) fn pass_content(&mut self, key: ExchangeKey, bytes: &[u8]) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        match exchange.answer {
            Some(Way::Raw) => self.actions.send_received(client.id, self.received, bytes),
            Some(Way::Chunks) => client.http.chunk(bytes, self.actions.send(client.id)),
            Some(Way::None) | None => return,
        }
        exchange.sent_bytes += bytes.len() as u64;
        self.node.counts.bytes_downstream.add_many(bytes.len() as u64);
    }

    /// Passes a trailer on to a client that has said that it takes them. The cache keeps none: who reads a stored
    /// answer gets it without.
    fn pass_trailer(&mut self, key: ExchangeKey, trailer: Field<'_>) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        if exchange.asked.accepts_trailers && exchange.answer == Some(Way::Chunks) {
            client.http.relay_trailer(trailer, self.actions.send(client.id));
        }
    }

    /// Gives a whole answer that is at hand, and ends the exchange.
    pub(super) fn answer_from_memory(
        &mut self,
        key: ExchangeKey,
        status: u16,
        framing: Framing,
        fields: impl FnOnce(&mut ResponseWriter<'_, '_>, &[u8; 29]),
        content: impl IntoIterator<Item = Bytes>,
    ) {
        self.begin_answer(key, status, framing, fields);
        self.pass_pieces(key, content);
        self.finish(key, false);
    }

    /// Passes on content that is at hand: long pieces are handed over, short ones copied.
    pub(super) fn pass_pieces(&mut self, key: ExchangeKey, content: impl IntoIterator<Item = Bytes>) {
        for piece in content {
            match self.listener(key).and_then(|client| self.client(client)).map(|client| client.id) {
                Some(id) if piece.len() > COPIED_BYTES_MAX && self.sends_raw(key) => {
                    let length = piece.len() as u64;
                    self.actions.send_shared(id, piece);
                    self.node.counts.bytes_downstream.add_many(length);
                    if let Some(exchange) = self.exchange(key) {
                        exchange.sent_bytes += length;
                    }
                }
                _ => self.pass_content(key, &piece),
            }
        }
    }

    fn sends_raw(&self, key: ExchangeKey) -> bool {
        self.node.exchanges.get(key.index()).is_some_and(|exchange| exchange.answer == Some(Way::Raw))
    }

    /// The answer is complete.
    pub(super) fn finish(&mut self, key: ExchangeKey, is_server_clean: bool) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let client_key = exchange.client;
        if let Some(client) = client_key.and_then(|client| self.node.clients.get_mut(client.index())) {
            match exchange.answer {
                Some(Way::Raw) => client.http.content_sent(),
                Some(Way::Chunks) => client.http.end_chunks(self.actions.send(client.id)),
                Some(Way::None) | None => {}
            }
            self.node.counts.count_answer(exchange.status);
        }
        let is_clean = is_server_clean && exchange.is_request_complete;
        self.end_exchange(key, Ending::Complete, is_clean);
        if let Some(client) = client_key {
            self.go_on(client);
        }
    }

    pub(super) fn handle_server_queue(&mut self, key: ServerKey, is_long: bool) {
        let now = self.now;
        let Some(server) = self.server(key) else { return };
        server.queue_is_long = is_long;
        let Some(exchange_key) = server.exchange else { return };
        let Some(exchange) = self.exchange(exchange_key) else { return };
        if !is_long {
            // The time for which the client was held back is not its fault.
            exchange.content_began = exchange.content_began + now.since(exchange.progress);
        }
        exchange.progress = now;
        if let Some(client) = exchange.client {
            self.hold_client(client, is_long);
        }
        self.set_exchange_deadline(exchange_key);
    }

    /// Holds the server's answer back, or lets it go on.
    pub(super) fn hold_server(&mut self, exchange_key: ExchangeKey, is_held: bool) {
        let now = self.now;
        let Some(exchange) = self.exchange(exchange_key) else { return };
        exchange.progress = now;
        let Some(server_key) = exchange.server else {
            if !is_held {
                self.follow(exchange_key);
            }
            return;
        };
        let Some(server) = self.server(server_key) else { return };
        if server.is_paused != is_held {
            server.is_paused = is_held;
            let id = server.id;
            if is_held { self.actions.pause(id) } else { self.actions.resume(id) }
        }
        self.set_exchange_deadline(exchange_key);
    }

    pub(super) fn handle_server_closed(&mut self, key: ServerKey, reason: CloseReason) {
        let exchange = self.server(key).and_then(|server| server.exchange);
        if let Some(exchange) = exchange {
            if let Some(exchange) = self.exchange(exchange) {
                exchange.server = None;
            }
            self.forget_server(key);
            return self.server_gone(exchange, reason);
        }
        self.forget_server(key);
    }
}

/// What became of a step of an answer.
enum AnswerStep {
    /// It took so many bytes; there may be another.
    Taken(usize),
    /// It took so many bytes, and waits for more.
    Wait(usize),
    Complete {
        taken: usize,
        keep_alive: bool,
    },
    /// Behind so many bytes begins another protocol.
    Tunnel(usize),
    /// The exchange is over.
    Failed,
}

/// The last lines of an answer's head that brings the balancer's cookie. It is this client's alone: a cache in front of
/// us must not give it to others.
pub(super) fn write_affinity(cookie: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Set-Cookie: ");
    out.extend_from_slice(cookie.as_bytes());
    out.extend_from_slice(b"\r\nCache-Control: private\r\n");
}

/// Whether it tells some caches other than Cache-Control tells all, in the words of RFC 9213 or of its forerunner.
fn is_for_other_caches(name: &str) -> bool {
    is_targeted_cache_control(name) || name.eq_ignore_ascii_case("Surrogate-Control")
}

/// What the client is announced. What has no end but the connection's goes on in chunks.
fn framing(head: &ResponseHead<'_, '_>) -> Framing {
    match head.framing {
        Framing::UntilClose => Framing::Chunked,
        Framing::None => head.announced_bytes().map_or(Framing::None, Framing::Length),
        framing => framing,
    }
}
