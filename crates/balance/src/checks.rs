//! Active checks as pure state: what is due when, and what the results mean. Somebody else asks the question over a
//! connection.
//!
//! An upstream counts as up until its first check has ended, and that one decides by itself: who starts a proxy in
//! front of a dead server learns it at once. From then on `fall` failed checks in a row take it out and `rise` good
//! ones bring it back. A check that nobody tells the end of has failed when its time is over.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, nanos};

use crate::{HealthSettings, UpstreamId};

/// Checks under way at a time; the others wait for them.
pub const CHECKS_MAX: usize = 64;

/// A check that is to be made now.
#[derive(Clone, Debug)]
pub struct Check {
    /// What [`Group::check_done`](crate::Group::check_done) is told.
    pub id: CheckId,
    /// Where.
    pub address: SocketAddr,
    /// Speak TLS to it.
    pub tls: bool,
    /// The upstream's authority.
    pub name: Arc<str>,
    /// It has failed if it has no answer by then.
    pub deadline: Instant,
}

/// One check of one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CheckId {
    pub(crate) upstream: UpstreamId,
    pub(crate) serial: u64,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// With an answer.
    Answered {
        /// Its status.
        status: u16,
    },
    /// There was no connection to be had.
    ConnectFailed,
    /// The connection ended, or what came made no sense.
    ConnectionLost,
    /// Its time was over.
    TimedOut,
}

impl fmt::Display for CheckOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Answered { status } => return write!(formatter, "returned status {status}"),
            Self::ConnectFailed => "could not connect",
            Self::ConnectionLost => "ended without a complete response",
            Self::TimedOut => "timed out",
        })
    }
}

/// What checks have shown of one upstream.
#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) is_down: bool,
    /// Results in a row that speak against what it is.
    against: u32,
    was_checked: bool,
    due: Instant,
    asked: Option<Asked>,
    pub(crate) totals: CheckTotals,
}

/// How the checks of an upstream ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckTotals {
    /// With an answer that is good.
    pub good: u64,
    /// In any other way.
    pub failed: u64,
}

/// A check under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    serial: u64,
    deadline: Instant,
}

/// What a result has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Up,
    Down,
}

impl Health {
    /// Whether a check is under way.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// When it wants to be looked at next. While all that may be under way are, none begins.
    pub(crate) fn next(&self, may_begin: bool) -> Option<Instant> {
        match self.asked {
            Some(asked) => Some(asked.deadline),
            None => may_begin.then_some(self.due),
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.asked.is_none() && self.due <= now
    }

    /// The time of the check under way is over.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| asked.deadline <= now)
    }

    /// Begins a check. Its deadline.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        serial: u64,
        settings: &HealthSettings,
        random: &mut Random,
    ) -> Instant {
        let deadline = now + settings.timeout;
        self.asked = Some(Asked { serial, deadline });
        self.due = now + jittered(settings.interval, random);
        deadline
    }

    /// Whether this is the check that is under way.
    pub(crate) fn waits_for(&self, serial: u64) -> bool {
        self.asked.is_some_and(|asked| asked.serial == serial)
    }

    /// Takes in the result of the check under way.
    pub(crate) fn end(&mut self, outcome: CheckOutcome, settings: &HealthSettings) -> Option<Turn> {
        self.asked = None;
        let is_good = matches!(outcome, CheckOutcome::Answered { status } if settings.statuses.contains(status));
        *(if is_good { &mut self.totals.good } else { &mut self.totals.failed }) += 1;
        let is_first = !std::mem::replace(&mut self.was_checked, true);
        if is_good != self.is_down {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = if self.is_down { settings.rise } else { settings.fall };
        if self.against < needed && !is_first {
            return None;
        }
        (self.is_down, self.against) = (!is_good, 0);
        Some(if is_good { Turn::Up } else { Turn::Down })
    }
}

/// Give or take a tenth, so that the checks of many proxies do not come together.
fn jittered(interval: Duration, random: &mut Random) -> Duration {
    let nanos = nanos(interval);
    let tenth = nanos / 10;
    Duration::from_nanos(random.between(nanos - tenth, nanos.saturating_add(tenth)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: CheckOutcome = CheckOutcome::Answered { status: 204 };
    const BAD: CheckOutcome = CheckOutcome::Answered { status: 500 };

    fn settings() -> HealthSettings {
        HealthSettings { rise: 2, fall: 3, ..HealthSettings::default() }
    }

    /// What each of the outcomes turned.
    fn turns(health: &mut Health, outcomes: &[CheckOutcome]) -> Vec<Option<Turn>> {
        outcomes.iter().map(|&outcome| health.end(outcome, &settings())).collect()
    }

    #[test]
    fn rise_and_fall_count_in_a_row() {
        let mut health = Health::default();
        let outcomes =
            [GOOD, BAD, CheckOutcome::TimedOut, GOOD, BAD, CheckOutcome::ConnectionLost, CheckOutcome::ConnectFailed];
        let mut expected = vec![None; 6];
        expected.push(Some(Turn::Down));
        assert_eq!(turns(&mut health, &outcomes), expected);
        assert!(health.is_down);
        assert_eq!(turns(&mut health, &[GOOD, BAD, GOOD, GOOD]), [None, None, None, Some(Turn::Up)]);
        assert_eq!(health.totals, CheckTotals { good: 5, failed: 6 });
    }

    #[test]
    fn the_first_check_decides_by_itself() {
        let mut health = Health::default();
        assert_eq!(turns(&mut health, &[BAD, GOOD, GOOD]), [Some(Turn::Down), None, Some(Turn::Up)]);
    }

    #[test]
    fn checks_come_at_their_interval_and_end_at_their_deadline() {
        let (mut health, mut random, settings) = (Health::default(), Random::new(1), settings());
        let start = Instant::ZERO + Duration::from_secs(1);
        assert!(health.is_due(start), "the first one at once");
        let deadline = health.begin(start, 7, &settings, &mut random);
        assert_eq!(deadline, start + settings.timeout);
        assert_eq!([health.next(true), health.next(false)], [Some(deadline); 2]);
        assert!(!health.is_due(deadline) && health.is_overdue(deadline) && !health.is_overdue(start));
        assert!(health.waits_for(7) && !health.waits_for(6));
        health.end(GOOD, &settings);
        let due = health.next(true).unwrap();
        assert!(due >= start + settings.interval * 9 / 10 && due <= start + settings.interval * 11 / 10);
        assert_eq!(health.next(false), None, "while too many are under way it waits for them");
        assert!(!health.is_due(start) && health.is_due(due));
    }
}
