//! What clients and upstreams receive, byte for byte. Scripts run on a calm network, and on many that cut and delay the
//! data anywhere: the bytes that arrive must be the same.

use std::time::Duration;

use breme_base::Instant;
use breme_node::Close;
use breme_proxy::{ErrorPage, ErrorPages, HostRule, Mode, PageStatus, RequestOutcome, Settings};
use breme_sim::{AmountRange, Network};
use breme_testkit::{Ending, Script};

use crate::support::{Acts, Play, check_on_all_networks, error_response, failure, head, later, silent, text};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const OTHER: &str = "GET /other HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";
const SECOND: Duration = Duration::from_secs(1);

fn client() -> Script {
    Script::new().connect()
}

fn exchange(script: Script, request: &str, answer: &str) -> Script {
    script.send(text(request)).expect(text(answer))
}

fn answers(acts: Acts, request: &str, answer: &str) -> Acts {
    acts.expect(request).send(answer)
}

/// One exchange, as the client and the upstream see it. Then another one follows on both connections.
fn one_exchange(sent: &str, passed: &str, answered: &str, got: &str) {
    check_on_all_networks(
        || {
            let script = exchange(exchange(client(), sent, got), GET, HELLO).part();
            let upstream = answers(answers(Acts::new(), passed, answered), GET, HELLO).expect_end();
            Play::new(vec![script], vec![upstream])
        },
        |counts| assert_eq!((counts.connects, counts.reuses), (1, 1)),
    );
}

#[test]
fn reuses_both_connections() {
    one_exchange(GET, GET, HELLO, HELLO);
}

