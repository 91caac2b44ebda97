//! Invalidation and purging, including responses in flight.

use breme_cache::{FollowerPoll, Forward, Purge, PurgeMode};

use crate::world::World;

const FRESH: &str = "Cache-Control: max-age=60";

fn purge(world: &World, purge: &Purge, manner: PurgeMode) -> usize {
    world.cache.purge(purge, manner, world.now.instant).unwrap()
}

fn url(path: &str) -> Purge {
    Purge::Url(format!("http://a.example{path}"))
}

#[test]
fn successful_unsafe_requests_invalidate() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        for (status, expected) in [(200, false), (204, false), (303, false), (400, true), (404, true), (500, true)] {
            let mut world = World::new();
            world.fetch("GET /", "", 200, FRESH, "one");
            assert_eq!(world.fetch(&format!("{method} /"), "", status, "", "").status_text, "c; fwd=method");
            assert_eq!(world.is_hit("GET /", ""), expected, "{method} {status}");
        }
    }
    let mut world = World::new();
    world.fetch("GET /", "", 200, FRESH, "one");
    for method in ["OPTIONS", "TRACE"] {
        world.fetch(&format!("{method} /"), "", 200, "Location: /", "");
    }
    assert!(world.is_hit("GET /", ""), "safe ones change nothing");
}

#[test]
fn invalidates_location_and_content_location() {
    let mut world = World::new();
    for path in ["/a/x", "/a/y", "/z"] {
        world.fetch(&format!("GET {path}"), "", 200, FRESH, "one");
    }
    world.fetch("GET /z", "Host: b.example", 200, FRESH, "other");
    world.fetch("POST /a/form", "", 201, "Location: http://A.example:80/a/x\nContent-Location: y", "");
    world.fetch("POST /a/form", "", 201, "Location: http://b.example/z", "");
    assert!(!world.is_hit("GET /a/x", "") && !world.is_hit("GET /a/y", ""));
    assert!(world.is_hit("GET /z", "") && world.is_hit("GET /z", "Host: b.example"), "another origin has no say");
}

#[test]
fn invalidates_all_variants() {
    let mut world = World::new();
    for value in 0..5 {
        world.fetch("GET /", &format!("Foo: {value}"), 200, "Cache-Control: max-age=60\nVary: Foo", "one");
    }
    assert_eq!(purge(&world, &url("/"), PurgeMode::Hard), 5);
    assert_eq!(world.cache.statistics().objects, 0);
}

#[test]
fn pass_markers_are_not_counted() {
    for purged in [url("/private"), Purge::Prefix("http://a.example/".to_owned()), Purge::All] {
        let mut world = World::new();
        world.fetch("GET /private", "", 200, "Cache-Control: private", "one");
        let statistics = world.cache.statistics();
        assert_eq!((statistics.objects, statistics.inserted), (0, 0), "only a marker was stored");
        assert_eq!(purge(&world, &purged, PurgeMode::Soft), 0);
        assert_eq!(purge(&world, &purged, PurgeMode::Hard), 0);
        world.fetch("GET /private", "", 200, FRESH, "one");
        assert_eq!(world.cache.statistics().objects, 1, "{purged:?}: the marker is gone");
        assert_eq!(purge(&world, &purged, PurgeMode::Hard), 1);
        assert_eq!((world.cache.statistics().objects, world.cache.statistics().purged), (0, 1));
    }
}

#[test]
fn purges_by_prefix_and_all() {
    let mut world = World::new();
    for path in ["/a", "/a/b", "/ab", "/c"] {
        world.fetch(&format!("GET {path}"), "", 200, FRESH, "one");
        world.fetch(&format!("GET {path}"), "Host: a.example.org", 200, FRESH, "one");
    }
    assert_eq!(purge(&world, &Purge::Prefix("http://A.example/a".to_owned()), PurgeMode::Hard), 3);
    assert!(world.is_hit("GET /c", "") && world.is_hit("GET /a", "Host: a.example.org"));
    assert_eq!(
        purge(&world, &Purge::Prefix("http://a.example".to_owned()), PurgeMode::Hard),
        1,
        "a host is no prefix of another"
    );
    assert_eq!(purge(&world, &Purge::All, PurgeMode::Hard), 4);
    assert!(world.cache.purge(&Purge::Url("/a".to_owned()), PurgeMode::Hard, world.now.instant).is_err());
}

