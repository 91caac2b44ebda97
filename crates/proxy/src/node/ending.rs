//! Exchanges that end, well or badly, and when they are late.

use breme_balance::{NoChoice, Outcome};
use breme_base::Instant;
use breme_http1::{Framing, RefusalReason, ResponseBody};
use breme_node::{COPIED_BYTES_MAX, Close, CloseReason};

use super::tables::{ClientKey, Exchange, ExchangeKey, Stage};
use super::turn::Turn;
use crate::access_log::Ending;
use crate::failure::Failure;
use crate::settings::Times;

impl Turn<'_> {
    /// Ends an exchange: its server goes to the pool if it is clean, and is closed if not; its client is free.
    pub(super) fn end_exchange(&mut self, key: ExchangeKey, ending: Ending, is_server_clean: bool) {
        if let Some(exchange) = self.exchange(key) {
            let outcome = exchange.outcome(ending);
            self.conclude(key, outcome);
        }
        match self.exchange(key).map(|exchange| exchange.stage) {
            Some(Stage::Resolving) => self.forget_question(key),
            Some(Stage::Queued) => self.leave_queue(key),
            _ => {}
        }
        let Some(mut exchange) = self.node.exchanges.try_remove(key.index()) else { return };
        self.leave(&mut exchange);
        self.node.exchange_timers.clear(key.timer());
        self.node.counts.exchanges_open.remove();
        if matches!(exchange.stage, Stage::Tunnel { .. }) {
            self.node.counts.tunnels_open.remove();
        }
        if let Some(outcome) = exchange.request_outcome(ending) {
            self.node.counts.count_request_time(outcome, self.now.since(exchange.began));
        }
        self.record(&exchange, ending);
        self.node.keep_buffer(std::mem::take(&mut exchange.request));
        if let Some(connecting) = exchange.connecting.and_then(|key| self.node.connecting.get_mut(key.index())) {
            connecting.exchange = None;
        }
        if let Some(server) = exchange.server {
            match is_server_clean {
                true => self.release_server(server, exchange.reuse, exchange.client),
                false if ending == Ending::Complete => self.drop_server(server, Close::Graceful),
                false => self.drop_server(server, Close::Abort),
            }
        }
        if let Some(client) = exchange.client.and_then(|client| self.client(client)) {
            client.exchange = None;
        }
    }

    /// The client went away.
    pub(super) fn lose_client(&mut self, key: ExchangeKey) {
        if matches!(self.exchange(key), Some(Exchange { stage: Stage::Tunnel { .. }, .. })) {
            return self.end_tunnel(key, Close::Graceful);
        }
        self.node.counts.clients_gone.add();
        let is_request_complete = self.exchange(key).is_some_and(|exchange| exchange.is_request_complete);
        if !is_request_complete || !self.outlives_client(key) {
            return self.end_exchange(key, Ending::ClientGone, false);
        }
        if let Some(exchange) = self.exchange(key) {
            exchange.client = None;
        }
        self.hold_server(key, false);
    }

    /// The server's connection is gone.
    pub(super) fn server_gone(&mut self, key: ExchangeKey, reason: CloseReason) {
        let Some(exchange) = self.exchange(key) else { return };
        if matches!(exchange.stage, Stage::Tunnel { .. }) {
            let how = if reason == CloseReason::Requested { Close::Graceful } else { Close::Abort };
            return self.end_tunnel(key, how);
        }
        if !self.ask_again(key) {
            self.fail(key, &Failure::BrokeOff);
        }
    }

    /// The server has ended its sending before a byte of an answer.
    pub(super) fn lose_server(&mut self, key: ExchangeKey, how: Close) {
        let server = self.exchange(key).and_then(|exchange| exchange.server.take());
        if let Some(server) = server {
            self.drop_server(server, how);
        }
        if !self.ask_again(key) {
            self.fail(key, &Failure::BrokeOff);
        }
    }

    /// There is no answer, or no rest of it.
    pub(super) fn fail(&mut self, key: ExchangeKey, failure: &Failure) {
        self.conclude(key, failure_outcome(failure));
        let Some(exchange) = self.exchange(key) else { return };
        let (client, is_answer_begun) = (exchange.client, exchange.answer.is_some());
        if !is_answer_begun && self.take_failure(key, failure) {
            return;
        }
        let Some(client) = client else { return self.end_exchange(key, Ending::UpstreamFailed, false) };
        if is_answer_begun {
            self.end_exchange(key, Ending::UpstreamFailed, false);
            return self.cut_answer(client);
        }
        self.answer_failure(key, failure);
        if matches!(failure, Failure::Target(_)) {
            self.ask_nobody(key);
        }
        self.end_exchange(key, failure.ending(), false);
        self.go_on(client);
    }

    /// A part of an answer is out, and its rest will never be: nothing may come behind it. Whole answers that were sent
    /// before it must arrive, which a reset can prevent; but where only a reset cannot be taken for the answer's end,
    /// it must be one.
    pub(super) fn cut_answer(&mut self, client: ClientKey) {
        self.node.counts.answers_cut.add();
        let tells = self.client(client).is_some_and(|client| client.http.is_response_end_detectable());
        self.close_client(client, if tells { Close::Graceful } else { Close::Abort });
    }

    /// Tells the client what is wrong: in a page or a sentence, and in the words of RFC 9209.
    fn answer_failure(&mut self, key: ExchangeKey, failure: &Failure) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        let status = failure.status();
        exchange.status = status;
        let settings = &self.shared.settings;
        let name = failure.upstream(exchange.visible_upstream_name(settings));
        let page = settings.error_pages.find(status);
        let (media_type, content) = match page {
            Some(page) => (page.media_type.as_str(), page.content.clone()),
            None => ("text/plain; charset=utf-8", failure.text(name).into()),
        };
        if client.announce_leave(self.node.is_stopping, &mut self.node.pressure, self.now) {
            self.node.counts.evicted.add();
        }
        let out = self.actions.send(client.id);
        let date = self.node.date.text(self.now);
        let mut writer = client.http.respond(status, Framing::Length(content.len() as u64), date, out);
        // None of these can be refused: they are made of tokens and of a host that was checked.
        let _ = writer.field("Content-Type", media_type.as_bytes());
        let _ = writer.field("Cache-Control", b"no-store");
        if status == 405 {
            let _ = writer.field("Allow", self.shared.role.methods());
        }
        if let Some(seconds) = failure.retry_after() {
            let _ = writer.field("Retry-After", seconds.to_string().as_bytes());
        }
        if let Some(error) = failure.error_type() {
            let proxy = &settings.identity.pseudonym;
            let value = match name {
                Some(name) => format!("{proxy}; error={error}; next-hop=\"{name}\""),
                None => format!("{proxy}; error={error}"),
            };
            let _ = writer.field("Proxy-Status", value.as_bytes());
        }
        if writer.end() == ResponseBody::Expected {
            exchange.sent_bytes = content.len() as u64;
            if content.len() > COPIED_BYTES_MAX {
                self.actions.send_shared(client.id, content);
            } else {
                self.actions.send(client.id).extend_from_slice(&content);
            }
            client.http.content_sent();
        }
        self.node.counts.count_failure(status);
        self.node.counts.count_answer(status);
    }
}

