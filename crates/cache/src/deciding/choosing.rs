//! May what is stored be used, and if not: wait for another request, or ask upstream (RFC 9111, 4).

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::FieldBlock;

use super::Asked;
use crate::asking::{Moment, Request, Waiter};
use crate::directives::RequestDirectives;
use crate::fields::FieldValues;
use crate::filling::{FILL_BYTES, FillState, Shard, note};
use crate::following::Follower;
use crate::forward::Role;
use crate::key::KeyHash;
use crate::parts;
use crate::pending::AskedFor;
use crate::selecting::{Cookies, matches, same_names};
use crate::status::{CacheStatus, Forwarded};
use crate::store::{Charge, Stored};
use crate::validation::conditions;
use crate::{Answer, Cache, Forward};

/// What a stored response is good for.
pub(super) enum Use {
    /// The answer.
    Fresh,
    /// The answer, although it is stale: the client said so.
    Stale,
    /// The answer, while a fresh one is fetched.
    StaleForNow,
    /// Ask upstream whether it is still right.
    Validate(Forwarded),
    /// Ask upstream as if it were not there.
    Ignore(Forwarded),
    /// Others' answers are of no use here, and waiting for them neither.
    Pass,
}

impl Cache {
    /// What is to be done with a request that could not be answered at once, or with one that waited in vain. Without a waiter, it follows nobody.
    pub(crate) fn decide(
        self: &Arc<Self>,
        mut asked: Box<AskedFor>,
        moment: Moment,
        waiter: Option<(Waiter, Instant)>,
    ) -> Asked {
        asked.at = moment.now;
        let cookies = Cookies::new(&self.settings);
        let charge = self.store.reserve(FILL_BYTES);
        let mut shard = self.store.write(asked.hash);
        let stored = find(&shard, asked.hash, asked.key.as_slice(), &asked.kept, cookies);
        let newest = shard.variants(asked.hash.place, asked.key.as_slice()).next().cloned();
        let (use_, stored) = match stored {
            Some((stored, _)) => {
                (self.assess(&stored, &asked.kept, asked.is_head, asked.directives, moment.now), Some(stored))
            }
            None => (Use::Ignore(if newest.is_some() { Forwarded::VaryMiss } else { Forwarded::UriMiss }), None),
        };
        let stale = stored.filter(|stored| !stored.is_pass());
        if let (Use::Fresh | Use::Stale | Use::StaleForNow, Some(stored)) = (&use_, &stale) {
            let is_refreshed = matches!(use_, Use::StaleForNow) && !asked.is_head && !is_filling(&shard, &asked);
            let refresh = if is_refreshed {
                self.lead(&mut shard, asked.clone(), stale.clone(), newest, &use_, charge)
            } else {
                None
            };
            drop(shard);
            let answer = self.answer(stored, &asked, moment);
            return match refresh {
                Some(refresh) => Asked::Refresh(answer, Box::new(refresh)),
                None => Asked::Answer(answer),
            };
        }
        if asked.directives.only_if_cached {
            return Asked::Answer(Answer::not_cached(CacheStatus {
                detail: Some("only-if-cached"),
                ..CacheStatus::default()
            }));
        }
        if let Some((waiter, deadline)) = waiter
            && let Some(follower) = self.follow(&shard, &asked, &use_, waiter, deadline)
        {
            return Asked::Wait(follower);
        }
        match self.lead(&mut shard, asked, stale, newest, &use_, charge) {
            Some(forward) => Asked::Forward(forward),
            None => Asked::Forward(Forward::pass(use_.why())),
        }
    }

    fn answer(&self, stored: &Arc<Stored>, asked: &AskedFor, moment: Moment) -> Answer {
        stored.count_hits(1);
        let report = CacheStatus::hit(stored.ttl_s(moment.now));
        Answer::of(stored, &asked.kept, asked.look(moment, &self.settings), report)
    }

    /// RFC 9111, 4: may it be used, and how. A part is used while it is fresh, or not at all.
    pub(super) fn assess(
        &self,
        stored: &Stored,
        request: &impl FieldValues,
        is_head: bool,
        directives: RequestDirectives,
        now: Instant,
    ) -> Use {
        let use_ = self.assess_terms(stored, request, directives, now);
        if !stored.is_part() {
            return use_;
        }
        let is_there = !is_head && parts::select(request, stored.block()).is_some();
        match use_ {
            Use::Fresh if is_there => Use::Fresh,
            Use::Fresh => Use::Ignore(Forwarded::Partial),
            other => Use::Ignore(other.why()),
        }
    }

    fn assess_terms(
        &self,
        stored: &Stored,
        request: &impl FieldValues,
        directives: RequestDirectives,
        now: Instant,
    ) -> Use {
        if stored.is_pass() {
            return if stored.is_fresh(now) { Use::Pass } else { Use::Ignore(Forwarded::UriMiss) };
        }
        if directives.no_store || (request.has("authorization") && !stored.allows_authorization()) {
            return Use::Ignore(Forwarded::Request);
        }
        if request.has("if-match") || request.has("if-unmodified-since") {
            return Use::Ignore(Forwarded::Request);
        }
        let (age_s, ttl_s) = (stored.age_s(now), stored.ttl_s(now));
        let is_too_old = directives.max_age_s.is_some_and(|max| age_s > u64::from(max) || max == 0);
        let is_too_stale = directives.min_fresh_s.is_some_and(|min| ttl_s < i64::from(min));
        if directives.no_cache || is_too_old || is_too_stale {
            return Use::Validate(Forwarded::Request);
        }
        if stored.is_fresh(now) {
            return Use::Fresh;
        }
        let may_be_stale_for = |seconds: u32| -ttl_s <= i64::from(seconds);
        if directives.max_stale_s.is_some_and(may_be_stale_for) && !stored.forbids_stale() {
            return Use::Stale;
        }
        if !directives.restricts()
            && stored.stale_while_revalidate_s() > 0
            && may_be_stale_for(stored.stale_while_revalidate_s())
        {
            return Use::StaleForNow;
        }
        Use::Validate(Forwarded::Stale)
    }

