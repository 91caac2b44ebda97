//! The clock of a run: created once and copied, so that all timestamps share an epoch.

use std::time::{Duration, Instant as Monotonic, SystemTime, UNIX_EPOCH};

use breme_base::{Instant, UnixMillis, WallClock, nanos};

/// A monotonic clock. Copies share the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Monotonic,
}

impl Clock {
    /// A clock whose epoch is now.
    #[must_use]
    pub fn start() -> Self {
        Self { epoch: Monotonic::now() }
    }

    /// The time since the epoch.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(nanos(self.epoch.elapsed()))
    }

    /// `CLOCK_MONOTONIC`, shared by all processes, at an instant of this clock.
    #[must_use]
    pub fn monotonic(&self, instant: Instant) -> Duration {
        let read = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let shared = Duration::new(read.tv_sec.unsigned_abs(), read.tv_nsec.unsigned_abs() as u32);
        self.translated(instant, shared)
    }

    /// Unix time at an instant of this clock.
    #[must_use]
    pub fn unix_time(&self, instant: Instant) -> Duration {
        self.translated(instant, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// Another clock's time at `instant`, given its current time `shown`.
    fn translated(&self, instant: Instant, shown: Duration) -> Duration {
        let now = self.now();
        (shown + instant.since(now)).saturating_sub(now.since(instant))
    }

    /// The wall clock for instants of this clock. It follows changes of the system time.
    #[must_use]
    pub fn wall_clock(&self) -> WallClock {
        let clock = *self;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        WallClock::new(move |instant| UnixMillis(millis(clock.unix_time(instant))))
    }
}

/// `CLOCK_MONOTONIC`, shared by all processes, in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_monotonic_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(first <= second && second <= clock.now());
    }

    #[test]
    fn converts_to_shared_monotonic_clock() {
        let clock = Clock::start();
        let shared = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let (before, now, after) = (shared(), clock.now(), shared());
        let requested = Monotonic::now();
        let found = clock.monotonic(now);
        let elapsed = requested.elapsed();
        let since_boot = |time: rustix::time::Timespec| Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        // The clocks are read one after the other.
        assert!(
            found <= since_boot(after) && found + elapsed >= since_boot(before),
            "{found:?}, {before:?} to {after:?}"
        );
    }

    #[test]
    fn wall_clock_converts_instants() {
        let clock = Clock::start();
        let wall = clock.wall_clock();
        let now = clock.now();
        let (today, next_day) = (wall.at(now), wall.at(now + Duration::from_secs(86_400)));
        assert!(today.0 > 1_700_000_000, "{today:?}");
        assert!((86_399..=86_401).contains(&(next_day.0 - today.0)), "{today:?} {next_day:?}");
    }
}
