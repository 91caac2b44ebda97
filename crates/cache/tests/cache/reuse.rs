//! Conditional and range requests, variants, validation (RFC 9111, 3.4, 4.1, 4.3).

use breme_cache::{CacheDecision, FollowerPoll, HeadAction, Purge, PurgeMode, Validity};

use crate::world::World;

#[test]
fn valid_client_copy_gets_304() {
    let mut world = World::new();
    let modified = world.date(-1000);
    let lines = format!("Cache-Control: max-age=60\nETag: \"a\"\nLast-Modified: {modified}\nContent-Type: text/plain");
    world.fetch("GET /", "", 200, &lines, "one");
    let hit = world.hit("GET /", "If-None-Match: \"x\", W/\"a\"");
    assert_eq!((hit.status, hit.body.as_str(), hit.age), (304, "", Some(0)));
    assert_eq!((hit.field("etag"), hit.field("content-type")), (Some("\"a\""), None));
    assert_eq!(world.hit("GET /", &format!("If-Modified-Since: {modified}")).status, 304);
    assert_eq!(world.hit("GET /", "If-None-Match: \"x\"").body, "one");
    assert_eq!(world.hit("HEAD /", "If-None-Match: \"a\"").status, 304);
}

#[test]
fn forwards_if_match() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=60\nETag: \"a\"", "one");
    for lines in ["If-Match: \"a\"", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"] {
        let forward = world.miss("GET /", lines);
        assert!(forward.conditions().is_none(), "as the client sent it");
        assert_eq!(world.respond(forward, 412, "", "").status, 412);
    }
}

#[test]
fn forwards_conditions_on_uncached_urls() {
    let mut world = World::new();
    let forward = world.miss("GET /", "If-None-Match: \"x\"");
    assert!(forward.conditions().is_none());
    assert_eq!(world.respond(forward, 304, "ETag: \"x\"\nCache-Control: max-age=60", "").status, 304);
    assert!(!world.is_hit("GET /", ""), "a 304 to a client's condition is not stored");
}

#[test]
fn serves_ranges_of_stored_response() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=60\nETag: \"a\"\nContent-Type: text/plain", "0123456789");
    let hit = world.hit("GET /", "Range: bytes=2-4");
    assert_eq!((hit.status, hit.body.as_str(), hit.field("content-range")), (206, "234", Some("bytes 2-4/10")));
    let hit = world.hit("GET /", "Range: bytes=0-0,9-9");
    assert!(hit.status == 206 && hit.field("content-type").unwrap().starts_with("multipart/byteranges; boundary="));
    assert_eq!(world.hit("GET /", "Range: bytes=10-").status, 416);
    assert_eq!(world.hit("GET /", "Range: bytes=0-1\nIf-Range: \"b\"").status, 200);
    assert_eq!(world.hit("GET /", "Range: bytes=0-1\nIf-Range: \"a\"").status, 206);
    assert_eq!(world.hit("HEAD /", "Range: bytes=0-1").status, 200, "Range is for GET alone");
    assert_eq!(world.hit("GET /", "Range: bytes=0-1\nIf-None-Match: \"a\"").status, 304, "conditions come first");
    let many = (0..20).map(|part| format!("{part}-{part}")).collect::<Vec<_>>().join(",");
    assert_eq!(world.hit("GET /", &format!("Range: bytes={many}")).status, 200);
}

#[test]
fn serves_complete_response_without_range_support() {
    let mut world = World::new();
    let forward = world.miss("GET /", "Range: bytes=0-4");
    assert!(forward.conditions().is_none());
    world.respond(forward, 200, "Cache-Control: max-age=60", "0123456789");
    assert_eq!(world.hit("GET /", "").body, "0123456789");
}

#[test]
fn selects_variants() {
    let mut world = World::new();
    let lines = "Cache-Control: max-age=60\nVary: Foo";
    world.fetch("GET /", "Foo: 1", 200, lines, "one");
    assert_eq!(world.fetch("GET /", "Foo: 2", 200, lines, "two").status_text, "c; fwd=vary-miss; stored");
    assert_eq!(world.hit("GET /", "Foo: 1").body, "one");
    assert_eq!(world.hit("GET /", "foo:  2\nBar: x").body, "two");
    assert!(!world.is_hit("GET /", "") && !world.is_hit("GET /", "Foo: 3"));
    world.fetch("GET /", "Foo: 3", 200, "Cache-Control: max-age=60\nVary: *", "three");
    assert!(!world.is_hit("GET /", "Foo: 3"));
}

