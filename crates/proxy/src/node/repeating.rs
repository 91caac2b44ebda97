//! The turn's short way: [familiar](super::familiar) requests go upstream as they did before, and their answers come
//! back as they did.

use std::sync::Arc;

use breme_http1::{FieldWriter, Method, RequestHead, ResponseHead};

use super::answering::write_affinity;
use super::familiar::Lesson;
use super::routing::joined_cookies;
use super::tables::{ClientKey, Exchange, ExchangeKey, KnownKey, ServerKey, Waiting};
use super::turn::Turn;
use crate::access_log::Ending;
use crate::request::{Asker, write_client};
use crate::shared::Role;

/// What ends a head to which the balancer's cookie was added.
const HEAD_END: &[u8] = b"\r\n";

impl Turn<'_> {
    /// Sends the request with which `input` begins upstream, if it is familiar, and tells how many bytes it took.
    #[inline]
    pub(super) fn replay_request(&mut self, client_key: ClientKey, input: &[u8]) -> Option<usize> {
        let client = self.node.clients.get_mut(client_key.index())?;
        let can_replay = client.exchange.is_none()
            && !client.is_trusted
            && client.http.can_replay(&self.shared.settings.limits)
            && !self.node.is_stopping;
        if !can_replay {
            return None;
        }
        let (known_key, taken) = self.node.familiar.find(input, client.is_secured)?;
        let known = self.node.familiar.known(known_key)?;
        self.node.exchange_count = self.node.exchange_count.wrapping_add(1);
        let mut exchange = Exchange::new(self.node.exchange_count, Some(client_key), self.now, known.asked);
        (exchange.lacks_host, exchange.key_hash, exchange.known) = (known.lacks_host, known.key_hash, Some(known_key));
        let mut request = self.node.buffers.pop().unwrap_or_default();
        request.extend_from_slice(&known.front);
        let asker = Asker { address: &client.address, is_secured: client.is_secured, is_trusted: false };
        let mut writer = FieldWriter::resume(&mut request);
        // It could be written when the request was learnt, and addresses hold nothing but digits, dots and colons.
        let _ = write_client(&self.shared.settings.identity, known.authority.as_deref(), &asker, &mut writer);
        writer.leave_open();
        exchange.request = request;
        let cookies = known.cookies.clone();
        if let Some(noted) = &known.noted {
            let began = self.node.date.millis(self.now);
            exchange.notes = Some(Box::new(client.note(began, noted.clone())));
        }
        client.http.replay_request();
        client.waiting = Waiting::Exchange;
        client.has_pending = taken < input.len();
        self.node.counts.count_repeated_request(input);
        self.node.counts.requests_repeated.add();
        self.node.counts.exchanges_open.add();
        let key = ExchangeKey::of(self.node.exchanges.insert(exchange));
        client.exchange = Some(key);
        self.node.client_timers.clear(client_key.timer());
        match self.judge_client(client_key, None) {
            Ok(()) => self.go_upstream_with_cookies(key, cookies.as_deref().unwrap_or_default()),
            Err(failure) => self.fail(key, &failure),
        }
        Some(taken)
    }

    /// Makes a request familiar that was judged and written just now, if nothing but its bytes had a say in that and it
    /// came before.
    pub(super) fn learn_request(
        &mut self,
        key: ExchangeKey,
        client_key: ClientKey,
        head: &RequestHead<'_, '_>,
        bytes: &[u8],
    ) {
        let Some(client) = self.node.clients.get(client_key.index()) else { return };
        let may_learn = matches!(self.shared.role, Role::Reverse { .. })
            && head.is_replayable()
            // The last request of a connection says so, and is answered otherwise.
            && !client.http.will_close()
            && !head.requests_upgrade
            && !matches!(head.method, Method::Head | Method::Options | Method::Trace)
            && !client.is_trusted
            && !self.has_cache();
        if !may_learn || !self.node.familiar.is_wanted(bytes) {
            return;
        }
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let identity = &self.shared.settings.identity;
        let mut said = Vec::new();
        let asker = Asker { address: &client.address, is_secured: client.is_secured, is_trusted: false };
        let mut writer = FieldWriter::resume(&mut said);
        let written = write_client(identity, head.authority, &asker, &mut writer);
        writer.leave_open();
        if written.is_err() {
            return;
        }
        let Some(front) = exchange.request.strip_suffix(&said[..]) else { return };
        exchange.known = self.node.familiar.learn(
            bytes,
            Lesson {
                is_secured: client.is_secured,
                front: front.into(),
                authority: head.authority.map(Box::from),
                asked: exchange.asked,
                lacks_host: exchange.lacks_host,
                key_hash: exchange.key_hash,
                cookies: joined_cookies(head.fields).map(Arc::from),
                noted: exchange.notes.as_ref().map(|notes| notes.request.clone()),
            },
        );
    }

    /// Passes a whole answer on whose head came before, if it is one. Tells how many bytes it took, and whether the
    /// server's connection can carry further requests.
    #[inline]
    pub(super) fn replay_response(
        &mut self,
        server_key: ServerKey,
        key: ExchangeKey,
        input: &[u8],
    ) -> Option<(usize, bool)> {
        let exchange = self.node.exchanges.get_mut(key.index())?;
        let known = self.node.familiar.known(exchange.known?)?;
        let client = self.node.clients.get_mut(exchange.client?.index())?;
        let is_alike = exchange.set_affinity.is_some() == known.sets_affinity;
        let should_leave = client.should_leave(self.node.is_stopping, &self.node.pressure, self.now);
        if should_leave || !is_alike || !client.http.can_replay_response() {
            return None;
        }
        let whole = self.node.servers.get_mut(server_key.index())?.http.receive_whole(input, &known.answer)?;
        let out = self.actions.send(client.id);
        out.extend_from_slice(&known.told);
        if let Some(cookie) = exchange.set_affinity.take() {
            write_affinity(&cookie, out);
            out.extend_from_slice(HEAD_END);
        }
        self.actions.send_received(client.id, self.received, whole.content);
        client.http.replay_response();
        let length = whole.content.len() as u64;
        let duration = self.now.since(exchange.sent);
        (exchange.status, exchange.sent_bytes, exchange.upstream_duration) = (whole.status, length, Some(duration));
        self.node.counts.count_upstream_time(duration);
        self.node.counts.bytes_downstream.add_many(length);
        self.node.counts.count_answer(whole.status);
        self.node.counts.answers_repeated.add();
        Some((whole.taken, whole.keep_alive))
    }

    /// Ends an exchange whose answer was repeated.
    pub(super) fn finish_repeated(&mut self, key: ExchangeKey, is_server_clean: bool) {
        let client = self.node.exchanges.get(key.index()).and_then(|exchange| exchange.client);
        self.end_exchange(key, Ending::Complete, is_server_clean);
        if let Some(client) = client {
            self.go_on(client);
        }
    }

    /// Makes the head of an answer familiar: `bytes` are those that came, and from `start` on stands in the client's
    /// buffer what was told, at its end the balancer's cookie, if it is `set_affinity`.
    pub(super) fn learn_answer(
        &mut self,
        server_key: ServerKey,
        key: ExchangeKey,
        head: &ResponseHead<'_, '_>,
        bytes: &[u8],
        start: usize,
        set_affinity: Option<&str>,
    ) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(known) = exchange.known.and_then(|known| self.node.familiar.known(known)) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get(client.index())) else { return };
        let Some(server) = self.node.servers.get(server_key.index()) else { return };
        known.answer.clear();
        known.told.clear();
        let mut last_lines = Vec::new();
        if let Some(cookie) = set_affinity {
            write_affinity(cookie, &mut last_lines);
            last_lines.extend_from_slice(HEAD_END);
        }
        if let Some(told) = self.actions.send(client.id)[start..].strip_suffix(&*last_lines) {
            server.http.record_head(bytes, head, &mut known.answer);
            known.told.extend_from_slice(told);
            known.sets_affinity = set_affinity.is_some();
        }
    }

    /// Whether the answer to an exchange can be of use for others: a key of what is known of its request.
    pub(super) fn may_learn_answer(&self, key: ExchangeKey) -> Option<KnownKey> {
        let exchange = self.node.exchanges.get(key.index())?;
        let client = self.node.clients.get(exchange.client?.index())?;
        let should_leave = client.should_leave(self.node.is_stopping, &self.node.pressure, self.now);
        let is_plain = client.http.can_replay_response() && !should_leave;
        exchange.known.filter(|_| is_plain)
    }
}
