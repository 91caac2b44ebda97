//! Sends responses: at once, in parts, or by echoing the request's content.

use std::time::Duration;

use breme_http::{Framing, Refusal};
use breme_node::Close;

use super::Context;
use crate::connection::{Connection, ConnectionState, ContentPlan, Echo};
use crate::response::Response;
use crate::send::{self, SendProgress};

impl Context<'_> {
    pub(super) fn respond(&mut self, response: Response) {
        self.announce_close();
        let status = response.status;
        let Connection { http, .. } = &mut *self.connection;
        let progress_of_send = send::begin(response, &self.shared.lines, self.date.text(), http, self.id, self.actions);
        self.advance(status, progress_of_send);
    }

    /// Announces `Connection: close` in the response to the last received request, if the client should leave.
    fn announce_close(&mut self) {
        if self.should_close() && !self.connection.has_pending {
            self.close_after_response();
        }
    }

    /// The server is stopping, or the client has had its turn under connection pressure.
    pub(super) fn should_close(&self) -> bool {
        self.is_stopping || self.pressure.should_close(self.connection.accepted, self.now)
    }

    fn close_after_response(&mut self) {
        let is_for_pressure = !self.is_stopping && !self.connection.http.will_close();
        if is_for_pressure && self.pressure.evict(self.now).is_ok() {
            self.counts.evicted.add();
            self.connection.is_evicted = true;
        }
        self.connection.http.close_after_response();
    }

    pub(super) fn advance(&mut self, status: u16, progress_of_send: SendProgress) {
        match progress_of_send {
            SendProgress::Complete { content_bytes } => self.finish(status, content_bytes),
            SendProgress::Pattern { sent, length } => {
                self.connection.state = ConnectionState::Pattern { sent, length };
                if !self.connection.queue_is_long {
                    // If the driver's queue is long, it reports that first.
                    self.set_deadline(self.now + Duration::from_nanos(1));
                }
            }
        }
    }

    pub(super) fn finish(&mut self, status: u16, content_bytes: u64) {
        self.connection.state = ConnectionState::Idle;
        self.content_bytes += content_bytes;
        self.response_count += 1;
        self.counts.count_response(status, self.connection.version.take());
        self.connection.has_pipelined = self.connection.has_pending;
    }

    pub(super) fn delay(&mut self, response: Response, delay: Duration) {
        self.connection.state = ConnectionState::Delay(Box::new(response));
        self.set_deadline(self.now + delay);
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.shared.counters.count_refusal(refusal.reason);
        if self.is_echo_begun() {
            // Only a reset distinguishes a truncated response from a complete one.
            return self.close(Close::Abort);
        }
        let out = self.actions.send(self.id);
        let length_before = out.len();
        self.connection.http.refuse(refusal, self.date.text(), out);
        if out.len() > length_before {
            self.counts.count_response(refusal.status, self.connection.version);
        }
        self.close(Close::Graceful);
    }

    pub(super) fn close(&mut self, how: Close) {
        self.connection.is_open = false;
        self.connection.state = ConnectionState::Idle;
        self.timers.clear(self.id.key());
        self.actions.close(self.id, how);
    }
}

/// Echoes a request's content.
impl Context<'_> {
    pub(super) fn echo(&mut self, echo: &mut Echo, bytes: &[u8]) {
        if !echo.has_begun {
            if echo.held.len() + bytes.len() <= self.shared.settings.echo_held_bytes_max {
                return echo.held.extend_from_slice(bytes);
            }
            self.begin_echo(echo);
        }
        self.echo_piece(echo.length, bytes);
    }

    fn begin_echo(&mut self, echo: &mut Echo) {
        if self.should_close() {
            self.close_after_response();
        }
        let framing = echo.length.map_or(Framing::Chunked, Framing::Length);
        let out = self.actions.send(self.id);
        let mut writer = self.connection.http.respond(200, framing, self.date.text(), out);
        writer.block(&echo.lines);
        // Echoed content that is too long to hold is never empty.
        let _ = writer.end();
        echo.has_begun = true;
        let held = std::mem::take(&mut echo.held);
        self.echo_piece(echo.length, &held);
    }

    fn echo_piece(&mut self, length: Option<u64>, bytes: &[u8]) {
        self.content_bytes += bytes.len() as u64;
        let out = self.actions.send(self.id);
        match length {
            Some(_) => out.extend_from_slice(bytes),
            None => self.connection.http.chunk(bytes, out),
        }
    }

    pub(super) fn end_echo(&mut self, echo: &Echo) {
        match echo.length {
            Some(_) => self.connection.http.content_sent(),
            None => self.connection.http.end_chunks(self.actions.send(self.id)),
        }
        self.finish(200, 0);
    }

    fn is_echo_begun(&self) -> bool {
        match &self.connection.state {
            ConnectionState::Content(exchange) => {
                matches!(&exchange.content_plan, ContentPlan::Echo(echo) if echo.has_begun)
            }
            _ => false,
        }
    }
}
