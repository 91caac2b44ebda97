//! Driver settings with their defaults.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use breme_sys::uring::UringUnavailable;

use crate::tls::TlsClients;
use crate::unix_sockets::UnixSockets;

/// Limit of the new bytes in one call of the node, in bytes: a relay may exceed
/// [`DriverSettings::send_queue_high_bytes`] by as much.
pub const RECEIVE_CHUNK_BYTES_MAX: usize = 64 * 1024;

/// How a driver waits for its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// A pool of threads, each serving one accepted connection at a time.
    Threads,
    /// One thread per shard, serving many connections by readiness (epoll, kqueue).
    Events,
    /// One thread per shard, serving many connections by completion (io_uring, Linux).
    Uring,
}

impl fmt::Display for DriverKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Threads => "threads",
            Self::Events => "events",
            Self::Uring => "uring",
        })
    }
}

impl FromStr for DriverKind {
    type Err = UnknownDriver;

    fn from_str(name: &str) -> Result<Self, UnknownDriver> {
        match name {
            "threads" => Ok(Self::Threads),
            "events" => Ok(Self::Events),
            "uring" => Ok(Self::Uring),
            _ => Err(UnknownDriver(name.to_owned())),
        }
    }
}

/// The name is that of no driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no driver `{0}`: choose `uring`, `events` or `threads`")]
pub struct UnknownDriver(String);

/// The limits of a driver, per shard unless stated otherwise.
#[derive(Clone, Debug)]
pub struct DriverSettings {
    /// Shards of `events` and `uring`, each with its own thread; pool size of `threads`. At least one.
    pub threads: usize,
    /// Shard `i` is pinned to processor `cpus[i % cpus.len()]`; empty: not pinned.
    pub cpus: Vec<usize>,
    /// Connections per shard, accepted and opened. At the limit the shard stops accepting, new connections wait in the
    /// kernel's backlog, and the node is notified ([`handle_pressure`](breme_node::Node::handle_pressure)). Connections
    /// that the node opens count, but are never refused. For `threads` the pool size is the limit.
    pub connections_max: usize,
    /// Receive buffer per connection; the driver stops reading when it is full. Must exceed what the node needs in one
    /// piece.
    pub receive_bytes_max: usize,
    /// High-water mark of a connection's send queue: beyond it the node is notified
    /// ([`handle_sent`](breme_node::Node::handle_sent)) and nothing more of that connection is lent until the queue is
    /// empty. One chunk may exceed it ([`RECEIVE_CHUNK_BYTES_MAX`]).
    pub send_queue_high_bytes: u64,
    /// How long a graceful close lingers: it discards what the peer still sends (RFC 9112, 9.6).
    pub closing_timeout: Duration,
    /// How many bytes a graceful close discards; then the connection is dropped.
    pub closing_bytes_max: u64,
    /// How long [`Stopper::drain`](crate::Stopper::drain) waits before it drops remaining connections. Accepted ones
    /// whose node has not finished sending are reset, so that no response that is cut off looks complete.
    pub stopping_timeout: Duration,
    /// A connection whose send queue makes no progress for this long is dropped.
    pub send_timeout: Duration,
    /// Timeout of opening a connection, TLS handshake included
    /// ([`ConnectError::TimedOut`](breme_node::ConnectError::TimedOut)).
    pub connect_timeout: Duration,
    /// Busy-polls for this long before deadlines of nodes that need [precision](breme_node::Node::deadline_slack).
    /// Hides wake-up latency at the cost of CPU time.
    pub spin_before_deadline: Duration,
    /// Timeout of the TLS handshake of accepted connections.
    pub handshake_timeout: Duration,
    /// TLS clients by [`TlsClientId`](breme_node::TlsClientId).
    pub tls_clients: TlsClients,
    /// Unix sockets to which nodes connect.
    pub unix_sockets: UnixSockets,
    /// Lets [`start`](crate::start) use the driver `events` where rings for the driver `uring` cannot be created, as
    /// when the limit of locked memory is too low for all shards. It is called with the reason.
    pub events_fallback: Option<fn(&UringUnavailable)>,
    /// Backlog of each listening socket; also limited by `net.core.somaxconn`.
    pub backlog: u32,
}

impl Default for DriverSettings {
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
            unix_sockets: UnixSockets::default(),
            events_fallback: None,
            backlog: 4_096,
        }
    }
}

impl DriverSettings {
    pub(crate) fn shard_count(&self) -> usize {
        self.threads.max(1)
    }

    pub(crate) fn cpu_of(&self, shard_index: usize) -> Option<usize> {
        let place = shard_index.checked_rem(self.cpus.len())?;
        Some(self.cpus[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_kind_round_trips() {
        for kind in [DriverKind::Threads, DriverKind::Events, DriverKind::Uring] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let message = "fibers".parse::<DriverKind>().unwrap_err().to_string();
        assert!(message.contains("`fibers`") && message.contains("`events`"), "{message}");
    }

    #[test]
    fn cpus_are_assigned_round_robin() {
        let settings = DriverSettings { cpus: vec![4, 6], ..DriverSettings::default() };
        assert_eq!([0, 1, 2].map(|index| settings.cpu_of(index)), [Some(4), Some(6), Some(4)]);
        assert_eq!(DriverSettings::default().cpu_of(3), None);
    }
}
