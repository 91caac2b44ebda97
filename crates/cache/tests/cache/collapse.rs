//! Request collapsing: many requests for one response cause one upstream request, and none waits for a private one.

use std::sync::Arc;

use breme_cache::{
    BodyRead, CacheDecision, CacheSettings, FailureInfo, FetchError, Follower, FollowerPoll, Forward, Wakes,
};

use crate::world::{Received, World};

const FRESH: &str = "Cache-Control: max-age=60";

/// Reads all available bytes.
fn read(follower: &mut Follower) -> (String, Option<BodyRead>) {
    let mut out = Vec::new();
    loop {
        match follower.read(&mut out, 2) {
            BodyRead::Copied(_) => {}
            BodyRead::Rest(bytes) => {
                out.extend_from_slice(&bytes);
                assert_eq!(follower.read(&mut Vec::new(), 2), BodyRead::End);
                return (String::from_utf8(out).unwrap(), Some(BodyRead::End));
            }
            BodyRead::Pending => return (String::from_utf8(out).unwrap(), None),
            other => return (String::from_utf8(out).unwrap(), Some(other)),
        }
    }
}

fn begin(world: &mut World, count: usize, lines: &str, length: Option<u64>) -> (Forward, Vec<Follower>) {
    let mut forward = world.miss("GET /", "");
    let mut followers: Vec<Follower> = (0..count).map(|_| world.follow("GET /", "")).collect();
    assert!(followers.iter_mut().all(|follower| matches!(follower.poll(world.now), FollowerPoll::Pending)));
    world.head(&mut forward, 200, lines, length);
    (forward, followers)
}

#[test]
fn thousand_followers_stream_one_fill() {
    let mut world = World::new();
    let (mut forward, mut followers) = begin(&mut world, 999, "Cache-Control: max-age=60\nX: y", Some(6));
    assert_eq!(world.take_wakes(), 999);
    for follower in &mut followers {
        let FollowerPoll::Stream(head) = follower.poll(world.now) else { panic!("the head is there") };
        assert_eq!((head.status, head.length, head.age_s), (200, Some(6), 0));
        assert_eq!(head.lines.as_bytes(), b"Cache-Control: max-age=60\r\nX: y\r\n");
        assert_eq!(crate::world::status_text(head.cache_status), "c; fwd=uri-miss; collapsed");
        assert_eq!(read(follower), (String::new(), None));
    }
    forward.handle_body(b"abc", &mut world.wakes);
    assert_eq!(world.take_wakes(), 999);
    let (early, late) = followers.split_at_mut(500);
    assert!(early.iter_mut().all(|follower| read(follower) == ("abc".to_owned(), None)));
    forward.handle_body(b"def", &mut world.wakes);
    assert_eq!(world.take_wakes(), 500, "only those who have read all and sleep are woken");
    forward.handle_end(&mut world.wakes);
    assert!(early.iter_mut().all(|follower| read(follower) == ("def".to_owned(), Some(BodyRead::End))));
    assert!(late.iter_mut().all(|follower| read(follower) == ("abcdef".to_owned(), Some(BodyRead::End))));
    assert_eq!(world.hit("GET /", "").body, "abcdef");
    assert_eq!(world.cache.statistics().fills, 0);
}

#[test]
fn late_follower_reads_from_start() {
    let mut world = World::new();
    let (mut forward, _) = begin(&mut world, 0, FRESH, None);
    forward.handle_body(b"abc", &mut world.wakes);
    let mut late = world.follow("GET /", "");
    assert!(matches!(late.poll(world.now), FollowerPoll::Stream(head) if head.length.is_none()));
    assert_eq!(read(&mut late), ("abc".to_owned(), None));
    let mut never_polled = world.follow("GET /", "If-None-Match: \"x\"");
    forward.handle_body(b"def", &mut world.wakes);
    forward.handle_end(&mut world.wakes);
    assert_eq!(read(&mut late), ("def".to_owned(), Some(BodyRead::End)));
    let FollowerPoll::Response(response) = never_polled.poll(world.now) else { panic!("it is in the store") };
    assert_eq!(Received::new(&response).body, "abcdef");
}

#[test]
fn private_response_releases_followers() {
    for lines in [
        "Cache-Control: private",
        "Cache-Control: no-store",
        "Cache-Control: max-age=60\nSet-Cookie: a=b",
        "Cache-Control: max-age=60\nVary: *",
    ] {
        let mut world = World::new();
        let (forward, followers) = begin(&mut world, 10, lines, Some(3));
        assert_eq!(world.take_wakes(), 10);
        assert!(!forward.wants_body());
        let now = world.now;
        let mut forwards = Vec::new();
        for mut follower in followers {
            assert!(matches!(follower.poll(now), FollowerPoll::Retry));
            let CacheDecision::Forward(forward) = follower.retry(now) else { panic!("each asks for itself") };
            forwards.push(forward);
        }
        forwards.extend((0..3).map(|_| world.miss("GET /", "")));
        world.wait(602);
        let _leader = world.miss("GET /", "");
        world.follow("GET /", "");
    }
}

