//! An answer out of the store: status, lines, content, and what is to be said of it beside them.

use std::sync::Arc;

use breme_base::Instant;
use breme_http1::{ByteRange, FieldBlock, Framing};
use bytes::Bytes;

use crate::Moment;
use crate::fields::FieldValues;
use crate::parts::{self, Part};
use crate::ranges::{self, Selected};
use crate::status::CacheStatus;
use crate::store::Stored;
use crate::validation::{self, Conditional};

/// What the client gets. The lines hold no framing, no Connection, no Age and no Cache-Status; they hold the Date of
/// who made the answer, if it said one.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    lines: Lines,
    content: Content,
    /// Length of what a GET would get.
    length: u64,
    age_s: Option<u64>,
    report: CacheStatus,
    standing: Option<Standing>,
}

#[derive(Debug)]
enum Lines {
    Stored(Arc<Stored>),
    Own(FieldBlock),
}

/// The content of an answer, in as many pieces as it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// None, by the status or by the method.
    None,
    /// One piece of memory that is shared with the store.
    One(Bytes),
    /// Several, to be sent one after the other.
    Several(Vec<Bytes>),
}

/// A stored answer that holds for every request of the same bytes, as long as it stands. Who remembers requests byte
/// for byte keeps it beside them.
#[derive(Clone, Debug)]
pub struct Standing {
    stored: Arc<Stored>,
    state: u32,
}

impl Standing {
    /// Whether a request of the same bytes would get the same answer now, but for its age: the response is fresh and in
    /// the store, and nothing else has come that could be chosen.
    #[inline]
    #[must_use]
    pub fn stands(&self, now: Instant) -> bool {
        self.stored.state() == self.state && self.stored.is_fresh(now)
    }

    /// The value of Age.
    #[must_use]
    pub fn age_s(&self, now: Instant) -> u64 {
        self.stored.age_s(now)
    }

    /// What Cache-Status says.
    #[must_use]
    pub fn report(&self, now: Instant) -> CacheStatus {
        CacheStatus::hit(self.stored.ttl_s(now))
    }

    /// Tells the store of hits that it has not seen, so that what is used stays. Once a second is enough.
    #[inline]
    pub fn count_hits(&self, hits: u32) {
        self.stored.count_hits(hits);
    }
}

/// How a stored response is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) is_head: bool,
    pub(crate) moment: Moment,
    pub(crate) ranges_max: usize,
}

impl Answer {
    /// What a stored response is to a request: the whole, a part, or that the client has it already.
    pub(crate) fn of(stored: &Arc<Stored>, request: &impl FieldValues, look: Look, report: CacheStatus) -> Self {
        let now = look.moment.now;
        let whole = Self {
            status: stored.status(),
            lines: Lines::Stored(Arc::clone(stored)),
            content: Content::None,
            length: stored.content_bytes(),
            age_s: Some(stored.age_s(now)),
            report,
            standing: None,
        };
        if matches!(stored.status(), 200 | 206) {
            if validation::evaluate(request, stored.block()) == Conditional::NotModified {
                let lines = Lines::Own(validation::not_modified_lines(stored.block()));
                return Self { status: 304, lines, length: 0, ..whole };
            }
            if !look.is_head
                && !stored.is_part()
                && let Some(selected) = ranges::select(request, stored.block(), stored.content_bytes(), look.ranges_max)
            {
                return whole.partial(stored, selected);
            }
        }
        if stored.is_part()
            && let Some((part, range)) = parts::select(request, stored.block())
        {
            return whole.of_part(stored, part, range);
        }
        if look.is_head { whole } else { Self { content: Content::One(stored.content()), ..whole } }
    }

    fn partial(self, stored: &Stored, selected: Selected) -> Self {
        let (status, lines, pieces) = ranges::partial(stored.block(), &stored.content(), selected);
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { status, lines: Lines::Own(lines), content: Content::Several(pieces), length, ..self }
    }

    fn of_part(self, stored: &Stored, part: Part, range: ByteRange) -> Self {
        let place = part.place_of(range);
        let content = stored.content().slice(place.start as usize..place.end as usize);
        let lines = ranges::with(stored.block(), &[("Content-Range", part.content_range(range))]);
        let length = content.len() as u64;
        Self { lines: Lines::Own(lines), content: Content::One(content), length, ..self }
    }

    /// 504: the client wants what is stored or nothing (RFC 9111, 5.2.1.7).
    pub(crate) fn not_cached(report: CacheStatus) -> Self {
        Self {
            status: 504,
            lines: Lines::Own(FieldBlock::new()),
            content: Content::None,
            length: 0,
            age_s: None,
            report,
            standing: None,
        }
    }

    pub(crate) fn with_standing(mut self, stored: &Arc<Stored>, state: u32) -> Self {
        self.standing = Some(Standing { stored: Arc::clone(stored), state });
        self
    }

    /// The status code.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The prepared lines.
    #[must_use]
    pub fn lines(&self) -> &FieldBlock {
        match &self.lines {
            Lines::Stored(stored) => stored.block(),
            Lines::Own(lines) => lines,
        }
    }

    /// How the content is framed: by its length, which is also told in answer to HEAD; not at all in a 304 or 204.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        match self.status {
            204 | 304 => Framing::None,
            _ => Framing::Length(self.length),
        }
    }

    /// The content to send. None in answer to HEAD.
    #[must_use]
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// Bytes of the content to send.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        match &self.content {
            Content::None => 0,
            Content::One(bytes) => bytes.len() as u64,
            Content::Several(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        }
    }

    /// The value of Age; none if the answer was not stored.
    #[must_use]
    pub const fn age_s(&self) -> Option<u64> {
        self.age_s
    }

    /// What the cache did.
    #[must_use]
    pub const fn report(&self) -> CacheStatus {
        self.report
    }

    /// Present if every request of the same bytes gets the same answer for a while.
    #[must_use]
    pub const fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }
}
