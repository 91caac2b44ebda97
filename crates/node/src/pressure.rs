//! Connection pressure: which clients may keep their connections while others wait.

use std::time::Duration;

use breme_base::Instant;

/// How long a connection may stay open with no request in progress while others wait.
///
/// About a round trip to the other side of the world: a client that sends its next request as soon as it has a response
/// keeps its connection, and the first request on a new one is in time. A client that pauses for longer pays for a new
/// connection with one such round trip.
///
/// It is also how long a client may send or read less than [`PRESSURE_RATE_MIN`] once the pressure has lasted for
/// [`PRESSURE_GRACE`]: where 1,000 such clients hold and reopen 128 connections, the next client waits for 1.6 s.
pub const PRESSURE_IDLE_TIMEOUT: Duration = Duration::from_millis(200);

/// How long pressure lasts before slow clients are closed: most pressure ends sooner, since other clients are idle.
pub const PRESSURE_GRACE: Duration = Duration::from_secs(1);

/// How long a client that sends one request after another keeps its connection while others wait. Then a response has
/// `Connection: close`, and the next client in line is served.
///
/// With seven times as many waiting as served clients, each waits for about four seconds. A shorter turn would reduce
/// that, but increase the share of handshakes; distant clients would get few requests into one.
pub const PRESSURE_TURN: Duration = Duration::from_millis(500);

/// Bytes per second below which a client is slow while others wait: in sending a body, and in reading a response.
pub const PRESSURE_RATE_MIN: u64 = 16 * 1024;

/// Clients that a node evicts in one batch: it does not know how many others wait, and of thousands of clients, one
/// newcomer must not cost all their connections.
const EVICTION_BATCH: u32 = 16;
/// Time from one batch to the next: after it the driver knows whether others still wait.
const EVICTION_PAUSE: Duration = Duration::from_millis(20);

/// The state of connection pressure in a server (see [`Node::handle_pressure`](crate::Node::handle_pressure)).
#[derive(Debug, Default)]
pub struct Pressure {
    is_high: bool,
    /// When it rose; if it fell and soon rose again, when it rose first.
    began: Instant,
    /// When it last fell.
    ended: Option<Instant>,
    /// It has lasted for [`PRESSURE_GRACE`], and [`Pressure::rise`] was called.
    is_lasting: bool,
    /// When the current batch of evictions began.
    evicting_since: Instant,
    /// Evictions in this batch.
    evicted_count: u32,
}

impl Pressure {
    /// Sets whether connections wait. While clients take turns there are moments without waiting ones: pressure that
    /// rises again within [`PRESSURE_GRACE`] counts as uninterrupted.
    pub fn set(&mut self, now: Instant, is_high: bool) {
        let has_lasted = self.ended.is_some_and(|ended| now.since(ended) < PRESSURE_GRACE);
        if is_high && !has_lasted {
            (self.began, self.is_lasting) = (now, false);
        }
        if !is_high {
            self.ended = Some(now);
        }
        self.is_high = is_high;
    }

    /// Whether connections wait.
    #[must_use]
    pub const fn is_high(&self) -> bool {
        self.is_high
    }

    /// When [`Pressure::rise`] is to be called.
    #[must_use]
    pub fn rises_at(&self) -> Option<Instant> {
        (self.is_high && !self.is_lasting).then(|| self.began + PRESSURE_GRACE)
    }

    /// Shortens the timeouts of slow clients: the pressure has lasted for [`PRESSURE_GRACE`].
    pub fn rise(&mut self) {
        self.is_lasting = true;
    }

    /// The idle timeout; `ordinary` without pressure.
    #[must_use]
    pub fn idle_timeout(&self, ordinary: Duration) -> Duration {
        if self.is_high() { ordinary.min(PRESSURE_IDLE_TIMEOUT) } else { ordinary }
    }

    /// The timeout of a request head and of a discarded body, `ordinary` without pressure; and of anything below
    /// [`PRESSURE_RATE_MIN`].
    #[must_use]
    pub fn slow_timeout(&self, ordinary: Duration) -> Duration {
        match self.is_high {
            false => ordinary,
            true => ordinary.min(if self.is_lasting { PRESSURE_IDLE_TIMEOUT } else { PRESSURE_GRACE }),
        }
    }

    /// When a transfer is too slow if nothing more arrives after `bytes` since `began`, the last of them at `last`. A
    /// pause may not exceed [`PRESSURE_TURN`], however many bytes came before it (or the timeout, if that is longer).
    #[must_use]
    pub fn transfer_deadline(&self, began: Instant, bytes: u64, last: Instant) -> Instant {
        if !self.is_high() {
            return Instant::FAR;
        }
        let timeout = self.slow_timeout(Duration::MAX);
        let paid_for = Duration::from_millis(bytes.saturating_mul(1_000) / PRESSURE_RATE_MIN);
        (began + timeout + paid_for).min(last + timeout.max(PRESSURE_TURN))
    }

    /// When a client that closed its side at `since` has waited too long: it may have left, or have closed one
    /// direction only, which a server cannot distinguish.
    #[must_use]
    pub fn half_closed_deadline(&self, since: Instant) -> Instant {
        if self.is_high() { since + self.slow_timeout(Duration::MAX) } else { Instant::FAR }
    }

    /// Whether a client accepted at this instant may be closed after its next response. The pressure must have lasted
    /// for a turn; usually it ends before, since other clients are idle.
    #[inline]
    #[must_use]
    pub fn should_close(&self, accepted: Instant, now: Instant) -> bool {
        self.is_high && now.since(self.began.max(accepted)) >= PRESSURE_TURN && self.may_evict(now)
    }

