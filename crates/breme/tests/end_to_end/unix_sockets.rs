//! Servers that listen on Unix sockets, and upstreams behind them; curl and nginx at the other end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use tempfile::TempDir;

use crate::harness::{DRIVERS, Nginx, PATIENCE, Signal, Site, answer_requests, breme, load_json, run, wait_until};

/// A folder for sockets, with the path of one.
fn socket(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}=unix:{}", path.display())
}

/// Also listens on a free port, as do all sites of the harness.
fn start(role: &str, driver: &str, path: &Path, more: &[&str]) -> Site {
    let threads = if driver == "threads" { "16" } else { "3" };
    let listen = flag("listen", path);
    let arguments = [&["--driver", driver, "--threads", threads, &listen][..], more].concat();
    let mut site = Site::start_role(role, &arguments, std::process::Stdio::inherit());
    assert_eq!(site.next_line(), format!("listening on unix:{}", path.display()));
    site
}

fn curl(path: &Path, arguments: &[&str]) -> String {
    let path = path.to_str().unwrap();
    run("curl", &[&["-sS", "--unix-socket", path][..], arguments].concat())
}

/// A server on a Unix socket that passes on the head of each request, and responds with 204.
fn recorder(path: &Path) -> Receiver<String> {
    let listener = UnixListener::bind(path).unwrap();
    let (heads, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heads = heads.clone();
            std::thread::spawn(move || {
                answer_requests(stream, |head, _| {
                    let _ = heads.send(head.to_owned()); // fails at the end of the test
                    "HTTP/1.1 204 No Content\r\n\r\n"
                })
            });
        }
    });
    received
}

#[test]
fn a_site_listens_on_a_unix_socket_until_it_ends() {
    for driver in DRIVERS.iter().copied() {
        let (_folder, path) = socket("site.sock");
        let mut site = start("site", driver, &path, &["--lab"]);
        assert_eq!(curl(&path, &["http://app.test/bytes/5"]), "01234", "{driver}");
        let size = ["-o", "/dev/null", "-w", "%{size_download}", "http://app.test/bytes/3000000"];
        assert_eq!(curl(&path, &size), "3000000", "{driver}");
        let text = path.to_str().unwrap();
        let load = ["-n", "400", "-c", "8", "--driver", driver, "--unix-socket", text, "http://app.test/bytes/13"];
        let result = load_json(&load);
        assert_eq!(result["statuses"], serde_json::json!({ "200": 400 }), "{driver}: {result:#}");
        assert_eq!(site.get("/bytes/3").1, b"012", "{driver}: TCP at the same time");
        site.signal(Signal::TERM);
        assert!(site.wait().0.success(), "{driver}");
        assert!(!path.exists(), "{driver}");
    }
}

