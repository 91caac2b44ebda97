use std::collections::BTreeMap;

use breme_base::Random;
use breme_watch::findings::{self, Effect, Finding, Hypothesis, Metric, Verdict};
use breme_watch::history::{Point, TargetHistory};
use breme_watch::record::Usage;
use jiff::tz::TimeZone;

use crate::fixture::{MONDAY_MS, normal};

const HOUR_MS: i64 = 3_600_000;
/// Weeks for verification. Methods and parameters were chosen on others, from [`SELECTION_SEED`] on.
const VERIFICATION_SEED: u64 = 20_000;
const SELECTION_SEED: u64 = 10_000;
const WEEKS: u64 = 100;

/// Injected effects; none in a clean week.
#[derive(Clone, Copy, Default)]
struct Planted {
    slow_hour: f64,
    leak_per_day: f64,
    /// Amplitude of a daily cycle of the memory; not an effect.
    memory_cycle: f64,
    slowing_per_day: f64,
    step: f64,
    /// Hour of the step; none: the middle.
    step_at: Option<usize>,
}

/// Random variation of hours.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Independent, normal, 3 %.
    Plain,
    /// Autocorrelated (0.6), normal, 3 %; one hour in twenty is up to three times as slow.
    Realistic,
    /// As realistic, but autocorrelated by 0.85.
    Sticky,
}

impl Noise {
    fn series(self, random: &mut Random, count: usize) -> Vec<f64> {
        let stickiness = match self {
            Self::Plain => 0.0,
            Self::Realistic => 0.6,
            Self::Sticky => 0.85_f64,
        };
        let mut level = normal(random) * 0.03;
        (0..count)
            .map(|_| {
                level = stickiness * level + (1.0 - stickiness * stickiness).sqrt() * 0.03 * normal(random);
                let is_shaken = !matches!(self, Self::Plain) && random.chance(0.05);
                level + if is_shaken { random.unit() * 1.1 } else { 0.0 }
            })
            .collect()
    }
}

fn week(seed: u64, noise: Noise, planted: Planted, days: usize) -> TargetHistory {
    let mut random = Random::new(seed);
    let count = days * 24;
    let [median, tail, memory, descriptors] = std::array::from_fn(|_| noise.series(&mut random, count));
    let point = |hour: usize| {
        let day = hour as f64 / 24.0;
        let hour_of_day = if hour % 24 == 15 { planted.slow_hour } else { 0.0 };
        let cycle = planted.memory_cycle * (std::f64::consts::TAU * day).sin();
        let step = if hour >= planted.step_at.unwrap_or(count / 2) { planted.step } else { 0.0 };
        let shift = (1.0 + hour_of_day).ln() + day * (1.0 + planted.slowing_per_day).ln() + (1.0 + step).ln();
        let p50 = 2e6 * (median[hour] + shift).exp();
        Point {
            wall_ms: MONDAY_MS + hour as i64 * HOUR_MS,
            mean_ns: p50 * 1.1 * (tail[hour] / 4.0).exp(),
            p50_ns: p50 as u64,
            p99_ns: (p50 * 3.0 * tail[hour].exp()) as u64,
            usage: Some(Usage {
                memory_bytes: (2e8 * (memory[hour].min(0.2) + cycle + day * (1.0 + planted.leak_per_day).ln()).exp())
                    as u64,
                descriptors: (60.0 * (1.0 + descriptors[hour].abs().min(0.2))) as u64,
                ..Usage::default()
            }),
            ..Point::default()
        }
    };
    TargetHistory { hours: (0..count).map(point).collect(), ..TargetHistory::default() }
}

fn findings(history: &TargetHistory) -> Vec<Finding> {
    findings::find(history, &TimeZone::UTC)
}

fn found(findings: &[Finding]) -> Vec<Hypothesis> {
    findings.iter().filter(|one| matches!(one.verdict, Verdict::Found(_))).map(|one| one.hypothesis).collect()
}

/// Number of weeks with each finding, and with any.
fn count(noise: Noise, planted: Planted, days: usize, weeks: u64) -> (BTreeMap<String, u64>, u64) {
    count_from(VERIFICATION_SEED, noise, planted, days, weeks)
}

