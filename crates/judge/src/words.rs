//! Formats numbers, levels and effects as text.

use breme_base::{BYTE_UNITS, NamedUnit, TIME_UNITS, in_unit};
use breme_expression::{Quantity, TimeFigure, TimeKind, Unit};
use breme_stats::BLOCKS_MIN;

use crate::judgement::{Effect, Scale};
use crate::levels::Levels;

/// Significant digits of an amount.
const DIGITS: usize = 3;
/// Limit of the digits used to distinguish an amount from another.
const DIGITS_MAX: usize = 12;

/// `12.3 ms`, `4,200/s`, `1.2 %`, `64.0 MB`: with three digits.
#[must_use]
pub fn amount(value: f64, unit: Unit) -> String {
    // A share of less than 100 % must not be displayed as 100 %.
    if unit == Unit::Share { amount_beside(1.0, value, unit) } else { amount_to(DIGITS, value, unit) }
}

/// A difference of two amounts; that of shares in percentage points: `0.5 pp`.
pub(crate) fn difference(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Share => number_to(DIGITS, value * 100.0) + " pp",
        _ => amount(value, unit),
    }
}

/// The same, with more digits if needed to distinguish it from another amount: 99.98 % is not 100 %.
pub(crate) fn amount_beside(other: f64, value: f64, unit: Unit) -> String {
    let is_apart = |digits: &usize| amount_to(*digits, value, unit) != amount_to(*digits, other, unit);
    amount_to((DIGITS..=DIGITS_MAX).find(is_apart).unwrap_or(DIGITS), value, unit)
}

/// A number from the plan, with all its digits.
pub(crate) fn exact(value: f64) -> String {
    number_to(DIGITS_MAX, value)
}

fn amount_to(digits: usize, value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => in_best(digits, value, &TIME_UNITS),
        Unit::Bytes => in_best(digits, value, &BYTE_UNITS),
        Unit::BytesPerSecond => in_best(digits, value, &BYTE_UNITS) + "/s",
        Unit::PerSecond => number_to(digits, value) + "/s",
        Unit::Share => number_to(digits, value * 100.0) + " %",
        Unit::Plain => number_to(digits, value),
    }
}

fn in_best(digits: usize, value: f64, units: &[NamedUnit]) -> String {
    let (value, unit) = in_unit(value, units);
    format!("{} {unit}", number_to(digits, value))
}

