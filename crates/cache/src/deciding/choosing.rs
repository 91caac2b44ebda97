//! What cannot be answered at once: with what is stored after all, by waiting for another request, or by asking
//! upstream.

use std::sync::Arc;

use breme_http1::FieldBlock;

use super::assessing::{Use, find};
use crate::asking::Moment;
use crate::filling::{FILL_BYTES, FillState, Shard, note};
use crate::following::{Follower, Waiting};
use crate::forward::Role;
use crate::pending::AskedFor;
use crate::selecting::{Cookies, same_names};
use crate::status::{CacheStatus, Forwarded};
use crate::store::{Charge, Stored};
use crate::validation::conditions;
use crate::{Answer, Cache, Forward};

/// What is to be done with a request.
#[derive(Debug)]
pub enum Asked {
    /// Give this answer.
    Answer(Answer),
    /// Give this answer, which is stale, and ask upstream for a fresh one in the background, without a client.
    Refresh(Answer, Box<Forward>),
    /// Ask upstream.
    Forward(Forward),
    /// Another request is fetching it.
    Wait(Follower),
}

impl Cache {
    /// What is to be done with a request that could not be answered at once, or with one that waited in vain. Who may
    /// not wait follows nobody.
    pub(super) fn decide(
        self: &Arc<Self>,
        mut asked: Box<AskedFor>,
        moment: Moment,
        waiting: Option<Waiting>,
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
        if let Some(follower) = waiting.as_ref().and_then(|waiting| self.follow(&shard, &asked, &use_, waiting)) {
            return Asked::Wait(follower);
        }
        let Some(forward) = self.lead(&mut shard, asked, stale, newest, &use_, charge) else {
            return Asked::Forward(Forward::pass(use_.why()));
        };
        if let (Some(before), Some(fill)) = (waiting.and_then(|waiting| waiting.before), forward.fill()) {
            before.note_next(fill);
        }
        Asked::Forward(forward)
    }

    fn answer(&self, stored: &Arc<Stored>, asked: &AskedFor, moment: Moment) -> Answer {
        stored.count_hits(1);
        let report = CacheStatus::hit(stored.ttl_s(moment.now));
        Answer::of(stored, &asked.kept, asked.look(moment, &self.settings), report)
    }

    /// Sits down with another request that is being answered, if there is one whose answer may be for this one too; or
    /// to hear that the one after that for which it has waited got no answer either.
    fn follow(self: &Arc<Self>, shard: &Shard, asked: &AskedFor, use_: &Use, waiting: &Waiting) -> Option<Follower> {
        let may_follow = !asked.directives.restricts() && !asked.traits.has_authorization && !asked.is_for_origin;
        // A part of something long is not worth waiting for the whole.
        let is_waiting_of_use = !asked.traits.has_range || matches!(use_, Use::Validate(_));
        if !may_follow || !is_waiting_of_use || matches!(use_, Use::Pass) {
            return None;
        }
        let cookies = Cookies::new(&self.settings);
        let Waiting { waiter, deadline, before } = waiting;
        let report = CacheStatus::forwarded(use_.why());
        let follower = |fill, seat| Follower::new(self, fill, seat, Box::new(asked.clone()), report, *deadline);
        let fills = shard.fills.get(&asked.hash.place).map_or(&[][..], Vec::as_slice);
        for fill in fills.iter().filter(|fill| *fill.key == *asked.key.as_slice()) {
            if let Some(seat) = fill.join(&asked.kept, cookies, &self.store.groups, *waiter) {
                before.iter().for_each(|before| before.note_next(fill));
                return Some(follower(fill, seat));
            }
        }
        let before = before.as_ref()?;
        let (seat, told) = before.seat_after_both(&asked.kept, cookies, *waiter)?;
        Some(follower(before, seat).in_vain(told))
    }

    /// Asks upstream. None if there is no memory to note it, or too much is noted. HEAD is noted if its answer may
    /// freshen what is stored.
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

/// Whether an answer for this key is being fetched that others may use.
fn is_filling(shard: &Shard, asked: &AskedFor) -> bool {
    let fills = shard.fills.get(&asked.hash.place);
    fills.is_some_and(|fills| fills.iter().any(|fill| *fill.key == *asked.key.as_slice() && fill.is_open()))
}
