//! Finds the end of a head and splits it into fields.
//!
//! ```text
//!   whole head in one piece ──► tokeniser (SIMD) ──► are all line ends CRLF? ──► fields
//!            │ no, or not clean                            │ no
//!            ▼                                             ▼
//!   line by line, each checked once, by our own grammar: the error, or "need more", or fields
//! ```
//!
//! The strict path decides every refusal, by the first error in byte order. So the verdict does not depend on the
//! segmentation, and a head that arrives byte by byte is scanned once.

use std::mem::MaybeUninit;

use breme_http::syntax::{token_run, trim, value_run};
use breme_http::{FIELD_COUNT_MAX, Field, Limits, RefusalReason};

/// Storage for the fields of one head, on the caller's stack.
#[derive(Debug)]
pub struct FieldStorage<'a> {
    pub(crate) headers: [MaybeUninit<Field<'a>>; FIELD_COUNT_MAX],
}

impl FieldStorage<'_> {
    /// Uninitialised, so that it costs nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { headers: [const { MaybeUninit::uninit() }; FIELD_COUNT_MAX] }
    }
}

impl Default for FieldStorage<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Progress in an incomplete head. Offsets count from its first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadScan {
    /// Start of the first incomplete line.
    line_start: u32,
    /// Bytes already searched for the end of that line.
    scanned: u32,
    field_count: u16,
}

/// The fields of a head and the length of the head in bytes.
pub(crate) type Section<'a, 'f> = (&'f [Field<'a>], usize);

/// The first line of a head, which differs between the roles.
pub(crate) trait FirstLine {
    /// The longest first line.
    fn bytes_max(limits: &Limits) -> usize;
    /// The refusal of a first line that exceeds the limit.
    const TOO_LONG: RefusalReason;
    /// Whether `line`, up to its line feed or the limit, is valid so far.
    fn check(line: &[u8], limits: &Limits) -> Result<(), RefusalReason>;
}

impl HeadScan {
    pub(crate) const fn is_fresh(self) -> bool {
        self.scanned == 0
    }

    /// Scans the new bytes of `input`. Returns the length of a complete head.
    pub(crate) fn scan<L: FirstLine>(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, RefusalReason> {
        let window = within(input, limits);
        while let Some(found) = memchr::memchr(b'\n', window.get(self.scanned as usize..).unwrap_or_default()) {
            let end = self.scanned as usize + found + 1;
            let line = &window[self.line_start as usize..end];
            if self.line_start == 0 {
                L::check(line, limits)?;
            } else if line == b"\r\n" {
                return Ok(Some(end));
            } else {
                self.count_field(line, limits)?;
            }
            self.line_start = end as u32;
            self.scanned = end as u32;
        }
        self.scanned = window.len() as u32;
        self.check_bounds::<L>(input, limits)?;
        Ok(None)
    }

    /// Why an incomplete head is rejected at the end of the input: an error in its first line, else truncation.
    pub(crate) fn why_cut_off<L: FirstLine>(self, input: &[u8], limits: &Limits) -> RefusalReason {
        match L::check(within(input, limits), limits) {
            Err(reason) if self.line_start == 0 => reason,
            _ => RefusalReason::Truncated,
        }
    }

    fn count_field(&mut self, line: &[u8], limits: &Limits) -> Result<(), RefusalReason> {
        split_field_line(line)?;
        self.field_count += 1;
        if usize::from(self.field_count) > field_count_max(limits) {
            return Err(RefusalReason::TooManyFields);
        }
        Ok(())
    }

    /// Whether an incomplete line is already too long.
    fn check_bounds<L: FirstLine>(self, input: &[u8], limits: &Limits) -> Result<(), RefusalReason> {
        let window = within(input, limits);
        let full = window.len() < input.len();
        if self.line_start == 0 && (full || window.len() > L::bytes_max(limits)) {
            L::check(window, limits)?;
        }
        if full {
            return Err(if self.line_start == 0 { L::TOO_LONG } else { RefusalReason::HeadTooLarge });
        }
        Ok(())
    }
}

/// The part of `input` within the limit.
pub(crate) fn within<'a>(input: &'a [u8], limits: &Limits) -> &'a [u8] {
    /// Offsets in a head are 32 bits wide.
    const HEAD_BYTES_MAX: usize = u32::MAX as usize;
    &input[..input.len().min(limits.head_bytes_max).min(HEAD_BYTES_MAX)]
}

/// The limit, at most the capacity of a [`FieldStorage`].
pub(crate) fn field_count_max(limits: &Limits) -> usize {
    limits.field_count_max.min(FIELD_COUNT_MAX)
}

