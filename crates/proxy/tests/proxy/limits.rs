//! Limits of each client, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{Accepted, Actions, ConnectionId, ListenerId, Node, Received, Shard, ShardId};
use breme_proxy::{ClientLimits, Identity, Parts, Proxy, Settings};
use breme_testkit::{Ending, Script};

use crate::support::{Acts, Play, error_response, head, later, silent, text, upstream_at};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";
const SECOND: Duration = Duration::from_secs(1);

fn limited(clients: ClientLimits) -> Settings {
    Settings { clients, ..silent() }
}

fn requests(count: usize) -> Acts {
    (0..count).fold(Acts::new(), |acts, _| acts.expect(GET).send(HELLO)).expect_end()
}

/// The response at 08:49 and this second.
fn too_many(second: u64) -> String {
    let content = "Proxy error: too many requests from your address; retry in 1 s.\n";
    later(second - 37, error_response(429, &["Retry-After: 1"], content))
}

#[test]
fn rate_limit_allows_burst() {
    let client = Script::new().connect().send(GET).expect(HELLO).send(GET).expect(HELLO);
    let client = client.send(GET).expect(text(too_many(37))).wait(SECOND).send(GET).expect(HELLO);
    let client = client.send(GET).expect(text(too_many(38))).part();
    let limits = ClientLimits { requests_per_second: 1, burst: 2, ..ClientLimits::default() };
    let counts = Play { settings: limited(limits), ..Play::new(vec![client], vec![requests(3)]) }.run();
    assert_eq!((counts.requests_limited, counts.responses_of_class(4), counts.responses_of_class(2)), (2, 2, 3));
}

#[test]
fn connections_of_a_client_share_a_bucket() {
    let first = Script::new().connect().send(GET).expect(HELLO).signal(1).part();
    let second = Script::new().await_signal(1).connect().send(GET).expect(text(too_many(37))).part();
    let limits = ClientLimits { requests_per_second: 1, ..ClientLimits::default() };
    let play = Play { settings: limited(limits), ..Play::new(vec![first, second], vec![requests(1)]) };
    assert_eq!(play.run().requests_limited, 1);
}

#[test]
fn body_of_limited_request_is_drained() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let post = head(&["POST /a HTTP/1.1", "Host: a.example", &format!("Content-Length: {}", hidden.len())]) + hidden;
    let client = Script::new().connect().send(GET).expect(HELLO).send(text(post)).expect(text(too_many(37)));
    let client = client.wait(SECOND).send(GET).expect(HELLO).part();
    let limits = ClientLimits { requests_per_second: 1, ..ClientLimits::default() };
    Play { settings: limited(limits), ..Play::new(vec![client], vec![requests(2)]) }.run();
}

#[test]
fn closes_excess_connections() {
    let holder = Script::new().connect().send(GET).expect(HELLO).signal(1).await_signal(2).part();
    let excess = Script::new().await_signal(1).connect().expect_closed(Ending::Any).signal(2);
    let later = Script::new().await_signal(2).wait(SECOND).connect().send(GET).expect(HELLO).part();
    let limits = ClientLimits { connections_max: 1, ..ClientLimits::default() };
    let play = Play { settings: limited(limits), ..Play::new(vec![holder, excess, later], vec![requests(2)]) };
    let counts = play.run();
    assert_eq!((counts.connections_limited, counts.responses_of_class(2)), (1, 2));
}

#[test]
fn trusted_proxy_has_no_connection_limit() {
    let client = || (0..5).fold(Script::new().connect(), |script, _| script.send(GET).expect(HELLO)).part();
    let limits = ClientLimits { connections_max: 1, requests_per_second: 1, burst: 1 };
    let trusted = vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    let identity = Identity { trusted, ..silent().identity };
    let settings = Settings { identity, ..limited(limits) };
    let counts = Play { settings, ..Play::new(vec![client(), client()], vec![requests(5), requests(5)]) }.run();
    assert_eq!((counts.requests_limited, counts.connections_limited), (0, 0));
}

