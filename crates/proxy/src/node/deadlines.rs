//! Deadlines of exchanges.

use breme_balance::NoChoice;
use breme_base::Instant;
use breme_http::{Refusal, RefusalReason};
use breme_node::Close;

use super::context::Context;
use super::tables::{Exchange, ExchangeKey, ExchangeStage};
use crate::failure::Failure;
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
        let of_stage = match exchange.stage {
            ExchangeStage::Resolving => exchange.began + head,
            ExchangeStage::Following => exchange.cache_state.patience(exchange.began + head),
            ExchangeStage::Queued => exchange.progress + self.shared.settings.queue.timeout,
            // The driver has a timeout for this.
            ExchangeStage::Connecting => Instant::FAR,
            ExchangeStage::Requesting if exchange.content.is_complete => exchange.sent + head,
            ExchangeStage::Requesting if self.upstream_is_slow(exchange) => exchange.progress + between_bytes,
            ExchangeStage::Requesting => exchange.content_progress().deadline(&self.shared.settings.limits),
            // The client must read, and the driver has a timeout for that.
            ExchangeStage::Responding if self.client_is_slow(exchange) => Instant::FAR,
            ExchangeStage::Responding => exchange.progress + between_bytes,
            ExchangeStage::Tunnel { .. } => return Some(exchange.progress + tunnel_idle),
        };
        let of_all = if total.is_zero() { Instant::FAR } else { exchange.began + total };
        Some(of_stage.min(of_all).min(self.pressure_deadline(exchange)).min(self.lost_upstream_deadline(exchange)))
    }

    /// Whether the client's send queue is long.
    pub(super) fn client_is_slow(&self, exchange: &Exchange) -> bool {
        let client = exchange.client.and_then(|client| self.node.clients.get(client.index()));
        client.is_some_and(|client| client.queue_is_long)
    }

    fn upstream_is_slow(&self, exchange: &Exchange) -> bool {
        let upstream = exchange.upstream.and_then(|upstream| self.node.upstreams.get(upstream.index()));
        upstream.is_some_and(|upstream| upstream.queue_is_long)
    }

    /// When the client of an exchange is evicted under pressure: it sends too slowly, or has closed its side and may
    /// have left. The driver evicts clients that read too slowly.
    fn pressure_deadline(&self, exchange: &Exchange) -> Instant {
        let pressure = &self.node.server.pressure;
        let client = exchange.client.filter(|_| pressure.is_high());
        let client = client.and_then(|client| self.node.clients.get(client.index()));
        let Some(client) = client.filter(|_| !matches!(exchange.stage, ExchangeStage::Tunnel { .. })) else {
            return Instant::FAR;
        };
        let Exchange { content, received_bytes, progress, .. } = *exchange;
        let waits_for_client = exchange.stage == ExchangeStage::Requesting && !client.state.is_paused;
        match content.is_complete {
            false if waits_for_client => pressure.transfer_deadline(content.began, received_bytes, progress),
            true if client.has_ended && exchange.response_body.is_none() => pressure.half_closed_deadline(progress),
            _ => Instant::FAR,
        }
    }

    /// Evicts the client if its deadline under pressure has passed. Returns whether it is evicted, now or later.
    fn evict_slow_client(&mut self, key: ExchangeKey) -> bool {
        let exchange = self.node.exchanges.get(key.index());
        let Some(exchange) = exchange.filter(|exchange| self.pressure_deadline(exchange) <= self.now) else {
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
        if self.leave_lost_upstream(key) {
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
        match exchange.stage {
            ExchangeStage::Tunnel { .. } => self.end_tunnel(key, Close::Graceful),
            _ if is_over => self.fail(key, &Failure::TotalTimeout),
            ExchangeStage::Resolving => self.fail(key, &Failure::Resolve(crate::resolver::ResolveError::TimedOut)),
            ExchangeStage::Following => {
                if !self.end_wait(key) {
                    self.fail(key, &Failure::HeadTimeout);
                }
            }
            ExchangeStage::Queued => self.fail(key, &Failure::NoUpstream(NoChoice::AllFull)),
            ExchangeStage::Requesting if exchange.content.is_complete => self.fail(key, &Failure::HeadTimeout),
            ExchangeStage::Requesting if self.upstream_is_slow(exchange) => self.fail(key, &Failure::SendTimeout),
            ExchangeStage::Requesting => {
                let reason = exchange.content_progress().late_reason(now, &self.shared.settings.limits);
                if let Some(client) = client {
                    self.refuse(client, Refusal::new(reason), b"");
                }
            }
            ExchangeStage::Connecting | ExchangeStage::Responding => self.fail(key, &Failure::ReadTimeout),
        }
    }
}
