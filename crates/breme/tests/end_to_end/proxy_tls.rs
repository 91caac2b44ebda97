//! Attacks on a proxy through TLS: the ambiguous requests again, clients that stall, and upstreams whose connection is
//! truncated.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

use breme_conformance::desync::{Attack, HIDDEN_TARGET, Reading, attacks};
use breme_conformance::{Answer, read_answers};
use rustls::ClientConfig;

use crate::admin::metrics;
use crate::caller::{Caller, Heard};
use crate::conformance::{Secured, client_of};
use crate::harness::{DRIVERS, Site, connect, is_of_a_time_out, run};
use crate::hostile::resident_kilobytes;
use crate::recorder::Recorder;
use crate::tls::{Authority, one_answer};

/// Short time limits for data that never arrives.
const HASTY: &[&str] = &["--head-timeout", "300ms", "--body-timeout", "300ms"];
/// For repetitions after a time-out.
const PATIENT: &[&str] = &["--head-timeout", "20s", "--body-timeout", "20s"];
const GET: &[u8] = b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &[u8] = b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
/// One of this many ambiguous requests is sent on each driver; without TLS it is one of three.
const SHARES: usize = 20;

/// A proxy with a cache that listens for TLS.
fn secured(authority: &Authority, upstream: SocketAddr, driver: &str, more: &[&str]) -> Site {
    let signed = authority.server();
    let (certificate, key) = signed.files();
    let listening = ["--tls-cert", certificate, "--tls-key", key, "--cache-memory", "16MiB", "--admin", "127.0.0.1:0"];
    Site::proxy(upstream, driver, &[&listening, more].concat())
}

/// All data received on one connection until it ends, which must be a clean end.
fn exchange(proxy: &Site, client: &Arc<ClientConfig>, bytes: &[u8]) -> Result<Vec<Answer>, String> {
    let mut stream = Secured::connect(proxy.address, client).map_err(|error| format!("no handshake: {error}"))?;
    // The proxy may close the connection before it has received everything.
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    stream.read_to_end(&mut received).map_err(|error| format!("{error} after {} bytes", received.len()))?;
    read_answers(&received, |_| false).map_err(|unreadable| unreadable.to_string())
}

/// Other clients are served normally.
fn require_served(proxy: &Site, client: &Arc<ClientConfig>, place: &str) {
    let answers = exchange(proxy, client, LAST).unwrap_or_else(|why| panic!("{place}: {why}"));
    assert!(answers.len() == 1 && answers[0].status == 200, "{place}: {answers:?}");
    assert_eq!(answers[0].content, b"/page", "{place}");
}

#[test]
fn ambiguous_requests_are_refused_over_tls_too() {
    let authority = Authority::new();
    let client = client_of(&authority);
    let attacks = attacks();
    for (number, driver) in DRIVERS.iter().copied().enumerate() {
        let recorder = Recorder::start();
        let [proxy, patient] = [HASTY, PATIENT].map(|time| secured(&authority, recorder.address, driver, time));
        for attack in attacks.iter().skip(number).step_by(SHARES) {
            let judged = match judge(attack, &proxy, &client, &recorder) {
                Err(why) if is_of_a_time_out(&why) => judge(attack, &patient, &client, &recorder),
                judged => judged,
            };
            judged.unwrap_or_else(|why| panic!("{driver}: {}: {why}", attack.name));
        }
        let stored = format!(
            "GET {HIDDEN_TARGET} HTTP/1.1\r\nHost: a\r\nCache-Control: only-if-cached\r\nConnection: close\r\n\r\n"
        );
        let answers = exchange(&proxy, &client, stored.as_bytes()).unwrap();
        assert_eq!(answers[0].status, 504, "{driver}: what was hidden is stored");
        require_served(&proxy, &client, driver);
    }
}

