//! A request forwarded upstream, and what its response does to the store.
//!
//! Every request without a cached response has a [`Forward`], whatever its method. It receives upstream's response, and
//! decides whether the client gets that one or a stored one.

mod body;
mod head;

use std::sync::Arc;

use breme_base::Instant;
use breme_http::FieldBlock;

use crate::cache::Cache;
use crate::cached_response::CachedResponse;
use crate::fill::{Fill, FillOutcome, Shard};
use crate::follower::Follower;
use crate::invalidation;
use crate::key::Key;
use crate::pending_request::PendingRequest;
use crate::request::{FetchError, Now, ResponseHead, Waiter, Wakes};
use crate::status::{CacheStatus, Forwarded};
use crate::store::StoredResponse;

/// If the client disconnects, a fill continues if at most this much is missing.
const FINISH_WITHIN_BYTES: u64 = 256 * 1024;

#[derive(Debug)]
pub struct Forward {
    work: ForwardKind,
    conditions: Option<FieldBlock>,
    cache_status: CacheStatus,
}

#[derive(Debug)]
enum ForwardKind {
    /// No effect on the store.
    Pass,
    /// An unsafe method: a successful response invalidates stored ones.
    Unsafe {
        cache: Arc<Cache>,
        key: Box<Key>,
    },
    Fetch(Box<Fetch>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchKind {
    /// The response may be stored.
    Get,
    /// The response may freshen a stored one.
    Head,
    /// The response invalidates stored ones and may be stored for GET (RFC 9110, 9.3.3).
    Post,
}

#[derive(Debug)]
struct Fetch {
    cache: Arc<Cache>,
    kind: FetchKind,
    pending: Box<PendingRequest>,
    /// The stored response that is being validated or may be served stale.
    stale: Option<Arc<StoredResponse>>,
    /// None once finished.
    fill: Option<Arc<Fill>>,
    has_head: bool,
    /// Field names of the response's Vary, if it may be stored.
    names: Vec<Vec<u8>>,
    progress: Option<BodyProgress>,
}

#[derive(Clone, Copy, Debug)]
struct BodyProgress {
    length: Option<u64>,
    bytes: u64,
    /// Key and variant, stored before the body.
    lead_bytes: usize,
    capacity: usize,
    is_overlong: bool,
}

#[derive(Debug)]
pub enum HeadAction {
    /// Relay upstream's response.
    Relay,
    /// Send this response, and discard upstream's body.
    Replace(Box<CachedResponse>),
    /// Discard upstream's response, and send the request again with the new [conditions](Forward::conditions): this is
    /// a 304 about a response that is not stored.
    SendAgain,
}

impl Forward {
    pub(crate) const fn pass(why: Forwarded) -> Self {
        Self { work: ForwardKind::Pass, conditions: None, cache_status: CacheStatus::forwarded(why) }
    }

    pub(crate) fn unsafe_method(cache: &Arc<Cache>, key: Key, why: Forwarded) -> Self {
        let work = ForwardKind::Unsafe { cache: Arc::clone(cache), key: Box::new(key) };
        Self { work, conditions: None, cache_status: CacheStatus::forwarded(why) }
    }

    pub(crate) fn new(
        cache: &Arc<Cache>,
        kind: FetchKind,
        pending: Box<PendingRequest>,
        conditions: Option<FieldBlock>,
        stale: Option<Arc<StoredResponse>>,
        fill: Option<Arc<Fill>>,
        cache_status: CacheStatus,
    ) -> Self {
        let fetch = Fetch {
            cache: Arc::clone(cache),
            kind,
            pending,
            stale,
            fill,
            has_head: false,
            names: Vec::new(),
            progress: None,
        };
        Self { work: ForwardKind::Fetch(Box::new(fetch)), conditions, cache_status }
    }

    /// If set, send these lines upstream in place of the client's conditions and ranges (If-Match, If-None-Match,
    /// If-Modified-Since, If-Unmodified-Since, If-Range, Range). Otherwise forward the request as it is.
    #[must_use]
    pub const fn conditions(&self) -> Option<&FieldBlock> {
        self.conditions.as_ref()
    }

    /// The Cache-Status of a relayed response, after [`handle_head`](Self::handle_head).
    #[must_use]
    pub const fn cache_status(&self) -> CacheStatus {
        self.cache_status
    }

    /// A follower that continues from the current position of the body at its own pace; `waiter` is woken when there is
    /// more. None if the body is not stored and shared, or of unknown length: it may grow too long to stay readable.
    #[must_use]
    pub fn reader(&self, waiter: Waiter) -> Option<Follower> {
        let ForwardKind::Fetch(fetch) = &self.work else { return None };
        let (FetchKind::Get, Some(fill), Some(progress)) = (fetch.kind, &fetch.fill, fetch.progress) else {
            return None;
        };
        progress.length?;
        let subscription = fill.subscribe_at(progress.bytes, waiter)?;
        Some(Follower::new(&fetch.cache, fill, subscription, fetch.pending.clone(), self.cache_status, Instant::FAR))
    }

    /// The fill, if other requests may follow it.
    pub(crate) fn fill(&self) -> Option<&Arc<Fill>> {
        match &self.work {
            ForwardKind::Fetch(fetch) => fetch.fill.as_ref().filter(|fill| fill.is_open()),
            ForwardKind::Pass | ForwardKind::Unsafe { .. } => None,
        }
    }

    /// Handles the head of the final response.
    pub fn handle_head(&mut self, now: Now, head: &ResponseHead<'_, '_>, wakes: &mut Wakes) -> HeadAction {
        let has_conditions = self.conditions.is_some();
        match &mut self.work {
            ForwardKind::Pass => HeadAction::Relay,
            ForwardKind::Unsafe { cache, key } => {
                invalidation::apply(cache, key, head, None);
                HeadAction::Relay
            }
            ForwardKind::Fetch(fetch) => {
                // A 304 about a response that is not stored. Without conditions, the next response is complete.
                if head.status == 304
                    && let Some(conditions) = &mut self.conditions
                    && !conditions.is_empty()
                    && fetch.selected(head).is_none()
                {
                    *conditions = FieldBlock::new();
                    fetch.pending.requested_at = now.instant;
                    return HeadAction::SendAgain;
                }
                fetch.has_head = true;
                match fetch.handle_head(now, head, has_conditions, &mut self.cache_status, wakes) {
                    Some(response) => HeadAction::Replace(Box::new(response)),
                    None => HeadAction::Relay,
                }
            }
        }
    }

    /// Whether to pass the body to [`handle_body`](Self::handle_body).
    #[must_use]
    pub fn wants_body(&self) -> bool {
        matches!(&self.work, ForwardKind::Fetch(fetch) if fetch.fill.is_some() && fetch.progress.is_some())
    }

    pub fn handle_body(&mut self, bytes: &[u8], wakes: &mut Wakes) {
        if let ForwardKind::Fetch(fetch) = &mut self.work {
            fetch.handle_body(bytes, wakes);
        }
    }

    /// The response is complete.
    pub fn handle_end(mut self, wakes: &mut Wakes) {
        if let ForwardKind::Fetch(fetch) = &mut self.work {
            fetch.handle_end(wakes);
        }
    }

    /// There is no response, or it was aborted. Returns the stale response to send instead of an error, if one may be
    /// served.
    pub fn handle_failure(mut self, now: Now, error: FetchError, wakes: &mut Wakes) -> Option<CachedResponse> {
        match &mut self.work {
            ForwardKind::Fetch(fetch) => fetch.handle_failure(now, self.cache_status, error, wakes),
            _ => None,
        }
    }

    /// Whether to continue after the client disconnected: other requests follow, or little is missing. If not, call
    /// `handle_failure`.
    #[must_use]
    pub fn should_finish(&self) -> bool {
        let ForwardKind::Fetch(fetch) = &self.work else { return false };
        let is_almost_there = |progress: BodyProgress| {
            progress.length.is_some_and(|length| length.saturating_sub(progress.bytes) <= FINISH_WITHIN_BYTES)
        };
        let is_followed = |fill: &Arc<Fill>| fill.has_followers() || fetch.progress.is_some_and(is_almost_there);
        fetch.fill.as_ref().is_some_and(is_followed)
    }
}

impl Fetch {
    fn handle_failure(
        &mut self,
        now: Now,
        cache_status: CacheStatus,
        error: FetchError,
        wakes: &mut Wakes,
    ) -> Option<CachedResponse> {
        let response = if self.has_head { None } else { self.stale_response(now, None, cache_status, wakes) };
        // This client may have ruled out a stale response that others accept.
        let error = if self.pending.directives.restricts() { FetchError::Request } else { error };
        self.finish(FillOutcome::Failed(error), wakes);
        response
    }

    /// The first outcome counts.
    fn finish(&mut self, outcome: FillOutcome, wakes: &mut Wakes) {
        if let (Some(fill), FillOutcome::Failed(error)) = (&self.fill, &outcome) {
            fill.record_failure(error);
        }
        self.unregister();
        if let Some(fill) = self.fill.take() {
            fill.finish(outcome, wakes);
        }
    }

    /// Hides the fill from lookups.
    fn unregister(&self) {
        if let Some(fill) = &self.fill {
            fill.close();
            unregister(&mut self.cache.store.write(self.pending.hash), self.pending.hash.table, fill);
        }
    }
}

/// Dropping an unfinished fetch counts as a failure. Followers are not woken and retry at their deadlines.
impl Drop for Fetch {
    fn drop(&mut self) {
        self.finish(FillOutcome::Failed(FetchError::Request), &mut Wakes::new());
    }
}

fn unregister(shard: &mut Shard, key_hash: u64, fill: &Arc<Fill>) {
    if let Some(fills) = shard.fills.get_mut(&key_hash) {
        fills.retain(|other| !Arc::ptr_eq(other, fill));
        if fills.is_empty() {
            shard.fills.remove(&key_hash);
        }
    }
}
