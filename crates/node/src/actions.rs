//! The actions of a node: a log that its driver carries out in order after the call.

use std::fs::File;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::{ConnectTicket, ConnectionId, ShardId, TlsClientId};

/// Longer data is cheaper to share than to copy, as measured with shared segments. In bytes.
pub const COPIED_BYTES_MAX: usize = 2048;

/// The log of one or several calls. The driver owns and reuses it, so that a small response needs no allocation.
#[derive(Debug, Default)]
pub struct Actions {
    /// The bytes of all [`Action::Send`]s, concatenated.
    bytes: Vec<u8>,
    log: Vec<Action>,
}

/// What a driver carries out for a node; created by the methods of [`Actions`].
#[derive(Clone, Debug)]
pub enum Action {
    /// Send bytes of the log's buffer; see [`Actions::bytes`].
    Send(ConnectionId, SendRange),
    /// Send a shared segment.
    SendShared(ConnectionId, Bytes),
    /// Send a part of the bytes lent for this call, [`crate::Received::bytes`].
    SendReceived(ConnectionId, Range<usize>),
    /// Send a part of a file.
    SendFile(ConnectionId, FileRange),
    /// Half-close after everything sent before.
    Finish(ConnectionId),
    /// Close, gracefully or with a reset.
    Close(ConnectionId, Close),
    /// Stop reading this connection.
    Pause(ConnectionId),
    /// Read again, and lend untaken bytes again.
    Resume(ConnectionId),
    /// Open a connection.
    Connect(ConnectTicket, Endpoint),
    /// Begin TLS on a connection opened without it.
    StartTls(ConnectionId, ConnectTicket, TlsClientId),
    /// Call [`crate::Node::handle_woken`] of another shard's node.
    Wake(ShardId, u64),
    /// The node is done: drop open connections and return it.
    Exit,
}

/// For drivers: the log of a call, with the bytes lent for it.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    actions: &'a Actions,
    received: &'a [u8],
}

/// Where the bytes of an [`Action::Send`] begin in the buffer; they end where the next one's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRange {
    start: usize,
}

/// A part of a file, sent without passing through the node.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The open file. If it has become shorter than the range, the driver resets the connection.
    pub file: Arc<File>,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub length: u64,
}

/// How to close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Send what is queued, half-close, and discard what the peer still sends, within limits of time and amount, so
    /// that no reset destroys what was sent (RFC 9112, 9.6).
    Graceful,
    /// Reset at once; queued data is lost. (A Unix socket has no reset: its peer sees an end.)
    Abort,
}

/// The destination of a connection that a node opens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Endpoint {
    pub address: SocketAddr,
    /// The TLS client to use; None: without TLS.
    pub tls: Option<TlsClientId>,
}

impl Endpoint {
    #[must_use]
    pub const fn tcp(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    #[must_use]
    pub const fn tls(address: SocketAddr, client: TlsClientId) -> Self {
        Self { address, tls: Some(client) }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::tcp(address)
    }
}

impl Actions {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The buffer to append to for `connection`. **Only append**: it contains earlier sends.
    ///
    /// Consecutive appends for the same connection are one send.
    pub fn send(&mut self, connection: ConnectionId) -> &mut Vec<u8> {
        let continues = matches!(self.log.last(), Some(Action::Send(last, _)) if *last == connection);
        if !continues {
            self.log.push(Action::Send(connection, SendRange { start: self.bytes.len() }));
        }
        &mut self.bytes
    }

    /// Sends a shared segment without copying it. Up to [`COPIED_BYTES_MAX`], appending to [`Actions::send`] is
    /// cheaper.
    pub fn send_shared(&mut self, connection: ConnectionId, segment: Bytes) {
        if !segment.is_empty() {
            self.log.push(Action::SendShared(connection, segment));
        }
    }

    /// Sends bytes lent for this call: `part` of `received`, as the driver lent it. A short part, or one outside of
    /// `received`, is copied.
    pub fn send_received(&mut self, connection: ConnectionId, received: &[u8], part: &[u8]) {
        match place_in(received, part) {
            Some(range) if part.len() > COPIED_BYTES_MAX => self.log.push(Action::SendReceived(connection, range)),
            _ => self.send(connection).extend_from_slice(part),
        }
    }

    /// Sends a part of a file.
    pub fn send_file(&mut self, connection: ConnectionId, range: FileRange) {
        if range.length > 0 {
            self.log.push(Action::SendFile(connection, range));
        }
    }

    /// Half-closes after everything sent before.
    pub fn finish(&mut self, connection: ConnectionId) {
        self.log.push(Action::Finish(connection));
    }

    /// Closes; nothing more is lent of this connection.
    pub fn close(&mut self, connection: ConnectionId, how: Close) {
        self.log.push(Action::Close(connection, how));
    }

    /// Stops reading this connection until [`Actions::resume`].
    pub fn pause(&mut self, connection: ConnectionId) {
        self.log.push(Action::Pause(connection));
    }

