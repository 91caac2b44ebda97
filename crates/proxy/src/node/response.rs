//! Relays upstream responses: interim responses, head, body, trailers, end.

use breme_http::{Field, Fields, Framing, ResponseHead, Version, is_targeted_cache_control};
use breme_http1::{ClientError, ClientProgress, FieldStorage, ResponseBody, ResponseWriter};
use breme_node::{COPIED_BYTES_MAX, Close, CloseReason, Received};
use bytes::Bytes;

use super::cache::HeadOutcome;
use super::context::Context;
use super::keys::{ExchangeKey, UpstreamKey};
use super::response_head::HeadStart;
use super::reuse::Reuse;
use super::stage::BodyMode;
use super::tables::UpstreamResponse;
use crate::access_log::Completion;
use crate::failure::Failure;

impl Context<'_> {
    /// Reads the response. Returns the number of bytes consumed.
    pub(super) fn receive_from_upstream(&mut self, key: UpstreamKey, received: Received<'_>) -> usize {
        let length = received.bytes.len();
        let Some(upstream) = self.upstream(key) else { return length };
        upstream.ended |= received.ended;
        let Some(exchange_key) = upstream.exchange else {
            // An idle connection: its end, or unsolicited data (RFC 9112, 9.2).
            self.drop_upstream(key, Close::Graceful);
            return length;
        };
        if let Some(taken) = self.tunnel_from_upstream(exchange_key, received) {
            return taken;
        }
        let now = self.now;
        if let Some(exchange) = self.exchange(exchange_key) {
            if let Some(attempt) = exchange.stage.attempt() {
                attempt.response_began |= length > 0;
            }
            exchange.progress = now;
        }
        if let Some((taken, keep_alive)) = self.replay_response(key, exchange_key, received.bytes) {
            self.finish_replayed(exchange_key, keep_alive && taken == length);
            return length;
        }
        let mut taken = 0;
        loop {
            match self.response_step(key, exchange_key, &received.bytes[taken..], received.ended) {
                ResponseStep::Taken(count) => taken += count,
                ResponseStep::Wait(count) => {
                    taken += count;
                    break;
                }
                ResponseStep::Complete { taken: count, keep_alive } => {
                    let is_clean = keep_alive && taken + count == length;
                    self.complete_cached(exchange_key);
                    self.finish(exchange_key, is_clean);
                    return length;
                }
                ResponseStep::Tunnel(count) => {
                    let rest = Received { bytes: &received.bytes[taken + count..], ..received };
                    self.tunnel_from_upstream(exchange_key, rest);
                    return length;
                }
                ResponseStep::Failed => return length,
            }
        }
        self.set_exchange_deadline(exchange_key);
        taken
    }

    fn response_step(
        &mut self,
        key: UpstreamKey,
        exchange_key: ExchangeKey,
        input: &[u8],
        ended: bool,
    ) -> ResponseStep {
        let limits = &self.shared.settings.upstream_limits;
        let Some(upstream) = self.upstream(key) else { return ResponseStep::Failed };
        let mut storage = FieldStorage::new();
        match upstream.http.receive(input, ended, limits, &mut storage) {
            Ok(ClientProgress::NeedMore { taken }) => ResponseStep::Wait(taken),
            Ok(ClientProgress::Content { bytes, taken }) => {
                // This may end the exchange; then nothing is relayed, and the next step finds no connection.
                self.receive_cached_body(exchange_key, bytes);
                self.relay_body(exchange_key, bytes);
                ResponseStep::Taken(taken)
            }
            Ok(ClientProgress::Head { head, taken }) => {
                self.relay_head(key, exchange_key, &head, &input[..taken]);
                ResponseStep::Taken(taken)
            }
            Ok(ClientProgress::Trailer { field, taken }) => {
                self.relay_trailer_to_client(exchange_key, field);
                ResponseStep::Taken(taken)
            }
            Ok(ClientProgress::End { taken, keep_alive }) => ResponseStep::Complete { taken, keep_alive },
            Ok(ClientProgress::Interim { status, fields, taken }) => {
                self.relay_interim(exchange_key, status, fields);
                ResponseStep::Taken(taken)
            }
            Ok(ClientProgress::Switched { fields, taken }) => {
                self.switch(exchange_key, fields);
                ResponseStep::Tunnel(taken)
            }
            Ok(ClientProgress::Over) => self.handle_response_error(exchange_key, ClientError::ClosedEarly),
            Err(error) => self.handle_response_error(exchange_key, error),
        }
    }

    #[cold]
    fn handle_response_error(&mut self, exchange_key: ExchangeKey, error: ClientError) -> ResponseStep {
        let is_begun = self.exchange(exchange_key).is_some_and(|exchange| exchange.stage.has_response());
        if is_begun || error != ClientError::ClosedEarly {
            self.fail(exchange_key, &Failure::InvalidResponse(error));
        } else {
            self.handle_upstream_eof(exchange_key, Close::Graceful);
        }
        ResponseStep::Failed
    }

    /// RFC 9110, 15.2: relayed, except to HTTP/1.0 clients.
    fn relay_interim(&mut self, key: ExchangeKey, status: u16, fields: Fields<'_, '_>) {
        if let Some(exchange) = self.exchange(key).filter(|_| status == 100) {
            exchange.content.awaits_continue = false;
        }
        let Some(client) = self.node.client_of(key) else { return };
        let Some(client) = self.node.clients.get_mut(client.index()) else { return };
        let out = self.actions.send(client.id);
        if let Some(mut writer) = self.shared.begin_head(&mut client.http, HeadStart::Interim(status), out) {
            // HTTP/1.0 has no interim responses.
            self.shared.forward_fields(&mut writer, Version::Http11, fields, |_| true);
            let _ = writer.end();
        }
    }

    /// `bytes` are those of the head.
    fn relay_head(&mut self, upstream: UpstreamKey, key: ExchangeKey, head: &ResponseHead<'_, '_>, bytes: &[u8]) {
        let now = self.now;
        if head.status == 401 {
            self.restrict_reuse(key, head);
        }
        let Some(exchange) = self.exchange(key) else { return };
        let Some(attempt) = exchange.stage.attempt() else { return };
        let latency = now.since(attempt.sent);
        if exchange.content.awaits_continue || !exchange.content.is_complete {
            exchange.reuse = Reuse::Never;
        }
        exchange.upstream_response = Some(UpstreamResponse { status: head.status, latency });
        self.node.counts.count_upstream_time(latency);
        if self.receive_cached_head(key, head) == HeadOutcome::Discard {
            return;
        }
        let shared = self.shared;
        let Some(exchange) = self.exchange(key) else { return };
        let set_affinity = exchange.route.take_affinity();
        let may_have_trailers =
            exchange.request_info.accepts_trailers && head.framing == Framing::Chunked && head.fields.keep_trailers();
        exchange.request_info.accepts_trailers = may_have_trailers;
        let cache_status = shared.cache.as_ref().and_then(|cache| exchange.cache_status_value(cache));
        let has_date = head.fields.first("Date").is_some();
        let new_entry = self.node.recordable_response(self.now, key).filter(|_| has_date);
        let client = self.node.client_of(key).and_then(|client| self.client(client)).map(|client| client.id);
        let start = client.map_or(0, |id| self.actions.send(id).len());
        self.begin_response(key, head.status, framing(head), |writer, date| {
            shared.forward_fields(writer, head.version, head.fields, |name| {
                let is_kept = set_affinity.is_none() || !is_for_other_caches(name);
                is_kept && !shared.cache.as_ref().is_some_and(|cache| cache.is_hidden_field(name))
            });
            if may_have_trailers {
                writer.announce_trailers(head.fields);
            }
            if !has_date {
                // RFC 9110, 6.6.1: a recipient with a clock adds it.
                writer.date(date);
            }
            if let Some(value) = &cache_status {
                // The cache writes tokens and numbers only.
                let _ = writer.field("Cache-Status", value);
            }
            if let Some(cookie) = &set_affinity {
                let mut lines = Vec::new();
                write_affinity(cookie, &mut lines);
                // The balancer's cookie consists of tokens.
                let _ = writer.lines(&lines);
            }
        });
        if let (Some(replay), Some(client)) = (new_entry, client) {
            self.record_response(upstream, replay, (client, start), head, bytes, set_affinity.as_deref());
        }
    }

    /// The upstream may authenticate the connection instead of each request.
    fn restrict_reuse(&mut self, key: ExchangeKey, head: &ResponseHead<'_, '_>) {
        let client = self.node.client_of(key);
        let is_private = client.is_some_and(|client| self.is_private(client));
        if let Some(exchange) = self.exchange(key) {
            exchange.reuse = exchange.reuse.after_response(head, is_private);
        }
    }

    /// Begins the client's response, if there is a client, whether from the upstream or the cache. `fields` writes the
    /// header fields; its second argument is the current date.
    pub(super) fn begin_response(
        &mut self,
        key: ExchangeKey,
        status: u16,
        framing: Framing,
        fields: impl FnOnce(&mut ResponseWriter<'_, '_>, &[u8; 29]),
    ) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        exchange.status = status;
        self.node.buffers.keep(exchange.stage.begin_response());
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        self.node.server.announce_close(self.now, client, &self.node.counts.evicted);
        let (start, out) = (HeadStart::Final(status, framing), self.actions.send(client.id));
        let Some(mut writer) = self.shared.begin_head(&mut client.http, start, out) else { return };
        fields(&mut writer, self.node.date.at(self.now).text());
        exchange.stage.expect_body(match (writer.end(), framing) {
            (ResponseBody::Omitted, _) => BodyMode::None,
            (ResponseBody::Expected, Framing::Length(_)) => BodyMode::Raw,
            (ResponseBody::Expected, _) => BodyMode::Chunks,
        });
    }

    /// Relays a part of the body to the client.
    pub(super) fn relay_body(&mut self, key: ExchangeKey, bytes: &[u8]) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        match exchange.stage.response_body() {
            Some(BodyMode::Raw) => self.actions.send_received(client.id, self.received, bytes),
            Some(BodyMode::Chunks) => client.http.chunk(bytes, self.actions.send(client.id)),
            Some(BodyMode::None) | None => return,
        }
        exchange.sent_bytes += bytes.len() as u64;
        self.node.counts.bytes_downstream.add_many(bytes.len() as u64);
    }

    /// Relays a trailer to a client that accepts trailers. The cache does not store them.
    fn relay_trailer_to_client(&mut self, key: ExchangeKey, trailer: Field<'_>) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        if exchange.request_info.accepts_trailers && exchange.stage.response_body() == Some(BodyMode::Chunks) {
            client.http.relay_trailer(trailer, self.actions.send(client.id));
        }
    }

    /// Sends a complete response and ends the exchange.
    pub(super) fn respond_from_memory(
        &mut self,
        key: ExchangeKey,
        status: u16,
        framing: Framing,
        fields: impl FnOnce(&mut ResponseWriter<'_, '_>, &[u8; 29]),
        content: impl IntoIterator<Item = Bytes>,
    ) {
        self.begin_response(key, status, framing, fields);
        self.relay_pieces(key, content);
        self.finish(key, false);
    }

    /// Sends a body from memory: long pieces are shared, short ones copied.
    pub(super) fn relay_pieces(&mut self, key: ExchangeKey, content: impl IntoIterator<Item = Bytes>) {
        for piece in content {
            match self.node.client_of(key).and_then(|client| self.client(client)).map(|client| client.id) {
                Some(id) if piece.len() > COPIED_BYTES_MAX && self.sends_raw(key) => {
                    let length = piece.len() as u64;
                    self.actions.send_shared(id, piece);
                    self.node.counts.bytes_downstream.add_many(length);
                    if let Some(exchange) = self.exchange(key) {
                        exchange.sent_bytes += length;
                    }
                }
                _ => self.relay_body(key, &piece),
            }
        }
    }

    fn sends_raw(&self, key: ExchangeKey) -> bool {
        let exchange = self.node.exchanges.get(key.index());
        exchange.is_some_and(|exchange| exchange.stage.response_body() == Some(BodyMode::Raw))
    }

    pub(super) fn finish(&mut self, key: ExchangeKey, is_upstream_clean: bool) {
        self.complete_response(key);
        let Some(exchange) = self.exchange(key) else { return };
        let client = exchange.client;
        let is_clean = is_upstream_clean && exchange.content.is_complete;
        self.end_exchange(key, Completion::Complete, is_clean);
        if let Some(client) = client {
            self.continue_client(client);
        }
    }

    /// Ends the client's response, if there is a client; the exchange goes on.
    pub(super) fn complete_response(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        match exchange.stage.response_body() {
            Some(BodyMode::Raw) => client.http.content_sent(),
            Some(BodyMode::Chunks) => client.http.end_chunks(self.actions.send(client.id)),
            Some(BodyMode::None) | None => {}
        }
        self.node.counts.count_response(exchange.status);
    }

    pub(super) fn handle_upstream_queue(&mut self, key: UpstreamKey, is_long: bool) {
        let now = self.now;
        let Some(upstream) = self.upstream(key) else { return };
        upstream.queue_is_long = is_long;
        let Some(exchange_key) = upstream.exchange else { return };
        let Some(exchange) = self.exchange(exchange_key) else { return };
        if !is_long {
            // The time for which the client was paused does not count against it.
            exchange.content.began = exchange.content.began + now.since(exchange.progress);
        }
        exchange.progress = now;
        if let Some(client) = exchange.client {
            self.pause_client(client, is_long);
        }
        self.set_exchange_deadline(exchange_key);
    }

    /// Pauses or resumes the upstream's response.
    pub(super) fn pause_upstream(&mut self, exchange_key: ExchangeKey, client_is_slow: bool) {
        let now = self.now;
        let Some(exchange) = self.exchange(exchange_key) else { return };
        exchange.progress = now;
        let Some(upstream_key) = exchange.stage.upstream() else {
            if !client_is_slow {
                self.follow(exchange_key);
            }
            return;
        };
        let Some(upstream) = self.upstream(upstream_key) else { return };
        if upstream.is_paused != client_is_slow {
            upstream.is_paused = client_is_slow;
            let id = upstream.id;
            if client_is_slow { self.actions.pause(id) } else { self.actions.resume(id) }
        }
        self.set_exchange_deadline(exchange_key);
    }

    pub(super) fn handle_upstream_closed(&mut self, key: UpstreamKey, reason: CloseReason) {
        let Some(upstream) = self.upstream(key) else { return };
        upstream.is_closed = true;
        match upstream.exchange {
            Some(exchange) => self.handle_upstream_lost(exchange, reason),
            None => self.node.remove_upstream(key),
        }
    }
}

/// The result of parsing one item of a response.
enum ResponseStep {
    /// Consumed this many bytes; another item may follow.
    Taken(usize),
    /// Consumed this many bytes; more are needed.
    Wait(usize),
    Complete {
        taken: usize,
        keep_alive: bool,
    },
    /// Another protocol begins after this many bytes.
    Tunnel(usize),
    /// The exchange is over.
    Failed,
}

/// The last lines of a response head with the balancer's cookie. The cookie belongs to this client: caches downstream
/// must not store the response.
pub(super) fn write_affinity(cookie: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Set-Cookie: ");
    out.extend_from_slice(cookie.as_bytes());
    out.extend_from_slice(b"\r\nCache-Control: private\r\n");
}

/// Targeted Cache-Control (RFC 9213), or its predecessor.
fn is_for_other_caches(name: &str) -> bool {
    is_targeted_cache_control(name) || name.eq_ignore_ascii_case("Surrogate-Control")
}

/// The framing of the client's response. A close-delimited one becomes chunked.
fn framing(head: &ResponseHead<'_, '_>) -> Framing {
    match head.framing {
        Framing::UntilClose => Framing::Chunked,
        Framing::None => head.announced_bytes().map_or(Framing::None, Framing::Length),
        framing => framing,
    }
}
