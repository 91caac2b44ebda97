//! The retry budget: a failing upstream does not get twice the requests of a working one.

use std::sync::Arc;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{
    Accepted, Action, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, ListenerId, Node,
};
use breme_proxy::{Parts, Proxy, Settings};

use crate::support::driven::Driven;
use crate::support::{THEN, silent, upstream_at};

const CLIENT: ConnectionId = ConnectionId::new(0, 0);
const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";
const NOW: Instant = Instant::ZERO;

fn proxy(settings: Settings, upstreams: usize) -> Proxy {
    let address = |index: usize| format!("10.0.0.{}:80", index + 1).parse().unwrap();
    let list = (0..upstreams).map(|index| upstream_at(&format!("up{index}.example:80"), address(index))).collect();
    let group = GroupSettings { ejection: None, ..GroupSettings::default() };
    let group = Some(Arc::new(Group::new(group, list).unwrap()));
    Proxy::new(Parts { group, ..Parts::new(settings, WallClock::starting_at(UnixSeconds(THEN))) }).unwrap()
}

fn with_client(proxy: &Proxy) -> Driven {
    let mut driven = Driven::new(proxy, 0);
    let accepted = Accepted { listener: ListenerId(0), peer: Some("192.0.2.1:1".parse().unwrap()) };
    driven.0.handle_accepted(NOW, CLIENT, accepted, &mut driven.1);
    driven
}

/// The ticket of the connection that the node wants to open.
fn wanted(actions: &[Action]) -> Option<ConnectTicket> {
    actions.iter().find_map(|action| match action {
        Action::Connect(ticket, _) => Some(*ticket),
        _ => None,
    })
}

fn connect(driven: &mut Driven, ticket: ConnectTicket, server: ConnectionId) -> Vec<Action> {
    driven.0.handle_connected(NOW, ticket, Ok(Connected::plain(server)), &mut driven.1);
    driven.actions()
}

/// Each connection carries one response and is closed at the second request.
fn requests_until_denied(percent: u32, requests_max: u32) -> (u32, Proxy) {
    let proxy = proxy(Settings { retry_percent_max: percent, ..silent() }, 1);
    let mut driven = with_client(&proxy);
    let mut server = ConnectionId::new(1, 0);
    let ticket = wanted(&driven.receive(CLIENT, GET)).unwrap();
    connect(&mut driven, ticket, server);
    driven.receive(server, HELLO);
    for number in 1..requests_max {
        driven.receive(CLIENT, GET);
        driven.0.handle_closed(NOW, server, CloseReason::Reset, &mut driven.1);
        let Some(ticket) = wanted(&driven.actions()) else { return (number, proxy) };
        server = ConnectionId::new(1, number);
        connect(&mut driven, ticket, server);
        driven.receive(server, HELLO);
    }
    (requests_max, proxy)
}

#[test]
fn retries_follow_the_budget() {
    let (denied_at, proxy) = requests_until_denied(20, 1_000);
    let counts = proxy.counts();
    // A hundred are accumulated, and each further request earns a fifth of a retry.
    assert_eq!(denied_at, 125);
    assert_eq!((counts.retries, counts.retries_denied, counts.bad_gateway), (u64::from(denied_at) - 1, 1, 1));
    assert_eq!(requests_until_denied(0, 1_000).0, 1_000, "without a bound");
}

#[test]
fn second_choices_follow_the_budget() {
    let proxy = proxy(Settings { retry_percent_max: 20, ..silent() }, 2);
    let mut driven = with_client(&proxy);
    let refused = Err(ConnectError::Refused);
    let mut is_second = Vec::new();
    for _ in 0..200 {
        let first = wanted(&driven.receive(CLIENT, GET)).unwrap();
        driven.0.handle_connected(NOW, first, refused, &mut driven.1);
        let second = wanted(&driven.actions());
        is_second.push(second.is_some());
        if let Some(second) = second {
            driven.0.handle_connected(NOW, second, refused, &mut driven.1);
            assert_eq!(wanted(&driven.actions()), None);
        }
    }
    let counts = proxy.counts();
    // A hundred are accumulated, and each request earns a fifth of one.
    assert_eq!(is_second.iter().position(|is_second| !is_second), Some(124));
    assert_eq!((counts.second_choices, counts.retries_denied, counts.bad_gateway), (139, 61, 200));
}
