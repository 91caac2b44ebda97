//! The state of an open loop in one shard, on which `dispatch` acts.

use std::time::Duration;

use breme_base::Instant;

use super::free_users::FreeUsers;
use crate::arrivals::{Arrival, ArrivalQueue};
use crate::run::Run;

/// If arrivals are frequent, a shard wakes once for those that become due within this time: waking costs more than
/// sending.
const TOGETHER_MAX: Duration = Duration::from_micros(30);
/// They are frequent if their mean distance is at most this.
const CLOSE: Duration = Duration::from_micros(25);

/// Its free users and the arrival held for the next of them.
#[derive(Debug)]
pub(super) struct OpenLoop {
    /// The schedule waits for the connections.
    pub(super) opens_first: bool,
    /// Users without a request connect in advance.
    pub(super) connects_ahead: bool,
    pub(super) is_capped: bool,
    pub(super) deadline: Option<Duration>,
    depth: u64,
    /// How late the shard may wake for an arrival, so that others are due as well.
    pub(super) slack: Duration,
    pub(super) free_users: FreeUsers,
    /// The next arrival, for which a free user is reserved.
    pub(super) held: Option<Arrival>,
    /// There will be no more.
    pub(super) is_over: bool,
    pub(super) has_ended: bool,
}

impl OpenLoop {
    pub(super) fn from_run(run: &Run) -> Option<Self> {
        let settings = run.plan().settings();
        let open_loop = settings.open_loop.as_ref()?;
        let connects_ahead = run.plan().connects_ahead();
        Some(Self {
            opens_first: connects_ahead && settings.ramp.is_zero(),
            connects_ahead,
            is_capped: run.queue().is_some_and(ArrivalQueue::is_capped),
            deadline: open_loop.deadline,
            depth: settings.pipeline_depth as u64,
            slack: slack(open_loop.pace.peak_rate() / run.shard_count().max(1) as f64),
            free_users: FreeUsers::default(),
            held: None,
            is_over: false,
            has_ended: false,
        })
    }

    /// When the reserved arrival is due.
    pub(super) fn next_due(&self) -> Instant {
        self.held.map_or(Instant::FAR, |arrival| arrival.due)
    }

    /// Maximum number of arrivals that could be taken now.
    pub(super) fn places(&self) -> u64 {
        self.free_users.count() as u64 * self.depth
    }
}

/// The slack of a shard with this rate of arrivals per second.
fn slack(rate: f64) -> Duration {
    let distance = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX);
    if distance > CLOSE { Duration::ZERO } else { TOGETHER_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_dense_is_woken_for_together() {
        let micros = |rate: f64| slack(rate).as_nanos() as f64 / 1e3;
        assert_eq!([0.0, 1.0, 20_000.0, 39_000.0].map(micros), [0.0; 4]);
        assert_eq!([40_000.0, 50_000.0, 100_000.0, 1e8].map(micros), [30.0; 4]);
    }
}
