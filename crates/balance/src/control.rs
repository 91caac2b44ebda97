//! Operations on a running group: new lists, draining, health checks; and its state.
//!
//! All take the lock of the group state. Requests in progress are not affected: upstreams that stay in the list keep
//! their ids, counters and history, and requests at removed ones complete.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;

use crate::changes::{Change, Event};
use crate::checks::{CHECKS_MAX, Check, CheckId, CheckOutcome, CheckTotals, HealthChange};
use crate::group_state::{GroupState, ListChange, UpstreamRecord};
use crate::upstream::UpstreamTotals;
use crate::{Group, GroupError, GroupSettings, HealthSettings, UpstreamId, UpstreamSettings};

/// The state of an upstream, for operators and `/metrics`.
#[derive(Clone, Debug)]
pub struct UpstreamState {
    pub id: UpstreamId,
    pub name: Arc<str>,
    /// Uses TLS.
    pub tls: bool,
    pub addresses: Vec<SocketAddr>,
    pub weight: u32,
    pub status: UpstreamStatus,
    /// Gets no new clients.
    pub is_draining: bool,
    /// The effective part of its weight in percent: less than 100 during slow start.
    pub weight_percent: u32,
    /// Outstanding requests.
    pub outstanding: u32,
    /// The latency estimate.
    pub latency: Option<Duration>,
    /// Outcomes of its requests.
    pub totals: UpstreamTotals,
    /// Outcomes of its health checks.
    pub checks: CheckTotals,
    /// Ejections so far.
    pub ejections: u64,
}

/// The status of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamStatus {
    /// Healthy, or not yet checked.
    Up,
    /// Its health checks fail.
    Down,
    /// Ejected for failed requests.
    Ejected {
        /// The end of the ejection.
        until: Instant,
    },
    /// It has no address.
    Unresolved,
    /// Removed, with outstanding requests.
    Leaving,
}

impl UpstreamStatus {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Ejected { .. } => "ejected",
            Self::Unresolved => "unresolved",
            Self::Leaving => "leaving",
        }
    }
}

impl Group {
    /// Replaces the list. Upstreams are the same if name and TLS are equal.
    ///
    /// # Errors
    /// If the list is invalid; then nothing changes.
    pub fn replace(&self, now: Instant, upstreams: Vec<UpstreamSettings>) -> Result<ListChange, GroupError> {
        self.apply(now, None, upstreams)
    }

    /// Replaces settings and list.
    ///
    /// # Errors
    /// If they are invalid; then nothing changes.
    pub fn reconfigure(
        &self,
        now: Instant,
        settings: GroupSettings,
        upstreams: Vec<UpstreamSettings>,
    ) -> Result<ListChange, GroupError> {
        self.apply(now, Some(settings), upstreams)
    }

    fn apply(
        &self,
        now: Instant,
        settings: Option<GroupSettings>,
        upstreams: Vec<UpstreamSettings>,
    ) -> Result<ListChange, GroupError> {
        let mut state = self.state();
        let replaced = state.apply(now, settings, upstreams)?;
        self.publish(now, &mut state);
        Ok(replaced)
    }

    /// Changes the addresses of the upstreams with this name; empty: unknown. Returns whether there is one.
    pub fn move_to(&self, now: Instant, name: &str, addresses: &[SocketAddr]) -> bool {
        self.with_named(now, name, |state, index| {
            let record = &mut state.records[index];
            if record.move_to(addresses) {
                state.changes.push(now, Some(&record.upstream.name), Event::Moved);
            }
        })
    }

    /// Drains the upstreams with this name: no new clients; clients whose cookie names them stay. Returns whether there
    /// is one.
    pub fn drain(&self, now: Instant, name: &str) -> bool {
        self.with_named(now, name, |state, index| {
            let record = &mut state.records[index];
            if !std::mem::replace(&mut record.is_draining, true) {
                state.changes.push(now, Some(&record.upstream.name), Event::Drained);
            }
        })
    }

    /// Ends a drain. Returns whether there is an upstream with this name.
    pub fn undrain(&self, now: Instant, name: &str) -> bool {
        self.with_named(now, name, |state, index| {
            let record = &mut state.records[index];
            if std::mem::replace(&mut record.is_draining, false) {
                record.restart(now);
                state.changes.push(now, Some(&record.upstream.name), Event::Undrained);
            }
        })
    }

    fn with_named(&self, now: Instant, name: &str, act: impl Fn(&mut GroupState, usize)) -> bool {
        let mut is_there = false;
        self.change(now, |state| {
            let named = |record: &UpstreamRecord| record.settings.name == name;
            let places: Vec<usize> = (0..state.records.len()).filter(|&index| named(&state.records[index])).collect();
            is_there = !places.is_empty();
            places.into_iter().for_each(|index| act(state, index));
            is_there
        });
        is_there
    }

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

    /// Takes the changes since the last call.
    #[must_use]
    pub fn take_changes(&self) -> Vec<Change> {
        self.state().changes.take()
    }

    /// All upstreams in the order of the list, then removed ones with outstanding requests.
    #[must_use]
    pub fn states(&self, now: Instant) -> Vec<UpstreamState> {
        let state = self.state();
        let slow_start = state.settings.slow_start;
        let listed = state.records.iter().map(|record| record.state(now, slow_start));
        let leaving = state.leaving.iter().filter(|upstream| upstream.outstanding() > 0);
        listed.chain(leaving.map(|upstream| upstream.state(now))).collect()
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
        let Some(turn) = record.health.end(outcome, settings) else { return false };
        let event = match turn {
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

    fn state(&self, now: Instant, slow_start: Duration) -> UpstreamState {
        UpstreamState {
            addresses: self.addresses().to_vec(),
            weight: self.settings.weight,
            status: self.status(),
            is_draining: self.is_draining,
            weight_percent: self.slow_start_step(now, slow_start) * 10,
            checks: self.health.totals,
            ejections: self.ejection.count,
            ..self.upstream.state(now)
        }
    }

    fn status(&self) -> UpstreamStatus {
        match self.ejection.until {
            _ if self.address().is_none() => UpstreamStatus::Unresolved,
            _ if self.health.is_down => UpstreamStatus::Down,
            Some(until) => UpstreamStatus::Ejected { until },
            None => UpstreamStatus::Up,
        }
    }
}

impl crate::upstream::Upstream {
    /// The state of a removed upstream.
    fn state(&self, now: Instant) -> UpstreamState {
        UpstreamState {
            id: self.id,
            name: Arc::clone(&self.name),
            tls: self.tls,
            addresses: Vec::new(),
            weight: 0,
            status: UpstreamStatus::Leaving,
            is_draining: false,
            weight_percent: 0,
            outstanding: self.outstanding(),
            latency: self.latency.duration(now),
            totals: self.totals(),
            checks: CheckTotals::default(),
            ejections: 0,
        }
    }
}
