//! Conditional requests: evaluation for clients, conditions for upstream, updates by 304 (RFC 9111, 4.3).

use breme_http::{FieldBlock, Fields, any_tag, only_tag, parse_http_date};

use crate::fields::{FieldValues, lines};
use crate::storability::StoredFields;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionResult {
    /// The conditions do not apply.
    Proceed,
    NotModified,
}

/// Evaluates If-None-Match, else If-Modified-Since (RFC 9111, 4.3.2). If-Match and If-Unmodified-Since are left to the
/// origin. Without Last-Modified, Date is compared.
pub(crate) fn evaluate(request: &impl FieldValues, stored: &FieldBlock) -> ConditionResult {
    let is_unchanged = if request.has("if-none-match") {
        let tag = stored.first_value("etag").and_then(only_tag);
        any_tag(request.values("if-none-match"), |candidate| tag.is_some_and(|tag| tag.is_weakly(candidate)))
    } else {
        let candidate = || stored.date("last-modified").or_else(|| stored.date("date"));
        request.date("if-modified-since").is_some_and(|since| candidate().is_some_and(|candidate| candidate <= since))
    };
    if is_unchanged { ConditionResult::NotModified } else { ConditionResult::Proceed }
}

/// Whether If-Range matches the stored representation by a strong tag or a strong date (RFC 9110, 13.1.5 and 8.8.2.2).
pub(crate) fn if_range_holds(value: &[u8], stored: &FieldBlock) -> bool {
    if let Some(tag_in_request) = only_tag(value) {
        return stored.first_value("etag").and_then(only_tag).is_some_and(|tag| tag.is_strongly(tag_in_request));
    }
    let (modified, made) = (stored.date("last-modified"), stored.date("date"));
    let is_strong = matches!((modified, made), (Some(modified), Some(made)) if modified < made);
    is_strong && parse_http_date(value) == modified
}

/// Conditions to validate a stored response; none without a validator.
pub(crate) fn conditions(stored: &FieldBlock) -> Option<FieldBlock> {
    let mut lines = FieldBlock::new();
    for (name, validator) in [("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")] {
        if let Some(value) = stored.first_value(validator) {
            // A received value can be sent.
            let _ = lines.push(name, value);
        }
    }
    (!lines.is_empty()).then_some(lines)
}

pub(crate) fn is_conditional(request: &impl FieldValues) -> bool {
    ["if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range"]
        .iter()
        .any(|name| request.has(name))
}

/// Representation headers, which a 304 omits (RFC 9110, 15.4.5).
const REPRESENTATION_HEADERS: [&str; 7] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-md5",
    "content-digest",
];

/// The headers of a 304.
pub(crate) fn not_modified_lines(stored: &FieldBlock) -> FieldBlock {
    let mut out = FieldBlock::new();
    for (name, value) in lines(stored.as_bytes()).filter(|(name, _)| !is_one_of(name, &REPRESENTATION_HEADERS)) {
        push(&mut out, name, value);
    }
    out
}

/// Headers that describe the stored body, which a 304 must not change (RFC 9111, 3.2).
const PRESERVED_HEADERS: [&str; 5] =
    ["content-digest", "content-encoding", "content-length", "content-md5", "content-range"];

/// The headers of a stored response after a 304 or a matching response to HEAD: new values replace old ones (RFC 9111,
/// 3.2). `added` are the lines that the proxy adds to it: if it has no Date, the time of its arrival counts (RFC 9110,
/// 6.6.1); by the stored Date the response would still be as old as before.
pub(crate) fn freshened(stored: &FieldBlock, fresh: Fields<'_, '_>, added: &FieldBlock) -> FieldBlock {
    let may_store = StoredFields::new(&fresh);
    let is_known_tag = |name: &[u8]| name.eq_ignore_ascii_case(b"etag") && has(stored, name);
    let is_preserved = |name: &[u8]| is_one_of(name, &PRESERVED_HEADERS) || is_known_tag(name);
    let updates = |name: &[u8]| may_store.has(name) && !is_preserved(name);
    let date = added.first_value("date").filter(|_| fresh.first("Date").is_none());
    let mut out = FieldBlock::new();
    for (name, value) in lines(stored.as_bytes()) {
        let is_updated = updates(name) && fresh.iter().any(|field| field.name.as_bytes().eq_ignore_ascii_case(name));
        let is_old_date = date.is_some() && name.eq_ignore_ascii_case(b"date");
        if !is_updated && !is_old_date {
            push(&mut out, name, value);
        }
    }
    for field in fresh.iter().filter(|field| updates(field.name.as_bytes())) {
        push(&mut out, field.name.as_bytes(), field.value);
    }
    if let Some(date) = date {
        push(&mut out, b"Date", date);
    }
    out
}

