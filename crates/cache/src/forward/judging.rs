//! What an answer's head means: for the client, for what is stored, and for those who wait.

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::FieldBlock;

use super::{Fetch, Role};
use crate::Answer;
use crate::asking::{Fault, Moment, ResponseHead, Wakes};
use crate::filling::{Outcome, Shard};
use crate::freshness::Times;
use crate::invalidation;
use crate::parts::Part;
use crate::selecting::{self, Cookies};
use crate::status::CacheStatus;
use crate::store::{Layout, Stored, Terms};
use crate::storing::{Judgement, Refusal, RequestTraits, is_about_the_request, judge};
use crate::validation::{agrees, freshened};

impl Fetch {
    /// What the client gets instead of upstream's answer, if anything.
    pub(super) fn handle_head(
        &mut self,
        moment: Moment,
        head: &ResponseHead<'_, '_>,
        has_conditions: bool,
        report: &mut CacheStatus,
        wakes: &mut Wakes,
    ) -> Option<Answer> {
        match self.role {
            Role::Get => {}
            Role::Head => {
                self.freshen_by_head(moment, head);
                self.finish(Outcome::Released, wakes);
                return None;
            }
            Role::Post => {
                report.stored = self.take_posted(moment, head, wakes);
                return None;
            }
        }
        if head.status == 304
            && has_conditions
            && let Some(stale) = self.stale.clone()
        {
            return Some(self.validated(&stale, moment, head, *report, wakes));
        }
        if head.status >= 500
            && let Some(answer) = self.stale_answer(moment, Some(head.status), *report, wakes)
        {
            return Some(answer);
        }
        let refusal = match self.judged(moment, head, has_conditions) {
            Judgement::Store { terms, .. } if head.status == 206 && !is_part_of_use(terms, head) => {
                Refusal { is_lasting: false, names: Vec::new() }
            }
            Judgement::Store { .. } if head.status >= 500 && self.has_better(moment.now) => {
                Refusal { is_lasting: false, names: Vec::new() }
            }
            Judgement::Store { terms, names } => match self.begin(terms, names, head, wakes) {
                Ok(()) => {
                    report.stored = true;
                    return None;
                }
                Err(refusal) => refusal,
            },
            Judgement::Refuse(refusal) => refusal,
        };
        self.refuse(&refusal, moment.now, head.status, wakes);
        None
    }

    /// With conditions of the cache's, upstream was not told the client's range.
    fn judged(&self, moment: Moment, head: &ResponseHead<'_, '_>, has_conditions: bool) -> Judgement {
        let times = Times { asked: self.asked.at, received: moment };
        let (settings, random) = (self.cache.settings(), &mut self.cache.random());
        let traits = self.asked.traits;
        let traits = RequestTraits { has_range: traits.has_range && !has_conditions, ..traits };
        judge(traits, head.status, &head.fields, times, settings, random)
    }

    /// The answer to a POST: it makes what is stored invalid, and may itself be what a GET gets from now on. Tells
    /// whether it is being stored.
    fn take_posted(&mut self, moment: Moment, head: &ResponseHead<'_, '_>, wakes: &mut Wakes) -> bool {
        let target = &self.asked.key;
        invalidation::after(&self.cache, target, head, self.fill.as_ref());
        if head.status == 200
            && invalidation::is_of_target(target, head)
            && let Judgement::Store { terms, names } = self.judged(moment, head, false)
            && self.begin(terms, names, head, wakes).is_ok()
        {
            return true;
        }
        self.finish(Outcome::Released, wakes);
        false
    }

    /// Upstream says that what is stored is still right (RFC 9111, 4.3.4).
    fn validated(
        &mut self,
        stale: &Arc<Stored>,
        moment: Moment,
        head: &ResponseHead<'_, '_>,
        report: CacheStatus,
        wakes: &mut Wakes,
    ) -> Answer {
        let (stored, is_stored) = self.freshen(stale, moment, head);
        let outcome = if stored.is_fresh(moment.now) { Outcome::Done(Arc::clone(&stored)) } else { Outcome::Released };
        self.finish(outcome, wakes);
        let report = CacheStatus {
            forwarded_status: Some(304),
            ttl_s: Some(stored.ttl_s(moment.now)),
            stored: is_stored,
            ..report
        };
        Answer::of(&stored, &self.asked.kept, self.asked.look(moment, self.cache.settings()), report)
    }

