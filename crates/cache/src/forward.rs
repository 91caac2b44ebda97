//! What is asked upstream, and what its answer does to the store.
//!
//! Every request that is not answered out of the store has one of these, whatever its method. It is told what comes back and says what the client
//! gets: upstream's answer, or something else instead.

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::FieldBlock;

use crate::asking::{Moment, ResponseHead, Wakes};
use crate::cache::{AskedFor, Cache};
use crate::filling::{FillState, Outcome, Stream, look};
use crate::freshness::Times;
use crate::key::Key;
use crate::selecting::{self, Cookies};
use crate::status::{CacheStatus, Forwarded};
use crate::store::{Charge, Layout, Shard, Stored, Terms};
use crate::storing::{Judgement, Refusal, judge, stored_lines};
use crate::validation::{agrees, freshened};
use crate::{Answer, invalidation};

/// Room that is made at first for content of unknown length; it doubles then.
const ROOM_BYTES: usize = 16 * 1024;
/// A client that leaves does not end the fetching of an answer of which no more than this is missing.
const WORTH_FINISHING_BYTES: u64 = 256 * 1024;
/// While the memory is all in use, responses of this part of it are taken in once in e times; smaller ones more often (Berger et al., "AdaptSize",
/// NSDI 2017).
const ADMISSION_SHARE: u64 = 128;

/// A request that goes upstream.
#[derive(Debug)]
pub struct Forward {
    work: Work,
    conditions: Option<FieldBlock>,
    report: CacheStatus,
}

#[derive(Debug)]
enum Work {
    /// Nothing: the answer is passed on.
    Pass,
    /// It changes something: a good answer makes stored ones invalid.
    Unsafe { cache: Arc<Cache>, key: Box<Key> },
    /// GET or HEAD.
    Fetch(Box<Fetch>),
}

/// What is fetched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// To be stored.
    Get,
    /// What is stored may be freshened.
    Head,
}

#[derive(Debug)]
struct Fetch {
    cache: Arc<Cache>,
    role: Role,
    asked: Box<AskedFor>,
    /// What is stored and may not be used as it is.
    stale: Option<Arc<Stored>>,
    /// Present until it is finished.
    fill: Option<Arc<FillState>>,
    has_head: bool,
    filled: Option<Filled>,
}

/// How far the content has come.
#[derive(Clone, Copy, Debug)]
struct Filled {
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
pub enum Verdict {
    /// Upstream's answer.
    Relay,
    /// This instead. Upstream's content is of no use to anybody.
    Instead(Box<Answer>),
}

impl Forward {
    pub(crate) const fn pass(why: Forwarded) -> Self {
        Self { work: Work::Pass, conditions: None, report: CacheStatus::forwarded(why) }
    }

    pub(crate) fn unsafe_method(cache: &Arc<Cache>, key: Key, why: Forwarded) -> Self {
        let work = Work::Unsafe { cache: Arc::clone(cache), key: Box::new(key) };
        Self { work, conditions: None, report: CacheStatus::forwarded(why) }
    }

    pub(crate) fn new(
        cache: &Arc<Cache>,
        role: Role,
        asked: Box<AskedFor>,
        conditions: Option<FieldBlock>,
        stale: Option<Arc<Stored>>,
        fill: Option<Arc<FillState>>,
        report: CacheStatus,
    ) -> Self {
        let fetch = Fetch { cache: Arc::clone(cache), role, asked, stale, fill, has_head: false, filled: None };
        Self { work: Work::Fetch(Box::new(fetch)), conditions, report }
    }

    /// If present, the client's own conditions and ranges (If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, If-Range, Range) are not
    /// sent upstream, and these lines are. If not, the request goes as it came.
    #[must_use]
    pub const fn conditions(&self) -> Option<&FieldBlock> {
        self.conditions.as_ref()
    }

    /// What the cache says of an answer that is relayed. Known when [`handle_head`](Self::handle_head) was called.
    #[must_use]
    pub const fn report(&self) -> CacheStatus {
        self.report
    }

    /// The head of the final answer has come.
    pub fn handle_head(&mut self, moment: Moment, head: &ResponseHead<'_, '_>, wakes: &mut Wakes) -> Verdict {
        let has_conditions = self.conditions.is_some();
        match &mut self.work {
            Work::Pass => Verdict::Relay,
            Work::Unsafe { cache, key } => {
                invalidation::after(cache, key, head);
                Verdict::Relay
            }
            Work::Fetch(fetch) => {
                fetch.has_head = true;
                match fetch.handle_head(moment, head, has_conditions, &mut self.report, wakes) {
                    Some(answer) => Verdict::Instead(Box::new(answer)),
                    None => Verdict::Relay,
                }
            }
        }
    }

