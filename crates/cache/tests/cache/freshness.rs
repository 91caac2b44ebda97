//! Storing, freshness and the headers of cached responses (RFC 9111, 3 to 5).

use std::time::Duration;

use breme_cache::{CacheDecision, CacheSettings};
use breme_http::FieldBlock;

use crate::world::World;

#[test]
fn fresh_hit_has_age() {
    let mut world = World::new();
    let date = world.date(0);
    let lines = format!("Date: {date}\nCache-Control: max-age=60\nAge: 10\nX: y\nContent-Length: 5\nConnection: close");
    let first = world.fetch("GET /", "", 200, &lines, "hello");
    assert_eq!(first.status_text, "c; fwd=uri-miss; stored");
    world.wait(3);
    let hit = world.hit("GET /", "");
    assert_eq!((hit.status, hit.body.as_str(), hit.age), (200, "hello", Some(13)));
    assert_eq!(hit.lines, format!("Date: {date}\r\nCache-Control: max-age=60\r\nX: y\r\n"));
    assert_eq!(hit.status_text, "c; hit; ttl=47");
    world.wait(46);
    assert!(world.is_hit("GET /", ""));
    world.wait(1);
    assert!(!world.is_hit("GET /", ""));
}

/// The age includes the time in caches nearer to the origin.
#[test]
fn freshness_is_limited() {
    let settings = CacheSettings { lifetime_max: Duration::from_secs(5), ..CacheSettings::new(4 << 20) };
    let mut world = World::with(settings);
    for lines in
        ["Cache-Control: max-age=600", "Cache-Control: max-age=6000\nAge: 1000", "CDN-Cache-Control: max-age=60"]
    {
        let path = format!("GET /{}", lines.len());
        world.fetch(&path, "", 200, lines, "hello");
        world.wait(4);
        assert_eq!(world.hit(&path, "").status_text, "c; hit; ttl=1", "{lines}");
        world.wait(2);
        assert!(!world.is_hit(&path, ""), "{lines}");
    }
    world.fetch("GET /short", "", 200, "Cache-Control: max-age=2", "hello");
    world.wait(3);
    assert!(!world.is_hit("GET /short", ""));
}

#[test]
fn head_is_served_from_get() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=60", "hello");
    let hit = world.hit("HEAD /", "");
    assert_eq!((hit.status, hit.body.as_str()), (200, ""));
}

#[test]
fn different_targets_do_not_share_responses() {
    let mut world = World::new();
    world.fetch("GET /a?b", "", 200, "Cache-Control: max-age=60", "one");
    for (target, host) in [
        ("/a", ""),
        ("/a?c", ""),
        ("/A?b", ""),
        ("/a?b&", ""),
        ("/a?b", "Host: b.example"),
        ("/a?b", "Host: a.example:8080"),
    ] {
        assert!(!world.is_hit(&format!("GET {target}"), host), "{target} {host}");
    }
    assert_eq!(world.hit("GET /a?b", "Host: A.EXAMPLE:80").body, "one");
    assert_eq!(world.hit("GET /a?b", "Host: a.example.").body, "one");
}

#[test]
fn override_headers_bypass_cache() {
    let mut world = World::new();
    world.fetch("GET /", "X-Forwarded-Host: evil", 200, "Cache-Control: max-age=60", "one");
    for lines in ["", "X-Forwarded-Host: other", "Cookie: a=b", "Pragma: no-cache", "X-Anything: x"] {
        assert_eq!(world.hit("GET /", lines).body, "one", "{lines}");
    }
    for lines in ["X-Original-URL: /admin", "x-http-method-override: PUT", "X-Rewrite-URL: /x"] {
        assert_eq!(world.fetch("GET /", lines, 200, "Cache-Control: max-age=60", "evil").status_text, "c; fwd=bypass");
        assert_eq!(
            world.hit("GET /", "").body,
            "one",
            "what is taken for another request is not stored as this one: {lines}"
        );
    }
}

