//! Dates as HTTP writes them (RFC 9110, 5.6.7).

use std::time::{Duration, UNIX_EPOCH};

/// The last second that the format can tell: 9999-12-31 23:59:59.
const LAST_UNIX_S: u64 = 253_402_300_799;

/// The value of Date and of other fields with a date, for a number of seconds since 1970-01-01 00:00:00 UTC; a time
/// past the year 9999 is told as its end.
#[must_use]
pub fn http_date(unix_s: u64) -> [u8; 29] {
    let time = UNIX_EPOCH + Duration::from_secs(unix_s.min(LAST_UNIX_S));
    let mut text = [b' '; 29];
    for (to, from) in text.iter_mut().zip(httpdate::fmt_http_date(time).bytes()) {
        *to = from;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_http_does() {
        assert_eq!(&http_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&http_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
