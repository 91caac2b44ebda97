//! Bytes on their way: from the queue through the window, over the wire, into the inbox, and to the node; and how a
//! connection ends.

use std::time::Duration;

use breme_base::{Instant, nanos};
use breme_node::{CloseReason, Received};

use crate::Simulation;
use crate::agenda::Event;
use crate::link::{CLIENT, End, EndIndex, Finish, Outgoing, Parcel, Phase, QueueState, SERVER};
use crate::network::Cuts;
use crate::trace::What;

/// A graceful close may take so many times its limit, as long as it makes progress.
const CLOSING_TIMEOUTS_MAX: u32 = 10;

/// Sending.
impl Simulation {
    /// Sends what the window allows. Safe to call at any time.
    pub(crate) fn flush(&mut self, end: EndIndex) {
        if !self.end(end).may_send() {
            return;
        }
        loop {
            let room = self.end(end).outgoing.room();
            if room == 0 {
                break;
            }
            let length = self.draw_cut(room);
            if !self.end_mut(end).outgoing.put_on_wire(length) {
                self.send_reset(end);
                self.finish_with(end, CloseReason::Failed(std::io::ErrorKind::UnexpectedEof));
                return;
            }
            self.send_parcel(end, Parcel::Bytes(length));
            self.end_mut(end).closing_progress += 1;
        }
        self.limit_resending_if_silent(end);
        self.note_queue(end);
        self.send_end_if_due(end);
    }

    pub(crate) fn flush_later(&mut self, end: EndIndex) {
        self.end_mut(end).outgoing.is_flush_due = false;
        self.flush(end);
    }

    fn draw_cut(&mut self, room: usize) -> usize {
        match self.network.cuts {
            Cuts::Nowhere => room,
            Cuts::EveryByte => 1,
            Cuts::Anywhere if self.random.chance(0.5) => room,
            Cuts::Anywhere => 1 + self.random.below(room as u64) as usize,
        }
    }

    /// Only the first parcel of a direction stands in the agenda: there may be one for each byte of a window.
    fn send_parcel(&mut self, end: EndIndex, parcel: Parcel) {
        let length = if let Parcel::Bytes(length) = parcel { length } else { 0 };
        let at = self.draw_arrival(end, length);
        let parcels = &mut self.end_mut(end).outgoing.parcels;
        parcels.push_back((at, parcel));
        if parcels.len() == 1 {
            self.agenda.arrange(at, Event::Arrive { end: end.peer() });
        }
    }

    /// When a segment that is sent now arrives: after those before it.
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

    /// Notices that the queue has become long, or short again.
    fn note_queue(&mut self, end: EndIndex) {
        let state = self.end_mut(end);
        let outgoing = &mut state.outgoing;
        let is_open = state.phase == Phase::Open;
        let became_long =
            outgoing.queue_state == QueueState::Short && outgoing.unsent_bytes > outgoing.long_queue_bytes;
        let became_empty = outgoing.queue_state != QueueState::Short && outgoing.unsent_bytes == 0;
        if became_long {
            outgoing.queue_state = QueueState::Long;
        }
        if is_open && (became_long || became_empty) {
            self.agenda.arrange(self.now, Event::TellQueue { end });
        }
    }

    pub(crate) fn tell_queue(&mut self, end: EndIndex) {
        let state = self.end_mut(end);
        if state.phase != Phase::Open {
            return;
        }
        let (shard_index, id, unsent_bytes) = (state.shard_index, state.id, state.outgoing.unsent_bytes);
        let before = state.outgoing.queue_state;
        let after = if unsent_bytes == 0 { QueueState::Short } else { QueueState::LongAndTold };
        // A queue that was long and drained before the node heard of it is not spoken of.
        let is_told = before == QueueState::LongAndTold || after == QueueState::LongAndTold;
        if before == after || before == QueueState::Short {
            return;
        }
        state.outgoing.queue_state = after;
        state.incoming.is_relend_due |= after == QueueState::Short;
        if is_told {
            self.call(shard_index, Some(id), What::Sent { unsent_bytes }, |node, now, actions| {
                node.handle_sent(now, id, unsent_bytes, actions);
            });
        }
        self.lend_soon(end);
    }

