//! NTLM and Negotiate authenticate a connection, not a request: what follows on it runs as the user who has logged in
//! (RFC 4559, 6). So no other client's request follows. What may follow on which connection is in `node/reuse.rs`.

use breme_testkit::Script;

use crate::support::{Acts, Play, head, on_all_networks, text};

const PLAIN: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: x\r\n\r\nok";

fn with_credentials(credentials: &str) -> String {
    head(&["GET /a HTTP/1.1", "Host: a.example", &format!("Authorization: {credentials}")])
}

fn challenge(schemes: &str) -> String {
    head(&["HTTP/1.1 401 Unauthorized", "Content-Length: 0", "Date: x", &format!("WWW-Authenticate: {schemes}")])
}

/// Two clients send requests in turn; the first one logs in. Each has an upstream connection of its own.
fn separated(request: &str, response: &str) -> Play {
    let first = Script::new().connect().send(text(request)).expect(text(response)).signal(1).await_signal(2);
    let first = first.send(PLAIN).expect(OK).part();
    let second = Script::new().connect().await_signal(1).send(PLAIN).expect(OK).signal(2).part();
    let logged_in = Acts::new().expect(request).send(response).expect(PLAIN).send(OK).expect_end();
    Play::new(vec![first, second], vec![logged_in, Acts::new().expect(PLAIN).send(OK)])
}

#[test]
fn no_other_client_gets_an_authenticated_connection() {
    for credentials in ["NTLM alice", "negotiate YII=", "Negotiate"] {
        let request = with_credentials(credentials);
        on_all_networks(|| separated(&request, OK));
    }
    for schemes in ["NTLM", "Basic realm=\"a\", negotiate", "Negotiate oRQ="] {
        let response = challenge(schemes);
        on_all_networks(|| separated(PLAIN, &response));
    }
}

#[test]
fn other_credentials_do_not_bind_the_connection() {
    for (request, response) in [
        (with_credentials("Basic YTpi"), OK.to_owned()),
        (with_credentials("NTLMv9 x"), OK.to_owned()),
        (PLAIN.to_owned(), challenge("Basic realm=\"NTLM\"")),
    ] {
        on_all_networks(|| {
            let first = Script::new().connect().send(text(&*request)).expect(text(&*response)).signal(1);
            let second = Script::new().connect().await_signal(1).send(PLAIN).expect(OK).part();
            let upstream = Acts::new().expect(&request).send(&response).expect(PLAIN).send(OK).expect_end();
            Play::new(vec![first.part(), second], vec![upstream])
        });
    }
}

/// Its clients share its connections.
#[test]
fn authenticated_connection_of_a_trusted_proxy_is_closed() {
    let request = with_credentials("NTLM alice");
    on_all_networks(|| {
        let script = Script::new().connect().send(text(&*request)).expect(OK).send(PLAIN).expect(OK).part();
        let upstream = vec![Acts::new().expect(&request).send(OK).expect_end(), Acts::new().expect(PLAIN).send(OK)];
        let mut play = Play::new(vec![script], upstream);
        play.settings.identity.trusted = vec!["10.0.0.0/8".to_owned()];
        play
    });
}

/// All clients share the connections of replayed requests.
#[test]
fn requests_that_log_in_are_not_replayed() {
    let request = with_credentials("NTLM alice");
    let client = (0..4).fold(Script::new().connect(), |script, _| script.send(text(&*request)).expect(OK));
    let client = client.signal(1).await_signal(2).part();
    let other = Script::new().connect().await_signal(1).send(text(&*request)).expect(OK).signal(2).part();
    let upstream = (0..4).fold(Acts::new(), |acts, _| acts.expect(&request).send(OK)).expect_end();
    let counts = Play::new(vec![client, other], vec![upstream, Acts::new().expect(&request).send(OK)]).run();
    assert_eq!((counts.connects, counts.requests_replayed), (2, 0));
}
