//! Calling nodes and running their actions. Nodes are only called from the main loop, so calls never nest.

use breme_base::{Instant, nanos};
use breme_node::{Action, Actions, Close, CloseReason, ConnectionId, Log};
use bytes::Bytes;

use crate::Simulation;
use crate::event_queue::SimEvent;
use crate::host::{DeadlineCheck, Hosted};
use crate::link::{EndIndex, EndPhase, QueuedSegment, WriteShutdown};
use crate::trace::TraceEvent;

/// Capacity of the action log kept between calls.
const ACTION_BYTES_KEPT: usize = 64 << 10;

impl Simulation {
    pub(crate) fn start(&mut self, shard_index: usize) {
        self.call(shard_index, None, TraceEvent::Started, |node, now, actions| node.handle_started(now, actions));
    }

    pub(crate) fn wake(&mut self, shard_index: usize, message: u64) {
        self.call(shard_index, None, TraceEvent::Woken(message), |node, now, actions| {
            node.handle_woken(now, message, actions);
        });
    }

    /// Calls the node if its deadline has passed, and schedules the next check.
    pub(crate) fn check_deadline(&mut self, shard_index: usize) {
        let shard = &mut self.shards[shard_index];
        if shard.check.is_none_or(|check| check.at != self.now) {
            return; // superseded by an earlier check
        }
        shard.check = None;
        if shard.deadline.is_some_and(|deadline| deadline <= self.now) {
            self.call(shard_index, None, TraceEvent::Deadline, |node, now, actions| node.handle_deadline(now, actions));
        }
        self.schedule_deadline_check(shard_index);
    }

    /// Stops listening, and notifies all shards.
    pub(crate) fn stop(&mut self, host_index: usize) {
        let host = &mut self.hosts[host_index];
        if std::mem::replace(&mut host.is_stopping, true) {
            return;
        }
        // As in other drivers: connections in the backlog are established and are served.
        for link_index in 0..self.links.len() {
            if self.links[link_index].host_index == host_index {
                self.accept(link_index);
            }
        }
        self.hosts[host_index].is_listening = false;
        let limit = self.now + self.network.stopping_timeout;
        self.events.schedule(limit, SimEvent::StopLimit { host_index });
        for shard_index in self.hosts[host_index].shards.clone() {
            self.call(shard_index, None, TraceEvent::Stopping, |node, now, actions| node.handle_stopping(now, actions));
        }
    }

    /// Notifies all shards of a change.
    pub(crate) fn pressure(&mut self, host_index: usize, is_under_pressure: bool) {
        if std::mem::replace(&mut self.hosts[host_index].is_under_pressure, is_under_pressure) == is_under_pressure {
            return;
        }
        for shard_index in self.hosts[host_index].shards.clone() {
            self.call(shard_index, None, TraceEvent::Pressure(is_under_pressure), |node, now, actions| {
                node.handle_pressure(now, is_under_pressure, actions);
            });
        }
    }

    /// The stopping timeout of a host has passed.
    pub(crate) fn drop_host(&mut self, host_index: usize) {
        for shard_index in self.hosts[host_index].shards.clone() {
            for end in self.ends(shard_index) {
                if self.end(end).may_send() {
                    self.send_reset(end);
                    self.finish_with(end, CloseReason::Dropped);
                }
            }
        }
    }

    /// Calls a node unless it is done, and runs its actions.
    pub(crate) fn call(
        &mut self,
        shard_index: usize,
        connection: Option<ConnectionId>,
        what: TraceEvent,
        call: impl FnOnce(&mut dyn Hosted, Instant, &mut Actions),
    ) {
        let Some((mut node, mut actions)) = self.borrow_node(shard_index) else { return };
        self.trace.record(self.now, shard_index, connection, what);
        call(&mut *node, self.now, &mut actions);
        self.return_node(shard_index, node, actions, &[]);
    }

    /// None if the node is done. [Return](Self::return_node) it afterwards.
    pub(crate) fn borrow_node(&mut self, shard_index: usize) -> Option<(Box<dyn Hosted>, Actions)> {
        let shard = &mut self.shards[shard_index];
        if shard.is_done {
            return None;
        }
        shard.node.take().map(|node| (node, std::mem::take(&mut shard.actions)))
    }

    /// Runs the actions of a call for which `received` was lent.
    pub(crate) fn return_node(
        &mut self,
        shard_index: usize,
        node: Box<dyn Hosted>,
        mut actions: Actions,
        received: &[u8],
    ) {
        self.shards[shard_index].node = Some(node);
        self.run_actions(shard_index, actions.with_received(received));
        actions.clear(ACTION_BYTES_KEPT);
        self.shards[shard_index].actions = actions;
        self.update_deadline(shard_index);
        self.end_if_drained(shard_index);
    }

