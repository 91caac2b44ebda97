//! `breme proxy` in front of `breme site`, on the command line.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Instant;

use breme_conformance::{Answer, read_answers};

use crate::admin::metrics;
use crate::harness::{DRIVERS, PATIENCE, POLL_PAUSE, Signal, Site, breme, get, run, wait_until};
use crate::tls::Authority;

/// Starts `breme proxy` on a free port.
pub(crate) fn start_proxy(arguments: &[&str]) -> Site {
    Site::start_role("proxy", arguments, Stdio::inherit())
}

/// A proxy in front of a server.
pub(crate) fn before(upstream: &Site, arguments: &[&str]) -> Site {
    start_proxy(&[&["--upstream", &upstream.url("")], arguments].concat())
}

fn exchange(server: &Site, request: &str) -> Answer {
    read_answers(&server.exchange(request.as_bytes()), |_| false).unwrap().remove(0)
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The lines of a log, once there are this many.
fn lines_when(path: &Path, count: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let lines = lines(path);
        if lines.len() >= count {
            return lines;
        }
        assert!(begun.elapsed() < PATIENCE, "{count} lines are expected: {lines:#?}");
        std::thread::sleep(POLL_PAUSE);
    }
}

#[test]
fn it_relays_counts_and_writes_lines() {
    let folder = tempfile::tempdir().unwrap();
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab("events");
        let log = folder.path().join(driver);
        let arguments = ["--driver", driver, "--admin", "127.0.0.1:0", "--access-log", log.to_str().unwrap()];
        let proxy = before(&site, &arguments);
        let content =
            run("curl", &["-sS", "--fail", "-A", "a \"b\"", "-e", "http://r.example/", &proxy.url("/bytes/13")]);
        assert_eq!(content.len(), 13);
        assert_eq!(run("curl", &["-sS", "--fail", "-d", "0123456789", &proxy.url("/any")]), "0123456789");
        let missing = exchange(&proxy, "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(missing.status, 404);
        assert_eq!(missing.field("via"), Some("1.1 breme"));

        let lines = lines_when(&log, 3);
        let (name, expected) =
            (site.address, "\"GET /bytes/13 HTTP/1.1\" 200 13 \"http://r.example/\" \"a \\x22b\\x22\" \"-\" ");
        assert!(
            lines[0].starts_with("127.0.0.1 - - [") && lines[0].contains(&format!("{expected}{name} ")),
            "{}",
            lines[0]
        );
        assert!(lines[0].ends_with(" complete"), "{}", lines[0]);
        assert!(lines[1].contains("\"POST /any HTTP/1.1\" 200 10 ") && lines[2].contains(" 404 "), "{lines:#?}");

        // A line can be read before it is counted.
        let written = "breme_access_log_lines_total{outcome=\"written\"}";
        wait_until("a line is not counted", || metrics(proxy.admin.unwrap())[written] >= 3.0);
        let metrics = metrics(proxy.admin.unwrap());
        for (name, count) in [
            ("breme_requests_total{status=\"2xx\",code=\"200\"}", 2.0),
            ("breme_requests_total{status=\"4xx\",code=\"404\"}", 1.0),
            ("breme_requests_received_total{method=\"GET\"}", 2.0),
            ("breme_requests_received_total{method=\"POST\"}", 1.0),
            ("breme_requests_received_total{method=\"other\"}", 0.0),
            ("breme_request_duration_seconds_count{outcome=\"relayed\"}", 3.0),
            ("breme_request_duration_seconds_count{outcome=\"error\"}", 0.0),
            ("breme_config_last_reload_successful", 1.0),
            ("breme_upstream_response_seconds_count", 3.0),
            ("breme_upstream_response_seconds_bucket{le=\"+Inf\"}", 3.0),
            (written, 3.0),
            ("breme_access_log_lines_total{outcome=\"dropped\"}", 0.0),
        ] {
            assert_eq!(metrics.get(name), Some(&count), "{driver}: {name}\n{metrics:#?}");
        }
        let connections = metrics["breme_upstream_connects_total"] + metrics["breme_upstream_reuses_total"];
        assert_eq!(connections, 3.0, "{driver}: {metrics:#?}");
        assert!(metrics.keys().any(|key| key.starts_with("breme_build_info{") && key.contains("role=\"proxy\"")));
    }
}

