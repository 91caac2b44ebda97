//! Sends responses: at once, in parts, or by echoing the request's content.

use std::time::Duration;

use breme_http::{Framing, Refusal};
use breme_node::Close;

use super::Context;
use crate::connection::{ContentPlan, Echo, RequestStage};
use crate::response::Response;
use crate::send::{self, SendProgress};

impl Context<'_> {
    pub(super) fn respond(&mut self, response: Response) {
        self.server.announce_close(self.now, self.connection, &self.counts.evicted);
        let status = response.status;
        let (http, id) = (&mut self.connection.http, self.connection.id);
        let progress = send::begin(response, &self.site.lines, self.date.text(), http, id, self.actions);
        self.advance(status, progress);
    }

    pub(super) fn advance(&mut self, status: u16, progress: SendProgress) {
        match progress {
            SendProgress::Complete { content_bytes } => self.finish(status, content_bytes),
            SendProgress::Pattern { sent, length } => {
                self.connection.state.stage = RequestStage::Pattern { sent, length };
                // If the driver's queue is long, it reports that first.
                if !self.connection.queue_is_long {
                    self.server.timers.set(self.connection.id.key(), self.now + Duration::from_nanos(1));
                }
            }
        }
    }

    pub(super) fn finish(&mut self, status: u16, content_bytes: u64) {
        self.connection.state.stage = RequestStage::None;
        self.content_bytes += content_bytes;
        self.response_count += 1;
        self.counts.count_response(status, self.connection.state.version.take());
        self.connection.state.has_pipelined = self.connection.has_pending;
    }

    pub(super) fn delay(&mut self, response: Response, delay: Duration) {
        self.connection.state.stage = RequestStage::Delay(Box::new(response));
        self.server.timers.set(self.connection.id.key(), self.now + delay);
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.site.counters.count_refusal(refusal.reason);
        if self.is_echo_begun() {
            // Only a reset distinguishes a truncated response from a complete one.
            return self.close(Close::Abort);
        }
        let out = self.actions.send(self.connection.id);
        if self.connection.http.refuse(refusal, self.date.text(), out).is_some() {
            self.counts.count_response(refusal.status, self.connection.state.version);
        }
        self.close(Close::Graceful);
    }

    pub(super) fn close(&mut self, how: Close) {
        self.connection.state.stage = RequestStage::None;
        self.server.close(self.connection, how, self.actions);
    }
}

/// Echoes a request's content.
impl Context<'_> {
    pub(super) fn echo(&mut self, echo: &mut Echo, bytes: &[u8]) {
        if !echo.has_begun {
            if echo.held.push(bytes, self.site.settings.echo_held_bytes_max) {
                return;
            }
            self.begin_echo(echo);
        }
        self.send_echoed(echo.length, bytes);
    }

    fn begin_echo(&mut self, echo: &mut Echo) {
        self.server.announce_close(self.now, self.connection, &self.counts.evicted);
        let framing = echo.length.map_or(Framing::Chunked, Framing::Length);
        let out = self.actions.send(self.connection.id);
        let mut writer = self.connection.http.respond(200, framing, self.date.text(), out);
        writer.block(&echo.lines);
        // Echoed content that is too long to hold is never empty.
        let _ = writer.end();
        echo.has_begun = true;
        // It still counts until the request's end, which the driver delivers when its queue is empty.
        let held = echo.held.take();
        self.send_echoed(echo.length, &held);
    }

    fn send_echoed(&mut self, length: Option<u64>, bytes: &[u8]) {
        self.content_bytes += bytes.len() as u64;
        let out = self.actions.send(self.connection.id);
        match length {
            Some(_) => out.extend_from_slice(bytes),
            None => self.connection.http.chunk(bytes, out),
        }
    }

    pub(super) fn end_echo(&mut self, echo: &Echo) {
        match echo.length {
            Some(_) => self.connection.http.content_sent(),
            None => self.connection.http.end_chunks(self.actions.send(self.connection.id)),
        }
        self.finish(200, 0);
    }

    fn is_echo_begun(&self) -> bool {
        match &self.connection.state.stage {
            RequestStage::Content(content) => {
                matches!(&content.content_plan, ContentPlan::Echo(echo) if echo.has_begun)
            }
            _ => false,
        }
    }
}
