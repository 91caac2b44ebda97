//! Which clients are evicted under connection pressure, in virtual time.

use std::time::Duration;

use breme_http::Limits;
use breme_node::{Close, PRESSURE_IDLE_TIMEOUT, PRESSURE_TURN};
use breme_proxy::Settings;
use breme_testkit::{Ending, Script};

use crate::support::{Acts, Play, head, silent, text};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello";
const SECOND: Duration = Duration::from_secs(1);

/// Idle timeouts so long that only pressure closes connections.
fn patient() -> Settings {
    let limits = Limits { idle_timeout: Duration::MAX, head_timeout: 60 * SECOND, ..Limits::default() };
    Settings { limits, ..silent() }
}

fn client() -> Script {
    Script::new().connect()
}

/// The response with `Connection: close`.
fn last(answer: &str) -> String {
    answer.replacen("\r\nDate", "\r\nConnection: close\r\nDate", 1)
}

/// Completes the script of a client that is evicted: it closes as well.
fn leaves(script: Script) -> Script {
    script.expect_end().close(Close::Graceful).expect_closed(Ending::Any)
}

#[test]
fn evicts_idle_clients_only() {
    let spare = leaves(client());
    let idle = leaves(client().send(GET).expect(HELLO));
    let begun = Script::new().wait(2 * SECOND).connect().send("GET /a HT").wait(SECOND * 3 / 4).send(&GET[9..]);
    let begun = begun.expect(text(last(HELLO))).part_after_end();
    let active = Script::new().wait(SECOND).connect().send(GET).expect(text(last(HELLO))).part_after_end();
    let upstream = vec![
        Acts::new().expect(GET).send(HELLO).expect_end(),
        Acts::new().expect(GET).wait(9 * SECOND).send(HELLO).expect_end(),
        Acts::new().expect(GET).send(HELLO).expect_end(),
    ];
    // Each request has a connection of its own to the upstream.
    let mut settings = patient();
    settings.pool.idle_max = 0;
    let clients = vec![spare, idle, begun, active];
    let play = Play { settings, pressure: Some(2 * SECOND..20 * SECOND), ..Play::new(clients, upstream) };
    let counts = play.run();
    // The turn of the last two ended before their responses.
    assert_eq!((counts.evicted, counts.responses_of_class(2)), (4, 3));
}

/// A client that always requests before it counts as idle: eight times in its turn, and then three at once.
fn keeps_requesting(answer: &str) -> Script {
    let step = PRESSURE_TURN / 8;
    let script = (0..8).fold(client(), |script, _| script.send(GET).expect(text(answer)).wait(step));
    let together = [answer, answer, &last(answer)].concat();
    script.send(text(GET.repeat(3))).expect(text(together)).part_after_end()
}

#[test]
fn busy_client_leaves_after_a_turn() {
    let upstream = (0..11).fold(Acts::new(), |acts, _| acts.expect(GET).send(HELLO)).expect_end();
    let pressure = Some(Duration::ZERO..60 * SECOND);
    let play = Play { settings: patient(), pressure, ..Play::new(vec![keeps_requesting(HELLO)], vec![upstream]) };
    let counts = play.run();
    assert_eq!((counts.evicted, counts.connects), (1, 1));
    assert!(counts.responses_replayed > 0, "some of them were repeated");
}

/// Under pressure sixteen are closed every twenty milliseconds; the rest after the ordinary timeout.
#[test]
fn evicts_idle_clients_gradually() {
    let clients = vec![leaves(client()); 40];
    let limits = Limits { idle_timeout: 60 * SECOND, ..Limits::default() };
    let settings = Settings { limits, ..silent() };
    let pressure = 2 * SECOND..2 * SECOND + Duration::from_millis(30);
    let counts = Play { settings, pressure: Some(pressure), ..Play::new(clients, Vec::new()) }.run();
    assert_eq!(counts.evicted, 32);
}

/// A client that sends its request byte by byte, or has ended its sending, is closed while others wait, and its
/// upstream connection with it.
#[test]
fn evicts_slow_clients() {
    let slow_head = client().send("GET /a HT");
    let post = "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nx";
    let slow_content = client().wait(SECOND / 10).send(post);
    let refused = |script: Script| script.expect(text("HTTP/1.1 408 Request Timeout\r\n")).close(Close::Abort);
    let half_closed = leaves(client().wait(SECOND / 5).send(GET).finish());
    let waiting = client().wait(SECOND / 2).send(GET).expect(text(last(HELLO))).part_after_end();
    let upstream = vec![
        Acts::new().expect(post).anything(),
        Acts::new().expect(GET).anything(),
        // A client that waits for an upstream, and has not half-closed, is not evicted.
        Acts::new().expect(GET).wait(20 * SECOND).send(HELLO).expect_end(),
    ];
    let mut settings = patient();
    settings.pool.idle_max = 0;
    let clients = vec![refused(slow_head), refused(slow_content), half_closed, waiting];
    let counts = Play { settings, pressure: Some(SECOND..40 * SECOND), ..Play::new(clients, upstream) }.run();
    assert_eq!(counts.evicted, 4, "{counts:?}");
}

/// Clients that arrive under pressure are closed before it ends.
#[test]
fn lasting_pressure_shortens_slow_timeouts() {
    let post = "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nx";
    let late = || Script::new().wait(3 * SECOND).connect();
    let refused = |script: Script| script.expect(text("HTTP/1.1 408 Request Timeout\r\n")).close(Close::Abort);
    let clients =
        vec![refused(late().send("GET /a HT")), refused(late().send(post)), leaves(late().send(GET).finish())];
    let upstream = vec![Acts::new().expect(post).anything(), Acts::new().expect(GET).anything()];
    let mut settings = patient();
    settings.pool.idle_max = 0;
    let pressure = SECOND..3 * SECOND + 2 * PRESSURE_IDLE_TIMEOUT;
    let counts = Play { settings, pressure: Some(pressure), ..Play::new(clients, upstream) }.run();
    assert_eq!(counts.evicted, 3, "{counts:?}");
}

#[test]
fn tunnels_are_not_evicted() {
    let upgrade = head(&["GET /chat HTTP/1.1", "Host: a.example", "Connection: upgrade", "Upgrade: chat"]);
    let switches = head(&["HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: chat"]);
    let talks = |script: Script| script.send("ping").expect("pong");
    let script = talks(client().send(text(&upgrade)).expect(text(&switches)));
    let script = talks(script.wait(10 * SECOND)).part();
    let upstream = Acts::new().expect(&upgrade).send(&switches).expect("ping").send("pong");
    let upstream = upstream.expect("ping").send("pong").expect_end();
    let counts =
        Play { settings: patient(), pressure: Some(SECOND..8 * SECOND), ..Play::new(vec![script], vec![upstream]) }
            .run();
    assert_eq!(counts.evicted, 0);
}

#[test]
fn timeouts_recover_after_pressure() {
    let just_idle = client().send(GET).expect(HELLO).wait(10 * SECOND).send(GET).expect(HELLO).part();
    let upstream = vec![Acts::new().expect(GET).send(HELLO).expect(GET).send(HELLO).expect_end()];
    let mut settings = patient();
    settings.pool.idle_timeout = 60 * SECOND;
    // It starts and ends while the client has been idle for less than the limit.
    let pressure = PRESSURE_IDLE_TIMEOUT / 4..PRESSURE_IDLE_TIMEOUT / 2;
    let play = Play { settings, pressure: Some(pressure), ..Play::new(vec![just_idle], upstream) };
    assert_eq!(play.run().evicted, 0);
}
