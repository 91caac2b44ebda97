//! The accept loop: its errors, and the backlog of a full shard.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use breme_base::Instant;
use breme_node::Node;
use breme_sys::ListeningSocket;
use rustix::io::Errno;

use crate::engine::Engine;
use crate::io_backend::IoBackend;

/// Pause of the accept loop after a shortage of file descriptors or memory: a retry at once would only take time from
/// open connections.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections accepted per listener and turn, before open connections are served.
pub(crate) const ACCEPTS_PER_TURN: usize = 64;

/// What to do after an error of `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptError {
    WouldBlock,
    /// The new connection failed; accept the next.
    Connection,
    /// File descriptors or memory are short; pause.
    Pause,
}

impl AcceptError {
    pub(crate) fn from_io(error: &io::Error) -> Self {
        if error.kind() == ErrorKind::WouldBlock {
            return Self::WouldBlock;
        }
        match Errno::from_io_error(error) {
            // Linux reports pending errors of the new connection (accept(2)).
            Some(
                Errno::CONNABORTED
                | Errno::INTR
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NETUNREACH
                | Errno::PERM,
            ) => Self::Connection,
            _ => Self::Pause,
        }
    }
}

/// The accept loop: passes connections to `handle` with the addresses of their peers, until `count_max` were tried or
/// `handle` returns false. Returns the error that ended it before; [`AcceptError::Connection`] does not.
pub(crate) fn accept_connections(
    listener: &ListeningSocket,
    count_max: usize,
    mut handle: impl FnMut(OwnedFd, Option<SocketAddr>) -> bool,
) -> Option<AcceptError> {
    for _ in 0..count_max {
        match listener.accept() {
            Ok((socket, peer)) => {
                if !handle(socket, peer) {
                    return None;
                }
            }
            Err(error) => match AcceptError::from_io(&error) {
                AcceptError::Connection => {}
                error => return Some(error),
            },
        }
    }
    None
}

/// How often the backlog of a full shard is checked: since it does not accept, the kernel reports no new connection.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Detects connections in the backlog of a shard that is at its connection limit. When to check next; None: below the
/// limit, and no connection was waiting.
#[derive(Debug, Default)]
pub(crate) struct BacklogCheck(Option<Instant>);

impl BacklogCheck {
    pub(crate) fn next_check(&self) -> Option<Instant> {
        self.0
    }

    /// Updates the node's pressure: high while connections wait that cannot be accepted. `is_closed`: there is no
    /// listener.
    pub(crate) fn check<N: Node, B: IoBackend>(
        &mut self,
        engine: &mut Engine<N, B>,
        is_closed: bool,
        has_waiting_connection: impl FnOnce() -> bool,
    ) {
        let has_capacity = engine.has_capacity() || is_closed;
        if has_capacity && !engine.is_under_pressure() {
            self.0 = None;
            return;
        }
        let now = engine.read_clock();
        if has_capacity || self.0.is_none_or(|next| next <= now) {
            self.0 = Some(now + CHECK_INTERVAL);
            engine.set_pressure(has_waiting_connection());
        }
    }
}

/// Whether a connection waits in the listener's backlog.
pub(crate) fn has_waiting(listener: &ListeningSocket) -> bool {
    // After a signal the next check decides.
    breme_sys::wait_until_readable(&listener.as_fd(), Duration::ZERO).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_pause_accepting() {
        let from = |errno: Errno| AcceptError::from_io(&errno.into());
        assert_eq!(from(Errno::AGAIN), AcceptError::WouldBlock);
        assert_eq!(from(Errno::CONNABORTED), AcceptError::Connection);
        for error in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::INVAL] {
            assert_eq!(from(error), AcceptError::Pause);
        }
    }
}
