//! What goes into a trial besides its arm, and what comes out.

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// What is compared: µs of CPU time, or kB, for each unit of work; or misses of a hundred requests.
    pub(crate) cost: f64,
    /// What stands beside it: units of work per second, or MB in all.
    pub(crate) beside: f64,
    /// The share of its processor that the measured side used; none where something else is measured.
    pub(crate) busy: Option<f64>,
}

/// How a trial is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) seconds: u64,
    /// For arms with an open loop: requests per second.
    pub(crate) rate: Option<u64>,
    /// What is asked at random follows from it; the same for all arms of a block.
    pub(crate) seed: u64,
}