#[test]
fn stale_response_is_not_shared() {
    let mut world = World::new();
    let (forward, mut followers) = begin(&mut world, 2, "Cache-Control: no-cache\nETag: \"a\"", Some(3));
    assert!(forward.wants_body(), "it may be stored");
    assert!(followers.iter_mut().all(|follower| matches!(follower.poll(world.now), FollowerPoll::Retry)));
    let found = world.follow_up(forward, "abc");
    assert_eq!(found, 0);
    let CacheDecision::Forward(forward) = followers.pop().unwrap().retry(world.now) else { panic!("it asks") };
    assert!(forward.conditions().is_some(), "whether it is still right");
}

impl World {
    fn follow_up(&mut self, mut forward: Forward, body: &str) -> usize {
        self.take_wakes();
        forward.handle_body(body.as_bytes(), &mut self.wakes);
        forward.handle_end(&mut self.wakes);
        self.take_wakes()
    }
}

#[test]
fn follower_takes_over_failed_fill() {
    let mut world = World::new();
    let forward = world.miss("GET /", "");
    let mut followers: Vec<Follower> = (0..3).map(|_| world.follow("GET /", "")).collect();
    assert!(world.fail(forward).is_none());
    assert_eq!(world.take_wakes(), 3);
    let now = world.now;
    assert!(followers.iter_mut().all(|follower| matches!(follower.poll(now), FollowerPoll::Retry)));
    let CacheDecision::Forward(second) = followers.remove(0).retry(now) else { panic!("the first of them asks") };
    let CacheDecision::Wait(mut third) = followers.remove(0).retry(now) else { panic!("the second follows") };
    world.respond(second, 200, FRESH, "abc");
    assert!(matches!(third.poll(now), FollowerPoll::Response(_)));
    let CacheDecision::Respond(response) = followers.remove(0).retry(now) else { panic!("the third finds it") };
    assert_eq!(Received::new(&response).body, "abc");
}

/// The failure reported to a follower.
fn failure(follower: &mut Follower, world: &World) -> Option<&'static str> {
    match follower.poll(world.now) {
        FollowerPoll::Failed(failure) => Some(*failure.downcast::<&'static str>().unwrap()),
        FollowerPoll::Retry => None,
        other => panic!("{other:?}"),
    }
}

fn failure_info(text: &'static str) -> FailureInfo {
    Arc::new(text)
}

#[test]
fn unreachable_upstream_fails_all_followers() {
    let mut world = World::new();
    let forward = world.miss("GET /", "");
    let mut followers = [(); 3].map(|()| world.follow("GET /", ""));
    world.fail_with(forward, FetchError::Unreachable(failure_info("down")));
    assert_eq!(world.take_wakes(), 3);
    for follower in &mut followers {
        assert_eq!(failure(follower, &world), Some("down"));
    }
    drop(followers);
    world.fetch("GET /", "", 200, FRESH, "what comes later asks for itself");
}

#[test]
fn two_failures_fail_followers() {
    let mut world = World::new();
    let forward = world.miss("GET /", "");
    let mut followers: Vec<Follower> = (0..4).map(|_| world.follow("GET /", "")).collect();
    world.fail_with(forward, FetchError::NoResponse(failure_info("first")));
    let now = world.now;
    assert!(followers.iter_mut().all(|follower| failure(follower, &world).is_none()));
    let CacheDecision::Forward(second) = followers.remove(0).retry(now) else { panic!("one asks again") };
    let follow_again = |follower: Follower| match follower.retry(now) {
        CacheDecision::Wait(follower) => follower,
        other => panic!("the others wait: {other:?}"),
    };
    let mut followers: Vec<Follower> = followers.drain(..).map(follow_again).collect();
    let mut late = world.follow("GET /", "");
    world.fail_with(second, FetchError::NoResponse(failure_info("second")));
    for follower in &mut followers {
        assert_eq!(failure(follower, &world), Some("second"));
    }
    assert_eq!(failure(&mut late, &world), None, "this one has seen one failure only");
    let CacheDecision::Forward(third) = late.retry(now) else { panic!("no other request is in flight") };
    world.respond(third, 200, FRESH, "abc");
    assert!(world.is_hit("GET /", ""));
}

