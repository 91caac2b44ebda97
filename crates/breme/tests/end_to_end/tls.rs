//! TLS with the real binary: against curl, openssl and nginx, and against peers that violate the protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::Value;

use crate::harness::{DRIVERS, Nginx, Signal, Site, breme, load, load_json, replace_by_pipe, run, send_signal};

/// A CA, and the files of its certificates.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
pub(crate) struct Signed {
    certificate: PathBuf,
    key: PathBuf,
}

impl Signed {
    pub(crate) fn files(&self) -> (&str, &str) {
        (text(&self.certificate), text(&self.key))
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "an authority of the tests");
        std::fs::write(folder.path().join("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn file(&self) -> String {
        self.folder.path().join("authority.pem").display().to_string()
    }

    pub(crate) fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        change(&mut params);
        let signed = Signed {
            certificate: self.folder.path().join(format!("{name}.pem")),
            key: self.folder.path().join(format!("{name}.key")),
        };
        std::fs::write(&signed.certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        std::fs::write(&signed.key, key.serialize_pem()).unwrap();
        signed
    }

    pub(crate) fn server(&self) -> Signed {
        self.sign("server", |_| {})
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Signed {
    pub(crate) fn site(&self, driver: &str) -> Site {
        let threads = if driver == "threads" { "16" } else { "2" };
        let mut arguments = vec!["--lab", "--driver", driver, "--threads", threads];
        arguments.extend(["--tls-cert", text(&self.certificate), "--tls-key", text(&self.key)]);
        Site::start(&arguments)
    }
}

fn answered(result: &Value) -> u64 {
    assert_eq!(result["errors"], serde_json::json!({}), "{result:#}");
    result["requests"]["answered"].as_u64().unwrap()
}

/// The output of curl.
fn curl(authority: &Authority, arguments: &[&str]) -> String {
    run("curl", &[&["-sS", "--fail", "--cacert", &authority.file()], arguments].concat())
}

/// A load that cannot succeed, and its message.
fn fails(arguments: &[&str], kind: &str, words: &[&str]) {
    let output = load(&[&["-n", "3", "-c", "1"], arguments].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
    for word in [&[kind], words].concat() {
        assert!(stderr.contains(word), "{arguments:?} does not mention {word:?}: {stderr}");
    }
}

#[test]
fn curl_is_served_with_both_versions() {
    let authority = Authority::new();
    let signed = authority.server();
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 253) as u8).collect();
    std::fs::write(authority.folder.path().join("large.bin"), &content).unwrap();
    for driver in DRIVERS.iter().copied() {
        let site = signed.site(driver);
        let (bytes, echo) = (site.url("/bytes/13"), site.url("/echo"));
        for version in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]] {
            let arguments = [&version[..], &["-w", " %{http_version} %{ssl_verify_result}", &bytes]].concat();
            assert_eq!(curl(&authority, &arguments), "0123456789abc 1.1 0", "{driver} {version:?}");
            let upload = format!("@{}", authority.folder.path().join("large.bin").display());
            let back = authority.folder.path().join("back.bin");
            let arguments = [&version[..], &["--data-binary", &upload, "-o", text(&back), &echo]].concat();
            curl(&authority, &arguments);
            assert!(std::fs::read(&back).unwrap() == content, "{driver} {version:?}");
        }
        let served = format!("https://localhost:{}/bytes/3", site.address.port());
        assert_eq!(curl(&authority, &[&served]), "012", "by name too");
    }
}

#[test]
fn files_of_all_sizes_come_whole() {
    let authority = Authority::new();
    let signed = authority.server();
    let root = authority.folder.path().join("pages");
    std::fs::create_dir(&root).unwrap();
    let sizes = [0, 1, 16_384, 16_385, 70_000, 5_000_001];
    for size in sizes {
        let content: Vec<u8> = (0..size).map(|at| (at % 241) as u8).collect();
        std::fs::write(root.join(size.to_string()), content).unwrap();
    }
    for driver in DRIVERS.iter().copied() {
        let mut arguments = vec![text(&root), "--driver", driver, "--threads", "4"];
        arguments.extend(["--tls-cert", text(&signed.certificate), "--tls-key", text(&signed.key)]);
        let site = Site::start(&arguments);
        for size in sizes {
            let got = authority.folder.path().join("got");
            curl(&authority, &["-o", text(&got), &site.url(&format!("/{size}"))]);
            assert!(
                std::fs::read(&got).unwrap() == std::fs::read(root.join(size.to_string())).unwrap(),
                "{driver} {size}"
            );
        }
    }
}

