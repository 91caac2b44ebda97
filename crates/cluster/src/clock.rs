//! Clocks for the machine.

use std::time::{SystemTime, UNIX_EPOCH};

use breme_base::{Instant, UnixMillis};
use breme_session::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The time since boot, including suspends, and the wall-clock time.
pub(crate) fn moment() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let nanos = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { now: Instant::from_nanos(nanos), wall: UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)) }
}
