//! Servers that delay consumption: one pauses, one leaves bytes with the driver.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};

use crate::{Gate, TestContent};

/// Pauses each new connection until a gate is open, which it polls. Then it consumes everything, compares it, and sends
/// `ok` at the end.
#[derive(Debug)]
pub struct PausingServer {
    gate: Gate,
    rest: Duration,
    expected: TestContent,
    check_at: BTreeMap<ConnectionId, Instant>,
    open: BTreeMap<ConnectionId, u64>,
    difference: Option<u64>,
}

impl PausingServer {
    /// Polls `gate` at intervals of `rest`; then expects `expected` on each connection.
    #[must_use]
    pub fn new(gate: &Gate, rest: Duration, expected: TestContent) -> Self {
        Self { gate: gate.clone(), rest, expected, check_at: BTreeMap::new(), open: BTreeMap::new(), difference: None }
    }

    /// Position of the first unexpected byte.
    #[must_use]
    pub fn difference(&self) -> Option<u64> {
        self.difference
    }
}

impl Node for PausingServer {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        actions.pause(id);
        self.check_at.insert(id, now + self.rest);
        self.open.insert(id, 0);
    }

    fn handle_received(&mut self, _: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        let position = self.open.entry(id).or_default();
        if let Some(place) = self.expected.first_difference(*position, input.bytes) {
            self.difference.get_or_insert(*position + place as u64);
        }
        *position += input.bytes.len() as u64;
        if input.ended {
            actions.send(id).extend_from_slice(b"ok");
            actions.close(id, Close::Graceful);
        }
        input.bytes.len()
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.open.remove(&id);
        self.check_at.remove(&id);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        let is_open = self.gate.is_open();
        let next_check = now + self.rest;
        self.check_at.retain(|&connection, at| {
            let is_due = *at <= now;
            if is_due && is_open {
                actions.resume(connection);
            } else if is_due {
                *at = next_check;
            }
            !(is_due && is_open)
        });
    }

    /// The peer's data may still be in transit: each connection ends with its peer.
    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}

    fn next_deadline(&self) -> Option<Instant> {
        self.check_at.values().min().copied()
    }
}

/// Consumes nothing until it has a line or the end, but sends `.` in each call; then it echoes everything.
///
/// So the peer can send the next bytes when the previous ones were lent.
#[derive(Debug, Default)]
pub struct LineServer;

impl Node for LineServer {
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_received(&mut self, _: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        if !input.ended && !input.bytes.ends_with(b"\n") {
            actions.send(id).push(b'.');
            return 0;
        }
        actions.send(id).extend_from_slice(input.bytes);
        if input.ended {
            actions.close(id, Close::Graceful);
        }
        input.bytes.len()
    }

    fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}

    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}
}
