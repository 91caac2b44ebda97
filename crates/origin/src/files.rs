//! Requests for files: selection of a representation, conditions, ranges.

use std::sync::Arc;

use breme_http::{ByteRange, FieldBlock, Fields, Ranges, multipart_ranges, parse_ranges, unsatisfied_range};
use breme_node::FileRange;
use bytes::Bytes;

use crate::conditional::{ConditionResult, Conditions, evaluate, if_range_holds};
use crate::encodings;
use crate::entry::{Entry, Representation, SiteFile, StoredBody, line};
use crate::response::{Body, BodyPart, CacheControl, HeaderLines, Response, representation};

/// Presence of the header fields that affect a file's response, found in one pass, which is all that most requests pay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Present {
    conditions: bool,
    range: bool,
    accept_encoding: bool,
}

impl Present {
    pub(crate) fn from_fields(fields: Fields<'_, '_>) -> Self {
        let mut present = Self::default();
        for field in fields.iter() {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            // By length, since few other fields have one of these lengths.
            match field.name.len() {
                5 => present.range |= is("range"),
                8 => present.conditions |= is("if-match"),
                13 => present.conditions |= is("if-none-match"),
                15 => present.accept_encoding |= is("accept-encoding"),
                17 => present.conditions |= is("if-modified-since"),
                19 => present.conditions |= is("if-unmodified-since"),
                _ => {}
            }
        }
        present
    }
}

/// Responds to GET or HEAD of a file. `boundary` is called for multipart responses.
pub(crate) fn response(
    entry: Arc<Entry>,
    file: &SiteFile,
    fields: Fields<'_, '_>,
    is_get: bool,
    boundary: impl FnOnce() -> u64,
) -> Response {
    let present = Present::from_fields(fields);
    let index = if present.accept_encoding { choose(file, fields) } else { 0 };
    let Some(chosen) = representation(&entry, index) else { return Response::error(500) };
    if present.conditions {
        match evaluate(&conditions(fields), &chosen.validators) {
            ConditionResult::Proceed => {}
            ConditionResult::NotModified => return not_modified(entry.clone(), index),
            ConditionResult::Failed => return Response::error(412),
        }
    }
    if present.range && is_get && range_counts(fields, chosen) {
        match fields.first("range").map_or(Ranges::Ignored, |value| parse_ranges(value, chosen.length)) {
            Ranges::Ignored => {}
            Ranges::One(range) => return one_part(entry.clone(), index, chosen, range),
            Ranges::Several(ranges) => return several_parts(entry.clone(), index, chosen, &ranges, boundary()),
            Ranges::Unsatisfiable => {
                return Response::error(416).with("Content-Range", unsatisfied_range(chosen.length).as_bytes());
            }
        }
    }
    let body = part(chosen, ByteRange { start: 0, end: chosen.length }).into();
    Response {
        status: 200,
        lines: HeaderLines::File(entry, index),
        extra: FieldBlock::new(),
        caching: CacheControl::Site,
        body,
    }
}

/// Index of the representation selected by Accept-Encoding.
fn choose(file: &SiteFile, fields: Fields<'_, '_>) -> usize {
    if file.siblings.is_empty() {
        return 0;
    }
    let members: Vec<&[u8]> = fields.list("accept-encoding").collect();
    let chosen = encodings::choose(&members.iter().copied(), &file.siblings);
    let place = chosen.and_then(|coding| file.siblings.iter().position(|&(sibling, _)| sibling == coding));
    place.map_or(0, |place| place + 1)
}

fn conditions<'a>(fields: Fields<'a, '_>) -> Conditions<'a> {
    Conditions {
        if_match: fields.all("if-match").collect(),
        if_none_match: fields.all("if-none-match").collect(),
        if_modified_since: only(fields, "if-modified-since"),
        if_unmodified_since: only(fields, "if-unmodified-since"),
    }
}

/// The value of a singleton field; None if it is repeated.
fn only<'a>(fields: Fields<'a, '_>, name: &str) -> Option<&'a [u8]> {
    let mut values = fields.all(name);
    let first = values.next();
    if values.next().is_some() { None } else { first }
}

/// Whether a single Range applies, and If-Range permits it.
fn range_counts(fields: Fields<'_, '_>, chosen: &Representation) -> bool {
    let is_single = fields.all("range").nth(1).is_none();
    is_single && fields.all("if-range").all(|value| if_range_holds(value, &chosen.validators))
}

fn not_modified(entry: Arc<Entry>, index: usize) -> Response {
    Response { lines: HeaderLines::FileBrief(entry, index), caching: CacheControl::Site, ..Response::empty(304) }
}

fn one_part(entry: Arc<Entry>, index: usize, chosen: &Representation, range: ByteRange) -> Response {
    let mut extra = FieldBlock::new();
    line(&mut extra, "Content-Range", range.content_range(chosen.length).as_bytes());
    let body = part(chosen, range).into();
    Response { status: 206, lines: HeaderLines::File(entry, index), extra, caching: CacheControl::Site, body }
}

fn several_parts(
    entry: Arc<Entry>,
    index: usize,
    chosen: &Representation,
    ranges: &[ByteRange],
    boundary: u64,
) -> Response {
    let media_type = Some(chosen.media_type);
    let (content_type, parts) =
        multipart_ranges(ranges, chosen.length, media_type, boundary, |range| part(chosen, range));
    let mut extra = FieldBlock::new();
    line(&mut extra, "Content-Type", content_type.as_bytes());
    let lines = HeaderLines::FileUntyped(entry, index);
    Response { status: 206, lines, extra, caching: CacheControl::Site, body: Body::Parts(parts) }
}

fn part(chosen: &Representation, range: ByteRange) -> BodyPart {
    match &chosen.body {
        StoredBody::Memory(bytes) => BodyPart::Bytes(slice(bytes, range)),
        StoredBody::File(file) => {
            BodyPart::File(FileRange { file: file.clone(), offset: range.start, length: range.length() })
        }
    }
}

fn slice(bytes: &Bytes, range: ByteRange) -> Bytes {
    // A body in memory has the length of its representation, so both ends fit.
    bytes.slice(range.start as usize..range.end as usize)
}
