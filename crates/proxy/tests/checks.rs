//! Active checks: what an upstream is asked, and what its answer means for the requests of clients.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod support;

use std::time::Duration;

use breme_balance::{Group, GroupSettings, HealthSettings, Standing};
use breme_base::Instant;
use breme_node::Close;
use breme_sim::Network;
use breme_testkit::Script;
use support::{Acts, Play, head};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";
const GOOD: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BAD: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// Checks at about 0, 1, 2 s …
fn checked() -> GroupSettings {
    let health = HealthSettings {
        path: "/health?deep=1".to_owned(),
        interval: Duration::from_secs(1),
        timeout: Duration::from_millis(500),
        ..HealthSettings::default()
    };
    GroupSettings { health: Some(health), ..GroupSettings::default() }
}

/// What the upstream of this number is asked.
fn question(upstream: usize) -> String {
    head(&[
        "GET /health?deep=1 HTTP/1.1",
        &format!("Host: up{upstream}.example:80"),
        "Connection: close",
        "User-Agent: breme (health check)",
        "Accept: */*",
    ])
}

fn check(upstream: usize, answer: &str) -> Acts {
    Acts::new().expect(question(upstream)).send(answer).expect_end()
}

fn requests(count: usize) -> Acts {
    (0..count).fold(Acts::new(), |acts, _| acts.expect(GET).send(HELLO)).expect_end()
}

/// Waits, then asks so many times.
fn client(wait_ms: u64, count: usize) -> Script {
    let script = Script::new().wait(Duration::from_millis(wait_ms)).connect();
    (0..count).fold(script, |script, _| script.send(GET).expect(HELLO)).part()
}

fn play(client: Script, upstreams: Vec<Vec<Acts>>) -> Play {
    Play { group: checked(), upstreams, ..Play::new(vec![client], Vec::new()) }
}

fn standings(group: &Group) -> Vec<&'static str> {
    group.states(Instant::ZERO).iter().map(|state| state.standing.name()).collect()
}

#[test]
fn an_upstream_is_asked_over_a_connection_of_its_own() {
    for network in [Network::calm(), Network::rough(), Network::bytewise()] {
        let play = play(client(300, 1), vec![vec![check(0, GOOD), requests(1)]]);
        let (counts, group) = Play { network, ..play }.play();
        let state = &group.states(Instant::ZERO)[0];
        assert_eq!((state.checks.good, state.checks.failed, state.totals.answered), (1, 0, 1));
        assert_eq!((counts.connects, counts.reuses), (1, 0), "checks are in no count of clients' requests");
    }
}

#[test]
fn whose_check_fails_is_not_asked() {
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let long = format!("{interim}HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nits content is not waited for");
    let bad = [
        check(0, BAD),
        check(0, "nonsense\r\n\r\n"),
        check(0, "HTTP/1.1 301 Moved"),
        Acts::new().expect(question(0)).close(Close::Abort),
        Acts::new().expect(question(0)).send(interim).finish().expect_end(),
        Acts::new().expect(question(0)).anything(),
        Acts::new().anything(),
    ];
    for bad in bad {
        let (_, group) = play(client(600, 4), vec![vec![bad], vec![check(1, &long), requests(4)]]).play();
        assert_eq!(standings(&group), ["down", "up"]);
    }
}

#[test]
fn nobody_meets_an_upstream_that_refuses_connections() {
    let play = play(client(300, 4), vec![vec![check(0, GOOD), requests(4)]]);
    let (counts, group) = Play { has_dead_upstream: true, ..play }.play();
    assert_eq!((counts.connects_failed, counts.bad_gateway), (0, 0));
    assert_eq!(standings(&group), ["down", "up"]);
}

#[test]
fn good_checks_bring_it_back() {
    let first = vec![check(0, BAD), check(0, GOOD), check(0, GOOD), requests(1)];
    let second = vec![check(1, GOOD), check(1, GOOD), check(1, GOOD), requests(1)];
    let (_, group) = play(client(2_400, 2), vec![first, second]).play();
    let told: Vec<String> = group.take_changes().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["upstream up0.example:80 is down: its check was answered with 503", "upstream up0.example:80 is up"]
    );
}

#[test]
fn if_nobody_is_well_all_are_asked() {
    let (_, group) = play(client(300, 2), vec![vec![check(0, BAD), requests(2)]]).play();
    assert_eq!(group.states(Instant::ZERO)[0].standing, Standing::Down);
}

#[test]
fn stopping_ends_a_check_that_is_under_way() {
    let client = Script::new().connect().expect_end().part();
    let silent = Acts::new().expect(question(0)).expect_end();
    let play = play(client, vec![vec![silent]]);
    let (_, group) = Play { stops_at: Some(Duration::from_millis(200)), ..play }.play();
    assert_eq!(standings(&group), ["up"]);
}

#[test]
fn a_check_of_tls_without_a_client_of_tls_fails() {
    use breme_base::{UnixSeconds, WallClock};
    use breme_node::{Actions, Node, Shard, ShardId};
    let mut upstream = support::upstream_at("up0.example:443", "127.0.0.1:1".parse().unwrap());
    upstream.tls = true;
    let group = std::sync::Arc::new(Group::new(checked(), vec![upstream]).unwrap());
    let parts = breme_proxy::Parts::new(support::silent(), WallClock::starting_at(UnixSeconds(0)));
    let parts = breme_proxy::Parts { group: Some(group.clone()), ..parts };
    let mut node = breme_proxy::Proxy::new(parts).unwrap().node(Shard { id: ShardId(0), count: 1 });
    let (now, mut actions) = (Instant::ZERO + Duration::from_secs(1), Actions::new());
    assert!(node.next_deadline().unwrap() <= now);
    node.handle_deadline(now, &mut actions);
    assert!(actions.is_empty());
    assert_eq!(standings(&group), ["down"]);
    assert!(node.next_deadline().unwrap() > now);
}

#[test]
fn only_the_first_shard_checks() {
    use breme_base::{UnixSeconds, WallClock};
    use breme_node::{Node, Shard, ShardId};
    let upstream = support::upstream_at("up0.example:80", "127.0.0.1:1".parse().unwrap());
    let group = std::sync::Arc::new(Group::new(checked(), vec![upstream]).unwrap());
    let parts = breme_proxy::Parts::new(support::silent(), WallClock::starting_at(UnixSeconds(0)));
    let proxy = breme_proxy::Proxy::new(breme_proxy::Parts { group: Some(group), ..parts }).unwrap();
    let deadline = |shard| proxy.node(Shard { id: ShardId(shard), count: 3 }).next_deadline();
    assert_eq!([deadline(0).is_some(), deadline(1).is_some(), deadline(2).is_some()], [true, false, false]);
}
