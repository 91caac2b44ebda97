//! The forward proxy: absolute URLs, tunnels, forbidden targets.

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, UnixSeconds, WallClock};
use breme_node::{Accepted, Action, Connected, ConnectionId, ListenerId, Node};
use breme_proxy::{ForwardRules, HostRule, Identity, Mode, Parts, Proxy, Settings};
use breme_testkit::Script;

use crate::support::driven::Driven;
use crate::support::{Acts, Names, Play, THEN, error_response, head, loop_detected, on_all_networks, silent, text};

const SECOND: Duration = Duration::from_secs(1);
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";
const OPEN: &str = "HTTP/1.1 200 OK\r\n\r\n";

/// A forward proxy that permits the addresses and the port of the simulation.
fn forward() -> Settings {
    let rules = ForwardRules {
        hosts_allowed: vec!["10.0.0.0/16".to_owned(), "*.example".to_owned()],
        tunnel_ports_allowed: vec![80, 443],
        ..ForwardRules::default()
    };
    Settings { mode: Mode::Forward(rules), ..silent() }
}

fn play(clients: Vec<Script>, upstream: Vec<Acts>) -> Play {
    let names = Names::default()
        .with("a.example", &[])
        .with("inside.example", &["127.0.0.1", "::ffff:192.168.0.1", "fe80::1"])
        .with("else.test", &["1.1.1.1"]);
    Play { settings: forward(), names, ..Play::new(clients, upstream) }
}

fn failure(status: &str, name: &str, error: Option<&str>, reason: &str, connection: &[&str]) -> String {
    let content = format!("{name}{reason}.\n");
    let hop = name.trim_end_matches(": ");
    let proxy_status = error.map(|error| format!("Proxy-Status: breme; error={error}; next-hop=\"{hop}\""));
    let length = format!("Content-Length: {}", content.len());
    let mut lines = vec![status, length.as_str()];
    lines.extend(connection);
    lines.extend([
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
    ]);
    lines.extend(proxy_status.as_deref());
    head(&lines) + &content
}

#[test]
fn fetches_absolute_url_from_its_host() {
    let request = "GET http://a.example/x?y HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: z\r\nProxy-Connection: keep-alive\r\n\r\n";
    let passed = head(&["GET /x?y HTTP/1.1", "Host: a.example"]);
    on_all_networks(|| {
        let script = Script::new().connect().send(request).expect(HELLO).send(request).expect(HELLO).part();
        play(vec![script], vec![Acts::new().expect(&passed).send(HELLO).expect(&passed).send(HELLO).expect_end()])
    });
}

#[test]
fn tunnel_relays_and_half_closes() {
    let connect = head(&["CONNECT a.example:80 HTTP/1.1", "Host: a.example:80"]);
    on_all_networks(|| {
        // The client half-closes first, and gets the rest of the data.
        let script = Script::new().connect().send(text(connect.clone() + "early")).expect(OPEN);
        let script = script.send("ping").finish().expect("pong").part_after_end();
        let upstream = Acts::new().expect("earlyping").wait(SECOND).send("pong").finish().expect_end();
        play(vec![script], vec![upstream])
    });
    on_all_networks(|| {
        // The upstream half-closes first, and gets the rest of the data.
        let script = Script::new().connect().send(text(&connect)).expect(OPEN).expect("pong").expect_end();
        let script = script.send("ping").finish().part_after_end();
        play(vec![script], vec![Acts::new().send("pong").finish().expect("ping").expect_end()])
    });
}

#[test]
fn idle_tunnel_times_out() {
    let connect = head(&["CONNECT a.example:80 HTTP/1.1", "Host: a.example:80"]);
    let script = Script::new().connect().send(text(connect)).expect(OPEN).expect_end();
    let script = script.part_after_end();
    let mut play = play(vec![script], vec![Acts::new().expect_end()]);
    play.settings.times.tunnel_idle = 5 * SECOND;
    let counts = play.run();
    assert_eq!((counts.tunnels, counts.tunnels_open), (1, 0));
}

