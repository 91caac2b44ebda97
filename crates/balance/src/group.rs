//! A group of upstreams that do the same: what shards ask for each request.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use breme_base::{Instant, Random};

use crate::policy::Question;
use crate::registry::Registry;
use crate::roster::{Admission, Candidate, Roster};
use crate::stickiness::OwnCookie;
use crate::upstream::Outcome;
use crate::{Choice, GroupError, GroupSettings, Hints, NoChoice, UpstreamId, UpstreamSettings};

/// Choices that are made anew because somebody else took the last place at the same moment.
const CLAIMS_MAX: usize = 4;

/// Upstreams that do the same, and what is known of them. One for all shards.
#[derive(Debug)]
pub struct Group {
    roster: ArcSwap<Roster>,
    turns: Turns,
    registry: Mutex<Registry>,
}

/// Written with every request of round robin, so on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Turns(AtomicU32);

/// What a request's cookies say of where it goes.
enum Followed {
    /// There, and it counts as outstanding already.
    Stays(Choice),
    /// There, but that one has all the requests it may have: elsewhere this time, and the cookie stays.
    Full(UpstreamId),
    /// Nowhere, or to one who is out: elsewhere, with a new cookie.
    No,
}

impl Group {
    /// A group of these upstreams.
    ///
    /// # Errors
    /// If the settings or the list make no sense.
    pub fn new(settings: GroupSettings, upstreams: Vec<UpstreamSettings>) -> Result<Self, GroupError> {
        let mut registry = Registry::new(settings, upstreams)?;
        let roster = ArcSwap::from_pointee(registry.roster(Instant::ZERO));
        Ok(Self { roster, turns: Turns::default(), registry: Mutex::new(registry) })
    }

    /// Chooses, and counts a request as outstanding there until it has [`finished`](Group::finished).
    ///
    /// A request whose cookie names an upstream that is well goes there. If that one is full, the request goes
    /// elsewhere and the cookie stays as it is; if it is out, was tried or is not in the list, the request goes
    /// elsewhere and the cookie is replaced.
    ///
    /// # Errors
    /// If nobody may be asked.
    pub fn choose(&self, now: Instant, hints: &Hints<'_>, random: &mut Random) -> Result<Choice, NoChoice> {
        let mut roster = self.roster.load();
        if now >= roster.renew_at {
            drop(roster);
            self.renew(now);
            roster = self.roster.load();
        }
        let followed = follow(&roster, hints);
        if let Followed::Stays(choice) = followed {
            return Ok(choice);
        }
        let question = Question { roster: &roster, now, key: hints.key_hash, tried: hints.tried };
        let candidate = self.claim(&question, random)?;
        let mut choice = roster.choice(candidate.place).ok_or(NoChoice::NobodyAdmits)?;
        match (followed, &roster.stickiness) {
            (Followed::Full(named), _) => choice.named = Some(named),
            (_, Some(stickiness)) => choice.set_affinity = stickiness.set_cookie(candidate.place, hints.is_secured),
            (_, None) => {}
        }
        Ok(choice)
    }

    /// Whether there is one that may be asked and is none of these.
    #[must_use]
    pub fn has_other(&self, tried: &[UpstreamId]) -> bool {
        let roster = self.roster.load();
        let question = Question { roster: &roster, now: Instant::ZERO, key: 0, tried };
        roster.candidates.iter().any(|candidate| question.is_open(candidate))
    }

    /// Whether [`Hints::cookies`] are read.
    #[must_use]
    pub fn reads_cookies(&self) -> bool {
        self.roster.load().stickiness.is_some()
    }

    /// The cookie that is given to clients, and that no upstream needs to see; none if there is none.
    #[must_use]
    pub fn own_cookie(&self) -> Option<OwnCookie> {
        OwnCookie::of(self.roster.load().stickiness.as_ref()?)
    }

    /// A request that was chosen for has ended. Each choice is told of once. Whether the upstream has a bound, so that
    /// there is room now for one who was told [`NoChoice::AllFull`].
    pub fn finished(&self, now: Instant, upstream: UpstreamId, outcome: Outcome) -> bool {
        let roster = self.roster.load();
        let has_room = roster.rules.outstanding_max > 0;
        // Its roster may be gone, if it was removed with nothing outstanding.
        let Some(slot) = roster.slot(upstream) else { return has_room };
        let Roster { rules, .. } = &**roster;
        slot.upstream.release();
        if let Outcome::ConnectFailed { address } = outcome {
            slot.upstream.leave_address(roster.addresses(slot), address);
        }
        if !slot.upstream.count(now, outcome, rules.failure_statuses.as_ref()) {
            return has_room;
        }
        let in_row = slot.upstream.failures_in_row();
        if rules.judges_share || (rules.failures_in_row > 0 && in_row >= rules.failures_in_row) {
            self.change(now, |registry| registry.judge_failure(now, upstream));
        }
        has_room
    }

    fn claim<'r>(&self, question: &Question<'r>, random: &mut Random) -> Result<&'r Candidate, NoChoice> {
        let max = question.roster.rules.outstanding_max;
        for _ in 0..CLAIMS_MAX {
            let Some(candidate) = question.pick(&self.turns.0, random) else { return Err(question.why_nobody()) };
            if candidate.upstream.claim(max) {
                return Ok(candidate);
            }
        }
        let mut candidates = question.roster.candidates.iter();
        let claimed = candidates.find(|candidate| question.is_open(candidate) && candidate.upstream.claim(max));
        claimed.ok_or_else(|| question.why_nobody())
    }

    /// Who comes first makes the new roster; the others go on with the old one meanwhile.
    fn renew(&self, now: Instant) {
        let mut registry = match self.registry.try_lock() {
            Ok(registry) => registry,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if now >= self.roster.load().renew_at {
            registry.handle_time(now);
            self.publish(now, &mut registry);
        }
    }

    /// Carries out something that may change who is asked; if it says that it has, requests learn of it.
    pub(crate) fn change(&self, now: Instant, act: impl FnOnce(&mut Registry) -> bool) {
        let mut registry = self.registry();
        if act(&mut registry) {
            registry.handle_time(now);
            self.publish(now, &mut registry);
        }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn publish(&self, now: Instant, registry: &mut Registry) {
        self.roster.store(Arc::new(registry.roster(now)));
    }
}

fn follow(roster: &Roster, hints: &Hints<'_>) -> Followed {
    let Some(stickiness) = &roster.stickiness else { return Followed::No };
    let place = match hints.named {
        Some(id) => roster.slot(id).and_then(|slot| slot.place),
        None => stickiness.named(hints.cookies),
    };
    let Some(place) = place else { return Followed::No };
    let Some(member) = roster.members.get(place) else { return Followed::No };
    if member.admits == Admission::Nobody || hints.tried.contains(&member.upstream.id) {
        return Followed::No;
    }
    match roster.choice(place) {
        Some(choice) if member.upstream.claim(roster.rules.outstanding_max) => {
            Followed::Stays(Choice { named: Some(member.upstream.id), ..choice })
        }
        Some(_) => Followed::Full(member.upstream.id),
        None => Followed::No,
    }
}

impl Roster {
    fn choice(&self, place: usize) -> Option<Choice> {
        let member = self.members.get(place)?;
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

impl Question<'_> {
    fn why_nobody(&self) -> NoChoice {
        let candidates = &self.roster.candidates;
        if candidates.is_empty() {
            NoChoice::NobodyAdmits
        } else if candidates.iter().any(|candidate| self.was_tried(candidate)) {
            NoChoice::AllTried
        } else {
            NoChoice::AllFull
        }
    }
}
