//! Memory bound and lookups of the store: property tests over lists of operations.

use std::collections::HashMap;

use breme_cache::{CacheDecision, CacheSettings, Purge, PurgeMode};
use proptest::prelude::*;

use crate::world::{Received, World};

const PAGES: usize = 20;

#[derive(Clone, Debug)]
enum Step {
    Store { page: u8, variant: u8, bytes: u32, seconds: u8, known_length: bool },
    ResponseOptions { page: u8, variant: u8 },
    Begin { page: u8, bytes: u32 },
    Finish,
    PurgePage(u8),
    PurgeKey(u8),
    PurgeAll,
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let page = 0..PAGES as u8;
    prop_oneof![
        8 => (page.clone(), 0..3_u8, 0..40_000_u32, 1..90_u8, any::<bool>())
            .prop_map(|(page, variant, bytes, seconds, known_length)| Step::Store { page, variant, bytes, seconds, known_length }),
        8 => (page.clone(), 0..3_u8).prop_map(|(page, variant)| Step::ResponseOptions { page, variant }),
        2 => (page.clone(), 0..40_000_u32).prop_map(|(page, bytes)| Step::Begin { page, bytes }),
        2 => Just(Step::Finish),
        1 => page.prop_map(Step::PurgePage),
        1 => (0..4_u8).prop_map(Step::PurgeKey),
        1 => Just(Step::PurgeAll),
        2 => (0..30_u8).prop_map(Step::Wait),
    ]
}

fn body(version: usize, bytes: u32) -> String {
    let mut text = format!("{version}:");
    text.extend(std::iter::repeat_n('x', bytes as usize));
    text
}

fn lines(page: u8, seconds: u8) -> String {
    format!("Cache-Control: max-age={seconds}\nVary: Foo\nSurrogate-Key: k{}", page % 4)
}

