//! The page of a load in a browser: of a run with errors and a slow middle, and of one without a response.
//!
//! `BREME_SCREENSHOTS=FOLDER` keeps pictures of the page: light, dark, phone, print.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod chromium;
mod page;

use breme_load_result::{
    ConditionVerdict, FailIfResult, HistogramBin, LoadOutcome, Requests, Row, SettingsSummary, TimeSummary,
};
use breme_report::LoadPage;
use page::Page;

fn times(scale: u64) -> TimeSummary {
    TimeSummary {
        count: 1_000_000,
        mean_ns: 210_000.0 * scale as f64,
        min_ns: 40_000 * scale,
        p50_ns: 180_000 * scale,
        p90_ns: 340_000 * scale,
        p95_ns: 520_000 * scale,
        p99_ns: 1_900_000 * scale,
        p999_ns: 8_100_000 * scale,
        max_ns: 31_000_000 * scale,
        ..TimeSummary::default()
    }
}

fn outcome() -> LoadOutcome {
    let interval = |second: u32| {
        let slow = if (20..30).contains(&second) { 4 } else { 1 };
        let wave = 180_000 + u64::from(second % 7) * 9_000;
        Row {
            start_s: f64::from(second),
            length_s: 1.0,
            answered: 20_000 / slow,
            errors: if slow > 1 { 140 } else { 0 },
            response_p50_ns: wave * slow,
            response_p90_ns: 2 * wave * slow,
            response_p99_ns: 9 * wave * slow,
            response_max_ns: 40 * wave * slow,
            ..Row::default()
        }
    };
    let counts = [30, 400, 9_000, 120_000, 310_000, 280_000, 150_000, 90_000, 30_000, 9_000, 1_400, 170];
    let limit = |number: u64| 60_000 * number * number;
    let bins = counts.iter().zip(1_u64..).map(|(&count, number)| HistogramBin {
        from_ns: limit(number - 1),
        to_ns: limit(number),
        count,
    });
    let condition = |condition: &str, verdict, measured: &str| FailIfResult {
        condition: condition.into(),
        verdict,
        measured: measured.into(),
    };
    LoadOutcome {
        breme_version: "0.1.0".to_owned(),
        started_at_unix_s: 1_767_567_600,
        conditions: vec![
            condition("p99 > 50ms", ConditionVerdict::Passed, "p99 1.9 ms"),
            condition("errors > 0.1%", ConditionVerdict::Failed, "errors 0.14 %"),
        ],
        achieved_rate: 16_666.6,
        requests: Requests { issued: 1_001_400, answered: 1_000_000, ok: 999_200, ..Requests::default() },
        response_time: times(1),
        service_time: times(1),
        connect_time: times(3),
        series: (0..60).map(interval).collect(),
        histogram: bins.collect(),
        statuses: [("200".to_owned(), 999_200), ("503".to_owned(), 800)].into(),
        errors: [("status".to_owned(), 800), ("timeout".to_owned(), 600)].into(),
        settings: SettingsSummary {
            url: "http://host.example/page?<script>alert(1)</script>".to_owned(),
            method: "GET".to_owned(),
            ..SettingsSummary::default()
        },
        ..LoadOutcome::default()
    }
}

fn html(outcome: &LoadOutcome) -> String {
    let page = LoadPage {
        outcome,
        load: "50 connections, closed loop, HTTP/1.1, 60.0 s".to_owned(),
        facts: vec![("received".into(), "1.10 GB, 1.00 GB of it response bodies".into())],
        settings: vec![("URL".into(), "http://host.example/page".into()), ("connections".into(), "50".into())],
    };
    page.html()
}

#[test]
fn charts_tables_and_the_headline_are_there() {
    let mut page = Page::new(&html(&outcome()));
    page.open_whole(1280);
    page.check_charts(3); // response times, histogram, rate
    let headline = page.text(".the-answer");
    assert_eq!(headline, "16,667 responses/s; half within 180 µs, 99 % within 1.90 ms; 1,400 errors (0.14 %).");
    let text = page.text("main");
    for part in ["<script>alert(1)</script>", "errors > 0.1%", "failed", "503", "timeout", "99.9 %", "8.10 ms"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(page.count(".invalid"), 0);
    page.check_colours("load");
    page.check_paper("load");
    page.check_phone("load");
    page.check_quiet();
}

#[test]
fn a_page_without_a_response_or_without_validity_says_so() {
    let nothing = LoadOutcome {
        requests: Requests { issued: 3, ..Requests::default() },
        errors: [("timeout".to_owned(), 3)].into(),
        connect_time: times(1),
        ..LoadOutcome::default()
    };
    let mut page = Page::new(&html(&nothing));
    page.open_whole(800);
    assert_eq!(page.count(".plot"), 0);
    assert_eq!(page.text(".the-answer"), "No response; 3 errors (100 %).");
    let invalid = LoadOutcome { invalid_reasons: vec!["the generator used 99 % of a processor".into()], ..outcome() };
    page.write(&html(&invalid));
    page.open_whole(1280);
    assert!(page.evaluate("document.title").as_str().unwrap().starts_with("INVALID: GET"));
    let alert = page.text("[role=alert]");
    assert!(alert.contains("99 % of a processor"), "{alert}");
    page.browser.keep_picture("load-invalid.png");
    page.check_quiet();
}
