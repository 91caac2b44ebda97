use std::fmt;

use crate::UnixSeconds;

const DAY_SECONDS: u64 = 86_400;

/// A calendar time in UTC. It is displayed as `1994-11-06T08:49:37`, to be followed by a fraction and the time zone
/// (RFC 3339).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarTime {
    pub year: u64,
    /// From 1.
    pub month: u64,
    /// From 1.
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

impl From<UnixSeconds> for CalendarTime {
    /// Days to dates: howardhinnant.github.io/date_algorithms.html. Years begin in March here, so that the leap day is
    /// the last day of a year.
    fn from(UnixSeconds(unix_seconds): UnixSeconds) -> Self {
        const CYCLE_DAYS: u64 = 146_097; // of 400 years
        let day = unix_seconds / DAY_SECONDS + 719_468; // since 0000-03-01
        let (cycle, day) = (day / CYCLE_DAYS, day % CYCLE_DAYS);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = cycle * 400 + year + u64::from(month <= 2);
        let second = unix_seconds % DAY_SECONDS;
        Self { year, month, day, hour: second / 3_600, minute: second / 60 % 60, second: second % 60 }
    }
}

impl CalendarTime {
    /// `1994-11-06`, and `08:49`.
    #[must_use]
    pub fn day_and_minute(&self) -> (String, String) {
        let Self { year, month, day, hour, minute, .. } = self;
        (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}"))
    }
}

impl fmt::Display for CalendarTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        let time = CalendarTime::from(UnixSeconds(784_111_777));
        assert_eq!(time.to_string(), "1994-11-06T08:49:37");
        assert_eq!(time.day_and_minute(), ("1994-11-06".into(), "08:49".into()));
    }

    /// Against the library that writes the Date field.
    #[test]
    fn every_day_of_two_centuries() {
        for day in 0..73_000 {
            let seconds = day * DAY_SECONDS + day % DAY_SECONDS;
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            let words: Vec<&str> = date.split(' ').collect(); // Sun, 06 Nov 1994 08:49:37 GMT
            let time = CalendarTime::from(UnixSeconds(seconds)).to_string();
            let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
            let month = months.find(words[2]).unwrap() / 3 + 1;
            assert_eq!(time, format!("{}-{month:02}-{}T{}", words[3], words[1], words[4]));
        }
    }
}
