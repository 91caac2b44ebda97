//! The turn of an open connection: send the queue, receive, lend to the node.

use breme_base::Instant;
use breme_node::{ConnectionId, Node, Received};
use breme_sys::TimestampConverter;

use super::Engine;
use crate::connection::{Connection, ConnectionPhase, QueueLength, Receive};
use crate::io_backend::IoBackend;
use crate::socket::ReceiveResult;

/// Receives of a connection per turn, before other connections are served.
pub(super) const RECEIVES_PER_TURN: usize = 4;

/// What is lent after the retained bytes.
#[derive(Clone, Copy)]
pub(super) enum NewBytes<'a> {
    None,
    /// This many, in the receive buffer.
    Received(usize),
    /// Those of a completion.
    Delivered(&'a [u8]),
}

impl<N: Node, B: IoBackend> Engine<N, B> {
    pub(super) fn serve(&mut self, id: ConnectionId) {
        if self.is_exiting {
            return;
        }
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            ConnectionPhase::Open => self.serve_open(id),
            ConnectionPhase::Connecting(ticket) => self.serve_connecting(id, ticket),
            ConnectionPhase::Handshaking(initiator) => self.serve_handshaking(id, initiator),
            ConnectionPhase::Flushing { .. } | ConnectionPhase::Lingering { .. } => self.serve_closing(id),
            ConnectionPhase::Ended(_) => {}
        }
        self.update_interest(id);
        self.release_if_ended(id);
    }

    pub(super) fn serve_open(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_some() || connection.queue_length != QueueLength::Short {
            self.serve_queue(id);
        }
        self.relend_if_due(id);
        self.receive(id);
        self.send_pending(id);
        self.end_if_broken(id);
    }

    /// Sends records that TLS generated while receiving (tickets, key updates).
    fn send_pending(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_none() && connection.transport.pending_bytes() > 0 {
            connection.queue_pending();
            self.flush(id);
        }
    }

    /// Sends the queue, and notifies the node when it has become long or empty.
    pub(super) fn serve_queue(&mut self, id: ConnectionId) {
        self.notify_if_long(id);
        self.flush(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_some() {
            return self.mark_if_long(id);
        }
        connection.is_relend_due |= !connection.retained.is_empty();
        let was_notified = connection.queue_length == QueueLength::LongReported;
        connection.queue_length = QueueLength::Short;
        if was_notified && connection.phase == ConnectionPhase::Open && connection.failure.is_none() {
            self.notify_sent(id, 0);
        }
    }

    /// Stops lending from now on; the node is notified in the connection's next turn.
    pub(super) fn mark_if_long(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.queue_length == QueueLength::Short
            && connection.unsent_bytes() > self.settings.send_queue_high_bytes
        {
            connection.queue_length = QueueLength::Long;
            self.long_queues.push(id);
            self.schedule(id);
        }
    }

    /// Notifies the node before more is received, so that at most one chunk exceeds the limit.
    fn notify_long_queues(&mut self) {
        while let Some(id) = self.long_queues.pop() {
            self.notify_if_long(id);
        }
    }

    pub(super) fn notify_if_long(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.queue_length == QueueLength::Long
            && connection.failure.is_none()
        {
            connection.queue_length = QueueLength::LongReported;
            let unsent_bytes = connection.unsent_bytes();
            self.notify_sent(id, unsent_bytes);
        }
    }

    pub(super) fn notify_sent(&mut self, id: ConnectionId, unsent_bytes: u64) {
        if !self.is_exiting {
            self.read_clock();
            self.node.handle_sent(self.now, id, unsent_bytes, &mut self.actions);
            self.run_actions();
        }
    }

    pub(super) fn relend_if_due(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_relend_due && connection.may_lend() {
            connection.is_relend_due = false;
            if !connection.retained.is_empty() {
                self.lend(id, NewBytes::None);
            }
        }
    }

    pub(super) fn receive(&mut self, id: ConnectionId) {
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.table.get_mut(id) else { return };
            let wants_bytes =
                connection.phase == ConnectionPhase::Open && connection.wants_bytes(self.settings.receive_bytes_max);
            if !connection.is_readable || !wants_bytes || self.is_exiting {
                return;
            }
            if connection.transport.tls.is_some() {
                // Records that TLS generates (alerts, key updates) must follow those encrypted before.
                self.flush_batch(id);
            }
            let Some(connection) = self.table.get_mut(id) else { return };
            let limit = connection.free_bytes(self.settings.receive_bytes_max).min(connection.chunk_bytes_max());
            let buffer = &mut self.receive_buffer.memory()[..limit];
            match connection.transport.receive(buffer) {
                Ok(ReceiveResult::Bytes { count, is_all }) => {
                    connection.is_readable = !is_all || connection.has_hangup || connection.failure.is_some();
                    self.lend(id, NewBytes::Received(count));
                }
                Ok(ReceiveResult::End) => {
                    connection.has_ended = true;
                    connection.is_readable = false;
                    if connection.failure.is_some() {
                        return; // this end is not the peer's: the connection broke
                    }
                    self.lend(id, NewBytes::None);
                }
                Ok(ReceiveResult::Nothing) => connection.is_readable = false,
                Err(reason) => {
                    connection.is_readable = false;
                    // The earlier failure is the cause; TLS only sees a truncated stream.
                    connection.end(connection.failure.unwrap_or(reason));
                }
            }
        }
        self.schedule_if_readable(id);
    }

    pub(super) fn schedule_if_readable(&mut self, id: ConnectionId) {
        let receive_bytes_max = self.settings.receive_bytes_max;
        if let Some(connection) = self.table.get_mut(id)
            && connection.is_readable
            && connection.wants_bytes(receive_bytes_max)
        {
            self.schedule(id);
        }
    }

    /// Calls the node with retained and new bytes.
    pub(super) fn lend(&mut self, id: ConnectionId, fresh: NewBytes<'_>) {
        match fresh {
            NewBytes::None => self.lend_bytes(id, &[]),
            NewBytes::Delivered(bytes) => self.lend_bytes(id, bytes),
            NewBytes::Received(count) => {
                // Nothing is received while it is lent.
                let buffer = std::mem::take(&mut self.receive_buffer);
                self.lend_bytes(id, &buffer.0[..count]);
                self.receive_buffer = buffer;
            }
        }
        self.notify_long_queues();
    }

    fn lend_bytes(&mut self, id: ConnectionId, fresh: &[u8]) {
        if self.is_exiting {
            return;
        }
        self.read_clock();
        let Some(connection) = self.table.get_mut(id) else { return };
        let arrived_at = arrival_time(&mut self.timestamps, connection, self.now);
        let ended = connection.has_ended;
        if !fresh.is_empty() {
            self.control.counters(self.id).add_received(fresh.len());
            connection.count_received(fresh.len());
        }
        if connection.retained.is_empty() {
            let received = Received { bytes: fresh, ended, arrived_at };
            let taken = self.node.handle_received(self.now, id, received, &mut self.actions);
            connection.retained.extend_from_slice(fresh.get(taken..).unwrap_or_default());
            self.run_actions_on(fresh);
        } else {
            let mut lent = std::mem::take(&mut connection.retained);
            lent.extend_from_slice(fresh);
            let received = Received { bytes: &lent, ended, arrived_at };
            let taken = self.node.handle_received(self.now, id, received, &mut self.actions);
            if taken < lent.len() {
                connection.retained = lent.split_off(taken); // an empty rest would keep its memory
            }
            self.run_actions_on(&lent);
        }
    }

    /// A broken connection lives until the node has read what was received.
    pub(super) fn end_if_broken(&mut self, id: ConnectionId) {
        let receive_bytes_max = self.settings.receive_bytes_max;
        if let Some(connection) = self.table.get_mut(id)
            && let Some(reason) = connection.failure
            && connection.operations.receive == Receive::Idle
            && !(connection.is_readable && connection.wants_bytes(receive_bytes_max))
        {
            connection.end(reason);
        }
    }

    pub(super) fn flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_none() {
            return;
        }
        let has_progressed = connection.flush() > 0;
        self.control.counters(self.id).add_sent(connection.take_sent_bytes());
        self.handle_progress(id, has_progressed);
    }

    /// Updates timers and interest after an incomplete send or progress of the queue.
    pub(super) fn handle_progress(&mut self, id: ConnectionId, has_progressed: bool) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_none() {
            self.timers.clear(id.key());
            connection.finish_if_due();
        }
        if connection.queue.is_none() {
            return self.linger(id);
        }
        if has_progressed {
            self.timers.set(id.key(), self.now + self.settings.send_timeout);
        }
        self.schedule_reader_check();
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_writable {
            self.schedule(id);
        } else {
            self.update_interest(id);
        }
    }
}

/// Arrival time of the latest bytes: the kernel's timestamp, or now.
fn arrival_time(timestamps: &mut Option<TimestampConverter>, connection: &mut Connection, now: Instant) -> Instant {
    let Some(timestamps) = timestamps else { return now };
    let timestamp = connection.transport.socket.take_timestamp();
    timestamp.and_then(|timestamp| timestamps.instant_of(timestamp)).map_or(now, |arrived_at| arrived_at.min(now))
}
