//! The I/O that differs between the drivers, as the engine calls it.
//!
//! With readiness, a socket is registered once and the rest is system calls. With completions, operations start and end
//! as the connection's interest changes ([`IoBackend::update_interest`]), and small sends can be batched.

use std::io;
use std::os::fd::OwnedFd;

use breme_node::{CloseReason, ConnectionId};
use breme_sys::Address;
use bytes::Bytes;

use crate::connection::Connection;
use crate::transport::Transport;

pub(crate) trait IoBackend {
    /// Whether [`IoBackend::batch_send`] may take a send.
    const BATCHES_SENDS: bool = false;

    /// Registers an accepted socket. `id`: the connection's future id.
    fn accepted(&mut self, socket: OwnedFd, id: ConnectionId) -> io::Result<Transport>;

    /// Begins to connect. `id`: the connection's future id.
    fn connect(&mut self, address: &Address, id: ConnectionId) -> io::Result<Transport>;

    /// Cancels operations in flight, and closes the socket.
    fn close(&mut self, _id: ConnectionId, connection: Connection) {
        drop(connection);
    }

    /// Starts and cancels operations according to the connection's state.
    fn update_interest(&mut self, _id: ConnectionId, _connection: &mut Connection, _receive_bytes_max: usize) {}

    /// Adds a send to the batch. Returns whether it did.
    fn batch_send(&mut self, _id: ConnectionId, _connection: &mut Connection, _pieces: &[&[u8]]) -> bool {
        false
    }

    /// Likewise for one shared segment, without a copy.
    fn batch_shared_send(&mut self, _id: ConnectionId, _connection: &mut Connection, _segment: &Bytes) -> bool {
        false
    }

    /// Whether the batch contains a send of this connection.
    fn has_batched(&self, _connection: &Connection) -> bool {
        false
    }

    /// Whether the batch should be submitted.
    fn is_full(&self) -> bool {
        false
    }

    /// Submits the batch.
    fn submit(&mut self) {}

    /// The unsent rest of the last submission, or the error.
    fn next_unsent(&mut self) -> Option<(ConnectionId, Result<Bytes, CloseReason>)> {
        None
    }
}
