//! Calendar time as written in logs, in UTC.

use std::io::Write;

const DAY_SECONDS: u64 = 86_400;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A calendar time with a resolution of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CalendarTime {
    year: u64,
    /// From 1.
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl CalendarTime {
    /// This many seconds after the start of 1970. Years begin in March here, so that the leap day is the last day of a
    /// year.
    pub(super) fn from_unix_seconds(unix_seconds: u64) -> Self {
        const CYCLE_DAYS: u64 = 146_097; // of 400 years
        let day = unix_seconds / DAY_SECONDS + 719_468; // since 0000-03-01
        let (cycle, day) = (day / CYCLE_DAYS, day % CYCLE_DAYS);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = cycle * 400 + year + u64::from(month <= 2);
        Self { year, month, day, second_of_day: unix_seconds % DAY_SECONDS }
    }

    fn time(self) -> [u64; 3] {
        [self.second_of_day / 3_600, self.second_of_day / 60 % 60, self.second_of_day % 60]
    }

    /// `06/Nov/1994:08:49:37 +0000`
    pub(super) fn write_common(self, out: &mut Vec<u8>) {
        let Self { year, month, day, .. } = self;
        let ([hour, minute, second], month) = (self.time(), MONTHS[(month - 1) as usize]);
        let _ = write!(out, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000");
    }

    /// `1994-11-06T08:49:37`, to be followed by a fraction and the time zone
    pub(super) fn write_rfc3339(self, out: &mut Vec<u8>) {
        let Self { year, month, day, .. } = self;
        let [hour, minute, second] = self.time();
        let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn written(seconds: u64) -> (String, String) {
        let (mut common, mut rfc3339) = (Vec::new(), Vec::new());
        CalendarTime::from_unix_seconds(seconds).write_common(&mut common);
        CalendarTime::from_unix_seconds(seconds).write_rfc3339(&mut rfc3339);
        (String::from_utf8(common).unwrap(), String::from_utf8(rfc3339).unwrap())
    }

    #[test]
    fn the_example_of_the_standard() {
        let expected = ("06/Nov/1994:08:49:37 +0000".to_owned(), "1994-11-06T08:49:37".to_owned());
        assert_eq!(written(784_111_777), expected);
    }

    /// Against the library that writes the Date field.
    #[test]
    fn every_day_of_two_centuries() {
        for day in 0..73_000 {
            let seconds = day * DAY_SECONDS + day % DAY_SECONDS;
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            let words: Vec<&str> = date.split(' ').collect(); // Sun, 06 Nov 1994 08:49:37 GMT
            let expected = format!("{}/{}/{}:{} +0000", words[1], words[2], words[3], words[4]);
            assert_eq!(written(seconds).0, expected);
        }
    }
}