    /// Ends a pause; also lets the driver lend untaken bytes again.
    pub fn resume(&mut self, connection: ConnectionId) {
        self.log.push(Action::Resume(connection));
    }

    /// Opens a connection; the result comes to [`crate::Node::handle_connected`] with `ticket`.
    pub fn connect(&mut self, ticket: ConnectTicket, endpoint: Endpoint) {
        self.log.push(Action::Connect(ticket, endpoint));
    }

    /// Begins TLS on a connection opened without it, after everything sent and received so far: at the end of a tunnel
    /// requested in the clear (RFC 9110, 9.3.6). The result comes to [`crate::Node::handle_connected`] with `ticket`;
    /// until then nothing may be sent. All received bytes must have been taken, since the rest would be no part of the
    /// handshake. If it fails, or the connection is closed before, the connection is closed, and that is reported as
    /// well.
    pub fn start_tls(&mut self, connection: ConnectionId, ticket: ConnectTicket, client: TlsClientId) {
        self.log.push(Action::StartTls(connection, ticket, client));
    }

    /// Calls [`crate::Node::handle_woken`] of the node of `shard`, on its thread.
    pub fn wake(&mut self, shard: ShardId, message: u64) {
        self.log.push(Action::Wake(shard, message));
    }

    /// Ends this node: its open connections are dropped.
    pub fn exit(&mut self) {
        self.log.push(Action::Exit);
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// For drivers: the number of actions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// For drivers: an action.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Action> {
        self.log.get(index)
    }

    /// For drivers: the bytes of the [`Action::Send`] at `index`; nothing for any other action.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &[u8] {
        let Some(Action::Send(_, SendRange { start })) = self.log.get(index) else {
            return &[];
        };
        let end = self.log[index + 1..].iter().find_map(|action| match action {
            Action::Send(_, SendRange { start }) => Some(*start),
            _ => None,
        });
        &self.bytes[*start..end.unwrap_or(self.bytes.len())]
    }

    /// For drivers: the log of a call for which `received` was lent.
    #[must_use]
    pub const fn with_received<'a>(&'a self, received: &'a [u8]) -> Log<'a> {
        Log { actions: self, received }
    }

    /// For drivers: clears the log and keeps up to `bytes_kept` of its memory.
    pub fn clear(&mut self, bytes_kept: usize) {
        self.log.clear();
        self.bytes.clear();
        self.bytes.shrink_to(bytes_kept);
    }
}

impl<'a> Log<'a> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a Action> {
        self.actions.get(index)
    }

    /// Whether the action at `index` sends bytes in memory.
    #[must_use]
    pub fn is_memory(&self, index: usize) -> bool {
        matches!(self.get(index), Some(Action::Send(..) | Action::SendShared(..) | Action::SendReceived(..)))
    }

    /// The bytes in memory that the action at `index` sends; empty for any other action.
    #[must_use]
    pub fn memory(&self, index: usize) -> &'a [u8] {
        match self.get(index) {
            Some(Action::SendShared(_, segment)) => segment,
            Some(Action::SendReceived(_, range)) => self.received.get(range.clone()).unwrap_or_default(),
            _ => self.actions.bytes(index),
        }
    }
}

/// The position of `part` in `whole`, if it is inside.
fn place_in(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_appends_are_one_send() {
        let (first, second) = (ConnectionId::new(0, 0), ConnectionId::new(1, 0));
        let mut actions = Actions::new();
        actions.send(first).extend_from_slice(b"one ");
        actions.send(first).extend_from_slice(b"send");
        actions.close(second, Close::Abort);
        actions.send(second).extend_from_slice(b"other");
        actions.send_shared(second, Bytes::new());
        assert_eq!(actions.len(), 3);
        assert_eq!(actions.bytes(0), b"one send");
        assert_eq!(actions.bytes(1), b"");
        assert_eq!(actions.bytes(2), b"other");
        actions.clear(0);
        assert!(actions.is_empty());
    }

    #[test]
    fn received_bytes_are_sent_without_copy() {
        let (connection, received) = (ConnectionId::new(0, 0), [7; 3 * COPIED_BYTES_MAX]);
        let elsewhere = received;
        let mut actions = Actions::new();
        actions.send(connection).extend_from_slice(b"head");
        actions.send_received(connection, &received, &received[9..9 + COPIED_BYTES_MAX + 1]);
        actions.send_received(connection, &received, &received[1..=COPIED_BYTES_MAX]);
        actions.send_received(connection, &received, &elsewhere);
        let log = actions.with_received(&received);
        assert_eq!(log.len(), 3);
        assert_eq!(log.memory(0), b"head");
        assert!(matches!(log.get(1), Some(Action::SendReceived(_, range)) if *range == (9..9 + COPIED_BYTES_MAX + 1)));
        assert_eq!(log.memory(1).as_ptr(), received[9..].as_ptr());
        assert_eq!(log.memory(2).len(), COPIED_BYTES_MAX + elsewhere.len());
        assert_eq!(actions.with_received(&[]).memory(1), b"");
    }
}
