//! Ranges of a complete stored response (RFC 9110, 14; RFC 9111, 3.4). See `partial_content` for stored parts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use breme_http::{ByteRange, FieldBlock, Ranges, multipart_ranges, parse_ranges, unsatisfied_range};
use bytes::Bytes;

use crate::fields::{FieldValues, lines};
use crate::validation::if_range_holds;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelectedRanges {
    /// 206 with one part.
    One(ByteRange),
    /// 206 with `multipart/byteranges`.
    Several(Vec<ByteRange>),
    /// 416.
    Unsatisfiable,
}

/// None: send the complete response, for example because If-Range does not match.
pub(crate) fn select(
    request: &impl FieldValues,
    stored: &FieldBlock,
    length: u64,
    ranges_max: usize,
) -> Option<SelectedRanges> {
    let mut values = request.values("range");
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    if request.first_value("if-range").is_some_and(|value| !if_range_holds(value, stored)) {
        return None;
    }
    match parse_ranges(value, length) {
        Ranges::Ignored => None,
        Ranges::One(range) => Some(SelectedRanges::One(range)),
        Ranges::Several(ranges) if ranges.len() > ranges_max => None,
        Ranges::Several(ranges) => Some(SelectedRanges::Several(ranges)),
        Ranges::Unsatisfiable => Some(SelectedRanges::Unsatisfiable),
    }
}

/// Status, headers and body.
pub(crate) fn partial(stored: &FieldBlock, body: &Bytes, selected: SelectedRanges) -> (u16, FieldBlock, Vec<Bytes>) {
    let length = body.len() as u64;
    match selected {
        SelectedRanges::One(range) => {
            let lines = with(stored, &[("Content-Range", range.content_range(length))]);
            (206, lines, vec![slice(body, range)])
        }
        SelectedRanges::Several(ranges) => several(stored, body, &ranges),
        SelectedRanges::Unsatisfiable => {
            let mut lines = FieldBlock::new();
            if let Some(date) = stored.first_value("date") {
                let _ = lines.push("Date", date);
            }
            let _ = lines.push("Content-Range", unsatisfied_range(length).as_bytes());
            (416, lines, Vec::new())
        }
    }
}

fn several(stored: &FieldBlock, body: &Bytes, ranges: &[ByteRange]) -> (u16, FieldBlock, Vec<Bytes>) {
    let media_type = stored.first_value("content-type").map(String::from_utf8_lossy);
    let part = |range| slice(body, range);
    let (content_type, pieces) =
        multipart_ranges(ranges, body.len() as u64, media_type.as_deref(), boundary(stored), part);
    (206, with(stored, &[("Content-Type", content_type)]), pieces)
}

/// Derived from the response, so that equal requests get equal responses.
fn boundary(stored: &FieldBlock) -> u64 {
    let mut hasher = DefaultHasher::new();
    stored.as_bytes().hash(&mut hasher);
    hasher.finish()
}

fn slice(body: &Bytes, range: ByteRange) -> Bytes {
    body.slice(range.start as usize..range.end as usize)
}

/// Whether a header describes exactly the bytes of its message (RFC 9530, 2), and so no other range.
pub(crate) fn describes_sent_bytes(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-digest") || name.eq_ignore_ascii_case(b"content-md5")
}

/// Stored headers with replacements, without those about the stored bytes.
pub(crate) fn with(stored: &FieldBlock, new: &[(&str, String)]) -> FieldBlock {
    let mut out = FieldBlock::new();
    let is_new = |name: &[u8]| new.iter().any(|(candidate, _)| name.eq_ignore_ascii_case(candidate.as_bytes()));
    for (name, value) in lines(stored.as_bytes()).filter(|(name, _)| !is_new(name) && !describes_sent_bytes(name)) {
        let _ = out.push(std::str::from_utf8(name).unwrap_or_default(), value);
    }
    for (name, value) in new {
        let _ = out.push(name, value.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::block;

    const STORED: &[(&str, &str)] = &[
        ("ETag", "\"a\""),
        ("Content-Type", "text/plain"),
        ("Content-Digest", "sha-256=:AA==:"),
        ("content-md5", "AA=="),
        ("Repr-Digest", "sha-256=:AA==:"),
    ];

    fn pending(fields: &[(&str, &str)]) -> Option<(u16, FieldBlock, String)> {
        let (stored, body) = (block(STORED), Bytes::from_static(b"0123456789"));
        let selected = select(&block(fields), &stored, 10, 3)?;
        let (status, lines, pieces) = partial(&stored, &body, selected);
        Some((status, lines, String::from_utf8(pieces.concat()).unwrap()))
    }

    #[test]
    fn serves_one_range() {
        for (range, position, text) in
            [("0-1", "0-1", "01"), ("8-", "8-9", "89"), ("-3", "7-9", "789"), ("0-4,3-5", "0-5", "012345")]
        {
            let (status, lines, body) = pending(&[("Range", &format!("bytes={range}"))]).unwrap();
            assert_eq!((status, body.as_str()), (206, text));
            assert_eq!(lines.first_value("content-range"), Some(format!("bytes {position}/10").as_bytes()));
            assert_eq!(lines.first_value("etag"), Some(&b"\"a\""[..]));
            assert!(!lines.has("content-digest") && !lines.has("content-md5"), "they are about all ten bytes");
            assert!(lines.has("repr-digest"), "this one is about the whole in any case");
        }
    }

    #[test]
    fn serves_several_ranges() {
        let (status, lines, body) = pending(&[("Range", "bytes=0-1,5-5")]).unwrap();
        let media_type = String::from_utf8(lines.first_value("content-type").unwrap().to_vec()).unwrap();
        let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = |position, text| {
            format!("--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes {position}/10\r\n\r\n{text}\r\n")
        };
        assert_eq!(status, 206);
        assert_eq!(body, format!("{}{}--{boundary}--\r\n", part("0-1", "01"), part("5-5", "5")));
    }

    #[test]
    fn ignores_unsuitable_ranges() {
        for fields in [
            &[][..],
            &[("Range", "bytes=0-0,2-2,4-4,6-6")],
            &[("Range", "lines=1-2")],
            &[("Range", "bytes=0-1"), ("Range", "bytes=2-3")],
            &[("Range", "bytes=0-1"), ("If-Range", "\"b\"")],
            &[("Range", "bytes=0-1"), ("If-Range", "W/\"a\"")],
        ] {
            assert_eq!(pending(fields), None, "{fields:?}");
        }
        assert!(pending(&[("Range", "bytes=0-1"), ("If-Range", "\"a\"")]).is_some());
    }

    #[test]
    fn rejects_unsatisfiable_range() {
        let (status, lines, body) = pending(&[("Range", "bytes=10-")]).unwrap();
        assert_eq!((status, body.as_str()), (416, ""));
        assert_eq!(lines.first_value("content-range"), Some(&b"bytes */10"[..]));
    }
}
