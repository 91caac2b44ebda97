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

use crate::asking::{Fault, Told, Waiter, Wakes};
use crate::fields::Kept;
use crate::groups::{GroupId, Groups};
use crate::selecting::{Cookies, matches};
use crate::store::{self, Charge, Layout, Stored, Terms};

/// Answers that are being fetched for the keys of a shard, by the hashes of these.
pub(crate) type Fills = HashMap<u64, Vec<Arc<FillState>>>;
/// A shard of the store with what is being fetched for it.
pub(crate) type Shard = store::Shard<Fills>;

/// What the requests for one key share while its answer is being fetched.
#[derive(Debug)]
pub(crate) struct FillState {
    pub(crate) key: Box<[u8]>,
    fate: Arc<Fate>,
    /// Purges of groups that had been when it began.
    pub(crate) purges: u64,
    is_open: AtomicBool,
    is_purged: AtomicBool,
    inner: Mutex<Inner>,
    /// What this itself costs.
    _charge: Charge,
}

/// What is left of a fill when it is over, for those who waited for the one before it and learn late that they waited
/// in vain.
#[derive(Debug)]
struct Fate {
    /// The variant that the answer is expected to be, by what is known of earlier ones; empty: nothing is known.
    expected: Box<[u8]>,
    /// There is no answer, and what is said of that to all. Known before the fill is closed.
    told: OnceLock<Told>,
}

/// Answers to one key that are noted while they are fetched; more are passed on. Each of them is looked at by all that
/// comes for the key.
const KEY_FILLS_MAX: usize = 256;

/// Notes that an answer is being fetched, so that purges find it, and those who may follow. None if there are too many.
pub(crate) fn note(shard: &mut Shard, place: u64, fill: Arc<FillState>) -> Option<Arc<FillState>> {
    let fills = shard.fills.entry(place).or_default();
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
pub(crate) struct Inner {
    pub(crate) phase: Phase,
    pub(crate) stream: Option<Stream>,
    pub(crate) seats: Vec<Option<Seat>>,
    pub(crate) free: Vec<usize>,
    /// The next fill for the same, which one of those began or joined who waited for this one in vain.
    next: Option<Arc<Fate>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) enum Phase {
    Asking,
    Streaming,
    /// Whole, and being put into the store.
    Settling,
    Done(Arc<Stored>),
    Stale(Arc<Stored>, Option<u16>),
    /// No head has come.
    Failed(Fault),
    /// It is of no use to wait for the next one either.
    Released,
    Broken,
}

/// A response whose content is coming.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) status: u16,
    pub(crate) lines: FieldBlock,
    pub(crate) length: Option<u64>,
    pub(crate) layout: Layout,
    pub(crate) terms: Terms,
    pub(crate) groups: Vec<GroupId>,
    /// Key, variant and what has come of the content.
    pub(crate) bytes: Vec<u8>,
    pub(crate) charge: Charge,
    /// Bytes of the content that everybody has read and that are gone, once it was too long to be stored.
    pub(crate) dropped: u64,
    pub(crate) is_storable: bool,
}

impl Stream {
    pub(crate) fn variant(&self) -> &[u8] {
        &self.bytes[self.layout.key_bytes as usize..self.layout.content_at()]
    }

    /// What has come, whether it is still here or not.
    fn came(&self) -> u64 {
        self.dropped + (self.bytes.len() - self.layout.content_at()) as u64
    }

    pub(crate) fn since(&self, position: u64) -> &[u8] {
        let start = self.layout.content_at() + position.saturating_sub(self.dropped) as usize;
        self.bytes.get(start..).unwrap_or_default()
    }
}

/// A follower's place.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) waiter: Waiter,
    pub(crate) position: u64,
    pub(crate) has_begun: bool,
    pub(crate) is_asleep: bool,
    /// It was too slow for content that is too long.
    pub(crate) is_cut_off: bool,
}

impl Seat {
    const fn new(waiter: Waiter) -> Self {
        Self { waiter, position: 0, has_begun: false, is_asleep: true, is_cut_off: false }
    }
}