#[test]
fn purges_by_group_and_key() {
    let mut world = World::new();
    let lines = |more: &str| format!("{FRESH}\n{more}");
    world.fetch("GET /1", "", 200, &lines("Cache-Groups: \"news\", \"all\""), "x");
    world.fetch("GET /2", "", 200, &lines("Cache-Groups: \"all\";p=1"), "x");
    world.fetch("GET /3", "Host: b.example", 200, &lines("Cache-Groups: \"news\""), "x");
    world.fetch("GET /4", "", 200, &lines("Surrogate-Key: k1 k2"), "x");
    world.fetch("GET /5", "", 200, &lines("xkey: k2"), "x");
    world.fetch("GET /6", "", 200, &lines("Cache-Groups: news"), "x");
    let group = |origin: &str, name: &str| Purge::Group { origin: origin.to_owned(), name: name.to_owned() };
    assert_eq!(purge(&world, &group("http://a.example:80", "news"), PurgeMode::Hard), 1);
    assert!(!world.is_hit("GET /1", "") && world.is_hit("GET /2", "") && world.is_hit("GET /3", "Host: b.example"));
    assert_eq!(purge(&world, &Purge::Key("k2".to_owned()), PurgeMode::Hard), 2);
    assert_eq!(purge(&world, &Purge::Key("k1".to_owned()), PurgeMode::Hard), 0);
    assert_eq!(purge(&world, &Purge::Key("news".to_owned()), PurgeMode::Soft), 1, "groups of that name on all origins");
    assert!(!world.is_hit("GET /3", "Host: b.example") && world.is_hit("GET /6", ""));
    assert_eq!(purge(&world, &group("http://a.example", "all"), PurgeMode::Hard), 1);
}

#[test]
fn invalidates_groups_of_same_origin() {
    let mut world = World::new();
    for (path, host) in [("/1", ""), ("/2", ""), ("/1", "Host: b.example")] {
        world.fetch(&format!("GET {path}"), host, 200, &format!("{FRESH}\nCache-Groups: \"g\", \"h\""), "x");
    }
    world.fetch("GET /other", "", 200, "Cache-Group-Invalidation: \"g\"", "");
    world.fetch("POST /other", "", 500, "Cache-Group-Invalidation: \"g\"", "");
    world.fetch("POST /other", "Host: c.example", 200, "Cache-Group-Invalidation: \"g\"", "");
    world.fetch("POST /other", "", 200, "Cache-Group-Invalidation: g", "");
    assert!(world.is_hit("GET /1", ""));
    world.fetch("POST /other", "", 200, "Cache-Group-Invalidation: \"x\", \"g\"", "");
    assert!(!world.is_hit("GET /1", "") && !world.is_hit("GET /2", "") && world.is_hit("GET /1", "Host: b.example"));
}

#[test]
fn soft_purge_keeps_validators() {
    for what in [url("/"), Purge::Prefix("http://a.example/".to_owned()), Purge::All] {
        let mut world = World::new();
        world.fetch("GET /", "", 200, &format!("{FRESH}\nETag: \"a\""), "one");
        assert_eq!(purge(&world, &what, PurgeMode::Soft), 1);
        let forward = world.miss("GET /", "");
        assert!(forward.conditions().is_some());
        assert_eq!(world.fail(forward).unwrap().body, "one", "and to serve when upstream fails");
    }
}

/// Each way to purge the page in flight, with the response headers that make it apply.
fn purges() -> Vec<(Purge, &'static str)> {
    let text = |text: &str| text.to_owned();
    vec![
        (url("/"), ""),
        (Purge::Prefix(text("http://a.example/")), ""),
        (Purge::All, ""),
        (Purge::Key(text("k")), "\nSurrogate-Key: k"),
        (Purge::Group { origin: text("http://a.example"), name: text("g") }, "\nCache-Groups: \"g\""),
    ]
}