#[test]
fn lines_of_json_on_standard_output() {
    let site = Site::lab("events");
    let mut proxy = before(&site, &["--access-log", "-", "--log-format", "json"]);
    assert_eq!(proxy.get("/status/418?x=%22").0, 418);
    let line: serde_json::Value = serde_json::from_str(&proxy.next_line()).unwrap();
    for (key, expected) in [
        ("client", "127.0.0.1".into()),
        ("method", "GET".into()),
        ("target", "/status/418?x=%22".into()),
        ("authority", "test".into()),
        ("scheme", "http".into()),
        ("status", 418.into()),
        ("upstream", site.address.to_string().into()),
        ("retries", 0.into()),
        ("cache", serde_json::Value::Null),
        ("ending", "complete".into()),
        ("error", serde_json::Value::Null),
    ] {
        assert_eq!(line[key], expected, "{key}: {line:#}");
    }
    let time = line["time"].as_str().unwrap();
    let (second, millis) = time.split_once('.').unwrap();
    assert!(second.len() == "2026-11-21T22:44:23".len() && millis.len() == "123Z".len(), "{time}");
    assert!(line["duration_s"].as_f64().unwrap() >= line["upstream_s"].as_f64().unwrap(), "{line:#}");
}

#[test]
fn sigterm_finishes_what_was_begun_and_the_log_has_it() {
    let folder = tempfile::tempdir().unwrap();
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab("events");
        let log = folder.path().join(driver);
        let mut proxy = before(&site, &["--driver", driver, "--access-log", log.to_str().unwrap()]);
        let mut busy = proxy.connect();
        let before = site.counter();
        busy.write_all(b"GET /delay/300 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        // The site counts sent responses; a pending one shows only in the connections. So repeat until the slow one is
        // in progress.
        for _ in 0..20 {
            assert_eq!(proxy.get("/bytes/1").0, 200);
        }
        assert!(site.counter() >= before + 20);
        proxy.signal(Signal::TERM);
        let mut answer = String::new();
        busy.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{driver}: {answer:?}");
        drop(busy);
        let (status, _) = proxy.wait();
        assert_eq!(status.code(), Some(0), "{driver}");
        let lines = lines(&log);
        assert_eq!(lines.len(), 21, "{driver}: {lines:#?}");
        assert!(lines.iter().any(|line| line.contains("/delay/300") && line.ends_with(" complete")), "{lines:#?}");
    }
}

#[test]
fn sighup_begins_a_new_log() {
    let folder = tempfile::tempdir().unwrap();
    let (log, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let site = Site::lab("events");
    let proxy = before(&site, &["--access-log", log.to_str().unwrap()]);
    assert_eq!(proxy.get("/bytes/1").0, 200);
    lines_when(&log, 1);
    fs::rename(&log, &old).unwrap();
    proxy.signal(Signal::HUP);
    wait_until("the log was not opened anew", || log.exists());
    assert_eq!(proxy.get("/bytes/2").0, 200);
    assert!(lines_when(&log, 1)[0].contains("/bytes/2"));
    assert_eq!(lines(&old).len(), 1);
}

#[test]
fn tls_on_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    for driver in DRIVERS.iter().copied() {
        let signed = authority.server();
        let files = signed.files();
        let site = Site::start(&["--lab", "--tls-cert", files.0, "--tls-key", files.1]);
        let (upstream, ca) = (format!("https://localhost:{}", site.address.port()), authority.file());
        let tls = ["--driver", driver, "--upstream", &upstream, "--tls-cert", files.0, "--tls-key", files.1];
        let with_ca = [&tls[..], &["--upstream-ca", &ca]].concat();
        let mut proxy = Site::start_role("proxy", &with_ca, Stdio::piped());
        let curl = |proxy: &Site| run("curl", &["-sS", "--cacert", &ca, "-w", " %{http_code}", &proxy.url("/bytes/3")]);
        assert_eq!(curl(&proxy), "012 200", "{driver}");
        let strict = start_proxy(&tls);
        let answer = curl(&strict);
        assert!(
            answer.ends_with(" 502") && answer.contains("the issuer of the certificate is not trusted"),
            "{driver}: an unknown authority is not believed: {answer}"
        );

        let replaced = other.server();
        fs::copy(replaced.files().0, files.0).unwrap();
        fs::copy(replaced.files().1, files.1).unwrap();
        let mut said = String::new();
        proxy.signal(Signal::HUP);
        proxy.stderr().read_line(&mut said).unwrap();
        assert!(said.contains("reloaded the certificate"), "{driver}: {said}");
        let other_ca = other.file();
        let answer = run("curl", &["-sS", "--cacert", &other_ca, "-w", " %{http_code}", &proxy.url("/bytes/3")]);
        assert_eq!(answer, "012 200", "{driver}: the new one is shown, and upstream is believed as before");
    }
}