#[test]
fn get_with_body_bypasses_cache() {
    let mut world = World::new();
    let forward = world.miss("GET /", "Content-Length: 5");
    assert_eq!(world.respond(forward, 200, "Cache-Control: max-age=60", "fat").status_text, "c; fwd=bypass");
    assert!(!world.is_hit("GET /", ""));
    world.fetch("GET /", "", 200, "Cache-Control: max-age=60", "thin");
    world.miss("GET /", "Content-Length: 5");
}

#[test]
fn honours_request_directives() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: max-age=100\nETag: \"a\"", "one");
    world.wait(10);
    for (value, expected) in [
        ("max-age=10", true),
        ("max-age=9", false),
        ("max-age=0", false),
        ("min-fresh=90", true),
        ("min-fresh=91", false),
        ("no-cache", false),
        ("no-store", false),
        ("only-if-cached", true),
        ("max-stale", true),
    ] {
        assert_eq!(world.is_hit("GET /", &format!("Cache-Control: {value}")), expected, "{value}");
    }
    let forward = world.miss("GET /", "Cache-Control: no-cache");
    assert_eq!(forward.conditions().unwrap().as_bytes(), b"If-None-Match: \"a\"\r\n");
    let found = world.respond(forward, 304, "Cache-Control: max-age=100", "");
    assert_eq!(
        (found.status, found.body.as_str(), found.status_text.as_str()),
        (200, "one", "c; fwd=request; fwd-status=304; ttl=100; stored")
    );
    world.wait(105);
    assert_eq!(world.hit("GET /", "Cache-Control: max-stale=5").status_text, "c; hit; ttl=-5");
    assert!(!world.is_hit("GET /", "Cache-Control: max-stale=4"));
    assert!(!world.is_hit("GET /", ""));
    assert!(matches!(world.look_up("GET /other", "Cache-Control: only-if-cached"), CacheDecision::NotCached));
}

#[test]
fn fresh_immutable_response_is_not_validated_for_its_age() {
    for targeted in [false, true] {
        let lines = match targeted {
            false => "Cache-Control: max-age=100, immutable",
            true => "CDN-Cache-Control: max-age=100, immutable",
        };
        let mut world = World::new();
        world.fetch("GET /", "", 200, &format!("{lines}\nETag: \"a\""), "one");
        world.wait(10);
        for (value, expected) in [
            ("max-age=0", true),
            ("max-age=9", true),
            ("max-age=0, only-if-cached", true),
            ("max-age=0, no-cache", false),
            ("no-cache", false),
            ("max-age=0, no-store", false),
            ("max-age=0, min-fresh=91", false),
        ] {
            assert_eq!(world.is_hit("GET /", &format!("Cache-Control: {value}")), expected, "{value}");
        }
        assert_eq!(world.hit("HEAD /", "Cache-Control: max-age=0").status, 200);
        world.wait(100);
        for value in ["max-age=0", "max-age=0, max-stale=1000"] {
            let forward = world.miss("GET /", &format!("Cache-Control: {value}"));
            assert!(forward.conditions().is_some(), "{value}: once stale it is validated as any other");
        }
    }
}

#[test]
fn request_directives_can_be_ignored() {
    let mut world = World::with(CacheSettings { client_directives: false, ..CacheSettings::new(1 << 20) });
    world.fetch("GET /", "", 200, "Cache-Control: max-age=100", "one");
    assert!(world.is_hit("GET /", "Cache-Control: no-cache, no-store, max-age=0"));
}

#[test]
fn no_store_request_leaves_store_unchanged() {
    let mut world = World::new();
    let forward = world.miss("GET /", "Cache-Control: no-store");
    assert_eq!(world.respond(forward, 200, "Cache-Control: max-age=60", "secret").status_text, "c; fwd=uri-miss");
    assert!(!world.is_hit("GET /", ""));
    world.fetch("GET /", "", 200, "Cache-Control: max-age=60", "known");
    world.fetch("GET /", "Cache-Control: no-store", 200, "Cache-Control: private", "secret");
    assert_eq!(world.hit("GET /", "").body, "known");
}

