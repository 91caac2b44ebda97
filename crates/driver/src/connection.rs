//! One connection: what was received and not taken, what was sent and has not left, and how it ends.
//!
//! ```text
//!   Connecting ──► (Handshaking) ──► Open ──► Flushing ──► Lingering ──► Ended
//!                   with TLS            │  close   │  queue empty   │  peer's end, time or bytes
//!                                       └──────────┴────────────────┴──► Ended (reset, abort, failure)
//! ```
//!
//! It calls no node: it says in its fields what has become true, and the engine looks at them.

use std::io::IoSlice;
use std::ops::Range;

use breme_node::{Action, CloseReason, ConnectTicket, Log, TlsClientId};
use bytes::{Bytes, BytesMut};

use crate::engine::RECEIPT_BYTES_MAX;
use crate::queue::SendQueue;
use crate::socket::{Moved, SendFailure};
use crate::transport::{FILE_TOO_SHORT, SEGMENTS_PER_SEND, Transport};

/// One receipt brings at most so much while it is not known whether what it is passed on to reads as fast: this is what
/// waits in memory for each slow reader.
const SHORT_RECEIPT_BYTES: usize = 32 * 1024;
/// So many of them that are at least half as long must have come without a pause before receipts are longer, which
/// costs less: up to 4 MB, as much as the kernel's send buffer may take for a peer that reads nothing.
const SHORT_RECEIPTS: u8 = 128;

/// Bytes that one connection may send before the others have their turn.
const FLUSH_BYTES_PER_TURN: usize = 1024 * 1024;

/// An idle connection costs this and its place in the timers, and no buffers.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    pub(crate) phase: Phase,
    /// Received, and not taken by the node.
    pub(crate) retained: BytesMut,
    /// There is none while nothing waits. It may be empty: then only what is sealed waits, in the transport.
    pub(crate) queue: Option<Box<SendQueue>>,
    /// Sending or the kernel's word has shown that the connection is broken; what was received before may still be
    /// read.
    pub(crate) failure: Option<CloseReason>,
    pub(crate) finish: Finish,
    /// There may be something to read.
    pub(crate) is_readable: bool,
    /// The kernel may take something.
    pub(crate) is_writable: bool,
    /// The kernel has said that the peer's end is near: a short read is not the last.
    pub(crate) is_end_near: bool,
    /// The peer's end has been read.
    pub(crate) has_ended: bool,
    pub(crate) is_paused: bool,
    /// The node wants to see again what it has not taken.
    pub(crate) is_relend_due: bool,
    /// While lingering: others wait for its place, and its deadline is near. If the peer is silent until then, that is
    /// the end.
    pub(crate) is_hurried: bool,
    pub(crate) length: QueueLength,
    /// Accepted, not opened: while its queue is long, nothing is lent, unless it is full duplex.
    pub(crate) is_accepted: bool,
    pub(crate) is_full_duplex: bool,
    /// The connection stands in the engine's list of those that want a turn.
    pub(crate) is_listed: bool,
    /// The node has been told of it, and will be told of its end.
    pub(crate) is_known: bool,
    /// How TLS begins when the connection is there.
    pub(crate) tls_client: Option<TlsClientId>,
    pub(crate) operations: Operations,
    /// Bytes of the node that have left and that the engine has not counted yet.
    left_bytes: usize,
    /// So many receipts are still to be short.
    short_receipts: u8,
}

/// What is in flight in the kernel for a connection, where the driver works by completion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operations {
    pub(crate) receive: Receive,
    /// So much came lately that it is received piece by piece.
    pub(crate) is_long: bool,
    /// It is told when the kernel takes bytes again.
    pub(crate) is_watching_room: bool,
    /// It is told when the connection breaks while nothing is received.
    pub(crate) is_watching_break: bool,
    /// The submission that its last gathered send belongs to.
    pub(crate) gathered_in: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Receive {
    #[default]
    Idle,
    Armed,
    /// It brings one piece, and no more by itself.
    ArmedOnce,
    /// Its last completion has not come yet.
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connecting(ConnectTicket),
    /// The connection is there; TLS is not yet.
    Handshaking(Opening),
    Open,
    /// The node has closed it; the queue still leaves.
    Flushing {
        discarded_bytes: u64,
    },
    /// All has left; the peer's rest is read into nothing.
    Lingering {
        discarded_bytes: u64,
    },
    Ended(CloseReason),
}

/// Who began a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Accepted,
    Connected(ConnectTicket),
}

/// How far the end of our sending has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    NotAsked,
    Asked,
    Done,
}

/// Whether the queue became so long that the node is to produce no more until it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueLength {
    Short,
    /// The node does not know yet.
    Long,
    LongAndTold,
}

