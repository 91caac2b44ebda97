//! A connection between two nodes: the driver's state at each end, and what is in transit in each direction.
//!
//! ```text
//!   node ─► queue ─► wire: [ arrived, unread │ in transit ] ─► inbox ─► node
//!            this end's driver   at most the window          the peer's driver: at most lent_bytes_max
//! ```

use std::collections::VecDeque;

use breme_base::{Instant, Random};
use breme_node::{ConnectTicket, ConnectionId, FileRange};
use bytes::Bytes;

use crate::Network;

/// A connection or connection attempt.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) ends: [End; 2],
    pub(crate) ticket: ConnectTicket,
    pub(crate) host_index: usize,
    /// At the listener, not accepted yet.
    pub(crate) is_in_backlog: bool,
    pub(crate) is_silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndIndex {
    pub(crate) link_index: usize,
    pub(crate) side: usize,
}

/// The connecting side.
pub(crate) const CLIENT: usize = 0;
/// The accepting side.
pub(crate) const SERVER: usize = 1;

impl EndIndex {
    pub(crate) const fn new(link_index: usize, side: usize) -> Self {
        Self { link_index, side }
    }

    pub(crate) const fn peer(self) -> Self {
        Self { link_index: self.link_index, side: 1 - self.side }
    }
}

/// One end: its driver's state, and the direction in which it sends.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) shard_index: usize,
    /// Nothing is lent while its queue is long, unless full duplex.
    pub(crate) is_accepted: bool,
    pub(crate) is_full_duplex: bool,
    pub(crate) id: ConnectionId,
    pub(crate) phase: EndPhase,
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    /// Grows with all progress after a close.
    pub(crate) closing_progress: u64,
    pub(crate) closing_until: Instant,
    pub(crate) discarded_bytes: u64,
    pub(crate) is_resend_limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndPhase {
    /// Unknown to the node.
    NotReported,
    Open,
    /// Closed gracefully by the node.
    Closing,
    /// Closed; the node is about to be notified.
    Ending,
    Closed,
}

#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// Read, not consumed by the node.
    pub(crate) inbox: Vec<u8>,
    pub(crate) is_paused: bool,
    pub(crate) is_lend_due: bool,
    /// The node resumed, or its queue has drained.
    pub(crate) is_relend_due: bool,
    pub(crate) has_peer_ended: bool,
    pub(crate) is_end_reported: bool,
    /// Reset before the node knew of it.
    pub(crate) was_reset: bool,
}

#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) queue: VecDeque<QueuedSegment>,
    pub(crate) unsent_bytes: u64,
    pub(crate) queue_state: QueueState,
    pub(crate) long_queue_bytes: u64,
    pub(crate) finish: WriteShutdown,
    pub(crate) wire: VecDeque<u8>,
    /// In transit, with arrival times.
    pub(crate) parcels: VecDeque<(Instant, Parcel)>,
    /// Arrived, not read.
    pub(crate) arrived_bytes: usize,
    pub(crate) window_bytes: usize,
    pub(crate) bytes_per_second: Option<u64>,
    /// When a slow direction can send the next segment.
    pub(crate) free_at: Instant,
    pub(crate) last_arrival: Instant,
    pub(crate) is_flush_due: bool,
}

/// A queued segment.
#[derive(Debug)]
pub(crate) enum QueuedSegment {
    Memory(Bytes),
    File(FileRange),
}

/// A unit in transit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parcel {
    /// This many bytes of the wire.
    Bytes(usize),
    /// End of the stream.
    End,
    Reset,
}

/// Whether the queue is long, and whether the node was notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueState {
    Short,
    Long,
    LongReported,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteShutdown {
    No,
    Requested,
    Done,
}

impl Link {
    pub(crate) fn new(client_shard: usize, ticket: ConnectTicket, network: &Network, random: &mut Random) -> Self {
        let mut end = |is_accepted| End::new(client_shard, is_accepted, network, random);
        Self { ends: [end(false), end(true)], ticket, host_index: 0, is_in_backlog: false, is_silent: false }
    }
}

impl End {
    fn new(shard_index: usize, is_accepted: bool, network: &Network, random: &mut Random) -> Self {
        Self {
            shard_index,
            is_accepted,
            is_full_duplex: false,
            id: ConnectionId::new(u32::MAX, u32::MAX),
            phase: EndPhase::NotReported,
            incoming: Incoming::default(),
            outgoing: Outgoing::new(network, random),
            closing_progress: 0,
            closing_until: Instant::FAR,
            discarded_bytes: 0,
            is_resend_limited: false,
        }
    }

