//! Timeouts of connections.

use breme_base::Instant;
use breme_http::{Refusal, RefusalReason};
use breme_http1::{FieldStorage, Progress};
use breme_node::Close;

use super::Context;
use crate::connection::ConnectionState;
use crate::send;

impl Context<'_> {
    pub(super) fn set_deadline(&mut self, at: Instant) {
        self.timers.set(self.id.key(), at);
    }

    /// Sets the timeout after all received bytes were consumed.
    pub(super) fn wait_for_more(&mut self) {
        let is_idle = !self.connection.has_pending && self.connection.http.is_idle();
        match &self.connection.state {
            ConnectionState::Content(exchange) => {
                let deadline = exchange.deadline(self.pressure, &self.shared.settings.limits);
                self.set_deadline(deadline);
            }
            _ if is_idle => self.wait_for_request(),
            ConnectionState::Idle => self.wait_for_head(),
            // These timeouts count from their start.
            ConnectionState::Head
            | ConnectionState::Drained
            | ConnectionState::Delay(_)
            | ConnectionState::Pattern { .. } => {}
        }
    }

    pub(super) fn wait_for_request(&mut self) {
        self.connection.state = ConnectionState::Idle;
        let linger = self.shared.settings.stopping_linger;
        if self.is_stopping && linger.is_zero() {
            self.close(Close::Graceful);
        } else if !self.connection.queue_is_long {
            let patience = self.pressure.idle_timeout(self.shared.settings.limits.idle_timeout);
            self.set_deadline(self.now + if self.is_stopping { linger } else { patience });
        }
    }

    fn wait_for_head(&mut self) {
        self.connection.state = ConnectionState::Head;
        self.set_deadline(self.now + self.pressure.slow_timeout(self.shared.settings.limits.head_timeout));
    }

    /// After a response sent outside of [`Context::receive`]: continues with the next request.
    fn continue_connection(&mut self) {
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
        // The driver closes a client that does not read.
        if !matches!(self.connection.state, ConnectionState::Delay(_)) {
            self.timers.clear(self.id.key());
        }
    }

    pub(super) fn handle_queue_empty(&mut self) {
        self.connection.queue_is_long = false;
        let limits = &self.shared.settings.limits;
        match &mut self.connection.state {
            ConnectionState::Idle => self.wait_for_request(),
            ConnectionState::Head => self.wait_for_head(),
            ConnectionState::Drained => self.set_deadline(self.now + self.pressure.slow_timeout(limits.body_timeout)),
            ConnectionState::Content(exchange) => {
                exchange.progress.exclude_pause(self.now);
                let deadline = exchange.deadline(self.pressure, limits);
                self.set_deadline(deadline);
            }
            ConnectionState::Delay(_) => {}
            ConnectionState::Pattern { .. } => self.send_more_pattern(),
        }
    }

    pub(super) fn handle_deadline(&mut self) {
        let limits = &self.shared.settings.limits;
        match &self.connection.state {
            ConnectionState::Idle => self.evict(|context| context.close(Close::Graceful)),
            ConnectionState::Drained => self.evict(|context| context.close(Close::Graceful)),
            ConnectionState::Head => self.evict(|context| context.refuse(Refusal::new(RefusalReason::HeadTimeout))),
            ConnectionState::Content(exchange) => {
                let reason = exchange.progress.late_reason(self.now, limits);
                self.evict(|context| context.refuse(Refusal::new(reason)));
            }
            ConnectionState::Delay(_) => self.end_delay(),
            ConnectionState::Pattern { .. } => self.send_more_pattern(),
        }
    }

    /// Closes a client whose timeout has passed. Under pressure the rate of evictions is limited, and they are counted.
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
        if let ConnectionState::Delay(response) = std::mem::replace(&mut self.connection.state, ConnectionState::Idle) {
            self.respond(*response);
            self.continue_connection();
        }
    }

    fn send_more_pattern(&mut self) {
        let ConnectionState::Pattern { sent, length } = self.connection.state else { return };
        if self.connection.queue_is_long {
            return;
        }
        let http = &mut self.connection.http;
        let progress_of_send = send::send_pattern(sent, length, http, self.id, self.actions);
        self.advance(200, progress_of_send);
        self.continue_connection();
    }
}
