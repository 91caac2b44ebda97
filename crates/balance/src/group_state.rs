//! What changes rarely in a group: the list, health and ejection of its upstreams. It is behind a lock that requests
//! never take; they read snapshots, which are built here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random};
use sha2::{Digest, Sha256};

use crate::affinity_cookies::AffinityCookies;
use crate::changes::{ChangeLog, Event};
use crate::check_state::CheckState;
use crate::ejection::{Ejection, ejected_max};
use crate::rotation::Rotation;
use crate::settings::check_upstreams;
use crate::snapshot::{AdmittedClients, Candidate, Member, RequestRules, Snapshot, SnapshotSlot};
use crate::upstream::{Upstream, UpstreamId};
use crate::{GroupError, GroupSettings, UpstreamSettings};

/// With this many removed upstreams that still have outstanding requests, the list cannot be changed.
pub const LEAVING_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct GroupState {
    pub(crate) settings: GroupSettings,
    rules: Arc<RequestRules>,
    pub(crate) records: Vec<UpstreamRecord>,
    pub(crate) leaving: Vec<Arc<Upstream>>,
    affinity_cookies: Option<Arc<AffinityCookies>>,
    /// How often each id index was used.
    generations: Vec<u32>,
    pub(crate) changes: ChangeLog,
    pub(crate) random: Random,
    pub(crate) check_serial: u64,
    /// The set reported last.
    reported: AdmittedSet,
}

#[derive(Debug)]
pub(crate) struct UpstreamRecord {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) settings: UpstreamSettings,
    addresses: Arc<[SocketAddr]>,
    pub(crate) is_draining: bool,
    pub(crate) health: CheckState,
    pub(crate) ejection: Ejection,
    /// When it was added or restored; None after its slow start.
    pub(crate) slow_since: Option<Instant>,
}

/// Which upstreams get requests of new clients.
///
/// A drained upstream still works, for its sessions. So when all others fail, a healthy drained one is better than a
/// failing one, and than an outage: it gets all requests until another one is healthy. But if all upstreams are
/// drained, none has failed, and the operator's decision applies: new clients get 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmittedSet {
    /// Healthy, undrained ones.
    Healthy,
    /// Healthy drained ones, since there is no healthy undrained one.
    Drained,
    /// All undrained ones, since none is healthy and health checks may err.
    Unhealthy,
    /// None: all are drained, or those that are not have no address.
    None,
}

/// The effect of a new list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListChange {
    /// Upstreams added.
    pub added: usize,
    /// Upstreams removed; their outstanding requests complete.
    pub removed: usize,
    /// Upstreams kept, with their state.
    pub kept: usize,
}

impl GroupState {
    pub(crate) fn new(settings: GroupSettings, upstreams: Vec<UpstreamSettings>) -> Result<Self, GroupError> {
        let random = Random::stream(settings.seed, 0);
        let mut state = Self {
            rules: Arc::new(rules(&settings)),
            settings,
            records: Vec::new(),
            leaving: Vec::new(),
            affinity_cookies: None,
            generations: Vec::new(),
            changes: ChangeLog::default(),
            random,
            check_serial: 0,
            reported: AdmittedSet::Healthy,
        };
        state.apply(Instant::ZERO, None, upstreams)?;
        // Initial upstreams need no slow start and are not reported.
        state.records.iter_mut().for_each(|record| record.slow_since = None);
        state.changes = ChangeLog::default();
        Ok(state)
    }

    /// Applies a list, and settings if there are any. On errors nothing changes.
    pub(crate) fn apply(
        &mut self,
        now: Instant,
        settings: Option<GroupSettings>,
        upstreams: Vec<UpstreamSettings>,
    ) -> Result<ListChange, GroupError> {
        settings.as_ref().unwrap_or(&self.settings).check()?;
        check_upstreams(&upstreams)?;
        self.leaving.retain(|upstream| upstream.outstanding() > 0);
        if self.leaving.len() >= LEAVING_MAX {
            return Err(GroupError::TooManyLeaving(self.leaving.len()));
        }
        if let Some(settings) = settings {
            self.rules = Arc::new(rules(&settings));
            self.settings = settings;
        }
        self.affinity_cookies =
            self.settings.affinity.as_ref().map(|affinity| Arc::new(AffinityCookies::new(affinity, &upstreams)));
        let replaced = self.replace_records(now, upstreams);
        self.reset_unwatched();
        self.limit_ejections(now);
        Ok(replaced)
    }

