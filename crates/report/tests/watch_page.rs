//! The page of a watch in a browser: a week of two targets, with outages, a gap, a slow hour and a leak.
//!
//! `BREME_SCREENSHOTS=FOLDER` keeps pictures of the page: light, dark, phone.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]
#![allow(clippy::disallowed_methods, reason = "it prints how long the page takes")]

mod chromium;
mod page;

use std::collections::BTreeMap;
use std::time::Instant;

use breme_base::Random;
use breme_report::WatchPage;
use breme_stats::Histogram;
use breme_watch::history::{History, JournalInfo, Point, TargetHistory, TargetInfo};
use breme_watch::record::{Counts, Gap, Outage, Usage};
use jiff::tz::TimeZone;
use page::Page;

/// Monday, 2026-01-05, 00:00 in Ljubljana.
const MONDAY_MS: i64 = 1_767_567_600_000;
const MINUTE_MS: i64 = 60_000;
const WEEK_MINUTES: i64 = 7 * 24 * 60;
/// Ten seconds between intervals.
const INTERVALS_PER_MINUTE: u64 = 6;

/// First minute, minutes, cause.
const OUTAGES: [(i64, i64, &str); 3] =
    [(2 * 1_440 + 600, 20, "refused"), (4 * 1_440 + 840, 3, "timeout"), (5 * 1_440 + 120, 75, "status 503")];
/// First and last minute of the gap, on Thursday.
const GAP: (i64, i64) = (3 * 1_440 + 60, 3 * 1_440 + 360);

struct Week {
    random: Random,
    base_ns: f64,
    has_outages: bool,
    has_resources: bool,
}

impl Week {
    fn outage_at(&self, minute: i64) -> bool {
        self.has_outages && OUTAGES.iter().any(|(from, length, _)| (*from..from + length).contains(&minute))
    }

    fn time(&mut self, minute: i64) -> u64 {
        let hour = minute / 60 % 24;
        let slow = if self.has_outages && hour == 15 { 1.2 } else { 1.0 };
        let noise = (self.random.unit() + self.random.unit() + self.random.unit() - 1.5) * 0.08;
        let tail = if self.random.chance(0.02) { 1.0 + 2.0 * self.random.unit() } else { 1.0 };
        (self.base_ns * slow * tail * noise.exp()) as u64
    }

    fn usage(&mut self, minute: i64) -> Usage {
        let day = minute as f64 / 1_440.0;
        let memory = 180e6 * 1.01_f64.powf(day) * (1.0 + 0.01 * self.random.unit());
        Usage {
            cpu_ns: (60e9 * (0.05 + 0.02 * self.random.unit())) as u64,
            over_ns: 60_000_000_000,
            memory_bytes: memory as u64,
            threads: 12,
            descriptors: 40 + self.random.below(6),
            descriptors_share: 0.04,
        }
    }

    /// A minute (`step` 1) or an hour (60) from single minutes.
    fn point(&mut self, minute: i64, step: i64, all: &mut Histogram) -> Option<Point> {
        let mut times: Vec<u64> = Vec::new();
        let (mut up, mut down) = (0, 0);
        for minute in (minute..minute + step).filter(|minute| !(GAP.0..GAP.1).contains(minute)) {
            if self.outage_at(minute) {
                down += INTERVALS_PER_MINUTE;
            } else {
                up += INTERVALS_PER_MINUTE;
                times.extend((0..INTERVALS_PER_MINUTE).map(|_| self.time(minute)));
            }
        }
        times.iter().for_each(|&nanos| all.record(nanos));
        times.sort_unstable();
        let quantile = |of: usize| times.get(times.len() * of / 100).copied().unwrap_or(0);
        (up + down > 0).then(|| Point {
            wall_ms: MONDAY_MS + minute * MINUTE_MS,
            up,
            down,
            elapsed_ns: (up + down) * 4_000_000,
            counts: Counts { requests: up + down, ok: up, transport: down, ..Counts::default() },
            mean_ns: times.iter().sum::<u64>() as f64 / times.len().max(1) as f64,
            p50_ns: quantile(50),
            p95_ns: quantile(95),
            p99_ns: quantile(99),
            usage: self.has_resources.then(|| self.usage(minute)),
            certificate_expires_at: None,
        })
    }

