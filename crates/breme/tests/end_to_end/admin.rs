//! The admin endpoints of a server.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use crate::harness::{DRIVERS, PATIENCE, Signal, Site, connect, get, pages, run, wait_until};

const ADMIN: [&str; 2] = ["--admin", "127.0.0.1:0"];

/// `/metrics`, requested with this Accept.
fn metrics_as(admin: SocketAddr, accept: &str) -> breme_conformance::Answer {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    let mut stream = connect(admin);
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let answer = breme_conformance::read_answers(&bytes, |_| false).unwrap().remove(0);
    assert_eq!((answer.status, answer.field("vary")), (200, Some("Accept")));
    answer
}

/// The samples of `/metrics` by name and labels, after checking the format (OpenMetrics 1.0).
pub(crate) fn metrics(admin: SocketAddr) -> BTreeMap<String, f64> {
    let answer = metrics_as(admin, "application/openmetrics-text");
    assert_eq!(answer.field("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let text = String::from_utf8(answer.content).unwrap();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let (mut types, mut units) = (BTreeMap::new(), BTreeMap::new());
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", family, kind] => assert_eq!(types.insert(family, kind), None, "{family} comes once"),
            ["#", "UNIT", family, unit] => assert_eq!(units.insert(family, unit), None, "{family} comes once"),
            ["#", "HELP", _, help] => assert!(help.ends_with('.') && !help.ends_with(".."), "{line}"),
            ["#", "EOF"] => {}
            _ => {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let sample = name.split('{').next().unwrap();
                let endings = ["_total", "_info", "_bucket", "_sum", "_count"];
                let family = endings.iter().find_map(|ending| sample.strip_suffix(ending)).unwrap_or(sample);
                let kind = types[family];
                assert_eq!(kind == "counter", sample.ends_with("_total"), "{line} is a {kind}");
                assert_eq!(samples.insert(name.to_owned(), value.parse().unwrap()), None, "{name} comes once");
            }
        }
    }
    assert!(units.iter().all(|(family, unit)| family.ends_with(&format!("_{unit}"))), "{units:?}");
    samples
}

/// The rules of the text format 0.0.4 that `promtool check metrics` checks: every family has its help and its type, in
/// this order, before its samples, which have its name; counters end in `_total`, and nothing else does.
pub(crate) fn check_prometheus_text(admin: SocketAddr) {
    let answer = get(admin, "/metrics");
    assert_eq!(answer.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = String::from_utf8(answer.content).unwrap();
    let (mut help, mut family, mut kind) = ("", "", "");
    let mut families = std::collections::BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, _] => help = name,
            ["#", "TYPE", name, is] => {
                assert!(name == help && families.insert(name), "{line} comes once, after its help");
                assert!(["counter", "gauge", "histogram"].contains(&is), "{line}");
                assert_eq!(is == "counter", name.ends_with("_total"), "{line}");
                (family, kind) = (name, is);
            }
            ["#", ..] => panic!("{line} is not of this format"),
            _ => {
                let sample = line.split(['{', ' ']).next().unwrap();
                let ending = sample.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
                let endings: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(endings.contains(&ending), "{line}");
            }
        }
    }
    assert!(families.contains("breme_build_info") && families.contains("process_cpu_seconds_total"), "{families:?}");
}

/// The same once no connection is open: a peer may see the end of its connection, and the bytes before it, before the
/// server has counted them.
fn metrics_at_rest(admin: SocketAddr) -> BTreeMap<String, f64> {
    let begun = Instant::now();
    loop {
        let metrics = metrics(admin);
        if metrics["breme_connections_open"] == 0.0 {
            return metrics;
        }
        assert!(begun.elapsed() < PATIENCE, "{metrics:?}");
    }
}

#[test]
fn served_responses_are_counted() {
    let (_folder, root) = pages(&[("page.html", &[b'x'; 1_000])]);
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&[&[root.to_str().unwrap(), "--visitors", "--driver", driver], &ADMIN[..]].concat());
        let admin = site.admin.unwrap();
        for _ in 0..3 {
            assert_eq!(site.get("/page.html").0, 200);
        }
        assert_eq!(site.get("/none").0, 404);
        site.exchange(b"GET /page.html HTTP/1.0\r\n\r\n");
        site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        let pipelined =
            b"GET /page.html HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        site.exchange(pipelined);

        check_prometheus_text(admin);
        let metrics = metrics_at_rest(admin);
        let expected = [
            ("breme_config_last_reload_successful", 1.0),
            ("breme_requests_total{status=\"2xx\",version=\"1.1\"}", 4.0),
            ("breme_requests_total{status=\"2xx\",version=\"1.0\"}", 1.0),
            ("breme_requests_total{status=\"4xx\",version=\"1.1\"}", 2.0),
            ("breme_requests_total{status=\"4xx\",version=\"unknown\"}", 1.0),
            ("breme_requests_pipelined_total", 1.0),
            ("breme_refusals_total{reason=\"several-hosts\"}", 1.0),
            ("breme_connections_accepted_total", 7.0),
            ("breme_connections_closed_total{reason=\"requested\"}", 7.0),
            ("breme_file_cache_misses_total", 2.0),
            ("breme_file_cache_hits_total", 5.0),
            ("breme_visits_total", 7.0),
            ("breme_tls_handshakes_total{outcome=\"full\"}", 0.0),
        ];
        for (name, count) in expected {
            assert_eq!(metrics.get(name), Some(&count), "{driver}: {name}\n{metrics:#?}");
        }
        let bytes = metrics["breme_sent_bytes_total"];
        assert!((5_000.0..10_000.0).contains(&bytes), "{driver}: {bytes}");
        let bytes = metrics["breme_received_bytes_total"];
        assert!((300.0..1_000.0).contains(&bytes), "{driver}: {bytes}");
    }
}

