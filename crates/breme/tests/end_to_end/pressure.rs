//! More clients than connections: idle clients make room, clients with many requests take turns, and requests in
//! progress are not disturbed.

use std::process::Stdio;
use std::time::Instant;

use crate::admin::metrics;
use crate::caller::{Caller, Heard};
use crate::gated_origin::{GatedOrigin, content_of};
use crate::harness::{DRIVERS, PATIENCE, Site};

/// Without pressure, a client keeps its connection for longer than any test waits.
const LONG: [&str; 4] = ["--idle-timeout", "1000h", "--head-timeout", "1000h"];
const GET: &str = "GET /bytes/5 HTTP/1.1\r\nHost: a\r\n\r\n";
/// An incomplete request.
const BEGUN: &str = "GET /bytes/5 HTTP/1.1\r\nHo";

/// With limits of client and upstream connections.
fn start(role: &str, driver: &str, places: [usize; 2], more: &[&str]) -> Site {
    let [threads, connections] = [places[0].to_string(), (places[0] + places[1]).to_string()];
    let bound = match driver {
        "threads" => vec!["--threads", &threads],
        _ => vec!["--threads", "1", "--max-connections", &connections],
    };
    let common = ["--driver", driver, "--admin", "127.0.0.1:0"];
    Site::start_role(role, &[&common, &bound[..], &LONG, more].concat(), Stdio::inherit())
}

/// Calls `check` with a site, a proxy, and a proxy with a cache, on each driver, with this limit of clients.
fn everywhere(clients: usize, check: impl Fn(&Site, &str)) {
    for driver in DRIVERS.iter().copied() {
        check(&start("site", driver, [clients, 0], &["--lab"]), &format!("site on {driver}"));
        let origin = Site::lab("events");
        let upstream = format!("--upstream=http://{}", origin.address);
        let proxy = |more: &[&str]| start("proxy", driver, [clients, 1], &[&[upstream.as_str()], more].concat());
        check(&proxy(&[]), &format!("proxy on {driver}"));
        check(&proxy(&["--cache-memory", "16MiB"]), &format!("proxy with a cache on {driver}"));
    }
}

fn hear(caller: &mut Caller, content: &[u8], place: &str) {
    match caller.hear(false) {
        Ok(Heard::Answer(answered)) => assert_eq!((answered.status, &*answered.content), (200, content), "{place}"),
        other => panic!("{place}: {other:?}"),
    }
}

/// A client with one response, which then begins another request, or does not.
fn served(site: &Site, then: &str, place: &str) -> Caller {
    let mut caller = Caller::new(site.address);
    caller.send((GET.to_owned() + then).as_bytes());
    hear(&mut caller, b"01234", place);
    caller
}

/// Expects that its connection is closed.
fn require_gone(mut caller: Caller, place: &str) {
    let heard = caller.hear(false);
    assert!(matches!(heard, Ok(Heard::Nothing)), "{place}: {heard:?}");
}

/// Two idle clients, a spare connection, and a client with an incomplete request, with a limit of four.
fn require_room_is_made(site: &Site, place: &str) {
    let idle = [served(site, "", place), served(site, "", place), Caller::new(site.address)];
    let mut active = vec![served(site, BEGUN, place)];
    std::thread::scope(|scope| {
        let count = idle.len();
        for caller in idle {
            scope.spawn(|| require_gone(caller, place));
        }
        // Each of them takes a place, and is not idle.
        active.extend((0..count).map(|_| served(site, BEGUN, place)));
    });
    for caller in &mut active {
        caller.send(&GET.as_bytes()[BEGUN.len()..]);
        hear(caller, b"01234", place);
    }
    assert_eq!(evicted(site), 3.0, "{place}");
}

fn evicted(site: &Site) -> f64 {
    metrics(site.admin.unwrap())["breme_clients_evicted_total"]
}

#[test]
fn idle_clients_make_room_for_a_waiting_one() {
    everywhere(4, require_room_is_made);
}

/// With a limit of one: a client that sends requests without pause, and a later one.
fn require_turns_are_taken(site: &Site, place: &str) {
    let mut active = served(site, "", place);
    let mut waiting = Caller::new(site.address);
    waiting.send(GET.as_bytes());
    let begun = Instant::now();
    loop {
        active.send(GET.as_bytes());
        match active.hear(false) {
            Ok(Heard::Answer(answered)) if !answered.is_last => assert!(begun.elapsed() < PATIENCE, "{place}"),
            // If we waited long for the CPU, it counted as idle.
            Ok(Heard::Answer(_) | Heard::Nothing) => break,
            other => panic!("{place}: {other:?}"),
        }
    }
    drop(active);
    hear(&mut waiting, b"01234", place);
    assert_eq!(evicted(site), 1.0, "{place}");
}

#[test]
fn a_client_that_requests_without_a_pause_leaves_after_a_turn() {
    everywhere(1, require_turns_are_taken);
}

/// Its response is released by the test, after other clients were served.
#[test]
fn a_client_that_waits_for_a_response_is_not_idle() {
    for driver in DRIVERS.iter().copied() {
        let origin = GatedOrigin::start();
        let proxy = start("proxy", driver, [2, 1], &[&format!("--upstream=http://{}", origin.address)]);
        let mut waiting = Caller::new(proxy.address);
        waiting.send(b"GET /whole/page HTTP/1.1\r\nHost: a\r\n\r\n");
        origin.wait_for_requests(1);
        for spare_count in 1..=3 {
            let spare = Caller::new(proxy.address);
            std::thread::scope(|scope| {
                scope.spawn(|| require_gone(spare, driver));
                // The proxy itself responds to this.
                assert!(proxy.exchange(b"GET / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 400 "));
            });
            assert_eq!(evicted(&proxy), f64::from(spare_count), "{driver}");
        }
        origin.release(u64::MAX);
        hear(&mut waiting, &content_of(1), driver);
    }
}
