//! Accepted connections: their requests, bodies and timeouts.

use std::time::Duration;

use breme_http::{Field, Refusal, RefusalReason};
use breme_http1::{FieldStorage, Progress, push_chunk};
use breme_node::{Close, CloseReason, Pressure, Received};

use super::context::Context;
use super::tables::{BodyMode, ClientKey, ClientWait, ExchangeKey};

/// The result of parsing one item.
enum ReceiveStep {
    /// Consumed this many bytes; another item may follow.
    Taken(usize),
    /// Consumed this many bytes; more are needed.
    Wait(usize),
}

impl Context<'_> {
    /// Reads requests, at most `pipeline_depth_max` in one call. Returns the number of bytes consumed.
    pub(super) fn receive_from_client(&mut self, key: ClientKey, received: Received<'_>) -> usize {
        let length = received.bytes.len();
        let Some(client) = self.client(key) else { return length };
        client.ended = received.ended;
        client.has_pending = length > 0;
        let id = client.id;
        if let Some(taken) = self.tunnel_from_client(key, received) {
            return taken;
        }
        let requests_before = self.request_count(key);
        self.receiving = Some(key);
        let mut taken = 0;
        while self.may_read(key) {
            let input = &received.bytes[taken..];
            let repeated = self.replay_hit(key, input).or_else(|| self.replay_request(key, input));
            let step = match repeated {
                Some(count) => ReceiveStep::Taken(count),
                None => self.step(key, input, received.ended),
            };
            let (ReceiveStep::Taken(count) | ReceiveStep::Wait(count)) = step;
            taken += count;
            let Some(client) = self.client(key) else { return length };
            client.has_pending = taken < length;
            if matches!(step, ReceiveStep::Wait(_)) || !client.wants_another_step(received.ended) {
                break;
            }
            let depth_max = self.shared.settings.limits.pipeline_depth_max as u64;
            if taken < length && self.request_count(key) - requests_before >= depth_max {
                self.actions.resume(id);
                break;
            }
        }
        self.receiving = None;
        self.wait_for_more(key);
        if let Some(exchange) = self.client(key).and_then(|client| client.exchange).filter(|_| received.ended) {
            self.set_exchange_deadline(exchange);
        }
        if received.ended && self.shared.settings.abort_on_close {
            self.abandon_client(key);
        }
        taken
    }

    /// Abandons the exchange of a client that has closed its side before its response began.
    fn abandon_client(&mut self, key: ClientKey) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let Some(exchange) = self.exchange(exchange_key) else { return };
        if exchange.is_request_complete && exchange.response_body.is_none() {
            self.handle_client_lost(exchange_key);
            self.close_client(key, Close::Graceful);
        }
    }

    fn request_count(&mut self, key: ClientKey) -> u64 {
        self.client(key).map_or(0, |client| client.http.request_count())
    }

    /// Whether received bytes can be parsed now. A body needs an upstream; a complete request must get its response
    /// before the next is parsed.
    fn may_read(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.client(key) else { return false };
        let is_content = client.http.awaiting_content();
        match client.exchange {
            Some(exchange) => is_content && self.exchange(exchange).is_some_and(|exchange| exchange.takes_content()),
            None => true,
        }
    }

    fn step(&mut self, key: ClientKey, input: &[u8], ended: bool) -> ReceiveStep {
        let limits = &self.shared.settings.limits;
        let Some(client) = self.node.clients.get_mut(key.index()) else { return ReceiveStep::Wait(0) };
        let mut storage = FieldStorage::new();
        match client.http.receive(input, ended, limits, &mut storage) {
            Ok(Progress::Head { head, taken }) => {
                client.has_pending = taken < input.len();
                self.captures_hit = self.should_capture_hit(&head, &input[..taken]);
                self.handle_request(key, &head, &input[..taken]);
                self.insert_hit(key, &head, &input[..taken]);
                self.captures_hit = false;
                ReceiveStep::Taken(taken)
            }
            Ok(Progress::Content { bytes, taken }) => {
                self.relay_request_body(key, bytes);
                ReceiveStep::Taken(taken)
            }
            Ok(Progress::Trailer { field, taken }) => {
                self.relay_request_trailer(key, field);
                ReceiveStep::Taken(taken)
            }
            Ok(Progress::End { taken }) => {
                self.end_request(key);
                ReceiveStep::Taken(taken)
            }
            Ok(Progress::NeedMore { .. }) if ended => {
                self.close_client(key, Close::Graceful);
                ReceiveStep::Wait(0)
            }
            Ok(Progress::NeedMore { taken }) => ReceiveStep::Wait(taken),
            Ok(Progress::Blocked) => ReceiveStep::Wait(0),
            Ok(Progress::Over) => {
                self.close_client(key, Close::Graceful);
                ReceiveStep::Wait(0)
            }
            Err(refusal) => {
                self.refuse(key, refusal, input);
                ReceiveStep::Wait(0)
            }
        }
    }

    fn relay_request_body(&mut self, key: ClientKey, bytes: &[u8]) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let now = self.now;
        let Some(exchange) = self.exchange(exchange_key) else { return };
        exchange.received_bytes += bytes.len() as u64;
        exchange.progress = now;
        let (way, upstream) = (exchange.request_body, exchange.upstream);
        let Some(id) = upstream.and_then(|upstream| self.upstream(upstream)).map(|upstream| upstream.id) else {
            return;
        };
        match way {
            BodyMode::Chunks => push_chunk(self.actions.send(id), bytes),
            BodyMode::Raw => self.actions.send_received(id, self.received, bytes),
            BodyMode::None => {}
        }
        self.node.counts.bytes_upstream.add_many(bytes.len() as u64);
    }

    fn relay_request_trailer(&mut self, key: ClientKey, trailer: Field<'_>) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let now = self.now;
        let Some(exchange) = self.node.exchanges.get_mut(exchange_key.index()) else { return };
        exchange.progress = now;
        let Some(upstream) = exchange.upstream.and_then(|upstream| self.node.upstreams.get(upstream.index())) else {
            return;
        };
        if exchange.request_body == BodyMode::Chunks {
            exchange.last_chunk.relay(trailer, self.actions.send(upstream.id));
        }
    }

    fn end_request(&mut self, key: ClientKey) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let now = self.now;
        let Some(exchange) = self.exchange(exchange_key) else { return };
        exchange.is_request_complete = true;
        exchange.progress = now;
        exchange.sent = now;
        let (way, last_chunk, upstream) = (exchange.request_body, exchange.last_chunk, exchange.upstream);
        if way == BodyMode::Chunks
            && let Some(id) = upstream.and_then(|upstream| self.upstream(upstream)).map(|upstream| upstream.id)
        {
            last_chunk.end(self.actions.send(id));
        }
        self.set_exchange_deadline(exchange_key);
    }

    /// After a response: continues with the next request, unless this client's requests are being read up the stack.
    pub(super) fn continue_client(&mut self, key: ClientKey) {
        if self.receiving == Some(key) {
            return;
        }
        let limits = &self.shared.settings.limits;
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        client.wait = ClientWait::Idle;
        if std::mem::take(&mut client.is_paused) || client.has_pending {
            self.actions.resume(client.id);
        }
        if client.has_pending {
            return self.wait_for_more(key);
        }
        match client.http.receive(b"", client.ended, limits, &mut FieldStorage::new()) {
            Ok(Progress::Over) => self.close_client(key, Close::Graceful),
            Ok(_) => self.wait_for_more(key),
            Err(refusal) => self.refuse(key, refusal, b""),
        }
    }

    /// Sets the timeout of a client whose bytes are consumed or must wait.
    fn wait_for_more(&mut self, key: ClientKey) {
        let limits = &self.shared.settings.limits;
        let idle_timeout = self.node.pressure.idle_timeout(limits.idle_timeout);
        let is_stopping = self.node.is_stopping;
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        if let Some(exchange) = client.exchange {
            if client.http.awaiting_content() {
                self.set_exchange_deadline(exchange);
            }
            return;
        }
        let (wait, patience) = if client.http.awaiting_content() {
            (ClientWait::Drained, self.node.pressure.slow_timeout(limits.body_timeout))
        } else if client.http.in_head() || client.has_pending {
            (ClientWait::Head, self.node.pressure.slow_timeout(limits.head_timeout))
        } else {
            (ClientWait::Idle, idle_timeout)
        };
        if wait == ClientWait::Idle && is_stopping {
            return self.close_client(key, Close::Graceful);
        }
        // The timeouts of a head and of draining count from their start.
        if client.wait != wait || wait == ClientWait::Idle {
            client.wait = wait;
            if !client.queue_is_long {
                self.node.client_timers.set(key.timer(), self.now + patience);
            }
        }
    }

    pub(super) fn handle_client_deadline(&mut self, key: ClientKey) {
        let Some(client) = self.client(key) else { return };
        let wait = client.wait;
        if wait == ClientWait::Exchange || client.queue_is_long {
            return;
        }
        if let Err(later) = self.evict() {
            return self.node.client_timers.set(key.timer(), self.now + later);
        }
        match wait {
            ClientWait::Head => self.refuse(key, Refusal::new(RefusalReason::HeadTimeout), b""),
            ClientWait::Idle | ClientWait::Drained | ClientWait::Exchange => self.close_client(key, Close::Graceful),
        }
    }

    /// Counts an eviction under connection pressure.
    ///
    /// # Errors
    /// The rate of evictions is exceeded; evict this client after the returned time.
    pub(super) fn evict(&mut self) -> Result<(), Duration> {
        if self.node.pressure.is_high() {
            self.node.pressure.evict(self.now)?;
            self.node.counts.evicted.add();
        }
        Ok(())
    }

    /// Adapts the timeout of each client to the new pressure, counted from when its wait began. A client that has sent
    /// nothing is idle since it connected: browsers open spare connections, and a client that holds one without a
    /// request would otherwise hold it the longest.
    pub(super) fn change_pressure(&mut self, change: impl FnOnce(&mut Pressure)) {
        let limits = &self.shared.settings.limits;
        let waits = |pressure: &Pressure| {
            let [head, drained] = [limits.head_timeout, limits.body_timeout].map(|time| pressure.slow_timeout(time));
            [pressure.idle_timeout(limits.idle_timeout), head, drained]
        };
        let before = waits(&self.node.pressure);
        change(&mut self.node.pressure);
        let after = waits(&self.node.pressure);
        for (index, client) in &self.node.clients {
            let timer = ClientKey::new(index).timer();
            let position = match client.wait {
                ClientWait::Exchange => continue,
                _ if client.queue_is_long => continue,
                ClientWait::Idle if client.has_pending => continue,
                ClientWait::Idle => 0,
                ClientWait::Head => 1,
                ClientWait::Drained => 2,
            };
            self.node.client_timers.change_wait(timer, before[position], after[position], self.now);
        }
        let exchanges: Vec<ExchangeKey> =
            self.node.exchanges.iter().map(|(index, _)| ExchangeKey::new(index)).collect();
        exchanges.into_iter().for_each(|key| self.set_exchange_deadline(key));
    }

    pub(super) fn handle_client_queue(&mut self, key: ClientKey, is_long: bool) {
        let limits = &self.shared.settings.limits;
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        client.queue_is_long = is_long;
        if let Some(exchange) = client.exchange {
            let exchange = if is_long { self.detach_slow_reader(exchange) } else { exchange };
            return self.pause_upstream(exchange, is_long);
        }
        let patience = match client.wait {
            // The driver closes a client that does not read.
            _ if is_long => return self.node.client_timers.clear(key.timer()),
            ClientWait::Idle | ClientWait::Exchange => self.node.pressure.idle_timeout(limits.idle_timeout),
            ClientWait::Head => self.node.pressure.slow_timeout(limits.head_timeout),
            ClientWait::Drained => self.node.pressure.slow_timeout(limits.body_timeout),
        };
        self.node.client_timers.set(key.timer(), self.now + patience);
    }

    pub(super) fn handle_client_closed(&mut self, key: ClientKey, reason: CloseReason) {
        let Some(client) = self.client(key) else { return };
        let exchange = client.exchange;
        let was_counted = exchange.and_then(|key| self.exchange(key)).is_some_and(|exchange| exchange.is_evicted);
        if reason == CloseReason::Evicted && !was_counted {
            self.node.counts.evicted.add();
        }
        if let Some(exchange) = exchange {
            self.handle_client_lost(exchange);
        }
        self.remove_client(key);
    }

    /// Closes a connection that has no exchange, or whose exchange has just ended.
    pub(super) fn close_client(&mut self, key: ClientKey, how: Close) {
        if let Some(client) = self.client(key) {
            let id = client.id;
            self.actions.close(id, how);
            self.remove_client(key);
        }
    }

    fn remove_client(&mut self, key: ClientKey) {
        if let Some(own) = self.client(key).and_then(|client| client.own_upstream) {
            self.drop_upstream(own, Close::Graceful);
        }
        if let Some(client) = self.node.clients.try_remove(key.index()) {
            self.node.clear_owner(client.id);
            self.node.client_timers.clear(key.timer());
            if client.is_counted {
                self.shared.clients.leave(client.peer.ip());
            }
        }
    }

    pub(super) fn drop_idle_clients(&mut self) {
        let is_idle = |wait| wait == ClientWait::Idle;
        let idle = self.node.clients.iter().filter(|(_, client)| is_idle(client.wait) && !client.has_pending);
        let idle: Vec<ClientKey> = idle.map(|(index, _)| ClientKey::new(index)).collect();
        for key in idle {
            self.close_client(key, Close::Graceful);
        }
    }

    /// Pauses or resumes the client's body.
    pub(super) fn pause_client(&mut self, key: ClientKey, client_is_slow: bool) {
        let Some(client) = self.client(key) else { return };
        if client.is_paused != client_is_slow {
            client.is_paused = client_is_slow;
            let id = client.id;
            if client_is_slow { self.actions.pause(id) } else { self.actions.resume(id) }
        }
    }

    /// Lets the driver deliver unconsumed bytes again.
    pub(super) fn resume_client(&mut self, key: ClientKey) {
        if self.receiving == Some(key) {
            return;
        }
        if let Some(client) = self.client(key)
            && (client.has_pending || client.ended)
        {
            let id = client.id;
            self.actions.resume(id);
        }
    }
}

impl super::tables::Client {
    /// Whether there may be another item: bytes, the end of a body, or the end of the connection, caused by the client
    /// or by the proxy's response.
    fn wants_another_step(&self, ended: bool) -> bool {
        let is_over = ended || self.http.will_close();
        self.has_pending || self.http.awaiting_content() || (is_over && self.exchange.is_none())
    }
}
