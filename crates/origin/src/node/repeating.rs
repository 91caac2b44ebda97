//! The turn's short way: a [familiar](crate::familiar) request has the answer that it had before.

use breme_http1::{RequestHead, Version};
use breme_node::{Action, COPIED_BYTES_MAX};

use super::Turn;
use crate::answer::{Answer, Lasting};
use crate::counters::Source;
use crate::familiar::{Answered, Moment};

impl Turn<'_> {
    /// Answers the request with which `input` begins, if it is familiar, and tells how many bytes it took. What has no
    /// place in a request's bytes is regarded here as it is on the usual way: the connection's state and limits, and
    /// what is counted.
    #[inline]
    pub(super) fn repeat(&mut self, input: &[u8]) -> Option<usize> {
        if self.should_leave() || !self.connection.http.can_replay(&self.shared.settings.limits) {
            return None;
        }
        let moment = Moment {
            now: self.now,
            date: self.date,
            trusted_for_ns: self.shared.settings.files.trusted_for_ns(),
            files: self.shared.files.as_ref(),
        };
        let request = self.familiar.find(input, moment)?;
        let (taken, known) = (request.head_bytes(), &request.value);
        let (status, content_bytes) = (known.status(), known.content_bytes());
        if let Some(entry) = known.entry() {
            entry.touch();
            self.counts.count_lookup(Source::Kept);
        }
        if known.answer().len() <= COPIED_BYTES_MAX {
            self.actions.send(self.id).extend_from_slice(known.answer());
        } else {
            self.actions.send_shared(self.id, known.answer().clone());
        }
        self.counts.repeated.add();
        self.connection.http.replay_exchange();
        self.begin_exchange(Version::Http11);
        self.connection.has_pending = taken < input.len();
        self.finish(status, content_bytes);
        Some(taken)
    }

    /// Answers, and makes the request familiar if it came before. `bytes` are its head's.
    pub(super) fn answer_and_learn(&mut self, answer: Answer, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        let may_learn = self.shared.visitors.is_none() && !self.is_stopping && head.is_replayable();
        let lasting = if may_learn && self.familiar.is_wanted(bytes) { answer.lasting() } else { Lasting::Never };
        if matches!(lasting, Lasting::Never) {
            return self.answer(answer);
        }
        let (status, content_before) = (answer.status, self.content_bytes);
        self.actions.send(self.id);
        let index = self.actions.len() - 1;
        let start = self.actions.bytes(index).len();
        self.answer(answer);
        if self.connection.is_open && self.connection.http.can_replay(&self.shared.settings.limits) {
            let content_bytes = self.content_bytes - content_before;
            let answered = Answered { status, content_bytes, lasting };
            let sent = self.sent_since(index, start);
            self.familiar.learn(bytes, sent, answered, self.date);
        }
    }

    /// What was sent behind the byte `start` of the action at `index`.
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