#[test]
fn relays_each_framing() {
    let post = |framing: &str, content: &str| head(&["POST /a HTTP/1.1", "Host: a.example", framing]) + content;
    let length = post("Content-Length: 5", "hello");
    one_exchange(&length, &length, HELLO, HELLO);
    let chunked = post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n");
    let odd = post("Transfer-Encoding: chunked", "5;x=y\r\nhello\r\n0;z\r\n\r\n");
    // The chunks are the original ones only if the network does not cut them.
    let script = exchange(client(), &odd, HELLO).part();
    Play::new(vec![script], vec![answers(Acts::new(), &chunked, HELLO)]).run();
    let answer = head(&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Date: x"]) + "5\r\nhello\r\n0\r\n\r\n";
    let script = exchange(client(), GET, &answer).part();
    Play::new(vec![script], vec![answers(Acts::new(), GET, &answer)]).run();
}

#[test]
fn relays_trailers() {
    let chunked = "Transfer-Encoding: chunked";
    let request_with = |lines: &[&str]| head(&[&["GET /a HTTP/1.1", "Host: a.example"], lines].concat());
    let (takes, passed) = (request_with(&["TE: gzip, Trailers"]), request_with(&["Connection: TE", "TE: trailers"]));
    let answer = |lines: &[&str], end: &str| {
        head(&[&["HTTP/1.1 200 OK", chunked], lines].concat()) + "5\r\nhello\r\n0\r\n" + end + "\r\n"
    };
    let sent = answer(&["Trailer: X-Sum, Host, Vary", "Date: x"], "X-Sum: 1\r\nVary: *\r\nX_Sum: 2\r\nX-Empty:\r\n");
    // A client without `TE: trailers` gets none.
    for (request, passed, got) in [
        (takes.as_str(), passed.as_str(), answer(&["Date: x", "Trailer: X-Sum"], "X-Sum: 1\r\nX-Empty: \r\n")),
        (GET, GET, answer(&["Date: x"], "")),
    ] {
        let script = exchange(exchange(client(), request, &got), GET, HELLO).part();
        let upstream = answers(answers(Acts::new(), passed, &sent), GET, HELLO);
        Play::new(vec![script], vec![upstream]).run();
    }
    let post = |lines: &[&str], end: &str| {
        let lines = [&["POST /a HTTP/1.1", "Host: a.example", chunked], lines].concat();
        head(&lines) + "5\r\nhello\r\n0\r\n" + end + "\r\n"
    };
    one_exchange(
        &post(&["Trailer: X-Sum, X-Forwarded-For"], "X-Sum: 1\r\nX-Forwarded-For: 10.0.0.1\r\n"),
        &post(&["Trailer: X-Sum"], "X-Sum: 1\r\n"),
        HELLO,
        HELLO,
    );
}

#[test]
fn drops_hop_by_hop_trailers() {
    let chunked = "Transfer-Encoding: chunked";
    let (post, ok) = (["POST /a HTTP/1.1", "Host: a.example", chunked], ["HTTP/1.1 200 OK", chunked, "Date: x"]);
    let message =
        |first: &[&str], more: &[&str], end: &str| head(&[first, more].concat()) + "5\r\nhello\r\n0\r\n" + end + "\r\n";
    let play = |request: &str, passed: &str, answered: &str, got: &str| {
        let script = exchange(client(), request, got);
        let script = if got.contains("Connection: close") { script.part_after_end() } else { script.part() };
        Play::new(vec![script], vec![answers(Acts::new(), passed, answered)]).run();
    };
    let (named, end) = (["Connection: keep-alive, x-SUM", "Trailer: X-Sum"], "X-Sum: 1\r\nX-Other: 2\r\n");
    play(&message(&post, &named, end), &message(&post, &[], ""), HELLO, HELLO);
    let takes = ["Connection: TE", "TE: trailers"];
    let get = head(&[&["GET /a HTTP/1.1", "Host: a.example"][..], &takes].concat());
    play(&get, &get, &message(&ok, &named, end), &message(&ok, &[], ""));
    // Trailers that only concern the connection are not forwarded.
    let leaves = HELLO.replace("Date", "Connection: close\r\nDate");
    let leaving = message(&post, &["Connection: close, TE", "TE: trailers"], end);
    play(&leaving, &message(&post, &takes, end), HELLO, &leaves);
    // A response to HTTP/1.0 cannot have trailers, so none are requested and none announced.
    let old = head(&[&["GET /a HTTP/1.0", "Host: a.example"][..], &takes].concat());
    let got = head(&["HTTP/1.1 200 OK", "Connection: close", "Date: x"]) + "hello";
    play(&old, GET, &message(&ok, &["Trailer: X-Sum"], "X-Sum: 1\r\n"), &got);
}

#[test]
fn rejects_forbidden_trailers() {
    let post = head(&["POST /a HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked"]) + "5\r\nhello\r\n";
    let reason = "A trailer changes the framing, routing or authentication of the request.\n";
    let refused = head(&[
        "HTTP/1.1 400 Bad Request",
        &format!("Content-Length: {}", reason.len()),
        "Connection: close",
        "Date: Sun, 06 Nov 1994 08:49:38 GMT",
        "Content-Type: text/plain; charset=utf-8",
    ]) + reason;
    let attack = text("0\r\nX-A: b\r\nContent-Length: 3\r\n\r\n".to_owned() + GET);
    let script = client().send(text(post.clone())).wait(SECOND).send(attack).expect(text(refused));
    Play::new(vec![script.part_after_end()], vec![Acts::new().expect(post).expect_end()]).run();
    // A truncated response is not mistaken for a complete one.
    let answer = head(&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Date: x"]) + "5\r\nhello\r\n";
    let upstream = Acts::new().expect(GET).send(answer.clone() + "0\r\nSet-Cookie: a=b\r\n\r\n").anything();
    Play::new(vec![exchange(client(), GET, &answer).part_after_end()], vec![upstream]).run();
}

#[test]
fn relays_responses_without_body() {
    let request = |method: &str| head(&[&format!("{method} /a HTTP/1.1"), "Host: a.example"]);
    let length = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Date: x"]);
    one_exchange(&request("HEAD"), &request("HEAD"), &length, &length);
    let not_modified = head(&["HTTP/1.1 304 Not Modified", "Content-Length: 5", "Date: x", "ETag: \"y\""]);
    one_exchange(GET, GET, &not_modified, &not_modified);
    let nothing = head(&["HTTP/1.1 204 No Content", "Date: x"]);
    one_exchange(GET, GET, &nothing, &nothing);
}

#[test]
fn adds_missing_date() {
    let sent = head(&["HTTP/1.1 200 OK", "Content-Length: 0"]);
    let got = head(&["HTTP/1.1 200 OK", "Content-Length: 0", "Date: Sun, 06 Nov 1994 08:49:37 GMT"]);
    let script = exchange(client(), GET, &got).part();
    Play::new(vec![script], vec![answers(Acts::new(), GET, &sent)]).run();
}

#[test]
fn reframes_close_delimited_responses() {
    let sent = head(&["HTTP/1.1 200 OK", "Date: x"]) + "hello";
    let upstream = || Acts::new().expect(GET).send(&sent).close(Close::Graceful);
    let chunked = head(&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Date: x"]) + "5\r\nhello\r\n0\r\n\r\n";
    let script = exchange(exchange(client(), GET, &chunked), GET, HELLO).part();
    let counts = Play::new(vec![script], vec![upstream(), answers(Acts::new(), GET, HELLO)]).run();
    assert_eq!((counts.connects, counts.reuses), (2, 0));
    // For a client with HTTP/1.0 the end is that of the connection, as for the proxy.
    check_on_all_networks(
        || {
            let old = head(&["GET /a HTTP/1.0", "Host: a.example"]);
            let got = head(&["HTTP/1.1 200 OK", "Connection: close", "Date: x"]) + "hello";
            Play::new(vec![exchange(client(), &old, &got).part_after_end()], vec![upstream()])
        },
        |_| {},
    );
}

#[test]
fn serves_http10_clients() {
    let staying = head(&["GET /a HTTP/1.0", "Connection: keep-alive", "Host: a.example"]);
    let stays = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Connection: keep-alive", "Date: x"]) + "hello";
    let leaving = head(&["GET /a HTTP/1.0"]);
    let leaves = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Connection: close", "Date: x"]) + "hello";
    check_on_all_networks(
        || {
            let script = exchange(exchange(client(), &staying, &stays), &leaving, &leaves).part_after_end();
            let nameless = head(&["GET /a HTTP/1.1", "Host: up0.example:80"]);
            Play::new(vec![script], vec![answers(answers(Acts::new(), GET, HELLO), &nameless, HELLO)])
        },
        |_| {},
    );
}

#[test]
fn uses_http10_upstreams() {
    let leaving = head(&["HTTP/1.0 200 OK", "Content-Length: 5", "Date: x"]) + "hello";
    let staying = head(&["HTTP/1.0 200 OK", "Connection: keep-alive", "Content-Length: 5", "Date: x"]) + "hello";
    check_on_all_networks(
        || {
            let script = exchange(exchange(exchange(client(), GET, HELLO), GET, HELLO), GET, HELLO).part();
            let once = answers(Acts::new(), GET, &leaving).expect_end();
            let twice = answers(answers(Acts::new(), GET, &staying), GET, &leaving).expect_end();
            Play::new(vec![script], vec![once, twice])
        },
        |counts| assert_eq!((counts.connects, counts.reuses), (2, 1)),
    );
}

#[test]
fn pipelining_keeps_order() {
    let request = |name: u32| head(&[&format!("GET /{name} HTTP/1.1"), "Host: a"]);
    let answer = |name: u32| head(&["HTTP/1.1 200 OK", "Content-Length: 1", "Date: x"]) + &name.to_string();
    check_on_all_networks(
        || {
            let all = |of: &dyn Fn(u32) -> String| (0..8).map(of).collect::<String>();
            let script = exchange(client(), &all(&request), &all(&answer)).part();
            let upstream = (0..8).fold(Acts::new(), |acts, name| answers(acts, &request(name), &answer(name)));
            Play::new(vec![script], vec![upstream.expect_end()])
        },
        |counts| assert_eq!(counts.reuses, 7),
    );
}

#[test]
fn clients_get_their_own_responses() {
    let request = |name: &str| head(&[&format!("GET /{name} HTTP/1.1"), "Host: a"]);
    let answer = |name: &str| head(&["HTTP/1.1 200 OK", "Content-Length: 1", "Date: x"]) + name;
    let scripts = vec![
        exchange(client().send(text(request("a"))).signal(1), "", &answer("a")).part(),
        exchange(client().await_signal(1), &request("b"), &answer("b")).part(),
    ];
    // The first waits while the second gets its response.
    let upstreams = vec![
        Acts::new().expect(request("a")).wait(SECOND).send(answer("a")).expect_end(),
        answers(Acts::new(), &request("b"), &answer("b")).expect_end(),
    ];
    Play::new(scripts, upstreams).run();
}

#[test]
fn host_follows_its_rule() {
    for (host, expected) in [
        (HostRule::Keep, "a.example"),
        (HostRule::Upstream, "up0.example:80"),
        (HostRule::Fixed("fixed.example".to_owned()), "fixed.example"),
    ] {
        let absolute = head(&["GET http://a.example/a HTTP/1.1", "Host: other.example"]);
        let passed = match host {
            HostRule::Upstream => head(&["GET /a HTTP/1.1", "X: y", &format!("Host: {expected}")]),
            _ => head(&["GET /a HTTP/1.1", &format!("Host: {expected}"), "X: y"]),
        };
        let request = absolute.replace("\r\n\r\n", "\r\nX: y\r\n\r\n");
        let settings = Settings { mode: Mode::Reverse { host }, ..silent() };
        let script = exchange(client(), &request, HELLO).part();
        Play { settings, ..Play::new(vec![script], vec![answers(Acts::new(), &passed, HELLO)]) }.run();
    }
}

#[test]
fn relays_interim_responses() {
    let hints = head(&["HTTP/1.1 103 Early Hints", "Link: </x>"]);
    one_exchange(GET, GET, &(hints.clone() + HELLO), &(hints.clone() + HELLO));
    let old = head(&["GET /a HTTP/1.0", "Host: a.example"]);
    let got = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Connection: close", "Date: x"]) + "hello";
    let script = exchange(client(), &old, &got).part_after_end();
    Play::new(vec![script], vec![answers(Acts::new(), GET, &(hints + HELLO))]).run();
}

#[test]
fn waits_for_upstream_100() {
    let put = head(&["PUT /a HTTP/1.1", "Host: a.example", "Content-Length: 5", "Expect: 100-continue"]);
    let go_on = head(&["HTTP/1.1 100 Continue"]);
    check_on_all_networks(
        || {
            let script = exchange(exchange(exchange(client(), &put, &go_on), "hello", HELLO), GET, HELLO).part();
            let upstream = answers(Acts::new(), &put, &go_on).expect("hello").send(HELLO);
            Play::new(vec![script], vec![answers(upstream, GET, HELLO).expect_end()])
        },
        |counts| assert_eq!(counts.reuses, 1),
    );
}

#[test]
fn refusal_replaces_100() {
    let put = head(&["PUT /a HTTP/1.1", "Host: a.example", "Content-Length: 5", "Expect: 100-continue"]);
    let no = |connection: &[&str]| {
        head(&[&["HTTP/1.1 403 Forbidden", "Content-Length: 0"], connection, &["Date: x"]].concat())
    };
    check_on_all_networks(
        || {
            // It is unknown whether the content will be sent, so both connections are closed.
            let script = exchange(client(), &put, &no(&["Connection: close"])).part_after_end();
            Play::new(vec![script], vec![answers(Acts::new(), &put, &no(&[])).expect_end()])
        },
        |counts| assert_eq!(counts.pool_idle, 0),
    );
}

#[test]
fn closed_idle_connection_is_dropped() {
    check_on_all_networks(
        || {
            let script = exchange(exchange(client(), GET, HELLO).wait(SECOND), GET, HELLO).part();
            let ends = answers(Acts::new(), GET, HELLO).close(Close::Graceful);
            Play::new(vec![script], vec![ends, answers(Acts::new(), GET, HELLO)])
        },
        |counts| assert_eq!((counts.connects, counts.retries), (2, 0)),
    );
}

#[test]
fn retries_on_closed_idle_connection() {
    check_on_all_networks(
        || {
            let script = exchange(exchange(client(), GET, HELLO), OTHER, HELLO).part();
            let ends = answers(Acts::new(), GET, HELLO).expect(OTHER).close(Close::Graceful);
            Play::new(vec![script], vec![ends, answers(Acts::new(), OTHER, HELLO)])
        },
        |counts| assert_eq!((counts.connects, counts.reuses, counts.retries), (2, 1, 1)),
    );
}

#[test]
fn does_not_retry_unsafe_requests() {
    let post = head(&["POST /a HTTP/1.1", "Host: a.example", "Content-Length: 0"]);
    let put = head(&["PUT /a HTTP/1.1", "Host: a.example", "Content-Length: 1"]) + "x";
    for request in [post, put] {
        let failure =
            failure(502, "connection_terminated", "the upstream closed the connection before it sent a response");
        check_on_all_networks(
            || {
                let script = exchange(exchange(client(), GET, HELLO), &request, &failure).part();
                let ends = answers(Acts::new(), GET, HELLO).expect(&request).close(Close::Graceful);
                Play::new(vec![script], vec![ends])
            },
            |counts| assert_eq!((counts.retries, counts.bad_gateway), (0, 1)),
        );
    }
}

#[test]
fn tries_another_upstream_if_connect_fails() {
    let answer = failure(502, "connection_refused", "the upstream refused the connection");
    let post = head(&["POST /a HTTP/1.1", "Host: a.example", "Content-Length: 5"]) + "hello";
    let script = exchange(exchange(client(), GET, &answer), &post, &answer).part();
    let play = Play { has_dead_upstream: true, upstreams: Vec::new(), ..Play::new(vec![script], Vec::new()) };
    let counts = play.run();
    assert_eq!((counts.connects_failed, counts.bad_gateway), (2, 2));
    // Nothing was sent to the dead one, so a POST may also be sent to another.
    let script = exchange(client(), &post, HELLO).part();
    let play = Play::new(vec![script], vec![answers(Acts::new(), &post, HELLO)]);
    let counts = Play { has_dead_upstream: true, ..play }.run();
    assert_eq!((counts.connects_failed, counts.connects), (1, 1));
}

/// Clients see names of upstreams only with `shows_upstreams`.
#[test]
fn errors_name_upstream_only_if_enabled() {
    let mode = || Mode::Reverse { host: HostRule::Keep };
    for (shows_upstreams, named) in [(false, false), (true, true)] {
        let content = if named { "dead.example:80: " } else { "Proxy error: " }.to_owned();
        let content = content + "the upstream refused the connection.\n";
        let next_hop = if named { "; next-hop=\"dead.example:80\"" } else { "" };
        let proxy_status = format!("Proxy-Status: breme; error=connection_refused{next_hop}");
        let answer = error_response(502, &[&proxy_status], &content);
        let play = Play::new(vec![exchange(client(), GET, &answer).part()], Vec::new());
        let settings = Settings { shows_upstreams, ..Settings { mode: mode(), ..play.settings.clone() } };
        let counts = Play { settings, has_dead_upstream: true, upstreams: Vec::new(), ..play }.run();
        assert_eq!((counts.requests(RequestOutcome::Error), counts.requests(RequestOutcome::Relayed)), (1, 0));
    }
}

#[test]
fn uses_configured_error_pages() {
    let page = |status: &str, text: &'static str| {
        let page = ErrorPage { media_type: "text/html; charset=utf-8".to_owned(), content: text.into() };
        (PageStatus::parse(status).unwrap(), page)
    };
    let mut error_pages = ErrorPages::default();
    for (status, page) in [page("5xx", "<h1>Back soon</h1>"), page("431", "<h1>Too long</h1>")] {
        assert!(error_pages.insert(status, page));
    }
    let unreached = head(&[
        "HTTP/1.1 502 Bad Gateway",
        "Content-Length: 18",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Content-Type: text/html; charset=utf-8",
        "Cache-Control: no-store",
        "Proxy-Status: breme; error=connection_refused",
    ]);
    let refused = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 17\r\nConnection: close\r\n\
        Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<h1>Too long</h1>";
    let long = head(&["GET / HTTP/1.1", "Host: a", &format!("X: {}", "x".repeat(20_000))]);
    let head_request = head(&["HEAD /a HTTP/1.1", "Host: a.example"]);
    let script = exchange(client(), GET, &(unreached.clone() + "<h1>Back soon</h1>"));
    let script = exchange(exchange(script, &head_request, &unreached), &long, refused).part_after_end();
    let play = Play::new(vec![script], Vec::new());
    let settings = Settings { error_pages, ..play.settings.clone() };
    let counts = Play { settings, has_dead_upstream: true, upstreams: Vec::new(), ..play }.run();
    assert_eq!((counts.responses_of_class(5), counts.responses_of_class(4)), (2, 1));
    assert_eq!(counts.bytes_downstream, 18 + 17, "the response to HEAD has no body");
}

#[test]
fn rejects_invalid_responses() {
    for (answered, error, reason) in [
        ("", "connection_terminated", "the upstream closed the connection before it sent a response"),
        ("SSH-2.0-x\r\n", "http_protocol_error", "the head of the response is not HTTP/1.0 or HTTP/1.1"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
            "http_protocol_error",
            "the head of the response is malformed: a header name contains white space, or is followed by it",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "http_protocol_error",
            "the length of the response is malformed or ambiguous",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "http_protocol_error",
            "the length of the response is malformed or ambiguous",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "http_protocol_error",
            "the server sent a response without a request",
        ),
        (
            "HTTP/1.1 200",
            "http_response_incomplete",
            "the server closed the connection before the response was complete",
        ),
    ] {
        let failure = failure(502, error, reason);
        check_on_all_networks(
            || {
                let script = exchange(client(), GET, &failure).part();
                let upstream = Acts::new().expect(GET).send(answered).close(Close::Graceful);
                Play::new(vec![script], vec![upstream])
            },
            |counts| assert_eq!((counts.bad_gateway, counts.retries), (1, 0)),
        );
    }
}

/// Such a response says nothing about the upstream's health: five of one page must not eject it.
#[test]
fn response_over_a_limit_is_not_a_broken_connection() {
    let fields = |count: usize| "X: y\r\n".repeat(count);
    let answer = |lines: String| format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n");
    let long = |length: usize| answer(format!("X: {}\r\n", "y".repeat(length)));
    for (answered, reason) in [
        (answer(fields(257)), "the response has more than 256 headers or trailers"),
        (long(9_000), "the head of the response is larger than 8192 bytes"),
    ] {
        let mut settings = silent();
        settings.upstream_limits.head_bytes_max = 8192;
        let failure = failure(502, "http_response_header_section_size", reason);
        let script = exchange(client(), GET, &failure).part();
        let upstream = Acts::new().expect(GET).send(answered).anything();
        let (counts, group) = Play { settings, ..Play::new(vec![script], vec![upstream]) }.run_balanced();
        let totals = group.states(Instant::ZERO)[0].totals;
        assert_eq!((counts.bad_gateway, totals.connection_lost, totals.abandoned), (1, 0, 1));
    }
    for answered in [answer(fields(254) + "Date: x\r\n"), long(65_000).replace("X: ", "Date: x\r\nX: ")] {
        let got =
            answered.replacen("Content-Length: 0\r\n", "", 1).replacen("OK\r\n", "OK\r\nContent-Length: 0\r\n", 1);
        let script = exchange(client(), GET, &got).part();
        Play::new(vec![script], vec![Acts::new().expect(GET).send(answered)]).run();
    }
}

#[test]
fn truncated_response_aborts_client() {
    let framings = ["Content-Length: 9", "Transfer-Encoding: chunked"];
    for (framing, content) in framings.into_iter().zip(["hello", "5\r\nhello\r\n"]) {
        let part = head(&["HTTP/1.1 200 OK", framing, "Date: x"]) + content;
        let script = client().send(text(GET)).expect_gone(text(&part)).expect_closed(Ending::Any);
        let upstream = Acts::new().expect(GET).send(&part).close(Close::Graceful);
        let counts = Play::new(vec![script], vec![upstream]).run();
        assert_eq!(counts.upstreams_failed, 1, "{framing}");
    }
}

#[test]
fn does_not_reuse_connection_with_extra_bytes() {
    let more = HELLO.to_owned() + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let script = exchange(exchange(client(), GET, HELLO), OTHER, HELLO).part();
    let upstreams = vec![Acts::new().expect(GET).send(&more).expect_end(), answers(Acts::new(), OTHER, HELLO)];
    Play::new(vec![script], upstreams).run();
    // Nor if the extra bytes arrive later.
    let later = Acts::new().expect(GET).send(HELLO).wait(SECOND).send("HTTP/1.1 200 OK\r\n\r\n").anything();
    let script = exchange(exchange(client(), GET, HELLO).wait(2 * SECOND), OTHER, HELLO).part();
    Play::new(vec![script], vec![later, answers(Acts::new(), OTHER, HELLO)]).run();
}

#[test]
fn enforces_timeouts() {
    let mut settings = silent();
    settings.times.head = 5 * SECOND;
    settings.times.between_bytes = 3 * SECOND;
    settings.limits.body_timeout = 4 * SECOND;
    // The response does not start.
    let late = later(5, failure(504, "http_response_timeout", "the upstream did not respond in time"));
    let script = exchange(client(), GET, &late).part();
    let play = Play::new(vec![script], vec![Acts::new().expect(GET).expect_end()]);
    let counts = Play { settings: settings.clone(), ..play }.run();
    assert_eq!(counts.gateway_timeouts, 1);
    // The response starts and stalls.
    let part = head(&["HTTP/1.1 200 OK", "Content-Length: 9", "Date: x"]) + "hello";
    let script = client().send(text(GET)).expect_gone(text(&part)).expect_closed(Ending::Any);
    let play = Play::new(vec![script], vec![Acts::new().expect(GET).send(&part).expect_end()]);
    assert_eq!(Play { settings: settings.clone(), ..play }.run().upstreams_failed, 1);
    // The client does not send its announced content.
    let put = head(&["PUT /a HTTP/1.1", "Host: a.example", "Content-Length: 5"]) + "hell";
    let refusal = "The body of the request did not arrive in time.\n";
    let refused = head(&[
        "HTTP/1.1 408 Request Timeout",
        &format!("Content-Length: {}", refusal.len()),
        "Connection: close",
        "Date: Sun, 06 Nov 1994 08:49:41 GMT",
        "Content-Type: text/plain; charset=utf-8",
    ]) + refusal;
    let script = exchange(client(), &put, &refused).part_after_end();
    let play = Play::new(vec![script], vec![Acts::new().expect(&put).expect_end()]);
    Play { settings: settings.clone(), ..play }.run();
    // The whole response takes too long, although data arrives now and then.
    settings.times.total = 10 * SECOND;
    let begun = head(&["HTTP/1.1 200 OK", "Content-Length: 99", "Date: x"]);
    let script = client().send(text(GET)).expect_gone(text(begun.clone() + "....")).expect_closed(Ending::Any);
    let slowly = (0..4).fold(Acts::new().expect(GET).send(&begun), |acts, _| acts.wait(2 * SECOND).send("."));
    Play { settings, ..Play::new(vec![script], vec![slowly.expect_end()]) }.run();
}

/// Otherwise slow clients would get a healthy upstream ejected.
#[test]
fn total_timeout_blames_the_upstream_only_if_it_is_waited_for() {
    let mut settings = silent();
    settings.times.total = 5 * SECOND;
    let outcomes = |script: Script, upstream: Acts, network: Network| {
        let play = Play::new(vec![script], vec![upstream.expect_end()]);
        let (_, group) = Play { settings: settings.clone(), network, ..play }.run_balanced();
        let totals = group.states(Instant::ZERO)[0].totals;
        (totals.timed_out, totals.abandoned)
    };
    // The client does not send its announced content.
    let put = head(&["PUT /a HTTP/1.1", "Host: a.example", "Content-Length: 5"]) + "hell";
    let refusal = "The body of the request arrived too slowly.\n";
    let refused = head(&[
        "HTTP/1.1 408 Request Timeout",
        &format!("Content-Length: {}", refusal.len()),
        "Connection: close",
        "Date: Sun, 06 Nov 1994 08:49:42 GMT",
        "Content-Type: text/plain; charset=utf-8",
    ]) + refusal;
    let script = exchange(client(), &put, &refused).part_after_end();
    assert_eq!(outcomes(script, Acts::new().expect(&put), Network::calm()), (0, 1));
    // It does not read the response.
    let content = "x".repeat(1 << 20);
    let long = head(&["HTTP/1.1 200 OK", &format!("Content-Length: {}", content.len()), "Date: x"]) + &content;
    let script = client().send(GET).pause().wait(10 * SECOND).resume();
    let script = script.expect_gone(text(&long[..long.len() - 1])).expect_closed(Ending::Any);
    let network = Network {
        window_bytes: AmountRange::always(16 << 10),
        long_queue_bytes: AmountRange::always(64 << 10),
        ..Network::calm()
    };
    assert_eq!(outcomes(script, Acts::new().expect(GET).send(&long), network), (0, 1));
    // The upstream does not respond.
    let late = later(5, failure(504, "http_response_timeout", "the response was not complete in time"));
    let script = exchange(client(), GET, &late).part();
    assert_eq!(outcomes(script, Acts::new().expect(GET), Network::calm()), (1, 0));
}

#[test]
fn upstream_connection_closes_with_client() {
    check_on_all_networks(
        || {
            let script = client().send(text(GET)).wait(20 * SECOND).close(Close::Abort).expect_closed(Ending::Any);
            // The simulation ends when the last client leaves.
            let witness = Script::new().wait(30 * SECOND);
            Play::new(vec![script, witness], vec![Acts::new().expect(GET).expect_end()])
        },
        |counts| assert_eq!(counts.clients_gone, 1),
    );
}

#[test]
fn finishes_exchanges_when_stopping() {
    let leaves = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Connection: close", "Date: x"]) + "hello";
    let idle = exchange(client(), GET, HELLO).expect_end().close(Close::Graceful).expect_closed(Ending::Any);
    let busy = client().wait(SECOND).send(text(OTHER)).expect(text(&leaves)).part_after_end();
    let upstreams = vec![answers(Acts::new(), GET, HELLO).expect(OTHER).wait(3 * SECOND).send(HELLO).expect_end()];
    Play { stops_at: Some(2 * SECOND), ..Play::new(vec![idle, busy], upstreams) }.run();
}

/// The request was sent before the client could know that the proxy stops.
#[test]
fn serves_late_requests_when_stopping() {
    let leaves = HELLO.replace("\r\nDate", "\r\nConnection: close\r\nDate");
    let late = exchange(client(), GET, HELLO).wait(5 * SECOND / 2).send(text(OTHER)).expect(text(leaves));
    // The idle connection was closed.
    let upstreams = [GET, OTHER].map(|request| answers(Acts::new(), request, HELLO).expect_end());
    let settings = Settings { stopping_linger: SECOND, ..silent() };
    let play = Play::new(vec![late.part_after_end()], upstreams.into());
    Play { settings, stops_at: Some(2 * SECOND), ..play }.run();
}

#[test]
fn idle_connections_time_out() {
    let mut settings = silent();
    settings.pool.idle_timeout = 2 * SECOND;
    settings.pool.requests_max = 2;
    let get = |script: Script| exchange(script, GET, HELLO);
    let script = get(get(get(client()).wait(3 * SECOND)));
    let script = get(script).part();
    // The first has been idle too long; the second has served enough requests.
    let upstreams = vec![
        answers(Acts::new(), GET, HELLO).expect_end(),
        answers(answers(Acts::new(), GET, HELLO), GET, HELLO).expect_end(),
        answers(Acts::new(), GET, HELLO).expect_end(),
    ];
    let counts = Play { settings, ..Play::new(vec![script], upstreams) }.run();
    assert_eq!((counts.connects, counts.reuses), (3, 1));
}

#[test]
fn replay_respects_connection_close() {
    let last = head(&["GET /a HTTP/1.1", "Host: a.example", "Connection: close"]);
    let response = HELLO.replace("\r\nDate", "\r\nConnection: close\r\nDate");
    let clients = (0..6).map(|number| {
        let script = Script::new().wait(Duration::from_secs(number));
        script.connect().send(text(&last)).expect_gone(text(&response)).expect_closed(Ending::Any)
    });
    let upstream = (0..6).fold(Acts::new(), |acts, _| acts.expect(GET).send(HELLO)).expect_end();
    Play::new(clients.collect(), vec![upstream]).run();
}
