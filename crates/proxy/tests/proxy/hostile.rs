//! Known vulnerabilities of proxies, and rejected requests.

use std::time::Duration;

use breme_node::Close;
use breme_testkit::{Ending, Script};

use crate::support::{Acts, Play, failure, head, on_all_networks, text};

const SECOND: Duration = Duration::from_secs(1);
const CANARY: &str = "GET /canary HTTP/1.1\r\nHost: a.example\r\n\r\n";
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
const SINGS: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\ntweet";

fn answers(acts: Acts, request: &str, answer: &str) -> Acts {
    acts.expect(request).send(answer)
}

// Content that is left unread after an early response.

/// The content of a request with an early response is not parsed as the next request.
#[test]
fn drains_body_after_early_response() {
    let framings = [
        (format!("Content-Length: {}", SMUGGLED.len()), SMUGGLED.to_owned()),
        ("Transfer-Encoding: chunked".to_owned(), format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len())),
    ];
    for (framing, content) in framings {
        let post = head(&["POST /a HTTP/1.1", "Host: a.example", &framing]);
        let no = head(&["HTTP/1.1 403 Forbidden", "Content-Length: 0", "Date: x"]);
        on_all_networks(|| {
            let script = Script::new().connect().send(text(&post)).expect(text(&no));
            let script = script.send(text(content.clone() + CANARY)).expect(SINGS).part();
            // An upstream that responded early has not read its request to the end, so its connection is not reused.
            let early = answers(Acts::new(), &post, &no).expect_end();
            Play::new(vec![script], vec![early, answers(Acts::new(), CANARY, SINGS)])
        });
    }
}

/// Nor if the proxy itself responds.
#[test]
fn drains_body_after_own_response() {
    let post = head(&["POST /a HTTP/1.1", "Host: a.example", &format!("Content-Length: {}", SMUGGLED.len())]);
    let refused = failure(502, "connection_refused", "the upstream refused the connection");
    on_all_networks(|| {
        let script = Script::new().connect().send(text(post.clone() + SMUGGLED + &post + SMUGGLED));
        let script = script.expect(text(refused.clone() + &refused)).part();
        Play { has_dead_upstream: true, upstreams: Vec::new(), ..Play::new(vec![script], Vec::new()) }
    });
}

/// Content that is too long to be drained closes the connection.
#[test]
fn long_body_after_early_response_closes_connection() {
    let post = head(&["POST /a HTTP/1.1", "Host: a.example", "Content-Length: 1000000"]);
    let no = head(&["HTTP/1.1 403 Forbidden", "Content-Length: 0", "Date: x"]);
    let response = head(&["HTTP/1.1 403 Forbidden", "Content-Length: 0", "Connection: close", "Date: x"]);
    let script = Script::new().connect().send(text(&post)).expect(text(&response)).part_after_end();
    Play::new(vec![script], vec![answers(Acts::new(), &post, &no).expect_end()]).run();
}

// Bytes after an Upgrade request that are forwarded before the 101.

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

#[test]
fn bytes_after_upgrade_wait_for_101() {
    let switched = head(&["HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: websocket", "X: y"]);
    on_all_networks(|| {
        let script = Script::new().connect().send(text(UPGRADE.to_owned() + "ping"));
        let script = script.expect(text(switched.clone() + "hello")).send("more").expect("pong").part();
        let upstream = Acts::new().expect(UPGRADE).quiet(SECOND).send(switched.clone() + "hello");
        Play::new(vec![script], vec![upstream.expect("pingmore").send("pong").expect_end()])
    });
}

#[test]
fn bytes_after_declined_upgrade_are_next_request() {
    on_all_networks(|| {
        let script = Script::new().connect().send(text(UPGRADE.to_owned() + CANARY));
        let script = script.expect(text(SINGS.to_owned() + SINGS)).part();
        let upstream = Acts::new().expect(UPGRADE).quiet(SECOND).send(SINGS);
        Play::new(vec![script], vec![answers(upstream, CANARY, SINGS).expect_end()])
    });
}

#[test]
fn drops_upgrade_to_http2_or_with_body() {
    let plain = head(&["GET /chat HTTP/1.1", "Host: a.example"]);
    let h2c = head(&[
        "GET /chat HTTP/1.1",
        "Host: a.example",
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: x",
    ]);
    let script = Script::new().connect().send(text(h2c)).expect(SINGS).part();
    Play::new(vec![script], vec![answers(Acts::new(), &plain, SINGS)]).run();
    let post =
        |fields: &[&str]| head(&[&["POST /a HTTP/1.1", "Host: a.example", "Content-Length: 4"], fields].concat());
    let upgrade = post(&["Connection: upgrade", "Upgrade: websocket"]) + "ping";
    let passed = post(&[]) + "ping";
    let script = Script::new().connect().send(text(upgrade)).expect(SINGS).part();
    Play::new(vec![script], vec![answers(Acts::new(), &passed, SINGS)]).run();
}