/// Time.
impl Turn<'_> {
    pub(super) fn set_exchange_deadline(&mut self, key: ExchangeKey) {
        if let Some(deadline) = self.exchange_deadline(key) {
            self.node.exchange_timers.set(key.timer(), deadline);
        }
    }

    fn exchange_deadline(&self, key: ExchangeKey) -> Option<Instant> {
        let exchange = self.node.exchanges.get(key.index())?;
        let Times { head, between_bytes, total, tunnel_idle } = self.shared.settings.times;
        let is_held = |is_long: Option<bool>| is_long == Some(true);
        let client = exchange.client.and_then(|client| self.node.clients.get(client.index()));
        let client_is_slow = is_held(client.map(|client| client.queue_is_long));
        let server = exchange.server.and_then(|server| self.node.servers.get(server.index()));
        let server_is_slow = is_held(server.map(|server| server.queue_is_long));
        let of_stage = match exchange.stage {
            Stage::Resolving => exchange.began + head,
            Stage::Waiting => exchange.caching.patience(exchange.began + head),
            Stage::Queued => exchange.progress + self.shared.settings.queue.timeout,
            // The driver's.
            Stage::Connecting => Instant::FAR,
            Stage::Asking if exchange.is_request_complete => exchange.sent + head,
            Stage::Asking if server_is_slow => exchange.progress + between_bytes,
            Stage::Asking => exchange.content_deadline(&self.shared.settings.limits),
            // It is the client who must read, and the driver who waits for that.
            Stage::Answering if client_is_slow => Instant::FAR,
            Stage::Answering => exchange.progress + between_bytes,
            Stage::Tunnel { .. } => return Some(exchange.progress + tunnel_idle),
        };
        let of_all = if total.is_zero() { Instant::FAR } else { exchange.began + total };
        Some(of_stage.min(of_all).min(self.pressure_deadline(key)))
    }

    /// When the client of an exchange is to be closed since others wait: it sends too slowly, or has ended its sending
    /// and may have left. The driver closes clients that read too slowly.
    fn pressure_deadline(&self, key: ExchangeKey) -> Instant {
        let pressure = &self.node.pressure;
        let Some(exchange) = self.node.exchanges.get(key.index()).filter(|_| pressure.is_high()) else {
            return Instant::FAR;
        };
        let client = exchange.client.and_then(|client| self.node.clients.get(client.index()));
        let Some(client) = client.filter(|_| !matches!(exchange.stage, Stage::Tunnel { .. })) else {
            return Instant::FAR;
        };
        let Exchange { content_began, received_bytes, progress, .. } = *exchange;
        let waits_for_client = exchange.stage == Stage::Asking && !client.is_paused;
        match exchange.is_request_complete {
            false if waits_for_client => pressure.transfer_deadline(content_began, received_bytes, progress),
            true if client.ended && exchange.answer.is_none() => pressure.half_closed_deadline(progress),
            _ => Instant::FAR,
        }
    }

    /// Closes the client if it is to be closed since others wait. Returns whether it is, or will be.
    fn make_room(&mut self, key: ExchangeKey) -> bool {
        if self.pressure_deadline(key) > self.now {
            return false;
        }
        let Some(exchange) = self.node.exchanges.get(key.index()) else { return false };
        let Some(client) = exchange.client else { return false };
        let is_request_complete = exchange.is_request_complete;
        if let Err(later) = self.evict() {
            self.node.exchange_timers.set(key.timer(), self.now + later);
            return true;
        }
        if is_request_complete {
            self.lose_client(key);
            self.close_client(client, Close::Graceful);
        } else {
            self.refuse_late_content(client, RefusalReason::ReceiveTooSlow);
        }
        true
    }

    pub(super) fn handle_exchange_deadline(&mut self, key: ExchangeKey) {
        let Some(deadline) = self.exchange_deadline(key) else { return };
        if deadline > self.now {
            return self.set_exchange_deadline(key);
        }
        if self.make_room(key) {
            return;
        }
        let now = self.now;
        let Times { total, .. } = self.shared.settings.times;
        let Some(exchange) = self.node.exchanges.get(key.index()) else { return };
        let is_over = !total.is_zero() && exchange.began + total <= now;
        let client = exchange.client;
        let server = exchange.server.and_then(|server| self.node.servers.get(server.index()));
        let server_is_slow = server.is_some_and(|server| server.queue_is_long);
        match exchange.stage {
            Stage::Tunnel { .. } => self.end_tunnel(key, Close::Graceful),
            _ if is_over => self.fail(key, &Failure::TotalTimeout),
            Stage::Resolving => self.fail(key, &Failure::Resolve(crate::resolver::ResolveError::TimedOut)),
            Stage::Waiting => {
                if !self.wait_no_more(key) {
                    self.fail(key, &Failure::HeadTimeout);
                }
            }
            Stage::Queued => self.fail(key, &Failure::NoUpstream(NoChoice::AllFull)),
            Stage::Asking if exchange.is_request_complete => self.fail(key, &Failure::HeadTimeout),
            Stage::Asking if server_is_slow => self.fail(key, &Failure::TakingTimeout),
            Stage::Asking => {
                let reason = exchange.content_lateness(now, &self.shared.settings.limits);
                if let Some(client) = client {
                    self.refuse_late_content(client, reason);
                }
            }
            Stage::Connecting | Stage::Answering => self.fail(key, &Failure::SilenceTimeout),
        }
    }
}

impl Exchange {
    /// What the balancer is told when the exchange ends without a failure of the upstream's.
    fn outcome(&self, ending: Ending) -> Outcome {
        match (ending, self.upstream_duration) {
            (Ending::Complete, Some(latency)) => Outcome::Answered { status: self.status, latency },
            _ => Outcome::Abandoned,
        }
    }
}

fn failure_outcome(failure: &Failure) -> Outcome {
    match failure {
        Failure::HeadTimeout | Failure::SilenceTimeout | Failure::TotalTimeout | Failure::TakingTimeout => {
            Outcome::TimedOut
        }
        Failure::BrokeOff | Failure::Answer(_) => Outcome::BrokeOff,
        _ => Outcome::Abandoned,
    }
}
