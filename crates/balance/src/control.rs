//! What is done to a group while it works: other lists, draining, checks; and what it shows of itself.
//!
//! All of it goes through the registry's lock. Requests that are under way notice nothing: those who stay in the list
//! keep their ids, their counts and what is known of them, and requests at those who go come to their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;

use crate::changes::{Change, Event};
use crate::checks::{CHECKS_MAX, Check, CheckId, CheckOutcome, CheckTotals, Turn};
use crate::registry::{Record, Registry, Replaced};
use crate::upstream::UpstreamTotals;
use crate::{Group, GroupError, GroupSettings, HealthSettings, UpstreamId, UpstreamSettings};

/// An upstream as people and `/metrics` see it.
#[derive(Clone, Debug)]
pub struct UpstreamState {
    /// Its id.
    pub id: UpstreamId,
    /// Its authority.
    pub name: Arc<str>,
    /// It speaks TLS.
    pub tls: bool,
    /// Where it is.
    pub addresses: Vec<SocketAddr>,
    /// Its weight.
    pub weight: u32,
    /// How it is.
    pub standing: Standing,
    /// It gets no new clients.
    pub is_draining: bool,
    /// How much of its weight counts, in percent: less than 100 while it starts slowly.
    pub weight_percent: u32,
    /// Requests that are there now.
    pub outstanding: u32,
    /// How long it takes to answer, as far as is known.
    pub latency: Option<Duration>,
    /// How its requests have ended.
    pub totals: UpstreamTotals,
    /// How its checks have ended.
    pub checks: CheckTotals,
    /// How often it was left out.
    pub ejections: u64,
}

/// How an upstream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Well, as far as is known.
    Up,
    /// Its checks fail.
    Down,
    /// It has failed too many requests, and is left out until then.
    Ejected {
        /// Until when.
        until: Instant,
    },
    /// It has no address.
    Unresolved,
    /// It was removed, and its last requests have not ended.
    Leaving,
}

impl Standing {
    /// One word.
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
    /// Takes another list. Upstreams are the same if name and TLS are.
    ///
    /// # Errors
    /// If the list makes no sense; then the old one stays.
    pub fn replace(&self, now: Instant, upstreams: Vec<UpstreamSettings>) -> Result<Replaced, GroupError> {
        self.adopt(now, None, upstreams)
    }

    /// Takes other settings and another list.
    ///
    /// # Errors
    /// If they make no sense; then the old ones stay.
    pub fn reconfigure(
        &self,
        now: Instant,
        settings: GroupSettings,
        upstreams: Vec<UpstreamSettings>,
    ) -> Result<Replaced, GroupError> {
        self.adopt(now, Some(settings), upstreams)
    }

    fn adopt(
        &self,
        now: Instant,
        settings: Option<GroupSettings>,
        upstreams: Vec<UpstreamSettings>,
    ) -> Result<Replaced, GroupError> {
        let mut registry = self.registry();
        let replaced = registry.adopt(now, settings, upstreams)?;
        self.publish(now, &mut registry);
        Ok(replaced)
    }

    /// The upstreams of this name are at other addresses now; none: nobody knows where. Whether there is one of this
    /// name.
    pub fn move_to(&self, now: Instant, name: &str, addresses: &[SocketAddr]) -> bool {
        self.with_named(now, name, |registry, place| {
            let record = &mut registry.records[place];
            if record.move_to(addresses) {
                registry.changes.push(now, Some(&record.upstream.name), Event::Moved);
            }
        })
    }

    /// Sends the upstreams of this name nobody new; clients whose cookie names them stay. Whether there is one of this
    /// name.
    pub fn drain(&self, now: Instant, name: &str) -> bool {
        self.with_named(now, name, |registry, place| {
            let record = &mut registry.records[place];
            if !std::mem::replace(&mut record.is_draining, true) {
                registry.changes.push(now, Some(&record.upstream.name), Event::Drained);
            }
        })
    }

    /// Ends a drain. Whether there is an upstream of this name.
    pub fn undrain(&self, now: Instant, name: &str) -> bool {
        self.with_named(now, name, |registry, place| {
            let record = &mut registry.records[place];
            if std::mem::replace(&mut record.is_draining, false) {
                record.restart(now);
                registry.changes.push(now, Some(&record.upstream.name), Event::Undrained);
            }
        })
    }

    fn with_named(&self, now: Instant, name: &str, act: impl Fn(&mut Registry, usize)) -> bool {
        let mut is_there = false;
        self.change(now, |registry| {
            let named = |record: &Record| record.settings.name == name;
            let places: Vec<usize> =
                (0..registry.records.len()).filter(|&place| named(&registry.records[place])).collect();
            is_there = !places.is_empty();
            places.into_iter().for_each(|place| act(registry, place));
            is_there
        });
        is_there
    }

    /// How upstreams are to be asked how they are; none: they are not.
    #[must_use]
    pub fn health_settings(&self) -> Option<HealthSettings> {
        self.registry().settings.health.clone()
    }

    /// The checks that are to be made now, each of which is to be told [done](Group::check_done).
    #[must_use]
    pub fn checks_due(&self, now: Instant) -> Vec<Check> {
        let mut due = Vec::new();
        self.change(now, |registry| {
            let has_changed = registry.end_overdue_checks(now);
            due = registry.begin_checks(now);
            has_changed
        });
        due
    }

