use std::rc::Rc;
use std::time::{Duration, Instant};

use breme_base::Random;
use breme_watch::findings;
use breme_watch::history::{History, Point, for_each_interval};
use breme_watch::journal::Journal;
use breme_watch::record::{ClockReading, Probe, TargetState};
use breme_watch::{IntervalLengths, Retention};
use jiff::tz::TimeZone;

use crate::fixture::{MONDAY_MS, Memory, normal, probe, reading};

const WEEK_S: u64 = 7 * 86_400;
/// Journals of [`a_hundred_kills_lose_and_repeat_nothing`].
const SEEDS: u64 = 1;

fn open(memory: &mut Memory) -> Journal<&mut Memory> {
    Journal::open(memory, Retention::default(), IntervalLengths::default(), 1_000).unwrap()
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// Counts bytes of intervals, and keeps only rollups.
#[derive(Debug, Default)]
struct Counting {
    kept: Memory,
    raw_bytes: usize,
}

impl breme_watch::journal::Storage for &mut Counting {
    fn names(&self) -> std::io::Result<Vec<String>> {
        Ok(self.kept.files.keys().cloned().collect())
    }
    fn read(&self, name: &str) -> std::io::Result<Vec<u8>> {
        Ok(self.kept.files.get(name).cloned().unwrap_or_default())
    }
    fn append(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        if name.starts_with("raw") {
            self.raw_bytes += bytes.len();
        } else {
            self.kept.files.entry(name.to_owned()).or_default().extend_from_slice(bytes);
        }
        Ok(())
    }
    fn truncate(&mut self, _name: &str, _bytes: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn remove(&mut self, _name: &str) -> std::io::Result<()> {
        Ok(())
    }
}

/// One probe per second for a week, with three injected outages. In release: `cargo test --release -p breme-watch
/// --test weeks -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute without optimisation"]
fn week_of_seconds_is_small_and_outages_are_exact() {
    let outages = [(10_000, 10_001), (200_000, 200_450), (500_123, 503_724)];
    let mut counting = Counting::default();
    let mut random = Random::new(1);
    {
        let mut journal =
            Journal::open(&mut counting, Retention::default(), IntervalLengths::default(), 1_000).unwrap();
        for second in 0..WEEK_S {
            let is_down = outages.iter().any(|(from, to)| (*from..*to).contains(&second));
            let time = (2_000_000.0 * (0.3 * normal(&mut random)).exp()) as u64;
            let answer = if is_down { Err("refused") } else { Ok(time) };
            journal.append(reading(second), vec![probe(answer)]).unwrap();
        }
    }
    let rollup = counting.kept.bytes("");
    println!("raw {} MB, rollup {} MB", counting.raw_bytes / 1_000_000, rollup as f64 / 1e6);
    assert!(counting.raw_bytes < 200_000_000, "{} bytes of intervals", counting.raw_bytes);
    assert!(rollup < 5_000_000, "{rollup} bytes of rollups");
    println!("peak memory of the writer {} MB", resident_bytes() / 1_000_000);
    let begun = Instant::now();
    let history = History::read(&&mut counting).unwrap();
    let read = begun.elapsed();
    let findings = findings::find(&history.targets[&0], &TimeZone::UTC);
    println!("read in {read:?}, {} findings in {:?}", findings.len(), begun.elapsed() - read);
    let target = &history.targets[&0];
    let found: Vec<(u64, u64, u64)> = target
        .outages
        .iter()
        .map(|outage| ((outage.from_ms - MONDAY_MS) as u64 / 1_000, outage.length_ms / 1_000, outage.intervals))
        .collect();
    let planted: Vec<(u64, u64, u64)> = outages.iter().map(|(from, to)| (*from, to - from, to - from)).collect();
    assert_eq!(found, planted);
    assert!(target.outages.iter().all(|outage| outage.cause == "refused" && outage.has_end));
    // The last minute is incomplete, and its intervals are not kept here.
    let down: u64 = outages.iter().map(|(from, to)| to - from).sum();
    assert_eq!((target.up, target.down, target.unknown), (WEEK_S - 60 - down, down, 0));
    assert_eq!(target.hours.len(), 168, "the last one is incomplete");
    println!("peak memory {} MB", resident_bytes() / 1_000_000);
    assert!(resident_bytes() < 50_000_000, "{} bytes", resident_bytes());
}

/// Interrupts writing a hundred times at a random byte, and reopens the journal.
#[test]
fn a_hundred_kills_lose_and_repeat_nothing() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let mut memory = Memory::default();
        let (mut finished, mut second) = (0, 0);
        for _ in 0..100 {
            // Some kills hit the recovery.
            memory.left = Some(random.below(40_000) as usize);
            let opened = Journal::open(&mut memory, Retention::default(), IntervalLengths::default(), 1_000);
            if let Ok(mut journal) = opened {
                assert!(journal.last().map_or(0, |(number, _)| number) >= finished);
                while let Ok(interval) = journal.append(reading(second), vec![probe(Ok(1_000_000))]) {
                    finished = interval.number;
                    second += 1;
                }
                // An interval may be complete although its rollup is not.
                second += 1 + random.below(100);
            }
        }
        memory.left = None;
        let last = open(&mut memory).last().unwrap().0;
        assert!(last >= finished, "seed {seed}: {last} of {finished}");
        let history = History::read(&&mut memory).unwrap();
        let target = &history.targets[&0];
        assert_eq!(target.up, last, "seed {seed}");
        assert_eq!((history.last, history.damaged), (last, 0), "seed {seed}");
        let measured = target.times.count();
        assert_eq!(measured, last, "seed {seed}");
        let unknown_ms: u64 = history.gaps.iter().map(|gap| gap.length_ms).sum();
        let span_ms = (history.to_ms - history.from_ms) as u64;
        assert_eq!(span_ms, (last - 1) * 1_000 + unknown_ms, "seed {seed}");
    }
}