    fn replace_records(&mut self, now: Instant, upstreams: Vec<UpstreamSettings>) -> ListChange {
        let mut before: Vec<Option<UpstreamRecord>> = std::mem::take(&mut self.records).into_iter().map(Some).collect();
        let mut after: Vec<(Option<UpstreamRecord>, UpstreamSettings)> = Vec::with_capacity(upstreams.len());
        for settings in upstreams {
            let is_same =
                |slot: &&mut Option<UpstreamRecord>| slot.as_ref().is_some_and(|record| record.is_for(&settings));
            after.push((before.iter_mut().find(is_same).and_then(Option::take), settings));
        }
        let removed: Vec<UpstreamRecord> = before.into_iter().flatten().collect();
        let kept = after.iter().filter(|(record, _)| record.is_some()).count();
        let replaced = ListChange { added: after.len() - kept, removed: removed.len(), kept };
        removed.into_iter().for_each(|record| self.remove(now, record));
        let mut taken = self.taken_indexes(after.iter().filter_map(|(record, _)| record.as_ref()));
        for (record, settings) in after {
            let record = match record {
                Some(record) => self.keep(now, record, settings),
                None => self.add(now, &mut taken, settings),
            };
            self.records.push(record);
        }
        replaced
    }

    fn remove(&mut self, now: Instant, record: UpstreamRecord) {
        self.changes.push(now, Some(&record.upstream.name), Event::Removed);
        if record.upstream.outstanding() > 0 {
            self.leaving.push(record.upstream);
        }
    }

    fn keep(&mut self, now: Instant, mut record: UpstreamRecord, settings: UpstreamSettings) -> UpstreamRecord {
        if record.move_to(&settings.addresses) {
            self.changes.push(now, Some(&record.upstream.name), Event::Moved);
        }
        record.settings = settings;
        record
    }

    fn add(&mut self, now: Instant, taken: &mut Vec<bool>, settings: UpstreamSettings) -> UpstreamRecord {
        let id = self.new_id(taken);
        let key = hash_key(self.settings.seed, &settings);
        let upstream = Arc::new(Upstream::new(id, &settings.name, settings.tls, key));
        self.changes.push(now, Some(&upstream.name), Event::Added);
        UpstreamRecord {
            upstream,
            addresses: settings.addresses.as_slice().into(),
            settings,
            is_draining: false,
            health: CheckState::default(),
            ejection: Ejection::default(),
            slow_since: Some(now),
        }
    }

    fn new_id(&mut self, taken: &mut Vec<bool>) -> UpstreamId {
        let index = taken.iter().position(|is_taken| !is_taken).unwrap_or(taken.len());
        if index == taken.len() {
            taken.push(false);
            self.generations.push(0);
        }
        taken[index] = true;
        self.generations[index] = self.generations[index].wrapping_add(1);
        UpstreamId { index: index as u32, generation: self.generations[index] }
    }