/// Formats with this many digits and separated thousands.
fn number_to(digits: usize, value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let places = (digits as i32 - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_commas(text)
}

fn with_commas(text: &str) -> String {
    let (whole, rest) = text.find('.').map_or((text, ""), |point| text.split_at(point));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    format!("{sign}{}{rest}", breme_base::group_digits(whole))
}

/// `0.83 (0.79–0.88)`: a ratio with its interval, all three with the same number of decimals.
pub(crate) fn with_interval(center: f64, low: f64, high: f64) -> String {
    // An end that is not 1 must not be displayed as 1: readers look whether the interval contains "no difference".
    let is_apart = |places: &usize| {
        [low, high].iter().all(|&end| end == 1.0 || format!("{end:.places$}") != format!("{:.places$}", 1.0))
    };
    let places = (ratio_places(center)..=RATIO_PLACES_MAX).find(is_apart).unwrap_or(ratio_places(center));
    if format!("{low:.places$}") == format!("{high:.places$}") {
        return format!("{center:.places$}");
    }
    format!("{center:.places$} ({low:.places$}–{high:.places$})")
}

/// Limit of the decimal places used to distinguish the end of an interval from 1.
const RATIO_PLACES_MAX: usize = 4;

fn ratio_places(ratio: f64) -> usize {
    match ratio.abs() {
        ratio if ratio >= 99.5 => 0,
        ratio if ratio >= 2.0 => 1,
        ratio if (0.95..1.05).contains(&ratio) => 3,
        ratio if ratio >= 0.15 || ratio == 0.0 => 2,
        ratio => (1.0 - ratio.log10().floor()).min(9.0) as usize,
    }
}

/// An effect as a number: `0.83 (0.79–0.88)`, or `12 ms (10 ms to 13 ms)` for a difference.
pub(crate) fn effect(effect: &Effect, unit: Unit) -> String {
    let (Some(center), Some(low), Some(high)) = (effect.center, effect.low, effect.high) else {
        return "nothing".to_owned();
    };
    match effect.scale {
        Scale::Ratio => with_interval(center, low, high),
        Scale::Difference if low == high => difference(center, unit),
        Scale::Difference => {
            format!("{} ({} to {})", difference(center, unit), difference(low, unit), difference(high, unit))
        }
    }
}

/// The wording of a comparison: which side is named first, and with which words.
struct Wording {
    /// `is`, `answers`.
    verb: &'static str,
    /// `faster`: the smaller side is named, and the ratio is inverted.
    faster: bool,
    /// `requests per second`.
    noun: String,
}

fn wording(quantity: Option<&Quantity>, measure: &str) -> Wording {
    let of = |verb: &'static str, noun: &str| Wording { verb, faster: false, noun: noun.to_owned() };
    let Some(quantity) = quantity else { return of("has", &format!("`{measure}`")) };
    match quantity {
        // Less scatter and younger responses are no higher speed.
        Quantity::Time { kind: TimeKind::StaleAge, .. }
        | Quantity::Time { figure: TimeFigure::Stdev, .. }
        | Quantity::Step { figure: TimeFigure::Stdev, .. } => of("has", &format!("`{measure}`")),
        Quantity::Time { .. } | Quantity::Step { .. } => Wording { verb: "is", faster: true, noun: String::new() },
        Quantity::Rate => of("answers", "requests per second"),
        Quantity::ByteRate => of("moves", "bytes per second"),
        Quantity::CpuPerRequest | Quantity::GeneratorCpuPerRequest => of("needs", "CPU time per request"),
        Quantity::UserCpuPerRequest | Quantity::GeneratorUserCpuPerRequest => {
            of("needs", "CPU time in user mode per request")
        }
        Quantity::Memory | Quantity::MemoryGrowth | Quantity::GeneratorMemory => of("needs", "memory"),
        Quantity::Switches => of("makes", "context switches per request"),
        Quantity::Threads => of("has", "threads"),
        Quantity::Descriptors => of("has", "open descriptors"),
        Quantity::DescriptorShare => of("has", "of its descriptor limit in use"),
        _ => of("has", &format!("`{measure}`")),
    }
}

/// "`cached` is 3.9 times (3.7–4.1) faster than `source`": a ratio left ÷ right that is clearly not 1, as a sentence
/// without a full stop.
///
/// Of times, the faster one is named first and the ratio is that of the longer time to the shorter: 30 % faster means 1
/// ÷ 1.3 of the time, as 3.9 times faster means 1 ÷ 3.9. Of amounts, the larger one is named first if it is at least
/// twice as large.
pub(crate) fn different(
    quantity: Option<&Quantity>,
    measure: &str,
    left: &str,
    right: &str,
    ratio: [f64; 3],
) -> String {
    let wording = wording(quantity, measure);
    let [center, low, high] = ratio;
    let turned = [1.0 / center, 1.0 / high, 1.0 / low];
    let (more, less, ratio) = if center >= 1.0 { (left, right, ratio) } else { (right, left, turned) };
    let Wording { verb, faster, noun } = wording;
    if faster {
        return format!("`{less}` {verb} {} faster than `{more}`", times_or_percent(ratio));
    }
    if ratio[0] >= 2.0 {
        return format!("`{more}` {verb} {} as {} {noun} as `{less}`", times(ratio), much_or_many(&noun));
    }
    let is_less_better = quantity.and_then(Quantity::less_is_better) == Some(true);
    if is_less_better {
        let [center, low, high] = [1.0 - 1.0 / ratio[0], 1.0 - 1.0 / ratio[1], 1.0 - 1.0 / ratio[2]];
        format!("`{less}` {verb} {} less {noun} than `{more}`", percent(center, low, high))
    } else {
        format!("`{more}` {verb} {} more {noun} than `{less}`", percent(ratio[0] - 1.0, ratio[1] - 1.0, ratio[2] - 1.0))
    }
}

fn much_or_many(noun: &str) -> &'static str {
    let is_counted = ["requests", "bytes", "context", "threads", "open"].iter().any(|word| noun.starts_with(word));
    if is_counted { "many" } else { "much" }
}

fn times_or_percent(ratio: [f64; 3]) -> String {
    if ratio[0] >= 2.0 { times(ratio) } else { percent(ratio[0] - 1.0, ratio[1] - 1.0, ratio[2] - 1.0) }
}

