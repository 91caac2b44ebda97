//! Several hosts, in virtual time: which one a request goes to, over which connection, and what happens when one dies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use breme_base::Instant;
use breme_load_plan::{OpenLoop, Scenarios, Settings, Spread, Target, Variables};
use breme_load_result::LoadOutcome;
use breme_node::ConnectError;

use crate::world::{Reply, Request, Then, World, address};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Sessions of ten requests to three hosts.
fn settings(spread: Spread, sessions: u64, connections: usize, connection: &str) -> Settings {
    let file = format!(
        r#"{connection}
        [[scenario]]
        name = "x"
        step = [{{ request = "GET /?name={{random:8}}&value={{seq}}", check = {{ pairs = true }}, repeat = 10 }}]"#
    );
    let scenarios = Scenarios::parse(&file, None, &Variables::default()).unwrap_or_else(|error| panic!("{error}"));
    Settings {
        targets: ["http://a", "http://b", "http://c"].map(Target::url).to_vec(),
        scenarios: Some(scenarios),
        spread,
        cookies: true,
        requests: Some(sessions),
        duration: None,
        connections,
        ..Settings::new("http://a")
    }
}

/// All hosts are nodes of one application.
fn world(settings: Settings, mut fate: impl FnMut(&Request) -> Option<Reply> + 'static) -> World {
    let mut sessions: BTreeMap<String, String> = BTreeMap::new();
    let server = move |request: &Request| {
        if let Some(reply) = fate(request) {
            return reply.after(MILLISECOND);
        }
        let known = request.text.split_once("Cookie: id=").map(|(_, rest)| rest.lines().next().unwrap().to_owned());
        let id = known.unwrap_or_else(|| format!("{:032}", sessions.len()));
        let query = request.target().split_once("name=").unwrap().1.replacen("&value=", "=", 1);
        let content = sessions.entry(id.clone()).or_default();
        *content += &(query + "\n");
        let head = format!("HTTP/1.1 200 OK\r\nSet-Cookie: id={id}\r\nContent-Length: {}\r\n\r\n", content.len());
        Reply { bytes: (head + content).into_bytes(), ..Reply::default() }.after(MILLISECOND)
    };
    World::with_hosts(settings, 1, [1, 2, 3].map(|port| vec![address(port)]).to_vec(), server)
}

fn host(request: &Request) -> char {
    request.text.split_once("\r\nHost: ").unwrap().1.chars().next().unwrap()
}

fn assert_right(outcome: &LoadOutcome, responses: u64) {
    assert!(outcome.errors.is_empty(), "{outcome:?}");
    let pairs = outcome.pairs.unwrap();
    assert_eq!((pairs.responses, pairs.inconsistent, pairs.shared_ids), (responses, 0, 0));
}

#[test]
fn each_request_goes_to_a_random_host_with_the_cookies_of_its_user() {
    let mut world = world(settings(Spread::Random, 40, 4, ""), |_| None);
    let outcome = world.finish();
    assert_right(&outcome, 400);
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    world.requests.iter().for_each(|request| *counts.entry(host(request)).or_default() += 1);
    assert!(counts.len() == 3 && counts.values().all(|count| (90..180).contains(count)), "{counts:?}");
    let connections: BTreeSet<(usize, char)> =
        world.requests.iter().map(|request| (request.connection, host(request))).collect();
    assert_eq!(connections.len(), 12, "each user keeps one connection to each host");
    assert_eq!((world.attempts.len(), outcome.connections.opened, outcome.connections.reconnects), (12, 12, 0));
    assert_eq!(outcome.settings.spread.as_deref(), Some("random"));
}

#[test]
fn a_session_stays_with_its_host() {
    let mut world = world(settings(Spread::User, 6, 1, ""), |_| None);
    assert_right(&world.finish(), 60);
    let hosts: String = world.requests.iter().step_by(10).map(host).collect();
    assert_eq!(hosts, "abcabc");
    assert!(world.requests.chunks(10).all(|session| session.iter().all(|request| host(request) == host(&session[0]))));
}

#[test]
fn with_new_connections_a_session_takes_its_own_with_it() {
    let mut world = world(settings(Spread::Random, 3, 1, "connection = \"new\""), |_| None);
    let outcome = world.finish();
    assert_right(&outcome, 30);
    let mut sessions: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (number, request) in world.requests.iter().enumerate() {
        sessions.entry(request.connection).or_default().insert(number / 10);
    }
    assert!(sessions.values().all(|of| of.len() == 1), "{sessions:?}");
}