    /// Id indexes in use: of kept upstreams, and of removed ones with outstanding requests.
    fn taken_indexes<'a>(&'a self, kept: impl Iterator<Item = &'a UpstreamRecord>) -> Vec<bool> {
        let mut taken = vec![false; self.generations.len()];
        let ids = kept.map(|record| record.upstream.id).chain(self.leaving.iter().map(|upstream| upstream.id));
        ids.for_each(|id| taken[id.index()] = true);
        taken
    }

    /// Without checks no upstream would be restored; without ejection, none is ejected.
    fn reset_unwatched(&mut self) {
        for record in &mut self.records {
            if self.settings.health.is_none() {
                record.health = CheckState::default();
            }
            if self.settings.ejection.is_none() {
                record.ejection = Ejection::default();
            }
        }
    }

    /// In a shorter list too large a share may be ejected: those with the earliest end are restored.
    fn limit_ejections(&mut self, now: Instant) {
        let Some(settings) = &self.settings.ejection else { return };
        let mut ejected: Vec<(Instant, usize)> = self
            .records
            .iter()
            .enumerate()
            .filter_map(|(index, record)| Some((record.ejection.until?, index)))
            .collect();
        let excess = ejected.len().saturating_sub(ejected_max(self.records.len(), settings));
        ejected.sort_unstable();
        for (_, index) in ejected.into_iter().take(excess) {
            self.restore(now, index);
        }
    }

    fn restore(&mut self, now: Instant, index: usize) {
        let record = &mut self.records[index];
        record.ejection.restore(now);
        record.restart(now);
        self.changes.push(now, Some(&record.upstream.name), Event::Restored);
    }

    /// Restores upstreams whose ejection has ended.
    pub(crate) fn end_ejections(&mut self, now: Instant) {
        for index in 0..self.records.len() {
            if self.records[index].ejection.until.is_some_and(|until| until <= now) {
                self.restore(now, index);
            }
        }
    }

    /// Handles a failed request. Returns whether an upstream was ejected.
    pub(crate) fn handle_failure(&mut self, now: Instant, id: UpstreamId) -> bool {
        let Some(settings) = &self.settings.ejection else { return false };
        let ejected = self.records.iter().filter(|record| record.ejection.until.is_some()).count();
        let may_eject = ejected < ejected_max(self.records.len(), settings);
        let Some(record) = self.records.iter_mut().find(|record| record.upstream.id == id) else { return false };
        let (in_row, totals) = (record.upstream.failures_in_row(), record.upstream.totals());
        match record.ejection.check_limits(now, in_row, totals, settings) {
            Some(reason) if may_eject => {
                let duration = record.ejection.eject(now, settings);
                self.changes.push(now, Some(&record.upstream.name), Event::Ejected { reason, duration });
                true
            }
            _ => false,
        }
    }

    pub(crate) fn snapshot(&mut self, now: Instant) -> Snapshot {
        let slow_start = self.settings.slow_start;
        self.records.iter_mut().for_each(|record| record.end_slow_start(now, slow_start));
        let admitted_set = self.admitted_set();
        self.report(now, admitted_set);
        let members: Box<[Member]> = self.records.iter().map(|record| record.member(admitted_set)).collect();
        let candidates = self.candidates(now, &members);
        let weights: Vec<u32> = candidates.iter().map(|candidate| candidate.weight).collect();
        Snapshot {
            rules: Arc::clone(&self.rules),
            weight_sum: weights.iter().map(|&weight| u64::from(weight)).sum(),
            weights_are_equal: weights.windows(2).all(|pair| pair[0] == pair[1]),
            rotation: Rotation::new(&weights),
            affinity_cookies: self.affinity_cookies.clone(),
            slots: self.slots(),
            expires_at: self.expires_at(now, slow_start),
            candidates,
            members,
        }
    }

    fn candidates(&self, now: Instant, members: &[Member]) -> Box<[Candidate]> {
        let candidate = |(index, member): (usize, &Member)| {
            let record = &self.records[index];
            let weight = record.settings.weight * record.slow_start_step(now, self.settings.slow_start);
            Candidate { upstream: Arc::clone(&member.upstream), index, weight, weight_inverse: 1.0 / f64::from(weight) }
        };
        let admitting = members.iter().enumerate().filter(|(_, member)| member.admits == AdmittedClients::All);
        admitting.map(candidate).collect()
    }

    fn slots(&self) -> Box<[Option<SnapshotSlot>]> {
        let mut slots: Vec<Option<SnapshotSlot>> = self.generations.iter().map(|_| None).collect();
        for (index, record) in self.records.iter().enumerate() {
            let slot = SnapshotSlot { upstream: Arc::clone(&record.upstream), index: Some(index) };
            slots[record.upstream.id.index()] = Some(slot);
        }
        for upstream in &self.leaving {
            slots[upstream.id.index()] = Some(SnapshotSlot { upstream: Arc::clone(upstream), index: None });
        }
        slots.into()
    }

    fn expires_at(&self, now: Instant, slow_start: Duration) -> Instant {
        let times = self
            .records
            .iter()
            .flat_map(|record| [record.ejection.until, record.next_slow_start_step(now, slow_start)]);
        times.flatten().min().unwrap_or(Instant::FAR)
    }

    /// Which upstreams get requests of new clients.
    fn admitted_set(&self) -> AdmittedSet {
        let any = |is_such: fn(&UpstreamRecord) -> bool| self.records.iter().any(is_such);
        if any(|record| record.is_usable() && !record.is_draining) {
            AdmittedSet::Healthy
        } else if !any(|record| !record.is_draining) {
            AdmittedSet::None
        } else if any(UpstreamRecord::is_usable) {
            AdmittedSet::Drained
        } else if any(|record| !record.is_draining && !record.addresses.is_empty()) {
            AdmittedSet::Unhealthy
        } else {
            AdmittedSet::None
        }
    }

    fn report(&mut self, now: Instant, admitted_set: AdmittedSet) {
        if admitted_set == std::mem::replace(&mut self.reported, admitted_set) {
            return;
        }
        let event = match admitted_set {
            AdmittedSet::Healthy => Event::HealthyAgain,
            AdmittedSet::Drained => Event::OnlyDrained,
            AdmittedSet::Unhealthy => Event::OnlyUnhealthy,
            AdmittedSet::None => Event::NoneUsable,
        };
        self.changes.push(now, None, event);
    }
}

