//! The counters of a path. One thread writes, any may read.

use breme_base::Count;

use crate::Direction;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkCounts {
    /// Accepted client connections.
    pub connections: u64,
    /// Client connections for which the server could not be reached.
    pub connects_failed: u64,
    /// Connections reset by the path.
    pub resets: u64,
    /// By [`Direction`].
    pub directions: [DirectionCounts; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectionCounts {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Lost segments; each loss of a segment counts.
    pub losses: u64,
    /// Bytes that wait or are in transit now.
    pub held_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: Count,
    pub(crate) connects_failed: Count,
    pub(crate) resets: Count,
    directions: [DirectionCounters; 2],
}

#[derive(Debug, Default)]
pub(crate) struct DirectionCounters {
    /// Bytes received from the source.
    pub(crate) taken: Count,
    pub(crate) arrived: Count,
    /// Bytes discarded by a reset.
    pub(crate) discarded: Count,
    pub(crate) losses: Count,
}

impl Counters {
    pub(crate) fn direction(&self, direction: Direction) -> &DirectionCounters {
        &self.directions[direction.index()]
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.directions.iter().map(DirectionCounters::held_bytes).sum()
    }

    pub(crate) fn counts(&self) -> LinkCounts {
        LinkCounts {
            connections: self.connections.load(),
            connects_failed: self.connects_failed.load(),
            resets: self.resets.load(),
            directions: Direction::ALL.map(|direction| self.direction(direction).counts()),
        }
    }
}

impl DirectionCounters {
    fn held_bytes(&self) -> u64 {
        // Bytes that have left are read first, so that no reader sees a negative difference.
        let gone = self.arrived.load() + self.discarded.load();
        self.taken.load().saturating_sub(gone)
    }

    fn counts(&self) -> DirectionCounts {
        DirectionCounts { bytes: self.arrived.load(), losses: self.losses.load(), held_bytes: self.held_bytes() }
    }
}