#[test]
fn a_dead_host_fails_its_requests_only() {
    let mut world = world(settings(Spread::Random, 10, 2, ""), |request| {
        (host(request) == 'b').then(|| Reply { then: Then::Reset, ..Reply::default() })
    });
    let outcome = world.finish();
    let (ok, reset) = (outcome.requests.ok, outcome.errors.get("reset").copied().unwrap_or(0));
    assert!(ok + reset == 100 && reset > 15, "{outcome:?}");
    assert_eq!(outcome.pairs.unwrap().inconsistent, 0);
    let refuses = |address: std::net::SocketAddr, _: Instant| match address.port() {
        2 => Err(ConnectError::Refused),
        _ => Ok(()),
    };
    let mut world = self::world(settings(Spread::Random, 10, 2, ""), |_| None).door(refuses);
    let outcome = world.finish();
    let refused = outcome.errors.get("refused").copied().unwrap_or(0);
    assert!(outcome.requests.ok + refused == 100 && refused > 15, "{outcome:?}");
    assert_eq!(outcome.pairs.unwrap().inconsistent, 0);
}

#[test]
fn a_host_may_close_a_connection_that_is_not_in_use() {
    let mut world = world(settings(Spread::Random, 10, 1, ""), |request| {
        let end = Reply { bytes: b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), then: Then::End, ..Reply::default() };
        (host(request) == 'b').then_some(end)
    });
    let outcome = world.finish();
    let of = |name: char| -> BTreeSet<usize> {
        world.requests.iter().filter(|request| host(request) == name).map(|request| request.connection).collect()
    };
    let to_b = world.requests.iter().filter(|request| host(request) == 'b').count();
    assert_eq!((of('a').len(), of('c').len(), of('b').len()), (1, 1, to_b), "one for each request to b");
    // It fails only if the next request is sent there before the end of the connection is received.
    let kinds: Vec<&str> = outcome.errors.keys().map(String::as_str).filter(|kind| *kind != "assertion").collect();
    assert!(kinds.iter().all(|kind| ["closed-early", "reset"].contains(kind)), "{outcome:?}");
    assert!(to_b > 15 && outcome.requests.answered > 80, "{outcome:?}");
}

/// Targets on three hosts, in turn.
fn targets(connections: usize) -> Settings {
    let targets = ["http://a/1", "http://b/2", "http://a/3", "http://c/4"].map(Target::url).to_vec();
    Settings { targets, requests: Some(200), duration: None, connections, ..Settings::new("http://a") }
}

fn targets_world(settings: Settings) -> World {
    let hosts = [1, 2, 3].map(|port| vec![address(port)]).to_vec();
    World::with_hosts(settings, 2, hosts, |_: &Request| crate::world::ok("x").after(MILLISECOND))
}

#[test]
fn targets_may_be_on_several_hosts() {
    for open_loop in [None, Some(OpenLoop::constant(500.0))] {
        let is_open = open_loop.is_some();
        let mut world = targets_world(Settings { open_loop, ..targets(5) });
        let outcome = world.finish();
        assert_eq!((outcome.requests.ok, outcome.requests.issued), (200, 200), "{outcome:?}");
        for request in &world.requests {
            let expected = match request.target() {
                "/2" => 'b',
                "/4" => 'c',
                _ => 'a',
            };
            assert_eq!(host(request), expected);
        }
        let to_a = world.requests.iter().filter(|request| host(request) == 'a').count();
        assert_eq!(to_a, 100, "targets take turns");
        assert!(outcome.connections.opened <= 15 && outcome.connections.reconnects == 0, "{outcome:?}");
        if is_open {
            assert!(outcome.lateness.p99_ns < 100_000, "{:?}", outcome.lateness);
        }
        assert_eq!((outcome.settings.targets, outcome.settings.spread), (4, None));
    }
}

#[test]
fn each_request_may_have_its_own_connection_to_its_host() {
    let mut world = targets_world(Settings { keep_alive: false, ..targets(3) });
    // The servers keep the connections open, despite `close`; so each is closed by its user.
    let outcome = world.finish();
    assert_eq!(outcome.requests.ok, 200, "{outcome:?}");
}
