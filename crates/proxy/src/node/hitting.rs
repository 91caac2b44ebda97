//! The turn's shortest way: a [familiar](super::standing) request has the answer that it had before.

use std::sync::Arc;

use breme_cache::{CachedResponse, ResponseBody};
use breme_http1::RequestHead;
use breme_node::{Action, COPIED_BYTES_MAX};
use bytes::Bytes;

use super::notes::{Noted, record_hit};
use super::standing::{Given, Lesson};
use super::tables::ClientKey;
use super::turn::Turn;

impl Turn<'_> {
    /// Answers the request with which `input` begins, if it is familiar, and tells how many bytes it took. What has no
    /// place in a request's bytes is regarded here as it is on the usual way: the connection's state and limits, what
    /// is counted, and the log. Where each request is to be counted by its client, there is no short way.
    #[inline]
    pub(super) fn repeat_stored(&mut self, key: ClientKey, input: &[u8]) -> Option<usize> {
        let shared = self.shared;
        let cache = shared.cache.as_ref()?;
        let client = self.node.clients.get_mut(key.index())?;
        let should_leave = client.should_leave(self.node.is_stopping, &self.node.pressure, self.now);
        let can_replay = shared.can_replay() && client.http.can_replay(&shared.settings.limits);
        if should_leave || !can_replay || client.exchange.is_some() {
            return None;
        }
        let name = &cache.settings().name;
        let request = self.node.standing.find(input, client.is_secured, client.is_trusted, self.now, name)?;
        let (taken, known) = (request.head_bytes(), &mut request.value);
        known.count_hit();
        self.actions.send(client.id).extend_from_slice(known.answer());
        if let Some(content) = known.shared_content() {
            self.actions.send_shared(client.id, content);
        }
        client.http.replay_exchange();
        let counts = &self.node.counts;
        counts.count_repeated_request(input);
        counts.count_answer(known.status);
        counts.count_repeated(known.content_bytes());
        if let (Some(log), Some(noted)) = (&shared.access_log, &known.noted) {
            let notes = client.note(self.node.date.millis(self.now), noted.clone());
            record_hit(&**log, &notes, known.status, known.content_bytes(), known.cache_words());
        }
        Some(taken)
    }

    /// Where what is sent to the client from now on begins.
    pub(super) fn sending_from(&mut self, key: ClientKey) -> Option<(usize, usize)> {
        let id = self.client(key)?.id;
        self.actions.send(id);
        let index = self.actions.len() - 1;
        Some((index, self.actions.bytes(index).len()))
    }

    /// Keeps what is needed to make the request familiar whose answer was begun at `from`.
    pub(super) fn note_given(&mut self, answer: &CachedResponse, from: Option<(usize, usize)>) {
        let (Some(standing), Some((index, start))) = (answer.validity(), from) else { return };
        let content = match answer.body() {
            ResponseBody::None => Bytes::new(),
            ResponseBody::One(bytes) => bytes.clone(),
            ResponseBody::Several(_) => return,
        };
        let sent = match self.actions.get(index) {
            Some(Action::Send(..)) => self.actions.bytes(index)[start..].to_vec(),
            _ => return,
        };
        self.given = Some(Given { standing: standing.clone(), status: answer.status(), sent, content });
    }

    /// Makes a request familiar that was just answered out of the store, if it came before and its connection goes on.
    /// `bytes` are its head's.
    pub(super) fn learn_stored(&mut self, key: ClientKey, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        let Some(given) = self.given.take() else { return };
        let shared = self.shared;
        let Some(cache) = &shared.cache else { return };
        let Some(client) = self.node.clients.get_mut(key.index()) else { return };
        let (is_secured, is_trusted) = (client.is_secured, client.is_trusted);
        let noted =
            shared.access_log.as_ref().map(|_| Arc::new(Noted::of(head, shared.named_by(is_trusted, head.fields))));
        let goes_on = client.http.can_replay(&shared.settings.limits);
        if goes_on && head.is_replayable() {
            let lesson = Lesson { head: bytes, is_secured, is_trusted, given, noted, copied_max: COPIED_BYTES_MAX };
            self.node.standing.learn(lesson, self.now, &cache.settings().name);
        }
    }

    /// Whether the next answer is worth noting.
    pub(super) fn wants_given(&mut self, head: &RequestHead<'_, '_>, bytes: &[u8]) -> bool {
        let may_learn = self.shared.cache.is_some() && self.shared.can_replay() && !self.node.is_stopping;
        may_learn && head.is_replayable() && self.node.standing.is_wanted(bytes, self.now)
    }
}

impl crate::shared::Shared {
    /// Whether nobody's requests are to be counted.
    fn can_replay(&self) -> bool {
        self.settings.clients.requests_per_second == 0
    }
}