impl Connection {
    pub(crate) fn new(transport: Transport, phase: Phase) -> Self {
        Self {
            transport,
            phase,
            retained: BytesMut::new(),
            queue: None,
            failure: None,
            finish: Finish::NotAsked,
            is_readable: false,
            is_writable: matches!(phase, Phase::Open | Phase::Handshaking(_)),
            is_end_near: false,
            has_ended: false,
            is_paused: false,
            is_relend_due: false,
            is_hurried: false,
            length: QueueLength::Short,
            is_accepted: matches!(phase, Phase::Open | Phase::Handshaking(Opening::Accepted)),
            is_full_duplex: false,
            is_listed: false,
            is_known: phase == Phase::Open,
            tls_client: None,
            operations: Operations::default(),
            left_bytes: 0,
            short_receipts: SHORT_RECEIPTS,
        }
    }

    /// Whether the node may be shown bytes.
    pub(crate) fn may_lend(&self) -> bool {
        let is_held_back = self.is_accepted && !self.is_full_duplex && self.length != QueueLength::Short;
        self.phase == Phase::Open && !self.is_paused && !is_held_back
    }

    /// How many bytes more may wait for the node.
    pub(crate) fn room(&self, receive_bytes_max: usize) -> usize {
        receive_bytes_max.saturating_sub(self.retained.len())
    }