/// The follower waited for both fills, although it was not woken in between.
#[test]
fn late_follower_gets_second_failure() {
    let mut world = World::new();
    let forward = world.miss("GET /", "");
    let [mut awake, mut follows, mut late, mut latest] = [(); 4].map(|()| world.follow("GET /", ""));
    let now = world.now;
    world.fail_with(forward, FetchError::NoResponse(failure_info("first")));
    assert_eq!(failure(&mut awake, &world), None);
    let CacheDecision::Forward(second) = awake.retry(now) else { panic!("one asks again") };
    assert_eq!(failure(&mut follows, &world), None);
    let CacheDecision::Wait(mut follows) = follows.retry(now) else { panic!("this one waits") };
    world.fail_with(second, FetchError::NoResponse(failure_info("second")));
    assert_eq!(failure(&mut follows, &world), Some("second"));
    drop(follows);
    assert_eq!(failure(&mut late, &world), None, "of the first it learns now");
    let CacheDecision::Wait(mut late) = late.retry(now) else { panic!("it has waited for both") };
    assert_eq!(failure(&mut late, &world), Some("second"));
    // A later response is for the follower, too.
    world.fetch("GET /", "", 200, FRESH, "abc");
    assert_eq!(failure(&mut latest, &world), None);
    assert!(matches!(latest.retry(now), CacheDecision::Respond(_)));
}

/// Failures caused by the requests themselves do not count.
#[test]
fn late_follower_retries_after_request_failure() {
    let mut world = World::new();
    let forward = world.miss("GET /", "");
    let [mut awake, mut late, mut latest] = [(); 3].map(|()| world.follow("GET /", ""));
    let now = world.now;
    world.fail_with(forward, FetchError::NoResponse(failure_info("first")));
    assert_eq!(failure(&mut awake, &world), None);
    let CacheDecision::Forward(second) = awake.retry(now) else { panic!("one asks again") };
    world.fail_with(second, FetchError::Request);
    assert_eq!(failure(&mut late, &world), None);
    let CacheDecision::Forward(third) = late.retry(now) else { panic!("no other request is in flight") };
    world.fail_with(third, FetchError::NoResponse(failure_info("third")));
    assert_eq!(failure(&mut latest, &world), None);
    let CacheDecision::Wait(mut latest) = latest.retry(now) else {
        panic!("it has waited for the first and the third")
    };
    assert_eq!(failure(&mut latest, &world), Some("third"));
}

/// No request for the other variant was sent.
#[test]
fn late_follower_ignores_failure_of_other_variant() {
    let mut world = World::new();
    world.fetch(
        "GET /",
        "Accept-Encoding: gzip",
        200,
        "Cache-Control: max-age=1, must-revalidate\nVary: Accept-Encoding",
        "abc",
    );
    world.wait(2);
    let now = world.now;
    let forward = world.miss("GET /", "Accept-Encoding: gzip");
    let [mut awake, mut late] = [(); 2].map(|()| world.follow("GET /", "Accept-Encoding: gzip"));
    let other = world.miss("GET /", "Accept-Encoding: br");
    let mut other_late = world.follow("GET /", "Accept-Encoding: br");
    for forward in [forward, other] {
        world.fail_with(forward, FetchError::NoResponse(failure_info("first")));
    }
    assert_eq!(failure(&mut awake, &world), None);
    let CacheDecision::Forward(second) = awake.retry(now) else { panic!("one asks again") };
    world.fail_with(second, FetchError::NoResponse(failure_info("second")));
    for follower in [&mut late, &mut other_late] {
        assert_eq!(failure(follower, &world), None);
    }
    assert!(matches!(late.retry(now), CacheDecision::Wait(_)));
    assert!(matches!(other_late.retry(now), CacheDecision::Forward(_)));
}

#[test]
fn follower_after_purge_does_not_get_older_fill() {
    let mut world = World::new();
    let now = world.now;
    let forward = world.miss("GET /", "");
    let [mut awake, mut late] = [(); 2].map(|()| world.follow("GET /", ""));
    world.fail_with(forward, FetchError::NoResponse(failure_info("first")));
    assert_eq!(failure(&mut awake, &world), None);
    let CacheDecision::Forward(second) = awake.retry(now) else { panic!("one asks again") };
    world.cache.purge(&breme_cache::Purge::All, breme_cache::PurgeMode::Hard, now.instant).unwrap();
    assert_eq!(failure(&mut late, &world), None);
    let CacheDecision::Forward(own) = late.retry(now) else {
        panic!("a response requested before the purge must not match")
    };
    world.respond(own, 200, FRESH, "abc");
    drop(second);
}