    fn send_end_if_due(&mut self, end: EndIndex) {
        let outgoing = &self.end(end).outgoing;
        if outgoing.finish == Finish::Asked && outgoing.unsent_bytes == 0 {
            self.send_end(end);
        }
        self.finish_closing(end);
    }

    fn send_end(&mut self, end: EndIndex) {
        self.end_mut(end).outgoing.finish = Finish::Done;
        self.send_parcel(end, Parcel::End);
    }

    /// A reset travels behind what was sent before it.
    pub(crate) fn send_reset(&mut self, end: EndIndex) {
        self.send_parcel(end, Parcel::Reset);
    }
}

/// Receiving.
impl Simulation {
    /// The next parcel of the peer reaches this end, unless it vanishes.
    pub(crate) fn arrive(&mut self, end: EndIndex) {
        let parcels = &mut self.end_mut(end.peer()).outgoing.parcels;
        let arrived = parcels.pop_front();
        if let Some(&(at, _)) = parcels.front() {
            self.agenda.arrange(at, Event::Arrive { end });
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
            Phase::Unborn => {}
            Phase::Open => self.lend_soon(end),
            Phase::Closing => self.discard_arrived(end),
            Phase::Ending | Phase::Gone => {
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
            Phase::Unborn => self.end_mut(end).incoming.was_reset = true,
            Phase::Open | Phase::Closing => self.finish_with(end, CloseReason::Reset),
            Phase::Ending | Phase::Gone => {}
        }
    }

    /// Lets the peer know, a little later, that its window has opened.
    fn open_window(&mut self, end: EndIndex) {
        let Outgoing { unsent_bytes, is_flush_due, .. } = &mut self.end_mut(end.peer()).outgoing;
        if *unsent_bytes > 0 && !std::mem::replace(is_flush_due, true) {
            let at = self.now + self.network.delay.draw(&mut self.random);
            self.agenda.arrange(at, Event::Flush { end: end.peer() });
        }
    }

    /// Arranges that the driver turns to what is there for the node, if it may.
    pub(crate) fn lend_soon(&mut self, end: EndIndex) {
        let state = self.end_mut(end);
        if state.may_lend() && !std::mem::replace(&mut state.incoming.is_lend_due, true) {
            let at = self.now + self.network.lateness.draw(&mut self.random);
            self.agenda.arrange(at, Event::Lend { end });
        }
    }

    /// Reads, and lends what is there if there is anything new to say.
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
        if read_bytes > 0 || is_relent || (ended && !incoming.is_end_told) {
            incoming.is_end_told |= ended;
            self.lend_inbox(end, ended);
        }
        let has_more = self.end(end.peer()).outgoing.arrived_bytes > 0;
        let has_room = self.end(end).incoming.inbox.len() < self.network.lent_bytes_max;
        let is_end_due = self.end(end).incoming.has_peer_ended && !self.end(end).incoming.is_end_told;
        if (has_more && has_room) || is_end_due {
            self.lend_soon(end);
        }
    }

    fn fill_inbox(&mut self, end: EndIndex) -> usize {
        let arrived_bytes = self.end(end.peer()).outgoing.arrived_bytes;
        let room = self.network.lent_bytes_max.saturating_sub(self.end(end).incoming.inbox.len());
        let mut length = arrived_bytes.min(room);
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
        self.trace.note_bytes(&inbox);
        self.trace.note(self.now, shard_index, Some(id), What::Lent { bytes: lent_bytes, ended });
        let taken_bytes =
            node.handle_received(self.now, id, Received { bytes: &inbox, ended, came: self.now }, &mut actions);
        let name = self.trace.name(shard_index);
        assert!(
            taken_bytes <= lent_bytes,
            "{name} took {taken_bytes} of the {lent_bytes} bytes that were lent on {id:?}"
        );
        self.trace.note(self.now, shard_index, Some(id), What::Took(taken_bytes));
        self.end_mut(end).incoming.inbox = inbox.split_off(taken_bytes);
        self.return_node(shard_index, node, actions, &inbox);
    }
}

