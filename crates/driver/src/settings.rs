//! What a user may choose, each bound with its name and its default.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::tls::TlsClients;

/// Which driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A pool of threads, each of which serves one accepted connection at a time.
    Threads,
    /// One thread per shard, each of which serves many connections by readiness (epoll, kqueue).
    Events,
    /// One thread per shard, each of which serves many connections by completion (io_uring, Linux).
    Uring,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Threads => "threads",
            Self::Events => "events",
            Self::Uring => "uring",
        })
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        match name {
            "threads" => Ok(Self::Threads),
            "events" => Ok(Self::Events),
            "uring" => Ok(Self::Uring),
            _ => Err(UnknownKind(name.to_owned())),
        }
    }
}

/// No driver has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "there is no driver `{}`: choose `uring`, `events` or `threads`", self.0)
    }
}

impl std::error::Error for UnknownKind {}

/// The bounds of a driver, for each of its shards where not said otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shards of `events` and `uring`, each with a thread of its own; size of the pool of `threads`. At least one is
    /// started.
    pub threads: usize,
    /// Shard `i` runs on processor `cpus[i % cpus.len()]` only; empty: where the scheduler puts it.
    pub cpus: Vec<usize>,
    /// Connections that one shard holds, in both directions; past it the shard stops accepting, new ones wait in the
    /// kernel's backlog, and the node is told so ([`handle_pressure`](breme_node::Node::handle_pressure)). Connections
    /// that the node opens are counted, but never refused. For `threads` the size of the pool is the bound.
    pub connections_max: usize,
    /// Bytes of one connection that the node has not taken; from there on the driver reads no more of it. It must be
    /// more than what the node may want to see in one piece.
    pub receive_bytes_max: usize,
    /// Length of a connection's send queue past which the node is told ([`handle_sent`](breme_node::Node::handle_sent))
    /// and nothing more of that connection is lent until the queue is empty. What one receipt brings may still be sent
    /// beyond it ([`RECEIPT_BYTES_MAX`](crate::RECEIPT_BYTES_MAX)).
    pub send_queue_high_bytes: u64,
    /// A graceful close reads the peer's rest into nothing for so long (RFC 9112, 9.6).
    pub closing_timeout: Duration,
    /// … and so many bytes of it.
    pub closing_bytes_max: u64,
    /// After [`Stopper::drain`](crate::Stopper::drain), connections that are left are dropped when this time has
    /// passed.
    pub stopping_timeout: Duration,
    /// A connection whose send queue makes no progress for so long is dropped.
    pub send_timeout: Duration,
    /// A connection that the node opens fails with [`TimedOut`](breme_node::ConnectError::TimedOut) after so long, and
    /// so does its handshake, which has what connecting has left of this time.
    pub connect_timeout: Duration,
    /// For a node that asks for [exact deadlines](breme_node::Node::deadline_slack): so long before one the driver no
    /// longer sleeps but asks again and again. It makes up for the time that waking takes, and costs that much of a
    /// processor.
    pub spin_before_deadline: Duration,
    /// An accepted connection is dropped if its handshake of TLS is not done after so long.
    pub handshake_timeout: Duration,
    /// The clients of TLS that nodes may name ([`TlsClientId`](breme_node::TlsClientId)), by their place.
    pub tls_clients: TlsClients,
    /// Connections that wait in the kernel to be accepted, for each listening socket. The kernel has its own limit
    /// (`net.core.somaxconn`).
    pub backlog: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: breme_sys::parallelism(),
            cpus: Vec::new(),
            connections_max: 16_384,
            receive_bytes_max: 256 * 1024,
            send_queue_high_bytes: 256 * 1024,
            closing_timeout: Duration::from_secs(5),
            closing_bytes_max: 16 * 1024 * 1024,
            stopping_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            spin_before_deadline: Duration::ZERO,
            handshake_timeout: Duration::from_secs(10),
            tls_clients: TlsClients::default(),
            backlog: 4_096,
        }
    }
}

impl Settings {
    /// How many shards there are.
    pub(crate) fn shard_count(&self) -> usize {
        self.threads.max(1)
    }

    /// The processor of a shard, if it is to be pinned.
    pub(crate) fn cpu_of(&self, shard_index: usize) -> Option<usize> {
        let place = shard_index.checked_rem(self.cpus.len())?;
        Some(self.cpus[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for kind in [Kind::Threads, Kind::Events, Kind::Uring] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let message = "fibers".parse::<Kind>().unwrap_err().to_string();
        assert!(message.contains("`fibers`") && message.contains("`events`"), "{message}");
    }

    #[test]
    fn processors_are_dealt_in_turn() {
        let settings = Settings { cpus: vec![4, 6], ..Settings::default() };
        assert_eq!([0, 1, 2].map(|index| settings.cpu_of(index)), [Some(4), Some(6), Some(4)]);
        assert_eq!(Settings::default().cpu_of(3), None);
    }
}
