//! Followers: requests that stream the response of another request.

use std::sync::Arc;

use breme_base::Instant;
use breme_http::FieldBlock;
use bytes::Bytes;

use crate::cache::Cache;
use crate::cached_response::CachedResponse;
use crate::fill::{Fill, FillPhase, FillProgress, StreamedResponse};
use crate::pending_request::PendingRequest;
use crate::request::{FailureInfo, FetchError, Now, Waiter};
use crate::status::CacheStatus;
use crate::store::ReuseTerms;
use crate::vary::{CookieRules, matches};

#[derive(Debug)]
pub struct Follower {
    cache: Arc<Cache>,
    fill: Arc<Fill>,
    subscription: usize,
    pending: Box<PendingRequest>,
    cache_status: CacheStatus,
    deadline: Instant,
    /// The retry must not follow another fill.
    must_not_wait: bool,
    /// Two fills in a row failed.
    failure: Option<FailureInfo>,
    has_ended: bool,
}

#[derive(Debug)]
pub(crate) struct WaitOptions {
    pub(crate) waiter: Waiter,
    pub(crate) deadline: Instant,
    /// The failed fill it followed before.
    pub(crate) previous: Option<Arc<Fill>>,
}

#[derive(Debug)]
pub enum FollowerPoll {
    /// Not yet; the waiter is woken.
    Pending,
    /// The response does not match: call [`Follower::retry`].
    Retry,
    /// No response, and a retry would not help.
    Failed(FailureInfo),
    Response(Box<CachedResponse>),
    /// The head; [read](Follower::read) the body as it arrives.
    Stream(Box<StreamedHead>),
}

/// The head of a response whose body is arriving.
#[derive(Clone, Debug)]
pub struct StreamedHead {
    pub status: u16,
    /// As [`CachedResponse::lines`].
    pub lines: FieldBlock,
    /// Body length, if known.
    pub length: Option<u64>,
    pub age_s: u64,
    pub cache_status: CacheStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyRead {
    /// Not yet; the waiter is woken.
    Pending,
    /// Bytes appended to the buffer; there may be more.
    Copied(usize),
    /// All remaining bytes.
    Rest(Bytes),
    End,
    /// Upstream aborted the body: abort this response too.
    Aborted,
}

impl Follower {
    pub(crate) fn new(
        cache: &Arc<Cache>,
        fill: &Arc<Fill>,
        subscription: usize,
        pending: Box<PendingRequest>,
        cache_status: CacheStatus,
        deadline: Instant,
    ) -> Self {
        let cache_status = CacheStatus { collapsed: true, ..cache_status };
        Self {
            cache: Arc::clone(cache),
            fill: Arc::clone(fill),
            subscription,
            pending,
            cache_status,
            deadline,
            must_not_wait: false,
            failure: None,
            has_ended: false,
        }
    }

    /// The fill and its successor have both failed.
    pub(crate) fn with_failure(mut self, failure: FailureInfo) -> Self {
        self.failure = Some(failure);
        self
    }

    /// A follower without a response by then should [retry](Self::retry).
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    pub fn poll(&mut self, now: Now) -> FollowerPoll {
        if let Some(failure) = &self.failure {
            return FollowerPoll::Failed(Arc::clone(failure));
        }
        let settings = self.cache.settings();
        let cookies = CookieRules::new(settings);
        let fill = Arc::clone(&self.fill);
        let mut inner = fill.lock();
        let (stored, status) = match (&inner.phase, &inner.stream) {
            (FillPhase::AwaitingHead | FillPhase::Storing, _) => return inner.wait(self.subscription),
            (FillPhase::Streaming, Some(stream)) => {
                if !stream.is_storable || !matches(stream.variant(), &self.pending.saved_fields, cookies) {
                    return FollowerPoll::Retry;
                }
                if !self.pending.is_plain() {
                    return inner.wait(self.subscription);
                }
                let head = Box::new(self.head(stream, now.instant));
                if let Some(subscription) = &mut inner.subscriptions[self.subscription] {
                    subscription.has_begun = true;
                }
                return FollowerPoll::Stream(head);
            }
            (FillPhase::Done(stored), _) => (Arc::clone(stored), None),
            (FillPhase::Stale(stored, status), _) => (Arc::clone(stored), *status),
            (FillPhase::Released, _) => {
                self.must_not_wait = true;
                return FollowerPoll::Retry;
            }
            (FillPhase::Failed(error), _) => return self.pending.fail(error),
            (FillPhase::Streaming | FillPhase::Aborted, _) => return FollowerPoll::Retry,
        };
        drop(inner);
        if !matches(stored.variant(), &self.pending.saved_fields, cookies) {
            return FollowerPoll::Retry;
        }
        let cache_status =
            CacheStatus { forwarded_status: status, ttl_s: Some(stored.ttl_s(now.instant)), ..self.cache_status };
        FollowerPoll::Response(Box::new(self.pending.response(&stored, now, settings, cache_status)))
    }

