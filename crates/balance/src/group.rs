//! The choice of an upstream for each request.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use arc_swap::ArcSwap;
use breme_base::{Instant, Random};
use parking_lot::{Mutex, MutexGuard};

use crate::affinity_cookies::OwnCookie;
use crate::group_state::GroupState;
use crate::policy::Selection;
use crate::snapshot::{AdmittedClients, Candidate, Snapshot};
use crate::upstream::UpstreamOutcome;
use crate::{Choice, GroupError, GroupSettings, Hints, NoChoice, UpstreamId, UpstreamSettings};

/// How often a choice is repeated because another request took the last slot.
const CLAIMS_MAX: usize = 4;

/// A group of equivalent upstreams, shared by all shards.
#[derive(Debug)]
pub struct Group {
    snapshot: ArcSwap<Snapshot>,
    rotation_counter: RotationCounter,
    state: Mutex<GroupState>,
}

/// Written by each request in round robin, so on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct RotationCounter(AtomicU32);

/// The result of a request's affinity cookies.
enum AffinityMatch {
    /// The named upstream; the request counts as outstanding there.
    Available(Choice),
    /// The named upstream is full: another one is chosen this time, and the cookie is kept.
    Full(UpstreamId),
    /// No usable upstream is named: another one is chosen, with a new cookie.
    No,
}

impl Group {
    /// # Errors
    /// If the settings or the list are invalid.
    pub fn new(settings: GroupSettings, upstreams: Vec<UpstreamSettings>) -> Result<Self, GroupError> {
        let mut state = GroupState::new(settings, upstreams)?;
        let snapshot = ArcSwap::from_pointee(state.snapshot(Instant::ZERO));
        Ok(Self { snapshot, rotation_counter: RotationCounter::default(), state: Mutex::new(state) })
    }

    /// Chooses an upstream, and counts the request as outstanding there until [`finished`](Group::finished).
    ///
    /// A request whose cookie names a healthy upstream goes there. If that is full, the request goes elsewhere and the
    /// cookie is kept; if it is unhealthy, was tried or is not in the list, the request goes elsewhere and the cookie
    /// is replaced.
    ///
    /// # Errors
    /// If no upstream is available.
    pub fn choose(&self, now: Instant, hints: &Hints<'_>, random: &mut Random) -> Result<Choice, NoChoice> {
        let mut snapshot = self.snapshot.load();
        if now >= snapshot.expires_at {
            drop(snapshot);
            self.refresh(now);
            snapshot = self.snapshot.load();
        }
        let followed = follow(&snapshot, hints);
        if let AffinityMatch::Available(choice) = followed {
            return Ok(choice);
        }
        let selection = Selection { snapshot: &snapshot, now, key: hints.key_hash, tried: hints.tried };
        let candidate = self.claim(&selection, random)?;
        let mut choice = snapshot.choice(candidate.index).ok_or(NoChoice::NoneAdmitting)?;
        match (followed, &snapshot.affinity_cookies) {
            (AffinityMatch::Full(named), _) => choice.named = Some(named),
            (_, Some(affinity_cookies)) => {
                choice.set_affinity = affinity_cookies.set_cookie(candidate.index, hints.is_secured);
            }
            (_, None) => {}
        }
        Ok(choice)
    }

    /// Whether there is an available upstream other than these.
    #[must_use]
    pub fn has_other(&self, tried: &[UpstreamId]) -> bool {
        let snapshot = self.snapshot.load();
        let selection = Selection { snapshot: &snapshot, now: Instant::ZERO, key: 0, tried };
        snapshot.candidates.iter().any(|candidate| selection.is_open(candidate))
    }

    /// Whether [`Hints::cookies`] are read.
    #[must_use]
    pub fn reads_cookies(&self) -> bool {
        self.snapshot.load().affinity_cookies.is_some()
    }

    /// Whether requests that wait for an upstream are aborted when it goes down ([`Group::is_lost`]).
    #[must_use]
    pub fn aborts_requests(&self) -> bool {
        self.snapshot.load().rules.aborts_requests
    }

    /// Whether requests that wait for a response of this upstream are to be aborted: it failed its health checks, and
    /// others serve in its place. If none is healthy, all upstreams are used, and none is lost.
    #[must_use]
    pub fn is_lost(&self, upstream: UpstreamId) -> bool {
        let snapshot = self.snapshot.load();
        let index = snapshot.slot(upstream).and_then(|slot| slot.index);
        let member = index.and_then(|index| snapshot.members.get(index));
        snapshot.rules.aborts_requests
            && member.is_some_and(|member| member.is_down && member.admits == AdmittedClients::None)
    }

