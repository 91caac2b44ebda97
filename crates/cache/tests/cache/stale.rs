//! Stale responses: while revalidating, and on failures (RFC 5861; RFC 9111, 4.2.4).

use breme_cache::{CacheDecision, FollowerPoll};

use crate::world::{Received, World};

fn stale(value: &str) -> World {
    let mut world = World::new();
    world.fetch("GET /", "", 200, &format!("Cache-Control: max-age=10, {value}\nETag: \"a\""), "one");
    world.wait(20);
    world
}

#[test]
fn refreshes_once_in_background() {
    let mut world = stale("stale-while-revalidate=30");
    let CacheDecision::RespondAndRefresh(response, refresh) = world.look_up("GET /", "If-None-Match: \"x\"") else {
        panic!("the first one refreshes")
    };
    assert_eq!(
        (
            Received::new(&response).body.as_str(),
            Received::new(&response).status_text.as_str(),
            Received::new(&response).age
        ),
        ("one", "c; hit; ttl=-10", Some(20))
    );
    assert_eq!(refresh.conditions().unwrap().as_bytes(), b"If-None-Match: \"a\"\r\n");
    assert!(matches!(world.look_up("GET /", ""), CacheDecision::Respond(_)), "one is enough");
    world.respond(*refresh, 200, "Cache-Control: max-age=10\nETag: \"b\"", "two");
    assert_eq!(world.hit("GET /", "").body, "two");
}

#[test]
fn failed_refresh_is_retried() {
    let mut world = stale("stale-while-revalidate=30");
    let CacheDecision::RespondAndRefresh(_, refresh) = world.look_up("GET /", "") else { panic!("stale for now") };
    world.fail(*refresh);
    assert!(matches!(world.look_up("GET /", ""), CacheDecision::RespondAndRefresh(..)));
    world.wait(21);
    world.miss("GET /", "");
}

#[test]
fn refreshes_without_validators() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=0, stale-while-revalidate=30", "one");
    let CacheDecision::RespondAndRefresh(response, refresh) = world.look_up("GET /", "Range: bytes=0-0") else {
        panic!("stale for now")
    };
    assert_eq!(Received::new(&response).body, "o");
    assert!(refresh.conditions().unwrap().is_empty(), "the client's range must not go upstream");
    world.respond(*refresh, 200, "Cache-Control: max-age=10", "two");
    assert_eq!(world.hit("GET /", "").body, "two");
}

#[test]
fn serves_stale_on_failure() {
    // Cache-Control; the failure (a status, or none); whether the stale response is served after 10 and after 2000
    // stale seconds.
    for (value, failure, soon, late) in [
        ("x", None, true, false),
        ("x", Some(502), true, false),
        ("x", Some(503), true, false),
        ("x", Some(504), true, false),
        ("x", Some(500), false, false),
        ("x", Some(404), false, false),
        ("stale-if-error=3000", None, true, true),
        ("stale-if-error=3000", Some(500), true, true),
        ("stale-if-error=3000", Some(404), false, false),
        ("stale-if-error=5", Some(503), false, false),
        ("stale-if-error=5", None, false, false),
        ("s-maxage=10", None, false, false),
        ("s-maxage=10, stale-if-error=3000", Some(500), true, true),
        ("must-revalidate", None, false, false),
        ("must-revalidate, stale-if-error=3000", Some(503), false, false),
        ("proxy-revalidate", Some(503), false, false),
        ("no-cache", None, false, false),
    ] {
        for (more, expected) in [(0_u32, soon), (1990, late)] {
            let mut world = stale(value);
            world.wait(u64::from(more));
            let mut forward = world.miss("GET /", "");
            let found = match failure {
                Some(status) => world.head(&mut forward, status, "Cache-Control: max-age=60", Some(0)),
                None => world.fail(forward),
            };
            assert_eq!(
                found.as_ref().map(|received| received.body.as_str()),
                expected.then_some("one"),
                "{value}, {failure:?}, {more}"
            );
            if let Some(received) = found {
                let status = failure.map(|status| format!("; fwd-status={status}")).unwrap_or_default();
                assert_eq!(
                    received.status_text,
                    format!("c; fwd=stale{status}; ttl={}; detail=upstream-failed", -10 - i64::from(more))
                );
            }
        }
    }
}

#[test]
fn request_limits_stale_if_error() {
    for (seconds, expected) in [(9, false), (10, true)] {
        let mut world = stale("x");
        let forward = world.miss("GET /", &format!("Cache-Control: stale-if-error={seconds}"));
        assert_eq!(world.fail(forward).is_some(), expected, "{seconds}");
    }
    let mut world = stale("x");
    let forward = world.miss("GET /", "Cache-Control: no-cache");
    assert!(world.fail(forward).is_none(), "who wants it validated wants no stale one");
}

#[test]
fn error_does_not_replace_better_response() {
    let mut world = stale("x");
    let mut forward = world.miss("GET /", "");
    assert!(world.head(&mut forward, 503, "Cache-Control: max-age=60", Some(3)).is_some());
    assert!(!forward.wants_body());
    drop(forward);
    let forward = world.miss("GET /", "Cache-Control: no-cache");
    assert_eq!(world.respond(forward, 503, "Cache-Control: max-age=60", "bad").status, 503, "the client wanted it so");
    let forward = world.miss("GET /", "");
    assert_eq!(world.fail(forward).unwrap().body, "one", "it is still there");
    world.fetch("GET /other", "", 503, "Cache-Control: max-age=60", "bad");
    assert_eq!(
        world.hit("GET /other", "").status,
        503,
        "where there is nothing better, an error that says so is stored"
    );
}

