//! The metrics of a running load: at its admin address, and sent by remote write and OTLP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use breme_testkit::reserved_address;
use serde_json::Value;

use crate::admin::{check_prometheus_text, metrics};
use crate::harness::{PATIENCE, Signal, Site, breme, get, load, send_signal, serve_each, serve_requests, wait};
use crate::remote_write::{Series, parts, series};

/// `breme load --until-stopped`, with the counts of short intervals.
pub(crate) struct RunningLoad {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) admin: SocketAddr,
}

impl RunningLoad {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = breme()
            .args(["load", "--json", "--until-stopped", "--interval", "10ms", "--admin", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("admin on http://").unwrap_or_else(|| panic!("said {line:?}"));
        Self { admin: address.parse().unwrap(), child, stderr }
    }

    /// Its metrics, once this one has reached a value.
    fn metrics_with(&self, name: &str, least: f64) -> BTreeMap<String, f64> {
        let begun = std::time::Instant::now();
        loop {
            let metrics = metrics(self.admin);
            if metrics.get(name).is_some_and(|&count| count >= least) {
                return metrics;
            }
            assert!(begun.elapsed() < PATIENCE, "{name}: {metrics:#?}");
        }
    }

    /// Its result, and its other output.
    fn stop(&mut self) -> (Value, String) {
        send_signal(&self.child, Signal::TERM);
        let (mut result, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut result).unwrap();
        self.stderr.read_to_string(&mut said).unwrap();
        assert!(wait(&mut self.child).code().is_some(), "{said}");
        (serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result}\n{said}")), said)
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn counts_of_a_running_load_are_exported() {
    let site = Site::lab("auto");
    let mut load = RunningLoad::start(&["-c", "2", &site.url("/bytes/100")]);
    let ok = "breme_load_responses_total{status=\"2xx\",code=\"200\"}";
    // Counts are published in turn: those of the second connection may follow later.
    load.metrics_with("breme_load_response_time_seconds_count", 1.0);
    load.metrics_with("breme_load_connections_opened_total", 2.0);
    let metrics = load.metrics_with(ok, 1.0);
    check_prometheus_text(load.admin);
    assert_eq!([get(load.admin, "/health").status, get(load.admin, "/ready").status], [200, 200]);
    assert!(metrics["breme_load_requests_total"] >= metrics[ok], "{metrics:#?}");
    assert!(metrics["breme_load_received_bytes_total"] >= 100.0 * metrics[ok], "{metrics:#?}");
    assert!(metrics["breme_load_sent_bytes_total"] > 0.0, "{metrics:#?}");
    let times = "breme_load_response_time_seconds";
    assert_eq!(metrics[&format!("{times}_bucket{{le=\"+Inf\"}}")], metrics[&format!("{times}_count")]);
    for (name, value) in [
        ("breme_load_users", 2.0),
        ("breme_load_connections_open", 2.0),
        ("breme_load_connections_opened_total", 2.0),
        ("breme_load_errors_total{kind=\"timeout\"}", 0.0),
    ] {
        assert_eq!(metrics.get(name), Some(&value), "{name}: {metrics:#?}");
    }
    assert!(metrics.keys().any(|name| name.starts_with("breme_build_info{role=\"load\"")), "{metrics:#?}");
    let (result, said) = load.stop();
    assert!(result["requests"]["answered"].as_f64().unwrap() >= metrics[ok], "{result:#}");
    assert_eq!(said, "");
}

#[test]
fn errors_and_the_rate_of_an_open_loop_are_exported() {
    let site = Site::lab("auto");
    let mut load = RunningLoad::start(&["-c", "2", "-R", "200", "--expect-status", "204", &site.url("/bytes/1")]);
    let metrics = load.metrics_with("breme_load_errors_total{kind=\"status\"}", 1.0);
    assert_eq!(metrics.get("breme_load_offered_rate"), Some(&200.0), "{metrics:#?}");
    assert!(!metrics.contains_key("breme_load_users"), "{metrics:#?}");
    load.stop();
}

#[test]
fn an_address_in_use_costs_no_measurement() {
    let site = Site::lab("auto");
    let output = load(&["-n", "1", "--admin", &site.address.to_string(), &site.url("/bytes/1")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("breme load: --admin: ") && said.contains(&site.address.to_string()), "{said}");
    assert_eq!(site.counter(), 0);
}

/// A receiver of remote write, which responds with these statuses in turn, the last one repeatedly.
fn receiver(statuses: &'static [u16]) -> (SocketAddr, Receiver<Vec<u8>>) {
    receiver_at("/api/v1/write", statuses)
}

fn receiver_at(path: &'static str, statuses: &'static [u16]) -> (SocketAddr, Receiver<Vec<u8>>) {
    let (sender, bodies) = channel();
    let state = Mutex::new((0, sender));
    let address = serve_requests(move |head, body| {
        assert!(head.starts_with(&format!("POST {path} ")) && head.contains("Bearer 123\r\n"), "{head}");
        assert!(!body.is_empty(), "{head}");
        let mut state = state.lock().unwrap();
        let status = statuses[state.0.min(statuses.len() - 1)];
        state.0 += 1;
        if status == 204 {
            let _ = state.1.send(body.to_vec());
        }
        drop(state);
        format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
    });
    (address, bodies)
}

/// The flags that send to it, with a file of credentials in the folder.
fn sending_to(receiver: SocketAddr, folder: &Path) -> [String; 2] {
    let auth = folder.join("auth");
    std::fs::write(&auth, "Bearer 123\n").unwrap();
    let url = format!("--remote-write=http://{receiver}/api/v1/write");
    [url, format!("--remote-write-auth-file={}", auth.display())]
}

fn load_sending(flags: &[String; 2], arguments: &[&str]) -> Output {
    breme().args(["load", "--json"]).args(flags).args(arguments).output().unwrap()
}

/// The receiver is unavailable at first; the last message has the values of the result.
#[test]
fn the_last_sample_is_that_of_the_whole_run() {
    let (site, folder) = (Site::lab("auto"), tempfile::tempdir().unwrap());
    let (address, bodies) = receiver(&[503, 204]);
    let output = load_sending(&sending_to(address, folder.path()), &["-c", "3", "-n", "1000", &site.url("/bytes/100")]);
    // Beside a busy machine there may be a note about the generator.
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("remote write"), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bodies: Vec<Vec<u8>> = bodies.try_iter().collect();
    let times: Vec<u64> = bodies.iter().map(|body| series(body)[0].wall_ms).collect();
    assert!(times.len() >= 2 && times.is_sorted_by(|one, next| one < next), "{times:?}");
    let last = series(bodies.last().unwrap());
    let value = |name: &str, more: &[(&str, &str)]| {
        let is_it = |series: &&Series| {
            let has =
                |name: &str, value: &str| series.labels.iter().any(|label| (&*label.0, &*label.1) == (name, value));
            has("__name__", name) && has("job", "breme-load") && more.iter().all(|(name, value)| has(name, value))
        };
        last.iter().find(is_it).unwrap_or_else(|| panic!("{name}")).value
    };
    let number = |pointer: &str| result.pointer(pointer).unwrap().as_f64().unwrap();
    assert_eq!(value("breme_load_requests_total", &[]), number("/requests/sent"));
    assert_eq!(value("breme_load_responses_total", &[("code", "200")]), 1_000.0);
    assert_eq!(value("breme_load_received_bytes_total", &[]), number("/bytes/received"));
    assert_eq!(value("breme_load_connections_opened_total", &[]), number("/connections/opened"));
    assert_eq!(value("breme_load_response_time_seconds_bucket", &[("le", "+Inf")]), 1_000.0);
    let mean_ns = value("breme_load_response_time_seconds_sum", &[]) / 1_000.0 * 1e9;
    assert!((mean_ns - number("/response_time/mean_ns")).abs() < 1.0, "{mean_ns}: {result:#}");
}

#[test]
fn otlp_has_the_values_of_the_result() {
    let (site, folder) = (Site::lab("auto"), tempfile::tempdir().unwrap());
    let (address, bodies) = receiver_at("/v1/metrics", &[503, 204]);
    let auth = folder.path().join("auth");
    std::fs::write(&auth, "Bearer 123\n").unwrap();
    let flags = [format!("--otlp=http://{address}/v1/metrics"), format!("--otlp-auth-file={}", auth.display())];
    let output = load_sending(&flags, &["-c", "3", "-n", "1000", &site.url("/bytes/100")]);
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("OTLP"), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let last = bodies.try_iter().last().unwrap();
    let scope = &parts(&parts(&last, 1)[0], 2)[0];
    let metric = |name: &str| {
        let metrics = parts(scope, 2);
        metrics.into_iter().find(|metric| parts(metric, 1)[0] == name.as_bytes()).unwrap_or_else(|| panic!("{name}"))
    };
    let sum = |name: &str| {
        let point = &parts(&parts(&metric(name), 7)[0], 1)[0];
        f64::from_bits(u64::from_le_bytes(parts(point, 4)[0][..].try_into().unwrap()))
    };
    let number = |pointer: &str| result.pointer(pointer).unwrap().as_f64().unwrap();
    assert_eq!(sum("breme_load_requests"), number("/requests/sent"));
    assert_eq!(sum("breme_load_received_bytes"), number("/bytes/received"));
    let histogram = &parts(&parts(&metric("breme_load_response_time_seconds"), 9)[0], 1)[0];
    assert_eq!(parts(histogram, 4)[0], 1_000_u64.to_le_bytes());
    let counts: Vec<u64> =
        parts(histogram, 6)[0].chunks(8).map(|count| u64::from_le_bytes(count.try_into().unwrap())).collect();
    assert_eq!((counts.len() * 8, counts.iter().sum()), (parts(histogram, 7)[0].len() + 8, 1_000));
}

#[test]
fn a_receiver_that_is_away_or_rejects_changes_no_result() {
    let (site, folder) = (Site::lab("auto"), tempfile::tempdir().unwrap());
    let (rejecting, _bodies) = receiver(&[400]);
    for (address, why) in [(reserved_address(), "refused"), (rejecting, "status 400")] {
        let output = load_sending(&sending_to(address, folder.path()), &["-n", "100", &site.url("/bytes/1")]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["requests"]["answered"], 100);
        assert!(said.starts_with("breme load: remote write: ") && said.contains(" samples not delivered: "), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
}

/// The receiver responds when the test has the whole result.
#[test]
fn a_result_does_not_wait_for_the_receiver() {
    let (site, folder) = (Site::lab("auto"), tempfile::tempdir().unwrap());
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let address = serve_each(move |stream: TcpStream| {
        let _ = released.lock().unwrap().recv(); // an error once it is released
        drop(stream);
    });
    let mut child = breme()
        .args(["load", "--json", "-n", "100"])
        .args(sending_to(address, folder.path()))
        .arg(site.url("/bytes/1"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let result = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>().next().unwrap().unwrap();
    assert_eq!(result["requests"]["answered"], 100);
    drop(release);
    assert!(wait(&mut child).success());
}

#[test]
fn flags_of_remote_write_are_checked_before_the_run() {
    let (site, folder) = (Site::lab("auto"), tempfile::tempdir().unwrap());
    let [_, auth] = sending_to(site.address, folder.path());
    std::fs::write(folder.path().join("auth"), "secret").unwrap();
    for (flags, code, message) in [
        (vec!["--remote-write=http://a:secret@b/"], 2, "--remote-write-auth-file"),
        (
            vec!["--remote-write=localhost:9090"],
            2,
            "--remote-write localhost:9090: the scheme is missing; write http://",
        ),
        (vec!["--remote-write=http://b/", &auth], 1, "it must hold one line: `Bearer TOKEN`"),
        (vec![&auth], 2, "--remote-write <URL>"),
        (vec!["--otlp=http://a:secret@b/"], 2, "--otlp-auth-file"),
    ] {
        let output = load(&[&flags[..], &["-n", "1", &site.url("/")]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(message) && !said.contains("secret"), "{flags:?}: {said}");
    }
    assert_eq!(site.counter(), 0);
}
