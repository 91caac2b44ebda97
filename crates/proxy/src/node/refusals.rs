//! Requests that are malformed, too long or too slow.

use breme_http::Refusal;
use breme_http::media_type::TEXT;
use breme_http1::ResponseBody;
use breme_node::Close;

use super::context::Context;
use super::keys::ClientKey;
use super::log_entry::LoggedRequest;
use super::response_head::HeadStart;
use crate::access_log::{Completion, ExchangeRecord};

impl Context<'_> {
    /// Rejects a request. What was forwarded of it is incomplete and aborted. `input` is the rejected part, as far as
    /// it is available.
    #[cold]
    pub(super) fn refuse(&mut self, key: ClientKey, refusal: Refusal, input: &[u8]) {
        self.shared.counters.count_refusal(refusal.reason);
        let Some(client) = self.client(key) else { return };
        let exchange = client.state.exchange;
        if let Some(exchange) = exchange
            && self.exchange(exchange).is_some_and(|exchange| exchange.stage.response_body().is_some())
        {
            return self.abort_response(exchange, key, Completion::ClientFailed);
        }
        let sent_bytes = self.write_refusal(key, refusal);
        match (exchange, sent_bytes) {
            (Some(exchange), _) => {
                if let Some(exchange) = self.exchange(exchange) {
                    (exchange.status, exchange.sent_bytes) = (refusal.status, sent_bytes.unwrap_or_default());
                }
                self.end_exchange(exchange, Completion::ClientFailed, false);
            }
            (None, Some(sent_bytes)) => self.log_refusal(key, input, refusal.status, sent_bytes),
            (None, None) => {}
        }
        self.close_client(key, Close::Graceful);
    }

    /// Sends the error response, if none has begun. Returns the length of its body.
    fn write_refusal(&mut self, key: ClientKey, refusal: Refusal) -> Option<u64> {
        let date = self.node.date.at(self.now).text();
        let client = self.node.clients.get_mut(key.index())?;
        let (media_type, content) = match self.shared.settings.error_pages.find(refusal.status) {
            Some(page) => (page.media_type.as_str(), page.content.clone()),
            None => (TEXT, [refusal.reason.message(), "\n"].concat().into()),
        };
        let (start, out) = (HeadStart::Refusal(refusal.status, content.len() as u64), self.actions.send(client.id));
        let mut writer = self.shared.begin_head(&mut client.http, start, out)?;
        writer.date(date);
        // An invalid media type is left out.
        let _ = writer.field("Content-Type", media_type.as_bytes());
        self.node.counts.count_response(refusal.status);
        if writer.end() == ResponseBody::Omitted {
            return Some(0);
        }
        out.extend_from_slice(&content);
        client.http.content_sent();
        self.node.counts.bytes_downstream.add_many(content.len() as u64);
        Some(content.len() as u64)
    }

    /// Logs a rejected request. `input` is the part received.
    fn log_refusal(&mut self, client: ClientKey, input: &[u8], status: u16, sent_bytes: u64) {
        let log_entry = self.log_entry_of(client, |_| LoggedRequest::from_refused(input));
        if let (Some(log_entry), Some(log)) = (log_entry, &self.shared.access_log) {
            let completion = Completion::ClientFailed;
            log.record(&ExchangeRecord { status, sent_bytes, completion, ..log_entry.begun() });
        }
    }
}
