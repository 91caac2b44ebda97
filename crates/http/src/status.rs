//! Registered status codes, and numbers in decimal.

/// Calls the macro `$for_table` with the registered status codes and their reason phrases (RFC 9110, 15).
#[macro_export]
macro_rules! with_statuses {
    ($for_table:ident) => {
        $for_table! {
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
    };
}

macro_rules! define_reason_phrase {
    ($($code:literal $reason:literal;)*) => {
        /// The reason phrase of a registered status code (RFC 9110, 15), or an empty one.
        #[must_use]
        pub const fn reason_phrase(status: u16) -> &'static str {
            match status { $($code => $reason,)* _ => "" }
        }
    };
}

with_statuses!(define_reason_phrase);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_numbers() {
        for number in [0, 1, 9, 10, 15, 16, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            let mut decimal = Vec::new();
            push_decimal(&mut decimal, number);
            assert_eq!(decimal, number.to_string().into_bytes());
        }
    }
}