    /// Runs the actions in order, then sends once for each connection.
    fn run_actions(&mut self, shard_index: usize, log: Log<'_>) {
        let mut touched = std::mem::take(&mut self.touched);
        let mut exits = false;
        for index in 0..log.len() {
            match log.get(index) {
                Some(Action::Exit) => exits = true,
                Some(action) => touched.extend(self.run_action(shard_index, action, || log.memory(index))),
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

    /// Returns the end that has something to send.
    fn run_action<'a>(
        &mut self,
        shard_index: usize,
        action: &Action,
        copied: impl FnOnce() -> &'a [u8],
    ) -> Option<EndIndex> {
        match action {
            Action::Send(id, _) | Action::SendReceived(id, _) => {
                self.queue(shard_index, *id, || QueuedSegment::Memory(Bytes::copy_from_slice(copied())))
            }
            Action::SendShared(id, segment) => self.queue(shard_index, *id, || QueuedSegment::Memory(segment.clone())),
            Action::SendFile(id, range) => self.queue(shard_index, *id, || QueuedSegment::File(range.clone())),
            Action::Finish(id) => {
                let end = self.open_end(shard_index, *id, TraceEvent::Finishes)?;
                let finish = &mut self.end_mut(end).outgoing.finish;
                if *finish == WriteShutdown::No {
                    *finish = WriteShutdown::Requested;
                }
                Some(end)
            }
            Action::Close(id, how) => {
                let end = self.open_end(shard_index, *id, TraceEvent::closes(*how))?;
                match how {
                    Close::Graceful => self.begin_closing(end),
                    Close::Abort => self.abort(end),
                }
                Some(end)
            }
            Action::Pause(id) => {
                let end = self.open_end(shard_index, *id, TraceEvent::Pauses)?;
                self.end_mut(end).incoming.is_paused = true;
                None
            }
            Action::Resume(id) => {
                let end = self.open_end(shard_index, *id, TraceEvent::Resumes)?;
                let incoming = &mut self.end_mut(end).incoming;
                incoming.is_paused = false;
                incoming.is_relend_due = true;
                self.lend_soon(end);
                None
            }
            Action::Connect(ticket, endpoint) => {
                self.trace.record(self.now, shard_index, None, TraceEvent::Connects(*ticket));
                self.connect(shard_index, *ticket, endpoint.address);
                None
            }
            Action::Wake(shard, message) => {
                self.trace.record(self.now, shard_index, None, TraceEvent::Wakes(*shard, *message));
                self.schedule_wake(shard_index, shard.0, *message);
                None
            }
            Action::StartTls(id, ticket, _) => {
                self.start_tls(shard_index, *id, *ticket);
                None
            }
            Action::Exit => None,
        }
    }

    fn queue(
        &mut self,
        shard_index: usize,
        id: ConnectionId,
        segment: impl FnOnce() -> QueuedSegment,
    ) -> Option<EndIndex> {
        let segment = segment();
        let length = match &segment {
            QueuedSegment::Memory(bytes) => bytes.len() as u64,
            QueuedSegment::File(range) => range.length,
        };
        let end = self.open_end(shard_index, id, TraceEvent::Sends(length))?;
        let name = self.trace.name(shard_index);
        let is_open_to_send = self.end(end).outgoing.finish == WriteShutdown::No;
        assert!(is_open_to_send, "{name} sends {length} bytes on {id:?} after it has finished its sending");
        if length > 0 {
            self.end_mut(end).outgoing.push(segment);
        }
        Some(end)
    }

    fn ends(&self, shard_index: usize) -> Vec<EndIndex> {
        self.shards[shard_index].table.iter().map(|(_, &end)| end).collect()
    }

    /// The open end with this id, recorded in the trace; none if the id is stale or the connection closed.
    pub(crate) fn open_end(&mut self, shard_index: usize, id: ConnectionId, what: TraceEvent) -> Option<EndIndex> {
        let end = *self.shards[shard_index].table.get(id)?;
        if self.end(end).phase != EndPhase::Open {
            return None;
        }
        self.trace.record(self.now, shard_index, Some(id), what);
        Some(end)
    }

    fn schedule_wake(&mut self, from: usize, shard_id: usize, message: u64) {
        let shards = self.hosts[self.shards[from].host_index].shards.clone();
        let name = self.trace.name(from);
        assert!(shard_id < shards.len(), "{name} wakes shard {shard_id}, of {}", shards.len());
        let at = self.now + self.network.lateness.draw(&mut self.random);
        self.events.schedule(at, SimEvent::Woken { shard_index: shards.start + shard_id, message });
    }

    /// The node is done: its connections are dropped, as by an exiting process.
    fn exit(&mut self, shard_index: usize) {
        self.trace.record(self.now, shard_index, None, TraceEvent::Exits);
        for end in self.ends(shard_index) {
            self.drop_end(end);
        }
        self.shards[shard_index].is_done = true;
    }

    fn update_deadline(&mut self, shard_index: usize) {
        let shard = &mut self.shards[shard_index];
        shard.deadline = shard.node.as_ref().and_then(|node| node.next_deadline());
        self.schedule_deadline_check(shard_index);
    }

    /// Schedules a deadline check, unless an early enough one exists.
    fn schedule_deadline_check(&mut self, shard_index: usize) {
        let shard = &self.shards[shard_index];
        let Some(deadline) = shard.deadline.filter(|&deadline| deadline != Instant::FAR) else { return };
        if shard.is_done || shard.check.is_some_and(|check| check.deadline <= deadline) {
            return;
        }
        let late = nanos(self.network.timer_lateness.draw(&mut self.random));
        let at = Instant::from_nanos(deadline.max(self.now).as_nanos().saturating_add(late));
        self.shards[shard_index].check = Some(DeadlineCheck { deadline, at });
        self.events.schedule(at, SimEvent::Deadline { shard_index });
    }

    /// A stopping shard ends with its last connection.
    pub(crate) fn end_if_drained(&mut self, shard_index: usize) {
        let shard = &mut self.shards[shard_index];
        let is_stopping = self.hosts[shard.host_index].is_stopping;
        if is_stopping && shard.table.is_empty() && shard.connecting_count == 0 {
            shard.is_done = true;
        }
    }
}