    /// Sits down with another request that is being answered, if there is one whose answer may be for this one too.
    fn follow(
        self: &Arc<Self>,
        shard: &Shard,
        asked: &AskedFor,
        use_: &Use,
        waiter: Waiter,
        deadline: Instant,
    ) -> Option<Follower> {
        let may_follow = !asked.directives.restricts() && !asked.traits.has_authorization && !asked.is_for_origin;
        // A part of something long is not worth waiting for the whole.
        let is_waiting_of_use = !asked.traits.has_range || matches!(use_, Use::Validate(_));
        if !may_follow || !is_waiting_of_use || matches!(use_, Use::Pass) {
            return None;
        }
        let cookies = Cookies::new(&self.settings);
        let fills = shard.fills.get(&asked.hash.place)?;
        fills.iter().filter(|fill| *fill.key == *asked.key.as_slice()).find_map(|fill| {
            let seat = fill.join(&asked.kept, cookies, &self.store.groups, waiter)?;
            let report = CacheStatus::forwarded(use_.why());
            Some(Follower::new(self, fill, seat, Box::new(asked.clone()), report, deadline))
        })
    }

    /// A request that changes something, whose answer may be what a GET gets afterwards (RFC 9110, 9.3.3). Nobody follows it. It is noted before it is
    /// sent, so that purges find it.
    pub(super) fn ask_posted(self: &Arc<Self>, request: &Request<'_, '_>, moment: Moment) -> Forward {
        let key = Self::key(request);
        let Some(charge) = self.store.reserve(FILL_BYTES) else {
            return Forward::unsafe_method(self, key, Forwarded::Method);
        };
        let hash = self.store.hash_of(&key);
        let mut asked = self.keep(key, hash, request, false, self.directives(&request.fields), moment.now);
        asked.traits.needs_lifetime = true;
        let fill = FillState::new(asked.key.as_slice(), b"", self.store.groups.purges(), false, charge);
        let Some(fill) = note(&mut self.store.write(hash), hash.place, fill) else {
            return Forward::unsafe_method(self, asked.key, Forwarded::Method);
        };
        let report = CacheStatus::forwarded(Forwarded::Method);
        Forward::new(self, Role::Post, Box::new(asked), None, None, Some(fill), report)
    }

    /// Asks upstream. None if there is no memory to note it, or too much is noted. HEAD is noted if its answer may freshen what is stored.
    fn lead(
        self: &Arc<Self>,
        shard: &mut Shard,
        asked: Box<AskedFor>,
        stale: Option<Arc<Stored>>,
        newest: Option<Arc<Stored>>,
        use_: &Use,
        charge: Option<Charge>,
    ) -> Option<Forward> {
        let may_use = matches!(use_, Use::Validate(_) | Use::StaleForNow);
        let stale = stale.filter(|_| may_use);
        let is_refresh = matches!(use_, Use::StaleForNow);
        let report = CacheStatus::forwarded(use_.why());
        if asked.is_head {
            let fill = charge.filter(|_| stale.is_some()).and_then(|charge| {
                let fill = FillState::new(asked.key.as_slice(), b"", self.store.groups.purges(), false, charge);
                note(shard, asked.hash.place, fill)
            });
            return Some(Forward::new(self, Role::Head, asked, None, stale, fill, report));
        }
        let conditions =
            stale.as_ref().and_then(|stored| conditions(stored.block())).or(is_refresh.then(FieldBlock::new));
        let is_whole = conditions.is_some() || asked.is_plain();
        let is_open = is_whole
            && !matches!(use_, Use::Pass)
            && !asked.traits.has_authorization
            && !asked.traits.no_store
            && !asked.is_for_origin;
        let expected = newest.map(|newest| same_names(newest.variant(), &asked.kept, Cookies::new(&self.settings)));
        let expected = expected.as_ref().map_or(&b""[..], |expected| expected.as_slice());
        let fill = FillState::new(asked.key.as_slice(), expected, self.store.groups.purges(), is_open, charge?);
        let fill = note(shard, asked.hash.place, fill)?;
        Some(Forward::new(self, Role::Get, asked, conditions, stale, Some(fill), report))
    }
}

impl Use {
    fn why(&self) -> Forwarded {
        match self {
            Self::Validate(why) | Self::Ignore(why) => *why,
            Self::Pass => Forwarded::UriMiss,
            Self::Fresh | Self::Stale | Self::StaleForNow => Forwarded::Stale,
        }
    }
}

/// The newest response that a request may get, with the state in which it was found.
pub(super) fn find(
    shard: &Shard,
    hash: KeyHash,
    key: &[u8],
    request: &impl FieldValues,
    cookies: Cookies<'_>,
) -> Option<(Arc<Stored>, u32)> {
    let stored = shard.variants(hash.place, key).find(|stored| matches(stored.variant(), request, cookies))?;
    // Read while the shard is locked, so that what comes later is seen.
    Some((Arc::clone(stored), stored.state()))
}

/// Whether an answer for this key is being fetched that others may use.
fn is_filling(shard: &Shard, asked: &AskedFor) -> bool {
    let fills = shard.fills.get(&asked.hash.place);
    fills.is_some_and(|fills| fills.iter().any(|fill| *fill.key == *asked.key.as_slice() && fill.is_open()))
}
