//! State of one connection: receive buffer, send queue and close sequence.
//!
//! ```text
//!   Connecting ──► (Handshaking) ──► Open ──► Flushing ──► Lingering ──► Ended
//!                   with TLS            │  close   │  queue empty   │  peer's end, time or bytes
//!                                       └──────────┴────────────────┴──► Ended (reset, abort, failure)
//! ```
//!
//! It never calls the node, but sets flags for the engine.

use std::io::IoSlice;
use std::ops::Range;

use breme_node::{Action, CloseReason, ConnectTicket, Log, TlsClientId};
use bytes::{Bytes, BytesMut};

use crate::send_queue::SendQueue;
use crate::settings::RECEIVE_CHUNK_BYTES_MAX;
use crate::socket::{SendFailure, SendResult};
use crate::transport::{FILE_TOO_SHORT, SEGMENTS_PER_SEND, Transport};

/// Limit of a receive while it is unknown whether data is relayed as fast as it arrives, in bytes: each slow reader
/// holds this much memory.
const SHORT_CHUNK_BYTES: usize = 32 * 1024;
/// After this many chunks of at least half that size without a pause, chunks become longer, which is cheaper: up to 4
/// MB in total, as much as the kernel may buffer for a peer that reads nothing.
const SHORT_CHUNKS: u8 = 128;

/// Bytes of a queue sent per turn, before other connections are served.
const FLUSH_BYTES_PER_TURN: usize = 1024 * 1024;

/// An idle connection costs this struct and a timer slot, and no buffers.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) phase: ConnectionPhase,
    /// Received, but not consumed by the node.
    pub(crate) retained: BytesMut,
    /// None: nothing is queued. An empty queue: only encrypted bytes wait, in the transport.
    pub(crate) queue: Option<Box<SendQueue>>,
    /// Set when a send or an event shows that the connection is broken; data received before may still be read.
    pub(crate) failure: Option<CloseReason>,
    pub(crate) finish: WriteShutdown,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// EPOLLRDHUP or similar: a short read is not the last.
    pub(crate) has_hangup: bool,
    /// The peer's end was read.
    pub(crate) has_ended: bool,
    pub(crate) is_paused: bool,
    /// The node must be called again with the retained bytes.
    pub(crate) is_relend_due: bool,
    /// While lingering under pressure: the deadline is near, and is extended only if the peer still sends.
    pub(crate) has_short_deadline: bool,
    pub(crate) queue_length: QueueLength,
    /// Accepted, not opened by us: nothing is lent while its send queue is long, unless full duplex.
    pub(crate) is_accepted: bool,
    pub(crate) is_full_duplex: bool,
    /// Queued in the engine's `ready` list.
    pub(crate) is_scheduled: bool,
    /// The node knows of it and must be notified of its close.
    pub(crate) is_reported: bool,
    /// TLS client to start when connected.
    pub(crate) tls_client: Option<TlsClientId>,
    pub(crate) operations: Operations,
    /// Bytes of the node, without TLS overhead, sent since the last [`take_sent_bytes`](Self::take_sent_bytes).
    sent_bytes: usize,
    /// Remaining short chunks.
    short_chunks: u8,
}

/// Operations in flight in the kernel (completion driver).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operations {
    pub(crate) receive: Receive,
    /// Receives one chunk per operation, since chunks were long lately.
    pub(crate) is_long: bool,
    /// Waits for writability.
    pub(crate) is_watching_writable: bool,
    pub(crate) break_watch: BreakWatch,
    /// The submission with its last batched send.
    pub(crate) batched_in: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Receive {
    #[default]
    Idle,
    Armed,
    /// Single shot.
    ArmedOnce,
    /// The final completion is outstanding.
    Cancelled,
}

/// The wait for an error or hang-up while nothing is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BreakWatch {
    #[default]
    Idle,
    Armed,
    /// There was a hang-up, which would be reported again at once.
    HungUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    Connecting(ConnectTicket),
    /// Connected, TLS handshake in progress.
    Handshaking(Initiator),
    Open,
    /// Closed by the node; the queue is being sent.
    Flushing {
        discarded_bytes: u64,
    },
    /// Everything is sent; the peer's remaining data is discarded.
    Lingering {
        discarded_bytes: u64,
    },
    Ended(CloseReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initiator {
    Accepted,
    Connected(ConnectTicket),
}

/// State of half-closing our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteShutdown {
    No,
    Requested,
    Done,
}

