//! Decodes content from its framing (RFC 9112, 6.3 and 7.1), for both roles.
//!
//! Chunk framing is consumed byte by byte: none of it stays in the driver, and a size line that arrives in a thousand
//! segments is read once. Only an incomplete trailer line is left unconsumed, because its name must be checked whole.

use breme_http::syntax::{is_blank, is_token_byte, is_value_byte};
use breme_http::trailers::is_refused;
use breme_http::{Field, Framing, Limits, RefusalReason};

use crate::head::{field_count_max, split_field_line};

/// Limit of the hexadecimal digits of a chunk's size, leading zeros included.
const SIZE_DIGITS_MAX: u32 = 16;

/// The position in a message's content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ContentDecoder {
    /// Bytes of the content, or of this chunk, still to come; the chunk's size while its size line is read.
    remaining: u64,
    /// Bytes consumed of this size line, or of the trailer section.
    line_bytes: u32,
    /// The start of the input up to here contains no end of the trailer line.
    scanned: u32,
    trailer_count: u16,
    phase: ContentPhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ContentPhase {
    #[default]
    Done,
    Length,
    UntilClose,
    /// The size line of a chunk. Before the first digit `line_bytes` is 0.
    Size,
    ExtensionStart,
    ExtensionName,
    /// White space after the name: `=` must follow.
    ExtensionEquals,
    ExtensionValueStart,
    ExtensionToken,
    ExtensionQuoted,
    ExtensionEscape,
    ExtensionAfterQuoted,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    Trailers,
}