    /// Whether the content is to be given to [`handle_content`](Self::handle_content) as it comes.
    #[must_use]
    pub fn wants_content(&self) -> bool {
        matches!(&self.work, Work::Fetch(fetch) if fetch.fill.is_some() && fetch.filled.is_some())
    }

    /// A piece of the content has come.
    pub fn handle_content(&mut self, bytes: &[u8], wakes: &mut Wakes) {
        if let Work::Fetch(fetch) = &mut self.work {
            fetch.handle_content(bytes, wakes);
        }
    }

    /// The answer is complete.
    pub fn handle_end(mut self, wakes: &mut Wakes) {
        if let Work::Fetch(fetch) = &mut self.work {
            fetch.handle_end(wakes);
        }
    }

    /// There is no answer, or it broke off. Before its head, what comes back may be given to the client instead of an error.
    pub fn handle_failure(mut self, moment: Moment, wakes: &mut Wakes) -> Option<Answer> {
        match &mut self.work {
            Work::Fetch(fetch) => fetch.handle_failure(moment, self.report, wakes),
            _ => None,
        }
    }

    /// Whether to go on although the client has gone: others read what comes, or little is missing for the store. If not: `handle_failure`.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let Work::Fetch(fetch) = &self.work else { return false };
        let is_almost_there = |filled: Filled| filled.length.is_some_and(|length| length.saturating_sub(filled.bytes) <= WORTH_FINISHING_BYTES);
        let is_followed = |fill: &Arc<FillState>| fill.has_followers() || fetch.filled.is_some_and(is_almost_there);
        fetch.fill.as_ref().is_some_and(is_followed)
    }
}

impl Fetch {
    /// What the client gets instead of upstream's answer, if anything.
    fn handle_head(
        &mut self,
        moment: Moment,
        head: &ResponseHead<'_, '_>,
        has_conditions: bool,
        report: &mut CacheStatus,
        wakes: &mut Wakes,
    ) -> Option<Answer> {
        if self.role == Role::Head {
            self.freshen_by_head(moment, head);
            return None;
        }
        if head.status == 304 && has_conditions && let Some(stale) = self.stale.clone() {
            return Some(self.validated(&stale, moment, head, *report, wakes));
        }
        if head.status >= 500 && let Some(answer) = self.stale_answer(moment, Some(head.status), *report, wakes) {
            return Some(answer);
        }
        let settings = self.cache.settings();
        let times = Times { asked: self.asked.at, received: moment };
        let judgement = judge(self.asked.traits, head.status, &head.fields, times, settings, &mut self.cache.random());
        let refusal = match judgement {
            Judgement::Store { .. } if head.status >= 500 && self.has_better(moment.now) => Refusal { is_lasting: false, names: Vec::new() },
            Judgement::Store { terms, names } => match self.begin(terms, names, head, wakes) {
                Ok(()) => {
                    report.stored = true;
                    return None;
                }
                Err(refusal) => refusal,
            },
            Judgement::Refuse(refusal) => refusal,
        };
        self.refuse(refusal, moment.now, head.status, wakes);
        None
    }

    /// Upstream says that what is stored is still right (RFC 9111, 4.3.4).
    fn validated(&mut self, stale: &Arc<Stored>, moment: Moment, head: &ResponseHead<'_, '_>, report: CacheStatus, wakes: &mut Wakes) -> Answer {
        let (stored, is_stored) = self.freshen(stale, moment, head);
        let outcome = if stored.is_fresh(moment.now) { Outcome::Done(Arc::clone(&stored)) } else { Outcome::Released };
        self.finish(outcome, wakes);
        let report = CacheStatus { forwarded_status: Some(304), ttl_s: Some(stored.ttl_s(moment.now)), stored: is_stored, ..report };
        Answer::of(&stored, &self.asked.kept, look(&self.asked, moment, self.cache.settings()), report)
    }

