//! Calling nodes, and carrying out what they ask for. A node is called only from the loop, never from within another
//! call.

use breme_base::{Instant, nanos};
use breme_node::{Action, Actions, Close, CloseReason, ConnectionId, Log};
use bytes::Bytes;

use crate::Simulation;
use crate::agenda::Event;
use crate::host::{Armed, Hosted};
use crate::link::{EndIndex, Finish, Phase, Segment};
use crate::trace::What;

/// How much memory the log of actions keeps from one call to the next.
const ACTION_BYTES_KEPT: usize = 64 << 10;

impl Simulation {
    pub(crate) fn start(&mut self, shard_index: usize) {
        self.call(shard_index, None, What::Started, |node, now, actions| node.handle_started(now, actions));
    }

    pub(crate) fn wake(&mut self, shard_index: usize, message: u64) {
        self.call(shard_index, None, What::Woken(message), |node, now, actions| {
            node.handle_woken(now, message, actions);
        });
    }

    /// Calls the deadline if it has come; else looks again when it will.
    pub(crate) fn look_at_deadline(&mut self, shard_index: usize) {
        let shard = &mut self.shards[shard_index];
        if shard.armed.is_none_or(|armed| armed.at != self.now) {
            return; // an earlier look took the place of this one
        }
        shard.armed = None;
        if shard.deadline.is_some_and(|deadline| deadline <= self.now) {
            self.call(shard_index, None, What::Deadline, |node, now, actions| node.handle_deadline(now, actions));
        }
        self.arm(shard_index);
    }

    /// Stops listening, and tells every shard.
    pub(crate) fn stop(&mut self, host_index: usize) {
        let host = &mut self.hosts[host_index];
        if std::mem::replace(&mut host.is_stopping, true) {
            return;
        }
        // As the drivers do: who stands in the backlog has connected, and is served.
        for link_index in 0..self.links.len() {
            if self.links[link_index].host_index == host_index {
                self.accept(link_index);
            }
        }
        self.hosts[host_index].is_listening = false;
        let limit = self.now + self.network.stopping_timeout;
        self.agenda.arrange(limit, Event::StopLimit { host_index });
        for shard_index in self.hosts[host_index].shards.clone() {
            self.call(shard_index, None, What::Stopping, |node, now, actions| node.handle_stopping(now, actions));
        }
    }

    /// Tells every shard, unless that is what it was told last.
    pub(crate) fn pressure(&mut self, host_index: usize, is_under_pressure: bool) {
        if std::mem::replace(&mut self.hosts[host_index].is_under_pressure, is_under_pressure) == is_under_pressure {
            return;
        }
        for shard_index in self.hosts[host_index].shards.clone() {
            self.call(shard_index, None, What::Pressure(is_under_pressure), |node, now, actions| {
                node.handle_pressure(now, is_under_pressure, actions);
            });
        }
    }

    /// A stopping host's time is over.
    pub(crate) fn drop_host(&mut self, host_index: usize) {
        for shard_index in self.hosts[host_index].shards.clone() {
            for end in self.shards[shard_index].table.ends() {
                if self.end(end).may_send() {
                    self.send_reset(end);
                    self.finish_with(end, CloseReason::Dropped);
                }
            }
        }
    }

    /// Calls a node, if it is not done, and carries out what it asks for.
    pub(crate) fn call(
        &mut self,
        shard_index: usize,
        connection: Option<ConnectionId>,
        what: What,
        call: impl FnOnce(&mut dyn Hosted, Instant, &mut Actions),
    ) {
        let Some((mut node, mut actions)) = self.borrow_node(shard_index) else { return };
        self.trace.note(self.now, shard_index, connection, what);
        call(&mut *node, self.now, &mut actions);
        self.return_node(shard_index, node, actions, &[]);
    }

    /// The node and its log, unless it is done. To be [returned](Self::return_node).
    pub(crate) fn borrow_node(&mut self, shard_index: usize) -> Option<(Box<dyn Hosted>, Actions)> {
        let shard = &mut self.shards[shard_index];
        if shard.is_done {
            return None;
        }
        shard.node.take().map(|node| (node, std::mem::take(&mut shard.actions)))
    }

    /// Carries out what the node asked for in a call for which `received` was lent.
    pub(crate) fn return_node(
        &mut self,
        shard_index: usize,
        node: Box<dyn Hosted>,
        mut actions: Actions,
        received: &[u8],
    ) {
        self.shards[shard_index].node = Some(node);
        self.carry_out(shard_index, actions.with_received(received));
        actions.clear(ACTION_BYTES_KEPT);
        self.shards[shard_index].actions = actions;
        self.ask_deadline(shard_index);
        self.end_if_drained(shard_index);
    }

    /// Does what the node asked for, in order; then sends for each connection at once all that one call produced.
    fn carry_out(&mut self, shard_index: usize, log: Log<'_>) {
        let mut touched = std::mem::take(&mut self.touched);
        let mut exits = false;
        for index in 0..log.len() {
            match log.get(index) {
                Some(Action::Exit) => exits = true,
                Some(action) => touched.extend(self.perform(shard_index, action, || log.memory(index))),
                None => {}
            }
            if exits {
                break;
            }
        }
        for end in touched.drain(..) {
            self.flush(end);
        }
        self.touched = touched;
        if exits {
            self.exit(shard_index);
        }
    }

