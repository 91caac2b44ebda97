//! Durations of a node's operations.

use breme_base::TimeHistogram;

/// Durations since the node's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting of requests for their turns, or for the session itself.
    pub turn: TimeHistogram,
    /// Holding of responses until they are confirmed.
    pub hold: TimeHistogram,
    /// Compare-and-sets of sessions by the engine.
    pub commit: TimeHistogram,
}

/// Requests by what they wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Waiting for their turns.
    pub waiting: usize,
    pub running: usize,
    /// Finished, with their responses held.
    pub held: usize,
    pub forwarded: usize,
}