#[test]
fn purge_prevents_storing_older_fill() {
    for manner in [PurgeMode::Hard, PurgeMode::Soft] {
        for (what, line) in purges() {
            for is_before_head in [true, false] {
                let mut world = World::new();
                let lines = format!("{FRESH}{line}");
                let mut forward = world.miss("GET /", "");
                let mut follower = world.follow("GET /", "");
                if is_before_head {
                    purge(&world, &what, manner);
                }
                world.head(&mut forward, 200, &lines, Some(3));
                forward.handle_body(b"o", &mut world.wakes);
                if !is_before_head {
                    purge(&world, &what, manner);
                }
                let is_group = !line.is_empty();
                let second = (!is_group).then(|| world.miss("GET /", ""));
                forward.handle_body(b"ld", &mut world.wakes);
                forward.handle_end(&mut world.wakes);
                assert!(
                    !matches!(follower.poll(world.now), FollowerPoll::Pending),
                    "a request sent before the purge may get it"
                );
                assert_eq!(world.cache.statistics().objects, 0, "{what:?} {manner:?} {is_before_head}");
                if let Some(second) = second {
                    world.respond(second, 200, &lines, "new");
                    assert_eq!(world.hit("GET /", "").body, "new");
                }
            }
        }
    }
}

#[test]
fn purge_prevents_older_validation() {
    for (what, line) in purges() {
        let mut world = World::new();
        world.fetch("GET /", "", 200, &format!("Cache-Control: max-age=10\nETag: \"a\"{line}"), "old");
        world.wait(20);
        let head: Forward = world.miss("HEAD /", "");
        let forward = world.miss("GET /", "");
        assert_eq!(purge(&world, &what, PurgeMode::Hard), 1);
        assert_eq!(world.respond(forward, 304, FRESH, "").body, "old", "a request sent before the purge may get it");
        world.respond(head, 200, "Cache-Control: max-age=60\nETag: \"a\"", "");
        assert_eq!(world.cache.statistics().objects, 0, "{what:?}");
    }
}

#[test]
fn unsafe_request_prevents_storing_older_fill() {
    let mut world = World::new();
    let read = world.miss("GET /", "");
    world.fetch("POST /", "", 200, "", "");
    world.respond(read, 200, FRESH, "old");
    assert!(!world.is_hit("GET /", ""));
}

#[test]
fn purge_history_overflow_prevents_storing() {
    let mut world = World::new();
    let fill = world.miss("GET /", "");
    for number in 0..5_000 {
        purge(&world, &Purge::Key(format!("k{number}")), PurgeMode::Hard);
    }
    world.respond(fill, 200, &format!("{FRESH}\nSurrogate-Key: k0"), "old");
    assert!(!world.is_hit("GET /", ""));
    world.fetch("GET /", "", 200, &format!("{FRESH}\nSurrogate-Key: k0"), "new");
    assert!(world.is_hit("GET /", ""));
}

#[test]
fn purge_prevents_older_head_freshening() {
    for what in [Purge::All, url("/"), Purge::Key("k".to_owned())] {
        let mut world = World::new();
        let lines = "Cache-Control: max-age=60\nETag: \"a\"\nSurrogate-Key: k";
        world.fetch("GET /", "", 200, lines, "old");
        world.wait(70);
        let head: Forward = world.miss("HEAD /", "");
        assert_eq!(purge(&world, &what, PurgeMode::Soft), 1);
        world.respond(head, 200, lines, "");
        assert!(!world.is_hit("GET /", ""), "{what:?}");
        let head: Forward = world.miss("HEAD /", "");
        world.respond(head, 200, lines, "");
        assert!(world.is_hit("GET /", ""), "{what:?}: without one it does");
        assert_eq!(world.cache.statistics().fills, 0);
    }
}
