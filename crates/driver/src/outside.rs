//! Who waits outside of a shard that is full, where one shard holds many connections.

use std::net::TcpListener;
use std::time::Duration;

use breme_base::Instant;
use breme_node::Node;

use crate::engine::Engine;
use crate::port::Port;

/// How often a full shard looks whether somebody waits. It accepts nobody, so the kernel tells it nothing by itself.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// When to look outside again; none: there is room, and nobody waited when we looked.
#[derive(Debug, Default)]
pub(crate) struct Outside(Option<Instant>);

impl Outside {
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.0
    }

    /// Tells the node when connections begin to wait that cannot be let in, and when none waits any more. `is_somebody`
    /// looks; `is_closed`: nobody can wait.
    pub(crate) fn look<N: Node, P: Port>(
        &mut self,
        engine: &mut Engine<N, P>,
        is_closed: bool,
        is_somebody: impl FnOnce() -> bool,
    ) {
        let has_room = engine.has_room() || is_closed;
        if has_room && !engine.is_under_pressure() {
            self.0 = None;
            return;
        }
        let now = engine.read_clock();
        if has_room || self.0.is_none_or(|next| next <= now) {
            self.0 = Some(now + LOOK_PAUSE);
            engine.set_pressure(is_somebody());
        }
    }
}

/// Whether a connection waits to be accepted here.
pub(crate) fn has_waiting(listener: &TcpListener) -> bool {
    // Where a signal came in between, the next look will tell.
    breme_sys::wait_until_readable(listener, Duration::ZERO).unwrap_or(false)
}
