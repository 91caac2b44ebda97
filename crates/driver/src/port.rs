//! What an engine asks of the kernel's side of its driver.
//!
//! Where readiness is told, a new socket is registered once and the rest is done by calls on it. Where operations are
//! completed, they must be begun and ended as the connection's wishes change ([`Port::keep_in_step`]), and small sends
//! can leave together.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use breme_node::{CloseReason, ConnectionId};
use bytes::Bytes;

use crate::connection::Connection;
use crate::transport::Transport;

pub(crate) trait Port {
    /// Whether sends are gathered.
    const GATHERS: bool = false;

    /// A connection was accepted; it will have this id.
    fn accepted(&mut self, socket: OwnedFd, id: ConnectionId) -> io::Result<Transport>;

    /// Begins to open a connection, which will have this id.
    fn connect(&mut self, address: SocketAddr, id: ConnectionId) -> io::Result<Transport>;

    /// Ends what the kernel does for a connection, and closes it.
    fn close(&mut self, _id: ConnectionId, connection: Connection) {
        drop(connection);
    }

    /// Begins and ends operations so that they fit what the connection wants.
    fn keep_in_step(&mut self, _id: ConnectionId, _connection: &mut Connection, _receive_bytes_max: usize) {}

    /// Puts a send aside that is to leave with others. Returns whether it did.
    fn gather(&mut self, _id: ConnectionId, _connection: &mut Connection, _pieces: &[&[u8]]) -> bool {
        false
    }

    /// The same for one segment that is shared, and need not be copied.
    fn gather_shared(&mut self, _id: ConnectionId, _connection: &mut Connection, _segment: &Bytes) -> bool {
        false
    }

    /// Whether a send of this connection is among those that were gathered.
    fn has_gathered(&self, _connection: &Connection) -> bool {
        false
    }

    /// Whether what was gathered should leave.
    fn is_full(&self) -> bool {
        false
    }

    /// Lets everything leave that was gathered.
    fn submit(&mut self) {}

    /// What did not leave: the rest, or why nothing will.
    fn next_unsent(&mut self) -> Option<(ConnectionId, Result<Bytes, CloseReason>)> {
        None
    }
}