#[test]
fn variants_are_bounded() {
    let mut world =
        World::with(breme_cache::CacheSettings { variants_max: 3, ..breme_cache::CacheSettings::new(4 << 20) });
    for value in 0..10 {
        world.fetch("GET /", &format!("Foo: {value}"), 200, "Cache-Control: max-age=60\nVary: Foo", "x");
    }
    assert_eq!(world.cache.statistics().objects, 3);
    assert!(world.is_hit("GET /", "Foo: 9") && world.is_hit("GET /", "Foo: 7") && !world.is_hit("GET /", "Foo: 6"));
}

#[test]
fn validation_freshens_stored_response() {
    let mut world = World::new();
    let modified = world.date(-1000);
    let lines = format!("Cache-Control: max-age=10\nETag: \"a\"\nLast-Modified: {modified}\nX: 1\nY: 1");
    world.fetch("GET /", "", 200, &lines, "one");
    world.wait(20);
    let forward = world.miss("GET /", "If-None-Match: \"old\"");
    let expected = format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {modified}\r\n");
    assert_eq!(forward.conditions().unwrap().as_bytes(), expected.as_bytes(), "both validators, and not the client's");
    let found = world.respond(forward, 304, "Cache-Control: max-age=30\nX: 2\nETag: \"a\"", "");
    assert_eq!(
        (found.status, found.body.as_str(), found.field("x"), found.field("y")),
        (200, "one", Some("2"), Some("1"))
    );
    assert_eq!((found.age, found.status_text.as_str()), (Some(0), "c; fwd=stale; fwd-status=304; ttl=30; stored"));
    world.wait(29);
    let hit = world.hit("GET /", "");
    assert_eq!((hit.field("x"), hit.field("cache-control"), hit.age), (Some("2"), Some("max-age=30"), Some(29)));
}

#[test]
fn validation_may_return_new_response() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", "one");
    world.wait(20);
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"b\"", "two");
    assert_eq!(world.hit("GET /", "").body, "two");
    assert_eq!(world.cache.statistics().objects, 1);
    world.wait(20);
    world.fetch("GET /", "", 200, "Cache-Control: private\nETag: \"c\"", "three");
    world.fetch("GET /", "", 404, "", "gone");
    assert!(!world.is_hit("GET /", ""), "what was there before is out of date");
}

#[test]
fn validation_may_remove_response() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", "one");
    world.wait(20);
    let found = world.fetch("GET /", "", 304, "Cache-Control: private", "");
    assert_eq!((found.status, found.body.as_str(), found.status_text.contains("stored")), (200, "one", false));
    assert_eq!(world.cache.statistics().objects, 0);
}

/// A 304 about a response that is not stored updates nothing (RFC 9111, 4.3.4).
#[test]
fn validation_by_other_validator_fetches_complete_response() {
    for (stored, not_modified) in [
        ("ETag: \"a\"", "ETag: \"b\""),
        ("ETag: \"a\"", "ETag: W/\"b\""),
        ("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT"),
    ] {
        let mut world = World::new();
        world.fetch("GET /", "", 200, &format!("Cache-Control: max-age=10\n{stored}\nX: 1"), "one");
        world.wait(20);
        let lines = format!("Cache-Control: max-age=60\n{not_modified}\nX: 2");
        let mut forward = world.miss("GET /", "");
        let action = world.handle_head(&mut forward, 304, &lines, Some(0));
        assert!(matches!(action, HeadAction::SendAgain), "{stored}, {not_modified}: {action:?}");
        assert!(forward.conditions().unwrap().is_empty(), "without conditions");
        let kept = world.fail(forward).unwrap();
        assert_eq!((kept.body.as_str(), kept.field("x")), ("one", Some("1")), "nothing was updated");

        let mut forward = world.miss("GET /", "");
        world.wait(3);
        world.handle_head(&mut forward, 304, &lines, Some(0));
        let found = world.respond(forward, 200, &lines, "two");
        assert_eq!((found.body.as_str(), found.status_text.as_str()), ("two", "c; fwd=stale; stored"));
        let hit = world.hit("GET /", "");
        assert_eq!((hit.body.as_str(), hit.field("x"), hit.age), ("two", Some("2"), Some(0)));
        assert_eq!(world.cache.statistics().objects, 1);
    }
}

