//! Status lines, prepared; the framing field; numbers in hexadecimal.

use breme_http::{Framing, push_decimal, with_statuses};

macro_rules! define_prepared_line {
    ($($code:literal $reason:literal;)*) => {
        /// The whole line of a registered status code.
        const fn prepared_line(status: u16) -> Option<&'static [u8]> {
            match status {
                $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes()),)*
                _ => None,
            }
        }
    };
}

with_statuses!(define_prepared_line);

/// Appends a status line. `status` is 100 to 999.
pub(crate) fn push_status_line(out: &mut Vec<u8>, status: u16, http10: bool) {
    const MINOR: usize = "HTTP/1.".len();
    let start = out.len();
    match prepared_line(status) {
        Some(line) => out.extend_from_slice(line),
        None => push_unknown(out, status),
    }
    if http10 {
        out[start + MINOR] = b'0';
    }
}

/// The reason may be empty, the space before it is required (RFC 9112, 4).
#[cold]
fn push_unknown(out: &mut Vec<u8>, status: u16) {
    debug_assert!((100..1000).contains(&status), "{status} is not a status code");
    out.extend_from_slice(b"HTTP/1.1 ");
    push_decimal(out, u64::from(status.clamp(100, 999)));
    out.extend_from_slice(b" \r\n");
}

/// Appends the framing field, if there is one.
pub(crate) fn push_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            push_decimal(out, length);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::None | Framing::UntilClose => {}
    }
}

pub(crate) fn push_hexadecimal(out: &mut Vec<u8>, mut number: u64) {
    const DIGITS_MAX: usize = 16;
    let mut digits = [0; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
        if number == 0 {
            return out.extend_from_slice(&digits[start..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_status_lines() {
        let line = |status, http10| {
            let mut out = b"before".to_vec();
            push_status_line(&mut out, status, http10);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line(200, false), "beforeHTTP/1.1 200 OK\r\n");
        assert_eq!(line(404, true), "beforeHTTP/1.0 404 Not Found\r\n");
        assert_eq!(line(299, false), "beforeHTTP/1.1 299 \r\n");
        assert_eq!(line(999, true), "beforeHTTP/1.0 999 \r\n");
    }

    #[test]
    fn writes_numbers() {
        for number in [0, 1, 9, 10, 15, 16, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            let mut hexadecimal = Vec::new();
            push_hexadecimal(&mut hexadecimal, number);
            assert_eq!(hexadecimal, format!("{number:x}").into_bytes());
        }
    }
}
