//! Forwarding fields select a stored response only if they are forwarded, that is, from trusted clients.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod support;

use std::sync::Arc;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_cache::Cache;
use breme_node::{Accepted, Action, Connected, ConnectionId, ListenerId, Node};
use breme_proxy::{Identity, Parts, Proxy, Settings};
use support::driven::Driven;
use support::{THEN, silent, upstream_at};

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
    let settings = Settings { identity, ..silent() };
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
    let length = content.len();
    let lines = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nCache-Control: max-age=60\r\nVary: X-Forwarded-Proto";
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{lines}\r\n\r\n{content}")
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
    let actions = shard.receive(STRANGER, SECURED);
    let ticket =
        actions.iter().find_map(|action| if let Action::Connect(ticket, _) = action { Some(*ticket) } else { None });
    shard.0.handle_connected(Instant::ZERO, ticket.unwrap(), Ok(Connected::plain(SERVER)), &mut shard.1);
    assert!(shard.sent().contains("X-Forwarded-Proto: http\r\n"), "upstream is told how the stranger came");
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
