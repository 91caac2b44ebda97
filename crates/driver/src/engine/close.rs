//! Closing: flushing, lingering, and notifying the node.

use breme_node::{CloseReason, ConnectError, ConnectionId, Node, PRESSURE_IDLE_TIMEOUT, PRESSURE_RATE_MIN, TlsFailure};

use super::Engine;
use super::turn::RECEIVES_PER_TURN;
use crate::connection::{Connection, ConnectionPhase, WriteShutdown};
use crate::counters::LiveCounters;
use crate::io_backend::IoBackend;
use crate::socket::ReceiveResult;

/// Bytes a peer must send in [`PRESSURE_IDLE_TIMEOUT`] while lingering under pressure to get the full
/// [`closing_timeout`](crate::DriverSettings::closing_timeout).
const PRESSURE_CLOSING_BYTES: u64 = PRESSURE_RATE_MIN * PRESSURE_IDLE_TIMEOUT.as_millis() as u64 / 1_000;

impl<N: Node, B: IoBackend> Engine<N, B> {
    pub(super) fn finish(&mut self, id: ConnectionId) {
        self.flush_batch(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.phase == ConnectionPhase::Open && connection.finish == WriteShutdown::No {
            connection.finish = WriteShutdown::Requested;
            connection.finish_if_due();
            if connection.failure.is_some() {
                self.schedule(id);
            } else if connection.queue.is_some() {
                self.handle_progress(id, true);
            }
        }
    }

    pub(super) fn close(&mut self, id: ConnectionId) {
        self.flush_batch(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            ConnectionPhase::Open => connection.begin_closing(),
            ConnectionPhase::Handshaking(initiator) => return self.abort_handshake(id, initiator),
            _ => return,
        }
        self.linger(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_readable
            || connection.failure.is_some()
            || matches!(connection.phase, ConnectionPhase::Ended(_))
        {
            self.schedule(id);
        }
        self.update_interest(id);
    }

    pub(super) fn abort(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if !matches!(connection.phase, ConnectionPhase::Connecting(_) | ConnectionPhase::Ended(_)) {
            connection.transport.reset_on_close();
            if let ConnectionPhase::Handshaking(initiator) = connection.phase {
                return self.abort_handshake(id, initiator);
            }
            connection.end(CloseReason::Requested);
            self.schedule(id);
        }
    }

    /// Sends the queue and discards what is received.
    pub(super) fn serve_closing(&mut self, id: ConnectionId) {
        self.flush(id);
        self.discard(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if let Some(reason) = connection.failure {
            connection.end(reason);
        }
    }

    pub(super) fn discard(&mut self, id: ConnectionId) {
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.table.get_mut(id) else { return };
            if !connection.is_readable || !connection.wants_bytes(0) {
                return;
            }
            match connection.transport.receive(self.receive_buffer.memory()) {
                Ok(ReceiveResult::Bytes { count, is_all }) => {
                    connection.is_readable = !is_all || connection.has_hangup;
                    if connection.discard(count as u64) > self.settings.closing_bytes_max {
                        return self.stop_discarding(id);
                    }
                }
                // The peer may close without close_notify after ours.
                Ok(ReceiveResult::End) | Err(CloseReason::Truncated) => {
                    connection.has_ended = true;
                    if let ConnectionPhase::Lingering { .. } = connection.phase {
                        connection.end(CloseReason::Requested);
                    }
                }
                Ok(ReceiveResult::Nothing) => connection.is_readable = false,
                Err(reason) => connection.end(reason),
            }
        }
        self.schedule(id);
    }

    /// The peer sends too much to discard: close if everything is sent, else stop reading.
    pub(super) fn stop_discarding(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            ConnectionPhase::Lingering { .. } => {
                connection.end(CloseReason::Dropped);
                LiveCounters::add(&self.counters().dropped);
            }
            _ => connection.has_ended = true,
        }
    }

    pub(super) fn linger(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.linger_if_flushed() {
            self.limit_lingering(id);
        }
    }

    /// Sets the deadline of a connection that begins to linger.
    pub(super) fn limit_lingering(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.has_short_deadline = self.pressure.is_high();
        let time = self.settings.closing_timeout;
        let time = if connection.has_short_deadline { time.min(PRESSURE_IDLE_TIMEOUT) } else { time };
        self.timers.set(id.key(), self.now + time);
    }

    /// Under new pressure: connections that linger already have little time left, unless their peers have sent enough
    /// to get the full timeout.
    pub(super) fn shorten_lingering(&mut self) {
        let until = self.now + PRESSURE_IDLE_TIMEOUT;
        for (id, connection) in self.table.iter_mut() {
            let is_later = self.timers.deadline(id.key()).is_none_or(|deadline| deadline > until);
            if connection.is_lingering() && is_later && !has_sent_much(connection) {
                connection.has_short_deadline = true;
                self.timers.set(id.key(), until);
            }
        }
    }

    /// A peer that still sends at a reasonable rate gets the full timeout even under pressure: a reset could destroy
    /// the response.
    pub(super) fn end_lingering(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let had_short_deadline = std::mem::take(&mut connection.has_short_deadline);
        if had_short_deadline && has_sent_much(connection) {
            return self.timers.set(id.key(), self.now + self.settings.closing_timeout);
        }
        connection.end(CloseReason::Dropped);
        LiveCounters::add(&self.counters().dropped);
    }

    pub(super) fn release_if_ended(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && matches!(connection.phase, ConnectionPhase::Ended(_))
        {
            self.read_clock();
            self.release(id);
            self.run_actions();
        }
    }

    pub(super) fn release(&mut self, id: ConnectionId) {
        self.timers.clear(id.key());
        let Some(connection) = self.table.remove(id) else { return };
        if let ConnectionPhase::Ended(reason) = connection.phase {
            let is_reported = connection.is_reported;
            self.backend.close(id, connection);
            self.counters().add_end(reason);
            if is_reported {
                self.node.handle_closed(self.now, id, reason, &mut self.actions);
            }
        }
    }

    /// At the end of a drain a response that is cut off must not look complete, so it ends with a reset.
    pub(super) fn drop_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            ConnectionPhase::Connecting(_) => return self.fail_connecting(id, ConnectError::TimedOut),
            ConnectionPhase::Handshaking(_) => self.fail_handshaking(id, TlsFailure::TimedOut),
            ConnectionPhase::Ended(_) => {}
            _ => {
                if self.stop_deadline.is_some() && !self.has_exited && connection.may_be_answering() {
                    connection.transport.reset_on_close();
                }
                connection.end(CloseReason::Dropped);
                LiveCounters::add(&self.counters().dropped);
            }
        }
        self.release_if_ended(id);
    }
}

const fn has_sent_much(lingering: &Connection) -> bool {
    matches!(lingering.phase, ConnectionPhase::Lingering { discarded_bytes: PRESSURE_CLOSING_BYTES.. })
}