/// `3.9 times (3.7–4.1)`.
pub(crate) fn times([center, low, high]: [f64; 3]) -> String {
    let places = ratio_places(center);
    if format!("{low:.places$}") == format!("{high:.places$}") {
        return format!("{center:.places$} times");
    }
    format!("{center:.places$} times ({low:.places$}–{high:.places$})")
}

/// `23 % (20–26 %)`.
pub(crate) fn percent(center: f64, low: f64, high: f64) -> String {
    let places = usize::from((center * 100.0).abs() < 9.95);
    let [center, low, high] = [center, low, high].map(|share| format!("{:.places$}", share * 100.0));
    if low == high { format!("{center} %") } else { format!("{center} % ({low}–{high} %)") }
}

/// `at 1 user, path=cached`; empty without levels.
pub(crate) fn at_levels(levels: &Levels) -> String {
    let each: Vec<String> = levels
        .iter()
        .map(|(factor, level)| numbered(factor, level).unwrap_or_else(|| format!("{factor}={level}")))
        .collect();
    if each.is_empty() { String::new() } else { format!("at {}", each.join(", ")) }
}

/// `cached, 250 users`: levels without their factors if they are words.
pub(crate) fn levels_text(levels: &Levels) -> String {
    let each: Vec<String> = levels.iter().map(|(factor, level)| level_text(factor, level)).collect();
    each.join(", ")
}

/// One level without its factor; a number needs it: `250 users`, `crowd=250`.
pub(crate) fn level_text(factor: &str, level: &str) -> String {
    if level.parse::<f64>().is_err() {
        return level.to_owned();
    }
    numbered(factor, level).unwrap_or_else(|| format!("{factor}={level}"))
}

/// `1 user`, `250 users`: a number of a factor whose name is a plural noun.
fn numbered(factor: &str, level: &str) -> Option<String> {
    level.parse::<u64>().ok()?;
    let is_word = factor.chars().all(|c| c.is_ascii_lowercase());
    let singular = factor.strip_suffix('s').filter(|noun| is_word && noun.len() > 2 && !noun.ends_with(['s', 'u']))?;
    Some(format!("{level} {}", if level == "1" { singular } else { factor }))
}

/// `1 block`, `3 blocks`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Why so few blocks allow no verdict; none if they are enough.
pub(crate) fn too_few_blocks(blocks: usize) -> Option<String> {
    let are = if blocks == 1 { "is" } else { "are" };
    (blocks < BLOCKS_MIN as usize)
        .then(|| format!("a verdict needs at least {BLOCKS_MIN} blocks, there {are} {blocks}"))
}

