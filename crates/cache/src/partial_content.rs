//! Stored 206 responses (RFC 9111, 3.3 and 3.4; RFC 9110, 15.3.7).
//!
//! A part serves ranges within it while it is fresh. An adjacent or overlapping part with the same strong entity tag is
//! merged with it; any other part replaces it, so a variant has one contiguous range. A complete range becomes an
//! ordinary 200.

use std::sync::Arc;

use breme_http::{ByteRange, FieldBlock, Ranges, is_targeted_cache_control, only_tag, parse_ranges};

use crate::fields::{FieldValues, lines};
use crate::ranges::describes_sent_bytes;
use crate::store::{ReuseTerms, StoredResponse};
use crate::validation::if_range_holds;

/// Merging copies both parts, so a part is merged only with one of at most this many times its length,
const MERGE_RATIO_MAX: u64 = 16;
/// or if the result is at most this long.
const MERGE_BYTES_FREE: u64 = 64 * 1024;

/// A byte range and the complete length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    range: ByteRange,
    whole: u64,
}

impl ContentRange {
    /// Parses Content-Range, if there is exactly one with a complete length (RFC 9110, 14.4). `multipart/byteranges`
    /// has none.
    pub(crate) fn from_fields(fields: &impl FieldValues) -> Option<Self> {
        let mut values = fields.values("content-range");
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let (unit, value) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let (range, whole) = value.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last, whole) = (number(first)?, number(last)?, number(whole)?);
        let is_valid = unit.eq_ignore_ascii_case("bytes") && first <= last && last < whole;
        is_valid.then_some(Self { range: ByteRange { start: first, end: last + 1 }, whole })
    }

    pub(crate) const fn length(self) -> u64 {
        self.range.end - self.range.start
    }

    const fn is_all(self) -> bool {
        self.length() == self.whole
    }

    /// The value of Content-Range for a range of the representation.
    pub(crate) fn content_range(self, range: ByteRange) -> String {
        range.content_range(self.whole)
    }

    /// A range of the representation as offsets into this part's body.
    pub(crate) const fn offset_of(self, range: ByteRange) -> ByteRange {
        ByteRange { start: range.start - self.range.start, end: range.end - self.range.start }
    }

    /// Both together, if adjacent or overlapping.
    fn merged(self, other: Self) -> Option<Self> {
        let touches = self.range.start <= other.range.end && other.range.start <= self.range.end;
        let range =
            ByteRange { start: self.range.start.min(other.range.start), end: self.range.end.max(other.range.end) };
        (touches && self.whole == other.whole).then_some(Self { range, ..self })
    }
}

fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The single requested range, if the stored part contains it.
pub(crate) fn select(request: &impl FieldValues, stored: &FieldBlock) -> Option<(ContentRange, ByteRange)> {
    let mut values = request.values("range");
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    if request.first_value("if-range").is_some_and(|value| !if_range_holds(value, stored)) {
        return None;
    }
    let part = ContentRange::from_fields(stored)?;
    match parse_ranges(value, part.whole) {
        Ranges::One(range) if part.range.start <= range.start && range.end <= part.range.end => Some((part, range)),
        _ => None,
    }
}

/// Whether the new part has another Content-Type or Content-Encoding: some origins use one tag for all codings.
fn contradicts(new: &FieldBlock, old: &FieldBlock) -> bool {
    let is_other = |name: &str| new.first_value(name).is_some_and(|value| old.first_value(name) != Some(value));
    is_other("content-encoding") || is_other("content-type")
}

/// Whether the old part has a header on caching that the new one lacks. The merged part has the headers of both (RFC
/// 9110, 15.3.7.3), but its terms of reuse come from the new one alone, so those must be complete. Origins that repeat
/// their headers on each 206 (15.3.7) meet this.
fn lacks_caching_headers(new: &FieldBlock, old: &FieldBlock) -> bool {
    let mut names = lines(old.as_bytes()).filter_map(|(name, _)| std::str::from_utf8(name).ok());
    names.any(|name| {
        let is_term = ["Cache-Control", "Expires"].iter().any(|candidate| name.eq_ignore_ascii_case(candidate));
        (is_term || is_targeted_cache_control(name)) && !new.has(name)
    })
}

/// Two stored parts that can be merged.
#[derive(Debug)]
pub(crate) struct CombinedParts<'s> {
    old: &'s StoredResponse,
    new: &'s StoredResponse,
    old_part: ContentRange,
    new_part: ContentRange,
    both: ContentRange,
}

