//! `breme load`: are its figures right? Held against the server's own counter, never against itself.

use serde_json::Value;

use crate::harness::{DRIVERS, Nginx, Site, load, load_json};

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
    let free = crate::harness::free_address();
    let output = load(&["-n", "10", "-c", "2", &format!("http://{free}/")]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(&free.to_string()) && told.contains("refused"), "{told}");
}

#[test]
fn templates_ask_for_different_targets() {
    let site = Site::lab("auto");
    let result = load_json(&["-n", "100", "-c", "1", &site.url("/bytes/{seq}")]);
    assert_eq!((answered(&result), errors(&result)), (100, 0));
    let result = load_json(&["-n", "200", "-c", "2", "--expect-status", "200", &site.url("/bytes/{uniform:1:9}")]);
    assert_eq!(errors(&result), 0);
}
