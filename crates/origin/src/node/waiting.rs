//! What a connection waits for between its turns, for how long, and what happens when that is over.

use breme_base::Instant;
use breme_http1::{FieldStorage, Progress, Refusal, RefusalReason};
use breme_node::Close;

use super::Turn;
use crate::connection::Waiting;
use crate::sending;

impl Turn<'_> {
    pub(super) fn set_deadline(&mut self, at: Instant) {
        self.timers.set(self.id.key(), at);
    }

    /// All that has come was used.
    pub(super) fn wait_for_more(&mut self) {
        let is_idle = !self.connection.has_pending && self.connection.http.is_idle();
        match &self.connection.waiting {
            Waiting::Content(exchange) => {
                let deadline = exchange.deadline_in(self.pressure, &self.shared.settings.limits);
                self.set_deadline(deadline);
            }
            _ if is_idle => self.wait_for_request(),
            Waiting::Idle => self.wait_for_head(),
            // The time of what is under way runs since it began.
            Waiting::Head | Waiting::Drained | Waiting::Delay(_) | Waiting::Pattern { .. } => {}
        }
    }

    pub(super) fn wait_for_request(&mut self) {
        self.connection.waiting = Waiting::Idle;
        let linger = self.shared.settings.stopping_linger;
        if self.is_stopping && linger.is_zero() {
            self.close(Close::Graceful);
        } else if !self.connection.queue_is_long {
            let patience = self.pressure.idle_timeout(self.shared.settings.limits.idle_timeout);
            self.set_deadline(self.now + if self.is_stopping { linger } else { patience });
        }
    }

    fn wait_for_head(&mut self) {
        self.connection.waiting = Waiting::Head;
        self.set_deadline(self.now + self.pressure.slow_timeout(self.shared.settings.limits.head_timeout));
    }

    /// After an answer that was given outside of [`Turn::receive`]: are there more requests, or is this the end?
    fn go_on(&mut self) {
        if self.connection.is_blocked() {
            return;
        }
        if self.connection.has_pending {
            self.actions.resume(self.id);
            return self.wait_for_head();
        }
        let limits = &self.shared.settings.limits;
        match self.connection.http.receive(b"", self.connection.ended, limits, &mut FieldStorage::new()) {
            Ok(Progress::Over) => self.close(Close::Graceful),
            Err(refusal) => self.refuse(refusal),
            Ok(_) => self.wait_for_more(),
        }
    }

    pub(super) fn handle_queue_long(&mut self) {
        self.connection.queue_is_long = true;
        // The driver closes a peer that does not read.
        if !matches!(self.connection.waiting, Waiting::Delay(_)) {
            self.timers.clear(self.id.key());
        }
    }

    pub(super) fn handle_queue_empty(&mut self) {
        self.connection.queue_is_long = false;
        let limits = &self.shared.settings.limits;
        match &mut self.connection.waiting {
            Waiting::Idle => self.wait_for_request(),
            Waiting::Head => self.wait_for_head(),
            Waiting::Drained => self.set_deadline(self.now + self.pressure.slow_timeout(limits.body_timeout)),
            Waiting::Content(exchange) => {
                exchange.forgive(self.now);
                let deadline = exchange.deadline_in(self.pressure, limits);
                self.set_deadline(deadline);
            }
            Waiting::Delay(_) => {}
            Waiting::Pattern { .. } => self.send_more_pattern(),
        }
    }

    pub(super) fn handle_deadline(&mut self) {
        let limits = &self.shared.settings.limits;
        match &self.connection.waiting {
            Waiting::Idle => self.evict(|turn| turn.close(Close::Graceful)),
            Waiting::Drained => self.evict(|turn| turn.close(Close::Graceful)),
            Waiting::Head => self.evict(|turn| turn.refuse(Refusal::new(RefusalReason::HeadTimeout))),
            Waiting::Content(exchange) => {
                let reason = exchange.lateness(self.now, limits);
                self.evict(|turn| turn.refuse(Refusal::new(reason)));
            }
            Waiting::Delay(_) => self.end_delay(),
            Waiting::Pattern { .. } => self.send_more_pattern(),
        }
    }

    /// The client's time is over. If others wait, a few are closed at a time, and counted.
    fn evict(&mut self, end: impl FnOnce(&mut Self)) {
        if self.pressure.is_high() && !self.is_stopping {
            if let Err(later) = self.pressure.evict(self.now) {
                return self.set_deadline(self.now + later);
            }
            self.counts.evicted.add();
        }
        end(self);
    }

    fn end_delay(&mut self) {
        if let Waiting::Delay(answer) = std::mem::replace(&mut self.connection.waiting, Waiting::Idle) {
            self.answer(*answer);
            self.go_on();
        }
    }

    fn send_more_pattern(&mut self) {
        let Waiting::Pattern { sent, length } = self.connection.waiting else { return };
        if self.connection.queue_is_long {
            return;
        }
        let http = &mut self.connection.http;
        let sending = sending::send_pattern(sent, length, http, self.id, self.actions);
        self.advance(200, sending);
        self.go_on();
    }
}
