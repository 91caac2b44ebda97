//! Name resolution and the access log.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breme_balance::{Affinity, AffinityKey, Group, GroupSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_cache::Cache;
use breme_node::{
    Accepted, Action, Actions, CloseReason, Connected, ConnectionId, ListenerId, Node, Received, Shard, ShardId,
};
use breme_proxy::{
    AccessLog, ExchangeRecord, ForwardRules, Identity, Mode, Parts, Proxy, ProxyCounts, ProxyNode, Requester,
    Resolution, ResolveError, Resolver, Settings,
};

use crate::support::{THEN, head, silent, upstream_at};

const CLIENT: ConnectionId = ConnectionId::new(0, 0);
const SERVER: ConnectionId = ConnectionId::new(1, 0);
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";

/// Answers lookups when the test says so.
#[derive(Default)]
struct Slow {
    queries: Mutex<Vec<(String, u16, Requester)>>,
    answer: Mutex<Option<Result<Vec<SocketAddr>, ResolveError>>>,
    forgotten: Mutex<Vec<Requester>>,
}

impl Resolver for Slow {
    fn resolve(&self, host: &str, port: u16, requester: Requester) -> Resolution {
        self.queries.lock().unwrap().push((host.to_owned(), port, requester));
        Resolution::Pending
    }

    fn fetch(&self, _requester: Requester) -> Option<Result<Vec<SocketAddr>, ResolveError>> {
        self.answer.lock().unwrap().take()
    }

    fn forget(&self, requester: Requester) {
        self.forgotten.lock().unwrap().push(requester);
    }
}

/// The records in short form, and their cache statuses.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>, Mutex<Vec<Option<String>>>);

impl AccessLog for Lines {
    fn record(&self, exchange: &ExchangeRecord<'_>) {
        let ExchangeRecord {
            method, target, status, sent_bytes, received_bytes, upstream, completion, retries, ..
        } = exchange;
        let upstream = upstream.unwrap_or("-");
        let [method, target] = [method, target].map(|text| String::from_utf8_lossy(text));
        let agent = exchange.user_agent.map_or("-".into(), String::from_utf8_lossy);
        let line = format!(
            "{} {method} {target} {status} {sent_bytes} {received_bytes} {upstream} {agent} {retries} {}",
            exchange.client.unwrap(),
            completion.as_str()
        );
        self.0.lock().unwrap().push(line);
        self.1.lock().unwrap().push(exchange.cache_status.map(str::to_owned));
    }
}

/// A node whose methods the test calls.
struct Hand {
    node: ProxyNode,
    now: Instant,
}

impl Hand {
    fn new(proxy: &Proxy) -> Self {
        let mut hand = Self { node: proxy.node(Shard { id: ShardId(0), count: 1 }), now: Instant::ZERO };
        let accepted = Accepted { listener: ListenerId(0), peer: Some("192.0.2.1:1".parse().unwrap()) };
        hand.call(|node, now, actions| node.handle_accepted(now, CLIENT, accepted, actions));
        hand
    }

    /// The actions of a call in short form.
    fn call(&mut self, call: impl FnOnce(&mut ProxyNode, Instant, &mut Actions)) -> Vec<String> {
        let mut actions = Actions::new();
        call(&mut self.node, self.now, &mut actions);
        let describe = |index| match actions.get(index).unwrap() {
            Action::Send(id, _) => format!("{id:?} {}", String::from_utf8_lossy(actions.bytes(index))),
            Action::Connect(_, endpoint) => format!("connect {}", endpoint.address),
            other => format!("{other:?}"),
        };
        (0..actions.len()).map(describe).collect()
    }

