//! Transport: from the queue through the window and over the wire to the inbox and the node; and the end of
//! connections.

use std::time::Duration;

use breme_base::{Instant, nanos};
use breme_node::{CloseReason, Received};

use crate::Simulation;
use crate::event_queue::SimEvent;
use crate::link::{CLIENT, End, EndIndex, EndPhase, Outgoing, Parcel, QueueState, SERVER, WriteShutdown};
use crate::network::Cuts;
use crate::trace::TraceEvent;

/// Limit of a graceful close with progress, as a multiple of its timeout.
const CLOSING_TIMEOUTS_MAX: u32 = 10;

/// Sending.
impl Simulation {
    /// Sends what the window allows. May be called at any time.
    pub(crate) fn flush(&mut self, end: EndIndex) {
        if !self.end(end).may_send() {
            return;
        }
        loop {
            let free_window_bytes = self.end(end).outgoing.free_window_bytes();
            if free_window_bytes == 0 {
                break;
            }
            let length = self.draw_cut(free_window_bytes);
            if !self.end_mut(end).outgoing.put_on_wire(length) {
                self.send_reset(end);
                self.finish_with(end, CloseReason::Failed(std::io::ErrorKind::UnexpectedEof));
                return;
            }
            self.send_parcel(end, Parcel::Bytes(length));
            self.end_mut(end).closing_progress += 1;
        }
        self.limit_resending_if_silent(end);
        self.update_queue_state(end);
        self.send_end_if_due(end);
    }

    pub(crate) fn flush_later(&mut self, end: EndIndex) {
        self.end_mut(end).outgoing.is_flush_due = false;
        self.flush(end);
    }

    fn draw_cut(&mut self, free_window_bytes: usize) -> usize {
        match self.network.cuts {
            Cuts::Nowhere => free_window_bytes,
            Cuts::EveryByte => 1,
            Cuts::Anywhere if self.random.chance(0.5) => free_window_bytes,
            Cuts::Anywhere => 1 + self.random.below(free_window_bytes as u64) as usize,
        }
    }

    /// Only the first parcel of a direction is scheduled: there may be one for each byte of a window.
    fn send_parcel(&mut self, end: EndIndex, parcel: Parcel) {
        let length = if let Parcel::Bytes(length) = parcel { length } else { 0 };
        let at = self.draw_arrival(end, length);
        let parcels = &mut self.end_mut(end).outgoing.parcels;
        parcels.push_back((at, parcel));
        if parcels.len() == 1 {
            self.events.schedule(at, SimEvent::Arrive { end: end.peer() });
        }
    }

    /// Arrival time of a segment sent now: after those before it.
    fn draw_arrival(&mut self, end: EndIndex, length: usize) -> Instant {
        let delay = self.network.delay.draw(&mut self.random);
        let now = self.now;
        let outgoing = &mut self.end_mut(end).outgoing;
        let mut departure = now;
        if let Some(rate) = outgoing.bytes_per_second {
            let busy = Duration::from_nanos(length as u64 * 1_000_000_000 / rate);
            outgoing.free_at = outgoing.free_at.max(now) + busy;
            departure = outgoing.free_at;
        }
        let earliest = outgoing.last_arrival + Duration::from_nanos(1);
        outgoing.last_arrival = (departure + delay).max(earliest);
        outgoing.last_arrival
    }

    /// Detects that the queue has become long or short.
    fn update_queue_state(&mut self, end: EndIndex) {
        let state = self.end_mut(end);
        let outgoing = &mut state.outgoing;
        let is_open = state.phase == EndPhase::Open;
        let became_long =
            outgoing.queue_state == QueueState::Short && outgoing.unsent_bytes > outgoing.long_queue_bytes;
        let became_empty = outgoing.queue_state != QueueState::Short && outgoing.unsent_bytes == 0;
        if became_long {
            outgoing.queue_state = QueueState::Long;
        }
        if is_open && (became_long || became_empty) {
            self.events.schedule(self.now, SimEvent::NotifyQueue { end });
        }
    }

