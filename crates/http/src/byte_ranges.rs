//! The Range field (RFC 9110, 14), and the fields and body that answer it.
//!
//! A range that is not understood is ignored, and the whole representation is sent (14.2); so are more than
//! [`RANGE_COUNT_MAX`] ranges. Overlapping ranges are joined, so that no request makes a response longer than the
//! representation (the "Apache killer" of 2011).

/// Ranges of one request, past which the field is ignored.
pub const RANGE_COUNT_MAX: usize = 16;

/// The bytes from `start` up to but excluding `end`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}

impl ByteRange {
    #[must_use]
    pub const fn length(self) -> u64 {
        self.end - self.start
    }

    /// The value of Content-Range for these bytes of a representation of `length` bytes (14.4).
    #[must_use]
    pub fn content_range(self, length: u64) -> String {
        format!("bytes {}-{}/{length}", self.start, self.end - 1)
    }
}

/// The value of Content-Range in a 416 (14.4).
#[must_use]
pub fn unsatisfied_range(length: u64) -> String {
    format!("bytes */{length}")
}

/// Content-Type and body of a response with several ranges: `multipart/byteranges` (14.6). `part` returns the bytes of
/// a range; `boundary` is a number that is unlikely to occur in them.
#[must_use]
pub fn multipart_ranges<P: From<String>>(
    ranges: &[ByteRange],
    length: u64,
    media_type: Option<&str>,
    boundary: u64,
    part: impl Fn(ByteRange) -> P,
) -> (String, Vec<P>) {
    let boundary = format!("breme-{boundary:016x}");
    let type_line = media_type.map(|media_type| format!("Content-Type: {media_type}\r\n")).unwrap_or_default();
    let mut body = Vec::with_capacity(ranges.len() * 2 + 1);
    let mut line_end = "";
    for &range in ranges {
        let content_range = range.content_range(length);
        body.push(format!("{line_end}--{boundary}\r\n{type_line}Content-Range: {content_range}\r\n\r\n").into());
        body.push(part(range));
        line_end = "\r\n";
    }
    body.push(format!("{line_end}--{boundary}--\r\n").into());
    (format!("multipart/byteranges; boundary={boundary}"), body)
}

/// The result of a Range field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Send the whole representation.
    Ignored,
    /// 206 with one part.
    One(ByteRange),
    /// 206 with `multipart/byteranges`.
    Several(Vec<ByteRange>),
    /// 416.
    Unsatisfiable,
}

/// Parses `value` for a representation of `length` bytes.
#[must_use]
pub fn parse_ranges(value: &[u8], length: u64) -> Ranges {
    let Some(specs) = byte_specs(value) else { return Ranges::Ignored };
    let mut ranges = Vec::new();
    let mut spec_count = 0;
    for spec in specs.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty()) {
        spec_count += 1;
        if spec_count > RANGE_COUNT_MAX {
            return Ranges::Ignored;
        }
        match parse_spec(spec, length) {
            RangeSpec::Bytes(range) => ranges.push(range),
            RangeSpec::Outside => {}
            RangeSpec::Malformed => return Ranges::Ignored,
        }
    }
    if spec_count == 0 {
        return Ranges::Ignored;
    }
    join_overlapping(&mut ranges);
    match ranges.as_slice() {
        [] => Ranges::Unsatisfiable,
        [range] => Ranges::One(*range),
        _ => Ranges::Several(ranges),
    }
}

/// The part after `bytes=`; the unit is case-insensitive (14.1).
fn byte_specs(value: &[u8]) -> Option<&str> {
    let (unit, specs) = std::str::from_utf8(value).ok()?.split_once('=')?;
    unit.eq_ignore_ascii_case("bytes").then_some(specs)
}

enum RangeSpec {
    Bytes(ByteRange),
    /// Valid, but beyond the end.
    Outside,
    Malformed,
}

fn parse_spec(spec: &str, length: u64) -> RangeSpec {
    let Some((first, last)) = spec.split_once('-') else { return RangeSpec::Malformed };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if last < first => RangeSpec::Malformed,
        (Some(first), Some(last)) => bytes(first, last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => bytes(first, length),
        (None, Some(suffix)) if first.is_empty() => bytes(length.saturating_sub(suffix), length),
        _ => RangeSpec::Malformed,
    }
}

fn bytes(start: u64, end: u64) -> RangeSpec {
    if start < end { RangeSpec::Bytes(ByteRange { start, end }) } else { RangeSpec::Outside }
}

