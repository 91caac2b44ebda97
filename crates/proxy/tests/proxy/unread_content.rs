//! Upstreams that respond without reading a request's content, and parse that content as the next request: the response
//! to it reaches no other client. What may follow on which connection is in `node/reuse.rs`.

use breme_sim::Network;
use breme_testkit::Script;

use crate::support::{Acts, Play, head, text};

const SMUGGLED: &str = "GET /poison HTTP/1.1\r\nHost: a.example\r\n\r\n";
const VICTIM: &str = "GET /victim HTTP/1.1\r\nHost: a.example\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: x\r\n\r\nok";
const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nDate: x\r\n\r\npoison";

/// With `is_chunked` only on the calm network: on others the chunks differ from the expected ones.
fn on_networks(is_chunked: bool, story: impl Fn() -> Play) {
    story().run();
    for seed in 0..if is_chunked { 0 } else { 6 } {
        for network in [Network::rough(), Network::bytewise()] {
            Play { seed, network, ..story() }.run();
        }
    }
}

/// A request with the smuggled one as its content.
fn attack(method: &str, is_chunked: bool, more: &[&str]) -> String {
    let (framing, content) = match is_chunked {
        false => (format!("Content-Length: {}", SMUGGLED.len()), SMUGGLED.to_owned()),
        true => ("Transfer-Encoding: chunked".to_owned(), format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len())),
    };
    let method = format!("{method} /a HTTP/1.1");
    head(&[&[method.as_str(), "Host: a.example", &framing], more].concat()) + &content
}

/// An upstream that responds to the attack with `response`, and to the smuggled request if the connection is reused.
fn faulty(request: &str, response: &str) -> Acts {
    Acts::new().expect(request).send(response).expect_end()
}

#[test]
fn closes_connection_after_unexpected_body() {
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "PROPFIND"] {
        for is_chunked in [false, true] {
            let request = attack(method, is_chunked, &[]);
            let response = if method == "HEAD" { OK.strip_suffix("ok").unwrap() } else { OK };
            on_networks(is_chunked, || {
                // The same client sends a request next, and does not get the connection either.
                let script = Script::new().connect().send(text(&*request)).expect(text(response));
                let script = script.send(VICTIM).expect(OK).part();
                let upstream = vec![faulty(&request, response), Acts::new().expect(VICTIM).send(OK)];
                Play::new(vec![script], upstream)
            });
        }
    }
}

#[test]
fn connection_after_body_serves_same_client() {
    for method in ["POST", "PUT", "PATCH"] {
        for is_chunked in [false, true] {
            let request = attack(method, is_chunked, &[]);
            on_networks(is_chunked, || {
                let attacker = Script::new().connect().send(text(&*request)).expect(OK).signal(1).await_signal(2);
                // It gets the response to its smuggled request itself.
                let attacker = attacker.send(VICTIM).expect(POISON).part();
                let victim = Script::new().connect().await_signal(1).send(VICTIM).expect(OK).signal(2).part();
                let upstream = vec![
                    Acts::new().expect(&request).send(OK).expect(VICTIM).send(POISON).expect_end(),
                    Acts::new().expect(VICTIM).send(OK),
                ];
                Play::new(vec![attacker, victim], upstream)
            });
        }
    }
}

/// When the client leaves, its connection is not reused for others.
#[test]
fn reserved_connection_closes_with_client() {
    let request = attack("POST", false, &[]);
    on_networks(false, || {
        let attacker = Script::new().connect().send(text(&*request)).expect(OK).part().signal(1);
        let victim = Script::new().connect().await_signal(1).send(VICTIM).expect(OK).part();
        Play::new(vec![attacker, victim], vec![faulty(&request, OK), Acts::new().expect(VICTIM).send(OK)])
    });
}

/// The client's next request with a body uses the reserved connection.
#[test]
fn client_has_one_reserved_connection() {
    let (first, second) = (attack("POST", false, &[]), attack("PUT", false, &[]));
    on_networks(false, || {
        let script = Script::new().connect().send(text(&*first)).expect(OK).send(text(&*second)).expect(OK);
        let both = Acts::new().expect(&first).send(OK).expect(&second).send(OK).expect_end();
        Play::new(vec![script.part()], vec![both])
    });
}

#[test]
fn closes_connection_if_100_was_skipped() {
    let request = attack("POST", false, &["Expect: 100-continue"]);
    on_networks(false, || {
        let script = Script::new().connect().send(text(&*request)).expect(OK).send(VICTIM).expect(OK).part();
        Play::new(vec![script], vec![faulty(&request, OK), Acts::new().expect(VICTIM).send(OK)])
    });
}

#[test]
fn continued_request_keeps_its_connection() {
    const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    let request = attack("POST", false, &["Expect: 100-continue"]);
    let (head, content) = request.split_at(request.len() - SMUGGLED.len());
    on_networks(false, || {
        let script = Script::new().connect().send(text(head)).expect(CONTINUE).send(text(content)).expect(OK);
        let script = script.send(VICTIM).expect(OK).part();
        let upstream = Acts::new().expect(head).send(CONTINUE).expect(content).send(OK).expect(VICTIM).send(OK);
        Play::new(vec![script], vec![upstream.expect_end()])
    });
}

#[test]
fn closes_connection_after_trusted_proxys_body() {
    let request = attack("POST", false, &[]);
    on_networks(false, || {
        let script = Script::new().connect().send(text(&*request)).expect(OK).send(VICTIM).expect(OK).part();
        let mut play = Play::new(vec![script], vec![faulty(&request, OK), Acts::new().expect(VICTIM).send(OK)]);
        play.settings.identity.trusted = vec!["10.0.0.0/8".to_owned()];
        play
    });
}
