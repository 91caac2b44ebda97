//! Whether a stored response may be used for a request (RFC 9111, 4).

use std::sync::Arc;

use breme_base::Instant;

use crate::cache::Cache;
use crate::directives::RequestDirectives;
use crate::fields::FieldValues;
use crate::fill::Shard;
use crate::key::KeyHash;
use crate::partial_content;
use crate::status::Forwarded;
use crate::store::StoredResponse;
use crate::vary::{CookieRules, matches};

pub(super) enum Reuse {
    Fresh,
    /// Stale, but allowed by the request's `max-stale`.
    Stale,
    /// Stale; refreshed in the background.
    StaleWhileRevalidate,
    /// Stale; forward with conditions.
    Validate(Forwarded),
    /// Forward as if nothing were stored.
    Ignore(Forwarded),
    /// Forward, and do not wait for other requests.
    Pass,
}

impl Reuse {
    pub(super) fn why(&self) -> Forwarded {
        match self {
            Self::Validate(why) | Self::Ignore(why) => *why,
            Self::Pass => Forwarded::UriMiss,
            Self::Fresh | Self::Stale | Self::StaleWhileRevalidate => Forwarded::Stale,
        }
    }
}

impl Cache {
    /// RFC 9111, 4. A partial response is used only while fresh.
    pub(super) fn assess(
        &self,
        stored: &StoredResponse,
        request: &impl FieldValues,
        is_head: bool,
        directives: RequestDirectives,
        now: Instant,
    ) -> Reuse {
        let reuse = self.assess_terms(stored, request, directives, now);
        if !stored.is_part() {
            return reuse;
        }
        let is_in_range = !is_head && partial_content::select(request, stored.block()).is_some();
        match reuse {
            Reuse::Fresh if is_in_range => Reuse::Fresh,
            Reuse::Fresh => Reuse::Ignore(Forwarded::Partial),
            other => Reuse::Ignore(other.why()),
        }
    }

    fn assess_terms(
        &self,
        stored: &StoredResponse,
        request: &impl FieldValues,
        directives: RequestDirectives,
        now: Instant,
    ) -> Reuse {
        if stored.is_pass() {
            return if stored.is_fresh(now) { Reuse::Pass } else { Reuse::Ignore(Forwarded::UriMiss) };
        }
        if directives.no_store || (request.has("authorization") && !stored.allows_authorization()) {
            return Reuse::Ignore(Forwarded::Request);
        }
        if request.has("if-match") || request.has("if-unmodified-since") {
            return Reuse::Ignore(Forwarded::Request);
        }
        let (age_s, ttl_s) = (stored.age_s(now), stored.ttl_s(now));
        let is_too_old = directives.max_age_s.is_some_and(|max| age_s > u64::from(max) || max == 0);
        let is_too_stale = directives.min_fresh_s.is_some_and(|min| ttl_s < i64::from(min));
        let is_fresh = stored.is_fresh(now);
        // Browsers send max-age=0 to reload a page; only no-cache asks for more (RFC 8246, 2).
        let is_unchanged = is_fresh && stored.is_immutable();
        if directives.no_cache || (is_too_old && !is_unchanged) || is_too_stale {
            return Reuse::Validate(Forwarded::Request);
        }
        if is_fresh {
            return Reuse::Fresh;
        }
        let may_be_stale_for = |seconds| stored.is_stale_at_most(seconds, now);
        if directives.max_stale_s.is_some_and(may_be_stale_for) && !stored.forbids_stale() {
            return Reuse::Stale;
        }
        if !directives.restricts() && may_be_stale_for(stored.stale_while_revalidate_s()) {
            return Reuse::StaleWhileRevalidate;
        }
        Reuse::Validate(Forwarded::Stale)
    }
}

/// The newest stored response that matches, and its version.
pub(super) fn find(
    shard: &Shard,
    hash: KeyHash,
    key: &[u8],
    request: &impl FieldValues,
    cookies: CookieRules<'_>,
) -> Option<(Arc<StoredResponse>, u32)> {
    let stored = shard.variants(hash.table, key).find(|stored| matches(stored.variant(), request, cookies))?;
    // The version is read under the lock: later changes are detected.
    Some((Arc::clone(stored), stored.version()))
}
