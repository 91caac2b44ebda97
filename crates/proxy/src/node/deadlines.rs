//! Deadlines of exchanges.

use breme_balance::{NoChoice, UpstreamOutcome};
use breme_base::Instant;
use breme_http::{Refusal, RefusalReason};
use breme_node::Close;

use super::context::{Context, ShardState};
use super::keys::ExchangeKey;
use super::stage::{Stage, Wait};
use super::tables::Exchange;
use crate::failure::Failure;
use crate::resolver::ResolveError;
use crate::settings::Timeouts;

impl Context<'_> {
    pub(super) fn set_exchange_deadline(&mut self, key: ExchangeKey) {
        if let Some(deadline) = self.exchange_deadline(key) {
            self.node.exchange_timers.set(key.timer(), deadline);
        }
    }

    fn exchange_deadline(&self, key: ExchangeKey) -> Option<Instant> {
        let exchange = self.node.exchanges.get(key.index())?;
        let Timeouts { head, between_bytes, total, tunnel_idle } = self.shared.settings.times;
        let of_stage = match &exchange.stage {
            Stage::Pending { wait, .. } => match wait {
                Wait::Resolving => exchange.began + head,
                Wait::Following(following) => (exchange.began + head).min(following.follower.deadline()),
                Wait::Queued { since, .. } => {
                    self.capacity_deadline(key).min(*since + self.shared.settings.queue.timeout)
                }
                // The driver has a timeout for this.
                Wait::Nothing | Wait::Connecting(_) => Instant::FAR,
                Wait::Requesting(attempt) if exchange.content.is_complete => attempt.sent + head,
                Wait::Requesting(attempt) if self.node.is_slow(attempt.upstream) => exchange.progress + between_bytes,
                Wait::Requesting(_) => exchange.content_progress().deadline(&self.shared.settings.limits),
            },
            // The client must read, and the driver has a timeout for that.
            Stage::Discarding { .. } | Stage::Responding { .. } if self.node.client_is_slow(exchange) => Instant::FAR,
            Stage::Discarding { .. } | Stage::Responding { .. } => exchange.progress + between_bytes,
            Stage::Tunnel { .. } => return Some(exchange.progress + tunnel_idle),
        };
        let of_all = if total.is_zero() { Instant::FAR } else { exchange.began + total };
        Some(of_stage.min(of_all).min(self.node.pressure_deadline(exchange)).min(self.lost_upstream_deadline(exchange)))
    }

    /// Evicts the client if its deadline under pressure has passed. Returns whether it is evicted, now or later.
    fn evict_slow_client(&mut self, key: ExchangeKey) -> bool {
        let exchange = self.node.exchanges.get(key.index());
        let Some(exchange) = exchange.filter(|exchange| self.node.pressure_deadline(exchange) <= self.now) else {
            return false;
        };
        let (is_request_complete, client_key) = (exchange.content.is_complete, exchange.client);
        let Some(client_key) = client_key else { return false };
        let Some(client) = self.node.clients.get_mut(client_key.index()) else { return false };
        if let Err(later) = self.node.server.evict(self.now, client, &self.node.counts.evicted) {
            self.node.exchange_timers.set(key.timer(), self.now + later);
            return true;
        }
        if is_request_complete {
            self.handle_client_lost(key);
            self.close_client(client_key, Close::Graceful);
        } else {
            self.refuse(client_key, Refusal::new(RefusalReason::ReceiveTooSlow), b"");
        }
        true
    }

    pub(super) fn handle_exchange_deadline(&mut self, key: ExchangeKey) {
        if self.leave_lost_upstream(key) || self.leave_queue_with_capacity(key) {
            return;
        }
        let Some(deadline) = self.exchange_deadline(key) else { return };
        if deadline > self.now {
            return self.set_exchange_deadline(key);
        }
        if self.evict_slow_client(key) {
            return;
        }
        let now = self.now;
        let Timeouts { total, .. } = self.shared.settings.times;
        let Some(exchange) = self.node.exchanges.get(key.index()) else { return };
        let is_over = !total.is_zero() && exchange.began + total <= now;
        let client = exchange.client;
        let failure = match &exchange.stage {
            Stage::Tunnel { .. } => return self.end_tunnel(key, Close::Graceful),
            _ if is_over && self.node.waits_for_client(exchange) => return self.time_client_out(key),
            _ if is_over => Failure::TotalTimeout,
            Stage::Pending { wait, .. } => match wait {
                Wait::Resolving => Failure::Resolve(ResolveError::TimedOut),
                Wait::Following(following) if following.follower.deadline() <= now => return self.end_wait(key),
                Wait::Following(_) => Failure::ResponseHeadTimeout,
                Wait::Queued { .. } => Failure::NoUpstream(NoChoice::AllFull),
                Wait::Requesting(_) if exchange.content.is_complete => Failure::ResponseHeadTimeout,
                Wait::Requesting(attempt) if self.node.is_slow(attempt.upstream) => Failure::SendTimeout,
                Wait::Requesting(_) => {
                    let reason = exchange.content_progress().late_reason(now, &self.shared.settings.limits);
                    if let Some(client) = client {
                        self.refuse(client, Refusal::new(reason), b"");
                    }
                    return;
                }
                Wait::Nothing | Wait::Connecting(_) => Failure::ReadTimeout,
            },
            Stage::Discarding { .. } | Stage::Responding { .. } => Failure::ReadTimeout,
        };
        self.fail(key, &failure);
    }

    /// The total time has passed because of the client: that says nothing about the upstream.
    fn time_client_out(&mut self, key: ExchangeKey) {
        self.report_outcome(key, UpstreamOutcome::Abandoned);
        let Some(exchange) = self.exchange(key) else { return };
        match exchange.client.filter(|_| !exchange.content.is_complete) {
            // RFC 9110, 15.5.9.
            Some(client) => self.refuse(client, Refusal::new(RefusalReason::ReceiveTooSlow), b""),
            None => self.fail(key, &Failure::TotalTimeout),
        }
    }
}

