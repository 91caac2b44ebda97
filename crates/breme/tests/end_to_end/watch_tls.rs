//! `breme watch` over TLS: the expiry of certificates, and files that are read again.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::date_time_ymd;
use serde_json::Value;

use crate::harness::{PATIENCE, Signal, Site, breme, get, serve_requests, wait_until};
use crate::remote_write::{Series, parts, series};
use crate::tls::{Authority, Signed};
use crate::watch::{Watch, file, number};

/// Unix time in this many days and an hour, in seconds.
fn in_days(days: u64) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + days * 86_400 + 3_600
}

/// Replaces the server's certificate.
fn sign(authority: &Authority, expires_at: u64) -> Signed {
    authority.sign("server", |params| params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(expires_at))
}

/// State and cause of each alert in a file.
fn alerts(path: &Path) -> Vec<(String, Value)> {
    let lines = std::fs::read_to_string(path).unwrap();
    let alerts = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    alerts.map(|alert| (alert["state"].as_str().unwrap().to_owned(), alert["cause"].clone())).collect()
}

fn export(journal: &Path, format: &str) -> String {
    let output = breme().args(["watch", "report", "--format", format]).arg(journal).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn metrics(address: std::net::SocketAddr) -> String {
    String::from_utf8(get(address, "/metrics").content).unwrap()
}

/// The alert is raised once, although the watch is restarted; the renewal is seen although the server would resume
/// sessions; a certificate that has expired is the cause of an outage.
#[test]
fn expiry_and_renewal_of_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (near, far) = (in_days(10), in_days(90));
    let signed = sign(&authority, near);
    let (certificate, key) = signed.files();
    let site = Site::start(&["--lab", "--tls-cert", certificate, "--tls-key", key, "--admin", "127.0.0.1:0"]);
    let (alerts_file, journal) = (folder.path().join("alerts.jsonl"), folder.path().join("shop.watch"));
    let text = format!(
        "interval = '2s'\n[alert]\ndown_after = 1\nburn_rate = 1000000\nfile = '{}'\n[objective]\nwithin = '1500ms'\n\
         [[target]]\nname = 'shop'\nurl = '{}'\nload = {{ timeout = '1500ms', cacert = '{}' }}\n",
        alerts_file.display(),
        site.url("/"),
        authority.file()
    );
    let path = file(folder.path(), &text);
    let expiring = ("certificate-expiring".to_owned(), Value::Null);
    let certificate = "/targets/0/certificate";
    for round in 1..=2 {
        let mut watch = Watch::start(&path, &["--admin", "127.0.0.1:0"]);
        let admin = watch.line().trim_end().strip_prefix("admin on http://").unwrap().parse().unwrap();
        let sample = format!("breme_watch_certificate_expiry_timestamp_seconds{{target=\"shop\"}} {near}\n");
        wait_until("no metric", || metrics(admin).contains(&sample));
        let report = watch.until("two intervals", |report| number(report, "/targets/0/intervals/up") >= 2 * round);
        assert_eq!(report.pointer(certificate).unwrap()["expires_soon"], true, "{report:#}");
        assert_eq!(number(&report, &format!("{certificate}/expires_unix_s")), near);
        assert_eq!(number(&report, &format!("{certificate}/days_left")), 10);
        assert_eq!(watch.stop(), Some(0));
        assert_eq!(alerts(&alerts_file), std::slice::from_ref(&expiring));
    }
    assert!(export(&journal, "text").contains("Renew the certificate: it expires in 10 d"));

    let watch = Watch::start(&path, &[]);
    sign(&authority, far);
    site.signal(Signal::HUP);
    watch.until("renewed", |report| report.pointer(certificate).unwrap()["expires_soon"] == false);
    let renewed = ("certificate-renewed".to_owned(), Value::Null);
    wait_until("no alert of the renewal", || alerts(&alerts_file) == [expiring.clone(), renewed.clone()]);
    let csv = export(&journal, "csv");
    assert!(csv.lines().last().unwrap().ends_with(&format!(",{far}")), "{csv}");
    assert!(metrics(site.admin.unwrap()).contains("breme_tls_handshakes_total{outcome=\"resumed\"} 0\n"));

    sign(&authority, 1_000_000_000);
    site.signal(Signal::HUP);
    let report = watch.until("down", |report| report["targets"][0]["down_now"] == true);
    assert_eq!(number(&report, &format!("{certificate}/expires_unix_s")), far, "of the latest complete handshake");
    let down = ("down".to_owned(), Value::from("certificate expired"));
    wait_until("no alert of the outage", || alerts(&alerts_file).last() == Some(&down));
    assert_eq!(watch.stop(), Some(0));
}