/// Removes the numbers of a text, so that messages that differ only in them compare equal.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        let is_number = c.is_ascii_digit() || (c == '.' && kept.ends_with('#'));
        match (is_number, kept.ends_with('#')) {
            (true, true) => {}
            (true, false) => kept.push('#'),
            (false, _) => kept.push(c),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Quantity = Quantity::Time { kind: TimeKind::Response, figure: TimeFigure::Mean };

    #[test]
    fn levels_are_nouns_where_the_factor_is_one() {
        let of = |factor: &str, level: &str| level_text(factor, level);
        assert_eq!([of("users", "1"), of("users", "250"), of("server", "nginx")], ["1 user", "250 users", "nginx"]);
        assert_eq!([of("crowd", "250"), of("status", "1"), of("users", "0.5")], ["crowd=250", "status=1", "users=0.5"]);
        let levels = [("users", "1"), ("path", "cached")].map(|(name, level)| (name.to_owned(), level.to_owned()));
        assert_eq!(at_levels(&levels.clone().into()), "at path=cached, 1 user");
        assert_eq!(levels_text(&levels.into()), "cached, 1 user");
        assert_eq!(at_levels(&Levels::new()), "");
    }

    #[test]
    fn numbers_alone_make_no_other_text() {
        let late = |ms: &str| without_numbers(&format!("were sent more than {ms} ms late (-t)"));
        assert_eq!(late("8.58"), late("10"));
        assert_eq!(late("9.5."), "were sent more than # ms late (-t)");
        assert_ne!(without_numbers("a 1"), without_numbers("b 1"));
    }

    #[test]
    fn amounts_have_three_digits() {
        assert_eq!(amount(0.012_345, Unit::Seconds), "12.3 ms");
        assert_eq!(amount(0.999_9, Unit::Seconds), "1 s");
        assert_eq!(amount(0.0, Unit::Seconds), "0 s");
        assert_eq!(amount(-0.5e-6, Unit::Seconds), "-500 ns");
        assert_eq!(amount(123_456.7, Unit::PerSecond), "123,457/s");
        assert_eq!(amount(0.0123, Unit::Share), "1.23 %");
        assert_eq!(amount(0.999_98, Unit::Share), "99.998 %");
        assert_eq!([difference(-0.005, Unit::Share), difference(0.012, Unit::Seconds)], ["-0.5 pp", "12 ms"]);
        assert_eq!(amount(64e6, Unit::Bytes), "64 MB");
        assert_eq!(amount(1_500.0, Unit::BytesPerSecond), "1.5 kB/s");
        assert_eq!(amount(0.0, Unit::Plain), "0");
    }

    #[test]
    fn a_value_that_is_not_the_limit_does_not_read_like_it() {
        assert_eq!(amount_beside(500.0, 499.97, Unit::Plain), "499.97");
        assert_eq!(amount_beside(500.0, 412.97, Unit::Plain), "413");
        assert_eq!(amount_beside(1.0, 0.999_8, Unit::Share), "99.98 %");
        assert_eq!(amount_beside(0.5, 0.499_99, Unit::Seconds), "499.99 ms");
        assert_eq!(amount_beside(1.0, 1.0, Unit::Share), "100 %");
        assert_eq!(amount_beside(1.0, 1.0 - 1e-15, Unit::Share), "100 %");
    }

    #[test]
    fn the_faster_one_is_named_first() {
        let said = different(Some(&MEAN), "mean(user)", "cached", "source", [0.256, 0.244, 0.27]);
        assert_eq!(said, "`cached` is 3.9 times (3.7–4.1) faster than `source`");
        let said = different(Some(&MEAN), "mean(user)", "a", "b", [1.23, 1.2, 1.26]);
        assert_eq!(said, "`b` is 23 % (20–26 %) faster than `a`");
    }

    #[test]
    fn scatter_and_age_are_no_speed() {
        let time = |kind, figure| Quantity::Time { kind, figure };
        let step = Quantity::Step { step: "login".into(), figure: TimeFigure::Stdev };
        let age = time(TimeKind::StaleAge, TimeFigure::Mean);
        for quantity in [time(TimeKind::Response, TimeFigure::Stdev), step, age] {
            let said = different(Some(&quantity), "x(user)", "a", "b", [3.0, 2.0, 4.0]);
            assert_eq!(said, "`a` has 3.0 times (2.0–4.0) as much `x(user)` as `b`");
            let said = different(Some(&quantity), "x(user)", "a", "b", [1.25, 1.25, 1.25]);
            assert_eq!(said, "`b` has 20 % less `x(user)` than `a`");
        }
    }

    #[test]
    fn amounts_are_more_or_less() {
        let said = different(Some(&Quantity::Rate), "rate(crowd)", "a", "b", [1.05, 1.02, 1.08]);
        assert_eq!(said, "`a` answers 5.0 % (2.0–8.0 %) more requests per second than `b`");
        let said = different(Some(&Quantity::Rate), "rate(crowd)", "a", "b", [0.25, 0.24, 0.26]);
        assert_eq!(said, "`b` answers 4.0 times (3.8–4.2) as many requests per second as `a`");
        let said = different(Some(&Quantity::Memory), "memory(x)", "a", "b", [0.8, 0.8, 0.8]);
        assert_eq!(said, "`a` needs 20 % less memory than `b`");
        let said = different(Some(&Quantity::Memory), "memory(x)", "a", "b", [2.5, 2.4, 2.6]);
        assert_eq!(said, "`a` needs 2.5 times (2.4–2.6) as much memory as `b`");
        let said = different(Some(&Quantity::ErrorShare), "errors(user)", "a", "b", [3.0, 2.0, 4.0]);
        assert_eq!(said, "`a` has 3.0 times (2.0–4.0) as much `errors(user)` as `b`");
    }

    #[test]
    fn ratios_near_one_have_more_digits() {
        assert_eq!(with_interval(0.831, 0.79, 0.884), "0.83 (0.79–0.88)");
        assert_eq!(with_interval(0.942, 0.891, 0.997), "0.942 (0.891–0.997)");
        assert_eq!(with_interval(1.003, 0.998, 1.011), "1.003 (0.998–1.011)");
        assert_eq!(with_interval(0.0712, 0.0699, 0.21), "0.071 (0.070–0.210)");
        assert_eq!(with_interval(1.0, 1.0, 1.0), "1.000");
    }
}
