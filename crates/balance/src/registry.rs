//! Everything of a group that changes seldom, behind one lock that no request waits for: the list, who is out and why,
//! and how a new roster is made of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random};
use sha2::{Digest, Sha256};

use crate::changes::{Changes, Event};
use crate::checks::Health;
use crate::ejection::{Ejection, ejected_max};
use crate::roster::{Admission, Candidate, Member, Roster, Rules, Slot};
use crate::rotation::Rotation;
use crate::settings::check_upstreams;
use crate::stickiness::Stickiness;
use crate::upstream::{Upstream, UpstreamId};
use crate::{GroupError, GroupSettings, UpstreamSettings};

/// With so many upstreams that were removed and still have requests outstanding, the list cannot be changed.
pub const LEAVING_MAX: usize = 4096;
/// A slow start grows in so many steps, the first of which is its beginning.
const SLOW_START_STEPS: u32 = 10;

/// The list and what is known of everyone in it.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) settings: GroupSettings,
    rules: Arc<Rules>,
    pub(crate) records: Vec<Record>,
    pub(crate) leaving: Vec<Arc<Upstream>>,
    stickiness: Option<Arc<Stickiness>>,
    /// How often each index of an id was given out.
    generations: Vec<u32>,
    pub(crate) changes: Changes,
    pub(crate) random: Random,
    pub(crate) check_serial: u64,
    /// Who got requests when that was last reported.
    reported: Admitted,
}

/// One upstream of the list.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) settings: UpstreamSettings,
    addresses: Arc<[SocketAddr]>,
    pub(crate) is_draining: bool,
    pub(crate) health: Health,
    pub(crate) ejection: Ejection,
    /// It came (back) then, and its share still grows.
    slow_since: Option<Instant>,
}

/// Which upstreams get requests of new clients.
///
/// A drain spares an upstream that works, for it still serves its sessions. So when all others fail, a drained one that
/// is healthy is better than a failing one, and than an outage: it takes all requests until another is healthy. But
/// where every upstream is drained, none has failed, and the order is carried out: new clients get 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admitted {
    /// Those that are healthy and not drained.
    Healthy,
    /// There is none of these, but healthy ones that are drained: they do.
    Drained,
    /// None is healthy: all that are not drained do, since a health check may err.
    Unhealthy,
    /// All are drained, or those that are not have no address.
    Nobody,
}

/// What a new list has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Upstreams that came.
    pub added: usize,
    /// Upstreams that went; requests that are outstanding there come to their end.
    pub removed: usize,
    /// Upstreams that stayed, with all that is known of them.
    pub kept: usize,
}

impl Registry {
    pub(crate) fn new(settings: GroupSettings, upstreams: Vec<UpstreamSettings>) -> Result<Self, GroupError> {
        let random = Random::stream(settings.seed, 0);
        let mut registry = Self {
            rules: Arc::new(rules(&settings)),
            settings,
            records: Vec::new(),
            leaving: Vec::new(),
            stickiness: None,
            generations: Vec::new(),
            changes: Changes::default(),
            random,
            check_serial: 0,
            reported: Admitted::Healthy,
        };
        registry.adopt(Instant::ZERO, None, upstreams)?;
        // Who is there from the beginning has no need to start slowly, and is no news.
        registry.records.iter_mut().for_each(|record| record.slow_since = None);
        registry.changes = Changes::default();
        Ok(registry)
    }

    /// Takes another list, and other settings if they are given. If they are wrong, nothing changes.
    pub(crate) fn adopt(
        &mut self,
        now: Instant,
        settings: Option<GroupSettings>,
        upstreams: Vec<UpstreamSettings>,
    ) -> Result<Replaced, GroupError> {
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
        self.stickiness =
            self.settings.affinity.as_ref().map(|affinity| Arc::new(Stickiness::new(affinity, &upstreams)));
        let replaced = self.replace_records(now, upstreams);
        self.forget_what_nobody_watches();
        self.keep_ejections_bounded(now);
        Ok(replaced)
    }

