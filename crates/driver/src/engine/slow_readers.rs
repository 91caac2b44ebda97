//! Eviction of slow readers under pressure.
//!
//! The kernel reports writability only when a third of its send buffer is free, which may be megabytes, but knows what
//! the peer has acknowledged. Under pressure the engine polls that a few times a second.

use std::time::Duration;

use breme_base::Instant;
use breme_node::{CloseReason, ConnectionId, Node, Pressure};

use super::Engine;
use crate::connection::{Connection, ConnectionPhase};
use crate::control::LiveCounters;
use crate::port::Port;

const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// What a peer has read since the first check.
#[derive(Debug)]
pub(crate) struct ReadRate {
    began: Instant,
    read_bytes: u64,
    last: Instant,
    unread_bytes: u64,
}

impl ReadRate {
    fn new(now: Instant, unread_bytes: u64) -> Self {
        Self { began: now, read_bytes: 0, last: now, unread_bytes }
    }

    fn record(&mut self, now: Instant, unread_bytes: u64) {
        if unread_bytes < self.unread_bytes {
            self.read_bytes += self.unread_bytes - unread_bytes;
            self.last = now;
        }
        self.unread_bytes = unread_bytes;
    }

    fn is_too_slow(&self, now: Instant, pressure: &Pressure) -> bool {
        pressure.transfer_deadline(self.began, self.read_bytes, self.last) <= now
    }
}

impl<N: Node, P: Port> Engine<N, P> {
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

/// Whether the peer reads too slowly; none if nothing is queued for it.
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

#[cfg(test)]
mod tests {
    use breme_node::{PRESSURE_GRACE, PRESSURE_IDLE_TIMEOUT, PRESSURE_RATE_MIN, PRESSURE_TURN};

    use super::*;

    const UNREAD: u64 = 100 << 20;

    fn high(now: Instant, is_lasting: bool) -> Pressure {
        let mut pressure = Pressure::default();
        pressure.set(now, true);
        if is_lasting {
            pressure.rise();
        }
        pressure
    }

    /// How long a peer with this rate is tolerated.
    fn stay(pressure: &Pressure, bytes_per_look: u64, most: Duration) -> Duration {
        let mut read_rate = ReadRate::new(Instant::ZERO, UNREAD);
        let mut spent = Duration::ZERO;
        let mut unread = UNREAD;
        while spent < most && !read_rate.is_too_slow(Instant::ZERO + spent, pressure) {
            spent += CHECK_INTERVAL;
            unread -= bytes_per_look;
            read_rate.record(Instant::ZERO + spent, unread);
        }
        spent
    }

    #[test]
    fn minimum_read_rate_is_tolerated() {
        let enough = PRESSURE_RATE_MIN / 20;
        for (is_lasting, timeout) in [(false, PRESSURE_GRACE), (true, PRESSURE_IDLE_TIMEOUT)] {
            let pressure = high(Instant::ZERO, is_lasting);
            let most = Duration::from_secs(60);
            assert_eq!(stay(&pressure, 0, most), timeout);
            assert!(stay(&pressure, 1, most) <= timeout + CHECK_INTERVAL, "a byte now and then is nothing");
            assert_eq!(stay(&pressure, enough / 2, most), 2 * timeout, "half of the rate pays for half of the time");
            assert_eq!(stay(&pressure, enough + 1, most), most);
        }
    }

    #[test]
    fn fast_reader_may_pause() {
        let pressure = high(Instant::ZERO, true);
        let mut read_rate = ReadRate::new(Instant::ZERO, UNREAD);
        let last = Instant::ZERO + CHECK_INTERVAL;
        read_rate.record(last, UNREAD - 100 * PRESSURE_RATE_MIN);
        let end = last + PRESSURE_TURN;
        read_rate.record(end, UNREAD - 100 * PRESSURE_RATE_MIN);
        let nanosecond = Duration::from_nanos(1);
        assert!(!read_rate.is_too_slow(last + (PRESSURE_TURN - nanosecond), &pressure));
        assert!(read_rate.is_too_slow(end, &pressure));
        read_rate.record(end, UNREAD);
        assert!(read_rate.is_too_slow(end, &pressure), "what is sent to it is nothing that it reads");
    }

    #[test]
    fn no_reader_is_slow_without_pressure() {
        let read_rate = ReadRate::new(Instant::ZERO, UNREAD);
        assert!(!read_rate.is_too_slow(Instant::ZERO + Duration::from_secs(3_600), &Pressure::default()));
    }
}
