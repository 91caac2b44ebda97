//! Requests that came before, byte for byte, with their whole answers.
//!
//! What is asked often is asked in the same words: a browser's, a crawler's, a gateway's heads repeat to the byte. So a shard keeps the
//! heads that came last with what they were answered, head and content in one piece, and gives it again without reading or writing
//! anything anew. Only the date in it is set, once a second. Measured in instructions of this program on `events` (callgrind; reading anew →
//! repeating): 13 bytes 4,935 → 1,919, 16 of them pipelined 3,427 → 437 each, a file of 10 kB 5,597 → 1,865. A head that never came before costs
//! some 340 more than without this table.
//!
//! Nothing is decided here. A head becomes familiar after it was judged and answered the usual way; from then on its answer stands for as long as
//! the usual way would say the same: while the file's entry is [believed](crate::FileCacheLimits::trusted_for). Whoever asks when that is over goes the
//! usual way, which looks whether the file has changed.
//!
//! A head must come twice to be kept, so that those that never come again (each with a cookie of its own, say) cost no more than a look.

use std::sync::Arc;

use breme_base::{Instant, UnixSeconds};
use bytes::{Bytes, BytesMut};
use foldhash::fast::FixedState;
use memchr::memmem::Finder;

use crate::answer::Lasting;
use crate::date::DateLine;
use crate::entry::Entry;
use crate::file_cache::FileCache;

/// A longer head does not become familiar.
const HEAD_BYTES_MAX: usize = 1024;
/// Nor does a request whose answer is longer, with its head: such ones leave with a system call of their own, beside which this would not be seen.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Heads that are kept at most; each has one place.
const SLOTS: usize = 1024;
/// What a familiar request costs besides its bytes.
const KNOWN_BYTES: usize = 256;
const HEAD_END: &[u8; 4] = b"\r\n\r\n";
const DATE_NAME: &[u8] = b"\r\nDate: ";

/// A shard's familiar requests.
#[derive(Debug)]
pub(crate) struct Familiar {
    hasher: FixedState,
    head_end: Finder<'static>,
    /// Empty until a request comes that could become familiar.
    slots: Vec<Slot>,
    /// The place of the request that came last: most come several times in a row.
    last: usize,
    bytes: usize,
    bytes_max: usize,
    /// The next one to go when there are too many bytes.
    hand: usize,
    /// The store's count of replaced entries when these were last looked through.
    swept_at: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// The hash of the last head that came here and was not known.
    stranger: u64,
    known: Option<Box<Known>>,
}

/// A request that came before.
#[derive(Debug)]
pub(crate) struct Known {
    head: Box<[u8]>,
    answer: Bytes,
    /// Where in the answer the date stands, and which one.
    date_at: usize,
    second: UnixSeconds,
    status: u16,
    content_bytes: u64,
    /// What the answer was made of; none: nothing can change it.
    entry: Option<Arc<Entry>>,
}

/// What there is to know about an answer besides its bytes.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) content_bytes: u64,
    pub(crate) lasting: Lasting,
}

/// Now, and for how long files are believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) now: Instant,
    pub(crate) date: &'a DateLine,
    pub(crate) trusted_for_ns: u64,
    pub(crate) files: Option<&'a FileCache>,
}