/// Name and value of a field line (RFC 9112, 5), or its first error. `line` ends with its line feed.
pub(crate) fn split_field_line(line: &[u8]) -> Result<(&[u8], &[u8]), RefusalReason> {
    let name_len = token_run(line);
    match &line[name_len..] {
        [b':', ..] if name_len > 0 => {}
        rest => return Err(why_no_name(name_len, rest)),
    }
    let rest = &line[name_len + 1..];
    let value_len = value_run(rest);
    match &rest[value_len..] {
        b"\r\n" => Ok((&line[..name_len], trim(&rest[..value_len]))),
        [b'\r', ..] => Err(RefusalReason::BareCarriageReturn),
        [b'\n', ..] => Err(RefusalReason::BareLineFeed),
        _ => Err(RefusalReason::BadFieldValue),
    }
}

/// A field line whose token is not followed by a colon.
fn why_no_name(name_len: usize, rest: &[u8]) -> RefusalReason {
    match rest {
        [b':', ..] => RefusalReason::EmptyFieldName,
        [b' ' | b'\t', ..] if name_len == 0 => RefusalReason::ObsoleteFold,
        [b' ' | b'\t', ..] => RefusalReason::SpaceBeforeColon,
        b"\r\n" => RefusalReason::MissingColon,
        [b'\r', ..] => RefusalReason::BareCarriageReturn,
        [b'\n', ..] => RefusalReason::BareLineFeed,
        _ => RefusalReason::BadFieldName,
    }
}

/// Whether every line of a tokenised head ends with CRLF: the tokeniser accepts a bare line feed.
///
/// Names are slices of `head` and begin a line, so two loads per field suffice. The caller has checked the first line.
pub(crate) fn lines_are_strict(head: &[u8], headers: &[Field<'_>]) -> bool {
    let base = head.as_ptr().addr();
    head.ends_with(b"\r\n\r\n")
        && headers.iter().all(|header| {
            let start = header.name.as_ptr().addr().wrapping_sub(base);
            head.get(start.wrapping_sub(2)) == Some(&b'\r')
        })
}

/// Splits a head that [`HeadScan::scan`] found complete into its fields, without the tokeniser.
pub(crate) fn split_fields<'a, 'f>(
    head: &'a [u8],
    first_line_len: usize,
    storage: &'f mut FieldStorage<'a>,
) -> Result<Section<'a, 'f>, RefusalReason> {
    let mut headers = [httparse::EMPTY_HEADER; FIELD_COUNT_MAX];
    let mut count = 0;
    let lines = head.get(first_line_len..head.len().saturating_sub(2)).ok_or(RefusalReason::Malformed)?;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let (name, value) = split_field_line(line)?;
        let name = std::str::from_utf8(name).map_err(|_| RefusalReason::BadFieldName)?;
        *headers.get_mut(count).ok_or(RefusalReason::TooManyFields)? = Field { name, value };
        count += 1;
    }
    Ok((storage.headers[..count].write_copy_of_slice(&headers[..count]), head.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_line::RequestLine;

    #[test]
    fn scans_each_byte_once() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
        let (mut scan, limits) = (HeadScan::default(), Limits::default());
        assert!(scan.is_fresh());
        for end in 1..head.len() {
            assert_eq!(scan.scan::<RequestLine<'_>>(&head[..end], &limits), Ok(None));
            assert_eq!(scan.scanned as usize, end, "nothing before it is searched again");
            let line_start = head[..end].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            assert_eq!(scan.line_start as usize, line_start, "no complete line is checked again");
        }
        assert_eq!(scan.scan::<RequestLine<'_>>(head, &limits), Ok(Some(head.len())));
        assert_eq!(scan.field_count, 2);
    }

    #[test]
    fn both_parsers_find_the_same_fields() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nEmpty:\r\nBlank: \t \r\nWide:\t x \xc3\xa9 \t\r\n\r\n";
        let mut careful = FieldStorage::new();
        let (headers, len) = split_fields(head, 16, &mut careful).unwrap();
        let mut quick = [httparse::EMPTY_HEADER; 8];
        let mut request = httparse::Request::new(&mut quick);
        assert_eq!(request.parse(head), Ok(httparse::Status::Complete(len)));
        assert_eq!(headers, request.headers);
        assert!(lines_are_strict(head, request.headers));
    }

    #[test]
    fn detects_bare_line_feeds() {
        let head = "GET / HTTP/1.1\r\nHost: a\r\nB:\r\nC: d\r\n\r\n";
        let first_line_len = head.find('\n').unwrap() + 1;
        for (at, _) in head.match_indices('\r').filter(|&(at, _)| at > first_line_len) {
            let mut lax = head.to_owned();
            lax.remove(at);
            let mut headers = [httparse::EMPTY_HEADER; 8];
            let mut request = httparse::Request::new(&mut headers);
            let Ok(httparse::Status::Complete(len)) = request.parse(lax.as_bytes()) else {
                panic!("it is lax: {lax:?}")
            };
            assert!(!lines_are_strict(&lax.as_bytes()[..len], request.headers), "{lax:?}");
        }
    }
}
