//! A ring of shards that wake each other.

use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received, Shard, ShardId};

/// Message to exit.
const EXIT: u64 = u64::MAX;

/// Shard 0 sends shard 1 many messages in one call; when all have arrived, shard 1 sends the next shard as many, and so
/// on; when they return to shard 0, all exit.
#[derive(Debug)]
pub struct Wakes {
    shard: Shard,
    burst: u64,
    patience: Duration,
    timeout_at: Option<Instant>,
    arrived: u64,
    timed_out: bool,
}

impl Wakes {
    /// Needs at least two shards.
    #[must_use]
    pub fn new(shard: Shard, burst: u64, patience: Duration) -> Self {
        Self { shard, burst, patience, timeout_at: None, arrived: 0, timed_out: false }
    }

    /// Whether messages were missing at the timeout.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }

    fn wake_next(&self, actions: &mut Actions) {
        let next = ShardId((self.shard.id.0 + 1) % self.shard.count);
        for message in 0..self.burst {
            actions.wake(next, message);
        }
    }

    fn let_all_exit(&self, actions: &mut Actions) {
        (1..self.shard.count).for_each(|other| actions.wake(ShardId(other), EXIT));
        actions.exit();
    }
}

impl Node for Wakes {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.timeout_at = Some(now + self.patience);
        if self.shard.id.0 == 0 {
            self.wake_next(actions);
        }
    }

    fn handle_woken(&mut self, _now: Instant, message: u64, actions: &mut Actions) {
        if message == EXIT {
            actions.exit();
            return;
        }
        self.arrived += 1;
        if self.arrived < self.burst {
            return;
        }
        if self.shard.id.0 == 0 {
            self.let_all_exit(actions);
        } else {
            self.wake_next(actions);
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.timed_out = true;
            actions.exit();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timeout_at.filter(|_| !self.timed_out)
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        actions.close(id, Close::Abort);
    }

    fn handle_received(&mut self, _: Instant, _: ConnectionId, input: Received<'_>, _: &mut Actions) -> usize {
        input.bytes.len()
    }

    fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}
}