/// Ending.
impl Simulation {
    /// Graceful: what is queued leaves, then the end; what the peer still sends is read into nothing until it ends too.
    pub(crate) fn begin_closing(&mut self, end: EndIndex) {
        let now = self.now;
        let timeout = self.network.closing_timeout;
        let state = self.end_mut(end);
        state.phase = Phase::Closing;
        state.incoming.inbox = Vec::new();
        state.closing_until = now + timeout * CLOSING_TIMEOUTS_MAX;
        if state.outgoing.finish == Finish::NotAsked {
            state.outgoing.finish = Finish::Asked;
        }
        let progress = state.closing_progress;
        self.agenda.arrange(now + timeout, Event::CloseLimit { end, progress });
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

    /// A graceful close is complete when both ends have been sent.
    fn finish_closing(&mut self, end: EndIndex) {
        let state = self.end(end);
        let is_complete = state.outgoing.finish == Finish::Done && state.incoming.has_peer_ended;
        if state.phase == Phase::Closing && is_complete {
            self.finish_with(end, CloseReason::Requested);
        }
    }

    pub(crate) fn limit_closing(&mut self, end: EndIndex, progress: u64) {
        let state = self.end(end);
        if state.phase != Phase::Closing {
            return;
        }
        if state.closing_progress == progress || self.now >= state.closing_until {
            self.send_reset(end);
            self.finish_with(end, CloseReason::Dropped);
            return;
        }
        let (at, progress) = (self.now + self.network.closing_timeout, state.closing_progress);
        self.agenda.arrange(at, Event::CloseLimit { end, progress });
    }

    pub(crate) fn abort(&mut self, end: EndIndex) {
        self.send_reset(end);
        self.finish_with(end, CloseReason::Requested);
    }

    /// The connection is over, and its node is to be told.
    pub(crate) fn finish_with(&mut self, end: EndIndex, reason: CloseReason) {
        let state = self.end_mut(end);
        state.phase = Phase::Ending;
        state.discard();
        self.agenda.arrange(self.now, Event::TellClosed { end, reason });
    }

    pub(crate) fn tell_closed(&mut self, end: EndIndex, reason: CloseReason) {
        let state = self.end_mut(end);
        if state.phase != Phase::Ending {
            return;
        }
        state.phase = Phase::Gone;
        let (shard_index, id) = (state.shard_index, state.id);
        self.shards[shard_index].table.remove(id);
        self.call(shard_index, Some(id), What::Closed(reason), |node, now, actions| {
            node.handle_closed(now, id, reason, actions);
        });
    }

    /// What the kernel does with a connection whose process has ended: a reset if something was not read, else an end.
    pub(crate) fn drop_end(&mut self, end: EndIndex) {
        let is_unread = self.end(end.peer()).outgoing.arrived_bytes > 0;
        let state = self.end_mut(end);
        if !state.may_send() {
            state.phase = Phase::Gone;
            return;
        }
        state.phase = Phase::Gone;
        state.discard();
        if is_unread {
            self.send_reset(end);
        } else if self.end(end).outgoing.finish != Finish::Done {
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
        self.note_fault(link_index, What::NetworkReset);
        ends.iter().for_each(|&end| self.reset_end(end));
    }

    pub(crate) fn silence(&mut self, link_index: usize) {
        if !self.links[link_index].ends.iter().any(End::is_alive) {
            return;
        }
        self.links[link_index].is_silent = true;
        self.summary.silenced_count += 1;
        self.note_fault(link_index, What::NetworkSilent);
        for side in [CLIENT, SERVER] {
            self.limit_resending_if_silent(EndIndex::new(link_index, side));
        }
    }

    fn note_fault(&mut self, link_index: usize, what: What) {
        let client = &self.links[link_index].ends[CLIENT];
        let connection = (client.phase != Phase::Unborn).then_some(client.id);
        self.trace.note(self.now, client.shard_index, connection, what);
    }

    /// What is on its way into silence is sent again and again, and given up in the end.
    fn limit_resending_if_silent(&mut self, end: EndIndex) {
        let is_silent = self.links[end.link_index].is_silent;
        let state = self.end_mut(end);
        let is_waiting = state.outgoing.wire.len() > state.outgoing.arrived_bytes;
        if is_silent && is_waiting && !std::mem::replace(&mut state.is_resend_limited, true) {
            let at = Instant::from_nanos(self.now.as_nanos().saturating_add(nanos(self.network.resend_timeout)));
            self.agenda.arrange(at, Event::ResendLimit { end });
        }
    }

    pub(crate) fn limit_resending(&mut self, end: EndIndex) {
        if self.end(end).may_send() {
            self.finish_with(end, CloseReason::Failed(std::io::ErrorKind::TimedOut));
        }
    }
}
