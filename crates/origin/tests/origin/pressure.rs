//! Evictions under connection pressure.

use std::time::Duration;

use breme_base::Instant;
use breme_http::Limits;
use breme_node::{
    Actions, Close, CloseReason, Node, PRESSURE_GRACE, PRESSURE_IDLE_TIMEOUT, PRESSURE_RATE_MIN, PRESSURE_TURN,
};
use breme_origin::{Settings, Site};

use crate::support::{Peer, lab, node, request, site};

const NANOSECOND: Duration = Duration::from_nanos(1);
const SECOND: Duration = Duration::from_secs(1);

/// No client is idle long enough to time out.
fn patient() -> Site {
    let limits = Limits { idle_timeout: Duration::MAX, ..Limits::default() };
    site(Settings { limits, ..lab() }, None, None)
}

fn require_gone_after(peer: &mut Peer, patience: Duration) {
    if let Some(before) = patience.checked_sub(NANOSECOND) {
        peer.wait(before);
        assert_eq!(peer.closed, None, "too early");
        peer.wait(NANOSECOND);
    } else {
        peer.wait(patience);
    }
    assert_eq!(peer.closed, Some(Close::Graceful), "it stays");
}

#[test]
fn pressure_shortens_idle_timeout() {
    for site in [patient(), site(lab(), None, None)] {
        let mut active = Peer::new(&site);
        active.pressure(true);
        active.wait(PRESSURE_IDLE_TIMEOUT / 2);
        active.send(request("GET", "/bytes/1", &[]));
        require_gone_after(&mut active, PRESSURE_IDLE_TIMEOUT);
        let mut silent = Peer::new(&site);
        silent.pressure(true);
        require_gone_after(&mut silent, PRESSURE_IDLE_TIMEOUT);
        assert_eq!((site.responses_total(), site.counts().evicted), (1, 2));
    }
}

#[test]
fn idle_time_before_pressure_counts() {
    let site = site(lab(), None, None);
    let mut peer = Peer::new(&site);
    peer.send(request("GET", "/bytes/1", &[]));
    peer.wait(PRESSURE_IDLE_TIMEOUT / 4);
    peer.pressure(true);
    require_gone_after(&mut peer, PRESSURE_IDLE_TIMEOUT / 4 * 3);
    let mut longer = Peer::new(&site);
    longer.wait(SECOND);
    longer.pressure(true);
    require_gone_after(&mut longer, Duration::ZERO);
}

/// For each response whether it announces the end of the connection.
fn announcements(peer: &Peer) -> Vec<bool> {
    peer.responses().iter().map(|response| response.field("Connection") == Some("close")).collect()
}

/// Each request arrives before the client is idle for too long; the third is replayed.
#[test]
fn busy_client_leaves_after_a_turn() {
    let site = patient();
    let mut peer = Peer::new(&site);
    peer.wait(10 * SECOND);
    peer.pressure(true);
    let step = PRESSURE_TURN / 8;
    for _ in 0..8 {
        peer.send(request("GET", "/bytes/1", &[]));
        peer.wait(step);
    }
    assert!(site.counts().repeated > 0);
    assert_eq!((announcements(&peer), peer.closed, site.counts().evicted), (vec![false; 8], None, 0));
    peer.send(request("GET", "/bytes/1", &[]).repeat(3));
    assert_eq!((&announcements(&peer)[8..], peer.closed), (&[false, false, true][..], Some(Close::Graceful)));
    assert_eq!(site.counts().evicted, 1);
}

#[test]
fn turn_begins_at_accept_under_pressure() {
    let site = patient();
    let mut node = node(&site);
    let mut actions = Actions::new();
    node.handle_pressure(Instant::ZERO, true, &mut actions);
    let mut peer = Peer::from_node_at(node, Instant::ZERO + 10 * SECOND);
    peer.send(request("GET", "/bytes/1", &[]));
    peer.wait(PRESSURE_TURN / 8);
    peer.send(request("POST", "/echo", &["Content-Length: 2"]));
    peer.wait(PRESSURE_TURN);
    peer.send("hi");
    assert_eq!((announcements(&peer), peer.closed), (vec![false, true], Some(Close::Graceful)));
}

#[test]
fn no_evictions_without_pressure() {
    let site = patient();
    let mut peer = Peer::new(&site);
    peer.pressure(true);
    peer.send("GET /bytes/1 HTTP/1.1\r\n");
    peer.wait(3 * PRESSURE_TURN / 2);
    peer.pressure(false);
    peer.send("Host: a\r\n\r\n");
    assert_eq!((announcements(&peer), peer.closed, site.counts().evicted), (vec![false], None, 0));
}

#[test]
fn timeouts_recover_after_pressure() {
    let site = site(lab(), None, None);
    let idle = Limits::default().idle_timeout;
    let mut peer = Peer::new(&site);
    for is_under_pressure in [true, false, true, false] {
        peer.pressure(is_under_pressure);
        peer.wait(PRESSURE_IDLE_TIMEOUT / 10);
    }
    require_gone_after(&mut peer, idle - PRESSURE_IDLE_TIMEOUT / 10 * 4);
    assert_eq!(site.counts().evicted, 0);
}

#[test]
fn shorter_timeouts_hold_under_pressure() {
    let limits = Limits { idle_timeout: PRESSURE_IDLE_TIMEOUT / 2, ..Limits::default() };
    let mut peer = Peer::new(&site(Settings { limits, ..lab() }, None, None));
    peer.pressure(true);
    require_gone_after(&mut peer, PRESSURE_IDLE_TIMEOUT / 2);
}

