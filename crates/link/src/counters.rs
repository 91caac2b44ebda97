//! What a path counts. One thread writes, any may read.

use breme_base::Count;

use crate::Direction;

/// What has passed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Connections of clients that were accepted.
    pub connections: u64,
    /// … for which the server could not be reached.
    pub connects_failed: u64,
    /// Connections that the path reset.
    pub resets: u64,
    /// By [`Direction`].
    pub directions: [DirectionCounts; 2],
}

/// What has passed in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectionCounts {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Segments that were lost, once for each loss.
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
    /// Bytes that came.
    pub(crate) taken: Count,
    /// Bytes that arrived.
    pub(crate) arrived: Count,
    /// Bytes that a reset discarded.
    pub(crate) discarded: Count,
    pub(crate) losses: Count,
}

impl Counters {
    pub(crate) fn of(&self, direction: Direction) -> &DirectionCounters {
        &self.directions[direction.index()]
    }

    /// Bytes that wait or are in transit.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.directions.iter().map(DirectionCounters::held_bytes).sum()
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            connections: self.connections.load(),
            connects_failed: self.connects_failed.load(),
            resets: self.resets.load(),
            directions: Direction::ALL.map(|direction| self.of(direction).counts()),
        }
    }
}

impl DirectionCounters {
    fn held_bytes(&self) -> u64 {
        // Those that are gone are read first, so that the difference is not negative for any reader.
        let gone = self.arrived.load() + self.discarded.load();
        self.taken.load().saturating_sub(gone)
    }

    fn counts(&self) -> DirectionCounts {
        DirectionCounts { bytes: self.arrived.load(), losses: self.losses.load(), held_bytes: self.held_bytes() }
    }
}
