//! Status lines, prepared, and numbers in decimal and hexadecimal.

use crate::Framing;

macro_rules! statuses {
    ($($code:literal $reason:literal;)*) => {
        /// The reason phrase of a registered status code (RFC 9110, 15), or an empty one.
        #[must_use]
        pub const fn reason_phrase(status: u16) -> &'static str {
            match status { $($code => $reason,)* _ => "" }
        }

        /// The whole line of a registered status code.
        const fn prepared_line(status: u16) -> Option<&'static [u8]> {
            match status {
                $($code => Some(concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes()),)*
                _ => None,
            }
        }
    };
}

statuses! {
    100 "Continue";
    101 "Switching Protocols";
    103 "Early Hints";
    200 "OK";
    201 "Created";
    202 "Accepted";
    203 "Non-Authoritative Information";
    204 "No Content";
    205 "Reset Content";
    206 "Partial Content";
    300 "Multiple Choices";
    301 "Moved Permanently";
    302 "Found";
    303 "See Other";
    304 "Not Modified";
    305 "Use Proxy";
    307 "Temporary Redirect";
    308 "Permanent Redirect";
    400 "Bad Request";
    401 "Unauthorized";
    402 "Payment Required";
    403 "Forbidden";
    404 "Not Found";
    405 "Method Not Allowed";
    406 "Not Acceptable";
    407 "Proxy Authentication Required";
    408 "Request Timeout";
    409 "Conflict";
    410 "Gone";
    411 "Length Required";
    412 "Precondition Failed";
    413 "Content Too Large";
    414 "URI Too Long";
    415 "Unsupported Media Type";
    416 "Range Not Satisfiable";
    417 "Expectation Failed";
    418 "I'm a teapot";
    421 "Misdirected Request";
    422 "Unprocessable Content";
    425 "Too Early";
    426 "Upgrade Required";
    428 "Precondition Required";
    429 "Too Many Requests";
    431 "Request Header Fields Too Large";
    451 "Unavailable For Legal Reasons";
    500 "Internal Server Error";
    501 "Not Implemented";
    502 "Bad Gateway";
    503 "Service Unavailable";
    504 "Gateway Timeout";
    505 "HTTP Version Not Supported";
    507 "Insufficient Storage";
    508 "Loop Detected";
    511 "Network Authentication Required";
}

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

pub fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [0; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[start..]);
        }
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
            let (mut decimal, mut hexadecimal) = (Vec::new(), Vec::new());
            push_decimal(&mut decimal, number);
            push_hexadecimal(&mut hexadecimal, number);
            assert_eq!(decimal, number.to_string().into_bytes());
            assert_eq!(hexadecimal, format!("{number:x}").into_bytes());
        }
    }
}
