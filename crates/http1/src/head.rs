//! Finding the end of a head, and cutting it into fields.
//!
//! ```text
//!   whole head in one piece ──► lines are found, then cut into name and value ──► fields
//!            │ no, or anything is not in order
//!            ▼
//!   line by line, each checked once: what is wrong, or "need more", or fields
//! ```
//!
//! The careful path decides every refusal, by the first offence in the order of the bytes. So the verdict does not
//! depend on how the bytes were cut into segments, and a head that comes byte by byte is looked at once.

use crate::refusal::RefusalReason;
use crate::syntax::{is_value, token_run, trim, value_run};
use crate::{Field, FieldStorage, Limits};

/// How much of a head was looked at, while it is incomplete. Offsets count from the head's first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadScan {
    /// Where the first line begins that is not complete.
    line_start: u32,
    /// Up to here there is no end of that line.
    scanned: u32,
    /// Complete field lines so far.
    field_count: u16,
}

/// A head that was cut into fields.
#[derive(Debug)]
pub(crate) struct Section<'a, 'f> {
    pub(crate) fields: &'f [Field<'a>],
    /// Of the whole head, in bytes.
    pub(crate) len: usize,
    /// The whole head, if it is known to be text.
    pub(crate) text: Option<&'a str>,
}

/// The first line, as the two roles differ in it.
pub(crate) trait FirstLine {
    /// A first line cannot be longer than this.
    fn bytes_max(limits: &Limits) -> usize;
    /// What it is called if the head ends inside it by the limit.
    const TOO_LONG: RefusalReason;
    /// Whether `line`, up to its line feed or up to the limit, is in order so far.
    fn check(line: &[u8], limits: &Limits) -> Result<(), RefusalReason>;
}

impl HeadScan {
    /// Nothing of the head was seen.
    pub(crate) const fn is_fresh(self) -> bool {
        self.scanned == 0
    }

    /// Looks at what is new in `input`. The length of the head if it is complete.
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

    /// Why a head that will not be completed is refused: what is wrong with its first line, else that it is cut off.
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

    /// A line that is not complete: too long already?
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

/// Nothing behind the limit is looked at.
pub(crate) fn within<'a>(input: &'a [u8], limits: &Limits) -> &'a [u8] {
    /// Offsets in a head are 32 bits wide.
    const HEAD_BYTES_MAX: usize = u32::MAX as usize;
    &input[..input.len().min(limits.head_bytes_max).min(HEAD_BYTES_MAX)]
}

/// The limit, which cannot be more than the storage has room for.
pub(crate) fn field_count_max(limits: &Limits) -> usize {
    limits.field_count_max.min(FieldStorage::CAPACITY)
}

/// Name and value of a field line (RFC 9112, 5), or the first offence in it. `line` ends with its line feed.
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

/// Room for the fields of a head that comes in one piece.
pub(crate) struct QuickFields<'a> {
    fields: [Field<'a>; QUICK_FIELDS_MAX],
}

/// A head that is complete and in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuickHead<'a> {
    field_count: usize,
    /// All of it.
    text: &'a str,
}

impl<'a> QuickFields<'a> {
    pub(crate) const fn new() -> Self {
        Self { fields: [Field::EMPTY; QUICK_FIELDS_MAX] }
    }

    /// Cuts a head into its fields, with one look for the ends of its lines and one at what is in them. None if it is
    /// not complete or anything is not in order, which leaves it to the careful path.
    pub(crate) fn split(&mut self, input: &'a [u8], first_line_len: usize, limits: &Limits) -> Option<QuickHead<'a>> {
        let mut line_ends = [0; QUICK_FIELDS_MAX];
        let window = within(input, limits);
        let field_count = find_lines(window, first_line_len, &mut line_ends)?;
        let line_ends = &line_ends[..field_count];
        let len = line_ends.last().map_or(first_line_len, |&end| end as usize) + CRLF.len();
        // One check for all names, the target and Host.
        let text = std::str::from_utf8(&window[..len]).ok()?;
        let mut start = first_line_len;
        for (field, &end) in self.fields.iter_mut().zip(line_ends) {
            *field = quick_field(text, start, end as usize)?;
            start = end as usize;
        }
        (field_count <= field_count_max(limits)).then_some(QuickHead { field_count, text })
    }

    /// The head that was just split.
    pub(crate) fn section<'f>(&self, head: QuickHead<'a>, storage: &'f mut FieldStorage<'a>) -> Section<'a, 'f> {
        let fields = storage.fields[..head.field_count].write_copy_of_slice(&self.fields[..head.field_count]);
        Section { fields, len: head.text.len(), text: Some(head.text) }
    }
}

/// A head with more fields takes the careful path.
const QUICK_FIELDS_MAX: usize = 32;
const CRLF: &[u8; 2] = b"\r\n";

