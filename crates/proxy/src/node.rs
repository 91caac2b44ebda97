//! The proxy as a node.

use std::sync::Arc;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received, Shard};

use crate::shared::Shared;

/// The node of one shard of a [`Proxy`](crate::Proxy).
#[derive(Debug)]
pub struct ProxyNode {
    shared: Arc<Shared>,
    shard: Shard,
}

impl ProxyNode {
    pub(crate) fn new(shared: Arc<Shared>, shard: Shard) -> Self {
        Self { shared, shard }
    }
}

impl Node for ProxyNode {
    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        actions.close(id, Close::Abort);
    }
    fn handle_received(&mut self, _now: Instant, _id: ConnectionId, received: Received<'_>, _actions: &mut Actions) -> usize {
        received.bytes.len()
    }
    fn handle_closed(&mut self, _now: Instant, _id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {}
    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}
}
