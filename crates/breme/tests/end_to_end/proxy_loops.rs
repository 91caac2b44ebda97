//! Proxies that forward to themselves or in a circle: each request ends with a clear error, after few hops, and nothing
//! remains of it.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Instant;

use breme_conformance::{Answer, read_answers};
use breme_testkit::reserved_address;
use serde_json::json;

use crate::admin::metrics;
use crate::harness::{DRIVERS, Nginx, PATIENCE, POLL_PAUSE, Site, serve_each, wait_until};
use crate::proxy_admin::{TOKEN, call, token_file};

const GET: &str = "GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
/// The requests sent through a circle: content, in both framings, and a range.
const REQUESTS: [&str; 4] = [
    GET,
    "HEAD /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "POST /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
    "POST /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
];
const CACHE: &[&str] = &["--cache-memory", "16MiB"];
/// Concurrent clients.
const CLIENTS: usize = 20;

/// A proxy whose upstream does not exist yet.
fn start(driver: &str, token: &str, more: &[&str]) -> Site {
    let nobody = format!("--upstream=http://{}", reserved_address());
    let threads = if driver == "threads" { "64" } else { "2" };
    let arguments = [&nobody, "--driver", driver, "--threads", threads, "--admin", "127.0.0.1:0"];
    let with_token = ["--admin-token-file", token];
    Site::start_role("proxy", &[&arguments[..], &with_token, more].concat(), Stdio::inherit())
}

/// Another address of a server, as mapped by a router: the proxy cannot know that it is its own.
fn mapped(address: SocketAddr) -> SocketAddr {
    serve_each(move |client| {
        let server = TcpStream::connect(address)?;
        let carry = |mut from: &TcpStream, mut to: &TcpStream| {
            let _ = std::io::copy(&mut from, &mut to); // whichever of them ends it
            to.shutdown(Shutdown::Write)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| carry(&server, &client));
            carry(&client, &server)
        })
    })
}

/// Makes `upstream` its upstream.
fn point(proxy: &Site, upstream: SocketAddr) {
    let list = json!([format!("http://{upstream}")]).to_string();
    assert_eq!(call(proxy.admin.unwrap(), "PUT", "/upstreams", Some(TOKEN), Some(&list)).0, 200);
}

fn exchange(proxy: &Site, request: &str) -> Answer {
    let received = proxy.exchange(request.as_bytes());
    let mut answers = read_answers(&received, |_| request.starts_with("HEAD")).unwrap();
    assert_eq!(answers.len(), 1, "{}", String::from_utf8_lossy(&received));
    answers.remove(0)
}

