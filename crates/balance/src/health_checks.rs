//! Active health checks: what is due, and what results mean. The proxy performs them.
//!
//! An upstream is up until its first check has ended, which decides alone, so that a dead server is detected at once
//! when a proxy starts. From then on `fall` consecutive failures take it out and `rise` consecutive successes restore
//! it. A check without a result by its deadline has failed.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, nanos};

use crate::changes::Event;
use crate::group_state::{GroupState, UpstreamRecord};
use crate::{Group, HealthSettings, UpstreamId};

/// Checks running at a time; others wait.
pub const CHECKS_MAX: usize = 64;

/// A check to perform now.
#[derive(Clone, Debug)]
pub struct Check {
    /// For [`Group::check_done`](crate::Group::check_done).
    pub id: CheckId,
    pub address: SocketAddr,
    pub tls: bool,
    /// The upstream's authority.
    pub name: Arc<str>,
    /// Without a response by then it has failed.
    pub deadline: Instant,
}

/// One check of one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CheckId {
    pub(crate) upstream: UpstreamId,
    pub(crate) serial: u64,
}

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

    /// When it needs attention next. While [`CHECKS_MAX`] checks are running, none begins.
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

impl Group {
    /// The settings of health checks; None: disabled.
    #[must_use]
    pub fn health_settings(&self) -> Option<HealthSettings> {
        self.state().settings.health.clone()
    }

    /// The checks to perform now; each must be [reported](Group::check_done).
    #[must_use]
    pub fn checks_due(&self, now: Instant) -> Vec<Check> {
        let mut due = Vec::new();
        self.change(now, |state| {
            let has_changed = state.end_overdue_checks(now);
            due = state.begin_checks(now);
            has_changed
        });
        due
    }

    /// When [`Group::checks_due`] has work next.
    #[must_use]
    pub fn next_check(&self) -> Option<Instant> {
        let state = self.state();
        state.settings.health.as_ref()?;
        let may_begin = state.checks_under_way() < CHECKS_MAX;
        state.records.iter().filter_map(|record| record.next_check(may_begin)).min()
    }

    /// Reports the outcome of a check. Ignored after its deadline, or if the upstream was removed.
    pub fn check_done(&self, now: Instant, check: CheckId, outcome: CheckOutcome) {
        self.change(now, |state| {
            let places = 0..state.records.len();
            let is_running = |record: &UpstreamRecord| {
                record.upstream.id == check.upstream && record.health.is_current(check.serial)
            };
            let pending = places.into_iter().find(|&index| is_running(&state.records[index]));
            pending.is_some_and(|index| state.end_check(now, index, outcome))
        });
    }
}

impl GroupState {
    fn checks_under_way(&self) -> usize {
        self.records.iter().filter(|record| record.health.is_running()).count()
    }

    fn begin_checks(&mut self, now: Instant) -> Vec<Check> {
        let free = CHECKS_MAX.saturating_sub(self.checks_under_way());
        let Some(settings) = &self.settings.health else { return Vec::new() };
        let due = self.records.iter_mut().filter(|record| record.health.is_due(now) && record.address().is_some());
        let mut begin = |record: &mut UpstreamRecord| {
            self.check_serial += 1;
            let deadline = record.health.begin(now, self.check_serial, settings, &mut self.random);
            let id = CheckId { upstream: record.upstream.id, serial: self.check_serial };
            let name = Arc::clone(&record.upstream.name);
            Some(Check { id, address: record.address()?, tls: record.upstream.tls, name, deadline })
        };
        due.take(free).filter_map(&mut begin).collect()
    }

    fn end_overdue_checks(&mut self, now: Instant) -> bool {
        let overdue = |record: &UpstreamRecord| record.health.is_overdue(now);
        let places: Vec<usize> = (0..self.records.len()).filter(|&index| overdue(&self.records[index])).collect();
        places.into_iter().fold(false, |changed, index| self.end_check(now, index, CheckOutcome::TimedOut) | changed)
    }

    /// Records the outcome of a check. Returns whether it affects the choice.
    fn end_check(&mut self, now: Instant, index: usize, outcome: CheckOutcome) -> bool {
        let Some(settings) = &self.settings.health else { return false };
        let record = &mut self.records[index];
        if outcome == CheckOutcome::ConnectFailed {
            record.next_address();
        }
        let Some(change) = record.health.end(outcome, settings) else { return false };
        let event = match change {
            HealthChange::Down => Event::Down(outcome),
            HealthChange::Up => {
                // Successful checks after failed ones outweigh earlier failed requests.
                if record.ejection.until.is_some() {
                    record.ejection.restore(now);
                }
                record.restart(now);
                Event::Up
            }
        };
        self.changes.push(now, Some(&record.upstream.name), event);
        true
    }
}

impl UpstreamRecord {
    fn next_check(&self, may_begin: bool) -> Option<Instant> {
        self.address().and_then(|_| self.health.next(may_begin))
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