    /// Puts the same content with new lines in the place of the old, unless that has gone meanwhile. What may no longer be stored goes, and is given to
    /// this client only.
    fn freshen(&self, stale: &Arc<Stored>, moment: Moment, head: &ResponseHead<'_, '_>) -> (Arc<Stored>, bool) {
        let lines = freshened(stale.block(), head.fields);
        let times = Times { asked: self.asked.at, received: moment };
        let judgement = judge(self.asked.traits, stale.status(), &lines, times, self.cache.settings(), &mut self.cache.random());
        let terms = match &judgement {
            Judgement::Store { terms, .. } => *terms,
            Judgement::Refuse(_) => Terms { received: moment.now, ..Terms::default() },
        };
        let fresh = Arc::new(Stored::new(stale.status(), lines, stale.shared_bytes(), stale.layout(), terms));
        if matches!(judgement, Judgement::Refuse(_)) {
            self.remove(stale);
            return (fresh, false);
        }
        let store = &self.cache.store;
        let Some(charge) = store.reserve(fresh.cost_bytes()) else { return (fresh, false) };
        let fill = self.fill.as_ref();
        let purges = fill.map_or_else(|| store.groups.purges(), |fill| fill.purges);
        let may_stay = |_: &mut Shard| !stale.is_gone() && !fill.is_some_and(|fill| fill.is_purged());
        let is_stored = store.insert(self.asked.hash, Arc::clone(&fresh), charge, purges, may_stay);
        (fresh, is_stored)
    }

    /// RFC 9111, 4.3.5: an answer to HEAD freshens what it agrees with, and what it does not agree with is out of date.
    fn freshen_by_head(&self, moment: Moment, head: &ResponseHead<'_, '_>) {
        let Some(stale) = &self.stale else { return };
        if head.status != 200 || stale.status() != 200 || self.asked.traits.no_store {
            return;
        }
        if agrees(stale.block(), stale.content_bytes(), head.fields) {
            let _ = self.freshen(stale, moment, head);
        } else {
            stale.make_stale(moment.now);
        }
    }

    /// A stale response in the place of an error, if that is allowed for so long (RFC 5861, 4; RFC 9111, 4.2.4).
    fn stale_answer(&mut self, moment: Moment, status: Option<u16>, report: CacheStatus, wakes: &mut Wakes) -> Option<Answer> {
        let stale = self.stale.clone().filter(|stale| self.may_serve(stale, moment.now, status))?;
        self.finish(Outcome::Stale(Arc::clone(&stale), status), wakes);
        let report = CacheStatus { forwarded_status: status, ttl_s: Some(stale.ttl_s(moment.now)), detail: Some("upstream-failed"), ..report };
        Some(Answer::of(&stale, &self.asked.kept, look(&self.asked, moment, self.cache.settings()), report))
    }

    /// What the request and the response say goes; where neither does, the settings speak, for failures that say that upstream cannot be reached.
    fn may_serve(&self, stale: &Stored, now: Instant, status: Option<u16>) -> bool {
        let directives = self.asked.directives;
        if directives.no_cache || directives.max_age_s.is_some() || directives.min_fresh_s.is_some() || directives.no_store {
            return false;
        }
        let stale_for_s = -stale.ttl_s(now);
        let lasts = |seconds: u32| stale_for_s <= i64::from(seconds);
        let is_error = matches!(status, None | Some(500 | 502 | 503 | 504));
        match (stale.stale_if_error_s(), directives.stale_if_error_s) {
            (Some(response), _) => is_error && lasts(response),
            (None, _) if stale.forbids_stale() => false,
            (None, Some(request)) => is_error && lasts(request),
            (None, None) => {
                let grace_s = u32::try_from(self.cache.settings().stale_on_failure.as_secs()).unwrap_or(u32::MAX);
                matches!(status, None | Some(502..=504)) && lasts(grace_s)
            }
        }
    }

    /// Whether something is stored that is worth more than an error.
    fn has_better(&self, now: Instant) -> bool {
        let grace_ns = i64::try_from(self.cache.settings().stale_on_failure.as_nanos()).unwrap_or(i64::MAX);
        let is_better = |stored: &Arc<Stored>| {
            !stored.is_pass() && stored.status() < 500 && stored.fresh_for_ns(now) > if stored.forbids_stale() { 0 } else { -grace_ns }
        };
        let shard = self.cache.store.read(self.asked.hash);
        shard.variants(self.asked.hash.place, self.asked.key.as_slice()).any(is_better)
    }

