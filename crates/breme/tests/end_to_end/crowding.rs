//! More clients than threads: who is idle makes room for who waits, and who is being served stays.

use std::process::Stdio;
use std::time::Instant;

use crate::admin::metrics;
use crate::caller::{Caller, Heard};
use crate::gated_origin::{GatedOrigin, content_of};
use crate::harness::{PATIENCE, Site};

/// Whoever has a place keeps it for longer than any test waits, if nobody else wants it.
const LONG: [&str; 4] = ["--idle-timeout", "1000h", "--head-timeout", "1000h"];
const GET: &str = "GET /bytes/5 HTTP/1.1\r\nHost: a\r\n\r\n";
/// What a client has begun to ask for.
const BEGUN: &str = "GET /bytes/5 HTTP/1.1\r\nHo";

fn start(role: &str, threads: &str, more: &[&str]) -> Site {
    let driver = ["--driver", "threads", "--threads", threads, "--admin", "127.0.0.1:0"];
    Site::start_role(role, &[&driver, &LONG[..], more].concat(), Stdio::inherit())
}

fn hear(caller: &mut Caller, content: &[u8], place: &str) {
    match caller.hear(false) {
        Ok(Heard::Answer(answered)) => assert_eq!((answered.status, &*answered.content), (200, content), "{place}"),
        other => panic!("{place}: {other:?}"),
    }
}

/// A client that was served, and then begins to ask for more, or does not.
fn served(site: &Site, then: &str, place: &str) -> Caller {
    let mut caller = Caller::new(site.address);
    caller.send((GET.to_owned() + then).as_bytes());
    hear(&mut caller, b"01234", place);
    caller
}

fn require_gone(caller: &mut Caller, place: &str) {
    let heard = caller.hear(false);
    assert!(matches!(heard, Ok(Heard::Nothing)), "{place}: {heard:?}");
}

/// Two idle clients, a spare connection, and a client that has begun to ask, on four threads.
fn require_room_is_made(site: &Site, place: &str) {
    let mut idle = [served(site, "", place), served(site, "", place), Caller::new(site.address)];
    let mut asking = vec![served(site, BEGUN, place)];
    // Each of them takes a place, and is not idle.
    asking.extend(idle.iter().map(|_| served(site, BEGUN, place)));
    idle.iter_mut().for_each(|caller| require_gone(caller, place));
    for caller in &mut asking {
        caller.send(&GET.as_bytes()[BEGUN.len()..]);
        hear(caller, b"01234", place);
    }
    assert_eq!(crowded_out(site), idle.len() as f64, "{place}");
}

fn crowded_out(site: &Site) -> f64 {
    metrics(site.admin.unwrap())["breme_clients_crowded_out_total"]
}

#[test]
fn idle_clients_of_a_pool_of_threads_make_room_for_who_waits() {
    require_room_is_made(&start("site", "4", &["--lab"]), "site");
    let origin = Site::lab("events");
    let upstream = format!("--upstream=http://{}", origin.address);
    require_room_is_made(&start("proxy", "4", &[&upstream]), "proxy");
    require_room_is_made(&start("proxy", "4", &[&upstream, "--cache-memory", "16MiB"]), "proxy with a cache");
}

/// On one thread: who asks without a pause, and who came later.
fn require_turns_are_taken(site: &Site, place: &str) {
    let mut asking = served(site, "", place);
    let mut waiting = Caller::new(site.address);
    waiting.send(GET.as_bytes());
    let begun = Instant::now();
    loop {
        asking.send(GET.as_bytes());
        match asking.hear(false) {
            Ok(Heard::Answer(answered)) if !answered.is_last => assert!(begun.elapsed() < PATIENCE, "{place}"),
            // Where we had to wait for the processor for long, it counted as idle.
            Ok(Heard::Answer(_) | Heard::Nothing) => break,
            other => panic!("{place}: {other:?}"),
        }
    }
    hear(&mut waiting, b"01234", place);
    assert_eq!(crowded_out(site), 1.0, "{place}");
}

#[test]
fn who_asks_without_a_pause_leaves_after_a_turn() {
    require_turns_are_taken(&start("site", "1", &["--lab"]), "site");
    let origin = Site::lab("events");
    let upstream = format!("--upstream=http://{}", origin.address);
    require_turns_are_taken(&start("proxy", "1", &[&upstream]), "proxy");
    require_turns_are_taken(&start("proxy", "1", &[&upstream, "--cache-memory", "16MiB"]), "proxy with a cache");
}

/// Its answer comes when the test says so, after others have come and gone.
#[test]
fn who_waits_for_an_answer_is_not_idle() {
    let origin = GatedOrigin::start();
    let proxy = start("proxy", "2", &[&format!("--upstream=http://{}", origin.address)]);
    let mut asking = Caller::new(proxy.address);
    asking.send(b"GET /whole/page HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_asked(1);
    for spare_count in 1..=3 {
        let mut spare = Caller::new(proxy.address);
        // The proxy answers this itself.
        assert!(proxy.exchange(b"GET / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 400 "));
        require_gone(&mut spare, "spare");
        assert_eq!(crowded_out(&proxy), f64::from(spare_count));
    }
    origin.release(u64::MAX);
    hear(&mut asking, &content_of(1), "asking");
}
