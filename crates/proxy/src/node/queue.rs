//! Requests that wait for capacity of an upstream.

use breme_balance::NoChoice;
use breme_base::Instant;

use super::context::{Context, ShardState};
use super::keys::ExchangeKey;
use super::retry::LOOK_INTERVAL;
use super::route::COOKIES_JOINED_BY;
use super::stage::Wait;
use crate::failure::Failure;
use crate::queue::{QueuePosition, QueuedRequest};
use crate::settings::QueueSettings;

impl Context<'_> {
    /// Chooses an upstream; queues the request if all are at their limit or others wait already. Returns whether it has
    /// an upstream.
    pub(super) fn choose_or_queue(&mut self, key: ExchangeKey, cookies: &[&[u8]]) -> Result<bool, Failure> {
        let full = Failure::NoUpstream(NoChoice::AllFull);
        if self.shared.queue.is_empty() {
            match self.choose_upstream(key, cookies) {
                Err(failure) if failure == full => {}
                chosen => return chosen.map(|()| true),
            }
        }
        let now = self.now;
        let QueueSettings { requests_max, timeout } = self.shared.settings.queue;
        match self.shared.queue.join(self.node.queued_request(key), now + timeout, requests_max) {
            QueuePosition::Full => return Err(full),
            QueuePosition::First => self.wake_first_queued(),
            QueuePosition::Later => {}
        }
        if let Some(exchange) = self.exchange(key) {
            exchange.progress = now;
            exchange.stage.wait_for(Wait::Queued { since: now, cookies: cookies.join(COOKIES_JOINED_BY) });
        }
        self.set_exchange_deadline(key);
        Ok(false)
    }

    /// An upstream may have capacity. Returns whether the request has left the queue.
    pub(super) fn handle_capacity(&mut self, key: ExchangeKey) -> bool {
        let Some(exchange) = self.exchange(key) else { return false };
        let Wait::Queued { since, cookies } = exchange.stage.stop_waiting() else { return false };
        let chosen = self.choose_upstream(key, &[&cookies]);
        if chosen == Err(Failure::NoUpstream(NoChoice::AllFull)) {
            if let Some(exchange) = self.exchange(key) {
                exchange.stage.wait_for(Wait::Queued { since, cookies });
            }
            self.set_exchange_deadline(key);
            return false;
        }
        self.leave_queue(key);
        if let Err(failure) = chosen.and_then(|()| self.connect_upstream(key)) {
            self.fail(key, &failure);
        }
        true
    }

    /// When the first queued request looks for capacity: a change of the balancer (a new list or limit, a recovered
    /// upstream) wakes nobody.
    pub(super) fn capacity_deadline(&self, key: ExchangeKey) -> Instant {
        if self.is_first_queued(key) { self.now + LOOK_INTERVAL } else { Instant::FAR }
    }

    /// Looks for capacity. Returns whether the request has left the queue.
    pub(super) fn leave_queue_with_capacity(&mut self, key: ExchangeKey) -> bool {
        self.is_first_queued(key) && self.handle_capacity(key)
    }

    fn is_first_queued(&self, key: ExchangeKey) -> bool {
        let exchange = self.node.exchanges.get(key.index());
        exchange.is_some_and(|exchange| exchange.stage.is_queued())
            && self.shared.queue.first(self.now) == Some(self.node.queued_request(key))
    }

    /// The request has an upstream, or is over.
    pub(super) fn leave_queue(&mut self, key: ExchangeKey) {
        self.shared.queue.leave(self.node.queued_request(key));
        self.wake_first_queued();
    }

    /// Wakes the first queued request.
    pub(super) fn wake_first_queued(&mut self) {
        if let Some(QueuedRequest { shard, message }) = self.shared.queue.first(self.now) {
            self.actions.wake(shard, message);
        }
    }
}

impl ShardState {
    fn queued_request(&self, key: ExchangeKey) -> QueuedRequest {
        QueuedRequest { shard: self.shard.id, message: self.message_of(key) }
    }
}
