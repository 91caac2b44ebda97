//! What was found, in sentences.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::findings::{Answer, Effect, Finding, Measure, Question, Ratio};
use crate::history::{History, TargetHistory};
use crate::objective::Compliance;
use crate::record::{OpenOutage, Outage};

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Local time to the second, with its offset from UTC: `2026-01-05 15:00:00+01:00`.
#[must_use]
pub fn time(wall_ms: i64, zone: &TimeZone) -> String {
    Timestamp::from_millisecond(wall_ms).map_or_else(
        |_| wall_ms.to_string(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string(),
    )
}

/// Unix milliseconds at which a clock in UTC would show the local time; for axes.
#[must_use]
pub fn shown_as_utc(wall_ms: i64, zone: &TimeZone) -> i64 {
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

/// Up time and error budget of a target.
#[must_use]
pub fn availability(target: &TargetHistory, availability: f64) -> String {
    let Some(compliance) = Compliance::of(target, availability) else {
        return String::from("Nothing was measured: neither up nor down.");
    };
    let known = target.up + target.down;
    let outages = target.outages.len() as u64 + target.outages_more + u64::from(target.open.is_some());
    format!(
        "Up in {} of {} intervals ({}), {}; {} of requests good; objective {}: {}; {} of the error budget used.",
        breme_base::grouped(target.up),
        breme_base::grouped(known),
        percent(compliance.uptime),
        breme_base::plural(outages, "outage"),
        percent(compliance.good),
        percent(availability),
        if compliance.is_met { "met" } else { "missed" },
        percent_of_budget(compliance.budget_used),
    )
}

fn percent_of_budget(used: f64) -> String {
    if used < 10.0 { format!("{:.0} %", used * 100.0) } else { format!("{used:.0} times") }
}

/// A share, with enough digits to tell it from 1.
fn percent(share: f64) -> String {
    let digits = if share >= 1.0 { 0 } else { (-(1.0 - share).log10()).clamp(0.0, 5.0) as usize };
    let text = format!("{:.*}", digits.max(1), share * 100.0);
    format!("{} %", if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

/// An outage.
#[must_use]
pub fn outage(outage: &Outage, zone: &TimeZone) -> String {
    let end = if outage.has_end { "" } else { " at least; its end was not seen" };
    format!(
        "Down from {} for {}{end} ({}): {}.",
        time(outage.from_ms, zone),
        length(outage.length_ms),
        breme_base::plural(outage.intervals, "interval"),
        outage.cause
    )
}

/// An outage that lasts.
#[must_use]
pub fn open_outage(open: &OpenOutage, zone: &TimeZone) -> String {
    let count = breme_base::plural(open.intervals, "interval");
    format!("Down since {}, {count}: {}.", time(open.from_ms, zone), open.cause)
}

/// Response times of a target.
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

/// Times in which nothing was measured, and settings of the clock; none if there were none.
#[must_use]
pub fn gaps(history: &History) -> Vec<String> {
    let mut sentences = Vec::new();
    if !history.gaps.is_empty() {
        let unknown_ms = history.gaps.iter().map(|gap| gap.length_ms).sum();
        let count = breme_base::plural(history.gaps.len() as u64, "gap");
        sentences.push(format!(
            "{count}, {} in all, in which nothing was measured: neither up nor down.",
            length(unknown_ms)
        ));
    }
    if !history.clock_steps.is_empty() {
        let count = breme_base::plural(history.clock_steps.len() as u64, "time");
        sentences.push(format!("The wall clock was set {count}; lengths and gaps follow the clock that is never set."));
    }
    if history.damaged > 0 {
        sentences.push(format!("{} of the journal could not be read.", breme_base::plural(history.damaged, "record")));
    }
    sentences
}

/// A finding.
#[must_use]
pub fn finding(finding: &Finding, zone: &TimeZone) -> String {
    let subject = subject(finding.question);
    match &finding.answer {
        Answer::NotJudged(why) => format!("{}: not judged, {why}.", question(finding.question)),
        Answer::NotFound => format!("{}: no effect{}.", question(finding.question), chance(finding.p)),
        Answer::Found(Effect::Periodic(places)) => {
            let places: Vec<String> = places
                .iter()
                .map(|(place, ratio)| format!("{} by {}", name_of_place(finding.question, *place), change(*ratio)))
                .collect();
            format!("The {subject} differs {}{}.", places.join("; "), chance(finding.p))
        }
        Answer::Found(Effect::Change(found)) => {
            format!(
                "The {subject} changed at {} by {}{}.",
                time(found.at_ms, zone),
                change(found.ratio),
                chance(finding.p)
            )
        }
        Answer::Found(Effect::Trend(trend)) => {
            let verb =
                if matches!(finding.question, Question::Growth(Measure::Median)) { "grows" } else { "leaks: it grows" };
            let total = Ratio { center: trend.total, low: trend.total, high: trend.total };
            format!(
                "The {subject} {verb} by {} a day, {} in all{}.",
                change(trend.per_day),
                signed(total.center),
                chance(finding.p)
            )
        }
    }
}

fn subject(question: Question) -> &'static str {
    match question {
        Question::HourOfDay | Question::DayOfWeek => Measure::Median.name(),
        Question::Change(measure) | Question::Growth(measure) => measure.name(),
    }
}

fn question(question: Question) -> String {
    match question {
        Question::HourOfDay => String::from("Hour of the day"),
        Question::DayOfWeek => String::from("Day of the week"),
        Question::Change(measure) => format!("Change of the {}", measure.name()),
        Question::Growth(measure) => format!("Growth of the {}", measure.name()),
    }
}

fn name_of_place(question: Question, place: u8) -> String {
    if question == Question::DayOfWeek {
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
    use crate::findings::Change;

    #[test]
    fn sentences_have_their_intervals() {
        let ratio = Ratio { center: 1.19, low: 1.157, high: 1.23 };
        let hour = Finding {
            question: Question::HourOfDay,
            answer: Answer::Found(Effect::Periodic(vec![(15, ratio)])),
            p: Some(0.0035),
        };
        assert_eq!(
            finding(&hour, &TimeZone::UTC),
            "The median response time differs from 15:00 to 16:00 by +19 % (+16 to +23 %) (p = 0.004)."
        );
        let change = Finding {
            question: Question::Change(Measure::Tail),
            answer: Answer::Found(Effect::Change(Change { at_ms: 1_767_571_200_000, ratio })),
            p: Some(0.0005),
        };
        let zone = TimeZone::get("Europe/Ljubljana").unwrap();
        assert!(
            finding(&change, &zone).contains("changed at 2026-01-05 01:00:00+01:00 by +19 %"),
            "{}",
            finding(&change, &zone)
        );
        let none = Finding { question: Question::DayOfWeek, answer: Answer::NotJudged("it takes four weeks"), p: None };
        assert_eq!(finding(&none, &zone), "Day of the week: not judged, it takes four weeks.");
    }

    #[test]
    fn lengths_and_shares_are_told_apart() {
        let lengths = [500, 45_000, 200_000, 7_500_000, 3 * 86_400_000 + 4 * 3_600_000].map(length);
        assert_eq!(lengths, ["500 ms", "45 s", "3 min 20 s", "2 h 5 min", "3 d 4 h"]);
        assert_eq!([1.0, 0.99, 0.9996, 0.5].map(percent), ["100 %", "99 %", "99.96 %", "50 %"]);
    }
}
