//! A server that sends a fixed response on each connection.

use std::collections::BTreeMap;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, FileRange, Node, Received};
use bytes::Bytes;

use crate::TestContent;

/// What triggers the response of a [`FixedResponder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseTrigger {
    Accepted,
    FirstBytes,
    /// The end of the peer's stream; nothing is consumed before.
    Ended,
}

/// A part of a response, by how it is sent.
#[derive(Clone, Debug)]
pub enum ResponsePart {
    /// Copied into the driver's buffer.
    Copied(TestContent),
    /// As a shared segment.
    Shared(Bytes),
    File(FileRange),
}

/// What follows the response.
#[derive(Clone, Copy, Debug)]
pub enum AfterResponse {
    /// Nothing: the peer closes the connection.
    Keep,
    /// End of the stream; receiving continues.
    Finish,
    Close(Close),
}

/// Sends a fixed response on each connection, in one call.
#[derive(Debug)]
pub struct FixedResponder {
    when: ResponseTrigger,
    parts: Vec<ResponsePart>,
    then: AfterResponse,
    open: BTreeMap<ConnectionId, ResponderState>,
    received: Vec<Bytes>,
}

#[derive(Debug, Default)]
struct ResponderState {
    is_answered: bool,
    received: Vec<u8>,
}

impl FixedResponder {
    #[must_use]
    pub fn new(when: ResponseTrigger, parts: Vec<ResponsePart>, then: AfterResponse) -> Self {
        Self { when, parts, then, open: BTreeMap::new(), received: Vec::new() }
    }

    /// What each closed connection had received.
    #[must_use]
    pub fn received(&self) -> &[Bytes] {
        &self.received
    }

    fn answer(&mut self, connection: ConnectionId, actions: &mut Actions) {
        let Some(state) = self.open.get_mut(&connection) else { return };
        if std::mem::replace(&mut state.is_answered, true) {
            return;
        }
        for part in &self.parts {
            match part {
                ResponsePart::Copied(content) => content.append(0, content.length(), actions.send(connection)),
                ResponsePart::Shared(segment) => actions.send_shared(connection, segment.clone()),
                ResponsePart::File(range) => actions.send_file(connection, range.clone()),
            }
        }
        match self.then {
            AfterResponse::Keep => {}
            AfterResponse::Finish => actions.finish(connection),
            AfterResponse::Close(how) => actions.close(connection, how),
        }
    }
}

impl Node for FixedResponder {
    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        self.open.insert(id, ResponderState::default());
        if self.when == ResponseTrigger::Accepted {
            self.answer(id, actions);
        }
    }

    fn handle_received(&mut self, _: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        if self.when == ResponseTrigger::Ended && !input.ended {
            return 0;
        }
        if let Some(state) = self.open.get_mut(&id) {
            state.received.extend_from_slice(input.bytes);
        }
        self.answer(id, actions);
        if input.ended && !matches!(self.then, AfterResponse::Close(_)) {
            actions.close(id, Close::Graceful);
        }
        input.bytes.len()
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.received.extend(self.open.remove(&id).map(|state| state.received.into()));
    }

    /// The peer's data may still be in transit: each connection ends with its peer.
    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}
}
