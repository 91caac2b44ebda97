//! What the proxy asks of the world and tells it: names that take time, the access log, affinity.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod support;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breme_balance::{Affinity, AffinityKey, Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{
    Accepted, Action, Actions, CloseReason, Connected, ConnectionId, ListenerId, Node, Received, Shard, ShardId,
};
use breme_proxy::{
    AccessLog, Exchange, ForwardRules, Mode, Parts, Proxy, ProxyNode, Requester, Resolution, ResolveError, Resolver,
    Settings,
};
use support::{THEN, head, silent, upstream_at};

const CLIENT: ConnectionId = ConnectionId::new(0, 0);
const SERVER: ConnectionId = ConnectionId::new(1, 0);
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";

/// Answers when it is told to.
#[derive(Default)]
struct Slow {
    asked: Mutex<Vec<(String, u16, Requester)>>,
    answer: Mutex<Option<Result<Vec<SocketAddr>, ResolveError>>>,
    forgotten: Mutex<Vec<Requester>>,
}

impl Resolver for Slow {
    fn resolve(&self, host: &str, port: u16, requester: Requester) -> Resolution {
        self.asked.lock().unwrap().push((host.to_owned(), port, requester));
        Resolution::Asked
    }

    fn fetch(&self, _requester: Requester) -> Option<Result<Vec<SocketAddr>, ResolveError>> {
        self.answer.lock().unwrap().take()
    }

    fn forget(&self, requester: Requester) {
        self.forgotten.lock().unwrap().push(requester);
    }
}

/// What a log was told, in short.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl AccessLog for Lines {
    fn record(&self, exchange: &Exchange<'_>) {
        let Exchange { method, target, status, sent_bytes, received_bytes, upstream, ending, retries, .. } = exchange;
        let upstream = upstream.unwrap_or("-");
        let agent = exchange.user_agent.map_or("-".into(), String::from_utf8_lossy);
        let line = format!(
            "{} {method} {target} {status} {sent_bytes} {received_bytes} {upstream} {agent} {retries} {}",
            exchange.client,
            ending.as_str()
        );
        self.0.lock().unwrap().push(line);
    }
}

/// A node, called by hand.
struct Hand {
    node: ProxyNode,
    now: Instant,
}

impl Hand {
    fn new(proxy: &Proxy) -> Self {
        let mut hand = Self { node: proxy.node(Shard { id: ShardId(0), count: 1 }), now: Instant::ZERO };
        let accepted = Accepted { listener: ListenerId(0), peer: "192.0.2.1:1".parse().unwrap() };
        hand.call(|node, now, actions| node.handle_accepted(now, CLIENT, accepted, actions));
        hand
    }

    /// What was asked for, in short.
    fn call(&mut self, call: impl FnOnce(&mut ProxyNode, Instant, &mut Actions)) -> Vec<String> {
        let mut actions = Actions::new();
        call(&mut self.node, self.now, &mut actions);
        let told = |index| match actions.get(index).unwrap() {
            Action::Send(id, _) => format!("{id:?} {}", String::from_utf8_lossy(actions.bytes(index))),
            Action::Connect(_, endpoint) => format!("connect {}", endpoint.address),
            other => format!("{other:?}"),
        };
        (0..actions.len()).map(told).collect()
    }

    fn receive(&mut self, id: ConnectionId, text: &str) -> Vec<String> {
        self.call(|node, now, actions| {
            let received = Received { bytes: text.as_bytes(), ended: false, came: now };
            assert_eq!(node.handle_received(now, id, received, actions), text.len());
        })
    }

    fn connected(&mut self) -> Vec<String> {
        self.call(|node, now, actions| {
            node.handle_connected(now, breme_node::ConnectTicket(0), Ok(Connected::plain(SERVER)), actions);
        })
    }
}

fn forward(resolver: Arc<Slow>) -> Proxy {
    let settings = Settings { mode: Mode::Forward(ForwardRules::default()), ..silent() };
    let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(THEN)));
    Proxy::new(Parts { resolver: Some(resolver), ..parts }).unwrap()
}