#[test]
fn rejects_forbidden_targets() {
    let close = &["Connection: close"][..];
    let get = |url: &str| head(&[&format!("GET {url} HTTP/1.1"), "Host: a.example"]);
    let connect = |to: &str| head(&[&format!("CONNECT {to} HTTP/1.1"), &format!("Host: {to}")]);
    let forbidden = "HTTP/1.1 403 Forbidden";
    let prohibited = Some("destination_ip_prohibited");
    let no_address = "that host has no address to which this proxy forwards";
    for (request, answer) in [
        (
            get("http://a.example:25/"),
            failure(forbidden, "a.example:25: ", None, "this proxy does not forward to port 25", &[]),
        ),
        (get("http://inside.example/"), failure(forbidden, "inside.example: ", prohibited, no_address, &[])),
        (get("http://127.0.0.1/"), failure(forbidden, "127.0.0.1: ", prohibited, no_address, &[])),
        (get("http://[::ffff:127.0.0.1]/"), failure(forbidden, "[::ffff:127.0.0.1]: ", prohibited, no_address, &[])),
        (get("http://else.test/"), failure(forbidden, "else.test: ", prohibited, no_address, &[])),
        (
            get("http://nowhere.example/"),
            failure(
                "HTTP/1.1 502 Bad Gateway",
                "nowhere.example: ",
                Some("dns_error"),
                "the host name has no address",
                &[],
            ),
        ),
        (connect("inside.example:443"), failure(forbidden, "inside.example:443: ", prohibited, no_address, close)),
        (
            connect("a.example:22"),
            failure(forbidden, "a.example:22: ", None, "this proxy does not forward to port 22", close),
        ),
        (
            get("https://a.example/"),
            failure(
                "HTTP/1.1 501 Not Implemented",
                "Proxy error: ",
                None,
                "this proxy forwards https URLs through CONNECT only",
                &[],
            ),
        ),
        (
            get("/"),
            failure(
                "HTTP/1.1 400 Bad Request",
                "Proxy error: ",
                None,
                "this is a forward proxy; send it an absolute URL, as in `GET http://example.org/`",
                &[],
            ),
        ),
    ] {
        let script = Script::new().connect().send(text(&request)).expect(text(&answer));
        let script = if answer.contains("Connection: close") { script.part_after_end() } else { script.part() };
        let counts = play(vec![script], Vec::new()).run();
        assert_eq!(counts.connects, 0, "{request}");
    }
}

#[test]
fn detects_loops() {
    let own = "breme (cffe71e5)";
    let looped = loop_detected();
    let answer = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Date: x", "Via: 1.1 breme"]) + "hello";
    for (mode, target) in [(forward().mode, "http://a.example/"), (Mode::Reverse { host: HostRule::Keep }, "/")] {
        let mut settings = forward();
        (settings.mode, settings.seed, settings.identity.via) = (mode, 0xabc, true);
        let line = format!("GET {target} HTTP/1.1");
        let request = |via: &str| text(head(&[&line, "Host: a.example", &format!("Via: {via}")]));
        let passed = |via: &str| head(&["GET / HTTP/1.1", "Host: a.example", via, &format!("Via: 1.1 {own}")]);
        // A proxy of the same name without the mark is another one.
        let script = Script::new().connect().send(request("1.0 other")).expect(text(answer.clone()));
        let script = script.send(request("1.1 breme")).expect(text(answer.clone()));
        let upstream = Acts::new().expect(passed("Via: 1.0 other")).send(HELLO);
        let upstream = upstream.expect(passed("Via: 1.1 breme")).send(HELLO);
        // Elements of other proxies do not hide the mark.
        let loops = [format!("1.0 other, 1.1 {own}, 1.1 last"), format!("1.1 {own}"), format!("1.0 (\"a, 1.1 {own}")];
        let script = loops.iter().fold(script, |script, via| script.send(request(via)).expect(text(looped.clone())));
        Play { settings, ..play(vec![script.part()], vec![upstream]) }.run();
    }
}

/// RFC 9110, 7.6.3: also in interim responses, and in the response that switches protocols.
#[test]
fn adds_via_to_each_forwarded_response() {
    let (via, marked) = (["Via: 1.1 breme"], ["Via: 1.1 breme (cffe71e5)"]);
    let message = |lines: &[&str], more: &[&str]| head(&[lines, more].concat());
    let interim = |more: &[&str]| {
        message(&["HTTP/1.1 103 Early Hints", "Link: </x>"], more) + &message(&["HTTP/1.1 100 Continue"], more)
    };
    let switched = |more: &[&str]| {
        let line = "HTTP/1.1 101 Switching Protocols";
        message(&[line, "Connection: upgrade", "Upgrade: chat", "X: y"], more) + "hi"
    };
    let hello = message(&["HTTP/1.1 200 OK", "Content-Length: 5", "Date: x"], &via) + "hello";
    let get = |target: &str, more: &[&str]| message(&[&format!("GET {target} HTTP/1.1"), "Host: a.example"], more);
    let upgrade = ["Connection: upgrade", "Upgrade: chat"];
    let mut settings = forward();
    (settings.seed, settings.identity.via) = (0xabc, true);
    let script = Script::new().connect().send(text(get("http://a.example/", &[])));
    let script = script.expect(text(interim(&via) + &hello)).send(text(get("http://a.example/", &upgrade)));
    let script = script.expect(text(switched(&via))).part();
    let upstream = Acts::new().expect(get("/", &marked)).send(interim(&[]) + HELLO);
    let upstream = upstream.expect(get("/", &[&upgrade[..], &marked].concat())).send(switched(&[])).expect_end();
    Play { settings, ..play(vec![script], vec![upstream]) }.run();
}