/// Regardless of their path: copied, shared, from a file, in pieces to a slow reader, or encrypted.
#[test]
fn every_byte_that_leaves_is_counted_once() {
    let (_folder, root) = pages(&[("small", &[1; 100]), ("middle", &[2; 50_000]), ("large", &[3; 3_000_000])]);
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&[&[root.to_str().unwrap(), "--driver", driver], &ADMIN[..]].concat());
        let mut received = 0;
        for path in ["/small", "/middle", "/large"] {
            let mut stream = site.connect();
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            received += stream.read_to_end(&mut Vec::new()).unwrap();
        }
        let counted = metrics_at_rest(site.admin.unwrap())["breme_sent_bytes_total"];
        assert_eq!(counted, received as f64, "{driver}");

        let arguments = [root.to_str().unwrap(), "--driver", driver, "--tls-self-signed"];
        let site = Site::start(&[&arguments[..], &ADMIN[..]].concat());
        let mut received = 0;
        for path in ["/small", "/middle", "/large"] {
            let form = "%{size_header} %{size_download}";
            let sizes = run("curl", &["-sk", "-o", "/dev/null", "-w", form, &site.url(path)]);
            received += sizes.split(' ').map(|size| size.parse::<usize>().unwrap()).sum::<usize>();
        }
        let counted = metrics_at_rest(site.admin.unwrap())["breme_sent_bytes_total"];
        assert_eq!(counted, received as f64, "{driver} with TLS");
    }
}

#[test]
fn the_metrics_of_the_process_have_the_usual_names() {
    let site = Site::start(&[&["--lab"], &ADMIN[..]].concat());
    let metrics = metrics(site.admin.unwrap());
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!((now - 600.0..=now).contains(&metrics["process_start_time_seconds"]));
    assert!(metrics["process_cpu_seconds_total"] > 0.0);
    assert!(metrics["process_resident_memory_bytes"] > 1e6);
    assert!((8.0..200.0).contains(&metrics["process_open_fds"]), "{}", metrics["process_open_fds"]);
    assert!(metrics["process_max_fds"] >= metrics["process_open_fds"]);
    let build = metrics.keys().find(|name| name.starts_with("breme_build_info{")).unwrap();
    assert!(build.contains("role=\"site\"") && build.contains(env!("CARGO_PKG_VERSION")), "{build}");
}

#[test]
fn ready_until_it_drains_and_healthy_until_it_ends() {
    let mut site = Site::start(&[&["--lab", "--drain-timeout", "60s"], &ADMIN[..]].concat());
    let admin = site.admin.unwrap();
    let status = |path| get(admin, path).status;
    assert_eq!([status("/health"), status("/ready"), status("/"), status("/elsewhere")], [200, 200, 200, 404]);
    // A request in progress keeps it from exiting. The response before it shows that its connection was accepted.
    let mut slow = site.connect();
    slow.write_all(b"GET /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    slow.read_exact(&mut [0]).unwrap();
    slow.write_all(b"GET /delay/3000000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    site.signal(Signal::TERM);
    wait_until("it drains and says that it is ready", || status("/ready") == 503);
    assert_eq!([status("/health"), status("/metrics")], [200, 200]);
    site.signal(Signal::TERM);
    assert!(!site.wait().0.success());
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let site = Site::start(&[&["--lab"], &ADMIN[..]].concat());
    let admin = site.admin.unwrap();
    let silent: Vec<_> = (0..200).map(|_| connect(admin)).collect();
    let mut half: Vec<_> = (0..100).map(|_| connect(admin)).collect();
    for stream in &mut half {
        // It may have been closed already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHo");
    }
    for _ in 0..3 {
        assert_eq!(get(admin, "/health").status, 200);
    }
    drop((silent, half));
}

#[test]
fn a_scraper_may_keep_its_connection_and_invalid_requests_are_rejected() {
    let site = Site::start(&[&["--lab"], &ADMIN[..]].concat());
    let mut stream = connect(site.admin.unwrap());
    let requests = b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\nPOST /ready HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /health HTTP/1.1\r\nHost: a\r\n\r\nPUT /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    stream.write_all(requests).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let statuses: Vec<&str> = answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")).collect();
    let (good, wrong) = ("HTTP/1.1 200 OK", "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(statuses, [good, wrong, good, wrong], "{answer}");
    assert!(answer.contains("Allow: GET, HEAD\r\n"), "{answer}");
    let mut broken = connect(site.admin.unwrap());
    broken.write_all(b"nonsense\r\n\r\n").unwrap();
    let mut answer = String::new();
    broken.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}
