//! What is asked upstream, and what its answer does to the store.
//!
//! Every request that is not answered out of the store has one of these, whatever its method. It is told what comes
//! back and says what the client gets: upstream's answer, or something else instead.

mod collecting;
mod judging;

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::FieldBlock;

use crate::asking::{Fault, Moment, ResponseHead, Waiter, Wakes};
use crate::cache::Cache;
use crate::filling::{FillState, Outcome, Shard};
use crate::key::Key;
use crate::pending::AskedFor;
use crate::status::{CacheStatus, Forwarded};
use crate::store::Stored;
use crate::{Answer, Follower, invalidation};

/// A client that leaves does not end the fetching of an answer of which no more than this is missing.
const WORTH_FINISHING_BYTES: u64 = 256 * 1024;
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
    /// GET, HEAD or POST.
    Fetch(Box<Fetch>),
}

/// What is fetched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
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
    role: Role,
    asked: Box<AskedFor>,
    /// What is stored and may not be used as it is.
    stale: Option<Arc<Stored>>,
    /// Present until it is finished.
    fill: Option<Arc<FillState>>,
    has_head: bool,
    /// What the answer varies with, if it may be stored.
    names: Vec<Vec<u8>>,
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
        let fetch = Fetch {
            cache: Arc::clone(cache),
            role,
            asked,
            stale,
            fill,
            has_head: false,
            names: Vec::new(),
            filled: None,
        };
        Self { work: Work::Fetch(Box::new(fetch)), conditions, report }
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
    pub const fn report(&self) -> CacheStatus {
        self.report
    }

    /// One who reads on what this fetches from where its content is now, at a pace of its own; `waiter` is woken when
    /// there is more. None if it is not certain that all of it will be there to read: if it is not for the store and
    /// for others, or of unknown length, which may grow too long.
    #[must_use]
    pub fn reader(&self, waiter: Waiter) -> Option<Follower> {
        let Work::Fetch(fetch) = &self.work else { return None };
        let (Role::Get, Some(fill), Some(filled)) = (fetch.role, &fetch.fill, fetch.filled) else { return None };
        filled.length?;
        let seat = fill.seat_inside(filled.bytes, waiter)?;
        Some(Follower::new(&fetch.cache, fill, seat, fetch.asked.clone(), self.report, Instant::FAR))
    }

    /// What others may wait for; none if it is for nobody else.
    pub(crate) fn fill(&self) -> Option<&Arc<FillState>> {
        match &self.work {
            Work::Fetch(fetch) => fetch.fill.as_ref().filter(|fill| fill.is_open()),
            Work::Pass | Work::Unsafe { .. } => None,
        }
    }

    /// The head of the final answer has come.
    pub fn handle_head(&mut self, moment: Moment, head: &ResponseHead<'_, '_>, wakes: &mut Wakes) -> Verdict {
        let has_conditions = self.conditions.is_some();
        match &mut self.work {
            Work::Pass => Verdict::Relay,
            Work::Unsafe { cache, key } => {
                invalidation::after(cache, key, head, None);
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

    /// There is no answer, or it broke off. Before its head, what comes back may be given to the client instead of an
    /// error.
    pub fn handle_failure(mut self, moment: Moment, fault: Fault, wakes: &mut Wakes) -> Option<Answer> {
        match &mut self.work {
            Work::Fetch(fetch) => fetch.handle_failure(moment, self.report, fault, wakes),
            _ => None,
        }
    }

    /// Whether to go on although the client has gone: others read what comes, or little is missing for the store. If
    /// not: `handle_failure`.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let Work::Fetch(fetch) = &self.work else { return false };
        let is_almost_there = |filled: Filled| {
            filled.length.is_some_and(|length| length.saturating_sub(filled.bytes) <= WORTH_FINISHING_BYTES)
        };
        let is_followed = |fill: &Arc<FillState>| fill.has_followers() || fetch.filled.is_some_and(is_almost_there);
        fetch.fill.as_ref().is_some_and(is_followed)
    }
}
impl Fetch {
    fn handle_failure(
        &mut self,
        moment: Moment,
        report: CacheStatus,
        fault: Fault,
        wakes: &mut Wakes,
    ) -> Option<Answer> {
        let answer = if self.has_head { None } else { self.stale_answer(moment, None, report, wakes) };
        // Where this client has its own wishes, there may be something stale for the others.
        let fault = if self.asked.directives.restricts() { Fault::Own } else { fault };
        self.finish(Outcome::Failed(fault), wakes);
        answer
    }

    /// The fill is over, one way or another. The first word counts.
    fn finish(&mut self, outcome: Outcome, wakes: &mut Wakes) {
        if let (Some(fill), Outcome::Failed(fault)) = (&self.fill, &outcome) {
            fill.tell_fate(fault);
        }
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
        self.finish(Outcome::Failed(Fault::Own), &mut Wakes::new());
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
