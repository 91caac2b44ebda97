//! Fills: responses being fetched, and the requests that wait for them (request collapsing or coalescing; RFC 9111, 4).
//!
//! The first request for a response that is not stored is forwarded and fills; later ones follow. Nothing polls: a
//! follower that has read everything waits, and the fill wakes it with the next piece. If the response turns out to be
//! private, all followers are released at once.
//!
//! ```text
//!                   ┌─ Streaming ─── Storing ─── Stored   in the store, or at least complete
//!   AwaitingHead ───┤      └──────── Aborted     followers that have not started reading retry
//!                   ├─ Stale                     upstream failed; a stale response may be served
//!                   ├─ Failed                    no response; the error says for which requests
//!                   └─ Released                  not shareable: each follower forwards its own request
//! ```
//!
//! Lock order: a shard, then a fill.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use breme_http::FieldBlock;
use parking_lot::{Mutex, MutexGuard};

use crate::fields::SavedFields;
use crate::groups::{GroupId, Groups};
use crate::request::{FailureInfo, FetchError, Waiter, Wakes};
use crate::store::{self, Charge, ReuseTerms, StoredLayout, StoredResponse};
use crate::vary::{CookieRules, matches};

/// Fills by the hash of their key.
pub(crate) type Fills = HashMap<u64, Vec<Arc<Fill>>>;
/// A shard of the store with the fills of its keys.
pub(crate) type Shard = store::Shard<Fills>;

/// A response being fetched, shared by all requests that wait for it.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) key: Box<[u8]>,
    record: Arc<FillRecord>,
    /// How many group purges there had been when it started.
    pub(crate) purges: u64,
    is_open: AtomicBool,
    is_purged: AtomicBool,
    inner: Mutex<FillProgress>,
    /// Memory of this struct.
    _charge: Charge,
}

/// The part of a fill that outlives it: followers of its predecessor may look it up late.
#[derive(Debug)]
struct FillRecord {
    /// The variant that the response will have if it varies as earlier ones did; empty if unknown.
    expected: Box<[u8]>,
    /// Set before the fill is closed, if it failed for all requests.
    failure: OnceLock<FailureInfo>,
}

/// Limit of fills per key; further requests are passed. Each lookup of the key scans them.
const KEY_FILLS_MAX: usize = 256;

/// Makes a fill visible to purges and followers. None if the key has too many.
pub(crate) fn register(shard: &mut Shard, key_hash: u64, fill: Arc<Fill>) -> Option<Arc<Fill>> {
    let fills = shard.fills.entry(key_hash).or_default();
    if fills.len() >= KEY_FILLS_MAX {
        return None;
    }
    fills.push(Arc::clone(&fill));
    Some(fill)
}

/// Memory charged for a fill, without the body.
pub(crate) const FILL_BYTES: u64 = 1024;

#[derive(Debug)]
pub(crate) struct FillProgress {
    pub(crate) phase: FillPhase,
    pub(crate) stream: Option<StreamedResponse>,
    pub(crate) subscriptions: Vec<Option<Subscription>>,
    pub(crate) free: Vec<usize>,
    /// The next fill of the same variant, started or joined by a follower of this one after it failed.
    next: Option<Arc<FillRecord>>,
}

#[derive(Debug)]
pub(crate) enum FillPhase {
    AwaitingHead,
    Streaming,
    /// Complete, and being inserted into the store.
    Storing,
    Done(Arc<StoredResponse>),
    Stale(Arc<StoredResponse>, Option<u16>),
    /// No head was received.
    Failed(FetchError),
    /// Waiting for the next fill would not help either.
    Released,
    Aborted,
}

/// A response whose body is being received.
#[derive(Debug)]
pub(crate) struct StreamedResponse {
    pub(crate) status: u16,
    pub(crate) lines: FieldBlock,
    pub(crate) length: Option<u64>,
    pub(crate) layout: StoredLayout,
    pub(crate) terms: ReuseTerms,
    pub(crate) groups: Vec<GroupId>,
    /// Key, variant and the body so far.
    pub(crate) bytes: Vec<u8>,
    pub(crate) charge: Charge,
    /// Body bytes removed from the front because all followers have read them; only for bodies too long to store.
    pub(crate) discarded_bytes: u64,
    pub(crate) is_storable: bool,
}

impl StreamedResponse {
    pub(crate) fn variant(&self) -> &[u8] {
        &self.bytes[self.layout.key_bytes as usize..self.layout.body_offset()]
    }

    /// Including discarded bytes.
    fn received_bytes(&self) -> u64 {
        self.discarded_bytes + (self.bytes.len() - self.layout.body_offset()) as u64
    }

    pub(crate) fn since(&self, position: u64) -> &[u8] {
        let start = self.layout.body_offset() + position.saturating_sub(self.discarded_bytes) as usize;
        self.bytes.get(start..).unwrap_or_default()
    }
}