    fn receive(&mut self, id: ConnectionId, text: &str) -> Vec<String> {
        self.call(|node, now, actions| {
            let received = Received { bytes: text.as_bytes(), ended: false, arrived_at: now };
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
fn waits_for_name_resolution() {
    let resolver = Arc::new(Slow::default());
    let mut hand = Hand::new(&forward(resolver.clone()));
    assert_eq!(hand.receive(CLIENT, &head(&["GET http://a.example/x HTTP/1.1", "Host: a.example"])), [""; 0]);
    let (host, port, requester) = resolver.queries.lock().unwrap()[0].clone();
    assert_eq!((host.as_str(), port), ("a.example", 80));
    // A wake-up for another exchange, and one without a reason.
    assert_eq!(hand.call(|node, now, actions| node.handle_woken(now, requester.message + 1, actions)), [""; 0]);
    assert_eq!(hand.call(|node, now, actions| node.handle_woken(now, requester.message, actions)), [""; 0]);
    let addresses = vec!["127.0.0.1:80".parse().unwrap(), "8.8.8.8:80".parse().unwrap()];
    *resolver.answer.lock().unwrap() = Some(Ok(addresses));
    let connects = hand.call(|node, now, actions| node.handle_woken(now, requester.message, actions));
    assert_eq!(connects, ["connect 8.8.8.8:80"], "not the one inside");
    assert_eq!(hand.connected(), ["#1.0 GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n"]);
    assert_eq!(hand.receive(SERVER, HELLO), [format!("#0.0 {HELLO}")]);
    assert!(resolver.forgotten.lock().unwrap().is_empty());
}

#[test]
fn name_resolution_times_out() {
    let resolver = Arc::new(Slow::default());
    let mut hand = Hand::new(&forward(resolver.clone()));
    hand.receive(CLIENT, &head(&["GET http://a.example/x HTTP/1.1", "Host: a.example"]));
    hand.now = hand.now + Duration::from_secs(61);
    let answer = hand.call(|node, now, actions| node.handle_deadline(now, actions)).concat();
    assert!(answer.contains("504 Gateway Timeout") && answer.contains("the DNS lookup timed out"), "{answer}");
    assert_eq!(resolver.forgotten.lock().unwrap().len(), 1);
    // A client that leaves cancels the lookup.
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
fn logs_every_exchange() {
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

/// The failure of each exchange.
#[derive(Default)]
struct Failures(Mutex<Vec<Option<String>>>);

impl AccessLog for Failures {
    fn record(&self, exchange: &ExchangeRecord<'_>) {
        self.0.lock().unwrap().push(exchange.failure.map(str::to_owned));
    }
}

#[test]
fn log_says_why_there_was_no_response() {
    let log = Arc::new(Failures::default());
    let proxy = reverse(silent(), GroupSettings::default(), Some(log.clone()));
    let folded = HELLO.replace("Date: x", "Date: x\r\n y");
    for answer in [HELLO, &folded] {
        let mut hand = Hand::new(&proxy);
        hand.receive(CLIENT, &head(&["GET /a HTTP/1.1", "Host: a.example"]));
        hand.connected();
        hand.receive(SERVER, answer);
    }
    let reason =
        "the head of the response is malformed: a header line begins with white space; folded lines are obsolete";
    assert_eq!(*log.0.lock().unwrap(), [None, Some(reason.to_owned())]);
}

/// The client of each request.
#[derive(Default)]
struct ClientLog(Mutex<Vec<Option<IpAddr>>>);

impl AccessLog for ClientLog {
    fn record(&self, exchange: &ExchangeRecord<'_>) {
        self.0.lock().unwrap().push(exchange.forwarded_for);
    }
}

/// Behind a trusted proxy the log names that proxy's clients, also for replayed hits.
#[test]
fn logs_client_behind_trusted_proxy() {
    let client: IpAddr = "198.51.100.7".parse().unwrap();
    let own_word =
        head(&["GET /a HTTP/1.1", "Host: a.example", "X-Forwarded-For: 203.0.113.1, 198.51.100.7, 192.0.2.9"]);
    for (trusted, expected) in [(vec!["192.0.2.0/24".to_owned()], Some(client)), (Vec::new(), None)] {
        let log = Arc::new(ClientLog::default());
        let identity = Identity { trusted, ..silent().identity };
        let list = vec![upstream_at("up.example:80", "10.0.0.9:80".parse().unwrap())];
        let group = Some(Arc::new(Group::new(GroupSettings::default(), list).unwrap()));
        let cache = Some(Cache::new(breme_cache::CacheSettings::new(4 << 20)).unwrap());
        let parts = Parts::new(Settings { identity, ..silent() }, WallClock::starting_at(UnixSeconds(THEN)));
        let access_log: Option<Arc<dyn AccessLog>> = Some(log.clone());
        let mut hand = Hand::new(&Proxy::new(Parts { group, cache, access_log, ..parts }).unwrap());
        hand.receive(CLIENT, &own_word);
        hand.connected();
        hand.receive(SERVER, &HELLO.replace("\r\n\r\n", "\r\nCache-Control: max-age=60\r\n\r\n"));
        (0..4).for_each(|_| drop(hand.receive(CLIENT, &own_word)));
        assert_eq!(*log.0.lock().unwrap(), [expected; 5]);
    }
}

#[test]
fn logs_refused_requests() {
    let log = Arc::new(Lines::default());
    let proxy = reverse(silent(), GroupSettings::default(), Some(log.clone()));
    let refused = |text: &str, ended: bool| {
        let mut hand = Hand::new(&proxy);
        let received = Received { bytes: text.as_bytes(), ended, arrived_at: hand.now };
        hand.call(|node, now, actions| {
            assert!(node.handle_received(now, CLIENT, received, actions) <= received.bytes.len());
        });
        hand
    };
    refused("GET /a HTTP/1.1\r\nHost : a\r\n\r\n", false);
    refused(&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000)), false);
    refused("GET /b HTTP/3.1\r\nHost: a\r\n\r\n", false);
    refused(&head(&["POST /c HTTP/1.1", "Host: a", "Expect: cake", "Content-Length: 1"]), false);
    refused("HEAD /d HTTP/1.1\r\nHo", true);
    let mut late = refused("GET /e", false);
    late.now = Instant::ZERO + Duration::from_secs(11);
    late.call(|node, now, actions| node.handle_deadline(now, actions));
    // The head was valid, so there is an exchange.
    let mut hand = refused(&head(&["POST /f HTTP/1.1", "Host: a", "Transfer-Encoding: chunked"]), false);
    hand.connected();
    let bytes = b"x\r\n";
    let received = Received { bytes, ended: false, arrived_at: hand.now };
    hand.call(|node, now, actions| {
        assert!(node.handle_received(now, CLIENT, received, actions) <= received.bytes.len());
    });
    // A violated rule is not the upstream's fault either.
    refused(&head(&["CONNECT g:443 HTTP/1.1", "Host: g:443"]), false);
    let lines = log.0.lock().unwrap().clone();
    let expected = [
        "GET /a 400 ",
        "GET /xxxx",
        "GET /b 505 ",
        "POST /c 417 ",
        "HEAD /d 400 0 ",
        "- - 408 ",
        "POST /f 400 ",
        "CONNECT g:443 405 ",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("192.0.2.1:1 {expected}")), "{line}");
        assert!(line.ends_with(" client-failed"), "{line}");
    }
    assert!(lines[1].contains("xx 414 "), "{}", lines[1]);
    assert_eq!(proxy.counts().responses_of_class(4), 7, "and counted by status");
    assert_eq!(proxy.counts().responses_of_class(5), 1);
}

/// A request body that turns out malformed during the response: the metric has the log's reason.
#[test]
fn counts_aborted_response_as_logged() {
    let log = Arc::new(Lines::default());
    let proxy = reverse(silent(), GroupSettings::default(), Some(log.clone()));
    let mut hand = Hand::new(&proxy);
    hand.receive(CLIENT, &head(&["POST /a HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked"]));
    hand.connected();
    hand.receive(SERVER, &(head(&["HTTP/1.1 200 OK", "Content-Length: 9", "Date: x"]) + "hello"));
    let received = Received { bytes: b"x\r\n", ended: false, arrived_at: hand.now };
    hand.call(|node, now, actions| {
        assert!(node.handle_received(now, CLIENT, received, actions) <= received.bytes.len());
    });
    assert_eq!(*log.0.lock().unwrap(), ["192.0.2.1:1 POST /a 200 5 0 up.example:80 - 0 client-failed"]);
    let metric = ProxyCounts::METRICS.iter().find(|metric| metric.name == "responses_aborted").unwrap();
    let counted: Vec<_> = metric.read(&proxy.counts()).collect();
    assert_eq!(counted, [("client-gone", 0), ("client-failed", 1), ("upstream-failed", 0)]);
}

/// For a forbidden target no upstream is logged.
#[test]
fn forbidden_target_logs_no_upstream() {
    let log = Arc::new(Lines::default());
    let settings = Settings { mode: Mode::Forward(ForwardRules::default()), ..silent() };
    let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(THEN)));
    let (resolver, access_log) = (Some(Arc::new(Slow::default()) as Arc<dyn Resolver>), Some(log.clone() as _));
    let mut hand = Hand::new(&Proxy::new(Parts { resolver, access_log, ..parts }).unwrap());
    let answer = hand.receive(CLIENT, &head(&["GET http://127.0.0.1/x HTTP/1.1", "Host: 127.0.0.1"])).concat();
    assert!(answer.contains("403 Forbidden") && answer.contains("127.0.0.1: "), "the client is told where: {answer}");
    let lines = log.0.lock().unwrap().clone();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(" GET http://127.0.0.1/x 403 ") && lines[0].ends_with(" 0 - - 0 client-failed"),
        "{lines:?}"
    );
}

