//! Small sends that leave together, where the port gathers them.
//!
//! The order of a connection's bytes is kept by one rule: it has at most one send among those that were gathered, and
//! whatever else concerns its sending lets them leave first. What did not leave is known when that returns, and is
//! queued before anything else is sent. With TLS that is also the order of records: what a session says by itself
//! leaves behind what was sealed before it.

use std::ops::Range;

use breme_node::{Action, CloseReason, ConnectionId, Log, Node};
use bytes::Bytes;

use super::Engine;
use crate::connection::Phase;
use crate::port::Port;

/// Plaintext that is sealed to be put aside: with what sealing adds, it must fit into what the port takes.
const SEALED_BYTES_MAX: usize = 15 * 1024;
/// Segments of a send that is put aside: a head and its content, and some to spare.
const PIECES_MAX: usize = 4;

impl<N: Node, P: Port> Engine<N, P> {
    /// Puts a send aside, to leave with those of other connections. A connection has at most one there: the one before
    /// must have [left](Self::send_gathered).
    pub(super) fn gather(&mut self, log: Log<'_>, range: Range<usize>, id: ConnectionId) -> bool {
        if !P::GATHERS || range.len() > PIECES_MAX || !range.clone().all(|index| log.is_memory(index)) {
            return false;
        }
        let mut pieces: [&[u8]; PIECES_MAX] = [&[]; PIECES_MAX];
        pieces.iter_mut().zip(range.clone()).for_each(|(piece, index)| *piece = log.memory(index));
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let Some(connection) = self.table.get_mut(id) else { return false };
        if length == 0 || !connection.may_be_gathered() {
            return false;
        }
        let is_taken = match connection.transport.secured {
            None => match shared(log, range) {
                Some(segment) => self.port.gather_shared(id, connection, segment),
                None => self.port.gather(id, connection, &pieces),
            },
            Some(_) if length > SEALED_BYTES_MAX => false,
            Some(_) => self.gather_sealed(id, &pieces),
        };
        if !is_taken {
            return false;
        }
        self.control.counters(self.id).add_sent(length);
        if self.port.is_full() {
            self.submit();
        }
        true
    }

    /// What is sealed has its place in the order of records: it leaves, now or later.
    fn gather_sealed(&mut self, id: ConnectionId, pieces: &[&[u8]]) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let Some(mut secured) = connection.transport.secured.take() else { return false };
        let gathered = secured.seal_apart(pieces, |sealed| self.port.gather(id, connection, &[sealed]));
        connection.transport.secured = Some(secured);
        match gathered {
            Ok(true) => {}
            Ok(false) => {
                connection.queue_pending();
                self.flush(id);
            }
            Err(failure) => {
                connection.fail(CloseReason::Tls(failure));
                self.list(id);
            }
        }
        true
    }

    /// If the connection has a send among those that were gathered, they all leave now.
    pub(super) fn send_gathered(&mut self, id: ConnectionId) {
        if P::GATHERS && self.table.get_mut(id).is_some_and(|connection| self.port.has_gathered(connection)) {
            self.submit();
        }
    }

    pub(super) fn submit(&mut self) {
        self.port.submit();
        self.handle_unsent();
    }

    /// What did not leave of the sends that were gathered waits like any other. To be called when the port has
    /// submitted, before anything else.
    pub(crate) fn handle_unsent(&mut self) {
        while let Some((id, unsent)) = self.port.next_unsent() {
            let Some(connection) = self.table.get_mut(id) else { continue };
            if connection.phase != Phase::Open {
                continue;
            }
            match unsent {
                Err(reason) => {
                    connection.fail(reason);
                    self.list(id);
                }
                Ok(rest) => {
                    self.control.counters(self.id).take_back_sent(connection.wait_with(rest));
                    self.handle_progress(id, true);
                    self.note_if_long(id);
                }
            }
        }
    }
}

/// The one segment that is all of a send.
fn shared(log: Log<'_>, range: Range<usize>) -> Option<&Bytes> {
    match log.get(range.start) {
        Some(Action::SendShared(_, segment)) if range.len() == 1 => Some(segment),
        _ => None,
    }
}