#[test]
fn limits_clients_behind_trusted_proxy_separately() {
    let from = |chain: &str| head(&["GET /a HTTP/1.1", "Host: a.example", &format!("X-Forwarded-For: {chain}")]);
    // A client can forge addresses only before its own.
    let (one, again, other) = (from("192.0.2.1"), from("198.51.100.7, 192.0.2.1"), from("192.0.2.2, 10.9.9.9"));
    let answers = [(&one, HELLO.to_owned()), (&again, too_many(37)), (&other, HELLO.to_owned()), (&one, too_many(37))];
    let script = Script::new().connect();
    let script =
        answers.iter().fold(script, |script, (request, answer)| script.send(text(*request)).expect(text(answer)));
    let limits = ClientLimits { connections_max: 1, requests_per_second: 1, burst: 1 };
    let identity = Identity { trusted: vec!["10.0.0.0/8".to_owned()], ..silent().identity };
    let settings = Settings { identity, ..limited(limits) };
    let upstream = [&one, &other].into_iter().fold(Acts::new(), |acts, request| acts.expect(request).send(HELLO));
    let counts = Play { settings, ..Play::new(vec![script.part()], vec![upstream.expect_end()]) }.run();
    assert_eq!((counts.requests_limited, counts.connections_limited), (2, 0));
}

#[test]
fn clients_of_unix_sockets_count_as_one_unless_trusted() {
    let limited_count = |trusted: &[&str]| {
        let address = "192.0.2.1:9".parse().unwrap();
        let group = Group::new(GroupSettings::default(), vec![upstream_at("up0.example:80", address)]).unwrap();
        let limits = ClientLimits { connections_max: 1, ..ClientLimits::default() };
        let trusted = trusted.iter().copied().map(String::from).collect();
        let settings = Settings { identity: Identity { trusted, ..silent().identity }, ..limited(limits) };
        let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(0)));
        let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap();
        let (mut node, mut actions) = (proxy.node(Shard { id: ShardId(0), count: 1 }), Actions::new());
        for index in 0..3 {
            let accepted = Accepted { listener: ListenerId(0), peer: None };
            node.handle_accepted(Instant::ZERO, ConnectionId::new(index, 0), accepted, &mut actions);
        }
        proxy.counts().connections_limited
    };
    assert_eq!([limited_count(&[]), limited_count(&["10.0.0.0/8"]), limited_count(&["unix:"])], [2, 2, 0]);
}

#[test]
fn reloaded_limits_apply_to_known_clients() {
    let peer = "192.0.2.1:9".parse().unwrap();
    let group = Group::new(GroupSettings::default(), vec![upstream_at("up0.example:80", peer)]).unwrap();
    let parts = Parts::new(limited(ClientLimits::default()), WallClock::starting_at(UnixSeconds(0)));
    let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap();
    let (mut node, mut actions) = (proxy.node(Shard { id: ShardId(0), count: 1 }), Actions::new());
    let accepted = Accepted { listener: ListenerId(0), peer: Some(peer) };
    let clients = [0, 1].map(|index| ConnectionId::new(index, 0));
    node.handle_accepted(Instant::ZERO, clients[0], accepted, &mut actions);
    let limits = ClientLimits { connections_max: 1, requests_per_second: 1, burst: 1 };
    proxy.reload(limited(limits), None).unwrap();
    node.handle_woken(Instant::ZERO, Proxy::RELOADED, &mut actions);
    // The first connection was not counted, so a second one is accepted; but all share one bucket.
    node.handle_accepted(Instant::ZERO, clients[1], accepted, &mut actions);
    for client in clients {
        let received = Received { bytes: GET.as_bytes(), ended: false, arrived_at: Instant::ZERO };
        node.handle_received(Instant::ZERO, client, received, &mut actions);
    }
    let sent: Vec<&[u8]> =
        (0..actions.len()).map(|index| actions.bytes(index)).filter(|bytes| !bytes.is_empty()).collect();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].starts_with(b"HTTP/1.1 429 "), "{}", sent[0].escape_ascii());
    node.handle_accepted(Instant::ZERO, ConnectionId::new(2, 0), accepted, &mut actions);
    assert_eq!(proxy.counts().connections_limited, 1);
}