    /// When [`Group::checks_due`] has something to do next.
    #[must_use]
    pub fn next_check(&self) -> Option<Instant> {
        let registry = self.registry();
        registry.settings.health.as_ref()?;
        let may_begin = registry.checks_under_way() < CHECKS_MAX;
        registry.records.iter().filter_map(|record| record.next_check(may_begin)).min()
    }

    /// How a check has ended. One that is over time, or of an upstream that is gone, says nothing any more.
    pub fn check_done(&self, now: Instant, check: CheckId, outcome: CheckOutcome) {
        self.change(now, |registry| {
            let places = 0..registry.records.len();
            let is_asked =
                |record: &Record| record.upstream.id == check.upstream && record.health.waits_for(check.serial);
            let asked = places.into_iter().find(|&place| is_asked(&registry.records[place]));
            asked.is_some_and(|place| registry.end_check(now, place, outcome))
        });
    }

    /// What has changed since the last time somebody asked.
    #[must_use]
    pub fn take_changes(&self) -> Vec<Change> {
        self.registry().changes.take()
    }

    /// Changes that were dropped because nobody took them.
    #[must_use]
    pub fn changes_dropped(&self) -> u64 {
        self.registry().changes.dropped
    }

    /// All upstreams, in the order of the list, then those that were removed and still have requests.
    #[must_use]
    pub fn states(&self, now: Instant) -> Vec<UpstreamState> {
        let registry = self.registry();
        let slow_start = registry.settings.slow_start;
        let listed = registry.records.iter().map(|record| record.state(now, slow_start));
        let leaving = registry.leaving.iter().filter(|upstream| upstream.outstanding() > 0);
        listed.chain(leaving.map(|upstream| upstream.state(now))).collect()
    }
}

impl Registry {
    fn checks_under_way(&self) -> usize {
        self.records.iter().filter(|record| record.health.is_asked()).count()
    }

    fn begin_checks(&mut self, now: Instant) -> Vec<Check> {
        let free = CHECKS_MAX.saturating_sub(self.checks_under_way());
        let Some(settings) = &self.settings.health else { return Vec::new() };
        let due = self.records.iter_mut().filter(|record| record.health.is_due(now) && record.address().is_some());
        let mut begin = |record: &mut Record| {
            self.check_serial += 1;
            let deadline = record.health.begin(now, self.check_serial, settings, &mut self.random);
            let id = CheckId { upstream: record.upstream.id, serial: self.check_serial };
            let name = Arc::clone(&record.upstream.name);
            Some(Check { id, address: record.address()?, tls: record.upstream.tls, name, deadline })
        };
        due.take(free).filter_map(&mut begin).collect()
    }

    fn end_overdue_checks(&mut self, now: Instant) -> bool {
        let overdue = |record: &Record| record.health.is_overdue(now);
        let places: Vec<usize> = (0..self.records.len()).filter(|&place| overdue(&self.records[place])).collect();
        places.into_iter().fold(false, |changed, place| self.end_check(now, place, CheckOutcome::TimedOut) | changed)
    }

    /// Takes in how a check ended. Whether that changes who is asked.
    fn end_check(&mut self, now: Instant, place: usize, outcome: CheckOutcome) -> bool {
        let Some(settings) = &self.settings.health else { return false };
        let record = &mut self.records[place];
        if outcome == CheckOutcome::ConnectFailed {
            record.leave_address();
        }
        let Some(turn) = record.health.end(outcome, settings) else { return false };
        let event = match turn {
            Turn::Down => Event::WentDown(outcome),
            Turn::Up => {
                // Good checks after bad ones say more than the requests that failed before.
                if record.ejection.until.is_some() {
                    record.ejection.come_back(now);
                }
                record.restart(now);
                Event::CameUp
            }
        };
        self.changes.push(now, Some(&record.upstream.name), event);
        true
    }
}

impl Record {
    fn next_check(&self, may_begin: bool) -> Option<Instant> {
        self.address().and_then(|_| self.health.next(may_begin))
    }

    fn state(&self, now: Instant, slow_start: Duration) -> UpstreamState {
        UpstreamState {
            addresses: self.addresses().to_vec(),
            weight: self.settings.weight,
            standing: self.standing(),
            is_draining: self.is_draining,
            weight_percent: self.slow_start_step(now, slow_start) * 10,
            checks: self.health.totals,
            ejections: self.ejection.count,
            ..self.upstream.state(now)
        }
    }

    fn standing(&self) -> Standing {
        match self.ejection.until {
            _ if self.address().is_none() => Standing::Unresolved,
            _ if self.health.is_down => Standing::Down,
            Some(until) => Standing::Ejected { until },
            None => Standing::Up,
        }
    }
}

impl crate::upstream::Upstream {
    /// One that was removed.
    fn state(&self, now: Instant) -> UpstreamState {
        UpstreamState {
            id: self.id,
            name: Arc::clone(&self.name),
            tls: self.tls,
            addresses: Vec::new(),
            weight: 0,
            standing: Standing::Leaving,
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
