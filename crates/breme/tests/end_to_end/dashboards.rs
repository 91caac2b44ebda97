//! A real Prometheus: scrapes a load, a site and a proxy, receives remote write, and evaluates the queries of the
//! dashboards for Grafana.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use breme_testkit::reserved_address;
use serde_json::Value;

use crate::harness::{Site, get, load_json, pages, wait_until};
use crate::load_export::RunningLoad;

/// Scrapes the targets every second; ended with the value.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(targets: &[SocketAddr]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
        let configuration = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
             scrape_configs: [{{ job_name: breme, static_configs: [{{ targets: [{}] }}] }}]\n",
            targets.join(", ")
        );
        let path = folder.path().join("prometheus.yml");
        std::fs::write(&path, configuration).unwrap();
        let address = reserved_address();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--web.enable-remote-write-receiver")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus (Debian package prometheus): {error}"));
        let prometheus = Self { child, address, _folder: folder };
        wait_until("Prometheus is not ready", || {
            std::net::TcpStream::connect(address).is_ok() && get(address, "/-/ready").status == 200
        });
        prometheus
    }

    /// The elements of a query's result.
    fn query(&self, expression: &str) -> Vec<Value> {
        let query: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = get(self.address, &format!("/api/v1/query?query={query}"));
        let answer: Value = serde_json::from_slice(&answer.content).unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// The value of a query with one element.
    fn value(&self, expression: &str) -> Option<f64> {
        match &self.query(expression)[..] {
            [] => None,
            [one] => one["value"][1].as_str().unwrap().parse().ok(),
            several => panic!("{expression}: {several:?}"),
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dashboard(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grafana").join(name);
    serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The queries of a dashboard's panels.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The names of metrics in the queries of a dashboard, those of its variables included.
fn metric_names(dashboard: &Value) -> BTreeSet<String> {
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let of_variables = variables.iter().filter_map(|variable| variable["query"]["query"].as_str().map(str::to_owned));
    let all: Vec<String> = queries(dashboard).into_iter().chain(of_variables).collect();
    let words =
        all.iter().flat_map(|query| query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'));
    words.filter(|word| word.starts_with("breme_") || word.starts_with("process_")).map(str::to_owned).collect()
}

/// The names of the samples that `/metrics` may have.
fn exported(admin: SocketAddr) -> BTreeSet<String> {
    let text = String::from_utf8(get(admin, "/metrics").content).unwrap();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let names = families.flat_map(|(name, kind)| {
        let endings: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        endings.iter().map(move |ending| format!("{name}{ending}"))
    });
    names.collect()
}

fn check_layout(name: &str, dashboard: &Value) {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{name}: {value}"));
    assert!(dashboard["uid"].is_string() && dashboard["title"].is_string() && dashboard["id"].is_null(), "{name}");
    assert!(number(&dashboard["schemaVersion"]) >= 39, "{name}");
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(number(&panel["id"])), "{name}: {panel}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| number(&panel["gridPos"][side]));
        assert!(x + w <= 24, "{name}: {panel}");
        assert!((0..w * h).all(|cell| cells.insert((x + cell % w, y + cell / w))), "{name} overlaps: {panel}");
        let targets = panel["targets"].as_array().map_or(0, Vec::len);
        assert_eq!(targets == 0, panel["type"] == "row", "{name}: {panel}");
        assert!(panel["type"] == "row" || panel["datasource"]["uid"] == "${datasource}", "{name}: {panel}");
    }
}

#[test]
fn prometheus_has_what_the_dashboards_show() {
    let (_folder, root) = pages(&[("page.html", &[b'x'; 1_000])]);
    let site = Site::start(&[root.to_str().unwrap(), "--admin", "127.0.0.1:0"]);
    let proxy = Site::proxy(site.address, "auto", &["--cache-memory", "16MiB", "--admin", "127.0.0.1:0"]);
    let closed = RunningLoad::start(&["-c", "2", "--think", "10ms", &proxy.url("/page.html")]);
    let open = RunningLoad::start(&["-R", "100", "-c", "2", &site.url("/page.html")]);
    let admins = [site.admin.unwrap(), proxy.admin.unwrap(), closed.admin, open.admin];

    let of_loads: BTreeSet<String> = exported(closed.admin).union(&exported(open.admin)).cloned().collect();
    let boards = [("load.json", of_loads), ("site.json", exported(admins[0])), ("proxy.json", exported(admins[1]))];
    for (name, exported) in &boards {
        let dashboard = dashboard(name);
        check_layout(name, &dashboard);
        let missing: Vec<String> = metric_names(&dashboard).difference(exported).cloned().collect();
        assert!(missing.is_empty(), "{name} shows metrics that do not exist: {missing:?}");
    }

    let prometheus = Prometheus::start(&admins);
    for load in [&closed, &open] {
        let rate = format!("rate(breme_load_requests_total{{instance=\"{}\"}}[1m])", load.admin);
        wait_until("Prometheus has no rate", || prometheus.value(&rate).is_some_and(|rate| rate > 0.0));
    }
    let instance = format!("{{instance=\"{}\"}}", open.admin);
    // None after a scrape that timed out.
    let offered = || prometheus.value(&format!("breme_load_offered_rate{instance}"));
    wait_until("Prometheus has no offered rate", || offered().is_some_and(|rate| rate == 100.0));
    let times = format!("histogram_quantile(0.5, rate(breme_load_response_time_seconds_bucket{instance}[1m]))");
    wait_until("Prometheus has no quantile", || prometheus.value(&times).is_some_and(|time| time > 0.0));
    for (name, _) in &boards {
        for query in queries(&dashboard(name)) {
            let filled = query.replace("$__rate_interval", "1m").replace("$instance", ".*");
            // Some charts omit what has not occurred.
            let may_be_empty = query.ends_with(" > 0");
            wait_until(&format!("{name}: {query} shows nothing"), || {
                !prometheus.query(&filled).is_empty() || may_be_empty
            });
        }
    }

    let write = format!("--remote-write=http://{}/api/v1/write", prometheus.address);
    let result = load_json(&["-n", "500", &write, &site.url("/page.html")]);
    let sent = prometheus.value("breme_load_requests_total{job=\"breme-load\"}");
    assert_eq!(sent, result["requests"]["sent"].as_f64());
}