    fn head(&self, stream: &StreamedResponse, now: Instant) -> StreamedHead {
        let ReuseTerms { initial_age_s, age_from, .. } = stream.terms;
        StreamedHead {
            status: stream.status,
            lines: stream.lines.clone(),
            length: stream.length,
            age_s: u64::from(initial_age_s) + now.since(age_from).as_secs(),
            cache_status: self.cache_status,
        }
    }

    /// Reads the next bytes of the body, after [`FollowerPoll::Stream`]; copies at most `max_bytes`.
    pub fn read(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> BodyRead {
        let mut inner = self.fill.lock();
        let FillProgress { phase, stream, subscriptions, .. } = &mut *inner;
        let Some(subscription) = &mut subscriptions[self.subscription] else { return BodyRead::Aborted };
        if self.has_ended {
            return BodyRead::End;
        }
        if subscription.is_cut_off {
            return BodyRead::Aborted;
        }
        match (phase, stream) {
            (FillPhase::Done(stored), _) => {
                self.has_ended = true;
                let body = stored.body();
                let start = (subscription.position as usize).min(body.len());
                BodyRead::Rest(body.slice(start..))
            }
            (FillPhase::Streaming, Some(stream)) => {
                let rest = stream.since(subscription.position);
                let piece = &rest[..rest.len().min(max_bytes)];
                out.extend_from_slice(piece);
                subscription.position += piece.len() as u64;
                let is_over = !stream.is_storable && stream.length == Some(subscription.position);
                subscription.is_waiting = piece.is_empty() && !is_over;
                match piece.len() {
                    0 if is_over => BodyRead::End,
                    0 => BodyRead::Pending,
                    bytes => BodyRead::Copied(bytes),
                }
            }
            // About to be stored.
            (FillPhase::Storing, _) => {
                subscription.is_waiting = true;
                BodyRead::Pending
            }
            _ => BodyRead::Aborted,
        }
    }

    /// The cache, the request, and whether it may follow another fill.
    pub(crate) fn into_retry(self, now: Instant) -> (Arc<Cache>, Box<PendingRequest>, Option<WaitOptions>) {
        let deadline = self.deadline;
        let waiter = self.waiter().filter(|_| !self.must_not_wait && now < deadline);
        let previous = Some(Arc::clone(&self.fill));
        let wait_options = waiter.map(|waiter| WaitOptions { waiter, deadline, previous });
        (Arc::clone(&self.cache), self.pending.clone(), wait_options)
    }

    fn waiter(&self) -> Option<Waiter> {
        self.fill.lock().subscriptions[self.subscription].as_ref().map(|subscription| subscription.waiter)
    }
}

impl PendingRequest {
    fn fail(&mut self, error: &FetchError) -> FollowerPoll {
        match error {
            FetchError::Request => FollowerPoll::Retry,
            FetchError::NoResponse(_) if !std::mem::replace(&mut self.has_waited, true) => FollowerPoll::Retry,
            FetchError::Unreachable(failure) | FetchError::NoResponse(failure) => FollowerPoll::Failed(failure.clone()),
        }
    }
}

impl FillProgress {
    fn wait(&mut self, subscription: usize) -> FollowerPoll {
        if let Some(subscription) = &mut self.subscriptions[subscription] {
            subscription.is_waiting = true;
        }
        FollowerPoll::Pending
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut inner = self.fill.lock();
        inner.subscriptions[self.subscription] = None;
        inner.free.push(self.subscription);
    }
}
