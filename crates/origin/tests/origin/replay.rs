//! Replayed responses are indistinguishable from parsed ones, in bytes and in counters.

use std::sync::Arc;
use std::time::Duration;

use breme_base::{UnixSeconds, WallClock};
use breme_http::Limits;
use breme_node::CloseReason;
use breme_origin::{FileCacheLimits, MemoryRoot, Settings, Site, SiteCounts};
use proptest::prelude::*;

use crate::support::{Peer, THEN_NS, TODAY, lab, request};

/// The same site twice: one replays, the other parses everything.
struct Twins {
    roots: [Arc<MemoryRoot>; 2],
    sites: [Site; 2],
    peers: Option<[Peer; 2]>,
}

impl Twins {
    fn new(settings: &Settings) -> Self {
        let roots = [(); 2].map(|()| Arc::new(files()));
        let settings = [settings.clone(), Settings { replay_cache_bytes_max: 0, ..settings.clone() }];
        let clock = || WallClock::starting_at(UnixSeconds(TODAY));
        let sites =
            [0, 1].map(|index| Site::new(settings[index].clone(), Some(roots[index].clone()), None, clock()).unwrap());
        let peers = Some([Peer::new(&sites[0]), Peer::new(&sites[1])]);
        Self { roots, sites, peers }
    }

    fn each(&mut self, act: impl Fn(&mut Peer)) {
        self.peers.as_mut().unwrap().iter_mut().for_each(act);
        let [repeating, reading] = self.peers.as_ref().unwrap();
        assert_eq!(repeating.text(), reading.text());
        assert_eq!(repeating.closed, reading.closed);
    }

    /// Another connection to the same nodes.
    fn reconnect(&mut self) {
        let peers = self.peers.take().unwrap().map(|mut peer| {
            peer.drop_connection(CloseReason::Reset);
            let now = peer.now;
            let mut peer = Peer::from_node(peer.node);
            peer.wait(Duration::from_nanos(now.as_nanos()));
            peer
        });
        self.peers = Some(peers);
    }

    fn write(&self, name: &str, content: &str, seconds: u64) {
        let modified_ns = i128::from(TODAY - 3600 + seconds) * 1_000_000_000;
        self.roots.iter().for_each(|root| root.write(name, content.to_owned(), modified_ns));
    }

    /// Returns the number of replayed requests.
    fn check_counts(&self) -> u64 {
        let [repeating, reading] = [0, 1].map(|index| self.sites[index].counts());
        assert_eq!(reading.repeated, 0);
        let repeated = repeating.repeated;
        let without = |mut counts: SiteCounts| {
            counts.repeated = 0;
            format!("{counts:?}")
        };
        assert_eq!(without(repeating), without(reading));
        repeated
    }
}

fn files() -> MemoryRoot {
    let root = MemoryRoot::new();
    root.write("index.html", "<p>home</p>", THEN_NS);
    root.write("digits", "0123456789", THEN_NS);
    root.write("large", "x".repeat(10_000), THEN_NS);
    root.write("style.css", "body{}".repeat(100), THEN_NS);
    root.write("style.css.gz", "packed", THEN_NS);
    root
}

fn repeated(twins: &mut Twins, request: &str, times: u64) -> u64 {
    let before = twins.check_counts();
    for _ in 0..times {
        twins.each(|peer| peer.send(request));
    }
    twins.check_counts() - before
}

#[test]
fn replays_third_request() {
    let conditions = ["If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"];
    for request in [
        request("GET", "/digits", &[]),
        request("GET", "/large", &[]),
        request("HEAD", "/large", &[]),
        request("GET", "/?x=y", &["Cookie: a=b"]),
        request("GET", "/style.css", &["Accept-Encoding: gzip"]),
        request("GET", "/digits", &conditions),
        request("GET", "/digits", &["Range: bytes=2-5"]),
        request("GET", "/bytes/13", &[]),
        request("GET", "http://site.example/digits", &[]),
    ] {
        let mut twins = Twins::new(&lab());
        assert_eq!(repeated(&mut twins, &request, 5), 3, "{request}");
        twins.reconnect();
        assert_eq!(repeated(&mut twins, &request.repeat(16), 2), 32, "{request}");
    }
}

#[test]
fn varying_responses_are_not_replayed() {
    let long = format!("X: {}", "x".repeat(1024));
    for request in [
        request("GET", "/none", &[]),
        request("GET", "/counter", &[]),
        request("GET", "/delay/0", &[]),
        request("GET", "/digits", &["Range: bytes=0-1,3-4"]),
        request("GET", "/bytes/16384", &[]),
        request("GET", "/digits", &[&long]),
        request("OPTIONS", "/digits", &[]),
        request("POST", "/digits", &["Content-Length: 0"]),
        request("GET", "/digits", &[]).replace("1.1", "1.0").replace("\r\n\r\n", "\r\nConnection: keep-alive\r\n\r\n"),
        format!("\r\n{}", request("GET", "/digits", &[])),
    ] {
        assert_eq!(repeated(&mut Twins::new(&lab()), &request, 4), 0, "{request}");
    }
}