impl<'s> CombinedParts<'s> {
    /// RFC 9110, 15.3.7.3: same strong tag, no gap, together at most `bytes_max`.
    pub(crate) fn new(old: &'s StoredResponse, new: &'s StoredResponse, bytes_max: u64) -> Option<Self> {
        let tag = |stored: &'s StoredResponse| stored.block().first_value("etag").and_then(only_tag);
        let (new_lines, old_lines) = (new.block(), old.block());
        let is_same = tag(old)?.is_strongly(tag(new)?)
            && !contradicts(new_lines, old_lines)
            && !lacks_caching_headers(new_lines, old_lines);
        let (old_part, new_part) = (ContentRange::from_fields(old.block())?, ContentRange::from_fields(new.block())?);
        let both = old_part.merged(new_part)?;
        let length_max = new_part.length().saturating_mul(MERGE_RATIO_MAX).max(MERGE_BYTES_FREE).min(bytes_max);
        let may_join = old.is_part() && new.is_part() && both.length() <= length_max;
        (is_same && may_join).then_some(Self { old, new, old_part, new_part, both })
    }

    /// Upper bound.
    pub(crate) fn cost_bytes(&self) -> u64 {
        let bytes = self.new.layout().body_offset() + self.both.length() as usize;
        StoredResponse::cost_of(
            bytes,
            self.old.block().as_bytes().len() + self.new.block().as_bytes().len() + RANGE_LINE_BYTES,
        )
    }

    pub(crate) fn merge(&self, terms: ReuseTerms) -> Arc<StoredResponse> {
        let (old, new) = (self.old.body(), self.new.body());
        let (start, end) = (self.new_part.range.start, self.new_part.range.end);
        let before = start.saturating_sub(self.old_part.range.start).min(self.old_part.length()) as usize;
        let after = end.saturating_sub(self.old_part.range.start).min(self.old_part.length()) as usize;
        let layout = self.new.layout();
        let lead = &self.new.shared_bytes()[..layout.body_offset()];
        let bytes = [lead, &old[..before], &new, &old[after..]].concat();
        let status = if self.both.is_all() { 200 } else { 206 };
        Arc::new(StoredResponse::new(status, self.lines(), bytes.into(), layout, terms))
    }

    /// RFC 9111, 3.4: the new part's headers, and the old one's others; without those about the bytes of one part.
    fn lines(&self) -> FieldBlock {
        let mut out = FieldBlock::with_capacity(
            self.old.block().as_bytes().len() + self.new.block().as_bytes().len() + RANGE_LINE_BYTES,
        );
        let is_of_one = |name: &[u8]| name.eq_ignore_ascii_case(b"content-range") || describes_sent_bytes(name);
        let is_new =
            |name: &[u8]| lines(self.new.block().as_bytes()).any(|(candidate, _)| candidate.eq_ignore_ascii_case(name));
        let kept = lines(self.old.block().as_bytes()).filter(|(name, _)| !is_new(name));
        for (name, value) in kept.chain(lines(self.new.block().as_bytes())).filter(|(name, _)| !is_of_one(name)) {
            let _ = out.push(std::str::from_utf8(name).unwrap_or_default(), value);
        }
        if !self.both.is_all() {
            let _ = out.push("Content-Range", self.both.content_range(self.both.range).as_bytes());
        }
        out
    }
}