    /// Puts the same content with new lines in the place of the old, unless that has gone meanwhile. What may no longer
    /// be stored goes, and is given to this client only; so does what varies with something else now, since nobody
    /// knows for which of those requests its content was.
    fn freshen(&self, stale: &Arc<Stored>, moment: Moment, head: &ResponseHead<'_, '_>) -> (Arc<Stored>, bool) {
        let lines = freshened(stale.block(), head.fields);
        let times = Times { asked: self.asked.at, received: moment };
        let settings = self.cache.settings();
        let is_variant = |names: &[Vec<u8>]| {
            selecting::variant(names, &self.asked.kept, Cookies::new(settings)).as_slice() == stale.variant()
        };
        let judgement = judge(self.asked.traits, stale.status(), &lines, times, settings, &mut self.cache.random());
        let (terms, may_stay) = match judgement {
            Judgement::Store { terms, names } if is_variant(&names) => (terms, true),
            _ => (Terms { age_from: moment.now, ..Terms::default() }, false),
        };
        let fresh = Arc::new(Stored::new(stale.status(), lines, stale.shared_bytes(), stale.layout(), terms));
        if !may_stay {
            self.remove(stale);
            return (fresh, false);
        }
        let store = &self.cache.store;
        let Some(charge) = store.reserve(fresh.cost_bytes()) else { return (fresh, false) };
        let fill = self.fill.as_ref();
        let purges = fill.map_or_else(|| store.groups.purges(), |fill| fill.purges);
        let may_stay = |_: &mut Shard| !stale.is_gone() && !fill.is_some_and(|fill| fill.is_purged());
        let is_stored = store.insert(self.asked.hash, Arc::clone(&fresh), charge, purges, may_stay);
        (fresh, is_stored)
    }

    /// RFC 9111, 4.3.5: an answer to HEAD freshens what it agrees with, and what it does not agree with is out of date.
    /// Only where it was noted, so that a purge meanwhile is known.
    fn freshen_by_head(&self, moment: Moment, head: &ResponseHead<'_, '_>) {
        let (Some(stale), Some(_)) = (&self.stale, &self.fill) else { return };
        if head.status != 200 || stale.status() != 200 || self.asked.traits.no_store {
            return;
        }
        if agrees(stale.block(), stale.content_bytes(), head.fields) {
            let _ = self.freshen(stale, moment, head);
        } else {
            stale.make_stale(moment.now);
        }
    }

    /// A stale response in the place of an error, if that is allowed for so long (RFC 5861, 4; RFC 9111, 4.2.4).
    pub(super) fn stale_answer(
        &mut self,
        moment: Moment,
        status: Option<u16>,
        report: CacheStatus,
        wakes: &mut Wakes,
    ) -> Option<Answer> {
        let stale = self.stale.clone().filter(|stale| self.may_serve(stale, moment.now, status))?;
        // What this client allows, others need not.
        let is_for_all = !self.asked.directives.restricts();
        let outcome = if is_for_all { Outcome::Stale(Arc::clone(&stale), status) } else { Outcome::Failed(Fault::Own) };
        self.finish(outcome, wakes);
        let report = CacheStatus {
            forwarded_status: status,
            ttl_s: Some(stale.ttl_s(moment.now)),
            detail: Some("upstream-failed"),
            ..report
        };
        Some(Answer::of(&stale, &self.asked.kept, self.asked.look(moment, self.cache.settings()), report))
    }

