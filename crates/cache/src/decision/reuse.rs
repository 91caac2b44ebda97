//! May what is stored be used for a request (RFC 9111, 4)?

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

/// What a stored response is good for.
pub(super) enum Reuse {
    /// The answer.
    Fresh,
    /// The answer, although it is stale: the client said so.
    Stale,
    /// The answer, while a fresh one is fetched.
    StaleWhileRevalidate,
    /// Ask upstream whether it is still right.
    Validate(Forwarded),
    /// Ask upstream as if it were not there.
    Ignore(Forwarded),
    /// Others' answers are of no use here, and waiting for them neither.
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
    /// RFC 9111, 4: may it be used, and how. A part is used while it is fresh, or not at all.
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
        let is_there = !is_head && partial_content::select(request, stored.block()).is_some();
        match reuse {
            Reuse::Fresh if is_there => Reuse::Fresh,
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
        if directives.no_cache || is_too_old || is_too_stale {
            return Reuse::Validate(Forwarded::Request);
        }
        if stored.is_fresh(now) {
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

/// The newest response that a request may get, with the state in which it was found.
pub(super) fn find(
    shard: &Shard,
    hash: KeyHash,
    key: &[u8],
    request: &impl FieldValues,
    cookies: CookieRules<'_>,
) -> Option<(Arc<StoredResponse>, u32)> {
    let stored = shard.variants(hash.table, key).find(|stored| matches(stored.variant(), request, cookies))?;
    // Read while the shard is locked, so that what comes later is seen.
    Some((Arc::clone(stored), stored.version()))
}
