//! Where instants come from. One clock is made at the start of a run and copied to whoever reads the time, so that all
//! stamps of a run count from the same epoch.

use std::time::{Instant as Monotonic, SystemTime, UNIX_EPOCH};

use breme_base::{Instant, UnixSeconds, WallClock};

/// The run's own monotonic time. Copies share the epoch.
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

    /// Nanoseconds since the epoch.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The calendar's time for instants of this clock. It follows the operating system's when that is set.
    #[must_use]
    pub fn wall_clock(&self) -> WallClock {
        let clock = *self;
        WallClock::new(move |instant| {
            let unix_now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = clock.now();
            // `instant` is usually a little before `now`, and may lie ahead of it.
            let unix = (unix_now + instant.since(now)).saturating_sub(now.since(instant));
            UnixSeconds(unix.as_secs())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_does_not_go_back_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(first <= second && second <= clock.now());
    }

    #[test]
    fn the_wall_clock_honours_the_instant_it_is_asked_for() {
        let clock = Clock::start();
        let wall = clock.wall_clock();
        let now = clock.now();
        let (today, next_day) = (wall.at(now), wall.at(now + Duration::from_secs(86_400)));
        assert!(today.0 > 1_700_000_000, "{today:?}");
        assert!((86_399..=86_401).contains(&(next_day.0 - today.0)), "{today:?} {next_day:?}");
    }
}