    pub(crate) fn notify_queue(&mut self, end: EndIndex) {
        let state = self.end_mut(end);
        if state.phase != EndPhase::Open {
            return;
        }
        let (shard_index, id, unsent_bytes) = (state.shard_index, state.id, state.outgoing.unsent_bytes);
        let before = state.outgoing.queue_state;
        let after = if unsent_bytes == 0 { QueueState::Short } else { QueueState::LongReported };
        // A queue that drained before the node was notified is not reported.
        let is_reported = before == QueueState::LongReported || after == QueueState::LongReported;
        if before == after || before == QueueState::Short {
            return;
        }
        state.outgoing.queue_state = after;
        state.incoming.is_relend_due |= after == QueueState::Short;
        if is_reported {
            self.call(shard_index, Some(id), TraceEvent::Sent { unsent_bytes }, |node, now, actions| {
                node.handle_sent(now, id, unsent_bytes, actions);
            });
        }
        self.lend_soon(end);
    }

    fn send_end_if_due(&mut self, end: EndIndex) {
        let outgoing = &self.end(end).outgoing;
        if outgoing.finish == WriteShutdown::Requested && outgoing.unsent_bytes == 0 {
            self.send_end(end);
        }
        self.finish_closing(end);
    }

    fn send_end(&mut self, end: EndIndex) {
        self.end_mut(end).outgoing.finish = WriteShutdown::Done;
        self.send_parcel(end, Parcel::End);
    }

    /// A reset arrives after what was sent before it.
    pub(crate) fn send_reset(&mut self, end: EndIndex) {
        self.send_parcel(end, Parcel::Reset);
    }
}

/// Receiving.
impl Simulation {
    /// The next parcel from the peer arrives, unless it is dropped.
    pub(crate) fn arrive(&mut self, end: EndIndex) {
        let parcels = &mut self.end_mut(end.peer()).outgoing.parcels;
        let arrived = parcels.pop_front();
        if let Some(&(at, _)) = parcels.front() {
            self.events.schedule(at, SimEvent::Arrive { end });
        }
        if self.links[end.link_index].is_silent {
            return;
        }
        match arrived {
            Some((_, Parcel::Bytes(bytes))) => self.arrive_bytes(end, bytes),
            Some((_, Parcel::End)) => self.arrive_end(end),
            Some((_, Parcel::Reset)) => self.reset_end(end),
            None => {}
        }
    }

    fn arrive_bytes(&mut self, end: EndIndex, bytes: usize) {
        self.end_mut(end.peer()).outgoing.arrived_bytes += bytes;
        match self.end(end).phase {
            EndPhase::NotReported => {}
            EndPhase::Open => self.lend_soon(end),
            EndPhase::Closing => self.discard_arrived(end),
            EndPhase::Ending | EndPhase::Closed => {
                self.end_mut(end.peer()).outgoing.discard(bytes);
                self.send_reset(end);
            }
        }
    }

    fn arrive_end(&mut self, end: EndIndex) {
        self.end_mut(end).incoming.has_peer_ended = true;
        self.lend_soon(end);
        self.finish_closing(end);
    }

    pub(crate) fn reset_end(&mut self, end: EndIndex) {
        match self.end(end).phase {
            EndPhase::NotReported => self.end_mut(end).incoming.was_reset = true,
            EndPhase::Open | EndPhase::Closing => self.finish_with(end, CloseReason::Reset),
            EndPhase::Ending | EndPhase::Closed => {}
        }
    }

    /// Notifies the peer, after a delay, that its window has space.
    fn open_window(&mut self, end: EndIndex) {
        let Outgoing { unsent_bytes, is_flush_due, .. } = &mut self.end_mut(end.peer()).outgoing;
        if *unsent_bytes > 0 && !std::mem::replace(is_flush_due, true) {
            let at = self.now + self.network.delay.draw(&mut self.random);
            self.events.schedule(at, SimEvent::Flush { end: end.peer() });
        }
    }

    /// Schedules a read, if there is something for the node.
    pub(crate) fn lend_soon(&mut self, end: EndIndex) {
        let state = self.end_mut(end);
        if state.may_lend() && !std::mem::replace(&mut state.incoming.is_lend_due, true) {
            let at = self.now + self.network.lateness.draw(&mut self.random);
            self.events.schedule(at, SimEvent::Lend { end });
        }
    }