/// Whether the send queue exceeds the limit, so that the node must pause until it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueLength {
    Short,
    /// The node is not notified yet.
    Long,
    LongReported,
}

impl Connection {
    pub(crate) fn new(transport: Transport, phase: ConnectionPhase) -> Self {
        Self {
            transport,
            phase,
            retained: BytesMut::new(),
            queue: None,
            failure: None,
            finish: WriteShutdown::No,
            is_readable: false,
            is_writable: matches!(phase, ConnectionPhase::Open | ConnectionPhase::Handshaking(_)),
            has_hangup: false,
            has_ended: false,
            is_paused: false,
            is_relend_due: false,
            has_short_deadline: false,
            queue_length: QueueLength::Short,
            is_accepted: matches!(phase, ConnectionPhase::Open | ConnectionPhase::Handshaking(Initiator::Accepted)),
            is_full_duplex: false,
            is_scheduled: false,
            is_reported: phase == ConnectionPhase::Open,
            tls_client: None,
            operations: Operations::default(),
            sent_bytes: 0,
            short_chunks: SHORT_CHUNKS,
        }
    }

    pub(crate) fn may_lend(&self) -> bool {
        let is_held_back = self.is_accepted && !self.is_full_duplex && self.queue_length != QueueLength::Short;
        self.phase == ConnectionPhase::Open && !self.is_paused && !is_held_back
    }

