//! The node on each driver: real sockets, small and large messages in both directions.

#![allow(clippy::disallowed_types, reason = "here are real sockets")]

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Group, GroupSettings, HealthSettings, UpstreamStatus};
use breme_base::WallClock;
use breme_cache::Cache;
use breme_driver::{Clock, DriverHandle, DriverKind, DriverSettings, Listener, start};
use breme_node::Node;
use breme_proxy::{Parts, Proxy, ProxyCounts, Settings};
use breme_testkit::{Client, Script, Surroundings};

use crate::support::{Acts, ScriptedUpstream, head, silent, text, upstream_at};

/// No passing test waits as long.
const PATIENCE: Duration = Duration::from_secs(120);

fn serve<N: Node + Send + 'static>(
    kind: DriverKind,
    threads: usize,
    node: impl FnMut(breme_node::Shard) -> N,
) -> (std::net::SocketAddr, DriverHandle<N>) {
    let settings = DriverSettings { threads, send_queue_high_bytes: 64 << 10, ..DriverSettings::default() };
    let listener = Listener::bind(std::net::SocketAddr::from(([127, 0, 0, 1], 0)), &settings).unwrap();
    let address = listener.address().tcp().unwrap();
    (address, start(kind, vec![listener], &settings, Clock::start(), node).unwrap())
}

/// Runs client scripts against a proxy with one upstream. Deviations from the scripts fail the test.
fn play(kind: DriverKind, settings: Settings, clients: &[Script], upstream: &[Acts]) -> ProxyCounts {
    let threads = if kind == DriverKind::Threads { clients.len() } else { 1 };
    let (upstream_address, upstream_running) =
        serve(DriverKind::Events, 1, |_| ScriptedUpstream::new(upstream.to_vec()));
    let clock = Clock::start();
    let parts = Parts::new(settings, WallClock::starting_at(breme_base::UnixSeconds(crate::support::THEN)));
    let group = Group::new(GroupSettings::default(), vec![upstream_at("up.example:80", upstream_address)]).unwrap();
    let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap();
    let node = proxy.clone();
    let (address, running) = serve(kind, threads, move |shard| node.node(shard));
    let stopper = running.stopper();
    let surroundings = Surroundings {
        server: address.into(),
        nobody: "127.0.0.1:1".parse().unwrap(),
        stop_server: Arc::new(move || stopper.drain()),
    };
    let settings = DriverSettings { threads: 1, ..DriverSettings::default() };
    let playing = start(DriverKind::Events, Vec::new(), &settings, clock, |_| {
        Client::new(&surroundings, PATIENCE, clients.to_vec())
    });
    let client = playing.unwrap().join().remove(0).unwrap();
    assert_eq!(client.failures(), [""; 0], "{kind}");
    running.stopper().drain();
    for node in running.join() {
        node.unwrap_or_else(|panic| panic!("{kind}: {panic}"));
    }
    upstream_running.stopper().drain();
    let upstream = upstream_running.join().remove(0).unwrap();
    assert_eq!(upstream.failures(), [""; 0], "{kind}");
    let counts = proxy.counts();
    assert_eq!((counts.exchanges_open, counts.pool_idle, counts.pool_busy), (0, 0, 0), "{kind}: {counts:?}");
    counts
}

fn kinds() -> impl Iterator<Item = DriverKind> {
    let uring = breme_driver::probe_uring().is_ok().then_some(DriverKind::Uring);
    [DriverKind::Threads, DriverKind::Events].into_iter().chain(uring)
}

#[test]
fn sequential_exchanges_on_every_driver() {
    let request = head(&["GET /a HTTP/1.1", "Host: a.example"]);
    let answer = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Date: x"]) + "hello";
    for kind in kinds() {
        let mut client = Script::new().connect();
        let mut upstream = Acts::new();
        for _ in 0..10 {
            client = client.send(text(&request)).expect(text(&answer));
            upstream = upstream.expect(&request).send(&answer);
        }
        let counts = play(kind, silent(), &[client.part()], &[upstream.expect_end()]);
        assert_eq!((counts.connects, counts.reuses), (1, 9), "{kind}");
    }
}

#[test]
fn long_bodies_on_every_driver() {
    const BYTES: usize = 20 << 20;
    let content = "0123456789abcdef".repeat(BYTES / 16);
    let framing = format!("Content-Length: {BYTES}");
    let request = head(&["PUT /a HTTP/1.1", "Host: a.example", &framing]) + &content;
    let answer = head(&["HTTP/1.1 200 OK", &framing, "Date: x"]) + &content;
    for kind in kinds() {
        let client = Script::new().connect().send(text(&request)).expect(text(&answer)).part();
        let upstream = Acts::new().expect(&request).send(&answer).expect_end();
        let counts = play(kind, silent(), &[client], &[upstream]);
        assert_eq!((counts.bytes_upstream, counts.bytes_downstream), (BYTES as u64, BYTES as u64), "{kind}");
    }
}

