//! The health checks of one upstream: when one is due, and what their outcomes mean.
//!
//! An upstream is up until its first check has ended, which decides alone, so that a dead server is detected at once
//! when a proxy starts. From then on `fall` consecutive failures take it out and `rise` consecutive successes restore
//! it. A check without a result by its deadline has failed.

use std::fmt;
use std::time::Duration;

use breme_base::{Instant, Random, nanos};

use crate::HealthSettings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    Responded {
        status: u16,
    },
    ConnectFailed,
    /// The connection was closed, or the response was invalid.
    ConnectionLost,
    TimedOut,
}

impl fmt::Display for CheckOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Responded { status } => return write!(formatter, "returned status {status}"),
            Self::ConnectFailed => "could not connect",
            Self::ConnectionLost => "ended without a complete response",
            Self::TimedOut => "timed out",
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct CheckState {
    pub(crate) is_down: bool,
    /// Consecutive results that contradict the current state.
    contradicting: u32,
    was_checked: bool,
    due: Instant,
    pending: Option<PendingCheck>,
    pub(crate) totals: CheckTotals,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckTotals {
    /// Good responses.
    pub good: u64,
    /// All other outcomes.
    pub failed: u64,
}

#[derive(Clone, Copy, Debug)]
struct PendingCheck {
    serial: u64,
    deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthChange {
    Up,
    Down,
}

impl CheckState {
    pub(crate) fn is_running(&self) -> bool {
        self.pending.is_some()
    }

    /// When it needs attention next. While [`CHECKS_MAX`](crate::CHECKS_MAX) checks are running, none begins.
    pub(crate) fn next(&self, may_begin: bool) -> Option<Instant> {
        match self.pending {
            Some(pending) => Some(pending.deadline),
            None => may_begin.then_some(self.due),
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.pending.is_none() && self.due <= now
    }

    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.pending.is_some_and(|pending| pending.deadline <= now)
    }

    /// Begins a check. Returns its deadline.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        serial: u64,
        settings: &HealthSettings,
        random: &mut Random,
    ) -> Instant {
        let deadline = now + settings.timeout;
        self.pending = Some(PendingCheck { serial, deadline });
        self.due = now + jittered(settings.interval, random);
        deadline
    }

    pub(crate) fn is_current(&self, serial: u64) -> bool {
        self.pending.is_some_and(|pending| pending.serial == serial)
    }

    /// Records the outcome of the running check.
    pub(crate) fn end(&mut self, outcome: CheckOutcome, settings: &HealthSettings) -> Option<HealthChange> {
        self.pending = None;
        let is_good = matches!(outcome, CheckOutcome::Responded { status } if settings.statuses.contains(status));
        *(if is_good { &mut self.totals.good } else { &mut self.totals.failed }) += 1;
        let is_first = !std::mem::replace(&mut self.was_checked, true);
        if is_good != self.is_down {
            self.contradicting = 0;
            return None;
        }
        self.contradicting += 1;
        let needed = if self.is_down { settings.rise } else { settings.fall };
        if self.contradicting < needed && !is_first {
            return None;
        }
        (self.is_down, self.contradicting) = (!is_good, 0);
        Some(if is_good { HealthChange::Up } else { HealthChange::Down })
    }
}

/// ±10 %, so that checks of many proxies do not coincide.
fn jittered(interval: Duration, random: &mut Random) -> Duration {
    let nanos = nanos(interval);
    let tenth = nanos / 10;
    Duration::from_nanos(random.between(nanos - tenth, nanos.saturating_add(tenth)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: CheckOutcome = CheckOutcome::Responded { status: 204 };
    const BAD: CheckOutcome = CheckOutcome::Responded { status: 500 };

    fn settings() -> HealthSettings {
        HealthSettings { rise: 2, fall: 3, ..HealthSettings::default() }
    }

    /// The changes caused by these outcomes.
    fn changes(health: &mut CheckState, outcomes: &[CheckOutcome]) -> Vec<Option<HealthChange>> {
        outcomes.iter().map(|&outcome| health.end(outcome, &settings())).collect()
    }

    #[test]
    fn rise_and_fall_count_consecutive_results() {
        let mut health = CheckState::default();
        let outcomes =
            [GOOD, BAD, CheckOutcome::TimedOut, GOOD, BAD, CheckOutcome::ConnectionLost, CheckOutcome::ConnectFailed];
        let mut expected = vec![None; 6];
        expected.push(Some(HealthChange::Down));
        assert_eq!(changes(&mut health, &outcomes), expected);
        assert!(health.is_down);
        assert_eq!(changes(&mut health, &[GOOD, BAD, GOOD, GOOD]), [None, None, None, Some(HealthChange::Up)]);
        assert_eq!(health.totals, CheckTotals { good: 5, failed: 6 });
    }

    #[test]
    fn first_check_decides_alone() {
        let mut health = CheckState::default();
        assert_eq!(changes(&mut health, &[BAD, GOOD, GOOD]), [Some(HealthChange::Down), None, Some(HealthChange::Up)]);
    }

    #[test]
    fn checks_have_interval_and_deadline() {
        let (mut health, mut random, settings) = (CheckState::default(), Random::new(1), settings());
        let start = Instant::ZERO + Duration::from_secs(1);
        assert!(health.is_due(start), "the first one at once");
        let deadline = health.begin(start, 7, &settings, &mut random);
        assert_eq!(deadline, start + settings.timeout);
        assert_eq!([health.next(true), health.next(false)], [Some(deadline); 2]);
        assert!(!health.is_due(deadline) && health.is_overdue(deadline) && !health.is_overdue(start));
        assert!(health.is_current(7) && !health.is_current(6));
        health.end(GOOD, &settings);
        let due = health.next(true).unwrap();
        assert!(due >= start + settings.interval * 9 / 10 && due <= start + settings.interval * 11 / 10);
        assert_eq!(health.next(false), None, "while too many are under way it waits for them");
        assert!(!health.is_due(start) && health.is_due(due));
    }
}
