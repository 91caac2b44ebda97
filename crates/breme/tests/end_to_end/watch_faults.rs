//! `breme watch`: servers that slow down and leak, webhooks that fail, limits of this machine.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use breme_testkit::reserved_address;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;

use crate::harness::{PATIENCE, POLL_PAUSE, Site, breme, get, serve_requests};
use crate::remote_write::{Series, series};
use crate::watch::{PATIENT_LOAD, Watch, file, limited_command, number, one_target, report};

/// Request number from which `/slowing` is slow.
const SLOW_FROM: u64 = 20;
/// Requests before the findings are looked at: the tests need 28 values.
const REQUESTS: u64 = 40;
/// Response times of `/slowing`: the fault, and above the noise of a busy machine before it.
const FAST: Duration = Duration::from_millis(20);
const SLOW: Duration = Duration::from_millis(100);
/// What the leaking process allocates for each request.
const LEAK_BYTES: usize = 1 << 18;

/// A process whose memory grows with each line of its standard input. A shell would read byte by byte and copy what it
/// keeps.
struct Leak {
    child: Child,
    lines: Arc<Mutex<ChildStdin>>,
}

impl Leak {
    fn start() -> Self {
        let script = "import sys\nkept = list(sys.stdin.buffer)";
        let mut child = Command::new("python3").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let lines = Arc::new(Mutex::new(child.stdin.take().unwrap()));
        Self { child, lines }
    }
}

impl Drop for Leak {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves `/slowing`, `/leaking` and `/metrics`; sends the number of each request to `/slowing`.
fn faulty_server(leak: &Leak, sender: Sender<u64>) -> SocketAddr {
    let lines = Arc::clone(&leak.lines);
    let state = Mutex::new((0, sender));
    serve_requests(move |head, _| {
        let body = if head.starts_with("GET /slowing ") {
            let count = {
                let mut state = state.lock().unwrap();
                state.0 += 1;
                let _ = state.1.send(state.0);
                state.0
            };
            std::thread::sleep(if count > SLOW_FROM { SLOW } else { FAST });
            String::from("slow")
        } else if head.starts_with("GET /metrics ") {
            String::from(
                "process_resident_memory_bytes 12345678\nprocess_open_fds 30\nprocess_max_fds 60\n\
                     process_cpu_seconds_total 4.5\nprocess_threads 7\n",
            )
        } else {
            let line = "x".repeat(LEAK_BYTES) + "\n";
            lines.lock().unwrap().write_all(line.as_bytes()).unwrap();
            String::from("leak")
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    })
}

fn found<'a>(report: &'a Value, target: &str, effect: &str, metric: &str) -> Option<&'a Value> {
    let targets = report["targets"].as_array().unwrap();
    let target = targets.iter().find(|one| one["name"] == target)?;
    let findings = target["findings"].as_array().unwrap();
    findings.iter().find(|one| one["effect"] == effect && one["metric"] == metric && one["found"] == true)
}

#[test]
fn finds_a_slower_server_and_a_leak() {
    let folder = tempfile::tempdir().unwrap();
    let leak = Leak::start();
    let (sender, requests) = channel();
    let address = faulty_server(&leak, sender);
    let target =
        |path: &str, more: &str| format!("[[target]]\nname = '{path}'\nurl = 'http://{address}/{path}'\n{more}\n");
    let text = format!(
        "interval = '1s'\n{}{}{}",
        target("slowing", ""),
        target("leaking", &format!("process = {{ pid = {} }}", leak.child.id())),
        target("metrics", &format!("metrics = 'http://{address}/metrics'")),
    );
    let watch = Watch::start(&file(folder.path(), &text), &[]);
    while requests.recv_timeout(PATIENCE).unwrap() < REQUESTS {}
    // One after the other: the longer the slow part, the less the fast one proves.
    let report = watch.until("a change", |report| found(report, "slowing", "change", "mean").is_some());
    let change = found(&report, "slowing", "change", "mean").unwrap();
    assert!(change["text"].as_str().unwrap().contains("changed at"), "{change}");
    let report = watch.until("a leak", |report| found(report, "leaking", "growth", "memory").is_some());
    let growth = found(&report, "leaking", "growth", "memory").unwrap();
    assert!(growth["text"].as_str().unwrap().contains("leaks: it grows by"), "{growth}");
    let scraped = &report["targets"][2]["resources"];
    assert_eq!(
        (number(scraped, "/memory_bytes"), number(scraped, "/threads"), number(scraped, "/descriptors")),
        (12_345_678, 7, 30)
    );
    assert!((scraped["descriptors_share"].as_f64().unwrap() - 0.5).abs() < 1e-9, "{scraped}");
    assert_eq!(watch.stop(), Some(0));
}

