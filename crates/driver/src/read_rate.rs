//! The rate at which a peer reads, as far as its acknowledgements show it.

use breme_base::Instant;
use breme_node::Pressure;

/// What a peer has read since the first check.
#[derive(Debug)]
pub(crate) struct ReadRate {
    began: Instant,
    read_bytes: u64,
    last: Instant,
    unread_bytes: u64,
}

impl ReadRate {
    pub(crate) fn new(now: Instant, unread_bytes: u64) -> Self {
        Self { began: now, read_bytes: 0, last: now, unread_bytes }
    }

    pub(crate) fn record(&mut self, now: Instant, unread_bytes: u64) {
        if unread_bytes < self.unread_bytes {
            self.read_bytes += self.unread_bytes - unread_bytes;
            self.last = now;
        }
        self.unread_bytes = unread_bytes;
    }

    pub(crate) fn is_too_slow(&self, now: Instant, pressure: &Pressure) -> bool {
        pressure.transfer_deadline(self.began, self.read_bytes, self.last) <= now
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breme_node::{PRESSURE_GRACE, PRESSURE_IDLE_TIMEOUT, PRESSURE_RATE_MIN, PRESSURE_TURN};

    use super::*;

    const UNREAD: u64 = 100 << 20;
    const INTERVAL: Duration = Duration::from_millis(50);

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
            spent += INTERVAL;
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
            assert!(stay(&pressure, 1, most) <= timeout + INTERVAL, "a byte now and then is nothing");
            assert_eq!(stay(&pressure, enough / 2, most), 2 * timeout, "half of the rate pays for half of the time");
            assert_eq!(stay(&pressure, enough + 1, most), most);
        }
    }

    #[test]
    fn fast_reader_may_pause() {
        let pressure = high(Instant::ZERO, true);
        let mut read_rate = ReadRate::new(Instant::ZERO, UNREAD);
        let last = Instant::ZERO + INTERVAL;
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
