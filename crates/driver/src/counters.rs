//! Counters of the shards: live ones, snapshots of them, and the kinds of closed connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breme_base::nanos;
use breme_node::CloseReason;

/// Counters of one shard. Aligned to two cache lines (processors prefetch pairs), since they are written with each
/// receive and send.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LiveCounters {
    pub(crate) accepted: AtomicU64,
    pub(crate) connected: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) accepts_failed: AtomicU64,
    pub(crate) wakes_delayed: AtomicU64,
    pub(crate) wakes_lost: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) handshakes_resumed: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    spun_ns: AtomicU64,
    ended: [AtomicU64; CLOSE_KIND_COUNT],
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl LiveCounters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_end(&self, reason: CloseReason) {
        Self::add(&self.closed);
        Self::add(&self.ended[CloseKind::from_reason(reason) as usize]);
    }

    /// Bytes lent to the node for the first time.
    pub(crate) fn add_received(&self, bytes: usize) {
        add_local(&self.received_bytes, bytes as u64);
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        add_local(&self.sent_bytes, bytes as u64);
    }

    /// Time spent busy-polling before a deadline without an event.
    pub(crate) fn add_spun(&self, duration: Duration) {
        add_local(&self.spun_ns, nanos(duration));
    }

    /// Corrects for bytes that were counted, but not sent.
    pub(crate) fn uncount_sent(&self, bytes: usize) {
        add_local(&self.sent_bytes, (bytes as u64).wrapping_neg());
    }

    pub(crate) fn snapshot(&self) -> ShardCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShardCounters {
            accepted: load(&self.accepted),
            connected: load(&self.connected),
            closed: load(&self.closed),
            dropped: load(&self.dropped),
            accepts_failed: load(&self.accepts_failed),
            wakes_delayed: load(&self.wakes_delayed),
            wakes_lost: load(&self.wakes_lost),
            handshakes: load(&self.handshakes),
            handshakes_resumed: load(&self.handshakes_resumed),
            handshakes_failed: load(&self.handshakes_failed),
            spun_ns: load(&self.spun_ns),
            ended: std::array::from_fn(|end| load(&self.ended[end])),
            received_bytes: load(&self.received_bytes),
            sent_bytes: load(&self.sent_bytes),
        }
    }
}

/// Only the shard's own thread writes these, so a plain store suffices.
fn add_local(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

/// The kind of a [`CloseReason`], for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseKind {
    Requested,
    Reset,
    /// Closed by the peer without close_notify.
    Truncated,
    /// Closed by the driver: limits of lingering, or stop.
    Dropped,
    /// Failed handshake or TLS protocol error.
    Tls,
    /// Transport error, or send timeout.
    Failed,
    /// Slow reader, closed under pressure.
    Evicted,
}

const CLOSE_KIND_COUNT: usize = CloseKind::ALL.len();

impl CloseKind {
    /// In the order of [`ShardCounters::ended`].
    pub const ALL: [Self; 7] =
        [Self::Requested, Self::Reset, Self::Truncated, Self::Dropped, Self::Tls, Self::Failed, Self::Evicted];

    fn from_reason(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Requested => Self::Requested,
            CloseReason::Reset => Self::Reset,
            CloseReason::Truncated => Self::Truncated,
            CloseReason::Dropped => Self::Dropped,
            CloseReason::Tls(_) => Self::Tls,
            CloseReason::Failed(_) => Self::Failed,
            CloseReason::Evicted => Self::Evicted,
        }
    }
}

/// Counters of one shard since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardCounters {
    pub accepted: u64,
    pub connected: u64,
    /// Closed connections, for any reason.
    pub closed: u64,
    /// Of these, closed by the driver: time or byte limits, or stop.
    pub dropped: u64,
    /// Failures to accept for lack of descriptors or memory, after each of which accepting pauses. (The acceptor of
    /// `threads` counts at shard 0.)
    pub accepts_failed: u64,
    /// Messages to other shards that found a full mailbox and were retried.
    pub wakes_delayed: u64,
    /// Messages to other shards that were dropped because too many were waiting for a retry.
    pub wakes_lost: u64,
    /// Successful TLS handshakes, as server and client.
    pub handshakes: u64,
    /// Of these, resumed sessions.
    pub handshakes_resumed: u64,
    /// Failed TLS handshakes, timeouts included.
    pub handshakes_failed: u64,
    /// CPU time spent busy-polling before deadlines
    /// ([`spin_before_deadline`](crate::DriverSettings::spin_before_deadline)), in ns: idle time that was available for
    /// work.
    pub spun_ns: u64,
    /// [`closed`](Self::closed) by kind, in the order of [`CloseKind::ALL`].
    pub ended: [u64; CLOSE_KIND_COUNT],
    /// Bytes received for the node, from clients and upstreams; without discarded bytes and TLS overhead.
    pub received_bytes: u64,
    /// Bytes of the node that the kernel has taken; without TLS overhead.
    pub sent_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncounts_unsent_bytes() {
        let counters = LiveCounters::default();
        counters.add_sent(100);
        counters.uncount_sent(30);
        counters.add_end(CloseReason::Dropped);
        let snapshot = counters.snapshot();
        assert_eq!((snapshot.sent_bytes, snapshot.closed, snapshot.ended), (70, 1, [0, 0, 0, 1, 0, 0, 0]));
    }
}
