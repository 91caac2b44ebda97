//! What is asked upstream, and what its answer does to the store.
//!
//! Every request that is not answered out of the store has one of these, whatever its method. It is told what comes
//! back and says what the client gets: upstream's answer, or something else instead.

mod body;
mod head;

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::FieldBlock;

use crate::cache::Cache;
use crate::fill::{Fill, FillOutcome, Shard};
use crate::key::Key;
use crate::pending_request::PendingRequest;
use crate::request::{FetchError, Now, ResponseHead, Waiter, Wakes};
use crate::status::{CacheStatus, Forwarded};
use crate::store::StoredResponse;
use crate::{CachedResponse, Follower, invalidation};

/// A client that leaves does not end the fetching of an answer of which no more than this is missing.
const WORTH_FINISHING_BYTES: u64 = 256 * 1024;
/// A request that goes upstream.
#[derive(Debug)]
pub struct Forward {
    work: ForwardKind,
    conditions: Option<FieldBlock>,
    cache_status: CacheStatus,
}

#[derive(Debug)]
enum ForwardKind {
    /// Nothing: the answer is passed on.
    Pass,
    /// It changes something: a good answer makes stored ones invalid.
    Unsafe { cache: Arc<Cache>, key: Box<Key> },
    /// GET, HEAD or POST.
    Fetch(Box<Fetch>),
}

/// What is fetched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchKind {
    /// To be stored.
    Get,
    /// What is stored may be freshened.
    Head,
    /// What is stored is invalid afterwards, but the answer may take its place (RFC 9110, 9.3.3).
    Post,
}

#[derive(Debug)]
struct Fetch {
    cache: Arc<Cache>,
    role: FetchKind,
    pending: Box<PendingRequest>,
    /// What is stored and may not be used as it is.
    stale: Option<Arc<StoredResponse>>,
    /// Present until it is finished.
    fill: Option<Arc<Fill>>,
    has_head: bool,
    /// What the answer varies with, if it may be stored.
    names: Vec<Vec<u8>>,
    progress: Option<BodyProgress>,
}

/// How far the content has come.
#[derive(Clone, Copy, Debug)]
struct BodyProgress {
    length: Option<u64>,
    /// Of the content.
    bytes: u64,
    /// Key and variant, which come before it.
    lead_bytes: usize,
    capacity: usize,
    is_overlong: bool,
}

