//! Findings, outages and totals as sentences.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::certificate::CertificateExpiry;
use crate::findings::{DAY, Effect, Finding, Hypothesis, Metric, Ratio, Trend, Verdict};
use crate::history::{History, TargetHistory};
use crate::objective::Compliance;
use crate::record::{OngoingOutage, Outage};

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The time zone with this name, as in a watch file; without a name, that of the system.
///
/// # Errors
/// If the name is unknown.
pub fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    match name.filter(|name| !name.is_empty()) {
        None => Ok(TimeZone::system()),
        Some(name) => TimeZone::get(name)
            .map_err(|error| format!("time_zone {name:?} is unknown ({error}); use a name such as Europe/Ljubljana")),
    }
}

/// Local time with its offset from UTC: `2026-01-05 15:00:00+01:00`.
#[must_use]
pub fn time(wall_ms: i64, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(wall_ms).map_or_else(
        |_| wall_ms.to_string(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string(),
    )
}

/// Local time without its offset: `2026-01-05 15:00:00`.
#[must_use]
pub fn local_time(wall_ms: i64, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(wall_ms).map_or_else(
        |_| wall_ms.to_string(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// Unix milliseconds at which UTC equals the local time; for axes.
#[must_use]
pub fn local_as_utc(wall_ms: i64, zone: &TimeZone) -> i64 {
    let offset = Timestamp::from_millisecond(wall_ms).map_or(0, |time| i64::from(zone.to_offset(time).seconds()));
    wall_ms + offset * 1_000
}

/// `45 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn length(millis: u64) -> String {
    let seconds = Duration::from_millis(millis).as_secs();
    let two = |large: u64, unit: &str, small: u64, of: &str| {
        if small == 0 { format!("{large} {unit}") } else { format!("{large} {unit} {small} {of}") }
    };
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Uptime and error budget of a target.
#[must_use]
pub fn availability(target: &TargetHistory, availability: f64) -> String {
    let Some(compliance) = Compliance::from_history(target, availability) else {
        return String::from("No measurement: neither up nor down.");
    };
    let known = target.up + target.down;
    let outages = target.outages.len() as u64 + target.outages_more + u64::from(target.ongoing.is_some());
    format!(
        "Up in {} of {} intervals ({}), {}; {} of requests good; objective {}: {}; {} the error budget used.",
        breme_base::grouped(target.up),
        breme_base::grouped(known),
        percent(compliance.uptime),
        breme_base::plural(outages, "outage"),
        percent(compliance.good),
        percent(availability),
        if compliance.is_met { "met" } else { "missed" },
        part_of_budget(compliance.budget_used),
    )
}

/// The words before "the error budget": `40 % of`, `25 times`.
fn part_of_budget(used: f64) -> String {
    if (0.9..1.1).contains(&used) {
        // Shows on which side of the objective it is.
        format!("{:.1} % of", used * 100.0)
    } else if used < 10.0 {
        format!("{:.0} % of", used * 100.0)
    } else {
        format!("{used:.0} times")
    }
}

/// A share, with enough digits to differ from 100 %; rounded down, so that a missed objective does not look met.
#[must_use]
pub fn percent(share: f64) -> String {
    const ROUNDING_ERROR: f64 = 1e-9;
    let digits = if share >= 1.0 { 0 } else { (-(1.0 - share).log10()).ceil().clamp(1.0, 5.0) as usize };
    let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(0));
    let text = format!("{:.digits$}", (share * 100.0 * scale + ROUNDING_ERROR).floor() / scale);
    format!("{} %", if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

#[must_use]
pub fn outage(outage: &Outage, zone: &TimeZone) -> String {
    let end = if outage.has_end { "" } else { " or longer, its end was not measured" };
    format!(
        "Down from {} for {}{end} ({}): {}.",
        time(outage.from_ms, zone),
        length(outage.length_ms),
        breme_base::plural(outage.intervals, "interval"),
        outage.cause
    )
}

#[must_use]
pub fn ongoing_outage(outage: &OngoingOutage, zone: &TimeZone) -> String {
    let count = breme_base::plural(outage.intervals, "interval");
    format!("Down since {}, {count}: {}.", time(outage.from_ms, zone), outage.cause)
}

#[must_use]
pub fn response_times(target: &TargetHistory) -> String {
    if target.times.is_empty() {
        return String::from("No response.");
    }
    let quantiles = target.times.quantiles(&[0.5, 0.95, 0.99]);
    let millis = |nanos: f64| format!("{:.2} ms", nanos / 1e6);
    format!(
        "Response time: mean {}, median {}, 95 % {}, 99 % {}.",
        millis(target.mean_ns()),
        millis(quantiles[0] as f64),
        millis(quantiles[1] as f64),
        millis(quantiles[2] as f64)
    )
}

/// When a certificate expires: `expires in 3 d 4 h`, `expired 2 d ago`.
#[must_use]
pub fn certificate_expiry(expiry: &CertificateExpiry) -> String {
    let time = length(expiry.left_s.unsigned_abs().saturating_mul(1_000));
    if expiry.left_s < 0 { format!("expired {time} ago") } else { format!("expires in {time}") }
}

#[must_use]
pub fn certificate(expiry: &CertificateExpiry, zone: &TimeZone) -> String {
    let subject = if expiry.is_soon { "Renew the certificate: it" } else { "The certificate" };
    format!("{subject} {} ({}).", certificate_expiry(expiry), time(expiry.at_s.saturating_mul(1_000), zone))
}

/// Gaps, clock steps and damaged records.
#[must_use]
pub fn gaps(history: &History) -> Vec<String> {
    let mut sentences = Vec::new();
    if history.gap_count() > 0 {
        let count = breme_base::plural(history.gap_count(), "gap");
        sentences.push(format!("{count}, {} in total: neither up nor down.", length(history.unmeasured_ms())));
    }
    if !history.clock_steps.is_empty() {
        let count = breme_base::plural(history.clock_steps.len() as u64, "time");
        sentences.push(format!("The wall clock was set {count}; lengths and gaps follow the clock since boot."));
    }
    if history.damaged > 0 {
        sentences.push(format!(
            "{} of the journal are damaged and left out.",
            breme_base::plural(history.damaged, "record")
        ));
    }
    sentences
}

#[must_use]
pub fn finding(finding: &Finding, zone: &TimeZone) -> String {
    let subject = subject(finding.hypothesis);
    match &finding.verdict {
        Verdict::NotTested(why) => format!("{}: not tested, {why}.", hypothesis(finding.hypothesis)),
        Verdict::NotFound => format!("{}: no effect{}.", hypothesis(finding.hypothesis), chance(finding.p)),
        Verdict::Found(Effect::Periodic(places)) => {
            let places: Vec<String> = places
                .iter()
                .map(|(place, ratio)| format!("{} by {}", name_of_place(finding.hypothesis, *place), change(*ratio)))
                .collect();
            format!("The {subject} differs {}{}.", places.join("; "), chance(finding.p))
        }
        Verdict::Found(Effect::Change(found)) => {
            format!(
                "The {subject} changed at {} by {}{}.",
                time(found.at_ms, zone),
                change(found.ratio),
                chance(finding.p)
            )
        }
        Verdict::Found(Effect::Trend(trend)) => {
            let verb = if matches!(finding.hypothesis, Hypothesis::Growth(Metric::Median)) {
                "grows"
            } else {
                "leaks: it grows"
            };
            format!("The {subject} {verb} by {}{}.", growth(trend), chance(finding.p))
        }
    }
}

/// `+19 % (+16 to +23 %) a day, +90 % in total`; for less than a day `+19 % (+16 to +23 %) in 2.0 h`.
fn growth(trend: &Trend) -> String {
    let ratio = change(trend.ratio);
    if trend.period < DAY {
        return format!("{ratio} in {}", length(trend.period.as_millis() as u64));
    }
    format!("{ratio} a day, {} in total", signed(trend.total))
}

fn subject(hypothesis: Hypothesis) -> &'static str {
    match hypothesis {
        Hypothesis::HourOfDay | Hypothesis::DayOfWeek => Metric::Median.name(),
        Hypothesis::Change(measure) | Hypothesis::Growth(measure) => measure.name(),
    }
}

fn hypothesis(hypothesis: Hypothesis) -> String {
    match hypothesis {
        Hypothesis::HourOfDay => String::from("Hour of the day"),
        Hypothesis::DayOfWeek => String::from("Day of the week"),
        Hypothesis::Change(measure) => format!("Change of the {}", measure.name()),
        Hypothesis::Growth(measure) => format!("Growth of the {}", measure.name()),
    }
}

fn name_of_place(hypothesis: Hypothesis, place: u8) -> String {
    if hypothesis == Hypothesis::DayOfWeek {
        return format!("on {}s", WEEKDAYS.get(usize::from(place)).unwrap_or(&"?"));
    }
    format!("from {place}:00 to {}:00", u16::from(place) + 1)
}

/// `+19 % (+16 to +23 %)`.
fn change(ratio: Ratio) -> String {
    let bare = |value: f64| signed(value).trim_end_matches(" %").to_owned();
    format!("{} ({} to {})", signed(ratio.center), bare(ratio.low), signed(ratio.high))
}

fn signed(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let sign = if percent < 0.0 { "−" } else { "+" };
    let size = percent.abs();
    if size < 10.0 { format!("{sign}{size:.1} %") } else { format!("{sign}{size:.0} %") }
}

fn chance(p: Option<f64>) -> String {
    p.map_or_else(String::new, |p| if p < 0.001 { String::from(" (p < 0.001)") } else { format!(" (p = {p:.3})") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::LevelChange;
    use crate::record::Counts;

    #[test]
    fn findings_name_intervals_and_p() {
        let ratio = Ratio { center: 1.19, low: 1.157, high: 1.23 };
        let hour = Finding {
            hypothesis: Hypothesis::HourOfDay,
            verdict: Verdict::Found(Effect::Periodic(vec![(15, ratio)])),
            p: Some(0.0035),
        };
        assert_eq!(
            finding(&hour, &TimeZone::UTC),
            "The median response time differs from 15:00 to 16:00 by +19 % (+16 to +23 %) (p = 0.004)."
        );
        let change = Finding {
            hypothesis: Hypothesis::Change(Metric::Tail),
            verdict: Verdict::Found(Effect::Change(LevelChange { at_ms: 1_767_571_200_000, ratio })),
            p: Some(0.0005),
        };
        let zone = TimeZone::get("Europe/Ljubljana").unwrap();
        assert!(
            finding(&change, &zone).contains("changed at 2026-01-05 01:00:00+01:00 by +19 %"),
            "{}",
            finding(&change, &zone)
        );
        let leak = |period| Finding {
            hypothesis: Hypothesis::Growth(Metric::Memory),
            verdict: Verdict::Found(Effect::Trend(Trend { ratio, period, total: 3.0 })),
            p: None,
        };
        assert_eq!(
            [Duration::from_secs(40), DAY].map(|period| finding(&leak(period), &zone)),
            [
                "The memory leaks: it grows by +19 % (+16 to +23 %) in 40 s.",
                "The memory leaks: it grows by +19 % (+16 to +23 %) a day, +200 % in total."
            ]
        );
        let none = Finding {
            hypothesis: Hypothesis::DayOfWeek,
            verdict: Verdict::NotTested("fewer than four weeks"),
            p: None,
        };
        assert_eq!(finding(&none, &zone), "Day of the week: not tested, fewer than four weeks.");
    }

    #[test]
    fn certificates_that_expire_soon_are_marked() {
        let sentence =
            |now_s: i64| certificate(&CertificateExpiry::new(1_767_571_200, now_s * 1_000, 86_400), &TimeZone::UTC);
        let days = |count: i64| 1_767_571_200 - count * 86_400;
        assert_eq!(
            [days(90), days(1) + 3_600, days(-2)].map(sentence),
            [
                "The certificate expires in 90 d (2026-01-05 00:00:00+00:00).",
                "Renew the certificate: it expires in 23 h (2026-01-05 00:00:00+00:00).",
                "Renew the certificate: it expired 2 d ago (2026-01-05 00:00:00+00:00)."
            ]
        );
    }

    #[test]
    fn the_used_error_budget_is_a_share_or_a_multiple() {
        let sentence = |ok| {
            let counts = Counts { requests: 1_000, ok, ..Counts::default() };
            availability(&TargetHistory { up: 1, counts, ..TargetHistory::default() }, 0.99)
        };
        assert!(sentence(996).ends_with(" 40 % of the error budget used."), "{}", sentence(996));
        assert!(sentence(500).ends_with(" 50 times the error budget used."), "{}", sentence(500));
    }

    #[test]
    fn formats_lengths_and_shares() {
        let lengths = [500, 45_000, 200_000, 7_500_000, 3 * 86_400_000 + 4 * 3_600_000].map(length);
        assert_eq!(lengths, ["500 ms", "45 s", "3 min 20 s", "2 h 5 min", "3 d 4 h"]);
        assert_eq!(
            [1.0, 0.99, 0.9996, 0.5, 0.98998, 0.999_999_9].map(percent),
            ["100 %", "99 %", "99.96 %", "50 %", "98.99 %", "99.99999 %"]
        );
    }
}
