//! Shutdown: of the server under load, of the generator by a signal.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::harness::{DRIVERS, Signal, Site, breme, many_per_thread, send_signal, wait};
use crate::load_child::wait_for_answers;

#[test]
fn sigterm_answers_what_was_accepted_and_ends_with_0() {
    for driver in DRIVERS.iter().copied() {
        // If the signal arrives after the response, the machine is slow, and the response must take longer.
        let in_time = [300, 3_000, 30_000].into_iter().any(|delay_ms| sigterm_before_an_answer(driver, delay_ms));
        assert!(in_time, "{driver}: an answer after the signal does not say that it is the last one");
    }
}

/// Whether the response announced that it is the last one.
fn sigterm_before_an_answer(driver: &str, delay_ms: u64) -> bool {
    let mut site = Site::lab(driver);
    let mut idle = site.connect();
    let mut busy = site.connect();
    // The response to the first request shows that both are served; then the slow one is in progress.
    busy.write_all(b"GET /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut reader = BufReader::new(busy.try_clone().unwrap());
    skip_answer(&mut reader, 1);
    busy.write_all(format!("GET /delay/{delay_ms} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    // Another connection's later request has a response after the slow one was read: at most one shard lags.
    for _ in 0..20 {
        site.get("/bytes/1");
    }
    site.signal(Signal::TERM);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"), "{driver}: the accepted request was answered with {rest:?}");
    let mut nothing = Vec::new();
    idle.read_to_end(&mut nothing).unwrap();
    assert!(nothing.is_empty(), "{driver}: an idle connection is just closed");
    // The server waits for its clients to close too; the time limit is the driver's (tested in `closing`).
    drop((busy, reader, idle));
    let (status, _) = site.wait();
    assert_eq!(status.code(), Some(0), "{driver}");
    rest.to_ascii_lowercase().contains("connection: close")
}

fn skip_answer(reader: &mut impl BufRead, content_bytes: usize) {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the server ended early");
    }
    let mut content = vec![0; content_bytes];
    reader.read_exact(&mut content).unwrap();
}

#[test]
fn sigterm_under_load_leaves_nothing_unanswered() {
    for driver in many_per_thread() {
        let mut site = Site::lab(driver);
        let url = site.url("/bytes/100");
        let mut generator = breme()
            .args(["load", "--json", "--driver", driver, "-c", "20", "-d", "120", &url])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_answers(&site, 1_000);
        site.signal(Signal::TERM);
        let (status, _) = site.wait();
        assert_eq!(status.code(), Some(0));
        send_signal(&generator, Signal::INT);
        wait(&mut generator);
        let mut text = String::new();
        generator.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let kinds = &result["errors"];
        for lost in ["reset", "timeout", "malformed"] {
            assert_eq!(kinds[lost].as_u64().unwrap_or(0), 0, "{driver}, {lost}: {kinds:#}");
        }
    }
}

#[test]
fn an_interrupted_load_still_reports_its_result() {
    let site = Site::lab("events");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut generator = breme()
            .args(["load", "--json", "-c", "3", "-d", "1h", &site.url("/bytes/10")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_answers(&site, 400);
        send_signal(&generator, signal);
        assert_eq!(wait(&mut generator).code(), Some(code));
        let mut text = String::new();
        generator.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(result["interrupted"], serde_json::Value::Bool(true));
        let count = |name: &str| result["requests"][name].as_u64().unwrap();
        assert!(count("answered") >= 400, "{result:#}");
        assert_eq!(count("issued"), count("answered") + count("failed") + count("unfinished"), "{result:#}");
    }
}