    fn replace_records(&mut self, now: Instant, upstreams: Vec<UpstreamSettings>) -> Replaced {
        let mut before: Vec<Option<Record>> = std::mem::take(&mut self.records).into_iter().map(Some).collect();
        let mut after: Vec<(Option<Record>, UpstreamSettings)> = Vec::with_capacity(upstreams.len());
        for settings in upstreams {
            let is_same = |slot: &&mut Option<Record>| slot.as_ref().is_some_and(|record| record.is_for(&settings));
            after.push((before.iter_mut().find(is_same).and_then(Option::take), settings));
        }
        let removed: Vec<Record> = before.into_iter().flatten().collect();
        let kept = after.iter().filter(|(record, _)| record.is_some()).count();
        let replaced = Replaced { added: after.len() - kept, removed: removed.len(), kept };
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

    fn remove(&mut self, now: Instant, record: Record) {
        self.changes.push(now, Some(&record.upstream.name), Event::Removed);
        if record.upstream.outstanding() > 0 {
            self.leaving.push(record.upstream);
        }
    }

    fn keep(&mut self, now: Instant, mut record: Record, settings: UpstreamSettings) -> Record {
        if record.move_to(&settings.addresses) {
            self.changes.push(now, Some(&record.upstream.name), Event::Moved);
        }
        record.settings = settings;
        record
    }

    fn add(&mut self, now: Instant, taken: &mut Vec<bool>, settings: UpstreamSettings) -> Record {
        let id = self.new_id(taken);
        let key = hash_key(self.settings.seed, &settings);
        let upstream = Arc::new(Upstream::new(id, &settings.name, settings.tls, key));
        self.changes.push(now, Some(&upstream.name), Event::Added);
        Record {
            upstream,
            addresses: settings.addresses.as_slice().into(),
            settings,
            is_draining: false,
            health: Health::default(),
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

    /// Indexes of ids that cannot be given out: of those who stay, and of those who have not quite gone.
    fn taken_indexes<'a>(&'a self, kept: impl Iterator<Item = &'a Record>) -> Vec<bool> {
        let mut taken = vec![false; self.generations.len()];
        let ids = kept.map(|record| record.upstream.id).chain(self.leaving.iter().map(|upstream| upstream.id));
        ids.for_each(|id| taken[id.index()] = true);
        taken
    }

    /// Without checks nobody would ever come up again; without ejection, nobody is out for it.
    fn forget_what_nobody_watches(&mut self) {
        for record in &mut self.records {
            if self.settings.health.is_none() {
                record.health = Health::default();
            }
            if self.settings.ejection.is_none() {
                record.ejection = Ejection::default();
            }
        }
    }

    /// A shorter list may have a larger share of ejected ones than there may be: those who would come back first do so
    /// now.
    fn keep_ejections_bounded(&mut self, now: Instant) {
        let Some(settings) = &self.settings.ejection else { return };
        let mut ejected: Vec<(Instant, usize)> = self
            .records
            .iter()
            .enumerate()
            .filter_map(|(place, record)| Some((record.ejection.until?, place)))
            .collect();
        let excess = ejected.len().saturating_sub(ejected_max(self.records.len(), settings));
        ejected.sort_unstable();
        for (_, place) in ejected.into_iter().take(excess) {
            self.come_back(now, place);
        }
    }

    fn come_back(&mut self, now: Instant, place: usize) {
        let record = &mut self.records[place];
        record.ejection.come_back(now);
        record.restart(now);
        self.changes.push(now, Some(&record.upstream.name), Event::Returned);
    }

    /// Lets those back whose time is over.
    pub(crate) fn handle_time(&mut self, now: Instant) {
        for place in 0..self.records.len() {
            if self.records[place].ejection.until.is_some_and(|until| until <= now) {
                self.come_back(now, place);
            }
        }
    }

    /// A request has failed at an upstream. Whether that changes the roster.
    pub(crate) fn judge_failure(&mut self, now: Instant, id: UpstreamId) -> bool {
        let Some(settings) = &self.settings.ejection else { return false };
        let ejected = self.records.iter().filter(|record| record.ejection.until.is_some()).count();
        let may_eject = ejected < ejected_max(self.records.len(), settings);
        let Some(record) = self.records.iter_mut().find(|record| record.upstream.id == id) else { return false };
        let (in_row, totals) = (record.upstream.failures_in_row(), record.upstream.totals());
        match record.ejection.judge(now, in_row, totals, settings) {
            Some(reason) if may_eject => {
                let duration = record.ejection.eject(now, settings);
                self.changes.push(now, Some(&record.upstream.name), Event::Ejected { reason, duration });
                true
            }
            _ => false,
        }
    }

    /// The picture that requests read from now on.
    pub(crate) fn roster(&mut self, now: Instant) -> Roster {
        let slow_start = self.settings.slow_start;
        self.records.iter_mut().for_each(|record| record.end_slow_start(now, slow_start));
        let admitted = self.admitted();
        self.report(now, admitted);
        let members: Box<[Member]> = self.records.iter().map(|record| record.member(admitted)).collect();
        let candidates = self.candidates(now, &members);
        let weights: Vec<u32> = candidates.iter().map(|candidate| candidate.weight).collect();
        Roster {
            rules: Arc::clone(&self.rules),
            weight_sum: weights.iter().map(|&weight| u64::from(weight)).sum(),
            weights_are_equal: weights.windows(2).all(|pair| pair[0] == pair[1]),
            rotation: Rotation::new(&weights),
            stickiness: self.stickiness.clone(),
            slots: self.slots(),
            renew_at: self.renew_at(now, slow_start),
            candidates,
            members,
        }
    }

    fn candidates(&self, now: Instant, members: &[Member]) -> Box<[Candidate]> {
        let candidate = |(place, member): (usize, &Member)| {
            let record = &self.records[place];
            let weight = record.settings.weight * record.slow_start_step(now, self.settings.slow_start);
            Candidate { upstream: Arc::clone(&member.upstream), place, weight, weight_inverse: 1.0 / f64::from(weight) }
        };
        let admitting = members.iter().enumerate().filter(|(_, member)| member.admits == Admission::Everyone);
        admitting.map(candidate).collect()
    }

    fn slots(&self) -> Box<[Option<Slot>]> {
        let mut slots: Vec<Option<Slot>> = self.generations.iter().map(|_| None).collect();
        for (place, record) in self.records.iter().enumerate() {
            let slot = Slot { upstream: Arc::clone(&record.upstream), place: Some(place) };
            slots[record.upstream.id.index()] = Some(slot);
        }
        for upstream in &self.leaving {
            slots[upstream.id.index()] = Some(Slot { upstream: Arc::clone(upstream), place: None });
        }
        slots.into()
    }

    fn renew_at(&self, now: Instant, slow_start: Duration) -> Instant {
        let times = self.records.iter().flat_map(|record| [record.ejection.until, record.next_step(now, slow_start)]);
        times.flatten().min().unwrap_or(Instant::FAR)
    }

    /// Which upstreams get requests of new clients.
    fn admitted(&self) -> Admitted {
        let any = |is_such: fn(&Record) -> bool| self.records.iter().any(is_such);
        if any(|record| record.is_usable() && !record.is_draining) {
            Admitted::Healthy
        } else if !any(|record| !record.is_draining) {
            Admitted::Nobody
        } else if any(Record::is_usable) {
            Admitted::Drained
        } else if any(|record| !record.is_draining && !record.addresses.is_empty()) {
            Admitted::Unhealthy
        } else {
            Admitted::Nobody
        }
    }

    fn report(&mut self, now: Instant, admitted: Admitted) {
        if admitted == std::mem::replace(&mut self.reported, admitted) {
            return;
        }
        let event = match admitted {
            Admitted::Healthy => Event::HealthyAgain,
            Admitted::Drained => Event::OnlyDrained,
            Admitted::Unhealthy => Event::OnlyUnhealthy,
            Admitted::Nobody => Event::NobodyLeft,
        };
        self.changes.push(now, None, event);
    }
}

impl Record {
    fn is_for(&self, settings: &UpstreamSettings) -> bool {
        self.settings.name == settings.name && self.settings.tls == settings.tls
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Which of its addresses is asked.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.upstream.address(&self.addresses)
    }

    /// The address that is asked does not answer.
    pub(crate) fn leave_address(&self) {
        if let Some(address) = self.address() {
            self.upstream.leave_address(&self.addresses, address);
        }
    }

    /// Whether that is somewhere else.
    pub(crate) fn move_to(&mut self, addresses: &[SocketAddr]) -> bool {
        let has_moved = *self.addresses != *addresses;
        if has_moved {
            self.addresses = addresses.into();
        }
        has_moved
    }

    fn is_well(&self) -> bool {
        !self.health.is_down && self.ejection.until.is_none()
    }

    fn is_usable(&self) -> bool {
        self.is_well() && !self.addresses.is_empty()
    }

    fn member(&self, admitted: Admitted) -> Member {
        let admits = match (self.is_draining, self.is_well()) {
            _ if self.addresses.is_empty() => Admission::Nobody,
            (true, true) if admitted == Admitted::Drained => Admission::Everyone,
            (true, true) => Admission::Sessions,
            (false, true) => Admission::Everyone,
            (false, false) if admitted == Admitted::Unhealthy => Admission::Everyone,
            (_, false) => Admission::Nobody,
        };
        Member { upstream: Arc::clone(&self.upstream), addresses: Arc::clone(&self.addresses), admits }
    }

    /// It comes back as if it were new.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.upstream.forgive();
        self.slow_since = Some(now);
    }

    /// Of its share, in tenths.
    pub(crate) fn slow_start_step(&self, now: Instant, slow_start: Duration) -> u32 {
        let Some(since) = self.slow_since else { return SLOW_START_STEPS };
        let elapsed = u128::from(now.nanos_since(since)) * u128::from(SLOW_START_STEPS);
        let steps = elapsed.checked_div(slow_start.as_nanos()).and_then(|steps| u32::try_from(steps).ok());
        steps.map_or(SLOW_START_STEPS, |steps| steps.saturating_add(1).min(SLOW_START_STEPS))
    }

    fn end_slow_start(&mut self, now: Instant, slow_start: Duration) {
        if self.slow_start_step(now, slow_start) == SLOW_START_STEPS {
            self.slow_since = None;
        }
    }

    /// When its share grows next.
    fn next_step(&self, now: Instant, slow_start: Duration) -> Option<Instant> {
        let since = self.slow_since?;
        let step = self.slow_start_step(now, slow_start);
        Some(since + slow_start.saturating_mul(step) / SLOW_START_STEPS + Duration::from_nanos(1))
    }
}

/// What is worked out of settings for every request.
fn rules(settings: &GroupSettings) -> Rules {
    let ejection = settings.ejection.as_ref();
    Rules {
        policy: settings.policy,
        outstanding_max: settings.outstanding_max,
        hash_load_percent_max: settings.hash_load_percent_max,
        failure_statuses: ejection.map(|ejection| ejection.statuses.clone()),
        failures_in_row: ejection.map_or(0, |ejection| ejection.failures_in_row),
        judges_share: ejection.is_some_and(|ejection| ejection.failure_percent > 0),
    }
}

/// Where an upstream stands in consistent hashing: the same in every proxy of this seed, now and after a restart.
fn hash_key(seed: u64, upstream: &UpstreamSettings) -> u64 {
    let mut digest = Sha256::new();
    digest.update(seed.to_be_bytes());
    digest.update([u8::from(upstream.tls)]);
    digest.update(upstream.name.as_bytes());
    digest.finalize().iter().take(8).fold(0, |key, &byte| key << 8 | u64::from(byte))
}