    /// What the request and the response say goes; where neither does, the settings speak, for failures that say that
    /// upstream cannot be reached.
    fn may_serve(&self, stale: &Stored, now: Instant, status: Option<u16>) -> bool {
        let directives = self.asked.directives;
        if directives.no_cache
            || directives.max_age_s.is_some()
            || directives.min_fresh_s.is_some()
            || directives.no_store
        {
            return false;
        }
        let lasts = |seconds| stale.is_stale_at_most(seconds, now);
        let is_error = matches!(status, None | Some(500 | 502 | 503 | 504));
        match (stale.stale_if_error_s(), directives.stale_if_error_s) {
            (Some(response), _) => is_error && lasts(response),
            (None, _) if stale.forbids_stale() => false,
            (None, Some(request)) => is_error && lasts(request),
            (None, None) => {
                let grace_s = u32::try_from(self.cache.settings().stale_on_failure.as_secs()).unwrap_or(u32::MAX);
                matches!(status, None | Some(502..=504)) && lasts(grace_s)
            }
        }
    }

    /// Whether something is stored that is worth more than an error.
    fn has_better(&self, now: Instant) -> bool {
        let grace_ns = i64::try_from(self.cache.settings().stale_on_failure.as_nanos()).unwrap_or(i64::MAX);
        let is_better = |stored: &Arc<Stored>| {
            !stored.is_pass()
                && stored.status() < 500
                && stored.fresh_for_ns(now) > if stored.forbids_stale() { 0 } else { -grace_ns }
        };
        let shard = self.cache.store.read(self.asked.hash);
        shard.variants(self.asked.hash.place, self.asked.key.as_slice()).any(is_better)
    }

    /// The answer is not for the store: those who wait are let go, and if the next answers will not be for it either,
    /// nobody waits for them.
    fn refuse(&mut self, refusal: &Refusal, now: Instant, status: u16, wakes: &mut Wakes) {
        let is_for_all = !self.asked.traits.has_authorization && !self.asked.traits.no_store && self.asked.is_plain();
        if refusal.is_lasting && is_for_all {
            self.mark(&refusal.names, now);
        } else if status < 500
            && status != 304
            && status != 206
            && !is_about_the_request(status)
            && !self.asked.traits.no_store
            && let Some(stale) = &self.stale
        {
            self.remove(stale);
        }
        self.finish(Outcome::Released, wakes);
    }

    /// Notes that what is asked for here is to be passed on for a while, in the place of what was stored.
    pub(super) fn mark(&self, names: &[Vec<u8>], now: Instant) {
        let settings = self.cache.settings();
        let variant = selecting::variant(names, &self.asked.kept, Cookies::new(settings));
        let key = self.asked.key.as_slice();
        let layout = Layout { key_bytes: key.len() as u32, variant_bytes: variant.as_slice().len() as u32 };
        let fresh_for_s = i64::try_from(settings.pass_for.as_secs()).unwrap_or(i64::MAX);
        let terms = Terms { age_from: now, fresh_for_s, is_pass: true, ..Terms::default() };
        let bytes = [key, variant.as_slice()].concat().into();
        let marker = Arc::new(Stored::new(0, FieldBlock::new(), bytes, layout, terms));
        if let Some(stale) = &self.stale {
            self.remove(stale);
        }
        let store = &self.cache.store;
        if let (Some(charge), Some(fill)) = (store.reserve(marker.cost_bytes()), &self.fill) {
            store.insert(self.asked.hash, marker, charge, fill.purges, |_| !fill.is_purged());
        }
    }

    fn remove(&self, stored: &Arc<Stored>) {
        let store = &self.cache.store;
        let mut shard = store.write(self.asked.hash);
        store.remove_from(&mut shard, self.asked.hash.place, self.asked.key.as_slice(), |other| {
            std::ptr::eq(other, &raw const **stored)
        });
    }
}

/// A part is kept if it is what it says, and fresh: it is neither validated nor used stale.
fn is_part_of_use(terms: Terms, head: &ResponseHead<'_, '_>) -> bool {
    let is_exact = Part::of(&head.fields).is_some_and(|part| head.length == Some(part.length()));
    is_exact && terms.fresh_for_s > 0
}