#[test]
fn request_is_sent_again_once() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", "one");
    world.wait(20);
    let mut forward = world.miss("GET /", "");
    let other = "Cache-Control: max-age=60\nETag: \"b\"";
    world.handle_head(&mut forward, 304, other, Some(0));
    assert_eq!(world.respond(forward, 304, other, "").status, 304, "there is nothing better to relay");
    assert!(!world.is_hit("GET /", ""), "nothing was updated");
}

#[test]
fn no_cache_is_always_validated() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: no-cache, max-age=60\nETag: \"a\"", "one");
    let forward = world.miss("GET /", "");
    assert!(forward.conditions().is_some());
    assert_eq!(world.respond(forward, 304, "", "").body, "one");
    world.miss("GET /", "Cache-Control: max-stale");
}

#[test]
fn matching_head_freshens() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", "one");
    world.wait(20);
    let mut head = world.miss("HEAD /", "");
    assert_eq!(
        world.head(&mut head, 200, "Cache-Control: max-age=30\nETag: \"a\"\nX: 2\nContent-Length: 3", Some(0)),
        None
    );
    head.handle_end(&mut breme_cache::Wakes::new());
    let hit = world.hit("GET /", "");
    assert_eq!((hit.body.as_str(), hit.field("x")), ("one", Some("2")));
    world.wait(40);
    let mut head = world.miss("HEAD /", "");
    world.head(&mut head, 200, "Cache-Control: max-age=30\nETag: \"b\"", Some(0));
    head.handle_end(&mut breme_cache::Wakes::new());
    assert!(!world.is_hit("GET /", ""));
}

#[test]
fn pass_marker_applies_to_its_variant() {
    let mut world = World::with(breme_cache::CacheSettings {
        object_bytes_max: 40_000,
        ..breme_cache::CacheSettings::new(4 << 20)
    });
    let lines = "Cache-Control: max-age=60\nVary: Foo";
    world.fetch("GET /", "Foo: 1", 200, lines, "one");
    world.fetch("GET /", "Foo: 2", 200, "Cache-Control: private\nVary: Foo", "two");
    let mut overlong = world.miss("GET /", "Foo: 3");
    world.head(&mut overlong, 200, lines, None);
    for _ in 0..5 {
        overlong.handle_body(&[b'x'; 10_000], &mut breme_cache::Wakes::new());
    }
    overlong.handle_end(&mut breme_cache::Wakes::new());
    assert_eq!(world.hit("GET /", "Foo: 1").body, "one");
    for value in [2, 3] {
        let _first = world.miss("GET /", &format!("Foo: {value}"));
        let _second = world.miss("GET /", &format!("Foo: {value}"));
    }
}

#[test]
fn refuses_vary_by_client_address() {
    let mut world = World::new();
    for name in ["X-Forwarded-For", "Forwarded", "X-Real-IP"] {
        world.fetch("GET /", "", 200, &format!("Cache-Control: max-age=60\nVary: Accept, {name}"), "for you");
        assert!(!world.is_hit("GET /", ""), "{name}: forwarded values differ from the client's");
    }
}

#[test]
fn stripped_headers_count_as_absent() {
    let mut world = World::new();
    let lines = "Cache-Control: max-age=60\nVary: X-Said";
    world.is_stripped = |name| name.eq_ignore_ascii_case("x-said");
    world.fetch("GET /", "X-Said: 1", 200, lines, "unheard");
    assert_eq!(world.hit("GET /", "").body, "unheard");
    world.is_stripped = |_| false;
    world.fetch("GET /", "X-Said: 1", 200, lines, "heard");
    assert_eq!(world.hit("GET /", "X-Said: 1").body, "heard");
    assert_eq!(world.hit("GET /", "").body, "unheard");
    let leader = world.miss("GET /b", "X-Said: 1");
    world.is_stripped = |name| name.eq_ignore_ascii_case("x-said");
    assert_eq!(world.hit("GET /", "X-Said: 1").body, "unheard");
    let mut follower = world.follow("GET /b", "X-Said: 1");
    world.respond(leader, 200, lines, "heard");
    assert!(matches!(follower.poll(world.now), FollowerPoll::Retry));
}

