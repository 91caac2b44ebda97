//! HTTP dates (RFC 9110, 5.6.7).

use std::time::{Duration, UNIX_EPOCH};

/// The last second of the format: 9999-12-31 23:59:59.
const LAST_UNIX_S: u64 = 253_402_300_799;

/// Formats seconds since 1970-01-01 00:00:00 UTC; times after the year 9999 saturate.
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
    fn formats_http_dates() {
        assert_eq!(&http_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&http_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