    /// Reads, and calls the node if there is news.
    pub(crate) fn lend(&mut self, end: EndIndex) {
        self.end_mut(end).incoming.is_lend_due = false;
        if !self.end(end).may_lend() {
            return;
        }
        let read_bytes = self.fill_inbox(end);
        let arrived_bytes = self.end(end.peer()).outgoing.arrived_bytes;
        let incoming = &mut self.end_mut(end).incoming;
        let is_relent = std::mem::take(&mut incoming.is_relend_due) && !incoming.inbox.is_empty();
        let ended = incoming.has_peer_ended && arrived_bytes == 0;
        if read_bytes > 0 || is_relent || (ended && !incoming.is_end_reported) {
            incoming.is_end_reported |= ended;
            self.lend_inbox(end, ended);
        }
        let has_more = self.end(end.peer()).outgoing.arrived_bytes > 0;
        let has_free_window = self.end(end).incoming.inbox.len() < self.network.lent_bytes_max;
        let is_end_due = self.end(end).incoming.has_peer_ended && !self.end(end).incoming.is_end_reported;
        if (has_more && has_free_window) || is_end_due {
            self.lend_soon(end);
        }
    }

    fn fill_inbox(&mut self, end: EndIndex) -> usize {
        let arrived_bytes = self.end(end.peer()).outgoing.arrived_bytes;
        let free_window_bytes = self.network.lent_bytes_max.saturating_sub(self.end(end).incoming.inbox.len());
        let mut length = arrived_bytes.min(free_window_bytes);
        if length > 1 && self.random.chance(self.network.short_reads) {
            length = 1 + self.random.below(length as u64) as usize;
        }
        if length > 0 {
            let mut inbox = std::mem::take(&mut self.end_mut(end).incoming.inbox);
            self.end_mut(end.peer()).outgoing.read(length, &mut inbox);
            self.end_mut(end).incoming.inbox = inbox;
            self.open_window(end);
        }
        length
    }

    fn lend_inbox(&mut self, end: EndIndex, ended: bool) {
        let (shard_index, id) = (self.end(end).shard_index, self.end(end).id);
        let Some((mut node, mut actions)) = self.borrow_node(shard_index) else { return };
        let mut inbox = std::mem::take(&mut self.end_mut(end).incoming.inbox);
        let lent_bytes = inbox.len();
        self.trace.add_bytes(&inbox);
        self.trace.record(self.now, shard_index, Some(id), TraceEvent::Lent { bytes: lent_bytes, ended });
        let taken_bytes =
            node.handle_received(self.now, id, Received { bytes: &inbox, ended, arrived_at: self.now }, &mut actions);
        let name = self.trace.name(shard_index);
        assert!(
            taken_bytes <= lent_bytes,
            "{name} took {taken_bytes} of the {lent_bytes} bytes that were lent on {id:?}"
        );
        self.trace.record(self.now, shard_index, Some(id), TraceEvent::Took(taken_bytes));
        self.end_mut(end).incoming.inbox = inbox.split_off(taken_bytes);
        self.return_node(shard_index, node, actions, &inbox);
    }
}

/// Closing.
impl Simulation {
    /// Graceful: the queue is sent, then the end; the peer's data is discarded until it ends too.
    pub(crate) fn begin_closing(&mut self, end: EndIndex) {
        let now = self.now;
        let timeout = self.network.closing_timeout;
        let state = self.end_mut(end);
        state.phase = EndPhase::Closing;
        state.incoming.inbox = Vec::new();
        state.closing_until = now + timeout * CLOSING_TIMEOUTS_MAX;
        if state.outgoing.finish == WriteShutdown::No {
            state.outgoing.finish = WriteShutdown::Requested;
        }
        let progress = state.closing_progress;
        self.events.schedule(now + timeout, SimEvent::CloseLimit { end, progress });
        self.discard_arrived(end);
    }

    fn discard_arrived(&mut self, end: EndIndex) {
        let arrived_bytes = self.end(end.peer()).outgoing.arrived_bytes;
        self.end_mut(end.peer()).outgoing.discard(arrived_bytes);
        self.open_window(end);
        let bytes_max = self.network.closing_bytes_max;
        let state = self.end_mut(end);
        state.closing_progress += 1;
        state.discarded_bytes += arrived_bytes as u64;
        if state.discarded_bytes > bytes_max {
            self.send_reset(end);
            self.finish_with(end, CloseReason::Dropped);
        }
    }

