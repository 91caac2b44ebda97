//! Slow start: the weight of an added or restored upstream grows in steps, so that its caches can fill.

use std::time::Duration;

use breme_base::Instant;

use crate::group_state::UpstreamRecord;

/// Steps of a slow start, including its beginning.
const STEPS: u32 = 10;

impl UpstreamRecord {
    /// The effective part of its weight, in tenths.
    pub(crate) fn slow_start_step(&self, now: Instant, slow_start: Duration) -> u32 {
        let Some(since) = self.slow_since else { return STEPS };
        let elapsed = u128::from(now.nanos_since(since)) * u128::from(STEPS);
        let steps = elapsed.checked_div(slow_start.as_nanos()).and_then(|steps| u32::try_from(steps).ok());
        steps.map_or(STEPS, |steps| steps.saturating_add(1).min(STEPS))
    }

    pub(crate) fn end_slow_start(&mut self, now: Instant, slow_start: Duration) {
        if self.slow_start_step(now, slow_start) == STEPS {
            self.slow_since = None;
        }
    }

    /// When its effective weight grows next.
    pub(crate) fn next_slow_start_step(&self, now: Instant, slow_start: Duration) -> Option<Instant> {
        let since = self.slow_since?;
        let step = self.slow_start_step(now, slow_start);
        Some(since + slow_start.saturating_mul(step) / STEPS + Duration::from_nanos(1))
    }
}
