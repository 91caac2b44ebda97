//! Requests without a fresh stored response: use a stale one, follow another request, or forward.

use std::sync::Arc;

use breme_http::FieldBlock;

use super::reuse::{Reuse, find};
use crate::cache::Cache;
use crate::cached_response::CachedResponse;
use crate::fill::{FILL_BYTES, Fill, Shard, register};
use crate::follower::{Follower, WaitOptions};
use crate::forward::{FetchKind, Forward};
use crate::pending_request::PendingRequest;
use crate::request::Now;
use crate::status::{CacheStatus, Forwarded};
use crate::store::{Charge, StoredResponse};
use crate::validation::conditions;
use crate::vary::{CookieRules, same_names};

#[derive(Debug)]
pub enum CacheDecision {
    Respond(CachedResponse),
    /// Respond with a stale response, and fetch a fresh one in the background.
    RespondAndRefresh(CachedResponse, Box<Forward>),
    Forward(Forward),
    /// Another request is fetching the response.
    Wait(Follower),
    /// There is no response for `only-if-cached`: respond with 504 (RFC 9111, 5.2.1.7).
    NotCached,
}

impl Cache {
    /// Decides without a fresh stored response. Without `wait_options` the request does not follow another fill.
    pub(super) fn decide(
        self: &Arc<Self>,
        mut pending: Box<PendingRequest>,
        now: Now,
        wait_options: Option<WaitOptions>,
    ) -> CacheDecision {
        pending.requested_at = now.instant;
        let cookies = CookieRules::new(&self.settings);
        let charge = self.store.reserve(FILL_BYTES);
        let mut shard = self.store.write(pending.hash);
        let stored = find(&shard, pending.hash, pending.key.as_slice(), &pending.saved_fields, cookies);
        let newest = shard.variants(pending.hash.table, pending.key.as_slice()).next().cloned();
        let (reuse, stored) = match stored {
            Some((stored, _)) => (
                self.assess(&stored, &pending.saved_fields, pending.is_head, pending.directives, now.instant),
                Some(stored),
            ),
            None => (Reuse::Ignore(if newest.is_some() { Forwarded::VaryMiss } else { Forwarded::UriMiss }), None),
        };
        let stale = stored.filter(|stored| !stored.is_pass());
        if let (Reuse::Fresh | Reuse::Stale | Reuse::StaleWhileRevalidate, Some(stored)) = (&reuse, &stale) {
            let is_refreshed =
                matches!(reuse, Reuse::StaleWhileRevalidate) && !pending.is_head && !is_filling(&shard, &pending);
            let refresh = if is_refreshed {
                self.start_fetch(&mut shard, pending.clone(), stale.clone(), newest, &reuse, charge)
            } else {
                None
            };
            drop(shard);
            let response = self.response(stored, &pending, now);
            return match refresh {
                Some(refresh) => CacheDecision::RespondAndRefresh(response, Box::new(refresh)),
                None => CacheDecision::Respond(response),
            };
        }
        if pending.directives.only_if_cached {
            return CacheDecision::NotCached;
        }
        if let Some(follower) =
            wait_options.as_ref().and_then(|wait_options| self.follow(&shard, &pending, &reuse, wait_options))
        {
            return CacheDecision::Wait(follower);
        }
        let Some(forward) = self.start_fetch(&mut shard, pending, stale, newest, &reuse, charge) else {
            return CacheDecision::Forward(Forward::pass(reuse.why()));
        };
        if let (Some(previous), Some(fill)) =
            (wait_options.and_then(|wait_options| wait_options.previous), forward.fill())
        {
            previous.set_successor(fill);
        }
        CacheDecision::Forward(forward)
    }

    fn response(&self, stored: &Arc<StoredResponse>, pending: &PendingRequest, now: Now) -> CachedResponse {
        stored.count_hits(1);
        let cache_status = CacheStatus::hit(stored.ttl_s(now.instant));
        pending.response(stored, now, &self.settings, cache_status)
    }

