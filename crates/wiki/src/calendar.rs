//! Formats instants as dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use breme_wiki_database::page::Millis;

pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// In the format of HTTP headers.
pub(crate) fn http_date(time: Millis) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(u64::try_from(time).unwrap_or(0)))
}

/// `2026-11-22T21:14:05Z` (RFC 3339).
#[must_use]
pub fn rfc3339(time: Millis) -> String {
    let (year, month, day, seconds) = date(time);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2026-11-22`, and `21:14`.
pub(crate) fn day_and_time(time: Millis) -> (String, String) {
    let (year, month, day, seconds) = date(time);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60))
}

/// Year, month, day, and second of the day, in UTC (days to civil dates: howardhinnant.github.io/date_algorithms.html).
fn date(time: Millis) -> (i64, i64, i64, i64) {
    let seconds = time.div_euclid(1000);
    let shifted = seconds.div_euclid(86_400) + 719_468; // days since 1 March of the year 0
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day, seconds.rem_euclid(86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_795_382_045_999, "2026-11-22T21:14:05Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(millis), expected);
            let http = httpdate::parse_http_date(&http_date(millis)).unwrap();
            assert_eq!(http.duration_since(UNIX_EPOCH).unwrap().as_millis() / 1000, millis as u128 / 1000);
        }
        assert_eq!(day_and_time(1_795_382_045_999), ("2026-11-22".into(), "21:14".into()));
    }
}
