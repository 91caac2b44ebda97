//! Requests that are against the rules, too long, or too slow to be one.

use breme_http1::{Refusal, RefusalReason};
use breme_node::Close;
use memchr::memmem;

use super::tables::ClientKey;
use super::turn::Turn;
use crate::access_log::Ending;

impl Turn<'_> {
    /// The request is against the rules, or late. What was sent upstream of it is not a request either. `input` is what
    /// has come and was not understood, as far as it is known.
    #[cold]
    pub(super) fn refuse(&mut self, key: ClientKey, refusal: Refusal, input: &[u8]) {
        self.shared.counters.count_refusal(refusal.reason);
        let Some(client) = self.client(key) else { return };
        let exchange = client.exchange;
        let is_answer_begun =
            exchange.and_then(|exchange| self.exchange(exchange)).is_some_and(|exchange| exchange.answer.is_some());
        if is_answer_begun {
            if let Some(exchange) = exchange {
                self.end_exchange(exchange, Ending::ClientFailed, false);
            }
            return self.cut_answer(key);
        }
        let told = self.write_refusal(key, refusal);
        match (exchange, told) {
            (Some(exchange), _) => {
                if let Some(exchange) = self.exchange(exchange) {
                    (exchange.status, exchange.sent_bytes) = (refusal.status, told.unwrap_or_default());
                }
                self.end_exchange(exchange, Ending::ClientFailed, false);
            }
            (None, Some(sent_bytes)) => self.record_refused(key, input, refusal.status, sent_bytes),
            (None, None) => {}
        }
        self.close_client(key, Close::Graceful);
    }

    /// Tells the client, if it can still be told. How much content that was.
    fn write_refusal(&mut self, key: ClientKey, refusal: Refusal) -> Option<u64> {
        let date = self.node.date.text(self.now);
        let client = self.node.clients.get_mut(key.index())?;
        let out = self.actions.send(client.id);
        let length_before = out.len();
        match self.shared.settings.error_pages.find(refusal.status) {
            Some(page) => client.http.refuse_with(refusal, &page.media_type, &page.content, date, out),
            None => client.http.refuse(refusal, date, out),
        }
        let written = &out[length_before..];
        let head_bytes = memmem::find(written, b"\r\n\r\n")? + 4;
        self.node.counts.count_answer(refusal.status);
        Some((written.len() - head_bytes) as u64)
    }

    /// The client has sent no content for too long.
    pub(super) fn refuse_late_content(&mut self, key: ClientKey, reason: RefusalReason) {
        self.refuse(key, Refusal::new(reason), b"");
    }
}
