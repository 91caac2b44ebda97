//! What a driver must offer so that the suite can run on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_node::{Endpoint, Node, Shard};

/// A way to run one server and one client against each other.
///
/// Keep it tiny: everything that is asserted stands in the suite.
pub trait World {
    /// For messages: `threads`, `events`, `sim with seed 7`.
    fn name(&self) -> String;

    /// What the suite must know about it.
    fn limits(&self) -> Limits;

    /// Runs a server, and a client that is told where it is.
    ///
    /// 1. Starts `shape.server_shards` server nodes behind **one** listener (`ListenerId(0)`); a driver that serves one
    ///    connection per thread starts at least `shape.connections`.
    /// 2. Starts `shape.client_shards` client nodes, without listeners, and waits until each of them has exited. They
    ///    bound their own time.
    /// 3. Stops the server (unless [`Surroundings::stop_server`] has done it already) and waits for its end.
    /// 4. Hands back all nodes.
    fn run<S, C>(
        &self,
        shape: Shape,
        server: impl Fn(Shard) -> S + Send + Sync + 'static,
        client: impl Fn(Shard, &Surroundings) -> C + Send + Sync + 'static,
    ) -> Played<S, C>
    where
        S: Node + Send + 'static,
        C: Node + Send + 'static;
}

/// Figures of a world that the cases adapt to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes that are lent in one call.
    pub lent_bytes_max: usize,
    /// More than fits into everything between two nodes, so that a sender must see a long queue. On real sockets, 32
    /// MiB.
    pub bulk_bytes: u64,
    /// After this time, in the world's own, a script that does not get on is given up. A fail-safe: no passing case
    /// waits for it.
    pub patience: Duration,
}

/// How many nodes a case wants.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Server nodes.
    pub server_shards: usize,
    /// Client nodes.
    pub client_shards: usize,
    /// How many connections to the server are open at one time, at most.
    pub connections: usize,
}

impl Shape {
    /// One server node, one client node, some connections.
    #[must_use]
    pub const fn connections(connections: usize) -> Self {
        Self { server_shards: 1, client_shards: 1, connections }
    }
}

/// What a client is told.
#[derive(Clone)]
pub struct Surroundings {
    /// Where the server listens.
    pub server: Endpoint,
    /// An address where nobody listens, and nobody will.
    pub nobody: SocketAddr,
    /// Asks the server to stop, as SIGTERM does; it may be called from a node's call and returns at once.
    pub stop_server: Arc<dyn Fn() + Send + Sync>,
}

/// The nodes after the run, by shard.
#[derive(Debug)]
pub struct Played<S, C> {
    /// The server's.
    pub servers: Vec<S>,
    /// The client's.
    pub clients: Vec<C>,
}
