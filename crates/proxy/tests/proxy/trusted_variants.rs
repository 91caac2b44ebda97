//! Forwarding fields select a stored response only if they are forwarded, that is, from trusted clients; and then they
//! do, whether the response names them in Vary or not.

use std::sync::Arc;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_cache::Cache;
use breme_node::{Accepted, Action, Connected, ConnectionId, ListenerId, Node};
use breme_proxy::{Identity, Parts, Proxy, Settings};

use crate::support::driven::Driven;
use crate::support::{THEN, silent, upstream_at};

const PLAIN: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const SECURED: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Proto: https\r\n\r\n";
const FRONT: ConnectionId = ConnectionId::new(0, 0);
const STRANGER: ConnectionId = ConnectionId::new(1, 0);
const SERVER: ConnectionId = ConnectionId::new(2, 0);

/// A proxy that trusts 10.0.0.0/8, with a client of that network and one from elsewhere.
fn accepted() -> Driven {
    let address = "192.0.2.9:80".parse().unwrap();
    let group = Group::new(GroupSettings::default(), vec![upstream_at("up0.example:80", address)]).unwrap();
    let identity = Identity { x_forwarded: true, trusted: vec!["10.0.0.0/8".to_owned()], ..silent().identity };
    let settings = Settings { identity, purge_from: vec!["192.0.2.0/24".to_owned()], ..silent() };
    let cache = Cache::new(breme_cache::CacheSettings::new(4 << 20)).unwrap();
    let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(THEN)));
    let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), cache: Some(cache), ..parts }).unwrap();
    let mut shard = Driven::new(&proxy, 0);
    for (client, peer) in [(FRONT, "10.0.0.1:9"), (STRANGER, "192.0.2.1:9")] {
        let accepted = Accepted { listener: ListenerId(0), peer: Some(peer.parse().unwrap()) };
        shard.0.handle_accepted(Instant::ZERO, client, accepted, &mut shard.1);
    }
    shard
}

fn answer(content: &str) -> String {
    plain_answer(content).replacen("\r\n\r\n", "\r\nVary: X-Forwarded-Proto\r\n\r\n", 1)
}

/// Without Vary.
fn plain_answer(content: &str) -> String {
    let length = content.len();
    let lines = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nCache-Control: max-age=60";
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{lines}\r\n\r\n{content}")
}

/// The first request of a client, with what the upstream gets.
fn first_request(shard: &mut Driven, client: ConnectionId, request: &str) -> String {
    let actions = shard.receive(client, request);
    let ticket =
        actions.iter().find_map(|action| if let Action::Connect(ticket, _) = action { Some(*ticket) } else { None });
    shard.0.handle_connected(Instant::ZERO, ticket.unwrap(), Ok(Connected::plain(SERVER)), &mut shard.1);
    shard.sent()
}

fn plain_with(lines: &str) -> String {
    PLAIN.replace("\r\n\r\n", &format!("\r\n{lines}\r\n\r\n"))
}

/// A request that is forwarded, and its response.
fn misses(shard: &mut Driven, client: ConnectionId, request: &str, content: &str) {
    shard.lend(client, request);
    assert!(shard.sent().starts_with("GET /a "), "{request} is forwarded");
    shard.lend(SERVER, &plain_answer(content));
    assert!(shard.sent().ends_with(content));
}

/// A client's responses from the store, three times.
fn hits(shard: &mut Driven, client: ConnectionId, request: &str, content: &str) {
    for _ in 0..3 {
        shard.lend(client, request);
        let sent = shard.sent();
        assert!(sent.contains("; hit; ") && sent.ends_with(&format!("\r\n\r\n{content}")), "{sent}");
    }
}

#[test]
fn untrusted_client_cannot_choose_variant() {
    let mut shard = accepted();
    let sent = first_request(&mut shard, STRANGER, SECURED);
    assert!(sent.contains("X-Forwarded-Proto: http\r\n"), "upstream is told how the stranger came");
    shard.lend(SERVER, &answer("for http"));
    assert!(shard.sent().ends_with("for http"));
    hits(&mut shard, STRANGER, SECURED, "for http");
    shard.lend(FRONT, SECURED);
    assert!(shard.sent().contains("X-Forwarded-Proto: https\r\n"), "who is trusted does not get what was not for it");
    shard.lend(SERVER, &answer("for https"));
    assert!(shard.sent().ends_with("for https"));
    hits(&mut shard, FRONT, SECURED, "for https");
    hits(&mut shard, STRANGER, SECURED, "for http");
    hits(&mut shard, FRONT, SECURED, "for https");
    hits(&mut shard, STRANGER, PLAIN, "for http");
    hits(&mut shard, FRONT, PLAIN, "for http");
}

/// A redirect to https is for those who came by http.
#[test]
fn named_scheme_is_part_of_the_key() {
    let mut shard = accepted();
    first_request(&mut shard, STRANGER, PLAIN);
    shard.lend(SERVER, &plain_answer("for http"));
    shard.sent();
    misses(&mut shard, FRONT, SECURED, "for https");
    hits(&mut shard, FRONT, SECURED, "for https");
    hits(&mut shard, STRANGER, PLAIN, "for http");
    hits(&mut shard, FRONT, &plain_with("Forwarded: for=192.0.2.7;proto=https"), "for https");
    shard.lend(STRANGER, &PLAIN.replace("GET", "PURGE"));
    assert!(shard.sent().ends_with("purged: 2\n"), "whichever way the purging client came");
    misses(&mut shard, FRONT, SECURED, "for https");
}

/// What the upstream is told but is not in the key.
#[test]
fn other_named_targets_bypass_the_cache() {
    let mut shard = accepted();
    first_request(&mut shard, FRONT, SECURED);
    shard.lend(SERVER, &plain_answer("for https"));
    shard.sent();
    let same_host = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: A.example\r\nForwarded: host=\"a.example\"";
    hits(&mut shard, FRONT, &plain_with(same_host), "for https");
    for lines in [
        "X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example",
        "X-Forwarded-Proto: https\r\nForwarded: host=evil.example",
        "X-Forwarded-Proto: https\r\nForwarded: for=\"x;proto=http",
        "X-Forwarded-Proto: https, http",
        "X-Forwarded-Proto: gopher",
    ] {
        misses(&mut shard, FRONT, &plain_with(lines), "poison");
        hits(&mut shard, FRONT, SECURED, "for https");
    }
}
