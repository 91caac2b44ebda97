//! Accepting: when it pauses, and what its errors mean. Both drivers use it.

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustix::io::Errno;

/// After a lack of descriptors or memory, nothing is accepted for so long: the lack is not over at once, and
/// asking again and again would take the time of the connections that there are.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What an error of `accept` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptFailure {
    /// There is no connection to accept.
    None,
    /// That one connection is lost; go on with the next.
    One,
    /// This machine lacks something; pause.
    Pause,
}

impl AcceptFailure {
    pub(crate) fn of(error: &io::Error) -> Self {
        if error.kind() == ErrorKind::WouldBlock {
            return Self::None;
        }
        match Errno::from_io_error(error) {
            // Linux hands over errors that the new connection already has (accept(2)).
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
            ) => Self::One,
            _ => Self::Pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_no_reason_to_pause_and_a_lack_is() {
        let of = |errno: Errno| AcceptFailure::of(&errno.into());
        assert_eq!(of(Errno::AGAIN), AcceptFailure::None);
        assert_eq!(of(Errno::CONNABORTED), AcceptFailure::One);
        for lack in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::INVAL] {
            assert_eq!(of(lack), AcceptFailure::Pause);
        }
    }
}
