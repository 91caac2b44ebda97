//! Freshness lifetime and age (RFC 9111, 4.2).

use std::time::Duration;

use breme_base::{Instant, Random, UnixSeconds};
use breme_http::list_members;

use crate::directives::{ResponseDirectives, SECONDS_MAX, number};
use crate::fields::FieldValues;
use crate::request::Now;
use crate::settings::CacheSettings;

/// Statuses that are heuristically cacheable (RFC 9110, 15.1).
const HEURISTIC: [u16; 12] = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];
/// Shorter lifetimes are not randomised.
const SPREAD_FROM_S: u32 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freshness {
    /// corrected_initial_age (4.2.3) at `age_from`.
    pub(crate) initial_age_s: u32,
    /// Up to a second before the head was received, so that fractions of the response delay count.
    pub(crate) age_from: Instant,
    /// freshness_lifetime (4.2.1); 0 if unspecified.
    pub(crate) lifetime_s: u32,
    /// The response specifies its lifetime.
    pub(crate) is_explicit: bool,
}

impl Freshness {
    /// With `is_targeted`, only `directives` count, not Expires (RFC 9213, 2.2).
    pub(crate) fn read(
        status: u16,
        fields: &impl FieldValues,
        directives: &ResponseDirectives,
        is_targeted: bool,
        times: ResponseTimes,
        settings: &CacheSettings,
    ) -> Self {
        let date = date_of(fields, "date").unwrap_or(times.received.wall);
        let explicit = directives
            .s_maxage_s
            .or(directives.max_age_s)
            .or_else(|| if is_targeted { None } else { expires(fields, date) });
        let heuristic = || heuristic(status, fields, directives, date, settings);
        let (initial_age_s, age_from) = initial_age(age(fields), date, times);
        Self {
            initial_age_s,
            age_from,
            lifetime_s: explicit.or_else(heuristic).unwrap_or(0),
            is_explicit: explicit.is_some(),
        }
    }

