//! `breme link`: the binary's additions to the path that is tested in virtual time. Only lower bounds of times are
//! asserted: a busy machine makes everything later, and nothing earlier.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use breme_testkit::reserved_address;
use serde_json::Value;

use crate::harness::{PATIENCE, Signal, Site, breme, connect, load, serve_each, wait_until};
use crate::laboratory_harness::{Laboratory, text_of};

fn link(to: &str, more: &[&str]) -> Site {
    Site::start_role("link", &[&["--to", to], more].concat(), Stdio::inherit())
}

#[test]
fn requests_take_the_path() {
    let site = Site::lab("events");
    let link = link(&site.url(""), &["--delay", "40ms", "--admin", "127.0.0.1:0"]);
    let output = load(&["-n", "20", "-c", "2", "--json", &link.url("/bytes/1000")]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["requests"]["ok"], 20, "{result}");
    let millis = |key: &str| result["service_time"][key].as_u64().unwrap() / 1_000_000;
    assert!(millis("min_ns") >= 80, "two delays: {result}");
    assert!(millis("max_ns") >= 160, "the first request of a connection waits for the handshake: {result}");
    assert_eq!(site.counter(), 20);
    let metrics = crate::harness::get(link.admin.unwrap(), "/metrics");
    let text = String::from_utf8(metrics.content).unwrap();
    assert!(text.contains("breme_link_connections_total 2\n"), "{text}");
    assert!(text.contains("breme_link_bytes_total{to=\"server\"}"), "{text}");
    assert!(text.contains("breme_build_info{role=\"link\",driver=\"events\""), "{text}");
}

#[test]
fn bytes_take_the_bandwidth() {
    let site = Site::lab("events");
    // 100 kB at 4 Mbit/s take 200 ms.
    let link = link(&site.url(""), &["--side", "server", "--up", "4Mbit"]);
    let begun = Instant::now();
    let (status, content) = link.get("/bytes/100000");
    assert_eq!((status, content.len()), (200, 100_000));
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

#[test]
fn half_closed_connections_and_resets_pass() {
    let echo = serve_each(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        stream.write_all(&all)
    });
    let way = link(&echo.to_string(), &["--delay", "5ms", "--jitter", "5ms"]);
    let mut stream = way.connect();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());

    let nobody = link(&reserved_address().to_string(), &[]);
    let mut stream = connect(nobody.address);
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// A server that sends and receives at the same time behind a path; its client sends everything before it reads.
#[test]
fn directions_are_independent() {
    const BYTES: usize = 32 << 20; // more than the kernel and the path hold
    let received = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&received);
    let server = serve_each(move |mut stream| {
        let mut sending = stream.try_clone()?;
        let sender = std::thread::spawn(move || {
            sending.write_all(&vec![1; BYTES])?;
            sending.shutdown(Shutdown::Write)
        });
        counted.store(std::io::copy(&mut stream, &mut std::io::sink())? as usize, Ordering::Release);
        sender.join().unwrap()
    });
    let way = link(&server.to_string(), &[]);
    let mut stream = way.connect();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&vec![2; BYTES]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    wait_until("the upload does not arrive", || received.load(Ordering::Acquire) == BYTES);
    let mut sent = Vec::new();
    stream.read_to_end(&mut sent).unwrap();
    assert_eq!(sent.len(), BYTES);
}

#[test]
fn it_ends_as_other_servers_do() {
    let site = Site::lab("events");
    let mut link = Site::start_role("link", &["--to", &site.url(""), "--drain-timeout", "100ms"], Stdio::piped());
    let mut idle = link.connect();
    idle.write_all(b"GET /bytes/5 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    idle.read_exact(&mut [0; 20]).unwrap();
    let mut stderr = link.stderr();
    link.signal(Signal::TERM);
    let (status, _) = link.wait();
    assert!(status.success());
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    assert!(text.contains("breme link: 1 connection; 34 bytes to the server, "), "{text}");
}

#[test]
fn wrong_flags_name_themselves() {
    for (flags, problem) in [
        (&["--to", "127.0.0.1:1", "--jitter", "1ms"][..], "--jitter: the jitter is larger than the delay"),
        (&["--to", "127.0.0.1:1", "--up", "1Mbps"], "is not a bandwidth; write bits per second"),
        (&["--to", "127.0.0.1"], "--to 127.0.0.1: the port is missing"),
        (&["--to", "127.0.0.1:1", "--loss", "100%"], "--loss: the loss must be below 100 %"),
    ] {
        let output = breme().arg("link").args(flags).output().unwrap();
        let text = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(problem), "{text}");
    }
}

const DISTANT: &str = r#"
title = "A distant server"
[subject.site]
kind = "site"
lab = true
[subject.distant]
kind = "link"
to = "site"
delay = "20ms"
down = "20Mbit"
[workload.user]
to = "$path"
connections = 1
requests = 10
request = "/bytes/1000"
[factor]
path = ["site", "distant"]
[design]
blocks = 1
pause = "0s"
warm_up = "none"
aa = false
"#;

#[test]
fn an_experiment_compares_a_near_server_with_a_distant_one() {
    let laboratory = Laboratory::new(DISTANT);
    let output = laboratory.breme(&["run", "experiment.toml", "--quiet", "--name", "run"]);
    assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    let trials = laboratory.trials("run");
    assert_eq!(trials.len(), 2, "{trials:?}");
    for trial in &trials {
        let user = &trial["workloads"]["user"];
        assert_eq!(user["ok"], 10, "{trial}");
        let is_distant = user["path"] == "distant";
        assert_eq!(trial["subjects"].get("distant").is_some(), is_distant, "{trial}");
        let least = user["response"]["min_ns"].as_u64().unwrap();
        assert!(!is_distant || least >= 40_000_000, "{trial}");
    }
}
