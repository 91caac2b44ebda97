//! Answers that are being fetched, and the requests that wait for them (RFC 9111, 4: collapsed requests).
//!
//! The first request for something that is not stored asks upstream and fills; those that come meanwhile follow.
//! Nothing polls: who has read all that there is sleeps, and the fill wakes it with the next piece. When it turns out
//! that the answer is not for everyone, all are let go in that moment.
//!
//! ```text
//!             ┌─ Streaming ─── Settling ─── Done        in the store, or at least whole
//!   Asking ───┤      └──────── Broken      broke off; who has not begun asks again
//!             ├─ Stale                     upstream failed; an older response may be served
//!             ├─ Failed                    there is no answer; the fault says for whom
//!             └─ Released                  not for everyone: each asks for itself
//! ```
//!
//! Locks: whoever holds a shard may lock a fill, never the reverse.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use breme_http1::FieldBlock;

use crate::fields::SavedFields;
use crate::groups::{GroupId, Groups};
use crate::request::{FailureInfo, FetchError, Waiter, Wakes};
use crate::store::{self, Charge, ReuseTerms, StoredLayout, StoredResponse};
use crate::vary::{CookieRules, matches};

/// Answers that are being fetched for the keys of a shard, by the hashes of these.
pub(crate) type Fills = HashMap<u64, Vec<Arc<Fill>>>;
/// A shard of the store with what is being fetched for it.
pub(crate) type Shard = store::Shard<Fills>;

/// What the requests for one key share while its answer is being fetched.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) key: Box<[u8]>,
    record: Arc<FillRecord>,
    /// Purges of groups that had been when it began.
    pub(crate) purges: u64,
    is_open: AtomicBool,
    is_purged: AtomicBool,
    inner: Mutex<FillProgress>,
    /// What this itself costs.
    _charge: Charge,
}

/// What is left of a fill when it is over, for those who waited for the one before it and learn late that they waited
/// in vain.
#[derive(Debug)]
struct FillRecord {
    /// The variant that the answer is expected to be, by what is known of earlier ones; empty: nothing is known.
    expected: Box<[u8]>,
    /// There is no answer, and what is said of that to all. Known before the fill is closed.
    failure: OnceLock<FailureInfo>,
}

/// Answers to one key that are noted while they are fetched; more are passed on. Each of them is looked at by all that
/// comes for the key.
const KEY_FILLS_MAX: usize = 256;

/// Notes that an answer is being fetched, so that purges find it, and those who may follow. None if there are too many.
pub(crate) fn register(shard: &mut Shard, key_hash: u64, fill: Arc<Fill>) -> Option<Arc<Fill>> {
    let fills = shard.fills.entry(key_hash).or_default();
    if fills.len() >= KEY_FILLS_MAX {
        return None;
    }
    fills.push(Arc::clone(&fill));
    Some(fill)
}

/// What a fill costs beside the content that it collects.
pub(crate) const FILL_BYTES: u64 = 1024;

/// How far it has come, and who follows.
#[derive(Debug)]
pub(crate) struct FillProgress {
    pub(crate) phase: FillPhase,
    pub(crate) stream: Option<StreamedResponse>,
    pub(crate) subscriptions: Vec<Option<Subscription>>,
    pub(crate) free: Vec<usize>,
    /// The next fill for the same, which one of those began or joined who waited for this one in vain.
    next: Option<Arc<FillRecord>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) enum FillPhase {
    AwaitingHead,
    Streaming,
    /// Whole, and being put into the store.
    Storing,
    Done(Arc<StoredResponse>),
    Stale(Arc<StoredResponse>, Option<u16>),
    /// No head has come.
    Failed(FetchError),
    /// It is of no use to wait for the next one either.
    Released,
    Aborted,
}

/// A response whose content is coming.
#[derive(Debug)]
pub(crate) struct StreamedResponse {
    pub(crate) status: u16,
    pub(crate) lines: FieldBlock,
    pub(crate) length: Option<u64>,
    pub(crate) layout: StoredLayout,
    pub(crate) terms: ReuseTerms,
    pub(crate) groups: Vec<GroupId>,
    /// Key, variant and what has come of the content.
    pub(crate) bytes: Vec<u8>,
    pub(crate) charge: Charge,
    /// Bytes of the content that everybody has read and that are gone, once it was too long to be stored.
    pub(crate) discarded_bytes: u64,
    pub(crate) is_storable: bool,
}

impl StreamedResponse {
    pub(crate) fn variant(&self) -> &[u8] {
        &self.bytes[self.layout.key_bytes as usize..self.layout.content_at()]
    }

    /// What has come, whether it is still here or not.
    fn received_bytes(&self) -> u64 {
        self.discarded_bytes + (self.bytes.len() - self.layout.content_at()) as u64
    }

