//! Peers that read too slowly while others wait for a connection.
//!
//! The kernel reports room only when a third of its send buffer is free, which may be megabytes; what the peer has
//! acknowledged it reports at once. So under pressure the engine asks for that, a few times a second.

use std::time::Duration;

use breme_base::Instant;
use breme_node::{CloseReason, ConnectionId, Node, Pressure};

use super::Engine;
use crate::connection::{Connection, Phase};
use crate::control::Counters;
use crate::port::Port;

/// How often the engine asks, while something waits for a peer.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// What a peer has read since the engine first asked.
#[derive(Debug)]
pub(crate) struct Reading {
    began: Instant,
    read_bytes: u64,
    last: Instant,
    unread_bytes: u64,
}

impl Reading {
    fn new(now: Instant, unread_bytes: u64) -> Self {
        Self { began: now, read_bytes: 0, last: now, unread_bytes }
    }

    fn note(&mut self, now: Instant, unread_bytes: u64) {
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
    /// When [`Engine::evict_slow_readers`] wants to look again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.look_again
    }

    /// Something waits for a peer, which may be slow.
    pub(super) fn note_queue(&mut self) {
        if self.pressure.is_high() {
            self.look_again.get_or_insert(self.now);
        }
    }

    /// Closes accepted connections whose peers read less than they must while others wait.
    pub(super) fn evict_slow_readers(&mut self) {
        if !self.pressure.is_high() {
            self.look_again = None;
        }
        if self.look_again.is_none_or(|again| again > self.now) {
            return;
        }
        if self.pressure.rises_at().is_some_and(|at| at <= self.now) {
            self.pressure.rise();
        }
        self.look_again = None;
        let mut slow: Vec<ConnectionId> = Vec::new();
        for (id, connection) in self.table.iter_mut() {
            if let Some(is_too_slow) = look(connection, self.now, &self.pressure) {
                self.look_again = Some(self.now + LOOK_PAUSE);
                if is_too_slow && self.pressure.evict(self.now).is_ok() {
                    slow.push(id);
                }
            }
        }
        for id in slow {
            if let Some(connection) = self.table.get_mut(id) {
                connection.transport.reset_on_close();
                let is_closing = connection.phase != Phase::Open;
                connection.end(if is_closing { CloseReason::Dropped } else { CloseReason::Evicted });
                Counters::add(&self.counters().dropped);
                self.release_if_ended(id);
            }
        }
    }
}

/// Whether the peer of an accepted connection reads too slowly; none if nothing waits for it.
fn look(connection: &mut Connection, now: Instant, pressure: &Pressure) -> Option<bool> {
    let is_sending = matches!(connection.phase, Phase::Open | Phase::Flushing { .. });
    if !connection.is_accepted || !is_sending || connection.queue.is_none() {
        return None;
    }
    let unread_bytes = connection.unsent_bytes() + breme_sys::unacknowledged_bytes(&connection.transport);
    let queue = connection.queue.as_mut()?;
    let reading = queue.reading.get_or_insert_with(|| Reading::new(now, unread_bytes));
    reading.note(now, unread_bytes);
    Some(reading.is_too_slow(now, pressure))
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

    /// How long a peer stays that reads so many bytes in each look.
    fn stay(pressure: &Pressure, bytes_per_look: u64, most: Duration) -> Duration {
        let mut reading = Reading::new(Instant::ZERO, UNREAD);
        let mut spent = Duration::ZERO;
        let mut unread = UNREAD;
        while spent < most && !reading.is_too_slow(Instant::ZERO + spent, pressure) {
            spent += LOOK_PAUSE;
            unread -= bytes_per_look;
            reading.note(Instant::ZERO + spent, unread);
        }
        spent
    }

    #[test]
    fn a_peer_stays_that_reads_at_the_least_rate() {
        let enough = PRESSURE_RATE_MIN / 20;
        for (is_lasting, timeout) in [(false, PRESSURE_GRACE), (true, PRESSURE_IDLE_TIMEOUT)] {
            let pressure = high(Instant::ZERO, is_lasting);
            let most = Duration::from_secs(60);
            assert_eq!(stay(&pressure, 0, most), timeout);
            assert!(stay(&pressure, 1, most) <= timeout + LOOK_PAUSE, "a byte now and then is nothing");
            assert_eq!(stay(&pressure, enough / 2, most), 2 * timeout, "half of the rate pays for half of the time");
            assert_eq!(stay(&pressure, enough + 1, most), most);
        }
    }

    #[test]
    fn a_peer_that_has_read_much_may_pause_for_a_turn() {
        let pressure = high(Instant::ZERO, true);
        let mut reading = Reading::new(Instant::ZERO, UNREAD);
        let last = Instant::ZERO + LOOK_PAUSE;
        reading.note(last, UNREAD - 100 * PRESSURE_RATE_MIN);
        let end = last + PRESSURE_TURN;
        reading.note(end, UNREAD - 100 * PRESSURE_RATE_MIN);
        let nanosecond = Duration::from_nanos(1);
        assert!(!reading.is_too_slow(last + (PRESSURE_TURN - nanosecond), &pressure));
        assert!(reading.is_too_slow(end, &pressure));
        reading.note(end, UNREAD);
        assert!(reading.is_too_slow(end, &pressure), "what is sent to it is nothing that it reads");
    }

    #[test]
    fn nobody_is_slow_while_none_waits() {
        let reading = Reading::new(Instant::ZERO, UNREAD);
        assert!(!reading.is_too_slow(Instant::ZERO + Duration::from_secs(3_600), &Pressure::default()));
    }
}
