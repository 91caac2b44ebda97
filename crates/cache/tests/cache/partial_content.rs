//! Storing, reusing and merging 206 responses (RFC 9111, 3.3 and 3.4).

use breme_cache::{CacheDecision, CacheSettings, FollowerPoll, Purge, PurgeMode};

use crate::world::{Received, World};

const ALL: &str = "0123456789";

/// Requests bytes `start` to `end` (exclusive), and responds with them.
fn fetch_part(world: &mut World, start: usize, end: usize, lines: &str) -> Received {
    let range = format!("bytes {start}-{}/{}", end - 1, ALL.len());
    let lines = format!("Cache-Control: max-age=60\nContent-Range: {range}\n{lines}");
    world.fetch("GET /", &format!("Range: bytes={start}-{}", end - 1), 206, &lines, &ALL[start..end])
}

#[test]
fn part_serves_ranges_within_it() {
    let mut world = World::new();
    assert_eq!(fetch_part(&mut world, 2, 8, "ETag: \"a\"\nX: y").status_text, "c; fwd=uri-miss; stored");
    world.wait(5);
    for (range, text, part) in
        [("2-7", "234567", "2-7"), ("3-4", "34", "3-4"), ("7-7", "7", "7-7"), ("2-3,3-5", "2345", "2-5")]
    {
        let received = world.hit("GET /", &format!("Range: bytes={range}"));
        assert_eq!((received.status, received.body.as_str(), received.age), (206, text, Some(5)));
        assert_eq!(received.field("content-range"), Some(format!("bytes {part}/10").as_str()));
        assert_eq!((received.field("etag"), received.field("x")), (Some("\"a\""), Some("y")));
        assert_eq!(received.lines.matches("Content-Range").count(), 1);
    }
    assert_eq!(world.hit("GET /", "Range: bytes=2-3\nIf-Range: \"a\"").status, 206);
    assert_eq!(world.hit("GET /", "Range: bytes=2-3\nIf-None-Match: \"a\"").status, 304);
}

#[test]
fn part_serves_no_other_request() {
    for lines in [
        "",
        "Range: bytes=1-3",
        "Range: bytes=6-8",
        "Range: bytes=2-",
        "Range: bytes=-2",
        "Range: bytes=2-2,5-5",
        "Range: bytes=20-",
        "Range: lines=2-3",
        "Range: bytes=2-3\nIf-Range: \"b\"",
        "If-None-Match: \"a\"",
    ] {
        let mut world = World::new();
        fetch_part(&mut world, 2, 8, "ETag: \"a\"");
        let forward = world.miss("GET /", lines);
        assert!(forward.conditions().is_none(), "{lines}: the client's conditions are forwarded");
        let status_text = world.respond(forward, 200, "Cache-Control: max-age=60", ALL).status_text;
        assert_eq!(status_text, "c; fwd=partial; stored", "{lines}");
        assert_eq!(world.hit("GET /", "").body, ALL, "{lines}");
    }
    let mut world = World::new();
    fetch_part(&mut world, 2, 8, "");
    assert!(!world.is_hit("HEAD /", "Range: bytes=2-3"), "Range is for GET alone");
}

#[test]
fn stale_part_is_ignored() {
    let mut world = World::new();
    fetch_part(&mut world, 0, 5, "ETag: \"a\"\nX-Ignored: 1");
    world.wait(60);
    let forward = world.miss("GET /", "Range: bytes=0-4");
    assert!(forward.conditions().is_none());
    assert!(world.fail(forward).is_none(), "nor is it used when upstream fails");
    let lines = "Cache-Control: max-age=0, stale-while-revalidate=60\nContent-Range: bytes 0-4/10\nETag: \"a\"";
    let forward = world.miss("GET /", "Range: bytes=0-4");
    assert_eq!(world.respond(forward, 206, lines, "01234").status_text, "c; fwd=stale");
}

#[test]
fn refuses_inconsistent_part() {
    let range = "Range: bytes=0-4";
    for (lines, body) in [
        ("Content-Range: bytes 0-4/10", "0123"),
        ("Content-Range: bytes 0-4/10", "012345"),
        ("Content-Range: bytes 0-4/*", "01234"),
        ("Content-Range: bytes 0-4/4", "01234"),
        ("Content-Range: bytes 0-4/10\nContent-Range: bytes 0-4/10", "01234"),
        ("Content-Type: multipart/byteranges; boundary=x", "--x--"),
        ("", "01234"),
        ("Content-Range: bytes 0-4/10\nCache-Control: no-store", "01234"),
        ("Content-Range: bytes 0-4/10\nVary: *", "01234"),
        ("Content-Range: bytes 0-4/10\nSet-Cookie: a=b", "01234"),
    ] {
        let mut world = World::new();
        world.fetch("GET /", range, 206, &format!("Cache-Control: max-age=60\n{lines}"), body);
        assert!(!world.is_hit("GET /", range), "{lines} {body}");
    }
    let mut world = World::new();
    world.fetch("GET /", "", 206, "Cache-Control: max-age=60\nContent-Range: bytes 0-4/10", "01234");
    assert!(!world.is_hit("GET /", range), "no range was requested");
    let mut forward = world.miss("GET /", range);
    let lines = "Cache-Control: max-age=60\nContent-Range: bytes 0-4/10";
    world.head(&mut forward, 206, lines, None);
    forward.handle_body(b"01234", &mut world.wakes);
    forward.handle_end(&mut world.wakes);
    assert!(!world.is_hit("GET /", range), "how long it would be was not known");
    let mut forward = world.miss("GET /", range);
    world.head(&mut forward, 206, lines, Some(5));
    forward.handle_body(b"0123", &mut world.wakes);
    world.fail(forward);
    assert!(!world.is_hit("GET /", range), "it broke off");
}

