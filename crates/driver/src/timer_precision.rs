//! Precise deadlines.

use std::time::Duration;

use breme_node::Node;

use crate::engine::Engine;
use crate::port::Port;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerPrecision {
    /// Busy-polls for this long before a deadline.
    pub(crate) spin: Duration,
}

impl TimerPrecision {
    pub(crate) fn for_node<N: Node, P: Port>(engine: &mut Engine<N, P>) -> Option<Self> {
        if !engine.enable_precise_deadlines() {
            return None;
        }
        // Otherwise timers are up to 50 µs late, which is not worth failing.
        let _ = breme_sys::set_min_timer_slack();
        Some(Self { spin: engine.settings().spin_before_deadline })
    }
}
