//! Detects connections in the accept backlog while a shard is at its connection limit.

use std::net::TcpListener;
use std::time::Duration;

use breme_base::Instant;
use breme_node::Node;

use crate::engine::Engine;
use crate::port::Port;

/// A full shard does not accept, so the kernel sends no event for new connections.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// When to check next; none: below the limit, and no connection was waiting.
#[derive(Debug, Default)]
pub(crate) struct AcceptBacklog(Option<Instant>);

impl AcceptBacklog {
    pub(crate) fn next_check(&self) -> Option<Instant> {
        self.0
    }

    /// Updates the node's pressure: high while connections wait that cannot be accepted. `is_closed`: there is no
    /// listener.
    pub(crate) fn check<N: Node, P: Port>(
        &mut self,
        engine: &mut Engine<N, P>,
        is_closed: bool,
        has_waiting_connection: impl FnOnce() -> bool,
    ) {
        let has_capacity = engine.has_capacity() || is_closed;
        if has_capacity && !engine.is_under_pressure() {
            self.0 = None;
            return;
        }
        let now = engine.read_clock();
        if has_capacity || self.0.is_none_or(|next| next <= now) {
            self.0 = Some(now + CHECK_INTERVAL);
            engine.set_pressure(has_waiting_connection());
        }
    }
}

pub(crate) fn has_waiting(listener: &TcpListener) -> bool {
    // After a signal the next check decides.
    breme_sys::wait_until_readable(listener, Duration::ZERO).unwrap_or(false)
}
