//! A node whose events the test generates, for interleavings that a simulation does not produce.

use breme_base::Instant;
use breme_node::{Action, Actions, ConnectionId, Node, Received, Shard, ShardId};
use breme_proxy::{Proxy, ProxyNode};

/// The node, and its actions.
pub struct Driven(pub ProxyNode, pub Actions);

impl Driven {
    pub fn new(proxy: &Proxy, id: usize) -> Self {
        Self(proxy.node(Shard { id: ShardId(id), count: 2 }), Actions::new())
    }

    /// As [`lend`](Self::lend); returns the node's actions.
    pub fn receive(&mut self, id: ConnectionId, bytes: &str) -> Vec<Action> {
        self.lend(id, bytes);
        self.actions()
    }

    /// Passes received bytes to the node, which must consume all.
    pub fn lend(&mut self, id: ConnectionId, bytes: &str) {
        let received = Received { bytes: bytes.as_bytes(), ended: false, arrived_at: Instant::ZERO };
        assert_eq!(self.0.handle_received(Instant::ZERO, id, received, &mut self.1), bytes.len());
    }

    /// All bytes sent since the last actions were taken, to any connection.
    pub fn sent(&mut self) -> String {
        let sent = (0..self.1.len()).flat_map(|index| self.1.bytes(index).to_vec()).collect();
        self.1.clear(0);
        String::from_utf8(sent).unwrap()
    }

    /// The node's actions since the last call.
    pub fn actions(&mut self) -> Vec<Action> {
        let actions = (0..self.1.len()).map(|index| self.1.get(index).unwrap().clone()).collect();
        self.1.clear(0);
        actions
    }
}