fn proxy_says(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = breme().arg("proxy").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn an_unusable_configuration_is_reported_before_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let upstream = ["--upstream", "http://127.0.0.1:9"];
    let with = |more: &[&'static str]| [&upstream[..], more].concat();
    let checked = |more| [&upstream[..], more, &["--check-config"]].concat();
    for (arguments, code, words) in [
        (vec![], 2, vec!["--upstream http://HOST:PORT", "--forward"]),
        (vec!["--upstream", "127.0.0.1"], 2, vec!["127.0.0.1", "the scheme is missing"]),
        (with(&["--forward"]), 2, vec!["--forward", "--upstream"]),
        (with(&["--allow-private"]), 2, vec!["--allow-private", "--forward"]),
        (with(&["--trusted", "10.0.0.0/99"]), 2, vec!["--trusted: ", "10.0.0.0/8"]),
        (with(&["--host", "a b"]), 2, vec!["--host: ", "a b"]),
        (with(&["--via-name", "a b"]), 2, vec!["--via-name: ", "a b"]),
        (with(&["--access-log", "/nowhere/log"]), 1, vec!["--access-log /nowhere/log", "standard output"]),
        (with(&["--admin-token-file", "x"]), 2, vec!["--admin-token-file", "--admin ADDR"]),
        (with(&["--upstream-ca", "/nowhere"]), 2, vec!["--upstream-ca /nowhere", "read"]),
        (with(&["--tls-cert", "/nowhere"]), 2, vec!["--tls-cert /nowhere", "read"]),
        (with(&["--config", "/nowhere"]), 2, vec!["--config /nowhere", "read"]),
        ([&upstream[..], &["--listen", &taken]].concat(), 1, vec![&taken, "in use"]),
        // Errors that a check finds too.
        (checked(&["--cpus", "4095"]), 1, vec!["4095"]),
        (checked(&["--listen", "127.0.0.1:8", "--listen", "localhost:8"]), 2, vec!["127.0.0.1:8", "twice"]),
        (checked(&["--max-connections", "1000000000"]), 1, vec!["descriptors"]),
        (checked(&["--listen", "127.0.0.1:9"]), 2, vec!["127.0.0.1:9", "this proxy itself"]),
        (checked(&["--admin", "nowhere"]), 2, vec!["--admin nowhere"]),
        (checked(&["--listen", &taken]), 0, vec![]), // it may be the one that this one is to follow
    ] {
        let (found, _, stderr) = proxy_says(&arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {stderr}");
        for word in words {
            assert!(stderr.contains(word), "{arguments:?} does not mention {word:?}:\n{stderr}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn a_file_says_what_flags_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.toml");
    let site = Site::lab("events");
    let text = format!("upstream = \"{}\"\naccess-log = \"log\"\nvia-name = \"edge\"\nmax-body = 5\n", site.url(""));
    fs::write(&path, text).unwrap();
    let config = ["--config", path.to_str().unwrap()];
    assert_eq!(proxy_says(&[&config[..], &["--check-config"]].concat()).0, Some(0));
    assert!(!folder.path().join("log").exists(), "a check writes nothing");
    let (_, printed, _) = proxy_says(&[&config[..], &["--print-config", "--via-name", "other"]].concat());
    assert!(printed.contains("\nvia-name = \"other\"\n") && printed.contains("\nmax-body = 5\n"), "{printed}");

    let proxy = start_proxy(&config);
    let answer = exchange(&proxy, "GET /bytes/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((answer.status, answer.field("via")), (200, Some("1.1 edge")));
    let long = exchange(&proxy, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nConnection: close\r\n\r\n123456");
    assert_eq!(long.status, 413);
    lines_when(&folder.path().join("log"), 1);

    fs::write(&path, "upstraem = 5\nthreads = \"many\"").unwrap();
    let (code, _, stderr) = proxy_says(&config);
    assert_eq!(code, Some(2));
    for words in ["line 1, column 1: ", "did you mean `upstream`?", "line 2, column 11: \"many\" is not a count"] {
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn a_reader_of_the_log_that_goes_away_ends_nothing() {
    let site = Site::lab("events");
    let mut child = breme()
        .args(["proxy", "--listen", "127.0.0.1:0", "--upstream", &site.url(""), "--access-log", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on http://").unwrap().parse().unwrap();
    drop(output);
    assert_eq!(get(address, "/bytes/1").status, 200);
    let mut warning = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut warning).unwrap();
    assert!(warning.contains("--access-log standard output: ") && warning.contains("lines are lost"), "{warning}");
    assert_eq!(get(address, "/bytes/1").status, 200);
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn the_examples_work() {
    let site = Site::lab("events");
    for name in ["edge", "balancer", "forward"] {
        let path = format!("{}/../../examples/proxies/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let config = ["--config", &path];
        let (code, said, stderr) = proxy_says(&[&config[..], &["--check-config"]].concat());
        assert_eq!((code, said.contains("the configuration is valid")), (Some(0), true), "{name}: {said}{stderr}");

        // Flags take precedence over the file.
        let upstream = format!("--upstream={}", site.url(""));
        let here: &[&str] = if name == "forward" { &[] } else { &[&upstream, "--admin", "127.0.0.1:0"] };
        let proxy = Site::start_role("proxy", &[&config[..], here].concat(), Stdio::null());
        let (target, expected) = if name == "forward" { (site.url("/bytes/3"), 403) } else { ("/bytes/3".into(), 200) };
        assert_eq!(proxy.get(&target).0, expected, "{name}");
    }
}
