//! What the head of a response means for the client, the store and the followers.

use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;
use breme_http::FieldBlock;

use super::{Fetch, FetchKind};
use crate::cached_response::CachedResponse;
use crate::fill::{FillOutcome, Shard};
use crate::freshness::ResponseTimes;
use crate::invalidation;
use crate::partial_content::ContentRange;
use crate::request::{FetchError, Now, ResponseHead, Wakes};
use crate::status::CacheStatus;
use crate::storability::{RequestTraits, Storability, StoreRefusal, is_about_target, storability};
use crate::store::{ReuseTerms, StoredLayout, StoredResponse};
use crate::validation::{agrees, freshened, selects};
use crate::vary::{self, CookieRules};

impl Fetch {
    /// Returns the response that replaces upstream's, if any.
    pub(super) fn handle_head(
        &mut self,
        now: Now,
        head: &ResponseHead<'_, '_>,
        has_conditions: bool,
        cache_status: &mut CacheStatus,
        wakes: &mut Wakes,
    ) -> Option<CachedResponse> {
        match self.kind {
            FetchKind::Get => {}
            FetchKind::Head => {
                self.freshen_by_head(now, head);
                self.finish(FillOutcome::Released, wakes);
                return None;
            }
            FetchKind::Post => {
                cache_status.stored = self.handle_post_head(now, head, wakes);
                return None;
            }
        }
        if head.status == 304
            && has_conditions
            && let Some(stale) = self.selected(head).cloned()
        {
            return Some(self.validated(&stale, now, head, *cache_status, wakes));
        }
        if head.status >= 500
            && let Some(response) = self.stale_response(now, Some(head.status), *cache_status, wakes)
        {
            return Some(response);
        }
        let refusal = match self.judged(now, head, has_conditions) {
            Storability::Store { terms, .. } if head.status == 206 && !is_useful_part(terms, head) => {
                StoreRefusal { is_lasting: false, names: Vec::new() }
            }
            Storability::Store { names, .. }
                if !is_about_target(head.status) && self.hides_better_response(&names, head.status, now.instant) =>
            {
                StoreRefusal { is_lasting: false, names: Vec::new() }
            }
            Storability::Store { terms, names } => match self.begin(terms, names, head, wakes) {
                Ok(()) => {
                    cache_status.stored = true;
                    return None;
                }
                Err(refusal) => refusal,
            },
            Storability::Refused(refusal) => refusal,
        };
        self.refuse(&refusal, now.instant, head.status, wakes);
        None
    }

    /// With the cache's own conditions, the client's range was not forwarded.
    fn judged(&self, now: Now, head: &ResponseHead<'_, '_>, has_conditions: bool) -> Storability {
        let times = ResponseTimes { requested: self.pending.requested_at, received: now };
        let (settings, random) = (self.cache.settings(), &mut self.cache.random());
        let traits = self.pending.traits;
        let traits = RequestTraits { has_range: traits.has_range && !has_conditions, ..traits };
        storability(traits, head.status, &head.fields, times, settings, random)
    }

    /// Handles the response to a POST: invalidates stored responses, and may store this one for GET. Returns whether it
    /// is stored.
    fn handle_post_head(&mut self, now: Now, head: &ResponseHead<'_, '_>, wakes: &mut Wakes) -> bool {
        let target = &self.pending.key;
        invalidation::apply(&self.cache, target, head, self.fill.as_ref());
        if head.status == 200
            && invalidation::is_target_representation(target, head)
            && let Storability::Store { terms, names } = self.judged(now, head, false)
            && self.begin(terms, names, head, wakes).is_ok()
        {
            return true;
        }
        self.finish(FillOutcome::Released, wakes);
        false
    }

    /// The stored response that a 304 is about (RFC 9111, 4.3.4).
    pub(super) fn selected(&self, head: &ResponseHead<'_, '_>) -> Option<&Arc<StoredResponse>> {
        self.stale.as_ref().filter(|stale| selects(stale.block(), head.fields))
    }