    /// Returns the end that has something to send now.
    fn perform<'a>(
        &mut self,
        shard_index: usize,
        action: &Action,
        copied: impl FnOnce() -> &'a [u8],
    ) -> Option<EndIndex> {
        match action {
            Action::Send(id, _) | Action::SendReceived(id, _) => {
                self.queue(shard_index, *id, || Segment::Memory(Bytes::copy_from_slice(copied())))
            }
            Action::SendShared(id, segment) => self.queue(shard_index, *id, || Segment::Memory(segment.clone())),
            Action::SendFile(id, range) => self.queue(shard_index, *id, || Segment::File(range.clone())),
            Action::Finish(id) => {
                let end = self.open_end(shard_index, *id, What::Finishes)?;
                let finish = &mut self.end_mut(end).outgoing.finish;
                if *finish == Finish::NotAsked {
                    *finish = Finish::Asked;
                }
                Some(end)
            }
            Action::Close(id, how) => {
                let end = self.open_end(shard_index, *id, What::closes(*how))?;
                match how {
                    Close::Graceful => self.begin_closing(end),
                    Close::Abort => self.abort(end),
                }
                Some(end)
            }
            Action::Pause(id) => {
                let end = self.open_end(shard_index, *id, What::Pauses)?;
                self.end_mut(end).incoming.is_paused = true;
                None
            }
            Action::Resume(id) => {
                let end = self.open_end(shard_index, *id, What::Resumes)?;
                let incoming = &mut self.end_mut(end).incoming;
                incoming.is_paused = false;
                incoming.is_relend_due = true;
                self.lend_soon(end);
                None
            }
            Action::Connect(ticket, endpoint) => {
                self.trace.note(self.now, shard_index, None, What::Connects(*ticket));
                self.dial(shard_index, *ticket, endpoint.address);
                None
            }
            Action::Wake(shard, message) => {
                self.trace.note(self.now, shard_index, None, What::Wakes(*shard, *message));
                self.arrange_wake(shard_index, shard.0, *message);
                None
            }
            Action::Secure(id, ticket, _) => {
                self.secure(shard_index, *id, *ticket);
                None
            }
            Action::Exit => None,
        }
    }

    fn queue(&mut self, shard_index: usize, id: ConnectionId, segment: impl FnOnce() -> Segment) -> Option<EndIndex> {
        let segment = segment();
        let length = match &segment {
            Segment::Memory(bytes) => bytes.len() as u64,
            Segment::File(range) => range.length,
        };
        let end = self.open_end(shard_index, id, What::Sends(length))?;
        let name = self.trace.name(shard_index);
        let is_open_to_send = self.end(end).outgoing.finish == Finish::NotAsked;
        assert!(is_open_to_send, "{name} sends {length} bytes on {id:?} after it has finished its sending");
        if length > 0 {
            self.end_mut(end).outgoing.push(segment);
        }
        Some(end)
    }

    /// The end that an id names, and a note of what is asked; none, and no note, if the id is stale or the connection
    /// closed.
    pub(crate) fn open_end(&mut self, shard_index: usize, id: ConnectionId, what: What) -> Option<EndIndex> {
        let end = self.shards[shard_index].table.end(id)?;
        if self.end(end).phase != Phase::Open {
            return None;
        }
        self.trace.note(self.now, shard_index, Some(id), what);
        Some(end)
    }

    fn arrange_wake(&mut self, from: usize, shard_id: usize, message: u64) {
        let shards = self.hosts[self.shards[from].host_index].shards.clone();
        let name = self.trace.name(from);
        assert!(shard_id < shards.len(), "{name} wakes shard {shard_id}, of {}", shards.len());
        let at = self.now + self.network.lateness.draw(&mut self.random);
        self.agenda.arrange(at, Event::Woken { shard_index: shards.start + shard_id, message });
    }

    /// The node is done: what is open is dropped, as a process that ends drops it.
    fn exit(&mut self, shard_index: usize) {
        self.trace.note(self.now, shard_index, None, What::Exits);
        for end in self.shards[shard_index].table.ends() {
            self.drop_end(end);
        }
        self.shards[shard_index].is_done = true;
    }

    fn ask_deadline(&mut self, shard_index: usize) {
        let shard = &mut self.shards[shard_index];
        shard.deadline = shard.node.as_ref().and_then(|node| node.next_deadline());
        self.arm(shard_index);
    }

    /// Arranges a look at the deadline, unless one is arranged that is early enough.
    fn arm(&mut self, shard_index: usize) {
        let shard = &self.shards[shard_index];
        let Some(deadline) = shard.deadline.filter(|&deadline| deadline != Instant::FAR) else { return };
        if shard.is_done || shard.armed.is_some_and(|armed| armed.deadline <= deadline) {
            return;
        }
        let late = nanos(self.network.timer_lateness.draw(&mut self.random));
        let at = Instant::from_nanos(deadline.max(self.now).as_nanos().saturating_add(late));
        self.shards[shard_index].armed = Some(Armed { deadline, at });
        self.agenda.arrange(at, Event::Deadline { shard_index });
    }

    /// A stopping host's shard ends with its last connection.
    pub(crate) fn end_if_drained(&mut self, shard_index: usize) {
        let shard = &mut self.shards[shard_index];
        let is_stopping = self.hosts[shard.host_index].is_stopping;
        if is_stopping && shard.table.is_empty() && shard.dialling_count == 0 {
            shard.is_done = true;
        }
    }
}
