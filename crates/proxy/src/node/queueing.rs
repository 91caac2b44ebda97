//! Requests that wait for an upstream to have room.

use breme_balance::NoChoice;

use super::routing::COOKIES_JOINED_BY;
use super::tables::{ExchangeKey, Stage};
use super::turn::Turn;
use crate::failure::Failure;
use crate::queue::{Joined, Waiter};
use crate::settings::QueueSettings;

impl Turn<'_> {
    /// Chooses an upstream for a request; if all are full, or others wait already, it waits. Whether it has one.
    pub(super) fn choose_or_wait(&mut self, key: ExchangeKey, cookies: &[&[u8]]) -> Result<bool, Failure> {
        let full = Failure::NoUpstream(NoChoice::AllFull);
        if self.shared.queue.is_empty() {
            match self.choose_upstream(key, cookies) {
                Err(failure) if failure == full => {}
                chosen => return chosen.map(|()| true),
            }
        }
        let now = self.now;
        let QueueSettings { requests_max, timeout } = self.shared.settings.queue;
        match self.shared.queue.join(self.waiter(key), now + timeout, requests_max) {
            Joined::Full => return Err(full),
            Joined::First => self.wake_first(),
            Joined::Behind => {}
        }
        if let Some(exchange) = self.exchange(key) {
            exchange.stage = Stage::Queued;
            exchange.progress = now;
            exchange.cookies = cookies.join(COOKIES_JOINED_BY);
        }
        self.set_exchange_deadline(key);
        Ok(false)
    }

    /// There may be room.
    pub(super) fn handle_room(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchange(key) else { return };
        let cookies = std::mem::take(&mut exchange.cookies);
        let chosen = self.choose_upstream(key, &[&cookies]);
        let Some(exchange) = self.exchange(key) else { return };
        if chosen == Err(Failure::NoUpstream(NoChoice::AllFull)) {
            exchange.cookies = cookies;
            return;
        }
        exchange.stage = Stage::Connecting;
        self.leave_queue(key);
        if let Err(failure) = chosen.and_then(|()| self.reach(key)) {
            self.fail(key, &failure);
        }
    }

    /// It has a place, or needs none any more.
    pub(super) fn leave_queue(&mut self, key: ExchangeKey) {
        self.shared.queue.leave(self.waiter(key));
        self.wake_first();
    }

    /// Who waits first may look for a place.
    pub(super) fn wake_first(&mut self) {
        if let Some(Waiter { shard, message }) = self.shared.queue.first(self.now) {
            self.actions.wake(shard, message);
        }
    }

    fn waiter(&self, key: ExchangeKey) -> Waiter {
        Waiter { shard: self.node.shard.id, message: self.message_of(key) }
    }
}
