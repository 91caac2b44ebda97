//! Small sends that leave together, where the port gathers them.
//!
//! The order of a connection's bytes is kept by one rule: it has at most one send among those that were gathered, and whatever else
//! concerns its sending lets them leave first. What did not leave is known when that returns, and is queued before anything else is
//! sent.

use std::ops::Range;

use breme_node::{Actions, ConnectionId, Node};

use super::Engine;
use crate::connection::{Phase, is_memory, memory};
use crate::port::Port;

/// Segments of a send that is put aside: a head and its content, and some to spare.
const PIECES_MAX: usize = 4;

impl<N: Node, P: Port> Engine<N, P> {
    /// Puts a send aside, to leave with those of other connections. A connection has at most one there: the one before must have
    /// [left](Self::send_gathered).
    pub(super) fn gather(&mut self, actions: &Actions, range: Range<usize>, id: ConnectionId) -> bool {
        if !P::GATHERS || range.len() > PIECES_MAX || !range.clone().all(|index| is_memory(actions, index)) {
            return false;
        }
        let mut pieces: [&[u8]; PIECES_MAX] = [&[]; PIECES_MAX];
        pieces.iter_mut().zip(range).for_each(|(piece, index)| *piece = memory(actions, index));
        let is_empty = pieces.iter().all(|piece| piece.is_empty());
        let Some(connection) = self.table.get_mut(id) else { return false };
        if is_empty || !connection.may_be_gathered() || !self.port.gather(id, connection, &pieces) {
            return false;
        }
        self.control.counters(self.id).add_sent(pieces.iter().map(|piece| piece.len()).sum());
        if self.port.is_full() {
            self.submit();
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

    /// What did not leave of the sends that were gathered waits like any other. To be called when the port has submitted,
    /// before anything else.
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
                    self.control.counters(self.id).take_back_sent(rest.len());
                    connection.wait_with(rest);
                    self.handle_progress(id, true);
                    self.note_if_long(id);
                }
            }
        }
    }
}
