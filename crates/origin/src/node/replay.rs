//! Replays [cached responses](crate::replay_cache).

use breme_http::{RequestHead, Version};
use breme_node::{Action, COPIED_BYTES_MAX};

use super::Context;
use crate::counters::Source;
use crate::replay_cache::{NewReplay, ValidityContext};
use crate::response::{ReplayLifetime, Response};

impl Context<'_> {
    /// Responds to the request at the start of `input`, if its head is cached, and returns the number of bytes
    /// consumed. Checks what is not in a request's bytes: the state and limits of the connection.
    #[inline]
    pub(super) fn replay(&mut self, input: &[u8]) -> Option<usize> {
        let should_close = self.server.should_close(self.now, self.connection);
        if should_close || !self.connection.http.can_replay(&self.site.settings.limits) {
            return None;
        }
        let validity = ValidityContext {
            now: self.now,
            date: self.date,
            revalidate_after_ns: self.site.settings.files.revalidate_after_ns(),
            files: self.site.files.as_ref(),
        };
        let request = self.response_cache.find(input, validity)?;
        let (taken, known) = (request.head_bytes(), &request.value);
        let (status, content_bytes) = (known.status(), known.content_bytes());
        if let Some(entry) = known.entry() {
            entry.touch();
            self.counts.count_lookup(Source::Cache);
        }
        if known.response().len() <= COPIED_BYTES_MAX {
            self.actions.send(self.connection.id).extend_from_slice(known.response());
        } else {
            self.actions.send_shared(self.connection.id, known.response().clone());
        }
        self.counts.repeated.add();
        self.connection.http.replay_exchange();
        self.begin_request(Version::Http11);
        self.connection.has_pending = taken < input.len();
        self.finish(status, content_bytes);
        Some(taken)
    }

    /// Responds, and inserts the response into the replay cache if the head has come before. `bytes` are those of the
    /// head.
    pub(super) fn respond_and_record(&mut self, response: Response, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        let may_record = self.site.visitors.is_none() && !self.server.is_stopping() && head.is_replayable();
        let replay_lifetime = if may_record && self.response_cache.should_insert(bytes) {
            response.replay_lifetime()
        } else {
            ReplayLifetime::Never
        };
        if matches!(replay_lifetime, ReplayLifetime::Never) {
            return self.respond(response);
        }
        let (status, content_before) = (response.status, self.content_bytes);
        self.actions.send(self.connection.id);
        let index = self.actions.len() - 1;
        let start = self.actions.bytes(index).len();
        self.respond(response);
        if self.connection.is_open && self.connection.http.can_replay(&self.site.settings.limits) {
            let content_bytes = self.content_bytes - content_before;
            let new_replay = NewReplay { status, content_bytes, replay_lifetime };
            let sent = self.sent_since(index, start);
            self.response_cache.insert(bytes, sent, new_replay, self.date);
        }
    }

    /// What was sent since byte `start` of the action at `index`.
    fn sent_since(&self, index: usize, start: usize) -> Vec<u8> {
        let mut sent = self.actions.bytes(index)[start..].to_vec();
        for index in index + 1..self.actions.len() {
            match self.actions.get(index) {
                Some(Action::SendShared(_, segment)) => sent.extend_from_slice(segment),
                _ => sent.extend_from_slice(self.actions.bytes(index)),
            }
        }
        sent
    }
}