/// Whether a 304 is about the stored response and may freshen it (RFC 9111, 4.3.4): if it has the same validator, or
/// none, since the cache's conditions name only this response. Tags are compared weakly, as in If-None-Match: servers
/// that compress weaken the tag of the 200, but not that of the 304.
pub(crate) fn selects(stored: &FieldBlock, not_modified: Fields<'_, '_>) -> bool {
    match (stored.first_value("etag"), not_modified.first("etag")) {
        (Some(tag), Some(fresh)) => {
            tag == fresh || only_tag(tag).zip(only_tag(fresh)).is_some_and(|(tag, fresh)| tag.is_weakly(fresh))
        }
        (_, fresh) => match not_modified.first("last-modified") {
            Some(modified) => stored.first_value("last-modified") == Some(modified),
            None => fresh.is_none(),
        },
    }
}

/// Whether a response to HEAD matches the stored response and may freshen it (RFC 9111, 4.3.5).
pub(crate) fn agrees(stored: &FieldBlock, body_bytes: u64, fresh: Fields<'_, '_>) -> bool {
    let is_same = |name: &str| match (stored.first_value(name), fresh.first(name)) {
        (Some(candidate), Some(found)) => candidate == found,
        _ => true,
    };
    let length = fresh.first("content-length").and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
    is_same("etag") && is_same("last-modified") && length.is_none_or(|length| length == body_bytes)
}

fn has(block: &FieldBlock, name: &[u8]) -> bool {
    lines(block.as_bytes()).any(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|candidate| name.eq_ignore_ascii_case(candidate.as_bytes()))
}

