//! `breme load`: correctness of its figures, compared with the server's own counter, never with itself.

use std::fs::File;
use std::io::{BufReader, Read, Write};

use breme_driver::Clock;
use breme_stats::log;
use serde_json::Value;

use crate::harness::{DRIVERS, Nginx, Site, load, load_json, serve_each};

fn answered(result: &Value) -> u64 {
    result["requests"]["answered"].as_u64().unwrap()
}

fn errors(result: &Value) -> u64 {
    result["errors"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn every_answer_is_counted_once() {
    for driver in DRIVERS.iter().copied() {
        for arguments in [
            &["-n", "1"][..],
            &["-n", "1000", "-c", "1"],
            &["-n", "5000", "-c", "7", "-t", "2"],
            &["-n", "5003", "-c", "7", "-p", "16"],
            &["-n", "300", "-c", "5", "--no-keepalive"],
            &["-n", "300", "-c", "5", "--http", "1.0"],
            &["-d", "1", "-c", "8", "-t", "2"],
            &["-d", "1", "-c", "8", "-p", "8"],
        ] {
            let site = Site::lab(driver);
            let mut all = arguments.to_vec();
            let url = site.url("/bytes/100");
            all.push(&url);
            let result = load_json(&all);
            assert_eq!(errors(&result), 0, "{arguments:?}: {result:#}");
            assert_eq!(site.counter(), answered(&result), "{arguments:?} on {driver}");
            if arguments[0] == "-n" {
                assert_eq!(answered(&result).to_string(), arguments[1], "{arguments:?}");
            }
        }
    }
}

#[test]
fn a_stock_nginx_is_measured() {
    let nginx = Nginx::start();
    let url = format!("http://{}/fixed", nginx.address);
    let result = load_json(&["-n", "3000", "-c", "10", "--expect-contains", "Hello", "--expect-bytes", "13", &url]);
    assert_eq!((answered(&result), errors(&result)), (3_000, 0));
}

/// nginx also accepts the whole URL (RFC 9112, 3.2.2), and reports its host.
#[test]
fn requests_go_to_the_proxy_in_the_place_of_the_server() {
    let whom = "location = /whom { return 200 \"$request $http_host\"; }";
    let nginx = Nginx::start_with("", whom);
    let proxy = format!("--proxy=http://{}", nginx.address);
    let seen = "--expect-contains=GET http://somebody.test:81/whom HTTP/1.1 somebody.test:81";
    let result = load_json(&["-n", "200", "-c", "4", &proxy, seen, "http://somebody.test:81/whom"]);
    assert_eq!((answered(&result), errors(&result)), (200, 0));
}

#[test]
fn a_check_that_fails_is_an_error_and_exit_code_3() {
    let site = Site::lab("auto");
    for check in [
        &["--expect-status", "204"][..],
        &["--expect-bytes", "14"],
        &["--expect-contains", "nowhere"],
        &["--expect-body-sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    ] {
        let mut arguments = vec!["-n", "20", "-c", "2", "--json"];
        arguments.extend(check);
        let url = site.url("/bytes/13");
        arguments.push(&url);
        let output = load(&arguments);
        assert_eq!(output.status.code(), Some(3), "{check:?}: {}", String::from_utf8_lossy(&output.stderr));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(errors(&result), 20, "{check:?}");
    }
}

#[test]
fn known_delays_are_measured_right() {
    let site = Site::lab("auto");
    let result = load_json(&["-n", "40", "-c", "4", &site.url("/delay/50")]);
    let median = result["service_time"]["p50_ns"].as_f64().unwrap();
    let least = result["service_time"]["min_ns"].as_f64().unwrap();
    assert!(least >= 49.9e6, "no answer can come before its delay: {least}");
    assert!(median >= 50.0e6, "{median}");
}

#[test]
fn a_refusing_target_is_an_error_with_its_name() {
    let free = breme_testkit::reserved_address();
    let output = load(&["-n", "10", "-c", "2", &format!("http://{free}/")]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&free.to_string()) && stderr.contains("refused"), "{stderr}");
}

#[test]
fn templates_request_different_targets() {
    let site = Site::lab("auto");
    let result = load_json(&["-n", "100", "-c", "1", &site.url("/bytes/{seq}")]);
    assert_eq!((answered(&result), errors(&result)), (100, 0));
    let result = load_json(&["-n", "200", "-c", "2", "--expect-status", "200", &site.url("/bytes/{uniform:1:9}")]);
    assert_eq!(errors(&result), 0);
}

#[test]
fn the_intervals_of_all_files_are_those_of_one_run() {
    let site = Site::lab("auto");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, table) = (path("run.hlog"), path("run.csv"));
    let before = monotonic_ns();
    let arguments = ["-d", "1", "-c", "4", "-t", "2", "--interval", "50ms", "-o", &log, "-o", &table];
    let result = load_json(&[&arguments[..], &[&site.url("/bytes/100")]].concat());
    let answers = answered(&result);

    let started = result["started_at_monotonic_ns"].as_u64().unwrap();
    assert!((before..monotonic_ns()).contains(&started), "{before}, {started}");
    let rows = result["series"].as_array().unwrap();
    let milliseconds = |row: &Value, key: &str| (row[key].as_f64().unwrap() * 1e3).round() as u64;
    let starts: Vec<u64> = rows.iter().map(|row| milliseconds(row, "start_s")).collect();
    assert_eq!(starts, (0..rows.len() as u64).map(|row| row * 50).collect::<Vec<_>>());
    // The last row ends with the run; it is longer than an interval if the generator did not get a processor before.
    let last = rows.last().unwrap();
    assert!(milliseconds(last, "start_s") + milliseconds(last, "length_s") >= 1000, "{last}");

    let mut reader = log::Reader::new(BufReader::new(File::open(&log).unwrap()));
    let intervals = reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
    for tag in ["service", "first-byte", "response"] {
        let tagged: Vec<_> = intervals.iter().filter(|interval| interval.tag.as_deref() == Some(tag)).collect();
        assert_eq!(tagged.iter().map(|interval| interval.histogram.count()).sum::<u64>(), answers, "{tag}");
        // A disk that is temporarily slow makes intervals longer; none is missing, and none overlaps.
        let is_next = |pair: &[&log::Interval]| pair[0].start + pair[0].length == pair[1].start;
        assert!(tagged.windows(2).all(is_next) && tagged[0].start.is_zero(), "{tag}");
    }
    let started_s = result["started_at_unix_ns"].as_u64().unwrap() as f64 / 1e9;
    assert!((reader.started().unwrap().as_secs_f64() - started_s).abs() < 0.05, "{:?} {started_s}", reader.started());

    let table = std::fs::read_to_string(table).unwrap();
    let names: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let sum = |name: &str| -> u64 {
        table.lines().skip(1).map(|row| row.split(',').nth(column(name)).unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!((sum("answered"), sum("errors"), table.lines().count()), (answers, 0, rows.len() + 1));
    assert_eq!(sum("received_bytes"), result["bytes"]["received"].as_u64().unwrap());
}

/// As read by another program of this machine.
fn monotonic_ns() -> u64 {
    let clock = Clock::start();
    clock.monotonic(clock.now()).as_nanos() as u64
}

#[test]
fn a_file_that_cannot_be_written_costs_no_result() {
    let site = Site::lab("auto");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (full, log, kept) = (path("full.csv"), path("full.jtl"), path("kept.json"));
    [&full, &log].iter().for_each(|path| std::os::unix::fs::symlink("/dev/full", path).unwrap());
    let output = load(&["--json", "-n", "20", "-o", &full, "-o", &log, "-o", &kept, &site.url("/bytes/1")]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("full.") && message.contains("No space left"), "{message}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!((&printed["requests"]["answered"], &printed), (&Value::from(20), &kept));
}

#[test]
fn the_logs_of_other_tools_have_every_request() {
    let site = Site::lab("auto");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, line) = (path("run.jtl"), path("run.bench.txt"));
    let url = site.url("/bytes/{uniform:1:2}");
    let arguments = ["--json", "-n", "400", "-c", "4", "--interval", "100ms", "--expect-bytes", "1", "-o", &log, "-o"];
    let output = load(&[&arguments[..], &[&line, &url]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    // On a busy machine some may be timeouts.
    assert!(result["errors"]["assertion"].as_u64() > Some(0), "{result}");
    let failed: u64 = result["errors"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();

    let log = std::fs::read_to_string(log).unwrap();
    let rows: Vec<Vec<&str>> = log.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert!(log.starts_with("timeStamp,elapsed,label,") && rows.iter().all(|row| row.len() == 17), "{log}");
    assert_eq!(rows.len(), 400);
    assert_eq!(rows.iter().filter(|row| row[7] == "false").count() as u64, failed);
    let started = result["started_at_unix_ns"].as_u64().unwrap() / 1_000_000;
    assert!(rows.iter().all(|row| row[0].parse::<u64>().unwrap() + 100 >= started), "{started}\n{log}");

    let text = std::fs::read_to_string(line).unwrap();
    let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert!(last[0].starts_with("BenchmarkLoad/GET-") && last[1] == "400" && last[3] == "ns/op", "{text}");
    assert!(text.contains("\nUnit req/s better=higher\n"), "{text}");
}

/// A queue before one connection: the response times are several times the service times.
#[test]
fn the_percentiles_are_those_of_response_times() {
    let site = Site::lab("threads");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.hgrm");
    let arguments = ["-n", "10", "-R", "1000", "-c", "1", "-o", path.to_str().unwrap(), &site.url("/delay/20")];
    let result = load_json(&arguments);
    let text = std::fs::read_to_string(&path).unwrap();
    let mean_ms = result["response_time"]["mean_ns"].as_f64().unwrap() / 1e6;
    assert!(text.contains(&format!("[Mean    = {mean_ms:12.3}")), "{mean_ms} {text}");
}

#[test]
fn no_response_has_a_remedy_for_its_error() {
    let garbage = serve_each(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n"); // the load may have closed
    });
    let silent = serve_each(|mut stream| drop(stream.read(&mut [0; 1024])));
    let frozen = serve_each(|mut stream| stream.read_to_end(&mut Vec::new()));
    let cases: [(&[&str], _, _); 4] = [
        (&[], garbage, "is one for HTTP/1.1"),
        (&[], silent, "is one for https://"),
        (&["--timeout", "50ms"], frozen, "raise --timeout"),
        (&["--unix-socket", "/nonexistent/socket"], frozen, "listens on this socket"),
    ];
    for (flags, address, remedy) in cases {
        let output = load(&[flags, &["-n", "2", "-c", "1", &format!("http://{address}/")]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains(remedy), "{error}");
    }
}
