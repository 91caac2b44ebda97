//! Replays stored responses for byte-identical request heads. (For forwarded requests see
//! [`relay_replay`](super::relay_replay).)
//!
//! A shard keeps recent heads with their serialised responses ([`hit_replay_cache`](super::hit_replay_cache)), and
//! sends these without parsing the head, looking up the cache or writing header fields; Age and Cache-Status are
//! updated once a second. An entry is inserted after a regular cache hit and used only while it is
//! [valid](breme_cache::Validity::is_valid): fresh, in the store, and not superseded. So a purge, a replacement or
//! expiry takes effect with the next request. Hits are reported to the store once a second, so that no memory shared
//! between shards is written for each.
//!
//! Long bodies are not copied but shared with the store.

use std::sync::Arc;

use breme_cache::{CachedResponse, ResponseBody};
use breme_http::RequestHead;
use breme_node::{Action, COPIED_BYTES_MAX};
use bytes::Bytes;

use super::context::Context;
use super::hit_replay_cache::{CapturedHit, NewHit};
use super::keys::ClientKey;
use super::log_entry::{LoggedRequest, record_hit};

impl Context<'_> {
    /// Sends the stored response if `input` begins with a cached head, and returns the number of bytes consumed. The
    /// state and limits of the connection, which are not in the bytes, are checked. Not used with a rate limit.
    #[inline]
    pub(super) fn replay_hit(&mut self, key: ClientKey, input: &[u8]) -> Option<usize> {
        let shared = self.shared;
        let cache = shared.cache.as_ref()?;
        let client = self.node.clients.get_mut(key.index())?;
        let should_close = self.node.server.should_close(self.now, client);
        let can_replay = shared.has_no_rate_limit() && client.http.can_replay(&shared.settings.limits);
        if should_close || !can_replay || client.state.exchange.is_some() {
            return None;
        }
        let name = &cache.settings().name;
        let request =
            self.node.hit_replay.find(input, client.state.is_secured, client.state.is_trusted, self.now, name)?;
        let (taken, replay) = (request.head_bytes(), &mut request.value);
        replay.count_hit();
        self.actions.send(client.id).extend_from_slice(replay.response());
        if let Some(content) = replay.shared_content() {
            self.actions.send_shared(client.id, content);
        }
        client.http.replay_exchange();
        client.begin_exchange();
        client.has_pending = taken < input.len();
        let counts = &self.node.counts;
        counts.count_replayed_request(input);
        counts.count_response(replay.status);
        counts.count_replayed(replay.content_bytes());
        if let (Some(log), Some(logged_request)) = (&shared.access_log, &replay.logged_request) {
            let log_entry = client.state.log_entry(self.node.date.millis(self.now), logged_request.clone());
            record_hit(&**log, &log_entry, replay.status, replay.content_bytes(), replay.cache_status_text());
        }
        Some(taken)
    }

    /// The position of the next byte sent to the client.
    pub(super) fn send_position(&mut self, key: ClientKey) -> Option<(usize, usize)> {
        let id = self.client(key)?.id;
        self.actions.send(id);
        let index = self.actions.len() - 1;
        Some((index, self.actions.bytes(index).len()))
    }

    /// Captures the response that was sent since position `from`.
    pub(super) fn capture_hit(&mut self, response: &CachedResponse, from: Option<(usize, usize)>) {
        let (Some(validity), Some((index, start))) = (response.validity(), from) else { return };
        let content = match response.body() {
            ResponseBody::None => Bytes::new(),
            ResponseBody::One(bytes) => bytes.clone(),
            ResponseBody::Several(_) => return,
        };
        let sent = match self.actions.get(index) {
            Some(Action::Send(..)) => self.actions.bytes(index)[start..].to_vec(),
            _ => return,
        };
        self.captured = Some(CapturedHit { validity: validity.clone(), status: response.status(), sent, content });
    }

    /// Inserts the captured response, if the head has come before and the connection is persistent. `bytes` are those
    /// of the head.
    pub(super) fn insert_hit(&mut self, key: ClientKey, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        let Some(captured) = self.captured.take() else { return };
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        let (is_secured, is_trusted) = (client.state.is_secured, client.state.is_trusted);
        let logged_request = shared
            .access_log
            .as_ref()
            .map(|_| Arc::new(LoggedRequest::new(head, shared.forwarded_client(is_trusted, head.fields))));
        let goes_on = client.http.can_replay(&shared.settings.limits);
        if goes_on && head.is_replayable() {
            let new_entry =
                NewHit { head: bytes, is_secured, is_trusted, captured, logged_request, copied_max: COPIED_BYTES_MAX };
            self.node.hit_replay.insert(new_entry, self.now, &cache.settings().name);
        }
    }

    /// Whether to capture the response to this request.
    pub(super) fn should_capture_hit(&mut self, head: &RequestHead<'_, '_>, bytes: &[u8]) -> bool {
        let may_learn =
            self.shared.cache.is_some() && self.shared.has_no_rate_limit() && !self.node.server.is_stopping();
        may_learn && head.is_replayable() && self.node.hit_replay.should_insert(bytes, self.now)
    }
}

impl crate::shared_state::SharedState {
    fn has_no_rate_limit(&self) -> bool {
        self.settings.clients.requests_per_second == 0
    }
}
