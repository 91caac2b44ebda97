//! A thousand clients that request one slow page at the same time, and purges while it is fetched.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Instant;

use serde_json::json;

use crate::admin::metrics;
use crate::caller::{Caller, Heard};
use crate::gated_origin::{GatedOrigin, content_of};
use crate::harness::{DRIVERS, PATIENCE, Site};
use crate::proxy_admin::{TOKEN, call, token_file};

const CLIENTS: usize = 1_000;
/// If any number of clients is sufficient.
const SOME: usize = 50;

/// With a cache and an admin address; with one thread for each client if a driver needs it.
fn start(origin: &GatedOrigin, driver: &str, more: &[&str]) -> Site {
    let upstream = format!("--upstream=http://{}", origin.address);
    let threads = if driver == "threads" { "1010" } else { "4" };
    let cache = ["--cache-memory", "64MiB", "--admin", "127.0.0.1:0", "--cache-lock-timeout", "60s"];
    let arguments = [&[&upstream, "--driver", driver, "--threads", threads], &cache[..], more].concat();
    Site::start_role("proxy", &arguments, Stdio::inherit())
}

fn send_request(proxy: SocketAddr, path: &str) -> Caller {
    let mut caller = Caller::new(proxy);
    caller.send(format!("GET {path} HTTP/1.1\r\nHost: edge.example\r\n\r\n").as_bytes());
    caller
}

/// Waits until the proxy has enough requests in progress.
fn wait_in_flight(proxy: &Site, is_enough: impl Fn(usize) -> bool) {
    let begun = Instant::now();
    loop {
        let count = metrics(proxy.admin.unwrap())["breme_requests_in_flight"] as usize;
        if is_enough(count) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{count} requests are under way");
    }
}

fn start_clients(proxy: &Site, size: usize, path: &str) -> Vec<Caller> {
    let callers: Vec<_> = (0..size).map(|_| send_request(proxy.address, path)).collect();
    wait_in_flight(proxy, |count| count >= size);
    callers
}

/// The number of the upstream request for the content, which must be complete.
fn numbered(caller: &mut Caller, place: &str) -> u64 {
    match caller.hear(false) {
        Ok(Heard::Answer(answered)) if answered.status == 200 => {
            let number = number_in(&answered.content);
            assert_eq!(answered.content, content_of(number), "{place}");
            number
        }
        other => panic!("{place}: {other:?}"),
    }
}

/// The request for which a content was made; of a truncated one, the first.
fn number_in(content: &[u8]) -> u64 {
    content.get(1..7).map_or(1, |digits| std::str::from_utf8(digits).unwrap().parse().unwrap())
}

#[test]
fn a_thousand_misses_at_a_time_are_one_request_upstream_also_when_half_of_them_leave() {
    for driver in DRIVERS.iter().copied() {
        let origin = GatedOrigin::start();
        let proxy = start(&origin, driver, &[]);
        let mut callers = start_clients(&proxy, CLIENTS, "/whole/page");
        // The first client leaves too: the fetch does not belong to it alone.
        callers.drain(..CLIENTS / 2).for_each(Caller::leave);
        wait_in_flight(&proxy, |count| count <= CLIENTS / 2 + 1);
        origin.release(u64::MAX);
        callers.iter_mut().for_each(|caller| assert_eq!(numbered(caller, driver), 1, "{driver}"));
        assert_eq!(numbered(&mut send_request(proxy.address, "/whole/page"), driver), 1, "{driver}");
        assert_eq!(origin.requests(), 1, "{driver}");
    }
}

/// The result of each client.
fn outcomes(callers: &mut [Caller], driver: &str) -> Vec<Heard> {
    let heard = callers.iter_mut().map(|caller| caller.hear(false).unwrap_or_else(|why| panic!("{driver}: {why}")));
    heard.collect()
}

#[test]
fn when_the_upstream_dies_in_the_middle_of_a_content_nobody_takes_half_of_it_for_the_whole() {
    for driver in DRIVERS.iter().copied() {
        let origin = GatedOrigin::start();
        let proxy = start(&origin, driver, &[]);
        let mut callers = start_clients(&proxy, SOME, "/half/page");
        origin.release(u64::MAX);
        for heard in outcomes(&mut callers, driver) {
            match heard {
                // Clients that arrived after it had begun may have sent their own request, with the same result.
                Heard::Cut(answered) => {
                    let number = number_in(&answered.content);
                    assert!(content_of(number).starts_with(&answered.content), "{driver}");
                }
                // Closed before anything was sent.
                Heard::Nothing => {}
                Heard::Answer(answered) => assert_eq!(answered.status, 502, "{driver}"),
            }
        }
        assert!(origin.requests() <= SOME as u64, "{driver}: {} requests", origin.requests());
    }
}

#[test]
fn when_the_upstream_sends_nothing_every_client_gets_an_error() {
    for driver in DRIVERS.iter().copied() {
        let origin = GatedOrigin::start();
        let proxy = start(&origin, driver, &[]);
        let mut callers = start_clients(&proxy, SOME, "/none/page");
        origin.release(u64::MAX);
        for heard in outcomes(&mut callers, driver) {
            assert!(matches!(&heard, Heard::Answer(answered) if answered.status == 502), "{driver}: {heard:?}");
        }
        assert!(origin.requests() <= SOME as u64, "{driver}: {} requests", origin.requests());
    }
}

/// The old response reaches clients that requested it before the purge, and is never stored.
#[test]
fn a_response_that_is_purged_during_its_fetch_is_not_stored() {
    let (_folder, token) = token_file();
    let url = "http://edge.example/whole/page";
    let wishes = [
        Some(json!({ "url": url })),
        Some(json!({ "prefix": "http://edge.example/whole/" })),
        Some(json!({ "all": true })),
        Some(json!({ "url": url, "soft": true })),
        None,
    ];
    for driver in DRIVERS.iter().copied() {
        for wish in &wishes {
            let origin = GatedOrigin::start();
            let proxy = start(&origin, driver, &["--admin-token-file", &token, "--purge-from", "127.0.0.0/8"]);
            let place = format!("{driver}, {wish:?}");
            let mut before: Vec<_> = (0..3).map(|_| send_request(proxy.address, "/whole/page")).collect();
            wait_in_flight(&proxy, |count| count >= 3);
            origin.wait_for_requests(1);
            match wish {
                Some(wish) => {
                    let admin = proxy.admin.unwrap();
                    assert_eq!(
                        call(admin, "POST", "/cache/purge", Some(TOKEN), Some(&wish.to_string())).0,
                        200,
                        "{place}"
                    );
                }
                None => {
                    let request = "PURGE /whole/page HTTP/1.1\r\nHost: edge.example\r\nConnection: close\r\n\r\n";
                    assert!(proxy.exchange(request.as_bytes()).starts_with(b"HTTP/1.1 200 "), "{place}");
                }
            }
            origin.release(u64::MAX);
            // The old response is for the client that started the fetch; those that waited for it may get a newer one.
            let contents: Vec<_> = before.iter_mut().map(|caller| numbered(caller, &place)).collect();
            assert!(contents.contains(&1), "{place}: {contents:?}");
            let then = [(); 2].map(|()| numbered(&mut send_request(proxy.address, "/whole/page"), &place));
            assert!(then[0] > 1 && then[1] == then[0], "{place}: the old answer was stored, or no new one: {then:?}");
        }
    }
}