/// The disk fills up at a random byte, of intervals or of rollups, a hundred times; the writer continues after space
/// was freed, or is restarted. Refused intervals are gaps; no other is lost.
#[test]
fn full_disk_loses_only_refused_intervals() {
    let mut random = Random::new(1);
    let mut memory = Memory::default();
    let free = Rc::clone(&memory.free);
    let (mut second, mut kept) = (0, 0);
    for restart in 1..=25 {
        let mut journal = open(&mut memory);
        for _ in 0..4 {
            free.set(Some(random.below(15_000) as usize));
            while journal.append(reading(second), vec![probe(Ok(1_000_000))]).is_ok() {
                (second, kept) = (second + 1, kept + 1);
            }
            second += 3;
            assert!(journal.append(reading(second), vec![probe(Ok(1))]).is_err(), "nothing fits");
            free.set(None);
            second += 3;
            journal.append(reading(second), vec![probe(Ok(1_000_000))]).unwrap();
            (second, kept) = (second + 1, kept + 1);
        }
        if restart % 5 == 0 {
            let history = History::read(&&mut memory).unwrap();
            assert_eq!((history.last, history.damaged, history.targets[&0].up), (kept, 0, kept));
            assert_eq!(history.targets[&0].times.count(), kept);
        }
    }
}

#[test]
fn reader_sees_every_interval_at_any_time() {
    let mut memory = Memory::default();
    for second in 0..8_000 {
        if second % 611 == 0 {
            let history = History::read(&&mut memory).unwrap();
            assert_eq!(history.last, second);
            assert_eq!(history.targets.get(&0).map_or(0, |target| target.up), second);
            let mut journal = open(&mut memory);
            (second..second + 611)
                .for_each(|second| drop(journal.append(reading(second), vec![probe(Ok(1))]).unwrap()));
        }
    }
}

#[test]
fn gap_is_neither_up_nor_down_and_ends_an_outage() {
    let mut memory = Memory::default();
    {
        let mut journal = open(&mut memory);
        (0..10).for_each(|second| drop(journal.append(reading(second), vec![probe(Ok(1))]).unwrap()));
        (10..15).for_each(|second| drop(journal.append(reading(second), vec![probe(Err("refused"))]).unwrap()));
    }
    let mut journal = open(&mut memory);
    let interval = journal.append(reading(4_000), vec![probe(Ok(1))]).unwrap();
    assert_eq!(interval.gap_ms, 3_985_000);
    let history = History::read(&&mut memory).unwrap();
    let target = &history.targets[&0];
    assert_eq!((target.up, target.down), (11, 5));
    assert_eq!(history.gaps.len(), 1);
    let outage = &target.outages[0];
    assert_eq!((outage.length_ms, outage.intervals, outage.has_end), (4_000, 5, false));
}