/// A follower's read position.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) waiter: Waiter,
    pub(crate) position: u64,
    pub(crate) has_begun: bool,
    pub(crate) is_waiting: bool,
    /// The body is too long to store, and the follower fell behind its window.
    pub(crate) is_cut_off: bool,
}

impl Subscription {
    const fn new(waiter: Waiter) -> Self {
        Self { waiter, position: 0, has_begun: false, is_waiting: true, is_cut_off: false }
    }
}

impl Fill {
    pub(crate) fn new(key: &[u8], expected: &[u8], purges: u64, is_open: bool, charge: Charge) -> Arc<Self> {
        let inner = FillProgress {
            phase: FillPhase::AwaitingHead,
            stream: None,
            subscriptions: Vec::new(),
            free: Vec::new(),
            next: None,
        };
        Arc::new(Self {
            key: key.into(),
            record: Arc::new(FillRecord { expected: expected.into(), failure: OnceLock::new() }),
            purges,
            is_open: AtomicBool::new(is_open),
            is_purged: AtomicBool::new(false),
            inner: Mutex::new(inner),
            _charge: charge,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, FillProgress> {
        self.inner.lock()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// The request was sent before a purge: its response is not stored, and no request may join.
    pub(crate) fn purge(&self) {
        self.is_purged.store(true, Ordering::Release);
        self.close();
    }

    pub(crate) fn is_purged(&self) -> bool {
        self.is_purged.load(Ordering::Acquire)
    }

    /// Subscribes if the response has, or is expected to have, a matching variant.
    pub(crate) fn join(
        &self,
        request: &SavedFields,
        cookies: CookieRules<'_>,
        groups: &Groups,
        waiter: Waiter,
    ) -> Option<usize> {
        if !self.is_open() || !matches(&self.record.expected, request, cookies) {
            return None;
        }
        let mut inner = self.lock();
        let (may_join, candidate) = match (&inner.phase, &inner.stream) {
            (FillPhase::AwaitingHead | FillPhase::Storing, _) => (true, None),
            (FillPhase::Streaming, Some(stream)) => {
                (stream.is_storable && matches(stream.variant(), request, cookies), Some(stream.groups.as_slice()))
            }
            _ => (false, None),
        };
        let may_join = may_join && !groups.is_older(candidate, self.purges);
        may_join.then(|| inner.subscription(Subscription::new(waiter)))
    }

    /// Subscribes a reader that already has `position` bytes. Not to partial content: merging may move its start.
    pub(crate) fn subscribe_at(&self, position: u64, waiter: Waiter) -> Option<usize> {
        let mut inner = self.lock();
        let is_whole = |stream: &StreamedResponse| stream.is_storable && stream.status != 206;
        let may_sit = matches!(inner.phase, FillPhase::Streaming) && inner.stream.as_ref().is_some_and(is_whole);
        may_sit.then(|| inner.subscription(Subscription { position, has_begun: true, ..Subscription::new(waiter) }))
    }

    /// Records the next fill, if this one failed without a response.
    pub(crate) fn set_successor(&self, next: &Self) {
        let mut inner = self.lock();
        let is_registered = inner.next.as_ref().is_some_and(|candidate| candidate.failure.get().is_some());
        if matches!(inner.phase, FillPhase::Failed(FetchError::NoResponse(_))) && !is_registered {
            inner.next = Some(Arc::clone(&next.record));
        }
    }

    /// If this fill and its successor both failed: a subscription to this one, and the second failure. Otherwise each
    /// follower that wakes late would start another request.
    pub(crate) fn subscribe_after_two_failures(
        &self,
        request: &SavedFields,
        cookies: CookieRules<'_>,
        waiter: Waiter,
    ) -> Option<(usize, FailureInfo)> {
        let mut inner = self.lock();
        let next = inner.next.clone().filter(|next| matches(&next.expected, request, cookies))?;
        let failure = next.failure.get()?.clone();
        Some((inner.subscription(Subscription::new(waiter)), failure))
    }

    /// Called before the fill is closed, so that a request finds either an open fill or its failure.
    pub(crate) fn record_failure(&self, error: &FetchError) {
        if let FetchError::NoResponse(failure) | FetchError::Unreachable(failure) = error
            && matches!(self.lock().phase, FillPhase::AwaitingHead)
        {
            // The first failure counts.
            let _ = self.record.failure.set(Arc::clone(failure));
        }
    }

    pub(crate) fn has_followers(&self) -> bool {
        let inner = self.lock();
        inner.subscriptions.len() > inner.free.len()
    }

    /// The head was received.
    pub(crate) fn begin(&self, stream: StreamedResponse, is_shared: bool, wakes: &mut Wakes) {
        let mut inner = self.lock();
        inner.stream = Some(stream);
        inner.phase = if is_shared { FillPhase::Streaming } else { FillPhase::Released };
        inner.wake(wakes);
    }

    /// Appends to the body; its memory was reserved before.
    pub(crate) fn push(&self, bytes: &[u8], more: Option<(usize, Charge)>, wakes: &mut Wakes) {
        let mut inner = self.lock();
        let Some(stream) = &mut inner.stream else { return };
        if let Some((capacity, charge)) = more {
            stream.bytes.reserve_exact(capacity - stream.bytes.len());
            stream.charge.join(charge);
        }
        stream.bytes.extend_from_slice(bytes);
        inner.wake(wakes);
    }

    /// Appends to a body that is too long to store, of which only what current followers have not read is kept, up to
    /// the window. False if there is no follower.
    pub(crate) fn push_overlong(&self, bytes: &[u8], window_bytes: usize, wakes: &mut Wakes) -> bool {
        let mut inner = self.lock();
        inner.discard_read(bytes.len(), window_bytes, wakes);
        let is_read =
            inner.subscriptions.iter().flatten().any(|subscription| subscription.has_begun && !subscription.is_cut_off);
        match &mut inner.stream {
            Some(stream) if is_read => stream.bytes.extend_from_slice(bytes),
            _ => inner.stream = None,
        }
        inner.wake(wakes);
        is_read
    }

    /// Takes the complete response to store it. None if it was too long; its bytes stay for the followers.
    pub(crate) fn take_whole(&self) -> Option<StreamedResponse> {
        let mut inner = self.lock();
        let stream = inner.stream.take_if(|stream| stream.is_storable)?;
        if matches!(inner.phase, FillPhase::Streaming) {
            inner.phase = FillPhase::Storing;
        }
        Some(stream)
    }

    pub(crate) fn finish(&self, outcome: FillOutcome, wakes: &mut Wakes) {
        self.close();
        let mut inner = self.lock();
        inner.phase = match (outcome, &inner.phase) {
            (FillOutcome::Stored(_) | FillOutcome::Ended | FillOutcome::Failed(_), FillPhase::Released) => {
                FillPhase::Released
            }
            (FillOutcome::Stored(stored), _) => FillPhase::Done(stored),
            (FillOutcome::Stale(stored, status), _) => FillPhase::Stale(stored, status),
            (FillOutcome::Ended, _) => FillPhase::Streaming,
            (FillOutcome::Failed(error), FillPhase::AwaitingHead) => FillPhase::Failed(error),
            (FillOutcome::Failed(_), _) => FillPhase::Aborted,
            (FillOutcome::Released, _) => FillPhase::Released,
        };
        if let Some(stream) = &mut inner.stream {
            stream.length = stream.length.or(Some(stream.received_bytes()));
        }
        inner.wake(wakes);
    }
}

#[derive(Debug)]
pub(crate) enum FillOutcome {
    /// Complete, in shared memory.
    Stored(Arc<StoredResponse>),
    /// Upstream failed, with this status if it responded; a stale response may be served.
    Stale(Arc<StoredResponse>, Option<u16>),
    /// The body was too long to store and is complete.
    Ended,
    /// Not shareable.
    Released,
    /// No response, or it was aborted.
    Failed(FetchError),
}

impl FillProgress {
    fn subscription(&mut self, subscription: Subscription) -> usize {
        if let Some(index) = self.free.pop() {
            self.subscriptions[index] = Some(subscription);
            return index;
        }
        self.subscriptions.push(Some(subscription));
        self.subscriptions.len() - 1
    }

    fn wake(&mut self, wakes: &mut Wakes) {
        for subscription in self.subscriptions.iter_mut().flatten().filter(|subscription| subscription.is_waiting) {
            subscription.is_waiting = false;
            wakes.push(subscription.waiter);
        }
    }

    /// Discards what all followers have read, and cuts off those that are more than the window behind. From now on no
    /// follower can join.
    fn discard_read(&mut self, coming: usize, window_bytes: usize, wakes: &mut Wakes) {
        let Some(stream) = &mut self.stream else { return };
        stream.is_storable = false;
        let floor = (stream.received_bytes() + coming as u64).saturating_sub(window_bytes as u64);
        let readers = self
            .subscriptions
            .iter_mut()
            .flatten()
            .filter(|subscription| subscription.has_begun && !subscription.is_cut_off);
        let mut slowest = stream.received_bytes();
        for subscription in readers {
            subscription.is_cut_off = subscription.position < floor;
            if !subscription.is_cut_off {
                slowest = slowest.min(subscription.position);
            }
        }
        let read = slowest.saturating_sub(stream.discarded_bytes) as usize;
        let start = stream.layout.body_offset();
        stream.bytes.drain(start..start + read);
        stream.discarded_bytes += read as u64;
        self.wake(wakes);
    }
}
