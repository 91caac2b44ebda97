//! The status line of a response (RFC 9112, 4).

use breme_http::syntax::value_run;
use breme_http::{Limits, RefusalReason, Version};

use crate::head::FirstLine;
use crate::request_line::LineVersion;

/// `HTTP/1.1 200`
const FIXED_BYTES: usize = 12;

/// A status line. The reason phrase is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusLine {
    pub(crate) version: LineVersion,
    /// 100 to 999.
    pub(crate) status: u16,
    /// With its CRLF.
    pub(crate) len: usize,
}

impl FirstLine for StatusLine {
    const TOO_LONG: RefusalReason = RefusalReason::HeadTooLarge;

    fn bytes_max(limits: &Limits) -> usize {
        limits.head_bytes_max
    }

    fn check(line: &[u8], _limits: &Limits) -> Result<(), RefusalReason> {
        Self::parse(line).map(drop)
    }
}

impl StatusLine {
    /// Parses the status line at the start of `input`; None if it is incomplete and valid so far.
    /// `BadRequestLine`: an error after the version.
    pub(crate) fn parse(input: &[u8]) -> Result<Option<Self>, RefusalReason> {
        let fixed = &input[..input.len().min(FIXED_BYTES)];
        if !is_usual(fixed)
            && let Some(index) = (0..fixed.len()).find(|&index| !fits(index, fixed[index]))
        {
            return Err(match index {
                5 => RefusalReason::UnsupportedVersion,
                ..8 => RefusalReason::BadVersion,
                _ => RefusalReason::BadRequestLine,
            });
        }
        let Some(reason) = input.get(FIXED_BYTES..) else { return Ok(None) };
        // Many servers omit the space together with the reason phrase.
        let reason_len = match reason {
            [b' ', ..] => value_run(reason),
            _ => 0,
        };
        match &reason[reason_len..] {
            [b'\r', b'\n', ..] => Ok(Some(Self::from_fixed_part(fixed, FIXED_BYTES + reason_len + 2))),
            [] | [b'\r'] => Ok(None),
            [b'\n', ..] => Err(RefusalReason::BareLineFeed),
            [b'\r', ..] => Err(RefusalReason::BareCarriageReturn),
            _ => Err(RefusalReason::BadRequestLine),
        }
    }

    fn from_fixed_part(fixed: &[u8], len: usize) -> Self {
        let version = match fixed[7] {
            b'0' => LineVersion::Known(Version::Http10),
            b'1' => LineVersion::Known(Version::Http11),
            _ => LineVersion::Later,
        };
        let status = fixed[9..].iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        Self { version, status, len }
    }
}

/// Whether the line begins like almost every status line, to skip the check byte by byte in [`fits`].
fn is_usual(fixed: &[u8]) -> bool {
    let status = fixed.strip_prefix(b"HTTP/1.1 ");
    status.is_some_and(|status| matches!(status, [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9']))
}

fn fits(index: usize, byte: u8) -> bool {
    match index {
        7 | 10 | 11 => byte.is_ascii_digit(),
        9 => matches!(byte, b'1'..=b'9'),
        _ => byte == b"HTTP/1.1 200"[index],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_complete_status_lines() {
        let check = |line: &str, version, status| {
            let expected = StatusLine { version, status, len: line.len() };
            assert_eq!(StatusLine::parse(format!("{line}rest").as_bytes()), Ok(Some(expected)));
            for end in 0..line.len() {
                assert_eq!(StatusLine::parse(&line.as_bytes()[..end]), Ok(None), "{}", &line[..end]);
            }
        };
        check("HTTP/1.1 200 OK\r\n", LineVersion::Known(Version::Http11), 200);
        check("HTTP/1.0 404 \r\n", LineVersion::Known(Version::Http10), 404);
        check("HTTP/1.1 999\r\n", LineVersion::Known(Version::Http11), 999);
        check("HTTP/1.7 100 It's\tfine\r\n", LineVersion::Later, 100);
    }

    #[test]
    fn rejects_bad_status_lines() {
        for line in [
            "http/1.1 200 OK\r\n",
            "HTTP/2.0 200 OK\r\n",
            "HTTP/1.1  200 OK\r\n",
            "HTTP/1.1 099 OK\r\n",
            "HTTP/1.1 20 OK\r\n",
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 200 OK\n",
            "HTTP/1.1 200\n",
            "HTTP/1.1 200 O\rK\r\n",
            "HTTP/1.1 200 O\0K\r\n",
            "HTTP/1.1\t200 OK\r\n",
            "\r\nHTTP/1.1 200 OK\r\n",
            "ICY 200 OK\r\n",
        ] {
            assert!(StatusLine::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
