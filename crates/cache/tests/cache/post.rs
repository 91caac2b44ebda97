//! Responses to POST that are reused for GET (RFC 9110, 9.3.3).

use breme_cache::{Purge, PurgeMode};

use crate::world::World;

const ITSELF: &str = "Cache-Control: max-age=60\nContent-Location: /page?a";

fn is_stored_after(target: &str, status: u16, lines: &str) -> bool {
    let mut world = World::new();
    world.fetch(&format!("POST {target}"), "Content-Length: 0", status, lines, "made");
    world.is_hit(&format!("GET {target}"), "")
}

#[test]
fn stores_post_response_of_target() {
    let mut world = World::new();
    world.fetch("GET /page?a", "", 200, "Cache-Control: max-age=60", "old");
    let status_text = world.fetch("POST /page?a", "Content-Length: 0", 200, ITSELF, "made").status_text;
    assert_eq!(status_text, "c; fwd=method; stored");
    world.wait(7);
    let received = world.hit("GET /page?a", "");
    assert_eq!((received.body.as_str(), received.age), ("made", Some(7)));
    assert_eq!(world.hit("HEAD /page?a", "").status, 200);
    let again = world.miss("POST /page?a", "Content-Length: 0");
    assert!(world.fail(again).is_none(), "a POST is never answered out of the store");
}

#[test]
fn post_needs_lifetime_and_content_location() {
    let itself = "Content-Location: /page";
    for (status, lines) in [
        (200, format!("Cache-Control: max-age=60\n{itself}")),
        (200, "Cache-Control: s-maxage=60\nContent-Location: http://A.example:80/page".to_owned()),
        (200, "Cache-Control: max-age=60\nContent-Location: page".to_owned()),
    ] {
        assert!(is_stored_after("/page", status, &lines), "{status} {lines}");
    }
    for (status, lines) in [
        (200, "Cache-Control: max-age=60".to_owned()),
        (200, "Cache-Control: max-age=60\nContent-Location: /other".to_owned()),
        (200, "Cache-Control: max-age=60\nContent-Location: https://a.example/page".to_owned()),
        (200, "Cache-Control: max-age=60\nContent-Location: http://b.example/page".to_owned()),
        (200, format!("Cache-Control: max-age=60\n{itself}\nContent-Location: /other")),
        (200, itself.to_owned()),
        (200, format!("ETag: \"a\"\n{itself}")),
        (200, format!("Cache-Control: public\n{itself}")),
        (200, format!("Cache-Control: max-age=60, no-store\n{itself}")),
        (200, format!("Cache-Control: max-age=60, private\n{itself}")),
        (200, format!("Cache-Control: max-age=60\nSet-Cookie: a=b\n{itself}")),
        (201, format!("Cache-Control: max-age=60\n{itself}")),
        (206, format!("Cache-Control: max-age=60\nContent-Range: bytes 0-3/4\n{itself}")),
        (404, format!("Cache-Control: max-age=60\n{itself}")),
        (500, format!("Cache-Control: max-age=60\n{itself}")),
    ] {
        assert!(!is_stored_after("/page", status, &lines), "{status} {lines}");
    }
}

#[test]
fn does_not_store_other_methods() {
    for method in ["PUT", "PATCH", "DELETE", "M-SEARCH"] {
        let mut world = World::new();
        world.fetch(&format!("{method} /page?a"), "Content-Length: 0", 200, ITSELF, "made");
        assert!(!world.is_hit("GET /page?a", ""), "{method}");
    }
}

#[test]
fn does_not_store_private_or_overridden_posts() {
    for line in [
        "Authorization: x",
        "Cache-Control: no-store",
        "X-HTTP-Method-Override: DELETE",
        "X-Original-URL: /x",
        "X_Original_URL: /x",
    ] {
        let mut world = World::new();
        world.fetch("POST /page?a", &format!("Content-Length: 0\n{line}"), 200, ITSELF, "made");
        assert!(!world.is_hit("GET /page?a", ""), "{line}");
    }
}

#[test]
fn post_response_respects_vary() {
    let mut world = World::new();
    world.fetch("POST /page?a", "Content-Length: 0\nFoo: 1", 200, &format!("{ITSELF}\nVary: Foo"), "made");
    assert!(world.is_hit("GET /page?a", "Foo: 1") && !world.is_hit("GET /page?a", "Foo: 2"));
}

#[test]
fn post_has_no_followers() {
    let mut world = World::new();
    let post = world.miss("POST /page?a", "Content-Length: 0");
    let get = world.miss("GET /page?a", "");
    world.respond(post, 200, ITSELF, "made");
    world.respond(get, 200, "Cache-Control: max-age=60", "asked before");
    assert_eq!(world.hit("GET /page?a", "").body, "made", "a response requested before the change is not stored");
}

#[test]
fn later_change_prevents_storing_post() {
    let changes: [fn(&mut World); 3] = [
        |world| {
            let url = Purge::Url("http://a.example/page?a".to_owned());
            world.cache.purge(&url, PurgeMode::Hard, world.now.instant).unwrap();
        },
        |world| {
            world.cache.purge(&Purge::All, PurgeMode::Soft, world.now.instant).unwrap();
        },
        |world| {
            world.fetch("PUT /page?a", "Content-Length: 0", 204, "", "");
        },
    ];
    for change in changes {
        let mut world = World::new();
        let mut before_its_head = world.miss("POST /page?a", "Content-Length: 0");
        change(&mut world);
        world.head(&mut before_its_head, 200, ITSELF, Some(4));
        before_its_head.handle_body(b"made", &mut world.wakes);
        before_its_head.handle_end(&mut world.wakes);
        assert!(!world.is_hit("GET /page?a", ""));

        let mut before_its_end = world.miss("POST /page?a", "Content-Length: 0");
        world.head(&mut before_its_end, 200, ITSELF, Some(4));
        change(&mut world);
        before_its_end.handle_body(b"made", &mut world.wakes);
        before_its_end.handle_end(&mut world.wakes);
        assert!(!world.is_hit("GET /page?a", ""));
    }
}

#[test]
fn aborted_post_is_not_stored() {
    let mut world = World::new();
    let mut post = world.miss("POST /page?a", "Content-Length: 0");
    world.head(&mut post, 200, ITSELF, Some(4));
    post.handle_body(b"ma", &mut world.wakes);
    assert!(world.fail(post).is_none());
    assert!(!world.is_hit("GET /page?a", ""));
    let idle = World::new().cache.statistics();
    assert_eq!(world.cache.statistics().objects, idle.objects);
}
