//! One direction of one connection: bytes that wait for the line, and bytes in transit.

use std::collections::VecDeque;

use breme_base::Instant;
use bytes::{Bytes, BytesMut};

/// The cost of an entry in transit, in addition to its bytes: without it, a peer that sends byte by byte could make the
/// table of entries much larger than the window.
const ENTRY_BYTES: usize = 64;

#[derive(Debug)]
pub(crate) struct Flow {
    /// Received, and not yet on the line.
    waiting: BytesMut,
    /// When the first of the waiting bytes was received, or the handshake ended.
    pub(crate) ready_at: Instant,
    in_transit: VecDeque<(Instant, Parcel)>,
    /// When the last parcel arrives: the next one does not overtake it.
    last_arrival: Instant,
    transit_bytes: usize,
    /// The end of the handshake; before it nothing enters the line.
    pub(crate) opens_at: Instant,
    pub(crate) is_open: bool,
    /// It is in the line's queue.
    pub(crate) has_turn: bool,
    pub(crate) source: Source,
    pub(crate) is_source_paused: bool,
    /// It is in the queue of flows that wait for others to hold less.
    pub(crate) is_starved: bool,
    pub(crate) sink: Sink,
    /// When a reset arrives. It does not wait for a full sink.
    reset_at: Instant,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parcel {
    Bytes(Bytes),
    /// End of the stream.
    End,
    Reset,
}

/// The state of a flow's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Sending,
    /// It has half-closed: the end follows the waiting bytes.
    Ended,
    /// It was reset: a reset follows.
    Reset,
    /// The end, or the reset, is in transit.
    Over,
}

/// The state of a flow's sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Receiving,
    /// Its queue is long: nothing is delivered until it is empty.
    Full,
    /// The end was delivered.
    Ended,
    /// It was closed or never connected: bytes for it are discarded.
    Gone,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self {
            waiting: BytesMut::new(),
            ready_at: Instant::ZERO,
            in_transit: VecDeque::new(),
            last_arrival: Instant::ZERO,
            transit_bytes: 0,
            opens_at: Instant::FAR,
            is_open: false,
            has_turn: false,
            source: Source::Sending,
            is_source_paused: false,
            is_starved: false,
            sink: Sink::Receiving,
            reset_at: Instant::FAR,
        }
    }

    pub(crate) fn push(&mut self, now: Instant, bytes: &[u8]) {
        if self.waiting.is_empty() {
            self.ready_at = now;
        }
        self.waiting.extend_from_slice(bytes);
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that count against the window.
    pub(crate) fn held_bytes(&self) -> usize {
        self.waiting.len() + self.transit_bytes + self.in_transit.len() * ENTRY_BYTES
    }

    /// The first waiting bytes, at most `bytes_max`; they are in transit once they are [sent](Self::send).
    pub(crate) fn take_segment(&mut self, bytes_max: usize) -> Bytes {
        let length = self.waiting.len().min(bytes_max);
        let segment = self.waiting.split_to(length).freeze();
        if self.waiting.is_empty() {
            self.waiting = BytesMut::new(); // it would keep the memory of what is in transit, and grow by copying it
        }
        segment
    }

    /// Puts a parcel in transit, after those before it.
    pub(crate) fn send(&mut self, arrives: Instant, parcel: Parcel) {
        self.last_arrival = self.last_arrival.max(arrives);
        match &parcel {
            Parcel::Bytes(bytes) => self.transit_bytes += bytes.len(),
            Parcel::End => {}
            Parcel::Reset => self.reset_at = self.last_arrival,
        }
        self.in_transit.push_back((self.last_arrival, parcel));
    }

    /// Puts the end of the stream in transit, if the source has ended and nothing waits.
    pub(crate) fn send_end_if_due(&mut self, arrives: Instant) {
        let parcel = match self.source {
            Source::Ended if self.waiting.is_empty() => Parcel::End,
            Source::Reset => Parcel::Reset,
            _ => return,
        };
        self.source = Source::Over;
        self.send(arrives, parcel);
    }

    /// Removes the next parcel that has arrived, unless the sink is full.
    pub(crate) fn pop_arrived(&mut self, now: Instant) -> Option<Parcel> {
        if self.sink == Sink::Full {
            return (self.reset_at <= now).then(|| {
                self.reset_at = Instant::FAR;
                Parcel::Reset
            });
        }
        if self.in_transit.front()?.0 > now {
            return None;
        }
        let (_, parcel) = self.in_transit.pop_front()?;
        if let Parcel::Bytes(bytes) = &parcel {
            self.transit_bytes -= bytes.len();
        }
        Some(parcel)
    }

    /// Delays a reset that was removed.
    pub(crate) fn put_back_reset(&mut self, arrives: Instant) {
        self.reset_at = arrives;
        self.in_transit.push_front((arrives, Parcel::Reset));
    }

    /// Discards what waits. Returns the number of bytes.
    pub(crate) fn discard_waiting(&mut self) -> usize {
        std::mem::take(&mut self.waiting).len()
    }

    /// Discards what waits and what is in transit. Returns the number of bytes.
    pub(crate) fn discard(&mut self) -> usize {
        self.in_transit.clear();
        self.discard_waiting() + std::mem::take(&mut self.transit_bytes)
    }

    /// When it is due by itself.
    pub(crate) fn deadline(&self) -> Instant {
        match (self.is_open, self.sink) {
            (false, _) => self.opens_at,
            (true, Sink::Full) => self.reset_at,
            (true, _) => self.in_transit.front().map_or(Instant::FAR, |(arrives, _)| *arrives),
        }
    }
}