    /// Begins to collect an answer that may be stored.
    fn begin(&mut self, terms: Terms, names: Vec<Vec<u8>>, head: &ResponseHead<'_, '_>, wakes: &mut Wakes) -> Result<(), Refusal> {
        let settings = self.cache.settings();
        let passing = Refusal { is_lasting: false, names: Vec::new() };
        let Some(fill) = self.fill.clone() else { return Err(passing) };
        let object_bytes_max = settings.object_bytes_max.min(settings.memory_bytes / 4);
        if head.length.is_some_and(|length| length > object_bytes_max) {
            return Err(Refusal { is_lasting: true, names });
        }
        let variant = selecting::variant(&names, &self.asked.kept, Cookies::new(settings));
        let lead: Vec<u8> = [self.asked.key.as_slice(), variant.as_slice()].concat();
        let layout = Layout { key_bytes: self.asked.key.as_slice().len() as u32, variant_bytes: variant.as_slice().len() as u32 };
        let lines = stored_lines(head);
        let content_room = head.length.map_or(ROOM_BYTES, |length| length as usize);
        let capacity = lead.len() + content_room;
        let cost = Stored::cost_of(capacity, lines.as_bytes().len());
        if !self.is_admitted(cost, &fill) {
            return Err(passing);
        }
        let Some(charge) = self.cache.store.reserve(cost) else { return Err(passing) };
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&lead);
        let is_shared = terms.fresh_for_s > 0 && fill.is_open();
        if !is_shared {
            fill.close();
        }
        self.filled = Some(Filled { length: head.length, bytes: 0, lead_bytes: lead.len(), capacity, is_overlong: false });
        let groups = if terms.has_groups { self.cache.store.groups.ids(self.asked.key.as_slice(), &lines) } else { Vec::new() };
        let ResponseHead { status, length, .. } = *head;
        let stream = Stream { status, lines, length, layout, terms, groups, bytes, charge, dropped: 0, is_storable: true };
        fill.begin(stream, is_shared, wakes);
        Ok(())
    }

    /// While there is room everything comes in. When something else has to go for it: small ones, what others wait for, and what came back soon after it
    /// had gone.
    fn is_admitted(&self, cost: u64, fill: &FillState) -> bool {
        let store = &self.cache.store;
        if !store.is_full(cost) || fill.has_followers() || self.stale.is_some() {
            return true;
        }
        let scale = (store.budget.max() / ADMISSION_SHARE).max(1);
        let probability = (-(cost as f64) / scale as f64).exp();
        self.cache.random().chance(probability) || store.write(self.asked.hash).is_remembered(self.asked.hash.place)
    }

    /// The answer is not for the store: those who wait are let go, and if the next answers will not be for it either, nobody waits for them.
    fn refuse(&mut self, refusal: Refusal, now: Instant, status: u16, wakes: &mut Wakes) {
        let is_for_all = !self.asked.traits.has_authorization && !self.asked.traits.no_store && self.asked.is_plain();
        if refusal.is_lasting && is_for_all {
            self.mark(&refusal.names, now);
        } else if status < 500 && status != 304 && status != 206 && !self.asked.traits.no_store && let Some(stale) = &self.stale {
            self.remove(stale);
        }
        self.finish(Outcome::Released, wakes);
    }

    /// Notes that what is asked for here is to be passed on for a while, in the place of what was stored.
    fn mark(&self, names: &[Vec<u8>], now: Instant) {
        let settings = self.cache.settings();
        let variant = selecting::variant(names, &self.asked.kept, Cookies::new(settings));
        let key = self.asked.key.as_slice();
        let layout = Layout { key_bytes: key.len() as u32, variant_bytes: variant.as_slice().len() as u32 };
        let fresh_for_s = i64::try_from(settings.pass_for.as_secs()).unwrap_or(i64::MAX);
        let terms = Terms { received: now, fresh_for_s, is_pass: true, ..Terms::default() };
        let bytes = [key, variant.as_slice()].concat().into();
        let marker = Arc::new(Stored::new(0, FieldBlock::new(), bytes, layout, terms));
        if let Some(stale) = &self.stale {
            self.remove(stale);
        }
        let store = &self.cache.store;
        if let (Some(charge), Some(fill)) = (store.reserve(marker.cost_bytes()), &self.fill) {
            store.insert(self.asked.hash, marker, charge, fill.purges, |_| !fill.is_purged());
        }
    }

    fn remove(&self, stored: &Arc<Stored>) {
        let store = &self.cache.store;
        let mut shard = store.write(self.asked.hash);
        store.remove_from(&mut shard, self.asked.hash.place, self.asked.key.as_slice(), |other| std::ptr::eq(other, &raw const **stored));
    }

    fn handle_content(&mut self, bytes: &[u8], wakes: &mut Wakes) {
        let (Some(fill), Some(filled)) = (self.fill.clone(), &mut self.filled) else { return };
        if bytes.is_empty() {
            return;
        }
        filled.bytes += bytes.len() as u64;
        let settings = self.cache.settings();
        let window_bytes = settings.overlong_window_bytes;
        let object_bytes_max = settings.object_bytes_max.min(settings.memory_bytes / 4);
        if !filled.is_overlong {
            match room(filled, object_bytes_max, |bytes| self.cache.store.reserve(bytes)) {
                Ok(more) => return fill.push(bytes, more, wakes),
                Err(TooLong) => {
                    filled.is_overlong = true;
                    let now = self.asked.at;
                    self.mark(&[], now);
                    self.leave_shard();
                }
            }
        }
        if !fill.push_overlong(bytes, window_bytes, wakes) {
            self.finish(Outcome::Failed, wakes);
        }
    }

    fn handle_end(&mut self, wakes: &mut Wakes) {
        let Some(fill) = self.fill.clone() else { return };
        let is_whole = self.filled.is_some_and(|filled| filled.length.is_none_or(|length| length == filled.bytes));
        if !is_whole {
            return self.finish(Outcome::Failed, wakes);
        }
        let outcome = match fill.take_whole() {
            Some(stream) => Outcome::Done(self.store(stream, &fill)),
            None => Outcome::Ended,
        };
        self.finish(outcome, wakes);
    }

    /// Puts a whole answer into the store, unless there was a purge meanwhile. Those who wait for it get it in any case: they asked before.
    fn store(&self, stream: Stream, fill: &Arc<FillState>) -> Arc<Stored> {
        let Stream { status, lines, layout, terms, mut bytes, charge, .. } = stream;
        bytes.shrink_to_fit();
        let stored = Arc::new(Stored::new(status, lines, bytes.into(), layout, terms));
        self.cache.store.insert(self.asked.hash, Arc::clone(&stored), charge, fill.purges, |shard| {
            leave(shard, self.asked.hash.place, fill);
            !fill.is_purged()
        });
        stored
    }

    fn handle_failure(&mut self, moment: Moment, report: CacheStatus, wakes: &mut Wakes) -> Option<Answer> {
        let answer = if self.has_head { None } else { self.stale_answer(moment, None, report, wakes) };
        self.finish(Outcome::Failed, wakes);
        answer
    }

    /// The fill is over, one way or another. The first word counts.
    fn finish(&mut self, outcome: Outcome, wakes: &mut Wakes) {
        self.leave_shard();
        if let Some(fill) = self.fill.take() {
            fill.finish(outcome, wakes);
        }
    }

    /// Nobody finds the fill any more.
    fn leave_shard(&self) {
        if let Some(fill) = &self.fill {
            fill.close();
            leave(&mut self.cache.store.write(self.asked.hash), self.asked.hash.place, fill);
        }
    }
}