/// The error in one case, if any.
fn judge(attack: &Attack, proxy: &Site, client: &Arc<ClientConfig>, recorder: &Recorder) -> Result<(), String> {
    let (last, count) = match attack.reading {
        Reading::Refused => (&[][..], 1),
        Reading::Requests(count) => (LAST, count + 1),
    };
    let answers = exchange(proxy, client, &[&attack.send, last].concat());
    let record = recorder.take();
    if !record.faults.is_empty() || record.targets.iter().any(|target| target == HIDDEN_TARGET) {
        return Err(format!("{:?}, {:?} were passed on", record.faults, record.targets));
    }
    let answers = answers?;
    let is_refusal = |answer: &Answer| answer.status >= 400 && answer.field("via").is_none();
    let is_refused = answers.iter().any(is_refusal);
    match answers.len() == count && is_refused == (attack.reading == Reading::Refused) {
        true => Ok(()),
        false => Err(format!("{:?}, but {answers:?}", attack.reading)),
    }
}

#[test]
fn slow_clients_get_408_over_tls() {
    let authority = Authority::new();
    let client = client_of(&authority);
    let begun = [
        &b"GET /page HTTP/1.1\r\nHost: a\r\nX-Slow: "[..],
        b"POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
        b"POST /page HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ];
    for driver in DRIVERS.iter().copied() {
        let recorder = Recorder::start();
        let proxy = secured(&authority, recorder.address, driver, HASTY);
        for begun in begun {
            let answers = exchange(&proxy, &client, begun).unwrap();
            assert!(answers.len() == 1 && answers[0].status == 408, "{driver}: {answers:?}");
        }
        require_served(&proxy, &client, driver);
    }
}

/// Of the response that is read slowly; buffering all of it would be visible in the memory.
const LONG_BYTES: usize = 24 << 20;
/// The proxy's memory for it, and for the few other requests meanwhile.
const GROWTH_KILOBYTES_MAX: u64 = 8_000;
/// Number of other requests after which, if the origin sends nothing more, all buffers on the way are full.
const STILL_ROUNDS: usize = 5;

/// Bytes that the origin has sent on all connections.
fn sent(origin: &Site) -> f64 {
    metrics(origin.admin.unwrap())["breme_sent_bytes_total"]
}

/// TLS on both sides: unread data is in the kernel and in the bounded queues, not in the TLS sessions, and others are
/// served. The response is correct to its last byte.
#[test]
fn who_reads_a_byte_now_and_then_holds_nobody_up_under_tls() {
    let authority = Authority::new();
    let (client, signed) = (client_of(&authority), authority.server());
    let (certificate, key) = signed.files();
    let tls = ["--tls-cert", certificate, "--tls-key", key];
    let origin =
        Site::start(&[&["--lab", "--driver", "events", "--threads", "1", "--admin", "127.0.0.1:0"], &tls[..]].concat());
    let path = format!("/bytes/{LONG_BYTES}");
    let expected = Site::lab("events").get(&path).1;
    for driver in DRIVERS.iter().copied() {
        let upstream = format!("--upstream={}", origin.url(""));
        let (ca, threads) = (authority.file(), if driver == "threads" { "16" } else { "1" });
        let arguments = [&upstream, "--upstream-ca", &ca, "--driver", driver, "--threads", threads];
        let proxy = Site::start_role("proxy", &[&arguments[..], &tls].concat(), Stdio::inherit());
        let serve_others = || {
            let request = b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let answers = exchange(&proxy, &client, request).unwrap_or_else(|why| panic!("{driver}: {why}"));
            assert!(answers.len() == 1 && answers[0].content == b"012", "{driver}: {answers:?}");
        };
        (0..STILL_ROUNDS).for_each(|_| serve_others());
        let before = resident_kilobytes(&proxy);

        let mut slow = Secured::connect(proxy.address, &client).unwrap();
        slow.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        let (mut received, mut still, mut last) = (Vec::new(), 0, 0.0);
        while still < STILL_ROUNDS {
            let mut byte = [0];
            slow.read_exact(&mut byte).unwrap();
            received.push(byte[0]);
            serve_others();
            let sent = sent(&origin);
            // It includes the data for other clients.
            still = if sent - last < 100_000.0 { still + 1 } else { 0 };
            last = sent;
        }
        let grown = resident_kilobytes(&proxy).saturating_sub(before);
        assert!(grown < GROWTH_KILOBYTES_MAX, "{grown} kB wait in the proxy for who does not read, on {driver}");
        slow.read_to_end(&mut received).unwrap_or_else(|error| panic!("{driver}: {error}"));
        let answers = read_answers(&received, |_| false).unwrap();
        assert!(answers.len() == 1 && answers[0].content == expected, "{driver}: {} bytes", received.len());
        serve_others();
    }
}

/// As many as a pool of threads can serve without making others wait, and a thousand otherwise.
fn client_count(driver: &str) -> usize {
    if driver == "threads" { 50 } else { 1_000 }
}

#[test]
fn handshakes_that_do_not_go_on_hold_nobody_up() {
    // Nothing; a partial record header; a record that is announced but not sent; a truncated ClientHello.
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let begun = [&b""[..], &hello[..3], &hello[..5], hello];
    let authority = Authority::new();
    let client = client_of(&authority);
    for driver in DRIVERS.iter().copied() {
        let recorder = Recorder::start();
        let proxy = secured(&authority, recorder.address, driver, &[]);
        let held: Vec<TcpStream> = (0..client_count(driver))
            .map(|number| {
                let mut stream = connect(proxy.address);
                stream.write_all(begun[number % begun.len()]).unwrap();
                stream
            })
            .collect();
        for _ in 0..5 {
            require_served(&proxy, &client, driver);
        }
        drop(held);
        require_served(&proxy, &client, driver);
    }
}

#[test]
fn a_connection_without_tls_is_rejected() {
    let authority = Authority::new();
    let client = client_of(&authority);
    for driver in DRIVERS.iter().copied() {
        let recorder = Recorder::start();
        let proxy = secured(&authority, recorder.address, driver, &[]);
        let received = String::from_utf8(proxy.exchange(GET)).unwrap();
        assert!(received.starts_with("HTTP/1.1 400 ") && received.contains("https://"), "{driver}: {received}");
        let garbage: [&[u8]; 5] = [
            b"\0",
            &[0xff; 70_000],
            b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10",
            b"\x17\x03\x03\x00\x05hello",
            b"PROXY TCP4 1.1.1.1 2.2.2.2 1 443\r\n",
        ];
        for bytes in garbage {
            let mut stream = connect(proxy.address);
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut received = Vec::new();
            // It may be closed while there was more to read.
            let _ = stream.read_to_end(&mut received);
            assert!(!received.starts_with(b"HTTP/1.1 2"), "{driver}: {received:?}");
        }
        require_served(&proxy, &client, driver);
        assert!(recorder.take().targets.iter().all(|target| target == "/page"), "{driver}");
    }
}

/// The output of `openssl s_client` with these arguments and this input.
fn s_client(proxy: &Site, words: &[&str], send: &[u8]) -> String {
    let address = proxy.address.to_string();
    let mut child = Command::new("openssl")
        .args([&["s_client", "-connect", &address], words].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(send);
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Unknown server names have no effect: there is one certificate, and Host selects the resource.
#[test]
fn odd_wishes_in_a_handshake_harm_nobody() {
    let authority = Authority::new();
    let client = client_of(&authority);
    for driver in DRIVERS.iter().copied() {
        let recorder = Recorder::start();
        let proxy = secured(&authority, recorder.address, driver, &[]);
        for words in [
            &["-servername", "other.example"][..],
            &["-noservername"],
            &["-alpn", "x,http/1.1,h2"],
            &["-tls1_2"],
            &["-tls1_2", "-no_ticket"],
            &["-tls1_3", "-groups", "P-256"],
        ] {
            let output = s_client(&proxy, &[&["-ign_eof"], words].concat(), LAST);
            assert!(output.contains("HTTP/1.1 200 OK"), "{driver} {words:?}: {output}");
        }
        // None of the offered protocols is supported (RFC 7301, 3.2); only HTTP/1.1 is parsed as such.
        let output = s_client(&proxy, &["-ign_eof", "-alpn", "h2,spdy/1"], LAST);
        assert!(!output.contains("HTTP/1.1 200"), "{driver}: {output}");
        // Renegotiation is not supported; a client that requests it may be dropped, and others are not affected.
        let output = s_client(&proxy, &["-tls1_2", "-no_ign_eof"], b"R\n");
        assert!(output.contains("RENEGOTIATING"), "{driver}: {output}");
        require_served(&proxy, &client, driver);
        // Session tickets may be reused.
        let output = s_client(&proxy, &["-reconnect", "-tls1_2"], LAST);
        assert!(output.contains("Reused"), "{driver}: {output}");
        require_served(&proxy, &client, driver);
    }
}

/// An attacker who can cut a connection must not make a partial response complete (RFC 9112, 9.8): it is visibly
/// truncated, and not stored.
#[test]
fn an_upstreams_answer_that_is_cut_is_not_taken_for_whole() {
    const UNTIL_THE_END: &[u8] =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nConnection: close\r\n\r\nuntil the end";
    const TOO_SHORT: &[u8] =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 20\r\n\r\nuntil the end";
    const CHUNKS: &[u8] =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nuntil the end\r\n";
    let authority = Authority::new();
    let signed = authority.server();
    let cases = [
        (UNTIL_THE_END, true, true),
        (UNTIL_THE_END, false, false),
        (TOO_SHORT, true, false),
        (TOO_SHORT, false, false),
        (CHUNKS, true, false),
        (CHUNKS, false, false),
    ];
    for driver in DRIVERS.iter().copied() {
        for (answer, is_clean, is_whole) in cases {
            let place = format!("{driver}, clean end {is_clean}: {}", answer.escape_ascii());
            let upstream = format!("--upstream=https://localhost:{}", one_answer(&signed, answer, is_clean).port());
            let ca = authority.file();
            let threads = if driver == "threads" { "16" } else { "2" };
            let arguments = ["--upstream-ca", &ca, "--driver", driver, "--threads", threads, "--admin", "127.0.0.1:0"];
            let with_cache = ["--cache-memory", "16MiB", "--retries", "0", &upstream];
            let proxy = Site::start_role("proxy", &[&arguments[..], &with_cache].concat(), Stdio::inherit());
            for _ in 0..2 {
                let mut caller = Caller::new(proxy.address);
                caller.send(GET);
                match caller.hear(false).unwrap_or_else(|why| panic!("{place}: {why}")) {
                    Heard::Answer(answered) if is_whole => assert_eq!(answered.content, b"until the end", "{place}"),
                    Heard::Answer(answered) => assert_eq!(answered.status, 502, "{place}"),
                    Heard::Cut(_) | Heard::Nothing => assert!(!is_whole, "{place}"),
                }
            }
            let connects = metrics(proxy.admin.unwrap())["breme_upstream_connects_total"];
            assert_eq!(
                connects,
                if is_whole { 1.0 } else { 2.0 },
                "{place}: the second is from the cache only if the first is whole"
            );
        }
    }
}

/// A certificate for one name serves any Host, as without TLS.
#[test]
fn the_name_of_the_handshake_is_not_that_of_the_request() {
    let authority = Authority::new();
    for driver in DRIVERS.iter().copied() {
        let recorder = Recorder::start();
        let proxy = secured(&authority, recorder.address, driver, &[]);
        let url = format!("https://localhost:{}/page", proxy.address.port());
        let output = run(
            "curl",
            &["-sS", "--cacert", &authority.file(), "-H", "Host: other.example", "-w", " %{http_code}", &url],
        );
        assert_eq!(output, "/page 200", "{driver}");
    }
}