/// A stale response that one client rules out may be acceptable to another.
#[test]
fn restricted_request_failure_is_not_shared() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=1\nETag: \"a\"", "abc");
    world.wait(2);
    let forward = world.miss("GET /", "Cache-Control: no-cache");
    let mut follower = world.follow("GET /", "");
    assert!(world.fail_with(forward, FetchError::Unreachable(failure_info("down"))).is_none());
    assert_eq!(failure(&mut follower, &world), None);
    let CacheDecision::Forward(forward) = follower.retry(world.now) else { panic!("it asks") };
    let received = world.fail_with(forward, FetchError::Unreachable(failure_info("down"))).unwrap();
    assert_eq!(received.body, "abc", "stale, since upstream is down");
}

#[test]
fn abort_reaches_started_followers() {
    let mut world = World::new();
    let (mut forward, mut followers) = begin(&mut world, 2, FRESH, Some(6));
    assert!(matches!(followers[0].poll(world.now), FollowerPoll::Stream(_)));
    forward.handle_body(b"abc", &mut world.wakes);
    assert_eq!(world.fail(forward), None);
    assert_eq!(followers[0].read(&mut Vec::new(), 9), BodyRead::Aborted);
    assert!(matches!(followers[1].poll(world.now), FollowerPoll::Retry), "who has not begun asks again");
    assert!(!world.is_hit("GET /", ""));
}

#[test]
fn short_body_is_not_stored() {
    let mut world = World::new();
    let (mut forward, mut followers) = begin(&mut world, 1, FRESH, Some(6));
    assert!(matches!(followers[0].poll(world.now), FollowerPoll::Stream(_)));
    forward.handle_body(b"abc", &mut world.wakes);
    forward.handle_end(&mut world.wakes);
    assert_eq!(followers[0].read(&mut Vec::new(), 9), BodyRead::Aborted);
    assert!(!world.is_hit("GET /", ""));
}

#[test]
fn dropped_fill_releases_followers() {
    let mut world = World::new();
    let forward = world.miss("GET /", "");
    let mut follower = world.follow("GET /", "");
    drop(forward);
    assert!(matches!(follower.poll(world.now), FollowerPoll::Retry));
    assert_eq!(world.cache.statistics().fills, 0);
}

#[test]
fn followers_have_deadlines() {
    let mut world = World::new();
    let forward = world.miss("GET /", "");
    let follower = world.follow("GET /", "");
    assert_eq!(follower.deadline(), world.now.instant + CacheSettings::new(1).follow_max);
    world.wait(10);
    let CacheDecision::Forward(own) = follower.retry(world.now) else { panic!("it asks for itself") };
    world.respond(own, 200, FRESH, "abc");
    assert_eq!(world.hit("GET /", "").body, "abc");
    drop(forward);
}

#[test]
fn followers_get_their_variant() {
    let mut world = World::new();
    let mut forward = world.miss("GET /", "Accept-Encoding: gzip");
    let mut same = world.follow("GET /", "accept-encoding: GZIP");
    let mut other = world.follow("GET /", "Accept-Encoding: br");
    world.head(&mut forward, 200, "Cache-Control: max-age=60\nVary: Accept-Encoding", Some(3));
    assert!(matches!(same.poll(world.now), FollowerPoll::Stream(_)));
    assert!(matches!(other.poll(world.now), FollowerPoll::Retry));
    let CacheDecision::Forward(own) = other.retry(world.now) else { panic!("another variant is another fill") };
    let _same = world.follow("GET /", "Accept-Encoding: gzip");
    world.follow_up(forward, "one");
    world.respond(own, 200, "Cache-Control: max-age=60\nVary: Accept-Encoding", "two");
    world.wait(100);
    let _one = world.miss("GET /", "Accept-Encoding: gzip");
    let _two = world.miss("GET /", "Accept-Encoding: br");
    world.follow("GET /", "Accept-Encoding: br");
}

#[test]
fn validations_are_collapsed() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", "one");
    world.wait(20);
    let forward = world.miss("GET /", "");
    let mut plain = world.follow("GET /", "");
    let mut conditional = world.follow("GET /", "If-None-Match: \"a\"");
    let mut part = world.follow("GET /", "Range: bytes=0-0");
    let mut head = world.follow("HEAD /", "");
    world.respond(forward, 304, "Cache-Control: max-age=10", "");
    let now = world.now;
    let followed = |follower: &mut Follower| match follower.poll(now) {
        FollowerPoll::Response(response) => Received::new(&response),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (followed(&mut plain).body.as_str(), followed(&mut plain).status_text.as_str()),
        ("one", "c; fwd=stale; ttl=10; collapsed")
    );
    assert_eq!(
        (followed(&mut conditional).status, followed(&mut part).status, followed(&mut head).body),
        (304, 206, String::new())
    );
}