/// Statuses that a client can cause with a header that is not in the key.
const ABOUT_REQUEST: [u16; 16] = [400, 401, 402, 403, 406, 408, 409, 412, 415, 416, 417, 422, 428, 429, 431, 511];

#[test]
fn status_about_request_keeps_stored_response() {
    for status in ABOUT_REQUEST {
        let mut world = stale("x");
        let forward = world.miss("GET /", "Cache-Control: no-cache");
        assert_eq!(world.respond(forward, status, "", "").status, status);
        let forward = world.miss("GET /", "");
        assert!(forward.conditions().is_some(), "{status}: it can be validated");
        assert_eq!(world.fail(forward).unwrap().body, "one", "{status}: it is still there");
    }
}

#[test]
fn status_about_request_replaces_no_fresh_response() {
    for (status, lines) in
        ABOUT_REQUEST.into_iter().flat_map(|status| [(status, ""), (status, "Cache-Control: max-age=9")])
    {
        let mut world = World::new();
        world.fetch("GET /", "", 200, "Cache-Control: max-age=10", "one");
        let refused = world.fetch("GET /", "Cache-Control: no-cache", status, lines, "bad");
        assert_eq!((refused.status, refused.body.as_str()), (status, "bad"));
        assert_eq!(world.hit("GET /", "").body, "one", "{status} {lines}");
    }
}

#[test]
fn status_about_request_leaves_no_pass_marker() {
    for status in ABOUT_REQUEST {
        let mut world = World::new();
        world.fetch("GET /", "", status, "", "bad");
        let _first = world.miss("GET /", "");
        world.follow("GET /", "");
    }
}

#[test]
fn client_error_with_lifetime_is_stored_where_nothing_is_fresh() {
    let mut world = stale("x");
    world.fetch("GET /", "", 403, "Cache-Control: max-age=10", "bad");
    assert_eq!(world.hit("GET /", "").status, 403);
    world.fetch("GET /", "Cache-Control: no-cache", 403, "Cache-Control: max-age=30", "still bad");
    world.wait(20);
    assert_eq!(world.hit("GET /", "").body, "still bad");
}

/// The headers of two requests, and what their responses vary by: is the second one, an error, stored?
#[test]
fn error_is_stored_beside_better_responses_of_other_variants() {
    let (one, two) = ("Cookie: a=1\nX: 1", "Cookie: a=2\nX: 2");
    for (first, second, expected) in [
        ("Cookie", "Cookie", true),
        ("Cookie", "X, Cookie", true),
        ("X, Cookie", "Cookie", true),
        ("Cookie", "", false),
        ("Cookie", "X", false),
    ] {
        for status in [403, 503] {
            let mut world = World::new();
            let lines = |names: &str| format!("Cache-Control: max-age=10\nVary: {names}");
            world.fetch("GET /", one, 200, &lines(first), "one");
            world.fetch("GET /", two, status, &lines(second), "bad");
            assert_eq!(world.is_hit("GET /", two), expected, "{status}: {first:?}, {second:?}");
            let both = if first == "Cookie" { "Cookie: a=1\nX: 2" } else { one };
            for lines in [one, both] {
                assert_eq!(world.hit("GET /", lines).body, "one", "{status}: {first:?}, {second:?}");
            }
        }
    }
}

#[test]
fn status_about_target_removes_stored_response() {
    for status in [301, 404, 405, 410, 414, 451] {
        let mut world = World::new();
        world.fetch("GET /", "", 200, "Cache-Control: max-age=10", "one");
        world.fetch("GET /", "Cache-Control: no-cache", status, "", "");
        let (_first, _second) = (world.miss("GET /", ""), world.miss("GET /", ""));
    }
}

#[test]
fn max_stale_does_not_extend_to_followers() {
    let mut world = stale("x");
    world.wait(2000);
    let leader = world.miss("GET /", "Cache-Control: stale-if-error=9000");
    let mut follower = world.follow("GET /", "");
    assert_eq!(world.fail(leader).unwrap().body, "one");
    assert!(matches!(follower.poll(world.now), FollowerPoll::Retry), "that is too old for who has not said so");
}

#[test]
fn refused_new_version_removes_the_stale_one() {
    let mut world = stale("public, stale-if-error=3000");
    let forward = world.miss("GET /", "Authorization: Basic eDp5");
    assert_eq!(world.respond(forward, 200, "Cache-Control: max-age=60\nETag: \"b\"", "mine").body, "mine");
    assert_eq!(world.cache.statistics().objects, 0);
    let forward = world.miss("GET /", "");
    assert_eq!(world.fail(forward), None, "upstream no longer has it");
}

#[test]
fn restricted_request_waits_for_validation() {
    let mut world = stale("stale-while-revalidate=3000");
    let forward = world.miss("GET /", "Cache-Control: max-age=1000");
    assert_eq!(forward.conditions().unwrap().as_bytes(), b"If-None-Match: \"a\"\r\n");
}