#[test]
fn replay_sees_file_changes_in_time() {
    let files = FileCacheLimits { revalidate_after: Duration::from_secs(1), ..FileCacheLimits::default() };
    let mut twins = Twins::new(&Settings { files, ..lab() });
    let request = request("GET", "/digits", &[]);
    assert_eq!(repeated(&mut twins, &request, 4), 2);
    twins.write("digits", "changed", 1);
    twins.each(|peer| peer.wait(Duration::from_millis(999)));
    assert_eq!(repeated(&mut twins, &request, 1), 1);
    twins.each(|peer| peer.wait(Duration::from_millis(1)));
    assert_eq!(repeated(&mut twins, &request, 1), 0, "looked at");
    assert!(twins.peers.as_ref().unwrap()[0].text().ends_with("changed"));
    assert_eq!(repeated(&mut twins, &request, 4), 4, "known again");
}

#[test]
fn replay_updates_date() {
    let files = FileCacheLimits { revalidate_after: Duration::from_secs(60), ..FileCacheLimits::default() };
    for target in ["/digits", "/large"] {
        let mut twins = Twins::new(&Settings { files, ..Settings::default() });
        let request = request("GET", target, &[]);
        assert_eq!(repeated(&mut twins, &request, 4), 2);
        let dates = |twins: &Twins| {
            let responses = twins.peers.as_ref().unwrap()[0].responses();
            responses.last().unwrap().field("Date").unwrap().to_owned()
        };
        let before = dates(&twins);
        twins.each(|peer| peer.wait(Duration::from_secs(2)));
        assert_eq!(repeated(&mut twins, &request, 1), 1);
        assert_ne!(dates(&twins), before);
    }
}

#[test]
fn replay_respects_request_limit_and_stop() {
    let limits = Limits { requests_max: 6, ..Limits::default() };
    let mut twins = Twins::new(&Settings { limits, ..lab() });
    let request = request("GET", "/digits", &[]);
    assert_eq!(repeated(&mut twins, &request, 6), 3, "the sixth says that it is the last");
    assert!(twins.peers.as_ref().unwrap()[0].closed.is_some());
    twins.reconnect();
    twins.each(Peer::stop);
    assert_eq!(repeated(&mut twins, &request, 1), 0);
    assert!(twins.peers.as_ref().unwrap()[0].text().contains("Connection: close"));
}

#[test]
fn replay_memory_is_bounded() {
    let limit = 64 * 1024;
    let mut twins = Twins::new(&Settings { replay_cache_bytes_max: limit, ..lab() });
    let request_with = |index: usize| request("GET", "/large", &[&format!("Cookie: number={index}")]);
    for index in 0..20 {
        assert_eq!(repeated(&mut twins, &request_with(index), 3), 1);
    }
    let kept: u64 = (0..20).rev().map(|index| repeated(&mut twins, &request_with(index), 1)).sum();
    assert!((1..=limit as u64 / 10_000).contains(&kept), "{kept}");
}

#[derive(Clone, Debug)]
enum ReceiveStep {
    /// This request, repeated; of the last one only this percentage of the bytes.
    Request(usize, usize, usize),
    Wait(u64),
    Change(usize, u64),
    Reconnect,
    Stop,
}

const REQUESTS: &[&str] = &[
    "GET /digits HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /digits HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /bytes/13 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /style.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
    "GET /digits HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
    "GET /digits HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET /digits HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /digits HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /digits HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /counter HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /delay/5 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /digits HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "GET /digits HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /digits HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
    "GET /digits HTTP/1.1\r\nHost: a\n\n",
];

const CHANGED: &[&str] = &["digits", "large", "style.css.gz", "index.html"];

fn step() -> impl Strategy<Value = ReceiveStep> {
    prop_oneof![
        // Mostly persistent ones.
        20 => (0..9_usize, 1..5_usize, prop_oneof![4 => Just(100), 1 => 0..100_usize])
            .prop_map(|(index, times, part)| ReceiveStep::Request(index, times, part)),
        4 => (0..REQUESTS.len()).prop_map(|index| ReceiveStep::Request(index, 1, 100)),
        3 => (0..1500_u64).prop_map(ReceiveStep::Wait),
        1 => (0..CHANGED.len(), 0..5000_u64).prop_map(|(index, seconds)| ReceiveStep::Change(index, seconds)),
        1 => Just(ReceiveStep::Reconnect),
        1 => prop_oneof![9 => Just(ReceiveStep::Reconnect), 1 => Just(ReceiveStep::Stop)],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replay_equals_parsing(steps in prop::collection::vec(step(), 1..60), requests_max in prop_oneof![Just(u64::MAX), 2..20_u64]) {
        let limits = Limits { requests_max, pipeline_depth_max: 3, ..Limits::default() };
        let mut twins = Twins::new(&Settings { limits, ..lab() });
        for step in steps {
            match step {
                ReceiveStep::Request(index, times, part) => {
                    let bytes = REQUESTS[index].repeat(times);
                    let sent = bytes.len() - REQUESTS[index].len() * (100 - part) / 100;
                    twins.each(|peer| peer.send(&bytes[..sent]));
                    twins.each(|peer| peer.send(&bytes[sent..]));
                }
                ReceiveStep::Wait(millis) => twins.each(|peer| peer.wait(Duration::from_millis(millis))),
                ReceiveStep::Change(index, seconds) => twins.write(CHANGED[index], &format!("changed {seconds}"), seconds),
                ReceiveStep::Reconnect => twins.reconnect(),
                ReceiveStep::Stop => twins.each(Peer::stop),
            }
            if twins.peers.as_ref().is_some_and(|peers| peers[0].closed.is_some()) {
                twins.reconnect();
            }
            twins.check_counts();
        }
    }
}
