//! Batches: small sends submitted together, where the backend supports it.
//!
//! Order is kept by one rule: a connection has at most one send in the batch, and any other send on it submits the
//! batch first. What the kernel did not take is known on return, and queued before anything else is sent. The same rule
//! keeps TLS records in order.

use std::ops::Range;

use breme_node::{Action, CloseReason, ConnectionId, Log, Node};
use bytes::Bytes;

use super::Engine;
use crate::connection::ConnectionPhase;
use crate::io_backend::IoBackend;

/// Plaintext per batched send; with TLS overhead it must fit the backend's limit.
const BATCH_ENCRYPT_BYTES_MAX: usize = 15 * 1024;
/// Segments per batched send: head, body and some reserve.
const PIECES_MAX: usize = 4;

impl<N: Node, B: IoBackend> Engine<N, B> {
    /// Adds a send to the batch. Submit an earlier one of the connection [first](Self::flush_batch).
    pub(super) fn batch_send(&mut self, log: Log<'_>, range: Range<usize>, id: ConnectionId) -> bool {
        if !B::BATCHES_SENDS || range.len() > PIECES_MAX || !range.clone().all(|index| log.is_memory(index)) {
            return false;
        }
        let mut pieces: [&[u8]; PIECES_MAX] = [&[]; PIECES_MAX];
        pieces.iter_mut().zip(range.clone()).for_each(|(piece, index)| *piece = log.memory(index));
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let Some(connection) = self.table.get_mut(id) else { return false };
        if length == 0 || !connection.can_be_batched() {
            return false;
        }
        let is_taken = match connection.transport.tls {
            None => match shared(log, range) {
                Some(segment) => self.backend.batch_shared_send(id, connection, segment),
                None => self.backend.batch_send(id, connection, &pieces),
            },
            Some(_) if length > BATCH_ENCRYPT_BYTES_MAX => false,
            Some(_) => self.batch_encrypted(id, &pieces),
        };
        if !is_taken {
            return false;
        }
        self.control.counters(self.id).add_sent(length);
        if self.backend.is_full() {
            self.submit();
        }
        true
    }

    /// Encrypted records are in order and must be sent: with the batch, or queued.
    fn batch_encrypted(&mut self, id: ConnectionId, pieces: &[&[u8]]) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let Some(mut tls) = connection.transport.tls.take() else { return false };
        let gathered = tls.encrypt_detached(pieces, |encrypted| self.backend.batch_send(id, connection, &[encrypted]));
        connection.transport.tls = Some(tls);
        match gathered {
            Ok(true) => {}
            Ok(false) => {
                connection.queue_pending();
                self.flush(id);
            }
            Err(failure) => {
                connection.fail(CloseReason::Tls(failure));
                self.schedule(id);
            }
        }
        true
    }

    /// Submits the batch if it contains a send of this connection.
    pub(super) fn flush_batch(&mut self, id: ConnectionId) {
        if B::BATCHES_SENDS && self.table.get_mut(id).is_some_and(|connection| self.backend.has_batched(connection)) {
            self.submit();
        }
    }

    pub(super) fn submit(&mut self) {
        self.backend.submit();
        self.handle_unsent();
    }

    /// Queues what the last submission did not send. Call it after each submission, before anything else.
    pub(crate) fn handle_unsent(&mut self) {
        while let Some((id, unsent)) = self.backend.next_unsent() {
            let Some(connection) = self.table.get_mut(id) else { continue };
            if connection.phase != ConnectionPhase::Open {
                continue;
            }
            match unsent {
                Err(reason) => {
                    connection.fail(reason);
                    self.schedule(id);
                }
                Ok(rest) => {
                    self.control.counters(self.id).uncount_sent(connection.queue_unsent(rest));
                    self.handle_progress(id, true);
                    self.mark_if_long(id);
                }
            }
        }
    }
}

/// The segment, if the send is a single shared one.
fn shared(log: Log<'_>, range: Range<usize>) -> Option<&Bytes> {
    match log.get(range.start) {
        Some(Action::SendShared(_, segment)) if range.len() == 1 => Some(segment),
        _ => None,
    }
}