#[test]
fn counts_max_forwards() {
    let request =
        |hops: u32| head(&["OPTIONS http://a.example/ HTTP/1.1", "Host: a.example", &format!("Max-Forwards: {hops}")]);
    let passed = head(&["OPTIONS / HTTP/1.1", "Host: a.example", "Max-Forwards: 4"]);
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
    let methods = "Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, CONNECT";
    let options = head(&["HTTP/1.1 200 OK", "Content-Length: 0", date, methods]);
    let content = "Proxy error: Max-Forwards is 0, and this proxy does not support TRACE.\n";
    let trace = error_response(405, &[methods], content);
    let script = Script::new().connect().send(text(request(5))).expect(HELLO);
    let script = script.send(text(request(0))).expect(text(options.clone()));
    // The whole server (RFC 9110, 9.3.7), and a method whose final recipient the proxy cannot be.
    let server = head(&["OPTIONS * HTTP/1.1", "Host: a.example", "Max-Forwards: 0"]);
    let script = script.send(text(server)).expect(text(options));
    let spent = head(&["TRACE http://a.example/ HTTP/1.1", "Host: a.example", "Max-Forwards: 0"]);
    let script = script.send(text(spent)).expect(text(trace)).part();
    play(vec![script], vec![Acts::new().expect(&passed).send(HELLO)]).run();
}

/// RFC 9112, 3.2.4.
#[test]
fn options_of_a_whole_server_reach_it_as_such() {
    let mut script = Script::new().connect();
    let mut upstream = Acts::new();
    for (url, target) in [("http://a.example", "*"), ("http://a.example/", "/"), ("http://a.example?x", "/?x")] {
        let request = head(&[&format!("OPTIONS {url} HTTP/1.1"), "Host: a.example"]);
        script = script.send(text(request)).expect(HELLO);
        upstream = upstream.expect(head(&[&format!("OPTIONS {target} HTTP/1.1"), "Host: a.example"])).send(HELLO);
    }
    play(vec![script.part()], vec![upstream]).run();
}

/// The scheme for the origin is that of the URL, as in the cache key, and not that of the client's connection.
#[test]
fn upstream_gets_the_scheme_of_the_url() {
    let settings = Settings {
        identity: Identity { via: false, ..Identity::default() },
        secured_listeners: vec![ListenerId(1)],
        ..forward()
    };
    let resolver = Some(Arc::new(Names::default().resolver(Vec::new())) as _);
    let proxy = Proxy::new(Parts { resolver, ..Parts::new(settings, WallClock::starting_at(UnixSeconds(THEN))) });
    let mut driven = Driven::new(&proxy.unwrap(), 0);
    for listener in [0, 1] {
        let (client, server) = (ConnectionId::new(listener, 0), ConnectionId::new(10 + listener, 0));
        let accepted = Accepted { listener: ListenerId(listener as usize), peer: Some("192.0.2.1:1".parse().unwrap()) };
        driven.0.handle_accepted(Instant::ZERO, client, accepted, &mut driven.1);
        let actions = driven.receive(client, "GET http://10.0.0.1/a HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n");
        let Some(Action::Connect(ticket, _)) = actions.first() else { panic!("{actions:?}") };
        driven.0.handle_connected(Instant::ZERO, *ticket, Ok(Connected::plain(server)), &mut driven.1);
        let said = [
            "GET /a HTTP/1.1",
            "Host: 10.0.0.1",
            "Forwarded: for=192.0.2.1;proto=http;host=10.0.0.1",
            "X-Forwarded-For: 192.0.2.1",
            "X-Forwarded-Host: 10.0.0.1",
            "X-Forwarded-Proto: http",
        ];
        assert_eq!(driven.sent(), head(&said));
    }
}