    pub(crate) fn may_lend(&self) -> bool {
        let is_held_back = self.is_accepted && !self.is_full_duplex && self.outgoing.queue_state != QueueState::Short;
        self.phase == EndPhase::Open && !self.incoming.is_paused && !is_held_back
    }

    pub(crate) fn may_send(&self) -> bool {
        matches!(self.phase, EndPhase::Open | EndPhase::Closing)
    }

    /// Whether the node has it, or will.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.phase, EndPhase::NotReported | EndPhase::Open | EndPhase::Closing)
    }

    /// Discards unsent and unconsumed bytes.
    pub(crate) fn discard(&mut self) {
        self.incoming.inbox = Vec::new();
        self.outgoing.queue = VecDeque::new();
        self.outgoing.unsent_bytes = 0;
    }
}

impl Outgoing {
    fn new(network: &Network, random: &mut Random) -> Self {
        let is_slow = random.chance(network.slow);
        Self {
            queue: VecDeque::new(),
            unsent_bytes: 0,
            queue_state: QueueState::Short,
            long_queue_bytes: network.long_queue_bytes.draw(random),
            finish: WriteShutdown::No,
            wire: VecDeque::new(),
            parcels: VecDeque::new(),
            arrived_bytes: 0,
            window_bytes: usize::try_from(network.window_bytes.draw(random).max(1)).unwrap_or(usize::MAX),
            bytes_per_second: is_slow.then(|| network.slow_rate.draw(random).max(1)),
            free_at: Instant::ZERO,
            last_arrival: Instant::ZERO,
            is_flush_due: false,
        }
    }

    pub(crate) fn push(&mut self, segment: QueuedSegment) {
        self.unsent_bytes += match &segment {
            QueuedSegment::Memory(bytes) => bytes.len() as u64,
            QueuedSegment::File(range) => range.length,
        };
        self.queue.push_back(segment);
    }

    /// Free space in the window.
    pub(crate) fn free_window_bytes(&self) -> usize {
        let free_window_bytes = self.window_bytes.saturating_sub(self.wire.len());
        free_window_bytes.min(usize::try_from(self.unsent_bytes).unwrap_or(usize::MAX))
    }

    /// Moves bytes from the queue to the wire. False if they are missing: a file may have been truncated.
    pub(crate) fn put_on_wire(&mut self, bytes: usize) -> bool {
        let mut missing = bytes;
        while missing > 0 {
            let Some(segment) = self.queue.front_mut() else { return false };
            let moved = match segment {
                QueuedSegment::Memory(memory) => take_memory(memory, missing, &mut self.wire),
                QueuedSegment::File(range) => take_file(range, missing, &mut self.wire),
            };
            let Some((moved, is_spent)) = moved else { return false };
            if is_spent {
                self.queue.pop_front();
            }
            missing -= moved;
            self.unsent_bytes -= moved as u64;
        }
        true
    }

    /// Moves arrived bytes from the wire to the inbox.
    pub(crate) fn read(&mut self, bytes: usize, inbox: &mut Vec<u8>) {
        let (front, back) = self.wire.as_slices();
        let from_front = bytes.min(front.len());
        inbox.extend_from_slice(&front[..from_front]);
        inbox.extend_from_slice(&back[..bytes - from_front]);
        self.discard(bytes);
    }

    /// Removes arrived bytes from the wire.
    pub(crate) fn discard(&mut self, bytes: usize) {
        self.arrived_bytes -= bytes;
        self.wire.drain(..bytes);
    }
}

fn take_memory(memory: &mut Bytes, limit: usize, wire: &mut VecDeque<u8>) -> Option<(usize, bool)> {
    let part = memory.split_to(limit.min(memory.len()));
    wire.extend(&part[..]);
    Some((part.len(), memory.is_empty()))
}

/// None if the file is too short.
fn take_file(range: &mut FileRange, limit: usize, wire: &mut VecDeque<u8>) -> Option<(usize, bool)> {
    use std::os::unix::fs::FileExt;
    let length = usize::try_from(range.length).unwrap_or(usize::MAX).min(limit);
    let mut part = vec![0; length];
    range.file.read_exact_at(&mut part, range.offset).ok()?;
    wire.extend(&part);
    range.offset += length as u64;
    range.length -= length as u64;
    Some((length, range.length == 0))
}
