//! Servers with TLS behind a proxy: each connection begins with a tunnel. In virtual time; TLS is reduced to its
//! outcome.

use std::time::Duration;

use breme_load_plan::Settings;
use breme_load_result::LoadOutcome;

use crate::world::{Reply, Request, Then, World, ok};

const CONNECT: &str = "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n";

fn settings() -> Settings {
    let proxy = Some("http://p:8081".to_owned());
    Settings { requests: Some(6), duration: None, connections: 2, proxy, ..Settings::new("https://a/x") }
}

fn says(text: &str) -> Reply {
    Reply { bytes: text.as_bytes().to_vec(), ..Reply::default() }
}

/// The proxy and the server behind it.
fn serve(request: &Request, tunnel: &Reply) -> Reply {
    if request.before == 0 { tunnel.clone() } else { ok("hello") }
}

fn error(outcome: &LoadOutcome, kind: &str) -> u64 {
    outcome.errors.get(kind).copied().unwrap_or(0)
}

#[test]
fn requests_go_through_tunnels_as_if_there_were_no_proxy() {
    for bytewise in [false, true] {
        let opened = says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine\r\nContent-Length: 9\r\n\r\n");
        let mut world = World::new(settings(), 1, move |request| serve(request, &opened));
        world.bytewise = bytewise;
        let outcome = world.finish();
        assert_eq!((outcome.requests.answered, outcome.requests.failed), (6, 0), "{outcome:?}");
        let (connects, others): (Vec<_>, Vec<_>) = world.requests.iter().partition(|request| request.before == 0);
        assert_eq!((connects.len(), others.len()), (2, 6));
        assert!(connects.iter().all(|request| request.text == CONNECT), "{}", connects[0].text);
        assert!(others.iter().all(|request| request.text.starts_with("GET /x HTTP/1.1\r\nHost: a\r\n")));
        assert!(outcome.handshake_time.mean_ns > 0.0, "{:?}", outcome.handshake_time);
    }
}

#[test]
fn the_refusal_of_a_proxy_is_reported_in_its_own_words() {
    let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 26\r\n\r\nnot to\u{1b}this host.\u{9b}2J\nmore";
    let mut world = World::new(settings(), 1, move |_| says(refusal));
    let outcome = world.finish();
    assert_eq!((outcome.requests.answered, error(&outcome, "proxy-refused")), (0, outcome.requests.failed));
    assert!(outcome.requests.failed > 0);
    let message = world.run.refused_tunnel().unwrap().to_string();
    assert_eq!(message, "the proxy refused the tunnel with 403: not to this host. 2J");
    assert!(outcome.invalid_reasons.iter().any(|reason| reason.contains(&message)), "{:?}", outcome.invalid_reasons);
}

#[test]
fn a_failed_tunnel_is_no_connection() {
    let with_rest = says("HTTP/1.1 200 OK\r\n\r\nearly");
    let ended = Reply { then: Then::End, ..says("HTTP/1.1 200") };
    let reset = Reply { then: Then::Reset, ..Reply::default() };
    for reply in [with_rest, ended, reset, says("SSH-2.0-x\r\n\r\n")] {
        let mut world = World::new(settings(), 1, move |request| serve(request, &reply));
        let outcome = world.finish();
        assert_eq!((outcome.requests.answered, error(&outcome, "proxy-refused")), (0, outcome.requests.failed));
        assert!(outcome.requests.failed > 0 && world.requests.iter().all(|request| request.text == CONNECT));
    }
}

#[test]
fn a_proxy_that_says_nothing_is_waited_for_no_longer_than_a_server() {
    let silent = Reply { after: Duration::from_secs(3600), ..Reply::default() };
    let settings = Settings { timeout: Duration::from_millis(200), requests: Some(2), ..settings() };
    let outcome = World::new(settings, 1, move |_| silent.clone()).finish();
    assert_eq!((outcome.requests.answered, error(&outcome, "connect-timeout")), (0, outcome.requests.failed));
}