#[test]
fn every_answer_over_tls_is_counted_once() {
    let authority = Authority::new();
    let signed = authority.server();
    let file = authority.file();
    for driver in DRIVERS.iter().copied() {
        for arguments in [
            &["-n", "2000", "-c", "7"][..],
            &["-n", "2003", "-c", "7", "-p", "16"],
            &["-n", "200", "-c", "5", "--no-keepalive"],
            &["-n", "200", "-c", "5", "--no-keepalive", "--no-tls-resumption"],
            &["-n", "200", "-c", "5", "--http", "1.0", "--tls", "1.2"],
            &["-d", "1", "-c", "8"],
        ] {
            let site = signed.site(driver);
            let url = site.url("/bytes/100");
            let result = load_json(&[arguments, &["--cacert", &file, &url]].concat());
            let count = answered(&result);
            if arguments[0] == "-n" {
                assert_eq!(count.to_string(), arguments[1], "{arguments:?}");
            }
            let served: u64 = curl(&authority, &[&site.url("/counter")]).trim().parse().unwrap();
            assert_eq!(served, count, "{arguments:?} on {driver}");
            let opened = result["connections"]["opened"].as_u64().unwrap();
            assert_eq!(result["handshake_time"]["count"].as_u64(), Some(opened), "{arguments:?}");
            assert!(result["handshake_time"]["min_ns"].as_u64() > Some(10_000), "{result:#}");
            let version = if arguments.contains(&"1.2") { "1.2" } else { "1.3" };
            assert_eq!(result["tls"]["version"], version);
            let resumed = result["connections"]["resumed"].as_u64().unwrap();
            if arguments.contains(&"--no-tls-resumption") {
                assert_eq!(resumed, 0, "{arguments:?}");
            } else if opened > 8 {
                assert!(resumed > opened / 2, "{arguments:?}: {resumed} of {opened} resumed");
            }
        }
    }
}

#[test]
fn the_server_counts_handshakes_and_says_so_at_its_end() {
    let authority = Authority::new();
    let signed = authority.server();
    let (certificate, key) = (text(&signed.certificate), text(&signed.key));
    let arguments = ["--lab", "--threads", "1", "--tls-cert", certificate, "--tls-key", key];
    let mut site = Site::start_with_stderr(&arguments, Stdio::piped());
    let url = site.url("/bytes/1");
    let result = load_json(&["-n", "50", "-c", "1", "--no-keepalive", "--cacert", &authority.file(), &url]);
    assert_eq!((answered(&result), result["connections"]["resumed"].as_u64()), (50, Some(49)));
    // openssl creates a session, and resumes it on five connections.
    let session = format!("{}", site.address);
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &session, "-reconnect", "-tls1_2", "-CAfile", &authority.file()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("Reused, TLSv1.2").count(), 5);
    site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut stderr = site.stderr();
    site.signal(Signal::TERM);
    assert_eq!(site.wait().0.code(), Some(0));
    let mut all = String::new();
    stderr.read_to_string(&mut all).unwrap();
    assert!(all.contains("56 TLS handshakes, 54 of them resumed; 1 failed"), "{all}");
}