    fn target(mut self) -> TargetHistory {
        let mut target = TargetHistory::default();
        let mut times = Histogram::new();
        target.hours = (0..7 * 24).filter_map(|hour| self.point(hour * 60, 60, &mut times)).collect();
        let mut ignored = Histogram::new();
        target.minutes = (0..WEEK_MINUTES).filter_map(|minute| self.point(minute, 1, &mut ignored)).collect();
        target.up = target.hours.iter().map(|hour| hour.up).sum();
        target.down = target.hours.iter().map(|hour| hour.down).sum();
        target.counts =
            Counts { requests: target.up + target.down, ok: target.up, transport: target.down, ..Counts::default() };
        target.times_sum_ns = u64::try_from(times.sum()).unwrap();
        target.times = times;
        if self.has_outages {
            target.certificate_expires_at = Some(u64::try_from(MONDAY_MS / 1_000).unwrap() + 10 * 86_400);
            let outage = |&(from, length, cause): &(i64, i64, &str)| Outage {
                from_ms: MONDAY_MS + from * MINUTE_MS,
                length_ms: u64::try_from(length * MINUTE_MS).unwrap(),
                intervals: u64::try_from(length).unwrap() * INTERVALS_PER_MINUTE,
                cause: cause.to_owned(),
                has_end: true,
            };
            target.outages = OUTAGES.iter().map(outage).collect();
        }
        target
    }
}

fn info(name: &str) -> TargetInfo {
    TargetInfo {
        name: name.to_owned(),
        url: format!("http://127.0.0.1:8080/{name}"),
        concurrency: 1,
        is_removed: false,
    }
}

fn history() -> History {
    let shop = Week { random: Random::new(1), base_ns: 4.2e6, has_outages: true, has_resources: true };
    let feed = Week { random: Random::new(2), base_ns: 0.8e6, has_outages: false, has_resources: false };
    let gap =
        Gap { until_ms: MONDAY_MS + GAP.1 * MINUTE_MS, length_ms: u64::try_from((GAP.1 - GAP.0) * MINUTE_MS).unwrap() };
    History {
        targets: BTreeMap::from([(0, shop.target()), (1, feed.target())]),
        gaps: vec![gap],
        gaps_more: 0,
        gaps_more_ms: 0,
        clock_steps: Vec::new(),
        from_ms: MONDAY_MS,
        to_ms: MONDAY_MS + (WEEK_MINUTES - 1) * MINUTE_MS,
        last: 60_480,
        damaged: 0,
    }
}

fn html(history: &History, reload_s: Option<u32>) -> String {
    let info = JournalInfo {
        version: 1,
        interval_ms: 10_000,
        time_zone: String::from("Europe/Ljubljana"),
        availability: 0.99,
        within_ms: 1_000,
        certificate_within_s: 14 * 86_400,
        targets: vec![info("shop"), info("feed")],
    };
    let zone = TimeZone::get(&info.time_zone).unwrap();
    WatchPage { info: &info, history, zone: &zone, reload_s }.html()
}

#[test]
fn week_has_charts_heat_map_and_outages() {
    let history = history();
    let begun = Instant::now();
    let html = html(&history, None);
    println!("{} bytes, rendered in {:?}", html.len(), begun.elapsed());
    let mut page = Page::new(&html);
    page.open_whole(1280);
    println!("drawn {} ms after the navigation", page.evaluate("Math.round(performance.now())"));
    page.check_charts(6); // response times of both, resources of one
    assert_eq!(page.count("#target-0 .heat td"), 7 * 24);
    assert_eq!(page.count("#target-0 .heat td.down"), 4, "hours with outages");
    let text = page.text("main");
    for part in ["refused", "timeout", "status 503", "15:00 to 16:00", "leaks", "met"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // In the summary and with the target.
    assert_eq!(text.matches("Renew the certificate: it expires in 3 d").count(), 2, "{text}");
    page.check_colours("watch");
    page.check_phone("watch");
    page.check_quiet();
}

/// Also without scripts the page stays as it is.
#[test]
fn reloading_can_be_stopped() {
    let html = html(&history(), Some(3_600));
    assert!(!html.contains("http-equiv=\"refresh\""));
    let mut page = Page::new(&html);
    page.open_whole(1280);
    assert_eq!(page.text("#reload:not([hidden])").trim(), "Reload every 3600 s");
    let is_chosen = "document.querySelector('#reload input').checked";
    assert_eq!(page.evaluate(is_chosen), true);
    page.evaluate("document.querySelector('#reload input').click()");
    page.open_whole(1280);
    assert_eq!(page.evaluate(is_chosen), false, "the choice outlives a reload by hand");
    page.check_quiet();
}