    /// Handles a 304 about a stored response.
    fn validated(
        &mut self,
        stale: &Arc<StoredResponse>,
        now: Now,
        head: &ResponseHead<'_, '_>,
        cache_status: CacheStatus,
        wakes: &mut Wakes,
    ) -> CachedResponse {
        let (stored, is_stored) = self.freshen(stale, now, head);
        let outcome =
            if stored.is_fresh(now.instant) { FillOutcome::Stored(Arc::clone(&stored)) } else { FillOutcome::Released };
        self.finish(outcome, wakes);
        let cache_status = CacheStatus {
            forwarded_status: Some(304),
            ttl_s: Some(stored.ttl_s(now.instant)),
            stored: is_stored,
            ..cache_status
        };
        self.pending.response(&stored, now, self.cache.settings(), cache_status)
    }

    /// Updates the headers of a stored response, unless it was removed meanwhile. If it may no longer be stored, it is
    /// removed, and only this client gets it. So if its variant changes: which other requests its body fits is unknown.
    fn freshen(
        &self,
        stale: &Arc<StoredResponse>,
        now: Now,
        head: &ResponseHead<'_, '_>,
    ) -> (Arc<StoredResponse>, bool) {
        let lines = freshened(stale.block(), head.fields, head.added);
        let times = ResponseTimes { requested: self.pending.requested_at, received: now };
        let settings = self.cache.settings();
        let is_variant = |names: &[Vec<u8>]| {
            vary::variant(names, &self.pending.saved_fields, CookieRules::new(settings)).as_slice() == stale.variant()
        };
        let judgement =
            storability(self.pending.traits, stale.status(), &lines, times, settings, &mut self.cache.random());
        let (terms, may_stay) = match judgement {
            Storability::Store { terms, names } if is_variant(&names) => (terms, true),
            _ => (ReuseTerms { age_from: now.instant, ..ReuseTerms::default() }, false),
        };
        let fresh = Arc::new(StoredResponse::new(stale.status(), lines, stale.shared_bytes(), stale.layout(), terms));
        if !may_stay {
            self.remove(stale);
            return (fresh, false);
        }
        let store = &self.cache.store;
        let Some(charge) = store.reserve(fresh.cost_bytes()) else { return (fresh, false) };
        let fill = self.fill.as_ref();
        let purges = fill.map_or_else(|| store.groups.purges(), |fill| fill.purges);
        let may_stay = |_: &mut Shard| !stale.is_removed() && !fill.is_some_and(|fill| fill.is_purged());
        let is_stored = store.insert(self.pending.hash, Arc::clone(&fresh), charge, purges, may_stay);
        (fresh, is_stored)
    }

    /// RFC 9111, 4.3.5: a matching response to HEAD freshens the stored one, others make it stale. Only with a
    /// registered fill, so that a purge meanwhile is detected.
    fn freshen_by_head(&self, now: Now, head: &ResponseHead<'_, '_>) {
        let (Some(stale), Some(_)) = (&self.stale, &self.fill) else { return };
        if head.status != 200 || stale.status() != 200 || self.pending.traits.no_store {
            return;
        }
        if agrees(stale.block(), stale.body_bytes(), head.fields) {
            let _ = self.freshen(stale, now, head);
        } else {
            stale.make_stale(now.instant);
        }
    }

    /// A stale response to send instead of an error, within the allowed time (RFC 5861, 4; RFC 9111, 4.2.4).
    pub(super) fn stale_response(
        &mut self,
        now: Now,
        status: Option<u16>,
        cache_status: CacheStatus,
        wakes: &mut Wakes,
    ) -> Option<CachedResponse> {
        let stale = self.stale.clone().filter(|stale| self.may_serve(stale, now.instant, status))?;
        // What this client accepts, others may not.
        let is_for_all = !self.pending.directives.restricts();
        let outcome = if is_for_all {
            FillOutcome::Stale(Arc::clone(&stale), status)
        } else {
            FillOutcome::Failed(FetchError::Request)
        };
        self.finish(outcome, wakes);
        let cache_status = CacheStatus {
            forwarded_status: status,
            ttl_s: Some(stale.ttl_s(now.instant)),
            detail: Some("upstream-failed"),
            ..cache_status
        };
        Some(self.pending.response(&stale, now, self.cache.settings(), cache_status))
    }

