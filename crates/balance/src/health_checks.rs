//! Active health checks: what is due, and the effect of outcomes on the group. The proxy performs them.

use std::net::SocketAddr;
use std::sync::Arc;

use breme_base::Instant;

use crate::changes::Event;
use crate::check_state::{CheckOutcome, HealthChange};
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