impl UpstreamRecord {
    fn is_for(&self, settings: &UpstreamSettings) -> bool {
        self.settings.name == settings.name && self.settings.tls == settings.tls
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.upstream.address(&self.addresses)
    }

    /// Advances to the next address after a failed connect.
    pub(crate) fn next_address(&self) {
        if let Some(address) = self.address() {
            self.upstream.next_address(&self.addresses, address);
        }
    }

    /// Changes the addresses; the one in use stays while it is listed. Returns whether others are listed: name servers
    /// rotate the order of their answers.
    pub(crate) fn move_to(&mut self, addresses: &[SocketAddr]) -> bool {
        let are_listed = |these: &[SocketAddr], there: &[SocketAddr]| these.iter().all(|one| there.contains(one));
        if are_listed(addresses, &self.addresses) && are_listed(&self.addresses, addresses) {
            return false;
        }
        let mut addresses = addresses.to_vec();
        if let Some(in_use) = self.address() {
            self.upstream.keep_address(in_use, &mut addresses);
        }
        self.addresses = addresses.into();
        true
    }

    fn is_healthy(&self) -> bool {
        !self.health.is_down && self.ejection.until.is_none()
    }

    fn is_usable(&self) -> bool {
        self.is_healthy() && !self.addresses.is_empty()
    }

    fn member(&self, admitted_set: AdmittedSet) -> Member {
        let admits = match (self.is_draining, self.is_healthy()) {
            _ if self.addresses.is_empty() => AdmittedClients::None,
            (true, true) if admitted_set == AdmittedSet::Drained => AdmittedClients::All,
            (true, true) => AdmittedClients::Sessions,
            (false, true) => AdmittedClients::All,
            (false, false) if admitted_set == AdmittedSet::Unhealthy => AdmittedClients::All,
            (_, false) => AdmittedClients::None,
        };
        Member {
            upstream: Arc::clone(&self.upstream),
            addresses: Arc::clone(&self.addresses),
            admits,
            is_down: self.health.is_down,
        }
    }

    /// Forgets its failures and latency, and begins a slow start.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.upstream.reset();
        self.slow_since = Some(now);
    }
}

/// The settings that requests read.
fn rules(settings: &GroupSettings) -> RequestRules {
    let ejection = settings.ejection.as_ref();
    RequestRules {
        policy: settings.policy,
        outstanding_max: settings.outstanding_max,
        hash_load_percent_max: settings.hash_load_percent_max,
        failure_statuses: ejection.map(|ejection| ejection.statuses.clone()),
        failures_in_row: ejection.map_or(0, |ejection| ejection.failures_in_row),
        checks_failure_share: ejection.is_some_and(|ejection| ejection.failure_percent > 0),
        aborts_requests: settings.health.as_ref().is_some_and(|health| health.aborts_requests),
    }
}

/// The key of an upstream in consistent hashing: equal in all proxies with this seed, and after a restart.
fn hash_key(seed: u64, upstream: &UpstreamSettings) -> u64 {
    let mut digest = Sha256::new();
    digest.update(seed.to_be_bytes());
    digest.update([u8::from(upstream.tls)]);
    digest.update(upstream.name.as_bytes());
    digest.finalize().iter().take(8).fold(0, |key, &byte| key << 8 | u64::from(byte))
}
