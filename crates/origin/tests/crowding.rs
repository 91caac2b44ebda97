//! Who must go, and when, while others wait for places.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod support;

use std::time::Duration;

use breme_http1::{CROWDED_IDLE_TIMEOUT, Limits};
use breme_node::Close;
use breme_origin::{Settings, Site};
use support::{Peer, lab, request, site};

const NANOSECOND: Duration = Duration::from_nanos(1);
const SECOND: Duration = Duration::from_secs(1);

/// Nobody who is idle goes by itself.
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
fn whoever_asks_for_nothing_stays_for_a_short_time_only() {
    for site in [patient(), site(lab(), None, None)] {
        let mut asked = Peer::new(&site);
        asked.crowd(true);
        asked.wait(CROWDED_IDLE_TIMEOUT / 2);
        asked.send(request("GET", "/bytes/1", &[]));
        require_gone_after(&mut asked, CROWDED_IDLE_TIMEOUT);
        let mut silent = Peer::new(&site);
        silent.crowd(true);
        require_gone_after(&mut silent, CROWDED_IDLE_TIMEOUT);
        assert_eq!((site.answered(), site.counts().crowded_out), (1, 2));
    }
}

#[test]
fn the_time_before_the_crowd_counts() {
    let site = site(lab(), None, None);
    let mut peer = Peer::new(&site);
    peer.send(request("GET", "/bytes/1", &[]));
    peer.wait(CROWDED_IDLE_TIMEOUT / 4);
    peer.crowd(true);
    require_gone_after(&mut peer, CROWDED_IDLE_TIMEOUT / 4 * 3);
    let mut longer = Peer::new(&site);
    longer.wait(SECOND);
    longer.crowd(true);
    require_gone_after(&mut longer, Duration::ZERO);
}

#[test]
fn when_nobody_waits_any_more_the_ordinary_time_holds_from_its_beginning() {
    let site = site(lab(), None, None);
    let idle = Limits::default().idle_timeout;
    let mut peer = Peer::new(&site);
    for is_crowded in [true, false, true, false] {
        peer.crowd(is_crowded);
        peer.wait(CROWDED_IDLE_TIMEOUT / 10);
    }
    require_gone_after(&mut peer, idle - CROWDED_IDLE_TIMEOUT / 10 * 4);
    assert_eq!(site.counts().crowded_out, 0);
}

#[test]
fn an_ordinary_time_that_is_shorter_holds_in_a_crowd_too() {
    let limits = Limits { idle_timeout: CROWDED_IDLE_TIMEOUT / 2, ..Limits::default() };
    let mut peer = Peer::new(&site(Settings { limits, ..lab() }, None, None));
    peer.crowd(true);
    require_gone_after(&mut peer, CROWDED_IDLE_TIMEOUT / 2);
}

#[test]
fn what_is_under_way_has_its_own_time() {
    let begun = [
        (String::from("GET /bytes/1 HTTP/1.1\r\n"), String::from("Host: a\r\n\r\n"), Duration::ZERO),
        (request("POST", "/", &["Content-Length: 2"]) + "h", String::from("i"), Duration::ZERO),
        (request("GET", "/delay/5000", &[]), String::new(), 5 * SECOND),
    ];
    for (first, rest, delay) in begun {
        let mut peer = Peer::new(&patient());
        peer.send(&first);
        peer.crowd(true);
        peer.wait(4 * SECOND);
        assert_eq!((peer.closed, peer.output.len()), (None, 0), "{first:?}");
        peer.send(&rest);
        peer.wait(delay.saturating_sub(4 * SECOND));
        assert_eq!(peer.answers()[0].status, 200, "{first:?}");
        require_gone_after(&mut peer, CROWDED_IDLE_TIMEOUT);
    }
}

#[test]
fn a_peer_that_has_not_read_its_answer_is_not_idle() {
    let mut peer = Peer::new(&patient());
    peer.queue_max = 1000;
    peer.send(request("GET", "/bytes/5000", &[]));
    peer.crowd(true);
    peer.wait(3600 * SECOND);
    assert_eq!(peer.closed, None);
    peer.read_all();
    require_gone_after(&mut peer, CROWDED_IDLE_TIMEOUT);
}

#[test]
fn who_is_to_go_since_the_program_ends_goes_for_that() {
    for crowd_is_first in [true, false] {
        let site = patient();
        let mut peer = Peer::new(&site);
        if crowd_is_first {
            peer.crowd(true);
        }
        peer.stop();
        if !crowd_is_first {
            peer.crowd(true);
        }
        require_gone_after(&mut peer, Settings::default().stopping_linger);
        assert_eq!(site.counts().crowded_out, 0);
    }
}
