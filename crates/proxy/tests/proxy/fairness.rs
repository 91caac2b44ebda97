//! Fairness: how many responses one client gets before others have their turn.

use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_cache::{Cache, CacheSettings};
use breme_http::Limits;
use breme_node::{Accepted, Action, Connected, ConnectionId, ListenerId, Node, Received};
use breme_proxy::{Parts, Proxy, Settings};

use crate::support::driven::Driven;
use crate::support::{THEN, head, silent, upstream_at};

const CLIENT: ConnectionId = ConnectionId::new(0, 0);
const SERVER: ConnectionId = ConnectionId::new(1, 0);
const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const CONTENT_BYTES: usize = 64 * 1024;

/// A client of a proxy that replays the stored response to `GET`.
fn with_stored_response(limits: Limits) -> (Driven, Proxy) {
    let peer = "192.0.2.1:9".parse().unwrap();
    let group = Group::new(GroupSettings::default(), vec![upstream_at("up0.example:80", peer)]).unwrap();
    let cache = Cache::new(CacheSettings::new(4 << 20)).unwrap();
    let parts = Parts::new(Settings { limits, ..silent() }, WallClock::starting_at(UnixSeconds(THEN)));
    let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), cache: Some(cache), ..parts }).unwrap();
    let mut driven = Driven::new(&proxy, 0);
    driven.0.handle_accepted(
        Instant::ZERO,
        CLIENT,
        Accepted { listener: ListenerId(0), peer: Some(peer) },
        &mut driven.1,
    );
    let [Action::Connect(ticket, _)] = driven.receive(CLIENT, GET)[..] else { panic!("nothing is stored yet") };
    driven.0.handle_connected(Instant::ZERO, ticket, Ok(Connected::plain(SERVER)), &mut driven.1);
    let length = format!("Content-Length: {CONTENT_BYTES}");
    let response = head(&["HTTP/1.1 200 OK", &length, "Cache-Control: max-age=60"]) + &"x".repeat(CONTENT_BYTES);
    driven.receive(SERVER, &response);
    for _ in 0..3 {
        driven.receive(CLIENT, GET);
    }
    assert_eq!(proxy.counts().requests_replayed, 2, "all hits but the first are replayed");
    (driven, proxy)
}

/// Returns the number of bytes taken.
fn lend(driven: &mut Driven, now: Instant, bytes: &str) -> usize {
    let received = Received { bytes: bytes.as_bytes(), ended: false, arrived_at: now };
    driven.0.handle_received(now, CLIENT, received, &mut driven.1)
}

#[test]
fn turn_ends_after_a_mebibyte() {
    let (mut driven, _) = with_stored_response(Limits::default());
    assert_eq!(lend(&mut driven, Instant::ZERO, &GET.repeat(20)), (1 << 20) / CONTENT_BYTES * GET.len());
    assert!(driven.actions().iter().any(|action| matches!(action, Action::Resume(id) if *id == CLIENT)));
    driven.lend(CLIENT, &GET.repeat(4));
}

/// A further request waits whenever a call ends, but none for long.
#[test]
fn pipelining_client_is_not_late() {
    let second = Duration::from_secs(1);
    let limits = Limits { pipeline_depth_max: 1, head_timeout: 10 * second, ..Limits::default() };
    let (mut driven, proxy) = with_stored_response(limits);
    for round in 1..=4 {
        let now = Instant::ZERO + round * 6 * second;
        driven.0.handle_deadline(now, &mut driven.1);
        assert_eq!(lend(&mut driven, now, &GET.repeat(2)), GET.len(), "round {round}");
    }
    assert_eq!(proxy.counts().requests_replayed, 6);
}