#[test]
fn parts_merge_into_complete_response() {
    let mut world = World::new();
    fetch_part(&mut world, 0, 4, "ETag: \"a\"\nX: 1\nOnly: old");
    fetch_part(&mut world, 4, 8, "ETag: \"a\"\nX: 2");
    let received = world.hit("GET /", "Range: bytes=2-6");
    assert_eq!(
        (received.status, received.body.as_str(), received.field("content-range")),
        (206, "23456", Some("bytes 2-6/10"))
    );
    assert_eq!((received.field("x"), received.field("only")), (Some("2"), Some("old")), "the newer lines count (3.4)");
    assert!(!world.is_hit("GET /", ""), "two bytes are missing");
    world.wait(1);
    fetch_part(&mut world, 7, 10, "ETag: \"a\"");
    let received = world.hit("GET /", "");
    assert_eq!((received.status, received.body.as_str(), received.field("content-range")), (200, ALL, None));
    assert_eq!(world.hit("GET /", "Range: bytes=-3").body, "789");
    assert_eq!(world.cache.statistics().objects, 1);
}

#[test]
fn weak_or_different_parts_replace() {
    for (first, second) in [
        ("ETag: \"a\"", "ETag: \"b\""),
        ("ETag: W/\"a\"", "ETag: W/\"a\""),
        ("", ""),
        ("ETag: \"a\"", "ETag: \"a\"\nContent-Encoding: gzip"),
        ("ETag: \"a\"\nContent-Type: a/b", "ETag: \"a\"\nContent-Type: c/d"),
        // Headers on caching.
        ("ETag: \"a\"\nExpires: Sun, 06 Nov 2094 08:49:37 GMT", "ETag: \"a\""),
        ("ETag: \"a\"\nCDN-Cache-Control: max-age=60, must-revalidate", "ETag: \"a\""),
        ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"),
    ] {
        let mut world = World::new();
        fetch_part(&mut world, 0, 4, first);
        fetch_part(&mut world, 4, 8, second);
        assert!(!world.is_hit("GET /", "Range: bytes=3-4"), "{first} {second}");
        assert_eq!(world.hit("GET /", "Range: bytes=4-7").body, "4567", "the newer one");
        assert!(!world.is_hit("GET /", "Range: bytes=0-3"));
    }
}

#[test]
fn merging_drops_digests() {
    let mut world = World::new();
    let digests = "Content-Digest: sha-256=:AA==:\nContent-MD5: AA==";
    fetch_part(&mut world, 0, 4, &format!("ETag: \"a\"\n{digests}"));
    let received = world.hit("GET /", "Range: bytes=1-2");
    assert_eq!((received.field("content-digest"), received.field("content-md5")), (None, None));
    fetch_part(&mut world, 4, 10, &format!("ETag: \"a\"\n{digests}"));
    let received = world.hit("GET /", "");
    assert_eq!(
        (received.body.as_str(), received.field("content-digest"), received.field("content-md5")),
        (ALL, None, None)
    );
}

/// A 206 to a request with If-Range may omit headers that the client has (RFC 9110, 15.3.7).
#[test]
fn if_range_part_needs_merge() {
    let part = |world: &mut World, start: usize, more: &str| {
        let lines = format!("Cache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes {start}-{}/10", start + 4);
        let range = format!("Range: bytes={start}-{}\n{more}", start + 4);
        world.fetch("GET /", &range, 206, &lines, &ALL[start..start + 5]);
    };
    let mut world = World::new();
    part(&mut world, 5, "If-Range: \"a\"");
    assert!(!world.is_hit("GET /", "Range: bytes=5-9"));
    fetch_part(&mut world, 0, 5, "ETag: \"a\"\nContent-Type: a/b");
    part(&mut world, 5, "If-Range: \"a\"");
    let received = world.hit("GET /", "");
    assert_eq!((received.body.as_str(), received.field("content-type")), (ALL, Some("a/b")));
}