    /// Subscribes to a fill whose response may match the request; after a failed fill, to the failure of its successor,
    /// if that failed too.
    fn follow(
        self: &Arc<Self>,
        shard: &Shard,
        pending: &PendingRequest,
        reuse: &Reuse,
        wait_options: &WaitOptions,
    ) -> Option<Follower> {
        let may_follow = !pending.directives.restricts() && !pending.traits.has_authorization && !pending.needs_origin;
        // One range is not worth waiting for a whole body.
        let is_waiting_useful = !pending.traits.has_range || matches!(reuse, Reuse::Validate(_));
        if !may_follow || !is_waiting_useful || matches!(reuse, Reuse::Pass) {
            return None;
        }
        let cookies = CookieRules::new(&self.settings);
        let WaitOptions { waiter, deadline, previous } = wait_options;
        let cache_status = CacheStatus::forwarded(reuse.why());
        let follower = |fill, subscription| {
            Follower::new(self, fill, subscription, Box::new(pending.clone()), cache_status, *deadline)
        };
        let fills = shard.fills.get(&pending.hash.table).map_or(&[][..], Vec::as_slice);
        for fill in fills.iter().filter(|fill| *fill.key == *pending.key.as_slice()) {
            if let Some(subscription) = fill.join(&pending.saved_fields, cookies, &self.store.groups, *waiter) {
                previous.iter().for_each(|previous| previous.set_successor(fill));
                return Some(follower(fill, subscription));
            }
        }
        let previous = previous.as_ref()?;
        let (subscription, failure) = previous.subscribe_after_two_failures(&pending.saved_fields, cookies, *waiter)?;
        Some(follower(previous, subscription).with_failure(failure))
    }

    /// None if memory is short or the key has too many fills. HEAD has a fill only if its response may freshen a stored
    /// one.
    fn start_fetch(
        self: &Arc<Self>,
        shard: &mut Shard,
        pending: Box<PendingRequest>,
        stale: Option<Arc<StoredResponse>>,
        newest: Option<Arc<StoredResponse>>,
        reuse: &Reuse,
        charge: Option<Charge>,
    ) -> Option<Forward> {
        let may_use = matches!(reuse, Reuse::Validate(_) | Reuse::StaleWhileRevalidate);
        let stale = stale.filter(|_| may_use);
        let is_refresh = matches!(reuse, Reuse::StaleWhileRevalidate);
        let cache_status = CacheStatus::forwarded(reuse.why());
        if pending.is_head {
            let fill = charge.filter(|_| stale.is_some()).and_then(|charge| {
                let fill = Fill::new(pending.key.as_slice(), b"", self.store.groups.purges(), false, charge);
                register(shard, pending.hash.table, fill)
            });
            return Some(Forward::new(self, FetchKind::Head, pending, None, stale, fill, cache_status));
        }
        let conditions =
            stale.as_ref().and_then(|stored| conditions(stored.block())).or(is_refresh.then(FieldBlock::new));
        let is_whole = conditions.is_some() || pending.is_plain();
        let is_open = is_whole
            && !matches!(reuse, Reuse::Pass)
            && !pending.traits.has_authorization
            && !pending.traits.no_store
            && !pending.needs_origin;
        let expected =
            newest.map(|newest| same_names(newest.variant(), &pending.saved_fields, CookieRules::new(&self.settings)));
        let expected = expected.as_ref().map_or(&b""[..], |expected| expected.as_slice());
        let fill = Fill::new(pending.key.as_slice(), expected, self.store.groups.purges(), is_open, charge?);
        let fill = register(shard, pending.hash.table, fill)?;
        Some(Forward::new(self, FetchKind::Get, pending, conditions, stale, Some(fill), cache_status))
    }
}

fn is_filling(shard: &Shard, pending: &PendingRequest) -> bool {
    let fills = shard.fills.get(&pending.hash.table);
    fills.is_some_and(|fills| fills.iter().any(|fill| *fill.key == *pending.key.as_slice() && fill.is_open()))
}
