//! The needs of operators: error responses that reveal nothing, logs that rotate, metrics for alerts, usual address
//! syntax.

use std::fs;
use std::process::Stdio;

use breme_testkit::reserved_address;

use crate::admin::{check_prometheus_text, metrics};
use crate::harness::{DRIVERS, Signal, Site, breme, get, wait_until};
use crate::proxy_admin::line_with;

/// Responses do not reveal addresses of upstreams.
#[test]
fn errors_name_no_upstream_and_have_pages() {
    let dead = reserved_address();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("5xx.html"), "<h1>Back soon</h1>").unwrap();
    let pages = folder.path().to_str().unwrap();
    for driver in DRIVERS.iter().copied() {
        let proxy = Site::proxy(dead, driver, &[]);
        let answer = get(proxy.address, "/");
        assert_eq!((answer.status, answer.field("proxy-status")), (502, Some("breme; error=connection_refused")));
        assert_eq!(answer.content, b"Proxy error: the upstream refused the connection.\n", "{driver}");

        let shown = get(Site::proxy(dead, driver, &["--show-upstreams"]).address, "/");
        let hop = format!("breme; error=connection_refused; next-hop=\"{dead}\"");
        assert_eq!(shown.field("proxy-status"), Some(hop.as_str()), "{driver}");
        assert!(shown.content.starts_with(dead.to_string().as_bytes()), "{driver}");

        let upstream = format!("--upstream=http://{dead}");
        let arguments =
            ["--driver", driver, "--threads", "8", &upstream, "--error-pages", pages, "--admin", "127.0.0.1:0"];
        let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
        let mut stderr = proxy.stderr();
        let answer = get(proxy.address, "/");
        assert_eq!((answer.status, answer.field("content-type")), (502, Some("text/html; charset=utf-8")), "{driver}");
        assert_eq!(answer.content, b"<h1>Back soon</h1>", "{driver}");

        // Another page at the next reload; an invalid one changes nothing, and is reported.
        fs::write(folder.path().join("502.txt"), "closed").unwrap();
        proxy.signal(Signal::HUP);
        wait_until("the old page stays", || get(proxy.address, "/").content == b"closed");
        let admin = proxy.admin.unwrap();
        wait_until("the reload is not reported", || metrics(admin)["breme_config_last_reload_successful"] == 1.0);
        fs::write(folder.path().join("50x.html"), "").unwrap();
        proxy.signal(Signal::HUP);
        line_with(&mut stderr, "50x.html: not the name of an error page");
        wait_until("the reload did not fail", || metrics(admin)["breme_config_last_reload_successful"] == 0.0);
        assert_eq!(get(proxy.address, "/").content, b"closed", "{driver}");
        let errors = metrics(admin)["breme_request_duration_seconds_count{outcome=\"error\"}"];
        assert!(errors >= 3.0, "{driver}: {errors}");
        check_prometheus_text(admin);
        fs::remove_file(folder.path().join("50x.html")).unwrap();
        fs::remove_file(folder.path().join("502.txt")).unwrap();
    }
}

/// As in nginx; without a handler, the signal would kill.
#[test]
fn sigusr1_reopens_the_log_and_kills_nothing() {
    let site = Site::start_with_stderr(&["--lab"], Stdio::inherit());
    site.signal(Signal::USR1);
    let folder = tempfile::tempdir().unwrap();
    for driver in DRIVERS.iter().copied() {
        let (log, old) = (folder.path().join(driver), folder.path().join(format!("{driver}.1")));
        let lines = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default().lines().count();
        let proxy = Site::proxy(site.address, driver, &["--access-log", log.to_str().unwrap()]);
        assert_eq!(proxy.get("/bytes/1").0, 200, "{driver}");
        wait_until("no line was written", || lines(&log) == 1);
        fs::rename(&log, &old).unwrap();
        proxy.signal(Signal::USR1);
        wait_until("the log was not reopened", || log.exists());
        assert_eq!(proxy.get("/bytes/1").0, 200, "{driver}");
        wait_until("no line was written to the new file", || lines(&log) == 1);
        assert_eq!(lines(&old), 1, "{driver}");
    }
    assert_eq!(site.get("/bytes/1").0, 200, "it is still there");
}

#[test]
fn the_expiry_of_a_certificate_is_a_metric() {
    let site = Site::start(&["--lab", "--tls-self-signed", "--admin", "127.0.0.1:0"]);
    let expiry = metrics(site.admin.unwrap())["breme_tls_certificate_expiry_timestamp_seconds{shown_to=\"clients\"}"];
    assert!(expiry > 4e9, "a self-signed one is good for very long: {expiry}");
}

#[test]
fn the_flag_of_an_address_that_is_in_use_is_named() {
    let site = Site::lab("events");
    let taken = site.address.to_string();
    for (flag, role) in [("--admin", "site"), ("--listen", "proxy")] {
        let other = if flag == "--admin" { ["--listen", "127.0.0.1:0"] } else { ["--admin", "127.0.0.1:0"] };
        let what = if role == "site" { "--lab" } else { "--forward" };
        let output = breme().args([role, what, flag, &taken]).args(other).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let expected = format!("breme {role}: {flag}: cannot listen on {taken}: ");
        assert!(message.lines().any(|line| line.starts_with(&expected)), "{message}");
    }
}

#[test]
fn a_port_alone_listens_at_every_address() {
    let site = Site::lab("events");
    let mut child =
        breme().args(["proxy", "--listen", ":0", "--upstream", &site.url("")]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let port: u16 = line.trim_end().strip_prefix("listening on http://0.0.0.0:").unwrap().parse().unwrap();
    assert_eq!(get(([127, 0, 0, 1], port).into(), "/bytes/1").status, 200);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A request that the proxy accepts must not be too large for a site behind it, with the fields that the proxy adds.
#[test]
fn a_request_that_the_proxy_accepts_is_accepted_by_the_site() {
    let site = Site::lab("events");
    let proxy = Site::proxy(site.address, "events", &["--cdn-loop", "edge.example.org"]);
    for count in [90, 99] {
        let fields: String = (0..count).map(|index| format!("X-{index}: {index}\r\n")).collect();
        let request =
            format!("GET /bytes/1 HTTP/1.1\r\nHost: a\r\n{fields}\r\n").replace("X-0: 0", "Connection: close");
        let answer = String::from_utf8(proxy.exchange(request.as_bytes())).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{count}: {answer}");
    }
    let long = format!("GET /bytes/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(16_200));
    let answer = String::from_utf8(proxy.exchange(long.as_bytes())).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[test]
fn help_has_two_lengths_and_a_command() {
    let text = |arguments: &[&str]| {
        let output = breme().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for command in ["proxy", "site"] {
        let [short, long] = ["-h", "--help"].map(|flag| text(&[command, flag]));
        assert!(short.lines().count() < long.lines().count() / 2, "{command}: {}", short.lines().count());
        assert!(short.contains("Examples:") && long.contains("--handshake-timeout"), "{command}: {short}");
        assert!(!short.contains("--handshake-timeout"), "{command}: {short}");
        assert_eq!(text(&["help", command]), long, "{command}");
    }
    assert!(text(&["help", "load"]).contains("breme load"));
    assert!(text(&["--help"]).contains("breme run experiment.toml"));
}
