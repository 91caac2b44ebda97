//! Operations on a running group: new lists, draining; and its state.
//!
//! All take the lock of the group state. Requests in progress are not affected: upstreams that stay in the list keep
//! their ids, counters and history, and requests at removed ones complete.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;

use crate::changes::{Change, Event};
use crate::check_state::CheckTotals;
use crate::group_state::{GroupState, ListChange, UpstreamRecord};
use crate::upstream::UpstreamTotals;
use crate::{Group, GroupError, GroupSettings, UpstreamId, UpstreamSettings};

/// The state of an upstream, for operators and `/metrics`.
#[derive(Clone, Debug)]
pub struct UpstreamState {
    pub id: UpstreamId,
    pub name: Arc<str>,
    pub tls: bool,
    pub addresses: Vec<SocketAddr>,
    pub weight: u32,
    pub status: UpstreamStatus,
    /// Gets no new clients.
    pub is_draining: bool,
    /// The effective part of its weight in percent: less than 100 during slow start.
    pub weight_percent: u32,
    pub outstanding: u32,
    pub latency: Option<Duration>,
    pub totals: UpstreamTotals,
    pub checks: CheckTotals,
    /// Ejections so far.
    pub ejections: u64,
}

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

impl UpstreamRecord {
    fn state(&self, now: Instant, slow_start: Duration) -> UpstreamState {
        UpstreamState {
            addresses: self.addresses().to_vec(),
            weight: self.settings.weight,
            status: self.status(now),
            is_draining: self.is_draining,
            weight_percent: self.slow_start_step(now, slow_start) * 10,
            checks: self.health.totals,
            ejections: self.ejection.count,
            ..self.upstream.state(now)
        }
    }

    /// An ejection that has ended is recorded until the next choice of an upstream.
    fn status(&self, now: Instant) -> UpstreamStatus {
        match self.ejection.until {
            _ if self.address().is_none() => UpstreamStatus::Unresolved,
            _ if self.health.is_down => UpstreamStatus::Down,
            Some(until) if until > now => UpstreamStatus::Ejected { until },
            Some(_) | None => UpstreamStatus::Up,
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
