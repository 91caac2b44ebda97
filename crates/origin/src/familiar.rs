//! Requests that came before, byte for byte, with their whole answers.
//!
//! A shard keeps the heads that came last ([`ReplayCache`]) with what they were answered, head and content in one
//! piece, and gives it again without reading or writing anything anew. Only the date in it is set, once a second.
//! Measured in instructions of this program on `events` (callgrind; reading anew → repeating): 13 bytes 4,935 → 1,919,
//! 16 of them pipelined 3,427 → 437 each, a file of 10 kB 5,597 → 1,865. A head that never came before costs some 340
//! more than without this table.
//!
//! Nothing is decided here. A head becomes familiar after it was judged and answered the usual way; from then on its
//! answer stands for as long as the usual way would say the same: while the file's entry is
//! [believed](crate::FileCacheLimits::trusted_for). Whoever asks when that is over goes the usual way, which looks
//! whether the file has changed.

use std::sync::Arc;

use breme_base::{Instant, UnixSeconds};
use breme_http1::{ReplayCache, ReplayEntry};
use bytes::{Bytes, BytesMut};

use crate::answer::Lasting;
use crate::date::DateLine;
use crate::entry::Entry;
use crate::file_cache::FileCache;

/// A request whose answer is longer, with its head, does not become familiar: such ones leave with a system call of
/// their own, beside which this would not be seen.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Heads that are kept at most; each has one place.
const SLOTS: usize = 1024;
const DATE_NAME: &[u8] = b"\r\nDate: ";

/// A shard's familiar requests.
#[derive(Debug)]
pub(crate) struct Familiar {
    requests: ReplayCache<Known, SLOTS>,
    /// The store's count of replaced entries when these were last looked through.
    swept_at: u64,
}

/// The answer to a request that came before.
#[derive(Debug)]
pub(crate) struct Known {
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
        Self { requests: ReplayCache::new(seed, bytes_max), swept_at: 0 }
    }

    /// The request with which `input` begins, if it is familiar and its answer still stands; with today's date.
    #[inline]
    pub(crate) fn find(&mut self, input: &[u8], moment: Moment<'_>) -> Option<&ReplayEntry<Known>> {
        self.sweep(moment.files);
        let (_, request) = self.requests.find(input, |_| true)?;
        if !request.value.stands(moment) {
            return None;
        }
        request.value.keep_date(moment.date);
        Some(request)
    }

    /// Whether a request that is not familiar, or not any more, should become it.
    pub(crate) fn is_wanted(&mut self, head: &[u8]) -> bool {
        self.requests.should_insert(head, |known| !known.is_replaced())
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
        if !has_date || answer.len() > ANSWER_BYTES_MAX {
            return;
        }
        let (second, answer_bytes) = (date.second(), answer.len());
        let known = Known { answer: answer.into(), date_at, second, status, content_bytes, entry };
        self.requests.insert(head, known, answer_bytes);
    }

    /// Lets go of what the store let go of, every now and then, as the shard's recent entries do.
    #[inline]
    fn sweep(&mut self, files: Option<&FileCache>) {
        if files.is_some_and(|files| files.is_sweep_due(&mut self.swept_at)) {
            self.requests.remove_if(Known::is_replaced);
        }
    }
}

impl Known {
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
}