/// The file gets the right token during the watch.
#[test]
fn metrics_are_read_with_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve_requests(|head, _| {
        let lower = head.to_ascii_lowercase();
        let is_allowed = !head.starts_with("GET /metrics ") || lower.contains("\r\nauthorization: bearer right\r\n");
        let (status, body) =
            if is_allowed { ("200 OK", "process_resident_memory_bytes 12345678\n") } else { ("401 No", "") };
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let token = secret(folder.path(), "Bearer wrong");
    let text = format!(
        "interval = '1s'\n[[target]]\nname = 'shop'\nurl = 'http://{address}/'\n\
         metrics = 'http://{address}/metrics'\nmetrics_auth_file = '{}'\n",
        token.display()
    );
    let path = file(folder.path(), &text);
    let watch = Watch::start(&path, &[]);
    let report = watch.until("two intervals", |report| number(report, "/intervals") >= 2);
    assert_eq!(report["targets"][0]["resources"], Value::Null);
    std::fs::write(&token, "Bearer right\n").unwrap();
    watch.until("metrics", |report| report["targets"][0]["resources"]["memory_bytes"] == 12_345_678);
    assert_eq!(watch.stop(), Some(0));
    std::fs::write(&token, "right").unwrap();
    let output = breme().arg("watch").arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = stderr(&output);
    assert!(message.contains("target shop: metrics_auth_file") && message.contains("Bearer TOKEN"), "{message}");
}

/// If each interval waited 2 s for the metrics, each would be followed by a gap of 2 s.
#[test]
fn hanging_metrics_cost_no_interval() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve_requests(|head, _| {
        if head.starts_with("GET /metrics ") { "" } else { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }
    });
    let text = format!(
        "interval = '1s'\n[[target]]\nname = 'shop'\nurl = 'http://{address}/'\nmetrics = 'http://{address}/metrics'\n"
    );
    let watch = Watch::start(&file(folder.path(), &text), &[]);
    watch.until("intervals without gaps between them", |report| {
        number(report, "/unknown_ms") < 1_000 * (number(report, "/intervals") - 1)
    });
    assert_eq!(watch.stop(), Some(0));
}

/// Accepts every connection; responds to its first request with the status that comes next; sends on the body.
fn webhook(statuses: &'static [u16]) -> (SocketAddr, Receiver<Value>) {
    let (sender, bodies) = channel();
    let state = Mutex::new((statuses.iter(), sender));
    let address = serve_requests(move |head, body| {
        let lower = head.to_ascii_lowercase();
        assert!(lower.starts_with("post /alerts ") && lower.contains("content-type: application/json"), "{head}");
        assert!(lower.contains("\r\nauthorization: bearer alerts.token\r\n"), "{head}");
        assert!(!body.is_empty(), "{head}");
        let mut state = state.lock().unwrap();
        let status = *state.0.next().unwrap_or(&200);
        if status == 200 {
            let _ = state.1.send(serde_json::from_slice(body).unwrap());
        }
        drop(state);
        format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
    });
    (address, bodies)
}

fn secret(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("secret");
    std::fs::write(&path, text).unwrap();
    path
}

