//! How connections end: flushing, lingering, the last word to the node.

use breme_node::{CloseReason, ConnectError, ConnectionId, Node, PRESSURE_IDLE_TIMEOUT, PRESSURE_RATE_MIN, TlsFailure};

use super::Engine;
use super::serving::RECEIVES_PER_TURN;
use crate::connection::{Finish, Phase};
use crate::control::Counters;
use crate::port::Port;
use crate::socket::Receipt;

/// Bytes that a peer must send in [`PRESSURE_IDLE_TIMEOUT`] after the end of its connection, while others wait, to have
/// all of [`Settings::closing_timeout`](crate::Settings::closing_timeout).
const PRESSURE_CLOSING_BYTES: u64 = PRESSURE_RATE_MIN * PRESSURE_IDLE_TIMEOUT.as_millis() as u64 / 1_000;

impl<N: Node, P: Port> Engine<N, P> {
    pub(super) fn finish(&mut self, id: ConnectionId) {
        self.send_gathered(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.phase == Phase::Open && connection.finish == Finish::NotAsked {
            connection.finish = Finish::Asked;
            connection.finish_if_due();
            if connection.failure.is_some() {
                self.list(id);
            } else if connection.queue.is_some() {
                self.handle_progress(id, true);
            }
        }
    }

    pub(super) fn close(&mut self, id: ConnectionId) {
        self.send_gathered(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Open => connection.begin_closing(),
            Phase::Handshaking(opening) => return self.give_up_securing(id, opening),
            _ => return,
        }
        self.linger(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_readable || connection.failure.is_some() || matches!(connection.phase, Phase::Ended(_)) {
            self.list(id);
        }
        self.keep_in_step(id);
    }

    pub(super) fn abort(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if !matches!(connection.phase, Phase::Connecting(_) | Phase::Ended(_)) {
            connection.transport.reset_on_close();
            if let Phase::Handshaking(opening) = connection.phase {
                return self.give_up_securing(id, opening);
            }
            connection.end(CloseReason::Requested);
            self.list(id);
        }
    }

    /// Sends the rest, and reads what comes into nothing.
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
                Ok(Receipt::Bytes { count, is_all }) => {
                    connection.is_readable = !is_all || connection.is_end_near;
                    if connection.discard(count as u64) > self.settings.closing_bytes_max {
                        return self.give_up_discarding(id);
                    }
                }
                // Who has been told the end need not say it too.
                Ok(Receipt::End) | Err(CloseReason::Truncated) => {
                    connection.has_ended = true;
                    if let Phase::Lingering { .. } = connection.phase {
                        connection.end(CloseReason::Requested);
                    }
                }
                Ok(Receipt::Nothing) => connection.is_readable = false,
                Err(reason) => connection.end(reason),
            }
        }
        self.list(id);
    }

    /// The peer sends more than is worth reading. If all has left, that is the end; else it only stops being read.
    pub(super) fn give_up_discarding(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Lingering { .. } => {
                connection.end(CloseReason::Dropped);
                Counters::add(&self.counters().dropped);
            }
            _ => connection.has_ended = true,
        }
    }

    pub(super) fn linger(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.linger_if_flushed(self.pressure.is_high()) {
            let time = self.settings.closing_timeout;
            let time = if self.pressure.is_high() { time.min(PRESSURE_IDLE_TIMEOUT) } else { time };
            self.timers.set(id.key(), self.now + time);
        }
    }

    /// A peer that still sends, and not byte by byte, must not lose by a reset what it was told, also where others
    /// wait.
    pub(super) fn end_lingering(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let was_hurried = std::mem::take(&mut connection.is_hurried);
        if was_hurried && matches!(connection.phase, Phase::Lingering { discarded_bytes: PRESSURE_CLOSING_BYTES.. }) {
            return self.timers.set(id.key(), self.now + self.settings.closing_timeout);
        }
        connection.end(CloseReason::Dropped);
        Counters::add(&self.counters().dropped);
    }

    pub(super) fn release_if_ended(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && matches!(connection.phase, Phase::Ended(_))
        {
            self.read_clock();
            self.release(id);
            self.run_actions();
        }
    }

    /// Closes the socket and tells the node.
    pub(super) fn release(&mut self, id: ConnectionId) {
        self.timers.clear(id.key());
        let Some(connection) = self.table.remove(id) else { return };
        if let Phase::Ended(reason) = connection.phase {
            let is_known = connection.is_known;
            self.port.close(id, connection);
            self.counters().add_end(reason);
            if is_known {
                self.node.handle_closed(self.now, id, reason, &mut self.actions);
            }
        }
    }

    pub(super) fn drop_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Connecting(_) => return self.fail_connecting(id, ConnectError::TimedOut),
            Phase::Handshaking(_) => self.fail_handshaking(id, TlsFailure::TimedOut),
            Phase::Ended(_) => {}
            _ => {
                connection.end(CloseReason::Dropped);
                Counters::add(&self.counters().dropped);
            }
        }
        self.release_if_ended(id);
    }
}