/// Runs the steps. After each, the bound must hold, and a lookup may only return what was last stored under its key
/// since its last purge.
fn run(steps: &[Step], memory_bytes: u64) {
    let mut world = World::with(CacheSettings { lifetime_spread_percent: 0, ..CacheSettings::new(memory_bytes) });
    // The version stored last, which eviction may remove.
    let mut expected: HashMap<(u8, u8), usize> = HashMap::new();
    let mut purged = [0; PAGES];
    let mut pending = Vec::new();
    for (version, step) in steps.iter().enumerate() {
        match *step {
            Step::Store { page, variant, bytes, seconds, known_length } => {
                let request = format!("GET /{page}");
                let decision = world.look_up(&request, &format!("Foo: {variant}"));
                if let CacheDecision::Forward(mut forward) = decision {
                    let body = body(version, bytes);
                    world.head(&mut forward, 200, &lines(page, seconds), known_length.then_some(body.len() as u64));
                    for piece in body.as_bytes().chunks(7_000) {
                        forward.handle_body(piece, &mut world.wakes);
                    }
                    forward.handle_end(&mut world.wakes);
                    expected.insert((page, variant), version);
                }
            }
            Step::ResponseOptions { page, variant } => {
                if let CacheDecision::Respond(response) =
                    world.look_up(&format!("GET /{page}"), &format!("Foo: {variant}"))
                {
                    let found = Received::new(&response).body;
                    let found: usize = found.split(':').next().unwrap().parse().unwrap();
                    assert_eq!(Some(&found), expected.get(&(page, variant)), "page {page}, variant {variant}");
                }
            }
            Step::Begin { page, bytes } => {
                if let CacheDecision::Forward(mut forward) = world.look_up(&format!("GET /{page}"), "Foo: 9") {
                    let body = body(version, bytes);
                    world.head(&mut forward, 200, &lines(page, 60), Some(body.len() as u64));
                    forward.handle_body(&body.as_bytes()[..body.len() / 2], &mut world.wakes);
                    pending.push((page, version, body, forward));
                }
            }
            Step::Finish => {
                if let Some((page, version, body, mut forward)) = pending.pop() {
                    forward.handle_body(&body.as_bytes()[body.len() / 2..], &mut world.wakes);
                    forward.handle_end(&mut world.wakes);
                    if let CacheDecision::Respond(response) = world.look_up(&format!("GET /{page}"), "Foo: 9") {
                        let found: usize = Received::new(&response).body.split(':').next().unwrap().parse().unwrap();
                        assert!(
                            found >= purged[usize::from(page)],
                            "page {page}: version {found} (now {version}) is older than a purge"
                        );
                    }
                }
            }
            Step::PurgePage(page) => {
                let _ = world.cache.purge(
                    &Purge::Url(format!("http://a.example/{page}")),
                    PurgeMode::Hard,
                    world.now.instant,
                );
                expected.retain(|(known, _), _| *known != page);
                purged[usize::from(page)] = version;
                assert!(!matches!(world.look_up(&format!("GET /{page}"), "Foo: 0"), CacheDecision::Respond(_)));
            }
            Step::PurgeKey(key) => {
                let _ = world.cache.purge(&Purge::Key(format!("k{key}")), PurgeMode::Hard, world.now.instant);
                expected.retain(|(page, _), _| page % 4 != key);
                purged.iter_mut().skip(usize::from(key)).step_by(4).for_each(|purged| *purged = version);
            }
            Step::PurgeAll => {
                let _ = world.cache.purge(&Purge::All, PurgeMode::Hard, world.now.instant);
                expected.clear();
                purged = [version; PAGES];
                assert_eq!(world.cache.statistics().objects, 0);
            }
            Step::Wait(seconds) => world.wait(u64::from(seconds)),
        }
        let statistics = world.cache.statistics();
        assert!(statistics.bytes <= memory_bytes, "{statistics:?}");
    }
    drop(pending);
    let _ = world.cache.purge(&Purge::All, PurgeMode::Hard, world.now.instant);
    let statistics = world.cache.statistics();
    assert_eq!((statistics.objects, statistics.fills), (0, 0));
    assert!(statistics.bytes < 40_000, "only the tables are left: {statistics:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn the_bound_holds_and_what_is_found_is_what_was_stored(
        steps in proptest::collection::vec(step(), 1..150),
        memory_bytes in 70_000_u64..400_000,
    ) {
        run(&steps, memory_bytes);
    }
}

#[test]
fn small_objects_stay_within_memory_limit() {
    const MEMORY_BYTES: u64 = 3 << 20;
    let mut world = World::with(CacheSettings::new(MEMORY_BYTES));
    for page in 0..12_000 {
        world.fetch(&format!("GET /{page}"), "", 200, "Cache-Control: max-age=60", "x");
        assert!(world.cache.statistics().bytes <= MEMORY_BYTES);
    }
    let statistics = world.cache.statistics();
    assert!(statistics.evicted > 0 && statistics.bytes > MEMORY_BYTES * 9 / 10, "{statistics:?}");
}

#[test]
fn new_settings_apply_to_stored_responses() {
    const MEMORY_BYTES: u64 = 3 << 20;
    let mut world = World::with(CacheSettings::new(MEMORY_BYTES));
    (0..12_000).for_each(|page| drop(world.fetch(&format!("GET /{page}"), "", 200, "Cache-Control: max-age=60", "x")));
    let before = world.cache.statistics();
    let smaller = CacheSettings { object_bytes_max: 10, ..CacheSettings::new(MEMORY_BYTES / 2) };
    world.cache = world.cache.with_settings(smaller).unwrap();
    let after = world.cache.statistics();
    assert!(after.bytes <= MEMORY_BYTES / 2 && after.bytes_max == MEMORY_BYTES / 2, "{after:?}");
    assert!(after.objects > 1_000 && after.objects < before.objects, "the rest stays: {after:?}");
    world.fetch("GET /long", "", 200, "Cache-Control: max-age=60", "longer than that");
    assert!(!matches!(world.look_up("GET /long", ""), CacheDecision::Respond(_)));
    assert!(world.cache.with_settings(CacheSettings::new(1)).is_err());
    world.cache = world.cache.with_settings(CacheSettings::new(MEMORY_BYTES)).unwrap();
    (0..12_000).for_each(|page| drop(world.fetch(&format!("GET /x{page}"), "", 200, "Cache-Control: max-age=60", "x")));
    assert!(world.cache.statistics().bytes > MEMORY_BYTES * 9 / 10);
}