#[test]
fn merged_part_respects_object_limit() {
    let settings = CacheSettings { object_bytes_max: 8, lifetime_spread_percent: 0, ..CacheSettings::new(4 << 20) };
    let mut world = World::with(settings);
    fetch_part(&mut world, 0, 5, "ETag: \"a\"");
    fetch_part(&mut world, 5, 8, "ETag: \"a\"");
    assert_eq!(world.hit("GET /", "Range: bytes=0-7").body, "01234567");
    fetch_part(&mut world, 8, 10, "ETag: \"a\"");
    assert!(!world.is_hit("GET /", ""));
    assert_eq!(world.hit("GET /", "Range: bytes=8-9").body, "89");
}

#[test]
fn merged_part_keeps_groups_of_both() {
    let mut world = World::new();
    fetch_part(&mut world, 0, 4, "ETag: \"a\"\nSurrogate-Key: k");
    fetch_part(&mut world, 4, 8, "ETag: \"a\"");
    assert!(world.is_hit("GET /", "Range: bytes=2-6"));
    let purge = Purge::Key("k".to_owned());
    assert_eq!(world.cache.purge(&purge, PurgeMode::Hard, world.now.instant), Ok(1));
    assert!(!world.is_hit("GET /", "Range: bytes=2-6"));
}

/// The upstream request was a validation without a range.
#[test]
fn unrequested_part_is_not_stored() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", ALL);
    world.wait(20);
    let mut forward = world.miss("GET /", "Range: bytes=0-3");
    assert!(forward.conditions().is_some());
    let mut follower = world.follow("GET /", "");
    let lines = "Cache-Control: max-age=60\nETag: \"b\"\nContent-Range: bytes 0-3/10";
    world.head(&mut forward, 206, lines, Some(4));
    assert!(matches!(follower.poll(world.now), FollowerPoll::Retry));
}

#[test]
fn part_does_not_replace_complete_response() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10, stale-if-error=600", ALL);
    world.wait(20);
    fetch_part(&mut world, 0, 4, "");
    let forward = world.miss("GET /", "");
    assert_eq!(world.fail(forward).unwrap().body, ALL);
}

#[test]
fn parts_are_kept_per_variant() {
    let mut world = World::new();
    let lines = "Cache-Control: max-age=60\nVary: Foo\nETag: \"a\"\nContent-Range: bytes 0-3/10";
    world.fetch("GET /", "Range: bytes=0-3\nFoo: 1", 206, lines, "0123");
    world.fetch("GET /", "Range: bytes=0-3\nFoo: 2", 206, lines, "abcd");
    assert_eq!(world.hit("GET /", "Range: bytes=1-2\nFoo: 1").body, "12");
    assert_eq!(world.hit("GET /", "Range: bytes=1-2\nFoo: 2").body, "bc");
    assert!(!world.is_hit("GET /", "Range: bytes=1-2\nFoo: 3"));
}

#[test]
fn purge_removes_parts() {
    let mut world = World::new();
    fetch_part(&mut world, 0, 4, "ETag: \"a\"");
    let all = |world: &World, manner| world.cache.purge(&Purge::All, manner, world.now.instant).unwrap();
    let mut forward = world.miss("GET /", "Range: bytes=4-7");
    world.head(&mut forward, 206, "Cache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes 4-7/10", Some(4));
    assert_eq!(all(&world, PurgeMode::Hard), 1);
    forward.handle_body(b"4567", &mut world.wakes);
    forward.handle_end(&mut world.wakes);
    assert_eq!(world.cache.statistics().objects, 0, "a response requested before a purge is not stored");
    fetch_part(&mut world, 0, 4, "");
    assert_eq!(all(&world, PurgeMode::Soft), 1);
    assert!(!world.is_hit("GET /", "Range: bytes=0-3"));
    fetch_part(&mut world, 0, 4, "");
    world.fetch("POST /", "Content-Length: 0", 200, "", "");
    assert!(!world.is_hit("GET /", "Range: bytes=0-3"));
}

#[test]
fn part_memory_is_bounded_and_released() {
    let mut world = World::with(CacheSettings { lifetime_spread_percent: 0, ..CacheSettings::new(256 * 1024) });
    for path in 0..100 {
        for (start, part) in [(0, "0-999"), (1000, "1000-1999"), (2000, "2000-2999")] {
            let lines = format!("Cache-Control: max-age=60\nETag: \"a\"\nContent-Range: bytes {part}/4000");
            let range = format!("Range: bytes={part}");
            match world.look_up(&format!("GET /{path}"), &range) {
                CacheDecision::Forward(forward) => {
                    world.respond(forward, 206, &lines, &"x".repeat(1000));
                }
                other => panic!("{start}: {other:?}"),
            }
        }
        let statistics = world.cache.statistics();
        assert!(statistics.bytes <= statistics.bytes_max);
    }
    assert!(world.cache.statistics().evicted > 0);
    world.cache.purge(&Purge::All, PurgeMode::Hard, world.now.instant).unwrap();
    let empty = world.cache.statistics().bytes;
    fetch_part(&mut world, 0, 4, "");
    world.cache.purge(&Purge::All, PurgeMode::Hard, world.now.instant).unwrap();
    assert_eq!(world.cache.statistics().bytes, empty);
}
