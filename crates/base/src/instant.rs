//! Points in time as plain numbers: state machines get the time as an argument and never read a clock.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::Duration;

/// A point in a run's monotonic time: nanoseconds since its epoch.
///
/// `std::time::Instant` cannot be built from a number, which a simulation needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    nanos: u64,
}

impl Instant {
    /// The run's epoch.
    pub const ZERO: Self = Self { nanos: 0 };
    /// Later than any instant that a run reaches (584 years).
    pub const FAR: Self = Self { nanos: u64::MAX };

    /// The instant `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// Whole seconds since the epoch.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.nanos / 1_000_000_000
    }

    /// The time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// The same in nanoseconds.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.nanos.saturating_sub(earlier.nanos)
    }
}

/// The nanoseconds of a duration, saturating (584 years).
#[inline]
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::FAR`], so that a very long duration means "never".
    fn add(self, duration: Duration) -> Self {
        Self { nanos: self.nanos.saturating_add(nanos(duration)) }
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

/// Seconds since 1970-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub u64);

/// Milliseconds since 1970-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The second that contains it.
    #[must_use]
    pub const fn second(self) -> UnixSeconds {
        UnixSeconds(self.0 / 1_000)
    }
}

/// The wall clock at an instant of the run.
///
/// The binary reads the operating system's clock; a simulation adds the instant to a fixed date.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn(Instant) -> UnixMillis + Send + Sync>);

impl WallClock {
    /// A clock that calls `read`.
    pub fn new(read: impl Fn(Instant) -> UnixMillis + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// A clock that showed `start` when the run began, for simulations and tests.
    #[must_use]
    pub fn starting_at(start: UnixSeconds) -> Self {
        Self::new(move |now| UnixMillis(start.0 * 1_000 + now.as_nanos() / 1_000_000))
    }

    /// The wall clock time at `now`.
    #[must_use]
    pub fn at(&self, now: Instant) -> UnixSeconds {
        self.millis_at(now).second()
    }

    /// The wall clock time at `now` in milliseconds.
    #[must_use]
    pub fn millis_at(&self, now: Instant) -> UnixMillis {
        (self.0)(now)
    }
}

impl std::fmt::Debug for WallClock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("WallClock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let early = Instant::from_nanos(5);
        assert_eq!(early + Duration::MAX, Instant::FAR);
        assert_eq!(early - Instant::from_nanos(9), Duration::ZERO);
        assert_eq!(Instant::from_nanos(9) - early, Duration::from_nanos(4));
    }

    #[test]
    fn fixed_wall_clock_advances_with_the_run() {
        let wall = WallClock::starting_at(UnixSeconds(1_000));
        let later = Instant::ZERO + Duration::from_micros(2_500_999);
        assert_eq!((wall.at(later), wall.millis_at(later)), (UnixSeconds(1_002), UnixMillis(1_002_500)));
    }
}
