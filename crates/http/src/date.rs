//! HTTP dates (RFC 9110, 5.6.7).
//!
//! Received ones are parsed by the rules for caches: letters match in either case (RFC 9111, 4.2). The day name is not
//! compared with the date, which makes it redundant. Everything else is strict: a value in another format is no date.

use std::time::{Duration, UNIX_EPOCH};

/// The last second of the format: 9999-12-31 23:59:59.
const LAST_UNIX_S: u64 = 253_402_300_799;

const MONTHS: [&[u8]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
const DAYS: [&[u8]; 7] = [b"monday", b"tuesday", b"wednesday", b"thursday", b"friday", b"saturday", b"sunday"];
/// `Wednesday, 09-Nov-94 08:49:37 GMT`
const DATE_BYTES_MAX: usize = 33;
/// Two-digit years below this are in this century.
const PIVOT_YEAR: i64 = 70;
const EPOCH_YEAR: i64 = 1970;
const DAY_S: i64 = 24 * 3600;

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

/// Parses any of the three formats: seconds since 1970-01-01 00:00:00 UTC, negative before.
#[must_use]
pub fn parse_http_date(value: &[u8]) -> Option<i64> {
    let value = value.trim_ascii();
    let mut lowercase = [0; DATE_BYTES_MAX];
    let text = lowercase.get_mut(..value.len())?;
    text.copy_from_slice(value);
    text.make_ascii_lowercase();
    let blank = text.iter().position(|&byte| byte == b' ')?;
    let (name, rest) = (&text[..blank], &text[blank + 1..]);
    let date = match name.strip_suffix(b",") {
        Some(name) if is_short_day(name) => parse_imf_fixdate(rest),
        Some(name) if DAYS.contains(&name) => parse_rfc850(rest),
        None if is_short_day(name) => parse_asctime(rest),
        _ => None,
    };
    date.and_then(Date::unix_seconds)
}

fn is_short_day(name: &[u8]) -> bool {
    DAYS.iter().any(|day| &day[..3] == name)
}

#[derive(Clone, Copy)]
struct Date<'a> {
    year: i64,
    month: &'a [u8],
    day: i64,
    time: &'a [u8],
}

/// `06 Nov 1994 08:49:37 GMT`
fn parse_imf_fixdate(text: &[u8]) -> Option<Date<'_>> {
    let is_shaped = text.len() == 24 && has_at(text, b' ', &[2, 6, 11, 20]) && text.ends_with(b"gmt");
    let day_and_month = || Some((number(&text[..2])?, &text[3..6]));
    let (day, month) = is_shaped.then(day_and_month)??;
    Some(Date { year: number(&text[7..11])?, month, day, time: &text[12..20] })
}

/// `06-Nov-94 08:49:37 GMT`
fn parse_rfc850(text: &[u8]) -> Option<Date<'_>> {
    let is_shaped =
        text.len() == 22 && has_at(text, b'-', &[2, 6]) && has_at(text, b' ', &[9, 18]) && text.ends_with(b"gmt");
    let short = is_shaped.then(|| number(&text[7..9]))??;
    let year = if short < PIVOT_YEAR { 2000 + short } else { 1900 + short };
    Some(Date { year, month: &text[3..6], day: number(&text[..2])?, time: &text[10..18] })
}

/// `Nov  6 08:49:37 1994`
fn parse_asctime(text: &[u8]) -> Option<Date<'_>> {
    let is_shaped = text.len() == 20 && has_at(text, b' ', &[3, 6, 15]);
    let day = is_shaped.then(|| text[4..6].strip_prefix(b" ").unwrap_or(&text[4..6]))?;
    Some(Date { year: number(&text[16..])?, month: &text[..3], day: number(day)?, time: &text[7..15] })
}

fn has_at(text: &[u8], byte: u8, positions: &[usize]) -> bool {
    positions.iter().all(|&position| text[position] == byte)
}

fn number(digits: &[u8]) -> Option<i64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    digits.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))
}

impl Date<'_> {
    fn unix_seconds(self) -> Option<i64> {
        let Self { year, month, day, time } = self;
        let month = MONTHS.iter().position(|&name| name == month)?;
        if day == 0 || day > days_in(year, month) {
            return None;
        }
        let before: i64 = (0..month).map(|earlier| days_in(year, earlier)).sum();
        let days = days_before(year) - days_before(EPOCH_YEAR) + before + day - 1;
        Some(days * DAY_S + seconds_of_day(time)?)
    }
}

/// `08:49:37`; 60 is a valid second.
fn seconds_of_day(time: &[u8]) -> Option<i64> {
    let is_shaped = has_at(time, b':', &[2, 5]);
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..])?);
    (is_shaped && hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: usize) -> i64 {
    match month {
        1 => 28 + i64::from(is_leap(year)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Days from the start of year 1 to that of `year`; negative before.
const fn days_before(year: i64) -> i64 {
    let years = year - 1;
    years * 365 + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Option<i64> {
        parse_http_date(text.as_bytes())
    }

    #[test]
    fn formats_http_dates() {
        assert_eq!(&http_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&http_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn parses_three_date_formats() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "sun, 06 NOV 1994 08:49:37 gmt",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "SUNDAY, 06-nov-94 08:49:37 gMT",
            "Sun Nov  6 08:49:37 1994",
            "sun nov 06 08:49:37 1994",
            "Fri, 06 Nov 1994 08:49:37 GMT",
            " Sun, 06 Nov 1994 08:49:37 GMT\t",
        ] {
            assert_eq!(parse(text), Some(784_111_777), "{text}");
        }
        assert_eq!(parse("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse("Thu, 29 Feb 2024 23:59:60 GMT"), Some(1_709_251_200));
        assert_eq!(parse("Thu Aug 18 02:01:18 2050"), parse("Thursday, 18-Aug-50 02:01:18 GMT"));
    }

    #[test]
    fn rejects_invalid_dates() {
        for text in [
            "",
            "0",
            "Sun,",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 AEST",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov  1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Thu, 29 Feb 2023 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Xyz 1994 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn dates_before_1970_are_negative() {
        for (text, expected) in [
            ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Sun, 06 Nov 1960 08:49:37 GMT", -288_803_423),
            ("Mon, 01 Jan 1900 00:00:00 GMT", -2_208_988_800),
            ("Mon, 01 Jan 0001 00:00:00 GMT", -62_135_596_800),
            ("Tue, 29 Feb 0000 00:00:00 GMT", -62_162_121_600),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_second_is_read_as_it_was_written(seconds in 0..=LAST_UNIX_S) {
            prop_assert_eq!(parse_http_date(&http_date(seconds)), Some(seconds as i64));
        }

        #[test]
        fn nothing_from_outside_breaks_it(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_http_date(&bytes);
        }

        #[test]
        fn nor_does_a_date_with_a_wrong_byte(position in 0_usize..29, byte in any::<u8>()) {
            let mut text = *b"Sun, 06 Nov 1994 08:49:37 GMT";
            text[position] = byte;
            let _ = parse_http_date(&text);
        }
    }
}
