//! Identifiers of connections, listeners and shards.

use std::fmt;

/// A connection of one shard: a dense index for tables, and a generation that distinguishes it from earlier connections
/// with this index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    index: u32,
    generation: u32,
}

impl ConnectionId {
    /// For drivers, which assign the ids.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// The index, for tables of connections.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The index as a key of [`breme_base::Timers`].
    #[must_use]
    pub const fn key(self) -> u32 {
        self.index
    }

    /// How many times the index was used before.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{}.{}", self.index, self.generation)
    }
}

/// The node's identifier of a connection that it opens; returned with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectTicket(pub u64);

/// A listener's index in the driver's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub usize);

/// One of the nodes that run in parallel, each on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardId(pub usize);

/// The shard for which a node factory creates a node.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    /// From 0.
    pub id: ShardId,
    /// The number of shards.
    pub count: usize,
}