/// Notes where each field line ends, and counts them; none if the empty line is not there or there are too many.
fn find_lines(head: &[u8], first_line_len: usize, ends: &mut [u32; QUICK_FIELDS_MAX]) -> Option<usize> {
    let mut start = first_line_len;
    for count in 0..=QUICK_FIELDS_MAX {
        let rest = head.get(start..)?;
        if rest.starts_with(CRLF) {
            return Some(count);
        }
        start += memchr::memchr(b'\n', rest)? + 1;
        *ends.get_mut(count)? = start as u32;
    }
    None
}

/// The field in the line from `start` to `end`, its line feed included. By the same grammar as [`split_field_line`].
fn quick_field(head: &str, start: usize, end: usize) -> Option<Field<'_>> {
    let line = head.as_bytes().get(start..end)?.strip_suffix(CRLF)?;
    let name_len = token_run(line);
    let value = match line.get(name_len..)? {
        [b':', b' ', value @ ..] | [b':', value @ ..] if name_len > 0 => value,
        _ => return None,
    };
    let name = head.get(start..start + name_len)?;
    is_value(value).then(|| Field { name, value: trim(value) })
}

/// Cuts a head that [`HeadScan::scan`] found complete into its fields, without the tokeniser.
pub(crate) fn split_fields<'a, 'f>(
    head: &'a [u8],
    first_line_len: usize,
    storage: &'f mut FieldStorage<'a>,
) -> Result<Section<'a, 'f>, RefusalReason> {
    let mut headers = [Field::EMPTY; FieldStorage::CAPACITY];
    let mut count = 0;
    let lines = head.get(first_line_len..head.len().saturating_sub(2)).ok_or(RefusalReason::Malformed)?;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let (name, value) = split_field_line(line)?;
        let name = std::str::from_utf8(name).map_err(|_| RefusalReason::BadFieldName)?;
        *headers.get_mut(count).ok_or(RefusalReason::TooManyFields)? = Field { name, value };
        count += 1;
    }
    let fields = storage.fields[..count].write_copy_of_slice(&headers[..count]);
    Ok(Section { fields, len: head.len(), text: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_line::RequestLine;

    #[test]
    fn a_head_that_comes_byte_by_byte_is_looked_at_once() {
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

    /// What both paths make of a head: the quick one may decline, and must not differ.
    fn check(head: &[u8], is_quick: bool) {
        let (limits, first_line_len) = (Limits::default(), 16);
        let (mut quick, mut careful) = (FieldStorage::new(), FieldStorage::new());
        let mut fields = QuickFields::new();
        let quick = fields.split(head, first_line_len, &limits).map(|found| fields.section(found, &mut quick));
        let is_complete = HeadScan::default().scan::<RequestLine<'_>>(head, &limits);
        let expected = match is_complete {
            Ok(Some(len)) => split_fields(&head[..len], first_line_len, &mut careful).ok(),
            Ok(None) | Err(_) => None,
        };
        assert_eq!(quick.is_some(), is_quick, "{}", head.escape_ascii());
        if let Some(quick) = quick {
            let expected = expected.unwrap_or_else(|| panic!("{} is refused", head.escape_ascii()));
            assert_eq!((quick.fields, quick.len), (expected.fields, expected.len), "{}", head.escape_ascii());
            assert_eq!(quick.text.map(str::as_bytes), Some(&head[..quick.len]));
        }
    }

    #[test]
    fn both_paths_cut_the_same_fields() {
        let fields = "Host: a\r\nEmpty:\r\nBlank: \t \r\nWide:\t x \u{e9} \t\r\nColons: a:b: c\r\n";
        for rest in [&b""[..], b"content\r\n\r\n\xff"] {
            check(&[b"GET / HTTP/1.1\r\n", fields.as_bytes(), b"\r\n", rest].concat(), true);
        }
        check(b"GET / HTTP/1.1\r\n\r\n", true);
        for most in [QUICK_FIELDS_MAX, QUICK_FIELDS_MAX + 1] {
            let fields = "A: b\r\n".repeat(most);
            check(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes(), most == QUICK_FIELDS_MAX);
        }
    }

    #[test]
    fn what_is_not_in_order_is_left_to_the_careful_path() {
        for fields in [
            &b"A: b\n\r\n"[..],
            b"A: b\r\n\n",
            b"A: b\r\n",
            b"A: b\r\n\r",
            b"A: b\rc\r\n\r\n",
            b"A : b\r\n\r\n",
            b" A: b\r\n\r\n",
            b": b\r\n\r\n",
            b"A\r\n\r\n",
            b"A: b\0\r\n\r\n",
            b"A: b\x7f\r\n\r\n",
            b"A: b\r\n c\r\n\r\n",
            b"\xe9: b\r\n\r\n",
            b"A: \xe9\r\n\r\n",
        ] {
            check(&[b"GET / HTTP/1.1\r\n", fields].concat(), false);
        }
    }

    #[test]
    fn every_byte_anywhere_is_cut_alike_or_declined() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nB:  c \r\n\r\n";
        for place in 16..head.len() {
            for byte in 0..=255 {
                let mut other = head.to_vec();
                other[place] = byte;
                let is_quick = QuickFields::new().split(&other, 16, &Limits::default()).is_some();
                check(&other, is_quick);
            }
        }
    }
}