/// Who forgets to say how it ended has failed. Nobody is woken then: those who wait find out at their deadlines.
impl Drop for Fetch {
    fn drop(&mut self) {
        self.finish(Outcome::Failed, &mut Wakes::new());
    }
}

fn leave(shard: &mut Shard, place: u64, fill: &Arc<FillState>) {
    if let Some(fills) = shard.fills.get_mut(&place) {
        fills.retain(|other| !Arc::ptr_eq(other, fill));
        if fills.is_empty() {
            shard.fills.remove(&place);
        }
    }
}

struct TooLong;

/// Room for what has come. Of known length, all of it was reserved at once; of unknown length, it doubles.
fn room(filled: &mut Filled, object_bytes_max: u64, reserve: impl FnOnce(u64) -> Option<Charge>) -> Result<Option<(usize, Charge)>, TooLong> {
    let needed = filled.lead_bytes + filled.bytes as usize;
    let is_too_long = filled.bytes > filled.length.unwrap_or(object_bytes_max);
    if is_too_long {
        return Err(TooLong);
    }
    if needed <= filled.capacity {
        return Ok(None);
    }
    let capacity = needed.max(filled.capacity * 2);
    let charge = reserve((capacity - filled.capacity) as u64).ok_or(TooLong)?;
    filled.capacity = capacity;
    Ok(Some((capacity, charge)))
}