/// Digits only (no sign). Numbers beyond 64 bits saturate; the largest one is beyond every end.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Keeps the requested order, unless ranges overlap: then they are sorted and joined (14.2).
fn join_overlapping(ranges: &mut Vec<ByteRange>) {
    let mut sorted = ranges.clone();
    sorted.sort_unstable_by_key(|range| range.start);
    if sorted.windows(2).all(|pair| pair[0].end <= pair[1].start) {
        return;
    }
    ranges.clear();
    for range in sorted {
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(start: u64, end: u64) -> Ranges {
        Ranges::One(ByteRange { start, end })
    }

    fn several(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Several(ranges.iter().map(|&(start, end)| ByteRange { start, end }).collect())
    }

    #[test]
    fn parses_ranges() {
        let table = [
            ("bytes=0-0", one(0, 1)),
            ("bytes=0-99", one(0, 100)),
            ("bytes=10-19", one(10, 20)),
            ("bytes=90-", one(90, 100)),
            ("bytes=-5", one(95, 100)),
            ("bytes=-500", one(0, 100)),
            ("bytes=50-5000", one(50, 100)),
            ("BYTES=0-1", one(0, 2)),
            ("bytes=0-18446744073709551615", one(0, 100)),
            ("bytes=0-99999999999999999999999", one(0, 100)),
            ("bytes=0-1, 5-6", several(&[(0, 2), (5, 7)])),
            ("bytes=5-6,0-1", several(&[(5, 7), (0, 2)])),
            ("bytes= 0-1 ,\t-1", several(&[(0, 2), (99, 100)])),
            ("bytes=0-1,,5-6,", several(&[(0, 2), (5, 7)])),
            ("bytes=0-50,40-60", one(0, 61)),
            ("bytes=0-,0-,0-", one(0, 100)),
            ("bytes=80-90,0-50,40-60", several(&[(0, 61), (80, 91)])),
            ("bytes=0-1,200-", one(0, 2)),
            ("bytes=100-", Ranges::Unsatisfiable),
            ("bytes=100-200,300-", Ranges::Unsatisfiable),
            ("bytes=99999999999999999999999-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
        ];
        for (value, expected) in table {
            assert_eq!(parse_ranges(value.as_bytes(), 100), expected, "{value}");
        }
    }

    #[test]
    fn ignores_unknown_ranges() {
        let many = format!("bytes={}", "0-0,".repeat(RANGE_COUNT_MAX + 1));
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-1",
            "bytes=+1-2",
            "lines=0-1",
            "bytes=1",
            "bytes=0-1-2",
            "bytes=0-1;2",
            "bytes =0-1",
            &many,
        ] {
            assert_eq!(parse_ranges(value.as_bytes(), 100), Ranges::Ignored, "{value}");
        }
        assert_eq!(parse_ranges(b"bytes=\xff-", 100), Ranges::Ignored);
    }

    #[test]
    fn empty_representation_has_no_range() {
        assert_eq!(parse_ranges(b"bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse_ranges(b"bytes=-1", 0), Ranges::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn ranges_stay_within_the_representation(value in "bytes=([0-9]{0,3}-[0-9]{0,3},?){1,8}", length in 0_u64..500) {
            let parts = match parse_ranges(value.as_bytes(), length) {
                Ranges::One(range) => vec![range],
                Ranges::Several(ranges) => ranges,
                _ => vec![],
            };
            prop_assert!(parts.iter().all(|range| range.start < range.end && range.end <= length));
            prop_assert!(parts.iter().map(|range| range.length()).sum::<u64>() <= length);
        }
    }

    #[test]
    fn encloses_ranges_in_boundaries() {
        let ranges = [ByteRange { start: 0, end: 2 }, ByteRange { start: 9, end: 10 }];
        let body = |media_type: Option<&str>| {
            let part = |range: ByteRange| "0123456789"[range.start as usize..range.end as usize].to_owned();
            let (content_type, pieces) = multipart_ranges(&ranges, 10, media_type, 0xab, part);
            assert_eq!(content_type, "multipart/byteranges; boundary=breme-00000000000000ab");
            pieces.concat()
        };
        assert_eq!(
            body(Some("text/plain")),
            "--breme-00000000000000ab\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n\
             --breme-00000000000000ab\r\nContent-Type: text/plain\r\nContent-Range: bytes 9-9/10\r\n\r\n9\r\n\
             --breme-00000000000000ab--\r\n"
        );
        assert!(body(None).starts_with("--breme-00000000000000ab\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n"));
        assert_eq!(unsatisfied_range(10), "bytes */10");
    }

    #[test]
    fn joins_adjacent_ranges_when_others_overlap() {
        assert_eq!(parse_ranges(b"bytes=0-9,5-19,20-29", 100), one(0, 30));
        assert_eq!(parse_ranges(b"bytes=0-9,10-19", 100), several(&[(0, 10), (10, 20)]));
    }

    #[test]
    fn accepts_as_many_ranges_as_the_limit() {
        let most = format!("bytes={}", "0-0,".repeat(RANGE_COUNT_MAX));
        assert_eq!(parse_ranges(most.as_bytes(), 100), one(0, 1));
    }
}