    /// A graceful close is complete when both ends were sent.
    fn finish_closing(&mut self, end: EndIndex) {
        let state = self.end(end);
        let is_complete = state.outgoing.finish == WriteShutdown::Done && state.incoming.has_peer_ended;
        if state.phase == EndPhase::Closing && is_complete {
            self.finish_with(end, CloseReason::Requested);
        }
    }

    pub(crate) fn limit_closing(&mut self, end: EndIndex, progress: u64) {
        let state = self.end(end);
        if state.phase != EndPhase::Closing {
            return;
        }
        if state.closing_progress == progress || self.now >= state.closing_until {
            self.send_reset(end);
            self.finish_with(end, CloseReason::Dropped);
            return;
        }
        let (at, progress) = (self.now + self.network.closing_timeout, state.closing_progress);
        self.events.schedule(at, SimEvent::CloseLimit { end, progress });
    }

    pub(crate) fn abort(&mut self, end: EndIndex) {
        self.send_reset(end);
        self.finish_with(end, CloseReason::Requested);
    }

    /// The connection is over; notifies its node.
    pub(crate) fn finish_with(&mut self, end: EndIndex, reason: CloseReason) {
        let state = self.end_mut(end);
        state.phase = EndPhase::Ending;
        state.discard();
        self.events.schedule(self.now, SimEvent::NotifyClosed { end, reason });
    }

    pub(crate) fn notify_closed(&mut self, end: EndIndex, reason: CloseReason) {
        let state = self.end_mut(end);
        if state.phase != EndPhase::Ending {
            return;
        }
        state.phase = EndPhase::Closed;
        let (shard_index, id) = (state.shard_index, state.id);
        self.shards[shard_index].table.remove(id);
        self.call(shard_index, Some(id), TraceEvent::Closed(reason), |node, now, actions| {
            node.handle_closed(now, id, reason, actions);
        });
    }

    /// As by an exiting process: a reset if data is unread, else an end.
    pub(crate) fn drop_end(&mut self, end: EndIndex) {
        let is_unread = self.end(end.peer()).outgoing.arrived_bytes > 0;
        let state = self.end_mut(end);
        if !state.may_send() {
            state.phase = EndPhase::Closed;
            return;
        }
        state.phase = EndPhase::Closed;
        state.discard();
        if is_unread {
            self.send_reset(end);
        } else if self.end(end).outgoing.finish != WriteShutdown::Done {
            self.send_end(end);
        }
    }
}

/// Faults.
impl Simulation {
    pub(crate) fn cut(&mut self, link_index: usize) {
        let ends = [CLIENT, SERVER].map(|side| EndIndex::new(link_index, side));
        if !ends.iter().any(|&end| self.end(end).is_alive()) {
            return;
        }
        self.summary.reset_count += 1;
        self.record_fault(link_index, TraceEvent::NetworkReset);
        ends.iter().for_each(|&end| self.reset_end(end));
    }

    pub(crate) fn silence(&mut self, link_index: usize) {
        if !self.links[link_index].ends.iter().any(End::is_alive) {
            return;
        }
        self.links[link_index].is_silent = true;
        self.summary.silenced_count += 1;
        self.record_fault(link_index, TraceEvent::NetworkSilent);
        for side in [CLIENT, SERVER] {
            self.limit_resending_if_silent(EndIndex::new(link_index, side));
        }
    }

    fn record_fault(&mut self, link_index: usize, what: TraceEvent) {
        let client = &self.links[link_index].ends[CLIENT];
        let connection = (client.phase != EndPhase::NotReported).then_some(client.id);
        self.trace.record(self.now, client.shard_index, connection, what);
    }

    /// Retransmissions into silence end with a failure.
    fn limit_resending_if_silent(&mut self, end: EndIndex) {
        let is_silent = self.links[end.link_index].is_silent;
        let state = self.end_mut(end);
        let is_waiting = state.outgoing.wire.len() > state.outgoing.arrived_bytes;
        if is_silent && is_waiting && !std::mem::replace(&mut state.is_resend_limited, true) {
            let at = Instant::from_nanos(self.now.as_nanos().saturating_add(nanos(self.network.resend_timeout)));
            self.events.schedule(at, SimEvent::ResendLimit { end });
        }
    }

    pub(crate) fn limit_resending(&mut self, end: EndIndex) {
        if self.end(end).may_send() {
            self.finish_with(end, CloseReason::Failed(std::io::ErrorKind::TimedOut));
        }
    }
}
