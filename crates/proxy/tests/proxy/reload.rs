//! Reloaded settings.

use std::sync::Arc;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{Accepted, Action, Connected, ConnectionId, ListenerId, Node};
use breme_proxy::{Identity, Parts, Proxy, Settings};

use crate::support::driven::Driven;
use crate::support::{silent, upstream_at};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";

#[test]
fn replay_follows_reloaded_settings() {
    let peer = "192.0.2.1:9".parse().unwrap();
    let group = Group::new(GroupSettings::default(), vec![upstream_at("up0.example:80", peer)]).unwrap();
    let parts = Parts::new(silent(), WallClock::starting_at(UnixSeconds(0)));
    let proxy = Proxy::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap();
    let mut shard = Driven::new(&proxy, 0);
    let [client, server] = [0, 1].map(|index| ConnectionId::new(index, 0));
    shard.0.handle_accepted(
        Instant::ZERO,
        client,
        Accepted { listener: ListenerId(0), peer: Some(peer) },
        &mut shard.1,
    );
    let [Action::Connect(ticket, _)] = shard.receive(client, GET)[..] else { panic!("there is no connection yet") };
    shard.0.handle_connected(Instant::ZERO, ticket, Ok(Connected::plain(server)), &mut shard.1);
    assert_eq!(shard.sent(), GET);
    shard.receive(server, HELLO);
    for _ in 0..4 {
        shard.lend(client, GET);
        assert_eq!(shard.sent(), GET);
        shard.lend(server, HELLO);
        assert_eq!(shard.sent(), HELLO);
    }
    let identity = Identity { via: true, ..silent().identity };
    proxy.reload(Settings { identity, ..silent() }, None).unwrap();
    shard.0.handle_woken(Instant::ZERO, Proxy::RELOADED, &mut shard.1);
    shard.lend(client, GET);
    assert!(shard.sent().contains("Via: 1.1 breme ("));
    shard.lend(server, HELLO);
    assert!(shard.sent().contains("Via: 1.1 breme\r\n"));
}