fn shows(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn webhook_gets_each_alert_in_spite_of_errors() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab_at(reserved_address());
    let address = site.address;
    let (webhook, alerts) = webhook(&[503, 500]);
    let token = secret(folder.path(), "Bearer alerts.token\n");
    let more = format!(
        "[alert]\ndown_after = 2\nburn_rate = 1000000\nwebhook = 'http://{webhook}/alerts'\n\
         webhook_auth_file = '{}'\n",
        token.display()
    );
    let watch = Watch::start(&file(folder.path(), &one_target(&site, &more)), &[]);
    watch.until("up", |report| number(report, "/targets/0/intervals/up") >= 1);
    drop(site);
    let down = alerts.recv_timeout(PATIENCE).unwrap();
    assert_eq!((&down["state"], &down["target"], &down["cause"]), (&"down".into(), &"shop".into(), &"refused".into()));
    let _site = Site::lab_at(address);
    let up = alerts.recv_timeout(PATIENCE).unwrap();
    assert_eq!((&up["state"], &up["text"]), (&"up".into(), &"shop is up again".into()));
    assert!(up["time"].as_str() > down["time"].as_str(), "{down} {up}");
    let line = std::fs::read(format!("/proc/{}/cmdline", watch.pid().as_raw_nonzero())).unwrap();
    assert!(!shows(&line, "alerts.token"), "the process list shows the token");
    assert_eq!(watch.stop(), Some(0));
    let journal = folder.path().join("shop.watch");
    for file in std::fs::read_dir(&journal).unwrap() {
        assert!(!shows(&std::fs::read(file.unwrap().path()).unwrap(), "alerts.token"), "the journal shows the token");
    }
    let page = breme().args(["watch", "report", "--format", "html"]).arg(&journal).output().unwrap();
    assert!(page.status.success() && !shows(&page.stdout, "alerts.token"), "the page shows the token");
}

/// Value and time of `breme_watch_up{target="shop"}` in a remote-write request.
fn up_sample(body: &[u8]) -> (f64, u64) {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let labels = [("__name__", "breme_watch_up"), ("instance", &host), ("job", "breme-watch"), ("target", "shop")];
    let is_up = |series: &Series| {
        series.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(labels.iter().copied())
    };
    let found = series(body).into_iter().find(is_up).unwrap();
    (found.value, found.wall_ms)
}

/// The receiver is unavailable at first; then it gets every interval once, in order.
#[test]
fn remote_write_sends_each_interval() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab("events");
    let (sender, bodies) = channel();
    let state = Mutex::new((0, sender));
    let receiver = serve_requests(move |head, body| {
        let lower = head.to_ascii_lowercase();
        for header in ["content-encoding: snappy", "content-type: application/x-protobuf"] {
            assert!(lower.contains(header), "{head}");
        }
        // alice:open sesame
        assert!(head.contains("Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n"), "{head}");
        assert!(!body.is_empty(), "{head}");
        let mut state = state.lock().unwrap();
        state.0 += 1;
        let status = if state.0 == 1 { 503 } else { 204 };
        if status == 204 {
            let _ = state.1.send(body.to_vec());
        }
        drop(state);
        format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
    });
    let password = secret(folder.path(), "Basic alice:open sesame\n");
    let more =
        format!("remote_write = 'http://{receiver}/api/v1/write'\nremote_write_auth_file = '{}'\n", password.display());
    let watch = Watch::start(&file(folder.path(), &one_target(&site, &more)), &[]);
    let samples: Vec<(f64, u64)> = (0..4).map(|_| up_sample(&bodies.recv_timeout(PATIENCE).unwrap())).collect();
    assert_eq!(watch.stop(), Some(0));
    let raw = std::fs::read_to_string(folder.path().join("shop.watch/raw-000000000001.log")).unwrap();
    let intervals = raw.lines().map(|line| serde_json::from_str::<Value>(line.splitn(3, ' ').nth(2).unwrap()).unwrap());
    let expected: Vec<(f64, u64)> = intervals.map(|interval| (1.0, number(&interval, "/w"))).take(4).collect();
    assert_eq!(samples, expected);
}