impl Familiar {
    pub(crate) fn new(seed: u64, bytes_max: usize) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            head_end: Finder::new(HEAD_END),
            slots: Vec::new(),
            last: 0,
            bytes: 0,
            bytes_max,
            hand: 0,
            swept_at: 0,
        }
    }

    /// The request with which `input` begins, if it is familiar and its answer still stands; with today's date.
    #[inline]
    pub(crate) fn find(&mut self, input: &[u8], moment: Moment<'_>) -> Option<&Known> {
        self.sweep(moment.files);
        let is_last = self.slots.get(self.last)?.begins(input);
        let place = if is_last { self.last } else { self.place_of(self.head_of(input)?) };
        let slot = self.slots.get_mut(place)?;
        if !is_last && !slot.begins(input) {
            return None;
        }
        let known = slot.known.as_mut().filter(|known| known.stands(moment))?;
        known.keep_date(moment.date);
        self.last = place;
        Some(known)
    }

    /// Whether a request that is not familiar should become it: it has come before, and no other since that has the same place.
    pub(crate) fn is_wanted(&mut self, head: &[u8]) -> bool {
        if head.len() > HEAD_BYTES_MAX || self.bytes_max == 0 {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::default);
        }
        let hash = self.hash(head);
        let slot = &mut self.slots[hash as usize % SLOTS];
        let is_kept = slot.known.as_ref().is_some_and(|known| *known.head == *head && !known.is_replaced());
        !is_kept && std::mem::replace(&mut slot.stranger, hash) == hash
    }

    /// Makes a request familiar that was answered just now.
    pub(crate) fn learn(&mut self, head: &[u8], answer: Vec<u8>, answered: Answered, date: &DateLine) {
        let date_at = memchr::memmem::find(&answer, DATE_NAME).map_or(answer.len(), |place| place + DATE_NAME.len());
        let has_date = answer.get(date_at..).is_some_and(|rest| rest.starts_with(date.text()));
        let Answered { status, content_bytes, lasting } = answered;
        let entry = match lasting {
            Lasting::Never => return,
            Lasting::WhileBelieved(entry) => Some(entry),
            Lasting::Always => None,
        };
        if !has_date || answer.len() > ANSWER_BYTES_MAX || self.slots.is_empty() {
            return;
        }
        let second = date.second();
        let known = Known { head: head.into(), answer: answer.into(), date_at, second, status, content_bytes, entry };
        let place = self.place_of(head);
        self.forget(place);
        self.make_room(known.cost_bytes());
        if self.bytes + known.cost_bytes() <= self.bytes_max {
            self.bytes += known.cost_bytes();
            self.slots[place].known = Some(Box::new(known));
        }
    }

    fn make_room(&mut self, wanted_bytes: usize) {
        for _ in 0..SLOTS {
            if self.bytes + wanted_bytes <= self.bytes_max {
                return;
            }
            self.forget(self.hand);
            self.hand = (self.hand + 1) % SLOTS;
        }
    }

    fn forget(&mut self, place: usize) {
        if let Some(known) = self.slots.get_mut(place).and_then(|slot| slot.known.take()) {
            self.bytes -= known.cost_bytes();
        }
    }

    /// Lets go of what the store let go of, every now and then, as the shard's recent entries do.
    #[inline]
    fn sweep(&mut self, files: Option<&FileCache>) {
        if files.is_some_and(|files| files.is_sweep_due(&mut self.swept_at)) {
            let is_replaced = |slot: &Slot| slot.known.as_ref().is_some_and(|known| known.is_replaced());
            (0..self.slots.len()).for_each(|place| {
                if is_replaced(&self.slots[place]) {
                    self.forget(place);
                }
            });
        }
    }

    /// What may be a request's head. Whether it is one was decided when it became familiar.
    fn head_of<'a>(&self, input: &'a [u8]) -> Option<&'a [u8]> {
        let front = &input[..input.len().min(HEAD_BYTES_MAX)];
        Some(&front[..self.head_end.find(front)? + HEAD_END.len()])
    }

    fn place_of(&self, head: &[u8]) -> usize {
        self.hash(head) as usize % SLOTS
    }

    fn hash(&self, head: &[u8]) -> u64 {
        std::hash::BuildHasher::hash_one(&self.hasher, head)
    }
}

impl Slot {
    /// Whether `input` begins with the head that is known here. A head ends with its first empty line, so what begins with it has this head.
    #[inline]
    fn begins(&self, input: &[u8]) -> bool {
        self.known.as_ref().is_some_and(|known| input.starts_with(&known.head))
    }
}

impl Known {
    pub(crate) fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// Head and content.
    pub(crate) fn answer(&self) -> &Bytes {
        &self.answer
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.entry.as_deref()
    }

    fn stands(&self, moment: Moment<'_>) -> bool {
        let is_believed = |entry: &Entry| !entry.is_replaced() && entry.is_believed(moment.now, moment.trusted_for_ns);
        self.entry.as_deref().is_none_or(is_believed)
    }

    fn is_replaced(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.is_replaced())
    }

    #[inline]
    fn keep_date(&mut self, date: &DateLine) {
        if self.second != date.second() {
            self.set_date(date);
        }
    }

    /// In its place, if no driver still holds the answer of the second before; else in a copy.
    #[cold]
    fn set_date(&mut self, date: &DateLine) {
        let answer = std::mem::take(&mut self.answer).try_into_mut();
        let mut answer = answer.unwrap_or_else(|held| BytesMut::from(&held[..]));
        let text = date.text();
        answer[self.date_at..self.date_at + text.len()].copy_from_slice(text);
        self.answer = answer.freeze();
        self.second = date.second();
    }

    fn cost_bytes(&self) -> usize {
        KNOWN_BYTES + self.head.len() + self.answer.len()
    }
}