#[test]
fn logs_replayed_requests() {
    for has_cache in [false, true] {
        let log = Arc::new(Lines::default());
        let parts = Parts::new(silent(), WallClock::starting_at(UnixSeconds(THEN)));
        let list = vec![upstream_at("up.example:80", "10.0.0.1:80".parse().unwrap())];
        let group = Some(Arc::new(Group::new(GroupSettings::default(), list).unwrap()));
        let cache = has_cache.then(|| Cache::new(breme_cache::CacheSettings::new(1 << 20)).unwrap());
        let proxy = Proxy::new(Parts { group, cache, access_log: Some(log.clone()), ..parts }).unwrap();
        let mut hand = Hand::new(&proxy);
        let get = head(&["GET /a HTTP/1.1", "Host: a.example", "User-Agent: me"]);
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\nCache-Control: max-age=99\r\n\r\nhello";
        for number in 0..6 {
            let sent = hand.receive(CLIENT, &get);
            if number == 0 {
                hand.connected();
            }
            if number == 0 || !has_cache {
                hand.receive(SERVER, answer);
            } else {
                assert!(sent.concat().ends_with("hello"), "{sent:?}");
            }
        }
        let counts = proxy.counts();
        assert!(counts.requests_replayed > 2, "{counts:?}");
        let lines = log.0.lock().unwrap().clone();
        let relayed = "192.0.2.1:1 GET /a 200 5 0 up.example:80 me 0 complete";
        let stored = "192.0.2.1:1 GET /a 200 5 0 - me 0 complete";
        let expected: Vec<&str> =
            (0..6).map(|number| if number == 0 || !has_cache { relayed } else { stored }).collect();
        assert_eq!(lines, expected);
        let results = log.1.lock().unwrap().clone();
        let hits =
            results.iter().filter(|result| result.as_deref().is_some_and(|words| words.starts_with("hit"))).count();
        assert_eq!(hits, if has_cache { 5 } else { 0 }, "{results:?}");
    }
}

#[test]
fn affinity_leads_back_to_upstream() {
    let key = AffinityKey::new(*b"0123456789abcdef").unwrap();
    let affinity = Affinity::Insert { cookie: "route".to_owned(), key, max_age: None };
    let group = GroupSettings { affinity: Some(affinity), ..GroupSettings::default() };
    let mut hand = Hand::new(&reverse(silent(), group, None));
    let get = |cookies: &[&str]| head(&[&["GET /a HTTP/1.1", "Host: a.example"], cookies].concat());
    hand.receive(CLIENT, &get(&[]));
    hand.connected();
    let answer = hand.receive(SERVER, HELLO).concat();
    let cookie =
        answer.split("Set-Cookie: ").nth(1).and_then(|rest| rest.split(';').next()).map(str::to_owned).unwrap();
    assert!(cookie.starts_with("route="), "{answer}");
    for _ in 0..4 {
        hand.receive(CLIENT, &get(&["Cookie: other=x", &format!("Cookie: {cookie}")]));
        let answer = hand.receive(SERVER, HELLO).concat();
        assert!(answer.contains("hello") && !answer.contains("Set-Cookie"), "{answer}");
    }
}