/// Adds a line that is valid, since it comes from another block or a received head.
fn push(out: &mut FieldBlock, name: &[u8], value: &[u8]) {
    let _ = out.push(std::str::from_utf8(name).unwrap_or_default(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{block, http_date, with_fields};

    #[test]
    fn evaluates_client_conditions() {
        let (then, before, after) = (http_date(0), http_date(-1), http_date(1));
        let stored = block(&[("ETag", "\"a,b\""), ("Last-Modified", &then)]);
        for (request, expected) in [
            (&[][..], false),
            (&[("If-None-Match", "\"a,b\"")], true),
            (&[("If-None-Match", "W/\"a,b\"")], true),
            (&[("If-None-Match", "\"x\", \"a,b\"")], true),
            (&[("If-None-Match", "*")], true),
            (&[("If-None-Match", "\"x\"")], false),
            (&[("If-None-Match", "\"x\""), ("If-Modified-Since", &after)], false),
            (&[("If-None-Match", "\"a,b\""), ("If-Modified-Since", &before)], true),
            (&[("If-Modified-Since", &then)], true),
            (&[("If-Modified-Since", &after)], true),
            (&[("If-Modified-Since", &before)], false),
            (&[("If-Modified-Since", "now")], false),
            (&[("If-Match", "\"x\"")], false),
        ] {
            assert_eq!(evaluate(&block(request), &stored) == ConditionResult::NotModified, expected, "{request:?}");
        }
        let old = block(&[("Last-Modified", "Sun, 06 Nov 1960 08:49:37 GMT")]);
        for (year, expected) in [(1959, ConditionResult::Proceed), (1960, ConditionResult::NotModified)] {
            let since = format!("Sun, 06 Nov {year} 08:49:37 GMT");
            assert_eq!(evaluate(&block(&[("If-Modified-Since", &since)]), &old), expected, "{since}");
        }
        let weak = block(&[("ETag", "W/\"a\"")]);
        assert_eq!(evaluate(&block(&[("If-None-Match", "\"a\"")]), &weak), ConditionResult::NotModified);
        let undated = block(&[("Date", &then)]);
        assert_eq!(evaluate(&block(&[("If-Modified-Since", &then)]), &undated), ConditionResult::NotModified);
        assert_eq!(evaluate(&block(&[("If-None-Match", "\"a\"")]), &undated), ConditionResult::Proceed);
    }

    #[test]
    fn if_range_needs_strong_match() {
        let (then, before, after) = (http_date(0), http_date(-1), http_date(1));
        let stored = block(&[("ETag", "\"a\""), ("Last-Modified", &then), ("Date", &after)]);
        assert!(if_range_holds(b"\"a\"", &stored) && if_range_holds(then.as_bytes(), &stored));
        for value in ["W/\"a\"", "\"b\"", "*", "", &before, &after] {
            assert!(!if_range_holds(value.as_bytes(), &stored), "{value}");
        }
        let weak = block(&[("ETag", "W/\"a\""), ("Last-Modified", &then), ("Date", &then)]);
        assert!(!if_range_holds(b"W/\"a\"", &weak), "weak");
        assert!(!if_range_holds(then.as_bytes(), &weak), "it may have changed again within that second");
    }

    #[test]
    fn sends_both_validators() {
        let text = |fields: &[(&str, &str)]| {
            conditions(&block(fields)).map(|lines| String::from_utf8(lines.as_bytes().to_vec()).unwrap())
        };
        let both = text(&[("Last-Modified", "then"), ("X", "y"), ("ETag", "W/\"a\"")]);
        assert_eq!(both.as_deref(), Some("If-None-Match: W/\"a\"\r\nIf-Modified-Since: then\r\n"));
        assert_eq!(text(&[("X", "y")]), None);
    }

    #[test]
    fn freshening_replaces_headers() {
        let stored = block(&[
            ("ETag", "\"a\""),
            ("X", "1"),
            ("x", "2"),
            ("Content-Encoding", "gzip"),
            ("Y", "3"),
            ("Content-Type", "a/b"),
        ]);
        let head = "HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\nX: 4\r\nContent-Encoding: br\r\nConnection: z\r\nZ: 5\r\nSet-Cookie: a=b\r\nContent-Type: c/d\r\n\r\n";
        let found = with_fields(head, |fields| freshened(&stored, fields, &FieldBlock::new()));
        let expected =
            block(&[("ETag", "\"a\""), ("Content-Encoding", "gzip"), ("Y", "3"), ("X", "4"), ("Content-Type", "c/d")]);
        assert_eq!(found, expected);
    }

    #[test]
    fn freshening_keeps_body_headers() {
        let stored = block(&[("X", "1")]);
        let head = "HTTP/1.1 304 Not Modified\r\nETag: \"b\"\r\nContent-Encoding: br\r\nContent-Range: bytes 0-0/2\r\nContent-Digest: x\r\n\r\n";
        let found = with_fields(head, |fields| freshened(&stored, fields, &FieldBlock::new()));
        assert_eq!(found, block(&[("X", "1"), ("ETag", "\"b\"")]));
    }

    #[test]
    fn freshening_without_date_takes_time_of_arrival() {
        let stored = block(&[("Date", "then"), ("X", "1")]);
        let added = block(&[("Via", "1.1 a"), ("Date", "now")]);
        let dates = |line: &str| {
            let head = format!("HTTP/1.1 304 Not Modified\r\n{line}\r\n\r\n");
            with_fields(&head, |fields| freshened(&stored, fields, &added))
        };
        assert_eq!(dates("Y: 2"), block(&[("X", "1"), ("Y", "2"), ("Date", "now")]));
        assert_eq!(dates("Date: just now"), block(&[("X", "1"), ("Date", "just now")]));
    }

    #[test]
    fn validator_of_304_must_match() {
        let (tag, date) = (("ETag", "\"a\""), ("Last-Modified", "then"));
        for (stored, not_modified, expected) in [
            (&[tag, date][..], "X: y", true),
            (&[tag, date], "ETag: \"a\"", true),
            (&[tag, date], "ETag: W/\"a\"", true),
            (&[tag, date], "ETag: \"a\"\r\nLast-Modified: now", true),
            (&[tag, date], "ETag: \"b\"", false),
            (&[tag, date], "ETag: W/\"b\"", false),
            (&[tag, date], "ETag: \"b\"\r\nLast-Modified: then", false),
            (&[tag, date], "Last-Modified: then", true),
            (&[tag, date], "Last-Modified: now", false),
            (&[("ETag", "W/\"a\"")], "ETag: \"a\"", true),
            (&[("ETag", "a")], "ETag: a", true),
            (&[("ETag", "a")], "ETag: b", false),
            (&[tag], "Last-Modified: then", false),
            (&[date], "ETag: \"a\"", false),
            (&[date], "ETag: \"a\"\r\nLast-Modified: then", true),
            (&[], "X: y", true),
        ] {
            let head = format!("HTTP/1.1 304 Not Modified\r\n{not_modified}\r\n\r\n");
            let found = with_fields(&head, |fields| selects(&block(stored), fields));
            assert_eq!(found, expected, "{stored:?} {not_modified}");
        }
    }

    #[test]
    fn head_response_must_match() {
        let stored = block(&[("ETag", "\"a\"")]);
        let check = |line: &str| {
            with_fields(&format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n"), |fields| agrees(&stored, 5, fields))
        };
        assert!(check("X: y") && check("ETag: \"a\"") && check("Content-Length: 5") && check("Last-Modified: now"));
        assert!(!check("ETag: \"b\"") && !check("Content-Length: 6"));
    }

    #[test]
    fn not_modified_omits_body_headers() {
        let stored = block(&[
            ("Content-Type", "a/b"),
            ("ETag", "\"a\""),
            ("Content-Location", "/x"),
            ("Content-MD5", "q"),
            ("Vary", "v"),
        ]);
        assert_eq!(not_modified_lines(&stored), block(&[("ETag", "\"a\""), ("Content-Location", "/x"), ("Vary", "v")]));
    }
}
