//! Names of connections, listeners and shards.

use std::fmt;

/// A connection of one shard: a dense index, for tables, and a generation, so that an index which is
/// used again is not taken for the connection that had it before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    index: u32,
    generation: u32,
}

impl ConnectionId {
    /// For drivers.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// Small and dense: the place of the connection in a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The index as a key of [`breme_base::Timers`].
    #[must_use]
    pub const fn key(self) -> u32 {
        self.index
    }

    /// How often the index was given out before.
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

/// The node's own name for a connection that it wants opened; it comes back with the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectTicket(pub u64);

/// A listener's place in the list that the driver was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub usize);

/// One of the nodes that work side by side, each on its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardId(pub usize);

/// What a node factory is told about the shard that it makes a node for.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    /// Which one, from 0.
    pub id: ShardId,
    /// How many there are.
    pub count: usize,
}