fn exchange_at_once(proxy: &Site, count: usize) -> Vec<Answer> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..count).map(|_| scope.spawn(|| exchange(proxy, GET))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Waits until it has no requests in progress.
fn require_quiet(proxy: &Site, place: &str) {
    let begun = Instant::now();
    loop {
        let metrics = metrics(proxy.admin.unwrap());
        let (requests, busy) =
            (metrics["breme_requests_in_flight"], metrics["breme_upstream_connections{state=\"busy\"}"]);
        if (requests, busy) == (0.0, 0.0) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{place}: {requests} requests and {busy} connections are left");
        std::thread::sleep(POLL_PAUSE);
    }
}

/// Each is rejected by the proxy that receives it for the second time, after each proxy of the circle forwarded it
/// once.
fn require_loops_found(circle: &[&Site], place: &str) {
    let sent_on = || circle.iter().map(|proxy| sent_upstream(proxy)).sum::<f64>();
    let before = sent_on();
    let mut answers: Vec<_> = REQUESTS.iter().map(|request| exchange(circle[0], request)).collect();
    answers.extend(exchange_at_once(circle[0], CLIENTS));
    for answer in &answers {
        assert_eq!(answer.status, 508, "{place}");
        assert!(answer.field("proxy-status").is_some_and(|value| value.contains("proxy_loop_detected")), "{place}");
    }
    circle.iter().for_each(|proxy| require_quiet(proxy, place));
    let (sent, most) = (sent_on() - before, answers.len() * circle.len());
    assert!(sent <= most as f64, "{place}: {} requests were sent on {sent} times", answers.len());
}

fn sent_upstream(proxy: &Site) -> f64 {
    let metrics = metrics(proxy.admin.unwrap());
    metrics["breme_upstream_connects_total"] + metrics["breme_upstream_reuses_total"]
}

#[test]
fn a_loop_is_found_when_a_proxy_gets_a_request_for_the_second_time() {
    let (_folder, token) = token_file();
    for driver in DRIVERS.iter().copied() {
        for more in [&[][..], CACHE] {
            let alone = start(driver, &token, more);
            point(&alone, mapped(alone.address));
            require_loops_found(&[&alone], &format!("{driver}, itself, {more:?}"));

            let (one, two) = (start(driver, &token, more), start(driver, &token, more));
            point(&one, two.address);
            point(&two, one.address);
            require_loops_found(&[&one, &two], &format!("{driver}, each other, {more:?}"));

            // Another proxy in between, which forwards the fields of others.
            let nginx = Nginx::start_with("", &format!("location / {{ proxy_pass http://{}; }}", one.address));
            point(&one, nginx.address);
            require_loops_found(&[&one], &format!("{driver}, through nginx, {more:?}"));
        }
    }
}

/// Via may be disabled, and removed by others. The only field that every intermediary leaves unchanged is CDN-Loop.
#[test]
fn a_loop_is_found_where_nobody_says_via() {
    let (_folder, token) = token_file();
    for driver in DRIVERS.iter().copied() {
        for more in [&[][..], CACHE] {
            let silent = [&["--no-via", "--cdn-loop", "edge.example.org"], more].concat();
            let (one, two) = (start(driver, &token, &silent), start(driver, &token, &silent));
            point(&one, two.address);
            point(&two, one.address);
            require_loops_found(&[&one, &two], &format!("{driver}, each other, {more:?}"));

            let dropping = "proxy_set_header Via \"\";";
            let nginx =
                Nginx::start_with("", &format!("location / {{ {dropping} proxy_pass http://{}; }}", one.address));
            point(&one, nginx.address);
            require_loops_found(&[&one], &format!("{driver}, through nginx, {more:?}"));
        }
    }
}

/// A forward proxy that is requested to connect to itself, and a reverse proxy in front of it.
#[test]
fn a_forward_proxy_does_not_request_itself_for_ever() {
    let (_folder, token) = token_file();
    for driver in DRIVERS.iter().copied() {
        let reverse = start(driver, &token, &[]);
        let own = reserved_address();
        let ports = [reverse.address.port(), own.port()].map(|port| format!("--allow-port={port}"));
        let threads = if driver == "threads" { "64" } else { "2" };
        let arguments =
            ["--forward", "--allow-private", "--driver", driver, "--threads", threads, &ports[0], &ports[1]];
        let listening = ["--listen", &own.to_string(), "--admin", "127.0.0.1:0"];
        let forward = Site::start_role("proxy", &[&arguments[..], &listening].concat(), Stdio::inherit());
        point(&reverse, own);
        // It detects itself also in requests that it would not serve: what it forwards is not for a forward proxy.
        for target in [own, reverse.address] {
            let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
            assert_eq!(exchange(&forward, &request).status, 508, "{driver}: {target}");
        }
        require_quiet(&forward, driver);
        require_quiet(&reverse, driver);
    }
}

/// A loop whose hops do not identify themselves is undetectable. Then limits and time-outs produce responses; abandoned
/// requests may circulate on a slow machine until the loop is broken.
#[test]
fn a_loop_that_cannot_be_known_is_answered_by_the_limits_and_ends_with_its_cause() {
    let (_folder, token) = token_file();
    for driver in DRIVERS.iter().copied() {
        let limits = ["--no-via", "--response-timeout", "500ms", "--max-connections", "40", "--retries", "0"];
        let proxy = start(driver, &token, &limits);
        point(&proxy, mapped(proxy.address));
        for answer in exchange_at_once(&proxy, 3) {
            assert!([502, 503, 504].contains(&answer.status), "{driver}: {}", answer.status);
        }
        let site = Site::lab("events");
        point(&proxy, site.address);
        wait_until("it does not work on", || match proxy.get("/bytes/3") {
            (200, content) => content == b"012",
            (status, _) => {
                assert!([502, 503, 504].contains(&status), "{driver}: {status}");
                false
            }
        });
        require_quiet(&proxy, driver);
    }
}

/// Every thread of the pool waits for a response that only another one could produce. Afterwards idle connections in
/// the pools hold threads, indefinitely without pressure: they are closed since others wait.
#[test]
fn a_circle_that_uses_up_the_pool_of_threads_ends_by_the_time_outs() {
    let (_folder, token) = token_file();
    let few = ["--threads", "2", "--response-timeout", "500ms", "--idle-timeout", "1000h", "--pool-timeout", "1000h"];
    let [one, two] = [(); 2].map(|()| {
        let nobody = format!("--upstream=http://{}", reserved_address());
        let admin = ["--admin", "127.0.0.1:0", "--admin-token-file", &token];
        let arguments = [&[&nobody, "--driver", "threads"], &few[..], &admin].concat();
        Site::start_role("proxy", &arguments, Stdio::inherit())
    });
    point(&one, two.address);
    point(&two, one.address);
    for answer in exchange_at_once(&one, 8) {
        assert!([502, 504, 508].contains(&answer.status), "{}", answer.status);
    }
    require_quiet(&one, "the first");
    require_quiet(&two, "the second");
    require_loop_found_at_last(&one);
}

/// Abandoned requests in a queue may be processed first, and a request that waits for a thread at both proxies behind
/// them times out.
fn require_loop_found_at_last(proxy: &Site) {
    let begun = Instant::now();
    loop {
        let status = exchange(proxy, GET).status;
        if status == 508 {
            return;
        }
        assert!([502, 504].contains(&status), "{status}");
        assert!(begun.elapsed() < PATIENCE, "no thread is free again");
    }
}
