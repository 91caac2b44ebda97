//! The server that answers with what it received, at once or as slowly as wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};
use bytes::Bytes;

/// How much an [`Echo`] takes of what it is lent.
#[derive(Clone, Copy, Debug)]
pub enum Taking {
    /// All.
    Everything,
    /// Up to the last line feed; the rest stays with the driver.
    WholeLines,
    /// At most this many bytes.
    AtMost(usize),
}

/// When an [`Echo`] that left something asks for it.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Not at all: it is lent again when more comes.
    AsLent,
    /// In the same call.
    Resuming,
    /// It pauses, and resumes after this time.
    Resting(Duration),
}

/// Answers with what it received. Ends a connection when the peer has ended and all is answered.
#[derive(Debug)]
pub struct Echo {
    taking: Taking,
    pace: Pace,
    farewell: Option<Bytes>,
    open: BTreeSet<ConnectionId>,
    resting: BTreeMap<ConnectionId, Instant>,
}

impl Echo {
    /// The plain one: takes everything.
    #[must_use]
    pub fn new() -> Self {
        Self::slow(Taking::Everything, Pace::AsLent)
    }

    /// One that takes its time.
    #[must_use]
    pub fn slow(taking: Taking, pace: Pace) -> Self {
        Self { taking, pace, farewell: None, open: BTreeSet::new(), resting: BTreeMap::new() }
    }

    /// One that, when it is to stop, says `farewell` on every connection and goes on until the peer ends it.
    #[must_use]
    pub fn with_farewell(farewell: &'static str) -> Self {
        Self { farewell: Some(Bytes::from_static(farewell.as_bytes())), ..Self::new() }
    }

    fn wanted(&self, received: Received<'_>) -> usize {
        let all = received.bytes.len();
        match self.taking {
            Taking::Everything => all,
            Taking::WholeLines if received.ended => all,
            Taking::WholeLines => received.bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |place| place + 1),
            Taking::AtMost(count) => all.min(count),
        }
    }

    fn ask_for_rest(&mut self, now: Instant, connection: ConnectionId, actions: &mut Actions) {
        match self.pace {
            Pace::AsLent => {}
            Pace::Resuming => actions.resume(connection),
            Pace::Resting(time) => {
                actions.pause(connection);
                self.resting.insert(connection, now + time);
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
    fn handle_accepted(
        &mut self,
        _now: Instant,
        connection: ConnectionId,
        _accepted: Accepted,
        _actions: &mut Actions,
    ) {
        self.open.insert(connection);
    }

    fn handle_received(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let taken = self.wanted(received);
        // One half is copied, the other sent on from where it lies.
        let (first, second) = received.bytes[..taken].split_at(taken / 2);
        if taken > 0 {
            actions.send(connection).extend_from_slice(first);
            actions.send_received(connection, received.bytes, second);
        }
        if taken < received.bytes.len() {
            self.ask_for_rest(now, connection, actions);
        } else if received.ended {
            actions.close(connection, Close::Graceful);
        }
        taken
    }

    fn handle_closed(&mut self, _now: Instant, connection: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.open.remove(&connection);
        self.resting.remove(&connection);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        let rested: Vec<_> = self.resting.iter().filter(|&(_, &at)| at <= now).map(|(&id, _)| id).collect();
        for connection in rested {
            self.resting.remove(&connection);
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
        self.resting.values().min().copied()
    }
}
