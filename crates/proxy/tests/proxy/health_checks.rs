//! Active health checks: their requests, and the effect of their results on client requests.

use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Group, GroupSettings, HealthSettings, UpstreamSettings, UpstreamStatus};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{Action, Actions, Close, CloseReason, Connected, ConnectionId, Node, Shard, ShardId};
use breme_proxy::{Parts, Proxy, ProxyCounts, ProxyNode};
use breme_sim::Network;
use breme_testkit::Script;
use bytes::Bytes;

use crate::support::{Acts, Play, failure, head, later, silent, upstream_at};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";
const GOOD: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BAD: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// Checks at about 0, 1, 2 s and so on.
fn checked() -> GroupSettings {
    let health = HealthSettings {
        path: "/health?deep=1".to_owned(),
        interval: Duration::from_secs(1),
        timeout: Duration::from_millis(500),
        ..HealthSettings::default()
    };
    GroupSettings { health: Some(health), ..GroupSettings::default() }
}

/// The request that checks this upstream.
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

/// Waits, then sends this many requests.
fn client(wait_ms: u64, count: usize) -> Script {
    let script = Script::new().wait(Duration::from_millis(wait_ms)).connect();
    (0..count).fold(script, |script, _| script.send(GET).expect(HELLO)).part()
}

fn play(client: Script, upstreams: Vec<Vec<Acts>>) -> Play {
    Play { group: checked(), upstreams, ..Play::new(vec![client], Vec::new()) }
}

fn statuses(group: &Group) -> Vec<&'static str> {
    group.states(Instant::ZERO).iter().map(|state| state.status.name()).collect()
}

#[test]
fn check_uses_its_own_connection() {
    for network in [Network::calm(), Network::rough(), Network::bytewise()] {
        let play = play(client(300, 1), vec![vec![check(0, GOOD), requests(1)]]);
        let (counts, group) = Play { network, ..play }.run_balanced();
        let state = &group.states(Instant::ZERO)[0];
        assert_eq!((state.checks.good, state.checks.failed, state.totals.responded), (1, 0, 1));
        assert_eq!((counts.connects, counts.reuses), (1, 0), "checks are in no count of clients' requests");
    }
}

#[test]
fn failed_check_removes_upstream() {
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
        let (_, group) = play(client(600, 4), vec![vec![bad], vec![check(1, &long), requests(4)]]).run_balanced();
        assert_eq!(statuses(&group), ["down", "up"]);
    }
}

#[test]
fn refused_check_removes_upstream_before_requests() {
    let play = play(client(300, 4), vec![vec![check(0, GOOD), requests(4)]]);
    let (counts, group) = Play { has_dead_upstream: true, ..play }.run_balanced();
    assert_eq!((counts.connects_failed, counts.bad_gateway), (0, 0));
    assert_eq!(statuses(&group), ["down", "up"]);
}

#[test]
fn good_checks_restore_upstream() {
    let first = vec![check(0, BAD), check(0, GOOD), check(0, GOOD), requests(1)];
    let second = vec![check(1, GOOD), check(1, GOOD), check(1, GOOD), requests(1)];
    let (_, group) = play(client(2_400, 2), vec![first, second]).run_balanced();
    let changes: Vec<String> = group.take_changes().iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        ["upstream up0.example:80 is down: its health check returned status 503", "upstream up0.example:80 is up"]
    );
}

#[test]
fn uses_all_upstreams_if_none_is_healthy() {
    let (_, group) = play(client(300, 2), vec![vec![check(0, BAD), requests(2)]]).run_balanced();
    assert_eq!(group.states(Instant::ZERO)[0].status, UpstreamStatus::Down);
}

/// One upstream passes its first check, takes a request and freezes; the second one works.
fn frozen(client: Script, request: Acts, second: Vec<Acts>, aborts_requests: bool) -> (ProxyCounts, Arc<Group>) {
    let mut group = checked();
    group.health = group.health.map(|health| HealthSettings { fall: 1, aborts_requests, ..health });
    let first = vec![check(0, GOOD), request, Acts::new().anything()];
    Play { group, ..play(client, vec![first, second]) }.run_balanced()
}

#[test]
fn idempotent_request_leaves_an_upstream_that_goes_down() {
    let second = vec![check(1, GOOD), check(1, GOOD), requests(1)];
    let (counts, group) = frozen(client(300, 1), Acts::new().expect(GET).expect_end(), second, true);
    assert_eq!((counts.second_choices, counts.bad_gateway), (1, 0));
    assert_eq!(statuses(&group), ["down", "up"]);
}

