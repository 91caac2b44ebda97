//! Runs the actions of a node call in order.

use breme_node::{Action, Close, ConnectionId, Log, Node, ShardId};

use super::Engine;
use crate::connection::ConnectionPhase;
use crate::counters::LiveCounters;
use crate::io_backend::IoBackend;

/// Memory of the action log that is kept between calls, in bytes.
const ACTION_BYTES_RETAINED: usize = 256 * 1024;
/// Messages to full mailboxes that wait for a retry; further ones are lost and counted.
const WAKES_DELAYED_MAX: usize = 4_096;

impl<N: Node, B: IoBackend> Engine<N, B> {
    pub(super) fn run_actions(&mut self) {
        self.run_actions_on(&[]);
    }

    /// `received`: the bytes lent for the call.
    pub(super) fn run_actions_on(&mut self, received: &[u8]) {
        if self.actions.is_empty() {
            return;
        }
        if self.is_exiting {
            return self.actions.clear(ACTION_BYTES_RETAINED);
        }
        let mut actions = std::mem::take(&mut self.actions);
        let log = actions.with_received(received);
        let mut index = 0;
        while let Some(action) = log.get(index) {
            index = if let Some(id) = receiver(action) {
                self.send(log, index, id)
            } else {
                self.run_action(action);
                index + 1
            };
            if self.is_exiting {
                break;
            }
        }
        actions.clear(ACTION_BYTES_RETAINED);
        self.actions = actions;
    }

    pub(super) fn run_action(&mut self, action: &Action) {
        match *action {
            Action::Send(..) | Action::SendShared(..) | Action::SendReceived(..) | Action::SendFile(..) => {}
            Action::Finish(id) => self.finish(id),
            Action::Close(id, Close::Graceful) => self.close(id),
            Action::Close(id, Close::Abort) => self.abort(id),
            Action::Pause(id) => self.pause(id),
            Action::Resume(id) => self.resume(id),
            Action::Connect(ticket, endpoint) => self.connect(ticket, endpoint),
            Action::StartTls(id, ticket, client) => self.start_tls(id, ticket, client),
            Action::Wake(shard, message) => self.wake(shard, message),
            Action::Exit => {
                self.is_exiting = true;
                self.has_exited = true;
            }
        }
    }

    /// Sends consecutive segments of one connection, and returns the index after them.
    pub(super) fn send(&mut self, log: Log<'_>, start: usize, id: ConnectionId) -> usize {
        let end = end_of_run(log, start, id);
        self.flush_batch(id);
        if self.batch_send(log, start..end, id) {
            return end;
        }
        let Some(connection) = self.table.get_mut(id) else { return end };
        let had_queue = connection.queue.is_some();
        connection.send(log, start..end);
        self.control.counters(self.id).add_sent(connection.take_sent_bytes());
        if connection.queue.is_some() {
            if !had_queue {
                self.handle_progress(id, true);
            }
            self.mark_if_long(id);
        } else if connection.failure.is_some() {
            self.schedule(id);
        }
        end
    }

    pub(super) fn pause(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.pause();
        }
    }

    pub(super) fn resume(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.is_paused = false;
        connection.is_relend_due |= !connection.retained.is_empty();
        if connection.phase == ConnectionPhase::Open && (connection.is_relend_due || connection.is_readable) {
            self.schedule(id);
        }
        self.update_interest(id);
    }

    pub(super) fn wake(&mut self, shard: ShardId, message: u64) {
        let Some(mailbox) = self.control.mailbox(shard) else { return };
        // Keeps the order of messages.
        if self.wakes_delayed.is_empty() && mailbox.post(message).is_ok() {
            return;
        }
        if self.wakes_delayed.len() < WAKES_DELAYED_MAX {
            LiveCounters::add(&self.counters().wakes_delayed);
            self.wakes_delayed.push_back((shard, message));
        } else {
            LiveCounters::add(&self.counters().wakes_lost);
        }
    }

    pub(super) fn retry_wakes(&mut self) {
        while let Some(&(shard, message)) = self.wakes_delayed.front() {
            if self.control.mailbox(shard).is_some_and(|mailbox| mailbox.post(message).is_err()) {
                return;
            }
            self.wakes_delayed.pop_front();
        }
    }
}

fn end_of_run(log: Log<'_>, start: usize, connection: ConnectionId) -> usize {
    let mut end = start + 1;
    while log.get(end).and_then(receiver) == Some(connection) {
        end += 1;
    }
    end
}

fn receiver(action: &Action) -> Option<ConnectionId> {
    match action {
        Action::Send(id, _) | Action::SendShared(id, _) | Action::SendReceived(id, _) | Action::SendFile(id, _) => {
            Some(*id)
        }
        _ => None,
    }
}