fn count_from(first: u64, noise: Noise, planted: Planted, days: usize, weeks: u64) -> (BTreeMap<String, u64>, u64) {
    let seeds = first..first + weeks;
    let (mut counts, mut weeks) = (BTreeMap::new(), 0);
    for seed in seeds {
        let found = found(&findings(&week(seed, noise, planted, days)));
        weeks += u64::from(!found.is_empty());
        found.iter().for_each(|hypothesis| *counts.entry(format!("{hypothesis:?}")).or_insert(0) += 1);
    }
    (counts, weeks)
}

#[test]
fn clean_weeks_have_no_findings() {
    let cycle = Planted { memory_cycle: 0.02, ..Planted::default() };
    let clean = Planted::default();
    for (noise, planted) in
        [(Noise::Plain, clean), (Noise::Realistic, clean), (Noise::Realistic, cycle), (Noise::Sticky, clean)]
    {
        let (counts, weeks) = count(noise, planted, 7, WEEKS);
        println!("{noise:?}, cycle {}: an effect in {weeks} of {WEEKS} clean weeks: {counts:?}", planted.memory_cycle);
        assert!(weeks <= 5, "{noise:?}: {weeks} of {WEEKS}: {counts:?}");
    }
}

#[test]
fn finds_slow_hour() {
    for noise in [Noise::Plain, Noise::Realistic] {
        let (counts, _) = count(noise, Planted { slow_hour: 0.2, ..Planted::default() }, 7, WEEKS);
        println!("{noise:?}, slow hour: {counts:?}");
        assert!(counts.get("HourOfDay") >= Some(&95), "{noise:?}: {counts:?}");
    }
    let findings = findings(&week(1, Noise::Realistic, Planted { slow_hour: 0.2, ..Planted::default() }, 7));
    let Verdict::Found(Effect::Periodic(hours)) = &findings[0].verdict else { panic!("{:?}", findings[0]) };
    let [(15, ratio)] = hours[..] else { panic!("{hours:?}") };
    assert!(ratio.low <= 1.2 && 1.2 <= ratio.high && ratio.low > 1.05, "{ratio:?}");
}

#[test]
fn finds_leak_and_its_rate() {
    let planted = Planted { leak_per_day: 0.01, ..Planted::default() };
    let with_cycle = Planted { memory_cycle: 0.02, ..planted };
    let cases = [(Noise::Plain, planted), (Noise::Realistic, planted), (Noise::Realistic, with_cycle)];
    for (noise, planted) in cases {
        let (counts, _) = count(noise, planted, 7, WEEKS);
        println!("{noise:?}, cycle {}, leak: {counts:?}", planted.memory_cycle);
        assert!(counts.get("Growth(Memory)") >= Some(&95), "{noise:?}: {counts:?}");
    }
    let findings = findings(&week(2, Noise::Realistic, planted, 7));
    let memory = findings.iter().find(|one| one.hypothesis == Hypothesis::Growth(Metric::Memory)).unwrap();
    let Verdict::Found(Effect::Trend(trend)) = &memory.verdict else { panic!("{memory:?}") };
    assert!(trend.ratio.low <= 1.01 && 1.01 <= trend.ratio.high, "{trend:?}");
    assert!((1.05..1.10).contains(&trend.total), "{trend:?}");
}

/// Prints how often effects are found in the weeks on which methods and parameters are chosen. In release:
/// `cargo test --release -p breme-watch --test weeks selection -- --ignored --nocapture`.
#[test]
#[ignore = "a tool for the choice of parameters"]
fn selection() {
    const MANY: u64 = 400;
    let leak = Planted { leak_per_day: 0.01, ..Planted::default() };
    let cycle = Planted { memory_cycle: 0.02, ..Planted::default() };
    let leak_and_cycle = Planted { memory_cycle: 0.02, ..leak };
    let slowing = Planted { slowing_per_day: 0.02, ..Planted::default() };
    let step = Planted { step: 0.2, ..Planted::default() };
    let early_step = Planted { step_at: Some(42), ..step };
    let slow_hour = Planted { slow_hour: 0.2, ..Planted::default() };
    for (name, planted) in [
        ("clean", Planted::default()),
        ("clean, daily cycle of memory", cycle),
        ("leak", leak),
        ("leak and cycle", leak_and_cycle),
        ("slowing", slowing),
        ("step", step),
        ("early step", early_step),
        ("slow hour", slow_hour),
    ] {
        for noise in [Noise::Plain, Noise::Realistic, Noise::Sticky] {
            let (counts, weeks) = count_from(SELECTION_SEED, noise, planted, 7, MANY);
            println!("{name}, {noise:?}: any in {weeks} of {MANY}, {counts:?}");
        }
    }
}