    /// Nothing is lent until it is resumed.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
        self.short_receipts = SHORT_RECEIPTS;
    }

    /// So much has come.
    pub(crate) fn note_received(&mut self, count: usize) {
        self.short_receipts = self.short_receipts.saturating_sub(u8::from(count >= SHORT_RECEIPT_BYTES / 2));
    }

    /// What one receipt may bring.
    pub(crate) fn receipt_bytes_max(&self) -> usize {
        if self.short_receipts > 0 { SHORT_RECEIPT_BYTES } else { RECEIPT_BYTES_MAX }
    }

    /// Whether it is over but for what its peer still sends.
    pub(crate) fn is_lingering(&self) -> bool {
        matches!(self.phase, Phase::Lingering { .. })
    }

    /// Whether the kernel should be asked for bytes, were there any.
    pub(crate) fn wants_bytes(&self, receive_bytes_max: usize) -> bool {
        match self.phase {
            Phase::Open => !self.has_ended && self.may_lend() && self.room(receive_bytes_max) > 0,
            Phase::Flushing { .. } | Phase::Lingering { .. } => !self.has_ended,
            Phase::Handshaking(_) => true,
            Phase::Connecting(_) | Phase::Ended(_) => false,
        }
    }

    /// Whether it waits for the kernel to take something.
    pub(crate) fn wants_to_send(&self) -> bool {
        match self.phase {
            Phase::Connecting(_) => true,
            Phase::Handshaking(_) => self.transport.pending_bytes() > 0,
            _ => self.queue.is_some(),
        }
    }

    /// Whether bytes that the kernel brought can go to the node at once.
    pub(crate) fn takes(&self, count: usize, receive_bytes_max: usize) -> bool {
        self.transport.is_clear()
            && self.phase == Phase::Open
            && self.wants_bytes(receive_bytes_max)
            && count <= self.room(receive_bytes_max)
    }

    /// Whether bytes may leave with others', and as soon as those do as far as is known.
    pub(crate) fn may_be_gathered(&self) -> bool {
        self.may_send() && self.queue.is_none() && self.is_writable && self.transport.pending_bytes() == 0
    }

    /// Whether TLS may begin now: nothing waits on either side.
    pub(crate) fn may_be_secured(&self) -> bool {
        let is_plain = self.transport.secured.is_none() && !self.is_accepted;
        is_plain && self.may_send() && self.queue.is_none() && self.retained.is_empty() && !self.has_ended
    }

    fn may_send(&self) -> bool {
        self.phase == Phase::Open && self.finish == Finish::NotAsked && self.failure.is_none()
    }

    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.queue.as_ref().map_or(0, |queue| queue.bytes() + self.transport.pending_bytes() as u64)
    }

    /// Bytes that have left since this was asked last.
    pub(crate) fn take_left_bytes(&mut self) -> usize {
        std::mem::take(&mut self.left_bytes)
    }

    /// What is sealed and has not left keeps a queue, so that it is not forgotten.
    pub(crate) fn queue_pending(&mut self) {
        if self.queue.is_none() && self.failure.is_none() && self.transport.pending_bytes() > 0 {
            self.queue = Some(Box::default());
        }
    }

    /// Sends the segments of `range`: directly from where they are, if nothing waits before them; the rest is queued.
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

    /// One call for as many segments as it takes; what the kernel leaves of them is queued. Returns the next index.
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
        if let Some(moved) = self.note(&outcome) {
            self.left_bytes += moved.bytes;
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
        let is_sealed_out = self.transport.pending_bytes() == 0;
        match log.get(index) {
            Some(Action::Send(..) | Action::SendReceived(..)) => {
                queue.push(Bytes::copy_from_slice(&log.memory(index)[skipped..]));
            }
            Some(Action::SendShared(_, segment)) => queue.push(segment.slice(skipped..)),
            Some(Action::SendFile(_, range)) => queue.push_file(range.clone()),
            _ => {}
        }
        if queue.is_empty() && is_sealed_out {
            self.queue = None;
        }
    }

    /// Sends what waits, as long as the kernel takes it and its turn lasts. Returns how many bytes left.
    pub(crate) fn flush(&mut self) -> usize {
        let mut flushed_bytes = 0;
        while self.is_writable && flushed_bytes < FLUSH_BYTES_PER_TURN {
            let Some(queue) = &mut self.queue else { break };
            let is_of_node = self.transport.pending_bytes() == 0;
            let outcome = if is_of_node { queue.send_some(&mut self.transport) } else { self.transport.flush() };
            let Some(moved) = self.note(&outcome) else { break };
            // What TLS had pending was counted when it was sealed.
            self.left_bytes += if is_of_node { moved.bytes } else { 0 };
            flushed_bytes += moved.bytes;
            let is_sealed_out = self.transport.pending_bytes() == 0;
            self.queue.take_if(|queue| queue.is_empty() && is_sealed_out);
        }
        flushed_bytes
    }

    /// Notes what a send says of the connection; none if it has failed.
    fn note(&mut self, outcome: &Result<Moved, SendFailure>) -> Option<Moved> {
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

    /// Nothing can be sent any more. What the peer sent before may still wait in the kernel: an early answer, for
    /// example.
    pub(crate) fn fail(&mut self, reason: CloseReason) {
        self.failure.get_or_insert(reason);
        self.queue = None;
        self.is_readable = true;
        if self.operations.receive == Receive::Idle {
            self.transport.socket.ask_for_rest();
        }
    }

    /// The kernel took only a part of a send, or nothing: this is the rest. Nothing was sent since. Returns how much of
    /// the node's has not left; what is sealed has, as far as that is concerned.
    pub(crate) fn wait_with(&mut self, rest: Bytes) -> usize {
        self.is_writable = false;
        if let Some(secured) = &mut self.transport.secured {
            secured.keep_unsent(&rest);
            self.queue_pending();
            return 0;
        }
        let length = rest.len();
        self.queue.get_or_insert_default().push(rest);
        length
    }

    /// Ends our sending if that was asked for and everything has left.
    pub(crate) fn finish_if_due(&mut self) {
        if self.finish == Finish::Asked && self.queue.is_none() && self.failure.is_none() {
            match self.transport.end_sending() {
                Ok(true) => self.finish = Finish::Done,
                Ok(false) => self.queue_pending(),
                Err(reason) => {
                    self.finish = Finish::Done;
                    self.fail(reason);
                }
            }
        }
    }

    /// The node closes it gracefully: nothing more is lent, what is queued leaves.
    pub(crate) fn begin_closing(&mut self) {
        if self.phase == Phase::Open {
            self.retained = BytesMut::new();
            self.phase = Phase::Flushing { discarded_bytes: 0 };
        }
    }

    /// Goes on from flushing to lingering when the queue is empty. Returns whether it just did.
    pub(crate) fn linger_if_flushed(&mut self, is_hurried: bool) -> bool {
        let Phase::Flushing { discarded_bytes } = self.phase else { return false };
        if self.queue.is_some() || self.failure.is_some() {
            return false;
        }
        if self.finish != Finish::Done && (!self.has_ended || self.transport.secured.is_some()) {
            self.finish = Finish::Asked;
            self.finish_if_due();
            if self.queue.is_some() {
                return false; // the word of the end has not left
            }
        }
        if self.has_ended {
            self.end(CloseReason::Requested);
            return false;
        }
        self.phase = Phase::Lingering { discarded_bytes };
        self.is_hurried = is_hurried;
        true
    }

    /// Counts bytes that were read into nothing, and returns how many there have been.
    pub(crate) fn discard(&mut self, count: u64) -> u64 {
        match &mut self.phase {
            Phase::Flushing { discarded_bytes } | Phase::Lingering { discarded_bytes } => {
                *discarded_bytes += count;
                *discarded_bytes
            }
            _ => 0,
        }
    }

    /// The first reason stays.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        if !matches!(self.phase, Phase::Ended(_)) {
            self.phase = Phase::Ended(reason);
        }
    }
}

/// Where the segments that lie in memory end, within `range` and what one send may hold.
fn end_of_memory(log: Log<'_>, range: Range<usize>) -> usize {
    let end = range.end.min(range.start + SEGMENTS_PER_SEND);
    (range.start..end).find(|&index| !log.is_memory(index)).unwrap_or(end)
}