/// Sends one request on a new connection and returns the content.
#[allow(clippy::disallowed_types, reason = "a client of its own")]
fn fetch(address: std::net::SocketAddr, request: &str, content_bytes: usize) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        answer.extend_from_slice(&buffer[..count]);
        let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n").map(|place| place + 4);
        if count == 0 || head_end.is_some_and(|end| answer.len() >= end + content_bytes) {
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.escape_ascii());
            return String::from_utf8(answer.split_off(head_end.unwrap())).unwrap();
        }
    }
}

/// Forty clients on four shards (with the pool of threads, each on its own): one fetches, the others follow it or hit.
#[test]
fn misses_on_all_shards_collapse() {
    const CLIENTS: usize = 40;
    const CONTENT_BYTES: usize = 300_000;
    let request = head(&["GET /a HTTP/1.1", "Host: a.example"]);
    let content = "0123456789".repeat(CONTENT_BYTES / 10);
    let length = format!("Content-Length: {CONTENT_BYTES}");
    let lines = ["HTTP/1.1 200 OK", &length, "Date: Sun, 06 Nov 1994 08:49:37 GMT", "Cache-Control: max-age=60"];
    let acts = Acts::new().expect(&request).wait(Duration::from_millis(50)).send(head(&lines) + &content).expect_end();
    for kind in kinds() {
        let (upstream_address, upstream) = serve(DriverKind::Events, 1, |_| ScriptedUpstream::new(vec![acts.clone()]));
        let cache = Cache::new(breme_cache::CacheSettings::new(16 << 20)).unwrap();
        let group = Group::new(GroupSettings::default(), vec![upstream_at("up.example:80", upstream_address)]).unwrap();
        let parts = Parts::new(silent(), WallClock::starting_at(breme_base::UnixSeconds(crate::support::THEN)));
        let parts = Parts { group: Some(Arc::new(group)), cache: Some(cache.clone()), ..parts };
        let proxy = Proxy::new(parts).unwrap();
        let node = proxy.clone();
        let (address, running) =
            serve(kind, if kind == DriverKind::Threads { CLIENTS } else { 4 }, move |shard| node.node(shard));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let request = request.clone();
                #[allow(clippy::disallowed_methods, reason = "clients of their own")]
                std::thread::spawn(move || fetch(address, &request, CONTENT_BYTES))
            })
            .collect();
        for client in clients {
            assert_eq!(client.join().unwrap(), content, "{kind}");
        }
        running.stopper().drain();
        for node in running.join() {
            node.unwrap_or_else(|panic| panic!("{kind}: {panic}"));
        }
        upstream.stopper().drain();
        assert_eq!(upstream.join().remove(0).unwrap().failures(), [""; 0], "{kind}");
        let counts = proxy.counts();
        assert_eq!((counts.connects, counts.cache_misses), (1, 1), "{kind}: {counts:?}");
        assert_eq!(counts.cache_collapsed + counts.cache_hits, CLIENTS as u64 - 1, "{kind}: {counts:?}");
        assert_eq!(cache.statistics().fills, 0, "{kind}");
    }
}

#[test]
fn health_checks_on_every_driver() {
    let question = head(&[
        "GET /health HTTP/1.1",
        "Host: up.example:80",
        "Connection: close",
        "User-Agent: breme (health check)",
        "Accept: */*",
    ]);
    for kind in kinds() {
        let checks = Acts::new().expect(&question).send(head(&["HTTP/1.1 503 Service Unavailable"])).expect_end();
        let (address, upstream) = serve(DriverKind::Events, 1, |_| ScriptedUpstream::new(vec![checks.clone()]));
        let health = HealthSettings { path: "/health".to_owned(), ..HealthSettings::default() };
        let settings = GroupSettings { health: Some(health), ..GroupSettings::default() };
        let group = Arc::new(Group::new(settings, vec![upstream_at("up.example:80", address)]).unwrap());
        let parts = Parts::new(silent(), WallClock::starting_at(breme_base::UnixSeconds(crate::support::THEN)));
        let proxy = Proxy::new(Parts { group: Some(Arc::clone(&group)), ..parts }).unwrap();
        let (_, running) = serve(kind, 2, move |shard| proxy.node(shard));
        let clock = Clock::start();
        while group.states(breme_base::Instant::ZERO)[0].status != UpstreamStatus::Down {
            assert!(clock.now() < breme_base::Instant::ZERO + PATIENCE, "{kind}: nobody has checked");
            std::thread::yield_now();
        }
        running.stopper().drain();
        running.join().into_iter().for_each(|node| drop(node.unwrap()));
        upstream.stopper().drain();
        assert_eq!(upstream.join().remove(0).unwrap().failures(), [""; 0], "{kind}");
    }
}