#[test]
fn a_name_that_takes_time_is_waited_for() {
    let resolver = Arc::new(Slow::default());
    let mut hand = Hand::new(&forward(resolver.clone()));
    assert_eq!(hand.receive(CLIENT, &head(&["GET http://a.example/x HTTP/1.1", "Host: a.example"])), [""; 0]);
    let (host, port, requester) = resolver.asked.lock().unwrap()[0].clone();
    assert_eq!((host.as_str(), port), ("a.example", 80));
    // A wake-up for somebody else, and one that comes too early.
    assert_eq!(hand.call(|node, now, actions| node.handle_woken(now, requester.message + 1, actions)), [""; 0]);
    assert_eq!(hand.call(|node, now, actions| node.handle_woken(now, requester.message, actions)), [""; 0]);
    let addresses = vec!["127.0.0.1:80".parse().unwrap(), "8.8.8.8:80".parse().unwrap()];
    *resolver.answer.lock().unwrap() = Some(Ok(addresses));
    let asked = hand.call(|node, now, actions| node.handle_woken(now, requester.message, actions));
    assert_eq!(asked, ["connect 8.8.8.8:80"], "not the one inside");
    assert_eq!(hand.connected(), ["#1.0 GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n"]);
    assert_eq!(hand.receive(SERVER, HELLO), [format!("#0.0 {HELLO}")]);
    assert!(resolver.forgotten.lock().unwrap().is_empty());
}

#[test]
fn nobody_waits_for_a_name_for_ever() {
    let resolver = Arc::new(Slow::default());
    let mut hand = Hand::new(&forward(resolver.clone()));
    hand.receive(CLIENT, &head(&["GET http://a.example/x HTTP/1.1", "Host: a.example"]));
    hand.now = hand.now + Duration::from_secs(61);
    let told = hand.call(|node, now, actions| node.handle_deadline(now, actions)).concat();
    assert!(told.contains("504 Gateway Timeout") && told.contains("the name servers did not answer in time"), "{told}");
    assert_eq!(resolver.forgotten.lock().unwrap().len(), 1);
    // A client that goes away does not want to know either.
    hand.receive(CLIENT, &head(&["GET http://a.example/x HTTP/1.1", "Host: a.example"]));
    hand.call(|node, now, actions| node.handle_closed(now, CLIENT, CloseReason::Reset, actions));
    assert_eq!(resolver.forgotten.lock().unwrap().len(), 2);
}

fn reverse(settings: Settings, group: GroupSettings, log: Option<Arc<dyn AccessLog>>) -> Proxy {
    let list = vec![upstream_at("up.example:80", "10.0.0.9:80".parse().unwrap())];
    let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(THEN)));
    let group = Group::new(group, list).unwrap();
    Proxy::new(Parts { group: Some(Arc::new(group)), access_log: log, ..parts }).unwrap()
}

#[test]
fn the_log_is_told_of_every_exchange() {
    let log = Arc::new(Lines::default());
    let mut hand = Hand::new(&reverse(silent(), GroupSettings::default(), Some(log.clone())));
    let put = head(&["PUT /a?b HTTP/1.1", "Host: a.example", "User-Agent: me", "Content-Length: 3"]);
    hand.receive(CLIENT, &put);
    hand.connected();
    hand.receive(CLIENT, "abc");
    hand.receive(SERVER, HELLO);
    hand.receive(CLIENT, &head(&["GET /gone HTTP/1.1", "Host: a.example"]));
    hand.call(|node, now, actions| node.handle_closed(now, CLIENT, CloseReason::Reset, actions));
    let lines = log.0.lock().unwrap().clone();
    assert_eq!(
        lines,
        [
            "192.0.2.1:1 PUT /a?b 200 5 3 up.example:80 me 0 complete",
            "192.0.2.1:1 GET /gone 0 0 0 up.example:80 - 0 client-gone",
        ]
    );
}

#[test]
fn a_client_is_brought_back_to_its_upstream() {
    let key = AffinityKey::new(*b"0123456789abcdef").unwrap();
    let affinity = Affinity::Insert { cookie: "route".to_owned(), key, max_age: None };
    let group = GroupSettings { affinity: Some(affinity), ..GroupSettings::default() };
    let mut hand = Hand::new(&reverse(silent(), group, None));
    let get = |cookies: &[&str]| head(&[&["GET /a HTTP/1.1", "Host: a.example"], cookies].concat());
    hand.receive(CLIENT, &get(&[]));
    hand.connected();
    let told = hand.receive(SERVER, HELLO).concat();
    let cookie = told.split("Set-Cookie: ").nth(1).and_then(|rest| rest.split(';').next()).map(str::to_owned).unwrap();
    assert!(cookie.starts_with("route="), "{told}");
    for _ in 0..4 {
        hand.receive(CLIENT, &get(&["Cookie: other=x", &format!("Cookie: {cookie}")]));
        let told = hand.receive(SERVER, HELLO).concat();
        assert!(told.contains("hello") && !told.contains("Set-Cookie"), "{told}");
    }
}