/// A watch that restarts every few seconds: a rollup lists 64 gaps, and adds up all of them.
#[test]
fn the_outage_of_a_removed_target_ends_with_its_last_interval() {
    let mut memory = Memory::default();
    {
        let mut journal = open(&mut memory);
        for second in 0..60 {
            let gone = Probe { target: 1, ..probe(Err("refused")) };
            journal.append(reading(second), vec![probe(Ok(1_000_000)), gone]).unwrap();
        }
    }
    let mut journal = open(&mut memory);
    (60..200).for_each(|second| drop(journal.append(reading(second), vec![probe(Ok(1_000_000))]).unwrap()));
    drop(journal);
    let history = History::read(&&mut memory).unwrap();
    let gone = &history.targets[&1];
    assert_eq!((gone.down, &gone.ongoing), (60, &None));
    let [outage] = &gone.outages[..] else { panic!("{:?}", gone.outages) };
    assert_eq!((outage.intervals, outage.length_ms, outage.has_end), (60, 59_000, false));
}

#[test]
fn rollups_keep_the_latest_expiry_of_a_certificate() {
    let mut memory = Memory::default();
    let mut journal = open(&mut memory);
    let mut append = |second: u64, answer, certificate_expires_at| {
        drop(journal.append(reading(second), vec![Probe { certificate_expires_at, ..probe(answer) }]).unwrap());
    };
    for second in 0..8_000 {
        match second {
            0..5_000 if second % 10 > 0 => append(second, Ok(1_000), Some(1)),
            5_000..7_000 => append(second, Ok(1_000), Some(2)),
            _ => append(second, Err("refused"), None),
        }
    }
    let expiries = |points: &[Point]| points.iter().map(|point| point.certificate_expires_at).collect::<Vec<_>>();
    let history = History::read(&&mut memory).unwrap();
    let target = &history.targets[&0];
    assert_eq!(target.certificate_expires_at, Some(2));
    assert_eq!(expiries(&target.hours), [Some(1), Some(2), None]);
    assert_eq!(expiries(&target.minutes[82..85]), [Some(1), Some(2), Some(2)]);
    assert_eq!(expiries(&target.recent).last(), Some(&None));
    // The target no longer uses TLS.
    open(&mut memory).append(reading(8_000), vec![probe(Ok(1_000))]).unwrap();
    assert_eq!(History::read(&&mut memory).unwrap().targets[&0].certificate_expires_at, None);
}

#[test]
fn a_shorter_interval_makes_no_gap() {
    let mut memory = Memory::default();
    let mut journal = Journal::open(&mut memory, Retention::default(), IntervalLengths::default(), 10_000).unwrap();
    journal.append(reading(0), vec![probe(Err("refused"))]).unwrap();
    journal.change(Retention::default(), 1_000);
    assert_eq!(journal.append(reading(10), vec![probe(Ok(1))]).unwrap().gap_ms, 0);
    assert_eq!(journal.append(reading(20), vec![probe(Ok(1))]).unwrap().gap_ms, 9_000);
}

#[test]
fn every_gap_counts_as_unmeasured_time() {
    const GAPS: u64 = 200;
    let mut memory = Memory::default();
    for restart in 0..=GAPS {
        open(&mut memory).append(reading(restart * 5), vec![probe(Ok(1))]).unwrap();
        if restart % 50 == 7 {
            let history = History::read(&&mut memory).unwrap();
            assert_eq!((history.gap_count(), history.unmeasured_ms()), (restart, restart * 4_000));
        }
    }
    let history = History::read(&&mut memory).unwrap();
    assert_eq!((history.gap_count(), history.unmeasured_ms(), history.last), (GAPS, GAPS * 4_000, GAPS + 1));
    assert!(history.gaps.len() < 64 * 4, "{} listed", history.gaps.len());
    assert_eq!(breme_watch::text::gaps(&history), ["200 gaps, 13 min 20 s in total: neither up nor down."]);
}