#[test]
fn request_that_may_not_be_repeated_fails_when_its_upstream_goes_down() {
    let post = "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n\r\nx";
    let reason = "the upstream did not respond, and failed its health checks";
    let bad_gateway = later(1, failure(502, "destination_unavailable", reason));
    let client =
        Script::new().wait(Duration::from_millis(300)).connect().send(post).expect(Bytes::from(bad_gateway)).part();
    let (counts, _) = frozen(client, Acts::new().expect(post).expect_end(), vec![check(1, GOOD), check(1, GOOD)], true);
    assert_eq!((counts.second_choices, counts.bad_gateway), (0, 1));
}

#[test]
fn request_waits_for_an_upstream_that_goes_down_unless_aborted() {
    let late = Acts::new().expect(GET).wait(Duration::from_millis(1_500)).send(HELLO).expect_end();
    let (counts, group) = frozen(client(300, 1), late, vec![check(1, GOOD), check(1, GOOD)], false);
    assert_eq!((counts.second_choices, counts.bad_gateway), (0, 0));
    assert_eq!(statuses(&group), ["down", "up"]);
}

#[test]
fn stopping_aborts_running_check() {
    let client = Script::new().connect().expect_end().part();
    let silent = Acts::new().expect(question(0)).expect_end();
    let play = play(client, vec![vec![silent]]);
    let (_, group) = Play { stops_at: Some(Duration::from_millis(200)), ..play }.run_balanced();
    assert_eq!(statuses(&group), ["up"]);
}

/// The first of three shards, and its upstream.
fn node(tls: bool) -> (ProxyNode, Arc<Group>) {
    let upstream = UpstreamSettings { tls, ..upstream_at("up0.example:80", "127.0.0.1:1".parse().unwrap()) };
    let group = Arc::new(Group::new(checked(), vec![upstream]).unwrap());
    (shard(&group, 0), group)
}

fn shard(group: &Arc<Group>, id: usize) -> ProxyNode {
    let parts = Parts::new(silent(), WallClock::starting_at(UnixSeconds(0)));
    let proxy = Proxy::new(Parts { group: Some(Arc::clone(group)), ..parts }).unwrap();
    proxy.node(Shard { id: ShardId(id), count: 3 })
}

/// The node's actions when its deadline has passed.
fn actions_at(node: &mut ProxyNode, now: Instant) -> Vec<Action> {
    assert!(node.next_deadline().unwrap() <= now);
    let mut actions = Actions::new();
    node.handle_deadline(now, &mut actions);
    (0..actions.len()).map(|index| actions.get(index).unwrap().clone()).collect()
}

#[test]
fn only_first_shard_runs_checks() {
    let (first, group) = node(false);
    let others = [1, 2].map(|id| shard(&group, id).next_deadline());
    assert!(first.next_deadline().is_some());
    assert_eq!(others, [None, None]);
}

#[test]
fn tls_check_without_tls_client_fails() {
    let (mut node, group) = node(true);
    assert!(actions_at(&mut node, Instant::ZERO).is_empty());
    assert_eq!(statuses(&group), ["down"]);
    assert!(node.next_deadline().unwrap() > Instant::ZERO);
}

#[test]
fn timed_out_check_closes_its_connection() {
    let over = Instant::ZERO + Duration::from_millis(500);
    let id = ConnectionId::new(0, 0);
    let (mut waiting, group) = node(false);
    let [Action::Connect(ticket, _)] = actions_at(&mut waiting, Instant::ZERO)[..] else { panic!("a check is due") };
    waiting.handle_connected(Instant::ZERO, ticket, Ok(Connected::plain(id)), &mut Actions::new());
    let actions = actions_at(&mut waiting, over);
    assert!(matches!(actions[..], [Action::Close(closed, Close::Abort)] if closed == id), "{actions:?}");
    assert_eq!(statuses(&group), ["down"]);
    waiting.handle_closed(over, id, CloseReason::Requested, &mut Actions::new());

    let (mut connecting, _) = node(false);
    let [Action::Connect(ticket, _)] = actions_at(&mut connecting, Instant::ZERO)[..] else { panic!("a check is due") };
    assert!(actions_at(&mut connecting, over).is_empty());
    let mut actions = Actions::new();
    connecting.handle_connected(over, ticket, Ok(Connected::plain(id)), &mut actions);
    assert!(matches!(actions.get(0), Some(Action::Close(closed, Close::Abort)) if *closed == id), "nobody wants it");
}