    /// Free space in the receive buffer.
    pub(crate) fn free_bytes(&self, receive_bytes_max: usize) -> usize {
        receive_bytes_max.saturating_sub(self.retained.len())
    }

    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
        self.short_chunks = SHORT_CHUNKS;
    }

    pub(crate) fn count_received(&mut self, count: usize) {
        self.short_chunks = self.short_chunks.saturating_sub(u8::from(count >= SHORT_CHUNK_BYTES / 2));
    }

    /// Limit of the next receive, in bytes.
    pub(crate) fn chunk_bytes_max(&self) -> usize {
        if self.short_chunks > 0 { SHORT_CHUNK_BYTES } else { RECEIVE_CHUNK_BYTES_MAX }
    }

    pub(crate) fn is_lingering(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Lingering { .. })
    }

    /// Whether a response may be incomplete: only the node knows, unless it has finished sending. Idle connections are
    /// closed by their nodes early in a drain.
    pub(crate) fn may_be_answering(&self) -> bool {
        self.is_accepted && self.finish != WriteShutdown::Done
    }

    /// Whether to receive, if data arrives.
    pub(crate) fn wants_bytes(&self, receive_bytes_max: usize) -> bool {
        match self.phase {
            ConnectionPhase::Open => !self.has_ended && self.may_lend() && self.free_bytes(receive_bytes_max) > 0,
            ConnectionPhase::Flushing { .. } | ConnectionPhase::Lingering { .. } => !self.has_ended,
            ConnectionPhase::Handshaking(_) => true,
            ConnectionPhase::Connecting(_) | ConnectionPhase::Ended(_) => false,
        }
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        match self.phase {
            ConnectionPhase::Connecting(_) => true,
            ConnectionPhase::Handshaking(_) => self.transport.pending_bytes() > 0,
            _ => self.queue.is_some(),
        }
    }

    /// Whether received bytes can be lent to the node without buffering.
    pub(crate) fn accepts_directly(&self, count: usize, receive_bytes_max: usize) -> bool {
        self.transport.is_passthrough()
            && self.phase == ConnectionPhase::Open
            && self.wants_bytes(receive_bytes_max)
            && count <= self.free_bytes(receive_bytes_max)
    }

    /// Whether a send can join the batch and leave with it, as far as known.
    pub(crate) fn can_be_batched(&self) -> bool {
        self.may_send() && self.queue.is_none() && self.is_writable && self.transport.pending_bytes() == 0
    }

    /// Whether TLS can start: nothing is buffered in either direction.
    pub(crate) fn may_start_tls(&self) -> bool {
        let is_plain = self.transport.tls.is_none() && !self.is_accepted;
        is_plain && self.may_send() && self.queue.is_none() && self.retained.is_empty() && !self.has_ended
    }

    fn may_send(&self) -> bool {
        self.phase == ConnectionPhase::Open && self.finish == WriteShutdown::No && self.failure.is_none()
    }

    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.queue.as_ref().map_or(0, |queue| queue.bytes() + self.transport.pending_bytes() as u64)
    }

    /// Bytes of the node sent since the last call.
    pub(crate) fn take_sent_bytes(&mut self) -> usize {
        std::mem::take(&mut self.sent_bytes)
    }

    /// Unsent ciphertext keeps a queue, so that it is flushed.
    pub(crate) fn queue_pending(&mut self) {
        if self.queue.is_none() && self.failure.is_none() && self.transport.pending_bytes() > 0 {
            self.queue = Some(Box::default());
        }
    }

    /// Sends the segments of `range`: directly if the queue is empty; the rest is queued.
    pub(crate) fn send(&mut self, log: Log<'_>, range: Range<usize>) {
        if !self.may_send() {
            return;
        }
        let mut next = range.start;
        while next < range.end && self.queue.is_none() && self.is_writable && self.failure.is_none() {
            if matches!(log.get(next), Some(Action::SendFile(..))) {
                break;
            }
            next = self.send_directly(log, next..range.end);
        }
        if self.failure.is_some() {
            return;
        }
        let was_empty = self.queue.is_none();
        for index in next..range.end {
            self.enqueue(log, index, 0);
        }
        self.queue_pending();
        if was_empty {
            self.flush();
        }
    }

    /// Sends as many segments as fit one call, and queues what the kernel does not take. Returns the next index.
    fn send_directly(&mut self, log: Log<'_>, range: Range<usize>) -> usize {
        if log.memory(range.start).is_empty() {
            return range.start + 1;
        }
        let is_alone = range.len() == 1 || !log.is_memory(range.start + 1);
        let end = if is_alone { range.start + 1 } else { end_of_memory(log, range.clone()) };
        let more = end < range.end;
        let outcome = if is_alone {
            self.transport.send(log.memory(range.start), more)
        } else {
            let mut slices = [IoSlice::new(&[]); SEGMENTS_PER_SEND];
            for (slice, index) in slices.iter_mut().zip(range.start..end) {
                *slice = IoSlice::new(log.memory(index));
            }
            self.transport.send_segments(&slices[..end - range.start], more)
        };
        if let Some(moved) = self.update_after_send(&outcome) {
            self.sent_bytes += moved.bytes;
            self.enqueue_rest(log, range.start..end, moved.bytes);
        }
        end
    }

    fn enqueue_rest(&mut self, log: Log<'_>, range: Range<usize>, sent_bytes: usize) {
        let mut skipped = sent_bytes;
        for index in range {
            let length = log.memory(index).len();
            if skipped < length {
                self.enqueue(log, index, skipped);
            }
            skipped = skipped.saturating_sub(length);
        }
    }

    fn enqueue(&mut self, log: Log<'_>, index: usize, skipped: usize) {
        let queue = self.queue.get_or_insert_default();
        let is_encrypted_sent = self.transport.pending_bytes() == 0;
        match log.get(index) {
            Some(Action::Send(..) | Action::SendReceived(..)) => {
                queue.push(Bytes::copy_from_slice(&log.memory(index)[skipped..]));
            }
            Some(Action::SendShared(_, segment)) => queue.push(segment.slice(skipped..)),
            Some(Action::SendFile(_, range)) => queue.push_file(range.clone()),
            _ => {}
        }
        if queue.is_empty() && is_encrypted_sent {
            self.queue = None;
        }
    }

    /// Sends queued bytes until the kernel's buffer is full or the turn is over. Returns the number of bytes.
    pub(crate) fn flush(&mut self) -> usize {
        let mut flushed_bytes = 0;
        while self.is_writable && flushed_bytes < FLUSH_BYTES_PER_TURN {
            let Some(queue) = &mut self.queue else { break };
            let is_of_node = self.transport.pending_bytes() == 0;
            let outcome = if is_of_node { queue.send_some(&mut self.transport) } else { self.transport.flush() };
            let Some(moved) = self.update_after_send(&outcome) else { break };
            // Pending ciphertext was counted when it was encrypted.
            self.sent_bytes += if is_of_node { moved.bytes } else { 0 };
            flushed_bytes += moved.bytes;
            let is_encrypted_sent = self.transport.pending_bytes() == 0;
            self.queue.take_if(|queue| queue.is_empty() && is_encrypted_sent);
        }
        flushed_bytes
    }

    /// Updates the flags after a send; None: it failed.
    fn update_after_send(&mut self, outcome: &Result<SendResult, SendFailure>) -> Option<SendResult> {
        match *outcome {
            Ok(moved) => {
                self.is_writable = !moved.is_full;
                return Some(moved);
            }
            Err(SendFailure::Transport(reason)) => self.fail(reason),
            Err(SendFailure::FileTooShort) => {
                self.transport.reset_on_close();
                self.fail(FILE_TOO_SHORT);
                self.end(FILE_TOO_SHORT);
            }
        }
        None
    }

    /// Sending is no longer possible. The kernel may still hold received data, such as an early response.
    pub(crate) fn fail(&mut self, reason: CloseReason) {
        self.failure.get_or_insert(reason);
        self.queue = None;
        self.is_readable = true;
        if self.operations.receive == Receive::Idle {
            self.transport.socket.switch_to_syscalls();
        }
    }

    /// Queues the unsent rest of a batched send; nothing was sent since. Returns how many bytes of the node are unsent;
    /// ciphertext counts as sent.
    pub(crate) fn queue_unsent(&mut self, rest: Bytes) -> usize {
        self.is_writable = false;
        if let Some(tls) = &mut self.transport.tls {
            tls.keep_unsent(&rest);
            self.queue_pending();
            return 0;
        }
        let length = rest.len();
        self.queue.get_or_insert_default().push(rest);
        length
    }

    /// Half-closes the connection once everything is sent.
    pub(crate) fn finish_if_due(&mut self) {
        if self.finish == WriteShutdown::Requested && self.queue.is_none() && self.failure.is_none() {
            match self.transport.end_sending() {
                Ok(true) => self.finish = WriteShutdown::Done,
                Ok(false) => self.queue_pending(),
                Err(reason) => {
                    self.finish = WriteShutdown::Done;
                    self.fail(reason);
                }
            }
        }
    }

    /// Graceful close by the node: stop lending, send the queue.
    pub(crate) fn begin_closing(&mut self) {
        if self.phase == ConnectionPhase::Open {
            self.retained = BytesMut::new();
            self.phase = ConnectionPhase::Flushing { discarded_bytes: 0 };
        }
    }

    /// Goes from flushing to lingering if the queue is empty. Returns whether it did.
    pub(crate) fn linger_if_flushed(&mut self) -> bool {
        let ConnectionPhase::Flushing { discarded_bytes } = self.phase else { return false };
        if self.queue.is_some() || self.failure.is_some() {
            return false;
        }
        if self.finish != WriteShutdown::Done && (!self.has_ended || self.transport.tls.is_some()) {
            self.finish = WriteShutdown::Requested;
            self.finish_if_due();
            if self.queue.is_some() {
                return false; // close_notify is queued
            }
        }
        if self.has_ended {
            self.end(CloseReason::Requested);
            return false;
        }
        self.phase = ConnectionPhase::Lingering { discarded_bytes };
        true
    }

    /// Counts discarded bytes, and returns the total.
    pub(crate) fn discard(&mut self, count: u64) -> u64 {
        match &mut self.phase {
            ConnectionPhase::Flushing { discarded_bytes } | ConnectionPhase::Lingering { discarded_bytes } => {
                *discarded_bytes += count;
                *discarded_bytes
            }
            _ => 0,
        }
    }

    /// Only the first reason is kept.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        if !matches!(self.phase, ConnectionPhase::Ended(_)) {
            self.phase = ConnectionPhase::Ended(reason);
        }
    }
}

/// End of the in-memory segments within `range`, at most one send's worth.
fn end_of_memory(log: Log<'_>, range: Range<usize>) -> usize {
    let end = range.end.min(range.start + SEGMENTS_PER_SEND);
    (range.start..end).find(|&index| !log.is_memory(index)).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_size() {
        // Its slot of the table: the main part of the memory per idle connection, in addition to the timer slot and the
        // kernel's socket.
        let bytes = size_of::<(u32, Option<Connection>)>();
        assert!(bytes <= 144, "{bytes} bytes");
    }
}
