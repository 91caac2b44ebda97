//! Eviction of slow readers under pressure.
//!
//! The kernel reports writability only when a third of its send buffer is free, which may be megabytes, but knows what
//! the peer has acknowledged. Under pressure the engine polls that a few times a second.

use std::time::Duration;

use breme_base::Instant;
use breme_node::{CloseReason, ConnectionId, Node, Pressure};

use super::Engine;
use crate::connection::{Connection, ConnectionPhase};
use crate::counters::LiveCounters;
use crate::io_backend::IoBackend;
use crate::read_rate::ReadRate;

/// How often readers are checked under pressure.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl<N: Node, B: IoBackend> Engine<N, B> {
    pub(super) fn next_reader_check(&self) -> Option<Instant> {
        self.check_readers_at
    }

    pub(super) fn schedule_reader_check(&mut self) {
        if self.pressure.is_high() {
            self.check_readers_at.get_or_insert(self.now);
        }
    }

    /// Closes accepted connections whose peers read below the minimum rate while others wait.
    pub(super) fn evict_slow_readers(&mut self) {
        if !self.pressure.is_high() {
            self.check_readers_at = None;
        }
        if self.check_readers_at.is_none_or(|again| again > self.now) {
            return;
        }
        if self.pressure.rises_at().is_some_and(|at| at <= self.now) {
            self.pressure.rise();
        }
        self.check_readers_at = None;
        let mut slow: Vec<ConnectionId> = Vec::new();
        for (id, connection) in self.table.iter_mut() {
            if let Some(is_too_slow) = check_reader(connection, self.now, &self.pressure) {
                self.check_readers_at = Some(self.now + CHECK_INTERVAL);
                if is_too_slow && self.pressure.evict(self.now).is_ok() {
                    slow.push(id);
                }
            }
        }
        for id in slow {
            if let Some(connection) = self.table.get_mut(id) {
                connection.transport.reset_on_close();
                let is_closing = connection.phase != ConnectionPhase::Open;
                connection.end(if is_closing { CloseReason::Dropped } else { CloseReason::Evicted });
                LiveCounters::add(&self.counters().dropped);
                self.release_if_ended(id);
            }
        }
    }
}

/// Whether the peer reads too slowly; None: nothing is queued for it.
fn check_reader(connection: &mut Connection, now: Instant, pressure: &Pressure) -> Option<bool> {
    let is_sending = matches!(connection.phase, ConnectionPhase::Open | ConnectionPhase::Flushing { .. });
    if !connection.is_accepted || !is_sending || connection.queue.is_none() {
        return None;
    }
    let unread_bytes = connection.unsent_bytes() + breme_sys::unacknowledged_bytes(&connection.transport);
    let queue = connection.queue.as_mut()?;
    let read_rate = queue.read_rate.get_or_insert_with(|| ReadRate::new(now, unread_bytes));
    read_rate.record(now, unread_bytes);
    Some(read_rate.is_too_slow(now, pressure))
}
