//! Repeated requests and responses: replayed ones equal the first, parsed ones.

use breme_base::Random;
use breme_proxy::{HostRule, Mode, Settings};
use breme_sim::Network;
use breme_testkit::Script;

use crate::support::{Acts, Play, head, text};

/// A proxy with all identity headers.
fn with_identity(host: HostRule) -> Settings {
    Settings::new(Mode::Reverse { host })
}

/// What a client sends, what the upstream gets and sends, and what the client gets.
#[derive(Clone)]
struct Exchange {
    sent: String,
    passed: String,
    answered: String,
    got: String,
}

const SAID: [&str; 5] = [
    "Via: 1.1 breme (cde2f3e1)",
    "Forwarded: for=10.0.0.3;proto=http;host=a.example",
    "X-Forwarded-For: 10.0.0.3",
    "X-Forwarded-Host: a.example",
    "X-Forwarded-Proto: http",
];

fn exchange(method: &str, path: &str, answer: &[&str], content: &str) -> Exchange {
    let line = format!("{method} {path} HTTP/1.1");
    let common = [line.as_str(), "Host: a.example", "Accept: */*"];
    let via = [answer, &["Via: 1.1 breme"]].concat();
    Exchange {
        sent: head(&common),
        passed: head(&[&common[..], &SAID].concat()),
        answered: head(answer) + content,
        got: head(&via) + content,
    }
}

fn exchanges() -> Vec<Exchange> {
    let ok = |length: &'static str| ["HTTP/1.1 200 OK", length, "Date: x", "X-Long: yes"];
    vec![
        exchange("GET", "/a", &ok("Content-Length: 5"), "hello"),
        // Another response of the same length, or with nearly the same head.
        exchange("GET", "/a", &ok("Content-Length: 5"), "olleh"),
        exchange("GET", "/a", &["HTTP/1.1 200 OK", "Content-Length: 5", "Date: y", "X-Long: yes"], "hello"),
        exchange("GET", "/a", &["HTTP/1.1 404 Not Found", "Content-Length: 3", "Date: x"], "no!"),
        exchange("GET", "/a", &["HTTP/1.1 304 Not Modified", "Date: x", "ETag: \"z\""], ""),
        exchange("HEAD", "/a", &ok("Content-Length: 5"), ""),
        exchange("GET", "/ab", &ok("Content-Length: 5"), "other"),
        exchange("DELETE", "/a", &["HTTP/1.1 204 No Content", "Date: x"], ""),
        exchange("GET", "/a", &["HTTP/1.1 200 OK", "Content-Length: 0", "Date: x"], ""),
    ]
}

#[test]
fn replayed_requests_equal_the_first() {
    let all = exchanges();
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut script, mut upstream) = (Script::new().connect(), Acts::new());
        for _ in 0..60 {
            let Exchange { sent, passed, answered, got } = all[random.below(all.len() as u64) as usize].clone();
            (script, upstream) = (script.send(text(sent)).expect(text(got)), upstream.expect(passed).send(answered));
        }
        let mut play = Play::new(vec![script.part()], vec![upstream.expect_end()]);
        play.settings = with_identity(HostRule::Keep);
        play.network = if seed % 2 == 0 { Network::calm() } else { Network::rough() };
        let counts = play.run();
        assert_eq!((counts.connects, counts.reuses), (1, 59));
        // On a rough network little arrives in one segment, and is replayed.
        let is_calm = seed % 2 == 0;
        assert!(!is_calm || (counts.requests_replayed > 20 && counts.responses_replayed > 0), "{counts:?}");
    }
}

#[test]
fn pipelined_replays_keep_order() {
    let Exchange { sent, passed, answered, got } = exchanges()[0].clone();
    let last = exchange("GET", "/last", &["HTTP/1.1 200 OK", "Content-Length: 4", "Date: x"], "last");
    let script =
        Script::new().connect().send(text(sent.repeat(9) + &last.sent)).expect(text(got.repeat(9) + &last.got));
    let upstream = (0..9).fold(Acts::new(), |acts, _| acts.expect(&passed).send(&answered));
    let upstream = upstream.expect(&last.passed).send(&last.answered).expect_end();
    let mut play = Play::new(vec![script.part()], vec![upstream]);
    play.settings = with_identity(HostRule::Keep);
    let counts = play.run();
    assert_eq!((counts.requests_replayed, counts.responses_replayed), (7, 7));
}

#[test]
fn replay_sets_upstream_host() {
    let Exchange { sent, answered, got, .. } = exchanges()[0].clone();
    let passed = head(&[&["GET /a HTTP/1.1", "Accept: */*"], &SAID[..], &["Host: up0.example:80"]].concat());
    let (mut script, mut upstream) = (Script::new().connect(), Acts::new());
    for _ in 0..5 {
        (script, upstream) = (script.send(text(&sent)).expect(text(&got)), upstream.expect(&passed).send(&answered));
    }
    let mut play = Play::new(vec![script.part()], vec![upstream]);
    play.settings = with_identity(HostRule::Upstream);
    play.run();
}

/// A replayed request may use a connection that was just closed, like any other.
#[test]
fn replayed_request_is_retried() {
    let Exchange { sent, passed, answered, got } = exchanges()[0].clone();
    let script = (0..5).fold(Script::new().connect(), |script, _| script.send(text(&sent)).expect(text(&got)));
    let most = (0..4).fold(Acts::new(), |acts, _| acts.expect(&passed).send(&answered));
    let ends = most.expect(&passed).close(breme_node::Close::Graceful);
    let mut play = Play::new(vec![script.part()], vec![ends, Acts::new().expect(&passed).send(&answered)]);
    play.settings = with_identity(HostRule::Keep);
    assert_eq!(play.run().retries, 1);
}

/// A request with `Connection: close` closes its connection, also when it is replayed.
#[test]
fn replay_respects_last_request() {
    let sent = head(&["GET /a HTTP/1.1", "Host: a.example", "Connection: close"]);
    let passed = head(&[&["GET /a HTTP/1.1", "Host: a.example"], &SAID[..]].concat());
    let answered = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Date: x"]) + "hello";
    let got =
        head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Connection: close", "Date: x", "Via: 1.1 breme"]) + "hello";
    let client = |number: u32| {
        let script = if number == 0 { Script::new() } else { Script::new().await_signal(number) };
        script.connect().send(text(&sent)).expect(text(&got)).part_after_end().signal(number + 1)
    };
    let upstream = (0..5).fold(Acts::new(), |acts, _| acts.expect(&passed).send(&answered));
    let mut play = Play::new((0..5).map(client).collect(), vec![upstream.expect_end()]);
    play.settings = with_identity(HostRule::Keep);
    assert_eq!(play.run().requests_replayed, 0);
}
