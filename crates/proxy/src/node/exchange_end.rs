//! The end of exchanges: completion, client loss, upstream loss, failure.

use breme_balance::UpstreamOutcome;
use breme_base::Instant;
use breme_cache::FetchError;
use breme_http::Framing;
use breme_http::media_type::TEXT;
use breme_http1::ClientError;
use breme_node::{Close, CloseReason};

use super::context::Context;
use super::keys::{ClientKey, ExchangeKey};
use super::stage::{Stage, Wait};
use super::tables::{Exchange, Route, UpstreamResponse};
use crate::access_log::{AccessLog, Completion, ExchangeRecord};
use crate::failure::Failure;

impl Context<'_> {
    /// Ends an exchange. Its upstream connection returns to the pool if it is clean, and is closed otherwise.
    pub(super) fn end_exchange(&mut self, key: ExchangeKey, completion: Completion, is_upstream_clean: bool) {
        if let Some(exchange) = self.exchange(key) {
            let outcome = exchange.outcome(completion);
            self.report_outcome(key, outcome);
        }
        self.cancel_wait(key);
        let Some(mut exchange) = self.node.exchanges.try_remove(key.index()) else { return };
        // If the fetch was complete, the cache has taken it already.
        let _ = self.abort_fetch(exchange.fetch.take(), FetchError::Request);
        self.node.exchange_timers.clear(key.timer());
        self.node.counts.exchanges_open.remove();
        if exchange.stage.is_tunnel() {
            self.node.counts.tunnels_open.remove();
        }
        if let Some(outcome) = exchange.request_outcome(completion) {
            self.node.counts.count_request_time(outcome, self.now.since(exchange.began));
        }
        if let Some(log) = &self.shared.access_log {
            exchange.log(&**log, self.now, completion);
        }
        if let Some(request) = exchange.stage.request() {
            self.node.buffers.keep(std::mem::take(&mut request.head));
        }
        if let Some(upstream) = exchange.stage.upstream() {
            match is_upstream_clean {
                true => self.release_upstream(upstream, exchange.reuse, exchange.client),
                false if completion == Completion::Complete => self.drop_upstream(upstream, Close::Graceful),
                false => self.drop_upstream(upstream, Close::Abort),
            }
        }
        if let Some(client) = exchange.client.and_then(|client| self.client(client)) {
            client.state.exchange = None;
        }
    }

    /// Leaves the queue of all shards, or cancels the name lookup.
    pub(super) fn cancel_wait(&mut self, key: ExchangeKey) {
        match self.node.exchanges.get(key.index()).map(|exchange| &exchange.stage) {
            Some(Stage::Pending { wait: Wait::Resolving, .. }) => self.cancel_lookup(key),
            Some(Stage::Pending { wait: Wait::Queued { .. }, .. }) => self.leave_queue(key),
            _ => {}
        }
    }

    /// The client closed its connection.
    pub(super) fn handle_client_lost(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        if exchange.stage.is_tunnel() {
            return self.end_tunnel(key, Close::Graceful);
        }
        self.node.counts.clients_gone.add();
        if !exchange.content.is_complete || !exchange.outlives_client() {
            return self.end_exchange(key, Completion::ClientGone, false);
        }
        exchange.client = None;
        self.pause_upstream(key, false);
    }

    /// The upstream connection was closed.
    pub(super) fn handle_upstream_lost(&mut self, key: ExchangeKey, reason: CloseReason) {
        let Some(exchange) = self.exchange(key) else { return };
        if exchange.stage.is_tunnel() {
            let how = if reason == CloseReason::Requested { Close::Graceful } else { Close::Abort };
            return self.end_tunnel(key, how);
        }
        if !self.retry(key) {
            self.fail(key, &Failure::ConnectionLost);
        }
    }

    /// The upstream closed its side before the response began.
    pub(super) fn handle_upstream_eof(&mut self, key: ExchangeKey, how: Close) {
        let upstream = self.exchange(key).and_then(|exchange| exchange.stage.upstream());
        if let Some(upstream) = upstream {
            self.close_upstream(upstream, how);
        }
        if !self.retry(key) {
            self.fail(key, &Failure::ConnectionLost);
        }
    }

    /// Ends an exchange without a complete response.
    pub(super) fn fail(&mut self, key: ExchangeKey, failure: &Failure) {
        self.report_outcome(key, failure_outcome(failure));
        let Some(exchange) = self.exchange(key) else { return };
        if let Some(log_entry) = &mut exchange.log_entry {
            log_entry.failure = Some(failure.reason().to_string());
        }
        let (client, response_began) = (exchange.client, exchange.stage.response_body().is_some());
        if !response_began && self.recover_from_cache(key, failure) {
            return;
        }
        let Some(client) = client else { return self.end_exchange(key, Completion::UpstreamFailed, false) };
        if response_began {
            return self.abort_response(key, client, Completion::UpstreamFailed);
        }
        self.respond_with_failure(key, failure);
        if matches!(failure, Failure::Target(_))
            && let Some(exchange) = self.exchange(key)
        {
            // The target is forbidden, so the log shows no upstream.
            exchange.route = Route::None;
        }
        self.end_exchange(key, failure.completion(), false);
        self.continue_client(client);
    }

    /// Aborts a response that was sent in part, and ends its exchange. A reset can prevent earlier responses from
    /// arriving, so it is used only if nothing else distinguishes an aborted response from a complete one.
    pub(super) fn abort_response(&mut self, key: ExchangeKey, client: ClientKey, completion: Completion) {
        let counts = &self.node.counts;
        match completion {
            Completion::ClientFailed => counts.clients_failed.add(),
            _ => counts.upstreams_failed.add(),
        }
        self.end_exchange(key, completion, false);
        let is_end_detectable = self.client(client).is_some_and(|client| client.http.is_response_end_detectable());
        self.close_client(client, if is_end_detectable { Close::Graceful } else { Close::Abort });
    }

    /// Sends an error response with Proxy-Status (RFC 9209).
    fn respond_with_failure(&mut self, key: ExchangeKey, failure: &Failure) {
        let Some(exchange) = self.node.exchanges.get(key.index()) else { return };
        let (status, shared) = (failure.status(), self.shared);
        let name = failure.upstream(exchange.visible_upstream_name(&shared.settings));
        let (media_type, content) = match shared.settings.error_pages.find(status) {
            Some(page) => (page.media_type.as_str(), page.content.clone()),
            None => (TEXT, failure.text(name).into()),
        };
        let proxy_status = failure.proxy_status(&shared.settings.identity.pseudonym, name);
        // The response takes the place of what the exchange waits for.
        self.cancel_wait(key);
        self.begin_response(key, status, Framing::Length(content.len() as u64), |writer, date| {
            writer.date(date);
            // None of these can be invalid: tokens, and a validated host.
            let _ = writer.field("Content-Type", media_type.as_bytes());
            let _ = writer.field("Cache-Control", b"no-store");
            if status == 405 {
                let _ = writer.field("Allow", shared.role.methods());
            }
            if let Some(seconds) = failure.retry_after() {
                let _ = writer.field("Retry-After", seconds.to_string().as_bytes());
            }
            if let Some(value) = proxy_status {
                let _ = writer.field("Proxy-Status", value.as_bytes());
            }
        });
        self.relay_pieces(key, [content]);
        self.complete_response(key);
        if failure.completion() == Completion::UpstreamFailed {
            self.node.counts.count_failure(status);
        }
    }
}