/// The clock is set forward by a year and back.
#[test]
fn clock_steps_change_no_length_and_remove_nothing() {
    let mut memory = Memory::default();
    let mut journal = open(&mut memory);
    let year_ms = 366 * 86_400_000;
    for second in 0..3_000 {
        let set_ms = if (1_000..2_000).contains(&second) { year_ms } else { 0 };
        let at = ClockReading { wall_ms: reading(second).wall_ms + set_ms, ..reading(second) };
        let answer = if (990..1_010).contains(&second) { Err("timeout") } else { Ok(1_000) };
        let interval = journal.append(at, vec![probe(answer)]).unwrap();
        assert_eq!(interval.gap_ms, 0);
    }
    let history = History::read(&&mut memory).unwrap();
    let target = &history.targets[&0];
    assert_eq!((target.up, target.down, history.last), (2_980, 20, 3_000));
    assert_eq!(target.outages[0].length_ms, 20_000);
    let steps: Vec<i64> = history.clock_steps.iter().map(|step| step.step_ms).collect();
    assert_eq!(steps, [year_ms, -year_ms]);
}

#[test]
fn retention_removes_intervals_and_keeps_rollups() {
    let retention = Retention { raw: Duration::from_secs(3_600), ..Retention::default() };
    let mut memory = Memory::default();
    let mut journal = Journal::open(&mut memory, retention, IntervalLengths::default(), 1_000).unwrap();
    for second in 0..40_000 {
        journal.append(reading(second), vec![probe(Ok(1_000))]).unwrap();
    }
    let raw = memory.bytes("raw");
    assert!(raw < 3 * (1 << 20), "{raw} bytes");
    let history = History::read(&&mut memory).unwrap();
    assert_eq!((history.targets[&0].up, history.last), (40_000, 40_000));
    assert_eq!(probe(Ok(1)).counts.state(), TargetState::Up);
}

/// A journal of seconds is continued with an interval of 20 s: its first segments are 8 h old, of 10 h.
#[test]
fn longer_interval_removes_nothing_within_the_retention() {
    const SECONDS: u64 = 30_000;
    const FIRST: &str = "raw-000000000001.log";
    let retention = Retention { raw: Duration::from_secs(36_000), ..Retention::default() };
    let mut memory = Memory::default();
    let mut journal = Journal::open(&mut memory, retention, IntervalLengths::default(), 1_000).unwrap();
    (0..SECONDS).for_each(|second| drop(journal.append(reading(second), vec![probe(Ok(1_000))]).unwrap()));
    let mut intervals = journal.intervals().clone();
    let mut second = SECONDS;
    // A second restart does not know the first interval from the watch file.
    for _ in 0..2 {
        let mut journal = Journal::open(&mut memory, retention, intervals.clone(), 20_000).unwrap();
        for _ in 0..50 {
            journal.append(reading(second), vec![probe(Ok(1_000))]).unwrap();
            second += 20;
        }
        intervals = journal.intervals().clone();
        assert!(memory.files.contains_key(FIRST), "{:?}", memory.files.keys());
    }
    let mut journal = Journal::open(&mut memory, retention, intervals, 20_000).unwrap();
    for _ in 0..500 {
        journal.append(reading(second), vec![probe(Ok(1_000))]).unwrap();
        second += 20;
    }
    assert!(!memory.files.contains_key(FIRST), "they are more than 10 h old: {:?}", memory.files.keys());
}

#[test]
fn latest_intervals_are_read_across_segments() {
    const LAST: u64 = 20_000;
    let mut memory = Memory::default();
    let mut journal = open(&mut memory);
    (0..LAST).for_each(|second| drop(journal.append(reading(second), vec![probe(Ok(1_000))]).unwrap()));
    for after in [0, 1, LAST / 2, LAST - 1, LAST] {
        let mut numbers = Vec::new();
        for_each_interval(&&mut memory, after, |interval| numbers.push(interval.number)).unwrap();
        assert!(numbers.iter().copied().eq(after + 1..=LAST), "{} after {after}", numbers.len());
    }
}