    /// The balancer's cookie, which upstreams need not see; None without one.
    #[must_use]
    pub fn own_cookie(&self) -> Option<OwnCookie> {
        OwnCookie::new(self.snapshot.load().affinity_cookies.as_ref()?)
    }

    /// Reports the end of a request, once for each choice. Returns whether a request that got [`NoChoice::AllFull`] may
    /// now find capacity.
    pub fn finished(&self, now: Instant, upstream: UpstreamId, outcome: UpstreamOutcome) -> bool {
        let snapshot = self.snapshot.load();
        let has_capacity = snapshot.rules.outstanding_max > 0;
        // None: it was removed without outstanding requests.
        let Some(slot) = snapshot.slot(upstream) else { return has_capacity };
        let Snapshot { rules, .. } = &**snapshot;
        slot.upstream.release();
        if let UpstreamOutcome::ConnectFailed { address } = outcome {
            slot.upstream.next_address(snapshot.addresses(slot), address);
        }
        if !slot.upstream.count(now, outcome, rules.failure_statuses.as_ref()) {
            return has_capacity;
        }
        let in_row = slot.upstream.failures_in_row();
        if rules.checks_failure_share || (rules.failures_in_row > 0 && in_row >= rules.failures_in_row) {
            self.change(now, |state| state.handle_failure(now, upstream));
        }
        has_capacity
    }

    fn claim<'r>(&self, selection: &Selection<'r>, random: &mut Random) -> Result<&'r Candidate, NoChoice> {
        let max = selection.snapshot.rules.outstanding_max;
        for _ in 0..CLAIMS_MAX {
            let Some(candidate) = selection.pick(&self.rotation_counter.0, random) else {
                return Err(selection.failure_reason());
            };
            if candidate.upstream.claim(max) {
                return Ok(candidate);
            }
        }
        let mut candidates = selection.snapshot.candidates.iter();
        let claimed = candidates.find(|candidate| selection.is_open(candidate) && candidate.upstream.claim(max));
        claimed.ok_or_else(|| selection.failure_reason())
    }

    /// One thread builds the new snapshot; the others use the old one meanwhile.
    fn refresh(&self, now: Instant) {
        let Some(mut state) = self.state.try_lock() else { return };
        if now >= self.snapshot.load().expires_at {
            state.end_ejections(now);
            self.publish(now, &mut state);
        }
    }

    /// Runs an operation on the group state, and publishes a new snapshot if it returns true.
    pub(crate) fn change(&self, now: Instant, act: impl FnOnce(&mut GroupState) -> bool) {
        let mut state = self.state();
        if act(&mut state) {
            state.end_ejections(now);
            self.publish(now, &mut state);
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock()
    }

    pub(crate) fn publish(&self, now: Instant, state: &mut GroupState) {
        self.snapshot.store(Arc::new(state.snapshot(now)));
    }
}

fn follow(snapshot: &Snapshot, hints: &Hints<'_>) -> AffinityMatch {
    let Some(affinity_cookies) = &snapshot.affinity_cookies else { return AffinityMatch::No };
    let index = match hints.named {
        Some(id) => snapshot.slot(id).and_then(|slot| slot.index),
        None => affinity_cookies.named(hints.cookies),
    };
    let Some(index) = index else { return AffinityMatch::No };
    let Some(member) = snapshot.members.get(index) else { return AffinityMatch::No };
    if member.admits == AdmittedClients::None || hints.tried.contains(&member.upstream.id) {
        return AffinityMatch::No;
    }
    match snapshot.choice(index) {
        Some(choice) if member.upstream.claim(snapshot.rules.outstanding_max) => {
            AffinityMatch::Available(Choice { named: Some(member.upstream.id), ..choice })
        }
        Some(_) => AffinityMatch::Full(member.upstream.id),
        None => AffinityMatch::No,
    }
}

impl Snapshot {
    fn choice(&self, index: usize) -> Option<Choice> {
        let member = self.members.get(index)?;
        let upstream = &member.upstream;
        let address = upstream.address(&member.addresses)?;
        Some(Choice {
            upstream: upstream.id,
            address,
            tls: upstream.tls,
            name: Arc::clone(&upstream.name),
            named: None,
            set_affinity: None,
        })
    }
}

impl Selection<'_> {
    fn failure_reason(&self) -> NoChoice {
        let candidates = &self.snapshot.candidates;
        if candidates.is_empty() {
            NoChoice::NoneAdmitting
        } else if candidates.iter().any(|candidate| self.was_tried(candidate)) {
            NoChoice::AllTried
        } else {
            NoChoice::AllFull
        }
    }
}