impl Exchange {
    /// What the balancer learns of an exchange without an upstream failure.
    pub(super) fn outcome(&self, completion: Completion) -> UpstreamOutcome {
        match (completion, self.upstream_response) {
            (Completion::Complete, Some(UpstreamResponse { status, latency })) => {
                UpstreamOutcome::Responded { status, latency }
            }
            _ => UpstreamOutcome::Abandoned,
        }
    }

    fn log(&self, log: &dyn AccessLog, now: Instant, completion: Completion) {
        let Some(log_entry) = &self.log_entry else { return };
        log.record(&ExchangeRecord {
            duration: now.since(self.began),
            status: self.status,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            upstream: self.upstream_name(),
            upstream_duration: self.upstream_response.map(|response| response.latency),
            retries: self.retries,
            completion,
            ..log_entry.begun()
        });
    }
}

fn failure_outcome(failure: &Failure) -> UpstreamOutcome {
    match failure {
        Failure::ResponseHeadTimeout | Failure::ReadTimeout | Failure::TotalTimeout | Failure::SendTimeout => {
            UpstreamOutcome::TimedOut
        }
        // The response is as the upstream means it: it says nothing about its health.
        Failure::InvalidResponse(ClientError::TooLarge(_)) => UpstreamOutcome::Abandoned,
        Failure::ConnectionLost | Failure::UpstreamDown | Failure::InvalidResponse(_) => {
            UpstreamOutcome::ConnectionLost
        }
        _ => UpstreamOutcome::Abandoned,
    }
}