#[test]
fn http_on_a_port_of_tls_gets_a_sentence_and_garbage_an_alert() {
    let authority = Authority::new();
    let signed = authority.server();
    for driver in DRIVERS.iter().copied() {
        let site = signed.site(driver);
        let clear = format!("http://{}/bytes/1", site.address);
        let answer = run("curl", &["-sS", "-w", " %{http_code}", &clear]);
        assert!(answer.contains("https://") && answer.ends_with(" 400"), "{driver}: {answer}");
        assert_eq!(site.exchange(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01x")[0], 21, "{driver}: no hello");
        // A record longer than allowed: the connection ends, with or without an alert.
        let endless = b"\x16\x03\x01\x40\x00garbage that is no hello\r\n\r\n".repeat(3_000);
        assert!(matches!(site.exchange(&endless)[..], [] | [21, ..]), "{driver}");
        assert_eq!(site.exchange(&[0; 100])[0], 21, "{driver}");
        assert_eq!(curl(&authority, &[&site.url("/bytes/1")]), "0");
    }
}

#[test]
fn wrong_certificates_stop_a_load_with_the_reason_and_the_remedy() {
    let authority = Authority::new();
    let other = Authority::new();
    let file = authority.file();
    let site = authority.server().site("events");
    let url = site.url("/bytes/1");
    fails(&[&url], "3 tls-unknown-authority", &["--cacert"]);
    fails(&["--cacert", &other.file(), &url], "3 tls-unknown-authority", &["--insecure"]);
    let by_other_name = format!("https://127.0.0.2:{}/", site.address.port());
    let everywhere = Site::start(&[
        "--lab",
        "--listen",
        &format!("127.0.0.2:{}", site.address.port()),
        "--tls-cert",
        text(&authority.folder.path().join("server.pem")),
        "--tls-key",
        text(&authority.folder.path().join("server.key")),
    ]);
    fails(&["--cacert", &file, &by_other_name], "3 tls-wrong-host", &["host"]);
    drop(everywhere);
    let stale = authority.sign("stale", |params| params.not_after = date_time_ymd(2001, 1, 1)).site("events");
    fails(&["--cacert", &file, &stale.url("/")], "3 tls-expired", &["clock"]);
    for wrong in [&site, &stale] {
        assert_eq!(answered(&load_json(&["-n", "20", "-k", &wrong.url("/bytes/1")])), 20);
    }
    let clear = Site::lab("events");
    fails(&["-k", &format!("https://{}/", clear.address)], "3 not-tls", &["http://"]);
    let output = load(&["-n", "3", "-k", &format!("http://{}/", site.address)]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("400: 3"), "{stdout}");
}

#[test]
fn a_self_signed_site_prints_its_fingerprint() {
    let mut site = Site::start_with_stderr(&["--lab", "--tls-self-signed"], Stdio::piped());
    let mut line = String::new();
    site.stderr().read_line(&mut line).unwrap();
    let url = site.url("/bytes/9");
    assert_eq!(answered(&load_json(&["-n", "30", "-k", "--expect-bytes", "9", &url])), 30);
    fails(&[&url], "tls-unknown-authority", &[]);
    let text = load(&["-n", "30", "-k", &url]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains(" handshake\n") && text.contains("TLS        1.3 with AES_128_GCM_SHA256"), "{text}");
    let shown = Command::new("sh")
        .args([
            "-c",
            &format!(
                "openssl s_client -connect {} </dev/null 2>&1 | openssl x509 -noout -fingerprint -sha256",
                site.address
            ),
        ])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
    let fingerprint = shown.split('=').nth(1).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains(fingerprint), "{line} {shown}");
}

#[test]
fn a_hang_up_signal_exchanges_the_certificate_and_harms_no_connection() {
    let authority = Authority::new();
    let other = Authority::new();
    let signed = authority.server();
    for driver in DRIVERS.iter().copied() {
        std::fs::write(&signed.certificate, std::fs::read(authority.server().certificate).unwrap()).unwrap();
        let (certificate, key) = (text(&signed.certificate), text(&signed.key));
        let arguments = ["--lab", "--driver", driver, "--threads", "16", "--tls-cert", certificate, "--tls-key", key];
        let mut site = Site::start_with_stderr(&arguments, Stdio::piped());
        let mut stderr = site.stderr();
        let mut generator = breme()
            .args(["load", "--json", "-c", "4", "-d", "120", "--cacert", &authority.file(), &site.url("/bytes/10")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let counter = || -> u64 { run("curl", &["-sSk", &site.url("/counter")]).trim().parse().unwrap() };
        while counter() < 200 {}
        let mut hear = |words: &str| {
            site.signal(Signal::HUP);
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            assert!(line.contains(words), "{driver}: {line}");
        };
        let good = std::fs::read(&signed.key).unwrap();
        std::fs::write(&signed.key, "no key").unwrap();
        hear("keeping the old certificate");
        replace_by_pipe(&signed.key);
        hear("is not a regular file, and cannot be read again; keeping the old certificate");
        std::fs::remove_file(&signed.key).unwrap();
        std::fs::write(&signed.key, good).unwrap();
        hear("reloaded the certificate");
        let replaced = other.server();
        std::fs::copy(&replaced.certificate, &signed.certificate).unwrap();
        std::fs::copy(&replaced.key, &signed.key).unwrap();
        hear("reloaded the certificate");
        assert_eq!(curl(&other, &[&site.url("/bytes/2")]), "01");
        fails(&["--cacert", &authority.file(), &site.url("/")], "tls-unknown-authority", &[]);
        let before = counter();
        while counter() < before + 200 {} // the load goes on
        send_signal(&generator, Signal::INT);
        let mut text = String::new();
        generator.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        generator.wait().unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        assert!(answered(&result) > 200, "{result:#}");
        assert_eq!(result["connections"]["opened"], 4, "no connection was lost");
    }
}

#[test]
fn nginx_is_loaded_over_tls() {
    let authority = Authority::new();
    let signed = authority.server();
    let file = authority.file();
    let own = format!("ssl_certificate {}; ssl_certificate_key {};", text(&signed.certificate), text(&signed.key));
    for version in ["TLSv1.2", "TLSv1.3"] {
        let nginx = Nginx::start_with("ssl", &format!("{own} ssl_protocols {version};"));
        let url = format!("https://localhost:{}/fixed", nginx.address.port());
        let with = ["-n", "1000", "-c", "10", "--expect-contains", "Hello", "--cacert", &file];
        let result = load_json(&[&with[..], &[&url]].concat());
        assert_eq!((answered(&result), &result["tls"]["version"]), (1_000, &Value::from(&version[4..])));
        let result = load_json(&[&with[..], &["-p", "8", &url]].concat());
        assert_eq!(answered(&result), 1_000);
        let result = load_json(&[&with[..], &["-n", "100", "--no-keepalive", &url]].concat().split_off(2));
        assert_eq!(answered(&result), 100);
        let other = if version == "TLSv1.2" { "1.3" } else { "1.2" };
        fails(&["--tls", other, "--cacert", &file, &url], "3 tls-", &["TLS"]);
    }
}

#[test]
fn a_server_that_requests_a_certificate_gets_one() {
    let authority = Authority::new();
    let (signed, client) = (authority.server(), authority.sign("client", |_| {}));
    let file = authority.file();
    let own = format!("ssl_certificate {}; ssl_certificate_key {};", text(&signed.certificate), text(&signed.key));
    let nginx = Nginx::start_with("ssl", &format!("{own} ssl_verify_client on; ssl_client_certificate {file};"));
    let url = format!("https://localhost:{}/fixed", nginx.address.port());
    let shown = ["--cert", text(&client.certificate), "--key", text(&client.key)];
    let result = load_json(&[&["-n", "50", "--cacert", &file, "--expect-status", "200"], &shown[..], &[&url]].concat());
    assert_eq!(answered(&result), 50);
    // nginx completes the handshake and responds with 400.
    let output = load(&["-n", "5", "-c", "1", "--cacert", &file, &url]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("400: 5"));
}

/// A TLS server by rustls alone: sends one response and then ends the connection as requested.
pub(crate) fn one_answer(signed: &Signed, answer: &'static [u8], is_clean: bool) -> SocketAddr {
    use rustls::pki_types::pem::PemObject;
    let chain = vec![rustls::pki_types::CertificateDer::from_pem_file(&signed.certificate).unwrap()];
    let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&signed.key).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = std::sync::Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream.unwrap());
            let mut reader = BufReader::new(&mut stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                line.clear();
            }
            let _ = stream.write_all(answer);
            if is_clean {
                stream.conn.send_close_notify();
            }
            let _ = stream.flush();
            let _ = stream.sock.shutdown(Shutdown::Write);
            let _ = stream.sock.read_to_end(&mut Vec::new());
        }
    });
    address
}

