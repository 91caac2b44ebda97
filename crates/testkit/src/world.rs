//! The interface between the suite and a driver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_node::{Endpoint, Node, Shard};

/// Runs a server and a client against each other.
///
/// Keep it small: all assertions are in the suite.
pub trait World {
    /// For messages: `threads`, `events`, `sim with seed 7`.
    fn name(&self) -> String;

    fn limits(&self) -> WorldLimits;

    /// Runs a server, and a client that gets its address.
    ///
    /// 1. Starts `shape.server_shards` server nodes behind **one** listener (`ListenerId(0)`); a driver that serves one
    ///    connection per thread starts at least `shape.connections`.
    /// 2. Starts `shape.client_shards` client nodes, without listeners, and waits until each of them has exited. They
    ///    bound their own time.
    /// 3. Stops the server (unless [`Surroundings::stop_server`] has done it already) and waits for its end.
    /// 4. Returns all nodes.
    fn run<S, C>(
        &self,
        shape: NodeCounts,
        server: impl Fn(Shard) -> S + Send + Sync + 'static,
        client: impl Fn(Shard, &Surroundings) -> C + Send + Sync + 'static,
    ) -> Played<S, C>
    where
        S: Node + Send + 'static,
        C: Node + Send + 'static;
}

/// Limits that the cases adapt to.
#[derive(Clone, Copy, Debug)]
pub struct WorldLimits {
    /// Most bytes lent in one call.
    pub lent_bytes_max: usize,
    /// More than fits in all buffers between two nodes, so that a sender gets a long queue. 32 MiB on real sockets.
    pub bulk_bytes: u64,
    /// Timeout of scripts, in the world's time. Passing cases never wait for it.
    pub patience: Duration,
    /// An abort reaches the peer as a reset; otherwise, as on Unix sockets, as an end.
    pub has_resets: bool,
}

/// Number of nodes and connections of a case.
#[derive(Clone, Copy, Debug)]
pub struct NodeCounts {
    pub server_shards: usize,
    pub client_shards: usize,
    /// Most concurrent connections.
    pub connections: usize,
}

impl NodeCounts {
    /// One server node, one client node, some connections.
    #[must_use]
    pub const fn connections(connections: usize) -> Self {
        Self { server_shards: 1, client_shards: 1, connections }
    }
}

/// The context of a client.
#[derive(Clone)]
pub struct Surroundings {
    pub server: Endpoint,
    /// An address without a listener.
    pub nobody: SocketAddr,
    /// Stops the server, as SIGTERM does; callable from a node, returns at once.
    pub stop_server: Arc<dyn Fn() + Send + Sync>,
}

/// The nodes after the run, by shard.
#[derive(Debug)]
pub struct Played<S, C> {
    pub servers: Vec<S>,
    pub clients: Vec<C>,
}
