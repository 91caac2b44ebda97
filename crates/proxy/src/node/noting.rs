//! The log is told: of an exchange when it is over, and of what was refused before it was a request.

use std::sync::Arc;

use super::notes::{Noted, Notes};
use super::tables::{ClientKey, Exchange};
use super::turn::Turn;
use crate::access_log::{self, Ending};

impl Turn<'_> {
    /// What is to be told of a request, if there is a log. `request` is asked with whether the client is trusted.
    pub(super) fn notes_of(&mut self, client: ClientKey, request: impl FnOnce(bool) -> Noted) -> Option<Box<Notes>> {
        self.shared.access_log.as_ref()?;
        let client = self.node.clients.get(client.index())?;
        Some(Box::new(client.note(self.node.date.millis(self.now), Arc::new(request(client.is_trusted)))))
    }

    pub(super) fn record(&self, exchange: &Exchange, ending: Ending) {
        let (Some(log), Some(notes)) = (&self.shared.access_log, &exchange.notes) else { return };
        log.record(&access_log::Exchange {
            duration: self.now.since(exchange.began),
            status: exchange.status,
            sent_bytes: exchange.sent_bytes,
            received_bytes: exchange.received_bytes,
            upstream: exchange.upstream_name(),
            upstream_duration: exchange.upstream_duration,
            retries: exchange.retries,
            ending,
            ..notes.begun()
        });
    }

    /// What was never a request: it is against the rules, too long, or did not come in time. `input` is what has come
    /// of it.
    pub(super) fn record_refused(&mut self, client: ClientKey, input: &[u8], status: u16, sent_bytes: u64) {
        let notes = self.notes_of(client, |_| Noted::of_refused(input));
        if let (Some(notes), Some(log)) = (notes, &self.shared.access_log) {
            let ending = Ending::ClientFailed;
            log.record(&access_log::Exchange { status, sent_bytes, ending, ..notes.begun() });
        }
    }
}