#[test]
fn large_objects_do_not_empty_the_store() {
    let mut world = World::with(CacheSettings::new(8 << 20));
    for page in 0..4_000 {
        world.fetch(&format!("GET /{page}"), "", 200, "Cache-Control: max-age=600", &"x".repeat(1_000));
        assert!(world.is_hit(&format!("GET /{page}"), "") || page > 0);
    }
    let before = world.cache.statistics();
    let large = "x".repeat(500_000);
    for page in 0..200 {
        world.fetch(&format!("GET /large/{page}"), "", 200, "Cache-Control: max-age=600", &large);
    }
    let after = world.cache.statistics();
    assert!(after.objects * 2 > before.objects, "{before:?} {after:?}");
}

#[test]
fn fills_per_key_are_bounded() {
    const NOTED: u64 = 256;
    let mut world = World::new();
    let mut posts: Vec<_> = (0..200).map(|_| world.miss("POST /", "Content-Length: 0")).collect();
    let mut parts: Vec<_> = (0..200).map(|_| world.miss("GET /", "Range: bytes=0-1")).collect();
    posts.extend((0..200).map(|_| world.miss("POST /", "Content-Length: 0")));
    assert_eq!(world.cache.statistics().fills, NOTED);
    let other = world.miss("GET /other", "");
    assert_eq!(world.cache.statistics().fills, NOTED + 1);
    let lines = "Cache-Control: max-age=60\nContent-Range: bytes 0-1/9";
    world.respond(parts.pop().unwrap(), 206, lines, "01");
    assert!(!world.is_hit("GET /", "Range: bytes=0-1"), "what is not noted is not stored");
    world.fetch("GET /", "", 200, "Cache-Control: max-age=60", "one");
    assert!(!world.is_hit("GET /", ""));
    world.respond(parts.swap_remove(0), 206, lines, "01");
    assert!(world.is_hit("GET /", "Range: bytes=0-1"));
    world.respond(posts.pop().unwrap(), 204, "", "");
    assert!(!world.is_hit("GET /", "Range: bytes=0-1"), "a change is seen in any case");
    drop((posts, parts, other));
    assert_eq!(world.cache.statistics().fills, 0);
}

#[test]
fn body_of_unknown_length_counts_while_it_grows() {
    let mut world = World::new();
    let mut forward = world.miss("GET /", "");
    world.head(&mut forward, 200, "Cache-Control: max-age=60", None);
    for count in 1..=30 {
        forward.handle_body(&[b'x'; 10_000], &mut world.wakes);
        let statistics = world.cache.statistics();
        assert!(statistics.bytes >= count * 10_000, "{count}: {statistics:?}");
    }
}

#[test]
fn removed_responses_return_the_memory_of_their_groups() {
    let mut world = World::new();
    let purge_all = |world: &World| {
        world.cache.purge(&Purge::All, PurgeMode::Hard, world.now.instant).unwrap();
        world.cache.statistics().bytes
    };
    let fill = |world: &mut World| {
        for object in 0..50 {
            let lines = "Cache-Control: max-age=60\nCache-Groups: \"a\", \"b\", \"c\"";
            world.fetch(&format!("GET /{object}"), "", 200, lines, "x");
        }
    };
    fill(&mut world);
    let empty = purge_all(&world);
    fill(&mut world);
    assert_eq!(purge_all(&world), empty);
}
