//! Followers: requests that read the answer to another one, as it comes.

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::FieldBlock;
use bytes::Bytes;

use crate::Answer;
use crate::asking::{Fault, Moment, Told, Waiter};
use crate::cache::Cache;
use crate::filling::{FillState, Inner, Phase, Stream};
use crate::pending::AskedFor;
use crate::selecting::{Cookies, matches};
use crate::status::CacheStatus;
use crate::store::Terms;

/// A request that waits for the answer to another one.
#[derive(Debug)]
pub struct Follower {
    cache: Arc<Cache>,
    fill: Arc<FillState>,
    seat: usize,
    asked: Box<AskedFor>,
    report: CacheStatus,
    deadline: Instant,
    /// The next asking is to be without waiting.
    alone: bool,
    /// It has waited for two that got no answer.
    told: Option<Told>,
    /// What is left of the content, once it is whole.
    has_ended: bool,
}

/// How a request may wait for the answer to another one.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) waiter: Waiter,
    pub(crate) deadline: Instant,
    /// What it has waited for before.
    pub(crate) before: Option<Arc<FillState>>,
}

/// What a follower finds.
#[derive(Debug)]
pub enum Followed {
    /// Nothing yet. Its owner will be woken.
    Waiting,
    /// The answer is not for it: [`Follower::ask_again`].
    LetGo,
    /// There is no answer, and it is of no use to ask again.
    Failed(Told),
    /// The answer, whole.
    Answer(Box<Answer>),
    /// The answer's head; its content is to be [read](Follower::read) as it comes.
    Stream(Box<StreamedHead>),
}

/// The head of an answer whose content is coming.
#[derive(Clone, Debug)]
pub struct StreamedHead {
    /// The status code.
    pub status: u16,
    /// The prepared lines, as [`Answer::lines`].
    pub lines: FieldBlock,
    /// The length of the content, if it is known.
    pub length: Option<u64>,
    /// The value of Age.
    pub age_s: u64,
    /// What the cache did.
    pub report: CacheStatus,
}

/// What a follower reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Nothing yet. Its owner will be woken.
    Waiting,
    /// So many bytes were appended; there may be more.
    Copied(usize),
    /// All that is left, and the end.
    Rest(Bytes),
    /// Everything was read before.
    End,
    /// The content broke off: so must this answer.
    Broken,
}

impl Follower {
    pub(crate) fn new(
        cache: &Arc<Cache>,
        fill: &Arc<FillState>,
        seat: usize,
        asked: Box<AskedFor>,
        report: CacheStatus,
        deadline: Instant,
    ) -> Self {
        let report = CacheStatus { collapsed: true, ..report };
        Self {
            cache: Arc::clone(cache),
            fill: Arc::clone(fill),
            seat,
            asked,
            report,
            deadline,
            alone: false,
            told: None,
            has_ended: false,
        }
    }

    /// One that has waited for two that got no answer, and will find nothing else.
    pub(crate) fn in_vain(mut self, told: Told) -> Self {
        self.told = Some(told);
        self
    }

    /// Whoever has got nothing by then should [ask again](Self::ask_again).
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What has become of the answer.
    pub fn poll(&mut self, moment: Moment) -> Followed {
        if let Some(told) = &self.told {
            return Followed::Failed(Arc::clone(told));
        }
        let settings = self.cache.settings();
        let cookies = Cookies::new(settings);
        let fill = Arc::clone(&self.fill);
        let mut inner = fill.lock();
        let (stored, status) = match (&inner.phase, &inner.stream) {
            (Phase::Asking | Phase::Settling, _) => return inner.sleep(self.seat),
            (Phase::Streaming, Some(stream)) => {
                if !stream.is_storable || !matches(stream.variant(), &self.asked.kept, cookies) {
                    return Followed::LetGo;
                }
                if !self.asked.is_plain() {
                    return inner.sleep(self.seat);
                }
                let head = Box::new(self.head(stream, moment.now));
                if let Some(seat) = &mut inner.seats[self.seat] {
                    seat.has_begun = true;
                }
                return Followed::Stream(head);
            }
            (Phase::Done(stored), _) => (Arc::clone(stored), None),
            (Phase::Stale(stored, status), _) => (Arc::clone(stored), *status),
            (Phase::Released, _) => {
                self.alone = true;
                return Followed::LetGo;
            }
            (Phase::Failed(fault), _) => return self.asked.fail(fault),
            (Phase::Streaming | Phase::Broken, _) => return Followed::LetGo,
        };
        drop(inner);
        if !matches(stored.variant(), &self.asked.kept, cookies) {
            return Followed::LetGo;
        }
        let report = CacheStatus { forwarded_status: status, ttl_s: Some(stored.ttl_s(moment.now)), ..self.report };
        Followed::Answer(Box::new(Answer::of(&stored, &self.asked.kept, self.asked.look(moment, settings), report)))
    }

