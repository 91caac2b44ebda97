//! Servers that do not take what they are lent: one pauses, one leaves it with the driver.

use std::collections::BTreeMap;
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};

use crate::{Content, Gate};

/// Pauses every connection as soon as it is accepted, and looks at a gate from time to time. When that is open, it
/// takes everything, compares it, and answers `ok` at its end.
#[derive(Debug)]
pub struct Reluctant {
    gate: Gate,
    rest: Duration,
    expected: Content,
    looks_at: BTreeMap<ConnectionId, Instant>,
    open: BTreeMap<ConnectionId, u64>,
    difference: Option<u64>,
}

impl Reluctant {
    /// One that rests for `rest`, again until `gate` is open, and then expects `expected` on each connection.
    #[must_use]
    pub fn new(gate: &Gate, rest: Duration, expected: Content) -> Self {
        Self { gate: gate.clone(), rest, expected, looks_at: BTreeMap::new(), open: BTreeMap::new(), difference: None }
    }

    /// Where the first byte stood that was not the expected one.
    #[must_use]
    pub fn difference(&self) -> Option<u64> {
        self.difference
    }
}

impl Node for Reluctant {
    fn handle_accepted(&mut self, now: Instant, connection: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        actions.pause(connection);
        self.looks_at.insert(connection, now + self.rest);
        self.open.insert(connection, 0);
    }

    fn handle_received(
        &mut self,
        _now: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let position = self.open.entry(connection).or_default();
        if let Some(place) = self.expected.first_difference(*position, received.bytes) {
            self.difference.get_or_insert(*position + place as u64);
        }
        *position += received.bytes.len() as u64;
        if received.ended {
            actions.send(connection).extend_from_slice(b"ok");
            actions.close(connection, Close::Graceful);
        }
        received.bytes.len()
    }

    fn handle_closed(&mut self, _now: Instant, connection: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.open.remove(&connection);
        self.looks_at.remove(&connection);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        let is_open = self.gate.is_open();
        let next_look = now + self.rest;
        self.looks_at.retain(|&connection, at| {
            let is_due = *at <= now;
            if is_due && is_open {
                actions.resume(connection);
            } else if is_due {
                *at = next_look;
            }
            !(is_due && is_open)
        });
    }

    /// What the peer has sent may still be on its way: each connection ends when the peer ends it.
    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}

    fn next_deadline(&self) -> Option<Instant> {
        self.looks_at.values().min().copied()
    }
}

/// Takes nothing until it has a whole line or the end, but says `.` each time it is lent something; then it answers
/// with all of it.
///
/// The peer can so send the next bytes when it knows that those before were lent and left.
#[derive(Debug, Default)]
pub struct Holding;

impl Node for Holding {
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_received(
        &mut self,
        _now: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        if !received.ended && !received.bytes.ends_with(b"\n") {
            actions.send(connection).push(b'.');
            return 0;
        }
        actions.send(connection).extend_from_slice(received.bytes);
        if received.ended {
            actions.close(connection, Close::Graceful);
        }
        received.bytes.len()
    }

    fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}

    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}
}
