//! Errors of `accept`, and when accepting pauses.

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustix::io::Errno;

/// Pause after a shortage of file descriptors or memory: retrying at once would only take time from open connections.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_no_reason_to_pause_and_a_lack_is() {
        let from = |errno: Errno| AcceptError::from_io(&errno.into());
        assert_eq!(from(Errno::AGAIN), AcceptError::WouldBlock);
        assert_eq!(from(Errno::CONNABORTED), AcceptError::Connection);
        for lack in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::INVAL] {
            assert_eq!(from(lack), AcceptError::Pause);
        }
    }
}