// Transfer-Encoding and close-delimited content in HTTP/1.0 requests.

#[test]
fn rejects_http10_transfer_coding() {
    let old = head(&["POST /a HTTP/1.0", "Host: a.example", "Transfer-Encoding: chunked"]) + "0\r\n\r\n" + SMUGGLED;
    on_all_networks(|| refused(&old, "400 Bad Request", "HTTP/1.0 requests cannot have a transfer coding."));
}

#[test]
fn http10_body_needs_length() {
    let old = head(&["POST /a HTTP/1.0", "Host: a.example"]);
    let passed = head(&["POST /a HTTP/1.1", "Host: a.example", "Content-Length: 0"]);
    let response = head(&["HTTP/1.1 200 OK", "Content-Length: 5", "Connection: close", "Date: x"]) + "tweet";
    on_all_networks(|| {
        let script = Script::new().connect().send(text(old.clone() + SMUGGLED)).expect(text(&response));
        let script = script.expect_end().close(Close::Graceful).expect_closed(Ending::Any);
        Play::new(vec![script], vec![answers(Acts::new(), &passed, SINGS)])
    });
}

// Ambiguous requests never reach an upstream.

/// A request that is rejected; nothing of it or after it is forwarded.
fn refused(request: &str, status: &str, reason: &str) -> Play {
    let content = format!("{reason}\n");
    let answer = head(&[
        &format!("HTTP/1.1 {status}"),
        &format!("Content-Length: {}", content.len()),
        "Connection: close",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Content-Type: text/plain; charset=utf-8",
    ]) + &content;
    let script = Script::new().connect().send(text(request)).expect(text(answer));
    let script = script.expect_end().close(Close::Graceful).expect_closed(Ending::Any);
    Play { upstreams: vec![Vec::new()], ..Play::new(vec![script], Vec::new()) }
}

#[test]
fn rejects_ambiguous_requests() {
    for (fields, reason) in [
        (
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            "The request has both Content-Length and Transfer-Encoding.",
        ),
        ("Content-Length: 4\r\nContent-Length: 4\r\n", "The request has more than one Content-Length header."),
        ("Transfer-Encoding: xchunked\r\n", "The Transfer-Encoding header must be: chunked."),
        ("Host: b.example\r\n", "The request has more than one Host header."),
        ("X\r\n", "A header line has no colon."),
    ] {
        let request = format!("POST /a HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n0\r\n\r\n{SMUGGLED}");
        refused(&request, "400 Bad Request", reason).run();
    }
    let get = "GET /a HTTP/1.1\nHost: a.example\n\n";
    refused(get, "400 Bad Request", "A line ends with LF instead of CRLF.").run();
}

/// A request whose content turns out malformed after a part was forwarded is not completed.
#[test]
fn malformed_body_is_not_parsed_as_request() {
    let post = head(&["POST /a HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked"]);
    let content = "A chunk size must consist of hexadecimal digits only.\n";
    let answer = head(&[
        "HTTP/1.1 400 Bad Request",
        &format!("Content-Length: {}", content.len()),
        "Connection: close",
        "Date: Sun, 06 Nov 1994 08:49:38 GMT",
        "Content-Type: text/plain; charset=utf-8",
    ]) + content;
    let script = Script::new().connect().send(text(post.clone() + "5\r\nhello\r\n")).wait(SECOND);
    let script = script.send(text("0x5\r\n".to_owned() + SMUGGLED)).expect(text(answer));
    let script = script.expect_end().close(Close::Graceful).expect_closed(Ending::Any);
    Play::new(vec![script], vec![Acts::new().expect(post + "5\r\nhello\r\n").expect_end()]).run();
}

/// Neither the upstream's framing nor a second response after the first is forwarded.
#[test]
fn reframes_responses() {
    let sent = "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\nConnection: x-hop, keep-alive\r\nX-Hop: y\r\nKeep-Alive: z\r\nDate: x\r\n\r\n0005;ext=\"a\"\r\ntweet\r\n0\r\nX-Trailer: z\r\n\r\n";
    let got = head(&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Date: x"]) + "5\r\ntweet\r\n0\r\n\r\n";
    let script = Script::new().connect().send(CANARY).expect(text(got)).part();
    Play::new(vec![script], vec![answers(Acts::new(), CANARY, sent)]).run();
}