    fn may_evict(&self, now: Instant) -> bool {
        self.evicted_count < EVICTION_BATCH || now.since(self.evicting_since) >= EVICTION_PAUSE
    }

    /// Counts an eviction under pressure.
    ///
    /// # Errors
    /// The rate of evictions is exceeded; evict this client after the returned time, if connections still wait then.
    pub fn evict(&mut self, now: Instant) -> Result<(), Duration> {
        if now.since(self.evicting_since) >= EVICTION_PAUSE {
            (self.evicting_since, self.evicted_count) = (now, 0);
        }
        let others = self.evicted_count / EVICTION_BATCH;
        self.evicted_count += 1;
        if others == 0 { Ok(()) } else { Err(EVICTION_PAUSE * others) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANOSECOND: Duration = Duration::from_nanos(1);

    #[test]
    fn turn_begins_with_pressure_or_accept() {
        let mut pressure = Pressure::default();
        let [early, late] = [1, 5].map(|seconds| Instant::ZERO + Duration::from_secs(seconds));
        let far = late + 10 * PRESSURE_TURN;
        assert!(!pressure.should_close(early, far));
        for (began, accepted) in [(early, late), (late, early)] {
            pressure.set(began, true);
            assert!(!pressure.should_close(accepted, late + (PRESSURE_TURN - NANOSECOND)));
            assert!(pressure.should_close(accepted, late + PRESSURE_TURN));
        }
        pressure.set(far, false);
        assert!(!pressure.should_close(early, far + PRESSURE_TURN));
    }

    #[test]
    fn only_pressure_shortens_timeouts() {
        let mut pressure = Pressure::default();
        let long = 2 * PRESSURE_IDLE_TIMEOUT;
        assert_eq!(pressure.idle_timeout(long), long);
        pressure.set(Instant::ZERO, true);
        assert_eq!(pressure.idle_timeout(long), PRESSURE_IDLE_TIMEOUT);
        assert_eq!(pressure.idle_timeout(NANOSECOND), NANOSECOND);
    }

    #[test]
    fn lasting_pressure_shortens_slow_timeouts() {
        let mut pressure = Pressure::default();
        let (long, began) = (10 * PRESSURE_GRACE, Instant::ZERO + PRESSURE_GRACE);
        assert_eq!((pressure.slow_timeout(long), pressure.half_closed_deadline(began)), (long, Instant::FAR));
        pressure.set(began, true);
        assert_eq!(pressure.rises_at(), Some(began + PRESSURE_GRACE));
        assert_eq!(pressure.slow_timeout(long), PRESSURE_GRACE);
        assert_eq!(pressure.half_closed_deadline(began), began + PRESSURE_GRACE);
        pressure.rise();
        assert_eq!(pressure.rises_at(), None);
        assert_eq!(pressure.slow_timeout(long), PRESSURE_IDLE_TIMEOUT);
        assert_eq!(pressure.slow_timeout(NANOSECOND), NANOSECOND);
        assert_eq!(pressure.half_closed_deadline(began), began + PRESSURE_IDLE_TIMEOUT);
        for (pause, timeout) in [(PRESSURE_GRACE - NANOSECOND, PRESSURE_IDLE_TIMEOUT), (PRESSURE_GRACE, PRESSURE_GRACE)]
        {
            pressure.set(began + PRESSURE_GRACE, false);
            assert_eq!((pressure.slow_timeout(long), pressure.rises_at()), (long, None));
            pressure.set(began + PRESSURE_GRACE + pause, true);
            assert_eq!(pressure.slow_timeout(long), timeout, "after {pause:?}");
        }
    }

    #[test]
    fn transfer_has_minimum_rate_and_pause_limit() {
        let mut pressure = Pressure::default();
        let (began, second) = (Instant::ZERO, Duration::from_secs(1));
        assert_eq!(pressure.transfer_deadline(began, 0, began), Instant::FAR);
        for timeout in [PRESSURE_GRACE, PRESSURE_IDLE_TIMEOUT] {
            match timeout == PRESSURE_GRACE {
                true => pressure.set(began, true),
                false => pressure.rise(),
            }
            assert_eq!(pressure.transfer_deadline(began, 0, began), began + timeout);
            let last = began + 2 * second;
            assert_eq!(pressure.transfer_deadline(began, 2 * PRESSURE_RATE_MIN, last), last + timeout);
            let pause = timeout.max(PRESSURE_TURN);
            assert_eq!(pressure.transfer_deadline(began, 200 * PRESSURE_RATE_MIN, last), last + pause);
        }
    }

    #[test]
    fn evictions_are_limited_in_rate() {
        let mut pressure = Pressure::default();
        pressure.set(Instant::ZERO, true);
        let begin = Instant::ZERO + 10 * PRESSURE_TURN;
        let mut waiting: Vec<Instant> = vec![begin; 100];
        for round in 0..100_u32.div_ceil(EVICTION_BATCH) {
            let now = begin + EVICTION_PAUSE * round;
            let due = waiting.iter().filter(|&&at| at <= now).count();
            waiting.retain(|&at| at > now);
            assert_eq!(pressure.should_close(Instant::ZERO, now), due > 0);
            let later = (0..due).filter_map(|_| pressure.evict(now).err());
            waiting.extend(later.map(|later| now + later));
            let gone = 100 - waiting.len();
            assert_eq!(gone, 100.min((round + 1) as usize * EVICTION_BATCH as usize));
            assert_eq!(pressure.should_close(Instant::ZERO, now), due < EVICTION_BATCH as usize);
        }
    }
}
