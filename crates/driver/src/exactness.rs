//! How deadlines are met that matter to the microsecond.

use std::time::Duration;

use breme_node::Node;

use crate::engine::Engine;
use crate::port::Port;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Exactness {
    /// So long before one the driver does not sleep.
    pub(crate) spin: Duration,
}

impl Exactness {
    pub(crate) fn wanted_by<N: Node, P: Port>(engine: &mut Engine<N, P>) -> Option<Self> {
        if !engine.begin_exactness() {
            return None;
        }
        // Without it the timers are late by 50 µs at most: not worth failing.
        let _ = breme_sys::sharpen_timers();
        Some(Self { spin: engine.settings().spin_before_deadline })
    }
}
