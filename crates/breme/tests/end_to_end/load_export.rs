//! The metrics of a load while it runs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Stdio};

use serde_json::Value;

use crate::admin::{check_prometheus_text, metrics};
use crate::harness::{PATIENCE, Signal, Site, breme, get, load, send_signal, wait};

/// `breme load --until-stopped`, with the counts of short intervals.
struct RunningLoad {
    child: Child,
    stderr: BufReader<ChildStderr>,
    admin: SocketAddr,
}

impl RunningLoad {
    fn start(arguments: &[&str]) -> Self {
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

    /// Its metrics, once this one is above 0.
    fn metrics_with(&self, name: &str) -> BTreeMap<String, f64> {
        let begun = std::time::Instant::now();
        loop {
            let metrics = metrics(self.admin);
            if metrics.get(name).is_some_and(|&count| count > 0.0) {
                return metrics;
            }
            assert!(begun.elapsed() < PATIENCE, "{name}: {metrics:#?}");
        }
    }

    /// Its result, and what else it said.
    fn stop(mut self) -> (Value, String) {
        send_signal(&self.child, Signal::TERM);
        let (mut result, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut result).unwrap();
        self.stderr.read_to_string(&mut said).unwrap();
        assert!(wait(&mut self.child).code().is_some(), "{said}");
        (serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result}\n{said}")), said)
    }
}

#[test]
fn counts_of_a_running_load_are_told() {
    let site = Site::lab("auto");
    let load = RunningLoad::start(&["-c", "2", &site.url("/bytes/100")]);
    let ok = "breme_load_responses_total{status=\"2xx\",code=\"200\"}";
    load.metrics_with("breme_load_response_time_seconds_count");
    let metrics = load.metrics_with(ok);
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
fn errors_and_the_rate_of_an_open_loop_are_told() {
    let site = Site::lab("auto");
    let load = RunningLoad::start(&["-c", "2", "-R", "200", "--expect-status", "204", &site.url("/bytes/1")]);
    let metrics = load.metrics_with("breme_load_errors_total{kind=\"status\"}");
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
