//! Measures how much a node has sent on one connection by an instant. If the peer reads nothing, all of it is buffered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::Instant;
use breme_node::{
    Accepted, Action, Actions, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Node, Received,
};

/// A node, and what it sends until then.
pub struct Meter<N> {
    pub node: N,
    pub until: Instant,
    pub peak: Arc<AtomicU64>,
    pub sent: HashMap<ConnectionId, u64>,
}

impl<N> Meter<N> {
    fn measure<T>(&mut self, now: Instant, actions: &mut Actions, call: impl FnOnce(&mut N, &mut Actions) -> T) -> T {
        let before = actions.len();
        let outcome = call(&mut self.node, actions);
        for index in before..actions.len() {
            let (id, length) = match actions.get(index) {
                Some(Action::Send(id, _)) => (*id, actions.bytes(index).len()),
                Some(Action::SendReceived(id, range)) => (*id, range.len()),
                _ => continue,
            };
            if now < self.until {
                let sent = self.sent.entry(id).or_default();
                *sent += length as u64;
                self.peak.fetch_max(*sent, Ordering::Relaxed);
            }
        }
        outcome
    }
}

impl<N: Node> Node for Meter<N> {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_started(now, actions));
    }

    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, accepted: Accepted, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_accepted(now, id, accepted, actions));
    }

    fn handle_connected(
        &mut self,
        now: Instant,
        ticket: ConnectTicket,
        outcome: Result<Connected, ConnectError>,
        actions: &mut Actions,
    ) {
        self.measure(now, actions, |node, actions| node.handle_connected(now, ticket, outcome, actions));
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        self.measure(now, actions, |node, actions| node.handle_received(now, id, received, actions))
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_sent(now, id, unsent_bytes, actions));
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_closed(now, id, reason, actions));
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_deadline(now, actions));
    }

    fn handle_woken(&mut self, now: Instant, message: u64, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_woken(now, message, actions));
    }

    fn handle_pressure(&mut self, now: Instant, is_under_pressure: bool, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_pressure(now, is_under_pressure, actions));
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.measure(now, actions, |node, actions| node.handle_stopping(now, actions));
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.node.next_deadline()
    }
}
