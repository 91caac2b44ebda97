//! One connection's turn while it is open: what waits leaves, what has come is lent.

use breme_base::Instant;
use breme_node::{ConnectionId, Node, Received};
use breme_sys::Stamps;

use super::Engine;
use crate::connection::{Connection, Phase, QueueLength, Receive};
use crate::port::Port;
use crate::socket::Receipt;

/// Receipts of one connection before the others have their turn.
pub(super) const RECEIVES_PER_TURN: usize = 4;

/// Bytes that the node has not seen.
#[derive(Clone, Copy)]
pub(super) enum Fresh<'a> {
    None,
    /// So many in the receive buffer.
    Received(usize),
    Brought(&'a [u8]),
}

impl<N: Node, P: Port> Engine<N, P> {
    pub(super) fn serve(&mut self, id: ConnectionId) {
        if self.is_exiting {
            return;
        }
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Open => self.serve_open(id),
            Phase::Connecting(ticket) => self.serve_connecting(id, ticket),
            Phase::Handshaking(opening) => self.serve_handshaking(id, opening),
            Phase::Flushing { .. } | Phase::Lingering { .. } => self.serve_closing(id),
            Phase::Ended(_) => {}
        }
        self.keep_in_step(id);
        self.release_if_ended(id);
    }

    pub(super) fn serve_open(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_some() || connection.length != QueueLength::Short {
            self.serve_queue(id);
        }
        self.relend_if_due(id);
        self.receive(id);
        self.send_pending(id);
        self.end_if_broken(id);
    }

    /// What receiving has left to be sent, a ticket or an answer to a change of keys, and what has not left with
    /// anything of the node's.
    fn send_pending(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_none() && connection.transport.pending_bytes() > 0 {
            connection.queue_pending();
            self.flush(id);
        }
    }

    /// Sends what waits, and tells the node when the queue became long or empty.
    pub(super) fn serve_queue(&mut self, id: ConnectionId) {
        self.tell_if_long(id);
        self.flush(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_some() {
            return self.note_if_long(id);
        }
        connection.is_relend_due |= !connection.retained.is_empty();
        let was_told = connection.length == QueueLength::LongAndTold;
        connection.length = QueueLength::Short;
        if was_told && connection.phase == Phase::Open && connection.failure.is_none() {
            self.tell_sent(id, 0);
        }
    }

    /// From the moment at which the queue is long nothing more is lent; the node is told in the connection's next turn.
    pub(super) fn note_if_long(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.length == QueueLength::Short
            && connection.unsent_bytes() > self.settings.send_queue_high_bytes
        {
            connection.length = QueueLength::Long;
            self.lengthened.push(id);
            self.list(id);
        }
    }

    /// What the node has just sent may be more than a peer takes. It is told so before more is received, so that no
    /// more than one receipt waits beyond the bound.
    fn tell_of_long_queues(&mut self) {
        while let Some(id) = self.lengthened.pop() {
            self.tell_if_long(id);
        }
    }

    pub(super) fn tell_if_long(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.length == QueueLength::Long
            && connection.failure.is_none()
        {
            connection.length = QueueLength::LongAndTold;
            let unsent_bytes = connection.unsent_bytes();
            self.tell_sent(id, unsent_bytes);
        }
    }

    pub(super) fn tell_sent(&mut self, id: ConnectionId, unsent_bytes: u64) {
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
                self.lend(id, Fresh::None);
            }
        }
    }

    pub(super) fn receive(&mut self, id: ConnectionId) {
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.table.get_mut(id) else { return };
            let wants_bytes =
                connection.phase == Phase::Open && connection.wants_bytes(self.settings.receive_bytes_max);
            if !connection.is_readable || !wants_bytes || self.is_exiting {
                return;
            }
            if connection.transport.secured.is_some() {
                // What a session answers by itself (an alert, new keys) comes behind what was sealed before.
                self.send_gathered(id);
            }
            let Some(connection) = self.table.get_mut(id) else { return };
            let limit = connection.room(self.settings.receive_bytes_max).min(connection.receipt_bytes_max());
            let buffer = &mut self.receive_buffer.memory()[..limit];
            match connection.transport.receive(buffer) {
                Ok(Receipt::Bytes { count, is_all }) => {
                    connection.is_readable = !is_all || connection.is_end_near || connection.failure.is_some();
                    self.lend(id, Fresh::Received(count));
                }
                Ok(Receipt::End) => {
                    connection.has_ended = true;
                    connection.is_readable = false;
                    if connection.failure.is_some() {
                        return; // this end is not the peer's: the connection broke
                    }
                    self.lend(id, Fresh::None);
                }
                Ok(Receipt::Nothing) => connection.is_readable = false,
                Err(reason) => {
                    connection.is_readable = false;
                    // What broke it came first; a session only sees that its bytes have ended.
                    connection.end(connection.failure.unwrap_or(reason));
                }
            }
        }
        self.list_if_readable(id);
    }

    pub(super) fn list_if_readable(&mut self, id: ConnectionId) {
        let receive_bytes_max = self.settings.receive_bytes_max;
        if let Some(connection) = self.table.get_mut(id)
            && connection.is_readable
            && connection.wants_bytes(receive_bytes_max)
        {
            self.list(id);
        }
    }

    /// Shows the node what it has not taken and what is fresh.
    pub(super) fn lend(&mut self, id: ConnectionId, fresh: Fresh<'_>) {
        match fresh {
            Fresh::None => self.lend_bytes(id, &[]),
            Fresh::Brought(bytes) => self.lend_bytes(id, bytes),
            Fresh::Received(count) => {
                // Nothing is received while what was is lent and sent on.
                let buffer = std::mem::take(&mut self.receive_buffer);
                self.lend_bytes(id, &buffer.0[..count]);
                self.receive_buffer = buffer;
            }
        }
        self.tell_of_long_queues();
    }

    fn lend_bytes(&mut self, id: ConnectionId, fresh: &[u8]) {
        if self.is_exiting {
            return;
        }
        self.read_clock();
        let Some(connection) = self.table.get_mut(id) else { return };
        let came = came(&mut self.stamps, connection, self.now);
        let ended = connection.has_ended;
        if !fresh.is_empty() {
            self.control.counters(self.id).add_received(fresh.len());
            connection.note_received(fresh.len());
        }
        if connection.retained.is_empty() {
            let received = Received { bytes: fresh, ended, came };
            let taken = self.node.handle_received(self.now, id, received, &mut self.actions);
            connection.retained.extend_from_slice(fresh.get(taken..).unwrap_or_default());
            self.run_actions_on(fresh);
        } else {
            let mut lent = std::mem::take(&mut connection.retained);
            lent.extend_from_slice(fresh);
            let received = Received { bytes: &lent, ended, came };
            let taken = self.node.handle_received(self.now, id, received, &mut self.actions);
            if taken < lent.len() {
                connection.retained = lent.split_off(taken); // an empty rest would keep its memory
            }
            self.run_actions_on(&lent);
        }
    }

    /// A broken connection lives only as long as there is something to read that the node wants.
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
        self.control.counters(self.id).add_sent(connection.take_left_bytes());
        self.handle_progress(id, has_progressed);
    }

    /// What follows from a send that did not leave at once, or from the leaving of what waited.
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
        self.note_queue();
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_writable {
            self.list(id);
        } else {
            self.keep_in_step(id);
        }
    }
}

/// When the latest bytes of a connection came: by the kernel's word, or now.
fn came(stamps: &mut Option<Stamps>, connection: &mut Connection, now: Instant) -> Instant {
    let Some(stamps) = stamps else { return now };
    let stamp = connection.transport.socket.take_stamp();
    stamp.and_then(|stamp| stamps.instant_of(stamp)).map_or(now, |came| came.min(now))
}
