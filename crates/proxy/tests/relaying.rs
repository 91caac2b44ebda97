//! Byte for byte: what a client sends, what its upstream is sent, and back.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod support;

use breme_node::Close;
use breme_testkit::{Ending, Script};
use support::{Acts, Play, head, text};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello";

#[test]
fn one_exchange_and_another_on_the_same_connections() {
    let client = Script::new().connect().send(GET).expect(HELLO).send(GET).expect(HELLO).part();
    let upstream = Acts::new().expect(GET).send(HELLO).expect(GET).send(HELLO).expect_end();
    let counts = Play::new(vec![client], vec![upstream]).run();
    assert_eq!((counts.connects, counts.reuses, counts.retries), (1, 1, 0));
    assert_eq!(counts.answers[1].count, 2);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let one = head(&["GET /1 HTTP/1.1", "Host: a"]);
    let two = head(&["GET /2 HTTP/1.1", "Host: a"]);
    let answer = |content: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n{content}")
    };
    let client =
        Script::new().connect().send(text(format!("{one}{two}"))).expect(text(answer("1") + &answer("2"))).part();
    let upstream = Acts::new().expect(&one).send(answer("1")).expect(&two).send(answer("2")).expect_end();
    Play::new(vec![client], vec![upstream]).run();
}

#[test]
fn an_upstream_that_refuses_is_named() {
    let reason = "dead.example:80: the upstream refused the connection.\n";
    let answer = head(&[
        "HTTP/1.1 502 Bad Gateway",
        &format!("Content-Length: {}", reason.len()),
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
        "Proxy-Status: breme; error=connection_refused; next-hop=\"dead.example:80\"",
    ]) + reason;
    let client = Script::new().connect().send(GET).expect(text(answer)).part();
    let play = Play { has_dead_upstream: true, upstreams: Vec::new(), ..Play::new(vec![client], Vec::new()) };
    let counts = play.run();
    assert_eq!((counts.connects_failed, counts.bad_gateway), (1, 1));
}

#[test]
fn an_answer_that_breaks_off_cuts_the_client() {
    let part = &HELLO[..HELLO.len() - 1];
    let client = Script::new().connect().send(GET).expect_gone(part).expect_closed(Ending::Any);
    let upstream = Acts::new().expect(GET).send(part).close(Close::Graceful);
    let counts = Play::new(vec![client], vec![upstream]).run();
    assert_eq!(counts.answers_cut, 1);
}