    /// The directives of response and request decide; without any, the settings do, if upstream is unavailable.
    fn may_serve(&self, stale: &StoredResponse, now: Instant, status: Option<u16>) -> bool {
        let directives = self.pending.directives;
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

    /// Whether an error must not replace a stored response of a lower class, nor be selected instead of it: a server
    /// error none that may be served, a client error none that is fresh (RFC 9111, 4.3.3, only permits replacing it).
    fn hides_better_response(&self, names: &[Vec<u8>], status: u16, now: Instant) -> bool {
        let variant = vary::variant(names, &self.pending.saved_fields, CookieRules::new(self.cache.settings()));
        let grace = if status >= 500 { self.cache.settings().stale_on_failure } else { Duration::ZERO };
        let grace_ns = i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX);
        let is_better = |stored: &Arc<StoredResponse>| {
            !stored.is_pass()
                && stored.status() / 100 < status / 100
                && stored.fresh_for_ns(now) > if stored.forbids_stale() { 0 } else { -grace_ns }
                && vary::overlap(stored.variant(), variant.as_slice())
        };
        let shard = self.cache.store.read(self.pending.hash);
        shard.variants(self.pending.hash.table, self.pending.key.as_slice()).any(is_better)
    }

    /// Releases the followers of a response that is not stored. If later responses will not be stored either, stores a
    /// pass marker.
    fn refuse(&mut self, refusal: &StoreRefusal, now: Instant, status: u16, wakes: &mut Wakes) {
        let is_for_all =
            !self.pending.traits.has_authorization && !self.pending.traits.no_store && self.pending.is_plain();
        if refusal.is_lasting && is_for_all {
            self.store_pass_marker(&refusal.names, now);
        } else if is_about_target(status)
            && status != 304
            && status != 206
            && !self.pending.traits.no_store
            && let Some(stale) = &self.stale
        {
            self.remove(stale);
        }
        self.finish(FillOutcome::Released, wakes);
    }

    /// Replaces the stored response by a marker: for a while requests do not wait for each other ("hit-for-pass" in
    /// Varnish).
    pub(super) fn store_pass_marker(&self, names: &[Vec<u8>], now: Instant) {
        let settings = self.cache.settings();
        let variant = vary::variant(names, &self.pending.saved_fields, CookieRules::new(settings));
        let key = self.pending.key.as_slice();
        let layout = StoredLayout { key_bytes: key.len() as u32, variant_bytes: variant.as_slice().len() as u32 };
        let fresh_for_s = i64::try_from(settings.pass_for.as_secs()).unwrap_or(i64::MAX);
        let terms = ReuseTerms { age_from: now, fresh_for_s, is_pass: true, ..ReuseTerms::default() };
        let bytes = [key, variant.as_slice()].concat().into();
        let marker = Arc::new(StoredResponse::new(0, FieldBlock::new(), bytes, layout, terms));
        if let Some(stale) = &self.stale {
            self.remove(stale);
        }
        let store = &self.cache.store;
        if let (Some(charge), Some(fill)) = (store.reserve(marker.cost_bytes()), &self.fill) {
            store.insert(self.pending.hash, marker, charge, fill.purges, |_| !fill.is_purged());
        }
    }

    fn remove(&self, stored: &Arc<StoredResponse>) {
        let store = &self.cache.store;
        let mut shard = store.write(self.pending.hash);
        store.remove_from(&mut shard, self.pending.hash.table, self.pending.key.as_slice(), |other| {
            std::ptr::eq(other, &raw const **stored)
        });
    }
}

/// Partial content is stored only if it matches its Content-Range and is fresh: it is never validated or served stale.
fn is_useful_part(terms: ReuseTerms, head: &ResponseHead<'_, '_>) -> bool {
    let is_exact = ContentRange::from_fields(&head.fields).is_some_and(|part| head.length == Some(part.length()));
    is_exact && terms.fresh_for_s > 0
}
