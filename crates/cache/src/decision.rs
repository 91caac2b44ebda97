//! The lookup: respond from the store, wait for another request, or forward.

mod miss;
mod reuse;

use std::sync::Arc;

use breme_http::{Fields, Method};

use reuse::{Reuse, find};

pub use miss::CacheDecision;

use crate::cache::Cache;
use crate::cached_response::{CachedResponse, ResponseOptions};
use crate::directives::RequestDirectives;
use crate::fields::{FieldValues, ForwardedFields};
use crate::fill::{FILL_BYTES, Fill, register};
use crate::follower::{Follower, WaitOptions};
use crate::forward::{FetchKind, Forward};
use crate::key::Key;
use crate::pending_request::PendingRequest;
use crate::request::{Now, Request, Waiter};
use crate::status::{CacheStatus, Forwarded};
use crate::vary::CookieRules;

impl Cache {
    /// If the request has to wait, `waiter` is woken.
    #[must_use]
    pub fn look_up(self: &Arc<Self>, request: &Request<'_, '_>, now: Now, waiter: Waiter) -> CacheDecision {
        let Request { method, has_body, .. } = *request;
        let is_head = method == Method::Head;
        match method {
            Method::Get | Method::Head
                if !has_body && !has_override_header(request.fields) && !has_custom_option(request.fields) =>
            {
                self.look_up_stored(request, is_head, now, waiter)
            }
            // The body of a GET has no defined meaning (RFC 9110, 9.3.1) and is not part of the key.
            Method::Get | Method::Head => CacheDecision::Forward(Forward::pass(Forwarded::Bypass)),
            Method::Post if !has_override_header(request.fields) && !has_custom_option(request.fields) => {
                CacheDecision::Forward(self.look_up_post(request, now))
            }
            Method::Options | Method::Trace | Method::Connect => {
                CacheDecision::Forward(Forward::pass(Forwarded::Method))
            }
            _ => CacheDecision::Forward(Forward::unsafe_method(self, Self::key(request), Forwarded::Method)),
        }
    }

    /// Forwards a request past the cache. Unsafe methods still invalidate stored responses.
    #[must_use]
    pub fn bypass(self: &Arc<Self>, request: &Request<'_, '_>) -> Forward {
        match request.method {
            Method::Get | Method::Head | Method::Options | Method::Trace | Method::Connect => {
                Forward::pass(Forwarded::Bypass)
            }
            _ => Forward::unsafe_method(self, Self::key(request), Forwarded::Bypass),
        }
    }

    fn key(request: &Request<'_, '_>) -> Key {
        Key::new(request.scheme, request.authority, request.path, request.query)
    }

    /// The hot path: one hash, one read lock, no allocation.
    fn look_up_stored(
        self: &Arc<Self>,
        request: &Request<'_, '_>,
        is_head: bool,
        now: Now,
        waiter: Waiter,
    ) -> CacheDecision {
        let key = Self::key(request);
        let hash = self.store.hash_of(&key);
        let directives = self.directives(&request.fields);
        let cookies = CookieRules::new(&self.settings);
        let found = find(&self.store.read(hash), hash, key.as_slice(), &ForwardedFields(request), cookies);
        if let Some((stored, version)) = found
            && let Reuse::Fresh = self.assess(&stored, &request.fields, is_head, directives, now.instant)
        {
            stored.count_hits(1);
            let options = ResponseOptions { is_head, now, ranges_max: self.settings.ranges_max };
            let status = CacheStatus::hit(stored.ttl_s(now.instant));
            let response = CachedResponse::from_stored(&stored, &request.fields, options, status);
            if directives.restricts() || is_head {
                return CacheDecision::Respond(response);
            }
            return CacheDecision::Respond(response.with_validity(&stored, version));
        }
        let pending = PendingRequest::new(key, hash, request, directives, &self.settings, now.instant);
        let deadline = now.instant + self.settings.follow_max;
        self.decide(Box::new(pending), now, Some(WaitOptions { waiter, deadline, previous: None }))
    }

    /// The response to a POST may be stored for later GETs (RFC 9110, 9.3.3), but no request follows it. The fill is
    /// registered before the request is sent, so that purges find it.
    fn look_up_post(self: &Arc<Self>, request: &Request<'_, '_>, now: Now) -> Forward {
        let key = Self::key(request);
        let Some(charge) = self.store.reserve(FILL_BYTES) else {
            return Forward::unsafe_method(self, key, Forwarded::Method);
        };
        let hash = self.store.hash_of(&key);
        let mut pending =
            PendingRequest::new(key, hash, request, self.directives(&request.fields), &self.settings, now.instant);
        pending.traits.needs_lifetime = true;
        let fill = Fill::new(pending.key.as_slice(), b"", self.store.groups.purges(), false, charge);
        let Some(fill) = register(&mut self.store.write(hash), hash.table, fill) else {
            return Forward::unsafe_method(self, pending.key, Forwarded::Method);
        };
        let cache_status = CacheStatus::forwarded(Forwarded::Method);
        Forward::new(self, FetchKind::Post, Box::new(pending), None, None, Some(fill), cache_status)
    }

    fn directives(&self, fields: &impl FieldValues) -> RequestDirectives {
        if self.settings.client_directives { RequestDirectives::read(fields) } else { RequestDirectives::default() }
    }
}

impl Follower {
    /// Repeats the lookup, after [`Retry`](crate::FollowerPoll::Retry) or the deadline. Until that deadline the request
    /// may follow another fill.
    #[must_use]
    pub fn retry(self, now: Now) -> CacheDecision {
        let (cache, pending, wait_options) = self.into_retry(now.instant);
        cache.decide(pending, now, wait_options)
    }
}

/// Headers that make some servers serve another target. They are not part of the key, so the response must not be
/// stored ("Practical Web Cache Poisoning", Kettle, 2018).
const OVERRIDES: [&str; 5] =
    ["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"];

fn has_override_header(fields: Fields<'_, '_>) -> bool {
    let mut names = fields.iter().map(|field| field.name).filter(|name| name.starts_with(['x', 'X']));
    names.any(|name| OVERRIDES.iter().any(|candidate| is_equivalent(name, candidate)))
}

/// CGI passes `-` and `_` alike as `_` (RFC 3875, 4.1.18).
fn is_equivalent(name: &str, candidate: &str) -> bool {
    let is_equivalent =
        |(own, candidate): (u8, u8)| own.eq_ignore_ascii_case(&candidate) || (own == b'_' && candidate == b'-');
    name.len() == candidate.len() && name.bytes().zip(candidate.bytes()).all(is_equivalent)
}

/// Connection options, and headers that are never forwarded.
const CONNECTION_OPTIONS: [&str; 8] =
    ["close", "keep-alive", "te", "upgrade", "http2-settings", "proxy-connection", "trailer", "transfer-encoding"];

/// Whether Connection lists other headers. They are not forwarded, so the response was made without them: it must not
/// be stored as the variant of a request that has them.
fn has_custom_option(fields: Fields<'_, '_>) -> bool {
    let is_registered =
        |option: &[u8]| CONNECTION_OPTIONS.iter().any(|candidate| option.eq_ignore_ascii_case(candidate.as_bytes()));
    fields.connection_options().any(|option| !is_registered(option))
}