/// The next item of the input.
#[derive(Debug)]
pub(crate) enum ContentStep<'a> {
    NeedMore { taken: usize },
    Content { bytes: &'a [u8], taken: usize },
    Trailer { field: Field<'a>, taken: usize },
    End { taken: usize },
}

impl ContentDecoder {
    pub(crate) fn new(framing: Framing) -> Self {
        let (phase, remaining) = match framing {
            Framing::None | Framing::Length(0) => (ContentPhase::Done, 0),
            Framing::Length(length) => (ContentPhase::Length, length),
            Framing::Chunked => (ContentPhase::Size, 0),
            Framing::UntilClose => (ContentPhase::UntilClose, 0),
        };
        Self { phase, remaining, ..Self::default() }
    }

    /// The rest of content with a Content-Length.
    pub(crate) fn known_rest(&self) -> Option<u64> {
        matches!(self.phase, ContentPhase::Done | ContentPhase::Length).then_some(self.remaining)
    }

    pub(crate) fn ends_with_connection(&self) -> bool {
        self.phase == ContentPhase::UntilClose
    }

    /// The next item. `bytes_max` limits the content still accepted.
    pub(crate) fn decode<'a>(
        &mut self,
        input: &'a [u8],
        bytes_max: u64,
        limits: &Limits,
    ) -> Result<ContentStep<'a>, RefusalReason> {
        let mut taken = 0;
        loop {
            match self.phase {
                ContentPhase::Done => return Ok(ContentStep::End { taken }),
                ContentPhase::Length | ContentPhase::Data | ContentPhase::UntilClose => {
                    return Ok(self.take_bytes(input, taken));
                }
                ContentPhase::Trailers => match self.take_trailer(&input[taken..], limits)? {
                    Some((line_bytes, Some(field))) => {
                        return Ok(ContentStep::Trailer { field, taken: taken + line_bytes });
                    }
                    Some((line_bytes, None)) => taken += line_bytes,
                    None => return Ok(ContentStep::NeedMore { taken }),
                },
                _ => match input.get(taken) {
                    Some(&byte) => {
                        self.take_framing(byte, bytes_max, limits)?;
                        taken += 1;
                    }
                    None => return Ok(ContentStep::NeedMore { taken }),
                },
            }
        }
    }

    /// Returns the received part of the remaining bytes.
    fn take_bytes<'a>(&mut self, input: &'a [u8], taken: usize) -> ContentStep<'a> {
        let rest = &input[taken..];
        if rest.is_empty() {
            return ContentStep::NeedMore { taken };
        }
        if self.phase == ContentPhase::UntilClose {
            return ContentStep::Content { bytes: rest, taken: input.len() };
        }
        let count = usize::try_from(self.remaining).map_or(rest.len(), |remaining| remaining.min(rest.len()));
        self.remaining -= count as u64;
        if self.remaining == 0 {
            self.phase = if self.phase == ContentPhase::Length { ContentPhase::Done } else { ContentPhase::DataReturn };
        }
        ContentStep::Content { bytes: &rest[..count], taken: taken + count }
    }

    /// Consumes one byte of chunk framing.
    fn take_framing(&mut self, byte: u8, bytes_max: u64, limits: &Limits) -> Result<(), RefusalReason> {
        match self.phase {
            ContentPhase::DataReturn | ContentPhase::DataLineFeed => return self.take_chunk_end(byte),
            ContentPhase::SizeLineFeed if byte == b'\n' => return self.end_size_line(bytes_max),
            ContentPhase::SizeLineFeed => return Err(RefusalReason::BareCarriageReturn),
            ContentPhase::Size => self.phase = self.take_size(byte)?,
            _ => self.phase = self.take_extension(byte)?,
        }
        self.line_bytes += 1;
        if self.line_bytes as usize > limits.chunk_line_bytes_max {
            return Err(RefusalReason::ChunkLineTooLong);
        }
        Ok(())
    }

    fn take_size(&mut self, byte: u8) -> Result<ContentPhase, RefusalReason> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if self.line_bytes >= SIZE_DIGITS_MAX {
                return Err(RefusalReason::BadChunkSize);
            }
            self.remaining = self.remaining << 4 | u64::from(digit);
            return Ok(ContentPhase::Size);
        }
        match byte {
            _ if self.line_bytes == 0 => Err(RefusalReason::BadChunkSize),
            b'\r' => Ok(ContentPhase::SizeLineFeed),
            b';' => Ok(ContentPhase::ExtensionStart),
            b'\n' => Err(RefusalReason::BareLineFeed),
            _ => Err(RefusalReason::BadChunkSize),
        }
    }

    /// `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` (RFC 9112, 7.1.1). The "bad" white space is
    /// accepted where nothing can end (after `;` and around `=`), not before `;` and the end of the line.
    fn take_extension(&self, byte: u8) -> Result<ContentPhase, RefusalReason> {
        use ContentPhase::*;
        match (self.phase, byte) {
            (_, b'\n') => Err(RefusalReason::BareLineFeed),
            (ExtensionName | ExtensionToken | ExtensionAfterQuoted, b'\r') => Ok(SizeLineFeed),
            (ExtensionName | ExtensionToken | ExtensionAfterQuoted, b';') => Ok(ExtensionStart),
            (ExtensionStart, _) if is_blank(byte) => Ok(ExtensionStart),
            (ExtensionStart | ExtensionName, _) if is_token_byte(byte) => Ok(ExtensionName),
            (ExtensionName | ExtensionEquals, b'=') => Ok(ExtensionValueStart),
            (ExtensionName | ExtensionEquals, _) if is_blank(byte) => Ok(ExtensionEquals),
            (ExtensionValueStart, _) if is_blank(byte) => Ok(ExtensionValueStart),
            (ExtensionValueStart, b'"') => Ok(ExtensionQuoted),
            (ExtensionValueStart | ExtensionToken, _) if is_token_byte(byte) => Ok(ExtensionToken),
            (ExtensionQuoted, b'"') => Ok(ExtensionAfterQuoted),
            (ExtensionQuoted, b'\\') => Ok(ExtensionEscape),
            (ExtensionQuoted | ExtensionEscape, _) if is_value_byte(byte) => Ok(ExtensionQuoted),
            _ => Err(RefusalReason::BadChunkExtension),
        }
    }

    fn end_size_line(&mut self, bytes_max: u64) -> Result<(), RefusalReason> {
        if self.remaining > bytes_max {
            return Err(RefusalReason::ContentTooLarge);
        }
        self.line_bytes = 0;
        self.phase = if self.remaining == 0 { ContentPhase::Trailers } else { ContentPhase::Data };
        Ok(())
    }

    fn take_chunk_end(&mut self, byte: u8) -> Result<(), RefusalReason> {
        self.phase = match (self.phase, byte) {
            (ContentPhase::DataReturn, b'\r') => ContentPhase::DataLineFeed,
            (ContentPhase::DataLineFeed, b'\n') => ContentPhase::Size,
            _ => return Err(RefusalReason::BadChunkEnd),
        };
        Ok(())
    }

    /// The next complete line of the trailer section: its length and its field, None for the empty line at the end.
    fn take_trailer<'a>(
        &mut self,
        rest: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<(usize, Option<Field<'a>>)>, RefusalReason> {
        let bytes_left = limits.head_bytes_max.saturating_sub(self.line_bytes as usize);
        let window = &rest[..rest.len().min(bytes_left)];
        let Some(found) = memchr::memchr(b'\n', window.get(self.scanned as usize..).unwrap_or_default()) else {
            self.scanned = window.len() as u32;
            return if window.len() < rest.len() { Err(RefusalReason::TrailerTooLarge) } else { Ok(None) };
        };
        let line = &window[..self.scanned as usize + found + 1];
        if line == b"\r\n" {
            self.phase = ContentPhase::Done;
            return Ok(Some((line.len(), None)));
        }
        let field = self.check_trailer(line, limits)?;
        self.line_bytes = self.line_bytes.saturating_add(line.len() as u32);
        self.scanned = 0;
        Ok(Some((line.len(), Some(field))))
    }

    fn check_trailer<'a>(&mut self, line: &'a [u8], limits: &Limits) -> Result<Field<'a>, RefusalReason> {
        let (name, value) = split_field_line(line)?;
        if is_refused(name) {
            return Err(RefusalReason::ForbiddenTrailer);
        }
        self.trailer_count += 1;
        if usize::from(self.trailer_count) > field_count_max(limits) {
            return Err(RefusalReason::TooManyFields);
        }
        let name = std::str::from_utf8(name).map_err(|_| RefusalReason::BadFieldName)?;
        Ok(Field { name, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content, the trailers, and the bytes after the message, or why it was rejected.
    fn decode(input: &[u8], segment_bytes: usize, bytes_max: u64) -> Result<Option<(Vec<u8>, usize)>, RefusalReason> {
        let mut decoder = ContentDecoder::new(Framing::Chunked);
        let limits = Limits { chunk_line_bytes_max: 64, head_bytes_max: 64, field_count_max: 3, ..Limits::default() };
        let (mut content, mut start, mut end) = (Vec::new(), 0, 0);
        loop {
            match decoder.decode(&input[start..end], bytes_max - content.len() as u64, &limits)? {
                ContentStep::NeedMore { taken } => {
                    start += taken;
                    if end == input.len() {
                        return Ok(None);
                    }
                    end = (end + segment_bytes).min(input.len());
                }
                ContentStep::Content { bytes, taken } => {
                    assert!(!bytes.is_empty());
                    content.extend_from_slice(bytes);
                    start += taken;
                }
                ContentStep::Trailer { field, taken } => {
                    content.extend_from_slice(format!("|{}={}", field.name, field.value.escape_ascii()).as_bytes());
                    start += taken;
                }
                ContentStep::End { taken } => return Ok(Some((content, input.len() - start - taken))),
            }
        }
    }

    fn check(input: &str, expected: Result<Option<(&str, usize)>, RefusalReason>) {
        let expected = expected.map(|found| found.map(|(content, rest)| (content.as_bytes().to_vec(), rest)));
        for segment_bytes in [input.len(), 1, 2, 3, 7] {
            let found = decode(input.as_bytes(), segment_bytes, 1000);
            let found = found.map(|found| {
                found.map(|(content, rest)| (content, if segment_bytes == input.len() { rest } else { 0 }))
            });
            let mut expected = expected.clone();
            if segment_bytes != input.len()
                && let Ok(Some((_, rest))) = &mut expected
            {
                *rest = 0;
            }
            assert_eq!(found, expected, "{input:?} in segments of {segment_bytes}");
        }
    }

    #[test]
    fn decodes_chunks() {
        check("0\r\n\r\n", Ok(Some(("", 0))));
        check("000\r\n\r\nnext", Ok(Some(("", 4))));
        check("5\r\nhello\r\n0\r\n\r\n", Ok(Some(("hello", 0))));
        check("5\r\nhello\r\n00A\r\n 0123\r\n\r\n \r\n0\r\n\r\nX", Ok(Some(("hello 0123\r\n\r\n ", 1))));
        check("a\r\n0123456789\r\n0\r\nA: 1\r\nB:\r\n\r\n", Ok(Some(("0123456789|A=1|B=", 0))));
        check("1;a;b=c; d = \"e;\\\" \\\\,é\"\r\nx\r\n0;z\r\n\r\n", Ok(Some(("x", 0))));
        check("5\r\nhel", Ok(None));
        check("0\r\nA: 1\r\n", Ok(None));
    }

    #[test]
    fn rejects_bad_chunks() {
        use RefusalReason::*;
        for (input, expected) in [
            ("\r\n", BadChunkSize),
            (";a\r\n", BadChunkSize),
            (" 5\r\n", BadChunkSize),
            ("5 \r\n", BadChunkSize),
            ("5\t;a\r\n", BadChunkSize),
            ("+5\r\n", BadChunkSize),
            ("-1\r\n", BadChunkSize),
            ("0x5\r\n", BadChunkSize),
            ("5h\r\n", BadChunkSize),
            ("1_0\r\n", BadChunkSize),
            ("5,5\r\n", BadChunkSize),
            ("10000000000000000\r\n", BadChunkSize),
            ("00000000000000005\r\n", BadChunkSize),
            ("ffffffffffffffff\r\n", ContentTooLarge),
            ("3e9\r\n", ContentTooLarge),
            ("5\nhello", BareLineFeed),
            ("5\rhello", BareCarriageReturn),
            ("5;a\nhello", BareLineFeed),
            ("5;a=\"\n\"\r\n", BareLineFeed),
            ("5;a=\"\\\n\"\r\n", BareLineFeed),
            ("5;a=\"\r\n", BadChunkExtension),
            ("5;a\rb\r\n", BareCarriageReturn),
            ("5;a=b\0\r\n", BadChunkExtension),
            ("5;\r\n", BadChunkExtension),
            ("5;a=\r\n", BadChunkExtension),
            ("5;a b\r\n", BadChunkExtension),
            ("5;a \r\n", BadChunkExtension),
            ("5;a=b \r\n", BadChunkExtension),
            ("5;=b\r\n", BadChunkExtension),
            ("5\r\nhelloX", BadChunkEnd),
            ("5\r\nhello\n0\r\n\r\n", BadChunkEnd),
            ("5\r\nhello\rX", BadChunkEnd),
            ("5\r\nhello0\r\n\r\n", BadChunkEnd),
            ("0\r\n\n", BareLineFeed),
            ("0\r\nX\r\n\r\n", MissingColon),
            ("0\r\nX : 1\r\n\r\n", SpaceBeforeColon),
            ("0\r\nX: 1\r\n folded\r\n\r\n", ObsoleteFold),
            ("0\r\nX: \0\r\n\r\n", BadFieldValue),
            ("0\r\nContent-LENGTH: 5\r\n\r\n", ForbiddenTrailer),
            ("0\r\ntransfer-encoding: chunked\r\n\r\n", ForbiddenTrailer),
            ("0\r\nHost: a\r\n\r\n", ForbiddenTrailer),
            ("0\r\na:\r\nb:\r\nc:\r\nd:\r\n\r\n", TooManyFields),
        ] {
            check(input, Err(expected));
        }
        check(&format!("1;{}\r\n", "a".repeat(64)), Err(ChunkLineTooLong));
        check(&format!("0\r\nA: {}\r\n\r\n", "a".repeat(64)), Err(TrailerTooLarge));
        check(&format!("0\r\nA: {}\r\nB: {}\r\n\r\n", "a".repeat(30), "b".repeat(30)), Err(TrailerTooLarge));
    }

    #[test]
    fn decodes_known_length() {
        let mut decoder = ContentDecoder::new(Framing::Length(3));
        let limits = Limits::default();
        assert_eq!(decoder.known_rest(), Some(3));
        assert!(matches!(decoder.decode(b"", 0, &limits), Ok(ContentStep::NeedMore { taken: 0 })));
        assert!(matches!(decoder.decode(b"ab", 0, &limits), Ok(ContentStep::Content { bytes: b"ab", taken: 2 })));
        assert_eq!(decoder.known_rest(), Some(1));
        assert!(matches!(decoder.decode(b"cd", 0, &limits), Ok(ContentStep::Content { bytes: b"c", taken: 1 })));
        assert!(matches!(decoder.decode(b"d", 0, &limits), Ok(ContentStep::End { taken: 0 })));
    }

    #[test]
    fn limits_are_inclusive() {
        let limits = Limits { chunk_line_bytes_max: 8, field_count_max: 2, ..Limits::default() };
        let decode = |input: &str| {
            let (mut decoder, mut rest) = (ContentDecoder::new(Framing::Chunked), input.as_bytes());
            loop {
                match decoder.decode(rest, 5, &limits) {
                    Ok(ContentStep::Content { taken, .. } | ContentStep::Trailer { taken, .. }) => {
                        rest = &rest[taken..];
                    }
                    Ok(ContentStep::End { .. }) => return Ok(()),
                    Ok(other) => panic!("{input:?}: {other:?}"),
                    Err(reason) => return Err(reason),
                }
            }
        };
        for (input, expected) in [
            ("5;abcde\r\nhello\r\n0\r\na:\r\nb:\r\n\r\n", Ok(())),
            ("5;abcdef\r\nhello\r\n0\r\n\r\n", Err(RefusalReason::ChunkLineTooLong)),
            ("6\r\nhello!\r\n0\r\n\r\n", Err(RefusalReason::ContentTooLarge)),
            ("0\r\na:\r\nb:\r\nc:\r\n\r\n", Err(RefusalReason::TooManyFields)),
        ] {
            assert_eq!(decode(input), expected, "{input:?}");
        }
    }
}