#[test]
fn exchanges_keep_their_timeouts() {
    let begun = [
        (String::from("GET /bytes/1 HTTP/1.1\r\n"), String::from("Host: a\r\n\r\n"), SECOND - NANOSECOND),
        (request("POST", "/", &["Content-Length: 2"]) + "h", String::from("i"), SECOND - NANOSECOND),
        (request("GET", "/delay/5000", &[]), String::new(), 4 * SECOND),
    ];
    for (first, rest, time) in begun {
        let mut peer = Peer::new(&patient());
        peer.send(&first);
        peer.pressure(true);
        peer.wait(time);
        assert_eq!((peer.closed, peer.output.len()), (None, 0), "{first:?}");
        peer.send(&rest);
        peer.wait(SECOND);
        assert_eq!(peer.responses()[0].status, 200, "{first:?}");
        assert_eq!(peer.closed, Some(Close::Graceful), "it has had its context");
    }
}

#[test]
fn slow_reader_is_not_idle() {
    let mut peer = Peer::new(&patient());
    peer.queue_max = 1000;
    peer.send(request("GET", "/bytes/5000", &[]));
    peer.pressure(true);
    peer.wait(3600 * SECOND);
    assert_eq!(peer.closed, None, "the driver closes it");
    peer.read_all();
    require_gone_after(&mut peer, PRESSURE_IDLE_TIMEOUT);
}

/// A client of a server under lasting pressure.
fn late(site: &Site) -> Peer {
    let mut node = node(site);
    node.handle_pressure(Instant::ZERO, true, &mut Actions::new());
    Peer::from_node_at(node, Instant::ZERO + PRESSURE_GRACE)
}

#[test]
fn lasting_pressure_evicts_slow_senders() {
    let slow = [
        (String::from("GET / HTTP/1.1\r\n"), "X: y\r\n"),
        (request("POST", "/", &["Content-Length: 10"]), "h"),
        (request("POST", "/echo", &["Content-Length: 10"]), "h"),
    ];
    for (first, more) in slow {
        let site = patient();
        let mut peer = late(&site);
        peer.send(&first);
        peer.wait(PRESSURE_IDLE_TIMEOUT - NANOSECOND);
        peer.send(more);
        assert_eq!(peer.closed, None, "{first:?}");
        peer.wait(NANOSECOND);
        assert_eq!((peer.closed, site.counts().evicted), (Some(Close::Graceful), 1), "{first:?}");
        assert_eq!(peer.responses()[0].status, 408);
    }
}

/// It may take as long as the minimum rate permits, without a pause of more than a turn.
#[test]
fn sender_at_minimum_rate_stays() {
    let site = patient();
    let mut peer = late(&site);
    peer.send(request("POST", "/", &["Content-Length: 60000"]));
    for _ in 0..10 {
        peer.wait(SECOND / 10);
        peer.send("x".repeat(PRESSURE_RATE_MIN as usize / 10 + 1));
        assert_eq!(peer.closed, None);
    }
    peer.send("x".repeat(40_000));
    peer.wait(PRESSURE_TURN - NANOSECOND);
    assert_eq!(peer.closed, None);
    peer.wait(NANOSECOND);
    assert_eq!(peer.closed, Some(Close::Graceful));
}

/// Clients that were there before get a second; later ones get 200 ms.
#[test]
fn slow_sender_leaves_after_a_second_of_pressure() {
    let site = patient();
    let mut peer = Peer::new(&site);
    peer.pressure(true);
    peer.wait(PRESSURE_IDLE_TIMEOUT / 2);
    peer.send("GET / HTTP/1.1\r\n");
    peer.wait(PRESSURE_GRACE - PRESSURE_IDLE_TIMEOUT / 2 - NANOSECOND);
    assert_eq!(peer.closed, None);
    peer.wait(NANOSECOND);
    assert_eq!(peer.closed, Some(Close::Graceful));
}

#[test]
fn counts_slow_readers_closed_by_driver() {
    let site = patient();
    let mut peer = Peer::new(&site);
    peer.drop_connection(CloseReason::Reset);
    assert_eq!(site.counts().evicted, 0);
    let mut peer = Peer::new(&site);
    peer.drop_connection(CloseReason::Evicted);
    assert_eq!(site.counts().evicted, 1);
}

#[test]
fn evicts_slow_sender_under_pressure() {
    let slow = [(String::from("GET / HTTP/1.1\r\n"), "X: y\r\n"), (request("POST", "/", &["Content-Length: 10"]), "h")];
    for (first, more) in slow {
        for pressure_is_first in [true, false] {
            let site = patient();
            let mut peer = Peer::new(&site);
            if pressure_is_first {
                peer.pressure(true);
            }
            peer.send(&first);
            if !pressure_is_first {
                peer.pressure(true);
            }
            for _ in 0..4 {
                assert_eq!(peer.closed, None, "{first:?}");
                peer.send(more);
                peer.wait(SECOND / 3);
            }
            assert_eq!((peer.closed, site.counts().evicted), (Some(Close::Graceful), 1), "{first:?}");
        }
    }
}

#[test]
fn stopping_is_not_counted_as_eviction() {
    for pressure_is_first in [true, false] {
        let site = patient();
        let mut peer = Peer::new(&site);
        if pressure_is_first {
            peer.pressure(true);
        }
        peer.stop();
        if !pressure_is_first {
            peer.pressure(true);
        }
        require_gone_after(&mut peer, Settings::default().stopping_linger);
        assert_eq!(site.counts().evicted, 0);
    }
}