/// What the client gets.
#[derive(Debug)]
pub enum HeadAction {
    /// Upstream's answer.
    Relay,
    /// This instead. Upstream's content is of no use to anybody.
    Replace(Box<CachedResponse>),
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
        role: FetchKind,
        pending: Box<PendingRequest>,
        conditions: Option<FieldBlock>,
        stale: Option<Arc<StoredResponse>>,
        fill: Option<Arc<Fill>>,
        cache_status: CacheStatus,
    ) -> Self {
        let fetch = Fetch {
            cache: Arc::clone(cache),
            role,
            pending,
            stale,
            fill,
            has_head: false,
            names: Vec::new(),
            progress: None,
        };
        Self { work: ForwardKind::Fetch(Box::new(fetch)), conditions, cache_status }
    }

    /// If present, the client's own conditions and ranges (If-Match, If-None-Match, If-Modified-Since,
    /// If-Unmodified-Since, If-Range, Range) are not sent upstream, and these lines are. If not, the request goes as it
    /// came.
    #[must_use]
    pub const fn conditions(&self) -> Option<&FieldBlock> {
        self.conditions.as_ref()
    }

    /// What the cache says of an answer that is relayed. Known when [`handle_head`](Self::handle_head) was called.
    #[must_use]
    pub const fn cache_status(&self) -> CacheStatus {
        self.cache_status
    }

    /// One who reads on what this fetches from where its content is now, at a pace of its own; `waiter` is woken when
    /// there is more. None if it is not certain that all of it will be there to read: if it is not for the store and
    /// for others, or of unknown length, which may grow too long.
    #[must_use]
    pub fn reader(&self, waiter: Waiter) -> Option<Follower> {
        let ForwardKind::Fetch(fetch) = &self.work else { return None };
        let (FetchKind::Get, Some(fill), Some(progress)) = (fetch.role, &fetch.fill, fetch.progress) else {
            return None;
        };
        progress.length?;
        let subscription = fill.subscribe_at(progress.bytes, waiter)?;
        Some(Follower::new(&fetch.cache, fill, subscription, fetch.pending.clone(), self.cache_status, Instant::FAR))
    }

    /// What others may wait for; none if it is for nobody else.
    pub(crate) fn fill(&self) -> Option<&Arc<Fill>> {
        match &self.work {
            ForwardKind::Fetch(fetch) => fetch.fill.as_ref().filter(|fill| fill.is_open()),
            ForwardKind::Pass | ForwardKind::Unsafe { .. } => None,
        }
    }

    /// The head of the final answer has come.
    pub fn handle_head(&mut self, now: Now, head: &ResponseHead<'_, '_>, wakes: &mut Wakes) -> HeadAction {
        let has_conditions = self.conditions.is_some();
        match &mut self.work {
            ForwardKind::Pass => HeadAction::Relay,
            ForwardKind::Unsafe { cache, key } => {
                invalidation::after(cache, key, head, None);
                HeadAction::Relay
            }
            ForwardKind::Fetch(fetch) => {
                fetch.has_head = true;
                match fetch.handle_head(now, head, has_conditions, &mut self.cache_status, wakes) {
                    Some(response) => HeadAction::Replace(Box::new(response)),
                    None => HeadAction::Relay,
                }
            }
        }
    }

    /// Whether the content is to be given to [`handle_content`](Self::handle_content) as it comes.
    #[must_use]
    pub fn wants_body(&self) -> bool {
        matches!(&self.work, ForwardKind::Fetch(fetch) if fetch.fill.is_some() && fetch.progress.is_some())
    }

    /// A piece of the content has come.
    pub fn handle_body(&mut self, bytes: &[u8], wakes: &mut Wakes) {
        if let ForwardKind::Fetch(fetch) = &mut self.work {
            fetch.handle_body(bytes, wakes);
        }
    }

    /// The answer is complete.
    pub fn handle_end(mut self, wakes: &mut Wakes) {
        if let ForwardKind::Fetch(fetch) = &mut self.work {
            fetch.handle_end(wakes);
        }
    }

    /// There is no answer, or it broke off. Before its head, what comes back may be given to the client instead of an
    /// error.
    pub fn handle_failure(mut self, now: Now, fault: FetchError, wakes: &mut Wakes) -> Option<CachedResponse> {
        match &mut self.work {
            ForwardKind::Fetch(fetch) => fetch.handle_failure(now, self.cache_status, fault, wakes),
            _ => None,
        }
    }

    /// Whether to go on although the client has gone: others read what comes, or little is missing for the store. If
    /// not: `handle_failure`.
    #[must_use]
    pub fn should_finish(&self) -> bool {
        let ForwardKind::Fetch(fetch) = &self.work else { return false };
        let is_almost_there = |progress: BodyProgress| {
            progress.length.is_some_and(|length| length.saturating_sub(progress.bytes) <= WORTH_FINISHING_BYTES)
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
        fault: FetchError,
        wakes: &mut Wakes,
    ) -> Option<CachedResponse> {
        let response = if self.has_head { None } else { self.stale_response(now, None, cache_status, wakes) };
        // Where this client has its own wishes, there may be something stale for the others.
        let fault = if self.pending.directives.restricts() { FetchError::Request } else { fault };
        self.finish(FillOutcome::Failed(fault), wakes);
        response
    }

    /// The fill is over, one way or another. The first word counts.
    fn finish(&mut self, outcome: FillOutcome, wakes: &mut Wakes) {
        if let (Some(fill), FillOutcome::Failed(fault)) = (&self.fill, &outcome) {
            fill.record_failure(fault);
        }
        self.unregister();
        if let Some(fill) = self.fill.take() {
            fill.finish(outcome, wakes);
        }
    }

    /// Nobody finds the fill any more.
    fn unregister(&self) {
        if let Some(fill) = &self.fill {
            fill.close();
            unregister(&mut self.cache.store.write(self.pending.hash), self.pending.hash.table, fill);
        }
    }
}

/// Who forgets to say how it ended has failed. Nobody is woken then: those who wait find out at their deadlines.
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
