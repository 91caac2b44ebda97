//! The page of a load in a browser: of a run with errors and a slow middle, and of one without a response.
//!
//! `BREME_SCREENSHOTS=FOLDER` keeps pictures of the page: light, dark, phone, print.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod chromium;

use std::collections::BTreeSet;

use breme_report::{LoadBin, LoadCondition, LoadInterval, LoadPage, LoadTimes};
use chromium::Browser;
use serde_json::json;

fn times(name: &str, scale: u64) -> LoadTimes {
    LoadTimes {
        name: name.to_owned(),
        count: 1_000_000,
        mean_ns: 210_000.0 * scale as f64,
        min_ns: 40_000 * scale,
        p50_ns: 180_000 * scale,
        p90_ns: 340_000 * scale,
        p95_ns: 520_000 * scale,
        p99_ns: 1_900_000 * scale,
        p999_ns: 8_100_000 * scale,
        max_ns: 31_000_000 * scale,
    }
}

fn page() -> LoadPage {
    let interval = |second: u32| {
        let slow = if (20..30).contains(&second) { 4 } else { 1 };
        let wave = 180_000 + u64::from(second % 7) * 9_000;
        LoadInterval {
            start_s: f64::from(second),
            length_s: 1.0,
            answered: 20_000 / slow,
            errors: if slow > 1 { 140 } else { 0 },
            p50_ns: wave * slow,
            p90_ns: 2 * wave * slow,
            p99_ns: 9 * wave * slow,
            max_ns: 40 * wave * slow,
        }
    };
    let counts = [30, 400, 9_000, 120_000, 310_000, 280_000, 150_000, 90_000, 30_000, 9_000, 1_400, 170];
    let bins = counts.iter().zip(1_u64..).map(|(&count, number)| LoadBin { to_ns: 60_000 * number * number, count });
    LoadPage {
        breme_version: "0.1.0".to_owned(),
        title: "GET http://host.example/page?<script>alert(1)</script>".to_owned(),
        load: "50 connections, closed loop, HTTP/1.1, 60.0 s".to_owned(),
        started_unix_s: 1_767_567_600,
        conditions: vec![
            LoadCondition { condition: "p99 > 50ms".into(), has_failed: Some(false), measured: "p99 1.9 ms".into() },
            LoadCondition {
                condition: "errors > 0.1%".into(),
                has_failed: Some(true),
                measured: "errors 0.14 %".into(),
            },
        ],
        rate: 16_666.6,
        answered: 1_000_000,
        requests: 1_001_400,
        error_count: 1_400,
        times: vec![times("response", 1), times("service", 1), times("connect", 3)],
        intervals: (0..60).map(interval).collect(),
        bins: bins.collect(),
        statuses: vec![("200".into(), 999_200), ("503".into(), 800)],
        errors: vec![("status".into(), 800), ("timeout".into(), 600)],
        facts: vec![("received".into(), "1.10 GB, 1.00 GB of it response bodies".into())],
        settings: vec![("URL".into(), "http://host.example/page".into()), ("connections".into(), "50".into())],
        ..LoadPage::default()
    }
}

#[test]
fn charts_tables_and_the_headline_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("load.html");
    std::fs::write(&file, page().html()).unwrap();
    let mut browser = Browser::start();
    browser.open_whole(&file, 1280);
    let plots = browser
        .evaluate("[...document.querySelectorAll('.plot')].map((plot) => plot.querySelectorAll('svg path').length)");
    let plots = plots.as_array().unwrap();
    assert_eq!(plots.len(), 3, "response times, histogram, rate");
    assert!(plots.iter().all(|paths| paths.as_u64() > Some(3)), "{plots:?}");
    let headline = browser.evaluate("document.querySelector('.the-answer').innerText.replaceAll('\\u00a0', ' ')");
    assert_eq!(headline, "16,667 responses/s; half within 180 µs, 99 % within 1.90 ms; 1,400 errors (0.14 %).");
    let text = browser.evaluate("document.querySelector('main').innerText");
    for part in ["<script>alert(1)</script>", "errors > 0.1%", "failed", "503", "timeout", "99.9 %", "8.10 ms"] {
        assert!(text.as_str().unwrap().contains(part), "{part}: {text}");
    }
    assert_eq!(browser.evaluate("document.querySelectorAll('.invalid').length"), 0);
    for colours in ["light", "dark"] {
        browser.evaluate(&format!("document.querySelector('button[data-colours={colours}]').click()"));
        browser.keep_picture(&format!("load-{colours}.png"));
    }
    browser.evaluate("document.querySelector('button[data-colours=light]').click()");
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    browser.keep_picture("load-print.png");
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "" }));
    browser.open_whole(&file, 390);
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), 390);
    let wide = "[...document.querySelectorAll('.plot svg text')].filter((text) => text.getBoundingClientRect().right > innerWidth + 1).length";
    assert_eq!(browser.evaluate(wide), 0, "labels within the screen");
    browser.keep_picture("load-phone.png");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    let requests: BTreeSet<&str> = browser.requests().into_iter().collect();
    assert_eq!(requests.len(), 1, "{requests:?}");
}

#[test]
fn a_page_without_a_response_or_without_validity_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("load.html");
    let nothing = LoadPage { title: "GET http://a/".into(), error_count: 3, requests: 3, ..LoadPage::default() };
    std::fs::write(&file, nothing.html()).unwrap();
    let mut browser = Browser::start();
    browser.open_whole(&file, 800);
    assert_eq!(browser.evaluate("document.querySelectorAll('.plot').length"), 0);
    let headline = browser.evaluate("document.querySelector('.the-answer').innerText.replaceAll('\\u00a0', ' ')");
    assert_eq!(headline, "No response; 3 errors (100 %).");
    let invalid = LoadPage { invalid_reasons: vec!["the generator used 99 % of a processor".into()], ..page() };
    std::fs::write(&file, invalid.html()).unwrap();
    browser.open_whole(&file, 1280);
    assert!(browser.evaluate("document.title").as_str().unwrap().starts_with("INVALID: GET"));
    let alert = browser.evaluate("document.querySelector('[role=alert]').innerText");
    assert!(alert.as_str().unwrap().contains("99 % of a processor"), "{alert}");
    browser.keep_picture("load-invalid.png");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}