#[test]
fn only_the_socket_of_a_killed_server_is_replaced() {
    let (folder, path) = socket("site.sock");
    let site = start("site", "events", &path, &["--lab"]);
    let refused = |path: &Path| {
        let output = breme().args(["site", "--lab", &flag("listen", path)]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let message = refused(&path);
    assert!(message.contains("another program listens there"), "{message}");
    assert_eq!(curl(&path, &["http://app.test/bytes/3"]), "012");
    drop(site);
    assert!(path.exists(), "a killed server leaves it");
    let _site = start("site", "events", &path, &["--lab"]);
    assert_eq!(curl(&path, &["http://app.test/bytes/3"]), "012");
    let message = refused(&folder.path().join("none/site.sock"));
    assert!(message.contains("its folder does not exist; create it"), "{message}");
}

#[test]
fn an_admin_server_listens_on_a_unix_socket() {
    let (_folder, path) = socket("admin.sock");
    let site = Site::start(&["--lab", &flag("admin", &path)]);
    assert_eq!(site.get("/bytes/3").0, 200);
    let metrics = curl(&path, &["http://admin/metrics"]);
    assert!(metrics.contains("breme_connections_accepted_total 1\n"), "{metrics}");
}

#[test]
fn applications_say_that_they_listen_on_tcp_only() {
    let folder = tempfile::tempdir().unwrap();
    let output = breme().args(["wiki", "--listen", "unix:wiki.sock"]).current_dir(folder.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("breme proxy --listen unix:wiki.sock"), "{message}");
}

#[test]
fn nginx_and_a_proxy_are_before_and_behind_each_other() {
    for driver in DRIVERS.iter().copied() {
        let (folder, edge) = socket("edge.sock");
        let app = folder.path().join("nginx.sock");
        let behind = Nginx::start_with("", &format!("listen unix:{};", app.display()));
        let upstream = flag("upstream", &app);
        let more = [&*upstream, "--trusted", "unix:", "--access-log", "-"];
        let mut proxy = start("proxy", driver, &edge, &more);
        let pass = format!("proxy_pass http://unix:{}:/fixed;", edge.display());
        let client = "proxy_set_header X-Forwarded-For $remote_addr;";
        let before = Nginx::start_with("", &format!("location = /via {{ {pass} {client} }}"));
        assert_eq!(run("curl", &["-sS", &format!("http://{}/via", before.address)]), "Hello, world!", "{driver}");
        let line = proxy.next_line();
        assert!(line.starts_with("127.0.0.1 - - [") && line.contains("\" 200 13 "), "{driver}: {line}");
        assert!(line.contains(&format!(" unix:{} ", app.display())), "{driver}: {line}");
        assert_eq!(curl(&edge, &["http://app.test/fixed"]), "Hello, world!", "{driver}");
        let line = proxy.next_line();
        assert!(line.starts_with("unix: - - [") && line.contains("\" 200 13 "), "{driver}: {line}");
        drop(behind);
        let status = ["-o", "/dev/null", "-w", "%{http_code}", "http://app.test/fixed"];
        wait_until("nginx still serves", || curl(&edge, &status) == "502");
    }
}

#[test]
fn a_client_without_an_address_is_unknown_to_upstreams() {
    for driver in DRIVERS.iter().copied() {
        let (folder, edge) = socket("edge.sock");
        let app = folder.path().join("app.sock");
        let heads = recorder(&app);
        let _proxy = start("proxy", driver, &edge, &[&flag("upstream", &app)]);
        curl(&edge, &["-H", "X-Forwarded-For: 192.0.2.1", "http://app.test/a"]);
        let head = heads.recv_timeout(PATIENCE).unwrap();
        for line in ["Host: app.test", "Forwarded: for=unknown;proto=http;host=app.test", "X-Forwarded-For: unknown"] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{driver}: {line} in {head}");
        }
    }
}

#[test]
fn a_unix_socket_has_the_host_localhost() {
    let (folder, edge) = socket("edge.sock");
    let app = folder.path().join("app.sock");
    let heads = recorder(&app);
    let upstream = flag("upstream", &app);
    let more = [&*upstream, "--host", "upstream", "--health-path", "/health"];
    let _proxy = start("proxy", "events", &edge, &more);
    let check = heads.recv_timeout(PATIENCE).unwrap();
    assert!(check.starts_with("GET /health HTTP/1.1\r\n") && check.contains("\r\nHost: localhost\r\n"), "{check}");
    curl(&edge, &["http://app.test/a"]);
    let head = std::iter::from_fn(|| heads.recv_timeout(PATIENCE).ok()).find(|head| !head.starts_with("GET /health "));
    assert!(head.as_ref().is_some_and(|head| head.contains("\r\nHost: localhost\r\n")), "{head:?}");
}

#[test]
fn an_upstream_whose_socket_does_not_exist_yet_is_used_when_it_does() {
    for driver in DRIVERS.iter().copied() {
        let (folder, edge) = socket("edge.sock");
        let app = folder.path().join("app.sock");
        let proxy = start("proxy", driver, &edge, &[&flag("upstream", &app), "--eject-after", "0"]);
        let (status, text) = proxy.get("/bytes/3");
        assert_eq!(status, 502, "{driver}");
        assert!(String::from_utf8_lossy(&text).contains("refused the connection"), "{driver}");
        let _site = start("site", driver, &app, &["--lab"]);
        assert_eq!(proxy.get("/bytes/3"), (200, b"012".to_vec()), "{driver}");
    }
}

#[test]
fn a_proxy_before_itself_is_refused() {
    let (_folder, edge) = socket("edge.sock");
    let output = breme().args(["proxy", &flag("listen", &edge), &flag("upstream", &edge)]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("is this proxy itself"), "{message}");
}

#[test]
fn what_a_server_prints_can_be_given_to_others() {
    let (_folder, path) = socket("site.sock");
    let mut site = Site::start(&["--lab", &flag("listen", &path)]);
    let line = site.next_line();
    let upstream = line.strip_prefix("listening on ").unwrap();
    let proxy = Site::start_role("proxy", &["--upstream", upstream], std::process::Stdio::inherit());
    assert_eq!(proxy.get("/bytes/3").1, b"012");
    let mut reader = BufReader::new(std::os::unix::net::UnixStream::connect(&path).unwrap());
    reader.get_mut().write_all(b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(reader.lines().map_while(Result::ok).last().as_deref(), Some("012"));
}