#[test]
fn an_answer_that_ends_with_the_connection_must_end_cleanly() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end";
    let authority = Authority::new();
    let signed = authority.server();
    let file = authority.file();
    let clean = one_answer(&signed, ANSWER, true);
    let with = ["-n", "20", "-c", "2", "--cacert", &file];
    let result = load_json(&[&with[..], &["--expect-bytes", "13", &format!("https://{clean}/")]].concat());
    assert_eq!(answered(&result), 20);
    let cut = one_answer(&signed, ANSWER, false);
    let output = load(&[&with[..], &["--json", &format!("https://{cut}/")]].concat());
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["errors"], serde_json::json!({"closed-early": 20}), "{result:#}");
}

#[test]
fn an_answer_of_known_length_needs_no_clean_end() {
    let authority = Authority::new();
    let signed = authority.server();
    let address = one_answer(&signed, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", false);
    let result = load_json(&["-n", "20", "-c", "2", "--cacert", &authority.file(), &format!("https://{address}/")]);
    assert_eq!(answered(&result), 20);
}

#[test]
fn wrk_and_ab_see_no_error_over_tls() {
    let authority = Authority::new();
    let signed = authority.server();
    for driver in DRIVERS.iter().copied() {
        let site = signed.site(driver);
        let output = run("wrk", &["-t1", "-c10", "-d1", "--timeout", "60s", &site.url("/bytes/13")]);
        assert!(!output.contains("Socket errors") && !output.contains("Non-2xx"), "{output}");
        let output = run("ab", &["-q", "-k", "-n", "500", "-c", "5", &site.url("/bytes/100")]);
        assert!(
            output.contains("Complete requests:      500") && output.contains("Failed requests:        0"),
            "{output}"
        );
    }
}

#[test]
fn wrong_files_are_named() {
    let authority = Authority::new();
    let (one, two) = (authority.server(), authority.sign("two", |_| {}));
    let encrypted = authority.folder.path().join("encrypted.key");
    run("openssl", &["pkey", "-in", text(&one.key), "-aes256", "-passout", "pass:secret", "-out", text(&encrypted)]);
    let garbage = authority.folder.path().join("garbage");
    std::fs::write(&garbage, [0xff; 1_000]).unwrap();
    for (certificate, key, words) in [
        (Path::new("/no/such/file"), &one.key, &["--tls-cert /no/such/file", "cannot be read"][..]),
        (&one.certificate, &PathBuf::from("/no/such/key"), &["--tls-key /no/such/key", "cannot be read"]),
        (&garbage, &one.key, &["garbage", "no certificate", "PEM"]),
        (&one.certificate, &garbage, &["garbage", "no private key"]),
        (&one.certificate, &two.key, &["two.key", "not the key of the certificate"]),
        (&one.certificate, &encrypted, &["encrypted.key", "encrypted", "openssl pkey"]),
    ] {
        let arguments =
            ["site", "--lab", "--listen", "127.0.0.1:0", "--tls-cert", text(certificate), "--tls-key", text(key)];
        let output = breme().args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "does not mention {word:?}: {stderr}");
        }
    }
    let stale = authority.sign("stale", |params| params.not_after = date_time_ymd(2001, 1, 1));
    let (certificate, key) = (text(&stale.certificate), text(&stale.key));
    let mut site = Site::start_with_stderr(&["--lab", "--tls-cert", certificate, "--tls-key", key], Stdio::piped());
    let mut stderr = String::new();
    site.stderr().read_line(&mut stderr).unwrap();
    assert!(stderr.contains("warning") && stderr.contains("stale.pem") && stderr.contains("expired"), "{stderr}");
}

