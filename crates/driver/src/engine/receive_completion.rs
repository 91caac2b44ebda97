//! Completed receives of io_uring, whose bytes are lent to the node directly.
//!
//! With TLS, the transport reads its bytes from the socket, so they are buffered there and then received as with system
//! calls. Only a transport [without TLS](crate::transport::Transport::is_passthrough) is bypassed.

use breme_node::{CloseReason, ConnectionId, Node};
use breme_sys::ReceiveTimestamp;

use super::Engine;
use super::turn::NewBytes;
use crate::connection::{ConnectionPhase, Receive};
use crate::io_backend::IoBackend;

/// The result of a receive in flight.
#[derive(Clone, Copy)]
pub(crate) enum ReceiveCompletion<'a> {
    /// With their arrival time, if known.
    Bytes(&'a [u8], Option<ReceiveTimestamp>),
    /// The peer closed its side.
    End,
    Failure(CloseReason),
    /// Cancelled, or no buffer was free.
    Nothing,
}

impl<N: Node, B: IoBackend> Engine<N, B> {
    /// `has_more`: the operation stays in flight (multishot).
    pub(crate) fn handle_receive_completion(
        &mut self,
        id: ConnectionId,
        completion: ReceiveCompletion<'_>,
        has_more: bool,
    ) {
        let receive_bytes_max = self.settings.receive_bytes_max;
        let Some(connection) = self.table.get_mut(id) else { return };
        if !has_more {
            connection.operations.receive = Receive::Idle;
        }
        match completion {
            ReceiveCompletion::Bytes(bytes, timestamp)
                if connection.accepts_directly(bytes.len(), receive_bytes_max) =>
            {
                connection.transport.socket.set_timestamp(timestamp);
                self.lend(id, NewBytes::Delivered(bytes));
            }
            ReceiveCompletion::Bytes(bytes, timestamp) => {
                connection.transport.socket.set_timestamp(timestamp);
                self.buffer_received(id, bytes);
            }
            ReceiveCompletion::End => {
                connection.transport.socket.buffer_end();
                connection.is_readable = true;
                connection.has_hangup = true;
                self.serve(id);
            }
            ReceiveCompletion::Failure(reason) => {
                connection.fail(reason);
                self.serve(id);
            }
            ReceiveCompletion::Nothing => {}
        }
        if !has_more {
            self.handle_receive_ended(id);
        }
    }

    /// Buffers bytes that the node does not take now, or discards them after close.
    pub(super) fn buffer_received(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let is_closing =
            matches!(connection.phase, ConnectionPhase::Flushing { .. } | ConnectionPhase::Lingering { .. });
        if !is_closing || connection.transport.tls.is_some() {
            connection.transport.socket.buffer(bytes);
            connection.is_readable = true;
        } else if connection.discard(bytes.len() as u64) > self.settings.closing_bytes_max {
            self.stop_discarding(id);
        }
        self.serve(id);
    }

    /// The operation ended: start a new one, or close the connection.
    pub(super) fn handle_receive_ended(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.failure.is_some() {
            connection.transport.socket.switch_to_syscalls();
            connection.is_readable = true;
            self.serve(id);
        }
        self.update_interest(id);
    }
}
