//! What a kernel that works by completion brings: mostly bytes, which go straight on to the node.
//!
//! A session of TLS stands in the transport, and takes its bytes from the socket. Only a transport without one is
//! [clear](crate::transport::Transport::is_clear), so that bytes may pass by it; those of the others are kept in the
//! socket, and received from there as if the kernel had been asked.

use breme_node::{CloseReason, ConnectionId, Node};
use breme_sys::Stamp;

use super::Engine;
use super::serving::Fresh;
use crate::connection::{Phase, Receive};
use crate::port::Port;

/// What the kernel brings, where it brings things by itself.
#[derive(Clone, Copy)]
pub(crate) enum Arrival<'a> {
    /// And when they came, if that is known.
    Bytes(&'a [u8], Option<Stamp>),
    /// The peer has ended its sending.
    End,
    Failure(CloseReason),
    /// It was cancelled, or found no buffer.
    Nothing,
}

impl<N: Node, P: Port> Engine<N, P> {
    /// The kernel has brought something of a connection. `goes_on`: it will bring more.
    pub(crate) fn handle_arrival(&mut self, id: ConnectionId, arrival: Arrival<'_>, goes_on: bool) {
        let receive_bytes_max = self.settings.receive_bytes_max;
        let Some(connection) = self.table.get_mut(id) else { return };
        if !goes_on {
            connection.operations.receive = Receive::Idle;
        }
        match arrival {
            Arrival::Bytes(bytes, stamp) if connection.takes(bytes.len(), receive_bytes_max) => {
                connection.transport.socket.note_stamp(stamp);
                self.lend(id, Fresh::Brought(bytes));
            }
            Arrival::Bytes(bytes, stamp) => {
                connection.transport.socket.note_stamp(stamp);
                self.keep_arrival(id, bytes);
            }
            Arrival::End => {
                connection.transport.socket.keep_end();
                connection.is_readable = true;
                connection.is_end_near = true;
                self.serve(id);
            }
            Arrival::Failure(reason) => {
                connection.fail(reason);
                self.serve(id);
            }
            Arrival::Nothing => {}
        }
        if !goes_on {
            self.handle_receiving_over(id);
        }
    }

    /// Bytes that the node does not want now, or that are for nobody.
    pub(super) fn keep_arrival(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let is_closing = matches!(connection.phase, Phase::Flushing { .. } | Phase::Lingering { .. });
        if !is_closing || connection.transport.secured.is_some() {
            connection.transport.socket.keep(bytes);
            connection.is_readable = true;
        } else if connection.discard(bytes.len() as u64) > self.settings.closing_bytes_max {
            self.give_up_discarding(id);
        }
        self.serve(id);
    }

    /// The kernel brings no more by itself: it is asked again, or the connection is at its end.
    pub(super) fn handle_receiving_over(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.failure.is_some() {
            connection.transport.socket.ask_for_rest();
            connection.is_readable = true;
            self.serve(id);
        }
        self.keep_in_step(id);
    }
}