    /// Remaining freshness in seconds; at most 0 if stale. The limit applies to this and not to the lifetime, part of
    /// which caches nearer to the origin may have used up.
    pub(crate) fn fresh_for_s(&self, settings: &CacheSettings, random: &mut Random) -> i64 {
        let fresh_max = u32::try_from(settings.lifetime_max.as_secs()).unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
        let spread_over = self.lifetime_s.min(fresh_max);
        let spread = if spread_over >= SPREAD_FROM_S {
            u64::from(spread_over) * u64::from(settings.lifetime_spread_percent.min(100)) / 100
        } else {
            0
        };
        let left_s = i64::from(self.lifetime_s) - i64::from(self.initial_age_s);
        left_s.min(i64::from(fresh_max)) - random.between(0, spread) as i64
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseTimes {
    pub(crate) requested: Instant,
    pub(crate) received: Now,
}

/// corrected_initial_age (4.2.3), from Date or from Age plus the response delay; and the instant at which the response
/// had it.
fn initial_age(age_s: u32, date: UnixSeconds, times: ResponseTimes) -> (u32, Instant) {
    let ResponseTimes { requested, received } = times;
    let apparent = received.wall.0.saturating_sub(date.0);
    let delay_s = received.instant.since(requested).as_secs();
    let corrected = u64::from(age_s) + delay_s;
    let (age, from) = match apparent > corrected {
        true => (apparent, received.instant),
        false => (corrected, requested + Duration::from_secs(delay_s)),
    };
    (u32::try_from(age).unwrap_or(SECONDS_MAX).min(SECONDS_MAX), from)
}

/// The first member of Age; invalid values are ignored (RFC 9111, 5.1).
fn age(fields: &impl FieldValues) -> u32 {
    let first = fields.values("age").flat_map(list_members).next();
    first.filter(|value| value.first().is_some_and(u8::is_ascii_digit)).and_then(number).unwrap_or(0)
}

/// Dates before 1970 count as 1970: both are long past.
fn date_of(fields: &impl FieldValues, name: &str) -> Option<UnixSeconds> {
    fields.date(name).map(|seconds| UnixSeconds(u64::try_from(seconds).unwrap_or(0)))
}

/// Expires minus Date. An invalid date is in the past (5.3), like `0`.
fn expires(fields: &impl FieldValues, date: UnixSeconds) -> Option<u32> {
    if !fields.has("expires") {
        return None;
    }
    let until = date_of(fields, "expires").unwrap_or(UnixSeconds(0));
    Some(u32::try_from(until.0.saturating_sub(date.0)).unwrap_or(SECONDS_MAX))
}

/// A fraction of the time since the last modification (4.2.2).
fn heuristic(
    status: u16,
    fields: &impl FieldValues,
    directives: &ResponseDirectives,
    date: UnixSeconds,
    settings: &CacheSettings,
) -> Option<u32> {
    if !may_be_heuristic(status) && !directives.public {
        return None;
    }
    let modified = date_of(fields, "last-modified")?;
    let share = Duration::from_secs(date.0.saturating_sub(modified.0)) * settings.heuristic_percent.min(100) / 100;
    u32::try_from(share.min(settings.heuristic_max).as_secs()).ok()
}

pub(crate) fn may_be_heuristic(status: u16) -> bool {
    HEURISTIC.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{DAY, NOON, block, http_date};

    fn read(status: u16, fields: &[(&str, String)]) -> Freshness {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let fields = block(&fields);
        let received = Now { instant: Instant::ZERO + Duration::from_secs(3), wall: NOON };
        let times = ResponseTimes { requested: Instant::ZERO + Duration::from_secs(1), received };
        Freshness::read(status, &fields, &ResponseDirectives::read(&fields), false, times, &CacheSettings::new(1))
    }

    fn at(offset: i64) -> String {
        http_date(offset)
    }

    #[test]
    fn computes_lifetimes() {
        let cc = |value: &str| ("Cache-Control", value.to_owned());
        for (fields, expected) in [
            (vec![cc("max-age=60")], (60, true)),
            (vec![cc("max-age=60, s-maxage=30")], (30, true)),
            (vec![cc("max-age=60"), ("Expires", at(10))], (60, true)),
            (vec![("Date", at(0)), ("Expires", at(10))], (10, true)),
            (vec![("Expires", at(10))], (10, true)),
            (vec![("Date", at(100)), ("Expires", at(10))], (0, true)),
            (vec![("Date", "never".to_owned()), ("Expires", at(10))], (10, true)),
            (vec![("Expires", "0".to_owned())], (0, true)),
            (vec![("Expires", at(10)), ("Expires", at(10))], (0, true)),
            (vec![("Date", at(0)), ("Last-Modified", at(-1000))], (100, false)),
            (vec![("Last-Modified", at(-1000))], (100, false)),
            (vec![("Last-Modified", at(-100 * DAY))], (DAY as u32, false)),
            (vec![("Last-Modified", at(1000))], (0, false)),
            (vec![cc("max-age=x"), ("Last-Modified", at(-1000))], (0, true)),
            (vec![], (0, false)),
        ] {
            let found = read(200, &fields);
            assert_eq!((found.lifetime_s, found.is_explicit), expected, "{fields:?}");
        }
        let modified = ("Last-Modified", at(-1000));
        assert_eq!(read(302, std::slice::from_ref(&modified)).lifetime_s, 0);
        assert_eq!(read(302, &[modified, cc("public")]).lifetime_s, 100);
    }

    #[test]
    fn computes_initial_age() {
        let age = |value: &str| ("Age", value.to_owned());
        let fresh = ("Cache-Control", "max-age=60".to_owned());
        for (fields, expected) in [
            (vec![], (2, 60)),
            (vec![("Date", at(0))], (2, 60)),
            (vec![age("30")], (32, 60)),
            (vec![("Date", at(-50)), age("30")], (50, 60)),
            (vec![("Date", at(50)), age("30")], (32, 60)),
            (vec![age("99999999999999")], (SECONDS_MAX, 60)),
            (vec![age("abc")], (2, 60)),
            (vec![age("-1")], (2, 60)),
            (vec![age("7.0")], (2, 60)),
            (vec![age("\"7\"")], (2, 60)),
            (vec![age("7;a=b")], (2, 60)),
            (vec![age("7, 0")], (9, 60)),
            (vec![age("0, 7")], (2, 60)),
            (vec![age("7"), age("0")], (9, 60)),
            (vec![age("abc, 7")], (2, 60)),
        ] {
            let found = read(200, &[vec![fresh.clone()], fields.clone()].concat());
            assert_eq!((found.initial_age_s, found.lifetime_s), expected, "{fields:?}");
        }
    }

    #[test]
    fn age_counts_fractions_of_a_second() {
        let now = |time_ms, wall| Now { instant: Instant::ZERO + Duration::from_millis(time_ms), wall };
        let requested = now(1_000, NOON).instant;
        for (received_ms, date_s, expected) in [
            (1_400, 0, (0, 1_000)),
            (3_400, 0, (2, 3_000)),
            (3_400, -2, (2, 3_000)),
            (3_400, -3, (3, 3_400)), // by its date it is older than by its way
        ] {
            let times = ResponseTimes { requested, received: now(received_ms, NOON) };
            let (age_s, from) = initial_age(0, UnixSeconds((NOON.0 as i64 + date_s) as u64), times);
            assert_eq!((age_s, from), (expected.0, now(expected.1, NOON).instant), "{received_ms} {date_s}");
        }
    }

    #[test]
    fn long_lifetimes_are_randomised() {
        let age_from = Instant::ZERO;
        let fresh = |lifetime_s| Freshness { initial_age_s: 10, age_from, lifetime_s, is_explicit: true };
        let (settings, mut random) = (CacheSettings::new(1), Random::new(1));
        let drawn: Vec<i64> = (0..1000).map(|_| fresh(1000).fresh_for_s(&settings, &mut random)).collect();
        assert!(drawn.iter().all(|&seconds| (940..=990).contains(&seconds)));
        assert!(drawn.iter().any(|&seconds| seconds < 950) && drawn.iter().any(|&seconds| seconds > 980));
        assert!((0..100).all(|_| fresh(59).fresh_for_s(&settings, &mut random) == 49));
        assert_eq!(fresh(5).fresh_for_s(&settings, &mut random), -5);
    }

    #[test]
    fn freshness_is_limited() {
        let fresh_for = |lifetime_s, max_s, seed| {
            let settings = CacheSettings { lifetime_max: Duration::from_secs(max_s), ..CacheSettings::new(1) };
            let age_from = Instant::ZERO;
            let freshness = Freshness { initial_age_s: 3000, age_from, lifetime_s, is_explicit: true };
            freshness.fresh_for_s(&settings, &mut Random::new(seed))
        };
        assert_eq!([fresh_for(9000, 30, 1), fresh_for(3010, 30, 1), fresh_for(2000, 30, 1)], [30, 10, -1000]);
        assert_eq!([fresh_for(9000, 0, 1), fresh_for(2000, 0, 1)], [0, -1000]);
        assert!(fresh_for(SECONDS_MAX, u64::MAX, 1) > 1_000_000_000);
        let drawn: Vec<i64> = (0..1000).map(|seed| fresh_for(9000, 1000, seed)).collect();
        assert!(
            drawn.iter().all(|&seconds| (950..=1000).contains(&seconds)),
            "what is cut does not end together either"
        );
        assert!(drawn.iter().any(|&seconds| seconds < 960) && drawn.iter().any(|&seconds| seconds > 990));
    }
}
