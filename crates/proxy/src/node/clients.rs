//! Accepted connections: their requests, bodies and timeouts.

use breme_http::Field;
use breme_http1::{FieldStorage, Progress, push_chunk};
use breme_node::{Close, CloseReason, Pressure, Received};
use breme_server::{NextStep, is_turn_over};

use super::context::{Context, ShardState};
use super::keys::{ClientKey, ExchangeKey};
use super::stage::BodyMode;
use super::tables::Client;

impl Context<'_> {
    /// Reads requests, up to the limits of one call. Returns the number of bytes consumed.
    pub(super) fn receive_from_client(&mut self, key: ClientKey, received: Received<'_>) -> usize {
        let length = received.bytes.len();
        let Some(client) = self.client(key) else { return length };
        client.begin_receiving(&received);
        let id = client.id;
        if let Some(taken) = self.tunnel_from_client(key, received) {
            return taken;
        }
        let before = self.served(key);
        self.receiving = Some(key);
        let mut taken = 0;
        while self.node.may_read(key) {
            let input = &received.bytes[taken..];
            taken += match self.replay_hit(key, input).or_else(|| self.replay_request(key, input)) {
                Some(replayed) => replayed,
                None => self.step(key, input),
            };
            let Some(client) = self.client(key) else { return length };
            if !wants_another_step(client) {
                break;
            }
            if taken < length && self.is_turn_over(key, before) {
                self.actions.resume(id);
                break;
            }
        }
        self.receiving = None;
        self.wait_for_more(key);
        if let Some(exchange) = self.client(key).and_then(|client| client.state.exchange).filter(|_| received.ended) {
            self.set_exchange_deadline(exchange);
        }
        if received.ended && self.shared.settings.abort_on_close {
            self.abandon_client(key);
        }
        taken
    }

    /// Abandons the exchange of a client that closed its side before its response began.
    fn abandon_client(&mut self, key: ClientKey) {
        let Some((exchange_key, exchange, _)) = self.node.exchange_of(key) else { return };
        if exchange.content.is_complete && exchange.stage.response_body().is_none() {
            self.handle_client_lost(exchange_key);
            self.close_client(key, Close::Graceful);
        }
    }

    /// Requests of this client, and body bytes sent to all clients, so far.
    fn served(&mut self, key: ClientKey) -> (u64, u64) {
        let request_count = self.client(key).map_or(0, |client| client.http.request_count());
        (request_count, self.node.counts.bytes_downstream.load())
    }

    fn is_turn_over(&mut self, key: ClientKey, before: (u64, u64)) -> bool {
        let (request_count, sent_bytes) = self.served(key);
        is_turn_over(request_count - before.0, sent_bytes - before.1, &self.shared.settings.limits)
    }

    /// Parses and handles one item of `input`. Returns the number of bytes consumed.
    fn step(&mut self, key: ClientKey, input: &[u8]) -> usize {
        let Some(client) = self.node.clients.get_mut(key.index()) else { return 0 };
        let mut storage = FieldStorage::new();
        let progress = client.receive(input, &self.shared.settings.limits, &mut storage);
        let taken = progress.as_ref().map_or(0, Progress::taken);
        match progress {
            Ok(Progress::Head { head, .. }) => {
                let bytes = &input[..taken];
                self.captures_hit = self.should_capture_hit(&head, bytes);
                self.handle_request(key, &head, bytes);
                self.insert_hit(key, &head, bytes);
                self.captures_hit = false;
            }
            Ok(Progress::Content { bytes, .. }) => self.relay_request_body(key, bytes),
            Ok(Progress::Trailer { field, .. }) => self.relay_request_trailer(key, field),
            Ok(Progress::End { .. }) => self.end_request(key),
            Ok(Progress::NeedMore { .. }) if client.has_ended => self.close_client(key, Close::Graceful),
            Ok(Progress::NeedMore { .. } | Progress::Blocked) => {}
            Ok(Progress::Over) => self.close_client(key, Close::Graceful),
            Err(refusal) => self.refuse(key, refusal, input),
        }
        taken
    }

    fn relay_request_body(&mut self, key: ClientKey, bytes: &[u8]) {
        let Some((_, exchange, upstream)) = self.node.exchange_of(key) else { return };
        exchange.received_bytes += bytes.len() as u64;
        exchange.progress = self.now;
        let Some(id) = upstream else { return };
        match exchange.content.mode {
            BodyMode::Chunks => push_chunk(self.actions.send(id), bytes),
            BodyMode::Raw => self.actions.send_received(id, self.received, bytes),
            BodyMode::None => {}
        }
        self.node.counts.bytes_upstream.add_many(bytes.len() as u64);
    }

    fn relay_request_trailer(&mut self, key: ClientKey, trailer: Field<'_>) {
        let Some((_, exchange, upstream)) = self.node.exchange_of(key) else { return };
        exchange.progress = self.now;
        if let (BodyMode::Chunks, Some(id)) = (exchange.content.mode, upstream) {
            exchange.content.last_chunk.relay(trailer, self.actions.send(id));
        }
    }

    fn end_request(&mut self, key: ClientKey) {
        let Some((exchange_key, exchange, upstream)) = self.node.exchange_of(key) else { return };
        exchange.content.is_complete = true;
        exchange.progress = self.now;
        if let Some(attempt) = exchange.stage.attempt() {
            attempt.sent = self.now;
        }
        if let (BodyMode::Chunks, Some(id)) = (exchange.content.mode, upstream) {
            exchange.content.last_chunk.end(self.actions.send(id));
        }
        self.set_exchange_deadline(exchange_key);
    }

    /// After a response: continues with the next request, unless this client's requests are being read up the stack.
    pub(super) fn continue_client(&mut self, key: ClientKey) {
        if self.receiving == Some(key) {
            return;
        }
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        if std::mem::take(&mut client.state.is_paused) && !client.has_pending {
            self.actions.resume(client.id);
        }
        let limits = &self.shared.settings.limits;
        let next = self.node.server.continue_connection(self.now, client, limits, self.actions);
        self.perform(key, next);
    }

    /// Sets the timeout of a client whose bytes are consumed or must wait.
    pub(super) fn wait_for_more(&mut self, key: ClientKey) {
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        match client.state.exchange {
            None => {
                let next = self.node.server.wait_for_more(self.now, client, &self.shared.settings.limits);
                self.perform(key, next);
            }
            Some(exchange) if client.http.awaiting_content() => self.set_exchange_deadline(exchange),
            Some(_) => {}
        }
    }

    pub(super) fn handle_client_deadline(&mut self, key: ClientKey) {
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        let next = self.node.server.expire(self.now, client, &self.node.counts.evicted);
        self.perform(key, next);
    }

    fn perform(&mut self, key: ClientKey, next: NextStep) {
        match next {
            NextStep::Wait => {}
            NextStep::Close => self.close_client(key, Close::Graceful),
            NextStep::Refuse(refusal) => self.refuse(key, refusal, b""),
        }
    }

    pub(super) fn change_pressure(&mut self, change: impl FnOnce(&mut Pressure)) {
        let clients = self.node.clients.iter().map(|(_, client)| client);
        self.node.server.change_pressure(self.now, &self.shared.settings.limits, clients, change);
        let exchanges: Vec<ExchangeKey> =
            self.node.exchanges.iter().map(|(index, _)| ExchangeKey::new(index)).collect();
        exchanges.into_iter().for_each(|key| self.set_exchange_deadline(key));
    }

    pub(super) fn handle_client_queue(&mut self, key: ClientKey, is_long: bool) {
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        self.node.server.handle_queue(self.now, client, is_long, &self.shared.settings.limits);
        if let Some(exchange) = client.state.exchange {
            let exchange = if is_long { self.detach_slow_reader(exchange) } else { exchange };
            self.pause_upstream(exchange, is_long);
        }
    }

    pub(super) fn handle_client_closed(&mut self, key: ClientKey, reason: CloseReason) {
        let Some(client) = self.node.clients.get(key.index()) else { return };
        self.node.server.handle_closed(client, reason, &self.node.counts.evicted);
        if let Some(exchange) = client.state.exchange {
            self.handle_client_lost(exchange);
        }
        self.remove_client(key);
    }

    /// Closes a connection that has no exchange, or whose exchange has just ended.
    pub(super) fn close_client(&mut self, key: ClientKey, how: Close) {
        if let Some(client) = self.node.clients.get_mut(key.index()) {
            self.node.server.close(client, how, self.actions);
            self.remove_client(key);
        }
    }

    fn remove_client(&mut self, key: ClientKey) {
        if let Some(own) = self.client(key).and_then(|client| client.state.own_upstream) {
            self.drop_upstream(own, Close::Graceful);
        }
        if let Some(client) = self.node.clients.try_remove(key.index()) {
            self.node.owners.clear(client.id);
            if client.state.is_counted {
                self.shared.clients.leave(client.state.ip());
            }
        }
    }

    /// The proxy is stopping: idle clients are closed, at once or after a while.
    pub(super) fn stop_clients(&mut self) {
        let clients: Vec<ClientKey> = self.node.clients.iter().map(|(index, _)| ClientKey::new(index)).collect();
        clients.into_iter().for_each(|key| self.wait_for_more(key));
    }

    /// Pauses or resumes the client's body: the upstream reads slower than it arrives.
    pub(super) fn pause_client(&mut self, key: ClientKey, upstream_is_slow: bool) {
        let Some(client) = self.client(key) else { return };
        if client.state.is_paused != upstream_is_slow {
            client.state.is_paused = upstream_is_slow;
            let id = client.id;
            if upstream_is_slow { self.actions.pause(id) } else { self.actions.resume(id) }
        }
    }

    /// Lets the driver deliver unconsumed bytes again.
    pub(super) fn resume_client(&mut self, key: ClientKey) {
        if self.receiving == Some(key) {
            return;
        }
        if let Some(client) = self.client(key)
            && (client.has_pending || client.has_ended)
        {
            let id = client.id;
            self.actions.resume(id);
        }
    }
}

impl ShardState {
    /// Whether received bytes can be parsed now. A body needs an upstream; a complete request must get its response
    /// before the next is parsed.
    fn may_read(&self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.index()) else { return false };
        let is_content = client.http.awaiting_content();
        match client.state.exchange {
            Some(exchange) => {
                is_content && self.exchanges.get(exchange.index()).is_some_and(|exchange| exchange.takes_content())
            }
            None => true,
        }
    }
}

/// Whether there may be another item: bytes, the end of a body, or the end of the connection, caused by the client or
/// by the proxy's response.
fn wants_another_step(client: &Client) -> bool {
    let is_over = client.has_ended || client.http.will_close();
    let may_come = client.has_pending || client.http.awaiting_content();
    !client.needs_more && (may_come || (is_over && client.state.exchange.is_none()))
}