#[test]
fn collectors_get_the_expiry_of_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let near = in_days(10);
    let signed = sign(&authority, near);
    let (certificate, key) = signed.files();
    let site = Site::start(&["--lab", "--tls-cert", certificate, "--tls-key", key]);
    let [(remote_write, samples), (otlp, points)] = [(); 2].map(|()| {
        let (sender, bodies) = channel();
        let sender = Mutex::new(sender);
        let receiver = serve_requests(move |_, body| {
            let _ = sender.lock().unwrap().send(body.to_vec());
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        });
        (receiver, bodies)
    });
    let text = format!(
        "interval = '2s'\nremote_write = 'http://{remote_write}/write'\notlp = 'http://{otlp}/v1/metrics'\n\
         [[target]]\nname = 'shop'\nurl = '{}'\nload = {{ timeout = '1500ms', cacert = '{}' }}\n",
        site.url("/"),
        authority.file()
    );
    let watch = Watch::start(&file(folder.path(), &text), &[]);
    let name = "breme_watch_certificate_expiry_timestamp_seconds";
    let sample = wait_for(&samples, |message| {
        let has = |series: &Series, label: (&str, &str)| {
            series.labels.iter().any(|(name, value)| (&**name, &**value) == label)
        };
        series(message).into_iter().find(|series| has(series, ("__name__", name)) && has(series, ("target", "shop")))
    });
    assert_eq!(sample.value, near as f64);
    let metric = wait_for(&points, |message| {
        let metrics = parts(&parts(&parts(message, 1)[0], 2)[0], 2);
        metrics.into_iter().find(|metric| parts(metric, 1)[0] == name.as_bytes())
    });
    assert_eq!(parts(&metric, 3), [b"s"], "the unit");
    let point = &parts(&parts(&metric, 5)[0], 1)[0];
    assert_eq!(parts(point, 4), [(near as f64).to_le_bytes()]);
    let attribute = &parts(point, 7)[0];
    let value = &parts(attribute, 2)[0];
    assert_eq!((parts(attribute, 1), parts(value, 1)), (vec![b"target".to_vec()], vec![b"shop".to_vec()]));
    assert_eq!(watch.stop(), Some(0));
}

/// The first message in which something is found.
fn wait_for<T>(messages: &Receiver<Vec<u8>>, find: impl Fn(&[u8]) -> Option<T>) -> T {
    loop {
        let message = messages.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no message has it"));
        if let Some(found) = find(&message) {
            return found;
        }
    }
}

/// The text of the targets is the same.
#[test]
fn sighup_reads_certificates_and_passwords_again() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let site = authority.server().site("events");
    let protected = serve_requests(|head, _| {
        // alice:open sesame
        let is_known = head.contains("Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n");
        let status = if is_known { "200 OK" } else { "401 Unauthorized" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    let (trusted, password) = (folder.path().join("trusted.pem"), folder.path().join("password"));
    std::fs::copy(other.file(), &trusted).unwrap();
    std::fs::write(&password, "alice:closed").unwrap();
    let text = format!(
        "interval = '2s'\n\
         [[target]]\nname = 'tls'\nurl = '{}'\nload = {{ timeout = '1500ms', cacert = '{}' }}\n\
         [[target]]\nname = 'basic'\nurl = 'http://{protected}/'\nload = {{ timeout = '1500ms', user = '@{}' }}\n",
        site.url("/"),
        trusted.display(),
        password.display()
    );
    let watch = Watch::start(&file(folder.path(), &text), &[]);
    let both = |report: &Value, is_down: bool| {
        let targets = report["targets"].as_array().unwrap();
        targets.len() == 2 && targets.iter().all(|target| target["down_now"] == is_down)
    };
    watch.until("down", |report| both(report, true));
    std::fs::copy(authority.file(), &trusted).unwrap();
    std::fs::write(&password, "alice:open sesame").unwrap();
    watch.signal(Signal::HUP);
    let report = watch.until("up", |report| both(report, false));
    let causes = [0, 1].map(|target| report["targets"][target]["outages"][0]["cause"].clone());
    assert_eq!(causes, ["certificate not trusted", "status 401"], "{report:#}");
    assert_eq!(watch.stop(), Some(0));
}
