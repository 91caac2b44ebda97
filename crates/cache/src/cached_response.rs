//! A response from the cache: status, headers, body and `Cache-Status`.

use std::sync::Arc;

use breme_base::Instant;
use breme_http::{ByteRange, FieldBlock, Framing};
use bytes::Bytes;

use crate::fields::FieldValues;
use crate::partial_content::{self, ContentRange};
use crate::ranges::{self, SelectedRanges};
use crate::request::Now;
use crate::status::CacheStatus;
use crate::store::StoredResponse;
use crate::validation::{self, ConditionResult};

/// What the client gets. The lines have no framing headers, Connection, Age or Cache-Status; Date is the origin's, if
/// it sent one.
#[derive(Debug)]
pub struct CachedResponse {
    status: u16,
    lines: HeaderLines,
    body: ResponseBody,
    /// Length of the body in response to GET.
    length: u64,
    age_s: u64,
    cache_status: CacheStatus,
    validity: Option<Validity>,
}

#[derive(Debug)]
enum HeaderLines {
    Stored(Arc<StoredResponse>),
    Built(FieldBlock),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body, because of the status or the method.
    None,
    /// One buffer, shared with the store.
    One(Bytes),
    /// Several buffers, to be sent in order.
    Several(Vec<Bytes>),
}

/// Checks whether a stored response is still the right one for byte-identical requests; kept in replay caches.
#[derive(Clone, Debug)]
pub struct Validity {
    stored: Arc<StoredResponse>,
    version: u32,
}

impl Validity {
    /// Whether an identical request would get the same response (except Age) now: the response is fresh and stored, and
    /// no newer variant of its URL exists.
    #[inline]
    #[must_use]
    pub fn is_valid(&self, now: Instant) -> bool {
        self.stored.version() == self.version && self.stored.is_fresh(now)
    }

    #[must_use]
    pub fn age_s(&self, now: Instant) -> u64 {
        self.stored.age_s(now)
    }

    #[must_use]
    pub fn cache_status(&self, now: Instant) -> CacheStatus {
        CacheStatus::hit(self.stored.ttl_s(now))
    }

    /// Counts hits that bypassed the store, so that the response is not evicted. Once a second is enough.
    #[inline]
    pub fn count_hits(&self, hits: u32) {
        self.stored.count_hits(hits);
    }
}

/// How to build a response from a stored one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseOptions {
    pub(crate) is_head: bool,
    pub(crate) now: Now,
    pub(crate) ranges_max: usize,
}

impl CachedResponse {
    /// Builds 200, 206, 304 or 416 from a stored response.
    pub(crate) fn from_stored(
        stored: &Arc<StoredResponse>,
        request: &impl FieldValues,
        options: ResponseOptions,
        cache_status: CacheStatus,
    ) -> Self {
        let now = options.now.instant;
        let whole = Self {
            status: stored.status(),
            lines: HeaderLines::Stored(Arc::clone(stored)),
            body: ResponseBody::None,
            length: stored.body_bytes(),
            age_s: stored.age_s(now),
            cache_status,
            validity: None,
        };
        if matches!(stored.status(), 200 | 206) {
            if validation::evaluate(request, stored.block()) == ConditionResult::NotModified {
                let lines = HeaderLines::Built(validation::not_modified_lines(stored.block()));
                return Self { status: 304, lines, length: 0, ..whole };
            }
            if !options.is_head
                && !stored.is_part()
                && let Some(selected) = ranges::select(request, stored.block(), stored.body_bytes(), options.ranges_max)
            {
                return whole.partial(stored, selected);
            }
        }
        if stored.is_part()
            && let Some((part, range)) = partial_content::select(request, stored.block())
        {
            return whole.partial_content(stored, part, range);
        }
        if options.is_head { whole } else { Self { body: ResponseBody::One(stored.body()), ..whole } }
    }

    fn partial(self, stored: &StoredResponse, selected: SelectedRanges) -> Self {
        let (status, lines, pieces) = ranges::partial(stored.block(), &stored.body(), selected);
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { status, lines: HeaderLines::Built(lines), body: ResponseBody::Several(pieces), length, ..self }
    }

    fn partial_content(self, stored: &StoredResponse, part: ContentRange, range: ByteRange) -> Self {
        let offset = part.offset_of(range);
        let body = stored.body().slice(offset.start as usize..offset.end as usize);
        let lines = ranges::with(stored.block(), &[("Content-Range", part.content_range(range))]);
        let length = body.len() as u64;
        Self { lines: HeaderLines::Built(lines), body: ResponseBody::One(body), length, ..self }
    }

    pub(crate) fn with_validity(mut self, stored: &Arc<StoredResponse>, version: u32) -> Self {
        self.validity = Some(Validity { stored: Arc::clone(stored), version });
        self
    }

    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// Serialised header lines.
    #[must_use]
    pub fn lines(&self) -> &FieldBlock {
        match &self.lines {
            HeaderLines::Stored(stored) => stored.block(),
            HeaderLines::Built(lines) => lines,
        }
    }

    /// Content-Length, also in response to HEAD; none for 204 and 304.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        match self.status {
            204 | 304 => Framing::None,
            _ => Framing::Length(self.length),
        }
    }

    /// Empty in response to HEAD.
    #[must_use]
    pub const fn body(&self) -> &ResponseBody {
        &self.body
    }

    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        match &self.body {
            ResponseBody::None => 0,
            ResponseBody::One(bytes) => bytes.len() as u64,
            ResponseBody::Several(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        }
    }

    /// The value of Age.
    #[must_use]
    pub const fn age_s(&self) -> u64 {
        self.age_s
    }

    #[must_use]
    pub const fn cache_status(&self) -> CacheStatus {
        self.cache_status
    }

    /// Set if identical requests get the same response for a while.
    #[must_use]
    pub const fn validity(&self) -> Option<&Validity> {
        self.validity.as_ref()
    }
}