fn limited(limits: &str, path: &Path, more: &[&str]) -> Output {
    limited_command(limits, path, more).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn full_disk_loses_only_the_intervals_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab("events");
    let path = file(folder.path(), &one_target(&site, ""));
    let journal = folder.path().join("shop.watch");
    let watch = Watch::start(&path, &[]);
    // More than a block of 512 bytes, so that the limit below leaves no space.
    watch.until("four intervals", |report| number(report, "/intervals") >= 4);
    assert_eq!(watch.stop(), Some(0));
    let before = report(&journal).unwrap();
    let raw = || std::fs::read(journal.join("raw-000000000001.log")).unwrap();
    let bytes = raw();
    let output = limited("trap '' XFSZ; ulimit -f 1", &path, &["--for", "4s"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.contains("intervals are lost from now on: raw-000000000001.log: File too large"), "{message}");
    assert_eq!(message.matches("lost").count(), 1, "an outage of the disk is printed once: {message}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("objective met"), "{output:?}");
    assert!(raw() == bytes, "the journal has changed");
    let output = breme().arg("watch").arg(&path).args(["--for", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let after = report(&journal).unwrap();
    assert_eq!(number(&after, "/intervals"), number(&before, "/intervals") + 1);
    let output = limited("trap '' XFSZ; ulimit -f 0", &path, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("watch.json: cannot be written: File too large"), "{}", stderr(&output));
}

/// The limit of the running watch is below the size of its journal, and rises again.
#[test]
fn full_disk_stops_neither_alerts_nor_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab_at(reserved_address());
    let alerts = folder.path().join("alerts.jsonl");
    let more = format!("[alert]\ndown_after = 1\nfile = '{}'\n", alerts.display());
    let path = file(folder.path(), &one_target(&site, &more));
    let watch = Watch::start(&path, &[]);
    watch.until("four intervals", |report| number(report, "/intervals") >= 4);
    assert_eq!(watch.stop(), Some(0));
    let mut watch = Watch::start_limited("trap '' XFSZ", &path, &["--admin", "127.0.0.1:0"]);
    let line = watch.line();
    let admin = line.trim_end().strip_prefix("admin on http://").unwrap().parse().unwrap();
    let limit = getrlimit(Resource::Fsize);
    let set =
        |current| prlimit(Some(watch.pid()), Resource::Fsize, Rlimit { current, maximum: limit.maximum }).unwrap();
    set(Some(512));
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(POLL_PAUSE);
        }
    };
    let metrics = || String::from_utf8(get(admin, "/metrics").content).unwrap();
    until("not ready", &|| get(admin, "/ready").status == 503);
    drop(site);
    until("down", &|| metrics().contains("breme_watch_up{target=\"shop\"} 0\n"));
    assert!(!metrics().contains("breme_watch_intervals_lost_total 0\n"), "{}", metrics());
    until("an alert", &|| std::fs::read_to_string(&alerts).unwrap().contains("\"state\":\"down\""));
    set(limit.current);
    until("ready", &|| get(admin, "/ready").status == 200);
    assert_eq!(watch.stop(), Some(0));
}

/// The limit of a running watch falls below what it has open, and rises again. Not before a minute has ended: the
/// journal then has all its files open, and intervals are not lost for want of one.
#[test]
fn intervals_without_descriptors_are_unknown_and_not_down() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab("events");
    let watch = Watch::start(&file(folder.path(), &one_target(&site, "")), &[]);
    let intervals = |report: &Value, state: &str| number(report, &format!("/targets/0/intervals/{state}"));
    let minutes = folder.path().join("shop.watch/minute-000000000001.log");
    watch.until("up", |report| intervals(report, "up") >= 1 && minutes.exists());
    let limit = getrlimit(Resource::Nofile);
    let set =
        |current| prlimit(Some(watch.pid()), Resource::Nofile, Rlimit { current, maximum: limit.maximum }).unwrap();
    set(Some(4));
    watch.until("unknown", |report| intervals(report, "unknown") >= 2);
    set(limit.current);
    let before = intervals(&report(&folder.path().join("shop.watch")).unwrap(), "up");
    let report = watch.until("up again", |report| intervals(report, "up") > before);
    assert_eq!(intervals(&report, "down"), 0, "{report:#}");
    assert_eq!(watch.stop(), Some(0));
}

#[test]
fn too_few_descriptors_are_reported_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::lab("events");
    let path = file(
        folder.path(),
        &one_target(&site, "")
            .replace(PATIENT_LOAD, "load = { connections = 200, duration = '300ms', timeout = '600ms' }"),
    );
    let output = limited("ulimit -n 100", &path, &["--for", "1s"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("264 are needed, 100 are allowed"), "{}", stderr(&output));
    assert!(stderr(&output).contains("ulimit -n 264"), "{}", stderr(&output));
}
