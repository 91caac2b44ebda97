//! Which responses a full cache stores: small ones, and large ones that are requested again soon.

use breme_cache::{CacheDecision, CacheSettings, Forward, Purge, PurgeMode};

use crate::world::World;

const FRESH: &str = "Cache-Control: max-age=100000\nETag: \"a\"";
const LARGE_BYTES: usize = 500_000;
const PAGE_BYTES: usize = 8_000;

/// A cache of 16 MiB after a scan of small pages.
fn full() -> World {
    let mut world = World::with(CacheSettings::new(16 << 20));
    let mut page = 0;
    while world.cache.statistics().evicted == 0 {
        fetch_page(&mut world, page);
        page += 1;
    }
    world
}

fn fetch_page(world: &mut World, page: usize) {
    world.fetch(&format!("GET /page/{page}"), "", 200, FRESH, &"x".repeat(PAGE_BYTES));
}

/// Requests a response; returns whether it is stored then.
fn fetch(world: &mut World, target: &str, bytes: usize) -> bool {
    match world.look_up(&format!("GET {target}"), "") {
        CacheDecision::Forward(forward) => complete(world, forward, bytes),
        decision => matches!(decision, CacheDecision::Respond(_)),
    }
}

fn complete(world: &mut World, forward: Forward, bytes: usize) -> bool {
    world.respond(forward, 200, FRESH, &"x".repeat(bytes)).status_text.ends_with("; stored")
}

#[test]
fn large_response_is_stored_at_its_second_request() {
    for bytes in [LARGE_BYTES, 1_500_000] {
        let mut world = full();
        let at_once = (0..30).filter(|number| fetch(&mut world, &format!("/{number}"), bytes)).count();
        assert!(at_once < 5, "{at_once} of 30 responses of {bytes} bytes are stored at once");
        let mut world = full();
        for number in 0..30 {
            let target = format!("/{number}");
            let is_stored = fetch(&mut world, &target, bytes) || fetch(&mut world, &target, bytes);
            assert!(is_stored && world.is_hit(&format!("GET {target}"), ""), "{target}, {bytes} bytes");
        }
    }
}

/// Three requests, each after 16 others that evict something: one in each shard.
#[test]
fn hot_large_responses_are_stored_despite_other_traffic() {
    let mut world = full();
    let mut page = 1_000_000;
    let mut stored = 0;
    for number in 0..30 {
        let is_stored = (0..3).any(|_| {
            (page..page + 16).for_each(|page| fetch_page(&mut world, page));
            page += 16;
            fetch(&mut world, &format!("/{number}"), LARGE_BYTES)
        });
        stored += usize::from(is_stored);
    }
    assert!(stored >= 25, "{stored} of 30");
}

/// Shards without a response remember what they refuse.
#[test]
fn large_responses_replace_large_ones() {
    let mut world = World::with(CacheSettings::new(16 << 20));
    let bytes = 2_000_000;
    (0..8).for_each(|number| assert!(fetch(&mut world, &format!("/first/{number}"), bytes)));
    for number in 0..30 {
        let target = format!("/{number}");
        assert!(fetch(&mut world, &target, bytes) || fetch(&mut world, &target, bytes), "{target}");
    }
}

/// Some of them share a shard without a response, or with a few small ones.
#[test]
fn large_responses_in_demand_do_not_starve_each_other() {
    for (pages, set) in [0, 8, 16].into_iter().flat_map(|pages| (0..20).map(move |set| (pages, set))) {
        let mut world = World::with(CacheSettings::new(16 << 20));
        (0..pages).for_each(|page| fetch_page(&mut world, page));
        (0..8).for_each(|number| assert!(fetch(&mut world, &format!("/first/{number}"), 2_000_000)));
        let mut was_stored = [false; 8];
        for _ in 0..3 {
            for (number, was_stored) in was_stored.iter_mut().enumerate() {
                *was_stored |= fetch(&mut world, &format!("/{set}/{number}"), 1_400_000);
            }
        }
        assert!(!was_stored.contains(&false), "{was_stored:?}, {pages} pages, set {set}");
    }
}

/// The small ones were requested once: in the small queue, where large ones would displace them all.
#[test]
fn scan_of_large_responses_leaves_small_ones() {
    let mut world = full();
    for page in 0..100 {
        let target = format!("/hot/{page}");
        let is_stored = fetch(&mut world, &target, PAGE_BYTES) || fetch(&mut world, &target, PAGE_BYTES);
        assert!(is_stored && world.is_hit(&format!("GET {target}"), ""));
    }
    let before = world.cache.statistics().objects;
    let stored = (0..300).filter(|number| fetch(&mut world, &format!("/{number}"), LARGE_BYTES)).count();
    assert!(stored < 20, "{stored} of 300 are stored");
    assert!((0..100).all(|page| world.is_hit(&format!("GET /hot/{page}"), "")));
    let after = world.cache.statistics().objects;
    assert!(after * 3 > before * 2, "{after} of {before} are left");
}

/// Each is requested twice, but so many others between that the memory could not hold it until then.
#[test]
fn slow_loop_of_large_responses_is_no_hot_one() {
    let mut world = full();
    let stored = |world: &mut World| (0..100).filter(|number| fetch(world, &format!("/{number}"), LARGE_BYTES)).count();
    stored(&mut world);
    let again = stored(&mut world);
    assert!(again < 10, "{again} of 100");
}

#[test]
fn admits_any_size_while_there_is_room() {
    let mut world = World::with(CacheSettings::new(16 << 20));
    assert!((0..8).all(|number| fetch(&mut world, &format!("/{number}"), 1_500_000)));
}

#[test]
fn admits_what_others_wait_for_and_what_was_stored() {
    let mut world = full();
    for number in 0..30 {
        let request = format!("GET /{number}");
        let forward = world.miss(&request, "");
        let follower = world.follow(&request, "");
        assert!(complete(&mut world, forward, LARGE_BYTES), "{number}: others wait for it");
        drop(follower);
        world
            .cache
            .purge(&Purge::Url(format!("http://a.example/{number}")), PurgeMode::Soft, world.now.instant)
            .unwrap();
        let forward = world.miss(&request, "");
        assert!(forward.conditions().is_some());
        assert!(complete(&mut world, forward, LARGE_BYTES), "{number}: it replaces a stored one");
    }
}