impl FillState {
    pub(crate) fn new(key: &[u8], expected: &[u8], purges: u64, is_open: bool, charge: Charge) -> Arc<Self> {
        let inner = Inner { phase: Phase::Asking, stream: None, seats: Vec::new(), free: Vec::new(), next: None };
        Arc::new(Self {
            key: key.into(),
            fate: Arc::new(Fate { expected: expected.into(), told: OnceLock::new() }),
            purges,
            is_open: AtomicBool::new(is_open),
            is_purged: AtomicBool::new(false),
            inner: Mutex::new(inner),
            _charge: charge,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
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
    pub(crate) fn join(&self, request: &Kept, cookies: Cookies<'_>, groups: &Groups, waiter: Waiter) -> Option<usize> {
        if !self.is_open() || !matches(&self.fate.expected, request, cookies) {
            return None;
        }
        let mut inner = self.lock();
        let (may_join, known) = match (&inner.phase, &inner.stream) {
            (Phase::Asking | Phase::Settling, _) => (true, None),
            (Phase::Streaming, Some(stream)) => {
                (stream.is_storable && matches(stream.variant(), request, cookies), Some(stream.groups.as_slice()))
            }
            _ => (false, None),
        };
        let may_join = may_join && !groups.is_older(known, self.purges);
        may_join.then(|| inner.seat(Seat::new(waiter)))
    }

    /// A seat for one who has had so much of the content. A part may be joined to another one when it is whole, and
    /// begin elsewhere then.
    pub(crate) fn seat_inside(&self, position: u64, waiter: Waiter) -> Option<usize> {
        let mut inner = self.lock();
        let is_whole = |stream: &Stream| stream.is_storable && stream.status != 206;
        let may_sit = matches!(inner.phase, Phase::Streaming) && inner.stream.as_ref().is_some_and(is_whole);
        may_sit.then(|| inner.seat(Seat { position, has_begun: true, ..Seat::new(waiter) }))
    }

    /// Notes who comes next, if this one got no answer.
    pub(crate) fn note_next(&self, next: &Self) {
        let mut inner = self.lock();
        let is_known = inner.next.as_ref().is_some_and(|known| known.told.get().is_some());
        if matches!(inner.phase, Phase::Failed(Fault::Unanswered(_))) && !is_known {
            inner.next = Some(Arc::clone(&next.fate));
        }
    }

    /// What those were told who waited for this one and for the next, if both got no answer; with a seat here. Who
    /// learns of the first failure after the second has waited for both: without that each late one would ask again.
    pub(crate) fn seat_after_both(
        &self,
        request: &Kept,
        cookies: Cookies<'_>,
        waiter: Waiter,
    ) -> Option<(usize, Told)> {
        let mut inner = self.lock();
        let next = inner.next.clone().filter(|next| matches(&next.expected, request, cookies))?;
        let told = next.told.get()?.clone();
        Some((inner.seat(Seat::new(waiter)), told))
    }

    /// There will be no answer: said before the fill is closed, so that nobody finds neither an open fill nor what
    /// became of it.
    pub(crate) fn tell_fate(&self, fault: &Fault) {
        if let Fault::Unanswered(told) | Fault::Unreached(told) = fault
            && matches!(self.lock().phase, Phase::Asking)
        {
            // The first word counts.
            let _ = self.fate.told.set(Arc::clone(told));
        }
    }

    pub(crate) fn has_followers(&self) -> bool {
        let inner = self.lock();
        inner.seats.len() > inner.free.len()
    }

    /// The head has come and may be given to all that it is for.
    pub(crate) fn begin(&self, stream: Stream, is_shared: bool, wakes: &mut Wakes) {
        let mut inner = self.lock();
        inner.stream = Some(stream);
        inner.phase = if is_shared { Phase::Streaming } else { Phase::Released };
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
        inner.forget_read(bytes.len(), window_bytes, wakes);
        let is_read = inner.seats.iter().flatten().any(|seat| seat.has_begun && !seat.is_cut_off);
        match &mut inner.stream {
            Some(stream) if is_read => stream.bytes.extend_from_slice(bytes),
            _ => inner.stream = None,
        }
        inner.wake(wakes);
        is_read
    }

    /// The content is whole: takes it out to be stored. None if it was too long; then it stays for those who read it.
    pub(crate) fn take_whole(&self) -> Option<Stream> {
        let mut inner = self.lock();
        let stream = inner.stream.take_if(|stream| stream.is_storable)?;
        if matches!(inner.phase, Phase::Streaming) {
            inner.phase = Phase::Settling;
        }
        Some(stream)
    }

    pub(crate) fn finish(&self, outcome: Outcome, wakes: &mut Wakes) {
        self.close();
        let mut inner = self.lock();
        inner.phase = match (outcome, &inner.phase) {
            (Outcome::Done(_) | Outcome::Ended | Outcome::Failed(_), Phase::Released) => Phase::Released,
            (Outcome::Done(stored), _) => Phase::Done(stored),
            (Outcome::Stale(stored, status), _) => Phase::Stale(stored, status),
            (Outcome::Ended, _) => Phase::Streaming,
            (Outcome::Failed(fault), Phase::Asking) => Phase::Failed(fault),
            (Outcome::Failed(_), _) => Phase::Broken,
            (Outcome::Released, _) => Phase::Released,
        };
        if let Some(stream) = &mut inner.stream {
            stream.length = stream.length.or(Some(stream.came()));
        }
        inner.wake(wakes);
    }
}

/// How a fill ends.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is whole, and shared memory.
    Done(Arc<Stored>),
    /// Upstream failed, perhaps with this status, and this may be served.
    Stale(Arc<Stored>, Option<u16>),
    /// It was too long to be stored and has ended.
    Ended,
    /// Not for everyone.
    Released,
    /// There is no answer, or it broke off.
    Failed(Fault),
}

impl Inner {
    fn seat(&mut self, seat: Seat) -> usize {
        if let Some(index) = self.free.pop() {
            self.seats[index] = Some(seat);
            return index;
        }
        self.seats.push(Some(seat));
        self.seats.len() - 1
    }

    fn wake(&mut self, wakes: &mut Wakes) {
        for seat in self.seats.iter_mut().flatten().filter(|seat| seat.is_asleep) {
            seat.is_asleep = false;
            wakes.push(seat.waiter);
        }
    }

    /// Forgets what all have read; who is too far behind to wait for is cut off. Nobody else may begin.
    fn forget_read(&mut self, coming: usize, window_bytes: usize, wakes: &mut Wakes) {
        let Some(stream) = &mut self.stream else { return };
        stream.is_storable = false;
        let floor = (stream.came() + coming as u64).saturating_sub(window_bytes as u64);
        let readers = self.seats.iter_mut().flatten().filter(|seat| seat.has_begun && !seat.is_cut_off);
        let mut slowest = stream.came();
        for seat in readers {
            seat.is_cut_off = seat.position < floor;
            if !seat.is_cut_off {
                slowest = slowest.min(seat.position);
            }
        }
        let read = slowest.saturating_sub(stream.dropped) as usize;
        let start = stream.layout.content_at();
        stream.bytes.drain(start..start + read);
        stream.dropped += read as u64;
        self.wake(wakes);
    }
}
