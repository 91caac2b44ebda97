//! The server that gives one prepared answer on each connection.

use std::collections::BTreeMap;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, FileRange, Node, Received};
use bytes::Bytes;

use crate::Content;

/// What makes an [`Answering`] node answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The connection itself.
    Accepted,
    /// The first bytes.
    FirstBytes,
    /// The end of the peer's sending; nothing is taken before.
    Ended,
}

/// A part of an answer, by the way it is sent.
#[derive(Clone, Debug)]
pub enum Part {
    /// Appended to the driver's buffer.
    Copied(Content),
    /// As a shared segment.
    Shared(Bytes),
    /// From a file.
    File(FileRange),
}

/// What follows an answer.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// Nothing: the connection ends when the peer ends it.
    Keep,
    /// The end of the sending; receiving goes on.
    Finish,
    /// The end of the connection.
    Close(Close),
}

/// Gives one prepared answer on each connection, all of it in one call.
#[derive(Debug)]
pub struct Answering {
    when: When,
    parts: Vec<Part>,
    then: Then,
    open: BTreeMap<ConnectionId, Answered>,
    received: Vec<Bytes>,
}

#[derive(Debug, Default)]
struct Answered {
    is_answered: bool,
    received: Vec<u8>,
}

impl Answering {
    /// One that answers with `parts`.
    #[must_use]
    pub fn new(when: When, parts: Vec<Part>, then: Then) -> Self {
        Self { when, parts, then, open: BTreeMap::new(), received: Vec::new() }
    }

    /// What each connection that has ended had received.
    #[must_use]
    pub fn received(&self) -> &[Bytes] {
        &self.received
    }

    fn answer(&mut self, connection: ConnectionId, actions: &mut Actions) {
        let Some(answered) = self.open.get_mut(&connection) else { return };
        if std::mem::replace(&mut answered.is_answered, true) {
            return;
        }
        for part in &self.parts {
            match part {
                Part::Copied(content) => content.append(0, content.length(), actions.send(connection)),
                Part::Shared(segment) => actions.send_shared(connection, segment.clone()),
                Part::File(range) => actions.send_file(connection, range.clone()),
            }
        }
        match self.then {
            Then::Keep => {}
            Then::Finish => actions.finish(connection),
            Then::Close(how) => actions.close(connection, how),
        }
    }
}

impl Node for Answering {
    fn handle_accepted(&mut self, _now: Instant, connection: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        self.open.insert(connection, Answered::default());
        if self.when == When::Accepted {
            self.answer(connection, actions);
        }
    }

    fn handle_received(
        &mut self,
        _now: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        if self.when == When::Ended && !received.ended {
            return 0;
        }
        if let Some(answered) = self.open.get_mut(&connection) {
            answered.received.extend_from_slice(received.bytes);
        }
        self.answer(connection, actions);
        if received.ended && !matches!(self.then, Then::Close(_)) {
            actions.close(connection, Close::Graceful);
        }
        received.bytes.len()
    }

    fn handle_closed(&mut self, _now: Instant, connection: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.received.extend(self.open.remove(&connection).map(|answered| answered.received.into()));
    }

    /// What the peer has sent may still be on its way: each connection ends when the peer ends it.
    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}
}