impl ShardState {
    /// Whether the client must act next: send the rest of the request, or read.
    fn waits_for_client(&self, exchange: &Exchange) -> bool {
        match &exchange.stage {
            Stage::Pending { wait: Wait::Requesting(attempt), .. } => {
                !exchange.content.is_complete && !self.is_slow(attempt.upstream)
            }
            Stage::Discarding { .. } | Stage::Responding { .. } => {
                !exchange.content.is_complete || self.client_is_slow(exchange)
            }
            Stage::Pending { .. } | Stage::Tunnel { .. } => false,
        }
    }

    /// Whether the client's send queue is long.
    pub(super) fn client_is_slow(&self, exchange: &Exchange) -> bool {
        let client = exchange.client.and_then(|client| self.clients.get(client.index()));
        client.is_some_and(|client| client.queue_is_long)
    }

    /// When the client of an exchange is evicted under pressure: it sends too slowly, or has closed its side and may
    /// have left. The driver evicts clients that read too slowly.
    fn pressure_deadline(&self, exchange: &Exchange) -> Instant {
        let pressure = &self.server.pressure;
        let client = exchange.client.filter(|_| pressure.is_high());
        let client = client.and_then(|client| self.clients.get(client.index()));
        let Some(client) = client.filter(|_| !exchange.stage.is_tunnel()) else {
            return Instant::FAR;
        };
        let Exchange { content, received_bytes, progress, .. } = *exchange;
        let is_requesting = matches!(exchange.stage, Stage::Pending { wait: Wait::Requesting(_), .. });
        let waits_for_client = is_requesting && !client.state.is_paused;
        match content.is_complete {
            false if waits_for_client => pressure.transfer_deadline(content.began, received_bytes, progress),
            true if client.has_ended && exchange.stage.response_body().is_none() => {
                pressure.half_closed_deadline(progress)
            }
            _ => Instant::FAR,
        }
    }
}
