//! The Range field (RFC 9110, 14): which parts of a representation were asked for.
//!
//! A range that is not understood is ignored, and the whole is sent (14.2). What would cost more than it is worth is
//! ignored as well: more than [`RANGE_COUNT_MAX`] ranges. Ranges that overlap are joined, so that no request makes an
//! answer longer than the representation (the "Apache killer" of 2011).

/// Ranges of one request, past which the field is ignored.
pub const RANGE_COUNT_MAX: usize = 16;

/// The bytes from `start` up to and without `end`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The one behind the last.
    pub end: u64,
}

impl ByteRange {
    /// How many bytes.
    #[must_use]
    pub const fn length(self) -> u64 {
        self.end - self.start
    }
}

/// What a Range field asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Send the whole.
    Ignored,
    /// 206 with one part.
    One(ByteRange),
    /// 206 with `multipart/byteranges`.
    Several(Vec<ByteRange>),
    /// 416.
    Unsatisfiable,
}

/// Reads `value` for a representation of `length` bytes.
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
            Spec::Bytes(range) => ranges.push(range),
            Spec::Outside => {}
            Spec::Malformed => return Ranges::Ignored,
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

/// What stands behind `bytes=`; the unit's case does not matter (14.1).
fn byte_specs(value: &[u8]) -> Option<&str> {
    let (unit, specs) = std::str::from_utf8(value).ok()?.split_once('=')?;
    unit.eq_ignore_ascii_case("bytes").then_some(specs)
}

enum Spec {
    Bytes(ByteRange),
    /// Well formed, but it begins behind the end.
    Outside,
    Malformed,
}

fn parse_spec(spec: &str, length: u64) -> Spec {
    let Some((first, last)) = spec.split_once('-') else { return Spec::Malformed };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if last < first => Spec::Malformed,
        (Some(first), Some(last)) => bytes(first, last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => bytes(first, length),
        (None, Some(suffix)) if first.is_empty() => bytes(length.saturating_sub(suffix), length),
        _ => Spec::Malformed,
    }
}

fn bytes(start: u64, end: u64) -> Spec {
    if start < end { Spec::Bytes(ByteRange { start, end }) } else { Spec::Outside }
}

/// Digits only (no sign). A number past 64 bits lies behind every end, and the largest one does too.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Leaves ranges in the order in which they were asked for, unless some overlap: then sorted and joined (14.2).
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
    fn ranges_of_a_hundred_bytes() {
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
    fn what_is_not_understood_is_ignored() {
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
    fn an_empty_representation_has_no_range() {
        assert_eq!(parse_ranges(b"bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse_ranges(b"bytes=-1", 0), Ranges::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn parts_lie_inside_and_never_exceed_the_whole(value in "bytes=([0-9]{0,3}-[0-9]{0,3},?){1,8}", length in 0_u64..500) {
            let parts = match parse_ranges(value.as_bytes(), length) {
                Ranges::One(range) => vec![range],
                Ranges::Several(ranges) => ranges,
                _ => vec![],
            };
            prop_assert!(parts.iter().all(|range| range.start < range.end && range.end <= length));
            prop_assert!(parts.iter().map(|range| range.length()).sum::<u64>() <= length);
        }
    }
}