#[test]
fn authorized_response_needs_permission() {
    let mut world = World::new();
    world.fetch("GET /", "Authorization: x", 200, "Cache-Control: max-age=60", "secret");
    assert!(!world.is_hit("GET /", "") && !world.is_hit("GET /", "Authorization: x"));
    world.fetch("GET /", "Authorization: x", 200, "Cache-Control: max-age=60, public", "open");
    assert_eq!(world.hit("GET /", "").body, "open");
    assert_eq!(world.hit("GET /", "Authorization: y").body, "open");
    world.fetch("GET /anonymous", "", 200, "Cache-Control: max-age=60", "for nobody in particular");
    assert!(
        !world.is_hit("GET /anonymous", "Authorization: x"),
        "who says who it is asks the origin, unless the response says that it is for all"
    );
}

#[test]
fn set_cookie_is_not_stored() {
    let mut world = World::new();
    world.fetch("GET /", "", 200, "Cache-Control: public, max-age=60\nSet-Cookie: id=1", "yours");
    assert!(!world.is_hit("GET /", ""));
    assert_eq!(world.cache.statistics().objects, 0, "only a pass marker is stored");
}

#[test]
fn session_cookies_pass_only_their_requests() {
    let mut world = World::new();
    let lines = "Cache-Control: max-age=60\nVary: Cookie";
    world.fetch("GET /", "Cookie: session=1", 200, lines, "hello 1");
    assert!(!world.is_hit("GET /", "Cookie: session=1"));
    world.fetch("GET /", "Cookie: lang=de", 200, lines, "hallo");
    assert_eq!(world.hit("GET /", "Cookie: lang=de").body, "hallo");
    assert!(!world.is_hit("GET /", "Cookie: lang=en") && !world.is_hit("GET /", "Cookie: lang=de; session=2"));
}

#[test]
fn targeted_fields_are_stored_and_sent() {
    let mut world = World::new();
    let lines = "Cache-Control: no-store\nCDN-Cache-Control: max-age=60";
    world.fetch("GET /", "", 200, lines, "one");
    let hit = world.hit("GET /", "");
    assert_eq!((hit.field("cdn-cache-control"), hit.field("cache-control")), (Some("max-age=60"), Some("no-store")));
}

#[test]
fn lifetimes_are_spread() {
    let mut world = World::with(CacheSettings::new(4 << 20));
    let ttl = |status_text: &str| status_text.rsplit_once('=').unwrap().1.parse::<i64>().unwrap();
    let ttls: Vec<i64> = (0..200)
        .map(|page| {
            world.fetch(&format!("GET /{page}"), "", 200, "Cache-Control: max-age=1000", "x");
            ttl(&world.hit(&format!("GET /{page}"), "").status_text)
        })
        .collect();
    assert!(ttls.iter().all(|ttl| (950..=1000).contains(ttl)));
    assert!(ttls.iter().max().unwrap() - ttls.iter().min().unwrap() > 40, "{ttls:?}");
}

#[test]
fn settings_errors_name_the_setting() {
    use breme_cache::{Cache, CacheSettings};
    let message = |settings: CacheSettings| Cache::new(settings).unwrap_err().to_string();
    assert!(message(CacheSettings::new(100)).contains("100 bytes"));
    assert!(
        message(CacheSettings { name: "no name".to_owned(), ..CacheSettings::new(1 << 20) }).contains("\"no name\"")
    );
}

#[test]
fn key_fields_are_hidden_only_if_requested() {
    let mut lines = FieldBlock::new();
    for (name, value) in [("surrogate-KEY", "a b"), ("X", "y")] {
        lines.push(name, value.as_bytes()).unwrap();
    }
    for (hides_keys, expected) in [(true, "X: y\r\n"), (false, "surrogate-KEY: a b\r\nX: y\r\n")] {
        let key_fields = vec!["Surrogate-Key".to_owned()];
        let world = World::with(CacheSettings { hides_keys, key_fields, ..CacheSettings::new(4 << 20) });
        assert_eq!(world.cache.client_lines(&lines).as_bytes(), expected.as_bytes());
        assert_eq!(world.cache.is_hidden_field("SURROGATE-key"), hides_keys);
        assert!(!world.cache.is_hidden_field("X"));
    }
}
