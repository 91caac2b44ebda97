//! Redirects that users follow, in virtual time.

use std::time::Duration;

use breme_load_plan::{OpenLoop, Settings, Target};
use breme_load_result::{LoadOutcome, RedirectsSummary};

use crate::world::{Reply, Request, Then, World, address, ok};

const MILLISECOND: Duration = Duration::from_millis(1);

fn settings(url: &str, requests: u64, connections: usize) -> Settings {
    Settings { redirects_max: 3, requests: Some(requests), duration: None, connections, ..Settings::new(url) }
}

fn redirect(status: u16, location: &str) -> Reply {
    let head = format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 5\r\n\r\nMoved");
    Reply { bytes: head.into_bytes(), ..Reply::default() }
}

fn redirects(outcome: &LoadOutcome) -> (u64, u64) {
    let RedirectsSummary { followed, not_followed } = outcome.redirects.unwrap();
    (followed, not_followed)
}

/// Little's law holds: all time of a user is accounted for.
fn assert_accounted(outcome: &LoadOutcome) {
    let Some(users) = outcome.users else { return };
    let parts = users.server + users.connecting + users.generator + users.thinking + users.idle;
    assert!((parts - users.count as f64).abs() < 1e-6 && users.idle < 0.02, "{users:?}");
}

#[test]
fn times_are_those_of_the_chain() {
    for open_loop in [None, Some(OpenLoop::constant(50.0))] {
        let settings = Settings { open_loop, ..settings("http://a/1", 40, 4) };
        let mut world = World::new(settings, 2, |request: &Request| match request.target() {
            "/1" => redirect(301, "/2").after(3 * MILLISECOND),
            "/2" => redirect(302, "http://a/3?x").after(4 * MILLISECOND),
            _ => ok("hello").after(5 * MILLISECOND),
        });
        let outcome = world.finish();
        assert_eq!((outcome.requests.issued, outcome.requests.answered, outcome.requests.ok), (40, 40, 40));
        assert_eq!((redirects(&outcome), outcome.requests.resent), ((80, 0), 0));
        assert_eq!(outcome.statuses.keys().collect::<Vec<_>>(), ["200"]);
        let near = |nanos: u64, ms: u64| (nanos as f64 / (ms as f64 * 1e6) - 1.0).abs() < 0.01;
        assert!(near(outcome.service_time.p50_ns, 12) && near(outcome.response_time.p50_ns, 12), "{outcome:?}");
        assert_eq!(world.requests.iter().filter(|request| request.target() == "/3?x").count(), 40);
        assert_eq!(outcome.connections.opened, 4);
        assert_accounted(&outcome);
    }
}

#[test]
fn a_connection_that_closes_is_replaced() {
    let mut world = World::new(settings("http://a/1", 20, 2), 1, |request: &Request| match request.target() {
        "/1" => {
            let head = "HTTP/1.1 303 See Other\r\nLocation: /2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            Reply { bytes: head.into(), then: Then::End, ..Reply::default() }.after(MILLISECOND)
        }
        _ => ok("x").after(MILLISECOND),
    });
    let outcome = world.finish();
    assert_eq!((outcome.requests.ok, redirects(&outcome), outcome.requests.resent), (20, (20, 0), 0));
    assert_accounted(&outcome);
}

#[test]
fn the_method_changes_as_browsers_change_it() {
    let cases = [
        ("POST", 301, "GET"),
        ("POST", 303, "GET"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("POST", 307, "POST"),
        ("HEAD", 303, "HEAD"),
    ];
    for (method, status, expected) in cases {
        let settings = Settings {
            method: Some(method.into()),
            content: (method != "HEAD").then(|| b"n={seq}".to_vec()),
            fields: vec![("content-type".into(), b"text/x".to_vec()), ("X-Y".into(), b"z{seq}".to_vec())],
            ..settings("http://a/1", 2, 1)
        };
        let mut world = World::new(settings, 1, move |request: &Request| match request.target() {
            "/1" => Reply {
                bytes: format!("HTTP/1.1 {status} Moved\r\nLocation: /2\r\nContent-Length: 0\r\n\r\n").into(),
                ..Reply::default()
            },
            _ => Reply { bytes: b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), ..Reply::default() },
        });
        let outcome = world.finish();
        assert_eq!(redirects(&outcome), (2, 0), "{method} {status}: {outcome:?}");
        let last = &world.requests.last().unwrap().text;
        assert!(last.starts_with(&format!("{expected} /2 HTTP/1.1\r\n")) && last.contains("\r\nX-Y: z2\r\n"), "{last}");
        let keeps = expected == method && method != "HEAD";
        assert_eq!(last.contains("content-type") && last.ends_with("n=2"), keeps, "{method} {status}: {last}");
    }
}

#[test]
fn a_redirect_that_cannot_be_followed_is_a_response() {
    let location = |place: &'static str| {
        let outcome = World::new(settings("http://a/1", 10, 1), 1, move |_: &Request| redirect(302, place)).finish();
        assert_eq!((outcome.requests.answered, outcome.statuses.get("302")), (10, Some(&10)));
        redirects(&outcome)
    };
    assert_eq!(location("https://a/1"), (0, 10));
    assert_eq!(location("http://b/1"), (0, 10));
    assert_eq!(location("/1"), (30, 10), "a loop ends");
}

#[test]
fn a_redirect_to_another_target_s_host_is_followed() {
    let mut settings = settings("http://a/1", 20, 2);
    settings.targets.push(Target::url("http://b/2"));
    let hosts = [1, 2].map(|port| vec![address(port)]).to_vec();
    let mut world = World::with_hosts(settings, 1, hosts, |request: &Request| match request.target() {
        "/1" => redirect(302, "//b/3").after(MILLISECOND),
        _ => ok("x").after(MILLISECOND),
    });
    let outcome = world.finish();
    assert_eq!((outcome.requests.ok, redirects(&outcome)), (20, (10, 0)));
    assert!(world.requests.iter().all(|request| (request.target() == "/1") == request.text.contains("Host: a\r\n")));
    assert_eq!(outcome.connections.opened, 4);
    assert_accounted(&outcome);
}

#[test]
fn a_timeout_is_that_of_the_chain() {
    let settings = Settings { timeout: 10 * MILLISECOND, ..settings("http://a/1", 4, 1) };
    let outcome = World::new(settings, 1, |_: &Request| redirect(302, "/1").after(4 * MILLISECOND)).finish();
    assert_eq!(outcome.errors.get("timeout"), Some(&4), "{outcome:?}");
    assert_eq!(redirects(&outcome).0, 8);
}
