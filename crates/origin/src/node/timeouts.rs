//! Deadlines of connections and of their requests.

use breme_http::Refusal;
use breme_node::Close;
use breme_server::NextStep;

use super::Context;
use crate::connection::{RequestStage, wait_for_content};
use crate::send;

impl Context<'_> {
    /// Sets the timeout after all received bytes were consumed.
    pub(super) fn wait_for_more(&mut self) {
        match &self.connection.state.stage {
            RequestStage::None => {
                let next = self.server.wait_for_more(self.now, self.connection, &self.site.settings.limits);
                self.perform(next);
            }
            RequestStage::Content(_) => wait_for_content(self.server, self.connection, &self.site.settings.limits),
            // These deadlines are not the client's.
            RequestStage::Delay(_) | RequestStage::Pattern { .. } => {}
        }
    }

    fn perform(&mut self, next: NextStep) {
        match next {
            NextStep::Wait => {}
            NextStep::Close => self.close(Close::Graceful),
            NextStep::Refuse(refusal) => self.refuse(refusal),
        }
    }

    /// After a response sent outside of [`Context::receive`]: continues with the next request.
    fn continue_connection(&mut self) {
        if !self.connection.state.is_blocked() {
            let limits = &self.site.settings.limits;
            let next = self.server.continue_connection(self.now, self.connection, limits, self.actions);
            self.perform(next);
        }
    }

    pub(super) fn handle_queue(&mut self, is_long: bool) {
        self.server.handle_queue(self.now, self.connection, is_long, &self.site.settings.limits);
        match &mut self.connection.state.stage {
            RequestStage::None | RequestStage::Delay(_) => {}
            // The driver closes a client that does not read.
            _ if is_long => self.server.timers.clear(self.connection.id.key()),
            RequestStage::Content(content) => {
                content.progress.exclude_pause(self.now);
                wait_for_content(self.server, self.connection, &self.site.settings.limits);
            }
            RequestStage::Pattern { .. } => self.send_more_pattern(),
        }
    }

    pub(super) fn handle_deadline(&mut self) {
        match &self.connection.state.stage {
            RequestStage::None => {
                let next = self.server.expire(self.now, self.connection, &self.counts.evicted);
                self.perform(next);
            }
            RequestStage::Content(content) => {
                let refusal = Refusal::new(content.progress.late_reason(self.now, &self.site.settings.limits));
                match self.server.evict(self.now, self.connection, &self.counts.evicted) {
                    Ok(()) => self.refuse(refusal),
                    Err(later) => self.server.timers.set(self.connection.id.key(), self.now + later),
                }
            }
            RequestStage::Delay(_) => self.end_delay(),
            RequestStage::Pattern { .. } => self.send_more_pattern(),
        }
    }

    fn end_delay(&mut self) {
        if let RequestStage::Delay(response) = self.take_stage() {
            self.respond(*response);
            self.continue_connection();
        }
    }

    fn send_more_pattern(&mut self) {
        let RequestStage::Pattern { sent, length } = self.connection.state.stage else { return };
        if self.connection.queue_is_long {
            return;
        }
        let (http, id) = (&mut self.connection.http, self.connection.id);
        let progress = send::send_pattern(sent, length, http, id, self.actions);
        self.advance(200, progress);
        self.continue_connection();
    }
}
