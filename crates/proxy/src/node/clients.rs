//! Accepted connections: their requests in turn, the content of these, and how long each may take.

use std::time::Duration;

use breme_http1::{Field, FieldStorage, Progress, Refusal, RefusalReason, push_chunk};
use breme_node::{Close, CloseReason, Pressure, Received};

use super::tables::{ClientKey, ExchangeKey, Waiting, Way};
use super::turn::Turn;

/// What became of a step.
enum Step {
    /// It took so many bytes; there may be another.
    Taken(usize),
    /// It took so many bytes, and waits for more.
    Wait(usize),
}

impl Turn<'_> {
    /// Reads as many requests as may be, up to the turn's bound. Tells how many bytes were taken.
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
            let repeated = self.repeat_stored(key, input).or_else(|| self.replay_request(key, input));
            let step = match repeated {
                Some(count) => Step::Taken(count),
                None => self.step(key, input, received.ended),
            };
            let (Step::Taken(count) | Step::Wait(count)) = step;
            taken += count;
            let Some(client) = self.client(key) else { return length };
            client.has_pending = taken < length;
            if matches!(step, Step::Wait(_)) || !client.wants_another_step(received.ended) {
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
            self.give_up(key);
        }
        taken
    }

    /// A client that has ended its sending waits no more for an answer that has not begun.
    fn give_up(&mut self, key: ClientKey) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let Some(exchange) = self.exchange(exchange_key) else { return };
        if exchange.is_request_complete && exchange.answer.is_none() {
            self.lose_client(exchange_key);
            self.close_client(key, Close::Graceful);
        }
    }

    fn request_count(&mut self, key: ClientKey) -> u64 {
        self.client(key).map_or(0, |client| client.http.request_count())
    }

    /// Whether what has come may be read now. Content must have somewhere to go; a whole request must be answered
    /// before the next.
    fn may_read(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.client(key) else { return false };
        let is_content = client.http.awaiting_content();
        match client.exchange {
            Some(exchange) => is_content && self.exchange(exchange).is_some_and(|exchange| exchange.takes_content()),
            None => true,
        }
    }

    fn step(&mut self, key: ClientKey, input: &[u8], ended: bool) -> Step {
        let limits = &self.shared.settings.limits;
        let Some(client) = self.node.clients.get_mut(key.index()) else { return Step::Wait(0) };
        let mut storage = FieldStorage::new();
        match client.http.receive(input, ended, limits, &mut storage) {
            Ok(Progress::Head { head, taken }) => {
                client.has_pending = taken < input.len();
                self.is_wanted = self.wants_given(&head, &input[..taken]);
                self.handle_request(key, &head, &input[..taken]);
                self.learn_stored(key, &head, &input[..taken]);
                self.is_wanted = false;
                Step::Taken(taken)
            }
            Ok(Progress::Content { bytes, taken }) => {
                self.pass_request_content(key, bytes);
                Step::Taken(taken)
            }
            Ok(Progress::Trailer { field, taken }) => {
                self.pass_request_trailer(key, field);
                Step::Taken(taken)
            }
            Ok(Progress::End { taken }) => {
                self.end_request(key);
                Step::Taken(taken)
            }
            Ok(Progress::NeedMore { .. }) if ended => {
                self.close_client(key, Close::Graceful);
                Step::Wait(0)
            }
            Ok(Progress::NeedMore { taken }) => Step::Wait(taken),
            Ok(Progress::Blocked) => Step::Wait(0),
            Ok(Progress::Over) => {
                self.close_client(key, Close::Graceful);
                Step::Wait(0)
            }
            Err(refusal) => {
                self.refuse(key, refusal, input);
                Step::Wait(0)
            }
        }
    }

    fn pass_request_content(&mut self, key: ClientKey, bytes: &[u8]) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let now = self.now;
        let Some(exchange) = self.exchange(exchange_key) else { return };
        exchange.received_bytes += bytes.len() as u64;
        exchange.progress = now;
        let (way, server) = (exchange.content, exchange.server);
        let Some(id) = server.and_then(|server| self.server(server)).map(|server| server.id) else { return };
        match way {
            Way::Chunks => push_chunk(self.actions.send(id), bytes),
            Way::Raw => self.actions.send_received(id, self.received, bytes),
            Way::None => {}
        }
        self.node.counts.bytes_upstream.add_many(bytes.len() as u64);
    }

    fn pass_request_trailer(&mut self, key: ClientKey, trailer: Field<'_>) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let now = self.now;
        let Some(exchange) = self.node.exchanges.get_mut(exchange_key.index()) else { return };
        exchange.progress = now;
        let Some(server) = exchange.server.and_then(|server| self.node.servers.get(server.index())) else { return };
        if exchange.content == Way::Chunks {
            exchange.last_chunk.relay(trailer, self.actions.send(server.id));
        }
    }

    fn end_request(&mut self, key: ClientKey) {
        let Some(exchange_key) = self.client(key).and_then(|client| client.exchange) else { return };
        let now = self.now;
        let Some(exchange) = self.exchange(exchange_key) else { return };
        exchange.is_request_complete = true;
        exchange.progress = now;
        exchange.sent = now;
        let (way, last_chunk, server) = (exchange.content, exchange.last_chunk, exchange.server);
        if way == Way::Chunks
            && let Some(id) = server.and_then(|server| self.server(server)).map(|server| server.id)
        {
            last_chunk.end(self.actions.send(id));
        }
        self.set_exchange_deadline(exchange_key);
    }

    /// After an answer that was not given while this client's requests were read: are there more, or is this the end?
    pub(super) fn go_on(&mut self, key: ClientKey) {
        if self.receiving == Some(key) {
            return;
        }
        let limits = &self.shared.settings.limits;
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        client.waiting = Waiting::Idle;
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

    /// All that has come was used, or must wait.
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
        let (waiting, patience) = if client.http.awaiting_content() {
            (Waiting::Drained, self.node.pressure.slow_timeout(limits.body_timeout))
        } else if client.http.in_head() || client.has_pending {
            (Waiting::Head, self.node.pressure.slow_timeout(limits.head_timeout))
        } else {
            (Waiting::Idle, idle_timeout)
        };
        if waiting == Waiting::Idle && is_stopping {
            return self.close_client(key, Close::Graceful);
        }
        // The time of a head, and of what is drained, runs since it began.
        if client.waiting != waiting || waiting == Waiting::Idle {
            client.waiting = waiting;
            if !client.queue_is_long {
                self.node.client_timers.set(key.timer(), self.now + patience);
            }
        }
    }

    pub(super) fn handle_client_deadline(&mut self, key: ClientKey) {
        let Some(client) = self.client(key) else { return };
        let waiting = client.waiting;
        if waiting == Waiting::Exchange || client.queue_is_long {
            return;
        }
        if let Err(later) = self.evict() {
            return self.node.client_timers.set(key.timer(), self.now + later);
        }
        match waiting {
            Waiting::Head => self.refuse(key, Refusal::new(RefusalReason::HeadTimeout), b""),
            Waiting::Idle | Waiting::Drained | Waiting::Exchange => self.close_client(key, Close::Graceful),
        }
    }

    /// A client is to be closed. If that is since others wait, it is counted.
    ///
    /// # Errors
    /// Enough have been closed just now: this one is to be closed after so long.
    pub(super) fn evict(&mut self) -> Result<(), Duration> {
        if self.node.pressure.is_high() {
            self.node.pressure.evict(self.now)?;
            self.node.counts.evicted.add();
        }
        Ok(())
    }

    /// Lets each client wait for as long as the new pressure allows, counted from when its wait began. A client that
    /// has sent nothing is idle since it connected: browsers open spare connections, and a client that holds one
    /// without a request would otherwise hold it the longest.
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
            let timer = ClientKey::of(index).timer();
            let place = match client.waiting {
                Waiting::Exchange => continue,
                _ if client.queue_is_long => continue,
                Waiting::Idle if client.has_pending => continue,
                Waiting::Idle => 0,
                Waiting::Head => 1,
                Waiting::Drained => 2,
            };
            self.node.client_timers.change_wait(timer, before[place], after[place], self.now);
        }
        let exchanges: Vec<ExchangeKey> = self.node.exchanges.iter().map(|(index, _)| ExchangeKey::of(index)).collect();
        exchanges.into_iter().for_each(|key| self.set_exchange_deadline(key));
    }

    pub(super) fn handle_client_queue(&mut self, key: ClientKey, is_long: bool) {
        let limits = &self.shared.settings.limits;
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        client.queue_is_long = is_long;
        if let Some(exchange) = client.exchange {
            let exchange = if is_long { self.part_from_fetch(exchange) } else { exchange };
            return self.hold_server(exchange, is_long);
        }
        let patience = match client.waiting {
            // The driver closes a client that does not read.
            _ if is_long => return self.node.client_timers.clear(key.timer()),
            Waiting::Idle | Waiting::Exchange => self.node.pressure.idle_timeout(limits.idle_timeout),
            Waiting::Head => self.node.pressure.slow_timeout(limits.head_timeout),
            Waiting::Drained => self.node.pressure.slow_timeout(limits.body_timeout),
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
            self.lose_client(exchange);
        }
        self.forget_client(key);
    }

    /// Closes a connection that has no exchange, or whose exchange has just ended.
    pub(super) fn close_client(&mut self, key: ClientKey, how: Close) {
        if let Some(client) = self.client(key) {
            let id = client.id;
            self.actions.close(id, how);
            self.forget_client(key);
        }
    }

    fn forget_client(&mut self, key: ClientKey) {
        if let Some(own) = self.client(key).and_then(|client| client.own_server) {
            self.drop_server(own, Close::Graceful);
        }
        if let Some(client) = self.node.clients.try_remove(key.index()) {
            self.node.disown(client.id);
            self.node.client_timers.clear(key.timer());
            if client.is_counted {
                self.shared.clients.leave(client.peer.ip());
            }
        }
    }

    pub(super) fn drop_idle_clients(&mut self) {
        let is_idle = |waiting| waiting == Waiting::Idle;
        let idle = self.node.clients.iter().filter(|(_, client)| is_idle(client.waiting) && !client.has_pending);
        let idle: Vec<ClientKey> = idle.map(|(index, _)| ClientKey::of(index)).collect();
        for key in idle {
            self.close_client(key, Close::Graceful);
        }
    }

    /// Holds the client's content back, or lets it go on.
    pub(super) fn hold_client(&mut self, key: ClientKey, is_held: bool) {
        let Some(client) = self.client(key) else { return };
        if client.is_paused != is_held {
            client.is_paused = is_held;
            let id = client.id;
            if is_held { self.actions.pause(id) } else { self.actions.resume(id) }
        }
    }

    /// The owner of a client's connection is told what was not taken.
    pub(super) fn lend_client_again(&mut self, key: ClientKey) {
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
    /// Whether another step may find something: bytes, the end of a content, or the end of the connection, which the
    /// client or an answer of the proxy's own may have brought.
    fn wants_another_step(&self, ended: bool) -> bool {
        let is_over = ended || self.http.will_close();
        self.has_pending || self.http.awaiting_content() || (is_over && self.exchange.is_none())
    }
}
