//! Formats instants as dates.

use std::time::{SystemTime, UNIX_EPOCH};

use breme_base::{CalendarTime, UnixSeconds};
use breme_wiki_database::page::Millis;

/// The current instant.
#[must_use]
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// In the format of HTTP headers.
pub(crate) fn http_date(time: Millis) -> String {
    String::from_utf8_lossy(&breme_http::http_date(second(time).0)).into_owned()
}

/// `2026-11-22T21:14:05Z` (RFC 3339).
#[must_use]
pub fn rfc3339(time: Millis) -> String {
    format!("{}Z", CalendarTime::from(second(time)))
}

/// `2026-11-22`, and `21:14`.
pub(crate) fn day_and_time(time: Millis) -> (String, String) {
    CalendarTime::from(second(time)).day_and_minute()
}

/// The first second for a time before 1970.
fn second(time: Millis) -> UnixSeconds {
    UnixSeconds(u64::try_from(time).unwrap_or(0) / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let time = 1_795_382_045_999;
        assert_eq!(rfc3339(time), "2026-11-22T21:14:05Z");
        assert_eq!(http_date(time), "Sun, 22 Nov 2026 21:14:05 GMT");
        assert_eq!(day_and_time(time), ("2026-11-22".into(), "21:14".into()));
        assert_eq!(rfc3339(-1), "1970-01-01T00:00:00Z");
    }
}