    pub(crate) fn since(&self, position: u64) -> &[u8] {
        let start = self.layout.content_at() + position.saturating_sub(self.discarded_bytes) as usize;
        self.bytes.get(start..).unwrap_or_default()
    }
}

/// A follower's place.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) waiter: Waiter,
    pub(crate) position: u64,
    pub(crate) has_begun: bool,
    pub(crate) is_waiting: bool,
    /// It was too slow for content that is too long.
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
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// The answer was asked for before a purge: it will not be stored, and nobody may join.
    pub(crate) fn purge(&self) {
        self.is_purged.store(true, Ordering::Release);
        self.close();
    }

    pub(crate) fn is_purged(&self) -> bool {
        self.is_purged.load(Ordering::Acquire)
    }

    /// Takes a seat, if the answer is, or is expected to be, one for this request.
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
        let (may_join, known) = match (&inner.phase, &inner.stream) {
            (FillPhase::AwaitingHead | FillPhase::Storing, _) => (true, None),
            (FillPhase::Streaming, Some(stream)) => {
                (stream.is_storable && matches(stream.variant(), request, cookies), Some(stream.groups.as_slice()))
            }
            _ => (false, None),
        };
        let may_join = may_join && !groups.is_older(known, self.purges);
        may_join.then(|| inner.subscription(Subscription::new(waiter)))
    }

    /// A seat for one who has had so much of the content. A part may be joined to another one when it is whole, and
    /// begin elsewhere then.
    pub(crate) fn subscribe_at(&self, position: u64, waiter: Waiter) -> Option<usize> {
        let mut inner = self.lock();
        let is_whole = |stream: &StreamedResponse| stream.is_storable && stream.status != 206;
        let may_sit = matches!(inner.phase, FillPhase::Streaming) && inner.stream.as_ref().is_some_and(is_whole);
        may_sit.then(|| inner.subscription(Subscription { position, has_begun: true, ..Subscription::new(waiter) }))
    }

    /// Notes who comes next, if this one got no answer.
    pub(crate) fn set_successor(&self, next: &Self) {
        let mut inner = self.lock();
        let is_known = inner.next.as_ref().is_some_and(|known| known.failure.get().is_some());
        if matches!(inner.phase, FillPhase::Failed(FetchError::NoResponse(_))) && !is_known {
            inner.next = Some(Arc::clone(&next.record));
        }
    }

    /// What those were told who waited for this one and for the next, if both got no answer; with a seat here. Who
    /// learns of the first failure after the second has waited for both: without that each late one would ask again.
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

    /// There will be no answer: said before the fill is closed, so that nobody finds neither an open fill nor what
    /// became of it.
    pub(crate) fn record_failure(&self, fault: &FetchError) {
        if let FetchError::NoResponse(failure) | FetchError::Unreachable(failure) = fault
            && matches!(self.lock().phase, FillPhase::AwaitingHead)
        {
            // The first word counts.
            let _ = self.record.failure.set(Arc::clone(failure));
        }
    }

    pub(crate) fn has_followers(&self) -> bool {
        let inner = self.lock();
        inner.subscriptions.len() > inner.free.len()
    }

    /// The head has come and may be given to all that it is for.
    pub(crate) fn begin(&self, stream: StreamedResponse, is_shared: bool, wakes: &mut Wakes) {
        let mut inner = self.lock();
        inner.stream = Some(stream);
        inner.phase = if is_shared { FillPhase::Streaming } else { FillPhase::Released };
        inner.wake(wakes);
    }

    /// A piece of content has come. Its room was made before.
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

    /// A piece of content has come that is too much to be stored. It is kept only for those who have begun to read, and
    /// only as far as the slowest of them may be behind. Tells whether there are any.
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

    /// The content is whole: takes it out to be stored. None if it was too long; then it stays for those who read it.
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
            (FillOutcome::Failed(fault), FillPhase::AwaitingHead) => FillPhase::Failed(fault),
            (FillOutcome::Failed(_), _) => FillPhase::Aborted,
            (FillOutcome::Released, _) => FillPhase::Released,
        };
        if let Some(stream) = &mut inner.stream {
            stream.length = stream.length.or(Some(stream.received_bytes()));
        }
        inner.wake(wakes);
    }
}

/// How a fill ends.
#[derive(Debug)]
pub(crate) enum FillOutcome {
    /// It is whole, and shared memory.
    Stored(Arc<StoredResponse>),
    /// Upstream failed, perhaps with this status, and this may be served.
    Stale(Arc<StoredResponse>, Option<u16>),
    /// It was too long to be stored and has ended.
    Ended,
    /// Not for everyone.
    Released,
    /// There is no answer, or it broke off.
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

    /// Forgets what all have read; who is too far behind to wait for is cut off. Nobody else may begin.
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
        let start = stream.layout.content_at();
        stream.bytes.drain(start..start + read);
        stream.discarded_bytes += read as u64;
        self.wake(wakes);
    }
}