/// Which other requests the stored body fits is unknown.
#[test]
fn validation_with_new_vary_removes_response() {
    for (before, now, is_kept) in
        [("", "Vary: Foo", false), ("\nVary: Foo", "Vary: Foo, Bar", false), ("\nVary: Foo", "Vary: foo", true)]
    {
        let mut world = World::new();
        world.fetch("GET /", "Foo: 1", 200, &format!("Cache-Control: max-age=10\nETag: \"a\"{before}"), "one");
        world.wait(20);
        let forward = world.miss("GET /", "Foo: 1");
        let received = world.respond(forward, 304, &format!("Cache-Control: max-age=60\n{now}"), "");
        assert_eq!((received.status, received.body.as_str()), (200, "one"));
        assert_eq!(world.is_hit("GET /", "Foo: 1"), is_kept, "{before} {now}");
        assert!(!world.is_hit("GET /", "Foo: 2"), "{before} {now}");
    }
}

#[test]
fn head_with_another_date_does_not_freshen() {
    let mut world = World::new();
    let (old, new) = (world.date(-1000), world.date(-10));
    world.fetch("GET /", "", 200, &format!("Cache-Control: max-age=10\nLast-Modified: {old}"), "one");
    world.wait(20);
    let mut head = world.miss("HEAD /", "");
    let lines = format!("Cache-Control: max-age=60\nLast-Modified: {new}\nContent-Length: 3");
    world.head(&mut head, 200, &lines, Some(0));
    head.handle_end(&mut breme_cache::Wakes::new());
    assert!(!world.is_hit("GET /", ""));
}

#[test]
fn head_about_another_response_does_not_freshen() {
    for status in [404, 410] {
        let mut world = World::new();
        world.fetch("GET /", "", 200, "Cache-Control: max-age=10\nETag: \"a\"", "one");
        world.wait(20);
        let mut head = world.miss("HEAD /", "");
        world.head(&mut head, status, "Cache-Control: max-age=60\nContent-Length: 3", Some(0));
        head.handle_end(&mut breme_cache::Wakes::new());
        assert!(!world.is_hit("GET /", ""), "{status}");
    }
}

#[test]
fn validity_ends_with_freshness_purge_and_newer_variant() {
    fn validity(world: &mut World) -> Validity {
        let CacheDecision::Respond(response) = world.look_up("GET /", "Foo: 1") else { panic!("stored") };
        response.validity().unwrap().clone()
    }
    let stored = || {
        let mut world = World::new();
        world.fetch("GET /", "Foo: 1", 200, "Cache-Control: max-age=60\nVary: Foo", "one");
        let validity = validity(&mut world);
        assert!(validity.is_valid(world.now.instant));
        (world, validity)
    };
    let (mut world, kept) = stored();
    world.wait(59);
    assert!(kept.is_valid(world.now.instant));
    assert_eq!(kept.age_s(world.now.instant), 59);
    world.wait(1);
    assert!(!kept.is_valid(world.now.instant), "stale");
    for mode in [PurgeMode::Hard, PurgeMode::Soft] {
        let (world, kept) = stored();
        world.cache.purge(&Purge::All, mode, world.now.instant).unwrap();
        assert!(!kept.is_valid(world.now.instant), "purged");
    }
    let (mut world, kept) = stored();
    world.fetch("GET /", "Foo: 2", 200, "Cache-Control: max-age=60\nVary: Foo", "two");
    assert!(!kept.is_valid(world.now.instant), "another variant may match better");
    assert!(validity(&mut world).is_valid(world.now.instant));
    let restricted = match world.look_up("GET /", "Foo: 1\nCache-Control: max-age=50") {
        CacheDecision::Respond(response) => response.validity().is_none(),
        other => panic!("{other:?}"),
    };
    assert!(restricted, "the age matters to this request");
}