/// Longest Content-Range line.
const RANGE_LINE_BYTES: usize = 88;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::StoredLayout;
    use crate::test_support::block;

    fn part(value: &str) -> Option<(u64, u64, u64)> {
        let part = ContentRange::from_fields(&block(&[("Content-Range", value)]))?;
        Some((part.range.start, part.range.end, part.whole))
    }

    #[test]
    fn parses_content_range() {
        assert_eq!(part("bytes 4-9/10"), Some((4, 10, 10)));
        assert_eq!(part("BYTES 0-0/1"), Some((0, 1, 1)));
        for value in [
            "bytes 4-9/9",
            "bytes 4-3/10",
            "bytes 4-9/*",
            "bytes */10",
            "bytes=4-9/10",
            "lines 4-9/10",
            "bytes 4-9",
            "bytes -9/10",
            "bytes +4-9/10",
            "bytes 4-18446744073709551615/18446744073709551616",
            "",
        ] {
            assert_eq!(part(value), None, "{value}");
        }
        let twice = block(&[("Content-Range", "bytes 0-1/2"), ("Content-Range", "bytes 0-1/2")]);
        assert_eq!(ContentRange::from_fields(&twice), None);
    }

    #[test]
    fn selects_ranges_within_a_part() {
        let stored = block(&[("Content-Range", "bytes 4-7/10"), ("ETag", "\"a\"")]);
        let pending = |fields: &[(&str, &str)]| {
            let (part, range) = select(&block(fields), &stored)?;
            let position = part.offset_of(range);
            Some((part.content_range(range), position.start, position.end))
        };
        let found = |position: &str, start, end| Some((format!("bytes {position}/10"), start, end));
        assert_eq!(pending(&[("Range", "bytes=4-7")]), found("4-7", 0, 4));
        assert_eq!(pending(&[("Range", "bytes=5-5")]), found("5-5", 1, 2));
        assert_eq!(pending(&[("Range", "bytes=5-5"), ("If-Range", "\"a\"")]), found("5-5", 1, 2));
        for fields in [
            &[][..],
            &[("Range", "bytes=3-7")],
            &[("Range", "bytes=4-8")],
            &[("Range", "bytes=4-")],
            &[("Range", "bytes=-1")],
            &[("Range", "bytes=4-4,6-6")],
            &[("Range", "bytes=20-")],
            &[("Range", "lines=4-7")],
            &[("Range", "bytes=4-7"), ("Range", "bytes=4-7")],
            &[("Range", "bytes=4-7"), ("If-Range", "\"b\"")],
        ] {
            assert_eq!(pending(fields), None, "{fields:?}");
        }
        let end = block(&[("Content-Range", "bytes 6-9/10")]);
        let suffix = select(&block(&[("Range", "bytes=-2")]), &end).map(|(part, range)| part.offset_of(range));
        assert_eq!(suffix, Some(ByteRange { start: 2, end: 4 }));
    }

    fn stored(range: &str, tag: &str, body: &'static str) -> StoredResponse {
        let lines = block(&[("Content-Range", range), ("ETag", tag), ("X", body)]);
        let layout = StoredLayout { key_bytes: 3, variant_bytes: 1 };
        StoredResponse::new(206, lines, Bytes::from(format!("keyv{body}")), layout, ReuseTerms::default())
    }

    fn merged(old: &StoredResponse, new: &StoredResponse) -> Option<(u16, Option<String>, String)> {
        let combined = CombinedParts::new(old, new, u64::MAX)?;
        let both = combined.merge(ReuseTerms::default());
        assert!(both.cost_bytes() <= combined.cost_bytes());
        assert_eq!((both.key(), both.variant()), (b"key" as &[u8], b"v" as &[u8]));
        assert_eq!(both.block().first_value("x"), new.block().first_value("x"), "the newer one's lines count");
        let range = both.block().first_value("content-range");
        let range = range.map(|value| String::from_utf8_lossy(value).into_owned());
        Some((both.status(), range, String::from_utf8(both.body().to_vec()).unwrap()))
    }

    #[test]
    fn merges_adjacent_parts() {
        let middle = stored("bytes 3-5/9", "\"a\"", "345");
        for (range, body, position, all) in [
            ("bytes 6-7/9", "67", Some("bytes 3-7/9"), "34567"),
            ("bytes 1-2/9", "12", Some("bytes 1-5/9"), "12345"),
            ("bytes 5-7/9", "567", Some("bytes 3-7/9"), "34567"),
            ("bytes 1-3/9", "123", Some("bytes 1-5/9"), "12345"),
            ("bytes 4-4/9", "4", Some("bytes 3-5/9"), "345"),
            ("bytes 2-6/9", "23456", Some("bytes 2-6/9"), "23456"),
            ("bytes 0-8/9", "012345678", None, "012345678"),
        ] {
            let status = if position.is_some() { 206 } else { 200 };
            let expected = Some((status, position.map(str::to_owned), all.to_owned()));
            assert_eq!(merged(&middle, &stored(range, "\"a\"", body)), expected, "{range}");
        }
        let (first, last) = (stored("bytes 0-1/4", "\"a\"", "01"), stored("bytes 2-3/4", "\"a\"", "23"));
        let whole = Some((200, None, "0123".to_owned()));
        assert_eq!(merged(&first, &last), whole);
        assert_eq!(merged(&last, &first), whole);
    }

    #[test]
    fn does_not_merge_different_representations() {
        let old = stored("bytes 3-5/9", "\"a\"", "345");
        for (range, tag) in [
            ("bytes 7-7/9", "\"a\""),
            ("bytes 6-6/10", "\"a\""),
            ("bytes 6-6/9", "\"b\""),
            ("bytes 6-6/9", "W/\"a\""),
            ("bytes 6-6/9", "a"),
        ] {
            assert!(CombinedParts::new(&old, &stored(range, tag, "6"), u64::MAX).is_none(), "{range} {tag}");
        }
        let weak = stored("bytes 3-5/9", "W/\"a\"", "345");
        assert!(CombinedParts::new(&weak, &stored("bytes 6-6/9", "W/\"a\"", "6"), u64::MAX).is_none());
    }

    #[test]
    fn does_not_merge_small_part_into_large() {
        let range = |start: u64, length: u64| format!("bytes {start}-{}/99999999", start + length - 1);
        let is_joined = |old: u64, new: u64| {
            let (old, new) = (stored(&range(0, old), "\"a\"", ""), stored(&range(old, new), "\"a\"", ""));
            CombinedParts::new(&old, &new, 31 << 20).is_some()
        };
        assert!(is_joined(MERGE_BYTES_FREE - 1, 1) && !is_joined(MERGE_BYTES_FREE, 1));
        assert!(is_joined(15 << 20, 1 << 20) && !is_joined(16 << 20, 1 << 20));
        assert!(is_joined(16 << 20, 15 << 20) && !is_joined(16 << 20, 16 << 20), "longer than anything may be");
    }
}