#[test]
fn finds_change_of_level_and_no_growth() {
    let planted = Planted { step: 0.2, ..Planted::default() };
    let (counts, _) = count(Noise::Realistic, planted, 7, WEEKS);
    println!("change: {counts:?}");
    assert!(counts.get("Change(Mean)") >= Some(&90), "{counts:?}");
    assert!(counts.get("Growth(Median)") <= Some(&5), "{counts:?}");
    let findings = findings(&week(3, Noise::Realistic, planted, 7));
    let change = findings.iter().find(|one| one.hypothesis == Hypothesis::Change(Metric::Mean)).unwrap();
    let Verdict::Found(Effect::Change(change)) = &change.verdict else { panic!("{change:?}") };
    assert!((change.at_ms - (MONDAY_MS + 84 * HOUR_MS)).abs() <= 6 * HOUR_MS, "{change:?}");
    assert!(change.ratio.low <= 1.2 && 1.2 <= change.ratio.high, "{change:?}");
}

#[test]
fn finds_early_change_of_level() {
    for (noise, least) in [(Noise::Plain, 65), (Noise::Realistic, 50)] {
        let (counts, _) = count(noise, Planted { step: 0.2, step_at: Some(42), ..Planted::default() }, 7, WEEKS);
        println!("{noise:?}, change after a quarter: {counts:?}");
        assert!(counts.get("Change(Mean)") >= Some(&least), "{noise:?}: {counts:?}");
    }
}

#[test]
fn finds_growth_and_no_change_of_level() {
    let (counts, _) = count(Noise::Plain, Planted { slowing_per_day: 0.02, ..Planted::default() }, 7, 50);
    println!("slowing: {counts:?}");
    assert!(counts.get("Growth(Median)") >= Some(&45), "{counts:?}");
    assert!(counts.get("Change(Mean)") <= Some(&5), "{counts:?}");
}

#[test]
fn hours_follow_daylight_saving_time() {
    let zone = TimeZone::get("Europe/Ljubljana").unwrap();
    // Five weeks around 2026-03-29, slow from 15:00 to 16:00 local time, and on Saturdays.
    let mut random = Random::new(9);
    let from = MONDAY_MS + 9 * 7 * 24 * HOUR_MS;
    let noise = Noise::Realistic.series(&mut random, 42 * 24);
    let point = |hour: usize| {
        let wall_ms = from + hour as i64 * HOUR_MS;
        let local = jiff::Timestamp::from_millisecond(wall_ms).unwrap().to_zoned(zone.clone());
        let is_saturday = local.weekday() == jiff::civil::Weekday::Saturday;
        let factor = if local.hour() == 15 { 1.2 } else { 1.0 } * if is_saturday { 1.3 } else { 1.0 };
        Point { wall_ms, p50_ns: (2e6 * factor * noise[hour].exp()) as u64, ..Point::default() }
    };
    let history = TargetHistory { hours: (0..42 * 24).map(point).collect(), ..TargetHistory::default() };
    let findings = findings::find(&history, &zone);
    let places =
        |hypothesis: Hypothesis| match &findings.iter().find(|one| one.hypothesis == hypothesis).unwrap().verdict {
            Verdict::Found(Effect::Periodic(places)) => places.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
    assert_eq!(places(Hypothesis::HourOfDay), [15]);
    assert_eq!(places(Hypothesis::DayOfWeek), [5]);
}

#[test]
fn short_history_is_not_tested() {
    let findings = findings(&week(1, Noise::Plain, Planted::default(), 1));
    let why =
        |hypothesis: Hypothesis| findings.iter().find(|one| one.hypothesis == hypothesis).unwrap().verdict.clone();
    assert_eq!(why(Hypothesis::HourOfDay), Verdict::NotTested("fewer than four days"));
    assert_eq!(why(Hypothesis::DayOfWeek), Verdict::NotTested("fewer than four weeks"));
    assert_eq!(why(Hypothesis::Growth(Metric::Memory)), Verdict::NotTested("too few measurements"));
}