#[test]
fn followers_get_stale_response_on_failure() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", "one");
    world.wait(20);
    let mut forward = world.miss("GET /", "");
    let mut follower = world.follow("GET /", "");
    assert!(world.head(&mut forward, 503, "", Some(0)).is_some());
    let FollowerPoll::Response(response) = follower.poll(world.now) else { panic!("the stale one") };
    assert_eq!(Received::new(&response).status_text, "c; fwd=stale; fwd-status=503; ttl=-10; collapsed");
}

#[test]
fn some_requests_do_not_follow() {
    let mut world = World::new();
    let leader = world.miss("GET /", "");
    for lines in [
        "Authorization: x",
        "Cache-Control: no-cache",
        "Cache-Control: no-store",
        "Range: bytes=0-1",
        "If-Match: \"a\"",
    ] {
        let own = world.miss("GET /", lines);
        drop(own);
    }
    world.miss("HEAD /x", "");
    drop(leader);
    let _authorized = world.miss("GET /", "Authorization: x");
    let _own = world.miss("GET /", "");
    let _conditional = world.miss("GET /y", "If-None-Match: \"a\"");
    let _own = world.miss("GET /y", "");
}

#[test]
fn declared_overlong_body_releases_followers() {
    let mut world = World::with(CacheSettings { object_bytes_max: 5, ..CacheSettings::new(4 << 20) });
    let (forward, mut followers) = begin(&mut world, 2, FRESH, Some(6));
    assert!(!forward.wants_body());
    assert!(followers.iter_mut().all(|follower| matches!(follower.poll(world.now), FollowerPoll::Retry)));
    let _first = world.miss("GET /", "");
    let _second = world.miss("GET /", "");
}

#[test]
fn overlong_body_continues_for_started_followers() {
    let settings =
        CacheSettings { object_bytes_max: 40_000, overlong_window_bytes: 30_000, ..CacheSettings::new(4 << 20) };
    let mut world = World::with(settings);
    let (mut forward, mut followers) = begin(&mut world, 3, FRESH, None);
    assert!(matches!(followers[0].poll(world.now), FollowerPoll::Stream(_)));
    assert!(matches!(followers[1].poll(world.now), FollowerPoll::Stream(_)));
    let piece = "x".repeat(10_000);
    let mut read = 0;
    let mut took = |follower: &mut Follower| {
        let mut out = Vec::new();
        while let BodyRead::Copied(bytes) = follower.read(&mut out, 7_000) {
            read += bytes;
        }
        read
    };
    for count in 1..=20 {
        forward.handle_body(piece.as_bytes(), &mut world.wakes);
        assert_eq!(took(&mut followers[0]), count * 10_000);
    }
    assert_eq!(followers[1].read(&mut Vec::new(), 1), BodyRead::Aborted, "too slow");
    assert!(matches!(followers[2].poll(world.now), FollowerPoll::Retry), "had not begun");
    assert!(forward.should_finish());
    forward.handle_end(&mut world.wakes);
    assert_eq!(followers[0].read(&mut Vec::new(), 1), BodyRead::End);
    assert!(!world.is_hit("GET /", ""));
    drop(followers);
    assert!(world.cache.statistics().bytes < 100_000, "{:?}", world.cache.statistics());
}

#[test]
fn overlong_body_without_readers_is_dropped() {
    let mut world = World::with(CacheSettings { object_bytes_max: 40_000, ..CacheSettings::new(4 << 20) });
    let (mut forward, _) = begin(&mut world, 0, FRESH, None);
    for _ in 0..5 {
        forward.handle_body(&[b'x'; 10_000], &mut world.wakes);
    }
    assert!(!forward.wants_body());
    forward.handle_end(&mut world.wakes);
    assert!(!world.is_hit("GET /", ""));
}

#[test]
fn fill_without_client_continues_while_useful() {
    let mut world = World::new();
    let (forward, followers) = begin(&mut world, 1, FRESH, Some(500_000));
    assert!(forward.should_finish(), "it is read");
    drop(followers);
    assert!(!forward.should_finish(), "no followers, and most is missing");
    drop(forward);
    let mut wakes = Wakes::new();
    let (mut forward, _) = begin(&mut world, 0, FRESH, Some(300_000));
    forward.handle_body(&[0; 100_000], &mut wakes);
    assert!(forward.should_finish(), "little is missing");
    assert!(!world.miss("GET /other", "").should_finish());
}