    fn head(&self, stream: &Stream, now: Instant) -> StreamedHead {
        let Terms { initial_age_s, age_from, .. } = stream.terms;
        StreamedHead {
            status: stream.status,
            lines: stream.lines.clone(),
            length: stream.length,
            age_s: u64::from(initial_age_s) + now.since(age_from).as_secs(),
            report: self.report,
        }
    }

    /// The next bytes of the content, after [`Followed::Stream`]; at most `max_bytes` are copied.
    pub fn read(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> Reading {
        let mut inner = self.fill.lock();
        let Inner { phase, stream, seats, .. } = &mut *inner;
        let Some(seat) = &mut seats[self.seat] else { return Reading::Broken };
        if self.has_ended {
            return Reading::End;
        }
        if seat.is_cut_off {
            return Reading::Broken;
        }
        match (phase, stream) {
            (Phase::Done(stored), _) => {
                self.has_ended = true;
                let content = stored.content();
                let start = (seat.position as usize).min(content.len());
                Reading::Rest(content.slice(start..))
            }
            (Phase::Streaming, Some(stream)) => {
                let rest = stream.since(seat.position);
                let piece = &rest[..rest.len().min(max_bytes)];
                out.extend_from_slice(piece);
                seat.position += piece.len() as u64;
                let is_over = !stream.is_storable && stream.length == Some(seat.position);
                seat.is_asleep = piece.is_empty() && !is_over;
                match piece.len() {
                    0 if is_over => Reading::End,
                    0 => Reading::Waiting,
                    bytes => Reading::Copied(bytes),
                }
            }
            // The end is a moment away.
            (Phase::Settling, _) => {
                seat.is_asleep = true;
                Reading::Waiting
            }
            _ => Reading::Broken,
        }
    }

    /// What is left of it when it goes: whom it asked and for what, and how it may wait for another one.
    pub(crate) fn leave(self, now: Instant) -> (Arc<Cache>, Box<AskedFor>, Option<Waiting>) {
        let deadline = self.deadline;
        let waiter = self.waiter().filter(|_| !self.alone && now < deadline);
        let before = Some(Arc::clone(&self.fill));
        let waiting = waiter.map(|waiter| Waiting { waiter, deadline, before });
        (Arc::clone(&self.cache), self.asked.clone(), waiting)
    }

    fn waiter(&self) -> Option<Waiter> {
        self.fill.lock().seats[self.seat].as_ref().map(|seat| seat.waiter)
    }
}

impl AskedFor {
    /// What becomes of one who has waited for an answer that will not come.
    fn fail(&mut self, fault: &Fault) -> Followed {
        match fault {
            Fault::Own => Followed::LetGo,
            Fault::Unanswered(_) if !std::mem::replace(&mut self.went_unanswered, true) => Followed::LetGo,
            Fault::Unreached(told) | Fault::Unanswered(told) => Followed::Failed(told.clone()),
        }
    }
}

impl Inner {
    fn sleep(&mut self, seat: usize) -> Followed {
        if let Some(seat) = &mut self.seats[seat] {
            seat.is_asleep = true;
        }
        Followed::Waiting
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut inner = self.fill.lock();
        inner.seats[self.seat] = None;
        inner.free.push(self.seat);
    }
}
