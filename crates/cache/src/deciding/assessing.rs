//! May what is stored be used for a request (RFC 9111, 4)?

use std::sync::Arc;

use breme_base::Instant;

use crate::cache::Cache;
use crate::directives::RequestDirectives;
use crate::fields::FieldValues;
use crate::filling::Shard;
use crate::key::KeyHash;
use crate::parts;
use crate::selecting::{Cookies, matches};
use crate::status::Forwarded;
use crate::store::Stored;

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

impl Use {
    pub(super) fn why(&self) -> Forwarded {
        match self {
            Self::Validate(why) | Self::Ignore(why) => *why,
            Self::Pass => Forwarded::UriMiss,
            Self::Fresh | Self::Stale | Self::StaleForNow => Forwarded::Stale,
        }
    }
}

impl Cache {
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
        let may_be_stale_for = |seconds| stored.is_stale_at_most(seconds, now);
        if directives.max_stale_s.is_some_and(may_be_stale_for) && !stored.forbids_stale() {
            return Use::Stale;
        }
        if !directives.restricts() && may_be_stale_for(stored.stale_while_revalidate_s()) {
            return Use::StaleForNow;
        }
        Use::Validate(Forwarded::Stale)
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