#[test]
fn a_new_session_is_a_new_person_who_has_no_ticket() {
    let site = Site::start(&["--lab", "--tls-self-signed", "--driver", "events"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.toml");
    let file =
        "connection = \"new\"\n[[scenario]]\nname = \"visit\"\nstep = [{ request = \"GET /bytes/1\", repeat = 3 }]\n";
    std::fs::write(&path, file).unwrap();
    let (path, url) = (path.to_str().unwrap(), site.url("/"));
    let result = load_json(&["-k", "--scenario", path, "-n", "20", "-c", "2", &url]);
    let connections = &result["connections"];
    assert_eq!((connections["opened"].as_u64(), connections["resumed"].as_u64()), (Some(20), Some(0)), "{result:#}");
    assert_eq!(answered(&result), 60);
    assert_eq!(result["tls"]["version"], "1.3");
    // Within a session the server already knows the client that opens a connection.
    let result = load_json(&["-k", "--no-keepalive", "--scenario", path, "-n", "20", "-c", "1", &url]);
    let connections = &result["connections"];
    assert_eq!(connections["opened"], 60, "{result:#}");
    assert!((1..=40).contains(&connections["resumed"].as_u64().unwrap()), "{result:#}");
}

#[test]
fn a_visitor_who_comes_over_tls_is_not_named_in_the_clear() {
    let authority = Authority::new();
    let signed = authority.server();
    for driver in DRIVERS.iter().copied() {
        let mut arguments = vec!["--lab", "--visitors", "--driver", driver, "--listen", "http://127.0.0.1:0"];
        arguments.extend(["--tls-cert", text(&signed.certificate), "--tls-key", text(&signed.key)]);
        let mut site = Site::start(&arguments);
        let line = site.next_line();
        let in_the_clear = line.strip_prefix("listening on ").unwrap();
        assert!(in_the_clear.starts_with("http://"), "{in_the_clear}");
        let jar = authority.folder.path().join(driver);
        let given = |url: &str, jar: &Path| {
            let headers = curl(&authority, &["-o", "/dev/null", "-D", "-", "-b", text(jar), "-c", text(jar), url]);
            headers.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).map(str::to_owned)
        };
        let cookie = given(&site.url("/bytes/1"), &jar).expect("a new visitor gets a cookie");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Lax; Secure"), "{driver}: {cookie}");
        assert_eq!(given(&site.url("/bytes/1"), &jar), None, "{driver}: it comes back over TLS");
        let cookie = given(&format!("{in_the_clear}/bytes/1"), Path::new("/dev/null")).expect("a new visitor too");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Lax"), "{driver}: {cookie}");
    }
}
