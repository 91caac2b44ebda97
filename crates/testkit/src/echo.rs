//! A server that echoes, at once or slowly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};
use bytes::Bytes;

/// How much an [`Echo`] consumes.
#[derive(Clone, Copy, Debug)]
pub enum ConsumePolicy {
    Everything,
    /// Up to the last line feed; the rest stays with the driver.
    WholeLines,
    AtMost(usize),
}

/// When an [`Echo`] resumes after partial consumption.
#[derive(Clone, Copy, Debug)]
pub enum ResumePolicy {
    /// Never: it is called again when more arrives.
    Never,
    /// In the same call.
    AtOnce,
    /// Pauses, and resumes after this time.
    After(Duration),
}

/// Echoes what it receives. Closes a connection when the peer has ended and everything is echoed.
#[derive(Debug)]
pub struct Echo {
    taking: ConsumePolicy,
    pace: ResumePolicy,
    farewell: Option<Bytes>,
    open: BTreeSet<ConnectionId>,
    paused_until: BTreeMap<ConnectionId, Instant>,
}

impl Echo {
    /// Consumes everything.
    #[must_use]
    pub fn new() -> Self {
        Self::slow(ConsumePolicy::Everything, ResumePolicy::Never)
    }

    #[must_use]
    pub fn slow(taking: ConsumePolicy, pace: ResumePolicy) -> Self {
        Self { taking, pace, farewell: None, open: BTreeSet::new(), paused_until: BTreeMap::new() }
    }

    /// On stop, sends `farewell` on all connections, and continues until the peers close them.
    #[must_use]
    pub fn with_farewell(farewell: &'static str) -> Self {
        Self { farewell: Some(Bytes::from_static(farewell.as_bytes())), ..Self::new() }
    }

    fn wanted(&self, received: Received<'_>) -> usize {
        let all = received.bytes.len();
        match self.taking {
            ConsumePolicy::Everything => all,
            ConsumePolicy::WholeLines if received.ended => all,
            ConsumePolicy::WholeLines => {
                received.bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |place| place + 1)
            }
            ConsumePolicy::AtMost(count) => all.min(count),
        }
    }

    fn resume(&mut self, now: Instant, connection: ConnectionId, actions: &mut Actions) {
        match self.pace {
            ResumePolicy::Never => {}
            ResumePolicy::AtOnce => actions.resume(connection),
            ResumePolicy::After(time) => {
                actions.pause(connection);
                self.paused_until.insert(connection, now + time);
            }
        }
    }
}

impl Default for Echo {
    fn default() -> Self {
        Self::new()
    }
}

impl Node for Echo {
    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, _actions: &mut Actions) {
        self.open.insert(id);
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        let consumed = self.wanted(input);
        // Half is copied, half forwarded without a copy.
        let (first, second) = input.bytes[..consumed].split_at(consumed / 2);
        if consumed > 0 {
            actions.send(id).extend_from_slice(first);
            actions.send_received(id, input.bytes, second);
        }
        if consumed < input.bytes.len() {
            self.resume(now, id, actions);
        } else if input.ended {
            actions.close(id, Close::Graceful);
        }
        consumed
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.open.remove(&id);
        self.paused_until.remove(&id);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        let rested: Vec<_> = self.paused_until.iter().filter(|&(_, &at)| at <= now).map(|(&id, _)| id).collect();
        for connection in rested {
            self.paused_until.remove(&connection);
            actions.resume(connection);
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        for &connection in &self.open {
            match &self.farewell {
                Some(farewell) => actions.send(connection).extend_from_slice(farewell),
                None => actions.close(connection, Close::Graceful),
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.paused_until.values().min().copied()
    }
}
